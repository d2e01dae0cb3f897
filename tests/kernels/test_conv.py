"""Convolution kernels against torch: values of the three bilinear maps, their adjointness, dtypes, errors."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
import torch

from flambeau.kernels import conv

F = torch.nn.functional

CASES = [
    # nd, n, c, o, size, kernel, stride, padding, dilation, groups
    (1, 2, 3, 4, (9,), (3,), 1, 0, 1, 1),
    (1, 2, 4, 6, (11,), (3,), 2, 1, 2, 2),
    (1, 1, 1, 1, (5,), (5,), 1, 0, 1, 1),
    (2, 2, 3, 4, (7, 8), (3, 3), 1, 1, 1, 1),
    (2, 2, 3, 4, (7, 8), (3, 2), (2, 1), (1, 0), (1, 2), 1),
    (2, 3, 4, 4, (6, 6), (3, 3), 2, 1, 1, 4),
    (2, 2, 6, 4, (9, 7), (1, 1), 1, 0, 1, 2),
    (2, 2, 3, 4, (9, 7), (1, 1), 2, 0, 1, 1),
    (2, 2, 3, 4, (5, 5), (2, 2), 1, 3, 1, 1),  # padding beyond the kernel
    (2, 2, 3, 5, (8, 8), (3, 3), 3, 0, 1, 1),  # trailing rows never read
    (2, 4, 3, 5, (3, 3), (3, 3), 1, 0, 1, 1),  # one position per sample
    (2, 0, 3, 5, (4, 4), (3, 3), 1, 0, 1, 1),
    (3, 2, 2, 4, (4, 5, 6), (2, 3, 2), (1, 2, 1), (0, 1, 1), 1, 2),
    (3, 1, 3, 2, (5, 4, 4), (3, 3, 3), 2, 1, 1, 1),
    (2, 4, 64, 64, (16, 24), (3, 3), 1, 1, 1, 64),  # depthwise, per tap
    (2, 4, 64, 64, (32, 25), (3, 3), 2, 1, 1, 64),
    (2, 4, 64, 64, (17, 20), (3, 2), (2, 1), (1, 2), (1, 2), 64),
    (2, 4, 64, 64, (16, 16), (2, 2), 3, 0, 2, 64),
    (2, 4, 64, 64, (16, 16), (2, 2), 1, 2, 1, 64),  # the adjoint crops
    (1, 8, 32, 32, (50,), (3,), 2, 1, 1, 32),
    (3, 4, 32, 32, (5, 6, 7), (3, 2, 3), (1, 2, 2), 1, 1, 32),
    (2, 2, 32, 24, (40, 40), (3, 3), 1, 1, 1, 1),  # more columns than a block: rows of samples
    (2, 2, 32, 24, (40, 40), (3, 3), 2, 1, 1, 2),
    (2, 40, 16, 24, (12, 12), (3, 3), 1, 1, 1, 1),  # several samples per block
]


def operands(case, dtype=np.float64):
    nd, n, c, o, size, kernel, *_, groups = case
    rng = np.random.default_rng(0)
    x = rng.standard_normal((n, c, *size))
    w = rng.standard_normal((o, c // groups, *kernel))
    return x.astype(dtype), w.astype(dtype)


@pytest.mark.parametrize("case", CASES, ids=str)
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_convolution_and_adjoints_equal_torch(case, dtype):
    x, w = operands(case, dtype)
    hyper = case[6:]
    function = getattr(F, f"conv{case[0]}d")
    xt, wt = torch.tensor(x, requires_grad=True), torch.tensor(w, requires_grad=True)
    expected = function(xt, wt, None, *hyper)
    tolerance = dict(rtol=1e-10, atol=1e-10) if dtype is np.float64 else dict(rtol=1e-3, atol=1e-3)
    y = conv.convolution(x, w, *hyper)
    assert y.dtype == dtype and y.flags.c_contiguous
    np.testing.assert_allclose(y, expected.detach().numpy(), **tolerance)
    g = np.random.default_rng(1).standard_normal(y.shape).astype(dtype)
    expected.backward(torch.tensor(g))
    gx = conv.convolution_grad_input(g, w, x.shape, *hyper)
    gw = conv.convolution_grad_weight(g, x, w.shape, *hyper)
    assert gx.dtype == gw.dtype == dtype and gx.flags.c_contiguous
    np.testing.assert_allclose(gx, xt.grad.numpy(), **tolerance)
    np.testing.assert_allclose(gw, wt.grad.numpy(), **tolerance)


@pytest.mark.parametrize("case", CASES, ids=str)
def test_the_three_kernels_are_one_trilinear_form(case):
    x, w = operands(case)
    hyper = case[6:]
    y = conv.convolution(x, w, *hyper)
    g = np.random.default_rng(2).standard_normal(y.shape)
    form = np.vdot(g, y)
    np.testing.assert_allclose(np.vdot(x, conv.convolution_grad_input(g, w, x.shape, *hyper)), form)
    np.testing.assert_allclose(np.vdot(w, conv.convolution_grad_weight(g, x, w.shape, *hyper)), form)


@pytest.mark.parametrize("nd", [1, 2, 3])
@pytest.mark.parametrize(
    ("stride", "padding", "output_padding", "dilation", "groups"),
    [(1, 0, 0, 1, 1), (2, 1, 1, 1, 1), (3, 0, 2, 2, 2), (1, 1, 1, 2, 1), (1, 2, 0, 1, 2), (2, 1, 0, 1, 2)],
)
def test_convolution_transpose_equals_torch(nd, stride, padding, output_padding, dilation, groups):
    rng = np.random.default_rng(0)
    x = rng.standard_normal((2, 4) + (5, 6, 4)[:nd])
    w = rng.standard_normal((4, 3) + (3, 2, 3)[:nd])
    function = getattr(F, f"conv_transpose{nd}d")
    xt, wt = torch.tensor(x, requires_grad=True), torch.tensor(w, requires_grad=True)
    try:
        expected = function(xt, wt, None, stride, padding, output_padding, groups, dilation)
    except RuntimeError:
        with pytest.raises(RuntimeError):
            conv.convolution_transpose(x, w, stride, padding, output_padding, dilation, groups)
        return
    y = conv.convolution_transpose(x, w, stride, padding, output_padding, dilation, groups)
    np.testing.assert_allclose(y, expected.detach().numpy(), atol=1e-12)
    g = rng.standard_normal(y.shape)
    expected.backward(torch.tensor(g))
    np.testing.assert_allclose(
        conv.convolution(g, w, stride, padding, dilation, groups, x.shape[2:]), xt.grad.numpy(), atol=1e-12
    )
    np.testing.assert_allclose(
        conv.convolution_grad_weight(x, g, w.shape, stride, padding, dilation, groups),
        wt.grad.numpy(),
        atol=1e-12,
    )


def test_low_precision_complex_integers_and_strided_inputs():
    import ml_dtypes

    rng = np.random.default_rng(0)
    x, w = rng.standard_normal((2, 3, 6, 6)), rng.standard_normal((4, 3, 3, 3))
    for dtype, other in [(np.float16, torch.float16), (ml_dtypes.bfloat16, torch.bfloat16)]:
        y = conv.convolution(x.astype(dtype), w.astype(dtype), 2, 1)
        expected = F.conv2d(torch.tensor(x).to(other), torch.tensor(w).to(other), None, 2, 1)
        assert y.dtype == dtype
        np.testing.assert_allclose(y.astype(np.float32), expected.float().numpy(), rtol=2e-2, atol=2e-2)
        back = conv.convolution_grad_input(y, w.astype(dtype), x.shape, 2, 1)
        assert back.dtype == dtype
    z = x + 1j * rng.standard_normal(x.shape)
    v = w + 1j * rng.standard_normal(w.shape)
    expected = F.conv2d(torch.tensor(z), torch.tensor(v))
    np.testing.assert_allclose(conv.convolution(z, v), expected.numpy(), atol=1e-12)
    i, k = (x * 9).astype(np.int64), (w * 9).astype(np.int64)
    expected = F.conv2d(torch.tensor(i).double(), torch.tensor(k).double(), padding=1)
    np.testing.assert_array_equal(conv.convolution(i, k, 1, 1), expected.numpy())
    turned = x.transpose(0, 1, 3, 2)
    expected = F.conv2d(torch.tensor(x).transpose(2, 3), torch.tensor(w))
    np.testing.assert_allclose(conv.convolution(turned, w), expected.numpy(), atol=1e-12)


def test_inputs_are_not_modified_and_results_do_not_alias():
    x = np.arange(16.0).reshape(1, 1, 4, 4)
    kept = x.copy()
    columns = conv.unfold(x, 4)
    columns += 1
    conv.convolution(x, np.ones((1, 1, 1, 1)))[...] = 5
    np.testing.assert_array_equal(x, kept)


@pytest.mark.parametrize(
    ("kernel", "dilation", "padding", "stride"), list(product([(2, 3)], [1, 2], [0, 1], [1, 2])) + [((1, 1), 1, 0, 1)]
)
def test_unfold_and_fold_equal_torch(kernel, dilation, padding, stride):
    x = np.random.default_rng(0).standard_normal((2, 3, 7, 8))
    expected = F.unfold(torch.tensor(x), kernel, dilation, padding, stride)
    y = conv.unfold(x, kernel, dilation, padding, stride)
    np.testing.assert_array_equal(y, expected.numpy())
    back = F.fold(expected, (7, 8), kernel, dilation, padding, stride)
    np.testing.assert_allclose(conv.fold(y, (7, 8), kernel, dilation, padding, stride), back.numpy(), atol=1e-12)


def test_errors_keep_the_words_people_search_for():
    x, w = np.zeros((1, 3, 4, 4)), np.zeros((2, 3, 3, 3))
    with pytest.raises(RuntimeError, match="expected input.*to have 2 channels, but got 3"):
        conv.convolution(x, w[:, :2])
    with pytest.raises(RuntimeError, match="Kernel size can't be greater than actual input size"):
        conv.convolution(x, np.zeros((2, 3, 5, 5)))
    with pytest.raises(RuntimeError, match="output padding must be smaller"):
        conv.convolution_transpose(np.zeros((1, 2, 4, 4)), w, output_padding=1)
    with pytest.raises(RuntimeError, match="divisible by the product of kernel_size"):
        conv.fold(np.zeros((1, 5, 9)), (4, 4), 2)
    with pytest.raises(RuntimeError, match="number of sliding blocks"):
        conv.fold(np.zeros((1, 4, 8)), (4, 4), 2)
