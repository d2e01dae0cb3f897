"""Tracebacks that show the user's frames and the error, without the frames of the framework in between."""

from __future__ import annotations

import sys
import sysconfig
import threading
from collections.abc import Iterator
from types import CodeType, FrameType, TracebackType

_PACKAGE = __name__.partition(".")[0]
_LIBRARIES = tuple({sysconfig.get_path(name) for name in ("stdlib", "platstdlib", "purelib", "platlib")})


def install(runner: CodeType | None = None) -> None:
    """Shorten the tracebacks of uncaught exceptions, in all threads; a hook that the user sets replaces this.

    Args:
        runner: code of the function that runs the user's script; its frame and those outside it are left out.
    """

    def excepthook(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
        n_hidden = shorten(error, runner)
        sys.__excepthook__(kind, error, error.__traceback__)
        if n_hidden:
            print(_hint(n_hidden), file=sys.stderr)

    def thread_hook(args: threading.ExceptHookArgs) -> None:
        if args.exc_value is None:
            threading.__excepthook__(args)
            return
        n_hidden = shorten(args.exc_value, runner)
        error = args.exc_value
        threading.__excepthook__(
            threading.ExceptHookArgs((args.exc_type, error, error.__traceback__, args.thread))
        )
        if n_hidden and args.exc_type is not SystemExit:
            print(_hint(n_hidden), file=sys.stderr)

    sys.excepthook = excepthook
    threading.excepthook = thread_hook


def shorten(error: BaseException, runner: CodeType | None = None) -> int:
    """Remove the framework's frames from the traceback of an exception, and of those it came from.

    Args:
        error: the exception; its `__traceback__` is replaced.
        runner: see `install`.

    Returns:
        How many frames of flambeau, or of libraries called by it, were removed.
    """
    n_hidden = 0
    for one in _related(error):
        shown, hidden = _sort(one.__traceback__, runner)
        if not shown and hidden and not isinstance(one, SyntaxError):
            continue  # nothing of the user's is in it: then the framework's frames are all there is to show
        trace: TracebackType | None = None
        for entry in reversed(shown):
            trace = TracebackType(trace, entry.tb_frame, entry.tb_lasti, entry.tb_lineno)
        one.__traceback__ = trace
        n_hidden += hidden
    return n_hidden


def _hint(n_hidden: int) -> str:
    frames = "1 frame" if n_hidden == 1 else f"{n_hidden} frames"
    return f"({frames} inside flambeau not shown; flambeau run --full-traceback shows them)"


def _related(error: BaseException) -> Iterator[BaseException]:
    """An exception, its causes and contexts, and the members of groups, each once."""
    waiting, seen = [error], set()
    while waiting:
        one = waiting.pop()
        if id(one) in seen:
            continue
        seen.add(id(one))
        yield one
        members = one.exceptions if isinstance(one, BaseExceptionGroup) else ()
        waiting += [other for other in (one.__cause__, one.__context__, *members) if other is not None]


def _sort(trace: TracebackType | None, runner: CodeType | None) -> tuple[list[TracebackType], int]:
    """The entries to show, outermost first, and the number of those hidden for being flambeau's."""
    entries = []
    while trace is not None:
        entries.append(trace)
        trace = trace.tb_next
    outside = [i for i, entry in enumerate(entries) if entry.tb_frame.f_code is runner]
    shown, n_hidden, inside = [], 0, False
    for entry in entries[outside[-1] + 1 if outside else 0 :]:
        if _is_ours(entry.tb_frame):
            inside = True
        elif not _is_library(entry.tb_frame):
            inside = False  # flambeau has called back into the user's code
        if inside:
            n_hidden += 1
        else:
            shown.append(entry)
    return shown, n_hidden


def _is_ours(frame: FrameType) -> bool:
    # by module, not by file: the frames of compiled modules name their source relative to where it was built
    name = frame.f_globals.get("__name__")
    return isinstance(name, str) and name.partition(".")[0] == _PACKAGE


def _is_library(frame: FrameType) -> bool:
    file = frame.f_code.co_filename
    return file.startswith("<frozen ") or file.startswith(_LIBRARIES)
