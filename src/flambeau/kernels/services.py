"""What the core needs from NumPy: handed to `core.state` once, when the package is imported."""

from __future__ import annotations

import contextvars
from types import SimpleNamespace
from typing import Any

import numpy as np

from flambeau.core import dtype as dtypes
from flambeau.core.apply import forget_constants
from flambeau.core.dtype import DType, add_dtype
from flambeau.core.size import Size
from flambeau.core.state import bump_ambient, state

from . import strides
from .casting import BFLOAT16, cast, converted
from .operand_order import follow
from .pointwise import half_number, is_half
from .promotion import constant as _constant
from .promotion import promote_types, result_type
from .sparse import Sparse
from .sums import column_sum

F32 = np.dtype("float32")
F64 = np.dtype("float64")
BOOL = np.dtype("bool")
_FLOATING = frozenset(np.dtype(t) for t in ("f2", "f4", "f8", "c8", "c16")) | {BFLOAT16}

for _name, _type, _kind in (
    ("bool", "?", "b"), ("uint8", "u1", "u"), ("int8", "i1", "i"), ("int16", "i2", "i"), ("int32", "i4", "i"),
    ("int64", "i8", "i"), ("uint16", "u2", "u"), ("uint32", "u4", "u"), ("uint64", "u8", "u"),
    ("float16", "f2", "f"), ("float32", "f4", "f"), ("float64", "f8", "f"),
    ("complex64", "c8", "c"), ("complex128", "c16", "c"),
):
    add_dtype(DType(_name, np.dtype(_type), np.dtype(_type).itemsize, _kind))
add_dtype(DType("bfloat16", BFLOAT16, 2, "f"))
dtypes.default.append(dtypes.by_name["float32"])

xp = SimpleNamespace()      # names of formulas, on arrays; operator records add theirs
xp.is_kernels = True


def set_default_dtype(d: DType) -> None:
    """The dtype of Python floats and of results computed from integers."""
    dtypes.default[0] = d
    forget_constants()
    bump_ambient()


def default_array_type() -> np.dtype:
    return dtypes.default[0].array_type


def is_float(d: np.dtype) -> bool:
    """Floating or complex."""
    return d in _FLOATING


def floating(a: np.ndarray) -> np.ndarray:
    """a bool or integer array in the default float dtype; others as they are."""
    return a if a.dtype in _FLOATING else converted(a, default_array_type())


def constant(value: Any, d: np.dtype) -> np.ndarray | None:
    """A Python number as the 0-d array that meets a tensor of dtype d."""
    c = _constant(value, d, default_array_type())
    if type(value) is float and c is not None and is_half(c):
        return half_number(value, c)
    return c


def common_dtype(a: np.ndarray, b: np.ndarray, a_is_number: bool, b_is_number: bool) -> np.dtype:
    """The dtype in which two operands meet. A number is a `constant` array already."""
    if a_is_number or b_is_number:
        return (a if a_is_number else b).dtype
    if (a.ndim == 0) == (b.ndim == 0):
        return promote_types(a.dtype, b.dtype)
    return result_type(a, b, default_float_dtype=default_array_type())


def promote(op: Any, a: np.ndarray, b: np.ndarray, a_is_number: bool, b_is_number: bool) -> tuple:
    """Both operands in one dtype, floating when the operator's result is."""
    if not op.promotes:
        return a, b
    d = common_dtype(a, b, a_is_number, b_is_number)
    if op.float_result and d not in _FLOATING:
        d = default_array_type()
    if op.name == "sub" and (a.dtype is BOOL or b.dtype is BOOL):
        raise bool_subtraction()
    x, y = _cast_operand(a, d), _cast_operand(b, d)
    if d.itemsize == 2 and is_half(x):      # a zero-dimensional tensor of a wider dtype counts as a number
        if y.ndim == 0 and x.ndim and b.dtype.kind == "f":
            y = half_number(float(b), y)
        elif x.ndim == 0 and y.ndim and a.dtype.kind == "f":
            x = half_number(float(a), x)
    return x, y


def _cast_operand(a: np.ndarray, d: np.dtype) -> np.ndarray:
    """a in dtype d; expanded dimensions stay expanded, so that the result's memory order is that of the rest."""
    if a.dtype is not d and a.base is not None and a.size and 0 in a.strides:
        return np.broadcast_to(cast(a[tuple([slice(0, 1) if s == 0 else slice(None) for s in a.strides])], d), a.shape)
    return cast(a, d)


_CATEGORY = {"b": 0, "u": 1, "i": 1, "f": 2, "V": 2, "c": 3}


def _torch_name(d: np.dtype) -> str:
    return {"bool": "Bool", "uint8": "Byte", "int8": "Char", "int16": "Short", "int32": "Int", "int64": "Long",
            "uint16": "UInt16", "uint32": "UInt32", "uint64": "UInt64", "float16": "Half", "bfloat16": "BFloat16",
            "float32": "Float", "float64": "Double", "complex64": "ComplexFloat",
            "complex128": "ComplexDouble"}.get(d.name, d.name)


def refuse_cast(source: np.dtype, target: np.dtype) -> None:
    """In-place and out= may narrow within a category, not change to a lower one."""
    if _CATEGORY[source.kind] > _CATEGORY[target.kind]:
        raise RuntimeError(
            f"result type {_torch_name(source)} can't be cast to the desired output type {_torch_name(target)}: "
            "an in-place operation keeps the tensor's dtype. Use the out-of-place form, or convert the tensor first.")


def promote_inplace(op: Any, a: np.ndarray, b: np.ndarray | None, b_is_number: bool) -> tuple:
    """Operands of an in-place call; `a` comes back itself when the kernel may write into it directly."""
    if not op.promotes:
        return a, b
    d = a.dtype if b is None else common_dtype(a, b, False, b_is_number)
    if op.float_result and d not in _FLOATING:
        d = default_array_type()
    if op.bool_out:
        return cast(a, d).view(), None if b is None else cast(b, d)
    refuse_cast(d, a.dtype)
    return cast(a, d), None if b is None else cast(b, d)


def wrap(x: Any) -> np.ndarray:
    """A NumPy scalar (or a subclass of ndarray) as an ndarray; sparse data as it is."""
    return x if type(x) is Sparse else np.asarray(x)


def _as_shape(g: np.ndarray, shape: tuple) -> np.ndarray:
    try:
        return np.array(np.broadcast_to(g, shape))
    except ValueError:
        raise RuntimeError(
            f"invalid gradient: got shape {list(g.shape)} but expected shape compatible with {list(shape)}. Was the "
            "tensor's shape changed in place, or its .data replaced, after it had been used?") from None


def sum_to(g: np.ndarray, shape: tuple) -> np.ndarray:
    """Undo broadcasting: sum g over the axes along which `shape` was stretched."""
    extra = g.ndim - len(shape)
    d = g.dtype
    if extra == 1 and g.ndim == 2 and (d is F32 or d is F64) and g.shape[1] == shape[0] and g.size <= 1 << 20:
        return column_sum(g)
    if extra < 0:
        return _as_shape(g, shape)
    axes = tuple(range(extra)) + tuple(
        extra + i for i, n in enumerate(shape) if n == 1 and g.shape[extra + i] != 1)
    wide = g
    if g.dtype == BFLOAT16 or g.dtype == np.float16:
        wide = g.astype(F32)
    if axes:
        wide = np.add.reduce(wide, axis=axes, keepdims=True)
    out = np.asarray(wide).reshape(np.shape(wide)[extra:])
    if out.shape != shape:
        out = _as_shape(out, shape)
    return out if out.dtype is g.dtype else out.astype(g.dtype)


def cast_gradient(g: Any, d: np.dtype) -> Any:
    """A gradient in its input's dtype: the real part for a real input."""
    if type(g) is Sparse:
        return g.cast(d)
    if g.dtype.kind == "c" and d.kind != "c":
        g = g.real
    return g if g.dtype is d else converted(g, d)


def clone_as(g: np.ndarray, strides_bytes: tuple) -> np.ndarray:
    """A copy of g whose memory order follows the given strides."""
    n = g.ndim
    if n < 2:
        return g.copy()
    if n == 2:
        return g.copy("F" if abs(strides_bytes[0]) < abs(strides_bytes[1]) else "C")
    order = sorted(range(g.ndim), key=lambda i: -abs(strides_bytes[i]))
    out = np.empty([g.shape[i] for i in order], g.dtype).transpose(np.argsort(order))
    out[...] = g
    return out


def ones_like(a: np.ndarray) -> np.ndarray:
    """Ones in a's shape, dtype and memory order."""
    if not a.flags.c_contiguous:
        return np.ones_like(a)
    out = np.empty(a.shape, a.dtype)
    out.fill(1)
    return out


def write(dst: np.ndarray, src: np.ndarray | None) -> None:
    dst[...] = 0 if src is None else src


def copy_into(dst: np.ndarray, src: np.ndarray) -> None:
    """dst[...] = src with casts as `to` makes them, broadcasting src."""
    if src.ndim > dst.ndim:
        raise RuntimeError(f"output with shape {list(dst.shape)} doesn't match the broadcast shape {list(src.shape)}")
    if src.dtype is not dst.dtype:
        src = cast(src, dst.dtype)
    np.copyto(dst, src, casting="unsafe")


def copy_kernel(a: np.ndarray, b: np.ndarray, out: np.ndarray) -> None:
    """The in-place kernel of `copy_`."""
    if b.ndim > a.ndim and b.shape[: b.ndim - a.ndim] != (1,) * (b.ndim - a.ndim) or b.ndim > a.ndim:
        raise RuntimeError(
            f"output with shape {list(a.shape)} doesn't match the broadcast shape "
            f"{list(np.broadcast_shapes(a.shape, b.shape))}")
    if b.dtype is not out.dtype:
        b = cast(b, out.dtype)
    np.copyto(out, b, casting="unsafe")


def fit_write(op: Any, a: np.ndarray, x: Any) -> np.ndarray:
    """The result of an operator that is to be written into a."""
    x = np.asarray(x)
    if x.shape != a.shape:
        raise RuntimeError(
            f"output with shape {list(a.shape)} doesn't match the broadcast shape {list(x.shape)}: {op.name}_ cannot "
            "change the tensor's shape. Use the out-of-place form.")
    if x.dtype is not a.dtype:
        refuse_cast(x.dtype, a.dtype)
    return x


def bool_subtraction() -> RuntimeError:
    return RuntimeError("Subtraction, the `-` operator, is not supported for a bool tensor. To invert a mask write "
                        "~mask or torch.logical_not(mask); for what two masks differ in, a ^ b or "
                        "torch.logical_xor(a, b).")


def explain(op: Any, arrays: tuple, error: Exception) -> Exception:
    """A kernel's ValueError or TypeError in PyTorch's terms."""
    text = str(error)
    shapes = [a.shape for a in arrays if isinstance(a, np.ndarray)]
    if text.startswith(("could not convert string", "invalid literal for", "complex() arg is a malformed",
                        "setting an array element with a sequence")):
        return TypeError(f"{op.name}(): a parameter must be a number, and is none: {text}")
    if "broadcast" in text and "output operand" in text:
        rest = np.broadcast_shapes(*shapes[:2]) if _compatible(shapes[:2]) else None
        if rest is not None:
            return RuntimeError(
                f"output with shape {list(shapes[0])} doesn't match the broadcast shape {list(rest)}: {op.name}_ cannot "
                "change the tensor's shape. Use the out-of-place form.")
    if "broadcast" in text and len(shapes) >= 2:
        return broadcast_error(op.name, shapes)
    if isinstance(error, TypeError) and ("boolean" in text or "not supported for the input types" in text
                                         or "did not contain a loop" in text):
        kinds = ", ".join(sorted({_torch_name(a.dtype) for a in arrays if isinstance(a, np.ndarray)}))
        if op.name == "sub" and "Bool" in kinds:
            return bool_subtraction()
        if op.name == "neg" and "Bool" in kinds:
            return RuntimeError("Negation, the `-` operator, is not supported for a bool tensor. To invert a mask "
                                "write ~mask or torch.logical_not(mask).")
        return NotImplementedError(f'"{op.name}" not implemented for {kinds!r}. Convert the tensor to a dtype that has it.')
    return error


def _compatible(shapes: list) -> bool:
    try:
        np.broadcast_shapes(*shapes)
    except ValueError:
        return False
    return True


def broadcast_error(name: str, shapes: list) -> RuntimeError:
    """Which two sizes, at which dimension."""
    names = "abcdefgh"
    for i in range(len(shapes)):
        for j in range(i + 1, len(shapes)):
            s, t = shapes[i], shapes[j]
            for k in range(1, min(len(s), len(t)) + 1):
                if s[-k] != t[-k] and 1 not in (s[-k], t[-k]):
                    dim = max(len(s), len(t)) - k
                    return RuntimeError(
                        f"The size of tensor {names[i]} ({s[-k]}) must match the size of tensor {names[j]} ({t[-k]}) at "
                        f"non-singleton dimension {dim}: {name}() got shapes {list(s)} and {list(t)}. Broadcasting aligns "
                        "shapes from the right and stretches only sizes of 1.")
    return RuntimeError(f"{name}() got shapes that do not broadcast: {[list(s) for s in shapes]}")


def install() -> None:
    """Hand NumPy to the core."""
    quiet = contextvars.Context()
    quiet.run(np.seterr, all="ignore")
    (variable, value), = quiet.items()      # NumPy's own context variable, found without naming it
    plain = contextvars.Context()
    plain.run(np.seterr, divide="warn", over="warn", under="ignore", invalid="warn")
    state.run = quiet.run
    state.quiet_set, state.quiet_reset, state.quiet_value = variable.set, variable.reset, value
    state.loud_value = plain[variable]
    state.array, state.wrap, state.size, state.add, state.sparse = np.ndarray, wrap, Size, np.add, Sparse
    state.follow = follow
    state.constant, state.promote, state.promote_inplace, state.floating = constant, promote, promote_inplace, floating
    state.explain, state.is_float = explain, is_float
    state.bool_dtype, state.f32, state.f64 = BOOL, F32, F64
    state.c64, state.c128 = np.dtype("c8"), np.dtype("c16")
    for name, fn in (
        ("add", np.add), ("sum_to", sum_to), ("cast", cast_gradient), ("clone_as", clone_as), ("write", write),
        ("clone", strides.clone), ("overlaps", strides.has_internal_overlap), ("partial", strides.may_partially_overlap),
        ("copy_into", copy_into), ("fit_write", fit_write), ("iadd", lambda a, b: np.add(a, b, a)),
        ("ones_like", ones_like),
    ):
        setattr(xp, name, fn)
    state.xp = xp
