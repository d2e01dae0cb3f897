"""Attention whose scores a function of the user changes: `flex_attention`.

The functions get whole grids of indices, which broadcast: (B, 1, 1, 1) for the batch, (1, H, 1, 1) for the head,
(1, 1, L, 1) for the query, (1, 1, 1, S) for the key. So they are written with operators, `torch.where` and indexing, as
PyTorch's are.
All scores are computed; a mask saves no work here.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import flambeau

__all__ = ["AuxOutput", "AuxRequest", "BlockMask", "FlexKernelOptions", "and_masks", "create_block_mask", "create_mask",
           "flex_attention", "noop_mask", "or_masks"]

FlexKernelOptions = dict
_DEFAULT_SPARSE_BLOCK_SIZE = 128


class AuxRequest(NamedTuple):
    """What flex_attention returns besides its result."""

    lse: bool = False
    max_scores: bool = False


class AuxOutput(NamedTuple):
    """What was asked for: the logarithm of the sum of exponentials, and the largest score, of each query."""

    lse: Any = None
    max_scores: Any = None


def noop_mask(batch: Any, head: Any, token_q: Any, token_kv: Any) -> Any:
    """Everything may be seen."""
    return flambeau.ones((), dtype=flambeau.bool)


def _joined(masks: tuple, start: Any, join: Callable) -> Callable:
    if not all(callable(m) for m in masks):
        raise RuntimeError(f"All inputs should be callable mask_mods: {masks}")

    def joined(b: Any, h: Any, q: Any, k: Any) -> Any:
        found = start
        for mask in masks:
            found = join(found, mask(b, h, q, k))
        return found

    return joined


def and_masks(*mask_mods: Callable) -> Callable:
    """What all masks allow."""
    return _joined(mask_mods, True, lambda a, b: b & a)


def or_masks(*mask_mods: Callable) -> Callable:
    """What any mask allows."""
    return _joined(mask_mods, False, lambda a, b: b | a)


def _grids(n: int, heads: int, rows: int, columns: int) -> tuple:
    return (flambeau.arange(n).view(-1, 1, 1, 1), flambeau.arange(heads).view(1, -1, 1, 1),
            flambeau.arange(rows).view(1, 1, -1, 1), flambeau.arange(columns).view(1, 1, 1, -1))


def create_mask(mod_fn: Callable, B: int | None, H: int | None, Q_LEN: int, KV_LEN: int, device: Any = None) -> Any:
    """What mask_mod(b, h, q_idx, kv_idx) allows, or where score_mod(0, b, h, q_idx, kv_idx) is not -inf.

    Returns:
        Tensor of shape (B, H, Q_LEN, KV_LEN), bool.

    >>> create_mask(lambda b, h, q, k: q >= k, None, None, 2, 2).int().tolist()
    [[[[1, 0], [1, 1]]]]
    """
    import inspect

    shape = (B or 1, H or 1, Q_LEN, KV_LEN)
    takes_score = len(inspect.signature(mod_fn).parameters) == 5
    start = (flambeau.zeros(shape),) if takes_score else ()
    found = flambeau.as_tensor(mod_fn(*start, *_grids(*shape)))
    if takes_score:
        found = found != -math.inf
    return found.expand(shape).clone()


class BlockMask:
    """A mask for flex_attention, by its function."""

    def __init__(self, mask_mod: Callable, shape: tuple[int, int, int, int], block_size: tuple[int, int]) -> None:
        self.mask_mod, self.shape, self.BLOCK_SIZE = mask_mod, shape, block_size
        self.seq_lengths = shape[2:]

    def _mask(self) -> Any:
        return create_mask(self.mask_mod, *self.shape)

    def to_dense(self) -> Any:
        """Which blocks have anything to see: int32 (B, H, blocks of queries, blocks of keys)."""
        rows, columns = self.BLOCK_SIZE
        mask = self._mask()
        n, heads, q, k = mask.shape
        mask = flambeau.nn.functional.pad(mask, (0, -k % columns, 0, -q % rows))
        blocks = mask.view(n, heads, mask.shape[2] // rows, rows, mask.shape[3] // columns, columns)
        return blocks.any(-1).any(3).to(flambeau.int32)

    def numel(self) -> int:
        """How many scores there are."""
        return math.prod(self.shape)

    def sparsity(self) -> float:
        """How many percent of the scores lie in blocks without anything to see."""
        seen = int(self.to_dense().sum().item()) * self.BLOCK_SIZE[0] * self.BLOCK_SIZE[1]
        return 100 * (1 - seen / self.numel())

    def to(self, device: Any) -> BlockMask:
        """Itself: there is one device."""
        return self

    def __repr__(self) -> str:
        return f"BlockMask(shape={self.shape}, sparsity={self.sparsity():.2f}%)"


def create_block_mask(mask_mod: Callable, B: int | None, H: int | None, Q_LEN: int, KV_LEN: int, device: Any = None,
                      BLOCK_SIZE: int | tuple[int, int] = _DEFAULT_SPARSE_BLOCK_SIZE, _compile: bool = False,
                      separate_full_blocks: bool = True, compute_dq_write_order: bool = False,
                      dq_kv_order: bool = True) -> BlockMask:
    """The mask of mask_mod(b, h, q_idx, kv_idx) -> bool; B or H None: the same for all of them."""
    size = (BLOCK_SIZE, BLOCK_SIZE) if isinstance(BLOCK_SIZE, int) else tuple(BLOCK_SIZE)
    return BlockMask(mask_mod, (B or 1, H or 1, Q_LEN, KV_LEN), size)  # type: ignore[arg-type]


def flex_attention(query: Any, key: Any, value: Any, score_mod: Callable | None = None, block_mask: BlockMask | None = None,
                   scale: float | None = None, enable_gqa: bool = False, return_lse: bool = False,
                   kernel_options: dict | None = None, *, return_aux: AuxRequest | None = None) -> Any:
    """softmax(score_mod(query @ key^T * scale)) @ value, over the keys that block_mask shows.

    Args:
        query: (B, H, L, E); key: (B, G, S, E); value: (B, G, S, Ev), where G is H, or divides it with enable_gqa.
        score_mod: f(score, b, h, q_idx, kv_idx) -> score; see the module.
        block_mask: of create_block_mask; None shows all.
        scale: by default 1 / sqrt(E).
        return_lse: also the logarithm of the sum of exponentials (B, H, L). return_aux asks for it, and for the largest
            scores, by AuxRequest.
        kernel_options: accepted, and not used.

    Returns:
        (B, H, L, Ev); 0 for a query that sees no key.

    Raises:
        ValueError: shapes that do not fit. NotImplementedError: another number of dimensions than 4.

    Source: Dong et al., 2024, arXiv:2412.05496.

    >>> q = flambeau.ones(1, 1, 3, 2)
    >>> v = flambeau.arange(3.0).view(1, 1, 3, 1)
    >>> causal = create_block_mask(lambda b, h, i, j: i >= j, None, None, 3, 3)
    >>> flex_attention(q, q, v, block_mask=causal).flatten().tolist()
    [0.0, 0.5, 1.0]
    """
    for name, t in (("query", query), ("key", key), ("value", value)):
        if t.dim() != 4:
            raise NotImplementedError(f"flex_attention: {name} must be a 4D tensor (B, H, L, E), and has shape "
                                      f"{tuple(t.shape)}")
    heads, groups = query.shape[1], key.shape[1]
    if heads != groups:
        if not enable_gqa or heads % groups:
            raise ValueError(f"flex_attention: query has {heads} heads and key {groups}. Expect query and key/value to have "
                             "the same number of heads, or enable_gqa=True and a divisor.")
        key, value = (t.repeat_interleave(heads // groups, 1) for t in (key, value))
    n, rows, columns = query.shape[0], query.shape[2], key.shape[2]
    grids = _grids(n, heads, rows, columns)
    scores = query @ key.transpose(-2, -1) * (query.shape[-1] ** -0.5 if scale is None else scale)
    if score_mod is not None:
        scores = score_mod(scores, *grids)
    if block_mask is not None:
        if (rows, columns) != tuple(block_mask.shape[2:]):
            raise ValueError(f"flex_attention: block_mask was created for block_mask.shape={tuple(block_mask.shape)} but "
                             f"got q_len={rows} and kv_len={columns}. Create one for these lengths.")
        scores = scores.masked_fill(~flambeau.as_tensor(block_mask.mask_mod(*grids)), -math.inf)
    lse = scores.logsumexp(-1)
    blind = (lse == -math.inf).unsqueeze(-1)
    out = scores.masked_fill(blind, 0).softmax(-1).masked_fill(blind, 0) @ value
    if return_aux is not None:
        return out, AuxOutput(lse if return_aux.lse else None, scores.amax(-1) if return_aux.max_scores else None)
    return (out, lse) if return_lse else out
