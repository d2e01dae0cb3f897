"""`torch.compile`. Compilation comes in a later version: compiled functions run as they are, with their results."""

from __future__ import annotations

import functools
import types
from collections.abc import Callable
from typing import Any

from flambeau.core.origin import warn_user

from ._unavailable import missing

__all__ = ["allow_in_graph", "assume_constant_result", "compile", "config", "cudagraph_mark_step_begin", "disable",
           "get_default_backend", "is_compiling", "is_dynamo_compiling", "is_exporting", "list_backends",
           "nested_compile_region", "reset", "set_default_backend", "set_stance", "substitute_in_graph", "wrap_numpy"]

_MODES = ("default", "reduce-overhead", "max-autotune", "max-autotune-no-cudagraphs", "lite")
_warned = [False]
_default_backend: list[Any] = ["eager"]
config = types.SimpleNamespace()


def _warn_once() -> None:
    if not _warned[0]:
        _warned[0] = True
        warn_user(
            "torch.compile(): flambeau compiles nothing yet, a later version will: the function runs as it is, with the "
            "same results, and its backend, mode and options are not used. This is said once; leave the call as it is.")


def compile(model: Any = None, *, fullgraph: bool = False, dynamic: bool | None = None, backend: Any = None,
            mode: str | None = None, options: dict | None = None, name: str | None = None, disable: bool = False,
            **more: Any) -> Any:
    """A function or module that computes what `model` does.

    Nothing is compiled yet: the first call of `compile` warns, and what it returns calls `model`. Compiled modules have
    their parameters under `_orig_mod`, as in PyTorch.

    Args:
        model: a function or a Module; None makes `compile` a decorator with options.
        backend, mode, options, fullgraph, dynamic, name: checked for sense, and not used.
        disable: True returns model itself, without the warning.

    Raises:
        RuntimeError: mode is unknown, or both mode and options are given.
        AssertionError: model cannot be called.

    >>> import warnings
    >>> with warnings.catch_warnings():
    ...     warnings.simplefilter("ignore")
    ...     double = flambeau.compile(lambda x: x * 2)
    >>> double(flambeau.ones(1)).item()
    2.0
    """
    if mode is not None and options is not None:
        raise RuntimeError("compile() takes either mode or options, and was given both. Leave one of them out: "
                           "mode is a named set of options.")
    if mode is not None and mode not in _MODES:
        raise RuntimeError(f"Unrecognized mode={mode}, should be one of: {', '.join(_MODES)}")
    if model is None:
        return functools.partial(compile, fullgraph=fullgraph, dynamic=dynamic, backend=backend, mode=mode, options=options,
                                 name=name, disable=disable, **more)
    if not callable(model):
        raise AssertionError(f"A callable function is expected, but {type(model)} is provided.")
    if disable:
        return model
    _warn_once()
    from .nn import Module

    if isinstance(model, Module):
        from ._dynamo.eval_frame import OptimizedModule

        return OptimizedModule(model)

    @functools.wraps(model)
    def compiled(*args: Any, **kwargs: Any) -> Any:
        return model(*args, **kwargs)

    compiled._torchdynamo_orig_callable = model  # type: ignore[attr-defined]
    return compiled


def is_compiling() -> bool:
    """False: nothing is being compiled."""
    return False


def is_dynamo_compiling() -> bool:
    """False: nothing is being compiled."""
    return False


def is_exporting() -> bool:
    """False: nothing is being exported."""
    return False


def reset() -> None:
    """Nothing: there is no cache of compiled code."""


def list_backends(exclude_tags: Any = ()) -> list[str]:
    """["eager"]: functions run as they are."""
    return ["eager"]


def set_default_backend(backend: Any) -> None:
    """Kept; backends are not used."""
    _default_backend[0] = backend


def get_default_backend() -> Any:
    """What set_default_backend set; "eager" at first."""
    return _default_backend[0]


def disable(fn: Any = None, recursive: bool = True, *, reason: str | None = None) -> Any:
    """fn itself: nothing is compiled."""
    if fn is None:
        return functools.partial(disable, recursive=recursive, reason=reason)
    return fn


def _itself(name: str) -> Callable:
    def function(fn: Any) -> Any:
        return fn

    function.__name__ = function.__qualname__ = name
    function.__doc__ = "fn itself: nothing is compiled."
    return function


allow_in_graph = _itself("allow_in_graph")
assume_constant_result = _itself("assume_constant_result")
wrap_numpy = _itself("wrap_numpy")
nested_compile_region = _itself("nested_compile_region")


def substitute_in_graph(original_fn: Any, *args: Any, **kwargs: Any) -> Callable:
    """A decorator that leaves its function as it is: nothing is compiled."""
    return lambda fn: fn


def cudagraph_mark_step_begin() -> None:
    """Nothing: there are no CUDA graphs."""


class set_stance:
    """When to compile: accepted as a call, a block and a decorator, and not used."""

    def __init__(self, stance: str = "default", *, skip_guard_eval_unsafe: bool = False, force_backend: Any = None) -> None:
        self.stance = stance

    def __enter__(self) -> None:
        pass

    def __exit__(self, *error: Any) -> None:
        pass

    def __call__(self, fn: Any) -> Any:
        return fn


globals().update(missing(__name__, "load_compiled_function save_cache_artifacts load_cache_artifacts",
                         "nothing is compiled, so that there is nothing to store. Leave it out."))
