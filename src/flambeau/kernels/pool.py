"""Pooling over the trailing one, two or three dimensions, and the adjoints.

Shapes: x (*, *spatial) with any leading dimensions; kernel, stride, padding and dilation have one entry per
spatial dimension (an empty stride means the kernel). The kernels are in `pool_max`, `pool_average` and
`pool_adaptive`; what they share, in `pool_windows`.

Derivatives close over these functions. Average pooling and its adjoint are each other's gradient. With the
indices held fixed, max pooling is `gather_spatial`, whose adjoint is `scatter_spatial`, and conversely;
`max_unpool` is differentiated by `gather_spatial`.
"""

from __future__ import annotations

from .pool_adaptive import adaptive_avg_pool, adaptive_avg_pool_backward, adaptive_max_pool, row_argmax
from .pool_average import avg_pool, avg_pool_backward
from .pool_max import gather_spatial, max_pool, max_pool_with_indices, max_unpool, scatter_spatial
from .pool_windows import output_length, pool_output_size

__all__ = [
    "adaptive_avg_pool",
    "adaptive_avg_pool_backward",
    "adaptive_max_pool",
    "avg_pool",
    "avg_pool_backward",
    "gather_spatial",
    "max_pool",
    "max_pool_with_indices",
    "max_unpool",
    "output_length",
    "pool_output_size",
    "row_argmax",
    "scatter_spatial",
]

_argmax, _output_length = row_argmax, output_length     # the names in ops.pooling_fractional and ops.pooling
