"""Images resized: interpolate, and its old names upsample_*. (Pixel and channel shuffles are in `rearranging`.)"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from flambeau.core.apply import apply1
from flambeau.core.dtype import dtype_of_array
from flambeau.core.objects import dtype_of, shape_of
from flambeau.core.op import Op
from flambeau.core.origin import warn_user
from flambeau.kernels import resample as kernel
from flambeau.kernels.services import is_float

from ._args import integer, number, tensor
from ._meta import Meta
from ._record import KERNEL, call, primitive, public
from ._shapes import shaped, spatial
from .pooling import GLOBALS as _POOLS

_PARAMS = ("size", "mode", "align_corners", "scales", "antialias")
_NODES = {("nearest", 1): "UpsampleNearest1D", ("nearest", 2): "UpsampleNearest2D", ("nearest", 3): "UpsampleNearest3D",
          ("nearest-exact", 1): "UpsampleNearestExact1D", ("nearest-exact", 2): "UpsampleNearestExact2D",
          ("nearest-exact", 3): "UpsampleNearestExact3D", ("linear", 1): "UpsampleLinear1D",
          ("bilinear", 2): "UpsampleBilinear2D",
          ("trilinear", 3): "UpsampleTrilinear3D", ("bicubic", 2): "UpsampleBicubic2D"}
_KINDS = {"nearest": "nearest", "nearest-exact": "nearest-exact", "linear": "linear", "bilinear": "linear",
          "trilinear": "linear", "bicubic": "cubic"}


def _formula(xp: Any, g: Any, self_shape: tuple, mode: str, align_corners: bool, scales: tuple, antialias: bool) -> Any:
    return xp.resample_backward(g, self_shape, mode, align_corners, scales, antialias)


def _resampled(self: Meta, size: tuple, *_: Any) -> Meta:
    return spatial(self, size)


def _op(node: str) -> Op:
    return primitive(f"resample_{node.lower()}", kernel.resample, params=_PARAMS, node=node + "Backward0", meta=_resampled,
                     batch="items", expr=KERNEL,
                     self=_formula)


RESAMPLE = {key: _op(node) for key, node in _NODES.items()}
primitive("resample", kernel.resample, params=_PARAMS, meta=_resampled, batch="items", expr=KERNEL, self=_formula)
primitive("resample_backward", kernel.resample_backward, params=("shape", *_PARAMS[1:]), meta=shaped(),
batch="items", expr=KERNEL,
          self=lambda xp, g, self_shape, mode, align_corners, scales, antialias:
          xp.resample(g, tuple(self_shape[2:]), mode, align_corners, scales, antialias))


def _functional(samples: Callable, errors: Callable | None = None, namespaces: tuple = ("nn.functional",)) -> Callable:
    return public(namespaces=namespaces, method=False, out=False, samples=samples, errors=errors)


# --------------------------------------------------------------------------------- interpolate


def _per_dimension(value: Any, n: int, what: str, inner: tuple) -> tuple:
    if not isinstance(value, (tuple, list)):
        return (value,) * n
    if len(value) != n:
        raise ValueError(f"interpolate: {what} must have one value for each spatial dimension of the input; the "
                         f"input is read as (N, C, d1, d2, ...) and its spatial dimensions are {list(inner)}, while "
                         f"{what} is {tuple(value)}.")
    return tuple(value)


def _sizes(inner: tuple, size: Any, scale_factor: Any, mode: str, recompute: bool | None) -> tuple[tuple, tuple]:
    """(sizes of the result, scale factors that its geometry uses or None)."""
    n = len(inner)
    if size is not None and scale_factor is not None:
        raise ValueError("interpolate: only one of size or scale_factor should be defined")
    if size is None and scale_factor is None:
        raise ValueError("interpolate: either size or scale_factor should be defined")
    if size is not None:
        if recompute:
            raise ValueError("recompute_scale_factor is not meaningful beside size, which already fixes the scale. "
                             "Drop one of them.")
        sizes = _per_dimension(size, n, "output size", inner)
        if any(isinstance(s, float) for s in sizes):
            raise TypeError(f"interpolate: expected size to be one of int or a tuple of {n} ints, but got {sizes}")
        return tuple(integer(s, "interpolate", "size") for s in sizes), (None,) * n
    factors = tuple(number(f, "interpolate", "scale_factor") for f in _per_dimension(scale_factor, n, "scale_factor", inner))
    sizes = tuple(int(s * f) for s, f in zip(inner, factors, strict=True))
    return sizes, (None,) * n if recompute or mode == "area" else factors


def _samples(t: Any) -> list:
    return [call(t(1, 2, 5), size=8), call(t(1, 2, 5, 4), scale_factor=2.0), call(t(1, 2, 5, 4), (3, 7), mode="bilinear"),
            call(t(1, 2, 3, 4), scale_factor=1.7, mode="bilinear", align_corners=True),
            call(t(1, 2, 3, 4), (5, 6), mode="bicubic"),
            call(t(1, 2, 5), scale_factor=0.6, mode="linear"), call(t(1, 1, 3, 2, 3), size=4, mode="trilinear"),
            call(t(1, 2, 6, 6), size=(3, 2), mode="area"), call(t(1, 2, 7, 6), size=3, mode="bilinear", antialias=True),
            call(t(1, 1, 2, 3), size=5, mode="nearest-exact")]


@_functional(_samples, lambda t: [
    (call(t(1, 2, 3)), ValueError, "either size or scale_factor"),
    (call(t(1, 2, 3), 2, 2.0), ValueError, "only one of size or scale_factor"),
    (call(t(1, 2, 3, 3), (2,)), ValueError, "one value for each spatial dimension"),
    (call(t(1, 2, 3, 3), 2, mode="linear"), NotImplementedError, "Got 4D input, but linear mode needs 3D input"),
    (call(t(1, 2, 3, 3), 0), RuntimeError, "should be greater than 0"),
    (call(t(1, 2, 3, 3), 2, align_corners=True), ValueError, "align_corners")])
def interpolate(input: Any, size: Any = None, scale_factor: Any = None, mode: str = "nearest",
                align_corners: bool | None = None, recompute_scale_factor: bool | None = None,
                antialias: bool = False) -> Any:
    """Resamples the spatial dimensions to a size, or by a factor.

    Args:
        input: (N, C, L), (N, C, H, W) or (N, C, D, H, W).
        size: of the result's spatial dimensions, or scale_factor: a number, or one for each dimension.
        mode: "nearest", "nearest-exact", "area", "linear" (3D input), "bilinear" or "bicubic" (4D), "trilinear" (5D).
        align_corners: the centres of the corner elements keep their places, instead of the outer corners.
        recompute_scale_factor: take the factor from the sizes, rounded.
        antialias: average while shrinking; "bilinear" and "bicubic" only.

    Raises:
        ValueError, NotImplementedError, RuntimeError: sizes, modes and dimensions that do not fit.

    >>> flambeau.nn.functional.interpolate(flambeau.tensor([[[1., 2.]]]), scale_factor=2).tolist()
    [[[1.0, 1.0, 2.0, 2.0]]]
    """
    t = tensor(input, "interpolate")
    shape = shape_of(t)
    n = len(shape) - 2
    if align_corners is not None and mode in ("nearest", "area", "nearest-exact"):
        raise ValueError("align_corners only means something where values are interpolated (linear, bilinear, "
                         f"bicubic, trilinear), not with {mode}. Leave it out.")
    sizes, scales = _sizes(shape[2:], size, scale_factor, mode, recompute_scale_factor)
    if antialias and not (mode in ("bilinear", "bicubic") and n == 2):
        raise ValueError("interpolate: antialias is restricted to bilinear and bicubic modes and 4-D input, got "
                         f"{mode} and {n + 2}-D")
    if mode == "area" and n in (1, 2, 3):
        return _POOLS[f"adaptive_avg_pool{n}d"](t, sizes)
    if (mode, n) not in RESAMPLE:
        needed = {"linear": 3, "bilinear": 4, "trilinear": 5}.get(mode)
        if n in (1, 2, 3) and needed:
            raise NotImplementedError(f"Got {n + 2}D input, but {mode} mode needs {needed}D input")
        raise NotImplementedError(
            "Input Error: Only 3D, 4D and 5D input Tensors supported for the modes: nearest | linear | bilinear | "
            f"bicubic | trilinear | area | nearest-exact (got {n + 2}D and {mode})")
    if min(sizes) <= 0 or 0 in shape[2:]:
        raise RuntimeError("Input and output sizes should be greater than 0: the input has spatial size "
                           f"{shape[2:]}, the output {sizes}")
    d = dtype_of(t)
    if d.kind == "c" or (not is_float(d) and d.name != "uint8"):
        raise NotImplementedError(f'"{_NODES[mode, n]}" not implemented for {str(dtype_of_array(d))[6:]!r}: convert '
                                  'input to a '
                                  "floating dtype")
    return apply1(RESAMPLE[mode, n], t, (sizes, _KINDS[mode], bool(align_corners), scales, antialias))


def _deprecated(name: str) -> None:
    warn_user(f"`nn.functional.{name}` is deprecated. Use `nn.functional.interpolate` "
              "instead.")


@_functional(lambda t: [call(t(1, 2, 3), scale_factor=2)])
def upsample(input: Any, size: Any = None, scale_factor: Any = None, mode: str = "nearest",
             align_corners: bool | None = None) -> Any:
    """The old name of `interpolate`."""
    _deprecated("upsample")
    return interpolate(input, size, scale_factor, mode, align_corners)


@_functional(lambda t: [call(t(1, 2, 3), scale_factor=2)])
def upsample_nearest(input: Any, size: Any = None, scale_factor: Any = None) -> Any:
    """The old name of `interpolate` with mode "nearest"."""
    _deprecated("upsample_nearest")
    return interpolate(input, size, scale_factor)


@_functional(lambda t: [call(t(1, 2, 3, 3), scale_factor=2)])
def upsample_bilinear(input: Any, size: Any = None, scale_factor: Any = None) -> Any:
    """The old name of `interpolate` with mode "bilinear" and aligned corners."""
    _deprecated("upsample_bilinear")
    return interpolate(input, size, scale_factor, "bilinear", True)
