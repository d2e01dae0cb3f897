"""Softmax kernels against torch: values, backward, infinities, dtypes."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from flambeau.kernels import softmax as kernels

SHAPES = [((8, 8), 1), ((8, 8), 0), ((5, 100), -1), ((2, 3, 4), 1), ((7,), 0), ((), 0), ((0, 3), 1), ((3, 0), 1)]


@pytest.mark.parametrize(("shape", "dim"), SHAPES, ids=str)
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("name", ["softmax", "log_softmax"])
def test_values_and_gradients_equal_torch(name, shape, dim, dtype):
    rng = np.random.default_rng(0)
    x, g = [np.asarray(rng.standard_normal(shape) * 10, dtype) for _ in range(2)]
    kept = x.copy(), g.copy()
    xt = torch.tensor(x, requires_grad=True)
    expected = getattr(torch, name)(xt, dim)
    expected.backward(torch.tensor(g))
    out = getattr(kernels, name)(x, dim)
    gx = getattr(kernels, f"{name}_backward")(g, out, dim)
    assert out.dtype == gx.dtype == dtype
    tolerance = dict(rtol=1e-12, atol=1e-12) if dtype is np.float64 else dict(rtol=2e-6, atol=1e-5)
    np.testing.assert_allclose(out, expected.detach().numpy(), **tolerance)
    np.testing.assert_allclose(gx, xt.grad.numpy(), **tolerance)
    np.testing.assert_array_equal(x, kept[0])
    np.testing.assert_array_equal(g, kept[1])


def test_infinite_rows_are_as_in_torch():
    inf = np.inf
    x = np.array([[-inf, -inf], [inf, 0], [-inf, 0], [inf, -inf], [np.nan, 0], [1e4, -1e4]])
    with np.errstate(all="ignore"):
        for name in ("softmax", "log_softmax"):
            for values, dim in [(x, 1), (x.T, 0), (np.ascontiguousarray(x.T), 0)]:
                expected = getattr(torch, name)(torch.tensor(values), dim)
                np.testing.assert_allclose(getattr(kernels, name)(values, dim), expected.numpy())
        np.testing.assert_allclose(kernels.logsumexp(x, 1), torch.logsumexp(torch.tensor(x), 1).numpy())


@pytest.mark.parametrize("dim", [0, 1, -1, (0, 2), (0, 1, 2)])
@pytest.mark.parametrize("keepdim", [False, True])
def test_logsumexp_equals_torch(dim, keepdim):
    x = np.random.default_rng(0).standard_normal((2, 3, 4)) * 300
    expected = torch.logsumexp(torch.tensor(x), dim, keepdim)
    np.testing.assert_allclose(kernels.logsumexp(x, dim, keepdim), expected.numpy())


def test_logsumexp_of_nothing_is_minus_infinity():
    with np.errstate(all="ignore"):
        np.testing.assert_array_equal(kernels.logsumexp(np.zeros((2, 0)), 1), [-np.inf, -np.inf])
        assert kernels.logsumexp(np.zeros((0, 2)), 1).shape == (0,)
    assert kernels.logsumexp(np.array(2.0), 0) == 2.0


def test_low_precision_is_computed_in_float32():
    import ml_dtypes

    x = np.random.default_rng(0).standard_normal((4, 300)) * 5
    for dtype, other in [(np.float16, torch.float16), (ml_dtypes.bfloat16, torch.bfloat16)]:
        low, lowt = x.astype(dtype), torch.tensor(x).to(other)
        for name in ("softmax", "log_softmax"):
            out = getattr(kernels, name)(low, 1)
            assert out.dtype == dtype
            expected = getattr(torch, name)(lowt, 1).double().numpy()
            np.testing.assert_allclose(out.astype(float), expected, rtol=1e-2, atol=1e-6)


def test_softmax_backward_is_self_adjoint():
    rng = np.random.default_rng(0)
    out = kernels.softmax(rng.standard_normal((3, 5)), 1)
    g, h = rng.standard_normal((2, 3, 5))
    left = np.vdot(h, kernels.softmax_backward(g, out, 1))
    np.testing.assert_allclose(left, np.vdot(g, kernels.softmax_backward(h, out, 1)))
