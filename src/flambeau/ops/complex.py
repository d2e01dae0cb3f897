"""Complex tensors: parts, conjugate, angle, and how they are made."""

from __future__ import annotations

from typing import Any

import numpy as np

from flambeau.core.apply import apply1, apply_n
from flambeau.core.objects import dtype_of
from flambeau.kernels import pointwise as k
from flambeau.kernels.casting import converted
from flambeau.kernels.operand_order import follow

from ._args import tensor
from ._pointwise import tensors_only
from ._record import KERNEL, call, kernels, ops, primitive, public
from ._shapes import complex_of, elementwise

CONJ = primitive("conj", lambda a: np.conjugate(a), pointwise=True, same_dtype=True, expr="conj(self)",
                 self=lambda xp, g: xp.conj(g))
kernels.conj = lambda a: np.conjugate(a) if a.dtype.kind == "c" else a
ops.conj = lambda t: apply1(CONJ, t) if dtype_of(t).kind == "c" else t

# Views of the parts; the gradient of a part goes to that part
REAL = primitive("real", lambda a: a.real, view=True,
batch="leading", expr="real(self)", node="SelectBackward0", self=lambda xp, g: g)
IMAG = primitive("imag", lambda a: a.imag, view=True,
batch="leading", expr="imag(self)", node="SelectBackward0", self=lambda xp, g: g * 1j)
kernels.real = lambda a: a.real if a.dtype.kind == "c" else a
ops.real = lambda t: apply1(REAL, t) if dtype_of(t).kind == "c" else t
kernels.imag = lambda a: a.imag if a.dtype.kind == "c" else np.zeros_like(a)
ops.imag = lambda t: apply1(IMAG, t) if dtype_of(t).kind == "c" else ops.zeros_like(t)


def _complex_samples(t: Any) -> list:
    return [call(t(3, 4, dtype="complex128")), call(t(dtype="complex128"))]


@public(op=CONJ, out=False, samples=_complex_samples)
def conj(input: Any) -> Any:
    """The complex conjugate, elementwise; input itself when it is real.

    >>> flambeau.conj(flambeau.tensor([1 + 2j])).tolist()
    [(1-2j)]
    """
    return apply1(CONJ, input) if dtype_of(tensor(input, "conj")).kind == "c" else input


@public(inplace=True, samples=_complex_samples)
def conj_physical(input: Any) -> Any:
    """The complex conjugate, elementwise, in memory of its own; input itself when it is real.

    >>> flambeau.conj_physical(flambeau.tensor([1 + 2j])).tolist()
    [(1-2j)]
    """
    return conj(input)


@public(out=False, samples=_complex_samples)
def resolve_conj(input: Any) -> Any:
    """input: conjugates are computed at once, never left pending.

    >>> flambeau.resolve_conj(flambeau.tensor([1 + 2j])).tolist()
    [(1+2j)]
    """
    return tensor(input, "resolve_conj")


@public(out=False, samples=_complex_samples)
def resolve_neg(input: Any) -> Any:
    """input: negation is computed at once, never left pending.

    >>> flambeau.resolve_neg(flambeau.tensor([1.])).tolist()
    [1.0]
    """
    return tensor(input, "resolve_neg")


@public(out=False, differentiable=False, samples=_complex_samples)
def is_conj(input: Any) -> bool:
    """Whether a conjugate is pending: never, it is computed at once.

    >>> flambeau.is_conj(flambeau.tensor([1j]))
    False
    """
    tensor(input, "is_conj")
    return False


@public(out=False, differentiable=False, samples=_complex_samples)
def is_neg(input: Any) -> bool:
    """Whether a negation is pending: never, it is computed at once.

    >>> flambeau.is_neg(flambeau.tensor([1.]))
    False
    """
    tensor(input, "is_neg")
    return False


@public(op=REAL, method=False, out=False, samples=_complex_samples)
def real(input: Any) -> Any:
    """The real part, a view of input; input itself when it is real.

    >>> flambeau.real(flambeau.tensor([1 + 2j])).tolist()
    [1.0]
    """
    return ops.real(tensor(input, "real"))


@public(op=IMAG, method=False, out=False, samples=_complex_samples)
def imag(input: Any) -> Any:
    """The imaginary part, a view of input.

    Raises:
        RuntimeError: input is real.

    >>> flambeau.imag(flambeau.tensor([1 + 2j])).tolist()
    [2.0]
    """
    if dtype_of(tensor(input, "imag")).kind != "c":
        raise RuntimeError("imag is not implemented for tensors of real dtypes, as they have no imaginary part. "
                           "Make one with torch.zeros_like, or convert with .to(torch.complex64) first.")
    return apply1(IMAG, input)


def _angle(a: np.ndarray) -> np.ndarray:
    if a.dtype.kind == "c":
        return np.asarray(np.angle(a))
    return np.where(np.isnan(a), a, np.where(np.less(a, k.ZEROS[a.dtype]), k.scalar(np.pi, a.dtype), k.ZEROS[a.dtype]))


def _angle_backward(xp: Any, g: Any, z: Any) -> Any:
    if not xp.is_complex(z):
        return xp.zeros_like(g)
    square = xp.real(z * xp.conj(z))
    return xp.drop(z * 1j * (g / square), square == 0)


ANGLE = primitive("angle", _angle, pointwise=True, float_result=True, expr=KERNEL,
                  self=lambda xp, g, self: _angle_backward(xp, g, self))


@public(op=ANGLE, samples=_complex_samples)
def angle(input: Any) -> Any:
    """The angle of complex numbers in radians, elementwise; 0 or pi for real ones, by sign.

    >>> flambeau.angle(flambeau.tensor([1.])).tolist()
    [0.0]
    """
    return apply1(ANGLE, tensor(input, "angle"))


def _complex(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    if a.flags.c_contiguous and b.flags.c_contiguous:
        x = np.empty(np.broadcast_shapes(a.shape, b.shape), k.C128 if a.dtype is k.F64 else k.C64)
    else:
        x = converted(follow(np.add(a, b), a, b), k.C128 if a.dtype is k.F64 else k.C64)
    x.real, x.imag = a, b
    return x


COMPLEX = primitive("complex", _complex, inputs=("real", "imag"), meta=elementwise(2, complex_of),
batch="pointwise", expr=KERNEL,
                    real=lambda xp, g: xp.real(g), imag=lambda xp, g: xp.imag(g))


def _check_parts(name: str, a: Any, b: Any, second: str) -> None:
    tensors_only(name, a, b, second)
    da, db = dtype_of(a), dtype_of(b)
    if da.kind not in "fV" or db.kind not in "fV":
        raise RuntimeError("Expected both inputs to be Half, Float or Double, one real dtype for the two parts, "
                           f"and they are {da} and {db}. Convert them with .float().")
    if da != db:
        raise RuntimeError(f"Expected object of scalar type {da} but got scalar type {db} for second argument")


@public(op=COMPLEX, method=False, samples=lambda t: [call(t(3, 4), t(3, 4)), call(t(3, 1), t(4))])
def complex(real: Any, imag: Any) -> Any:
    """real + 1j * imag, elementwise, with broadcasting.

    Raises:
        RuntimeError: the parts are not floating tensors of one dtype.

    >>> flambeau.complex(flambeau.tensor([1.]), flambeau.tensor([2.])).tolist()
    [(1+2j)]
    """
    _check_parts("complex", real, imag, "imag")
    return apply_n(COMPLEX, [real, imag])


def _polar(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    return _complex(a * np.cos(b), a * np.sin(b))


POLAR = primitive("polar", _polar, inputs=("abs", "angle"), meta=elementwise(2, complex_of), batch="pointwise", expr=KERNEL,
                  abs=lambda xp, g, angle: xp.real(xp.conj(g) * xp.complex(xp.cos(angle), xp.sin(angle))),
                  angle=lambda xp, g, out: xp.real(xp.conj(g) * (out * 1j)))


@public(op=POLAR, method=False, samples=lambda t: [call(t(3, 4, low=0.3, high=2.0), t(3, 4))])
def polar(abs: Any, angle: Any) -> Any:
    """abs * (cos(angle) + 1j sin(angle)), elementwise, with broadcasting.

    Raises:
        RuntimeError: abs and angle are not floating tensors of one dtype.

    >>> flambeau.polar(flambeau.tensor([2.]), flambeau.tensor([0.])).tolist()
    [(2+0j)]
    """
    _check_parts("polar", abs, angle, "angle")
    return apply_n(POLAR, [abs, angle])
