"""Normalisations: batch, layer, group, instance and RMS, and their backward kernels.

Each forward returns its statistics (mean and inverse standard deviation) for the backward, which recomputes
the normalised input from them. Variances are two-pass: the sum of squares of centred values, which neither
cancels nor goes negative. float16 and bfloat16 are computed in float32, and so are their statistics.

All backwards rest on one map. With xhat = (x - mean) * invstd over the m elements that share statistics and
h = g * weight, the gradient of x is

    T(h, xhat) = invstd * (h - mean(h) - xhat * mean(h * xhat)).

T is linear in h and self-adjoint: the gradient of a backward in g, given G, is the same backward applied to G
(times weight). Its gradient in x is built from T, means and pointwise operators, by
d T / d xhat = -invstd * (G * mean(h * xhat) + h * mean(G * xhat)), d T / d invstd = T / invstd, then xhat's own
backward, which is T again with weight one, and d invstd / d x = -invstd^2 * xhat / m.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

import numpy as np

from flambeau.kernels.casting import widen
from flambeau.kernels.layout import is_contiguous
from flambeau.kernels.sums import channel_dot, channel_sum, column_sum, row_dot, row_sum, scalar, square_of_ones

__all__ = [
    "batch_norm",
    "batch_norm_backward",
    "batch_norm_eval",
    "batch_norm_eval_backward",
    "batch_norm_update",
    "group_norm",
    "group_norm_backward",
    "instance_norm",
    "instance_norm_backward",
    "layer_norm",
    "layer_norm_backward",
    "rms_norm",
    "rms_norm_backward",
]

Optional = np.ndarray | None


def _as(array: Optional, dtype: np.dtype, *shape: int) -> Optional:
    """A parameter in the computing dtype and a shape that broadcasts; None stays None."""
    if array is None or array.dtype is dtype and array.shape == shape:
        return array
    return array.astype(dtype, copy=False).reshape(shape)


# Rows that share statistics: layer, group, instance and RMS norms


def _normalise_rows(x: np.ndarray, eps: float) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """x (R, D) to (xhat (R, D), mean (R, 1), invstd (R, 1))."""
    n, d = x.shape[1], x.dtype
    count, step, one = scalar(max(n, 1), d), np.asarray(eps, d), scalar(1, d)
    if 0 < x.size <= 1024 and n <= 32:
        return _normalise_few(x, square_of_ones(n, d), count, step, one)
    mean = row_sum(x)
    mean /= count
    xhat = x - mean
    invstd = row_dot(xhat, xhat)
    invstd /= count
    invstd += step
    np.sqrt(invstd, out=invstd)
    np.divide(one, invstd, out=invstd)
    xhat *= invstd
    return xhat, mean, invstd


def _normalise_few(x: np.ndarray, ones: np.ndarray, count: np.ndarray, eps: np.ndarray,
                   one: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """`_normalise_rows` with each row's statistics in all its places: small arrays meet others of their shape fastest."""
    mean = x.dot(ones)
    mean /= count
    xhat = x - mean
    invstd = np.multiply(xhat, xhat).dot(ones)
    invstd /= count
    invstd += eps
    np.sqrt(invstd, invstd)
    np.divide(one, invstd, invstd)
    xhat *= invstd
    return xhat, mean[:, :1], invstd[:, :1]


def _rows_backward(h: np.ndarray, xhat: np.ndarray, invstd: np.ndarray, out: Optional = None) -> np.ndarray:
    """T(h, xhat) over rows (see the top of the file), in out if given, which may be xhat.

    h is only read: it may be the incoming gradient.
    """
    count = scalar(max(h.shape[1], 1), h.dtype)
    slope = row_dot(h, xhat)
    slope /= count
    mean = row_sum(h)
    mean /= count
    gx = np.multiply(xhat, slope, out)
    np.subtract(h, gx, out=gx)
    gx -= mean
    gx *= invstd
    return gx


def _affine(xhat: np.ndarray, weight: Optional, bias: Optional) -> np.ndarray:
    """xhat * weight + bias, in place."""
    if weight is not None:
        xhat *= weight
    if bias is not None:
        xhat += bias
    return xhat


def layer_norm(
    x: np.ndarray, normalized_shape: Sequence[int], weight: Optional, bias: Optional, eps: float
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Normalise x (*, *normalized_shape) over the trailing dimensions.

    Returns:
        (out like x, mean, invstd), the statistics of shape (*, 1, ..., 1).

    Raises:
        RuntimeError: x does not end in normalized_shape.
    """
    shape = tuple(normalized_shape)
    lead = x.shape[: x.ndim - len(shape)]
    if not shape or x.shape[len(lead) :] != shape:
        raise RuntimeError(
            f"layer_norm: Given normalized_shape={list(shape)}, expected input with shape "
            f"[*{''.join(f', {n}' for n in shape)}], but got input of size {list(x.shape)}"
        )
    dtype, size = widen(x.dtype), prod(shape)
    rows = x if x.ndim == 2 and len(shape) == 1 and dtype is x.dtype and x.flags.c_contiguous else (
        x.astype(dtype, "C", copy=False).reshape(prod(lead), size))
    xhat, mean, invstd = _normalise_rows(rows, eps)
    out = _affine(xhat, _as(weight, dtype, size), _as(bias, dtype, size))
    if x.ndim == 2 and len(shape) == 1 and dtype is x.dtype:
        return out, mean, invstd
    stats = lead + (1,) * len(shape)
    return out.reshape(x.shape).astype(x.dtype, copy=False), mean.reshape(stats), invstd.reshape(stats)


def layer_norm_backward(
    g: np.ndarray,
    x: np.ndarray,
    normalized_shape: Sequence[int],
    mean: np.ndarray,
    invstd: np.ndarray,
    weight: Optional,
    needs: tuple[bool, bool, bool] = (True, True, True),
) -> tuple[Optional, Optional, Optional]:
    """Gradients of (x, weight, bias); None where not needed."""
    shape = tuple(normalized_shape)
    dtype, size = widen(x.dtype), prod(shape)
    g2 = g.astype(dtype, copy=False).reshape(-1 if size else 0, size)
    xhat = _centred(x.astype(dtype, copy=False).reshape(g2.shape), mean, invstd)
    gx = gw = gb = h = None
    if needs[1]:
        like = x.dtype if weight is None else weight.dtype
        h = g2 * xhat
        gw = column_sum(h).reshape(shape).astype(like, copy=False)
    if needs[0]:        # in the memory of xhat and of the product, which are done with
        h = g2 if weight is None else np.multiply(g2, _as(weight, dtype, size), h)
        gx = _rows_backward(h, xhat, invstd.astype(dtype, copy=False).reshape(-1, 1), xhat)
        gx = gx.reshape(x.shape).astype(x.dtype, copy=False)
    if needs[2]:
        like = x.dtype if weight is None else weight.dtype
        gb = column_sum(g2).reshape(shape).astype(like, copy=False)
    return gx, gw, gb


def _centred(rows: np.ndarray, mean: np.ndarray, invstd: np.ndarray) -> np.ndarray:
    """(x - mean) * invstd, the statistics one per row."""
    xhat = rows - mean.astype(rows.dtype, copy=False).reshape(-1, 1)
    xhat *= invstd.astype(rows.dtype, copy=False).reshape(-1, 1)
    return xhat


def rms_norm(
    x: np.ndarray, normalized_shape: Sequence[int], weight: Optional, eps: float | None
) -> tuple[np.ndarray, np.ndarray]:
    """x / sqrt(mean(x^2) + eps) * weight over the trailing dimensions; eps None is the dtype's epsilon.

    Returns:
        (out like x, inverse root mean square (*, 1, ..., 1)).
    """
    shape = tuple(normalized_shape)
    lead = x.shape[: x.ndim - len(shape)]
    if not shape or x.shape[len(lead) :] != shape:
        raise RuntimeError(
            f"rms_norm: Given normalized_shape={list(shape)}, expected input with shape "
            f"[*{''.join(f', {n}' for n in shape)}], but got input of size {list(x.shape)}"
        )
    dtype, size = widen(x.dtype), prod(shape)
    if eps is None:  # of the computing dtype, as PyTorch
        eps = float(np.finfo(dtype).eps)
    rows = x.astype(dtype, "C", copy=False).reshape(prod(lead), size)
    invrms = row_dot(rows, rows)
    invrms /= dtype.type(max(size, 1))
    invrms += dtype.type(eps)
    np.sqrt(invrms, out=invrms)
    np.divide(dtype.type(1), invrms, out=invrms)
    out = _affine(rows * invrms, _as(weight, dtype, size), None)
    return out.reshape(x.shape).astype(x.dtype, copy=False), invrms.reshape(lead + (1,) * len(shape))


def rms_norm_backward(
    g: np.ndarray,
    x: np.ndarray,
    normalized_shape: Sequence[int],
    invrms: np.ndarray,
    weight: Optional,
    needs: tuple[bool, bool] = (True, True),
) -> tuple[Optional, Optional]:
    """Gradients of (x, weight): invrms * (h - xhat * mean(h * xhat)) with xhat = x * invrms, h = g * weight."""
    shape = tuple(normalized_shape)
    dtype, size = widen(x.dtype), prod(shape)
    g2 = g.astype(dtype, copy=False).reshape(-1 if size else 0, size)
    inverse = invrms.astype(dtype, copy=False).reshape(-1, 1)
    xhat = x.astype(dtype, copy=False).reshape(g2.shape) * inverse
    gx = gw = None
    if needs[1]:
        like = x.dtype if weight is None else weight.dtype
        gw = column_sum(g2 * xhat).reshape(shape).astype(like, copy=False)
    if needs[0]:
        h = g2 if weight is None else g2 * _as(weight, dtype, size)
        slope = row_dot(h, xhat)
        slope /= dtype.type(max(size, 1))
        xhat *= slope
        np.subtract(h, xhat, out=xhat)
        xhat *= inverse
        gx = xhat.reshape(x.shape).astype(x.dtype, copy=False)
    return gx, gw


def _laid_out(out: np.ndarray, x: np.ndarray) -> np.ndarray:
    """A result in x's shape and dtype: channels last as x is, else row-major."""
    out = out.reshape(x.shape).astype(x.dtype, copy=False)
    if out.flags.c_contiguous:
        return out
    name = {4: "channels_last", 5: "channels_last_3d"}.get(x.ndim)
    return out if name is not None and is_contiguous(out, name) else np.ascontiguousarray(out)


def group_norm(
    x: np.ndarray, groups: int, weight: Optional, bias: Optional, eps: float
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Normalise x (N, C, *) over each group of C / groups channels; weight and bias (C,).

    Returns:
        (out like x, mean (N, groups), invstd (N, groups)).

    Raises:
        RuntimeError: groups does not divide C.
    """
    n, c = x.shape[:2]
    if groups < 1 or c % groups:
        raise RuntimeError(
            f"group_norm: Expected number of channels in input to be divisible by num_groups, but got input of "
            f"shape {list(x.shape)} and num_groups={groups}"
        )
    dtype, plane = widen(x.dtype), prod(x.shape[2:])
    rows = x.astype(dtype, copy=False).reshape(n * groups, c // groups * plane)
    xhat, mean, invstd = _normalise_rows(rows, eps)
    out = _affine(xhat.reshape(n, c, plane), _as(weight, dtype, c, 1), _as(bias, dtype, c, 1))
    stats = mean.reshape(n, groups), invstd.reshape(n, groups)
    return (_laid_out(out, x), *stats)


def group_norm_backward(
    g: np.ndarray,
    x: np.ndarray,
    groups: int,
    mean: np.ndarray,
    invstd: np.ndarray,
    weight: Optional,
    needs: tuple[bool, bool, bool] = (True, True, True),
) -> tuple[Optional, Optional, Optional]:
    """Gradients of (x, weight, bias); None where not needed."""
    n, c = x.shape[:2]
    dtype, plane = widen(x.dtype), prod(x.shape[2:])
    rows = n * groups, c // groups * plane
    g3 = g.astype(dtype, copy=False).reshape(n, c, plane)
    xhat = _centred(x.astype(dtype, copy=False).reshape(rows), mean, invstd)
    gx = gw = gb = None
    if needs[0]:
        h = g3 if weight is None else g3 * _as(weight, dtype, c, 1)
        gx = _rows_backward(h.reshape(rows), xhat, invstd.astype(dtype, copy=False).reshape(-1, 1))
        gx = gx.reshape(x.shape).astype(x.dtype, copy=False)
    like = x.dtype if weight is None else weight.dtype
    if needs[1]:
        gw = channel_dot(g3, xhat.reshape(g3.shape)).astype(like, copy=False)
    if needs[2]:
        gb = channel_sum(g3).astype(like, copy=False)
    return gx, gw, gb


def instance_norm(x: np.ndarray, weight: Optional, bias: Optional, eps: float) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Normalise every channel of every sample of x (N, C, *) by itself: (out, mean (N, C), invstd (N, C)).

    With running statistics in evaluation, use `batch_norm_eval`.
    """
    return group_norm(x, x.shape[1], weight, bias, eps)


def instance_norm_backward(
    g: np.ndarray,
    x: np.ndarray,
    mean: np.ndarray,
    invstd: np.ndarray,
    weight: Optional,
    needs: tuple[bool, bool, bool] = (True, True, True),
) -> tuple[Optional, Optional, Optional]:
    """Gradients of (x, weight, bias); None where not needed."""
    return group_norm_backward(g, x, x.shape[1], mean, invstd, weight, needs)


# Channels that share statistics: batch norm


def _channels(x: np.ndarray, dtype: np.dtype) -> np.ndarray:
    """x (N, C, *) as (N, C, plane); (N, C) stays."""
    if x.ndim == 2:
        return x.astype(dtype, copy=False)
    return x.astype(dtype, copy=False).reshape(*x.shape[:2], prod(x.shape[2:]))


def _across(channels: np.ndarray) -> Any:
    """The index of a vector (C,) that lets it meet what `_channels` gave."""
    return ... if channels.ndim == 2 else (slice(None), None)


def _count(channels: np.ndarray) -> np.ndarray:
    """How many elements a channel has, at least 1."""
    return scalar(max(channels.size // max(channels.shape[1], 1), 1), channels.dtype)


def _batch_norm(x, weight, bias, eps):
    dtype = widen(x.dtype)
    channels = _channels(x, dtype)
    across, count = _across(channels), _count(channels)
    mean = channel_sum(channels)
    mean /= count
    out = channels - mean[across]
    squares = channel_dot(out, out)
    invstd = squares / count
    invstd += np.asarray(eps, dtype)
    np.sqrt(invstd, invstd)
    np.divide(scalar(1, dtype), invstd, invstd)
    scale = invstd if weight is None else invstd * weight.astype(dtype, copy=False)
    out *= scale[across]
    if bias is not None:
        out += bias.astype(dtype, copy=False)[across]
    return _laid_out(out, x), mean, invstd, squares, count


def batch_norm(x: np.ndarray, weight: Optional, bias: Optional, eps: float) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Normalise x (N, C, *) by its own mean and biased variance over all dimensions but C.

    Returns:
        (out like x, save_mean (C,), save_invstd (C,)).
    """
    return _batch_norm(x, weight, bias, eps)[:3]


def batch_norm_update(
    x: np.ndarray,
    weight: Optional,
    bias: Optional,
    running_mean: np.ndarray,
    running_var: np.ndarray,
    momentum: float,
    eps: float,
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """`batch_norm`, and the running statistics moved towards the batch's mean and unbiased variance.

    Returns:
        (out, save_mean, save_invstd, new running mean, new running variance). The running arrays given are
        not written to. One value per channel has no unbiased variance: the new one is then NaN.
    """
    out, mean, invstd, squares, count = _batch_norm(x, weight, bias, eps)
    unbiased = squares / (count - scalar(1, count.dtype))
    d = running_mean.dtype
    if d is mean.dtype and d is running_var.dtype:
        keep, share = scalar(1 - momentum, d), scalar(momentum, d)
        mean_share = np.multiply(mean, share)
        unbiased *= share
        return (out, mean, invstd, np.add(running_mean * keep, mean_share, mean_share),
                np.add(running_var * keep, unbiased, unbiased))
    keep = 1 - momentum
    new_mean = (running_mean * keep + mean * momentum).astype(running_mean.dtype, copy=False)
    new_var = (running_var * keep + unbiased * momentum).astype(running_var.dtype, copy=False)
    return out, mean, invstd, new_mean, new_var


def batch_norm_backward(
    g: np.ndarray,
    x: np.ndarray,
    save_mean: np.ndarray,
    save_invstd: np.ndarray,
    weight: Optional,
    needs: tuple[bool, bool, bool] = (True, True, True),
) -> tuple[Optional, Optional, Optional]:
    """Gradients of (x, weight, bias) in training, where the statistics depend on x; None where not needed."""
    dtype = widen(x.dtype)
    grads, channels = _channels(g, dtype), _channels(x, dtype)
    across, count = _across(channels), _count(channels)
    invstd = save_invstd.astype(dtype, copy=False)
    gb = channel_sum(grads)
    gx = gw = None
    if needs[0] or needs[1]:
        xhat = channels - save_mean.astype(dtype, copy=False)[across]
        gw = channel_dot(grads, xhat) * invstd
        if needs[0]:
            # In place on the centred input: scale * (g - gb / m - xhat * gw / m)
            gx = xhat
            gx *= (invstd * gw / count)[across]
            np.subtract(grads, gx, out=gx)
            gx -= (gb / count)[across]
            gx *= (invstd if weight is None else invstd * weight.astype(dtype, copy=False))[across]
            gx = gx.reshape(x.shape).astype(x.dtype, copy=False)
    like = x.dtype if weight is None else weight.dtype
    return gx, gw.astype(like, copy=False) if needs[1] else None, gb.astype(like, copy=False) if needs[2] else None


def batch_norm_eval(
    x: np.ndarray,
    weight: Optional,
    bias: Optional,
    running_mean: np.ndarray,
    running_var: np.ndarray,
    eps: float,
) -> np.ndarray:
    """Normalise x (N, C, *) by given statistics (C,): one scale and shift per channel."""
    dtype = widen(x.dtype)
    channels = _channels(x, dtype)
    across = _across(channels)
    scale = 1 / np.sqrt(running_var.astype(dtype, copy=False) + dtype.type(eps))
    if weight is not None:
        scale *= weight.astype(dtype, copy=False)
    out = channels - running_mean.astype(dtype, copy=False)[across]
    out *= scale[across]
    if bias is not None:
        out += bias.astype(dtype, copy=False)[across]
    return _laid_out(out, x)


def batch_norm_eval_backward(
    g: np.ndarray,
    x: np.ndarray,
    running_mean: np.ndarray,
    running_var: np.ndarray,
    weight: Optional,
    eps: float,
    needs: tuple[bool, bool, bool] = (True, True, True),
) -> tuple[Optional, Optional, Optional]:
    """Gradients of (x, weight, bias) in evaluation, where the statistics are constants."""
    dtype = widen(x.dtype)
    grads = _channels(g, dtype)
    invstd = 1 / np.sqrt(running_var.astype(dtype, copy=False) + dtype.type(eps))
    like = x.dtype if weight is None else weight.dtype
    gx = gw = gb = None
    if needs[0]:
        scale = invstd if weight is None else invstd * weight.astype(dtype, copy=False)
        gx = (grads * scale[_across(grads)]).reshape(x.shape).astype(x.dtype, copy=False)
    if needs[1]:
        centred = _channels(x, dtype) - running_mean.astype(dtype, copy=False)[_across(grads)]
        gw = (channel_dot(grads, centred) * invstd).astype(like, copy=False)
    if needs[2]:
        gb = channel_sum(grads).astype(like, copy=False)
    return gx, gw, gb
