"""Limiting gradients: their joint norm, or each element."""

from __future__ import annotations

import types
from collections.abc import Iterable
from typing import Any

import numpy as np

from flambeau.autograd import no_grad
from flambeau.core.inplace import wrote
from flambeau.core.objects import TensorBase, array_of, make
from flambeau.core.op import slot
from flambeau.core.origin import warn_user
from flambeau.core.state import state

_MUL = slot("mul")
_CLAMP = slot("clamp")


def _as_list(tensors: Any, function: str) -> list:
    if isinstance(tensors, TensorBase):
        return [tensors]
    is_generator = isinstance(tensors, types.GeneratorType)
    found = list(tensors)
    if is_generator and not found:
        warn_user(f"{function}: `parameters` is an empty generator: it was used up before, so no "
                  "gradient clipping will occur. Call model.parameters() anew, or keep "
                  "list(model.parameters()).")
    return found


def _norm(a: np.ndarray, p: float) -> Any:
    """The p-norm of all elements, in a's precision (half precisions are summed in float32)."""
    kind = a.dtype
    if kind.kind not in "fc" or kind.itemsize < 4:
        a = a.astype(np.float32)
    if p == float("inf"):
        value = np.abs(a).max() if a.size else 0.0
    elif p == float("-inf"):
        value = np.abs(a).min()
    elif p == 0:
        value = np.count_nonzero(a)
    elif p == 2 and a.dtype.kind != "c":
        flat = a.ravel(order="K")
        value = np.sqrt(np.dot(flat, flat))
    elif p == 1:
        value = np.abs(a).sum()
    else:
        value = (np.abs(a) ** p).sum() ** (1.0 / p)
    real = np.zeros(0, a.dtype).real.dtype if a.dtype.kind == "c" else a.dtype
    result = np.asarray(value, real)
    return result if kind.kind not in "f" or kind == real else result.astype(kind)


def _total(arrays: list[np.ndarray], p: float) -> np.ndarray:
    if not arrays:
        return np.zeros((), np.float32)
    with np.errstate(all="ignore"):
        norms = [_norm(a, p) for a in arrays]
        if len(norms) == 1:
            return norms[0]
        return _norm(np.array(norms, np.result_type(*norms)), p)


def _on_meta(tensors: list) -> bool:
    return any(t._array is None and t.is_meta for t in tensors)


def _unknown(tensors: list, error_if_nonfinite: bool) -> Any:
    """The norm of tensors without values."""
    with no_grad():
        total = state.ops.vector_norm(tensors[0], 2.0, None, False)
    if error_if_nonfinite:
        bool(total)             # raises: it is not known
    return total


def _which(tensors: list, what: str) -> str:
    """The tensors that are not finite, by position, for a message."""
    bad = []
    for i, t in enumerate(tensors):
        if t is None:
            continue
        a = array_of(t)
        with np.errstate(all="ignore"):
            if not np.isfinite(a).all():
                kind = "NaN" if np.isnan(a).any() else "infinite"
                bad.append(f"{what} {i} (shape {list(a.shape)}: {kind})")
    if not bad:
        return "each gradient is finite, but the sum overflows"
    more = f" and {len(bad) - 5} more" if len(bad) > 5 else ""
    order = f", counted from 0 in the order in which the {what}s were given"
    return "not finite: " + ", ".join(bad[:5]) + more + order


def _refuse(norm_type: float, tensors: list, what: str) -> None:
    raise RuntimeError(
        f"The total norm of order {norm_type} for gradients from `parameters` is non-finite, so it cannot be "
        f"clipped; {_which(tensors, what)}. Look for the loss or layer that produced it "
        "(torch.autograd.set_detect_anomaly(True) names the operator), or set error_if_nonfinite=False to "
        "scale by the non-finite norm anyway.")


def get_total_norm(tensors: Any, norm_type: float = 2.0, error_if_nonfinite: bool = False,
                   foreach: bool | None = None) -> Any:
    """The norm of the vector of all elements of all tensors.

    Args:
        tensors: one tensor or several, usually gradients.
        norm_type: the order, also inf.
        error_if_nonfinite: raise when the result is NaN or infinite, instead of returning it.
        foreach: accepted for PyTorch's sake; there is one implementation.

    Returns:
        A 0-d tensor.
    """
    found = _as_list(tensors, "get_total_norm")
    norm_type = float(norm_type)
    if _on_meta(found):
        return _unknown(found, error_if_nonfinite)
    total = _total([array_of(t) for t in found], norm_type)
    if error_if_nonfinite and not np.isfinite(total):
        _refuse(norm_type, found, "tensor")
    return make(total)


def _scale(grads: list, max_norm: float, total: np.ndarray) -> None:
    with np.errstate(all="ignore"):
        factor = np.minimum(max_norm / (total + total.dtype.type(1e-6)), total.dtype.type(1))
        for g in grads:
            a = array_of(g)
            np.multiply(a, factor.astype(a.dtype), out=a)
            wrote(_MUL, g, None)


def clip_grads_with_norm_(parameters: Any, max_norm: float, total_norm: Any,
                          foreach: bool | None = None) -> None:
    """Multiply the gradients by max_norm / total_norm where that is below 1.

    Args:
        total_norm: what `get_total_norm` gave.
        foreach: accepted for PyTorch's sake.
    """
    grads = [p.grad for p in _as_list(parameters, "clip_grads_with_norm_") if p.grad is not None]
    if _on_meta(grads):
        for g in grads:
            wrote(_MUL, g, None)
        return
    total = array_of(total_norm) if isinstance(total_norm, TensorBase) else np.asarray(total_norm, np.float32)
    if grads:
        _scale(grads, float(max_norm), total)


def clip_grad_norm_(parameters: Any, max_norm: float, norm_type: float = 2.0,
                    error_if_nonfinite: bool = False, foreach: bool | None = None) -> Any:
    """Scale the gradients, in place, so that their joint norm is at most max_norm.

    Args:
        parameters: one tensor or several; those without a gradient are skipped.
        norm_type: the order, also inf.
        error_if_nonfinite: raise when the norm is NaN or infinite, before anything is changed. By default
            such a norm is returned, the gradients are scaled by it all the same, as in PyTorch, and a warning
            says which parameter is to blame.
        foreach: accepted for PyTorch's sake.

    Returns:
        The norm before, a 0-d tensor.
    """
    found = _as_list(parameters, "clip_grad_norm_")
    norm_type = float(norm_type)
    grads = [p.grad for p in found]
    given = [g for g in grads if g is not None]
    if _on_meta(given):
        for g in given:
            wrote(_MUL, g, None)
        return _unknown(given, error_if_nonfinite)
    total = _total([array_of(g) for g in given], norm_type)
    if not given:
        return make(total)
    if not np.isfinite(total):
        if error_if_nonfinite:
            _refuse(norm_type, grads, "parameter")
        warn_user(f"clip_grad_norm_: the total norm is non-finite ({total!s}), and all gradients are "
                  f"scaled by it; {_which(grads, 'parameter')}. Pass error_if_nonfinite=True to stop "
                  "here instead.")
    _scale(given, float(max_norm), total)
    return make(total)


def clip_grad_norm(parameters: Any, max_norm: float, norm_type: float = 2.0, error_if_nonfinite: bool = False,
                   foreach: bool | None = None) -> Any:
    """The old name of `clip_grad_norm_`."""
    warn_user("torch.nn.utils.clip_grad_norm is now deprecated in favor of "
              "torch.nn.utils.clip_grad_norm_.", FutureWarning)
    return clip_grad_norm_(parameters, max_norm, norm_type, error_if_nonfinite, foreach)


def clip_grad_value_(parameters: Iterable[Any] | Any, clip_value: float, foreach: bool | None = None) -> None:
    """Cut each element of the gradients, in place, to [-clip_value, clip_value].

    Args:
        foreach: accepted for PyTorch's sake.
    """
    limit = float(clip_value)
    for p in _as_list(parameters, "clip_grad_value_"):
        if p.grad is not None and not _on_meta([p.grad]):
            a = array_of(p.grad)
            with np.errstate(all="ignore"):
                np.clip(a, a.dtype.type(-limit), a.dtype.type(limit), out=a)
            wrote(_CLAMP, p.grad, None)
