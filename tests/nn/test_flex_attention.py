"""flex_attention and causal masks give PyTorch's numbers."""

from __future__ import annotations

import importlib

import pytest
import torch

import flambeau
from flambeau.nn.attention import bias, flex_attention


def tools(lib):
    return importlib.import_module(lib.__name__ + ".nn.attention.flex_attention")


SCORES = {
    "none": lambda lib: None,
    "distance": lambda lib: lambda score, b, h, q, k: score + (k - q) * 0.1,
    "alibi": lambda lib: lambda score, b, h, q, k: score - lib.exp2(-(h + 1) * 8.0 / 4) * (q - k),
    "cap": lambda lib: lambda score, b, h, q, k: 2.0 * lib.tanh(score / 2.0),
    "table": lambda lib: (lambda table: lambda score, b, h, q, k: score + table[q, k])(lib.arange(24.0).view(4, 6) / 10),
    "where": lambda lib: lambda score, b, h, q, k: lib.where((q + h) >= k, score, -float("inf")),
}
MASKS = {
    "none": None, "causal": lambda b, h, q, k: q >= k, "window": lambda b, h, q, k: (q - k).abs() <= 1,
    "by batch": lambda b, h, q, k: k <= b * 2 + h, "blind rows": lambda b, h, q, k: (q >= k) & (q > 1),
}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("mask", MASKS)
@pytest.mark.parametrize("score", SCORES)
def test_values(both, score, mask):
    """PyTorch has no backward of it on the CPU."""
    def run(lib):
        t = tools(lib)
        q = lib.linspace(-1, 1, 2 * 4 * 4 * 8).view(2, 4, 4, 8)
        k = lib.linspace(1, -1, 2 * 4 * 6 * 8).view(2, 4, 6, 8).sin()
        v = lib.linspace(-1, 1, 2 * 4 * 6 * 5).view(2, 4, 6, 5)
        block = None if MASKS[mask] is None else t.create_block_mask(MASKS[mask], 2, 4, 4, 6, device="cpu")
        out, lse = t.flex_attention(q, k, v, SCORES[score](lib), block, return_lse=True)
        return [out, lse.masked_fill(lse.isinf(), -99)]

    both(run, 2e-5)


@pytest.mark.parametrize("mask", MASKS)
def test_gradients(mask):
    block = None if MASKS[mask] is None else flex_attention.create_block_mask(MASKS[mask], 1, 2, 3, 4)
    inputs = [flambeau.linspace(-1, 1, 2 * n * 3, dtype=flambeau.float64).sin().view(1, 2, n, 3).requires_grad_()
              for n in (3, 4, 4)]

    def attended(q, k, v):
        return flex_attention.flex_attention(q, k, v, lambda s, b, h, i, j: s * 0.5 + (i - j) * 0.1, block)

    assert flambeau.autograd.gradcheck(attended, inputs)


@pytest.mark.filterwarnings("ignore")
def test_grouped_heads_scale_and_masks(both):
    def run(lib):
        t = tools(lib)
        q, k = lib.linspace(-1, 1, 64).view(1, 4, 4, 4), lib.linspace(-1, 1, 32).view(1, 2, 4, 4)
        causal, near = (lambda b, h, q, k: q >= k), (lambda b, h, q, k: (q - k) < 2)
        block = t.create_block_mask(t.and_masks(causal, near), None, None, 4, 4, device="cpu")
        either = t.or_masks(causal, near)
        return [t.flex_attention(q, k, k, scale=0.3, enable_gqa=True), t.flex_attention(q, q, q, block_mask=block),
                t.create_mask(either, 2, None, 3, 5, device="cpu").long(), list(block.shape), block.to_dense().long(),
                t.create_mask(lambda s, b, h, q, k: s + q - k, None, 2, 2, 3, device="cpu"),
                block.sparsity()]

    both(run)


def test_refused(both):
    def heads(lib):
        tools(lib).flex_attention(lib.ones(1, 4, 2, 2), lib.ones(1, 2, 2, 2), lib.ones(1, 2, 2, 2))

    def dims(lib):
        tools(lib).flex_attention(lib.ones(4, 2, 2), lib.ones(4, 2, 2), lib.ones(4, 2, 2))

    both(heads)
    both(dims)
    with pytest.raises(ValueError, match="same number of heads"):
        heads(flambeau)
    block = flex_attention.create_block_mask(flex_attention.noop_mask, None, None, 2, 3)
    with pytest.raises(ValueError, match="block_mask was created for"):
        flex_attention.flex_attention(*(flambeau.ones(1, 1, 2, 2),) * 3, block_mask=block)


def test_largest_scores_and_everything_seen():
    q = flambeau.ones(1, 1, 2, 4)
    block = flex_attention.create_block_mask(flex_attention.noop_mask, None, None, 2, 2)
    out, aux = flex_attention.flex_attention(q, q, q, block_mask=block,
                                             return_aux=flex_attention.AuxRequest(lse=True, max_scores=True))
    assert out.tolist() == q.tolist()
    assert aux.max_scores.tolist() == [[[2.0, 2.0]]]
    flambeau.testing.assert_close(aux.lse, flambeau.full((1, 1, 2), 2.0) + flambeau.tensor(2.0).log())


@pytest.mark.parametrize("kind", ["causal_upper_left", "causal_lower_right"])
@pytest.mark.parametrize("size", [(3, 3), (2, 5), (5, 2)])
def test_causal_masks(both, kind, size):
    def run(lib):
        made = getattr(importlib.import_module(lib.__name__ + ".nn.attention.bias"), kind)(*size)
        q, k = lib.linspace(-1, 1, size[0] * 4).view(1, 1, -1, 4), lib.linspace(-1, 1, size[1] * 4).view(1, 1, -1, 4)
        out = lib.nn.functional.scaled_dot_product_attention(q, k, k, attn_mask=made)
        return out[..., max(size[0] - size[1], 0):, :]       # rows that see no key differ among PyTorch's own back ends

    both(run)
    with pytest.raises(AssertionError, match="2D"):
        getattr(bias, kind)(3)
    assert torch.nn.attention.bias.CausalVariant.LOWER_RIGHT == bias.CausalVariant.LOWER_RIGHT
