"""Parameters of a wrong type are a TypeError, as in PyTorch: never an error of NumPy or of Python's own conversions."""

from __future__ import annotations

import warnings

import pytest
import torch

import flambeau
from flambeau.ops import REGISTRY
from flambeau.testing import samples as S

BAD = {"text": "abc", "object": object()}
# Flags that any value may set here, so that the call goes on and finds something else wrong; and functions that PyTorch
# writes in Python, where the first error is any
OTHER = {"linalg.solve", "linalg.solve_ex", "linalg.lu_solve", "linalg.solve_triangular", "ormqr", "convolution", "istft",
         "batch_norm", "native_batch_norm", "nn.functional.batch_norm", "instance_norm", "nn.functional.instance_norm",
         "einsum", "histogram", "histogramdd", "movedim", "nn.functional.triplet_margin_loss", "norm_except_dim",
         "pairwise_distance", "triplet_margin_loss", "embedding_bag", "float_power", "kaiser_window", "hamming_window",
         "logspace", "nanquantile", "quantile", "segment_reduce", "rot90", "scalar_tensor",
         "fake_quantize_per_tensor_affine"}
KEYS = [k for k in sorted(REGISTRY) if not k.endswith("_") and k not in OTHER and k not in ("from_file", "empty_strided")]


def outcome(fn, args, kwargs):
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            fn(*args, **kwargs)
    except Exception as error:
        return error
    return None


def with_bad(sample, place, value):
    args, kwargs = list(sample.args), dict(sample.kwargs)
    if isinstance(place, int):
        args[place] = value
    else:
        kwargs[place] = value
    return args, kwargs


@pytest.mark.parametrize("key", KEYS)
def test_wrong_types_are_type_errors(key):
    record = REGISTRY[key]
    ours = list(S.calls(flambeau, key, record, None, False))[:3]
    theirs = list(S.calls(torch, key, record, None, False))[:3]
    for (_, a, _), (_, b, _) in zip(ours, theirs, strict=True):
        places = [i for i, v in enumerate(b.args) if isinstance(v, (int, float))]
        places += [k for k, v in b.kwargs.items() if isinstance(v, (int, float))]
        for place in places:
            for name, value in BAD.items():
                expected = outcome(S.public_callable(torch, key, record), *with_bad(b, place, value))
                if not isinstance(expected, TypeError):
                    continue
                got = outcome(S.public_callable(flambeau, key, record), *with_bad(a, place, value))
                assert got is None or isinstance(got, TypeError), f"{key}, {name} for {place}: {got!r}"
