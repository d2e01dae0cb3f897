"""Functions that mixed precision sees as a whole, before they look at their arguments.

Autocast casts the inputs of a listed function, not those of the operators that it happens to be made of; and a
function may refuse dtypes that differ before an operator is reached. PyTorch's lists for the CPU; a name that no file
registers is one that is not there yet.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

LOWER, FLOAT32, WIDEST, AS_IS = "lower", "float32", "widest", "as is"

_LISTS = {
    LOWER: """conv1d conv2d conv3d conv_transpose1d conv_transpose2d conv_transpose3d mm bmm addmm baddbmm addbmm matmul
        linalg.matmul linalg.vecdot prelu nn.functional.prelu nn.functional.linear
        nn.functional.scaled_dot_product_attention recurrent_layer""",
    FLOAT32: """quantile nanquantile stft grid_sampler grid_sampler_2d grid_sampler_3d nn.functional.grid_sample
        nn.functional.mse_loss nn.functional.l1_loss nn.functional.smooth_l1_loss nn.functional.huber_loss
        nn.functional.nll_loss nn.functional.cross_entropy nn.functional.binary_cross_entropy
        nn.functional.binary_cross_entropy_with_logits nn.functional.kl_div nn.functional.poisson_nll_loss
        nn.functional.soft_margin_loss nn.functional.cosine_embedding_loss nn.functional.margin_ranking_loss
        nn.functional.hinge_embedding_loss nn.functional.triplet_margin_loss nn.functional.multi_margin_loss
        nn.functional.multilabel_margin_loss nn.functional.ctc_loss nn.functional.avg_pool3d nn.functional.max_pool3d
        nn.functional.max_pool3d_with_indices max_pool3d nn.functional.adaptive_avg_pool3d
        nn.functional.adaptive_max_pool3d nn.functional.adaptive_max_pool3d_with_indices nn.functional.max_unpool1d
        nn.functional.max_unpool2d
        nn.functional.max_unpool3d nn.functional.fractional_max_pool2d nn.functional.fractional_max_pool3d
        nn.functional.fractional_max_pool2d_with_indices nn.functional.fractional_max_pool3d_with_indices
        cdist polar trace prod view_as_complex
        fft.fft fft.ifft fft.fft2 fft.ifft2 fft.fftn fft.ifftn fft.rfft fft.irfft fft.rfft2 fft.irfft2 fft.rfftn fft.irfftn
        fft.hfft fft.ihfft linalg.inv inverse linalg.inv_ex linalg.solve linalg.cholesky cholesky linalg.cholesky_ex
        cholesky_solve cholesky_inverse linalg.qr qr linalg.eigh linalg.eigvalsh linalg.eig linalg.eigvals linalg.svd
        linalg.svdvals svd pinverse linalg.cond linalg.matrix_rank linalg.lstsq linalg.tensorinv linalg.tensorsolve
        linalg.householder_product orgqr ormqr geqrf lu lu_solve triangular_solve""",
    WIDEST: "index_copy gru_layer",
    AS_IS: "mv dot addmv bilinear nn.functional.bilinear",        # made of listed operators, but not listed
}
POLICIES = {name: policy for policy, names in _LISTS.items() for name in names.split()}

# Asked for these functions while there is one: (policy, function, args, kwargs) -> value
watchers: list[Callable] = []


def seen_whole(name: str, fn: Callable) -> Callable:
    """The function, which watchers see if it is listed."""
    policy = POLICIES.get(name)
    if policy is None:
        return fn

    @functools.wraps(fn)
    def function(*args: Any, **kwargs: Any) -> Any:
        return watchers[-1](policy, fn, args, kwargs) if watchers else fn(*args, **kwargs)

    function.__dict__["alone"] = lambda *args, **kwargs: (watchers[-1](AS_IS, fn, args, kwargs) if watchers
                                                          else fn(*args, **kwargs))
    return function


def alone(fn: Callable) -> Callable:
    """The function for its in-place and `out=` forms, which are not listed."""
    found: Callable = getattr(fn, "alone", fn)
    return found
