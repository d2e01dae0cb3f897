"""Run the same case in flambeau's kernels and in real torch, and compare everything observable."""

from __future__ import annotations

import numpy as np
import torch

torch.set_num_threads(1)

TOLERANCE = {
    torch.float16: 2e-3,
    torch.bfloat16: 1.6e-2,
    torch.float32: 2e-6,
    torch.float64: 1e-12,
    torch.complex64: 2e-6,
    torch.complex128: 1e-12,
}


def to_torch(value):
    """Tensor with the same values (and strides where they are not negative); containers recursively."""
    if isinstance(value, np.ndarray):
        if value.dtype.name == "bfloat16":
            return torch.from_numpy(value.view(np.int16)).view(torch.bfloat16)
        return torch.from_numpy(value)
    if isinstance(value, (tuple, list)):
        return type(value)(to_torch(v) for v in value)
    return value


def to_numpy(tensor):
    """Array with the same values; bfloat16 through its bits."""
    if tensor.dtype == torch.bfloat16:
        import ml_dtypes

        return tensor.contiguous().view(torch.int16).numpy().view(ml_dtypes.bfloat16)
    return tensor.numpy()


def dtype_of(array):
    """torch's dtype for an array's."""
    return getattr(torch, array.dtype.name)


def assert_same(mine, theirs, scale=1.0):
    """Compare dtype, shape and values; NaN equals NaN."""
    if isinstance(theirs, (tuple, list)):
        assert len(mine) == len(theirs)
        for a, b in zip(mine, theirs, strict=True):
            assert_same(a, b, scale)
        return
    if not isinstance(theirs, torch.Tensor):
        assert mine == theirs
        return
    mine = np.asarray(mine)
    assert dtype_of(mine) == theirs.dtype, (mine.dtype, theirs.dtype)
    assert mine.shape == tuple(theirs.shape), (mine.shape, tuple(theirs.shape))
    want = to_numpy(theirs)
    tolerance = TOLERANCE.get(theirs.dtype)
    if tolerance is None:
        np.testing.assert_array_equal(mine, want)
    else:
        wide = np.complex128 if want.dtype.kind == "c" else np.float64
        np.testing.assert_allclose(
            mine.astype(wide),
            want.astype(wide),
            rtol=tolerance * scale,
            atol=tolerance * scale,
            equal_nan=True,
        )


def run(function):
    """The result, or the error."""
    try:
        return function(), None
    except Exception as error:  # noqa: BLE001 - the type is what is compared
        return None, error


def check(mine, theirs, scale=1.0, label=""):
    """Both thunks give the same result or raise the same class of error."""
    with np.errstate(all="ignore"):
        got, error = run(mine)
    want, torch_error = run(theirs)
    if torch_error is not None and "INTERNAL ASSERT" in str(torch_error):
        return None  # a defect of torch: no oracle
    if torch_error is not None:
        assert error is not None, f"{label}: torch raised {torch_error!r}, we returned {got!r}"
        expected = type(torch_error)
        assert isinstance(error, expected), f"{label}: torch raised {torch_error!r}, we raised {error!r}"
        return None
    if error is not None:
        raise AssertionError(f"{label}: torch returned {want!r}, we raised {error!r}") from error
    try:
        assert_same(got, want, scale)
    except AssertionError as failure:
        raise AssertionError(f"{label}: {failure}\nours {got!r}\ntorch {want!r}") from failure
    return got, want
