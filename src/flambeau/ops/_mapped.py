"""Functions that vmap answers for as a whole: they look at their arguments' values on the way to an operator.

For most functions vmap needs no rule, since the operators that they are made of have one. Those listed here are called on
the batch itself where they take any number of leading dimensions ("leading", or "pointwise" where the arguments broadcast,
"first" where they treat the items of a leading N apart), and sample by sample where they do not. What is made in the
likeness of a batched tensor ("like") has its batch, so that each sample may write into its own.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from flambeau.core.state import state

LEADING, POINTWISE, FIRST, EACH, LIKE = "leading", "pointwise", "first", "each", "like"

_LISTS = {
    LEADING: """linalg.svdvals linalg.matrix_rank linalg.cond linalg.lu_factor linalg.lu_factor_ex linalg.lu lu lu_unpack
        linalg.lu_solve lu_solve linalg.ldl_factor linalg.ldl_factor_ex linalg.ldl_solve geqrf""",
    LIKE: "zeros_like ones_like empty_like full_like new_zeros new_ones new_empty new_full new_empty_strided",
    POINTWISE: "isclose nn.functional.one_hot unravel_index",
    FIRST: "nn.functional.grid_sample grid_sampler grid_sampler_2d grid_sampler_3d",
    EACH: """linalg.lstsq quantile nanquantile histogram histogramdd index_reduce istft renorm nonzero_static fill_diagonal_
        nn.functional.embedding_bag nn.functional.multi_margin_loss nn.functional.multilabel_margin_loss
        embedding_bag segment_reduce
        fake_quantize_per_channel_affine embedding_renorm_ index_put""",
}
HOW = {name: how for how, names in _LISTS.items() for name in names.split()}

# Asked for these functions while a vmap runs: (how, function, args, kwargs) -> value, or NotImplemented to pass
watcher: list[Callable] = []


def seen_mapped(name: str, fn: Callable) -> Callable:
    """The function, which vmap sees if it is listed."""
    how = HOW.get(name)
    if how is None:
        return fn

    @functools.wraps(fn)
    def function(*args: Any, **kwargs: Any) -> Any:
        if state.special != 0 and watcher:
            r = watcher[0](how, fn, args, kwargs)
            if r is not NotImplemented:
                return r
        return fn(*args, **kwargs)

    return function


# Asked while a vmap runs: (t, key) -> t[key] or NotImplemented; (t, key, value) -> whether it was written;
# (function, make(shape), shape) -> a new random tensor, or NotImplemented where no vmap runs
getter: list[Callable] = []
setter: list[Callable] = []
creator: list[Callable] = []
