"""Decode derivative formulas: what they save, and whether they are one kernel call.

A formula such as `lambda xp, g, other: g * other` is run once at registration on stand-ins. If its result is
`g`, one unary kernel of g, or one binary kernel of g and one value, the engine later calls that kernel
directly. A conjugate is left out of the direct form, which is then used for real dtypes only.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from flambeau.core.op import (
    BINARY,
    DTYPE,
    DTYPES,
    IDENTITY,
    INPUTS,
    NEEDS,
    OUT,
    PARAM,
    SHAPE,
    SHAPES,
    UNARY,
    Formula,
)
from flambeau.kernels.services import xp as kernels


class FormulaError(TypeError):
    """A formula names a value that its operator does not have."""


def code_of(name: str, inputs: Sequence[str], params: Sequence[str], op_name: str) -> int:
    """The integer code of a formula's parameter."""
    if name == "out":
        return OUT
    if name.startswith("out") and name[3:].isdigit():
        return OUT + int(name[3:])
    if name in inputs:
        return inputs.index(name)
    if name in params:
        return PARAM + list(params).index(name)
    if name.endswith("_shape") and name[:-6] in inputs:
        return SHAPE + inputs.index(name[:-6])
    if name.endswith("_dtype") and name[:-6] in inputs:
        return DTYPE + inputs.index(name[:-6])
    special = {"inputs": INPUTS, "input_shapes": SHAPES, "input_dtypes": DTYPES, "needs": NEEDS}
    if name in special:
        return special[name]
    raise FormulaError(
        f"{op_name}: a formula names '{name}', which is neither an input {list(inputs)}, a parameter {list(params)}, "
        "'out', '<input>_shape', '<input>_dtype', 'inputs', 'input_shapes', 'input_dtypes' nor 'needs'")


class _Value:
    """Stands for g or a saved value while a formula is traced."""

    __array_ufunc__ = None

    def __init__(self, what: Any, conjugated: bool = False) -> None:
        self.what = what
        self.conjugated = conjugated

    def _binary(self, kernel: Callable, other: Any) -> _Value:
        if not isinstance(other, _Value):
            raise _NotDirect
        return _Value((kernel, self.what, other.what), self.conjugated or other.conjugated)

    def __mul__(self, o: Any) -> _Value:
        return self._binary(np.multiply, o)

    def __add__(self, o: Any) -> _Value:
        return self._binary(np.add, o)

    def __sub__(self, o: Any) -> _Value:
        return self._binary(np.subtract, o)

    def __truediv__(self, o: Any) -> _Value:
        return self._binary(np.true_divide, o)

    def __neg__(self) -> _Value:
        return _Value((np.negative, self.what), self.conjugated)

    def __getattr__(self, name: str) -> Any:
        raise _NotDirect


class _NotDirect(Exception):
    pass


class _Trace:
    """The namespace of a traced formula: any kernel of two values, and `conj`."""

    is_kernels = True

    def __getattr__(self, name: str) -> Any:
        if name == "conj":
            return lambda v: _Value(v.what, True)
        kernel = getattr(kernels, name, None)
        if kernel is None:
            raise _NotDirect

        def call(*args: Any) -> _Value:
            if not args or not all(isinstance(a, _Value) for a in args) or len(args) > 2:
                raise _NotDirect
            return _Value((kernel, *[a.what for a in args]), any(a.conjugated for a in args))

        return call


def _find_direct(formula: Formula, fn: Callable, n_values: int) -> None:
    if n_values > 1 or any(code >= SHAPE for code in formula.codes):
        return
    try:
        result = fn(_Trace(), _Value("g"), *[_Value("v")] * n_values)
    except Exception:  # a formula that stand-ins cannot run is simply not direct
        return
    if not isinstance(result, _Value):
        return
    what = result.what
    if what == "g" and n_values == 0:
        formula.set_direct(IDENTITY, None, result.conjugated)
    elif isinstance(what, tuple) and what[1:] == ("g",) and n_values == 0:
        formula.set_direct(UNARY, what[0], result.conjugated)
    elif isinstance(what, tuple) and what[1:] == ("g", "v"):
        formula.set_direct(BINARY, what[0], result.conjugated)


def parameter_names(fn: Callable) -> list[str]:
    """A function's parameters; inspect.signature would cost a third of the package's start."""
    while hasattr(fn, "__wrapped__"):       # seen whole, seen by vmap, with a shape rule
        fn = fn.__wrapped__
    code = getattr(fn, "__code__", None)
    if code is None:
        return list(inspect.signature(fn).parameters)
    return list(code.co_varnames[: code.co_argcount + code.co_kwonlyargcount])


def decode(fn: Callable, inputs: Sequence[str], params: Sequence[str], op_name: str, joint: bool = False) -> Formula:
    """A Formula from a function `(xp, g, names...)`; the names say what the graph saves."""
    names = parameter_names(fn)
    if names[:2] != ["xp", "g"]:
        raise FormulaError(f"{op_name}: a formula's first parameters are xp and g, not {names[:2]}")
    formula = Formula(fn, [code_of(n, inputs, params, op_name) for n in names[2:]])
    if not joint:
        _find_direct(formula, fn, len(names) - 2)
    return formula


