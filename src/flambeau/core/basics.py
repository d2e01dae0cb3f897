"""Methods and properties of every tensor that belong to autograd and name no operator."""
from __future__ import annotations

from typing import Any

from mypy_extensions import mypyc_attr

from .dtype import CPU, META, STRIDED, dtype_of_array
from .errors import AutogradError, forward_line
from .objects import (
    Cell,
    TensorBase,
    cell_of,
    dtype_of,
    extra_of,
    is_mapped,
    leaf_hooks,
    make,
    requires,
    set_array,
    shape_of,
    version_of,
)
from .state import inference_enabled, state
from .views import grad_fn, is_leaf, retain_grad


@mypyc_attr(allow_interpreted_subclasses=True)
class Basics(TensorBase):
    @property
    def requires_grad(self) -> bool:
        """Whether a gradient is asked for this tensor or for something that it was computed from."""
        return requires(self)

    @requires_grad.setter
    def requires_grad(self, on: Any) -> None:
        set_requires_grad(self, bool(on))

    @property
    def is_leaf(self) -> bool:
        """Whether the tensor is no recorded operator's result: its `.grad` is kept by backward."""
        return is_leaf(self)

    @property
    def grad_fn(self) -> Any:
        """The graph node that made the tensor; None for leaves."""
        if self._node is None and self._view is None:
            return None
        n = grad_fn(self)
        return None if n is None else state.show(n)

    @property
    def output_nr(self) -> int:
        return int(self._nr)

    @property
    def retains_grad(self) -> bool:
        return self._retains

    def retain_grad(self) -> None:
        """Keep `.grad` of a tensor that is not a leaf."""
        if not requires(self):
            raise AutogradError(
                "can't retain_grad on Tensor that has requires_grad=False: no gradient will be computed for it.")
        retain_grad(self)

    @property
    def _version(self) -> int:
        if self._inference:
            raise AutogradError("Inference tensors do not track version counter.")
        return version_of(self)

    @property
    def _base(self) -> Any:
        v = self._view
        return None if v is None else v.base

    def _is_view(self) -> bool:
        return self._view is not None

    def is_inference(self) -> bool:
        """Whether the tensor was made in inference mode."""
        return self._inference

    @property
    def shape(self) -> Any:
        """The sizes of the dimensions, a torch.Size."""
        s = self._shape
        if s is None:
            s = self._array.shape
        if type(s) is not state.size:
            s = state.size(s)
            self._shape = s
        return s

    @property
    def dtype(self) -> Any:
        return dtype_of_array(dtype_of(self))

    @property
    def device(self) -> Any:
        if self._array is None:
            return self._lazy.device
        return CPU

    @property
    def is_meta(self) -> bool:
        return self._array is None and self._lazy.device is META

    @property
    def layout(self) -> Any:
        if self._array is None and type(self._lazy) is state.sparse:
            return self._lazy.layout
        return STRIDED

    @property
    def ndim(self) -> int:
        return len(shape_of(self))

    def dim(self) -> int:
        """The number of dimensions."""
        return len(shape_of(self))

    def detach(self) -> Any:
        """The same memory and version count, outside the graph."""
        if self._array is None or (state.special != 0 and state.detach is not None):
            return state.detach(self)
        t = make(self._array)
        t._cell = cell_of(self)
        t._shape = self._shape
        t._dtype = self._dtype
        t._inference = self._inference
        return t

    @property
    def data(self) -> Any:
        """The same memory outside the graph, with a version count of its own: autograd does not see writes to it.

        Writes through it are noted all the same: if one spoils a value saved for backward, backward warns.
        """
        if self._array is None:
            return state.detach(self)
        t = make(self._array)
        c = Cell()
        c.origin = cell_of(self)
        t._cell = c
        t._shape = self._shape
        t._dtype = self._dtype
        t._inference = self._inference
        return t

    @data.setter
    def data(self, value: Any) -> None:
        if not isinstance(value, TensorBase):
            raise TypeError("Variable data has to be a tensor, but got " + type(value).__name__)
        if value._array is None:
            self._array = None
            self._lazy = value._lazy
            self._shape = value._shape
            self._dtype = value._dtype
        else:
            set_array(self, value._array)

    @property
    def grad(self) -> Any:
        """The accumulated gradient, or None."""
        g = self._grad
        if g is None and self._node is not None and not self._retains:
            state.non_leaf_grad(self)
        return g

    @grad.setter
    def grad(self, value: Any) -> None:
        if value is not None:
            check_grad(self, value)
        self._grad = value

    def numel(self) -> int:
        """The number of elements."""
        n = 1
        for s in shape_of(self):
            n *= s
        return n

    def __hash__(self) -> int:
        return id(self)


def set_requires_grad(t: TensorBase, on: bool) -> None:
    """The setter's rules: only leaves may change, only floating and complex tensors may require grad."""
    if on and is_mapped(t):
        raise AutogradError(
            "You are attempting to call Tensor.requires_grad_() inside of a function being transformed by a functorch "
            "transform (vmap): the tensor stands for a batch of samples, and has no graph of its own. Use torch.func.grad "
            "or torch.func.vjp in the function, or call requires_grad_() outside.")
    if not on:
        if not is_leaf(t):
            n = grad_fn(t)
            made = "" if n is None else " It is the result of %s, at %s." % (n.op.node_name, forward_line(n))
            raise AutogradError(
                "you can only change requires_grad flags of leaf variables, and this tensor was computed." + made
                + " To use its values without gradient, take y = x.detach(); to compute it without recording, use "
                "torch.no_grad().")
        v = t._view
        if v is not None and v.base._rg and not t._rg:
            raise AutogradError(
                "you can only change requires_grad flags of leaf variables: this view requires grad through its base. "
                "Use detach().")
    elif not state.is_float(dtype_of(t)):
        raise AutogradError(
            "only Tensors of floating point dtype can require gradients, not " + dtype_of_array(dtype_of(t)).name
            + ". Convert it first, for example with .float().")
    elif t._inference and not t._rg and not inference_enabled():
        raise AutogradError("Setting requires_grad=True on inference tensor outside InferenceMode is not allowed. "
                            "Make a clone() of it first.")
    if t._rg != on:
        state.meta_epoch += 1
    t._rg = on


def check_grad(t: TensorBase, value: Any) -> None:
    """`.grad = value`: same shape, dtype and device as the tensor."""
    if not isinstance(value, TensorBase):
        raise TypeError(".grad takes a Tensor or None, not a " + type(value).__name__)
    if value is t:
        raise RuntimeError("can't assign Variable as its own grad")
    if dtype_of(value) != dtype_of(t):
        raise RuntimeError("assigned grad has data of a different type: the tensor has dtype "
                           f"{dtype_of(t)} and the gradient {dtype_of(value)}")
    if tuple(shape_of(value)) != tuple(shape_of(t)):
        raise RuntimeError("assigned grad has data of a different size: the tensor has shape "
                           f"{list(shape_of(t))} and the gradient {list(shape_of(value))}")


def add_tensor_hook(t: TensorBase, number: int, fn: Any) -> Any:
    """Register a gradient hook; returns the list that holds it."""
    n = grad_fn(t)
    state.meta_epoch += 1
    if n is not None:
        x = extra_of(n)
        hooks = x.tensor
        if hooks is None:
            hooks = []
            x.tensor = hooks
        hooks.append([number, int(t._nr), fn])
        return hooks
    h = leaf_hooks(t)
    h.tensor.append([number, fn])
    return h.tensor


def add_post_accumulate_hook(t: TensorBase, number: int, fn: Any) -> Any:
    state.meta_epoch += 1
    h = leaf_hooks(t)
    h.post_acc.append([number, fn])
    return h.post_acc
