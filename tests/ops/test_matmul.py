"""Products: every combination of ranks and dtypes, rounding, nodes, beta 0, errors that name the fix, einsum."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
import torch

import flambeau

torch.set_num_threads(1)
SHAPES = [(4,), (3, 4), (2, 3, 4), (5, 1, 3, 4)]
OTHERS = [(4,), (4, 2), (2, 4, 3), (2, 4, 2)]


def pair(shape, dtype="float64", grad=False, seed=0):
    rs = np.random.RandomState(seed + sum(shape))
    a = rs.randint(-9, 9, shape) if "int" in dtype else rs.standard_normal(shape)
    if "complex" in dtype:
        a = a + 1j * rs.standard_normal(shape)
    made = [lib.tensor(np.asarray(a)).to(getattr(lib, dtype)) for lib in (torch, flambeau)]
    return [t.requires_grad_() if grad else t for t in made]


def values(t):
    t = t.detach()
    return (t.float() if "bfloat16" in str(t.dtype) else t.resolve_conj() if hasattr(t, "resolve_conj") else t).numpy()


@pytest.mark.parametrize("shape, other", list(itertools.product(SHAPES, OTHERS)))
@pytest.mark.parametrize("dtype", ["float64", "complex128"])
def test_matmul_of_every_combination_of_ranks(shape, other, dtype):
    a, b = pair(shape, dtype, True), pair(other, dtype, True, 1)
    ours, theirs = a[1] @ b[1], a[0] @ b[0]
    np.testing.assert_allclose(values(ours), values(theirs), rtol=1e-12, atol=1e-12)
    assert ours.grad_fn.name() == theirs.grad_fn.name()
    grads = []
    for lib, out, inputs in ((torch, theirs, (a[0], b[0])), (flambeau, ours, (a[1], b[1]))):
        grads.append(
            lib.autograd.grad(out, inputs, lib.full(tuple(out.shape), 1 + 2j if "complex" in dtype else 1.5).to(out.dtype))
        )
    for x, y in zip(*grads, strict=True):
        np.testing.assert_allclose(values(y), values(x), rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_half_precision_is_summed_wide_and_rounded_once(dtype):
    rs = np.random.RandomState(0)
    a, b = (flambeau.tensor(rs.standard_normal((4, 300))).to(getattr(flambeau, dtype)) for _ in range(2))
    exact = (a.float() @ b.float().T).to(getattr(flambeau, dtype))
    assert (a @ b.T).float().tolist() == exact.float().tolist()
    assert str((a @ b.T).dtype) == f"torch.{dtype}"


@pytest.mark.parametrize("dtype", ["uint8", "int32", "int64"])
def test_integer_products_wrap_as_in_pytorch(dtype):
    a, b = pair((3, 4), dtype), pair((4, 2), dtype, seed=1)
    assert (a[1] @ b[1]).tolist() == (a[0] @ b[0]).tolist()


def test_empty_inner_dimension_gives_zeros():
    assert (flambeau.ones(2, 0) @ flambeau.ones(0, 3)).tolist() == [[0.0] * 3] * 2
    assert (
        flambeau.nn.functional.linear(flambeau.ones(2, 0), flambeau.ones(3, 0), flambeau.ones(3)).tolist() == [[1.0] * 3] * 2
    )
    assert tuple((flambeau.ones(0, 2, 3) @ flambeau.ones(3, 4)).shape) == (0, 2, 4)


def test_products_of_strided_operands():
    a, b = pair((6, 8), seed=3), pair((8, 6), seed=4)
    for f in (lambda x, y: x[::2, ::2] @ y[::2, ::2], lambda x, y: x.t() @ y.t(), lambda x, y: x.flip(0) @ y[:, 1:]):
        np.testing.assert_allclose(values(f(a[1], b[1])), values(f(a[0], b[0])), rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize(
    "name, shapes",
    [
        ("addmm", [(2, 4), (2, 3), (3, 4)]),
        ("addmv", [(2,), (2, 3), (3,)]),
        ("addr", [(2, 3), (2,), (3,)]),
        ("baddbmm", [(2, 3, 5), (2, 3, 4), (2, 4, 5)]),
        ("addbmm", [(3, 5), (2, 3, 4), (2, 4, 5)]),
    ],
)
def test_beta_zero_ignores_nan_in_the_input(name, shapes):
    args = [flambeau.ones(*s) for s in shapes]
    args[0] = args[0] * float("nan")
    out = getattr(flambeau, name)(*args, beta=0)
    assert not np.isnan(out.numpy()).any()
    assert np.isnan(getattr(flambeau, name)(*args).numpy()).all()
    node = getattr(flambeau, name)(*[a.requires_grad_() for a in args]).grad_fn.name()
    assert node == name.capitalize() + "Backward0"


@pytest.mark.parametrize("name, shapes", [("addmm_", [(2, 4), (2, 3), (3, 4)]), ("addr_", [(2, 3), (2,), (3,)])])
def test_inplace_forms_write_into_the_tensor(name, shapes):
    results = []
    for k in (0, 1):
        tensors = [pair(s, grad=True, seed=i)[k] for i, s in enumerate(shapes)]
        x = tensors[0] * 1.0
        assert getattr(x, name)(*tensors[1:], beta=0.5, alpha=2) is x
        (x * x).sum().backward()
        results.append([values(x), *[values(t.grad) for t in tensors]])
    for a, b in zip(*results, strict=True):
        np.testing.assert_allclose(b, a, rtol=1e-12, atol=1e-12)


def test_linear_is_one_node():
    linear = flambeau.nn.functional.linear
    x, w, b = (pair(s, grad=True)[1] for s in ((4, 3), (2, 3), (2,)))
    node = linear(x, w, b).grad_fn
    assert node.name() == "AddmmBackward0"
    assert [n.variable is t for (n, _), t in zip(node.next_functions, (b, x, w), strict=True)] == [True] * 3
    assert linear(x, w).grad_fn.name() == "MmBackward0"
    assert linear(x[None], w, b).grad_fn.name() == "ViewBackward0"
    assert linear(x[None], w).grad_fn.name() == "UnsafeViewBackward0"


def test_frozen_weight_keeps_no_input_alive():
    x, w = pair((4, 3), grad=True)[1], pair((2, 3))[1]
    y = x * 1.0
    y_again = flambeau.nn.functional.linear(y, w)
    y.mul_(2)  # would be refused if the node had saved it
    y_again.sum().backward()
    assert x.grad is not None


@pytest.mark.parametrize(
    "call, kind, words",
    [
        (lambda lib: lib.ones(2, 3) @ lib.ones(2, 3), RuntimeError, r"cannot be multiplied \(2x3 and 2x3\)"),
        (lambda lib: lib.ones(2, 3).mm(lib.ones(3, 2).double()), RuntimeError, "expected m1 and m2 to have the same dtype"),
        (lambda lib: lib.ones(2, 3).bool() @ lib.ones(3, 2).bool(), NotImplementedError, "not implemented for 'Bool'"),
        (lambda lib: lib.ones(2) @ lib.tensor(1.0), RuntimeError, "at least 1D"),
        (lambda lib: lib.dot(lib.ones(2), lib.ones(2).double()), RuntimeError, "same dtype, but found Float and Double"),
        (lambda lib: lib.ones(2, 3, 4).bmm(lib.ones(1, 4, 2)), RuntimeError, "Expected size for first two dimensions"),
        (
            lambda lib: lib.addr(lib.ones(2, 2).long(), lib.ones(2).long(), lib.ones(2).long(), alpha=0.5),
            RuntimeError,
            "alpha",
        ),
        (lambda lib: lib.einsum("ij,jk->iz", lib.ones(2, 2), lib.ones(2, 2)), RuntimeError, "does not appear"),
        (lambda lib: lib.einsum("i?", lib.ones(2, 2)), RuntimeError, "invalid subscript"),
        (lambda lib: lib.einsum("ij,ij", [lib.ones(2, 2), lib.ones(2, 3)]), RuntimeError, "does not broadcast"),
    ],
)
def test_errors_are_of_pytorchs_type(call, kind, words):
    for lib in (torch, flambeau):
        with pytest.raises(kind, match=words):
            call(lib)


def test_shape_error_names_the_fix():
    with pytest.raises(RuntimeError, match="a @ b.T"):
        flambeau.ones(2, 3) @ flambeau.ones(2, 3)
    with pytest.raises(RuntimeError, match="flatten the input first"):
        flambeau.nn.functional.linear(flambeau.ones(5, 2, 3, 4), flambeau.ones(10, 24))


EQUATIONS = [
    ("ij,jk", [(2, 3), (3, 4)]),
    ("ii", [(3, 3)]),
    ("iji->j", [(3, 2, 3)]),
    ("...i,...i->...", [(2, 3, 4), (3, 4)]),
    ("i...,j...->ij...", [(2, 3), (4, 3)]),
    ("b...,b->...", [(2, 3, 4), (2,)]),
    ("ab,bc,cd->da", [(2, 3), (3, 4), (4, 5)]),
    ("ij,ij->", [(2, 3), (2, 1)]),
    ("bi,bj,bk->bijk", [(2, 3), (2, 4), (2, 2)]),
    ("i,i->i", [(3,), (1,)]),
    ("ij , jk -> k i", [(2, 3), (3, 4)]),
    (",i->i", [(), (3,)]),
    ("bhid,bhjd->bhij", [(2, 2, 3, 4), (2, 2, 5, 4)]),
    ("ij,jk->ik", [(2, 0), (0, 3)]),
]


@pytest.mark.parametrize("equation, shapes", EQUATIONS)
def test_einsum_agrees_with_pytorch(equation, shapes):
    tensors = [pair(s, grad=True, seed=i) for i, s in enumerate(shapes)]
    theirs, ours = (lib.einsum(equation, *[t[k] for t in tensors]) for k, lib in enumerate((torch, flambeau)))
    np.testing.assert_allclose(values(ours), values(theirs), rtol=1e-12, atol=1e-12)
    (theirs * theirs).sum().backward()
    (ours * ours).sum().backward()
    for a, b in tensors:
        np.testing.assert_allclose(values(b.grad), values(a.grad), rtol=1e-10, atol=1e-12)


PRODUCTS = {
    "tensordot": lambda lib, x, y: lib.tensordot(x, y, ([1, 2], [1, 0])),
    "kron": lambda lib, x, y: lib.kron(x, y),
    "inner": lambda lib, x, y: lib.inner(x, y.transpose(0, 2)),
    "matrix_power": lambda lib, x, y: lib.matrix_power(x[:, :, :3], 5),
    "cdist": lambda lib, x, y: lib.cdist(x, x + 1),
    "cross": lambda lib, x, y: lib.cross(x, x.flip(2), 1),
    "bilinear": lambda lib, x, y: lib.nn.functional.bilinear(x, x[:, :, :3], x.new_ones(5, 4, 3)),
}


@pytest.mark.parametrize("name", PRODUCTS)
def test_other_products_agree_with_pytorch(name):
    a, b = pair((2, 3, 4), seed=1), pair((4, 3, 2), seed=2)
    theirs, ours = (PRODUCTS[name](lib, a[k], b[k]) for k, lib in enumerate((torch, flambeau)))
    np.testing.assert_allclose(values(ours), values(theirs), rtol=1e-12, atol=1e-12)
