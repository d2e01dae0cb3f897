"""From a code object and an instruction to the user's line: done only when somebody asks."""
from __future__ import annotations

import linecache
import sys
import warnings
from typing import Any

from .state import state


def position(code: Any, lasti: Any) -> Any:
    """(file name, line) of an instruction; (None, 0) when unknown."""
    if code is None:
        return (None, 0)
    wanted: int = lasti // 2
    i: int = 0
    for pos in code.co_positions():
        if i == wanted:
            line = pos[0]
            return (code.co_filename, code.co_firstlineno if line is None else line)
        i += 1
    return (code.co_filename, code.co_firstlineno)


def columns(code: Any, lasti: Any) -> Any:
    """(first column, end column) of the expression on its line, or None."""
    wanted: int = lasti // 2
    i: int = 0
    for pos in code.co_positions():
        if i == wanted:
            if pos[0] == pos[1] and pos[2] is not None:
                return (pos[2], pos[3])
            return None
        i += 1
    return None


def where(code: Any, lasti: Any) -> str:
    """`file.py:12` of an instruction."""
    if code is None:
        return "an unknown line"
    p = position(code, lasti)
    return str(p[0]) + ":" + str(p[1])


def source_line(code: Any, lasti: Any) -> str:
    """The text of the user's line, stripped; empty when the source is not at hand."""
    if code is None:
        return ""
    p = position(code, lasti)
    return str(linecache.getline(p[0], p[1])).strip()


def quoted(code: Any, lasti: Any) -> str:
    """`file.py:12 (in f): y = x * 2`, as far as it is known."""
    if code is None:
        return "an unknown line"
    text = where(code, lasti)
    name = str(code.co_name)
    if name != "<module>":
        text += " (in " + name + ")"
    line = source_line(code, lasti)
    if line:
        text += ": " + line
    return text


def scope_path(scope: Any) -> str:
    """`encoder.layers.0.linear1 (Linear)` of a scope; empty outside modules."""
    if scope is None:
        return ""
    names = []
    s: Any | None = scope
    while s is not None:
        if s[0]:
            names.append(str(s[0]))
        s = s[2]
    names.reverse()
    path = ".".join(names)
    cls = str(scope[1])
    return path + " (" + cls + ")" if path else cls


def warn_user(text: str, category: Any = UserWarning) -> None:
    """Warn at the user's line: the innermost frame outside the files of this package, however deep we are."""
    f = sys._getframe(0)
    while f.f_code.co_filename in state.internal:
        b: Any = f.f_back
        if b is None:
            break
        f = b
    g: Any = f.f_globals
    warnings.warn_explicit(text, category, f.f_code.co_filename, f.f_lineno, g.get("__name__", "<unknown>"),
                           g.setdefault("__warningregistry__", {}))
