"""Helpers of the data loader under the names that programs import them by."""

from __future__ import annotations

from . import collate, worker

__all__ = ["collate", "worker"]
