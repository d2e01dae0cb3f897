"""Switches of deterministic algorithms: every operator is deterministic here."""

from __future__ import annotations

# Kept for programs that set it. New memory has no defined content either way.
fill_uninitialized_memory = True
