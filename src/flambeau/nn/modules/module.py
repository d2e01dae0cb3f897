"""Module: what layers and models derive from."""

from __future__ import annotations

import inspect
from collections import OrderedDict
from typing import Any

import flambeau
from flambeau.core.origin import warn_user
from flambeau.core.state import enter_scope, leave_scope
from flambeau.nn.parameter import is_parameter
from flambeau.tensor import Tensor

from . import _registration
from ._convert import Conversion
from ._hooks import (
    GLOBAL,
    Hooks,
    register_module_backward_hook,
    register_module_forward_hook,
    register_module_forward_pre_hook,
    register_module_full_backward_hook,
    register_module_full_backward_pre_hook,
)
from ._registration import (
    register_module_buffer_registration_hook,
    register_module_module_registration_hook,
    register_module_parameter_registration_hook,
    replaced,
)
from ._state import State, _IncompatibleKeys  # noqa: F401  imported from here by programs
from ._walk import Walk

__all__ = ["Module", "register_module_backward_hook", "register_module_buffer_registration_hook",
           "register_module_forward_hook", "register_module_forward_pre_hook", "register_module_full_backward_hook",
           "register_module_full_backward_pre_hook", "register_module_module_registration_hook",
           "register_module_parameter_registration_hook"]

_REGISTRIES = ("_parameters", "_buffers", "_modules")


class Module(Hooks, State, Conversion, Walk):
    """Base class of layers and models: attributes that are parameters, buffers or modules are registered.

    Subclasses call `super().__init__()` first, assign their parts as attributes, and define `forward`.

    >>> class Twice(flambeau.nn.Module):
    ...     def __init__(self):
    ...         super().__init__()
    ...         self.inner = flambeau.nn.Linear(2, 2)
    ...     def forward(self, x):
    ...         return self.inner(self.inner(x))
    >>> [name for name, _ in Twice().named_parameters()]
    ['inner.weight', 'inner.bias']
    """

    training: bool
    dump_patches = False
    _version = 1
    call_super_init = False
    _scope_name: str = ""
    _only_groups = False          # a list or dictionary of modules: never called itself

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        if not self.call_super_init and (args or kwargs):
            what = f"got an unexpected keyword argument '{next(iter(kwargs))}'" if kwargs else (
                f"takes 1 positional argument but {len(args) + 1} were given")
            raise TypeError(f"{type(self).__name__}.__init__() {what}")
        d = self.__dict__
        d["training"] = True
        d["_parameters"] = {}
        d["_buffers"] = {}
        d["_non_persistent_buffers_set"] = set()
        d["_backward_pre_hooks"] = OrderedDict()
        d["_backward_hooks"] = OrderedDict()
        d["_is_full_backward_hook"] = None
        d["_forward_hooks"] = OrderedDict()
        d["_forward_hooks_with_kwargs"] = OrderedDict()
        d["_forward_hooks_always_called"] = OrderedDict()
        d["_forward_pre_hooks"] = OrderedDict()
        d["_forward_pre_hooks_with_kwargs"] = OrderedDict()
        d["_state_dict_hooks"] = OrderedDict()
        d["_state_dict_pre_hooks"] = OrderedDict()
        d["_load_state_dict_pre_hooks"] = OrderedDict()
        d["_load_state_dict_post_hooks"] = OrderedDict()
        d["_modules"] = {}
        if self.call_super_init:
            super().__init__(*args, **kwargs)

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """The computation; every subclass defines its own."""
        raise NotImplementedError(
            f'Module [{type(self).__name__}] is missing the required "forward" function: define '
            "`def forward(self, x): ...` in the class (check its spelling and indentation).")

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        d = self.__dict__
        if "_compiled_call_impl" in d:
            return d["_compiled_call_impl"](*args, **kwargs)
        try:
            hooked = (d["_forward_hooks"] or d["_forward_pre_hooks"] or d["_backward_hooks"]
                      or d["_backward_pre_hooks"] or GLOBAL.any)
        except KeyError:
            raise AttributeError(
                f"{type(self).__name__} was called before Module.__init__(): call super().__init__() first "
                f"in {type(self).__name__}.__init__") from None
        old = enter_scope(d.get("_scope_name", ""), type(self).__name__)
        try:
            if hooked:
                return self._call_with_hooks(args, kwargs)
            return self.forward(*args, **kwargs)
        finally:
            leave_scope(old)

    def _call_impl(self, *args: Any, **kwargs: Any) -> Any:
        """The call with its hooks, compiled or not: what `compile` compiles."""
        old = enter_scope(self.__dict__.get("_scope_name", ""), type(self).__name__)
        try:
            return self._call_with_hooks(args, kwargs)
        finally:
            leave_scope(old)

    # ------------------------------------------------------------------ registration

    def register_parameter(self, name: str, param: Any) -> None:
        """Add a parameter under `name`; None reserves the name."""
        self._check_name(name, "parameter")
        if hasattr(self, name) and name not in self._parameters:
            raise KeyError(f"attribute '{name}' already exists")
        if param is None:
            self._parameters[name] = None
            return
        if not is_parameter(param):
            raise TypeError(
                f"cannot assign '{_typename(param)}' object to parameter '{name}' (torch.nn.Parameter or "
                "None required)")
        if param.grad_fn is not None:
            raise ValueError(
                f"Cannot assign non-leaf Tensor to parameter '{name}'. A parameter is created, not computed: "
                f"if '{name}' depends on other tensors, compute it in forward(), or register a parametrization.")
        if _registration.parameters:
            param = replaced(_registration.parameters, self, name, param)
        self._parameters[name] = param

    def register_buffer(self, name: str, tensor: Any, persistent: bool = True) -> None:
        """Add a tensor that is no parameter but part of the module: moved with it, and saved when
        persistent."""
        if "_buffers" not in self.__dict__:
            raise AttributeError("cannot assign buffer before Module.__init__() call")
        self._check_name(name, "buffer")
        if hasattr(self, name) and name not in self._buffers:
            raise KeyError(f"attribute '{name}' already exists")
        if tensor is not None and not isinstance(tensor, Tensor):
            raise TypeError(f"cannot assign '{_typename(tensor)}' object to buffer '{name}' (torch Tensor or "
                            "None required)")
        if _registration.buffers:
            tensor = replaced(_registration.buffers, self, name, tensor)
        self._buffers[name] = tensor
        if persistent:
            self._non_persistent_buffers_set.discard(name)
        else:
            self._non_persistent_buffers_set.add(name)

    def add_module(self, name: str, module: Module | None) -> None:
        """Add a child module under `name`."""
        if not isinstance(module, Module) and module is not None:
            raise TypeError(f"{type(module).__name__} is not a Module subclass")
        self._check_name(name, "module")
        if hasattr(self, name) and name not in self._modules:
            raise KeyError(f"attribute '{name}' already exists")
        if _registration.modules:
            module = replaced(_registration.modules, self, name, module)
        self._modules[name] = module
        if module is not None:
            self._name_child(name, module)

    register_module = add_module

    def _name_child(self, name: str, child: Module) -> None:
        """Tell a child how errors name it: by its place here, and by the list's too when this is one."""
        own = self.__dict__.get("_scope_name", "") if self._only_groups else ""
        child.__dict__["_scope_name"] = f"{own}.{name}" if own else name
        if child._only_groups:
            for inner, grandchild in child._modules.items():
                if grandchild is not None:
                    child._name_child(inner, grandchild)

    @staticmethod
    def _check_name(name: Any, what: str) -> None:
        if not isinstance(name, str):
            raise TypeError(f"{what} name should be a string, but got {type(name).__name__}")
        if "." in name:
            raise KeyError(f'{what} name can\'t contain ".": {name!r}')
        if name == "":
            raise KeyError(f'{what} name can\'t be empty string ""')

    # ------------------------------------------------------------------ attributes

    def __getattr__(self, name: str) -> Any:
        d = self.__dict__
        for registry in _REGISTRIES:
            found = d.get(registry)
            if found is not None and name in found:
                return found[name]
        raise AttributeError(f"'{type(self).__name__}' object has no attribute '{name}'")

    def __setattr__(self, name: str, value: Any) -> None:
        d = self.__dict__
        params = d.get("_parameters")
        if is_parameter(value):
            if params is None:
                raise AttributeError("cannot assign parameters before Module.__init__() call")
            self._remove_from(name, d, d["_buffers"], d["_modules"])
            d["_non_persistent_buffers_set"].discard(name)
            self.register_parameter(name, value)
            return
        if params is not None and name in params:
            if value is not None:
                raise TypeError(
                    f"cannot assign '{_typename(value)}' as parameter '{name}' (torch.nn.Parameter or None "
                    "expected)")
            params[name] = None
            return
        modules = d.get("_modules")
        if isinstance(value, Module):
            if modules is None:
                raise AttributeError("cannot assign module before Module.__init__() call")
            self._remove_from(name, d, d["_parameters"], d["_buffers"])
            d["_non_persistent_buffers_set"].discard(name)
            if _registration.modules:
                value = replaced(_registration.modules, self, name, value)
            modules[name] = value
            self._name_child(name, value)
            return
        if modules is not None and name in modules:
            if value is not None:
                raise TypeError(
                    f"cannot assign '{_typename(value)}' as child module '{name}' (torch.nn.Module or None "
                    "expected)")
            if _registration.modules:
                value = replaced(_registration.modules, self, name, None)
            modules[name] = value
            return
        buffers = d.get("_buffers")
        is_buffer = isinstance(value, Tensor) and getattr(value, "_is_buffer", False)
        if is_buffer or (buffers is not None and name in buffers):
            if buffers is None:
                raise AttributeError("cannot assign buffer before Module.__init__() call")
            self._assign_buffer(name, value, is_buffer)
            return
        if type(value) in (list, tuple, dict):
            _warn_unregistered(self, name, value)
        object.__setattr__(self, name, value)

    def _assign_buffer(self, name: str, value: Any, is_buffer: bool) -> None:
        """`module.name = value` of a Buffer, or over one."""
        if value is not None and not isinstance(value, Tensor):
            raise TypeError(f"cannot assign '{_typename(value)}' as buffer '{name}' (torch.nn.Buffer, "
                            "torch.Tensor or None expected)")
        persistent = value.persistent if is_buffer else name not in self._non_persistent_buffers_set
        own = type(self).register_buffer
        if own is Module.register_buffer:
            if name in self._buffers and not _registration.buffers and not is_buffer:
                self._buffers[name] = value                    # what a running mean does in every step
                return
            self._remove_from(name, self.__dict__, self._parameters, self._modules)
            self.register_buffer(name, value, persistent)
        elif persistent:
            self.register_buffer(name, value)           # a subclass's own, which may know no third argument
        elif "persistent" in inspect.signature(own).parameters:
            self.register_buffer(name, value, persistent)
        else:
            raise RuntimeError(f"{type(self).__name__} defines a register_buffer() without the persistent argument, so "
                               f"the non-persistent buffer '{name}' cannot be registered. Add the argument to it.")

    @staticmethod
    def _remove_from(name: str, *registries: dict) -> None:
        for registry in registries:
            registry.pop(name, None)

    def __delattr__(self, name: str) -> None:
        for registry in _REGISTRIES:
            if name in self.__dict__.get(registry, ()):
                del self.__dict__[registry][name]
                self._non_persistent_buffers_set.discard(name)
                return
        object.__delattr__(self, name)

    def __dir__(self) -> list[str]:
        names = [*dir(type(self)), *self.__dict__, *self._parameters, *self._modules, *self._buffers]
        return sorted({n for n in names if not n[0].isdigit()})

    def __getstate__(self) -> dict:
        """The attributes to pickle or copy: all but what `compile` made."""
        return {k: v for k, v in self.__dict__.items() if k != "_compiled_call_impl"}

    def __setstate__(self, state: dict) -> None:
        self.__dict__.update(state)
        for key, default in (("_forward_pre_hooks", OrderedDict), ("_state_dict_hooks", OrderedDict),
                             ("_backward_pre_hooks", OrderedDict),
                             ("_forward_hooks_with_kwargs", OrderedDict),
                             ("_forward_pre_hooks_with_kwargs", OrderedDict),
                             ("_forward_hooks_always_called", OrderedDict),
                             ("_state_dict_pre_hooks", OrderedDict),
                             ("_load_state_dict_pre_hooks", OrderedDict),
                             ("_load_state_dict_post_hooks", OrderedDict),
                             ("_non_persistent_buffers_set", set), ("_is_full_backward_hook", lambda: None)):
            self.__dict__.setdefault(key, default())

    # ------------------------------------------------------------------ modes and text

    def train(self, mode: bool = True) -> Any:
        """Set training mode (dropout active, batch norm with the batch's statistics) here and below."""
        if not isinstance(mode, bool):
            raise ValueError("training mode is expected to be boolean")
        self.training = mode
        for child in self.children():
            child.train(mode)
        return self

    def eval(self) -> Any:
        """Set evaluation mode here and below."""
        return self.train(False)

    def requires_grad_(self, requires_grad: bool = True) -> Any:
        """Set `requires_grad` of all parameters: False freezes the module."""
        for p in self.parameters():
            p.requires_grad_(requires_grad)
        return self

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Forget the gradients of all parameters (None), or set them to zero."""
        for p in self.parameters():
            g = p.grad
            if g is None or set_to_none:
                p.grad = None
                continue
            g.requires_grad_(False) if g.grad_fn is None else g.detach_()
            g.zero_()

    def extra_repr(self) -> str:
        """What `repr` shows between the parentheses; subclasses define it."""
        return ""

    def _get_name(self) -> str:
        return type(self).__name__

    def __repr__(self) -> str:
        extra = self.extra_repr()
        lines = extra.split("\n") if extra else []
        children = [f"({key}): " + _indented(repr(module)) for key, module in self._modules.items()]
        name = self._get_name()
        if len(lines) == 1 and not children:
            return f"{name}({lines[0]})"
        if not lines and not children:
            return f"{name}()"
        return f"{name}(\n  " + "\n  ".join([*lines, *children]) + "\n)"

    def share_memory(self) -> Any:
        """Move parameters and buffers to shared memory."""
        return self._apply(lambda t: t.share_memory_())

    def compile(self, *args: Any, **kwargs: Any) -> None:
        """Compile this module in place: calls of it run what `torch.compile` makes of its call, hooks included.

        Arguments are those of `torch.compile`. Parameters and their names stay where they are; a compiled module is
        saved, copied and loaded as if it were not.

        >>> layer = flambeau.nn.Linear(2, 1)
        >>> layer.compile(disable=True)
        >>> layer(flambeau.zeros(3, 2)).shape
        torch.Size([3, 1])
        """
        self.__dict__["_compiled_call_impl"] = flambeau.compile(self._call_impl, *args, **kwargs)


def _typename(value: Any) -> str:
    """The type as PyTorch's messages name it."""
    return str(value.type()) if type(value) is Tensor else type(value).__name__


def _indented(text: str) -> str:
    return text.replace("\n", "\n  ")


def _addindent(s_: str, numSpaces: int) -> str:
    """Text with all lines but the first moved to the right: what modules of programs use in their repr."""
    return s_.replace("\n", "\n" + " " * numSpaces)


def _warn_unregistered(module: Module, name: str, value: Any) -> None:
    """Modules or parameters in a plain list never reach `parameters()`: say so when they are put there."""
    items = list(value.values()) if isinstance(value, dict) else list(value)
    if "_modules" not in module.__dict__ or not items:
        return
    kind = next((k for k, test in (("Module", lambda v: isinstance(v, Module)), ("Parameter", is_parameter))
                 if any(test(v) for v in items)), None)
    if kind is None:
        return
    registered = {id(m) for m in module.modules()} | {id(p) for p in module.parameters()}
    if all(id(v) in registered for v in items if isinstance(v, Module) or is_parameter(v)):
        return
    container = {"Module": {dict: "ModuleDict"}.get(type(value), "ModuleList"),
                 "Parameter": {dict: "ParameterDict"}.get(type(value), "ParameterList")}[kind]
    warn_user(
        f"{type(module).__name__}.{name} is a plain {type(value).__name__} of {kind}s: they are not "
        "registered, so parameters(), state_dict(), to() and train() do not see them and they will not be "
        f"trained. Use torch.nn.{container} instead.")

