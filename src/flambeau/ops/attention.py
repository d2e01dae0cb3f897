"""Scaled dot-product attention, and the forward of multi-head attention.

Composed of matrix products and softmax. Under a mask the softmax is one that gives zeros, instead of nan, to a query
that may attend to nothing, and so finite gradients everywhere.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from flambeau.core.apply import apply1
from flambeau.core.objects import dtype_of, shape_of
from flambeau.kernels import softmax as kernel
from flambeau.kernels.services import is_float

from ._args import tensor
from ._lazy import placed
from ._record import KERNEL, call, primitive, public
from ._shapes import like
from .addmm import linear
from .dropout import dropout
from .joining import cat


def _safe_softmax(x: np.ndarray, dim: int) -> np.ndarray:
    """Softmax along dim with zeros where a row is all -inf."""
    out = kernel.softmax(x, dim)
    nothing = np.isneginf(np.maximum.reduce(x, dim, None, None, True, -np.inf)) if x.size else np.zeros((), bool)
    return np.where(nothing, x.dtype.type(0), out) if nothing.any() else out


SAFE_SOFTMAX = primitive("safe_softmax", _safe_softmax, params=("dim",), meta=like(), expr=KERNEL,
                         self=lambda xp, g, out, dim: xp.softmax_backward(g, out, dim))

_WORD = {"float16": "c10::Half", "bfloat16": "c10::BFloat16", "float32": "float", "float64": "double"}


def _check(query: Any, key: Any, value: Any, attn_mask: Any) -> None:
    for i, (t, name) in enumerate(((query, "query"), (key, "key"), (value, "value"))):
        tensor(t, "scaled_dot_product_attention", name, i + 1)
    names = [dtype_of(t).name for t in (query, key, value)]
    if len(set(names)) != 1:
        raise RuntimeError(f"Expected query, key, and value to have the same dtype: query is {names[0]}, key is "
                           f"{names[1]}, value is {names[2]}. Convert them with .to(query.dtype).")
    dims = [len(shape_of(t)) for t in (query, key, value)]
    if min(dims) < 2:
        raise RuntimeError("Expected query, key, and value to all be at least 2 dimensional, (..., length, features): "
                           f"query has {dims[0]} dimensions, key {dims[1]}, value {dims[2]}.")
    if shape_of(query)[-1] != shape_of(key)[-1]:
        raise RuntimeError(f"scaled_dot_product_attention: query and key must have vectors of one size, got "
                           f"{list(shape_of(query))} and {list(shape_of(key))}")
    if shape_of(key)[-2] != shape_of(value)[-2]:
        raise RuntimeError("scaled_dot_product_attention: key and value must be equally long, got "
                           f"{list(shape_of(key))} and {list(shape_of(value))}")
    if attn_mask is not None:
        d = dtype_of(tensor(attn_mask, "scaled_dot_product_attention", "attn_mask", 4))
        if d.kind != "b" and d.name != "float32" and d.name != names[0]:
            raise RuntimeError("Expected attn_mask dtype to be bool, or that of the query, to be added to the "
                               f"scores: the mask is {d.name} and the query is {names[0]}. Use mask.bool(), where "
                               "True means: may attend.")


def _samples(t: Any) -> list:
    mask = t(values=[[True, True, False], [False, False, False], [True, False, True]], dtype="bool", grad=False)
    q, k, v = (lambda *s: t(*s)), (lambda *s: t(*s)), (lambda *s: t(*s))
    return [call(q(2, 3, 4), k(2, 5, 4), v(2, 5, 6)), call(q(1, 2, 3, 4), k(1, 2, 3, 4), v(1, 2, 3, 4), mask),
            call(q(2, 3, 4), k(2, 3, 4), v(2, 3, 4), is_causal=True),
            call(q(2, 3, 4), k(2, 3, 4), v(2, 3, 4), t(3, 3), scale=0.3),
            call(q(1, 4, 3, 2), k(1, 2, 3, 2), v(1, 2, 3, 2), enable_gqa=True)]


@public(namespaces=("nn.functional",), method=False, out=False, samples=_samples, errors=lambda t: [
    (call(t(2, 3, 4), t(2, 3, 4, dtype="float64"), t(2, 3, 4)), RuntimeError, "to have the same dtype"),
    (call(t(4), t(2, 3, 4), t(2, 3, 4)), RuntimeError, "at least 2 dimensional"),
    (call(t(2, 3, 4), t(2, 3, 4), t(2, 3, 4), t(3, 3, dtype="int64")), RuntimeError, "Expected attn_mask dtype")])
def scaled_dot_product_attention(query: Any, key: Any, value: Any, attn_mask: Any = None, dropout_p: float = 0.0,
                                 is_causal: bool = False, scale: float | None = None, enable_gqa: bool = False) -> Any:
    """softmax(query key^T * scale + mask) value.

    Args:
        query: (*, L, E). key: (*, S, E). value: (*, S, Ev), with leading dimensions that broadcast.
        attn_mask: broadcasts to (*, L, S). bool: True where the query may attend; floating: added to the scores.
        dropout_p: of the attention weights, applied whenever it is positive: pass 0 in evaluation.
        is_causal: query i attends to keys 0 to i.
        scale: 1 / sqrt(E) by default.
        enable_gqa: key and value have fewer heads (dimension -3) than query, each serving several.

    Returns:
        Tensor (*, L, Ev). A query that may attend to nothing gives zeros.

    Raises:
        RuntimeError: dtypes or shapes that do not fit.

    Source: Vaswani et al., arXiv:1706.03762, section 3.2.1.

    >>> x = flambeau.ones(1, 1, 2)
    >>> flambeau.nn.functional.scaled_dot_product_attention(x, x, x).tolist()
    [[[1.0, 1.0]]]
    """
    _check(query, key, value, attn_mask)
    if not 0 <= dropout_p <= 1:
        raise RuntimeError(f"dropout probability has to be between 0 and 1, but got {dropout_p}")
    shape, own = shape_of(query), dtype_of(query)
    if enable_gqa:
        key, value = _repeated(key, shape), _repeated(value, shape)
    scores = (query * (1 / math.sqrt(shape[-1] or 1) if scale is None else scale)) @ key.transpose(-2, -1)
    masked = attn_mask is not None
    if is_causal:
        n, m = shape_of(scores)[-2:]
        scores = scores.masked_fill(placed(scores, (n, m), np.dtype("?"), lambda: ~np.tri(n, m, dtype=bool)), -math.inf)
    if masked:
        if dtype_of(attn_mask).kind == "b":
            scores = scores.masked_fill(attn_mask.logical_not(), -math.inf)
        else:
            scores = scores + (attn_mask if dtype_of(attn_mask) is own else attn_mask.to(query.dtype))
    weights = apply1(SAFE_SOFTMAX, scores, (-1,)) if masked else scores.softmax(-1)
    if dropout_p > 0:
        weights = dropout(weights, dropout_p)
    return weights @ value


def _repeated(t: Any, shape: tuple) -> Any:
    heads = shape_of(t)[-3]
    if shape[-3] % heads:
        raise RuntimeError(f"scaled_dot_product_attention: enable_gqa needs query's heads ({shape[-3]}) to be a "
                           f"multiple of key's and value's ({heads})")
    return t.repeat_interleave(shape[-3] // heads, -3)


# --------------------------------------------------------------------------------- multi-head attention


def _additive(mask: Any, name: str, dtype: Any) -> Any:
    """A mask to be added to the scores; True in a bool mask means: may not attend."""
    if mask is None:
        return None
    d = dtype_of(mask)
    if d.kind != "b" and not is_float(d):
        raise AssertionError(f"only bool and floating types of {name} are supported, got {d.name}")
    if d.kind != "b":
        return mask
    shape = tuple(shape_of(mask))
    return placed(mask, shape, dtype, lambda: np.zeros(shape, dtype)).masked_fill(mask, -math.inf)


def _expect(condition: bool, text: str) -> None:
    if not condition:
        raise AssertionError(text)


def _mha_samples(t: Any) -> list:
    def weights(e: int = 4) -> tuple:
        return (e, 2, t(3 * e, e), t(3 * e), None, None, False, 0.0, t(e, e), t(e))

    return [call(t(3, 2, 4), t(5, 2, 4), t(5, 2, 4), *weights()),
            call(t(3, 4), t(3, 4), t(3, 4), *weights(), need_weights=False)]


@public(namespaces=("nn.functional",), method=False, out=False, samples=_mha_samples)
def multi_head_attention_forward(
    query: Any, key: Any, value: Any, embed_dim_to_check: int, num_heads: int, in_proj_weight: Any, in_proj_bias: Any,
    bias_k: Any, bias_v: Any, add_zero_attn: bool, dropout_p: float, out_proj_weight: Any, out_proj_bias: Any,
    training: bool = True, key_padding_mask: Any = None, need_weights: bool = True, attn_mask: Any = None,
    use_separate_proj_weight: bool = False, q_proj_weight: Any = None, k_proj_weight: Any = None, v_proj_weight: Any = None,
    static_k: Any = None, static_v: Any = None, average_attn_weights: bool = True, is_causal: bool = False,
) -> tuple[Any, Any]:
    """Attention in several heads of projected queries, keys and values, projected again: nn.MultiheadAttention's work.

    Args:
        query: (L, N, E) or (L, E). key, value: (S, N, E) or (S, E).
        in_proj_weight, in_proj_bias: of the three projections stacked, (3 E, E) and (3 E,); with use_separate_proj_weight
            the weights are q_proj_weight, k_proj_weight and v_proj_weight.
        bias_k, bias_v: one more key and value, (1, 1, E). add_zero_attn: one more of zeros.
        key_padding_mask: (N, S), True (or -inf) where a key is padding. attn_mask: (L, S) or (N * heads, L, S), True (or
            -inf) where a query may not attend.
        need_weights: give the attention weights too, averaged over heads with average_attn_weights.
        static_k, static_v: keys and values that are projected already, (N * heads, S, E / heads).
        is_causal: a hint that attn_mask, which must be given, is the causal one.

    Returns:
        (output like query, weights (N, L, S) or None).
    """
    dims = len(shape_of(tensor(query, "multi_head_attention_forward", "query")))
    _expect(dims in (2, 3), "query should be unbatched 2D, (length, features), or batched 3D; the query given has "
                            f"{dims} dimensions")
    _expect(len(shape_of(key)) == dims and len(shape_of(value)) == dims,
            f"For {dims}-D `query`, expected `key` and `value` to be {dims}-D but found {len(shape_of(key))}-D and "
            f"{len(shape_of(value))}-D tensors respectively")
    if is_causal and attn_mask is None:
        raise RuntimeError("Need attn_mask if specifying the is_causal hint.")
    if dims == 2:
        query, key, value = query.unsqueeze(1), key.unsqueeze(1), value.unsqueeze(1)
        key_padding_mask = None if key_padding_mask is None else key_padding_mask.unsqueeze(0)
    length, n, width = shape_of(query)
    _expect(width == embed_dim_to_check, f"was expecting embedding dimension of {embed_dim_to_check}, but got {width}")
    _expect(width % num_heads == 0, f"embed_dim {width} not divisible by num_heads {num_heads}")
    if not use_separate_proj_weight:
        _expect(shape_of(key) == shape_of(value), f"key shape {shape_of(key)} does not match value shape "
                                                  f"{shape_of(value)}")
    head = width // num_heads
    own = dtype_of(query)
    key_padding_mask = _additive(key_padding_mask, "key_padding_mask", own)
    attn_mask = _additive(attn_mask, "attn_mask", own)
    weights = ((q_proj_weight, k_proj_weight, v_proj_weight) if use_separate_proj_weight else in_proj_weight.chunk(3))
    biases = (None, None, None) if in_proj_bias is None else in_proj_bias.chunk(3)
    if query is key and key is value and not use_separate_proj_weight:
        q, k, v = linear(query, in_proj_weight, in_proj_bias).chunk(3, -1)      # one product for all three
    else:
        q, k, v = (linear(t, w, b) for t, w, b in zip((query, key, value), weights, biases, strict=True))
    _expect((bias_k is None) == (bias_v is None), "bias_k and bias_v must be given together")
    extra = 0
    if bias_k is not None:
        _expect(static_k is None and static_v is None, "bias cannot be added to static key or value.")
        k, v = _cat(k, bias_k.repeat(1, n, 1), 0), _cat(v, bias_v.repeat(1, n, 1), 0)
        extra += 1
    q = q.reshape(length, n * num_heads, head).transpose(0, 1)
    k = static_k if static_k is not None else k.reshape(shape_of(k)[0], n * num_heads, head).transpose(0, 1)
    v = static_v if static_v is not None else v.reshape(shape_of(v)[0], n * num_heads, head).transpose(0, 1)
    if add_zero_attn:
        shape = (n * num_heads, 1, head)
        zeros = placed(k, shape, own, lambda: np.zeros(shape, own))
        k, v = _cat(k, zeros, 1), _cat(v, zeros, 1)
        extra += 1
    span = shape_of(k)[1]
    mask = _merged(attn_mask, key_padding_mask, length, span, extra, n, num_heads)
    return _attend(q, k, v, mask, dropout_p if training else 0.0, need_weights, average_attn_weights, out_proj_weight,
                   out_proj_bias, (length, n, width, num_heads, head, span), dims == 2)


def _cat(a: Any, b: Any, dim: int) -> Any:
    return cat([a, b], dim)


def _merged(attn_mask: Any, padding: Any, length: int, span: int, extra: int, n: int, heads: int) -> Any:
    """Both masks as one, of shape (N, heads or 1, L or 1, S)."""
    mask = None
    if attn_mask is not None:
        shape = shape_of(attn_mask)
        if len(shape) not in (2, 3):
            raise RuntimeError(f"attn_mask's dimension {len(shape)} is not supported")
        expected = (length, span - extra) if len(shape) == 2 else (n * heads, length, span - extra)
        if shape != expected:
            raise RuntimeError(f"The shape of the {len(shape)}D attn_mask is {shape}, but should be {expected}.")
        mask = _open(attn_mask, extra).reshape(*((1, 1) if len(shape) == 2 else (n, heads)), length, span)
    if padding is not None:
        _expect(shape_of(padding) == (n, span - extra),
                f"key_padding_mask should be of shape {(n, span - extra)}, got {shape_of(padding)}")
        padding = _open(padding, extra).reshape(n, 1, 1, span)
        mask = padding if mask is None else mask + padding
    return mask


def _open(mask: Any, extra: int) -> Any:
    shape, d = (*shape_of(mask)[:-1], extra), dtype_of(mask)
    return mask if not extra else _cat(mask, placed(mask, shape, d, lambda: np.zeros(shape, d)), -1)


def _attend(q: Any, k: Any, v: Any, mask: Any, dropout_p: float, need_weights: bool, average: bool, out_weight: Any,
            out_bias: Any, sizes: tuple, single: bool) -> tuple[Any, Any]:
    length, n, width, heads, head, span = sizes
    weights = None
    if need_weights:
        scores = (q * math.sqrt(1.0 / head)) @ k.transpose(-2, -1)
        if mask is not None:
            scores = (scores.reshape(n, heads, length, span) + mask).reshape(n * heads, length, span)
        weights = scores.softmax(-1) if mask is None else apply1(SAFE_SOFTMAX, scores, (-1,))
        if dropout_p > 0:
            weights = dropout(weights, dropout_p)
        out = (weights @ v).transpose(0, 1)
        weights = weights.reshape(n, heads, length, span)
        weights = weights.mean(1) if average else weights
        weights = weights.squeeze(0) if single else weights
    else:
        out = scaled_dot_product_attention(q.reshape(n, heads, length, head), k.reshape(n, heads, span, head),
                                           v.reshape(n, heads, span, head), mask, dropout_p)
        out = out.permute(2, 0, 1, 3)
    out = linear(out.reshape(length * n, width), out_weight, out_bias).reshape(length, n, -1)
    return (out.squeeze(1) if single else out), weights
