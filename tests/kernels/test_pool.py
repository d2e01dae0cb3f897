"""Pooling kernels against torch: values, indices, adjoints, NaN and infinity, errors."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from flambeau.kernels import pool

F = torch.nn.functional

SIZES = {1: (11,), 2: (9, 8), 3: (6, 7, 5)}
# kernel, stride, padding, dilation, ceil_mode
WINDOWS = [
    (2, 2, 0, 1, False),
    (3, 1, 1, 1, False),
    (3, 2, 1, 1, True),
    (2, 3, 1, 2, True),
    (3, 2, 0, 2, False),
    (4, 3, 2, 1, True),
]


def tuples(nd, *values):
    return [(v,) * nd for v in values]


def sample(nd, dtype=np.float64, lead=(2, 3)):
    # Small integers: many ties, and sums that are exact.
    return np.random.default_rng(0).integers(-4, 5, (*lead, *SIZES[nd])).astype(dtype)


@pytest.mark.parametrize("nd", [1, 2, 3])
@pytest.mark.parametrize("window", WINDOWS, ids=str)
@pytest.mark.parametrize("dtype", [np.float64, np.float32, np.int64])
def test_max_pool_equals_torch(nd, window, dtype):
    x = sample(nd, dtype)
    *hyper, ceil_mode = window
    hyper = tuples(nd, *hyper)
    xt = torch.tensor(x)
    if dtype is np.int64 and nd != 2:
        xt = xt.double()
    value, index = getattr(F, f"max_pool{nd}d")(xt, *hyper, ceil_mode=ceil_mode, return_indices=True)
    out, indices = pool.max_pool_with_indices(x, *hyper, ceil_mode)
    assert out.dtype == dtype and indices.dtype == np.int64
    np.testing.assert_array_equal(out, value.numpy())
    np.testing.assert_array_equal(indices, index.numpy())
    np.testing.assert_array_equal(pool.max_pool(x, *hyper, ceil_mode), value.numpy())


@pytest.mark.parametrize("window", WINDOWS, ids=str)
def test_max_pool_reports_nan_and_infinity_as_torch(window):
    *hyper, ceil_mode = window
    hyper = tuples(2, *hyper)
    rng = np.random.default_rng(0)
    x = rng.choice([-np.inf, np.nan, 1.0, np.inf], p=[0.7, 0.1, 0.1, 0.1], size=(4, 3, 9, 8))
    for values in (x, np.full_like(x, -np.inf)):
        value, index = F.max_pool2d(torch.tensor(values), *hyper, ceil_mode=ceil_mode, return_indices=True)
        out, indices = pool.max_pool_with_indices(values, *hyper, ceil_mode)
        np.testing.assert_array_equal(out, value.numpy())
        np.testing.assert_array_equal(indices, index.numpy())
        np.testing.assert_array_equal(pool.max_pool(values, *hyper, ceil_mode), value.numpy())


@pytest.mark.parametrize("nd", [1, 2, 3])
@pytest.mark.parametrize("window", WINDOWS[:4], ids=str)
def test_max_pool_gradient_equals_torch_and_gather_is_its_adjoint(nd, window):
    *hyper, ceil_mode = window
    hyper = tuples(nd, *hyper)
    x = sample(nd)
    xt = torch.tensor(x, requires_grad=True)
    expected = getattr(F, f"max_pool{nd}d")(xt, *hyper, ceil_mode=ceil_mode)
    out, indices = pool.max_pool_with_indices(x, *hyper, ceil_mode)
    g = np.random.default_rng(1).standard_normal(out.shape)
    expected.backward(torch.tensor(g))
    np.testing.assert_allclose(pool.scatter_spatial(g, indices, SIZES[nd]), xt.grad.numpy(), atol=1e-12)
    np.testing.assert_array_equal(pool.gather_spatial(x, indices, nd), out)


def test_large_kernels_use_wider_codes():
    x = np.random.default_rng(0).standard_normal((2, 20, 20))
    value, index = F.max_pool2d(torch.tensor(x), 17, 1, 0, return_indices=True)
    out, indices = pool.max_pool_with_indices(x, (17, 17), (1, 1), (0, 0), (1, 1), False)
    np.testing.assert_array_equal(out, value.numpy())
    np.testing.assert_array_equal(indices, index.numpy())


@pytest.mark.parametrize(("nd", "divisor"), [(1, None), (2, None), (2, 5), (3, None), (3, 5)])
@pytest.mark.parametrize("window", [w for w in WINDOWS if w[3] == 1], ids=str)
@pytest.mark.parametrize("count_include_pad", [True, False])
def test_avg_pool_and_adjoint_equal_torch(nd, window, count_include_pad, divisor):
    kernel, stride, padding, _, ceil_mode = window
    hyper = (*tuples(nd, kernel, stride, padding), ceil_mode, count_include_pad)
    x = sample(nd)
    xt = torch.tensor(x, requires_grad=True)
    expected = getattr(F, f"avg_pool{nd}d")(xt, *hyper, *([divisor] if nd > 1 else []))
    out = pool.avg_pool(x, *hyper, divisor)
    np.testing.assert_allclose(out, expected.detach().numpy(), atol=1e-12)
    g = np.random.default_rng(1).standard_normal(out.shape)
    expected.backward(torch.tensor(g))
    gx = pool.avg_pool_backward(g, x.shape, *hyper, divisor)
    np.testing.assert_allclose(gx, xt.grad.numpy(), atol=1e-12)


@pytest.mark.parametrize("nd", [1, 2, 3])
@pytest.mark.parametrize("out", [1, 2, 4, 5, 13])
def test_adaptive_pools_and_adjoints_equal_torch(nd, out):
    x = sample(nd)
    out = (out,) * nd
    for kind in ("avg", "max"):
        xt = torch.tensor(x, requires_grad=True)
        if kind == "avg":
            expected = getattr(F, f"adaptive_avg_pool{nd}d")(xt, out)
            y = pool.adaptive_avg_pool(x, out)
        else:
            expected, index = getattr(F, f"adaptive_max_pool{nd}d")(xt, out, return_indices=True)
            y, indices = pool.adaptive_max_pool(x, out)
            np.testing.assert_array_equal(indices, index.numpy())
        np.testing.assert_allclose(y, expected.detach().numpy(), atol=1e-12)
        g = np.random.default_rng(1).standard_normal(y.shape)
        expected.backward(torch.tensor(g))
        if kind == "avg":
            gx = pool.adaptive_avg_pool_backward(g, x.shape)
        else:
            gx = pool.scatter_spatial(g, indices, SIZES[nd])
        np.testing.assert_allclose(gx, xt.grad.numpy(), atol=1e-12)


def test_adaptive_pools_divide_evenly_and_report_the_last_nan():
    x = np.random.default_rng(0).choice([np.nan, 1.0, 2.0], size=(3, 8, 8))
    for out in [(2, 4), (4, 8), (8, 4), (3, 3)]:
        value, index = F.adaptive_max_pool2d(torch.tensor(x), out, return_indices=True)
        y, indices = pool.adaptive_max_pool(x, out)
        np.testing.assert_array_equal(y, value.numpy())
        np.testing.assert_array_equal(indices, index.numpy())
        np.testing.assert_allclose(pool.adaptive_avg_pool(x, out), F.adaptive_avg_pool2d(torch.tensor(x), out).numpy())


def test_max_unpool_equals_torch():
    x = np.random.default_rng(0).standard_normal((2, 3, 6, 6))
    out, indices = pool.max_pool_with_indices(x, (2, 2), (), (0, 0), (1, 1), False)
    expected = F.max_unpool2d(torch.tensor(out), torch.tensor(indices), 2)
    np.testing.assert_array_equal(pool.max_unpool(out, indices, (6, 6)), expected.numpy())
    with pytest.raises(RuntimeError, match="Found an invalid max index: 99"):
        pool.max_unpool(np.zeros((1, 2)), np.array([[0, 99]]), (4,))


def test_low_precision_empty_batches_and_strided_inputs():
    import ml_dtypes

    x = sample(2)
    for dtype, other in [(np.float16, torch.float16), (ml_dtypes.bfloat16, torch.bfloat16)]:
        low, lowt = x.astype(dtype), torch.tensor(x).to(other)
        y = pool.avg_pool(low, (3, 3), (2, 2), (1, 1), False, True, None)
        assert y.dtype == dtype
        np.testing.assert_allclose(y.astype(float), F.avg_pool2d(lowt, 3, 2, 1).double().numpy(), rtol=1e-2)
        y, indices = pool.max_pool_with_indices(low, (3, 3), (2, 2), (1, 1), (1, 1), False)
        value, index = F.max_pool2d(lowt, 3, 2, 1, return_indices=True)
        assert y.dtype == dtype
        np.testing.assert_array_equal(y.astype(float), value.double().numpy())
        np.testing.assert_array_equal(indices, index.numpy())
        assert pool.scatter_spatial(y, indices, SIZES[2]).dtype == dtype
    empty = np.zeros((0, 3, 6, 6), np.float32)
    y, indices = pool.max_pool_with_indices(empty, (2, 2), (), (0, 0), (1, 1), False)
    assert y.shape == indices.shape == (0, 3, 3, 3)
    assert pool.scatter_spatial(y, indices, (6, 6)).shape == (0, 3, 6, 6)
    assert pool.avg_pool(empty, (2, 2), (), (0, 0), False, True, None).shape == (0, 3, 3, 3)
    turned = x.swapaxes(2, 3)
    expected = F.max_pool2d(torch.tensor(x).transpose(2, 3), 2)
    np.testing.assert_array_equal(pool.max_pool(turned, (2, 2), (), (0, 0), (1, 1), False), expected.numpy())


def test_integer_averages_truncate():
    x = np.array([[-3, -4, 5, 6]])
    expected = F.avg_pool2d(torch.tensor(x)[None], (1, 2))[0]
    np.testing.assert_array_equal(pool.avg_pool(x, (2,), (2,), (0,), False, True, None), expected.numpy())


def test_errors_keep_the_words_people_search_for():
    x = np.zeros((1, 4, 4))
    with pytest.raises(RuntimeError, match="pad should be at most half of effective kernel size"):
        pool.max_pool(x, (2, 2), (), (2, 2), (1, 1), False)
    with pytest.raises(RuntimeError, match="Output size is too small"):
        pool.avg_pool(x, (5, 5), (), (0, 0), False, True, None)
    with pytest.raises(RuntimeError, match="divisor must be not zero"):
        pool.avg_pool(x, (2, 2), (), (0, 0), False, True, 0)
    with pytest.raises(RuntimeError, match="non-zero size for non-batch dimensions"):
        pool.adaptive_avg_pool(np.zeros((1, 0, 4)), (1, 1))
