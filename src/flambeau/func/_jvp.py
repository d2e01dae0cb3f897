"""`jvp` and `linearize`: directional derivatives, by reverse mode twice.

The map from a cotangent u to u^T J is linear: its own derivative in u, pulled back with a tangent t, is J t. Operators thus
need no second rule, transforms nest without levels of tangents, and the linear map is recorded once for any number of
tangents. Source: Townsend, 2017, "A new trick for calculating Jacobian vector products".
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from flambeau.autograd._custom_forward import Pushing, by_jvp
from flambeau.autograd._modes import Recording
from flambeau.core.objects import TensorBase, dtype_of, requires
from flambeau.core.state import grad_enabled, state

from . import _pytree
from ._grad import Pullback
from ._levels import full
from ._watch import asks, pull, seed, shape, zeros


class Pushforward:
    """The derivative of a function at primals, as a linear map of tangents."""

    def __init__(self, func: Callable, primals: tuple, has_aux: bool, name: str) -> None:
        with Pushing():
            self.back = back = Pullback(func, primals, has_aux, writable=True)
        with Recording(), by_jvp():
            self.seeds = [seed(t) if state.is_float(dtype_of(t)) and requires(t) else None for t in back.whole]
            live = [(t, u) for t, u in zip(back.whole, self.seeds, strict=True) if u is not None]
            self.grads = pull([t for t, _ in live], [u for _, u in live], back.variables, back.variables.watched, True)

    def push(self, tangents: list) -> list:
        """The outputs' tangents."""
        back = self.back
        stack = back.variables.stack
        create = grad_enabled() and (back.more or any(asks(t) for t in tangents))
        seeds = [u for u in self.seeds if u is not None]
        given = [full(t.to(w.dtype) if t.dtype != w.dtype else t, stack)
                 for t, w in zip(tangents, back.variables.watched, strict=True)]
        found = iter(pull(self.grads, given, back.variables, seeds, create) if seeds else ())
        made = []
        for o, u in zip(back.whole, self.seeds, strict=True):
            made.append(back.variables.hidden(zeros(o) if u is None else next(found)))
        return made

    def independent(self) -> bool:
        """Whether some output does not depend on the primals."""
        return any(u is None for u in self.seeds)


def jvp(func: Callable, primals: Any, tangents: Any, *, strict: bool = False, has_aux: bool = False) -> tuple:
    """The value of a function, and its derivative in a direction: J t.

    Args:
        func: returns tensors, or containers of them; with has_aux a tuple (those, anything made of tensors).
        primals: a tuple of the arguments: tensors, or containers of them.
        tangents: of the same structure and shapes.
        strict: raise where an output does not depend on the primals, instead of giving zeros.

    Returns:
        (value, derivative), or (value, derivative, aux).

    Raises:
        RuntimeError: primals and tangents differ, or func returns something else.

    >>> jvp(lambda x: x ** 3, (flambeau.tensor(2.0),), (flambeau.tensor(1.0),))
    (tensor(8.), tensor(12.))
    """
    name = "jvp(f, primals, tangents)"
    for what, value in (("primals", primals), ("tangents", tangents)):
        if not isinstance(value, tuple):
            raise RuntimeError(f"{name}: Expected {what} to be a tuple. E.g. it should be valid to call f(*primals).")
    leaves, spec = _checked(primals, "primals", name)
    directions, other = _checked(tangents, "tangents", name)
    if spec != other:
        raise RuntimeError(f"{name}: Expected primals and tangents to have the same python structure: there are "
                           f"{len(leaves)} primals and {len(directions)} tangents.")
    for p, t in zip(leaves, directions, strict=True):
        for which, u in (("primal", p), ("tangent", t)):
            if not state.is_float(dtype_of(u)):
                raise ValueError(f"{name}: a {which} must be floating point or complex, and one is {u.dtype}")
        if shape(p) != shape(t):
            raise RuntimeError(
                f"Trying to set a forward gradient that has a different size: the Tensor is of size {list(shape(p))} while "
                f"the given forward gradient is of size {list(shape(t))}.")
    forward = Pushforward(func, primals, has_aux, name)
    if strict and forward.independent():
        raise RuntimeError("jvp(f, primals, tangents, strict=True): The output of f is independent of the inputs. This is "
                           "not allowed with strict=True.")
    made = _pytree.unflatten(forward.push(directions), forward.back.out_spec)
    value = forward.back.value()
    return (value, made, forward.back.aux) if has_aux else (value, made)


def _checked(tree: Any, what: str, name: str) -> tuple[list, Any]:
    leaves, spec = _pytree.flatten(tree)
    if not leaves:
        raise RuntimeError(f"{name}: Expected {what} to contain at least one Tensor.")
    for t in leaves:
        if not isinstance(t, TensorBase):
            raise RuntimeError(f"{name}: Expected {what} to contain only Tensors, got {type(t)}")
    return leaves, spec


def linearize(func: Callable, *primals: Any) -> tuple:
    """The value of a function, and its derivative as a linear function of tangents.

    Cheaper than `jvp` for many tangents at the same primals: the function is called once.

    Args:
        func: returns tensors, or containers of them.
        primals: the arguments: tensors, or containers of them.

    Returns:
        (value, jvp_fn): jvp_fn takes a tangent for each primal and returns the outputs' tangents.

    Raises:
        RuntimeError: tangents that differ from the primals in structure or shape.

    >>> value, jvp_fn = linearize(lambda x: x ** 3, flambeau.tensor(2.0))
    >>> jvp_fn(flambeau.tensor(1.0)), jvp_fn(flambeau.tensor(2.0))
    (tensor(12.), tensor(24.))
    """
    forward = Pushforward(func, primals, False, "linearize(f, *primals)")
    leaves, spec = _pytree.flatten(primals)

    def jvp_fn(*tangents: Any) -> Any:
        """The derivative in a direction."""
        given, own = _pytree.flatten(tangents)
        if own != spec:
            raise RuntimeError("linearize: the tangents differ in structure from the primals: give one for each, "
                               f"{len(leaves)} in all, not {len(given)}")
        for i, (t, p) in enumerate(zip(given, leaves, strict=True)):
            if shape(t) != shape(p):
                raise RuntimeError(f"tangent:{i} with shape {list(shape(t))} in flattened pytree doesn't match the shape "
                                   f"{list(shape(p))} of the corresponding primal.")
        return _pytree.unflatten(forward.push(given), forward.back.out_spec)

    return forward.back.value(), jvp_fn

