"""PyTorch's own database of modules, built on the meta device by both libraries."""

from __future__ import annotations

import warnings
from typing import Any

import torch

import flambeau

from .database import Skip, at, converted, facts, tensors

# PyTorch's meta result of this unbatched, unreduced loss has one dimension, its computed one none
UNLIKE_THE_CPU = {("nn.MultiLabelMarginLoss", 6)}


def infos() -> dict[str, Any]:
    """The database's entries by name."""
    from torch.testing._internal.common_modules import module_db

    return {info.name: info for info in module_db if "uant" not in info.name}


def path(info: Any) -> str:
    """The dotted name of the class."""
    return info.name if info.name.startswith("nn.") else "nn." + info.module_cls.__name__


def built(library: Any, info: Any, item: Any) -> Any:
    """A module of a library on the meta device."""
    given = item.constructor_input
    args, kwargs = converted(tuple(given.args), library), converted(dict(given.kwargs), library)
    with library.device("meta"):
        return at(library, path(info))(*args, **kwargs)


def called(library: Any, info: Any, item: Any) -> tuple[Any, list]:
    """(the module, the tensors that its forward returns)."""
    module = built(library, info, item)
    forward = item.forward_input
    args, kwargs = converted(tuple(forward.args), library, True), converted(dict(forward.kwargs), library, True)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return module, list(tensors(module(*args, **kwargs)))


def disagreement(info: Any, item: Any) -> str | None:
    """How the two libraries' modules differ in their states, results or gradients; None when they agree."""
    if item.forward_input is None:
        return None
    try:
        module, expected = called(torch, info, item)
    except Skip:
        return None
    except Exception:
        return None             # PyTorch has no answer
    try:
        ours, got = called(flambeau, info, item)
    except Exception as error:
        return f"{type(error).__name__}: {' '.join(str(error).split())[:300]}"
    state, own = module.state_dict(), ours.state_dict()
    if list(state) != list(own):
        return f"state {list(own)}, expected {list(state)}"
    for name, value in state.items():
        if isinstance(value, torch.Tensor) and facts(value) != facts(own[name]):
            return f"state {name}: {facts(own[name])}, expected {facts(value)}"
    if [facts(t, False) for t in got] != [facts(t, False) for t in expected]:
        return f"{[facts(t, False) for t in got]}, expected {[facts(t, False) for t in expected]}"
    outs = [t for t in got if t.requires_grad]
    if not outs:
        return None
    flambeau.autograd.backward(outs, [flambeau.ones_like(t) for t in outs])
    for (name, p), (_, q) in zip(module.named_parameters(), ours.named_parameters(), strict=True):
        if q.grad is not None and facts(q.grad)[:2] != facts(p)[:2]:
            return f"gradient of {name}: {facts(q.grad)}"
    return None


def items(info: Any, training: bool = True) -> list:
    """The database's inputs of a module."""
    torch.manual_seed(0)
    return list(info.module_inputs_func(info, device="cpu", dtype=torch.float32, requires_grad=False, training=training))
