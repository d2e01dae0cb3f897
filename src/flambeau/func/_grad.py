"""`grad`, `grad_and_value`, `vjp`: derivatives in reverse mode as functions."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from flambeau.core.objects import TensorBase, dtype_of, shape_of
from flambeau.core.state import grad_enabled

from . import _arguments, _pytree
from ._levels import full
from ._watch import Variables, asks, ones, pull, released, shape


def grad_and_value(func: Callable, argnums: Any = 0, has_aux: bool = False) -> Callable:
    """A function that returns the gradient of `func` and its value.

    Args:
        func: returns a tensor of one element without dimensions; with has_aux a tuple (that, anything made of tensors).
        argnums: the position, or positions, of the arguments to differentiate: tensors, or containers of tensors.

    Returns:
        A function of the same arguments, which returns (gradient, value), or (gradient, (value, aux)). A gradient has the
        structure of its argument; with a tuple of argnums there is one for each.

    Raises:
        RuntimeError: argnums do not fit, or func returns anything else.

    >>> grad_and_value(lambda x: x ** 3)(flambeau.tensor(2.0))
    (tensor(12.), tensor(8.))
    """
    name = "grad_and_value(f)(*args)"

    @functools.wraps(func)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        leaves, spec = _arguments.inputs(_arguments.chosen(argnums, args), name)
        variables = Variables(leaves)
        given = _arguments.replaced(argnums, args, _pytree.unflatten(variables.inputs(), spec))
        value, aux = _arguments.called(func, given, kwargs, has_aux, name)
        if not isinstance(value, TensorBase):
            raise RuntimeError(f"{name}: Expected f(*args) to return a Tensor, got {type(value)}")
        if len(shape_of(value)) != 0:
            raise RuntimeError(
                f"{name}: Expected f(*args) to return a scalar: this tensor has {len(shape_of(value))} dims. Maybe "
                "you wanted to use the vjp or jacrev APIs instead?")
        if dtype_of(value).kind == "c":
            raise RuntimeError(f"{name}: there is a gradient only for real scalar outputs, and f returned {value.dtype}. "
                               "Take its real part, or use vjp with a cotangent of your own.")
        whole = variables.whole(value)
        more = variables.asks_more([whole])
        found = pull([whole], [ones(whole)], variables, variables.watched, more)
        gradient = _pytree.unflatten([variables.hidden(g) for g in found], spec)
        value = released(value, more)
        if has_aux:
            aux = _pytree.map_leaves(lambda t: released(t, more), _arguments.aux_of(aux, name))
            return gradient, (value, aux)
        return gradient, value

    return wrapper


def grad(func: Callable, argnums: Any = 0, has_aux: bool = False) -> Callable:
    """The gradient of a function that returns one number, as a function.

    Tensors that func captures are constants to it. It nests: `grad(grad(f))` is the second derivative, and
    `vmap(grad(f))` gives gradients for each sample.

    Args:
        func: returns a tensor of one element without dimensions; with has_aux a tuple (that, anything made of tensors).
        argnums: the position, or positions, of the arguments to differentiate: tensors, or containers of tensors.

    Returns:
        A function of the same arguments, which returns the gradient, or (gradient, aux).

    Raises:
        RuntimeError: argnums do not fit, or func returns anything else.

    >>> grad(lambda x: x ** 3)(flambeau.tensor(2.0))
    tensor(12.)
    >>> grad(grad(lambda x: x ** 3))(flambeau.tensor(2.0))
    tensor(12.)
    """
    both = grad_and_value(func, argnums, has_aux)

    @functools.wraps(func)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        gradient, value = both(*args, **kwargs)
        return (gradient, value[1]) if has_aux else gradient

    return wrapper


class Pullback:
    """What vjp keeps: outputs, and the variables they are functions of."""

    def __init__(self, func: Callable, primals: tuple, has_aux: bool, writable: bool = False) -> None:
        name = "vjp(f, *primals)"
        leaves, self.in_spec = _arguments.inputs(primals, name)
        self.variables = variables = Variables(leaves, writable)
        given = _pytree.unflatten(variables.inputs(), self.in_spec)
        out, self.aux = _arguments.called(func, given, {}, has_aux, f"{name}, has_aux=True")
        self.outputs, self.out_spec = _arguments.tensors(out, f"{name}: expected f(*primals) to return only tensors")
        self.whole = [variables.whole(t) for t in self.outputs]
        self.more = variables.asks_more(self.whole)
        if has_aux:
            self.aux = _pytree.map_leaves(lambda t: released(t, self.more), _arguments.aux_of(self.aux, name))

    def value(self) -> Any:
        """The outputs as the caller sees them."""
        return _pytree.unflatten([released(t, self.more) for t in self.outputs], self.out_spec)

    def pull(self, cotangents: list, create: bool | None = None) -> list:
        """The gradients of the primals' leaves."""
        if create is None:
            create = grad_enabled() and (self.more or any(asks(c) for c in cotangents))
        stack = self.variables.stack
        seeds = [full(c, stack) for c in cotangents]
        found = pull(self.whole, seeds, self.variables, self.variables.watched, create)
        return [self.variables.hidden(g) for g in found]


def vjp(func: Callable, *primals: Any, has_aux: bool = False) -> tuple:
    """The value of a function, and the function that maps a cotangent v to v^T J.

    Args:
        func: returns tensors, or containers of them; with has_aux a tuple (those, anything made of tensors).
        primals: the arguments: tensors, or containers of them.

    Returns:
        (value, vjp_fn), or (value, vjp_fn, aux). vjp_fn takes one cotangent for each output of a tuple, of the outputs'
        shapes, and returns the products for each primal in a tuple, or the product when there is one primal. It may be
        called several times, and in vmap.

    Raises:
        RuntimeError: func returns something else, or cotangents differ from its outputs in structure or shape.

    >>> value, vjp_fn = vjp(lambda x: x * x, flambeau.tensor([1.0, 2.0]))
    >>> vjp_fn(flambeau.tensor([1.0, 10.0]))
    (tensor([ 2., 40.]),)
    """
    back = Pullback(func, primals, has_aux)

    def vjp_fn(*cotangents: Any, retain_graph: bool = True, create_graph: bool | None = None) -> Any:
        """The product of cotangents with the Jacobian."""
        given = cotangents[0] if len(cotangents) == 1 else cotangents
        leaves, spec = _pytree.flatten(given)
        if spec != back.out_spec:
            raise RuntimeError(
                f"The cotangents must have the pytree structure of the outputs. "
                f"There are {len(leaves)} cotangents (as {type(given).__name__}) for {len(back.outputs)} outputs.")
        for i, (c, o) in enumerate(zip(leaves, back.outputs, strict=True)):
            if not isinstance(c, TensorBase) or shape(c) != shape(o):
                raise RuntimeError(
                    f"Mismatch in shape: grad_output[{i}] has a shape of {list(getattr(c, 'shape', ()))} and output[{i}] "
                    f"has a shape of {list(shape(o))}. A cotangent has the shape of its output.")
        return _pytree.unflatten(back.pull(leaves, create_graph), back.in_spec)

    return (back.value(), vjp_fn, back.aux) if has_aux else (back.value(), vjp_fn)
