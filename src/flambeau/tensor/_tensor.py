"""The public Tensor: interpreted, so that attributes, weak references and users' subclasses work."""

from __future__ import annotations

from typing import Any

import numpy as np

from flambeau.core.objects import TensorBase, array_of
from flambeau.core.state import state
from flambeau.ops import _assemble

from ._methods import Methods


class Tensor(Methods):
    """A multi-dimensional array of one dtype that can be differentiated."""

    def __init__(self, *args: Any) -> None:
        pass

    def item(self) -> Any:
        return array_of(self).item()

    def numpy(self) -> np.ndarray:
        return array_of(self)

    def tolist(self) -> Any:
        return array_of(self).tolist()


for _name, _method in _assemble.methods().items():
    if _name not in Methods.__dict__ and _name not in Tensor.__dict__:
        setattr(Tensor, _name, _method)

state.new = Tensor
state.alloc = Methods.__new__
_ = TensorBase
