"""Printed forms of tensors: their facts handed to `_printing`."""

from __future__ import annotations

from typing import Any

import numpy as np

from flambeau.core import dtype as dtypes
from flambeau.core.objects import TensorBase, array_of, requires, shape_of
from flambeau.core.state import state
from flambeau.core.views import grad_fn

from . import _printing
from ._sparse import sparse_text


def text(t: TensorBase, contents: Any = None) -> str:
    """repr(t), as PyTorch writes it."""
    cls = type(t)
    is_parameter = bool(getattr(t, "_is_param", False))
    header = bool(getattr(cls, "_is_param", False))     # Parameter itself, not a tensor class whose instance is one
    plain = cls is state.new or "_is_param" in vars(cls)
    name: Any = None
    try:
        node = grad_fn(t) if t._view is not None or t._node is not None else None
        if node is not None:
            name = node.op.node_name
            if name == "CppFunction":
                name = node.op.name
    except RuntimeError:
        name = "Invalid"     # a view whose history was spoilt: printing still works
    if t._array is None and type(t._lazy) is state.sparse:
        notes = [f"grad_fn=<{name}>"] if name is not None else ["requires_grad=True"] if requires(t) else []
        return ("Parameter containing:\n" if is_parameter else "") + sparse_text(t._lazy, notes)
    if t._array is None and hasattr(t._lazy, "describe"):
        return str(t._lazy.describe())
    device: Any = t.device
    a = t._array
    if a is None and device is not dtypes.META:
        a = array_of(t)
    if contents is not None:
        a = np.empty(0, np.float32)
    whole = _printing.tensor_text(
        a, dtype_name=t.dtype.name, default_dtype_name=dtypes.default[0].name, device=str(device),
        requires_grad=requires(t), grad_fn_name=name, is_parameter=is_parameter, parameter_header=header,
        class_name="tensor" if plain else cls.__name__, is_meta=device.type == "meta",
        shape=(0,) if contents is not None else tuple(shape_of(t)))
    return whole if contents is None else whole.replace("[]", contents, 1)
