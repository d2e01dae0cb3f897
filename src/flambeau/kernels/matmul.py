"""Products of matrices and vectors.

`ndarray.dot` starts faster than `np.matmul` (0.3 against 0.7 us for 8 by 8 float32) and gives transposed operands
to the BLAS as they are, so products of two matrices use it. float16 and bfloat16 are multiplied in float32 and
rounded once, as PyTorch does.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from .casting import BFLOAT16, cast
from .joining import common_dtype

F16, F32, F64 = np.dtype("float16"), np.dtype("float32"), np.dtype("float64")
_NAMES = {
    "bool": "Bool",
    "uint8": "Byte",
    "int8": "Char",
    "int16": "Short",
    "int32": "Int",
    "int64": "Long",
    "float16": "Half",
    "bfloat16": "BFloat16",
    "float32": "Float",
    "float64": "Double",
    "complex64": "ComplexFloat",
    "complex128": "ComplexDouble",
}
_C_NAMES = {
    "float32": "float",
    "float64": "double",
    "float16": "c10::Half",
    "bfloat16": "c10::BFloat16",
    "int64": "long",
    "int32": "int",
    "int16": "short",
    "int8": "signed char",
    "uint8": "unsigned char",
    "bool": "bool",
    "complex64": "c10::complex<float>",
    "complex128": "c10::complex<double>",
}


def _is_half(d: np.dtype) -> bool:
    return d == F16 or d == BFLOAT16


def dtype_name(d: np.dtype) -> str:
    """Return PyTorch's word for a dtype in error messages."""
    return _NAMES.get(d.name, d.name)


def check_dtypes(name: str, a: np.ndarray, b: np.ndarray) -> None:
    """Raise when two factors differ in dtype, or are bool."""
    if a.dtype != b.dtype:
        x, y = a.dtype, b.dtype
        fix = f"{name}() does not promote: convert one of them, for example with .to(other.dtype)."
        if name == "dot" or name == "vdot":
            raise RuntimeError(
                f"{name} : expected both vectors to have same dtype, but found {dtype_name(x)} and {dtype_name(y)}. {fix}"
            )
        if name in ("mm", "linear", "addmm"):
            raise RuntimeError(
                f"expected m1 and m2 to have the same dtype, but got: {_C_NAMES.get(x.name, x.name)} != "
                f"{_C_NAMES.get(y.name, y.name)}. mat1 and mat2 must have the same dtype: {fix}"
            )
        raise RuntimeError(
            f"expected scalar type {dtype_name(x)} but found {dtype_name(y)}: both must have the same dtype. {fix}"
        )
    if a.dtype.kind == "b":
        raise NotImplementedError(
            f"\"{name}\" not implemented for 'Bool'. Convert to a number type first, with .float() or .int()."
        )


def shape_error(a: tuple, b: tuple) -> RuntimeError:
    """The error of two matrices whose inner sizes differ, with the likely fix."""
    fix = "the columns of the first must be as many as the rows of the second"
    if len(a) == 2 and len(b) == 2:
        if a[1] == b[1]:
            fix += "; the second fits transposed: a @ b.T"
        elif a[0] == b[0]:
            fix += "; the first fits transposed: a.T @ b"
    return RuntimeError(
        f"mat1 and mat2 shapes cannot be multiplied ({'x'.join(map(str, a))} and {'x'.join(map(str, b))}): {fix}."
    )


def product_shape(name: str, a: tuple, b: tuple) -> tuple[int, ...]:
    """Return the shape of the product `name` of arrays of two shapes.

    Raises:
        RuntimeError: the sizes do not fit.
    """
    if name == "mv":
        if a[1] != b[0]:
            raise RuntimeError(
                f"size mismatch, got input ({a[0]}), mat ({a[0]}x{a[1]}), vec ({b[0]}): the vector must be as long as the "
                "matrix has columns."
            )
        return a[:1]
    if name in ("dot", "vdot"):
        if a != b:
            raise RuntimeError(
                f"inconsistent tensor size, expected tensor [{a[0]}] and src [{b[0]}] to have the same number of "
                f"elements, but got {a[0]} and {b[0]} elements respectively"
            )
        return ()
    if name == "bmm":
        if a[0] != b[0] or a[2] != b[1]:
            raise RuntimeError(
                f"bmm: Expected size for first two dimensions of batch2 tensor: [{a[0]}, {a[2]}], not [{b[0]}, {b[1]}]."
            )
        return (*a[:2], b[2])
    if name == "linear":
        if a[-1] != b[-1]:
            raise _linear_error(a, b)
        return (*a[:-1], *b[:-1])
    if a[1] != b[0]:
        raise shape_error(a, b)
    return (a[0], b[1])


def check_added(name: str, a: tuple, target: tuple) -> None:
    """Raise when a shape does not broadcast to that of the product that it is added to."""
    if len(a) > len(target) or any(n not in (1, t) for n, t in zip(reversed(a), reversed(target), strict=False)):
        raise _expand_error(a, target)


def mm_nt(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Return a @ b.T."""
    d = a.dtype
    return a.dot(b.T) if d is b.dtype and (d is F32 or d is F64) else mm(a, b.T)


def mm_tn(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Return a.T @ b."""
    d = a.dtype
    return a.T.dot(b) if d is b.dtype and (d is F32 or d is F64) else mm(a.T, b)


def mm_tn_swapped(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Return b.T @ a."""
    d = a.dtype
    return b.T.dot(a) if d is b.dtype and (d is F32 or d is F64) else mm(b.T, a)


def mm(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Return the product of two matrices of one dtype."""
    d = a.dtype
    if d is not b.dtype or (d is not F32 and d is not F64):
        check_dtypes("mm", a, b)
        if _is_half(d):
            return cast(mm(a.astype(F32), b.astype(F32)), d)
    try:
        return a.dot(b)
    except ValueError:
        raise shape_error(a.shape, b.shape) from None


def mv(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Return the product of a matrix and a vector."""
    check_dtypes("mv", a, b)
    if _is_half(a.dtype):
        return cast(mv(a.astype(F32), b.astype(F32)), a.dtype)
    product_shape("mv", a.shape, b.shape)
    return a.dot(b)


def dot(a: np.ndarray, b: np.ndarray, name: str = "dot") -> Any:
    """Return the sum of the products of two vectors' elements."""
    check_dtypes(name, a, b)
    product_shape(name, a.shape, b.shape)
    if _is_half(a.dtype):
        return cast(np.asarray(a.astype(F32).dot(b.astype(F32))), a.dtype)
    return a.dot(b)


def vdot(a: np.ndarray, b: np.ndarray) -> Any:
    """Return `dot` with the first vector conjugated."""
    return dot(np.conjugate(a) if a.dtype.kind == "c" else a, b, "vdot")


def bmm(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Return the products of two stacks of matrices, pair by pair."""
    d = a.dtype
    if d is not b.dtype or (d is not F32 and d is not F64):
        check_dtypes("bmm", a, b)
        if _is_half(d):
            return cast(bmm(a.astype(F32), b.astype(F32)), d)
    product_shape("bmm", a.shape, b.shape)
    n, m, k = a.shape
    if n == 1:
        return a[0].dot(b[0])[None]
    if k == 1:
        return np.multiply(a, b)            # outer products: a quarter of matmul's time (64 of 64 by 128)
    if b.strides[0] == 0 and n:             # one second factor for all, as vmap's parameters: one product, half the time
        return a.reshape(n * m, k).dot(b[0]).reshape(n, m, b.shape[2])
    return np.matmul(a, b)


def linear(x: np.ndarray, weight: np.ndarray, bias: np.ndarray | None = None) -> np.ndarray:
    """Return x @ weight.T + bias for x of any number of dimensions, whose last is the weight's last."""
    d = x.dtype
    if d is not weight.dtype or (d is not F32 and d is not F64) or (bias is not None and bias.dtype is not d):
        check_dtypes("linear", x, weight)
        if bias is not None:
            check_dtypes("linear", x, bias)
        if _is_half(d):
            return cast(linear(x.astype(F32), weight.astype(F32), None if bias is None else bias.astype(F32)), d)
    try:
        if x.ndim == 2:
            out = x.dot(weight.T)
        elif weight.ndim == 1:
            out = np.asarray(x.dot(weight))
        else:
            k = x.shape[-1]
            rows = x.size // k if k else int(np.prod(x.shape[:-1]))
            out = x.reshape(rows, k).dot(weight.T).reshape((*x.shape[:-1], weight.shape[0]))
    except ValueError:
        raise _linear_error(x.shape, weight.shape) from None
    if bias is not None:
        if bias.ndim > out.ndim:
            return out + bias
        try:
            out += bias
        except ValueError:
            raise RuntimeError(
                f"linear: the bias does not fit: its shape is {list(bias.shape)} and the product's {list(out.shape)}. "
                f"The expanded size of the tensor ({out.shape[-1]}) must match the existing size ({bias.shape[-1]})."
            ) from None
    return out


def linear_bias(bias: np.ndarray, x: np.ndarray, weight: np.ndarray) -> np.ndarray:
    """Return `linear` with PyTorch's order of the inputs of its node; the common case without further checks."""
    d = x.dtype
    if (d is F32 or d is F64) and d is weight.dtype and d is bias.dtype and x.ndim == 2:
        try:
            out = x.dot(weight.T)
            return np.add(out, bias, out)
        except ValueError:
            pass        # `linear` says what does not fit
    return linear(x, weight, bias)


def _linear_error(x: tuple, weight: tuple) -> RuntimeError:
    rows = int(np.prod(x[:-1]))
    k = weight[-1]
    hint = f"the last dimension of input is {x[-1]}, the layer expects {k}"
    if len(x) > 2 and int(np.prod(x[1:])) == k:
        hint += ": flatten the input first, with torch.flatten(x, 1)"
    return RuntimeError(
        f"mat1 and mat2 shapes cannot be multiplied ({rows}x{x[-1]} and {'x'.join(map(str, weight[::-1]))}): "
        f"linear() got input {list(x)} and weight {list(weight)}; {hint}."
    )


def _scaled(product: Any, alpha: Any, d: np.dtype) -> Any:
    return product if alpha == 1 else np.multiply(product, np.asarray(alpha).astype(d))


def wide(a: np.ndarray) -> np.ndarray:
    """Return a half-precision array in float32, others as they are."""
    return a.astype(F32) if _is_half(a.dtype) else a


def check_self(name: str, a: Any, x: Any) -> None:
    """Raise when what a product is added to has another dtype."""
    if a.dtype != x.dtype:
        raise RuntimeError(
            f"{name}: self must have the same dtype as the factors, but got {dtype_name(a.dtype)} and "
            f"{dtype_name(x.dtype)}"
        )


def fused(name: str, product: Any) -> Any:
    """Return the kernel (a, x, y, beta, alpha) -> beta * a + alpha * product(x, y), rounded once."""

    def kernel(a: np.ndarray, x: np.ndarray, y: np.ndarray, beta: Any = 1, alpha: Any = 1) -> np.ndarray:
        d = a.dtype
        if d is x.dtype and d is y.dtype and (d is F32 or d is F64):
            p = product(x, y)
            if type(beta) is type(alpha) is int and beta == alpha == 1 and a.shape == p.shape:
                return np.add(a, p)
        else:
            check_dtypes(name, x, y)
            check_self(name, a, x)
            p = np.asarray(product(wide(x), wide(y)))
        out = _scaled(p, alpha, p.dtype)
        if beta != 0:
            try:
                out = out + _scaled(wide(a), beta, p.dtype)
            except ValueError:
                raise _expand_error(a.shape, p.shape) from None
        elif np.broadcast_shapes(a.shape, p.shape) != p.shape:
            raise _expand_error(a.shape, p.shape)
        if out.shape != p.shape:
            raise _expand_error(a.shape, p.shape)
        return cast(out, a.dtype) if out.dtype is not a.dtype else out

    return kernel


def _expand_error(a: tuple, target: tuple) -> RuntimeError:
    if len(a) > len(target):
        return RuntimeError(
            f"expand: the number of sizes provided ({len(target)}) must be greater or equal to the number of "
            f"dimensions in the tensor ({len(a)})"
        )
    for axis in range(1, len(a) + 1):
        if a[-axis] not in (1, target[-axis]):
            return RuntimeError(
                f"The expanded size of the tensor ({target[-axis]}) must match the existing size ({a[-axis]}) at "
                f"non-singleton dimension {len(target) - axis}.  Target sizes: {list(target)}.  Tensor sizes: {list(a)}"
            )
    return RuntimeError(f"shape {list(a)} does not broadcast to {list(target)}")


def outer(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Return the products of every element of one vector with every element of another."""
    return np.multiply(x[:, None], y[None, :])


def add_outer(a: np.ndarray, x: np.ndarray, y: np.ndarray, beta: Any = 1, alpha: Any = 1) -> np.ndarray:
    """Return beta * a + alpha * outer(x, y), promoted; of bools the logical form."""
    d = common_dtype([a, x, y])
    if d.kind == "b":
        p = np.logical_and(bool(alpha), outer(x, y))
        out = np.logical_or(np.logical_and(bool(beta), a), p) if beta else p
        if out.shape != p.shape:
            raise _expand_error(a.shape, p.shape)
        return out
    return _ADD_OUTER(cast(a, d), cast(x, d), cast(y, d), beta, alpha)


_ADD_OUTER = fused("addr", outer)


def sum_of_products(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Return the sum over the stack of bmm(x, y)."""
    n, p, k = x.shape
    q = y.shape[2]
    if y.shape[0] != n or y.shape[1] != k:
        return bmm(x, y).sum(0)  # bmm raises
    return x.transpose(1, 0, 2).reshape(p, n * k).dot(y.reshape(n * k, q))
