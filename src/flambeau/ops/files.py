"""Tensors over files: `from_file`."""

from __future__ import annotations

import os
import tempfile
from typing import Any

import numpy as np

from flambeau.core.dtype import DType
from flambeau.kernels.services import default_array_type

from ._args import optional_integer
from ._factory import finish
from ._record import call, public


def _sample_file() -> str:
    """A file of four float32 numbers, for the samples."""
    path = os.path.join(tempfile.gettempdir(), "flambeau-from-file-sample.bin")
    np.arange(4, dtype=np.float32).tofile(path)
    return path


@public(method=False, out=False, differentiable=False, samples=lambda t: [call(_sample_file(), size=3)],
        errors=lambda t: [(call(os.path.join(tempfile.gettempdir(), "no", "such"), size=3), RuntimeError, "unable to open"),
                          (call(_sample_file(), size="3"), TypeError, "size")])
def from_file(filename: str, shared: bool | None = None, size: int | None = 0, *, dtype: DType | None = None,
              layout: Any = None, device: Any = None, pin_memory: bool = False, requires_grad: bool = False) -> Any:
    """A vector whose elements are read from a file when they are needed.

    Args:
        filename: of a file of raw elements.
        shared: write changes to the file, which is made or lengthened as needed; otherwise they stay in memory.
        size: number of elements.
        dtype: default the default float dtype.

    Raises:
        RuntimeError: the file cannot be opened, or holds fewer elements.
    """
    d = default_array_type() if dtype is None else dtype.array_type
    n = optional_integer(size, "from_file", "size") or 0
    needed = n * d.itemsize
    try:
        if shared:
            with open(filename, "ab") as file:
                if file.tell() < needed:
                    file.truncate(needed)
        elif os.path.getsize(filename) < needed:
            raise RuntimeError(f"from_file: {filename} has {os.path.getsize(filename)} bytes, and {n} elements of {d.name} "
                               f"take {needed}")
        if not n:
            return finish(np.zeros(0, d), requires_grad)
        bits = np.memmap(filename, np.uint8, "r+" if shared else "c", 0, (needed,))
    except OSError as error:
        raise RuntimeError(f"unable to open file <{filename}> : {error}") from None
    return finish(np.ndarray((n,), d, bits), requires_grad)
