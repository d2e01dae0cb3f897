"""Result dtypes under autocast are PyTorch's, function by function."""

from __future__ import annotations

import warnings

import pytest
import torch

import flambeau
import flambeau.nn

# Functions of L (the library), F (nn.functional), a (2, 2) and v (2,) in float32, h in the lower dtype
CASES = """
L.dot(v, v)                                     L.vdot(v, v)
L.inner(v, v)                                   L.inner(a, a)
L.inner(L.ones(()), a)                          L.tensordot(a, a, 0)
L.tensordot(a, a, 1)                            L.tensordot(a, a, 2)
v @ v                                           a @ v
a @ a                                           a @ h
a.double() @ a.double()                         L.outer(v, v)
L.addmv(v, a, v)                                L.addr(a, v, v)
L.addbmm(a, b, b)                               L.baddbmm(b, b, b)
L.addmm(h, a, a)                                L.mm(a, a, out=L.empty(2, 2))
L.chain_matmul(a, a, a)                         L.linalg.multi_dot([a, a, v])
L.linalg.matrix_power(a, 3)                     L.linalg.matrix_exp(a)
L.einsum("ij,jk->ik", a, a)                     L.einsum("i,i->", v, v)
L.cat([a, h])                                   L.stack([a, h])
L.index_copy(a, 0, L.tensor([0]), h[:1])        L.nn.Bilinear(2, 2, 3)(a, a)
L.cdist(h, h)                                   F.cosine_similarity(h, h)
h.prod()                                        h.prod(0)
h.sum()                                         h.softmax(0)
h.log_softmax(0)                                h.logsumexp(0)
h.exp()                                         h ** 2
h.norm()                                        a * h
a.clone().add_(h)                               F.layer_norm(h, (2,))
L.nn.BatchNorm1d(2)(h)                          L.nn.GroupNorm(1, 2)(h)
F.binary_cross_entropy(h.clamp(0, 0.5), h)      F.mse_loss(h, h)
F.cross_entropy(h, L.tensor([0, 1]))            F.nll_loss(h, L.tensor([0, 1]))
F.l1_loss(h, h)                                 F.smooth_l1_loss(h, h)
F.kl_div(h, h)                                  F.triplet_margin_loss(h, h, h)
F.margin_ranking_loss(v, v, v)                  F.gelu(h)
F.scaled_dot_product_attention(c, c, c)         L.nn.MultiheadAttention(2, 2)(b, b, b)
L.nn.TransformerEncoderLayer(2, 2)(b)           L.nn.TransformerEncoderLayer(2, 2).eval()(b)
F.interpolate(c.bfloat16(), scale_factor=2)     F.grid_sample(c.bfloat16(), L.ones(1, 2, 2, 2).bfloat16())
L.nn.Conv2d(1, 2, 3)(c)                         L.nn.ConvTranspose1d(4, 2, 3)(c[0])
L.nn.PReLU()(a)                                 F.linear(h, a)
F.avg_pool3d(d, 2)                              F.avg_pool2d(c.bfloat16(), 2)
F.max_pool3d(d, 2)                              F.max_pool3d(d, 2, return_indices=True)
F.adaptive_avg_pool2d(c.bfloat16(), 2)          F.adaptive_avg_pool3d(d, 2)
F.max_unpool1d(h[:1], L.tensor([[0, 2]]), 2)    F.unfold(c.bfloat16(), 2)
L.linalg.svd(h)                                 L.linalg.inv(L.eye(2).bfloat16())
L.linalg.solve(L.eye(2).bfloat16(), h)          L.linalg.det(L.eye(2))
L.linalg.pinv(a)                                L.linalg.pinv(a, hermitian=True)
L.linalg.pinv(a.double())                       L.pinverse(a)
L.linalg.pinv(b)                                L.linalg.matrix_rank(h)
L.linalg.cond(L.eye(2).bfloat16())              L.linalg.lstsq(a, a)[0]
L.linalg.norm(h)                                L.linalg.norm(a, "nuc")
L.linalg.householder_product(a, v)              L.linalg.solve_triangular(L.eye(2), a, upper=True)
L.cholesky_solve(a, L.eye(2))                   L.polar(a, a)
L.cov(a)                                        L.corrcoef(a)
L.fft.fft(h)                                    L.stft(L.ones(16), 8, return_complex=True)
L.nn.Embedding(3, 2)(L.tensor([0]))             L.nn.EmbeddingBag(3, 2)(L.tensor([[0, 1]]))
L.trapezoid(h)                                  h.renorm(2, 0, 1.0)
F.pairwise_distance(h, h)                       L.quantile(a, 0.5)
L.nn.LSTMCell(2, 3)(a)                          L.nn.LSTMCell(2, 3)(h)
L.nn.LSTMCell(2, 3)(a, (h2, h2))                L.nn.GRUCell(2, 3)(a)
L.nn.RNNCell(2, 3)(a)                           L.nn.LSTM(2, 3)(b)
L.nn.GRU(2, 3)(b)                               L.nn.RNN(2, 3)(b)
L.nn.LSTM(2, 3)(packed)[0].data                 L.nn.GRU(2, 3)(packed)[0].data
"""
CALLS = [call.strip() for line in CASES.strip().split("\n") for call in (line[:48], line[48:])]


def dtypes(value):
    """The dtypes and shapes of a result."""
    if isinstance(value, (tuple, list)):
        return tuple(dtypes(v) for v in value)
    return f"{str(value.dtype).split('.')[-1]}{tuple(value.shape)}"


def result(lib, call, low):
    dtype, pack = getattr(lib, low), lib.nn.utils.rnn.pack_sequence
    a, v, b = lib.ones(2, 2), lib.ones(2), lib.ones(3, 2, 2)
    names = dict(L=lib, F=lib.nn.functional, a=a, v=v, b=b, c=lib.ones(1, 1, 4, 4), d=lib.ones(1, 1, 4, 4, 4).to(dtype),
                 h=a.to(dtype), h2=lib.ones(2, 3).to(dtype), packed=pack([lib.ones(3, 2), lib.ones(2, 2)]))
    with warnings.catch_warnings(), lib.autocast("cpu", dtype=dtype):
        warnings.simplefilter("ignore")
        try:
            return dtypes(eval(call, names))
        except RuntimeError:
            return "refused"


@pytest.mark.parametrize("low", ["bfloat16", "float16"])
@pytest.mark.parametrize("call", CALLS)
def test_result_dtype(call, low):
    expected, got = result(torch, call, low), result(flambeau, call, low)
    if expected == "refused":                       # PyTorch's kernel of the LSTM knows no float16: flambeau's does
        assert (call, low) == ("L.nn.LSTM(2, 3)(b)", "float16")
        assert got == (("float16(3, 2, 3)", ("float16(1, 2, 3)", "float16(1, 2, 3)")))
    else:
        assert got == expected


def test_pinv_under_autocast_is_near_the_pseudo_inverse():
    a = flambeau.tensor([[1.0, 2.0], [3.0, 5.0], [2.0, 4.5]], requires_grad=True)
    with flambeau.autocast("cpu"):
        found = flambeau.linalg.pinv(a)
    assert found.dtype is flambeau.bfloat16
    # bfloat16 has 8 bits: the result is rounded by up to 2**-8 = 4e-3 of it, the elements by less than that of the largest
    flambeau.testing.assert_close(found.float(), flambeau.linalg.pinv(a), rtol=4e-3, atol=4e-3)
    found.float().sum().backward()
    assert a.grad.dtype is flambeau.float32
