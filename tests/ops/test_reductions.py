"""Reductions, running reductions, sorting and searching: what the records' samples do not reach."""

from __future__ import annotations

import copy
import math
import pickle
import warnings

import numpy as np
import pytest
import torch

import flambeau

torch.set_num_threads(1)
LIBRARIES = (torch, flambeau)
INF, NAN = math.inf, math.nan


def gradients(fn, values, dtype="float64", order=1):
    """Gradients of fn(x).sum() weighted by cosines, in both libraries."""
    found = []
    for library in LIBRARIES:
        x = library.tensor(np.asarray(values, dtype), requires_grad=True)
        out = fn(library, x)
        for k in range(order):
            weights = library.tensor(np.cos(np.arange(out.numel()) + k).reshape(tuple(out.shape)).astype(dtype))
            (out,) = library.autograd.grad((out * weights).sum(), x, create_graph=k + 1 < order)
        found.append(out.detach().numpy())
    return found


@pytest.mark.parametrize("order", [1, 2])
@pytest.mark.parametrize("fn", [
    lambda m, x: x.prod(1), lambda m, x: x.prod(), lambda m, x: x.cumprod(1), lambda m, x: x.prod(0, keepdim=True),
], ids=["prod dim", "prod", "cumprod", "prod keepdim"])
@pytest.mark.parametrize("zeros", [0, 1, 2])
def test_gradients_of_products_are_right_with_zeros(fn, zeros, order):
    values = np.array([[2.0, 3.0, 0.5], [1.5, -2.0, 4.0]])
    values[0, :zeros] = 0
    expected, got = gradients(fn, values, order=order)
    np.testing.assert_allclose(got, expected, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("fn", [
    lambda m, x: x.max(), lambda m, x: x.min(), lambda m, x: x.amax(1), lambda m, x: x.amin((0, 1), keepdim=True),
    lambda m, x: x.median(), lambda m, x: x.max(1).values, lambda m, x: m.max(x, 2 * x), lambda m, x: x.norm(INF),
    lambda m, x: m.aminmax(x, dim=1).max, lambda m, x: x.nanmedian(), lambda m, x: x.norm(-INF),
], ids=["max", "min", "amax", "amin", "median", "max dim", "max of two", "inf norm", "aminmax", "nanmedian", "-inf norm"])
def test_gradients_of_ties_are_shared_as_in_pytorch(fn):
    expected, got = gradients(fn, [[1.0, 3.0, 3.0], [3.0, -3.0, 1.0]])
    np.testing.assert_allclose(got, expected)


@pytest.mark.parametrize("fn", [lambda m, x: x.max(), lambda m, x: x.median(), lambda m, x: x.nansum(),
                                lambda m, x: x.nanmean(1)],
                         ids=["max", "median", "nansum", "nanmean"])
def test_gradients_with_nan_are_those_of_pytorch(fn):
    expected, got = gradients(fn, [[1.0, NAN, 3.0], [3.0, -3.0, NAN]])
    np.testing.assert_allclose(got, expected)


@pytest.mark.parametrize("p", [0, 0.5, 1, 1.5, 2, 3, INF])
def test_gradient_of_a_norm_is_zero_at_zero(p):
    x = flambeau.zeros(3, requires_grad=True)
    x.norm(p).backward()
    assert x.grad.tolist() == [0.0, 0.0, 0.0]


NODES = {
    "x.sum()": "SumBackward0", "x.sum(0)": "SumBackward1", "x.mean()": "MeanBackward0", "x.mean(0)": "MeanBackward1",
    "x.max()": "MaxBackward1", "x.max(0)[0]": "MaxBackward0", "x.prod()": "ProdBackward0", "x.prod(0)": "ProdBackward1",
    "x.median()": "MedianBackward0", "x.median(0)[0]": "MedianBackward1", "x.std()": "StdBackward0",
    "x.var(0)": "VarBackward0",
    "x.norm()": "LinalgVectorNormBackward0", "x.sort()[0]": "SortBackward0", "x.topk(1)[0]": "TopkBackward0",
    "x.cumsum(0)": "CumsumBackward0", "x.tril()": "TrilBackward0", "x.diag()": "DiagonalBackward0_copy",
    "x.amax()": "AmaxBackward0", "x.logsumexp(0)": "LogsumexpBackward0", "x.unique()": "Unique2Backward0",
}


@pytest.mark.parametrize("expression", NODES)
def test_nodes_have_pytorchs_names(expression):
    for library in LIBRARIES:
        x = library.ones(2, 3, requires_grad=True)
        assert type(eval(expression, {"x": x}).grad_fn).__name__ == NODES[expression]


def test_mean_keeps_nothing_of_its_input():
    x = flambeau.ones(3, requires_grad=True)
    y = x * 2
    m = y.mean()
    y.mul_(2)        # would spoil a saved value
    m.backward()
    np.testing.assert_allclose(x.grad.numpy(), 2 / 3, rtol=1e-6)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_half_types_are_summed_in_float32(dtype):
    for library in LIBRARIES:
        x = library.ones(5000, dtype=getattr(library, dtype))
        assert x.sum().item() == (4992 if dtype == "bfloat16" else 5000)
        assert x.mean().item() == 1


@pytest.mark.parametrize("call", [
    lambda m: m.max(m.ones(2, 2), (0, 1)), lambda m: m.max(m.ones(2), 0, other=m.ones(2)),
    lambda m: m.mean(m.ones(2).long()),
    lambda m: m.prod(m.ones(2, 2), (0, 1)), lambda m: m.sum(m.ones(2, 2), (0, 0)),
    lambda m: m.var(m.ones(2), 0, True, correction=1),
    lambda m: m.max(m.empty(0)), lambda m: m.amax(m.empty(0, 2), 0), lambda m: m.diag(m.ones(1, 1, 1)),
    lambda m: m.tril(m.ones(2)),
    lambda m: m.histc(m.ones(3).long()), lambda m: m.quantile(m.ones(3), 2.0), lambda m: m.sum(3),
    lambda m: m.logcumsumexp(m.ones(2).long(), 0), lambda m: m.sort(m.ones(2), 3), lambda m: m.median(m.empty(0, 2), 0),
])
def test_wrong_calls_raise_the_classes_of_pytorch(call):
    with pytest.raises(Exception) as theirs:     # noqa: PT011  the class is what is compared
        call(torch)
    with pytest.raises(theirs.type):
        call(flambeau)


def test_named_results_are_tuples_with_pytorchs_text():
    texts = []
    for library in LIBRARIES:
        r = library.tensor([[1.0, 2.0]]).max(1)
        values, indices = r
        assert isinstance(r, tuple) and r.values is values and r.indices is indices and len(r) == 2
        assert type(r) is library.return_types.max
        texts.append(repr(r))
    assert texts[0] == texts[1]


def test_named_results_can_be_pickled_and_copied():
    r = flambeau.return_types.max([1, 2])
    assert pickle.loads(pickle.dumps(r)) == r and type(copy.copy(r)) is flambeau.return_types.max
    with pytest.raises(TypeError):
        flambeau.return_types.max([1])


def test_variance_of_one_element_warns_and_is_nan():
    for library in LIBRARIES:
        with pytest.warns(UserWarning, match="degrees of freedom"):
            assert math.isnan(library.tensor([1.0]).var().item())


@pytest.mark.parametrize("fn", [
    lambda m: m.trapezoid(m.arange(3)), lambda m: m.vander(m.tensor([1, 2, 3]), 0),
    lambda m: m.diff(m.tensor([True, False])),
    lambda m: m.searchsorted(m.tensor([1, 2, 3]), 2.5), lambda m: m.bucketize(2.5, m.tensor([1, 2, 3])),
    lambda m: m.histogram(m.tensor([1.0, 2.0]), 3, range=(0.0, 3.0))[1], lambda m: m.all(m.ones(2, 0), 1),
    lambda m: m.cov(m.tensor([[1, 2, 3], [1, 4, 2]]), fweights=m.tensor([1, 1, 2])),
    lambda m: m.sum(m.ones(2, 3), axis=1, keepdims=True),
    lambda m: m.unique(m.tensor([[3, 1], [1, 3]]), return_counts=True)[1], lambda m: m.ones(2, 2).logsumexp((0, 1)),
    lambda m: m.logsumexp(m.empty(0, 2), 0), lambda m: m.tensor([[-INF, -INF], [0.0, -INF]]).logsumexp(1),
])
def test_values_and_dtypes_of_special_calls(fn):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        expected, got = fn(torch), fn(flambeau)
    assert str(expected.dtype) == str(got.dtype) and tuple(expected.shape) == tuple(got.shape)
    np.testing.assert_allclose(got.numpy(), expected.numpy(), rtol=1e-6)
