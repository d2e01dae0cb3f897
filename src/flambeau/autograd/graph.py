"""The graph and its hooks: nodes, gradient edges, saved-tensor hooks, hooks over several tensors."""

from __future__ import annotations

import abc
import threading
import weakref
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

from flambeau.core import objects
from flambeau.core.errors import AutogradError
from flambeau.core.interception import MODES, register, unregister
from flambeau.core.objects import Cell, TensorBase, array_of, cell_of, make, requires
from flambeau.core.state import local, saved_hooks_changed, state
from flambeau.core.tasks import current_call, notes_of, will_reach
from flambeau.core.views import grad_fn
from flambeau.tensor._autograd import TensorHookHandle as Handle

from ._node import AccumulateGrad, NodeView, accumulator, show

__all__ = ["GradientEdge", "Node", "allow_mutation_on_saved_tensors", "disable_saved_tensors_hooks", "get_gradient_edge",
           "increment_version", "register_multi_grad_hook", "save_on_cpu", "saved_tensors_hooks"]


class Node(abc.ABC):
    """What `grad_fn` is an instance of."""

    @abc.abstractmethod
    def name(self) -> str:
        """The name, such as "MulBackward0"."""

    @property
    @abc.abstractmethod
    def next_functions(self) -> tuple:
        """((node, output number), ...): where the inputs' gradients go."""

    @abc.abstractmethod
    def metadata(self) -> dict:
        """A dict for users' notes."""

    @abc.abstractmethod
    def register_hook(self, fn: Callable) -> Handle:
        """Call fn(grad_inputs, grad_outputs) after the node."""

    @abc.abstractmethod
    def register_prehook(self, fn: Callable) -> Handle:
        """Call fn(grad_outputs) before the node."""


for _cls in (objects.Node, NodeView, AccumulateGrad):
    Node.register(_cls)


class GradientEdge(NamedTuple):
    """An output of a node: `grad` and `backward` take it instead of a tensor, which need not stay alive."""

    node: Any
    output_nr: int
    ownership_token: Any = None


def get_gradient_edge(tensor: TensorBase) -> GradientEdge:
    """The edge of a tensor that requires grad.

    Raises:
        RuntimeError: it does not.
    """
    if not requires(tensor):
        raise AutogradError("No gradient edge: this Tensor does not require gradients. Call requires_grad_() on it "
                            "first.")
    node = grad_fn(tensor)
    if node is None:
        return GradientEdge(accumulator(tensor), 0)
    return GradientEdge(show(node), int(tensor._nr))


def increment_version(tensor: TensorBase | Iterable[TensorBase]) -> None:
    """Count a write that autograd has not seen, so that values saved before are refused."""
    for t in [tensor] if isinstance(tensor, TensorBase) else list(tensor):
        if t._inference:
            raise AutogradError("Inference tensors do not track version counter.")
        cell_of(t).stamp += 1


# ---------------------------------------------------------------------------------- saved-tensor hooks


def _hooks() -> list:
    found = getattr(local, "saved_hooks", None)
    if found is None:
        found = local.saved_hooks = []
    return found


class saved_tensors_hooks:
    """Inside, each tensor saved for backward is replaced by pack_hook(tensor); backward gets unpack_hook of that.

    Args:
        pack_hook: Tensor -> anything. It must not change the tensor.
        unpack_hook: what pack_hook returned -> a tensor with the same values.
    """

    def __init__(self, pack_hook: Callable, unpack_hook: Callable) -> None:
        self.pack_hook, self.unpack_hook = pack_hook, unpack_hook

    def __enter__(self) -> None:
        why = getattr(local, "saved_hooks_disabled", None)
        if why is not None:
            raise RuntimeError(why)
        _hooks().append((self.pack_hook, self.unpack_hook))
        saved_hooks_changed(1)

    def __exit__(self, *error: Any) -> None:
        _hooks().pop()
        saved_hooks_changed(-1)


class save_on_cpu(saved_tensors_hooks):
    """Keep saved tensors in main memory: with only a CPU they are kept there as copies that nobody else can write.

    Args:
        pin_memory, device_type: accepted for programs written for a GPU.
    """

    def __init__(self, pin_memory: bool = False, device_type: str = "cuda") -> None:
        def pack(t: TensorBase) -> TensorBase:
            return make(state.xp.clone(array_of(t)))

        super().__init__(pack, lambda t: t)


@contextmanager
def disable_saved_tensors_hooks(error_message: str) -> Iterator[None]:
    """Inside, using saved-tensor hooks raises RuntimeError(error_message)."""
    if _hooks():
        raise RuntimeError(error_message)
    old = getattr(local, "saved_hooks_disabled", None)
    local.saved_hooks_disabled = error_message
    try:
        yield
    finally:
        local.saved_hooks_disabled = old


# ---------------------------------------------------------------------------------- several tensors


class _MultiHandle(Handle):
    def __init__(self, handles: Sequence[Any]) -> None:
        super().__init__()
        self.handles = tuple(handles)

    def remove(self) -> None:
        for h in self.handles:
            h.remove()


def register_multi_grad_hook(tensors: Sequence[TensorBase], fn: Callable, *, mode: str = "all") -> Any:
    """Call fn when gradients of several tensors have been computed in one backward.

    Args:
        tensors: tensors that require grad.
        fn: mode "all": fn(list of gradients, None where none came), once all that will come are there.
            mode "any": fn(gradient), at the first one.

    Returns:
        A handle whose remove() takes the hook away.
    """
    if mode not in ("all", "any"):
        raise ValueError(f"Expects mode to be one of ('all', 'any') but got {mode}")
    tensors = list(tensors)
    if not tensors:
        raise ValueError("register_multi_grad_hook() needs at least one tensor")
    lock = threading.Lock()
    if mode == "any":
        return _first_of(tensors, fn, lock)
    nodes = [get_gradient_edge(t).node for t in tensors]
    targets = [n.variable if isinstance(n, AccumulateGrad) else n for n in nodes]
    key = object()

    def hook_for(i: int) -> Callable:
        def hook(g: Any) -> None:
            call = current_call()
            with lock:
                notes = notes_of(call)
                entry = notes.get(key)
                if entry is None:
                    entry = notes[key] = [sum(will_reach(call, n) for n in targets), [None] * len(targets)]
                entry[0] -= 1
                entry[1][i] = g
                complete = entry[0] == 0
            if complete:
                fn(entry[1])

        return hook

    return _MultiHandle([t.register_hook(hook_for(i)) for i, t in enumerate(tensors)])


def _first_of(tensors: list, fn: Callable, lock: threading.Lock) -> Any:
    key = object()

    def hook(g: Any) -> None:
        with lock:
            notes = notes_of(current_call())
            if key in notes:
                return
            notes[key] = True
        fn(g)

    return _MultiHandle([t.register_hook(hook) for t in tensors])


# ---------------------------------------------------------------------------------- writes to saved tensors


class _Kept:
    """A saved tensor, copied before its memory is written."""

    __slots__ = ("__weakref__", "array", "cell", "stamp")

    def __init__(self, t: TensorBase) -> None:
        self.array, self.cell = array_of(t), cell_of(t)
        self.stamp = self.cell.stamp


class _Context:
    """The copies that one `allow_mutation_on_saved_tensors` has made."""

    def __init__(self) -> None:
        self.kept: dict[Cell, weakref.WeakSet] = {}

    def clear(self) -> None:
        """Forget everything."""
        self.kept.clear()

    def pack(self, t: TensorBase) -> _Kept:
        k = _Kept(t)
        self.kept.setdefault(k.cell, weakref.WeakSet()).add(k)
        return k

    def unpack(self, k: _Kept) -> TensorBase:
        return make(k.array)

    def before(self, op: Any, inputs: tuple, params: Any, kind: int) -> Any:
        if kind == 1:
            cell = inputs[0]._cell
            found = self.kept.pop(cell, None) if cell is not None else None
            for k in found or ():
                k.array = state.xp.clone(k.array)
        return NotImplemented


@contextmanager
def allow_mutation_on_saved_tensors() -> Iterator[_Context]:
    """Inside, tensors saved for backward may be written in place: they are copied first, so gradients stay right."""
    if getattr(local, "mutation_allowed", False):
        raise RuntimeError("allow_mutation_on_saved_tensors contexts cannot be nested")
    context = _Context()
    local.mutation_allowed = True
    register(MODES, context.before)
    try:
        with saved_tensors_hooks(context.pack, context.unpack):
            yield context
    finally:
        context.clear()
        local.mutation_allowed = False
        unregister(MODES, context.before)


def set_warn_on_accumulate_grad_stream_mismatch(enabled: bool) -> None:
    """Accepted: with a CPU there are no streams."""


def set_override_stale_capture_stream(enabled: bool) -> None:
    """Accepted: with a CPU there are no streams."""


def region_activation_memory_budget(*args: Any, **kwargs: Any) -> Any:
    raise NotImplementedError("region_activation_memory_budget() plans the memory of torch.compile, which flambeau does not "
                              "have: use utils.checkpoint for the regions that should be computed again")


