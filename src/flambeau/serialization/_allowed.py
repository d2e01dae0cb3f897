"""What weights_only=True permits a file to name, and to call.

A file of weights needs tensors, numbers, strings and plain containers. `Allowed.find` turns a name into the object here,
or raises before anything is called. What the list permits to be called is called through functions of ours that bound
what an argument can make them do (`bytearray(10 ** 12)` is one call, and a terabyte).
"""

from __future__ import annotations

import codecs
from collections import Counter, OrderedDict
from collections.abc import Callable, Iterable
from typing import Any

from flambeau.core.dtype import Device
from flambeau.core.size import Size

from . import _names, _rebuild
from ._errors import CheckpointError, refused, short

# ----------------------------------------------------------------------------------- what users permit

_user: dict[int, Any] = {}      # in the order of addition; keyed by identity, since entries may be unhashable


def add_safe_globals(safe_globals: Iterable[Any]) -> None:
    """Permit more functions and classes in files that are read with weights_only=True.

    Whatever is permitted here a file can call with arguments of its choice: permit only what is harmless with any.

    Args:
        safe_globals: functions and classes, or pairs (object, "module.name") where the file's name is another one.

    >>> flambeau.serialization.add_safe_globals([range])
    >>> flambeau.serialization.get_safe_globals()
    [<class 'range'>]
    >>> flambeau.serialization.clear_safe_globals()
    """
    for entry in safe_globals:
        _entry_name(entry)
        _user[id(entry[0]) if isinstance(entry, tuple) else id(entry)] = entry


def clear_safe_globals() -> None:
    """Forget all that `add_safe_globals` permitted."""
    _user.clear()


def get_safe_globals() -> list[Any]:
    """What `add_safe_globals` permitted."""
    return list(_user.values())


class safe_globals:
    """Permit functions and classes while a block runs; see `add_safe_globals`.

    >>> with flambeau.serialization.safe_globals([range]):
    ...     len(flambeau.serialization.get_safe_globals())
    1
    >>> flambeau.serialization.get_safe_globals()
    []
    """

    def __init__(self, safe_globals: Iterable[Any]) -> None:
        self._new = list(safe_globals)

    def __enter__(self) -> None:
        self._old = dict(_user)
        add_safe_globals(self._new)

    def __exit__(self, *error: Any) -> None:
        _user.clear()
        _user.update(self._old)


def _entry_name(entry: Any) -> str:
    if isinstance(entry, tuple):
        if len(entry) != 2 or not isinstance(entry[1], str):
            raise ValueError(f"add_safe_globals() takes objects, or pairs (object, name), not {entry!r}")
        return entry[1]
    name = _names.global_name(entry)
    if name is None:
        raise TypeError(f"add_safe_globals() takes functions and classes, not {entry!r}: it has no module "
                        "and name")
    return name


# ----------------------------------------------------------------------------------- calls that are always permitted


class Budget:
    """How many elements a file may have copied: a file names each at least once, so its length is ample."""

    def __init__(self, n: int) -> None:
        self.left = n

    def take(self, n: int) -> None:
        self.left -= n
        if self.left < 0:
            raise CheckpointError("the file copies the same containers again and again: it would fill the "
                                  "memory")


def _only(args: tuple, kinds: tuple[type, ...], what: str, budget: Budget) -> Any:
    if not args:
        return ()
    if len(args) != 1 or type(args[0]) not in kinds:
        raise CheckpointError(f"the file calls {what} with {', '.join(type(a).__name__ for a in args)}")
    budget.take(len(args[0]))
    return args[0]


def _ordered_dict(args: tuple, budget: Budget) -> Any:
    given = _only(args, (list, tuple, dict, OrderedDict), "OrderedDict", budget)
    pairs = given.items() if isinstance(given, dict) else given
    result: OrderedDict = OrderedDict()
    for pair in pairs:
        if not isinstance(pair, (list, tuple)) or len(pair) != 2:
            raise CheckpointError("the file calls OrderedDict with something else than pairs")
        result[hashable(pair[0])] = pair[1]
    return result


def _counter(args: tuple, budget: Budget) -> Any:
    given = _only(args, (dict,), "Counter", budget)
    counter: Counter = Counter()
    counter.update(given or {})
    return counter


def _set(args: tuple, budget: Budget) -> Any:
    return {hashable(x) for x in _only(args, (list, tuple), "set", budget)}


def _bytearray(args: tuple, budget: Budget) -> Any:
    if len(args) == 2 and type(args[0]) is str:
        return bytearray(_encode(args, budget))
    return bytearray(_only(args, (bytes,), "bytearray", budget) or b"")


def _encode(args: tuple, budget: Budget) -> Any:
    if len(args) != 2 or type(args[0]) is not str or args[1] not in ("latin1", "latin-1"):
        raise CheckpointError("the file encodes a text in another way than bytes are written (latin1)")
    budget.take(len(args[0]))
    try:
        return args[0].encode("latin1")
    except UnicodeEncodeError:
        raise CheckpointError("the file has bytes with values over 255") from None


def _complex(args: tuple, budget: Budget) -> Any:
    if len(args) != 2 or not all(type(x) in (int, float) for x in args):
        raise CheckpointError("the file makes a complex number of something else than two numbers")
    return complex(*args)


def _size(args: tuple, budget: Budget) -> Any:
    sizes = _only(args, (tuple, list), "torch.Size", budget)
    if not all(type(n) is int for n in sizes):
        raise CheckpointError("the file makes a torch.Size of something else than integers")
    return Size(sizes)


def _device(args: tuple, budget: Budget) -> Any:
    if not 1 <= len(args) <= 2 or type(args[0]) is not str or not all(type(n) is int for n in args[1:]):
        raise CheckpointError("the file makes a torch.device of something else than a text and a number")
    try:
        return Device(*args)
    except (RuntimeError, ValueError) as error:
        raise CheckpointError(f"the file names the device {short(args)}: {error}") from None


def hashable(key: Any) -> Any:
    """A key of a dictionary or set. Tuples are hashed by recursion, in time that a file could make "
      "endless."""
    kind = type(key)
    if kind is tuple or kind is Size:
        n, level = 0, [key]
        for _ in range(32):
            n += len(level)
            level = [x for part in level if isinstance(part, tuple) for x in part]
            if not level or n > 10_000:
                break
        if level:
            raise CheckpointError("the file has a dictionary whose key is a tuple of enormous depth or size")
    try:
        hash(key)
    except TypeError:
        raise CheckpointError(f"the file has a {kind.__name__} as a key of a dictionary or set, where none "
                              "can be") from None
    return key


Call = Callable[[tuple, Budget], Any]
_CALLS: dict[Any, Call] = {
    OrderedDict: _ordered_dict, Counter: _counter, set: _set, bytearray: _bytearray, codecs.encode: _encode,
    complex: _complex, Size: _size, Device: _device,
}
_PLAIN = {"collections.OrderedDict": OrderedDict, "collections.Counter": Counter, "builtins.set": set,
          "builtins.bytearray": bytearray, "builtins.complex": complex, "_codecs.encode": codecs.encode}
_NOT_WEIGHTS = frozenset((("torch", "dtype"), *(key for key in _names.KNOWN if key[0] == "torch._C")))


class Allowed:
    """The list as it is when a file is read.

    Attributes:
        classes: the classes that users permitted: a file may make and fill objects of them.
    """

    def __init__(self, budget: Budget) -> None:
        self._budget = budget
        self._by_name = {}
        self.classes: dict[int, type] = {}
        for entry in _user.values():
            obj = entry[0] if isinstance(entry, tuple) else entry
            self._by_name[_entry_name(entry)] = obj
            own = ".".join((getattr(obj, "__module__", "") or "", getattr(obj, "__qualname__", "")))
            self._by_name.setdefault(own, obj)
            if isinstance(obj, type):
                self.classes[id(obj)] = obj
        self._callable: dict[int, tuple[Any, Call]] = {}

    def find(self, module: str, name: str) -> Any:
        """The object of a name.

        Raises:
            UnsafeGlobalError: it is not on the list.
            NotImplementedError: it is harmless, but flambeau has no such thing.
        """
        module, name = _names.modern(module, name)
        full = f"{module}.{name}"
        found = self._by_name.get(full)
        if found is not None:
            if callable(found):
                self._callable[id(found)] = (found, lambda args, budget: _rebuild.called(found, args))
            return found
        found = _PLAIN.get(full)
        if found is None and (module, name) not in _NOT_WEIGHTS:
            found = _names.KNOWN.get((module, name))
        if found is None:
            what = _names.lacking(module, name)
            if what is not None:
                raise NotImplementedError(f"the file holds {what}, which flambeau does not have")
            raise refused(full)
        call = _CALLS.get(found) if isinstance(found, type) or found is codecs.encode else None
        if any(found is function for function in _rebuild.FUNCTIONS):
            def call(args: tuple, budget: Budget) -> Any:
                return _rebuild.called(found, args)
        if call is not None:
            self._callable[id(found)] = (found, call)
        return found

    def call(self, function: Any, args: Any) -> Any:
        """function(*args), for a function that `find` gave.

        Raises:
            CheckpointError: any other function, or arguments that it does not take.
        """
        if type(args) is not tuple:
            raise CheckpointError(f"the file calls {short(function)} with a {type(args).__name__} instead of "
                                  "a tuple")
        known = self._callable.get(id(function))
        if known is None:
            raise CheckpointError(f"the file calls {short(function)}, which weights_only=True does not call. "
                                  "Nothing was executed.")
        return known[1](args, self._budget)

    def permits(self, cls: Any) -> bool:
        """Whether a user permitted this class."""
        return id(cls) in self.classes
