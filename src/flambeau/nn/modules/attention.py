"""Attention in several heads."""

from __future__ import annotations

from typing import Any

import flambeau
from flambeau.nn import functional as F
from flambeau.nn import init
from flambeau.nn.parameter import Parameter

from .linear import NonDynamicallyQuantizableLinear
from .module import Module


class MultiheadAttention(Module):
    """Queries attend to keys and gather values, in several heads of projected vectors.

    Args:
        embed_dim: E, size of queries and of the result, a multiple of num_heads.
        num_heads: how many heads, each of size E / num_heads.
        dropout: probability, on the attention weights, in training.
        bias: whether the projections have one.
        add_bias_kv: one more key and value, learned. add_zero_attn: one more, of zeros.
        kdim, vdim: sizes of keys and values; E by default.
        batch_first: (N, L, E) instead of (L, N, E).

    Initial values: projections by Xavier's uniform rule, biases zero. A query that may attend to nothing gets
    attention weights of zero (nan in PyTorch).

    Source: Vaswani et al., 2017, arXiv:1706.03762, section 3.2.2.

    >>> attention = flambeau.nn.MultiheadAttention(4, 2, batch_first=True)
    >>> x = flambeau.ones(1, 3, 4)
    >>> output, weights = attention(x, x, x)
    >>> output.shape, weights.shape
    (torch.Size([1, 3, 4]), torch.Size([1, 3, 3]))
    """

    __module__ = "flambeau.nn.modules.activation"       # where PyTorch has it, and pickles look for it
    __constants__ = ["batch_first"]
    bias_k: Any
    bias_v: Any

    def __init__(self, embed_dim: int, num_heads: int, dropout: float = 0.0, bias: bool = True, add_bias_kv: bool = False,
                 add_zero_attn: bool = False, kdim: int | None = None, vdim: int | None = None, batch_first: bool = False,
                 device: Any = None, dtype: Any = None) -> None:
        if embed_dim <= 0 or num_heads <= 0:
            raise ValueError(f"embed_dim and num_heads must be greater than 0, not {embed_dim} and "
                             f"{num_heads}")
        super().__init__()
        self.embed_dim = embed_dim
        self.kdim = embed_dim if kdim is None else kdim
        self.vdim = embed_dim if vdim is None else vdim
        self._qkv_same_embed_dim = self.kdim == embed_dim and self.vdim == embed_dim
        self.num_heads = num_heads
        self.dropout = dropout
        self.batch_first = batch_first
        self.head_dim = embed_dim // num_heads
        if self.head_dim * num_heads != embed_dim:
            raise AssertionError(f"embed_dim must be divisible by num_heads, got {embed_dim} and {num_heads}")

        def parameter(*shape: int) -> Parameter:
            return Parameter(flambeau.empty(shape, device=device, dtype=dtype))

        if self._qkv_same_embed_dim:
            self.in_proj_weight = parameter(3 * embed_dim, embed_dim)
            for name in ("q_proj_weight", "k_proj_weight", "v_proj_weight"):
                self.register_parameter(name, None)
        else:
            self.q_proj_weight = parameter(embed_dim, embed_dim)
            self.k_proj_weight = parameter(embed_dim, self.kdim)
            self.v_proj_weight = parameter(embed_dim, self.vdim)
            self.register_parameter("in_proj_weight", None)
        if bias:
            self.in_proj_bias = parameter(3 * embed_dim)
        else:
            self.register_parameter("in_proj_bias", None)
        self.out_proj = NonDynamicallyQuantizableLinear(embed_dim, embed_dim, bias=bias, device=device, dtype=dtype)
        if add_bias_kv:
            self.bias_k, self.bias_v = parameter(1, 1, embed_dim), parameter(1, 1, embed_dim)
        else:
            self.bias_k = self.bias_v = None
        self.add_zero_attn = add_zero_attn
        self._reset_parameters()

    def _reset_parameters(self) -> None:
        if self._qkv_same_embed_dim:
            init.xavier_uniform_(self.in_proj_weight)
        else:
            for weight in (self.q_proj_weight, self.k_proj_weight, self.v_proj_weight):
                init.xavier_uniform_(weight)
        if self.in_proj_bias is not None:
            init.constant_(self.in_proj_bias, 0.0)
            init.constant_(self.out_proj.bias, 0.0)
        for extra in (self.bias_k, self.bias_v):
            if extra is not None:
                init.xavier_normal_(extra)

    def __setstate__(self, state: dict) -> None:
        state.setdefault("_qkv_same_embed_dim", True)
        super().__setstate__(state)

    def forward(self, query: Any, key: Any, value: Any, key_padding_mask: Any = None, need_weights: bool = True,
                attn_mask: Any = None, average_attn_weights: bool = True,
                is_causal: bool = False) -> tuple[Any, Any]:
        """The gathered values (like query), and the attention weights or None.

        Args:
            query: (L, N, E), (N, L, E) with batch_first, or (L, E). key, value: the same with S for L and kdim,
                vdim for E.
            key_padding_mask: (N, S) or (S,), True where a key is padding; floating: added to the scores.
            need_weights: whether the weights are wanted, (N, L, S) averaged over heads, or (N, heads, L, S) without
                average_attn_weights.
            attn_mask: (L, S) or (N * heads, L, S), True where a query may not attend; floating: added to the scores.
            is_causal: a hint that attn_mask is the causal one; it must be given.
        """
        swap = self.batch_first and query.dim() == 3
        if swap:
            # one transpose of each, so that what was one tensor stays one: F then projects it once
            turned = {id(t): t.transpose(0, 1) for t in (query, key, value)}
            query, key, value = turned[id(query)], turned[id(key)], turned[id(value)]
        separate = {} if self._qkv_same_embed_dim else {
            "use_separate_proj_weight": True, "q_proj_weight": self.q_proj_weight, "k_proj_weight": self.k_proj_weight,
            "v_proj_weight": self.v_proj_weight}
        out, weights = F.multi_head_attention_forward(
            query, key, value, self.embed_dim, self.num_heads, self.in_proj_weight, self.in_proj_bias, self.bias_k,
            self.bias_v, self.add_zero_attn, self.dropout, self.out_proj.weight, self.out_proj.bias,
            training=self.training, key_padding_mask=key_padding_mask, need_weights=need_weights, attn_mask=attn_mask,
            average_attn_weights=average_attn_weights, is_causal=is_causal, **separate)
        return out.transpose(0, 1) if swap else out, weights
