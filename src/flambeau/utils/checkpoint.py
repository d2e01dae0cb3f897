"""Activation checkpointing: keep a function's inputs instead of what it saves for backward, and compute that again there.

Two ways. `use_reentrant=False` (recommended) runs the function as usual, but every tensor that it would save becomes a
number; when backward asks for one of them, the function runs again and gives them all. `use_reentrant=True` runs it without
a graph, and backward runs it again with one, which it differentiates by a backward of its own.

Source: Chen et al., 2016, arXiv:1604.06174, section 4.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Any

import flambeau
from flambeau._unavailable import missing
from flambeau.autograd import Function, backward, enable_grad, no_grad
from flambeau.core.objects import TensorBase, requires
from flambeau.core.origin import warn_user
from flambeau.core.state import grad_enabled
from flambeau.core.tasks import current_call
from flambeau.random import fork_rng, get_rng_state, set_rng_state

from ._recompute import CheckpointError, region, set_checkpoint_debug_enabled, set_checkpoint_early_stop
from ._selective import (
    SAC_IGNORED_OPS,
    CheckpointPolicy,
    SelectiveCheckpointContext,
    create_selective_checkpoint_contexts,
)

__all__ = ["SAC_IGNORED_OPS", "CheckpointError", "CheckpointFunction", "CheckpointPolicy", "DefaultDeviceType",
           "SelectiveCheckpointContext", "check_backward_validity", "checkpoint", "checkpoint_sequential",
           "create_selective_checkpoint_contexts", "detach_variable", "get_device_states", "noop_context_fn",
           "set_checkpoint_debug_enabled", "set_checkpoint_early_stop", "set_device_states"]

globals().update(missing(__name__, "GraphExecGroup", "it groups checkpoints whose backward runs under compilation. Leave it "
                                                     "out."))


def noop_context_fn() -> tuple:
    """Two contexts that change nothing: the default of context_fn."""
    return contextlib.nullcontext(), contextlib.nullcontext()


class DefaultDeviceType:
    """The device type assumed when no argument is on a device: kept for programs that set it; the CPU is the only one."""

    _default = "cpu"

    @staticmethod
    def set_device_type(device: str = "cpu") -> None:
        """Set it."""
        DefaultDeviceType._default = device

    @staticmethod
    def get_device_type() -> str:
        """What was set."""
        return DefaultDeviceType._default


def get_device_states(*args: Any) -> tuple[list, list]:
    """([], []): devices of the arguments besides the CPU, and their random states."""
    return [], []


def set_device_states(devices: Any, states: Any, *, device_type: str | None = None) -> None:
    """Nothing for empty lists.

    Raises:
        RuntimeError: a device is named.
    """
    if list(devices):
        raise RuntimeError(f"set_device_states(): there is no device {list(devices)[0]!r}: flambeau computes on the CPU, "
                           "whose state is set by torch.set_rng_state")


def detach_variable(inputs: tuple) -> tuple:
    """The tensors outside their graphs, requiring grad as before; other values as they are.

    Raises:
        RuntimeError: inputs is no tuple.
    """
    if not isinstance(inputs, tuple):
        raise RuntimeError(f"Only tuple of tensors is supported. Got Unsupported input type: {type(inputs).__name__}")
    found: list[Any] = []
    for x in inputs:
        if isinstance(x, TensorBase):
            new: Any = x.detach()  # type: ignore[attr-defined]
            new.requires_grad = requires(x)
            x = new
        found.append(x)
    return tuple(found)


def check_backward_validity(inputs: Any) -> None:
    """Warn when no tensor among inputs requires grad: a reentrant checkpoint then has no gradient at all."""
    if not any(isinstance(x, TensorBase) and requires(x) for x in inputs):
        warn_user(
            "None of the inputs have requires_grad=True. Gradients will be None, those of parameters inside the checkpoint "
            "too. Pass use_reentrant=False, or make an input require grad.")


def _autocast_now() -> tuple:
    """The autocast of this moment, for `_autocast_as`."""
    return (flambeau.is_autocast_enabled("cpu"), flambeau.get_autocast_dtype("cpu"), flambeau.is_autocast_cache_enabled())


def _autocast_as(found: tuple) -> Any:
    """A block under the autocast of the first run: backward runs outside of it."""
    enabled, dtype, cache_enabled = found
    return flambeau.autocast("cpu", dtype=dtype, enabled=enabled, cache_enabled=cache_enabled)


# --------------------------------------------------------------------------------- reentrant


class CheckpointFunction(Function):
    """The reentrant checkpoint: forward without a graph, backward through a graph of its own."""

    @staticmethod
    def forward(ctx: Any, run_function: Callable, preserve_rng_state: bool, *args: Any) -> Any:
        """run_function(*args), keeping the tensor arguments only."""
        check_backward_validity(args)
        ctx.run_function = run_function
        ctx.rng_state = get_rng_state() if preserve_rng_state else None
        ctx.autocast = _autocast_now()
        ctx.positions = [i for i, a in enumerate(args) if isinstance(a, TensorBase)]
        ctx.arguments = [None if isinstance(a, TensorBase) else a for a in args]
        ctx.save_for_backward(*[args[i] for i in ctx.positions])
        with no_grad():
            return run_function(*args)

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        """The gradients of args, by running run_function again."""
        if getattr(current_call(), "pruned", False):
            raise RuntimeError(
                "When use_reentrant=True, torch.utils.checkpoint is incompatible with .grad() or passing an `inputs` "
                "parameter to .backward(): the backward inside it fills the .grad of all leaves. Pass use_reentrant=False "
                "to checkpoint(), or call .backward() without inputs.")
        args = list(ctx.arguments)
        for i, t in zip(ctx.positions, ctx.saved_tensors, strict=True):
            args[i] = t
        with fork_rng(enabled=ctx.rng_state is not None):
            if ctx.rng_state is not None:
                set_rng_state(ctx.rng_state)
            detached = detach_variable(tuple(args))
            with enable_grad(), _autocast_as(ctx.autocast):
                outputs = ctx.run_function(*detached)
        if isinstance(outputs, TensorBase):
            outputs = (outputs,)
        asked = [(o, g) for o, g in zip(outputs, grads, strict=False) if isinstance(o, TensorBase) and requires(o)]
        if not asked:
            raise RuntimeError("none of output has requires_grad=True, this checkpoint() is not necessary: the function's "
                               "result depends on no tensor that requires grad. Call it directly.")
        backward([o for o, _ in asked], [g for _, g in asked])
        return (None, None, *[a.grad if isinstance(a, TensorBase) else None for a in detached])


# --------------------------------------------------------------------------------- the public functions


def checkpoint(function: Callable, *args: Any, use_reentrant: bool | None = None, context_fn: Callable = noop_context_fn,
               determinism_check: str = "default", debug: bool = False, early_stop: bool = True, **kwargs: Any) -> Any:
    """function(*args, **kwargs), saving less for backward, which runs the function a second time.

    Args:
        function: computes the same when it is called again: modules, nested checkpoints, dropout.
        use_reentrant: False is recommended. True works without `autograd.grad` and `inputs=`, and only if a tensor among
            args itself requires grad. It must be given: leaving it out warns, and means True.
        context_fn: () -> (context of the first run, context of the second).
        determinism_check: "default" compares the shapes and dtypes of what both runs save, "none" does not.
        debug: errors about runs that differ list what each of them saved, with lines.
        early_stop: the second run ends as soon as everything asked for is there.
        preserve_rng_state: (keyword) True: the second run draws the random numbers of the first, dropout masks included.

    Returns:
        What function returns.

    Raises:
        ValueError: an option that the chosen way does not have.
        CheckpointError: (from backward) the second run saved other tensors than the first.

    >>> x = flambeau.ones(2, requires_grad=True)
    >>> flambeau.utils.checkpoint.checkpoint(flambeau.exp, x, use_reentrant=False).sum().backward()
    >>> x.grad
    tensor([2.7183, 2.7183])
    """
    if use_reentrant is None:
        _warn_unset("checkpoint")
        use_reentrant = True
    preserve = kwargs.pop("preserve_rng_state", True)
    if not use_reentrant:
        return _kept(function, args, kwargs, preserve, context_fn, determinism_check, debug, early_stop)
    if kwargs:
        raise ValueError("Unexpected keyword arguments: " + ",".join(kwargs) + ". With use_reentrant=True pass arguments of "
                         "the function by position, or use use_reentrant=False.")
    if context_fn is not noop_context_fn or debug:
        raise ValueError("`context_fn` and `debug` need use_reentrant=False.")
    return CheckpointFunction.apply(function, preserve, *args)


def _warn_unset(name: str) -> None:
    where = "" if name == "checkpoint" else ".checkpoint_sequential"
    warn_user(
        f"torch.utils.checkpoint{where}: the use_reentrant parameter should be passed explicitly. use_reentrant=False is "
        "recommended; use_reentrant=True is what leaving it out means.")


def _kept(function: Callable, args: tuple, kwargs: dict, preserve: bool, context_fn: Callable, determinism_check: str,
          debug: bool, early_stop: bool) -> Any:
    """The way without a second backward."""
    if determinism_check not in ("default", "none"):
        raise ValueError(f"determinism_check should be one of ['default', 'none'], but got {determinism_check}")
    first, second = context_fn()
    state = get_rng_state() if preserve else None
    autocast = _autocast_now()

    def again(*arguments: Any) -> None:
        with fork_rng(enabled=preserve):
            if state is not None:
                set_rng_state(state)
            with _autocast_as(autocast), second:
                function(*arguments, **kwargs)

    if not grad_enabled():
        return function(*args, **kwargs)
    with region(again, args, determinism_check == "default", debug, early_stop), first:
        return function(*args, **kwargs)


def checkpoint_sequential(functions: Any, segments: int, input: Any, use_reentrant: bool | None = None,
                          **kwargs: Any) -> Any:
    """A chain of functions in segments, each but the last checkpointed.

    Args:
        functions: a Sequential, or a list of functions of one argument.
        segments: how many parts, at most the number of functions.
        input: the first function's argument.
        use_reentrant, preserve_rng_state: see `checkpoint`.

    Raises:
        ValueError: another keyword, or more segments than functions.

    >>> x = flambeau.ones(2, requires_grad=True)
    >>> chain = [flambeau.square, flambeau.neg]
    >>> flambeau.utils.checkpoint.checkpoint_sequential(chain, 2, x, use_reentrant=False).tolist()
    [-1.0, -1.0]
    """
    if use_reentrant is None:
        _warn_unset("checkpoint_sequential")
        use_reentrant = True
    preserve = kwargs.pop("preserve_rng_state", True)
    if kwargs:
        raise ValueError("Unexpected keyword arguments: " + ",".join(kwargs))
    children = getattr(functions, "children", None)
    parts = list(functions if children is None else children())
    size = len(parts) // segments
    if size == 0:
        raise ValueError(f"checkpoint_sequential(): {segments} segments of {len(parts)} functions: give at most "
                         f"{len(parts)}")

    def run(start: int, stop: int) -> Callable:
        def forward(x: Any) -> Any:
            for part in parts[start:stop]:
                x = part(x)
            return x

        return forward

    last = size * (segments - 1)
    for start in range(0, last, size):
        input = checkpoint(run(start, start + size), input, use_reentrant=use_reentrant, preserve_rng_state=preserve)
    return run(last, len(parts))(input)


