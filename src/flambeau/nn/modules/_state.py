"""state_dict and load_state_dict."""

from __future__ import annotations

import difflib
import itertools
from collections import OrderedDict, namedtuple
from collections.abc import Callable, Mapping
from typing import Any

from flambeau.autograd import no_grad
from flambeau.core.origin import warn_user
from flambeau.nn.parameter import Parameter
from flambeau.tensor import Tensor
from flambeau.utils.hooks import RemovableHandle

_EXTRA = "_extra_state"


class _IncompatibleKeys(namedtuple("IncompatibleKeys", ["missing_keys", "unexpected_keys"])):
    __slots__ = ()

    def __repr__(self) -> str:
        if not self.missing_keys and not self.unexpected_keys:
            return "<All keys matched successfully>"
        return super().__repr__()

    __str__ = __repr__


class State:
    """The saving and loading methods of Module."""

    _parameters: dict[str, Any]
    _buffers: dict[str, Any]
    _modules: dict[str, Any]
    _non_persistent_buffers_set: set[str]
    _version: int

    def state_dict(self, *args: Any, destination: Any = None, prefix: str = "",
                   keep_vars: bool = False) -> Any:
        """Names and values of all parameters and persistent buffers, here and below.

        The tensors share memory with the module: training goes on changing them. `copy.deepcopy` the result
        to keep a snapshot.
        """
        if args:
            destination = args[0] if destination is None else destination
            prefix = args[1] if len(args) > 1 and prefix == "" else prefix
            keep_vars = args[2] if len(args) > 2 and keep_vars is False else keep_vars
        if destination is None:
            destination = OrderedDict()
            destination._metadata = OrderedDict()
        local = {"version": self._version}
        metadata = getattr(destination, "_metadata", None)
        if metadata is not None:
            metadata[prefix[:-1]] = local
        for before in self._state_dict_pre_hooks.values():
            before(self, prefix, keep_vars)
        self._save_to_state_dict(destination, prefix, keep_vars)
        for name, child in self._modules.items():
            if child is not None:
                child.state_dict(destination=destination, prefix=f"{prefix}{name}.", keep_vars=keep_vars)
        for after in self._state_dict_hooks.values():
            replaced = after(self, destination, prefix, local)
            if replaced is None:
                continue
            if getattr(after, "_from_public_api", False):
                raise RuntimeError("a state_dict post-hook changes the dict in place and returns nothing, not "
                                   f"{type(replaced).__name__}")
            destination = replaced
        return destination

    def _save_to_state_dict(self, destination: Any, prefix: str, keep_vars: bool) -> None:
        for name, p in self._parameters.items():
            if p is not None:
                destination[prefix + name] = p if keep_vars else p.detach()
        for name, b in self._buffers.items():
            if b is not None and name not in self._non_persistent_buffers_set:
                destination[prefix + name] = b if keep_vars else b.detach()
        if type(self).get_extra_state is not State.get_extra_state:
            destination[prefix + _EXTRA] = self.get_extra_state()

    def get_extra_state(self) -> Any:
        """What else belongs to the module's state; define it together with `set_extra_state`."""
        raise RuntimeError("Reached a code path in Module.get_extra_state() that should never be called: "
                           "define it in the subclass.")

    def set_extra_state(self, state: Any) -> None:
        """Take back what `get_extra_state` gave."""
        raise RuntimeError("Reached a code path in Module.set_extra_state() that should never be called: "
                           "define it in the subclass.")

    # ------------------------------------------------------------------ hooks

    def register_state_dict_post_hook(self, hook: Callable) -> RemovableHandle:
        """hook(module, state_dict, prefix, local_metadata) after `state_dict`; it changes the dict in
        place."""
        hook._from_public_api = True  # type: ignore[attr-defined]
        return _add(self._state_dict_hooks, hook)

    def _register_state_dict_hook(self, hook: Callable) -> RemovableHandle:
        return _add(self._state_dict_hooks, hook)

    def register_state_dict_pre_hook(self, hook: Callable) -> RemovableHandle:
        """hook(module, prefix, keep_vars) before `state_dict`."""
        return _add(self._state_dict_pre_hooks, hook)

    def _register_load_state_dict_pre_hook(self, hook: Callable,
                                           with_module: bool = False) -> RemovableHandle:
        if with_module:
            return _add(self._load_state_dict_pre_hooks, lambda *a: hook(self, *a))
        return _add(self._load_state_dict_pre_hooks, hook)

    def register_load_state_dict_pre_hook(self, hook: Callable) -> RemovableHandle:
        """hook(module, state_dict, prefix, local_metadata, strict, missing, unexpected, errors) before
        loading."""
        return self._register_load_state_dict_pre_hook(hook, with_module=True)

    def register_load_state_dict_post_hook(self, hook: Callable) -> RemovableHandle:
        """hook(module, incompatible_keys) after loading."""
        return _add(self._load_state_dict_post_hooks, hook)

    # ------------------------------------------------------------------ loading

    def load_state_dict(self, state_dict: Mapping[str, Any], strict: bool = True,
                        assign: bool = False) -> Any:
        """Copy (or with `assign`, take) the values of a state_dict.

        Args:
            strict: the names must be exactly the module's.
            assign: use the given tensors themselves, with their dtype, instead of copying their values.

        Returns:
            The missing and unexpected names.

        Raises:
            RuntimeError: with all that does not fit: names (and the nearest existing ones) and shapes.
        """
        if not isinstance(state_dict, Mapping):
            raise TypeError(f"Expected state_dict to be dict-like, got {type(state_dict)}.")
        missing: list[str] = []
        unexpected: list[str] = []
        errors: list[str] = []
        metadata = getattr(state_dict, "_metadata", None)
        values = OrderedDict(state_dict)
        if metadata is not None:
            values._metadata = metadata  # type: ignore[attr-defined]

        def load(module: Any, local: Any, prefix: str) -> None:
            local_metadata = {} if metadata is None else metadata.get(prefix[:-1], {})
            if assign:
                local_metadata["assign_to_params_buffers"] = assign
            module._load_from_state_dict(local, prefix, local_metadata, True, missing, unexpected, errors)
            for name, child in module._modules.items():
                if child is not None:
                    child_prefix = prefix + name + "."
                    load(child, {k: v for k, v in local.items() if k.startswith(child_prefix)}, child_prefix)
            incompatible = _IncompatibleKeys(missing, unexpected)
            for hook in module._load_state_dict_post_hooks.values():
                if hook(module, incompatible) is not None:
                    raise AssertionError("A hook of register_load_state_dict_post_hook returned a value. Let it "
                                         "change incompatible_keys in place and return None.")

        load(self, values, "")
        if strict:
            if unexpected:
                errors.insert(0, f"Unexpected key(s) in state_dict: {_quoted(unexpected)}. ")
            if missing:
                errors.insert(0, f"Missing key(s) in state_dict: {_quoted(missing)}. ")
            errors.extend(_suggestions(missing, unexpected))
        if errors:
            head = f"Error(s) in loading state_dict for {type(self).__name__}:\n\t"
            raise RuntimeError(head + "\n\t".join(errors))
        return _IncompatibleKeys(missing, unexpected)

    def _load_from_state_dict(self, state_dict: Any, prefix: str, local_metadata: dict, strict: bool,
                              missing_keys: list, unexpected_keys: list, error_msgs: list) -> None:
        for hook in self._load_state_dict_pre_hooks.values():
            hook(state_dict, prefix, local_metadata, strict, missing_keys, unexpected_keys, error_msgs)
        assign = local_metadata.get("assign_to_params_buffers", False)
        persistent = {k: v for k, v in self._buffers.items() if k not in self._non_persistent_buffers_set}
        for name, own in itertools.chain(self._parameters.items(), persistent.items()):
            if own is None:
                continue
            key = prefix + name
            if key not in state_dict:
                if strict:
                    missing_keys.append(key)
                continue
            value = state_dict[key]
            if not isinstance(value, Tensor):
                error_msgs.append(f'While copying the parameter named "{key}", expected torch.Tensor or '
                                  "Tensor-like object from "
                                  f"checkpoint but received {type(value)}")
                continue
            if hasattr(own, "_load_unshaped"):
                own._load_unshaped(value)          # a parameter whose shape the checkpoint decides
            elif tuple(value.shape) != tuple(own.shape):
                if own.dim() == 0 and tuple(value.shape) == (1,):
                    value = value[0]
                else:
                    error_msgs.append(f"size mismatch for {key}: copying a param with shape {value.shape} "
                                      f"from checkpoint, the shape in current model is {own.shape}.")
                    continue
            if own.is_meta and not value.is_meta and not assign:
                warn_user(f"for {key}: the checkpoint has values and the parameter of the model is on the meta "
                          "device, which has none, so that nothing is copied (a no-op). Pass `assign=True` to put "
                          "the checkpoint's tensor into the model.")
                continue
            with no_grad():
                if assign:
                    if name in self._parameters and not isinstance(value, Parameter):
                        value = Parameter(value, requires_grad=own.requires_grad)
                    elif isinstance(value, Parameter):
                        value.requires_grad_(own.requires_grad)
                    setattr(self, name, value)
                else:
                    own.copy_(value)
        extra_key = prefix + _EXTRA
        if type(self).set_extra_state is not State.set_extra_state:
            if extra_key in state_dict:
                self.set_extra_state(state_dict[extra_key])
            elif strict:
                missing_keys.append(extra_key)
        elif strict and extra_key in state_dict:
            unexpected_keys.append(extra_key)
        if strict:
            for key in state_dict:
                if key.startswith(prefix) and key != extra_key:
                    first = key[len(prefix):].split(".", 1)
                    known = first[0] in self._modules if len(first) > 1 else (
                        first[0] in self._parameters or first[0] in persistent)
                    if not known:
                        unexpected_keys.append(key)


def _quoted(names: list[str]) -> str:
    return ", ".join(f'"{name}"' for name in names)


def _add(registry: OrderedDict, hook: Callable) -> RemovableHandle:
    handle = RemovableHandle(registry)
    registry[handle.id] = hook
    return handle


def _suggestions(missing: list[str], unexpected: list[str]) -> list[str]:
    """Which unexpected names were probably meant for the missing ones."""
    found = []
    for name in missing[:10]:
        for prefix in ("module.", "model.", "_orig_mod."):
            if prefix + name in unexpected:
                return [f'The checkpoint\'s names begin with "{prefix}": strip it, for example '
                        f'{{k.removeprefix("{prefix}"): v for k, v in state_dict.items()}}.']
        near = difflib.get_close_matches(name, unexpected, 1)
        if near:
            found.append(f'"{name}" is missing; the checkpoint has "{near[0]}", which is near.')
    return found
