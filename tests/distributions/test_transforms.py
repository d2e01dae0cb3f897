"""Transforms against PyTorch: images, inverses, Jacobians and their gradients, caches, shapes; and the registries."""

from __future__ import annotations

import copy
import pickle

import numpy as np
import pytest
import torch

import flambeau
from tests.distributions.families import refused_alike

torch.set_num_threads(1)
_RNG = np.random.default_rng(0)
VECTORS = _RNG.normal(size=(4, 6))
POSITIVE = np.abs(_RNG.normal(size=(4, 6))) + 0.1
MATRICES = _RNG.normal(size=(2, 3, 3))
SLOPES = [1.0, 2.0, -3.0, 4.0, 5.0, 6.0]


def _double(t, values):
    return t.tensor(np.asarray(values).tolist(), dtype=t.float64)


# name: (makes the transform from the library, where it is tried)
CASES = {
    "exp": (lambda t, d: d.ExpTransform(), VECTORS),
    "sigmoid": (lambda t, d: d.SigmoidTransform(), VECTORS * 9),
    "softplus": (lambda t, d: d.SoftplusTransform(), VECTORS * 9),
    "tanh": (lambda t, d: d.TanhTransform(), VECTORS),
    "abs": (lambda t, d: d.AbsTransform(), VECTORS),
    "power": (lambda t, d: d.PowerTransform(t.tensor(2.5)), POSITIVE),
    "power of each": (lambda t, d: d.PowerTransform(_double(t, SLOPES)), POSITIVE),
    "inverse power": (lambda t, d: d.PowerTransform(-1.0), POSITIVE),
    "affine": (lambda t, d: d.AffineTransform(1.0, -2.0), VECTORS),
    "affine of tensors": (lambda t, d: d.AffineTransform(_double(t, SLOPES), _double(t, SLOPES)), VECTORS),
    "affine of vectors": (lambda t, d: d.AffineTransform(1.0, _double(t, SLOPES), event_dim=1), VECTORS),
    "affine of batches": (lambda t, d: d.AffineTransform(_double(t, [[[1.0]], [[2.0]]]), 0.5), VECTORS),
    "softmax": (lambda t, d: d.SoftmaxTransform(), VECTORS),
    "stick breaking": (lambda t, d: d.StickBreakingTransform(), VECTORS),
    "correlation factor": (lambda t, d: d.CorrCholeskyTransform(), VECTORS),
    "triangular factor": (lambda t, d: d.LowerCholeskyTransform(), MATRICES),
    "positive definite": (lambda t, d: d.PositiveDefiniteTransform(), MATRICES),
    "chain": (lambda t, d: d.ComposeTransform([d.AffineTransform(0.0, 0.5), d.StickBreakingTransform(),
                                               d.AffineTransform(0.0, 2.0, event_dim=1), d.ExpTransform()]), VECTORS),
    "chain through shapes": (lambda t, d: d.ComposeTransform([
        d.ReshapeTransform((6,), (2, 3)), d.ExpTransform(), d.StickBreakingTransform()]), VECTORS),
    "identity": (lambda t, d: d.identity_transform, VECTORS),
    "independent": (lambda t, d: d.IndependentTransform(d.ExpTransform(), 2), VECTORS),
    "reshape": (lambda t, d: d.ReshapeTransform((4, 6), (24,)), VECTORS),
    "cat": (lambda t, d: d.CatTransform([d.ExpTransform(), d.AffineTransform(0.0, 3.0)], dim=-1, lengths=[4, 2]), VECTORS),
    "cat of vectors": (lambda t, d: d.CatTransform([
        d.ComposeTransform([d.ExpTransform(), d.AffineTransform(0.0, 2.0, 1)]),
        d.IndependentTransform(d.TanhTransform(), 1)], dim=0, lengths=[1, 3]), VECTORS),
    "cat inside an event": (lambda t, d: d.CatTransform([
        d.IndependentTransform(d.ExpTransform(), 1), d.IndependentTransform(d.TanhTransform(), 1)], dim=1,
        lengths=[2, 4]), VECTORS),
    "stack": (lambda t, d: d.StackTransform([d.ExpTransform(), d.TanhTransform(), d.identity_transform,
                                             d.SigmoidTransform()]), VECTORS),
    "stack of columns": (lambda t, d: d.StackTransform([d.ExpTransform()] * 6, dim=-1), VECTORS),
    "distribution function": (lambda t, d: d.CumulativeDistributionTransform(d.Normal(0.0, 1.0)), VECTORS),
    "inverse": (lambda t, d: d.ExpTransform().inv, POSITIVE),
    "inverse chain": (lambda t, d: d.ComposeTransform([d.ExpTransform(), d.AffineTransform(1.0, 2.0)]).inv, POSITIVE + 1),
}


def _tried(call):
    """What it gives, or the kind of error."""
    try:
        return call()
    except (NotImplementedError, ValueError, RuntimeError, TypeError, IndexError, AssertionError) as error:
        return type(error)


def _report(t, name, cache_size):
    """Everything there is to know of the transform at its point."""
    make, at = CASES[name]
    transform = make(t, t.distributions).with_cache(cache_size)
    x = _double(t, at).requires_grad_()
    y = transform(x)
    back = transform.inv(y if cache_size else y * 1)
    jacobian = _tried(lambda: transform.log_abs_det_jacobian(x, y))
    found = {
        "image": y, "valid": _tried(lambda: transform.codomain.check(y)), "inverse": back, "jacobian": jacobian,
        "print": repr(transform), "inverse print": repr(transform.inv), "domain": repr(transform.domain),
        "codomain": repr(transform.codomain), "bijective": transform.bijective,
        "event_dims": (transform.domain.event_dim, transform.codomain.event_dim, _tried(lambda: transform.event_dim)),
        "sign": _tried(lambda: transform.sign), "inverse of the inverse": transform.inv.inv is transform,
        "shapes": [_tried(lambda: tuple(transform.forward_shape(x.shape))),
                   _tried(lambda: tuple(transform.inverse_shape(y.shape)))],
        "cached": back is x,
        "slope": t.autograd.grad((y * y.detach().sin()).sum(), x, retain_graph=True)[0],
    }
    if not isinstance(jacobian, type) and jacobian.requires_grad:
        (first,) = t.autograd.grad(jacobian.sum(), x, create_graph=True, allow_unused=True)
        found["slope of the jacobian"] = first
        if first is not None and first.requires_grad:
            found["second slope"] = t.autograd.grad(first.sin().sum(), x, allow_unused=True)[0]
    return found


def same(ours, theirs, what, rtol=1e-9):
    if isinstance(theirs, torch.Tensor):
        assert isinstance(ours, flambeau.Tensor), (what, ours)
        assert str(ours.dtype).split(".")[-1] == str(theirs.dtype).split(".")[-1], what
        np.testing.assert_allclose(ours.detach().numpy(), theirs.detach().numpy(), rtol=rtol, atol=1e-11, err_msg=what)
        assert tuple(ours.shape) == tuple(theirs.shape), what
    else:
        assert ours == theirs, what


@pytest.mark.parametrize("cache_size", [0, 1])
@pytest.mark.parametrize("name", CASES)
def test_transform(name, cache_size):
    ours, theirs = _report(flambeau, name, cache_size), _report(torch, name, cache_size)
    assert ours.keys() == theirs.keys()
    for what, value in theirs.items():
        same(ours[what], value, what)


# These have no Jacobian, or none of one row, or an image of more entries than are free.
NOT_SQUARE = {"softmax", "triangular factor", "positive definite", "abs", "affine of batches", "cat of vectors", "stack",
              "reshape", "chain", "chain through shapes"}


@pytest.mark.parametrize("name", [name for name in CASES if name not in NOT_SQUARE])
def test_jacobian_is_the_determinant(name):
    make, at = CASES[name]
    transform = make(flambeau, flambeau.distributions)
    x = _double(flambeau, at)[:1]
    y = transform(x)
    rows = flambeau.autograd.functional.jacobian(transform, x).reshape(y.numel(), x.numel())
    if name == "stick breaking":
        rows = rows[:-1]        # the last entry is what the others leave
    if name == "correlation factor":
        rows = rows[rows.abs().sum(1) > 0]
        rows = rows[[0, 2, 3, 5, 6, 7]]     # below the diagonal
    expected = flambeau.linalg.slogdet(rows).logabsdet
    assert transform.log_abs_det_jacobian(x, y).sum().item() == pytest.approx(expected.item(), rel=1e-9)


def test_one_scale_for_a_whole_event_counts_for_each_entry():
    scale = flambeau.tensor(2.0)
    for transform in (flambeau.distributions.AffineTransform(0.0, scale, event_dim=1),
                      flambeau.distributions.AffineTransform(0.0, 2.0, event_dim=1)):
        x = flambeau.ones(3)
        assert transform.log_abs_det_jacobian(x, transform(x)).item() == pytest.approx(3 * np.log(2))


def test_equality():
    d = flambeau.distributions
    make = [lambda t: t.distributions.ExpTransform(), lambda t: t.distributions.ExpTransform().inv,
            lambda t: t.distributions.TanhTransform(), lambda t: t.distributions.AffineTransform(1.0, 2.0),
            lambda t: t.distributions.AffineTransform(t.tensor(1.0), t.tensor(2.0)),
            lambda t: t.distributions.AffineTransform(1.0, 3.0), lambda t: t.distributions.PowerTransform(2.0),
            lambda t: t.distributions.PowerTransform(3.0), lambda t: t.distributions.CorrCholeskyTransform(),
            lambda t: t.distributions.ComposeTransform([t.distributions.ExpTransform()]),
            lambda t: t.distributions.ComposeTransform([t.distributions.TanhTransform()]),
            lambda t: t.distributions.IndependentTransform(t.distributions.ExpTransform(), 1), lambda t: 3]
    for a in make:
        for b in make:
            assert bool(a(flambeau) == b(flambeau)) == bool(a(torch) == b(torch))
    with pytest.raises(TypeError, match="unhashable"):
        hash(d.ExpTransform())


def test_cached_inverse_undoes_rounding():
    tanh = flambeau.distributions.TanhTransform(cache_size=1)
    x = flambeau.tensor([50.0])
    assert tanh.inv(tanh(x)) is x
    assert flambeau.distributions.TanhTransform().inv(tanh(x)).isinf().all()


def test_copies_and_pickles():
    d = flambeau.distributions
    transform = d.ComposeTransform([d.AffineTransform(1.0, 2.0), d.ExpTransform()])
    x = flambeau.tensor([0.5])
    _ = transform.inv
    for twin in (copy.deepcopy(transform), pickle.loads(pickle.dumps(transform)), copy.deepcopy(transform.inv).inv):
        assert twin(x).item() == transform(x).item()
        assert twin.inv(twin(x)).item() == pytest.approx(0.5)


REFUSED = {
    "cache of two": (lambda t, d: d.ExpTransform(cache_size=2), "cache_size must be 0 or 1"),
    "sign of softmax": (lambda t, d: d.SoftmaxTransform().sign, None),
    "jacobian of softmax": (lambda t, d: d.SoftmaxTransform().log_abs_det_jacobian(t.ones(3), t.ones(3)), None),
    "event of two sizes": (lambda t, d: d.CorrCholeskyTransform().event_dim, "Please use either .domain.event_dim"),
    "too few dimensions": (lambda t, d: d.IndependentTransform(d.ExpTransform(), 2)(t.ones(3)), "Too few dimensions"),
    "reshape of other size": (lambda t, d: d.ReshapeTransform((2,), (3,)), "different numbers of elements"),
    "reshape mismatch": (lambda t, d: d.ReshapeTransform((2,), (2, 1)).forward_shape((3,)), "Shape mismatch"),
    "reshape of nothing": (lambda t, d: d.ReshapeTransform((2,), (2, 1)).forward_shape(()), "Too few dimensions"),
    "cat of other length": (lambda t, d: d.CatTransform([d.ExpTransform()], lengths=[3])(t.ones(4)), "must equal"),
    "cat of no transform": (lambda t, d: d.CatTransform([3]), "must be Transform instances"),
    "stack of other length": (lambda t, d: d.StackTransform([d.ExpTransform()])(t.ones(3)), "must equal"),
    "no triangle": (lambda t, d: d.CorrCholeskyTransform().forward_shape((4,)), "not a flattened lower-diagonal number"),
    "not square": (lambda t, d: d.CorrCholeskyTransform().inverse_shape((3, 2)), "not square"),
    "no vector": (lambda t, d: d.SoftmaxTransform().forward_shape(()), "Too few dimensions"),
    "nothing implemented": (lambda t, d: d.Transform()(t.ones(1)), None),
    "own without with_cache": (lambda t, d: _own(d)().with_cache(1), "with_cache"),
    "register a number": (lambda t, d: d.biject_to.register(3, lambda c: c), "a Constraint"),
    "bijection to booleans": (lambda t, d: d.biject_to(d.constraints.boolean), "Cannot transform _Boolean constraints"),
    "triangle of no size": (lambda t, d: d.utils.vec_to_tril_matrix(t.ones(5)), "lower triangular part of a square"),
    "diagonal outside": (lambda t, d: d.utils.tril_matrix_to_vec(t.ones(2, 2), 2), "diag"),
}


def _own(d):
    class Own(d.Transform):
        def __init__(self, cache_size=0):
            super().__init__(cache_size)

    return Own


@pytest.mark.parametrize("name", REFUSED)
def test_refused_as_in_pytorch(name):
    make, words = REFUSED[name]
    refused_alike(lambda t: make(t, t.distributions), words)


CONSTRAINTS = {
    "real": lambda t, c: c.real, "positive": lambda t, c: c.positive, "nonnegative": lambda t, c: c.nonnegative,
    "greater_than": lambda t, c: c.greater_than(2.0), "less_than": lambda t, c: c.less_than(2.0),
    "greater_than_eq": lambda t, c: c.greater_than_eq(t.tensor(1.0)), "unit_interval": lambda t, c: c.unit_interval,
    "interval": lambda t, c: c.interval(1.0, 3.0), "half_open_interval": lambda t, c: c.half_open_interval(0.0, 1.0),
    "simplex": lambda t, c: c.simplex, "lower_cholesky": lambda t, c: c.lower_cholesky,
    "lower_triangular": lambda t, c: c.lower_triangular, "corr_cholesky": lambda t, c: c.corr_cholesky,
    "positive_definite": lambda t, c: c.positive_definite, "square": lambda t, c: c.square,
    "positive_semidefinite": lambda t, c: c.positive_semidefinite, "symmetric": lambda t, c: c.symmetric,
    "real_vector": lambda t, c: c.real_vector, "independent": lambda t, c: c.independent(c.positive, 2),
    "cat": lambda t, c: c.cat([c.real, c.positive], -1, [1, 2]), "stack": lambda t, c: c.stack([c.real, c.positive], -1),
    "boolean": lambda t, c: c.boolean, "one_hot": lambda t, c: c.one_hot, "multinomial": lambda t, c: c.multinomial(4),
    "integer_interval": lambda t, c: c.integer_interval(0, 2), "positive_integer": lambda t, c: c.positive_integer,
    "nonnegative_integer": lambda t, c: c.nonnegative_integer,
    "mixture": lambda t, c: c.MixtureSameFamilyConstraint(c.greater_than(t.tensor([0.0, 0.5]))),
    "mixture of vectors": lambda t, c: c.MixtureSameFamilyConstraint(c.real_vector),
}
VALUES = [[0.0, 1.0, 2.5], [[1.0, 0.0], [0.0, 1.0]], [1.0, 0.0, 3.0], [0.5, 0.5], 0.75, [[2.0, 0.3], [0.3, 1.0]],
          [[1.0, 2.0], [2.0, 1.0]], [[1.0, 0.0], [0.6, 0.8]], [float("nan"), -1.0], [[[1.0, 0.0, 0.0]] * 3] * 2]


@pytest.mark.parametrize("name", CONSTRAINTS)
def test_constraint_and_its_transforms(name):
    results = []
    for t in (flambeau, torch):
        constraint = CONSTRAINTS[name](t, t.distributions.constraints)
        found = [repr(constraint), constraint.event_dim, constraint.is_discrete]
        found += [_tried(lambda: constraint.check(_double(t, v))) for v in VALUES]  # noqa: B023
        for registry in (t.distributions.biject_to, t.distributions.transform_to):
            transform = _tried(lambda: registry(constraint))  # noqa: B023
            found.append(repr(transform) if not isinstance(transform, type) else transform)
            for at in (VECTORS, MATRICES) if not isinstance(transform, type) else ():
                image = _tried(lambda: transform(_double(t, at)))  # noqa: B023
                found += [image, image if isinstance(image, type) else constraint.check(image)]
        results.append(found)
    for i, (ours, theirs) in enumerate(zip(*results, strict=True)):
        same(ours, theirs, f"{name} {i}")


def test_placeholders_know_what_they_are_told():
    c = flambeau.distributions.constraints
    assert c.is_dependent(c.dependent) and not c.is_dependent(c.real)
    assert repr(c.dependent) == "Dependent()"
    assert c.dependent(event_dim=2).event_dim == 2
    with pytest.raises(NotImplementedError, match="cannot be determined statically"):
        _ = c.dependent.is_discrete
    with pytest.raises(ValueError, match="Cannot determine validity of dependent constraint"):
        c.dependent.check(flambeau.ones(1))

    class Own(flambeau.distributions.Distribution):
        @c.dependent_property
        def support(self):
            return c.positive

        @c.dependent_property(is_discrete=True, event_dim=1)
        def other(self):
            return c.one_hot

    assert Own.other.event_dim == 1 and Own.other.is_discrete
    with pytest.raises(NotImplementedError):
        _ = Own.support.event_dim
    assert object.__new__(Own).support is c.positive


@pytest.mark.parametrize("diag", [-2, -1, 0, 1])
def test_triangles_pack_and_unpack(diag):
    for t in (flambeau, torch):
        matrix = t.arange(16.0).reshape(4, 4).tril(diag).expand(2, 4, 4)
        packed = t.distributions.utils.tril_matrix_to_vec(matrix, diag)
        assert (t.distributions.utils.vec_to_tril_matrix(packed, diag) == matrix).all()


def test_a_registered_constraint_of_ones_own():
    d = flambeau.distributions

    class Even(d.constraints.Constraint):
        def check(self, value):
            return value % 2 == 0

    @d.transform_to.register(Even)
    def to_even(constraint):
        return d.AffineTransform(0.0, 2.0)

    assert d.transform_to(Even())(flambeau.tensor([3.0])).item() == 6.0
    with pytest.raises(NotImplementedError, match="Cannot transform Even constraints"):
        d.biject_to(Even())


def test_a_count_between_two_triangles_is_refused():
    with pytest.raises(ValueError, match="lower triangular part of a square"):
        flambeau.distributions.utils.vec_to_tril_matrix(flambeau.ones(4))      # PyTorch refuses 5, not 4
