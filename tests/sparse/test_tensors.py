"""Sparse tensors: making them, their parts, conversions, printing, copying and saving, against PyTorch."""

from __future__ import annotations

import copy
import io
import pickle

import pytest
import torch

import flambeau

pytestmark = pytest.mark.filterwarnings("ignore:Sparse (CSR|CSC|BSR|BSC) tensor support", "ignore:Sparse invariant checks",
                                        r"ignore:torch\.sparse\.SparseTensor.* is deprecated")
LIBS = (torch, flambeau)


def coo(lib, **options):
    return lib.sparse_coo_tensor(lib.tensor([[0, 1, 1], [2, 0, 2]]), lib.tensor([3., 4., 5.]), (2, 4), **options)


def twice(lib):
    """Unsorted, with a position that stands in it twice."""
    return lib.sparse_coo_tensor([[1, 0, 1], [2, 0, 2]], [3., 4., 5.], (2, 4))


def hybrid(lib):
    return lib.sparse_coo_tensor(lib.tensor([[2, 0]]), lib.arange(6.).reshape(2, 3), (4, 3))


MAKERS = {
    "coo": coo,
    "coalesced": lambda lib: twice(lib).coalesce(),
    "twice": twice,
    "hybrid": hybrid,
    "empty": lambda lib: lib.sparse_coo_tensor(size=(2, 3)),
    "size inferred": lambda lib: lib.sparse_coo_tensor([[0, 3]], [1, 2]),
    "dtype": lambda lib: lib.sparse_coo_tensor([[0, 3]], [1, 2], dtype=lib.float64),
    "requires grad": lambda lib: coo(lib, requires_grad=True),
    "scalar": lambda lib: lib.tensor(3.).to_sparse(),
    "from dense": lambda lib: lib.tensor([[0., 2.], [3., 0.]]).to_sparse(),
    "first dimension": lambda lib: lib.tensor([[0., 2.], [0., 0.]]).to_sparse(1),
    "csr": lambda lib: lib.sparse_csr_tensor([0, 1, 3], [2, 0, 2], [3., 4., 5.], (2, 4)),
    "csr, size inferred": lambda lib: lib.sparse_csr_tensor(lib.tensor([0, 1, 3]), lib.tensor([2, 0, 2]), lib.ones(3)),
    "csc": lambda lib: coo(lib).to_sparse_csc(),
    "bsr": lambda lib: lib.arange(16.).reshape(4, 4).to_sparse_bsr((2, 2)),
    "bsc": lambda lib: lib.arange(24.).reshape(4, 6).to_sparse_bsc((2, 3)),
    "compressed": lambda lib: lib.sparse_compressed_tensor([0, 1, 3], [2, 0, 2], [3., 4., 5.], (2, 4),
                                                           layout=lib.sparse_csr),
    "old type": lambda lib: lib.sparse.FloatTensor(lib.tensor([[0, 1]]), lib.tensor([1., 2.]), lib.Size([3])),
    "old type of a size": lambda lib: lib.sparse.DoubleTensor(2, 3),
    "diagonals": lambda lib: lib.sparse.spdiags(lib.arange(6.).reshape(2, 3), lib.tensor([0, -1]), (3, 3)),
    "zeros": lambda lib: lib.zeros(2, 3, layout=lib.sparse_csr),
    "zeros like": lambda lib: lib.zeros_like(hybrid(lib)),
    "large": lambda lib: lib.eye(1200).to_sparse(),
}


@pytest.mark.parametrize("name", MAKERS)
def test_made_and_printed_as_pytorch_does(name):
    theirs, ours = (MAKERS[name](lib) for lib in LIBS)
    assert repr(ours) == repr(theirs)
    assert ours.to_dense().tolist() == theirs.to_dense().tolist()
    assert (ours._nnz(), ours.sparse_dim(), ours.dense_dim(), str(ours.layout), ours.is_sparse, ours.is_sparse_csr) == (
        theirs._nnz(), theirs.sparse_dim(), theirs.dense_dim(), str(theirs.layout), theirs.is_sparse, theirs.is_sparse_csr)
    if ours.is_sparse:
        assert ours.is_coalesced() == theirs.is_coalesced() and ours.type() == theirs.type()


def test_parts_are_those_that_were_given():
    s = twice(flambeau)
    assert s._indices().tolist() == [[1, 0, 1], [2, 0, 2]] and s._values().tolist() == [3., 4., 5.]
    c = s.coalesce()
    assert c.indices().tolist() == [[0, 1], [0, 2]] and c.values().tolist() == [4., 8.]
    assert c.coalesce() is c and c.is_coalesced() and not s.is_coalesced()
    r = c.to_sparse_csr()
    assert r.crow_indices().tolist() == [0, 1, 2] and r.col_indices().tolist() == [0, 2] and r.values().tolist() == [4., 8.]
    assert s.to_sparse_csc().ccol_indices().tolist() == [0, 1, 1, 2, 2]


def test_a_dense_tensor_says_that_it_is_dense():
    d = flambeau.ones(2, 3)
    assert not d.is_sparse and not d.is_sparse_csr and d.layout is flambeau.strided and d.to_dense() is d
    assert (d.sparse_dim(), d.dense_dim()) == (0, 2)
    for method in ("coalesce", "is_coalesced", "indices", "values", "_nnz", "crow_indices"):
        with pytest.raises(RuntimeError, match=f"{method} expected.*got Strided.*to_sparse"):
            getattr(d, method)()


@pytest.mark.parametrize("source, target", [(a, b) for a in ("coo", "twice", "csr", "csc", "bsr") for b in (
    "coo", "csr", "csc") if not (a == "bsr" and b != "coo")])
def test_layouts_convert_into_each_other(source, target):
    theirs, ours = (getattr(MAKERS[source](lib), f"to_sparse_{target}")() for lib in LIBS)
    assert repr(ours) == repr(theirs)


def test_detach_shares_and_clone_does_not():
    s = coo(flambeau)
    d, c = s.detach(), s.clone()
    s.mul_(2)
    assert d._values().tolist() == [6., 8., 10.] and c._values().tolist() == [3., 4., 5.]
    assert d._version == s._version == 1


@pytest.mark.parametrize("name", ["coo", "coalesced", "hybrid", "csr", "bsr", "requires grad"])
@pytest.mark.parametrize("how", [copy.copy, copy.deepcopy, lambda t: pickle.loads(pickle.dumps(t))],
                         ids=["copy", "deepcopy", "pickle"])
def test_copies_are_equal(name, how):
    t = MAKERS[name](flambeau)
    assert repr(how(t)) == repr(t)


@pytest.mark.parametrize("name", ["coo", "coalesced", "hybrid", "csr", "csc", "bsr"])
@pytest.mark.parametrize("writer, reader", [(torch, flambeau), (flambeau, torch)], ids=["from torch", "to torch"])
def test_files_go_both_ways(name, writer, reader):
    file = io.BytesIO()
    writer.save({"t": MAKERS[name](writer), "p": writer.nn.Parameter(coo(writer))}, file)
    file.seek(0)
    found = reader.load(file)
    assert repr(found["t"]) == repr(MAKERS[name](reader))
    assert type(found["p"]) is reader.nn.Parameter and found["p"].requires_grad


ERRORS = {
    "no nnz": lambda lib: lib.sparse_coo_tensor([[0, 1]], [1., 2., 3.]),
    "size": lambda lib: lib.sparse_coo_tensor([[0, 1]], [1., 2.], (3, 3)),
    "1-D indices": lambda lib: lib.sparse_coo_tensor([0, 1], [1., 2.]),
    "values of uncoalesced": lambda lib: twice(lib).values(),
    "indices of uncoalesced": lambda lib: twice(lib).indices(),
    "indices of csr": lambda lib: MAKERS["csr"](lib).indices(),
    "crow of coo": lambda lib: coo(lib).crow_indices(),
    "numpy": lambda lib: coo(lib).numpy(),
    "item": lambda lib: coo(lib).item(),
    "bool": lambda lib: bool(coo(lib)),
    "setitem": lambda lib: coo(lib).__setitem__((0, 0), 1.),
    "add a number": lambda lib: coo(lib) + 1,
    "add a dense one": lambda lib: coo(lib) + lib.ones(2, 4),
    "divide by a tensor": lambda lib: coo(lib) / lib.ones(2, 4),
    "shapes": lambda lib: coo(lib) + hybrid(lib),
    "inner sizes": lambda lib: coo(lib) @ lib.ones(3, 2),
    "dtypes": lambda lib: coo(lib) @ lib.ones(4, 2, dtype=lib.float64),
    "mixed cat": lambda lib: lib.cat([coo(lib), lib.ones(2, 4)]),
    "dense into sparse": lambda lib: coo(lib).copy_(lib.ones(2, 4)),
    "sparse into dense": lambda lib: lib.ones(2, 4).copy_(coo(lib)),
    "reshape": lambda lib: coo(lib).reshape(8),
    "exp": lambda lib: coo(lib).exp(),
    "compare": lambda lib: coo(lib) > 0,
    "mean": lambda lib: coo(lib).mean(),
    "sort": lambda lib: coo(lib).sort(),
    "integers require grad": lambda lib: lib.sparse_coo_tensor([[0]], [1], requires_grad=True),
    "write to a leaf": lambda lib: coo(lib, requires_grad=True).mul_(2),
    "mask is dense": lambda lib: lib.ones(2).sparse_mask(lib.ones(2)),
    "block": lambda lib: lib.ones(3, 3).to_sparse_bsr((2, 2)),
}


@pytest.mark.parametrize("name", ERRORS)
def test_errors_are_of_pytorchs_class(name):
    with pytest.raises(Exception) as theirs:
        ERRORS[name](torch)
    with pytest.raises(theirs.type):
        ERRORS[name](flambeau)


def test_an_index_outside_is_refused():
    """PyTorch lets it pass unless its checks are switched on."""
    with pytest.raises(RuntimeError, match="size is inconsistent with indices.*found index 5"):
        flambeau.sparse_coo_tensor([[0, 5]], [1., 2.], (3,))
    with pytest.raises(RuntimeError, match="negative index -1"):
        flambeau.sparse_coo_tensor([[0, -1]], [1., 2.])


def test_what_is_not_there_names_the_way_out():
    s = coo(flambeau)
    for call in (s.exp, s.sort, lambda: s == s, lambda: flambeau.cumsum(s, 0), s.tolist):
        with pytest.raises(NotImplementedError, match="not implemented for sparse tensors.*to_dense"):
            call()


def test_one_element_is_a_number():
    assert flambeau.tensor([[3.]]).to_sparse().item() == 3.0 and bool(flambeau.tensor(2.).to_sparse())


def test_old_types_know_their_instances():
    s = coo(flambeau)
    assert isinstance(s, flambeau.sparse.FloatTensor) and not isinstance(s, flambeau.sparse.DoubleTensor)
    assert not isinstance(flambeau.ones(2), flambeau.sparse.FloatTensor)


def test_invariants_are_checked_when_asked():
    def wrong():
        return flambeau.sparse_coo_tensor([[1, 0]], [1., 2.], (2,), is_coalesced=True)

    assert wrong().is_coalesced()
    with flambeau.sparse.check_sparse_tensor_invariants(), pytest.raises(RuntimeError, match="not sorted"):
        wrong()
    assert not flambeau.sparse.check_sparse_tensor_invariants.is_enabled()


def test_resized_in_place():
    for lib in LIBS:
        s = coo(lib).sparse_resize_((3, 5), 2, 0)
        assert s.shape == (3, 5) and s._nnz() == 3
        assert coo(lib).sparse_resize_and_clear_((2, 2), 1, 1)._nnz() == 0


def test_assert_close_compares_positions_and_values():
    for lib in LIBS:
        lib.testing.assert_close(coo(lib), coo(lib) * 1)
        for other in (coo(lib) * 2, twice(lib), coo(lib).to_dense(), coo(lib).to_sparse_csr()):
            with pytest.raises(AssertionError):
                lib.testing.assert_close(coo(lib), other)
