"""Modules as functions of their parameters."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import flambeau
from flambeau.nn.utils.stateless import _functional_call


def functional_call(module: Any, parameter_and_buffer_dicts: Any, args: Any = None, kwargs: Any = None, *,
                    tie_weights: bool = True, strict: bool = False) -> Any:
    """Call a module with other tensors in the place of its parameters and buffers.

    Args:
        module: called as it is otherwise: hooks run, and buffers that forward writes are those given.
        parameter_and_buffer_dicts: {name: tensor}, or a sequence of such dictionaries without common names. Names as
            in `named_parameters()`; what is not named stays the module's own.
        args, kwargs: of the call; a single argument need not be in a tuple.
        tie_weights: a tensor given for one of several names of a parameter is used for all of them.
        strict: all parameters and buffers must be given, and nothing else.

    Returns:
        What the module returns; gradients flow to the given tensors.

    >>> layer = flambeau.nn.Linear(2, 1, bias=False)
    >>> functional_call(layer, {"weight": flambeau.tensor([[2., 3.]])}, flambeau.ones(1, 2)).tolist()
    [[5.0]]
    """
    given = parameter_and_buffer_dicts
    if not isinstance(given, dict):
        if not isinstance(given, Sequence) or not all(isinstance(d, dict) for d in given):
            raise ValueError("functional_call takes a dict of parameters and buffers, or a list/tuple of dicts, "
                             f"not a {type(given).__name__}")
        names = [n for d in given for n in d]
        twice = sorted({n for n in names if names.count(n) > 1})
        if twice:
            raise ValueError(f"{twice} appears in several dictionaries, so that its value is ambiguous")
        given = {n: t for d in given for n, t in d.items()}
    return _functional_call(module, given, args, kwargs, tie_weights=tie_weights, strict=strict)


def stack_module_state(models: Any) -> tuple[dict[str, Any], dict[str, Any]]:
    """The parameters and the buffers of several models of one class, stacked along a new first dimension.

    Raises:
        RuntimeError: no models, models of several classes, or some training and some not.
    """
    models = list(models)
    if not models:
        raise RuntimeError("stack_module_state: Expected at least one model, got 0.")
    if len({m.training for m in models}) > 1:
        raise RuntimeError("stack_module_state: Expected all models to have the same training/eval mode.")
    if len({type(m) for m in models}) > 1:
        raise RuntimeError("stack_module_state: Expected all models to be of the same class.")

    def stacked(walk: str) -> dict[str, Any]:
        all_of = [dict(getattr(m, walk)()) for m in models]
        result = {}
        for name, first in all_of[0].items():
            t = flambeau.stack([own[name].detach() for own in all_of])
            result[name] = t.requires_grad_(first.requires_grad) if first.is_floating_point() else t
        return result

    return stacked("named_parameters"), stacked("named_buffers")
