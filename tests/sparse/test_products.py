"""Products that reduce, sparse rows, narrow_copy, and how sparse tensors look in an f-string, against PyTorch."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
import torch

import flambeau

INDICES = [[0, 0, 1, 3, 3, 3], [0, 2, 1, 0, 1, 2]]
VALUES = [0.5, -1.0, 2.0, 3.0, -0.25, 1.5]


def matrix(lib, grad=False):
    values = lib.tensor(VALUES, dtype=lib.float64, requires_grad=grad)
    return values, lib.sparse_coo_tensor(lib.tensor(INDICES), values, (4, 3))


def dense(lib, *shape):
    return lib.tensor(np.random.RandomState(0).randn(*shape))


def both(program):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        want = program(torch)
    for x, y in zip(program(flambeau), want, strict=True):
        np.testing.assert_allclose(x.detach().numpy(), y.detach().numpy(), rtol=1e-12)


@pytest.mark.parametrize("reduce", ["sum", "mean", "amax", "amin"])
def test_products_of_csr_matrices_reduce(reduce):
    def program(lib):
        values = lib.tensor(VALUES, dtype=lib.float64, requires_grad=True)
        rows = lib.tensor([0, 2, 3, 3, 6])
        csr = lib.sparse_csr_tensor(rows, lib.tensor(INDICES[1]), values, (4, 3))
        x = dense(lib, 3, 2).requires_grad_()
        out = lib.sparse.mm(csr, x, reduce)
        (out * dense(lib, 4, 2)).sum().backward()
        return out, values.grad, x.grad

    both(program)


def test_reducing_products_refuse_other_layouts_and_words():
    _, s = matrix(flambeau)
    with pytest.raises(NotImplementedError, match="sparse_csr"):
        flambeau.sparse.mm(s, dense(flambeau, 3, 2), "mean")
    with pytest.raises(ValueError, match="reduce"):
        flambeau.sparse.mm(s.to_sparse_csr(), dense(flambeau, 3, 2), "median")


def test_hspmm_holds_the_rows_that_are_there():
    both(lambda lib: [lib.hspmm(matrix(lib)[1], dense(lib, 3, 2)).to_dense()])
    out = flambeau.hspmm(matrix(flambeau)[1], dense(flambeau, 3, 2))
    assert (out.sparse_dim(), out.dense_dim(), out.indices().tolist()) == (1, 1, [[0, 1, 3]])


def test_sspaddmm():
    both(lambda lib: [lib.sspaddmm(matrix(lib)[1], matrix(lib)[1], dense(lib, 3, 3), beta=0.5, alpha=2).to_dense()])
    with pytest.raises(RuntimeError, match="sparse"):
        flambeau.sspaddmm(dense(flambeau, 4, 3), matrix(flambeau)[1], dense(flambeau, 3, 3))


@pytest.mark.parametrize("args", [(0, 1, 2), (1, 0, 2), (1, 2, 0), (0, 3, 1)])
def test_narrow_copy(args):
    both(lambda lib: [matrix(lib)[1].narrow_copy(*args).to_dense()])


def test_narrow_copy_refuses_what_does_not_fit():
    with pytest.raises(RuntimeError, match="exceeds dimension size"):
        matrix(flambeau)[1].narrow_copy(0, 3, 2)


def test_text_strides_and_order_are_pytorchs():
    ours, theirs = matrix(flambeau)[1], matrix(torch)[1]
    assert f"{ours}" == f"{theirs}"
    assert ours.stride() == theirs.stride() == (0, 0)
    assert ours.is_contiguous() is theirs.is_contiguous() is False
