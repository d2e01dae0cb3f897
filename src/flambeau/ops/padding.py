"""constant_pad_nd and nn.functional.pad with all its modes."""

from __future__ import annotations

from typing import Any

import numpy as np

from flambeau.core.apply import apply1
from flambeau.core.objects import array_of, dtype_of, shape_of
from flambeau.kernels import padding
from flambeau.kernels.promotion import check_fits

from ._args import sizes as as_sizes
from ._args import tensor, word
from ._meta import Meta
from ._record import KERNEL, call, primitive, public
from ._shapes import like, shaped


def _padded(self: Meta, pad: tuple, *_: Any) -> Meta:
    return Meta(padding.padded_shape(self.shape, pad), self.dtype)


CONSTANT = primitive(
    "constant_pad_nd",
    padding.constant_pad,
    params=("pad", "value"),
    scalars=("value",),
    meta=_padded,
    batch="leading", expr=KERNEL,
    self=lambda xp, g, pad: xp.constant_pad_nd(g, tuple([-p for p in pad]), 0),
)
# One primitive for each name that PyTorch's nodes have. As in PyTorch, the gradient formally depends on the input, with
# derivative zero: it can be differentiated again even where nothing else depends on the input.
_MODES = {("reflect", k): f"ReflectionPad{k}DBackward0" for k in (1, 2, 3)}
_MODES |= {("replicate", k): f"ReplicationPad{k}DBackward0" for k in (1, 2, 3)}
PADS = {
    key: primitive(
        f"{key[0]}_pad{key[1]}d",
        padding.pad,
        params=("pad", "mode"),
        meta=_padded,
        batch="items", expr=KERNEL,
        node=node,
        self=lambda xp, g, self, pad, mode: xp.pad_backward(g, self, pad, mode),
    )
    for key, node in _MODES.items()
}
CIRCULAR = primitive(
    "circular_pad",
    padding.pad,
    params=("pad", "mode"),
    meta=_padded,
    batch="items", expr=KERNEL,
    node="CopySlices",
    self=lambda xp, g, self_shape, pad, mode: xp.circular_pad_backward(g, tuple(self_shape), pad, mode),
)
primitive(
    "circular_pad_backward",
    padding.pad_backward,
    params=("shape", "pad", "mode"),
    meta=shaped(),
    batch="items", expr=KERNEL,
    self=lambda xp, g, pad, mode: xp.circular_pad(g, pad, mode),
)
primitive(
    "pad_again",
    padding.pad,
    params=("pad", "mode"),
    meta=_padded,
    batch="items", expr=KERNEL,
    self=lambda xp, g, self, pad, mode: xp.pad_backward(g, self, pad, mode),
)
primitive(
    "pad_backward",
    lambda g, a, pad, mode: padding.pad_backward(g, a.shape, pad, mode),
    inputs=("grad_output", "self"),
    params=("pad", "mode"),
    meta=like(input=1),
    batch="items", expr=KERNEL,
    grad_output=lambda xp, g, pad, mode: xp.pad_again(g, pad, mode),
    self=lambda xp, g, self_shape, self_dtype: xp.zeros_of(tuple(self_shape), self_dtype, g),
)


def _number(value: Any) -> Any:
    return np.asarray(array_of(value)).item() if hasattr(value, "_array") else value


@public(
    out=False,
    method=False,
    samples=lambda t: [call(t(2, 3), (1, 2)), call(t(2, 3), (1, -1, 0, 2), 1.5), call(t(2, 3), ())],
    errors=lambda t: [
        (call(t(3), (1, 1, 1, 1)), RuntimeError, "Length of pad"),
        (call(t(3), (-2, -2)), RuntimeError, "negative output size"),
    ],
)
def constant_pad_nd(input: Any, pad: Any, value: Any = 0) -> Any:
    """input with a constant around it.

    Args:
        pad: before and after for the last dimension, then for the one before it, and so on; negative numbers crop.
        value: the constant.

    >>> flambeau.constant_pad_nd(flambeau.tensor([1, 2]), (1, 0)).tolist()
    [0, 1, 2]
    """
    pads = as_sizes((pad,))
    n = len(shape_of(tensor(input, "constant_pad_nd")))
    check_fits(value, dtype_of(input))
    if len(pads) % 2:
        raise RuntimeError("Length of pad must be even but instead it equals " + str(len(pads)))
    if len(pads) > 2 * n:
        raise RuntimeError(
            f"Length of pad should be no more than twice the number of dimensions: pad has {len(pads)} entries, two "
            f"for each padded dimension, and the input has {n} dimensions."
        )
    return apply1(CONSTANT, input, (pads, _number(value)))


def _check_size(mode: str, shape: tuple, pads: tuple) -> None:
    for k in range(len(pads) // 2):
        axis, before, after = len(shape) - 1 - k, pads[2 * k], pads[2 * k + 1]
        n = shape[axis]
        if mode == "reflect" and (before >= n or after >= n):
            raise RuntimeError(
                f"Padding size should be less than the size of the dimension it reflects: padding ({before}, "
                f"{after}) (argument #{4 + 2 * k}) at dimension {axis} of input {list(shape)}"
            )
        if mode == "circular" and (before > n or after > n):
            raise RuntimeError(
                "Padding value causes wrapping around more than once: padding "
                f"({before}, {after}) at dimension {axis} of input {list(shape)}"
            )
        if mode == "circular" and n + before + after < 0:
            raise RuntimeError(
                f"Negative padding value is resulting in an empty dimension: dimension {axis} of {list(shape)}"
            )
        if n + before + after < 1:
            raise RuntimeError(
                f"input (of shape {list(shape)}) is too small for padding ({before}, {after}) at dimension {axis}: "
                f"the calculated output size is {n + before + after}"
            )
        if n == 0:
            raise RuntimeError(f"Expected a non-empty input for {mode} padding, but got shape {list(shape)}")


def _pad_samples(t: Any) -> list:
    found = [call(t(2, 3), (1, 2)), call(t(2, 3), (1, -1, 0, 2), "constant", 1.5), call(t(2, 3), (0, 1), value=2.0)]
    for mode in ("reflect", "replicate", "circular"):
        found += [
            call(t(2, 3, 4), (1, 2), mode),
            call(t(3, 4), (2, 0), mode=mode),
            call(t(1, 2, 3, 4), (1, 2, 2, 1), mode),
            call(t(1, 1, 3, 3, 3), (1, 1, 1, 0, 0, 2), mode),
        ]
    return found


@public(
    namespaces=("nn.functional",),
    method=False,
    out=False,
    samples=_pad_samples,
    errors=lambda t: [
        (call(t(2, 3), (1, 1, 1)), RuntimeError, "Padding length must be divisible by 2"),
        (call(t(2, 3, 4), (5, 5), "reflect"), RuntimeError, "Padding size should be less than"),
        (call(t(4), (1, 1), "reflect"), NotImplementedError, "Supported combinations"),
        (call(t(2, 3, 4), (1, 1), "foo"), NotImplementedError, "Unrecognised padding mode"),
    ],
)
def pad(input: Any, pad: Any, mode: str = "constant", value: Any = None) -> Any:
    """input with elements around it.

    Args:
        pad: before and after for the last dimension, then for the one before it, and so on; negative numbers crop.
        mode: "constant"; "reflect": mirrored at the edge element, which is not repeated; "replicate": the edge element;
            "circular": the other end. All but "constant" pad the last 1, 2 or 3 dimensions of inputs that have one or two
            dimensions more.
        value: the constant; default 0.

    Raises:
        RuntimeError: pad has an odd length, or is too large for the mode.
        NotImplementedError: unknown mode, or a number of dimensions that the mode does not pad.

    >>> flambeau.nn.functional.pad(flambeau.tensor([1, 2]), (1, 1)).tolist()
    [0, 1, 2, 0]
    """
    pads = as_sizes((pad,))
    shape = tuple(shape_of(tensor(input, "pad")))
    if len(pads) % 2:
        raise RuntimeError(f"Padding length must be divisible by 2: pad has {len(pads)} numbers")
    if len(pads) > 2 * len(shape):
        raise RuntimeError(
            f"Padding length should be at most twice the number of dimensions: pad has {len(pads)} entries and the "
            f"input has {len(shape)} dimensions"
        )
    if mode == "constant":
        return apply1(CONSTANT, input, (pads, 0 if value is None else _number(value)))
    if value is not None and value != 0:
        raise RuntimeError(f'Padding mode "{mode}" doesn\'t take in value argument')
    if word(mode, "pad", "mode") not in ("reflect", "replicate", "circular"):
        raise NotImplementedError(f"Unrecognised padding mode {mode}: use constant, reflect, replicate or circular")
    k = len(pads) // 2
    if k not in (1, 2, 3) or len(shape) not in (k + 1, k + 2):
        raise NotImplementedError(
            f"Padding size {len(pads)} is not supported for {len(shape)}D input tensor.\nSupported combinations for "
            "non-constant padding:\n  - 2D or 3D input: padding size = 2 (pads last dimension)\n  - 3D or 4D input: padding "
            "size = 4 (pads last 2 dimensions)\n  - 4D or 5D input: padding size = 6 (pads last 3 dimensions)"
        )
    _check_size(mode, shape, pads)
    return apply1(CIRCULAR if mode == "circular" else PADS[mode, k], input, (pads, mode))
