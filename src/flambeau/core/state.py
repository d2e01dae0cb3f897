"""Process-wide switches, modes of each thread, and the services that upper layers hand to the core.

Every hot path asks `special` once and `n_grad_off` once; only when one of them is not zero does it look at
the thread. A thread-local look-up on every operator would cost more than the rest of the call.
"""
from __future__ import annotations

import _thread
import threading
from typing import Any, Final

from mypy_extensions import i64

local: Final = threading.local()
get_ident: Final = _thread.get_ident


class State:
    def __init__(self) -> None:
        self.special: i64 = 0         # reasons to intercept operators: subclasses, forward mode, profiler, capture
        self.n_step_watchers: i64 = 0 # who intercepts backward and optimizer steps: capture, profiler, doctor
        self.n_grad_off: i64 = 0      # threads whose grad mode is off
        self.n_inference: i64 = 0     # threads in inference mode
        self.n_scoped: i64 = 0        # threads inside an nn.Module call
        self.n_saved_hooks: i64 = 0   # threads with saved-tensor hooks, or in which they are disabled
        self.n_anomaly: i64 = 0       # nested anomaly modes (process-wide, as in PyTorch)
        self.meta_epoch: i64 = 0      # changes of parameters' flags and hooks: the compiler's guard
        self.ambient: i64 = 0         # changes of the ambient state: default dtype, autocast
        self.seq: i64 = 0
        self.scope: Any = None        # the scope of thread `scope_thread`, the last to enter a module
        self.scope_thread: i64 = 0
        self.internal: dict[str, bool] = {}   # file names whose frames are never the user's
        self.user_code: Any = None    # the user's code object that made the last node
        # Services, set once by `kernels`, `ops` and `tensor`
        self.new: Any = None          # the public Tensor class
        self.alloc: Any = None        # __new__ of its most derived native base
        self.array: Any = None        # the array class; a result of another type goes through `wrap`
        self.wrap: Any = None
        self.follow: Any = None       # (result, array, array) -> the result in the order of the operands' axes
        self.place: Any = None        # (view, base) -> the operator and parameters that find the view in the base's memory
        self.sparse: Any = None       # the class of sparse data, which stands in `_lazy` and goes where arrays go
        self.size: Any = None         # torch.Size
        self.add: Any = None          # array + array; a third argument is written
        self.xp: Any = None           # names of formulas, on arrays
        self.ops: Any = None          # the same names, on Tensors
        self.intercept: Any = None    # (op, inputs, params, kind) -> value | NotImplemented
        self.intercept_step: Any = None   # (kind, payload) -> value | NotImplemented
        self.lazy: Any = None         # the same for tensors without an array: meta and pending
        self.meta: Any = None         # (op, shape and dtype of the input, params) -> those of the result
        self.promote: Any = None      # (op, array, array, a_is_number, b_is_number) -> arrays of one dtype
        self.promote_inplace: Any = None
        self.floating: Any = None     # (array) -> array of the default float dtype
        self.constant: Any = None     # (number, dtype) -> read-only 0-d array | None
        self.explain: Any = None      # (op, arrays, exception) -> the exception to raise
        self.bool_dtype: Any = None
        self.f32: Any = None
        self.f64: Any = None
        self.c64: Any = None
        self.c128: Any = None
        self.is_float: Any = None     # (dtype) -> floating or complex
        # Quiet NumPy: see `quiet1`
        self.busy: bool = False
        self.run: Any = None          # bound Context.run of a context in which floating-point warnings are off
        self.quiet_set: Any = None
        self.quiet_reset: Any = None
        self.quiet_value: Any = None
        self.loud_value: Any = None   # the user settings, restored around hooks
        self.why_no_grad: Any = None  # (tensor) -> a sentence for the error
        self.getitem: Any = None      # (tensor, key) -> tensor: whole indexing
        self.method: Any = None       # (name) -> the function of a method, interpreted
        self.function: Any = None     # (name) -> the function "cat" or "nn.functional.linear", interpreted
        self.public: Any = None       # (name) -> the function that users see as `flambeau.name`
        self.backward: Any = None     # autograd.backward
        self.front: Any = None        # (name, args, out) -> the function of a record, with out= or bad arguments
        self.show: Any = None         # (node) -> the node under its operator's class
        self.detach: Any = None       # detach of a tensor without an array, or under interception
        self.non_leaf_grad: Any = None  # (tensor): warn that its .grad is read but never kept
        self.check_nan: Any = None    # anomaly mode: (node, input number, gradient)
        self.trace: Any = None        # anomaly mode: (new node), keeps the stack
        self.watch: Any = None        # profiler: (node, whether it begins), around each node of a backward
        self.report: Any = None       # anomaly mode: (node), warns where the failing node was recorded


state: Final = State()


# ------------------------------------------------------------------------------------- modes


def grad_enabled() -> bool:
    return state.n_grad_off == 0 or bool(getattr(local, "grad", True))


def set_grad_enabled(on: bool) -> bool:
    """Set the grad mode of this thread; returns the old one."""
    old: bool = getattr(local, "grad", True)
    if old != on:
        local.grad = on
        if on:
            state.n_grad_off -= 1
        else:
            state.n_grad_off += 1
    return old


def inference_enabled() -> bool:
    return state.n_inference != 0 and bool(getattr(local, "inference", False))


def set_inference(on: bool) -> bool:
    """Set the inference mode of this thread; returns the old one."""
    old: bool = getattr(local, "inference", False)
    if old != on:
        local.inference = on
        if on:
            state.n_inference += 1
        else:
            state.n_inference -= 1
    return old


def intercepting(change: int) -> None:
    """Count one more (1) or one less (-1) reason to intercept operators."""
    state.special += change


def saved_hooks_changed(change: int) -> None:
    state.n_saved_hooks += change


def anomaly_changed(change: int) -> None:
    state.n_anomaly += change


def bump_meta_epoch() -> None:
    state.meta_epoch += 1


def bump_ambient() -> None:
    state.ambient += 1


# ------------------------------------------------------------------------------------- scopes


def enter_scope(name: Any, cls: Any) -> Any:
    """Push a module call of this thread; returns the old scope for `leave_scope`.

    A scope is a linked tuple (name, class name, outer scope): it holds no module, so that a node never keeps
    a module, its parameters and whatever else hangs on it alive.
    """
    me = get_ident()
    old: Any
    if state.n_scoped != 0:
        old = state.scope if me == state.scope_thread else getattr(local, "scope", None)
    else:
        old = None
    new = (name, cls, old)
    if old is None:
        state.n_scoped += 1
    local.scope = new
    state.scope = new
    state.scope_thread = me
    return old


def leave_scope(old: Any) -> None:
    local.scope = old
    state.scope = old
    state.scope_thread = get_ident()
    if old is None:
        state.n_scoped -= 1


def current_scope() -> Any:
    if state.n_scoped == 0:
        return None
    if get_ident() == state.scope_thread:
        return state.scope
    return getattr(local, "scope", None)


# ------------------------------------------------------------------------------------- quiet kernels
#
# NumPy's floating-point warnings are not PyTorch's and must not reach the user, nor may the user's own NumPy
# settings change. Running a kernel inside a prepared context costs nothing measurable; one context cannot be
# entered twice, so a second thread (or a nested call) sets and resets the context variable: 0.07 us.


def loud(fn: Any, args: Any) -> Any:
    token = state.quiet_set(state.quiet_value)
    try:
        return fn(*args)
    finally:
        state.quiet_reset(token)


def quiet1(fn: Any, a: Any) -> Any:
    if state.busy:
        return loud(fn, (a,))
    state.busy = True
    try:
        return state.run(fn, a)
    finally:
        state.busy = False


def quiet2(fn: Any, a: Any, b: Any) -> Any:
    if state.busy:
        return loud(fn, (a, b))
    state.busy = True
    try:
        return state.run(fn, a, b)
    finally:
        state.busy = False


def quiet3(fn: Any, a: Any, b: Any, c: Any) -> Any:
    if state.busy:
        return loud(fn, (a, b, c))
    state.busy = True
    try:
        return state.run(fn, a, b, c)
    finally:
        state.busy = False


def quiet4(fn: Any, a: Any, b: Any, c: Any, d: Any) -> Any:
    if state.busy:
        return loud(fn, (a, b, c, d))
    state.busy = True
    try:
        return state.run(fn, a, b, c, d)
    finally:
        state.busy = False


def quiet5(fn: Any, a: Any, b: Any, c: Any, d: Any, e: Any) -> Any:
    if state.busy:
        return loud(fn, (a, b, c, d, e))
    state.busy = True
    try:
        return state.run(fn, a, b, c, d, e)
    finally:
        state.busy = False


def quiet(fn: Any, args: Any) -> Any:
    if state.busy:
        return loud(fn, args)
    state.busy = True
    try:
        return state.run(fn, *args)
    finally:
        state.busy = False
