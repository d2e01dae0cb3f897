"""Forward mode: dual tensors carry a value and a tangent through the program.

    with dual_level():
        x = make_dual(primal, direction)
        y, derivative = unpack_dual(f(x))
"""

from __future__ import annotations

from typing import Any, NamedTuple

from flambeau.core.apply import apply1
from flambeau.core.interception import FORWARD_MODE, register, unregister
from flambeau.core.objects import TensorBase, dtype_of, is_mapped, shape_of
from flambeau.core.saved import ALIAS
from flambeau.core.state import local, state

from ._forward_rules import intercept
from ._modes import Mode
from ._tangents import Level, _levels, off, set_aligned, tangent_of

_current_level = -1


class UnpackedDualTensor(NamedTuple):
    """What unpack_dual returns: `tangent` is None for a tensor that carries none."""

    primal: Any
    tangent: Any


def enter_dual_level() -> int:
    """Start forward mode; returns the level. Prefer `with dual_level():`.

    Raises:
        RuntimeError: a level is active: nested forward mode is not supported.
    """
    global _current_level
    if _levels:
        raise RuntimeError("Nested forward mode AD is not supported at the moment: leave the dual_level that is "
                           "active first")
    _levels.append(Level())
    _current_level = 0
    register(FORWARD_MODE, intercept)
    return 0


def exit_dual_level(*, level: int | None = None) -> None:
    """End forward mode: every tangent is dropped."""
    global _current_level
    if level is None:
        level = _current_level
    if not _levels or level != _current_level:
        raise RuntimeError(
            "Forward AD levels must be left in reverse order: this is not the newest. This is not supported.")
    ended = _levels.pop()
    _current_level = -1
    unregister(FORWARD_MODE, intercept)
    for ref in ended.tensors:
        t = ref()
        if t is not None:
            t._tangent = None


class dual_level(Mode):
    """Forward mode inside a block.

    >>> import flambeau.autograd.forward_ad as fwAD
    >>> with fwAD.dual_level():
    ...     x = fwAD.make_dual(flambeau.tensor(3.0), flambeau.tensor(1.0))
    ...     fwAD.unpack_dual(x * x).tangent.item()
    6.0
    """

    def __enter__(self) -> int:
        return enter_dual_level()

    def __exit__(self, *error: Any) -> None:
        exit_dual_level()


def make_dual(tensor: Any, tangent: Any, *, level: int | None = None) -> Any:
    """A tensor with the values of `tensor` that carries `tangent`.

    Args:
        tensor: floating or complex tensor.
        tangent: tensor of the same shape and dtype.

    Raises:
        RuntimeError: no level is active, or the shapes differ.
        ValueError: one of them is not floating.
    """
    if (_current_level if level is None else level) < 0 or not _levels:
        raise RuntimeError(
            "Trying to create a dual Tensor outside of a level of forward AD. Do it inside `with "
            "forward_ad.dual_level():`.")
    for what, t in (("primal", tensor), ("tangent", tangent)):
        if not isinstance(t, TensorBase):
            raise TypeError(f"make_dual(): {what} must be a Tensor, not {type(t).__name__}")
        if not state.is_float(dtype_of(t)):
            raise ValueError(f"Expected {what} to be floating point or complex, but got: {t.dtype}")
    if tuple(shape_of(tensor)) != tuple(shape_of(tangent)):
        raise RuntimeError(
            f"Trying to set a forward gradient that has a different size: the Tensor has size {list(shape_of(tensor))} and "
            f"its tangent {list(shape_of(tangent))}. Expand or reshape the tangent.")
    if dtype_of(tensor) != dtype_of(tangent):
        raise RuntimeError(f"make_dual(): primal and tangent must have one dtype, not {tensor.dtype} and {tangent.dtype}")
    for t in (tensor, tangent):
        if is_mapped(t):
            return t._lazy.dual(tensor, tangent, make_dual)         # vmap's tensors: the tensors inside carry the tangents
    if tangent_of(tensor) is not None:
        raise RuntimeError("make_dual(): the tensor carries a tangent at this level already: unpack_dual() it first")
    with off():
        dual = apply1(ALIAS[0], tensor)
        if type(dual) is not type(tensor) and not getattr(type(tensor), "_is_param", False):
            dual.__class__ = type(tensor)
    set_aligned(dual, tangent)
    return dual


def unpack_dual(tensor: Any, *, level: int | None = None) -> UnpackedDualTensor:
    """(primal, tangent) of a dual tensor; tangent is None when it carries none."""
    if (_current_level if level is None else level) < 0 or not _levels:
        return UnpackedDualTensor(tensor, None)
    if is_mapped(tensor):
        return UnpackedDualTensor(*tensor._lazy.undual(unpack_dual))
    tangent = tangent_of(tensor)
    if tangent is None:
        return UnpackedDualTensor(tensor, None)
    with off():
        primal = apply1(ALIAS[0], tensor)
    return UnpackedDualTensor(primal, tangent)


def _is_fwd_grad_enabled() -> bool:
    return bool(getattr(local, "forward_mode", True))


class _set_fwd_grad_enabled(Mode):
    """Switch forward mode off and on again inside a level."""

    def __init__(self, mode: bool) -> None:
        self.mode, self.old = bool(mode), _is_fwd_grad_enabled()
        local.forward_mode = self.mode

    def clone(self) -> _set_fwd_grad_enabled:
        return _set_fwd_grad_enabled(self.mode)

    def __enter__(self) -> None:
        local.forward_mode = self.mode

    def __exit__(self, *error: Any) -> None:
        local.forward_mode = self.old
