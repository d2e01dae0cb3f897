"""Normalisation kernels against torch: values, statistics, gradients, and the stated second derivative."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from flambeau.kernels import norm

F = torch.nn.functional
EPS = 1e-5


def tolerance(dtype):
    return dict(rtol=1e-9, atol=1e-10) if dtype is np.float64 else dict(rtol=1e-4, atol=2e-5)


def arrays(dtype, *shapes):
    rng = np.random.default_rng(0)
    return [None if s is None else (rng.standard_normal(s) * 2 + 1).astype(dtype) for s in shapes]


def tensors(*values):
    return [None if v is None else torch.tensor(v, requires_grad=True) for v in values]


def check_gradients(computed, leaves, dtype):
    for value, leaf in zip(computed, leaves, strict=True):
        if leaf is not None:
            assert value.dtype == dtype
            np.testing.assert_allclose(value, leaf.grad.numpy(), **tolerance(dtype))


DTYPES = pytest.mark.parametrize("dtype", [np.float64, np.float32])
AFFINE = pytest.mark.parametrize("affine", [True, False])
BATCHES = pytest.mark.parametrize("shape", [(6, 4), (5, 4, 7), (3, 4, 5, 6), (2, 3, 2, 3, 4), (1, 2, 9)], ids=str)


@DTYPES
@AFFINE
@BATCHES
def test_batch_norm_in_training_equals_torch(shape, affine, dtype):
    parameter = (shape[1],) if affine else None
    x, w, b, g = arrays(dtype, shape, parameter, parameter, shape)
    running = np.zeros(shape[1], dtype), np.ones(shape[1], dtype)
    means, variances = [torch.tensor(r) for r in running]
    xt, wt, bt = tensors(x, w, b)
    expected = F.batch_norm(xt, means, variances, wt, bt, True, 0.3, EPS)
    expected.backward(torch.tensor(g))
    out, mean, invstd, new_mean, new_var = norm.batch_norm_update(x, w, b, *running, 0.3, EPS)
    np.testing.assert_allclose(out, expected.detach().numpy(), **tolerance(dtype))
    np.testing.assert_allclose(new_mean, means.numpy(), **tolerance(dtype))
    np.testing.assert_allclose(new_var, variances.numpy(), **tolerance(dtype))
    assert out.dtype == new_var.dtype == dtype and running[0].sum() == 0
    for a, c in zip(norm.batch_norm(x, w, b, EPS), (out, mean, invstd), strict=True):
        np.testing.assert_array_equal(a, c)
    check_gradients(norm.batch_norm_backward(g, x, mean, invstd, w), (xt, wt, bt), dtype)


@DTYPES
@AFFINE
@BATCHES
def test_batch_norm_in_evaluation_equals_torch(shape, affine, dtype):
    c = shape[1]
    parameter = (c,) if affine else None
    x, w, b, g, mean, var = arrays(dtype, shape, parameter, parameter, shape, (c,), (c,))
    var = np.abs(var) + dtype(0.1)
    xt, wt, bt = tensors(x, w, b)
    expected = F.batch_norm(xt, torch.tensor(mean), torch.tensor(var), wt, bt, False, 0.1, EPS)
    expected.backward(torch.tensor(g))
    out = norm.batch_norm_eval(x, w, b, mean, var, EPS)
    np.testing.assert_allclose(out, expected.detach().numpy(), **tolerance(dtype))
    check_gradients(norm.batch_norm_eval_backward(g, x, mean, var, w, EPS), (xt, wt, bt), dtype)


@DTYPES
@AFFINE
@pytest.mark.parametrize(("shape", "over"), [((5, 8), 1), ((2, 3, 4), 1), ((2, 3, 4), 2), ((6,), 1)], ids=str)
def test_layer_and_rms_norm_equal_torch(shape, over, affine, dtype):
    inner = shape[-over:]
    x, w, b, g = arrays(dtype, shape, inner if affine else None, inner if affine else None, shape)
    xt, wt, bt = tensors(x, w, b)
    expected, means, inverses = torch.native_layer_norm(xt, inner, wt, bt, EPS)
    expected.backward(torch.tensor(g))
    out, mean, invstd = norm.layer_norm(x, inner, w, b, EPS)
    for value, reference in [(out, expected), (mean, means), (invstd, inverses)]:
        assert value.shape == reference.shape
        np.testing.assert_allclose(value, reference.detach().numpy(), **tolerance(dtype))
    check_gradients(norm.layer_norm_backward(g, x, inner, mean, invstd, w), (xt, wt, bt), dtype)

    for eps in (None, 1e-3):
        xt, wt = tensors(x, w)
        expected = F.rms_norm(xt, inner, wt, eps)
        expected.backward(torch.tensor(g))
        out, invrms = norm.rms_norm(x, inner, w, eps)
        np.testing.assert_allclose(out, expected.detach().numpy(), **tolerance(dtype))
        check_gradients(norm.rms_norm_backward(g, x, inner, invrms, w), (xt, wt), dtype)


@DTYPES
@AFFINE
@pytest.mark.parametrize(("shape", "groups"), [((3, 6), 2), ((2, 6, 5), 3), ((2, 4, 3, 5), 1), ((2, 4, 3, 5), 4)], ids=str)
def test_group_and_instance_norm_equal_torch(shape, groups, affine, dtype):
    parameter = (shape[1],) if affine else None
    x, w, b, g = arrays(dtype, shape, parameter, parameter, shape)
    xt, wt, bt = tensors(x, w, b)
    expected = F.group_norm(xt, groups, wt, bt, EPS)
    expected.backward(torch.tensor(g))
    out, mean, invstd = norm.group_norm(x, groups, w, b, EPS)
    assert mean.shape == invstd.shape == (shape[0], groups)
    np.testing.assert_allclose(out, expected.detach().numpy(), **tolerance(dtype))
    check_gradients(norm.group_norm_backward(g, x, groups, mean, invstd, w), (xt, wt, bt), dtype)
    if len(shape) > 2:
        xt, wt, bt = tensors(x, w, b)
        expected = F.instance_norm(xt, None, None, wt, bt, True, 0.1, EPS)
        expected.backward(torch.tensor(g))
        out, mean, invstd = norm.instance_norm(x, w, b, EPS)
        np.testing.assert_allclose(out, expected.detach().numpy(), **tolerance(dtype))
        check_gradients(norm.instance_norm_backward(g, x, mean, invstd, w), (xt, wt, bt), dtype)


def test_variance_survives_a_large_mean():
    x = (np.random.default_rng(0).standard_normal((64, 3, 10)) + 1000).astype(np.float32)
    out, _, invstd = norm.batch_norm(x, None, None, EPS)
    np.testing.assert_allclose(invstd, 1 / x.astype(np.float64).std((0, 2)), rtol=1e-3)
    constant = np.full((4, 8), 3e4, np.float32)
    assert not norm.layer_norm(constant, (8,), None, None, EPS)[0].any()


def test_one_value_per_channel_has_no_unbiased_variance():
    with np.errstate(all="ignore"):
        *_, new_var = norm.batch_norm_update(np.ones((1, 2)), None, None, np.zeros(2), np.ones(2), 0.1, EPS)
    assert np.isnan(new_var).all()


def test_only_needed_gradients_are_computed():
    x, g, w = arrays(np.float64, (4, 6), (4, 6), (6,))
    _, mean, invstd = norm.layer_norm(x, (6,), w, None, EPS)
    full = norm.layer_norm_backward(g, x, (6,), mean, invstd, w)
    for i in range(3):
        needs = tuple(j == i for j in range(3))
        for j, value in enumerate(norm.layer_norm_backward(g, x, (6,), mean, invstd, w, needs)):
            assert (value is None) == (i != j)
            if i == j:
                np.testing.assert_array_equal(value, full[j])
        _, mean_c, invstd_c = norm.batch_norm(x, w, None, EPS)
        values = norm.batch_norm_backward(g, x, mean_c, invstd_c, w, needs)
        assert [v is None for v in values] == [not n for n in needs]
        values = norm.group_norm_backward(g, x, 1, mean, invstd, w, needs)
        assert [v is None for v in values] == [not n for n in needs]


def test_low_precision_and_empty_inputs():
    import ml_dtypes

    x, w, b = arrays(np.float64, (4, 6, 5), (6,), (6,))
    for dtype, other in [(np.float16, torch.float16), (ml_dtypes.bfloat16, torch.bfloat16)]:
        low = [v.astype(dtype) for v in (x, w, b)]
        lowt = [torch.tensor(v).to(other) for v in (x, w, b)]
        out, mean, _ = norm.group_norm(low[0], 3, low[1], low[2], EPS)
        assert out.dtype == dtype and mean.dtype == np.float32
        expected = F.group_norm(lowt[0], 3, lowt[1], lowt[2], EPS).double().numpy()
        np.testing.assert_allclose(out.astype(float), expected, rtol=2e-2, atol=4e-2)
        out, mean, invstd = norm.batch_norm(*low, EPS)
        gx, gw, gb = norm.batch_norm_backward(low[0], low[0], mean, invstd, low[1])
        assert out.dtype == gx.dtype == gw.dtype == gb.dtype == dtype
    empty = np.zeros((0, 6))
    assert norm.layer_norm(empty, (6,), None, None, EPS)[1].shape == (0, 1)
    _, mean, invstd = norm.layer_norm(empty, (6,), w, b, EPS)
    gx, gw, gb = norm.layer_norm_backward(empty, empty, (6,), mean, invstd, w)
    assert gx.shape == (0, 6) and not gw.any() and not gb.any()


def test_backward_is_self_adjoint_and_its_stated_derivative_in_x_holds():
    x, g, h = arrays(np.float64, (3, 5), (3, 5), (3, 5))
    m = 5

    def backward(grad, at):
        _, mean, invstd = norm.layer_norm(at, (m,), None, None, EPS)
        return norm.layer_norm_backward(grad, at, (m,), mean, invstd, None)[0]

    np.testing.assert_allclose(np.vdot(h, backward(g, x)), np.vdot(g, backward(h, x)))
    xhat, mean, invstd = norm.layer_norm(x, (m,), None, None, EPS)
    row = dict(axis=1, keepdims=True)
    by_xhat = -invstd * (h * (g * xhat).mean(**row) + g * (h * xhat).mean(**row))
    by_invstd = (h * backward(g, x) / invstd).sum(**row)
    gradient = backward(by_xhat, x) - by_invstd * np.square(invstd) * xhat / m
    direction = np.random.default_rng(1).standard_normal(x.shape)
    step = 1e-6
    numeric = np.vdot(h, backward(g, x + step * direction) - backward(g, x - step * direction)) / (2 * step)
    np.testing.assert_allclose(np.vdot(gradient, direction), numeric, rtol=1e-6)


def test_errors_keep_the_words_people_search_for():
    with pytest.raises(RuntimeError, match=r"Given normalized_shape=\[3\], expected input with shape"):
        norm.layer_norm(np.zeros((2, 4)), (3,), None, None, EPS)
    with pytest.raises(RuntimeError, match="divisible by num_groups"):
        norm.group_norm(np.zeros((2, 4)), 3, None, None, EPS)
