"""Operators on sparse tensors give PyTorch's values, positions and layouts."""

from __future__ import annotations

import pytest
import torch

import flambeau

pytestmark = pytest.mark.filterwarnings("ignore:Sparse (CSR|CSC|BSR) tensor support", "ignore:Sparse invariant checks")


def s(lib):
    return lib.sparse_coo_tensor(lib.tensor([[0, 1, 1], [2, 0, 2]]), lib.tensor([3., -4., 5.]), (2, 4))


def other(lib):
    return lib.sparse_coo_tensor(lib.tensor([[0, 0, 1], [2, 3, 3]]), lib.tensor([0.5, 2., 3.]), (2, 4))


def unsorted(lib):
    return lib.sparse_coo_tensor(lib.tensor([[1, 0, 1, 0], [2, 0, 2, 3]]), lib.tensor([3., 4., 5., 6.]), (2, 4))


def h(lib):
    return lib.sparse_coo_tensor(lib.tensor([[0, 1, 1], [2, 0, 2]]), lib.arange(6.).reshape(3, 2), (2, 4, 2))


def d(lib):
    return lib.arange(8.).reshape(2, 4) + 1


def m(lib):
    return lib.arange(12.).reshape(4, 3)


def c(lib):
    return s(lib).to_sparse_csr()


def inplace(t, name, *args, **kwargs):
    t = t.clone()
    assert getattr(t, name)(*args, **kwargs) is t
    return t


UNARY = """abs neg sign sin sinh asinh tan tanh atan sqrt expm1 log1p floor ceil round trunc relu erf square isnan isinf
    deg2rad"""
CASES = {f"{name} {make.__name__}": lambda lib, name=name, make=make: getattr(make(lib), name)()
         for name in UNARY.split() for make in (s, unsorted)}
CASES |= {
    "s + s": lambda lib: s(lib) + other(lib), "s - s": lambda lib: s(lib) - other(lib),
    "coalesced + coalesced": lambda lib: s(lib).coalesce() + other(lib).coalesce(),
    "unsorted + s": lambda lib: unsorted(lib) + s(lib), "s + unsorted": lambda lib: s(lib) + unsorted(lib),
    "add alpha": lambda lib: lib.add(s(lib), other(lib), alpha=2), "integers": lambda lib: s(lib) + other(lib).long(),
    "d + s": lambda lib: d(lib) + s(lib), "d - s": lambda lib: d(lib) - s(lib),
    "d + unsorted": lambda lib: d(lib) + unsorted(lib),
    "d + alpha s": lambda lib: lib.add(d(lib), s(lib), alpha=2), "d + c": lambda lib: d(lib) + c(lib),
    "c + d": lambda lib: c(lib) + d(lib), "c + c": lambda lib: c(lib) + c(lib), "h + h": lambda lib: h(lib) + h(lib),
    "s * s": lambda lib: s(lib) * other(lib), "s * unsorted": lambda lib: s(lib).coalesce() * unsorted(lib),
    "s * d": lambda lib: s(lib) * d(lib), "d * s": lambda lib: d(lib) * s(lib),
    "s * row": lambda lib: s(lib) * d(lib)[0],
    "s * 2": lambda lib: s(lib) * 2, "2 * s": lambda lib: 2 * s(lib), "s * scalar": lambda lib: s(lib) * lib.tensor(2.),
    "c * 2": lambda lib: c(lib) * 2, "c * d": lambda lib: c(lib) * d(lib), "c * c": lambda lib: c(lib) * c(lib),
    "s / 2": lambda lib: s(lib) / 2, "s // 2": lambda lib: s(lib) // 2, "s ** 2": lambda lib: s(lib) ** 2,
    "c neg": lambda lib: -c(lib), "c sin": lambda lib: c(lib).sin(),
    "mm": lambda lib: lib.mm(s(lib), m(lib)), "@": lambda lib: s(lib) @ m(lib),
    "spmm": lambda lib: lib.spmm(s(lib), m(lib)),
    "mv": lambda lib: lib.mv(s(lib), m(lib)[:, 0]), "@ v": lambda lib: s(lib) @ m(lib)[:, 0],
    "unsorted @": lambda lib: unsorted(lib) @ m(lib), "d @ s": lambda lib: d(lib) @ s(lib).t(),
    "c @": lambda lib: c(lib) @ m(lib),
    "d @ c": lambda lib: d(lib) @ c(lib).t(), "sparse.mm": lambda lib: lib.sparse.mm(s(lib), m(lib)),
    "sparse.mm d s": lambda lib: lib.sparse.mm(d(lib), s(lib).t()), "s @ s": lambda lib: s(lib) @ s(lib).t(),
    "unsorted @ s": lambda lib: lib.sparse.mm(unsorted(lib), s(lib).t()), "smm": lambda lib: lib.smm(s(lib), m(lib)),
    "addmm": lambda lib: lib.addmm(lib.ones(2, 3), s(lib), m(lib), beta=2, alpha=3),
    "addmm row": lambda lib: lib.addmm(lib.ones(3), s(lib), m(lib)),
    "addmm c": lambda lib: lib.addmm(lib.ones(2, 3), c(lib), m(lib)),
    "sparse.addmm": lambda lib: lib.sparse.addmm(lib.ones(2, 3), s(lib), m(lib), beta=2, alpha=3),
    "bmm": lambda lib: lib.bmm(lib.stack([s(lib), other(lib)]), lib.stack([m(lib), m(lib)])),
    "sampled": lambda lib: lib.sparse.sampled_addmm(c(lib), lib.ones(2, 5), lib.ones(5, 4), beta=0.5, alpha=2.),
    "linear": lambda lib: lib.nn.functional.linear(s(lib), lib.ones(3, 4), lib.ones(3)),
    "sum": lambda lib: s(lib).sum(), "sparse.sum": lambda lib: lib.sparse.sum(s(lib)),
    "sum 0": lambda lib: lib.sparse.sum(s(lib), 0), "sum -1": lambda lib: lib.sparse.sum(unsorted(lib), -1),
    "sum (0, 1)": lambda lib: lib.sparse.sum(s(lib), (0, 1)),
    "sum dtype": lambda lib: lib.sparse.sum(s(lib), 0, dtype=lib.float64),
    "sum keepdim": lambda lib: s(lib).sum(0, keepdim=True), "csr sum keepdim": lambda lib: c(lib).sum(1, keepdim=True),
    "h sum 2": lambda lib: lib.sparse.sum(h(lib), 2), "h sum (0, 2)": lambda lib: lib.sparse.sum(h(lib), (0, 2)),
    "h sum (0, 1)": lambda lib: lib.sparse.sum(h(lib), (0, 1)), "norm": lambda lib: s(lib).norm(),
    "any": lambda lib: s(lib).any(),
    "softmax 1": lambda lib: lib.sparse.softmax(s(lib), 1),
    "softmax 0": lambda lib: lib.sparse.softmax(unsorted(lib), 0),
    "log_softmax": lambda lib: lib.sparse.log_softmax(s(lib), 1),
    "softmax dense": lambda lib: lib.sparse.softmax(h(lib), 2),
    "softmax hybrid": lambda lib: lib.sparse.softmax(h(lib), 1),
    "softmax dtype": lambda lib: lib.sparse.softmax(s(lib), 1, dtype=lib.float64),
    "index_select": lambda lib: s(lib).index_select(1, lib.tensor([2, 0, 2])),
    "index_select h": lambda lib: h(lib).index_select(2, lib.tensor([1, 0, 1])),
    "[1]": lambda lib: s(lib)[1], "[1, 2]": lambda lib: s(lib)[1, 2], "select h": lambda lib: h(lib).select(2, 1),
    "csr[1]": lambda lib: c(lib)[1], "unbind": lambda lib: lib.stack(list(s(lib))),
    "cat": lambda lib: lib.cat([s(lib), other(lib)]), "cat 1": lambda lib: lib.cat([s(lib), other(lib)], 1),
    "stack": lambda lib: lib.stack([s(lib), other(lib)], -1), "cat h": lambda lib: lib.cat([h(lib), h(lib)], 2),
    "mask": lambda lib: d(lib).sparse_mask(s(lib).coalesce()),
    "mask s": lambda lib: other(lib).sparse_mask(s(lib).coalesce()),
    "mask csr": lambda lib: d(lib).sparse_mask(c(lib)), "t": lambda lib: s(lib).t(), "T": lambda lib: s(lib).T,
    "transpose": lambda lib: h(lib).transpose(0, 1), "permute": lambda lib: h(lib).permute(1, 0, 2),
    "csr t": lambda lib: c(lib).t(),
    "unsqueeze": lambda lib: s(lib).unsqueeze(1), "unsqueeze h": lambda lib: h(lib).unsqueeze(-1),
    "double": lambda lib: s(lib).double(), "to": lambda lib: c(lib).to(lib.int64), "bool": lambda lib: s(lib).bool(),
    "complex": lambda lib: s(lib).to(lib.complex64) * 1j, "conj": lambda lib: (s(lib).to(lib.complex64) * 1j).conj(),
    "add_": lambda lib: inplace(s(lib), "add_", other(lib), alpha=2),
    "sub_": lambda lib: inplace(s(lib), "sub_", other(lib)),
    "mul_": lambda lib: inplace(s(lib), "mul_", 2), "div_": lambda lib: inplace(s(lib), "div_", 2),
    "zero_": lambda lib: inplace(s(lib), "zero_"), "copy_": lambda lib: inplace(s(lib), "copy_", other(lib)),
    "d.add_(s)": lambda lib: inplace(d(lib), "add_", s(lib), alpha=-1),
    "d.add_(u)": lambda lib: inplace(d(lib), "add_", unsorted(lib)),
    "d.sub_(s)": lambda lib: inplace(d(lib), "sub_", s(lib)), "d.mul_(s)": lambda lib: inplace(d(lib), "mul_", s(lib)),
    "mul_ d": lambda lib: inplace(s(lib), "mul_", d(lib)), "neg_": lambda lib: inplace(s(lib), "neg_"),
}


@pytest.mark.parametrize("name", CASES)
def test_value_positions_and_layout(name):
    theirs, ours = (CASES[name](lib) for lib in (torch, flambeau))
    assert ours.layout is getattr(flambeau, str(theirs.layout).removeprefix("torch."))
    assert str(ours.dtype) == str(theirs.dtype) and tuple(ours.shape) == tuple(theirs.shape)
    if ours.is_sparse:
        assert ours._indices().tolist() == theirs._indices().tolist()
        ours, theirs = ours._values(), theirs._values()
    elif ours.layout is not flambeau.strided:
        ours, theirs = ours.to_dense(), theirs.to_dense()
    torch.testing.assert_close(torch.tensor(ours.tolist(), dtype=theirs.dtype), theirs, equal_nan=True)


def test_a_large_product_is_the_dense_one():
    flambeau.manual_seed(0)
    dense = flambeau.randn(200, 150) * (flambeau.rand(200, 150) < 0.05)
    x = flambeau.randn(150, 30)
    for sparse in (dense.to_sparse(), dense.to_sparse_csr(), dense.to_sparse_csc(), dense.to_sparse_bsr((10, 5))):
        flambeau.testing.assert_close(sparse @ x, dense @ x)
        flambeau.testing.assert_close(x.t() @ sparse.t(), x.t() @ dense.t())
        flambeau.testing.assert_close((sparse @ sparse.t()).to_dense(), dense @ dense.t())


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float64", "complex64", "int64"])
def test_products_in_other_dtypes(dtype):
    d_ = getattr(flambeau, dtype)
    out = s(flambeau).to(d_) @ m(flambeau).to(d_)
    assert out.dtype is d_ and out.to(flambeau.complex64).real.tolist() == (s(flambeau) @ m(flambeau)).tolist()


def test_products_without_scipy(monkeypatch):
    from flambeau.kernels import sparse_products

    expected = (s(flambeau) @ m(flambeau)).tolist(), (unsorted(flambeau) @ m(flambeau)[:, 1]).tolist()
    monkeypatch.setattr(sparse_products, "_scipy", lambda: None)
    assert (s(flambeau) @ m(flambeau)).tolist() == expected[0]
    assert (unsorted(flambeau) @ m(flambeau)[:, 1]).tolist() == expected[1]
