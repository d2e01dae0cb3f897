"""The public Tensor: interpreted, so that attributes, weak references and users' subclasses work."""

from __future__ import annotations

from typing import Any

from flambeau.core.objects import shape_of
from flambeau.core.state import state
from flambeau.ops import _assemble
from flambeau.ops.indexing_basic import setitem
from flambeau.ops.views import PROPERTIES

from ._autograd import Autograd
from ._convert import Conversions
from ._methods import Methods
from ._repr import text


class Tensor(Methods, Autograd, Conversions):
    """A multi-dimensional array of one dtype that can be differentiated."""

    def __init__(self, *args: Any) -> None:
        pass

    def __repr__(self, *, tensor_contents: Any = None) -> str:
        return text(self, tensor_contents)

    def __setitem__(self, key: Any, value: Any) -> None:
        setitem(self, key, value)

    def __len__(self) -> int:
        shape = shape_of(self)
        if not shape:
            raise TypeError("len() of a 0-d tensor: it has no first dimension")
        return shape[0]


for _name, _method in _assemble.methods().items():
    if not any(_name in c.__dict__ for c in Tensor.__mro__[:-1]):
        setattr(Tensor, _name, _method)
for _name, _property in PROPERTIES.items():
    setattr(Tensor, _name, _property)

state.new = Tensor
state.alloc = Methods.__new__
