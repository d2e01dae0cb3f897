"""The unpickler of weights_only=True: reads what a checkpoint of weights needs, and executes nothing.

A pickle is a program for a stack machine. Python's own unpickler lets it call anything importable, set attributes of
any object and ask for any amount of memory; this one knows only the opcodes below, makes plain values itself, and asks
`Allowed` for every name and every call.
"""

from __future__ import annotations

import struct
from collections import Counter, OrderedDict
from collections.abc import Callable
from typing import Any

import numpy as np

from flambeau.core.objects import TensorBase

from ._allowed import Allowed, Budget, hashable
from ._errors import CheckpointError, short
from ._rebuild import with_attributes

_U2, _I4, _U4, _U8, _F8 = (struct.Struct(f) for f in ("<H", "<i", "<I", "<Q", ">d"))
_LARGEST_INTEGER = 1024      # bytes: a number of more digits is no number of a checkpoint


class _Mark:
    """Where a sequence of values begins on the stack."""


_MARK = _Mark()


class Machine:
    """Reads pickles that follow each other in one buffer.

    Args:
        data: the bytes.
        persistent: makes a storage of what the pickle says of it.
        what: how messages call the pickle.
        encoding: how text written by Python 2 is read; "bytes" leaves it as bytes.
    """

    def __init__(self, data: bytes, persistent: Callable[[Any], Any], what: str, encoding: str = "utf-8") -> None:
        self.data = data
        self.position = 0
        self._persistent = persistent
        self._what = what
        self._encoding = encoding
        self._budget = Budget(4 * len(data) + 1000)
        self._allowed = Allowed(self._budget)

    # ------------------------------------------------------------------------------- reading

    def _take(self, n: int) -> bytes:
        start, end = self.position, self.position + n
        if end > len(self.data):
            raise CheckpointError(f"it is truncated at byte {len(self.data)}: {n} bytes were to follow byte "
                                  f"{start}. Ran out of input.")
        self.position = end
        return self.data[start:end]

    def _line(self) -> str:
        end = self.data.find(b"\n", self.position)
        if end < 0:
            raise CheckpointError(f"it is truncated at byte {len(self.data)}: a name that begins at byte "
                                  f"{self.position} does not end")
        line = self.data[self.position:end]
        self.position = end + 1
        return line.decode()

    def load(self) -> Any:
        """The value of the next pickle.

        Raises:
            UnsafeGlobalError: it names something that is not permitted.
            CheckpointError: it is damaged, or does what no checkpoint of weights does.
        """
        self._stack: list[Any] = []
        self._memo: dict[int, Any] = {}
        stack = self._stack
        at = self.position
        try:
            while True:
                at = self.position
                code = self._take(1)[0]
                if code == 0x2E:                        # STOP
                    return self._pop()
                step = _STEPS.get(code)
                if step is None:
                    raise CheckpointError(f"Unsupported operand {code}: no pickle of weights contains it")
                step(self, stack)
        except CheckpointError as error:
            raise type(error)(self._place(at, error)) from None
        except NotImplementedError as error:
            raise NotImplementedError(self._place(at, error)) from None
        except (ValueError, OverflowError) as error:
            raise CheckpointError(self._place(at, error)) from error

    def _place(self, at: int, error: Exception) -> str:
        return f"{self._what}, at byte {at}: {error}"

    def _pop(self) -> Any:
        if not self._stack or self._stack[-1] is _MARK:
            raise CheckpointError("it takes a value from where there is none")
        return self._stack.pop()

    def _pop_many(self) -> list[Any]:
        stack = self._stack
        i = len(stack) - 1
        while i >= 0 and stack[i] is not _MARK:
            i -= 1
        if i < 0:
            raise CheckpointError("it ends a sequence that did not begin")
        values = stack[i + 1:]
        del stack[i:]
        return values

    def _top(self) -> Any:
        if not self._stack or self._stack[-1] is _MARK:
            raise CheckpointError("it adds to a value that is not there")
        return self._stack[-1]

    # ------------------------------------------------------------------------------- steps

    def _text(self, n: int) -> None:
        self._stack.append(self._take(n).decode("utf-8", "surrogatepass"))

    def _old_text(self, n: int) -> None:
        raw = self._take(n)
        self._stack.append(raw if self._encoding == "bytes" else raw.decode(self._encoding))

    def _long(self, n: int) -> None:
        if not 0 <= n <= _LARGEST_INTEGER:
            raise CheckpointError(f"it has an integer of {n} bytes")
        self._stack.append(int.from_bytes(self._take(n), "little", signed=True))

    def _get(self, key: int) -> None:
        if key not in self._memo:
            raise CheckpointError(f"it refers to value number {key}, which it did not define")
        self._stack.append(self._memo[key])

    def _put(self, key: int) -> None:
        self._memo[key] = self._top()

    def _tuple(self, n: int) -> None:
        values = [self._pop() for _ in range(n)]
        self._stack.append(tuple(reversed(values)))

    def _extend(self, values: list[Any]) -> None:
        target = self._top()
        if type(target) is not list:
            raise CheckpointError(f"it appends to a {type(target).__name__}")
        target.extend(values)

    def _set_items(self, pairs: list[Any]) -> None:
        target = self._top()
        kind = type(target)
        if kind not in (dict, OrderedDict, Counter) and not (isinstance(target, dict) and self._allowed.permits(kind)):
            raise CheckpointError(f"it sets items of a {kind.__name__}")
        if len(pairs) % 2:
            raise CheckpointError("it sets a key without a value")
        for i in range(0, len(pairs), 2):
            target[hashable(pairs[i])] = pairs[i + 1]

    def _append(self) -> None:
        value = self._pop()
        self._extend([value])

    def _set_item(self) -> None:
        value, key = self._pop(), self._pop()
        self._set_items([key, value])

    def _add_items(self) -> None:
        values = self._pop_many()
        target = self._top()
        if type(target) is not set:
            raise CheckpointError(f"it adds elements to a {type(target).__name__}")
        for value in values:
            target.add(hashable(value))

    def _dict(self) -> None:
        pairs = self._pop_many()
        self._stack.append({})
        self._set_items(pairs)

    def _global(self) -> None:
        module, name = self._line(), self._line()
        self._stack.append(self._allowed.find(module, name))

    def _stack_global(self) -> None:
        name, module = self._pop(), self._pop()
        if type(name) is not str or type(module) is not str:
            raise CheckpointError("it names a function or class by something else than text")
        self._stack.append(self._allowed.find(module, name))

    def _reduce(self) -> None:
        args, function = self._pop(), self._pop()
        self._stack.append(self._allowed.call(function, args))

    def _new(self, keywords: Any) -> None:
        args, cls = self._pop(), self._pop()
        if cls is OrderedDict and not keywords:
            self._stack.append(self._allowed.call(cls, args))
            return
        if not (isinstance(cls, type) and self._allowed.permits(cls)):
            raise CheckpointError(f"it makes an object of {short(cls)}, which weights_only=True does not "
                                  "make. Nothing was executed.")
        if type(args) is not tuple or type(keywords) is not dict:
            raise CheckpointError(f"it makes an object of {short(cls)} with arguments that are not a tuple "
                                  "and a dict")
        self._stack.append(cls.__new__(cls, *args, **keywords))

    def _new_keywords(self) -> None:
        self._new(self._pop())

    def _build(self) -> None:
        """The state of an object: attributes, for what is known; what the class says, for what the user "
          "permitted."""
        state = self._pop()
        target = self._top()
        kind = type(target)
        if self._allowed.permits(kind):
            if isinstance(target, np.ndarray) and kind is np.ndarray and isinstance(state, tuple) and len(state) == 5:
                _check_array(state)
            setter = getattr(target, "__setstate__", None)
            if setter is not None:
                setter(state)
                return
            slots = None
            if type(state) is tuple and len(state) == 2:
                state, slots = state
            for part in (state, slots):
                if part and type(part) is not dict:
                    raise CheckpointError(f"it gives a {kind.__name__} a {type(part).__name__} as its state")
            if state:
                target.__dict__.update(state)
            for name, value in (slots or {}).items():
                setattr(target, name, value)
        elif kind is OrderedDict or kind is Counter:
            if type(state) not in (dict, OrderedDict):
                raise CheckpointError(f"it gives a {kind.__name__} a {type(state).__name__} as its state")
            self._budget.take(len(state))
            for name in state:
                if type(name) is not str or name.startswith("__") or hasattr(kind, name):
                    raise CheckpointError(f"it sets the attribute {short(name)} of a {kind.__name__}")
            target.__dict__.update(state)
        elif isinstance(target, TensorBase):
            with_attributes(target, state)
        else:
            raise CheckpointError(f"it sets the state of a {kind.__name__}, which weights_only=True does not "
                                  "do. Nothing was executed.")

    def _storage(self) -> None:
        self._stack.append(self._persistent(self._pop()))


def _check_array(state: tuple) -> None:
    """NumPy would allocate first and compare afterwards."""
    _, shape, dtype, _, data = state
    if not isinstance(dtype, np.dtype) or dtype.hasobject:
        raise CheckpointError("it has an array of Python objects, which weights_only=True does not read")
    n = dtype.itemsize
    for size in shape if isinstance(shape, tuple) else (None,):
        if type(size) is not int or size < 0:
            raise CheckpointError(f"it has an array of shape {short(shape)}")
        n *= size
    if not isinstance(data, bytes) or len(data) != n:
        raise CheckpointError(f"it has an array of shape {shape} that needs {n} bytes, with other data")


def _u2(m: Machine) -> int:
    return _U2.unpack(m._take(2))[0]


def _u4(m: Machine) -> int:
    return _U4.unpack(m._take(4))[0]


def _u8(m: Machine) -> int:
    return _U8.unpack(m._take(8))[0]


def _i4(m: Machine) -> int:
    return _I4.unpack(m._take(4))[0]


def _u1(m: Machine) -> int:
    return m._take(1)[0]


def _protocol(m: Machine, s: list[Any]) -> None:
    protocol = _u1(m)
    if not 2 <= protocol <= 5:
        raise CheckpointError(f"it says that it is of pickle protocol {protocol}; those from 2 to 5 are read")


_STEPS: dict[int, Callable[[Machine, list[Any]], Any]] = {
    0x80: _protocol,
    0x95: lambda m, s: m._take(8),                          # FRAME: how much to read ahead
    ord("("): lambda m, s: s.append(_MARK),
    ord("0"): lambda m, s: m._pop(),
    ord("1"): lambda m, s: m._pop_many(),
    ord("N"): lambda m, s: s.append(None),
    0x88: lambda m, s: s.append(True),
    0x89: lambda m, s: s.append(False),
    ord("K"): lambda m, s: s.append(_u1(m)),
    ord("M"): lambda m, s: s.append(_u2(m)),
    ord("J"): lambda m, s: s.append(_i4(m)),
    0x8A: lambda m, s: m._long(_u1(m)),
    0x8B: lambda m, s: m._long(_i4(m)),
    ord("G"): lambda m, s: s.append(_F8.unpack(m._take(8))[0]),
    0x8C: lambda m, s: m._text(_u1(m)),
    ord("X"): lambda m, s: m._text(_u4(m)),
    0x8D: lambda m, s: m._text(_u8(m)),
    ord("U"): lambda m, s: m._old_text(_u1(m)),
    ord("T"): lambda m, s: m._old_text(_u4(m)),
    ord("C"): lambda m, s: s.append(m._take(_u1(m))),
    ord("B"): lambda m, s: s.append(m._take(_u4(m))),
    0x8E: lambda m, s: s.append(m._take(_u8(m))),
    0x96: lambda m, s: s.append(bytearray(m._take(_u8(m)))),
    ord("}"): lambda m, s: s.append({}),
    ord("]"): lambda m, s: s.append([]),
    ord(")"): lambda m, s: s.append(()),
    0x8F: lambda m, s: s.append(set()),
    ord("d"): lambda m, s: m._dict(),
    ord("l"): lambda m, s: s.append(m._pop_many()),
    ord("t"): lambda m, s: s.append(tuple(m._pop_many())),
    0x85: lambda m, s: m._tuple(1),
    0x86: lambda m, s: m._tuple(2),
    0x87: lambda m, s: m._tuple(3),
    ord("a"): lambda m, s: m._append(),
    ord("e"): lambda m, s: m._extend(m._pop_many()),
    ord("s"): lambda m, s: m._set_item(),
    ord("u"): lambda m, s: m._set_items(m._pop_many()),
    0x90: lambda m, s: m._add_items(),
    ord("q"): lambda m, s: m._put(_u1(m)),
    ord("r"): lambda m, s: m._put(_u4(m)),
    0x94: lambda m, s: m._put(len(m._memo)),
    ord("h"): lambda m, s: m._get(_u1(m)),
    ord("j"): lambda m, s: m._get(_u4(m)),
    ord("c"): lambda m, s: m._global(),
    0x93: lambda m, s: m._stack_global(),
    ord("R"): lambda m, s: m._reduce(),
    0x81: lambda m, s: m._new({}),
    0x92: lambda m, s: m._new_keywords(),
    ord("b"): lambda m, s: m._build(),
    ord("Q"): lambda m, s: m._storage(),
}
