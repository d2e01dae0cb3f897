"""How results lie in memory: `.stride()` of functions whose result keeps, or does not keep, the order of its input."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import flambeau

RNG = np.random.default_rng(0)
A, B = RNG.normal(size=(3, 4, 5)).astype(np.float32), RNG.normal(size=(2, 4, 4)).astype(np.float32)
SIGNAL = RNG.normal(size=(4, 40)).astype(np.float32)
IMAGE = RNG.normal(size=(2, 3, 4, 5)).astype(np.float32)


def turned(library, array):
    """Two last dimensions exchanged in memory."""
    return library.tensor(np.ascontiguousarray(np.swapaxes(array, -1, -2))).transpose(-1, -2)


PROGRAMS = {
    "masked_fill": lambda L: turned(L, A).masked_fill(L.arange(5) > 2, 0.0),
    "var": lambda L: turned(L, A).var(0), "std_mean": lambda L: L.std_mean(turned(L, A), 0),
    "prod": lambda L: turned(L, A).prod(0), "quantile": lambda L: turned(L, A).quantile(L.tensor([0.2, 0.5]), 1),
    "renorm": lambda L: turned(L, A).renorm(2, 1, 0.5), "repeat": lambda L: turned(L, A).repeat(1, 1, 1),
    "tile": lambda L: turned(L, A).tile((1,)), "nonzero": lambda L: (turned(L, A) > 0).nonzero(),
    "argwhere": lambda L: L.argwhere(turned(L, A) > 0), "rot90": lambda L: L.rot90(turned(L, A)),
    "rot90 back": lambda L: L.rot90(L.tensor(A), -1, (1, 2)), "sort": lambda L: turned(L, A).sort(0),
    "argsort": lambda L: turned(L, A).argsort(1), "multinomial": lambda L: turned(L, abs(A[0])).multinomial(3),
    "batch_norm": lambda L: L.nn.functional.batch_norm(turned(L, A), None, None, training=True),
    "batch_norm channels last": lambda L: L.nn.functional.batch_norm(
        L.tensor(IMAGE).to(memory_format=L.channels_last), None, None, training=True),
    "instance_norm": lambda L: L.nn.functional.instance_norm(turned(L, A)),
    "unique_consecutive": lambda L: L.unique_consecutive(L.tensor(A[0]), dim=-1),
    "float of the same dtype": lambda L: turned(L, A[0]).float(memory_format=L.contiguous_format),
    "fft": lambda L: L.fft.fft(L.tensor(A), dim=1), "fft turned": lambda L: L.fft.fft(turned(L, A)),
    "fftn": lambda L: L.fft.fftn(turned(L, A)), "rfft": lambda L: L.fft.rfft(L.tensor(A), dim=0),
    "rfft2": lambda L: L.fft.rfft2(turned(L, A)), "irfft2": lambda L: L.fft.irfft2(L.fft.rfft2(turned(L, A)), (4, 6)),
    "hfft": lambda L: L.fft.hfft(L.tensor(A), dim=1),
    "stft": lambda L: L.stft(turned(L, SIGNAL), 8, window=L.ones(8), return_complex=True),
    "inv": lambda L: L.linalg.inv(L.tensor(B)), "solve": lambda L: L.linalg.solve(L.tensor(B), L.tensor(B[..., :2].copy())),
    "cholesky": lambda L: L.linalg.cholesky(L.tensor(B @ B.swapaxes(1, 2) + np.eye(4, dtype=np.float32))),
    "qr": lambda L: L.linalg.qr(L.tensor(A)), "svd": lambda L: L.linalg.svd(L.tensor(A)),
    "geqrf": lambda L: L.geqrf(L.tensor(A)),
    "eigh": lambda L: L.linalg.eigh(L.tensor(B)), "eig": lambda L: L.linalg.eig(L.tensor(B)),
    "lu_factor": lambda L: L.linalg.lu_factor(L.tensor(A)), "lu": lambda L: L.linalg.lu(L.tensor(A)),
    "ldl_factor": lambda L: L.linalg.ldl_factor(L.tensor(B + B.swapaxes(1, 2))),
    "matrix_power": lambda L: L.linalg.matrix_power(L.tensor(B), -1),
}


def strides(result):
    results = result if isinstance(result, (tuple, list)) else (result,)
    return [[step for step, size in zip(t.stride(), t.shape, strict=True) if size > 1] for t in results]


@pytest.mark.parametrize("name", PROGRAMS)
def test_strides_are_pytorchs(name):
    assert strides(PROGRAMS[name](flambeau)) == strides(PROGRAMS[name](torch))


LAYOUTS = {
    "permuted": lambda L: L.tensor(A).permute(2, 1, 0), "some rows": lambda L: L.tensor(A)[:, 1:3].permute(2, 0, 1),
    "expanded": lambda L: L.tensor(A[0, 0]).expand(4, 5),
    "expanded in the middle": lambda L: L.tensor(A[:, :1]).expand(3, 4, 5),
    "channels last": lambda L: L.tensor(IMAGE).to(memory_format=L.channels_last),
}
REDUCTIONS = ("sum", "mean", "prod", "amax", "amin", "any", "all", "logsumexp", "norm", "nansum", "count_nonzero", "argmax",
              "max")
POINTWISE = ("sigmoid", "exp", "neg", "half", "double", "long", "bool", "isnan", "angle", "erfinv", "sort")


@pytest.mark.parametrize("layout", LAYOUTS)
def test_reductions_are_row_major(layout):
    for name in REDUCTIONS:
        for dim in range(LAYOUTS[layout](torch).dim()):
            for convert in ("float", "half", "long"):
                if convert == "long" and name in ("mean", "norm", "logsumexp"):
                    continue
                ours, theirs = (getattr(getattr(LAYOUTS[layout](L), convert)(), name)(dim=dim) for L in (flambeau, torch))
                assert strides(ours) == strides(theirs), (name, dim, convert)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_elementwise_results_follow_their_operand(layout):
    for name in POINTWISE:
        for convert in ("float", "half", "long"):
            ours, theirs = (getattr(getattr(LAYOUTS[layout](L), convert)(), name)() for L in (flambeau, torch))
            assert strides(ours) == strides(theirs), (name, convert)
    for function in (lambda L, x: L.nn.functional.gelu(x), lambda L, x: L.nn.functional.hardshrink(x),
                     lambda L, x: L.complex(x, x * 2), lambda L, x: L.add(x, x, out=L.empty(0)),
                     lambda L, x: x.index_fill(0, L.tensor([0]), 1.0), lambda L, x: x.index_put((L.tensor([0]),), x[0]),
                     lambda L, x: L.nn.functional.dropout(x), lambda L, x: L.rand_like(x), lambda L, x: x.bernoulli(0.5)):
        assert strides(function(flambeau, LAYOUTS[layout](flambeau))) == strides(function(torch, LAYOUTS[layout](torch)))


def test_products_of_matrices_are_row_major():
    for program in (lambda a, b, L: a.t() @ b, lambda a, b, L: L.mm(a.t(), b), lambda a, b, L: L.outer(a.t()[0], b[0]),
                    lambda a, b, L: L.bmm(a[None].transpose(1, 2), b[None]),
                    lambda a, b, L: L.nn.functional.linear(a.t(), b.t())):
        ours, theirs = (program(L.tensor(A[0]), L.tensor(A[1]), L) for L in (flambeau, torch))
        assert strides(ours) == strides(theirs)
        assert ours.view(-1).shape == theirs.view(-1).shape


def test_dropout_of_an_expanded_tensor_draws_the_same_mask():
    for L in (flambeau, torch):
        L.manual_seed(0)
    ours, theirs = (L.nn.functional.dropout(L.ones(5).expand(4, 5)) for L in (flambeau, torch))
    assert ours.tolist() == theirs.tolist()
