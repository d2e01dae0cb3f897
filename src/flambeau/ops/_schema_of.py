"""The schema of a Python function, in PyTorch's notation, from its annotations."""

from __future__ import annotations

import inspect
import types
import typing
from collections.abc import Callable, Sequence
from typing import Any

from flambeau.core.dtype import Device, DType
from flambeau.core.objects import TensorBase

_PLAIN: dict[Any, str] = {int: "SymInt", float: "float", bool: "bool", str: "str", DType: "ScalarType", Device: "Device",
                          int | float | bool: "Scalar"}


def infer_schema(prototype: Callable, /, *, mutates_args: Any, op_name: str | None = None) -> str:
    """Schema of a function of tensors and plain values.

    Args:
        prototype: a function with annotated arguments and result.
        mutates_args: names of the arguments that it writes to, or "unknown".
        op_name: put before the arguments.

    Raises:
        ValueError: an annotation is missing or of another kind; a name in `mutates_args` is not an argument's.

    >>> def scaled(x: flambeau.Tensor, by: float = 2.0) -> flambeau.Tensor: ...
    >>> flambeau.library.infer_schema(scaled, mutates_args=())
    '(Tensor x, float by=2.0) -> Tensor'
    """
    signature = inspect.signature(prototype)
    try:
        hints = typing.get_type_hints(prototype)
    except NameError as error:
        raise ValueError(f"infer_schema(func): an annotation cannot be read: {error}") from None
    unknown = mutates_args == "unknown"
    strange = set() if unknown else set(mutates_args) - set(signature.parameters)
    if strange:
        raise ValueError(f"infer_schema(func): {strange} in mutates_args were not found in the signature {signature}.")
    parts: list[str] = []
    n_written = 0
    for name, p in signature.parameters.items():
        if p.kind in (p.VAR_POSITIONAL, p.VAR_KEYWORD, p.POSITIONAL_ONLY):
            raise ValueError(f"infer_schema(func): {p} is not supported: each argument needs a name. Got {signature}")
        if p.annotation is p.empty:
            raise ValueError(f"infer_schema(func): Parameter {name} must have a type annotation. Got {signature}")
        if p.kind is p.KEYWORD_ONLY and "*" not in parts:
            parts.append("*")
        kind = _kind(hints[name], f"Parameter {name}", signature)
        if kind.startswith("Tensor") and (unknown or name in mutates_args):
            kind = f"Tensor(a{n_written}!){kind[6:]}"
            n_written += 1
        elif not unknown and name in mutates_args:
            raise ValueError(f"infer_schema(func): Parameter {name} is in mutates_args, and only tensors can be written to.")
        parts.append(f"{kind} {name}" + ("" if p.default is p.empty else f"={_default(p.default)}"))
    if signature.return_annotation is signature.empty:
        raise ValueError(f"infer_schema(func): No return type annotation was provided. Please add one. Got {signature}")
    return f"{op_name or ''}({', '.join(parts)}) -> {_result(hints.get('return'), signature)}"


def _kind(hint: Any, what: str, signature: Any) -> str:
    if isinstance(hint, type) and issubclass(hint, TensorBase):
        return "Tensor"
    if isinstance(hint, typing.Hashable) and hint in _PLAIN:
        return _PLAIN[hint]
    origin, args = typing.get_origin(hint), typing.get_args(hint)
    if origin in (typing.Union, types.UnionType) and len(args) == 2 and type(None) in args:
        return _kind(next(a for a in args if a is not type(None)), what, signature) + "?"
    if origin in (list, Sequence) and len(args) == 1:
        return _kind(args[0], what, signature) + "[]"
    raise ValueError(f"infer_schema(func): {what} has unsupported type {hint}: it may be a tensor, int, float, bool, str, "
                     f"dtype or device, None or such, or a list of such. Got {signature}")


def _result(hint: Any, signature: Any) -> str:
    if hint is None or hint is type(None):
        return "()"
    if typing.get_origin(hint) is tuple:
        return f"({', '.join(_kind(a, 'Return', signature) for a in typing.get_args(hint))})"
    return _kind(hint, "Return", signature)


def _default(value: Any) -> str:
    if isinstance(value, str):
        return f'"{value}"'
    return str(value).rpartition(".")[2] if isinstance(value, DType) else str(value)
