"""`flambeau run script.py`: a PyTorch script as it is, with `torch` meaning flambeau."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from importlib.machinery import SourceFileLoader
from types import CodeType, ModuleType

from . import alias, tracebacks

# The `__main__` of the command itself. It must outlive the script: Python empties a module that nobody holds.
_replaced: list[ModuleType] = []


def run_script(script: str, args: Sequence[str], *, full_traceback: bool = False) -> int:
    """Run a script as `python script.py args` would, with `torch` aliased to flambeau.

    Args:
        script: path of the script.
        args: its arguments, `sys.argv[1:]` there.
        full_traceback: when the script fails, show flambeau's own frames as well as the script's.

    Returns:
        0 if the script ran to its end, 2 if it cannot be read (said on standard error). SystemExit and other
        exceptions pass through, so that the interpreter ends as it does for any script.
    """
    path = os.path.abspath(script)
    try:
        with open(path, "rb") as file:
            source = file.read()
    except OSError as error:
        print(f"flambeau run: cannot open {script!r}: {error.strerror}", file=sys.stderr)
        return 2
    alias.install()
    if not full_traceback:
        tracebacks.install(_execute.__code__)
    sys.argv = [script, *args]
    if not sys.flags.safe_path:  # with -P or PYTHONSAFEPATH Python adds no folder of the script's
        sys.path[0] = os.path.dirname(os.path.realpath(path))
    _execute(source, path, _main_module(path))
    return 0


def _main_module(path: str) -> ModuleType:
    """A fresh `__main__`, in place, with the attributes that Python gives to a script."""
    module = ModuleType("__main__")
    module.__file__ = path
    module.__loader__ = SourceFileLoader("__main__", path)
    module.__dict__.update(__builtins__=__builtins__, __package__=None, __cached__=None)
    _replaced.append(sys.modules["__main__"])
    sys.modules["__main__"] = module
    return module


def _execute(source: bytes, path: str, module: ModuleType) -> None:
    """Compile and run; the frames from here outwards are not the script's, and tracebacks leave them out."""
    code: CodeType = compile(source, path, "exec", dont_inherit=True)
    exec(code, module.__dict__)
