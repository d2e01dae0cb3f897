"""Operators that the engine itself names: identity, copies, fitting a gradient to its input."""

from __future__ import annotations

from typing import Any

import numpy as np

from flambeau.core.apply import apply1
from flambeau.core.inplace import apply_inplace2
from flambeau.core.op import slot
from flambeau.core.saved import ALIAS
from flambeau.kernels import strides
from flambeau.kernels.layout import dense_strides
from flambeau.kernels.services import cast_gradient, clone_as, copy_kernel, sum_to

from ._meta import Meta
from ._record import KERNEL, ops, primitive
from ._shapes import always, formatted, like, shaped

alias = primitive("alias", lambda a: a.view(), view=True, expr="self", node="AliasBackward0", self=lambda xp, g: g)
ALIAS.append(alias)

def _copied(self: Meta, memory_format: str) -> Meta:
    return Meta(self.shape, self.dtype, formatted(self, memory_format))


clone = primitive("clone", strides.clone, params=("memory_format",), meta=_copied, expr="self", self=lambda xp, g: g)
expand = primitive("expand", strides.expand, params=("size",), view=True, expr="self",
                   self=lambda xp, g, self_shape: xp.sum_to(g, self_shape))
primitive("sum_to", sum_to, params=("shape",), meta=shaped(), expr=KERNEL, node="SumBackward1",
          self=lambda xp, g, self_shape: xp.expand(g, self_shape))
primitive("cast", cast_gradient, params=("dtype",), meta=lambda self, dtype: like(always(dtype))(self),
          expr="cast(self, dtype)", node="ToCopyBackward0",
          self=lambda xp, g: g)
primitive("clone_as", clone_as, params=("strides",), expr="self", node="CloneBackward0", self=lambda xp, g: g,
          meta=lambda self, strides: Meta(self.shape, self.dtype, dense_strides(self.shape, strides)))
copy = primitive("copy", lambda a, b: b, inputs=("self", "src"), inplace=copy_kernel, pointwise=True, promotes=False,
                 is_copy=True, expr="src", node="CopyBackwards",
                 self=lambda xp, g: xp.zeros_like(g), src=lambda xp, g: g)
primitive("copy_overlapping", lambda a, b: b, inputs=("self", "src"), inplace=copy_kernel, pointwise=True, promotes=False,
          is_copy=True, expr="src", node="CopyBackwards", self=lambda xp, g: xp.zeros_like(g),
          src=lambda xp, g: g).overlap_allowed = True
primitive("zeros_like", np.zeros_like, differentiable=False, meta=like(), expr="0")
# What a function that is known by its shape rule alone has in the graph, on the meta device
primitive("whole", lambda tensors: tensors[0], inputs=("tensors",), variadic=True, expr=KERNEL, meta=like(),
          joint=lambda xp, g, needs, inputs: [
              xp.linked(xp.zeros_like(t), xp.sum(g)) if needed else None for t, needed in zip(inputs, needs, strict=True)])
ops.clone = lambda t: apply1(clone, t, ("preserve",))


def _write(dst: Any, src: Any) -> None:
    """dst[...] = src, for the gradient of a written slice."""
    apply_inplace2(copy, dst, 0.0 if src is None else src)


ops.write = _write
slot("copy").is_copy = True
