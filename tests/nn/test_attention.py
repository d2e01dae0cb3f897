"""Multi-head attention and Transformer layers: values, gradients, masks, initial values as PyTorch's."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
import torch

import flambeau


def pair(name, *args, **options):
    layers = []
    for lib in (torch, flambeau):
        lib.manual_seed(2)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            layers.append(getattr(lib.nn, name)(*args, **options))
    theirs, ours = layers
    assert repr(ours) == repr(theirs)
    assert list(ours.state_dict()) == list(theirs.state_dict())
    for a, b in zip(theirs.parameters(), ours.parameters(), strict=True):
        np.testing.assert_allclose(b.detach().numpy(), a.detach().numpy(), rtol=1e-6, atol=1e-7)
    return theirs, ours


def compare(theirs, ours, *args, **options):
    """Outputs and gradients, of arrays given as arguments."""
    results = []
    for layer, lib in ((theirs, torch), (ours, flambeau)):
        def given(value, lib=lib):
            return lib.tensor(value) if isinstance(value, np.ndarray) else value

        inputs = [given(a) for a in args]
        for t in inputs:
            t.requires_grad_(t.is_floating_point())
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            out = layer(*inputs, **{k: given(v) for k, v in options.items()})
        outs = [t for t in (out if isinstance(out, tuple) else (out,)) if t is not None]
        sum((t * lib.arange(t.numel()).reshape(t.shape).sin()).sum() for t in outs).backward()
        results.append([t.detach().numpy() for t in outs] + [t.grad.numpy() for t in inputs]
                       + [p.grad.numpy() for p in layer.parameters() if p.grad is not None])
    for a, b in zip(*results, strict=True):
        np.testing.assert_allclose(b, a, rtol=2e-4, atol=2e-5)


def values(*shape, seed=0):
    return np.random.default_rng(seed).standard_normal(shape).astype("f4")


CAUSAL = np.triu(np.ones((3, 3), bool), 1)
PADDING = np.array([[False, False, True], [False, True, True]])


@pytest.mark.parametrize("options", [
    {}, {"bias": False}, {"add_bias_kv": True}, {"add_zero_attn": True}, {"kdim": 3, "vdim": 5},
    {"add_bias_kv": True, "add_zero_attn": True}], ids=str)
@pytest.mark.parametrize("batch_first", [False, True])
def test_multihead_attention(options, batch_first):
    layers = pair("MultiheadAttention", 4, 2, batch_first=batch_first, **options)
    shape = (2, 3) if batch_first else (3, 2)
    q, k = values(*shape, 4), values(*shape, options.get("kdim", 4), seed=1)
    v = values(*shape, options.get("vdim", 4), seed=2)
    compare(*layers, q, k, v)
    compare(*layers, q, k, v, attn_mask=CAUSAL, key_padding_mask=PADDING)
    compare(*layers, q, k, v, attn_mask=values(4, 3, 3), average_attn_weights=False)
    extra = "add_bias_kv" in options or "add_zero_attn" in options      # PyTorch then hides the extra key from all
    compare(*layers, q, k, v, need_weights=False, attn_mask=CAUSAL, is_causal=not extra)
    compare(*layers, q[0], k[0], v[0])


@pytest.mark.parametrize("activation", ["relu", "gelu"])
@pytest.mark.parametrize("norm_first", [False, True])
def test_transformer_layers(activation, norm_first):
    options = {"dropout": 0.0, "activation": activation, "norm_first": norm_first, "layer_norm_eps": 1e-3}
    encoder = pair("TransformerEncoderLayer", 4, 2, 6, batch_first=True, **options)
    compare(*encoder, values(2, 3, 4), src_mask=CAUSAL, src_key_padding_mask=PADDING)
    compare(*encoder, values(3, 4))
    decoder = pair("TransformerDecoderLayer", 4, 2, 6, batch_first=True, bias=False, **options)
    compare(*decoder, values(2, 3, 4), values(2, 5, 4, seed=1), tgt_mask=CAUSAL, tgt_key_padding_mask=PADDING)
    for layer in (*encoder, *decoder):
        layer.eval()
    compare(*encoder, values(2, 3, 4))


def test_transformer():
    layers = pair("Transformer", 4, 2, 2, 2, 8, dropout=0.0)
    mask = flambeau.nn.Transformer.generate_square_subsequent_mask(3)
    assert mask.tolist() == torch.nn.Transformer.generate_square_subsequent_mask(3).tolist()
    compare(*layers, values(5, 2, 4), values(3, 2, 4, seed=1), tgt_mask=mask.numpy(),
            src_key_padding_mask=np.array([[False] * 4 + [True], [False] * 5]))


def test_dropout_draws_pytorchs_numbers(both):
    def run(lib):
        layer = lib.nn.TransformerEncoderLayer(4, 2, 6, dropout=0.3, batch_first=True)
        return layer(lib.ones(2, 3, 4)), lib.rand(1)

    both(run)


def test_encoder_blanks_padding_where_pytorch_skips_it():
    for_mode = []
    for lib in (torch, flambeau):
        lib.manual_seed(0)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            encoder = lib.nn.TransformerEncoder(lib.nn.TransformerEncoderLayer(4, 2, 6, batch_first=True), 2).eval()
            x, padding = lib.tensor(values(2, 3, 4)), lib.tensor(PADDING)
            with lib.no_grad():
                skipped = encoder(x, src_key_padding_mask=padding)
            for_mode.append((skipped.numpy(), encoder(x, src_key_padding_mask=padding).detach().numpy()))
    for a, b in zip(*for_mode, strict=True):
        np.testing.assert_allclose(b, a, atol=1e-5)
    assert not for_mode[1][0][0, 2].any()


def test_a_query_that_may_attend_to_nothing_spoils_no_gradient():
    layer = flambeau.nn.MultiheadAttention(4, 2, batch_first=True)
    x = flambeau.randn(1, 2, 4)
    out, weights = layer(x, x, x, attn_mask=flambeau.tensor([[False, False], [True, True]]))
    assert weights[0, 1].tolist() == [0.0, 0.0]
    out[:, 0].sum().backward()
    assert all(bool(flambeau.isfinite(p.grad).all()) for p in layer.parameters())


@pytest.mark.parametrize("attempt", [
    lambda lib: lib.nn.MultiheadAttention(5, 2), lambda lib: lib.nn.MultiheadAttention(0, 2),
    lambda lib: lib.nn.TransformerEncoderLayer(4, 2, 8, activation="foo"),
    lambda lib: lib.nn.MultiheadAttention(4, 2)(lib.ones(2, 3, 4), lib.ones(2, 3, 4), lib.ones(2, 3, 4), is_causal=True),
    lambda lib: lib.nn.MultiheadAttention(4, 2)(lib.ones(2, 3), lib.ones(2, 3, 4), lib.ones(2, 3, 4)),
    lambda lib: lib.nn.MultiheadAttention(4, 2)(*[lib.ones(2, 3, 4)] * 3, attn_mask=lib.zeros(3, 2)),
    lambda lib: lib.nn.Transformer(4, 2, 1, 1, 8)(lib.ones(3, 2, 4), lib.ones(5, 3, 4)),
    lambda lib: lib.nn.Transformer(4, 2, 1, 1, 8)(lib.ones(3, 2, 5), lib.ones(5, 2, 5)),
])
def test_errors_are_of_pytorchs_kinds(both, attempt):
    both(lambda lib: [attempt(lib) and 0])


def test_nested_tensors_that_are_not_used_are_pointed_out():
    with pytest.warns(UserWarning, match="nested tensors cannot be used here"):
        flambeau.nn.TransformerEncoder(flambeau.nn.TransformerEncoderLayer(4, 2, 8), 1)


def test_back_ends_are_accepted():
    from flambeau.nn.attention import SDPBackend, sdpa_kernel

    with sdpa_kernel([SDPBackend.MATH, SDPBackend.FLASH_ATTENTION]):
        assert flambeau.nn.functional.scaled_dot_product_attention(*[flambeau.ones(1, 2, 2)] * 3).shape == (1, 2, 2)
    with pytest.raises(AssertionError, match="SDPBackend"), sdpa_kernel("math"):
        pass
