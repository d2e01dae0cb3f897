"""Lend an optimizer other parameters and another state for a while."""

from __future__ import annotations

import contextlib
from collections import defaultdict
from collections.abc import Iterator
from typing import Any

from flambeau.core.objects import TensorBase

_NAME = "swap_in_optimizer_params_and_state"


def _check(good: bool, text: str) -> None:
    if not good:
        raise RuntimeError(f"{_NAME}(): {text}")


def _checked_state(optimizer: Any, state_dict: Any, n_parameters: int) -> tuple[dict, list]:
    _check(bool(optimizer.state), "it requires initialized optimizer state: let the optimizer step once before")
    _check(isinstance(state_dict, dict), "swapin_optim_state must be what optimizer.state_dict() gives")
    state, groups = state_dict.get("state"), state_dict.get("param_groups")
    _check(isinstance(state, dict), f"swapin_optim_state['state'] must be a dict, not {type(state).__name__}")
    _check(isinstance(groups, list), f"swapin_optim_state['param_groups'] must be a list, not {type(groups).__name__}")
    own = optimizer.param_groups
    _check(len(groups) == len(own), f"swapin_optim_state has a different number of parameter groups: {len(groups)}, and the "
                                    f"optimizer {len(own)}")
    seen: set = set()
    for i, (mine, theirs) in enumerate(zip(own, groups, strict=True)):
        _check(isinstance(theirs, dict), f"group {i} must be a dict")
        numbers = theirs.get("params")
        _check(isinstance(numbers, list) and all(isinstance(n, int) for n in numbers),
               f"'params' of group {i} must be a list of packed parameter ids (ints)")
        _check(len(numbers) == len(mine["params"]), f"param group {i} has a different number of params: {len(numbers)}, and "
                                                    f"the optimizer's {len(mine['params'])}")
        _check(set(mine) == set(theirs), f"the options of group {i} differ: {sorted(set(mine) ^ set(theirs))} are in one "
                                         "only")
        seen.update(numbers)
    total = sum(len(g["params"]) for g in own)
    _check(n_parameters >= total, f"{total} parameters are wanted, in the order of optimizer.param_groups; {n_parameters} "
                                  "were given")
    extra = [k for k in state if k not in seen]
    _check(not extra, f"swapin_optim_state['state'] has extra keys, which no group names: {extra!r}")
    _check(not any(isinstance(k, TensorBase) for k in state), "'state' must be keyed by packed parameter ids")
    _check(all(isinstance(v, dict) for v in state.values()), "the state of a parameter must be a dict")
    return state, groups


@contextlib.contextmanager
def swap_in_optimizer_params_and_state(optimizer: Any, swapin_parameters: dict[str, Any],
                                       swapin_optim_state: dict[str, Any]) -> Iterator[None]:
    """A block in which the optimizer has other parameters, options and state; afterwards it has its own again.

    Args:
        optimizer: one that has stepped before.
        swapin_parameters: tensors by name, in the order of the optimizer's own parameters.
        swapin_optim_state: as `optimizer.state_dict()` gives it. Its tensors are used, not copied: a step writes them.

    Raises:
        RuntimeError: it does not fit the optimizer.
    """
    given = list(swapin_parameters.values())
    state, groups = _checked_state(optimizer, swapin_optim_state, len(given))
    own_state, own_groups = optimizer.state, [dict(group) for group in optimizer.param_groups]
    lent: defaultdict = defaultdict(dict)
    position = 0
    try:
        for group, theirs in zip(optimizer.param_groups, groups, strict=True):
            numbers = theirs["params"]
            params = given[position:position + len(numbers)]
            position += len(numbers)
            group.update(theirs, params=params)
            lent.update((p, dict(state.get(n, {}))) for p, n in zip(params, numbers, strict=True))
        optimizer.state = lent
        yield
    finally:
        for group, own in zip(optimizer.param_groups, own_groups, strict=True):
            group.clear()
            group.update(own)
        optimizer.state = own_state
