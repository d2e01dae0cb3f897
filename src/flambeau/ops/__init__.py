"""The operators: one record each, by family. Importing the package registers all of them."""

from __future__ import annotations

from . import engine_ops  # noqa: F401, I001  isort: skip
from . import arithmetic, activations, clamping, comparison, complex, exponential, filling, logical, rounding  # noqa: F401, I001
from . import special_functions, ternary, trigonometric  # noqa: F401, I001
from . import conversion, creation, fills, indexing_basic, ranges, reduction  # noqa: F401
from . import addmm, at_least, einsum, joining, layout, matmul, padding, products  # noqa: F401
from . import distance, parts, rearranging, shape, shuffle, splitting, strided, view_copies, views  # noqa: F401
from . import dropout, random, random_fills, random_gammas, random_samples  # noqa: F401
from . import index_slices, masked, scatter  # noqa: F401
from . import convolution, embedding, losses, losses_binary, losses_classes, losses_likelihood, losses_margin  # noqa: F401
from . import attention, grids, normalization, pooling, pooling_fractional, similarity, softmax, vision  # noqa: F401
from . import linear_cross_entropy, recurrent  # noqa: F401
from . import cumulative, differences, extrema, norms, search, sorting, statistics, triangles  # noqa: F401
from . import fft, linalg_factors, linalg_inverse, linalg_norms  # noqa: F401
from . import finite_differences, linalg_householder, linalg_ldl, linalg_lowrank, linalg_lu, spectral, view_scatters, windows  # noqa: F401
from . import convolution_general, fake_quantize, files, hashing, linalg_extremes, segments, torch_forms  # noqa: F401
from . import native_norms, norms_named, recurrent_functions, torch_activations, torch_losses, torch_windows  # noqa: F401
from . import batch_rows  # noqa: F401
from ._aten import aten
from ._record import KERNEL, PRIMITIVES, REGISTRY, Record, Sample, call, composite, ops, primitive, public

__all__ = ["KERNEL", "PRIMITIVES", "REGISTRY", "Record", "Sample", "arithmetic", "aten", "call", "composite", "creation",
           "engine_ops", "fills", "indexing_basic", "ops", "primitive", "public", "ranges", "reduction"]
