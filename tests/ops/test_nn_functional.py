"""nn.functional against PyTorch: what the records' samples do not show (warnings, messages, state, random streams)."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
import torch
import torch.nn.functional as TF

import flambeau
import flambeau.nn.functional as F

torch.set_num_threads(1)


def both(*shape, seed=0, grad=False):
    values = np.random.RandomState(seed).randn(*shape).astype("float32")
    return flambeau.tensor(values, requires_grad=grad), torch.tensor(values, requires_grad=grad)


def close(ours, theirs, tolerance=1e-5):
    np.testing.assert_allclose(ours.detach().numpy(), theirs.detach().numpy(), rtol=tolerance, atol=tolerance)


def test_softmax_without_dim_warns_and_picks_pytorchs_dimension():
    for shape in ((3,), (2, 3), (2, 3, 4), (2, 3, 4, 5)):
        ours, theirs = both(*shape)
        with pytest.warns(UserWarning, match="Implicit dimension choice for softmax"):
            got = F.softmax(ours)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            close(got, TF.softmax(theirs))


@pytest.mark.parametrize("name", ["mse_loss", "l1_loss", "smooth_l1_loss", "huber_loss"])
def test_losses_of_different_sizes_warn_with_both(name):
    ours, _ = both(3, 1)
    with pytest.warns(UserWarning, match=r"target size \(torch.Size\(\[3\]\)\).*input size \(torch.Size\(\[3, 1\]\)\)"):
        getattr(F, name)(ours, flambeau.zeros(3))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        getattr(F, name)(ours, flambeau.zeros(3, 1))


@pytest.mark.parametrize("name", ["mse_loss", "l1_loss", "huber_loss"])
@pytest.mark.parametrize("reduction", ["none", "mean", "sum"])
def test_weighted_losses_agree(name, reduction):
    (a, ta), (b, tb) = both(3, 4, seed=1), both(3, 4, seed=2)
    w = np.random.RandomState(3).rand(3, 4).astype("float32")
    close(getattr(F, name)(a, b, weight=flambeau.tensor(w), reduction=reduction),
          getattr(TF, name)(ta, tb, weight=torch.tensor(w), reduction=reduction))
    with pytest.raises(ValueError, match="same size"):
        getattr(F, name)(a, b, weight=flambeau.ones(4))


@pytest.mark.parametrize("flags, reduction", [({"size_average": False}, "sum"), ({"reduce": False}, "none")])
def test_old_reduction_flags_warn_and_work(flags, reduction):
    (a, _), (b, _) = both(3, seed=1), both(3, seed=2)
    with pytest.warns(UserWarning, match=f"write reduction='{reduction}'"):
        got = F.mse_loss(a, b, **flags)
    assert flambeau.equal(got, F.mse_loss(a, b, reduction=reduction))


def test_cross_entropy_of_ignored_targets_only_is_nan_and_says_so():
    scores = flambeau.zeros(2, 3, requires_grad=True)
    with pytest.warns(UserWarning, match="all targets equal ignore_index=-100"):
        loss = F.cross_entropy(scores, flambeau.tensor([-100, -100]))
    loss.backward()
    assert loss.isnan().item()
    assert flambeau.equal(scores.grad, flambeau.zeros(2, 3))


@pytest.mark.parametrize("target", [[0, 3, 1], [0, -1, 1]])
def test_a_target_that_is_no_class_is_named_with_the_range(target):
    scores, _ = both(3, 3)
    with pytest.raises(IndexError, match=rf"Target {[t for t in target if t not in (0, 1)][0]} is out of bounds.*0 to 2"):
        F.cross_entropy(scores, flambeau.tensor(target))


@pytest.mark.parametrize("shape, target", [((4, 3), (4,)), ((2, 3, 4), (2, 4)), ((2, 3, 2, 2), (2, 2, 2)), ((3,), ())])
@pytest.mark.parametrize("smoothing", [0.0, 0.2])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("reduction", ["none", "mean", "sum"])
def test_cross_entropy_agrees(shape, target, smoothing, weighted, reduction):
    ours, theirs = both(*shape, grad=True)
    labels = np.random.RandomState(4).randint(0, 3, target)
    w = np.array([0.5, 1.0, 2.0], "float32") if weighted else None
    kw = {"label_smoothing": smoothing, "reduction": reduction, "ignore_index": 1}
    a = F.cross_entropy(ours, flambeau.tensor(labels), None if w is None else flambeau.tensor(w), **kw)
    b = TF.cross_entropy(theirs, torch.tensor(labels), None if w is None else torch.tensor(w), **kw)
    close(a, b)
    a.sum().backward()
    b.sum().backward()
    close(ours.grad, theirs.grad)


def test_graphs_show_pytorchs_names():
    x, _ = both(2, 3, 8, 8, grad=True)
    w = flambeau.ones(4, 3, 3, 3)
    names = [F.conv2d(x, w), F.max_pool2d(x, 2), F.avg_pool2d(x, 2), F.batch_norm(x, None, None, training=True),
             F.layer_norm(x, (8,)), F.group_norm(x, 3), F.cross_entropy(x[:, :, 0, 0], flambeau.tensor([0, 1])),
             F.mse_loss(x, x.detach()), F.interpolate(x, scale_factor=2), F.unfold(x, 2)]
    assert [t.grad_fn.name() for t in names] == [
        "ConvolutionBackward0", "MaxPool2DWithIndicesBackward0", "AvgPool2DBackward0", "NativeBatchNormBackward0",
        "NativeLayerNormBackward0", "NativeGroupNormBackward0", "NllLossBackward0", "MseLossBackward0",
        "UpsampleNearest2DBackward0", "Im2ColBackward0"]


def test_images_stored_channels_last_are_recognised():
    with pytest.raises(RuntimeError, match=r"input\[8, 28, 28, 3\] to have 3 channels, but got 28 "
                                           r"channels.*permute\(0, 3, 1, 2\)"):
        F.conv2d(flambeau.zeros(8, 28, 28, 3), flambeau.zeros(4, 3, 3, 3))


@pytest.mark.parametrize("k, dilation", [(3, 1), (4, 1), (2, 3)])
def test_same_padding_keeps_the_size(k, dilation):
    (x, tx), (w, tw) = both(2, 3, 9, seed=1), both(4, 3, k, seed=2)
    got = F.conv1d(x, w, padding="same", dilation=dilation)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        close(got, TF.conv1d(tx, tw, padding="same", dilation=dilation))


def test_batch_norm_moves_running_statistics_in_place():
    x, tx = both(4, 3, 5)
    mean, var, tmean, tvar = flambeau.zeros(3), flambeau.ones(3), torch.zeros(3), torch.ones(3)
    for _ in range(2):
        close(F.batch_norm(x, mean, var, training=True, momentum=0.3),
              TF.batch_norm(tx, tmean, tvar, training=True, momentum=0.3))
    close(mean, tmean)
    close(var, tvar)
    assert mean._version == 2
    with pytest.raises(ValueError, match="running_var go together"):
        F.batch_norm(x, mean, None, training=True)


def test_instance_norm_moves_running_statistics():
    x, tx = both(4, 3, 5)
    mean, var, tmean, tvar = flambeau.zeros(3), flambeau.ones(3), torch.zeros(3), torch.ones(3)
    close(F.instance_norm(x, mean, var), TF.instance_norm(tx, tmean, tvar))
    close(mean, tmean)
    close(var, tvar)


def test_embedding_renormalises_long_rows_in_place():
    table, ttable = both(5, 3)
    table, ttable = table * 3, ttable * 3
    index = [0, 2, 2]
    close(F.embedding(flambeau.tensor(index), table, max_norm=1.0), TF.embedding(torch.tensor(index), ttable, max_norm=1.0))
    close(table, ttable)


def test_attention_gives_zeros_where_nothing_may_be_attended_to():
    q, _ = both(1, 3, 4, grad=True)
    mask = flambeau.tensor([[True, True, False], [False, False, False], [True, True, True]])
    out = F.scaled_dot_product_attention(q, q, q, attn_mask=mask)
    assert flambeau.equal(out[0, 1], flambeau.zeros(4))
    out.sum().backward()
    assert flambeau.isfinite(q.grad).all()


@pytest.mark.parametrize("need_weights", [True, False])
@pytest.mark.parametrize("masks", ["none", "padding", "attention", "both"])
def test_multi_head_attention_agrees(need_weights, masks):
    names = {"query": (3, 2, 4), "key": (5, 2, 4), "in_w": (12, 4), "in_b": (12,), "out_w": (4, 4), "out_b": (4,),
             "bias_k": (1, 1, 4), "bias_v": (1, 1, 4)}
    pairs = {n: both(*s, seed=i) for i, (n, s) in enumerate(names.items())}
    padding = np.array([[False] * 4 + [True], [False] * 5])
    attention = np.triu(np.ones((3, 5), bool), 4)

    def run(library, functional, side):
        v = {n: p[side] for n, p in pairs.items()}
        kw = {}
        if masks in ("padding", "both"):
            kw["key_padding_mask"] = library.tensor(padding)
        if masks in ("attention", "both"):
            kw["attn_mask"] = library.tensor(attention)
        return functional.multi_head_attention_forward(
            v["query"], v["key"], v["key"], 4, 2, v["in_w"], v["in_b"], v["bias_k"], v["bias_v"], True, 0.0, v["out_w"],
            v["out_b"], need_weights=need_weights, **kw)

    (out, weights), (tout, tweights) = run(flambeau, F, 0), run(torch, TF, 1)
    close(out, tout)
    assert (weights is None) == (tweights is None)
    if weights is not None:
        close(weights, tweights)


def test_fractional_pooling_draws_as_pytorch():
    x, tx = both(2, 3, 9, 8)
    flambeau.manual_seed(3)
    torch.manual_seed(3)
    close(F.fractional_max_pool2d(x, 2, output_size=(4, 3)), TF.fractional_max_pool2d(tx, 2, output_size=(4, 3)))


SMOOTH = [("linear", (1, 2, 7), 4), ("bilinear", (1, 2, 5, 6), (9, 3)), ("bicubic", (1, 2, 5, 6), (9, 3)),
          ("trilinear", (1, 1, 3, 4, 2), 5)]
STEPS = [("nearest", (1, 2, 7), 4), ("nearest-exact", (1, 2, 5, 6), (3, 11)), ("area", (1, 2, 5, 6), 2)]


@pytest.mark.parametrize("mode, shape, size, align",
                         [(*m, a) for m in SMOOTH for a in (None, True, False)] + [(*m, None) for m in STEPS])
def test_interpolate_agrees(mode, shape, size, align):
    ours, theirs = both(*shape, grad=True)
    a = F.interpolate(ours, size, mode=mode, align_corners=align)
    b = TF.interpolate(theirs, size, mode=mode, align_corners=align)
    close(a, b)
    a.square().sum().backward()
    b.square().sum().backward()
    close(ours.grad, theirs.grad, 1e-4)


@pytest.mark.parametrize("mode", ["bilinear", "bicubic"])
def test_antialiased_interpolation_agrees(mode):
    x, tx = both(1, 2, 11, 9)
    close(F.interpolate(x, (4, 5), mode=mode, antialias=True), TF.interpolate(tx, (4, 5), mode=mode, antialias=True))


def test_max_pool_gives_the_same_without_gradients():
    x, _ = both(2, 3, 9, 9, grad=True)
    with flambeau.no_grad():
        plain = F.max_pool2d(x, 3, 2, 1)
    assert flambeau.equal(plain, F.max_pool2d(x, 3, 2, 1))


@pytest.mark.parametrize("call", [
    lambda torch, F: F.binary_cross_entropy(torch.ones(3, 1) * 0.5, torch.zeros(3)),
    lambda torch, F: F.binary_cross_entropy_with_logits(torch.ones(3, 1), torch.zeros(3)),
    lambda torch, F: F.nll_loss(torch.ones(3, 2), torch.zeros(3)),
    lambda torch, F: F.nll_loss(torch.ones(3, 2), torch.zeros(2).long()),
    lambda torch, F: F.conv2d(torch.ones(1, 3, 4, 4).double(), torch.ones(1, 3, 2, 2)),
    lambda torch, F: F.max_pool2d(torch.ones(1, 3, 4, 4), 9),
    lambda torch, F: F.batch_norm(torch.ones(1, 3), None, None, training=True),
    lambda torch, F: F.layer_norm(torch.ones(2, 3), (4,)),
    lambda torch, F: F.embedding(torch.tensor([7]), torch.ones(2, 3)),
    lambda torch, F: F.embedding(torch.tensor([1.0]), torch.ones(2, 3)),
    lambda torch, F: F.multi_margin_loss(torch.ones(2, 3), torch.tensor([0, 5])),
    lambda torch, F: F.interpolate(torch.ones(1, 1, 3)),
    lambda torch, F: F.softmax(torch.ones(3).long(), 0),
    lambda torch, F: F.cross_entropy(torch.ones(2, 3), torch.ones(2, 3).long()),
    lambda torch, F: F.mse_loss(torch.ones(2), torch.ones(2), reduction="some"),
])
def test_wrong_calls_raise_pytorchs_types(call):
    with pytest.raises(Exception) as theirs:
        call(torch, TF)
    with pytest.raises(type(theirs.value)):
        call(flambeau, F)


def test_rms_norm_of_half_lets_its_input_be_written():
    for library in (flambeau, torch):
        x = library.ones(2, 3, dtype=library.bfloat16, requires_grad=True)
        h = x * 1
        y = library.nn.functional.rms_norm(h, (3,), library.ones(3, dtype=library.bfloat16))
        h += y                                  # backward needs the float32 copy of h only
        h.sum().backward()
        assert x.grad.dtype == library.bfloat16 and x.grad.tolist() == [[1.0] * 3] * 2
