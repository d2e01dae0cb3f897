"""What PyTorch has for traced programs, as plain Python: symbolic numbers are numbers, `cond` is an if statement."""

from __future__ import annotations

import builtins
import math
from collections.abc import Callable, Sequence
from typing import Any

from .core.objects import TensorBase


def sym_int(a: Any) -> int:
    """a, truncated to an int."""
    return math.trunc(a)


def sym_float(a: Any) -> float:
    """a as a float."""
    return builtins.float(a)


def sym_not(a: Any) -> bool:
    """not a."""
    return not a


def sym_ite(b: Any, t: Any, f: Any) -> Any:
    """t if b, else f."""
    return t if b else f


def _like_both(a: Any, b: Any, found: Any) -> Any:
    return builtins.float(found) if isinstance(a, builtins.float) or isinstance(b, builtins.float) else found


def sym_max(a: Any, b: Any) -> Any:
    """The greater number; a float when one of them is."""
    return _like_both(a, b, builtins.max(a, b))


def sym_min(a: Any, b: Any) -> Any:
    """The smaller number; a float when one of them is."""
    return _like_both(a, b, builtins.min(a, b))


def sym_sum(args: Sequence[Any]) -> Any:
    """The sum of numbers."""
    return builtins.sum(args)


def sym_sqrt(a: Any) -> float:
    """The square root of a number."""
    return math.sqrt(a)


def _truth(value: Any, function: str) -> bool:
    if isinstance(value, TensorBase):
        if value.numel() != 1:
            raise RuntimeError(f"{function}: Expected a bool or a tensor of one element for the predicate, got shape "
                               f"{list(value.shape)}")
        return builtins.bool(value)
    if not isinstance(value, builtins.bool):
        raise RuntimeError(f"{function}: Expected a bool or a tensor of one element for the predicate, got {value!r}")
    return value


def cond(pred: Any, true_fn: Callable, false_fn: Callable, operands: Any = ()) -> Any:
    """true_fn(*operands) if pred, else false_fn(*operands).

    >>> flambeau.cond(flambeau.tensor(True), lambda x: x + 1, lambda x: x - 1, (flambeau.ones(1),)).item()
    2.0
    """
    if not (callable(true_fn) and callable(false_fn)):
        raise RuntimeError(f"cond: Expect both branches to be callable, got {true_fn!r} and {false_fn!r}")
    return (true_fn if _truth(pred, "cond") else false_fn)(*operands)


def while_loop(cond_fn: Callable, body_fn: Callable, carried_inputs: Any) -> Any:
    """The values of carried_inputs, a tuple, after body_fn has replaced them as long as cond_fn of them is true.

    >>> flambeau.while_loop(lambda i: i < 3, lambda i: (i + 1,), (flambeau.tensor(0),))
    (tensor(3),)
    """
    if not callable(cond_fn) or not callable(body_fn):
        raise RuntimeError("while_loop: Expect cond_fn and body_fn to be callable")
    values = tuple(carried_inputs)
    while _truth(cond_fn(*values), "while_loop"):
        new = body_fn(*values)
        values = tuple(new) if isinstance(new, (tuple, list)) else (new,)
    return values


def compiled_with_cxx11_abi() -> bool:
    """True, as every library built today."""
    return True


def is_vulkan_available() -> bool:
    """False."""
    return False


def cudnn_is_acceptable(tensor: Any) -> bool:
    """False: there is no cuDNN."""
    return False


def init_num_threads() -> None:
    """Nothing: threads are set by set_num_threads."""


def get_file_path(*path_components: str) -> str:
    """A path inside the package.

    >>> flambeau.get_file_path("flambeau", "py.typed").endswith("py.typed")
    True
    """
    import os

    return os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), *path_components)


def names() -> dict[str, Any]:
    """The public names of this file, and what is compiled into PyTorch."""
    found = {k: v for k, v in globals().items()
             if callable(v) and getattr(v, "__module__", "") == __name__ and not k.startswith("_") and k != "names"}
    return {**found, "has_lapack": True, "has_mkl": False, "has_openmp": False, "has_spectral": True}
