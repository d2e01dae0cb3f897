"""Records of pointwise operators: one line each.

`unary` and `binary` register the primitive and the public function together. Their methods, in-place methods
and functions are compiled from the record (tools/generate.py). `fused` registers the kernel of a
derivative beside the composition that it computes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from flambeau.core.apply import apply1, apply2, apply_n, constant
from flambeau.core.errors import not_a_tensor
from flambeau.core.objects import TensorBase, array_of, dtype_of, make, shape_of
from flambeau.core.op import Op, slot
from flambeau.kernels.casting import cast
from flambeau.kernels.pointwise import BOOL
from flambeau.kernels.services import default_array_type, is_float, result_type

from ._record import KERNEL, call, kernels, ops, primitive, public

TENSORS_ONLY: set[str] = set()      # functions of two tensors that refuse a number (read by tools/generate.py)
SCALAR_FORMS: dict[str, Op] = {}    # operators with a record of their own for `tensor op number`; the same
FUSED: dict[str, Callable] = {}      # compositions of `fused` names, to compare with their kernels
BASE_FORMS: dict[str, Op] = {}      # for `number op tensor`


def unary_samples(low: float = -2.0, high: float = 2.0, **kw: Any) -> Callable:
    """Samples of an operator of one tensor with values in [low, high]."""

    def samples(t: Any) -> list:
        return [call(t(3, 4, low=low, high=high), **kw), call(t(low=low, high=high), **kw),
                call(t(0, 2, low=low, high=high), **kw), call(t(4, 3, low=low, high=high, transposed=True), **kw)]

    return samples


def binary_samples(low: float = -2.0, high: float = 2.0, number: Any = 1.5) -> Callable:
    """Samples of an operator of two tensors with values in [low, high]: same shape, broadcast, number."""

    def samples(t: Any) -> list:
        kw = {"low": low, "high": high}
        found = [call(t(3, 4, **kw), t(3, 4, **kw)), call(t(3, 4, **kw), t(4, **kw)), call(t(3, 1, **kw), t(2, 1, 4, **kw)),
                 call(t(3, 4, **kw), t(**kw))]
        return found if number is None else [*found, call(t(2, 3, **kw), number)]

    return samples


def integer_samples(t: Any) -> list:
    """Samples of an operator of two integer tensors."""
    return [call(t(3, 4, dtype="int64"), t(4, dtype="int64")), call(t(3, dtype="int64"), 3)]


def described(name: str, doc: str, example: tuple[str, str] | None, namespace: str = "flambeau") -> str:
    """A docstring: the sentence, and an example (arguments, result) when given."""
    if example is None:
        return doc
    return f"{doc}\n\n>>> {namespace}.{name}({example[0]}).tolist()\n{example[1]}\n"


def unary(
    name: str,
    kernel: Callable,
    *,
    doc: str,
    expr: str,
    example: tuple[str, str] | None = None,
    primitive_name: str | None = None,
    aliases: Sequence[str] = (),
    namespaces: Sequence[str] = ("torch",),
    samples: Callable | None = None,
    errors: Callable | None = None,
    float_result: bool = True,
    same_dtype: bool = True,
    inplace: bool = True,
    into: Callable | None = None,
    method: bool = True,
    node: str | None = None,
    differentiable: bool | None = None,
    bool_out: bool = False,
    **formulas: Callable,
) -> Op:
    """Register a pointwise operator of one tensor and its public function.

    The kernel may be a NumPy ufunc (then it also serves in-place) or a function of one array; `into` is then its
    in-place form (array, out). Real dtypes the ufunc lacks (bool, integers) are computed in the default float
    dtype when `float_result`. `example` is (the tensor's argument, the resulting list).
    """
    into = into or getattr(kernel, "into", None)
    direct = into if into is not None else kernel if isinstance(kernel, np.ufunc) and not bool_out else None
    if primitive_name is None:
        primitive_name = name if "torch" in namespaces else f"{namespaces[0].rpartition('.')[2]}_{name}"
    op = primitive(primitive_name, kernel, pointwise=True, same_dtype=same_dtype and not bool_out,
                   float_result=float_result, bool_out=bool_out, inplace=direct, expr=expr, node=node,
                   differentiable=differentiable, **formulas)

    def fn(input: Any) -> Any:
        if not isinstance(input, TensorBase):
            raise not_a_tensor(name, "input", 1, input)
        return apply1(op, input)

    fn.__name__ = fn.__qualname__ = name
    where = "flambeau" if "torch" in namespaces else f"flambeau.{namespaces[0]}"
    fn.__doc__ = described(name, doc, None if example is None else (f"flambeau.tensor({example[0]})", example[1]), where)
    public(op=op, name=name, namespaces=namespaces, method=method, inplace=inplace, aliases=aliases,
           samples=samples or unary_samples(), errors=errors, differentiable=op.differentiable)(fn)
    return op


def binary(
    name: str,
    kernel: Callable,
    *,
    doc: str,
    expr: str,
    example: tuple[str, str] | None = None,
    inputs: Sequence[str] = ("self", "other"),
    primitive_name: str | None = None,
    aliases: Sequence[str] = (),
    namespaces: Sequence[str] = ("torch",),
    samples: Callable | None = None,
    errors: Callable | None = None,
    float_result: bool = False,
    bool_out: bool = False,
    same_dtype: bool = True,
    inplace: bool = True,
    into: Callable | None = None,
    front: bool = True,
    method: bool = True,
    numbers: bool = True,
    node: str | None = None,
    differentiable: bool | None = None,
    **formulas: Callable,
) -> Op:
    """Register a pointwise operator of two tensors (or a tensor and a number) and its public function.

    With `front=False` only the primitive is made: the family writes the public function, because it takes more
    arguments. With `numbers=False` both must be tensors.
    """
    into = into or getattr(kernel, "into", None)
    direct = into if into is not None else kernel if isinstance(kernel, np.ufunc) and not bool_out else None
    if primitive_name is None:
        primitive_name = name if "torch" in namespaces else f"{namespaces[0].rpartition('.')[2]}_{name}"
    op = primitive(primitive_name, kernel, inputs=inputs, pointwise=True, same_dtype=same_dtype and not bool_out,
                   float_result=float_result, bool_out=bool_out, inplace=direct, expr=expr, node=node,
                   differentiable=differentiable, **formulas)
    if not front:
        return op
    if not numbers:
        TENSORS_ONLY.add(name)

    def fn(input: Any, other: Any) -> Any:
        if not numbers:
            tensors_only(name, input, other)
        return call2(op, input, other, name)

    fn.__name__ = fn.__qualname__ = name
    where = "flambeau" if "torch" in namespaces else f"flambeau.{namespaces[0]}"
    fn.__doc__ = described(name, doc, example, where)
    public(op=op, name=name, namespaces=namespaces, inplace=inplace, aliases=aliases, method=method,
           samples=samples or binary_samples(number=1.5 if numbers else None), errors=errors,
           differentiable=op.differentiable)(fn)
    return op


def fused(name: str, kernel: Callable, composition: Callable) -> None:
    """Register a name for formulas: one kernel on arrays, a composition of operators on Tensors.

    The composition (xp, g, ...) is what a recorded backward runs, so that it can be differentiated to any order;
    the kernel computes the same with fewer passes and no intermediate arrays.
    """
    setattr(kernels, name, kernel)
    setattr(ops, name, lambda *args: composition(ops, *args))
    FUSED[name] = composition


def scalar_form(name: str, kernel: Callable, node: str, param: str = "other", **formulas: Any) -> Op:
    """Register the form of a binary operator whose second operand is a number, not saved but a parameter.

    The kernel is that of two arrays.
    """

    def on_number(a: np.ndarray, number: Any) -> Any:
        return kernel(*meet(a, number))

    op = primitive(f"{name}_scalar", on_number, params=(param,), scalars=(param,), pointwise=True, same_dtype=True,
                   expr=KERNEL, node=node, **formulas)
    SCALAR_FORMS[name] = op
    return op


def meet(a: np.ndarray, number: Any) -> tuple[np.ndarray, np.ndarray]:
    """An array and a number in the dtype in which they meet."""
    c = constant(number, a.dtype)
    assert c is not None
    return (a, c) if c.dtype is a.dtype else (cast(a, c.dtype), c)


def call2(op: Op, a: Any, b: Any, name: str | None = None) -> Any:
    """apply2, with the TypeError for what is neither a tensor nor a number."""
    r = apply2(op, a, b)
    if r is NotImplemented:
        if isinstance(a, TensorBase):
            raise not_a_tensor(name or op.name, "other", 2, b)
        raise not_a_tensor(name or op.name, "input", 1, a)
    return r


def tensors_only(name: str, a: Any, b: Any, second: str = "other") -> None:
    if not isinstance(a, TensorBase):
        raise not_a_tensor(name, "input", 1, a)
    if not isinstance(b, TensorBase):
        raise not_a_tensor(name, second, 2, b)


def is_number(value: Any) -> bool:
    return not isinstance(value, TensorBase) and constant(value, BOOL) is not None


def to_dtype(t: TensorBase, d: np.dtype) -> TensorBase:
    """t in dtype d, differentiably."""
    if dtype_of(t) is d:
        return t
    if dtype_of(t).kind == "c" and d.kind != "c":
        return make(cast(array_of(t), d)) if t._array is not None else apply1(CAST, t, (d,))
    return apply1(CAST, t, (d,))


def _known(t: TensorBase) -> np.ndarray:
    """An array of t's dtype and number of dimensions, to promote."""
    return array_of(t) if t._array is not None else np.zeros((1,) * len(shape_of(t)), dtype_of(t))


def all_of_one_dtype(values: tuple) -> bool:
    """Whether all are tensors, and none needs a cast to meet the others."""
    d = None
    for v in values:
        if not isinstance(v, TensorBase):
            return False
        if d is None:
            d = dtype_of(v)
        elif dtype_of(v) is not d:
            return False
    return True


def common(*values: Any, floating: bool = False) -> list[Any]:
    """Tensors and numbers as tensors of the dtype in which they meet; None stays."""
    if all_of_one_dtype(values) and (not floating or is_float(dtype_of(values[0]))):
        return list(values)
    given = [v for v in values if v is not None]
    tensors = [v for v in given if isinstance(v, TensorBase)]
    first = dtype_of(tensors[0])
    if len(tensors) == len(given) and all(dtype_of(t) is first for t in tensors):
        d = first
    else:
        d = result_type(*[_known(v) if isinstance(v, TensorBase) else v for v in given],
                        default_float_dtype=default_array_type())
    if floating and not is_float(d):
        d = default_array_type()
    found: list[Any] = []
    for v in values:
        if v is None:
            found.append(None)
        elif isinstance(v, TensorBase):
            found.append(to_dtype(v, d))
        else:
            c = constant(v, d)
            assert c is not None
            found.append(make(cast(c, d)))
    return found


def apply_common(op: Op, inputs: list[Any], params: Any = None, floating: bool = False) -> Any:
    """apply_n on tensors and numbers brought to one dtype."""
    return apply_n(op, common(*inputs, floating=floating), params)


def no_derivative(what: str) -> Callable:
    """A formula that says that PyTorch has none."""

    def formula(xp: Any, g: Any) -> Any:
        raise NotImplementedError(f"derivative for aten::{what} is not implemented. Detach the tensor first, or use another "
                                  "operator.")

    return formula


CAST = slot("cast")
