"""Run an operator's samples on any library that presents PyTorch's API, and compare what comes back.

The samples of a record (`flambeau.ops.REGISTRY`) take a maker of tensors; the maker here gives the same values for
the same seed whatever the library, so that two libraries can be compared call by call.
"""

from __future__ import annotations

import importlib
import random
import zlib
from collections.abc import Callable, Iterator
from types import ModuleType
from typing import Any

import numpy as np

# (rtol, atol) of one operator's result; the widths of the dtypes give them
TOLERANCES = {
    "float64": (1e-9, 1e-10), "complex128": (1e-9, 1e-10), "float32": (2e-5, 2e-6), "complex64": (2e-5, 2e-6),
    "float16": (4e-3, 2e-3), "bfloat16": (2e-2, 1e-2),
}


class Maker:
    """Makes tensors of one library from seeded values.

    >>> import flambeau
    >>> Maker(flambeau, seed=1)(2, 3).shape
    torch.Size([2, 3])
    """

    def __init__(self, library: ModuleType, seed: int = 0, dtype: str | None = None, grad: bool = False) -> None:
        self.library = library
        self.random = np.random.RandomState(seed)
        self.dtype = dtype
        self.grad = grad
        self.leaves: list[Any] = []

    def __call__(
        self,
        *shape: int,
        low: float = -2.0,
        high: float = 2.0,
        dtype: str | None = None,
        grad: bool = True,
        transposed: bool = False,
        values: Any = None,
    ) -> Any:
        """A tensor of uniform values in [low, high].

        Args:
            dtype: name; default float32, or the maker's own. A complex one is as wide as the maker's own.
            grad: it requires grad, when the maker makes such tensors and the dtype allows it.
            transposed: the memory order is reversed (a non-contiguous tensor of the given shape).
            values: the values themselves, instead of random ones.
        """
        name = dtype or self.dtype or "float32"
        if name == "complex64" and self.dtype == "float64":     # checks of derivatives need every digit
            name = "complex128"
        wide = "float64" if name in ("float32", "float64", "float16", "bfloat16") else name
        if values is not None:
            array = np.asarray(values, wide)
        elif name == "bool":
            array = self.random.rand(*shape) > 0.5
        elif name.startswith(("int", "uint")):
            array = self.random.randint(int(low if not name.startswith("u") else max(low, 0)), int(high) + 1, shape)
        else:
            array = self.random.uniform(low, high, shape)
            if name.startswith("complex"):
                array = array + 1j * self.random.uniform(low, high, shape)
        array = np.asarray(array)
        torch = self.library
        if transposed and array.ndim > 1:
            base = torch.tensor(np.ascontiguousarray(array.T), dtype=getattr(torch, name))
            base.requires_grad_(False)
            t = base.permute(*reversed(range(array.ndim)))
        else:
            t = torch.tensor(array, dtype=getattr(torch, name))
        if self.grad and grad and name.startswith(("float", "bfloat", "complex")):
            t.requires_grad_(True)
            self.leaves.append(t)
        return t


def find(library: ModuleType, key: str) -> Callable:
    """The function that a registry key names: "sum", "nn.functional.relu"."""
    target: Any = library
    parts = key.split(".")
    for i, part in enumerate(parts):
        if not hasattr(target, part) and isinstance(target, ModuleType):
            target = importlib.import_module(".".join([library.__name__, *parts[: i + 1]]))
        else:
            target = getattr(target, part)
    return target


def public_callable(library: ModuleType, key: str, record: Any) -> Callable:
    """What a user calls: the function, or for a record of methods only the method."""
    if record.namespaces:
        return find(library, key)
    return getattr(library.Tensor, record.name)


def seed_of(key: str, i: int) -> int:
    return zlib.crc32(key.encode()) % 100_000 + i


def calls(library: ModuleType, key: str, record: Any, dtype: str | None, grad: bool) -> Iterator[tuple[int, Any, Maker]]:
    """The record's sample calls on a library: (number, sample, maker)."""
    count = len(list(record.samples(Maker(library, 0, dtype))))
    for i in range(count):
        maker = Maker(library, seed_of(key, 0), dtype, grad)
        sample = list(record.samples(maker))[i]
        yield i, sample, maker


def tensors(value: Any) -> list[Any]:
    """The tensors in a result, in order."""
    if hasattr(value, "detach") and hasattr(value, "dtype"):
        return [value]
    if isinstance(value, (tuple, list)):
        return [t for v in value for t in tensors(v)]
    if isinstance(value, dict):
        return [t for v in value.values() for t in tensors(v)]
    return []


def swapped(value: Any, swap: dict[int, Any]) -> Any:
    """Arguments with tensors in the place of others: `swap` has them by the id of those."""
    if isinstance(value, (tuple, list)) and not hasattr(value, "shape"):
        return type(value)(swapped(v, swap) for v in value)
    if isinstance(value, dict):
        return {k: swapped(v, swap) for k, v in value.items()}
    return swap.get(id(value), value)


def to_numpy(t: Any) -> np.ndarray:
    """The values of a tensor of either library."""
    t = t.detach()
    if str(t.dtype).endswith("bfloat16"):
        t = t.float()
    for name in ("resolve_conj", "resolve_neg"):
        if hasattr(t, name):
            t = getattr(t, name)()
    if getattr(t, "_is_zerotensor", bool)():     # how PyTorch stands for a derivative that is zero everywhere
        return t.numpy(force=True)
    return np.asarray(t.numpy())


def assert_same(expected: Any, got: Any, where: str, factor: float = 1.0, values: bool = True) -> None:
    """Two results agree: structure, shapes, dtypes and, unless they are undefined, values."""
    e, g = tensors(expected), tensors(got)
    assert len(e) == len(g), f"{where}: {len(g)} tensors, expected {len(e)}"
    for k, (a, b) in enumerate(zip(e, g, strict=True)):
        name = str(a.dtype).rsplit(".", 1)[-1]
        assert str(b.dtype).rsplit(".", 1)[-1] == name, f"{where}[{k}]: dtype {b.dtype}, expected {a.dtype}"
        assert tuple(a.shape) == tuple(b.shape), f"{where}[{k}]: shape {tuple(b.shape)}, expected {tuple(a.shape)}"
        if not values:
            continue
        rtol, atol = TOLERANCES.get(name, (0.0, 0.0))
        x, y = to_numpy(a), to_numpy(b)
        finite = np.abs(x[np.isfinite(x)]) if x.dtype.kind in "fc" else np.zeros(0)
        scale = max(1.0, float(finite.max())) if finite.size else 1.0
        np.testing.assert_allclose(y, x, rtol=rtol * factor, atol=atol * factor * scale, equal_nan=True,
                                   err_msg=f"{where}[{k}]")


def cotangents(outputs: list[Any], library: ModuleType, seed: int) -> list[Any]:
    """Random gradients of outputs."""
    rs = np.random.RandomState(seed)
    result = []
    for t in outputs:
        a = rs.standard_normal(tuple(t.shape))
        if t.dtype.is_complex:
            a = a + 1j * rs.standard_normal(tuple(t.shape))
        result.append(library.tensor(np.asarray(a)).to(t.dtype))
    return result


def derivatives(library: ModuleType, output: Any, leaves: list[Any], second: bool) -> tuple[list[Any], list[Any] | None]:
    """First gradients of the output's differentiable tensors in random directions, and second ones."""
    outs = [t for t in tensors(output) if t.requires_grad]
    if not outs or not leaves:
        return [], None
    first = library.autograd.grad(outs, leaves, cotangents(outs, library, 3), create_graph=second, allow_unused=True)
    if not second:
        return list(first), None
    again = [g for g in first if g is not None and g.requires_grad]
    if not again:
        return list(first), None
    try:
        return list(first), list(library.autograd.grad(again, leaves, cotangents(again, library, 5), allow_unused=True))
    except NotImplementedError:      # an operator that cannot be differentiated twice, in PyTorch either
        return list(first), None


def assert_gradients(expected: list[Any] | None, got: list[Any] | None, where: str, factor: float) -> None:
    """Gradients agree; None and zeros count as the same."""
    e = expected or [None] * len(got or [])
    g = got or [None] * len(e)
    for k, (a, b) in enumerate(zip(e, g, strict=True)):
        if a is None and b is None:
            continue
        if a is None or b is None:
            other = to_numpy(a if b is None else b)
            assert not np.any(np.nan_to_num(other)), f"{where}[{k}]: one is None, the other is not zero"
            continue
        assert_same(a, b, f"{where}[{k}]", factor)


def shuffled(keys: list[str], seed: int) -> list[str]:
    keys = list(keys)
    random.Random(seed).shuffle(keys)
    return keys
