"""A context that programs enter around `vmap`."""

from __future__ import annotations

from contextlib import nullcontext


class TransformGetItemToIndex(nullcontext):
    """A block in which `t[i]` takes mapped numbers i. It changes nothing: `vmap` takes them anywhere.

    >>> t = flambeau.tensor([5, 6, 7])
    >>> flambeau.vmap(lambda i: t[i])(flambeau.tensor([2, 0]))
    tensor([7, 5])
    """
