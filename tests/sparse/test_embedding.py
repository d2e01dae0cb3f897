"""Sparse gradients of embeddings and gather, and the optimizers that take them, against PyTorch."""

from __future__ import annotations

import pytest
import torch

import flambeau

pytestmark = pytest.mark.filterwarnings("ignore:Sparse invariant checks")
LIBS = (torch, flambeau)
OPTIMIZERS = {
    "SGD": {}, "SGD momentum": dict(momentum=0.9), "SGD nesterov": dict(momentum=0.9, nesterov=True),
    "SGD dampening": dict(momentum=0.8, dampening=0.3), "SGD maximize": dict(maximize=True), "Adagrad": {},
    "Adagrad decay": dict(lr_decay=0.1, maximize=True, initial_accumulator_value=0.5), "SparseAdam": {},
    "SparseAdam betas": dict(betas=(0.8, 0.95), eps=1e-3, maximize=True), "LBFGS": dict(max_iter=3),
}
REFUSED = "Adam AdamW RMSprop Rprop Adadelta Adamax NAdam RAdam ASGD Adafactor".split()


def table(lib, *shape):
    lib.manual_seed(0)
    return lib.randn(*shape).requires_grad_()


def same(ours, theirs):
    assert str(ours.layout) == str(theirs.layout)
    if ours.is_sparse:
        assert ours._indices().tolist() == theirs._indices().tolist() and ours.is_coalesced() == theirs.is_coalesced()
        ours, theirs = ours._values(), theirs._values()
    torch.testing.assert_close(torch.tensor(ours.tolist()), theirs.detach(), rtol=1e-6, atol=1e-7)


GRADIENTS = {
    "embedding": lambda lib, w: lib.nn.functional.embedding(lib.tensor([[1, 3], [1, 0]]), w, sparse=True),
    "padding": lambda lib, w: lib.nn.functional.embedding(lib.tensor([[1, 3], [1, 0]]), w, padding_idx=0, sparse=True),
    "bag": lambda lib, w: lib.nn.functional.embedding_bag(lib.tensor([1, 3, 1, 0]), w, lib.tensor([0, 3]), mode="sum",
                                                          sparse=True),
    "mean bag": lambda lib, w: lib.nn.functional.embedding_bag(lib.tensor([[1, 3], [1, 0]]), w, sparse=True),
    "two uses": lambda lib, w: lib.nn.functional.embedding(lib.tensor([4, 1]), w, sparse=True) + lib.nn.functional.embedding(
        lib.tensor([1, 2]), w, sparse=True) * 2,
    "and a dense use": lambda lib, w: lib.nn.functional.embedding(lib.tensor([4, 1]), w, sparse=True).sum() + (w * w).sum(),
    "of a result": lambda lib, w: lib.nn.functional.embedding(lib.tensor([4, 1]), w * 2, sparse=True),
    "gather": lambda lib, w: w.gather(0, lib.tensor([[1, 0]]), sparse_grad=True),
}


@pytest.mark.parametrize("name", GRADIENTS)
def test_gradient(name):
    grads = []
    for lib in LIBS:
        w = table(lib, 5, 2)
        (GRADIENTS[name](lib, w) ** 2).sum().backward()
        grads.append(w.grad)
    if name in ("of a result", "two uses"):     # PyTorch sends the sparse gradient on, and adds in another order
        grads = [g.to_dense() for g in grads]
    same(grads[1], grads[0])


def test_errors():
    w = table(flambeau, 5, 2)
    F = flambeau.nn.functional
    out = F.embedding(flambeau.tensor([1]), w, scale_grad_by_freq=True, sparse=True)
    with pytest.raises(RuntimeError, match="scale_grad_by_freq not supported with sparse gradients"):
        out.sum().backward()
    with pytest.raises(ValueError, match="max mode does not support sparse weights"):
        F.embedding_bag(flambeau.tensor([[1]]), w, mode="max", sparse=True)


def train(lib, name, options, steps=4):
    lib.manual_seed(1)
    layer = lib.nn.Embedding(7, 3, sparse=True)
    optimizer = getattr(lib.optim, name)(layer.parameters(), lr=0.1, **options)
    batches = lib.tensor([[4, 1, 1], [0, 1, 6], [2, 2, 2], [1, 4, 0]])

    for batch in batches[:steps]:
        def closure(batch=batch):
            optimizer.zero_grad()
            loss = (layer(batch) ** 2).sum()
            loss.backward()
            return loss

        closure()
        optimizer.step(*((closure,) if name == "LBFGS" else ()))
    return layer.weight, optimizer


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_optimizers_step_as_pytorchs(name):
    (theirs, _), (ours, optimizer) = (train(lib, name.split()[0], OPTIMIZERS[name]) for lib in LIBS)
    same(ours, theirs)
    again = type(optimizer)([ours], lr=0.1)
    again.load_state_dict(optimizer.state_dict())


def test_rows_that_were_not_taken_stay():
    before = train(flambeau, "SparseAdam", {}, steps=0)[0].tolist()
    after = train(flambeau, "SparseAdam", {})[0].tolist()
    assert [i for i in range(7) if before[i] == after[i]] == [3, 5]


@pytest.mark.parametrize("name", REFUSED)
def test_other_optimizers_refuse(name):
    for lib in LIBS:
        with pytest.raises(RuntimeError, match="does not support sparse gradients"):
            train(lib, name, {})


def test_weight_decay_is_refused():
    for lib in LIBS:
        with pytest.raises(RuntimeError, match=r"add\(sparse, dense\) is not supported"):
            train(lib, "SGD", dict(weight_decay=0.1))
        with pytest.raises(RuntimeError, match="weight_decay option is not compatible with sparse gradients"):
            train(lib, "Adagrad", dict(weight_decay=0.1))


def test_sparse_adam_checks_its_arguments():
    w = flambeau.ones(2, requires_grad=True)
    for options in (dict(lr=0.), dict(eps=0.), dict(betas=(1., 0.9))):
        with pytest.raises(ValueError, match="Invalid"):
            flambeau.optim.SparseAdam([w], **options)
    with pytest.raises(ValueError, match=r"\[\[0, 0\]\].*requires dense parameter tensors"):
        flambeau.optim.SparseAdam([flambeau.nn.Parameter(flambeau.eye(2).to_sparse())])


def test_zero_grad_keeps_the_layout():
    for lib in LIBS:
        w = table(lib, 5, 2)
        GRADIENTS["embedding"](lib, w).sum().backward()
        lib.optim.SGD([w], lr=0.1).zero_grad(set_to_none=False)
        assert w.grad.is_sparse and w.grad._nnz() == 0


def test_a_gradient_works_before_the_sparse_module_is_loaded():
    import subprocess
    import sys

    program = ("import flambeau as torch\nw = torch.nn.Embedding(3, 2, sparse=True)\nw(torch.tensor([1])).sum().backward()\n"
               "print((w.weight.grad * 2).to_dense().tolist())")
    out = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout
    assert out.strip() == "[[0.0, 0.0], [2.0, 2.0], [0.0, 0.0]]"


def test_sgd_moves_a_sparse_parameter():
    moved = []
    for lib in LIBS:
        p = lib.nn.Parameter(lib.sparse_coo_tensor([[0, 1, 1], [2, 0, 2]], [3., 4., 5.], (2, 4)))
        lib.sparse.mm(p, lib.arange(4.).reshape(4, 1)).sum().backward()
        lib.optim.SGD([p], lr=0.5).step()
        moved.append(p.detach().to_dense().tolist())
    assert moved[0] == moved[1]
