"""Gradients through sparse tensors: PyTorch's values and layouts, gradcheck, second derivatives, accumulation, hooks."""

from __future__ import annotations

import pytest
import torch

import flambeau

pytestmark = pytest.mark.filterwarnings("ignore:Sparse (CSR|CSC|BSR) tensor support", "ignore:Sparse invariant checks")


def s(lib):
    return lib.sparse_coo_tensor(lib.tensor([[0, 1, 1], [2, 0, 2]]), lib.tensor([3., 4., 5.]), (2, 4)).requires_grad_()


def twice(lib):
    return lib.sparse_coo_tensor([[1, 0, 1], [2, 0, 2]], [3., 4., 5.], (2, 4)).requires_grad_()


def c(lib):
    return s(lib).detach().to_sparse_csr().requires_grad_()


def m(lib):
    return (lib.arange(12.).reshape(4, 3) / 3).requires_grad_()


def d(lib):
    return (lib.arange(8.).reshape(2, 4) + 1).requires_grad_()


SPARSE = {      # the gradient of the sparse input is sparse
    "sparse.mm": (lambda lib, a, b: lib.sparse.mm(a, b), (s, twice, c), m),
    "sparse.addmm": (lambda lib, a, b: lib.sparse.addmm(lib.ones(2, 3), a, b, alpha=2), (s, twice, c), m),
    "to_dense": (lambda lib, a: a.to_dense(), (s, twice, c), None),
    "coalesce, values": (lambda lib, a: a.coalesce().values(), (s, twice), None),
    "values": (lambda lib, a: a.values(), (c,), None),
    "sparse.sum": (lambda lib, a: lib.sparse.sum(a), (s, twice), None),
    "sparse.sum 0": (lambda lib, a: lib.sparse.sum(a, 0), (s, twice), None),
    "softmax": (lambda lib, a: lib.sparse.softmax(a, 1), (s, twice), None),
    "log_softmax": (lambda lib, a: lib.sparse.log_softmax(a, 1), (s,), None),
    "t": (lambda lib, a: a.t(), (s, twice, c), None),
    "* 2": (lambda lib, a: a * 2, (s, twice, c), None),
    "/ 2": (lambda lib, a: a / 2, (s, twice), None),
    "neg": (lambda lib, a: -a, (s, twice, c), None),
    "** 2": (lambda lib, a: a ** 2, (s, twice), None),
    "relu": (lambda lib, a: a.relu(), (s, twice, c), None),
    "double": (lambda lib, a: a.double(), (s, twice, c), None),
    "clone": (lambda lib, a: a.clone(), (s, twice, c), None),
    "s + s": (lambda lib, a: a + a, (s, twice, c), None),
    "s * s": (lambda lib, a: a * a, (s, twice, c), None),
    "s * d": (lambda lib, a, b: a * b, (s, twice), d),
    "sampled": (lambda lib, a: lib.sparse.sampled_addmm(a, lib.ones(2, 5), lib.ones(5, 4), beta=2), (c,), None),
}
DENSE = {       # it is dense, as in PyTorch
    "mm": (lambda lib, a, b: lib.mm(a, b), (s, twice, c), m),
    "@ vector": (lambda lib, a, b: a @ b[:, 0], (s, twice, c), m),
    "dense @ sparse": (lambda lib, a, b: b.t()[:, :2] @ a, (s, twice), m),
    "dense + sparse": (lambda lib, a, b: b + a, (s, twice, c), d),
}


def gradients(lib, fn, first, second):
    inputs = [make(lib) for make in (first, second) if make is not None]
    out = fn(lib, *inputs)
    (out.to_dense() ** 2).sum().backward()
    return [x.grad for x in inputs]


@pytest.mark.parametrize("name, first", [(n, f) for n, case in {**SPARSE, **DENSE}.items() for f in case[1]],
                         ids=lambda x: x if isinstance(x, str) else x.__name__)
def test_gradients_are_pytorchs(name, first):
    fn, _, second = {**SPARSE, **DENSE}[name]
    theirs, ours = (gradients(lib, fn, first, second) for lib in (torch, flambeau))
    assert str(ours[0].layout) == str(theirs[0].layout)
    assert (ours[0].layout is not flambeau.strided) == (name in SPARSE)
    for mine, other in zip(ours, theirs, strict=True):
        torch.testing.assert_close(torch.tensor(mine.to_dense().tolist()), other.to_dense(), check_dtype=False)


def test_the_gradient_has_the_positions_of_the_tensor():
    a = s(flambeau)
    flambeau.sparse.mm(a, m(flambeau)).sum().backward()
    assert a.grad.indices().tolist() == a.detach().coalesce().indices().tolist()
    values = flambeau.tensor([1., 2.], requires_grad=True)
    dense = flambeau.sparse_coo_tensor([[1, 1]], values, (3,)).to_dense()
    (dense * flambeau.tensor([1., 5., 1.])).sum().backward()
    assert dense.tolist() == [0., 3., 0.] and values.grad.tolist() == [5., 5.]


@pytest.mark.parametrize("make", [
    lambda v, x: flambeau.sparse.mm(v, x), lambda v, x: v @ x, lambda v, x: x.t() @ v.t(),
    lambda v, x: flambeau.mv(v, x[:, 0]),
    lambda v, x: flambeau.sparse.mm(v, v.t()).to_dense(), lambda v, x: flambeau.sparse.softmax(v, 1).to_dense(),
    lambda v, x: (v * v).sum(0).to_dense(), lambda v, x: (x.t() * x.t()[:1]).sum() + (v.sin() + v).to_dense(),
    lambda v, x: flambeau.cat([v, v], 1).index_select(1, flambeau.tensor([5, 2])).to_dense(),
    lambda v, x: v[1].to_dense(),
    lambda v, x: flambeau.stack([v, v * 2]).transpose(0, 2).to_dense(),
    lambda v, x: x.t()[:2].sparse_mask(v).to_dense(),
    lambda v, x: (x.t()[:2] + v) ** 2, lambda v, x: (v * x.t()[:2]).to_dense(),
    lambda v, x: v.to_sparse_csr().t().to_dense(),
    lambda v, x: v.to_dense().to_sparse_bsr((1, 2)).to_dense()])
@pytest.mark.parametrize("dtype", ["float64", "complex128"])
def test_first_and_second_derivatives(make, dtype):
    flambeau.manual_seed(0)
    pattern = flambeau.tensor([[0, 1, 1], [2, 0, 2]])

    def fn(values, x):
        return make(flambeau.sparse_coo_tensor(pattern, values, (2, 4), is_coalesced=None).coalesce(), x)

    d_ = getattr(flambeau, dtype)
    inputs = (flambeau.randn(3, dtype=d_, requires_grad=True), flambeau.randn(4, 3, dtype=d_, requires_grad=True))
    assert flambeau.autograd.gradcheck(fn, inputs)
    assert flambeau.autograd.gradgradcheck(fn, inputs)


def test_sparse_gradcheck():
    check = flambeau.sparse.as_sparse_gradcheck(flambeau.autograd.gradcheck)
    a = s(flambeau).detach().double().requires_grad_()
    assert check(flambeau.sparse.mm, (a, flambeau.ones(4, 2, dtype=flambeau.float64, requires_grad=True)), masked=True)


def test_gradients_accumulate():
    for lib in (torch, flambeau):
        a = s(lib)
        (a * 2).to_dense().sum().backward()
        a.to_dense().sum().backward()
        assert a.grad.to_dense().tolist() == [[0., 0., 3., 0.], [3., 0., 3., 0.]] and a.grad._nnz() == 3
        (lib.ones(2, 4) + a).sum().backward()           # a dense one makes it dense
        assert a.grad.layout is lib.strided and a.grad.tolist() == [[1., 1., 4., 1.], [4., 1., 4., 1.]]


def test_hooks_and_grad_see_sparse_gradients():
    a, seen = s(flambeau), []
    a.register_hook(lambda g: seen.append(g.is_sparse) or g * 3)
    out = a.to_dense().sum()
    assert flambeau.autograd.grad(out, a, retain_graph=True)[0].to_dense().sum().item() == 9.0
    out.backward()
    assert seen == [True, True] and a.grad.coalesce().values().tolist() == [3., 3., 3.]


def test_recorded_backward_gives_sparse_gradients():
    a = s(flambeau)
    g, = flambeau.autograd.grad((a.to_dense() ** 3).sum(), a, create_graph=True)
    assert g.is_sparse and g.requires_grad
    g.to_dense().sum().backward()
    assert a.grad.to_dense().tolist() == (6 * a.detach().to_dense()).tolist()


def test_writes_are_noticed():
    a = s(flambeau) * 2
    product = a @ m(flambeau)
    a.mul_(3)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        product.sum().backward()


def test_recorded_writes():
    for lib in (torch, flambeau):
        a = s(lib)
        b = a * 1
        b.mul_(2)
        b.to_dense().sum().backward()
        assert a.grad.to_dense().tolist() == [[0., 0., 2., 0.], [2., 0., 2., 0.]]


def test_modules_with_sparse_inputs_learn():
    losses = []
    for lib in (torch, flambeau):
        lib.manual_seed(0)
        net = lib.nn.Sequential(lib.nn.Linear(4, 3), lib.nn.ReLU(), lib.nn.Linear(3, 1))
        optimizer = lib.optim.Adam(net.parameters(), lr=0.01)
        for _ in range(3):
            optimizer.zero_grad()
            loss = (net(s(lib).detach()) ** 2).mean()
            loss.backward()
            optimizer.step()
        losses.append(loss.item())
    assert losses[0] == pytest.approx(losses[1], rel=1e-5)
