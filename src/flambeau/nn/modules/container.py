"""Modules that hold modules, and lists and dictionaries of parameters."""

from __future__ import annotations

import itertools
import operator
from collections import OrderedDict
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from flambeau.nn.parameter import Parameter, is_parameter
from flambeau.tensor import Tensor

from .module import Module


def _position(index: Any, length: int) -> int:
    """A place counted from the front; IndexError when there is none."""
    i = operator.index(index)
    if not -length <= i < length:
        raise IndexError(f"index {i} is out of range: there are {length} entries")
    return i % length if length else i


class _Numbered(Module):
    """Children under the names "0", "1", ...: what Sequential and ModuleList share."""

    def __len__(self) -> int:
        return len(self._modules)

    def __iter__(self) -> Iterator[Any]:
        return iter(self._modules.values())

    def _key(self, index: Any) -> str:
        return next(itertools.islice(self._modules, _position(index, len(self)), None))

    def __setitem__(self, index: int, module: Any) -> None:
        setattr(self, self._key(index), module)

    def _renumber(self, children: Iterable[Any]) -> None:
        children = list(children)
        self._modules.clear()
        for i, child in enumerate(children):
            self.add_module(str(i), child)

    def __delitem__(self, index: Any) -> None:
        if isinstance(index, slice):
            for key in list(self._modules)[index]:
                delattr(self, key)
        else:
            delattr(self, self._key(index))
        self._renumber(self._modules.values())

    def __dir__(self) -> list[str]:
        return [name for name in super().__dir__() if not name.isdigit()]

    def insert(self, index: int, module: Any) -> Any:
        """Put a module before the place index."""
        children = list(self._modules.values())
        children.insert(index, module)
        self._renumber(children)
        return None


class Sequential(_Numbered):
    """Calls its modules one after the other, each on the result of the one before.

    Args:
        *args: modules, or one OrderedDict of names and modules.

    >>> net = flambeau.nn.Sequential(flambeau.nn.Linear(2, 3), flambeau.nn.ReLU())
    >>> net(flambeau.zeros(1, 2)).shape
    torch.Size([1, 3])
    """

    def __init__(self, *args: Any) -> None:
        super().__init__()
        named = args[0].items() if len(args) == 1 and isinstance(args[0], OrderedDict) else (
            (str(i), m) for i, m in enumerate(args))
        for name, module in named:
            self.add_module(name, module)

    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, slice):
            return type(self)(OrderedDict(list(self._modules.items())[index]))
        return self._modules[self._key(index)]

    def forward(self, input: Any) -> Any:
        for module in self._modules.values():
            input = module(input)  # type: ignore[misc]
        return input

    def append(self, module: Any) -> Sequential:
        """Add a module at the end."""
        self.add_module(str(len(self)), module)
        return self

    def insert(self, index: int, module: Any) -> Sequential:
        """Put a module before the place index."""
        if not isinstance(module, Module):
            raise AssertionError(f"module should be of type: {Module}, not {type(module).__name__}")
        n = len(self)
        if not -n <= index <= n:
            raise IndexError(f"Index out of range: {index}, there are {n} modules")
        super().insert(index, module)
        return self

    def extend(self, sequential: Iterable[Any]) -> Sequential:
        """Add modules at the end."""
        for module in list(sequential):
            self.append(module)
        return self

    def pop(self, key: Any) -> Any:
        """Take out and return a module."""
        module = self[key]
        del self[key]
        return module

    def __add__(self, other: Any) -> Sequential:
        if not isinstance(other, Sequential):
            raise ValueError(f"+ joins two Sequential modules, but the other is {type(other)} is "
                             "given.")
        return Sequential(*self, *other)

    def __iadd__(self, other: Any) -> Sequential:
        if not isinstance(other, Sequential):
            raise ValueError(f"+ joins two Sequential modules, but the other is {type(other)} is "
                             "given.")
        return self.extend(other)

    def __mul__(self, times: int) -> Sequential:
        self._check_times(times)
        return Sequential(*[m for _ in range(times) for m in self])

    __rmul__ = __mul__

    def __imul__(self, times: int) -> Sequential:
        self._check_times(times)
        return self.extend([m for _ in range(times - 1) for m in self])

    @staticmethod
    def _check_times(times: Any) -> None:
        if not isinstance(times, int):
            raise TypeError(f"unsupported operand type(s) for *: {Sequential} and {type(times)}")
        if times <= 0:
            raise ValueError(f"Non-positive multiplication factor {times} for {Sequential}")


class ModuleList(_Numbered):
    """A list of modules that are registered; it computes nothing itself.

    Args:
        modules: the modules, or None.
    """

    _only_groups = True

    def __init__(self, modules: Iterable[Any] | None = None) -> None:
        super().__init__()
        if modules is not None:
            self.extend(modules)

    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, slice):
            return type(self)(list(self._modules.values())[index])
        return self._modules[self._key(index)]

    def append(self, module: Any) -> ModuleList:
        """Add a module at the end."""
        self.add_module(str(len(self)), module)
        return self

    def extend(self, modules: Iterable[Any]) -> ModuleList:
        """Add modules at the end."""
        if not isinstance(modules, Iterable):
            raise TypeError("ModuleList.extend takes an iterable of modules, not "
                            f"{type(modules).__name__}")
        for module in list(modules):
            self.append(module)
        return self

    def pop(self, key: Any) -> Any:
        """Take out and return a module."""
        module = self[key]
        del self[key]
        return module

    def __add__(self, other: Iterable[Any]) -> ModuleList:
        return ModuleList([*self, *other])

    def __iadd__(self, other: Iterable[Any]) -> ModuleList:
        return self.extend(other)

    def __repr__(self) -> str:
        """Equal neighbours are shown once, with their range."""
        runs: list[list] = []
        for i, text in enumerate(repr(module) for module in self):
            if runs and runs[-1][2] == text:
                runs[-1][1] = i
            else:
                runs.append([i, i, text])
        if not runs:
            return self._get_name() + "()"
        lines = []
        for first, last, text in runs:
            head = f"({first})" if first == last else f"({first}-{last})"
            times = "" if first == last else f"{last - first + 1} x "
            lines.append(f"{head}: {times}{text}".replace("\n", "\n  "))
        return self._get_name() + "(\n  " + "\n  ".join(lines) + "\n)"


class ModuleDict(Module):
    """A dictionary of modules that are registered, in order of insertion.

    Args:
        modules: a mapping, pairs of names and modules, or None.
    """

    _only_groups = True

    def __init__(self, modules: Any = None) -> None:
        super().__init__()
        if modules is not None:
            self.update(modules)

    def __getitem__(self, key: str) -> Any:
        return self._modules[key]

    def __setitem__(self, key: str, module: Any) -> None:
        self.add_module(key, module)

    def __delitem__(self, key: str) -> None:
        del self._modules[key]

    def __len__(self) -> int:
        return len(self._modules)

    def __iter__(self) -> Iterator[str]:
        return iter(self._modules)

    def __contains__(self, key: str) -> bool:
        return key in self._modules

    def clear(self) -> None:
        """Take out all modules."""
        self._modules.clear()

    def pop(self, key: str) -> Any:
        """Take out and return a module."""
        return self._modules.pop(key)

    def keys(self) -> Any:
        """The names."""
        return self._modules.keys()

    def items(self) -> Any:
        """Pairs of names and modules."""
        return self._modules.items()

    def values(self) -> Any:
        """The modules."""
        return self._modules.values()

    def update(self, modules: Any) -> None:
        """Add or replace modules from a mapping or from pairs."""
        for key, module in _pairs(modules, "ModuleDict"):
            self[key] = module


def _pairs(source: Any, what: str) -> list[tuple[str, Any]]:
    """(key, value) of a mapping in its own order, of a Module(Parameter)Dict, or of an iterable of pairs."""
    if not isinstance(source, Iterable):
        raise TypeError(f"{what}.update takes a mapping or an iterable of key/value pairs, not "
                        f"{type(source).__name__}")
    if isinstance(source, (Mapping, ModuleDict, ParameterDict)):
        return list(source.items())
    pairs = []
    for i, pair in enumerate(source):
        if not isinstance(pair, Iterable):
            raise TypeError(f"{what} update sequence element #{i} should be Iterable; is "
                            f"{type(pair).__name__}")
        pair = list(pair)
        if len(pair) != 2:
            raise ValueError(f"{what} update sequence element #{i} has length {len(pair)}; 2 is required")
        pairs.append((pair[0], pair[1]))
    return pairs


def _described(value: Any, number: bool) -> str:
    """A tensor or another value in the text of a parameter container."""
    if isinstance(value, Tensor):
        kind_of_element = value.dtype if number else value.type()
        size = "x".join(str(s) for s in value.shape)
        kind = "Parameter" if is_parameter(value) else "Tensor"
        device = "" if value.device.type == "cpu" else f" ({value.device})"
        return f"{kind} containing: [{kind_of_element} of size {size}{device}]"
    return f"Object of type: {type(value).__name__}"


class ParameterList(Module):
    """A list of parameters that are registered; tensors put into it become parameters.

    Args:
        values: the parameters (or other values), or None.
    """

    def __init__(self, values: Iterable[Any] | None = None) -> None:
        super().__init__()
        self._size = 0
        if values is not None:
            self.extend(values)

    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, slice):
            chosen = type(self)()
            for i in range(*index.indices(len(self))):
                chosen.append(self[i])
            return chosen
        return getattr(self, str(_position(index, len(self))))

    def __setitem__(self, index: Any, value: Any) -> None:
        i = _position(index, len(self))
        setattr(self, str(i), _as_parameter(value))

    def __len__(self) -> int:
        return self._size

    def __iter__(self) -> Iterator[Any]:
        return iter(self[i] for i in range(len(self)))

    def __dir__(self) -> list[str]:
        return [name for name in super().__dir__() if not name.isdigit()]

    def append(self, value: Any) -> ParameterList:
        """Add a value at the end."""
        self._size += 1
        self[self._size - 1] = value
        return self

    def extend(self, values: Iterable[Any]) -> ParameterList:
        """Add values at the end."""
        if not isinstance(values, Iterable) or isinstance(values, Tensor):
            raise TypeError("ParameterList.extend takes an iterable of parameters, not "
                            f"{type(values).__name__}")
        for value in list(values):
            self.append(value)
        return self

    def __iadd__(self, values: Iterable[Any]) -> ParameterList:
        return self.extend(values)

    def extra_repr(self) -> str:
        return "\n".join(f"  ({i}): " + _described(p, True) for i, p in enumerate(self))

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        raise RuntimeError("ParameterList should not be called.")


def _as_parameter(value: Any) -> Any:
    return Parameter(value) if isinstance(value, Tensor) and not is_parameter(value) else value


class ParameterDict(Module):
    """A dictionary of parameters that are registered; tensors put into it become parameters.

    Args:
        parameters: a mapping, pairs of names and parameters, or None.
    """

    def __init__(self, parameters: Any = None) -> None:
        super().__init__()
        self._keys: dict[str, None] = {}
        if parameters is not None:
            self.update(parameters)

    @staticmethod
    def _attribute(key: Any) -> str:
        if not isinstance(key, str):
            raise TypeError("A key of ParameterDict must be a string, as it becomes an attribute name; this one is "
                            f"of type '{type(key).__name__}'.")
        return key

    def __getitem__(self, key: str) -> Any:
        return getattr(self, self._attribute(key))

    def __setitem__(self, key: str, value: Any) -> None:
        name = self._attribute(key)
        self._keys[name] = None
        setattr(self, name, _as_parameter(value))

    def __delitem__(self, key: str) -> None:
        name = self._attribute(key)
        del self._keys[name]
        delattr(self, name)

    def __len__(self) -> int:
        return len(self._keys)

    def __iter__(self) -> Iterator[str]:
        return iter(self._keys)

    def __reversed__(self) -> Iterator[str]:
        return reversed(list(self._keys))

    def __contains__(self, key: str) -> bool:
        return key in self._keys

    def copy(self) -> ParameterDict:
        """A dictionary of the same parameters."""
        return ParameterDict([(k, self[k]) for k in self._keys])

    def setdefault(self, key: str, default: Any = None) -> Any:
        """The value of key, after default has been put there if it is missing."""
        if key not in self:
            self[key] = default
        return self[key]

    def clear(self) -> None:
        """Take out everything."""
        for key in list(self._keys):
            del self[key]

    def pop(self, key: str) -> Any:
        """Take out and return a value."""
        value = self[key]
        del self[key]
        return value

    def popitem(self) -> tuple[str, Any]:
        """Take out and return the last (key, value)."""
        key, _ = self._keys.popitem()
        value = getattr(self, key)
        delattr(self, key)
        return key, value

    def get(self, key: str, default: Any = None) -> Any:
        """The value of key, or default."""
        return self[key] if key in self else default

    @classmethod
    def fromkeys(cls, keys: Iterable[str], default: Any = None) -> ParameterDict:
        """A dictionary with one value under all keys."""
        return cls((k, default) for k in keys)

    def keys(self) -> Any:
        """The keys."""
        return self._keys.keys()

    def items(self) -> Iterable[tuple[str, Any]]:
        """Pairs of keys and values."""
        return ((k, self[k]) for k in self._keys)

    def values(self) -> Iterable[Any]:
        """The values."""
        return (self[k] for k in self._keys)

    def update(self, parameters: Any) -> None:
        """Add or replace values from a mapping or from pairs."""
        pairs = _pairs(parameters, "ParametersDict")
        if isinstance(parameters, Mapping) and not isinstance(parameters, OrderedDict):
            # as PyTorch: only ordered mappings keep their order
            pairs.sort(key=operator.itemgetter(0))
        for key, value in pairs:
            self[key] = value

    def extra_repr(self) -> str:
        return "\n".join(f"  ({k}): " + _described(p, False) for k, p in self.items())

    def __call__(self, input: Any) -> Any:
        raise RuntimeError("ParameterDict should not be called.")

    def __or__(self, other: Any) -> ParameterDict:
        copied = self.copy()
        copied.update(other)
        return copied

    def __ror__(self, other: Any) -> ParameterDict:
        copied = other.copy()
        copied.update(self)
        return copied

    def __ior__(self, other: Any) -> ParameterDict:
        self.update(other)
        return self
