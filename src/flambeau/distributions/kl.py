"""Kullback-Leibler divergences between pairs of distributions.

The formulas are in `_kl_same` (two of one family), `_kl_gaussian` (vectors), and `_kl_cross` (two families).
"""

from __future__ import annotations

from . import _kl_cross, _kl_gaussian, _kl_same
from ._kl_registry import _KL_MEMOIZE, _KL_REGISTRY, _dispatch_kl, kl_divergence, register_kl

__all__ = ["kl_divergence", "register_kl"]
_ = _kl_same, _kl_gaussian, _kl_cross, _KL_MEMOIZE, _KL_REGISTRY, _dispatch_kl
