"""`assert_close`: are two results equal within what their dtypes can hold?

Inputs are matched in pairs, recursively through sequences and mappings. Tensors and NumPy arrays are compared
elementwise, |actual - expected| <= atol + rtol * |expected|; numbers alike; None by identity.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

import flambeau
from flambeau.core.dtype import DType
from flambeau.core.objects import TensorBase, array_of

_TOLERANCES = {"float16": (1e-3, 1e-5), "bfloat16": (1.6e-2, 1e-5), "float32": (1.3e-6, 1e-5), "float64": (1e-7, 1e-7),
               "complex64": (1.3e-6, 1e-5), "complex128": (1e-7, 1e-7)}
_NUMBERS = {bool: "bool", int: "int64", float: "float64", complex: "complex128"}


class _Failure(Exception):
    """A pair that does not match, and where it stands."""

    def __init__(self, kind: type[Exception], text: str, where: tuple = ()) -> None:
        super().__init__(text)
        self.kind, self.text, self.where = kind, text, where


class _Rules:
    def __init__(self, **options: Any) -> None:
        self.__dict__.update(options)

    def tolerances(self, *names: str) -> tuple[float, float]:
        """rtol and atol for operands of these dtypes: as given, else the larger of the defaults."""
        if self.rtol is not None:
            return self.rtol, self.atol
        pairs = [_TOLERANCES.get(n, (0.0, 0.0)) for n in names]
        return max(p[0] for p in pairs), max(p[1] for p in pairs)


def assert_close(
    actual: Any,
    expected: Any,
    *,
    allow_subclasses: bool = True,
    rtol: float | None = None,
    atol: float | None = None,
    equal_nan: bool = False,
    check_device: bool = True,
    check_dtype: bool = True,
    check_layout: bool = True,
    check_stride: bool = False,
    msg: str | Callable[[str], str] | None = None,
) -> None:
    """Raise AssertionError unless actual and expected are close.

    Args:
        actual, expected: tensors, NumPy arrays, numbers, None, or sequences and mappings of them.
        allow_subclasses: also compare values whose types are related by inheritance, not only equal ones.
        rtol, atol: relative and absolute tolerance, both or none; defaults follow from the dtype: float16 (1e-3,
            1e-5), bfloat16 (1.6e-2, 1e-5), float32 (1.3e-6, 1e-5), float64 (1e-7, 1e-7), others (0, 0).
        equal_nan: nan equals nan.
        check_device, check_dtype, check_layout, check_stride: what must agree besides shapes and values.
        msg: the error's text, or a function of the text that makes a new one.

    Raises:
        AssertionError: they differ; the text says how much and where.
        ValueError: only one tolerance is given.
        TypeError: values that cannot be compared.

    >>> flambeau.testing.assert_close(flambeau.tensor([1.0]), flambeau.tensor([1.0 + 1e-7]))
    """
    if (rtol is None) != (atol is None):
        raise ValueError("Give both 'rtol' and 'atol' or neither: there is no "
                         f"{'rtol' if rtol is None else 'atol'}.")
    rules = _Rules(allow_subclasses=allow_subclasses, rtol=rtol, atol=atol, equal_nan=equal_nan, check_device=check_device,
                   check_dtype=check_dtype, check_layout=check_layout, check_stride=check_stride)
    failures: list[_Failure] = []
    _compare(actual, expected, rules, (), failures)
    if not failures:
        return
    first = failures[0]
    if first.kind is not AssertionError:
        raise first.kind(first.text)
    texts = []
    for f in failures:
        text = f.text
        if f.where:
            text += "\n\nThe failure occurred for item " + "".join(f"[{k!r}]" for k in f.where)
        texts.append((msg(text) if callable(msg) else msg) if msg is not None else text)
    raise AssertionError("\n\n".join(texts))


def _compare(a: Any, b: Any, rules: Any, where: tuple, failures: list[_Failure]) -> None:
    """Append to failures what differs; the structure is checked before any value."""
    try:
        if _is_sequence(a) and _is_sequence(b):
            if len(a) != len(b):
                raise _Failure(AssertionError, f"The length of the sequences mismatch: {len(a)} != {len(b)}", where)
            for i, (x, y) in enumerate(zip(a, b, strict=True)):
                _compare(x, y, rules, (*where, i), failures)
        elif isinstance(a, Mapping) and isinstance(b, Mapping):
            missing, more = sorted(set(b) - set(a), key=str), sorted(set(a) - set(b), key=str)
            if missing or more:
                raise _Failure(AssertionError,
                               "The keys of the mappings do not match:\n"
                               f"Missing keys in the actual mapping: {missing}\n"
                               f"Additional keys in the actual mapping: {more}", where)
            for k in sorted(a, key=str):
                _compare(a[k], b[k], rules, (*where, k), failures)
        else:
            _pair(a, b, rules, where)
    except _Failure as failure:
        failures.append(failure)


def _is_sequence(x: Any) -> bool:
    return isinstance(x, Sequence) and not isinstance(x, (str, bytes))


def _pair(a: Any, b: Any, rules: Any, where: tuple) -> None:
    related = type(a) is type(b) or (rules.allow_subclasses and (isinstance(a, type(b)) or isinstance(b, type(a))))
    if a is None or b is None:
        if a is not b:
            raise _Failure(AssertionError, f"None mismatch: {a} is not {b}", where)
        return
    if _is_number(a) and _is_number(b):
        _numbers(a, b, rules, where)
        return
    if not related or not (isinstance(a, (TensorBase, np.ndarray)) and isinstance(b, (TensorBase, np.ndarray))):
        raise _Failure(TypeError, "No comparison pair was able to handle inputs of type "
                       f"{type(a)} and {type(b)}.{_place(where)}", where)
    _tensors(_tensor(a), _tensor(b), rules, where)


def _place(where: tuple) -> str:
    return "\n\nThe failure occurred for item " + "".join(f"[{k!r}]" for k in where) if where else ""


def _is_number(x: Any) -> bool:
    return isinstance(x, (bool, int, float, complex, np.number, np.bool_)) and not isinstance(x, np.ndarray)


def _tensor(x: Any) -> Any:
    return flambeau.as_tensor(x) if isinstance(x, np.ndarray) else x


def _numbers(a: Any, b: Any, rules: Any, where: tuple) -> None:
    kinds = [next(k for k in (bool, int, float, complex) if isinstance(x, k) or isinstance(
        x, {bool: np.bool_, int: np.integer, float: np.floating, complex: np.complexfloating}[k])) for x in (a, b)]
    if rules.check_dtype and kinds[0] is not kinds[1]:
        raise _Failure(AssertionError, f"The (d)types do not match: {type(a)} != {type(b)}.", where)
    rtol, atol = rules.tolerances(_NUMBERS[kinds[0]], _NUMBERS[kinds[1]])
    _scalars(a, b, rtol, atol, rules, where)


def _scalars(a: Any, b: Any, rtol: float, atol: float, rules: Any, where: tuple) -> None:
    difference = abs(complex(a) - complex(b)) if isinstance(a, complex) or isinstance(b, complex) else abs(
        int(a) - int(b) if isinstance(a, (int, np.integer)) and isinstance(b, (int, np.integer)) else float(a) - float(b))
    if a == b or (a != a and b != b and rules.equal_nan):
        return
    finite = np.isfinite(complex(a)) and np.isfinite(complex(b))
    if finite and difference <= atol + rtol * abs(b):
        return
    exact = rtol == 0 and atol == 0
    relative = difference / abs(b) if b != 0 else float("inf")
    text = [f"Scalars are not {'equal' if exact else 'close'}!", "", f"Expected {b} but got {a}."]
    text.append(f"Absolute difference: {difference}" + ("" if exact else f" (up to {atol} allowed)"))
    text.append(f"Relative difference: {relative}" + ("" if exact else f" (up to {rtol} allowed)"))
    raise _Failure(AssertionError, "\n".join(text), where)


def _tensors(a: Any, b: Any, rules: Any, where: tuple) -> None:
    def same(name: str, x: Any, y: Any) -> None:
        if x != y:
            raise _Failure(AssertionError, f"The values for attribute '{name}' do not match: {x} != {y}.", where)

    same("shape", a.shape, b.shape)
    if rules.check_layout:
        same("layout", a.layout, b.layout)
    if rules.check_device:
        same("device", a.device, b.device)
    if rules.check_dtype:
        same("dtype", a.dtype, b.dtype)
    if rules.check_stride:
        same("stride()", a.stride(), b.stride())
    if a.is_meta or b.is_meta:
        return
    if a.layout is not flambeau.strided or b.layout is not flambeau.strided:
        if a.layout is b.layout:
            same("number of specified values", a._nnz(), b._nnz())
            _positions(a, b, where)
        a, b = a.to_dense(), b.to_dense()
    rtol, atol = rules.tolerances(a.dtype.name, b.dtype.name)
    _values(a, b, rtol, atol, rules, where)


def _positions(a: Any, b: Any, where: tuple) -> None:
    """The positions of the elements of two sparse tensors of one layout."""
    names = {"sparse_coo": ("_indices",), "sparse_csr": ("crow_indices", "col_indices"),
             "sparse_bsr": ("crow_indices", "col_indices")}.get(a.layout.name, ("ccol_indices", "row_indices"))
    for name in names:
        x, y = getattr(a, name)(), getattr(b, name)()
        if not flambeau.equal(x, y):
            raise _Failure(AssertionError, f"{a.layout.name} tensors have other positions: {name}() is {x.tolist()} and "
                                           f"{y.tolist()}. Compare them after coalesce() or to_dense().", where)


def _values(a: Any, b: Any, rtol: float, atol: float, rules: Any, where: tuple) -> None:
    dtype: DType = flambeau.promote_types(a.dtype, b.dtype)
    x, y = (array_of(t.detach().to(dtype)) for t in (a, b))
    if dtype.kind in "biu":
        x, y = x.astype(np.int64), y.astype(np.int64)
    with np.errstate(all="ignore"):
        difference = np.abs(x - y)
        close = (x == y) | (np.isfinite(x) & np.isfinite(y) & (difference <= atol + rtol * np.abs(y)))
        if rules.equal_nan:
            close |= np.isnan(x) & np.isnan(y)
    if bool(close.all()):
        return
    exact = rtol == 0 and atol == 0
    if x.ndim == 0:
        _scalars(x.item(), y.item(), rtol, atol, _Rules(equal_nan=False), where)
        return
    with np.errstate(all="ignore"):
        ratio = flambeau.get_default_dtype().array_type if dtype.kind in "biu" else difference.dtype
        relative = difference.astype(ratio) / np.abs(y).astype(ratio)
    bad = ~close
    text = [f"Tensor-likes are not {'equal' if exact else 'close'}!", "",
            f"Mismatched elements: {int(bad.sum())} / {x.size} ({100 * int(bad.sum()) / x.size:.1f}%)"]
    for what, values, allowed in (("absolute", difference, atol), ("relative", relative, rtol)):
        masked = np.where(close, np.zeros((), values.dtype), values)
        flat = int(np.argmax(masked))
        index = tuple(int(i) for i in np.unravel_index(flat, x.shape))
        text.append(f"Greatest {what} difference: {_plain(masked.reshape(-1)[flat])} at index {index}"
                    + ("" if exact else f" (up to {allowed} allowed)"))
    raise _Failure(AssertionError, "\n".join(text), where)


def _plain(x: Any) -> Any:
    return x.item() if x.dtype.kind in "biu" else float(x)


def assert_allclose(actual: Any, expected: Any, rtol: float | None = None, atol: float | None = None, equal_nan: bool = True,
                    msg: str = "") -> None:
    """Deprecated: use assert_close."""
    warnings.warn("`torch.testing.assert_allclose()` is deprecated: use `torch.testing.assert_close()`", FutureWarning,
                  stacklevel=2)
    if not isinstance(actual, TensorBase):
        actual = flambeau.tensor(actual)
    if not isinstance(expected, TensorBase):
        expected = flambeau.tensor(expected, dtype=actual.dtype)
    if rtol is None and atol is None:
        rtol, atol = _TOLERANCES.get(actual.dtype.name, (0.0, 0.0))
    assert_close(actual, expected, rtol=rtol, atol=atol, equal_nan=equal_nan, check_device=True, check_dtype=False,
                 check_stride=False, msg=msg or None)
