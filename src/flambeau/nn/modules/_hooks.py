"""Hooks of modules: before and after forward, before and after backward."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from typing import Any

import flambeau
from flambeau.autograd.function import Function
from flambeau.core.objects import TensorBase
from flambeau.core.origin import warn_user
from flambeau.utils.hooks import RemovableHandle


class _Global:
    """Hooks for every module, and one flag that says whether there are any."""

    def __init__(self) -> None:
        self.any = False
        self.forward_pre: OrderedDict = OrderedDict()
        self.forward: OrderedDict = OrderedDict()
        self.forward_always: OrderedDict = OrderedDict()
        self.backward_pre: OrderedDict = OrderedDict()
        self.backward: OrderedDict = OrderedDict()
        self.forward_with_kwargs: OrderedDict = OrderedDict()
        self.is_full_backward: bool | None = None

    def add(self, registry: OrderedDict, hook: Callable, extra: OrderedDict | None = None) -> RemovableHandle:
        handle = RemovableHandle(registry, extra_dict=extra)
        registry[handle.id] = hook
        if extra is not None:
            extra[handle.id] = True
        self.any = True
        return handle


GLOBAL = _Global()


def register_module_forward_pre_hook(hook: Callable) -> RemovableHandle:
    """hook(module, args) before every module's forward; it may return replaced arguments."""
    return GLOBAL.add(GLOBAL.forward_pre, hook)


def register_module_forward_hook(hook: Callable, *, with_kwargs: bool = False,
                                 always_call: bool = False) -> RemovableHandle:
    """hook(module, args, output) after every module's forward; it may return a replaced output."""
    handle = GLOBAL.add(GLOBAL.forward, hook)
    if with_kwargs:
        GLOBAL.forward_with_kwargs[handle.id] = True
    if always_call:
        GLOBAL.forward_always[handle.id] = True
    return handle


def register_module_full_backward_pre_hook(hook: Callable) -> RemovableHandle:
    """hook(module, grad_output) before the gradient of every module's input is computed."""
    return GLOBAL.add(GLOBAL.backward_pre, hook)


def register_module_full_backward_hook(hook: Callable) -> RemovableHandle:
    """hook(module, grad_input, grad_output) when the gradient of every module's input is known."""
    if GLOBAL.is_full_backward is False:
        raise RuntimeError("Global Module hooks: regular backward hooks and full backward hooks cannot be mixed. "
                           "Register all of them with register_module_full_backward_hook.")
    GLOBAL.is_full_backward = True
    return GLOBAL.add(GLOBAL.backward, hook)


def register_module_backward_hook(hook: Callable) -> RemovableHandle:
    """The old form of `register_module_full_backward_hook`: the gradients of the last operator's inputs."""
    if GLOBAL.is_full_backward is True:
        raise RuntimeError("Global Module hooks: regular backward hooks and full backward hooks cannot be mixed. "
                           "Register all of them with register_module_full_backward_hook.")
    GLOBAL.is_full_backward = False
    return GLOBAL.add(GLOBAL.backward, hook)


class BackwardHookFunction(Function):
    """The identity on several tensors: its node is where a module's gradients pass."""

    @staticmethod
    def forward(ctx: Any, *tensors: Any) -> Any:
        ctx.mark_non_differentiable(*[t for t in tensors if not t.requires_grad])
        return tuple(t.view_as(t) for t in tensors)

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        return grads


def _tensors_in(value: Any, found: list) -> None:
    if isinstance(value, TensorBase):
        found.append(value)
    elif isinstance(value, (tuple, list)):
        for v in value:
            _tensors_in(v, found)
    elif isinstance(value, dict):
        for v in value.values():
            _tensors_in(v, found)


class _BackwardHook:
    """The full backward hooks of one call of a module."""

    def __init__(self, module: Any, hooks: list[Callable], pre_hooks: list[Callable]) -> None:
        self.module, self.hooks, self.pre_hooks = module, hooks, pre_hooks
        self.grad_outputs: tuple | None = None
        self.n_inputs = -1
        self.input_index: list[int] = []
        self.inputs_differentiable = False
        self.input_likes: list = []          # for each tensor input, how to make zeros in its shape
        self.n_outputs = -1
        self.output_index: list[int] = []

    def _through_identity(self, args: tuple) -> tuple[tuple, list[int], Any]:
        index = [i for i, a in enumerate(args) if isinstance(a, TensorBase)]
        tensors = [args[i] for i in index]
        if not any(t.requires_grad for t in tensors):
            return args, index, None
        news = BackwardHookFunction.apply(*tensors)
        news = news if isinstance(news, tuple) else (news,)
        node = next(t.grad_fn for t in news if t.grad_fn is not None)
        result = list(args)
        for i, t in zip(index, news, strict=True):
            result[i] = t
        return tuple(result), index, node

    def inputs(self, args: tuple) -> tuple:
        """Wrap the module's positional inputs."""
        args, self.input_index, node = self._through_identity(args)
        self.n_inputs = len(args)
        if node is not None:
            self.inputs_differentiable = True
            self.input_likes = [(tuple(args[i].shape), args[i].dtype) for i in self.input_index]
            node.register_hook(self._at_inputs)
        return args

    def _at_inputs(self, grad_inputs: tuple, _: tuple) -> Any:
        if self.grad_outputs is None:
            return None
        full: list = [None] * self.n_inputs
        for i, g, (shape, dtype) in zip(self.input_index, grad_inputs, self.input_likes, strict=True):
            full[i] = flambeau.zeros(shape, dtype=dtype) if g is None else g
        given = tuple(full)
        for hook in self.hooks:
            out = hook(self.module, given, self.grad_outputs)
            if out is not None:
                out = out if isinstance(out, tuple) else (out,)
                if len(out) != len(given):
                    raise RuntimeError(
                        f"A full backward hook returned {len(out)} grad_input, the module has "
                        f"{len(given)}")
                given = out
        self.grad_outputs = None
        return tuple(given[i] for i in self.input_index)

    def outputs(self, result: Any) -> Any:
        """Wrap the module's outputs."""
        many = isinstance(result, tuple)
        args = result if many else (result,)
        args, self.output_index, node = self._through_identity(args)
        self.n_outputs = len(args)
        if node is not None:
            node.register_hook(self._at_outputs)      # after the old kind's hooks, as in PyTorch: not a prehook
        return type(result)(args) if many and not hasattr(result, "_fields") else (
            type(result)(*args) if many else args[0])

    def _at_outputs(self, _: tuple, grads: tuple) -> Any:
        full = [None] * self.n_outputs
        for i, g in zip(self.output_index, grads, strict=True):
            full[i] = g
        self.grad_outputs = tuple(full)
        for hook in self.pre_hooks:
            out = hook(self.module, self.grad_outputs)
            if out is not None:
                out = out if isinstance(out, tuple) else (out,)
                if len(out) != self.n_outputs:
                    raise RuntimeError("A full backward pre hook returned "
                                       f"{len(out)} grad_output, the module has {self.n_outputs}")
                self.grad_outputs = out
        local = tuple(self.grad_outputs[i] for i in self.output_index)
        if not self.inputs_differentiable:
            warn_user(f"Full backward hook is firing for a {type(self.module).__name__} whose inputs do not require "
                      "gradients: grad_input is None, and the hook runs as soon as the gradients of the module's "
                      "outputs are known, before those of its parameters. Let an input require grad to run it "
                      "after them.")
            nothing = (None,) * self.n_inputs
            for hook in self.hooks:
                result = hook(self.module, nothing, self.grad_outputs)
                if result is not None and not (isinstance(result, tuple) and all(r is None for r in result)):
                    raise RuntimeError("A backward hook returned a gradient for a Module where no input requires "
                                       "gradient. Let it return None.")
            self.grad_outputs = None
        return local


class Hooks:
    """The hook methods of Module and the call that honours them."""

    _forward_hooks: OrderedDict
    _forward_pre_hooks: OrderedDict
    _backward_hooks: OrderedDict
    _backward_pre_hooks: OrderedDict
    _is_full_backward_hook: bool | None
    forward: Callable

    def register_forward_pre_hook(self, hook: Callable, *, prepend: bool = False,
                                  with_kwargs: bool = False) -> RemovableHandle:
        """hook(module, args) before forward; it may return replaced arguments. with_kwargs: (module, args,
        kwargs)."""
        registry = self._forward_pre_hooks
        handle = RemovableHandle(registry, extra_dict=self._forward_pre_hooks_with_kwargs)
        registry[handle.id] = hook
        if with_kwargs:
            self._forward_pre_hooks_with_kwargs[handle.id] = True
        if prepend:
            registry.move_to_end(handle.id, last=False)
        return handle

    def register_forward_hook(self, hook: Callable, *, prepend: bool = False, with_kwargs: bool = False,
                              always_call: bool = False) -> RemovableHandle:
        """hook(module, args, output) after forward; it may return a replaced output.

        with_kwargs: hook(module, args, kwargs, output). always_call: also when forward raises.
        """
        registry = self._forward_hooks
        handle = RemovableHandle(registry, extra_dict=[self._forward_hooks_with_kwargs,
                                                       self._forward_hooks_always_called])
        registry[handle.id] = hook
        if with_kwargs:
            self._forward_hooks_with_kwargs[handle.id] = True
        if always_call:
            self._forward_hooks_always_called[handle.id] = True
        if prepend:
            registry.move_to_end(handle.id, last=False)
        return handle

    def register_full_backward_pre_hook(self, hook: Callable, prepend: bool = False) -> RemovableHandle:
        """hook(module, grad_output) before the module's input gradients are computed; it may replace
        grad_output."""
        return self._add(self._backward_pre_hooks, hook, prepend)

    def register_full_backward_hook(self, hook: Callable, prepend: bool = False) -> RemovableHandle:
        """hook(module, grad_input, grad_output) when the module's input gradients are known; it may replace
        grad_input."""
        if self._is_full_backward_hook is False:
            raise RuntimeError("This Module has backward hooks of the other kind: regular backward hooks and full "
                               "backward hooks cannot be mixed. Register all of them with "
                               "register_full_backward_hook.")
        self._is_full_backward_hook = True
        return self._add(self._backward_hooks, hook, prepend)

    def register_backward_hook(self, hook: Callable) -> RemovableHandle:
        """The old form of `register_full_backward_hook`: the gradients of the last operator's inputs."""
        if self._is_full_backward_hook is True:
            raise RuntimeError("This Module has backward hooks of the other kind: regular backward hooks and full "
                               "backward hooks cannot be mixed. Register all of them with "
                               "register_full_backward_hook.")
        self._is_full_backward_hook = False
        return self._add(self._backward_hooks, hook, False)

    @staticmethod
    def _add(registry: OrderedDict, hook: Callable, prepend: bool) -> RemovableHandle:
        handle = RemovableHandle(registry)
        registry[handle.id] = hook
        if prepend:
            registry.move_to_end(handle.id, last=False)
        return handle

    def _call_with_hooks(self, args: tuple, kwargs: dict) -> Any:
        called: set[int] = set()
        result = None
        try:
            args, kwargs = self._run_pre_hooks(args, kwargs)
            full, old_style = self._backward_hook_lists()
            pre = [*GLOBAL.backward_pre.values(), *self._backward_pre_hooks.values()]
            backward = _BackwardHook(self, full, pre) if full or pre else None
            if backward is not None:
                args = backward.inputs(args)
            result = self.forward(*args, **kwargs)
            for hook_id, hook, with_kwargs in self._forward_hook_list():
                called.add(hook_id)
                out = hook(self, args, kwargs, result) if with_kwargs else hook(self, args, result)
                if out is not None:
                    result = out
            if backward is not None:
                if not isinstance(result, (TensorBase, tuple)):
                    warn_user(
                        f"The backward hooks of this module do not run: its output is a {type(result)}, and they "
                        "need a Tensor or a tuple of Tensors.")
                result = backward.outputs(result)
            if old_style:
                self._register_old_style(args, result, old_style)
            return result
        except Exception:
            for hook_id, hook, with_kwargs in self._forward_hook_list():
                always = hook_id in self._forward_hooks_always_called or hook_id in GLOBAL.forward_always
                if always and hook_id not in called:
                    try:
                        out = hook(self, args, kwargs, result) if with_kwargs else hook(self, args, result)
                        result = out if out is not None else result
                    except Exception as error:
                        warn_user("A forward hook with always_call=True failed while the error of the forward "
                                  f"itself was on its way; the hook's own error was: {error}")
            raise

    def _run_pre_hooks(self, args: tuple, kwargs: dict) -> tuple[tuple, dict]:
        for hook_id, hook in [*GLOBAL.forward_pre.items(), *self._forward_pre_hooks.items()]:
            if hook_id in self._forward_pre_hooks_with_kwargs:
                out = hook(self, args, kwargs)
                if out is not None:
                    if not (isinstance(out, tuple) and len(out) == 2):
                        raise RuntimeError(f"A forward pre-hook registered with_kwargs returned {out}. Let it "
                                           "return None (nothing changes) or a tuple of two, (new_args, "
                                           "new_kwargs).")
                    args, kwargs = out
            else:
                out = hook(self, args)
                if out is not None:
                    args = out if isinstance(out, tuple) else (out,)
        return args, kwargs

    def _forward_hook_list(self) -> list[tuple[int, Callable, bool]]:
        return [*((i, h, i in GLOBAL.forward_with_kwargs) for i, h in list(GLOBAL.forward.items())),
                *((i, h, i in self._forward_hooks_with_kwargs) for i, h in list(self._forward_hooks.items()))]

    def _backward_hook_lists(self) -> tuple[list[Callable], list[Callable]]:
        full: list[Callable] = []
        old: list[Callable] = []
        if GLOBAL.backward:
            (full if GLOBAL.is_full_backward else old).extend(GLOBAL.backward.values())
        if self._backward_hooks:
            (full if self._is_full_backward_hook else old).extend(self._backward_hooks.values())
        return full, old

    def _register_old_style(self, args: tuple, result: Any, hooks: list[Callable]) -> None:
        found: list = []
        _tensors_in(result, found)
        node = next((t.grad_fn for t in found if t.grad_fn is not None), None)
        if node is None:
            return
        why = _what_old_hooks_miss(args, result, node)
        if why:
            warn_user(f"Using a non-full backward hook when {why} is deprecated: it sees the gradients "
                      "of the last operator only. Use register_full_backward_hook to get the gradients "
                      "of the module's inputs.", FutureWarning)
        for hook in hooks:
            node.register_hook(lambda gi, go, hook=hook: hook(self, gi, go))


def _what_old_hooks_miss(args: tuple, result: Any, node: Any) -> str:
    """Why the gradients at the last node are not those of the module's inputs and outputs; "" when they
    are."""
    results = result if isinstance(result, tuple) else (result,)
    if not all(isinstance(r, TensorBase) for r in results):
        return "the forward returns something else than a single Tensor or a tuple of Tensors"
    if not all(isinstance(a, TensorBase) for a in args):
        return "the forward takes something else than Tensors as inputs"
    if len({id(r.grad_fn) for r in results if r.grad_fn is not None}) > 1:
        return "the forward's outputs come from different autograd Nodes"
    before = {None if a.grad_fn is None else id(a.grad_fn) for a in args}
    if before != {None if f is None else id(f) for f, _ in node.next_functions}:
        return "the forward contains multiple autograd Nodes"
    return ""
