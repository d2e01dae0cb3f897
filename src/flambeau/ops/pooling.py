"""Pooling: maxima and means over windows, of given size or of given number (adaptive), and their inverses.

With the positions of the maxima held fixed, max pooling reads elements by index: `gather_spatial`, whose derivative is
`scatter_spatial`, and conversely. Mean pooling and its adjoint are each other's derivative. Arguments are checked once
for each combination of shapes and remembered.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any

import numpy as np

from flambeau.core.apply import apply1, apply_n
from flambeau.core.dtype import dtype_of_array
from flambeau.core.objects import dtype_of, requires, shape_of
from flambeau.core.op import Op
from flambeau.core.state import grad_enabled, state
from flambeau.kernels import pool as kernel
from flambeau.kernels.services import is_float

from ._args import integer, tensor
from ._meta import Meta
from ._record import KERNEL, call, primitive, public
from ._shapes import shaped, spatial, with_positions
from .reduction import MEAN

_MAX_PARAMS = ("kernel_size", "stride", "padding", "dilation", "ceil_mode")
_AVG_PARAMS = ("kernel_size", "stride", "padding", "ceil_mode", "count_include_pad", "divisor_override")

# --------------------------------------------------------------------------------- primitives


def _pooled(self: Meta, kernel_size: tuple, stride: tuple, padding: tuple, dilation: tuple, ceil_mode: bool) -> Meta:
    size = self.shape[self.ndim - len(kernel_size):]
    return spatial(self, kernel.pool_output_size(size, kernel_size, stride or kernel_size, padding, dilation, ceil_mode))


def _averaged(self: Meta, kernel_size: tuple, stride: tuple, padding: tuple, ceil_mode: bool, *_: Any) -> Meta:
    return _pooled(self, kernel_size, stride, padding, (1,) * len(kernel_size), ceil_mode)


def _to_size(self: Meta, output_size: tuple) -> Meta:
    size = self.shape[self.ndim - len(output_size):]
    return spatial(self, tuple([n if k is None else k for n, k in zip(size, output_size, strict=True)]))


def _scattered(self: Meta, indices: Meta, size: tuple) -> Meta:
    return Meta((*self.shape[:self.ndim - len(size)], *size), self.dtype)


def _gather(a: np.ndarray, indices: np.ndarray, nd: int) -> np.ndarray:
    return kernel.gather_spatial(a, indices, nd)


primitive("gather_spatial", _gather, inputs=("self", "indices"), params=("nd",), promotes=False,
          meta=lambda self, indices, nd: Meta(indices.shape, self.dtype), batch="items", expr=KERNEL,
          self=lambda xp, g, self_shape, indices, nd: xp.scatter_spatial(g, indices, self_shape[len(self_shape) - nd:]))
primitive("scatter_spatial", kernel.scatter_spatial, inputs=("self", "indices"), params=("size",), promotes=False,
          meta=_scattered,
          batch="items", expr=KERNEL,
          node="MaxPool2DWithIndicesBackwardBackward0",
          self=lambda xp, g, indices, size: xp.gather_spatial(g, indices, len(size)))


def _linked(xp: Any, g: Any, input: Any) -> Any:
    # A second derivative in the input is zero, not an error, as in PyTorch. The output would be smaller to keep, but
    # programs write to it: an activation in place follows many a pooling.
    return g if xp.is_kernels else xp.linked(g, xp.sum(input))


def _max_formula(xp: Any, g: Any, self: Any, self_shape: tuple, out1: Any, nd: int) -> Any:
    return _linked(xp, xp.scatter_spatial(g, out1, self_shape[len(self_shape) - nd:]), self)


def _max_op(nd: int) -> Op:
    return primitive(
        f"max_pool{nd}d_with_indices", kernel.max_pool_with_indices, params=_MAX_PARAMS, outputs=(True, False),
        meta=with_positions(_pooled), batch="items", expr=KERNEL,
        node=f"MaxPool{max(nd, 2)}DWithIndicesBackward0",
        self=lambda xp, g, self, self_shape, out1, kernel_size: _max_formula(xp, g, self, self_shape, out1,
            len(kernel_size)))


MAX = {nd: _max_op(nd) for nd in (1, 2, 3)}
MAX_VALUES = primitive("max_pool_values", kernel.max_pool, params=_MAX_PARAMS, differentiable=False, meta=_pooled,
batch="items", expr=KERNEL)


def _avg_op(nd: int) -> Op:
    def formula(xp: Any, g: Any, self: Any, self_shape: tuple, kernel_size: tuple, stride: tuple, padding: tuple,
                ceil_mode: bool, count_include_pad: bool, divisor_override: Any) -> Any:
        g = xp.avg_pool_backward(g, self_shape, kernel_size, stride, padding, ceil_mode, count_include_pad,
                                 divisor_override)
        return _linked(xp, g, self)

    return primitive(f"avg_pool{nd}d", kernel.avg_pool, params=_AVG_PARAMS, node=f"AvgPool{max(nd, 2)}DBackward0",
                     meta=_averaged, batch="items", expr=KERNEL, self=formula)


AVG = {nd: _avg_op(nd) for nd in (1, 2, 3)}


def _avg_backward_formula(xp: Any, g: Any, kernel_size: tuple, stride: tuple, padding: tuple, ceil_mode: bool,
                          count_include_pad: bool, divisor_override: Any) -> Any:
    pool = getattr(xp, f"avg_pool{len(kernel_size)}d")
    return pool(g, kernel_size, stride, padding, ceil_mode, count_include_pad, divisor_override)


primitive("avg_pool_backward", kernel.avg_pool_backward, params=("shape", *_AVG_PARAMS), meta=shaped(),
          batch="items", expr=KERNEL,
          node="AvgPool2DBackwardBackward0", self=_avg_backward_formula)


def _adaptive_avg_op(nd: int) -> Op:
    return primitive(f"adaptive_avg_pool{nd}d", kernel.adaptive_avg_pool, params=("output_size",), meta=_to_size,
                     batch="leading", expr=KERNEL,
                     node=f"AdaptiveAvgPool{max(nd, 2)}DBackward0",
                     self=lambda xp, g, self, self_shape: _linked(xp, xp.adaptive_avg_pool_backward(g, self_shape), self))


ADAPTIVE_AVG = {nd: _adaptive_avg_op(nd) for nd in (1, 2, 3)}
primitive("adaptive_avg_pool_backward", kernel.adaptive_avg_pool_backward, params=("shape",), meta=shaped(),
          expr=KERNEL,
          node="AdaptiveAvgPool2DBackwardBackward0",
          self=lambda xp, g, self_shape: xp.adaptive_avg_pool3d(g, self_shape[-3:]) if len(self_shape) >= 3 else
          xp.adaptive_avg_pool2d(g, self_shape))


def _adaptive_max_op(nd: int) -> Op:
    return primitive(
        f"adaptive_max_pool{nd}d", kernel.adaptive_max_pool, params=("output_size",), outputs=(True, False),
        meta=with_positions(_to_size), batch="items", expr=KERNEL,
        node=f"AdaptiveMaxPool{max(nd, 2)}DBackward0",
        self=lambda xp, g, self, self_shape, out1, output_size: _max_formula(xp, g, self, self_shape, out1,
            len(output_size)))


ADAPTIVE_MAX = {nd: _adaptive_max_op(nd) for nd in (1, 2, 3)}


def _unpool_op(nd: int) -> Op:
    return primitive(f"max_unpool{nd}d", kernel.max_unpool, inputs=("self", "indices"), params=("size",), promotes=False,
                     may_raise=True, meta=_scattered,
                     batch="items", expr=KERNEL, node=f"MaxUnpool{max(nd, 2)}DBackward0",
                     self=lambda xp, g, indices, size: xp.gather_spatial(g, indices, len(size)))


UNPOOL = {nd: _unpool_op(nd) for nd in (1, 2, 3)}


# --------------------------------------------------------------------------------- checks


def _hashable(value: Any) -> Any:
    return tuple(value) if type(value) is list else value


_WORDS = {1: "one int", 2: "two ints", 3: "three ints"}


def _ints(function: str, value: Any, n: int, name: str) -> tuple[int, ...]:
    if not isinstance(value, (tuple, list)):
        return (integer(value, function, name),) * n
    values = tuple(integer(v, function, name) for v in value)
    if len(values) == 1:
        return values * n
    if len(values) != n:
        raise RuntimeError(f"{function}: {name} must either be a single int, or a tuple of {_WORDS[n]}, got {values}")
    return values


def _check_shape(function: str, nd: int, shape: tuple) -> None:
    if len(shape) not in (nd + 1, nd + 2) or 0 in shape[len(shape) - nd - 1:]:
        raise RuntimeError(f"{function}: Expected {nd + 1}D or {nd + 2}D (batch mode) tensor with optional 0 dim batch "
                           f"size for input, and non-empty otherwise, but got: {list(shape)}")


@lru_cache(maxsize=1024)
def _plan(function: str, nd: int, shape: tuple, kernel_size: Any, stride: Any, padding: Any, dilation: Any,
          ceil_mode: bool) -> tuple:
    """(kernel_size, stride, padding, dilation, ceil_mode), for one shape of input, after checks."""
    _check_shape(function, nd, shape)
    size = _ints(function, kernel_size, nd, "kernel_size")
    steps = size if stride is None or stride == () else _ints(function, stride, nd, "stride")
    pads, spread = _ints(function, padding, nd, "padding"), _ints(function, dilation, nd, "dilation")
    if 0 in steps:
        raise RuntimeError(f"{function}: stride should not be zero, got {steps}")
    if min(size) < 1 or min(steps) < 1:
        raise RuntimeError(f"{function}: kernel size should be greater than zero, and stride too, but got "
                           f"kernel_size={size}, stride={steps}")
    if min(spread) < 1:
        raise RuntimeError(f"{function}: dilation should be greater than zero, but got {spread}")
    for k, p, d in zip(size, pads, spread, strict=True):
        if p < 0 or 2 * p > d * (k - 1) + 1:
            raise RuntimeError(f"{function}: pad should be at most half of effective kernel size, and not negative, "
                               f"but got pad={p}, kernel_size={k} and dilation={d}")
    inner = shape[len(shape) - nd:]
    out = [kernel._output_length(n, k, s, p, d, ceil_mode) for n, k, s, p,
           d in zip(inner, size, steps, pads, spread, strict=True)]
    if min(out) < 1:
        channels = shape[len(shape) - nd - 1]
        raise RuntimeError(
            f"{function}: Given input size: ({'x'.join(map(str, (channels, *inner)))}). Calculated output size: "
            f"({'x'.join(map(str, (channels, *out)))}). Output size is too small: kernel_size={size} does not fit. "
            "Pool less before this, or use an adaptive pool.")
    return size, steps, pads, spread, bool(ceil_mode)


def _refuse(function: str, d: np.dtype, allowed: str) -> None:
    if d.kind == "c" or (not is_float(d) and d.kind not in allowed and d.char not in allowed):
        raise NotImplementedError(f'"{function}" not implemented for {str(dtype_of_array(d))[6:]!r}: convert input to '
                                  'a floating '
                                  "dtype")


# --------------------------------------------------------------------------------- functions


def _functional(samples: Callable, errors: Callable | None = None, namespaces: tuple = ("nn.functional",),
                **options: Any) -> Callable:
    return public(namespaces=namespaces, method=False, out=False, samples=samples, errors=errors, **options)


_SIZES = {1: (9,), 2: (7, 6), 3: (5, 4, 5)}
_LETTERS = {1: "L", 2: "H, W", 3: "D, H, W"}


def _max_pool(nd: int, input: Any, kernel_size: Any, stride: Any, padding: Any, dilation: Any, ceil_mode: bool,
              return_indices: bool) -> Any:
    function = f"max_pool{nd}d"
    t = tensor(input, function)
    d = dtype_of(t)
    if d is not state.f32 and d is not state.f64:
        _refuse(function, d, "" if nd == 1 else "iu")
    params = _plan(function, nd, shape_of(t), _hashable(kernel_size), _hashable(stride), _hashable(padding),
                   _hashable(dilation), ceil_mode)
    if not return_indices and state.special == 0 and not (requires(t) and grad_enabled()):
        return apply1(MAX_VALUES, t, params)       # positions take as long as maxima
    out, indices = apply_n(MAX[nd], [t], params)
    return (out, indices) if return_indices else out


_MAX_DOC = """Maxima over windows.

Args:
    input: (N, C, {letters}) or (C, {letters}).
    kernel_size: of the window, a number or one for each dimension. stride: kernel_size by default.
    padding: -inf on both sides, at most half the kernel. dilation: distance of the window's elements.
    ceil_mode: windows that begin inside may reach beyond the end.
    return_indices: give also the positions of the maxima, int64, counted in the flattened {letters}.

Raises:
    RuntimeError: dimensions, or windows that do not fit.

>>> flambeau.nn.functional.max_pool{nd}d(flambeau.ones({ones}), 2).shape
torch.Size([{shape}])
"""


def _register_max(nd: int) -> Callable:
    size = _SIZES[nd]

    def max_pool(input: Any, kernel_size: Any, stride: Any = None, padding: Any = 0, dilation: Any = 1,
                 ceil_mode: bool = False,
                 return_indices: bool = False) -> Any:
        return _max_pool(nd, input, kernel_size, stride, padding, dilation, ceil_mode, return_indices)

    def with_indices(input: Any, kernel_size: Any, stride: Any = None, padding: Any = 0, dilation: Any = 1,
                     ceil_mode: bool = False, return_indices: bool = False) -> Any:
        return _max_pool(nd, input, kernel_size, stride, padding, dilation, ceil_mode, True)

    max_pool.__name__ = max_pool.__qualname__ = f"max_pool{nd}d"
    with_indices.__name__ = with_indices.__qualname__ = f"max_pool{nd}d_with_indices"
    ones, shape = ", ".join(["1", "1", *["4"] * nd]), ", ".join(["1", "1", *["2"] * nd])
    max_pool.__doc__ = _MAX_DOC.format(nd=nd, letters=_LETTERS[nd], ones=ones, shape=shape)
    with_indices.__doc__ = (f"`max_pool{nd}d` with the positions of the maxima.\n\nReturns:\n    (maxima, int64 "
                            "indices).\n")
    _functional(lambda t: [call(t(2, 3, *size), 2), call(t(3, *size), 3, 2, 1), call(t(2, 2, *size, transposed=True), 2, 1,
                                                                                     dilation=2),
                           call(t(1, 2, *size), 2, ceil_mode=True, return_indices=nd != 1)],
                lambda t: [(call(t(2, 3, *size), 2, padding=2), RuntimeError, "at most half of effective kernel size"),
                           (call(t(2, 3, *size), 19), RuntimeError, "Output size is too small"),
                           (call(t(*size[:1]), 2, padding=0), RuntimeError, "Expected")][:3 if nd > 1 else 2],
                ("nn.functional",))(max_pool)
    public(name=max_pool.__name__, method=False, out=False, samples=lambda t: [call(t(2, 3, *size), 2)])(max_pool)
    _functional(lambda t: [call(t(2, 3, *size), 2)])(with_indices)
    if nd == 1:
        public(name="max_pool1d_with_indices", method=False, out=False,
               samples=lambda t: [call(t(2, 3, *size), 2)])(with_indices)
    return max_pool


max_pool1d, max_pool2d, max_pool3d = _register_max(1), _register_max(2), _register_max(3)

_AVG_DOC = """Means over windows.

Args:
    input: (N, C, {letters}) or (C, {letters}).
    kernel_size: of the window, a number or one for each dimension. stride: kernel_size by default.
    padding: zeros on both sides, at most half the kernel.
    ceil_mode: windows that begin inside may reach beyond the end.
    count_include_pad: the padding counts as elements.{divisor}

Raises:
    RuntimeError: dimensions, or windows that do not fit.

>>> flambeau.nn.functional.avg_pool{nd}d(flambeau.ones({ones}), 2).shape
torch.Size([{shape}])
"""


def _avg_pool(nd: int, input: Any, kernel_size: Any, stride: Any, padding: Any, ceil_mode: bool, count_include_pad: bool,
              divisor_override: int | None) -> Any:
    function = f"avg_pool{nd}d"
    t = tensor(input, function)
    d = dtype_of(t)
    if d is not state.f32 and d is not state.f64:
        _refuse(function, d, "l")
    size, steps, pads, _, ceil = _plan(function, nd, shape_of(t), _hashable(kernel_size), _hashable(stride),
                                       _hashable(padding), 1, ceil_mode)
    if divisor_override == 0:
        raise RuntimeError(f"{function}: divisor must be not zero, got divisor_override=0")
    return apply1(AVG[nd], t, (size, steps, pads, ceil, bool(count_include_pad), divisor_override))


def _register_avg(nd: int) -> Callable:
    size = _SIZES[nd]

    def avg_pool1d(input: Any, kernel_size: Any, stride: Any = None, padding: Any = 0, ceil_mode: bool = False,
                   count_include_pad: bool = True) -> Any:
        return _avg_pool(1, input, kernel_size, stride, padding, ceil_mode, count_include_pad, None)

    def avg_pool(input: Any, kernel_size: Any, stride: Any = None, padding: Any = 0, ceil_mode: bool = False,
                 count_include_pad: bool = True, divisor_override: int | None = None) -> Any:
        return _avg_pool(nd, input, kernel_size, stride, padding, ceil_mode, count_include_pad, divisor_override)

    fn: Callable = avg_pool1d if nd == 1 else avg_pool
    fn.__name__ = fn.__qualname__ = f"avg_pool{nd}d"
    divisor = "" if nd == 1 else "\n    divisor_override: divides the sums instead of the number of elements."
    fn.__doc__ = _AVG_DOC.format(nd=nd, letters=_LETTERS[nd], ones=", ".join(["1", "1", *["4"] * nd]), divisor=divisor,
                                 shape=", ".join(["1", "1", *["2"] * nd]))
    _functional(lambda t: [call(t(2, 3, *size), 2), call(t(3, *size), 3, 2, 1), call(t(2, 2, *size, transposed=True), 2, 1),
                           call(t(1, 2, *size), 3, 2, 1, True, False)],
                lambda t: [(call(t(2, 3, *size), 2, padding=2), RuntimeError, "at most half of effective kernel size"),
                           (call(t(2, 3, *size), 19), RuntimeError, "Output size is too small")],
                ("torch", "nn.functional") if nd == 1 else ("nn.functional",))(fn)
    return fn


avg_pool1d, avg_pool2d, avg_pool3d = _register_avg(1), _register_avg(2), _register_avg(3)


@lru_cache(maxsize=1024)
def _adaptive_plan(function: str, nd: int, shape: tuple, output_size: Any) -> tuple[int, ...]:
    wanted = output_size if isinstance(output_size, tuple) else (output_size,) * nd
    if len(shape) not in (nd + 1, nd + 2) or 0 in shape[len(shape) - nd:]:
        raise RuntimeError(f"{function}: Expected {nd + 1}D or {nd + 2}D tensor with non-zero size for non-batch "
                           f"dimensions, but got {list(shape)}")
    if len(wanted) == 1:
        wanted = wanted * nd
    if len(wanted) != nd:
        raise RuntimeError(f"{function}: output_size must be {nd}: a number, or one for each dimension, got {wanted}")
    inner = shape[len(shape) - nd:]
    out = tuple(n if o is None else integer(o, function, "output_size") for n, o in zip(inner, wanted, strict=True))
    if min(out) < 0:
        raise RuntimeError(f"{function}: elements of output_size must be greater than or equal to 0 but received {out}")
    return out


_ADAPTIVE_DOC = """{what} over as many windows as asked, of nearly equal size.

Window i of n elements in m windows goes from floor(i n / m) to ceil((i + 1) n / m).

Args:
    input: (N, C, {letters}) or (C, {letters}).
    output_size: number of windows, or one for each dimension; None keeps input's size.{indices}

>>> flambeau.nn.functional.adaptive_{name}_pool{nd}d(flambeau.ones({ones}), 2).shape
torch.Size([{shape}])
"""


def _register_adaptive(nd: int) -> None:
    size = _SIZES[nd]
    avg_name, max_name = f"adaptive_avg_pool{nd}d", f"adaptive_max_pool{nd}d"
    ones, over = (1,) * nd, tuple(range(-nd, 0))

    def adaptive_avg_pool(input: Any, output_size: Any) -> Any:
        t = tensor(input, avg_name)
        out = _adaptive_plan(avg_name, nd, shape_of(t), _hashable(output_size))
        if dtype_of(t) is not state.f32 and dtype_of(t) is not state.f64:
            _refuse(avg_name, dtype_of(t), "")
        if out == ones:         # the end of most networks: a mean, as which PyTorch records it too
            return apply1(MEAN, t, (over, True, None))
        return apply1(ADAPTIVE_AVG[nd], t, (out,))

    def adaptive_max_pool(input: Any, output_size: Any, return_indices: bool = False) -> Any:
        t = tensor(input, max_name)
        out = _adaptive_plan(max_name, nd, shape_of(t), _hashable(output_size))
        _refuse(max_name, dtype_of(t), "")
        values, indices = apply_n(ADAPTIVE_MAX[nd], [t], (out,))
        return (values, indices) if return_indices else values

    def with_indices(input: Any, output_size: Any, return_indices: bool = False) -> Any:
        return adaptive_max_pool(input, output_size, True)

    text = {"nd": nd, "letters": _LETTERS[nd], "ones": ", ".join(["1", "1", *["4"] * nd]),
            "shape": ", ".join(["1", "1", *["2"] * nd])}
    adaptive_avg_pool.__doc__ = _ADAPTIVE_DOC.format(what="Means", name="avg", indices="", **text)
    adaptive_max_pool.__doc__ = _ADAPTIVE_DOC.format(
        what="Maxima", name="max", **text,
        indices="\n    return_indices: give also the positions of the maxima in the flattened spatial dimensions.")
    with_indices.__doc__ = f"`{max_name}` with the positions of the maxima.\n\nReturns:\n    (maxima, int64 indices).\n"
    for fn, name in ((adaptive_avg_pool, avg_name), (adaptive_max_pool, max_name),
                     (with_indices, max_name + "_with_indices")):
        fn.__name__ = fn.__qualname__ = name
    wide: Any = 3 if nd == 1 else (3, *[None] * (nd - 1))
    _functional(lambda t: [call(t(2, 3, *size), 2), call(t(3, *size), wide), call(t(2, 2, *size, transposed=True), 1)],
                lambda t: [(call(t(2, 3, *size), -1), RuntimeError, "greater than or equal to 0")],
                ("torch", "nn.functional") if nd == 1 else ("nn.functional",))(adaptive_avg_pool)
    _functional(lambda t: [call(t(2, 3, *size), 2), call(t(3, *size), wide, True)])(adaptive_max_pool)
    _functional(lambda t: [call(t(2, 3, *size), 2)])(with_indices)
    if nd == 1:
        public(name=max_name, method=False, out=False, samples=lambda t: [call(t(2, 3, *size), 2)])(with_indices)
    GLOBALS[avg_name], GLOBALS[max_name] = adaptive_avg_pool, adaptive_max_pool


GLOBALS: dict[str, Callable] = {}
for _nd in (1, 2, 3):
    _register_adaptive(_nd)


# --------------------------------------------------------------------------------- power means


def _lp_pool(nd: int, input: Any, norm_type: float, kernel_size: Any, stride: Any, ceil_mode: bool) -> Any:
    t: Any = tensor(input, f"lp_pool{nd}d")
    size = _ints(f"lp_pool{nd}d", kernel_size, nd, "kernel_size")
    if norm_type == float("inf"):
        return _max_pool(nd, t.abs(), size, stride, 0, 1, ceil_mode, False)
    if norm_type == -float("inf"):
        return -_max_pool(nd, -t.abs(), size, stride, 0, 1, ceil_mode, False)
    out = _avg_pool(nd, t.pow(norm_type), size, stride, 0, ceil_mode, True, None)
    count = 1
    for k in size:
        count *= k
    return (out.sign() * out.abs().relu() * count).pow(1.0 / norm_type)


def _register_lp(nd: int) -> None:
    size = _SIZES[nd]

    def lp_pool(input: Any, norm_type: float, kernel_size: Any, stride: Any = None, ceil_mode: bool = False) -> Any:
        return _lp_pool(nd, input, norm_type, kernel_size, stride, ceil_mode)

    lp_pool.__name__ = lp_pool.__qualname__ = f"lp_pool{nd}d"
    lp_pool.__doc__ = ("The norm of windows: (sum of input^p)^(1/p), p being norm_type.\n\nArgs:\n    input: (N, C, "
                       f"{_LETTERS[nd]}) or (C, {_LETTERS[nd]}).\n    norm_type: the power p; inf gives maxima.\n    "
                       f"kernel_size, stride, ceil_mode: as for `avg_pool{nd}d`.\n")
    _functional(lambda t: [call(t(2, 3, *size, low=0.3), 2, 2), call(t(3, *size, low=0.3), 1.5, 3, 2)])(lp_pool)


for _nd in (1, 2, 3):
    _register_lp(_nd)


# --------------------------------------------------------------------------------- unpooling


def _unpool(nd: int, input: Any, indices: Any, kernel_size: Any, stride: Any, padding: Any, output_size: Any) -> Any:
    function = f"max_unpool{nd}d"
    t, at = tensor(input, function), tensor(indices, function, "indices", 2)
    size = _ints(function, kernel_size, nd, "kernel_size")
    steps = size if stride is None else _ints(function, stride, nd, "stride")
    pads = _ints(function, padding, nd, "padding")
    shape = shape_of(t)
    if dtype_of(at) != np.int64:
        raise RuntimeError(f"{function}: elements in indices should be type int64 but got: {dtype_of(at).name}. Use "
                           "indices.long().")
    if len(shape) not in (nd + 1, nd + 2):
        raise RuntimeError(f"{function}: Input to {function} should be a {nd + 1}d or {nd + 2}d Tensor, but got a "
                           f"tensor with {len(shape)} dimensions")
    if shape != shape_of(at):
        raise RuntimeError(f"{function}: Expected shape of indices to be same as that of the input, {list(shape)}, "
                           f"and it is {list(shape_of(at))}. Pass both as the pooling with return_indices=True "
                           "returned them.")
    natural = [(n - 1) * s + k - 2 * p for n, s, k, p in zip(shape[len(shape) - nd:], steps, size, pads, strict=True)]
    if output_size is None:
        return apply_n(UNPOOL[nd], [t, at], (tuple(natural),))
    wanted = tuple(integer(v, function, "output_size") for v in output_size)
    if len(wanted) in (nd + 1, nd + 2):
        wanted = wanted[len(wanted) - nd:]
    if len(wanted) != nd:
        raise ValueError(f"{function}: output_size should be a sequence containing {nd} or {nd + 2} elements, but it "
                         f"has a length of '{len(wanted)}'")
    for i, (n, w, s) in enumerate(zip(natural, wanted, steps, strict=True)):
        if not n - s < w < n + s:
            raise ValueError(f'{function}: invalid output_size "{wanted}" (dim {i} must be between {n - s} and {n + s})')
    return apply_n(UNPOOL[nd], [t, at], (wanted,))


def _unpool_samples(nd: int) -> Callable:
    def samples(t: Any) -> list:
        shape = (1, 2, *(2,) * nd)
        n = 2 ** nd
        indices = t(values=np.stack([np.arange(n) * 2 % (4 ** nd), np.arange(n)[::-1].copy()]).reshape(shape), dtype="int64",
                    grad=False)
        return [call(t(*shape), indices, 2), call(t(*shape), indices, 2, output_size=(4,) * nd)]

    return samples


def _register_unpool(nd: int) -> None:
    def max_unpool(input: Any, indices: Any, kernel_size: Any, stride: Any = None, padding: Any = 0,
                   output_size: Any = None) -> Any:
        return _unpool(nd, input, indices, kernel_size, stride, padding, output_size)

    max_unpool.__name__ = max_unpool.__qualname__ = f"max_unpool{nd}d"
    max_unpool.__doc__ = (f"Puts maxima back where `max_pool{nd}d` found them, zeros elsewhere.\n\nArgs:\n    input, "
                          f"indices: the maxima (N, C, {_LETTERS[nd]}) and their positions, int64.\n    kernel_size, "
                          "stride, padding: of the pooling.\n    output_size: the pooled input's shape, where several "
                          "shapes give the same output.\n\n"
                          "Raises:\n    RuntimeError: an index outside the output. ValueError: an output_size that the "
                          "pooling cannot have had.\n")
    _functional(_unpool_samples(nd))(max_unpool)


for _nd in (1, 2, 3):
    _register_unpool(_nd)
