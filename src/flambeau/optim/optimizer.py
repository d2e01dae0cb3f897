"""Optimizer: parameter groups, state, hooks; what all optimizers share."""

from __future__ import annotations

import copy
import functools
from collections import OrderedDict, defaultdict
from collections.abc import Callable, Iterable
from itertools import chain
from typing import Any

from flambeau.autograd import enable_grad, no_grad
from flambeau.core.objects import TensorBase
from flambeau.core.origin import warn_user
from flambeau.tensor import Tensor
from flambeau.utils.hooks import RemovableHandle

from ._for_subclasses import (  # noqa: F401  imported from here by programs
    ParamsT,
    _capturable_doc,
    _default_to_fused_or_foreach,
    _differentiable_doc,
    _disable_dynamo_if_unsupported,
    _dispatch_sqrt,
    _foreach_doc,
    _fused_doc,
    _get_value,
    _maximize_doc,
    _params_doc,
    _stack_if_compiling,
    _to_scalar,
    _use_grad_for_differentiable,
    _view_as_real,
)

required = type("_Required", (), {"__repr__": lambda self: "<required parameter>"})()

_global_pre_hooks: OrderedDict = OrderedDict()
_global_post_hooks: OrderedDict = OrderedDict()


def register_optimizer_step_pre_hook(hook: Callable) -> RemovableHandle:
    """hook(optimizer, args, kwargs) before every optimizer's step; it may return replaced (args, kwargs)."""
    return _add(_global_pre_hooks, hook, False)


def register_optimizer_step_post_hook(hook: Callable) -> RemovableHandle:
    """hook(optimizer, args, kwargs) after every optimizer's step."""
    return _add(_global_post_hooks, hook, False)


def _add(registry: OrderedDict, hook: Callable, prepend: bool) -> RemovableHandle:
    handle = RemovableHandle(registry)
    registry[handle.id] = hook
    if prepend:
        registry.move_to_end(handle.id, last=False)
    return handle


def _with_hooks(step: Callable) -> Callable:
    """step, with the hooks around the outermost call."""

    @functools.wraps(step)
    def hooked(self: Any, *args: Any, **kwargs: Any) -> Any:
        pre = self.__dict__.get("_optimizer_step_pre_hooks")
        if pre is None:        # it wraps another optimizer and left __init__ of this class out: the other has the hooks
            return step(self, *args, **kwargs)
        post = self._optimizer_step_post_hooks
        self._opt_called = True                # schedulers ask
        if not (pre or post or _global_pre_hooks or _global_post_hooks) or "_in_step" in self.__dict__:
            return step(self, *args, **kwargs)
        self.__dict__["_in_step"] = True
        args = (self, *args)              # hooks get, and may replace, the optimizer with the arguments
        try:
            for hook in [*_global_pre_hooks.values(), *pre.values()]:
                result = hook(self, args, kwargs)
                if result is not None:
                    if not (isinstance(result, tuple) and len(result) == 2):
                        raise RuntimeError(f"The pre-hook {hook} of the optimizer returned {result}. Let it return "
                                           "None (nothing changes) or a tuple of two, (new_args, new_kwargs).")
                    args, kwargs = result
            out = step(*args, **kwargs)
            for hook in [*post.values(), *_global_post_hooks.values()]:
                hook(self, args, kwargs)
            return out
        finally:
            del self.__dict__["_in_step"]

    hooked.hooked = True  # type: ignore[attr-defined]
    return hooked


def run_closure(closure: Callable | None) -> Any:
    """What the closure, recorded, returns; None without one."""
    if closure is None:
        return None
    with enable_grad():
        return closure()


class Optimizer:
    """Base class of optimizers.

    Args:
        params: tensors, (name, tensor) pairs, or dicts with "params" and options of their own.
        defaults: the options of groups that do not give their own.

    Subclasses define `step`.
    """

    OptimizerPreHook = OptimizerPostHook = Callable
    profile_hook_step = staticmethod(_with_hooks)
    _optimizer_step_pre_hooks: OrderedDict
    _optimizer_step_post_hooks: OrderedDict
    state: defaultdict
    param_groups: list[dict[str, Any]]

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        step = cls.__dict__.get("step")
        if step is not None and not getattr(step, "hooked", False):
            cls.step = _with_hooks(step)  # type: ignore[method-assign]

    def __init__(self, params: Any, defaults: dict[str, Any]) -> None:
        self.defaults = defaults
        self._make_registries()
        if isinstance(params, Tensor):
            raise TypeError(f"params argument given to the optimizer is a single {params.type()}; an iterable of "
                            "Tensors or of dicts is wanted. Put it into a list, [p].")
        if not hasattr(params, "__iter__") and callable(getattr(params, "parameters", None)):
            raise TypeError(f"params argument given to the optimizer: {type(params).__name__!r} object is not iterable, an "
                            "iterable of Tensors or of dicts is wanted. Pass model.parameters().")
        self.state = defaultdict(dict)
        self.param_groups = []
        groups = list(params)
        if not groups:
            raise ValueError(
                f"optimizer got an empty parameter list: {type(self).__name__} has nothing to update. Either an "
                "iterator was used up before: model.parameters() is a generator that can be run through once, so "
                "call it again here or keep list(model.parameters()); or the layers are not registered: put them into "
                "nn.ModuleList or nn.ModuleDict instead of a plain list or dict, and call super().__init__() first; or "
                "the model has no parameters, and needs no optimizer.")
        if not isinstance(groups[0], dict):
            groups = [{"params": groups}]
        for group in groups:
            self.add_param_group(group if not isinstance(group, dict) else dict(group))

    def _make_registries(self) -> None:
        for name in ("step_pre", "step_post", "state_dict_pre", "state_dict_post", "load_state_dict_pre",
                     "load_state_dict_post"):
            self.__dict__.setdefault(f"_optimizer_{name}_hooks", OrderedDict())

    def _patch_step_function(self) -> None:
        """Nothing: the step's hooks are there since the class was made."""

    def _cuda_graph_capture_health_check(self) -> None:
        """Nothing: there are no graphs of a CUDA device."""

    def __getstate__(self) -> dict[str, Any]:
        return {"defaults": self.defaults, "state": self.state, "param_groups": self.param_groups}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._make_registries()
        self.defaults.setdefault("differentiable", False)

    def __repr__(self) -> str:
        text = type(self).__name__ + " ("
        for i, group in enumerate(self.param_groups):
            text += f"\nParameter Group {i}\n"
            for key in sorted(group):
                if key != "params":
                    text += f"    {key}: {group[key]}\n"
        return text + ")"

    # ------------------------------------------------------------------ groups

    def add_param_group(self, param_group: dict[str, Any]) -> None:
        """Add parameters with options of their own, for example layers that are thawed later."""
        if not isinstance(param_group, dict):
            raise TypeError(f"param_group must be a dict, but got {type(param_group)}")
        params = param_group["params"]
        if isinstance(params, Tensor):
            found: list = [params]
        elif isinstance(params, (set, frozenset)):
            raise TypeError("optimizer parameters need to be organized in ordered collections: the order of a set "
                            "differs from run to run, and a saved state would be loaded into other parameters. "
                            "Give a list.")
        else:
            found = list(params)
        named = [p for p in found if isinstance(p, tuple)]
        if named and len(named) != len(found):
            raise ValueError("all optimizer params should be with/without names. Some param names are "
                             "missing")
        if named:
            param_group["param_names"] = [name for name, _ in named]
            found = [p for _, p in named]
        for p in found:
            if not isinstance(p, TensorBase):
                raise TypeError("optimizer can only optimize Tensors: among its params there is a "
                                f"{type(p).__name__}. Pass model.parameters(), or wrap the value in nn.Parameter.")
            if not self.defaults.get("differentiable") and not (p.is_leaf or p.retains_grad):
                raise ValueError("can't optimize a non-leaf Tensor: it is the result of an operator"
                                 + (f" ({p.grad_fn.name()})" if p.grad_fn is not None else "")
                                 + ", not a parameter. Optimize the tensor that it was computed from, or "
                                   "call detach() and requires_grad_() first (in this order: .to() of a "
                                   "parameter is such a result too).")
        param_group["params"] = found
        for name, default in self.defaults.items():
            if default is required and name not in param_group:
                raise ValueError(f"A parameter group didn't specify a value of {name}, which this optimizer "
                                 "requires and has no default for. Add it to the group's dict, or give it to the "
                                 "optimizer for all groups.")
            param_group.setdefault(name, default)
        own = {id(p) for p in found}
        if len(own) != len(found):
            warn_user("optimizer contains a parameter group with duplicate parameters; in future, this "
                      "will cause an error: each would be updated twice in a step")
        if own & {id(p) for group in self.param_groups for p in group["params"]}:
            raise ValueError("some parameters appear in more than one parameter group")
        if self.param_groups and ("param_names" in param_group) != ("param_names" in self.param_groups[0]):
            raise ValueError("all optimizer param groups should be with/without names. cannot add param "
                             f"group with{'' if 'param_names' in param_group else 'out'} names to the "
                             "optimizer")
        self.param_groups.append(param_group)

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Forget the gradients (None: the next backward sets them), or set them to zero."""
        for group in self.param_groups:
            for p in group["params"]:
                g = p._grad
                if g is None:
                    continue
                if set_to_none:
                    p._grad = None
                else:
                    if g.grad_fn is not None:
                        g = g.detach()
                        p.grad = g
                    else:
                        g.requires_grad_(False)
                    with no_grad():
                        g.zero_()

    def step(self, closure: Callable | None = None) -> Any:
        """Update the parameters once; `closure`, if given, computes the loss and its gradients first, and is
        returned."""
        raise NotImplementedError(f"{type(self).__name__} does not define step()")

    # ------------------------------------------------------------------ hooks

    def register_step_pre_hook(self, hook: Callable) -> RemovableHandle:
        """hook(optimizer, args, kwargs) before step; it may return replaced (args, kwargs)."""
        return _add(self._optimizer_step_pre_hooks, hook, False)

    def register_step_post_hook(self, hook: Callable) -> RemovableHandle:
        """hook(optimizer, args, kwargs) after step."""
        return _add(self._optimizer_step_post_hooks, hook, False)

    def register_state_dict_pre_hook(self, hook: Callable, prepend: bool = False) -> RemovableHandle:
        """hook(optimizer) before `state_dict`."""
        return _add(self._optimizer_state_dict_pre_hooks, hook, prepend)  # type: ignore[attr-defined]

    def register_state_dict_post_hook(self, hook: Callable, prepend: bool = False) -> RemovableHandle:
        """hook(optimizer, state_dict) after `state_dict`; it may return a replaced one."""
        return _add(self._optimizer_state_dict_post_hooks, hook, prepend)  # type: ignore[attr-defined]

    def register_load_state_dict_pre_hook(self, hook: Callable, prepend: bool = False) -> RemovableHandle:
        """hook(optimizer, state_dict) before loading; it may return a replaced state_dict."""
        return _add(self._optimizer_load_state_dict_pre_hooks, hook, prepend)  # type: ignore[attr-defined]

    def register_load_state_dict_post_hook(self, hook: Callable, prepend: bool = False) -> RemovableHandle:
        """hook(optimizer) after loading."""
        return _add(self._optimizer_load_state_dict_post_hooks, hook, prepend)  # type: ignore[attr-defined]

    # ------------------------------------------------------------------ saving

    def state_dict(self) -> dict[str, Any]:
        """{"state": by parameter number, "param_groups": options and numbers}; tensors are the optimizer's
        own."""
        for hook in self._optimizer_state_dict_pre_hooks.values():  # type: ignore[attr-defined]
            hook(self)
        numbers: dict[int, int] = {}
        groups = []
        for group in self.param_groups:
            for p in group["params"]:
                numbers.setdefault(id(p), len(numbers))
            packed = {k: v for k, v in group.items() if k != "params"}
            packed["params"] = [numbers[id(p)] for p in group["params"]]
            groups.append(packed)
        state = {(numbers[id(k)] if isinstance(k, TensorBase) else k): v for k, v in self.state.items()}
        result = {"state": state, "param_groups": groups}
        for hook in self._optimizer_state_dict_post_hooks.values():  # type: ignore[attr-defined]
            replaced = hook(self, result)
            if replaced is not None:
                result = replaced
        return result

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Take state and options from a `state_dict()`; tensors are copied, so that no two optimizers share
        state.

        Raises:
            ValueError: the groups differ in number or size.
        """
        state_dict = dict(state_dict)
        for hook in self._optimizer_load_state_dict_pre_hooks.values():  # type: ignore[attr-defined]
            replaced = hook(self, state_dict)
            if replaced is not None:
                state_dict = replaced
        own, saved = self.param_groups, copy.deepcopy(state_dict["param_groups"])
        if len(own) != len(saved):
            raise ValueError("loaded state dict has a different number of parameter groups: it has "
                             f"{len(saved)}, the optimizer {len(own)}")
        for i, (mine, theirs) in enumerate(zip(own, saved, strict=True)):
            if len(mine["params"]) != len(theirs["params"]):
                raise ValueError("loaded state dict contains a parameter group that doesn't match the size "
                                 f"of optimizer's group: group {i} has {len(theirs['params'])} parameters "
                                 f"there and {len(mine['params'])} here")
        by_number = dict(zip(chain.from_iterable(g["params"] for g in saved),
                             chain.from_iterable(g["params"] for g in own), strict=True))
        state: defaultdict = defaultdict(dict)
        for key, value in state_dict["state"].items():
            if key in by_number:
                state[by_number[key]] = _owned(value, by_number[key])
            else:
                state[key] = value
        groups = []
        for mine, theirs in zip(own, saved, strict=True):
            theirs["params"] = mine["params"]
            if "param_names" in mine and "param_names" not in theirs:
                theirs["param_names"] = mine["param_names"]
            groups.append(theirs)
        self.__setstate__({"state": state, "param_groups": groups})
        for hook in self._optimizer_load_state_dict_post_hooks.values():  # type: ignore[attr-defined]
            hook(self)

    # ------------------------------------------------------------------ the compiler's seam

    def key(self) -> Any:
        """A hashable description of what a step does that is not in `scalars`: options, shapes, dtypes, state
        present."""
        raise NotImplementedError(f"{type(self).__name__} has no compiled form")

    def scalars(self) -> Any:
        """The numbers of the next step that may change without changing what is done: learning rates, step
        counts."""
        raise NotImplementedError(f"{type(self).__name__} has no compiled form")

    def apply(self, scalars: Any) -> None:
        """One update with the numbers that `scalars` gave."""
        raise NotImplementedError(f"{type(self).__name__} has no compiled form")


def _owned(value: Any, p: Any, key: Any = None) -> Any:
    """A copy of a piece of state, in the parameter's dtype unless it is a step count."""
    if isinstance(value, TensorBase):
        with no_grad():
            value = value.detach()
            if key != "step" and p.is_floating_point() and value.dtype != p.dtype:
                return value.to(p.dtype)
            return value.clone()
    if isinstance(value, dict):
        return {k: _owned(v, p, k) for k, v in value.items()}
    if isinstance(value, Iterable) and not isinstance(value, (str, bytes)):
        return type(value)(_owned(v, p) for v in value)  # type: ignore[call-arg]
    return copy.copy(value)
