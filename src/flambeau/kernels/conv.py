"""Convolutions in one, two and three dimensions, and their two adjoints.

A convolution (a cross-correlation, as everywhere in deep learning) is bilinear in its input and its
weight, so three kernels close under differentiation. With `G` the gradient of a kernel's result:

    y  = convolution(x, w)              x: convolution_grad_input(G, w)   w: convolution_grad_weight(G, x)
    gx = convolution_grad_input(g, w)   g: convolution(G, w)              w: convolution_grad_weight(g, G)
    gw = convolution_grad_weight(g, x)  g: convolution(x, G)              x: convolution_grad_input(g, G)

all with the same stride, padding, dilation and groups, hence derivatives of any order. A transposed
convolution *is* `convolution_grad_input`. No kernel conjugates: for complex values the formula does.

Shapes: x (N, C, *), w (O, C / groups, *), y (N, O, *) with one to three trailing dimensions. Hyper-parameters
are an int, or a sequence with one entry per trailing dimension. float16 and bfloat16 are computed in float32.

Method: the windows under each output position are copied into columns (im2col), which one BLAS product per
sample, or per group of rows of a sample, then reads. The columns of one product stay within a cache.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from math import prod

import numpy as np

from flambeau.kernels.casting import widen
from flambeau.kernels.depthwise import depthwise, depthwise_grad_input, depthwise_grad_weight

__all__ = [
    "conv_output_size",
    "conv_transpose_output_size",
    "convolution",
    "convolution_grad_input",
    "convolution_grad_weight",
    "convolution_transpose",
    "fold",
    "unfold",
]

Ints = int | Sequence[int]

# Elements of one block of columns. 1 MiB in float32: measured flat between 2^16 and 2^20 on a core with
# 1 MiB of second-level cache; smaller blocks starve the matrix product, larger ones leave the cache.
_BLOCK = 1 << 18
# Elements of output from which a depthwise layer leaves the general path.
_DEPTHWISE = 1 << 12
# Below this many output positions per sample a product per sample is too narrow: samples are merged.
_NARROW = 32


def _tuple(value: Ints, n: int) -> tuple[int, ...]:
    if type(value) is tuple and len(value) == n:
        return value
    if isinstance(value, int):
        return (value,) * n
    if len(value) == n:
        return tuple(value)
    if len(value) == 1:
        return (value[0],) * n
    raise RuntimeError(
        f"convolution over {n} spatial dimensions needs an int or {n} values, got {len(value)}: {list(value)}"
    )


def conv_output_size(
    size: Sequence[int], kernel: Sequence[int], stride: Ints, padding: Ints, dilation: Ints
) -> tuple[int, ...]:
    """Spatial shape of a convolution's result, from the input's and the kernel's spatial shapes."""
    n = len(size)
    stride, padding, dilation = _tuple(stride, n), _tuple(padding, n), _tuple(dilation, n)
    for length, k, p, d in zip(size, kernel, padding, dilation, strict=True):
        if length + 2 * p < d * (k - 1) + 1:
            padded = [s + 2 * q for s, q in zip(size, padding, strict=True)]
            raise RuntimeError(
                f"Kernel size can't be greater than actual input size: padded input {padded}, "
                f"kernel {list(kernel)} with dilation {list(dilation)}. Pad more, or use a smaller kernel."
            )
    return tuple(
        (length + 2 * p - d * (k - 1) - 1) // s + 1
        for length, k, s, p, d in zip(size, kernel, stride, padding, dilation, strict=True)
    )


def conv_transpose_output_size(
    size: Sequence[int],
    kernel: Sequence[int],
    stride: Ints,
    padding: Ints,
    output_padding: Ints,
    dilation: Ints,
) -> tuple[int, ...]:
    """Spatial shape of a transposed convolution's result."""
    n = len(size)
    stride, padding, dilation = _tuple(stride, n), _tuple(padding, n), _tuple(dilation, n)
    extra = _tuple(output_padding, n)
    for e, s, d in zip(extra, stride, dilation, strict=True):
        if e >= max(s, d):
            raise RuntimeError(
                f"output padding must be smaller than either stride or dilation, got output_padding {list(extra)}, "
                f"stride {list(stride)}, dilation {list(dilation)}"
            )
    return tuple(
        (length - 1) * s - 2 * p + d * (k - 1) + e + 1
        for length, k, s, p, d, e in zip(size, kernel, stride, padding, dilation, extra, strict=True)
    )


def _padded(x: np.ndarray, low: Sequence[int], high: Sequence[int], dtype: np.dtype) -> np.ndarray:
    """x as a C-contiguous array of `dtype`, its trailing axes zero-padded (negative: cropped)."""
    if not any(low) and not any(high):
        return np.ascontiguousarray(x, dtype)
    lead = x.shape[: x.ndim - len(low)]
    shape = lead + tuple([s + a + b for s, a, b in zip(x.shape[len(lead) :], low, high, strict=True)])
    out = np.zeros(shape, dtype)
    source, target = [...], [...]
    for s, a, b in zip(x.shape[len(lead) :], low, high, strict=True):
        target.append(slice(max(a, 0), max(a, 0) + max(s + min(a, 0) + min(b, 0), 0)))
        source.append(slice(max(-a, 0), max(s + min(b, 0), max(-a, 0))))
    out[tuple(target)] = x[tuple(source)]
    return out


def _windows(
    x: np.ndarray, kernel: tuple[int, ...], out: tuple[int, ...], stride: Sequence[int], dilation: Sequence[int]
) -> np.ndarray:
    """View of contiguous x (N, C, *) as (N, C, *kernel, *out). Not to be written to."""
    steps = x.strides[2:]
    strides = (
        x.strides[:2]
        + tuple([s * d for s, d in zip(steps, dilation, strict=True)])
        + tuple([s * d for s, d in zip(steps, stride, strict=True)])
    )
    # The constructor takes 0.5 us, as_strided ten times as much.
    return np.ndarray(x.shape[:2] + kernel + out, x.dtype, x, 0, strides)


def _blocks(n_samples: int, out: tuple[int, ...], depth: int):
    """Cut (samples, rows of output) so that a block's columns, `depth` per position, hold about _BLOCK elements.

    Yields pairs of slices: whole samples where one fits, else rows (first spatial axis) of single samples.
    """
    per_sample = depth * prod(out)
    if per_sample <= _BLOCK:
        step = max(1, _BLOCK // max(per_sample, 1))
        everything = slice(0, out[0])
        for i in range(0, n_samples, step):
            yield slice(i, min(i + step, n_samples)), everything
        return
    rows = max(1, _BLOCK // (depth * prod(out[1:])))
    for i in range(n_samples):
        for r in range(0, out[0], rows):
            yield slice(i, i + 1), slice(r, min(r + rows, out[0]))


def _correlate(
    x: np.ndarray,
    w: np.ndarray,
    stride: tuple[int, ...],
    low: Sequence[int],
    high: Sequence[int],
    dilation: tuple[int, ...],
    groups: int,
    out: tuple[int, ...],
) -> np.ndarray:
    """Cross-correlation with its own padding on either side; the result's spatial shape is given as `out`."""
    kernel = w.shape[2:]
    n, c, o = x.shape[0], x.shape[1], w.shape[0]
    dtype = widen(x.dtype)
    positions, taps = prod(out), prod(kernel)
    depth = c // groups * taps
    if n == 0 or o == 0 or positions == 0 or depth == 0:
        return np.zeros((n, o, *out), x.dtype)
    if depth == taps and o == groups and n * c * positions >= _DEPTHWISE:
        narrow = x.dtype
        if min(low) < 0 or min(high) < 0:
            x, low = _padded(x, low, high, dtype), (0,) * len(low)
        filters = np.ascontiguousarray(w, dtype).reshape(c, *kernel)
        result = depthwise(np.asarray(x, dtype), filters, out, stride, low, dilation)
        return result.astype(narrow, copy=False)
    x_pad = _padded(x, low, high, dtype)
    matrix = np.ascontiguousarray(w, dtype).reshape(groups, o // groups, depth)
    if taps == 1 and x_pad.shape[2:] == out:  # a pointwise layer needs no columns
        result = np.matmul(matrix, x_pad.reshape(n, groups, depth, positions))
        return result.reshape(n, o, *out).astype(x.dtype, copy=False)
    if n == 1 and groups > 1:
        x_pad = x_pad.reshape(groups, c // groups, *x_pad.shape[2:])
        result = _correlate_groups(_windows(x_pad, kernel, out, stride, dilation), matrix, out)
        return result.reshape(1, o, *out).astype(x.dtype, copy=False)
    windows = _windows(x_pad, kernel, out, stride, dilation)
    if positions < _NARROW and n > 1 and groups == 1:
        result = _correlate_merged(windows, matrix[0], out, len(kernel))
    elif n * c * taps * positions <= _BLOCK:
        result = np.matmul(matrix, windows.reshape(n, groups, depth, positions))
    else:
        result = np.empty((n, groups, o // groups, positions), dtype)
        width = positions // out[0]
        for samples, rows in _blocks(n, out, c * taps):
            part = windows[(samples, slice(None)) + _full(kernel) + (rows,)]
            columns = part.reshape(part.shape[0], groups, depth, -1)
            np.matmul(matrix, columns, out=result[samples, :, :, rows.start * width : rows.stop * width])
    return result.reshape(n, o, *out).astype(x.dtype, copy=False)


def _full(axes: Sequence[int]) -> tuple[slice, ...]:
    return (slice(None),) * len(axes)


def _correlate_groups(windows: np.ndarray, matrix: np.ndarray, out: tuple[int, ...]) -> np.ndarray:
    """The groups of one sample, as samples with weights of their own: blocks of whole groups, not of rows of all."""
    groups, o_group, depth = matrix.shape
    width = prod(out[1:])
    result = np.empty((groups, o_group, prod(out)), windows.dtype)
    for some, rows in _blocks(groups, out, depth):
        part = windows[(some, slice(None)) + _full(out) + (rows,)]
        columns = part.reshape(some.stop - some.start, depth, -1)
        np.matmul(matrix[some], columns, out=result[some, :, rows.start * width : rows.stop * width])
    return result


def _correlate_merged(windows: np.ndarray, matrix: np.ndarray, out: tuple[int, ...], nd: int) -> np.ndarray:
    """All samples' positions side by side in one product: for outputs of a few positions per sample."""
    n = windows.shape[0]
    depth, positions = matrix.shape[1], prod(out)
    result = np.empty((n, matrix.shape[0], positions), windows.dtype)
    step = max(1, _BLOCK // (depth * positions))
    for i in range(0, n, step):
        part = np.moveaxis(windows[i : i + step], 0, 1 + nd)  # (C, *kernel, samples, *out)
        columns = part.reshape(depth, -1)
        flat = np.matmul(matrix, columns)
        result[i : i + step] = flat.reshape(matrix.shape[0], -1, positions).swapaxes(0, 1)
    return result


def convolution(
    x: np.ndarray,
    w: np.ndarray,
    stride: Ints = 1,
    padding: Ints = 0,
    dilation: Ints = 1,
    groups: int = 1,
    out_size: Sequence[int] | None = None,
) -> np.ndarray:
    """Cross-correlation of x (N, C, *) with w (O, C / groups, *): (N, O, *).

    Args:
        out_size: spatial shape to keep, at most the natural one. Needed only by the derivative of a transposed
            convolution in its input when output_padding reaches the stride (dilation allows it): its result
            then has room for one more window than its input had positions.

    Raises:
        RuntimeError: channels do not fit groups and weight, or the kernel exceeds the padded input.
    """
    nd = x.ndim - 2
    if w.ndim != x.ndim or x.shape[1] != w.shape[1] * groups or w.shape[0] % groups:
        raise RuntimeError(
            f"convolution: Given groups={groups}, weight of size {list(w.shape)}, expected input{list(x.shape)} "
            f"to have {w.shape[1] * groups} channels, but got {x.shape[1] if x.ndim > 1 else 0} channels instead; "
            "the weight's first dimension must be divisible by groups."
        )
    stride, padding, dilation = _tuple(stride, nd), _tuple(padding, nd), _tuple(dilation, nd)
    out = conv_output_size(x.shape[2:], w.shape[2:], stride, padding, dilation)
    if out_size is not None:
        out = tuple(out_size)
    return _correlate(x, w, stride, padding, padding, dilation, groups, out)


def convolution_grad_input(
    g: np.ndarray,
    w: np.ndarray,
    x_shape: Sequence[int],
    stride: Ints = 1,
    padding: Ints = 0,
    dilation: Ints = 1,
    groups: int = 1,
) -> np.ndarray:
    """Adjoint of `convolution` in its input: g (N, O, *) and w (O, C / groups, *) to x_shape (N, C, *)."""
    x_shape = tuple(x_shape)
    nd = g.ndim - 2
    stride, padding, dilation = _tuple(stride, nd), _tuple(padding, nd), _tuple(dilation, nd)
    n, o, *out = g.shape
    kernel = w.shape[2:]
    c_group, o_group = w.shape[1], o // groups
    if o != w.shape[0]:
        raise RuntimeError(
            f"convolution: gradient of shape {list(g.shape)} has {o} channels, weight {list(w.shape)} makes {w.shape[0]}"
        )
    depthwise_layer = c_group == o_group == 1 and g.size >= _DEPTHWISE
    if max(stride) == 1 and (depthwise_layer or 2 * c_group >= o_group):
        # The adjoint of a stride-1 correlation is a correlation with the flipped kernel.
        flipped = np.flip(w.reshape(groups, o_group, c_group, *kernel), tuple(range(3, 3 + nd)))
        flipped = flipped.swapaxes(1, 2).reshape(groups * c_group, o_group, *kernel)
        low = [d * (k - 1) - p for d, k, p in zip(dilation, kernel, padding, strict=True)]
        size = x_shape[2:]
        high = [length + d * (k - 1) - m - a for length, d, k, m, a in zip(size, dilation, kernel, out, low, strict=True)]
        return _correlate(g, flipped, stride, low, high, dilation, groups, size)
    dtype = widen(g.dtype)
    positions, taps = prod(out), prod(kernel)
    depth = c_group * taps
    if g.size == 0 or w.size == 0:
        return np.zeros(x_shape, g.dtype)
    if depthwise_layer:
        filters = np.ascontiguousarray(w, dtype).reshape(o, *kernel)
        result = depthwise_grad_input(np.asarray(g, dtype), filters, x_shape[2:], stride, padding, dilation)
        return result.astype(g.dtype, copy=False)
    matrix = np.ascontiguousarray(w, dtype).reshape(groups, o_group, depth).swapaxes(1, 2)
    g = np.ascontiguousarray(g, dtype).reshape(n, groups, o_group, positions)
    result = np.zeros((n, x_shape[1], *_reach(x_shape[2:], kernel, out, stride, padding, dilation)), dtype)
    step = max(1, _BLOCK // (groups * depth * positions))
    for i in range(0, n, step):
        columns = np.matmul(matrix, g[i : i + step])
        columns = columns.reshape(-1, x_shape[1], *kernel, *out)
        _add_columns(result[i : i + step], columns, kernel, out, stride, dilation)
    return _crop(result, x_shape[2:], padding).astype(w.dtype, copy=False)


def _reach(size, kernel, out, stride, padding, dilation) -> tuple[int, ...]:
    """Spatial shape that holds both the padded image and every window's last tap."""
    return tuple(
        [
            max(length + 2 * p, (m - 1) * s + d * (k - 1) + 1)
            for length, k, m, s, p, d in zip(size, kernel, out, stride, padding, dilation, strict=True)
        ]
    )


def _crop(padded: np.ndarray, size: Sequence[int], padding: Sequence[int]) -> np.ndarray:
    if padded.shape[2:] == tuple(size):
        return padded
    inner = [slice(p, p + length) for p, length in zip(padding, size, strict=True)]
    return np.ascontiguousarray(padded[(..., *inner)])


def _add_columns(image: np.ndarray, columns: np.ndarray, kernel, out, stride, dilation) -> None:
    """image (N, C, *padded) += col2im(columns (N, C, *kernel, *out)), tap by tap."""
    for tap in product(*map(range, kernel)):
        place = [slice(t * d, t * d + (m - 1) * s + 1, s) for t, m, s, d in zip(tap, out, stride, dilation, strict=True)]
        target = image[(..., *place)]
        np.add(target, columns[(slice(None), slice(None), *tap)], out=target)


def convolution_grad_weight(
    g: np.ndarray,
    x: np.ndarray,
    w_shape: Sequence[int],
    stride: Ints = 1,
    padding: Ints = 0,
    dilation: Ints = 1,
    groups: int = 1,
) -> np.ndarray:
    """Adjoint of `convolution` in its weight: g (N, O, *) and x (N, C, *) to w_shape (O, C / groups, *)."""
    w_shape = tuple(w_shape)
    nd = g.ndim - 2
    stride, padding, dilation = _tuple(stride, nd), _tuple(padding, nd), _tuple(dilation, nd)
    n, c = x.shape[:2]
    kernel, out = w_shape[2:], g.shape[2:]
    o, dtype = w_shape[0], widen(x.dtype)
    positions, taps = prod(out), prod(kernel)
    c_group, o_group = c // groups, o // groups
    depth = c_group * taps
    if g.size == 0 or x.size == 0 or depth == 0:
        return np.zeros(w_shape, x.dtype)
    g = np.ascontiguousarray(g, dtype)
    if depth == taps and o == groups and g.size >= _DEPTHWISE:
        result = depthwise_grad_weight(g, np.asarray(x, dtype), kernel, stride, padding, dilation)
        return result.reshape(w_shape).astype(x.dtype, copy=False)
    padded = _padded(x, padding, padding, dtype)
    result = np.zeros((groups, o_group, depth), dtype)
    width = positions // out[0]
    if n == 1 and groups > 1:               # groups as samples with weights of their own: see _correlate_groups
        windows = _windows(padded.reshape(groups, c_group, *padded.shape[2:]), kernel, out, stride, dilation)
        g = g.reshape(groups, o_group, *out)
        for some, rows in _blocks(groups, out, depth):
            part = windows[(some, slice(None)) + _full(kernel) + (rows,)]
            columns = part.reshape(some.stop - some.start, depth, -1)
            grad = g[(some, slice(None), rows)].reshape(columns.shape[0], o_group, -1)
            result[some] += np.matmul(grad, columns.swapaxes(1, 2))
        return result.reshape(w_shape).astype(x.dtype, copy=False)
    windows = _windows(padded, kernel, out, stride, dilation)
    for samples, rows in _blocks(n, out, c * taps):
        part = windows[(samples, slice(None)) + _full(kernel) + (rows,)]
        grad = g[(samples, slice(None), rows)]
        m = samples.stop - samples.start
        if m > 1:  # samples join the contracted axis: (C, *kernel, samples, *out)
            part = np.moveaxis(part, 0, 1 + nd)
            grad = grad.swapaxes(0, 1)
        columns = part.reshape(groups, depth, m * width * (rows.stop - rows.start))
        result += np.matmul(grad.reshape(groups, o_group, -1), columns.swapaxes(1, 2))
    return result.reshape(w_shape).astype(x.dtype, copy=False)


def convolution_transpose(
    x: np.ndarray,
    w: np.ndarray,
    stride: Ints = 1,
    padding: Ints = 0,
    output_padding: Ints = 0,
    dilation: Ints = 1,
    groups: int = 1,
) -> np.ndarray:
    """Transposed convolution of x (N, C, *) with w (C, O / groups, *): (N, O, *).

    Its gradients: x by `convolution(G, w, ..., out_size=x.shape[2:])`, w by `convolution_grad_weight(x, G)`.
    """
    nd = x.ndim - 2
    if w.ndim != x.ndim or x.shape[1] != w.shape[0] or w.shape[0] % groups:
        raise RuntimeError(
            f"convolution_transpose: Given transposed=1, weight of size {list(w.shape)}, expected "
            f"input{list(x.shape)} to have {w.shape[0]} channels, divisible by groups={groups}, but got "
            f"{x.shape[1] if x.ndim > 1 else 0} channels instead"
        )
    size = conv_transpose_output_size(x.shape[2:], w.shape[2:], stride, padding, output_padding, dilation)
    if any(length < 0 for length in size):
        raise RuntimeError(
            f"convolution_transpose: Given input size {list(x.shape[2:])}, calculated output size {list(size)}: "
            f"output size is too small; padding {list(_tuple(padding, nd))} removes more than there is."
        )
    x_shape = (x.shape[0], w.shape[1] * groups, *size)
    return convolution_grad_input(x, w, x_shape, stride, padding, dilation, groups)


def unfold(x: np.ndarray, kernel_size: Ints, dilation: Ints = 1, padding: Ints = 0, stride: Ints = 1) -> np.ndarray:
    """Windows of x (N, C, *) as columns (N, C * prod(kernel_size), positions); `fold` is its adjoint."""
    nd = x.ndim - 2
    kernel, stride = _tuple(kernel_size, nd), _tuple(stride, nd)
    padding, dilation = _tuple(padding, nd), _tuple(dilation, nd)
    out = conv_output_size(x.shape[2:], kernel, stride, padding, dilation)
    n, c = x.shape[:2]
    shape = (n, c * prod(kernel), prod(out))
    if 0 in shape:
        return np.zeros(shape, x.dtype)
    windows = _windows(_padded(x, padding, padding, x.dtype), kernel, out, stride, dilation)
    return windows.copy().reshape(shape)  # a copy even where the reshape alone would be a view of x


def fold(
    x: np.ndarray,
    output_size: Ints,
    kernel_size: Ints,
    dilation: Ints = 1,
    padding: Ints = 0,
    stride: Ints = 1,
) -> np.ndarray:
    """Sum of columns x (N, C * prod(kernel_size), positions) into images (N, C, *output_size).

    Raises:
        RuntimeError: the columns fit neither the kernel nor the number of positions.
    """
    nd = next((len(v) for v in (output_size, kernel_size) if not isinstance(v, int)), 2)
    size, kernel, stride = _tuple(output_size, nd), _tuple(kernel_size, nd), _tuple(stride, nd)
    padding, dilation = _tuple(padding, nd), _tuple(dilation, nd)
    out = conv_output_size(size, kernel, stride, padding, dilation)
    n, channels, positions = x.shape
    taps = prod(kernel)
    if channels % taps:
        raise RuntimeError(
            f"fold() expected size of input's dimension 1 to be divisible by the product of kernel_size, got "
            f"input.size(1)={channels} and kernel_size={list(kernel)}"
        )
    if positions != prod(out):
        raise RuntimeError(
            f"fold() expected size of input's dimension 2 to match the calculated number of sliding blocks "
            f"{list(out)} = {prod(out)}, got input.size(2)={positions}"
        )
    dtype = widen(x.dtype)
    c = channels // taps
    image = np.zeros((n, c, *_reach(size, kernel, out, stride, padding, dilation)), dtype)
    columns = x.astype(dtype, copy=False).reshape(n, c, *kernel, *out)
    _add_columns(image, columns, kernel, out, stride, dilation)
    return _crop(image, size, padding).astype(x.dtype, copy=False)
