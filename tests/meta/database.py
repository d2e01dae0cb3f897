"""PyTorch's own database of operators, called on meta tensors by both libraries.

Each sample's tensors become meta tensors of the same shape, dtype and strides; the results must agree in shape, dtype and
strides. Where PyTorch itself has no meta implementation, ours must raise or answer, but not compute.
"""

from __future__ import annotations

import functools
import importlib
import itertools
import random
import re
import types
import warnings
from collections.abc import Iterator
from typing import Any

import torch

import flambeau

LIBRARIES = {"torch": torch, "flambeau": flambeau}
# Strides are not compared: PyTorch's follow its FFT library, an intermediate stack, or the layout of a transposed solution
OWN_STRIDES = re.compile(r"fft\..*|unravel_index|linalg\.(solve(_ex|_triangular)?|lu_solve)")
# Private, sparse or hardware-specific operators, and internals that no program calls
SKIP = re.compile(r"jiterator_.*|torch\.ops\..*|ops\.aten\..*|sparse\..*|to_sparse|_(?!_).*|torch\._.*|.*_backward(_data)?|"
                  r"native_.*|torchbind.*|nn\.functional\.(scaled|grouped)_.*mm|slice|slice_scatter_aten|"
                  r"as_strided\.partial_views|masked\..*")


def operators() -> dict[str, Any]:
    """The database's entries by name."""
    from torch.testing._internal.common_methods_invocations import op_db

    named = {op.name + (f".{op.variant_test_name}" if op.variant_test_name else ""): op for op in op_db}
    return {name: op for name, op in named.items() if not SKIP.fullmatch(op.name) and not SKIP.fullmatch(name)}


def samples(op: Any, name: str, count: int, dtype: Any = torch.float32) -> list:
    """Some of an operator's samples, the same at each run; count 0: all."""
    supported = op.supported_dtypes("cpu")
    if dtype not in supported:
        dtype = next(d for d in (torch.float64, torch.complex64, torch.int64, torch.bool, torch.uint8) if d in supported)
    torch.manual_seed(0)
    random.seed(0)
    found = list(itertools.islice(op.sample_inputs("cpu", dtype, requires_grad=False), 4 * count if count else 150))
    if count and len(found) > count:
        keep = sorted(random.Random(name).sample(range(1, len(found)), count - 1))
        found = [found[0], *[found[i] for i in keep]]
    return found


class Skip(Exception):
    """A sample that cannot be expressed."""


def converted(value: Any, library: Any, grad: bool = False) -> Any:
    """A sample's argument with its tensors on the meta device of a library."""
    if isinstance(value, torch.Tensor):
        if value.layout != torch.strided or value.is_quantized or getattr(value, "is_nested", False):
            raise Skip
        t = library.empty_strided(tuple(value.shape), tuple(value.stride()), dtype=converted(value.dtype, library),
                                  device="meta")
        if grad and (value.is_floating_point() or value.is_complex()):
            t.requires_grad_(True)
        return t
    if isinstance(value, (torch.dtype, torch.memory_format, torch.layout)):
        return getattr(library, str(value).rsplit(".", 1)[-1])
    if isinstance(value, torch.device):
        return "meta"
    if isinstance(value, torch.Generator):
        raise Skip
    if isinstance(value, (tuple, list)):
        return type(value)(*[converted(v, library, grad) for v in value]) if hasattr(value, "_fields") else type(value)(
            [converted(v, library, grad) for v in value])
    if isinstance(value, dict):
        return {k: converted(v, library, grad) if k != "device" else "meta" for k, v in value.items()}
    if callable(value) and (getattr(value, "__module__", None) or "").startswith("torch"):
        raise Skip
    return value


def rebound(fn: Any, library: Any, seen: dict[int, Any] | None = None) -> Any:
    """A function of the database's own modules, with another library as `torch`."""
    seen = {} if seen is None else seen
    if isinstance(fn, functools.partial):
        return functools.partial(rebound(fn.func, library, seen), *fn.args, **fn.keywords)
    if not isinstance(fn, types.FunctionType) or not (fn.__module__ or "").startswith("torch.testing._internal"):
        return fn
    if id(fn) in seen:
        return seen[id(fn)]
    names = dict(fn.__globals__)
    names["torch"] = library
    if "F" in names:
        names["F"] = library.nn.functional
    new = types.FunctionType(fn.__code__, names, fn.__name__, fn.__defaults__, fn.__closure__)
    new.__kwdefaults__ = fn.__kwdefaults__
    seen[id(fn)] = new
    for name in fn.__code__.co_names:
        if isinstance(names.get(name), (types.FunctionType, functools.partial)):
            names[name] = rebound(names[name], library, seen)
    if "wrapper_set_seed" in names:
        names["wrapper_set_seed"] = lambda op, *args, **kwargs: op(*args, **kwargs)
    return new


def at(library: Any, path: str) -> Any:
    """What a dotted path names in a library."""
    found = library
    for part in path.split("."):
        if isinstance(found, types.ModuleType) and not hasattr(found, part):
            found = importlib.import_module(f"{found.__name__}.{part}")
        else:
            found = getattr(found, part)
    return found


def function(op: Any, library: Any) -> Any:
    """The operator as a function of a library; AttributeError when it lacks it."""
    fn = op.op
    if isinstance(fn, types.FunctionType) and (fn.__module__ or "").startswith("torch.testing._internal"):
        return rebound(fn, library)
    try:
        if at(torch, op.name) is fn:
            return at(library, op.name)
    except (AttributeError, ImportError):
        pass
    method = getattr(fn, "__name__", op.name)
    if hasattr(torch.Tensor, method):
        getattr(library.Tensor, method)
        return lambda x, *args, **kwargs: getattr(x, method)(*args, **kwargs)
    return at(library, op.name)


def tensors(value: Any) -> Iterator[Any]:
    """The tensors of a result, in order."""
    if hasattr(value, "requires_grad") and hasattr(value, "stride"):
        yield value
    elif isinstance(value, (tuple, list)):
        for v in value:
            yield from tensors(v)
    elif isinstance(value, dict):
        for v in value.values():
            yield from tensors(v)


def facts(t: Any, strides: bool = True) -> tuple:
    """(shape, dtype, strides, device); strides of dimensions of size 1 and of empty tensors say nothing."""
    shape = tuple(t.shape)
    steps = tuple(t.stride())
    known = () if 0 in shape or not strides else tuple(s if n != 1 else None for s, n in zip(steps, shape, strict=True))
    return shape, str(t.dtype).rsplit(".", 1)[-1], known, str(t.device)


def call(op: Any, library: Any, sample: Any, grad: bool = False) -> tuple[Any, list]:
    """(the operator's result on meta tensors, its tensor arguments)."""
    fn = function(op, library)
    given = [converted(v, library, grad) for v in (sample.input, tuple(sample.args), dict(sample.kwargs))]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return fn(given[0], *given[1], **given[2]), list(tensors(given))


def disagreement(op: Any, sample: Any) -> str | None:
    """How the two libraries' results differ; None when they agree, or when PyTorch has no answer."""
    try:
        expected, _ = call(op, torch, sample)
    except Skip:
        return None
    except Exception:
        expected = None
    try:
        got, _ = call(op, flambeau, sample)
    except AttributeError as error:
        return f"missing: {error}"
    except Exception as error:
        if "not supported by flambeau" in str(error):
            return f"missing: {error}"
        return None if expected is None else f"{type(error).__name__}: {' '.join(str(error).split())[:200]}"
    if expected is None:
        return None
    a, b = list(tensors(expected)), list(tensors(got))
    if len(a) != len(b):
        return f"{len(b)} tensors, expected {len(a)}"
    for k, (x, y) in enumerate(zip(a, b, strict=True)):
        same = not OWN_STRIDES.fullmatch(op.name)
        if facts(x, same) != facts(y, same):
            return f"[{k}] {facts(y)}, expected {facts(x)}"
    return None


def gradient_disagreement(op: Any, sample: Any) -> str | None:
    """What is wrong with the gradients of the results' sum, to order two, or None."""
    if sample.kwargs.get("sparse"):
        return None             # a gradient in sparse layout
    try:
        got, given = call(op, flambeau, sample, grad=True)
    except Exception:
        return None             # judged by `disagreement`
    outs = [t for t in tensors(got) if t.requires_grad]
    leaves = [t for t in given if t.requires_grad]
    if not outs or not leaves:
        return None
    try:
        first = flambeau.autograd.grad(outs, leaves, [flambeau.ones_like(t) for t in outs], create_graph=True,
                                       allow_unused=True)
    except Exception as error:
        if "derivative" in str(error) and "not implemented" in str(error):
            return None
        return f"gradient: {type(error).__name__}: {' '.join(str(error).split())[:300]}"
    for k, (g, leaf) in enumerate(zip(first, leaves, strict=True)):
        if g is not None and (facts(g)[:2] != facts(leaf)[:2] or not g.is_meta):
            return f"gradient {k}: {facts(g)}, of a tensor {facts(leaf)}"
    return None
