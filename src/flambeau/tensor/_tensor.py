"""The public Tensor: interpreted, so that attributes, weak references and users' subclasses work."""

from __future__ import annotations

from types import FunctionType
from typing import Any

from flambeau.core import dtype as dtypes
from flambeau.core.state import state
from flambeau.ops import _assemble, _no_array, views
from flambeau.ops.indexing_basic import setitem
from flambeau.ops.matmul import OPERATORS

from . import _legacy, _torch_function
from ._autograd import Autograd
from ._convert import Conversions
from ._dlpack import DLPack
from ._facts import Facts
from ._methods import Methods
from ._python import Python, of_class
from ._repr import text
from ._sparse import SparseMethods
from ._storage import Storage
from ._unsupported import METHODS, Unsupported


class Tensor(Methods, Autograd, Conversions, Storage, Facts, SparseMethods, Unsupported, Python, DLPack):
    """A multi-dimensional array of one dtype that can be differentiated.

    `torch.Tensor(2, 3)` makes uninitialised memory of that shape, `torch.Tensor([1, 2])` a tensor of the data in the
    default dtype; prefer torch.empty and torch.tensor, which say so.
    """

    __module__ = "flambeau"

    def __new__(cls, *args: Any, device: Any = None) -> Any:
        t = _legacy.new_tensor(args, dtypes.default[0].array_type, device)
        return t if cls is Tensor else of_class(t, cls)

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        pass

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        if cls.__torch_function__ is not _torch_function._disabled_torch_function_impl:
            _torch_function.install()

    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: tuple = (), kwargs: dict | None = None) -> Any:
        """What a subclass does with functions called on it: run them, and give their results the subclass."""
        return _torch_function.default(cls, func, types, args, kwargs)

    def __repr__(self, *, tensor_contents: Any = None) -> str:
        return text(self, tensor_contents)

    def __str__(self) -> str:
        return repr(self)

    def __setitem__(self, key: Any, value: Any) -> None:
        setitem(self, key, value)

    def __delattr__(self, name: str) -> None:
        if name == "grad":
            self.grad = None
        else:
            super().__delattr__(name)

    __hash__ = Methods.__hash__
    new = _legacy.new


for _name, _method in {**METHODS, **_assemble.methods(), **views.PROPERTIES, **OPERATORS}.items():
    if not any(_name in c.__dict__ for c in Tensor.__mro__[:-1]):
        setattr(Tensor, _name, _method)

for _base in Tensor.__mro__[:-1]:       # Python's own errors of arguments name the method as it was called
    for _method in vars(_base).values():
        if isinstance(_method, FunctionType):
            _assemble.place(_method, Tensor.__module__, f"Tensor.{_method.__name__}")

_assemble.on_refusal[0] = _torch_function.fallback
state.lazy, state.detach = _no_array.lazy, _no_array.detach
state.new = Tensor
state.alloc = Methods.__new__
