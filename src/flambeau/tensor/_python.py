"""copy, deepcopy and pickle of tensors: what shares memory before, shares it after."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np

from flambeau.core.basics import set_requires_grad
from flambeau.core.dtype import by_name
from flambeau.core.errors import AutogradError
from flambeau.core.objects import TensorBase, array_of, is_mapped, make_as, requires, shape_of
from flambeau.core.state import state
from flambeau.core.views import is_leaf
from flambeau.kernels import strides
from flambeau.ops._meta import Meta

# An interpreted engine keeps the slots of TensorBase in the instance's dictionary
_SLOTS = frozenset(n for n in (*vars(TensorBase), *getattr(TensorBase, "__annotations__", ())) if n.startswith("_"))


def attributes(t: Any) -> dict:
    """What the user has set on a tensor."""
    return {k: v for k, v in t.__dict__.items() if k not in _SLOTS}


def _with_facts(t: Any, source: Any, own: dict | None) -> Any:
    if requires(source):
        set_requires_grad(t, True)
    if own:
        t.__dict__.update(own)
    return t


def place(array: np.ndarray) -> tuple[np.ndarray, tuple, tuple, int]:
    """An array as (owner, shape, strides in bytes, byte offset), or as its own copy when the owner is foreign memory."""
    owner = strides.storage_owner(array)
    flags = owner.flags
    if owner.base is not None or not (flags.c_contiguous or flags.f_contiguous) or type(owner) is not np.ndarray:
        owner = np.array(array, copy=True, order="K")
        return owner, owner.shape, owner.strides, 0
    offset = strides.address(array) - strides.address(owner) if array.size else 0
    return owner, array.shape, array.strides, offset


def placed(owner: np.ndarray, dtype: np.dtype, shape: tuple, steps: tuple, offset: int) -> np.ndarray:
    """The array that `place` took apart."""
    if owner.dtype is dtype and owner.shape == shape and owner.strides == steps and offset == 0:
        return owner
    flat = strides.storage_array(owner)
    return np.ndarray(shape, dtype, flat, offset, steps)


def rebuild(cls: Any, owner: np.ndarray, dtype: np.dtype, where: tuple, requires_grad: bool, own: dict | None) -> Any:
    """Unpickles a tensor."""
    array = placed(owner, dtype, *where)
    known = by_name.get(array.dtype.name)
    if known is not None and array.dtype is not known.array_type:
        array = array.view(known.array_type)        # a pickled dtype is equal to, but not, the one that is compared by `is`
    t = make_as(cls, array)
    if requires_grad:
        set_requires_grad(t, True)
    if own:
        t.__dict__.update(own)
    return t


def rebuild_meta(cls: Any, shape: tuple, dtype: np.dtype, steps: tuple, requires_grad: bool) -> Any:
    """Unpickles a meta tensor."""
    t = make_as(cls, None)
    t._lazy = Meta(shape, dtype, steps)
    t._shape, t._dtype = t._lazy.shape, t._lazy.dtype
    if requires_grad:
        set_requires_grad(t, True)
    return t


def rebuild_sparse(cls: Any, data: Any, requires_grad: bool = False, own: dict | None = None) -> Any:
    """A sparse tensor of its data; it also unpickles one."""
    t = make_as(cls, None)
    t._lazy, t._shape, t._dtype = data, data.shape, data.dtype
    if requires_grad:
        set_requires_grad(t, True)
    if own:
        t.__dict__.update(own)
    return t


def of_class(t: TensorBase, cls: Any) -> Any:
    """t itself, made an instance of a subclass of Tensor."""
    t.__class__ = cls
    return t


class Python:
    """Methods of Tensor that copy and pickle ask for."""

    def __copy__(self: Any) -> Any:
        cls = type(self)
        if type(self._lazy) is state.sparse:
            t = rebuild_sparse(cls, self._lazy)
        elif self._array is None:
            t = rebuild_meta(cls, tuple(shape_of(self)), self._dtype, self._lazy.strides, False)
        else:
            t = make_as(cls, self._array)
            t._cell = self.detach()._cell
        return _with_facts(t, self, attributes(self))

    def __deepcopy__(self: Any, memo: dict) -> Any:
        found = memo.get(id(self))
        if found is not None:
            return found
        if not is_leaf(self):
            raise AutogradError(
                "Only Tensors created explicitly by the user (graph leaves) support the deepcopy protocol at the "
                "moment: this "
                f"tensor is the result of {self._node.op.node_name if self._node is not None else 'an operator'}, and "
                "a copy of "
                "it would have no history. Use detach().clone(), or compute it again from the copied inputs (in a "
                "module: in "
                "forward(), not in __init__).")
        cls = type(self)
        if is_mapped(self):
            memo[id(self)] = copied = self.detach().clone()
            return copied
        if self._array is None and isinstance(self._lazy, Meta):
            t = rebuild_meta(cls, tuple(shape_of(self)), self._dtype, self._lazy.strides, False)
        elif type(self._lazy) is state.sparse:
            t = rebuild_sparse(cls, self._lazy.clone())
        else:
            a = array_of(self)
            owner, *where = place(a)
            key = ("flambeau storage", id(owner))
            if key not in memo:
                memo[key] = (owner, np.array(owner, copy=True, order="K"))
            t = make_as(cls, placed(memo[key][1], a.dtype, *where))
        memo[id(self)] = t
        if requires(self):
            set_requires_grad(t, True)
        if self._grad is not None:
            t._grad = copy.deepcopy(self._grad, memo)
        own = attributes(self)
        if own:
            t.__dict__.update(copy.deepcopy(own, memo))
        return t

    def __reduce_ex__(self: Any, protocol: Any) -> Any:
        cls = type(self)
        own = attributes(self) or None
        if self._array is None and isinstance(self._lazy, Meta):
            return rebuild_meta, (cls, tuple(shape_of(self)), self._dtype, self._lazy.strides, requires(self))
        if type(self._lazy) is state.sparse:
            return rebuild_sparse, (cls, self._lazy, requires(self), own)
        a = array_of(self)
        owner, *where = place(a)
        return rebuild, (cls, owner, a.dtype, tuple(where), requires(self), own)

    # ------------------------------------------------------------------------------- subclasses

    def as_subclass(self: Any, cls: Any) -> Any:
        """The same memory and history, as an instance of a subclass of Tensor."""
        t = state.ops.alias(self)
        return of_class(t, cls)

    @staticmethod
    def _make_subclass(cls: Any, data: Any, require_grad: bool = False, **kwargs: Any) -> Any:
        """The same memory as an instance of a subclass, a leaf of its own."""
        t = of_class(data.detach(), cls)
        if require_grad:
            set_requires_grad(t, True)
        return t

    @staticmethod
    def _make_wrapper_subclass(cls: Any, *args: Any, **kwargs: Any) -> Any:
        raise NotImplementedError(
            "wrapper subclasses (__torch_dispatch__) are not supported: give the subclass a __torch_function__, which "
            "sees every "
            "public function, or subclass torch.Tensor over real data.")
