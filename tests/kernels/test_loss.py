"""Loss, CTC and embedding kernels against torch: values, gradients, edge cases, errors."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from flambeau.kernels import ctc, embedding, loss

F = torch.nn.functional


@pytest.fixture(autouse=True)
def quiet():
    with np.errstate(all="ignore"):  # as the kernels' callers do
        yield


@pytest.mark.parametrize("shape", [(5,), (6, 5), (6, 5, 4), (2, 5, 3, 2), (0, 5)], ids=str)
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("reduction", ["none", "mean", "sum"])
@pytest.mark.parametrize("ignore_index", [-100, 2, 9])
def test_nll_loss_and_its_adjoint_equal_torch(shape, weighted, reduction, ignore_index):
    rng = np.random.default_rng(0)
    x = rng.standard_normal(shape)
    target = rng.integers(0, 5, shape[:1] + shape[2:] if len(shape) > 1 else ())
    if ignore_index not in range(5) and target.size > 1:
        target.flat[1] = ignore_index
    weight = rng.random(5) if weighted else None
    xt = torch.tensor(x, requires_grad=True)
    wt = None if weight is None else torch.tensor(weight)
    expected = F.nll_loss(xt, torch.tensor(target), wt, reduction=reduction, ignore_index=ignore_index)
    out, total = loss.nll_loss(x, target, weight, reduction, ignore_index)
    assert out.shape == tuple(expected.shape)
    np.testing.assert_allclose(out, expected.detach().numpy())
    g = rng.standard_normal(out.shape)
    expected.backward(torch.tensor(g))
    gx = loss.nll_loss_backward(np.asarray(g), x.shape, target, weight, reduction, ignore_index, total)
    np.testing.assert_allclose(gx, xt.grad.numpy())


def test_nll_loss_of_nothing_and_of_infinity():
    x = np.array([[-np.inf, 0.0], [0.0, -np.inf]])
    out, total = loss.nll_loss(x, np.array([-100, -100]), None, "mean", -100)
    assert np.isnan(out) and total == 0
    out, _ = loss.nll_loss(x, np.array([0, -100]), None, "none", -100)
    np.testing.assert_array_equal(out, [np.inf, 0])
    out, _ = loss.nll_loss(x, np.array([0, 1]), None, "none", 0)
    np.testing.assert_array_equal(out, [0, np.inf])
    half, total = loss.nll_loss(x.astype(np.float16), np.array([1, 0], np.uint8), None, "mean", -100)
    assert half.dtype == total.dtype == np.float16


@pytest.mark.parametrize(("label", "shown"), [(7, "Target 7 is out of bounds"), (-1, "Target -1 is out of bounds")])
def test_nll_loss_names_the_label_and_the_classes(label, shown):
    with pytest.raises(IndexError, match=f"{shown}: classes go from 0 to 4.*target\\[1\\]"):
        loss.nll_loss(np.zeros((3, 5)), np.array([0, label, 2]), None, "mean", -100)
    with pytest.raises(ValueError, match=r"input batch_size \(3\) to match target batch_size \(2\)"):
        loss.nll_loss(np.zeros((3, 5)), np.array([0, 2]), None, "mean", -100)
    with pytest.raises(RuntimeError, match=r"Expected target size \[2, 4\], got \[2, 3\]"):
        loss.nll_loss(np.zeros((2, 3, 4)), np.zeros((2, 3), np.int64), None, "mean", -100)
    with pytest.raises(RuntimeError, match="defined either for all 5 classes or no classes"):
        loss.nll_loss(np.zeros((1, 5)), np.zeros(1, np.int64), np.ones(4), "mean", -100)


ELEMENTWISE = {
    "bce_with_logits": (
        lambda x, t: F.binary_cross_entropy_with_logits(x, t, reduction="none"),
        lambda x, t: loss.bce_with_logits(x, t, None),
        lambda g, x, t: loss.bce_with_logits_backward(g, x, t, None),
    ),
    "bce_with_logits_pos_weight": (
        lambda x, t: F.binary_cross_entropy_with_logits(x, t, None, None, None, "none", torch.full((7,), 3.0).to(x)),
        lambda x, t: loss.bce_with_logits(x, t, np.full(7, 3.0, x.dtype)),
        lambda g, x, t: loss.bce_with_logits_backward(g, x, t, np.full(7, 3.0, x.dtype)),
    ),
    "smooth_l1": (
        lambda x, t: F.smooth_l1_loss(x, t, reduction="none", beta=0.7),
        lambda x, t: loss.smooth_l1(x, t, 0.7),
        lambda g, x, t: loss.smooth_l1_backward(g, x, t, 0.7),
    ),
    "smooth_l1_without_beta": (
        lambda x, t: F.smooth_l1_loss(x, t, reduction="none", beta=0.0),
        lambda x, t: loss.smooth_l1(x, t, 0.0),
        lambda g, x, t: loss.smooth_l1_backward(g, x, t, 0.0),
    ),
    "huber": (
        lambda x, t: F.huber_loss(x, t, reduction="none", delta=0.7),
        lambda x, t: loss.huber(x, t, 0.7),
        lambda g, x, t: loss.huber_backward(g, x, t, 0.7),
    ),
    "kl_div": (
        lambda x, t: F.kl_div(x, t, reduction="none"),
        lambda x, t: loss.kl_div(x, t, False),
        lambda g, x, t: loss.kl_div_backward(g, t, False),
    ),
    "kl_div_log_target": (
        lambda x, t: F.kl_div(x, t, reduction="none", log_target=True),
        lambda x, t: loss.kl_div(x, t, True),
        lambda g, x, t: loss.kl_div_backward(g, t, True),
    ),
}


@pytest.mark.parametrize("name", ELEMENTWISE)
@pytest.mark.parametrize("dtype", [np.float64, np.float32, np.float16])
def test_elementwise_losses_and_gradients_equal_torch(name, dtype):
    reference, forward, backward = ELEMENTWISE[name]
    rng = np.random.default_rng(0)
    x = (rng.standard_normal((5, 7)) * 3).astype(dtype)
    x[0, :3] = [90, -90, 0]
    t = rng.random((5, 7)).astype(dtype)
    t[1, :2] = [0, 1]
    g = rng.standard_normal((5, 7)).astype(dtype)
    xt = torch.tensor(x, requires_grad=True)
    expected = reference(xt, torch.tensor(t))
    expected.backward(torch.tensor(g))
    tolerance = {np.float64: 1e-12, np.float32: 2e-6, np.float16: 4e-3}[dtype]
    out, gx = forward(x, t), backward(g, x, t)
    assert out.dtype == gx.dtype == dtype
    np.testing.assert_allclose(out, expected.detach().numpy(), rtol=tolerance, atol=tolerance)
    np.testing.assert_allclose(gx, xt.grad.numpy(), rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_bce_clamps_logarithms_as_torch(dtype):
    rng = np.random.default_rng(0)
    x, t, g = [rng.random((5, 7)).astype(dtype) for _ in range(3)]
    x[0, :4], t[0, :4] = [0, 1, 0, 1], [1, 0, 0, 1]
    xt = torch.tensor(x, requires_grad=True)
    expected = F.binary_cross_entropy(xt, torch.tensor(t), reduction="none")
    expected.backward(torch.tensor(g))
    np.testing.assert_allclose(loss.bce(x, t), expected.detach().numpy(), rtol=2e-6)
    np.testing.assert_allclose(loss.bce_backward(g, x, t), xt.grad.numpy(), rtol=2e-6)
    for wrong in (1.5, -0.1, np.nan):
        with pytest.raises(RuntimeError, match="between 0 and 1"):
            loss.bce(np.array([0.5, wrong]), np.zeros(2))


CTC_CASES = {
    "padded": ([[1, 2, 2], [3, 0, 0], [1, 1, 3]], [7, 5, 6], [3, 1, 3]),
    "impossible": ([[1, 2, 2], [3, 0, 0], [1, 1, 1]], [3, 3, 4], [3, 1, 3]),
    "empty targets": ([[1, 2, 3], [0, 0, 0], [2, 0, 0]], [7, 7, 1], [0, 0, 1]),
    "concatenated": ([1, 2, 2, 3, 1, 2], [7, 6, 2], [3, 1, 2]),
}


@pytest.mark.parametrize("case", CTC_CASES)
@pytest.mark.parametrize("zero_infinity", [False, True])
def test_ctc_loss_and_gradient_equal_torch(case, zero_infinity):
    targets, input_lengths, target_lengths = CTC_CASES[case]
    rng = np.random.default_rng(0)
    lp = torch.tensor(rng.standard_normal((7, 3, 4))).log_softmax(2).requires_grad_()
    tensors = [torch.tensor(v) for v in (targets, input_lengths, target_lengths)]
    expected = F.ctc_loss(lp, *tensors, 0, "none", zero_infinity)
    g = rng.standard_normal(3)
    expected.backward(torch.tensor(g))
    arguments = [np.array(targets), input_lengths, target_lengths]
    x = lp.detach().numpy()
    out, alpha = ctc.ctc_loss(x, *arguments, 0, zero_infinity)
    np.testing.assert_allclose(out, expected.detach().numpy(), atol=1e-12)
    gradient = ctc.ctc_loss_backward(g, x, *arguments, out, alpha, 0, zero_infinity)
    np.testing.assert_allclose(gradient, lp.grad.numpy(), atol=1e-12)


def test_ctc_blank_elsewhere_and_float32():
    rng = np.random.default_rng(0)
    lp = torch.tensor(rng.standard_normal((50, 4, 20)).astype(np.float32)).log_softmax(2).requires_grad_()
    targets, lengths = rng.integers(0, 19, (4, 12)), [12, 3, 7, 9]
    expected = F.ctc_loss(lp, torch.tensor(targets), [50, 50, 30, 40], lengths, 19, "none")
    expected.sum().backward()
    x = lp.detach().numpy()
    out, alpha = ctc.ctc_loss(x, targets, [50, 50, 30, 40], lengths, 19, False)
    gradient = ctc.ctc_loss_backward(np.ones(4, np.float32), x, targets, [50, 50, 30, 40], lengths, out, alpha, 19, False)
    assert out.dtype == gradient.dtype == np.float32
    np.testing.assert_allclose(out, expected.detach().numpy(), rtol=1e-5)
    np.testing.assert_allclose(gradient, lp.grad.numpy(), atol=1e-4)


def test_ctc_errors_keep_the_words_people_search_for():
    x, targets = np.zeros((5, 2, 4)), np.array([[1, 2], [3, 1]])
    with pytest.raises(RuntimeError, match="input_lengths to have value at most 5, but got value 6"):
        ctc.ctc_loss(x, targets, [6, 5], [2, 2], 0, False)
    with pytest.raises(RuntimeError, match="blank must be in label range"):
        ctc.ctc_loss(x, targets, [5, 5], [2, 2], 4, False)
    with pytest.raises(RuntimeError, match="Expected targets to have size at least"):
        ctc.ctc_loss(x, targets, [5, 5], [3, 2], 0, False)
    with pytest.raises(RuntimeError, match="labels from 0 to 3"):
        ctc.ctc_loss(x, targets + 2, [5, 5], [2, 2], 0, False)


@pytest.mark.parametrize("vocabulary", [1, 3, 50, 1000])
@pytest.mark.parametrize("padding", [-1, 0])
@pytest.mark.parametrize("by_frequency", [False, True])
def test_embedding_and_its_adjoint_equal_torch(vocabulary, padding, by_frequency):
    rng = np.random.default_rng(0)
    indices = (rng.random((8, 25)) ** 3 * vocabulary).astype(np.int64)  # some rows far more often than others
    weight = rng.standard_normal((vocabulary, 6))
    g = rng.standard_normal((8, 25, 6))
    np.testing.assert_array_equal(embedding.embedding(weight, indices), weight[indices])
    expected = torch.ops.aten.embedding_dense_backward(
        torch.tensor(g), torch.tensor(indices), vocabulary, padding, by_frequency
    )
    out = embedding.embedding_dense_backward(g, indices, vocabulary, padding, by_frequency)
    np.testing.assert_allclose(out, expected.numpy(), atol=1e-12)


def test_embedding_edges():
    weight = np.arange(6.0).reshape(3, 2)
    assert embedding.embedding(weight, np.array(1)).shape == (2,)
    assert embedding.embedding(weight, np.zeros((0, 4), np.int32)).shape == (0, 4, 2)
    empty = embedding.embedding_dense_backward(np.zeros((0, 2)), np.zeros(0, np.int64), 3, -1, False)
    np.testing.assert_array_equal(empty, np.zeros((3, 2)))
    half = embedding.embedding_dense_backward(np.ones((600, 2), np.float16), np.zeros(600, np.int32), 1, -1, False)
    assert half.dtype == np.float16 and half[0, 0] == 600
    for wrong in (5, -1):
        with pytest.raises(IndexError, match=rf"index out of range in self: index {wrong}, at indices\[1\]"):
            embedding.embedding(weight, np.array([0, wrong]))
