"""Derivatives of every operator against differences: first, second, forward mode, forward over reverse."""

from __future__ import annotations

import warnings

import pytest

import flambeau
from flambeau.autograd.gradcheck import GradcheckError
from flambeau.ops import PRIMITIVES, REGISTRY
from flambeau.testing import samples as S

EXACT = {"rtol": 1e-4, "atol": 1e-6}      # a tenth of what gradcheck allows: a formula wrong by 0.1% must fail
MANY = 60       # elements; larger samples are left to the comparison with PyTorch
# Their derivative is not that of the rounded value: it passes straight through, as PyTorch's
ROUNDED = {"half", "bfloat16", "float", "cfloat", "dequantize",
           "fake_quantize_per_tensor_affine", "fake_quantize_per_channel_affine"}
# They read a triangle of one argument, and give the gradient of the whole matrix, as PyTorch's
TRIANGULAR = {"cholesky_inverse": 0, "cholesky_solve": 1}
# The second derivative does not exist (PyTorch's neither), nor, for the random ones, forward mode
RANDOM_GRADIENTS = {"_standard_gamma", "_sample_dirichlet"}
ONCE = {"cdist", "pdist"} | RANDOM_GRADIENTS
# Held against reverse mode and PyTorch alone: the gradient of CTC is that after log_softmax, a padding row has none
ELSEWHERE = {"ctc_loss", "nn.functional.ctc_loss", "nn.functional.embedding"}
KEYS = [k for k, r in sorted(REGISTRY.items()) if r.differentiable and not r.random and k not in ROUNDED | ELSEWHERE]


def swapped(value, swap):
    if isinstance(value, (tuple, list)) and not hasattr(value, "shape"):
        return type(value)(swapped(v, swap) for v in value)
    if isinstance(value, dict):
        return {k: swapped(v, swap) for k, v in value.items()}
    return swap.get(id(value), value)


def functions(key):
    """For each sample small enough: (a function of the tensors that are differentiated, these tensors)."""
    record = REGISTRY[key]
    fn = S.public_callable(flambeau, key, record)
    for _, sample, _ in S.calls(flambeau, key, record, "float64", True):
        given = S.tensors((sample.args, list(sample.kwargs.values())))
        given = list({id(t): t for t in given if t.requires_grad}.values())
        if not given or any(t.numel() == 0 for t in given) or sum(t.numel() for t in given) > MANY:
            continue
        leaves = tuple(t.detach().clone(memory_format=flambeau.contiguous_format).requires_grad_() for t in given)
        triangle = flambeau.triu if sample.kwargs.get("upper") else flambeau.tril

        def call(*values, sample=sample, given=given, triangle=triangle):
            if key in TRIANGULAR:
                values = [triangle(v) if i == TRIANGULAR[key] else v for i, v in enumerate(values)]
            swap = {id(t): v for t, v in zip(given, values, strict=True)}
            out = fn(*swapped(sample.args, swap), **swapped(sample.kwargs, swap))
            return tuple(t for t in S.tensors(out) if t.requires_grad)

        with warnings.catch_warnings():
            warnings.simplefilter("ignore")     # about arguments; tested elsewhere
            if call(*leaves):
                yield call, leaves


def check(key):
    for call, leaves in functions(key):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            assert flambeau.autograd.gradcheck(call, leaves, fast_mode=True,
                                               check_forward_ad=key not in RANDOM_GRADIENTS, **EXACT)
            if key not in ONCE:
                assert flambeau.autograd.gradgradcheck(call, leaves, fast_mode=True, check_fwd_over_rev=True, **EXACT)


@pytest.mark.parametrize("key", KEYS)
def test_derivatives_agree_with_differences(key):
    check(key)


@pytest.mark.parametrize("key, slot", [("sin", "f0"), ("mul", "f1"), ("exp", "f0")])
def test_a_formula_wrong_by_a_thousandth_fails(key, slot, monkeypatch):
    formula = getattr(PRIMITIVES[key], slot)
    right = formula.fn
    monkeypatch.setattr(formula, "fn", lambda *values: right(*values) * 1.001)
    with pytest.raises(GradcheckError):
        check(key)
