"""Files in both libraries: `through` saves with one and loads with the other."""

from __future__ import annotations

import io
from collections.abc import Callable
from typing import Any

import pytest
import torch

import flambeau

LIBRARIES = {"flambeau": flambeau, "torch": torch}


def saved(library: Any, obj: Any, **options: Any) -> bytes:
    """The bytes of a file that a library writes."""
    file = io.BytesIO()
    library.save(obj, file, **options)
    return file.getvalue()


def loaded(library: Any, data: bytes, **options: Any) -> Any:
    """What a library reads in a file of these bytes."""
    return library.load(io.BytesIO(data), **options)


@pytest.fixture(params=["flambeau to torch", "torch to flambeau", "flambeau to flambeau"])
def ways(request: Any) -> tuple[Any, Any]:
    """The library that saves, and the one that loads."""
    writer, _, reader = request.param.partition(" to ")
    return LIBRARIES[writer], LIBRARIES[reader]


@pytest.fixture(params=[True, False], ids=["zip", "legacy"])
def through(request: Any, ways: tuple[Any, Any]) -> Callable:
    """through(make, **options): make(library) saved by one library and loaded by another, and the loading library."""
    def go(make: Callable[[Any], Any], **options: Any) -> tuple[Any, Any]:
        writer, reader = ways
        data = saved(writer, make(writer), _use_new_zipfile_serialization=request.param)
        return loaded(reader, data, **options), reader
    return go
