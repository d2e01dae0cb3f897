"""Handles by which registered hooks are removed again."""

from __future__ import annotations

from flambeau.tensor._handles import RemovableHandle

__all__ = ["RemovableHandle"]
