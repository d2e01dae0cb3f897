"""Custom functions: `autograd.Function`, a forward and a hand-written backward as one operator of the graph.

    class Square(Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x * x

        @staticmethod
        def backward(ctx, g):
            (x,) = ctx.saved_tensors
            return g * 2 * x

    y = Square.apply(x)

The node of the graph and the `ctx` that forward and backward get are two objects: user attributes (`ctx.shape`)
must not meet the engine's own, and a node must not hold itself. They share one dictionary of attributes.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any

from flambeau.core.errors import AutogradError, freed_error, inference_inplace_error
from flambeau.core.objects import Node, TensorBase, extra_of, is_mapped, memory_of, remake, requires
from flambeau.core.op import Op
from flambeau.core.origin import warn_user
from flambeau.core.state import grad_enabled, inference_enabled, set_grad_enabled, state
from flambeau.core.views import set_edge

from . import _custom_forward
from ._custom_outputs import finish_outputs
from ._custom_saved import Saved, warn_intermediate
from ._node import NodeView

_NODE_API = frozenset(("next_functions", "name", "metadata", "register_hook", "register_prehook", "where", "module",
                       "_sequence_nr", "_set_sequence_nr", "_input_metadata", "requires_grad"))


class FunctionCtx:
    """What forward, setup_context, backward and jvp of a Function share."""

    def save_for_backward(self, *tensors: Any) -> None:
        """Keep tensors for backward: inputs, outputs, or None. They come back as `ctx.saved_tensors`.

        Plain attributes would keep graphs alive and miss in-place changes; anything that is no tensor may be an attribute.
        """
        self.to_save = tensors

    def save_for_forward(self, *tensors: Any) -> None:
        """Keep tensors for `jvp`."""
        for t in tensors:
            if t is not None and not isinstance(t, TensorBase):
                raise TypeError(
                    "save_for_forward expects all arguments to be tensors; keep other values as attributes of ctx.")
        self.saved_for_forward = tensors

    def mark_dirty(self, *args: Any) -> None:
        """Say which inputs forward has changed in place. Each must be returned."""
        self.dirty_tensors = args

    def mark_shared_storage(self, *pairs: Any) -> None:
        warn_user("mark_shared_storage does nothing: tensors with shared storages are recognised by themselves. Leave "
                  "it out, and keep mark_dirty if forward works in place.", FutureWarning)

    def mark_non_differentiable(self, *args: Any) -> None:
        """Say which outputs have no gradient (integer outputs need not be named)."""
        self.non_differentiable = args

    def set_materialize_grads(self, value: bool) -> None:
        """Whether backward gets zeros (True, the default) or None for outputs without a gradient."""
        self.materialize_grads = value


_ContextMethodMixin = FunctionCtx


class _Ctx(FunctionCtx):
    """The `ctx` of one call: attributes shared with the node, and the node itself while the call lasts."""

    __slots__ = ("_node",)

    def __init__(self, node: Node | None, attributes: dict) -> None:
        object.__setattr__(self, "_node", node)
        self.__dict__ = attributes

    @property
    def saved_tensors(self) -> tuple:
        """The tensors given to save_for_backward."""
        attributes = self.__dict__
        if "saved_for_forward" in attributes and "_in_jvp" in attributes:
            return attributes["saved_for_forward"]
        return () if self._node is None else saved_tensors(self._node)

    @property
    def saved_variables(self) -> tuple:
        warn_user("'saved_variables' is deprecated; use 'saved_tensors'", DeprecationWarning)
        return self.saved_tensors

    def __getattr__(self, name: str) -> Any:
        if name in _NODE_API and self._node is not None:
            return getattr(state.show(self._node), name)
        if name in _DEFAULTS:
            return _DEFAULTS[name]
        raise AttributeError(f"'{type(self).__name__}' object has no attribute '{name}'")


_DEFAULTS = {"needs_input_grad": (), "materialize_grads": True, "dirty_tensors": None, "non_differentiable": None,
             "to_save": None, "saved_for_forward": None}


class BackwardCFunction(NodeView):
    """The node of a custom function: `y.grad_fn`. It answers for the attributes that forward set on ctx."""

    __slots__ = ()
    _forward_cls: Any = None

    @property
    def saved_tensors(self) -> tuple:
        return saved_tensors(self)

    @property
    def _raw_saved_tensors(self) -> tuple:
        if self.freed:
            raise freed_error(self)
        return tuple(self.params["_custom"].saved or ())

    def apply(self, *args: Any) -> Any:
        """Run the Function's backward on gradients of the outputs."""
        return self._forward_cls.backward(self._forward_cls._ctx_class(self, self.params), *args)

    def __getattr__(self, name: str) -> Any:
        attributes = self.params
        if attributes is not None and name in attributes:
            return attributes[name]
        if name in _DEFAULTS:
            return _DEFAULTS[name]
        raise AttributeError(f"'{type(self).__name__}' object has no attribute '{name}'")

    def __setattr__(self, name: str, value: Any) -> None:
        if name in _engine_fields():
            object.__setattr__(self, name, value)
        else:
            self.params[name] = value

    def __repr__(self) -> str:
        return f"<torch.autograd.function.{type(self).__name__} object at {id(self):#x}>"


@functools.cache
def _engine_fields() -> frozenset:
    """Names of attributes that belong to the engine; all others are the user's."""
    node = Node(Op("none"))
    return frozenset(getattr(node, "__dict__", None) or (k for k in dir(Node) if not k.startswith("__")))


def saved_tensors(node: Node) -> tuple:
    """The tensors that a custom node keeps; an error after they were given up."""
    if node.freed:
        raise freed_error(node)
    kept = node.params["_custom"].saved
    return _unpacked(node, kept) if kept else ()


def _unpacked(node: Node, kept: list) -> tuple:
    out = []
    for i, s in enumerate(kept):
        if s is None:
            out.append(None)
        else:
            warn_intermediate(node, s, i)
            out.append(s.unpack(node, i))
    return tuple(out)


class Layout:
    """How the arguments of one call lie: how many, which are tensors, and what was saved of them."""

    __slots__ = ("constants", "forward", "n_args", "positions", "saved")

    def __init__(self, n_args: int, positions: list) -> None:
        self.n_args, self.positions = n_args, positions
        self.saved: list | None = None
        self.forward: Any = None                  # what jvp needs, in a function that func.jvp runs
        self.constants: dict[int, tuple] = {}     # shape and dtype of outputs without gradient, by position


class FunctionMeta(type):
    """Gives each Function its operator record and the classes of its ctx and node."""

    def __init__(cls, name: str, bases: tuple, attributes: dict) -> None:
        super().__init__(name, bases, attributes)
        op = Op(name)
        op.node_name = name + "Backward"
        op.custom = cls
        own = {"_forward_cls": cls, "__module__": "torch.autograd.function"}
        cls._ctx_class = type(op.node_name, (_Ctx,), dict(own))
        op.node_class = type(op.node_name, (BackwardCFunction,), {"__slots__": (), **own})
        cls._backward_cls = op.node_class
        cls._op = op


class Function(metaclass=FunctionMeta):
    """Base of custom differentiable functions: define `forward` and `backward`, call `apply`.

    Two styles: `forward(ctx, *inputs)`, or `forward(*inputs)` with `setup_context(ctx, inputs, output)`. `backward(ctx,
    *grads)` gets one gradient for each output and returns one for each input of forward, None where there is none.
    """

    generate_vmap_rule = False

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        warn_user(
            f"{type(self)} should not be instantiated. Methods on autograd functions are all static, so you should "
            "invoke them "
            "on the class itself: call apply(). Instantiating an autograd function will raise an error in a future version.",
            DeprecationWarning)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        raise RuntimeError(
            "Legacy autograd function: forward must be a static method. Please use new-style autograd function "
            f"with static forward method: write @staticmethod above forward and backward, and call {type(self).__name__}"
            ".apply(...).")

    @staticmethod
    def forward(*args: Any, **kwargs: Any) -> Any:
        """The function: forward(ctx, *inputs), or forward(*inputs) when setup_context is defined."""
        raise NotImplementedError("A custom autograd.Function must implement the forward: a static method "
                                  "forward(ctx, *inputs).")

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple, output: Any) -> Any:
        """Save what backward needs: the second style of forward."""
        raise NotImplementedError("setup_context is not implemented.")

    @staticmethod
    def backward(ctx: Any, *grad_outputs: Any) -> Any:
        """The gradients of the inputs from those of the outputs."""
        raise NotImplementedError(
            "This custom autograd.Function has neither backward nor vjp, and backward mode needs one. Write "
            "@staticmethod def backward(ctx, *grads).")

    vjp = backward

    @staticmethod
    def jvp(ctx: Any, *grad_inputs: Any) -> Any:
        """The tangents of the outputs from those of the inputs: forward mode."""
        raise NotImplementedError(
            "This custom autograd.Function has no jvp, which forward mode needs. Write @staticmethod def jvp(ctx, "
            "*tangents).")

    @staticmethod
    def vmap(info: Any, in_dims: tuple, *args: Any) -> Any:
        """The batched function, for torch.func.vmap."""
        raise NotImplementedError(
            "vmap over a custom autograd.Function needs either generate_vmap_rule=True in the class or its own "
            "vmap staticmethod.")

    @classmethod
    def apply(cls, *args: Any, **kwargs: Any) -> Any:
        """Run forward and record it as one node.

        Raises:
            RuntimeError: forward broke a rule of in-place changes.
            TypeError: save_for_backward was given something that is no tensor.
        """
        if _is_setup_context_defined(cls.setup_context):
            bound = inspect.signature(cls.forward).bind(*args, **kwargs)
            bound.apply_defaults()
            args = bound.args
        elif kwargs:
            bound = inspect.signature(cls.forward).bind(None, *args, **kwargs)
            if bound.kwargs:
                raise TypeError(f"{cls.__name__}.apply(): forward() got unexpected keyword arguments "
                                f"{list(bound.kwargs)}: inputs of a "
                                "Function are positional, so that backward can return one gradient for each.")
            args = bound.args[1:]
        return _apply(cls, args)


def _is_setup_context_defined(fn: Callable) -> bool:
    return fn is not Function.setup_context


def _apply(cls: Any, args: tuple) -> Any:
    if state.special != 0:
        for a in args:
            if isinstance(a, TensorBase) and is_mapped(a):
                return a._lazy.custom(cls, args)
    needs = tuple(isinstance(a, TensorBase) and requires(a) for a in args)
    attributes: dict[str, Any] = {"needs_input_grad": needs}
    node = None
    if grad_enabled() and True in needs:
        node = _new_node(cls, args, attributes)
    ctx = cls._ctx_class(node, attributes)
    if _custom_forward.any_level():
        with _custom_forward.off():
            output = _forward(cls, ctx, args)
    else:
        output = _forward(cls, ctx, args)
    single = not isinstance(output, tuple)
    outputs = [output] if single else list(output)
    dirty = attributes.pop("dirty_tensors", None) or ()
    constants = attributes.pop("non_differentiable", None) or ()
    _check_dirty(cls, dirty, outputs)
    results = finish_outputs(cls, node, args, outputs, dirty, constants)
    to_save = attributes.pop("to_save", None)
    if node is not None:
        _save(node, attributes, to_save, args, outputs, results)
    if _custom_forward.any_tangent(args):
        _custom_forward.run_jvp(cls, ctx, args, results, dirty, single)
    for_forward = attributes.pop("saved_for_forward", None)
    if node is not None and cls.jvp is not Function.jvp and _custom_forward.pushing():
        saved = None if for_forward is None else _kept(node, for_forward, args, outputs, results)
        attributes["_custom"].forward = _custom_forward.Kept(args, saved)
    return results[0] if single else tuple(results)


def _forward(cls: Any, ctx: Any, args: tuple) -> Any:
    old = set_grad_enabled(False)
    try:
        if _is_setup_context_defined(cls.setup_context):
            output = cls.forward(*args)
            cls.setup_context(ctx, args, output)
            return output
        return cls.forward(ctx, *args)
    finally:
        set_grad_enabled(old)


def _new_node(cls: Any, args: tuple, attributes: dict) -> Node:
    node = Node(cls._op)
    positions = []
    for i, a in enumerate(args):
        if isinstance(a, TensorBase):
            set_edge(node, len(positions), a)
            positions.append(i)
    node.n = len(positions)
    node.params = attributes
    attributes["_custom"] = Layout(len(args), positions)
    x = extra_of(node)
    x.call, x.release = run_backward, release
    return node


def _check_dirty(cls: Any, dirty: tuple, outputs: list) -> None:
    for t in dirty:
        if not isinstance(t, TensorBase):
            raise TypeError(f"mark_dirty can only mark variables, but got {type(t).__name__}")
        if not any(t is o for o in outputs):
            raise RuntimeError(
                f"{cls.__name__}: forward marked an input as dirty without returning it. What forward "
                "changes in place must also be one of its outputs.")
        if t._inference and not inference_enabled():
            raise inference_inplace_error()


def _save(node: Node, attributes: dict, to_save: Any, args: tuple, outputs: list, results: list) -> None:
    if to_save is not None:
        attributes["_custom"].saved = _kept(node, to_save, args, outputs, results)


def _kept(node: Node, to_save: tuple, args: tuple, outputs: list, results: list) -> list:
    kept: list[Saved | None] = []
    inputs = {id(a) for a in args}
    renamed = {id(o): r for o, r in zip(outputs, results, strict=True)
               if isinstance(o, TensorBase) and o is not r and id(o) not in inputs}
    for i, t in enumerate(to_save):
        if t is None:
            kept.append(None)
        elif not isinstance(t, TensorBase):
            raise TypeError(f"save_for_backward can only save variables, but argument {i} is of type "
                            f"{type(t).__name__}. Keep "
                            "other values as attributes of ctx.")
        else:
            kept.append(Saved(renamed.get(id(t), t), node, id(t) in inputs))
    return kept


def release(node: Node) -> None:
    """Give up saved tensors."""
    node.params["_custom"].saved = node.params["_custom"].forward = None


def run_backward(node: Node, grads: list, create: bool) -> list:
    """The user's backward: gradients of the node's inputs from those of its outputs."""
    cls = node.op.custom
    attributes = node.params
    if attributes.get("materialize_grads", True):
        metas = extra_of(node).metas
        metas = [(node.shape, node.dtype)] if metas is None else metas
        infos = attributes["_custom"].constants
        known = next((g for g in grads if g is not None), None)
        for i, g in enumerate(grads):
            if g is None:
                meta = infos.get(i) or metas[i]
                if meta is not None:
                    grads[i] = _custom_forward.zeros(meta, known)
    ctx = cls._ctx_class(node, attributes)
    forward = attributes["_custom"].forward
    if forward is not None and _custom_forward.transposing():
        saved = None if forward.saved is None else _unpacked(node, forward.saved)
        found = _custom_forward.transpose(cls, node, ctx, forward, saved, grads)
        return [found[i] for i in attributes["_custom"].positions]
    if cls.backward is not Function.backward and cls.vjp is not Function.vjp:
        raise RuntimeError("A custom Function has 'backward' or 'vjp' (two names of one thing), not both. You should only "
                           f"implement one of them: {cls.__name__} has both.")
    fn = cls.vjp if cls.vjp is not Function.vjp else cls.backward
    result = fn(ctx, *grads)
    return _in_order(node, result if isinstance(result, (tuple, list)) else (result,))


def _in_order(node: Node, values: tuple | list) -> list:
    """The gradients of tensor inputs, from one value for each argument of forward."""
    n_args, positions = node.params["_custom"].n_args, node.params["_custom"].positions
    name = node.op.node_name
    if len(values) > n_args and all(v is None for v in values[n_args:]):
        values = values[:n_args]
    if len(values) != n_args:
        raise RuntimeError(
            f"function {name} returned an incorrect number of gradients (expected {n_args}, got {len(values)}): backward "
            "returns one for each argument of forward, and None for those without a gradient.")
    wanted = set(positions)
    for i, v in enumerate(values):
        if i not in wanted:
            if v is not None:
                raise RuntimeError(
                    f"function {name} returned a gradient different than None at position {i + 1}, but the "
                    "corresponding forward "
                    "input was not a Variable: return None there.")
        elif v is not None and not isinstance(v, TensorBase):
            raise RuntimeError(f"expected Variable or None (got {type(v).__name__}): {name} must return tensors")
    return [values[i] for i in positions]


def once_differentiable(fn: Callable) -> Callable:
    """Decorator for a backward that is not itself differentiable: differentiating it raises."""

    @functools.wraps(fn)
    def wrapper(ctx: Any, *args: Any) -> Any:
        recording = grad_enabled()
        old = set_grad_enabled(False)
        try:
            outputs = fn(ctx, *args)
        finally:
            set_grad_enabled(old)
        asking = [a for a in args if isinstance(a, TensorBase) and requires(a)]
        if not recording or not asking:
            return outputs
        several = isinstance(outputs, tuple)
        made = [None if o is None else _refusing(o, asking) for o in (outputs if several else (outputs,))]
        return tuple(made) if several else made[0]

    return wrapper


_ERROR = Op("once_differentiable")
_ERROR.node_name = "Error"


def _refuse(node: Node, grads: list, create: bool) -> list:
    raise AutogradError("trying to differentiate twice a function that was marked with @once_differentiable")


def _refusing(value: TensorBase, asking: list) -> TensorBase:
    """value, with a history that raises when it is differentiated."""
    t = remake(memory_of(value))
    t._cell = value._cell
    node = Node(_ERROR)
    for i, a in enumerate(asking):
        set_edge(node, i, a)
    node.n = len(asking)
    array = memory_of(t)
    node.shape, node.dtype = array.shape, array.dtype
    extra_of(node).call = _refuse
    t._node, t._rg = node, True
    return t


class InplaceFunction(Function):
    """Kept for programs that import it; use Function."""

    def __init__(self, inplace: bool = False) -> None:
        super().__init__()
        self.inplace = inplace


class NestedIOFunction(Function):
    """Kept for programs that import it: nested inputs are not supported. Flatten them and use Function."""

    @classmethod
    def apply(cls, *args: Any, **kwargs: Any) -> Any:
        raise RuntimeError("NestedIOFunction is not supported: flatten the inputs and outputs and use autograd.Function")
