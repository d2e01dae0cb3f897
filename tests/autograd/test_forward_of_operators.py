"""Every differentiable operator: the derivative in a random direction by forward and by reverse mode."""

from __future__ import annotations

import numpy as np
import pytest

import flambeau
import flambeau.autograd.forward_ad as fwAD
from flambeau.autograd import _jacobians as jac
from flambeau.ops import REGISTRY
from flambeau.testing import samples as S

ROUNDED = {"half", "bfloat16", "float"}     # the tangent itself is rounded to a narrow dtype
KEYS = [k for k, r in REGISTRY.items() if r.differentiable and not r.random and k not in ROUNDED]


def differentiated(key):
    """(sample call, its tensors that require grad: not always leaves, as log-probabilities)"""
    for _, sample, _ in S.calls(flambeau, key, REGISTRY[key], "float64", True):
        given = S.tensors((sample.args, sample.kwargs))
        yield sample, list({id(t): t for t in given if t.requires_grad and t.numel()}.values())


@pytest.mark.parametrize("key", KEYS)
@pytest.mark.filterwarnings("ignore")       # some samples warn about their arguments; that is tested elsewhere
def test_forward_mode_agrees_with_reverse_mode(key):
    record = REGISTRY[key]
    rng = np.random.default_rng(0)
    for sample, leaves in differentiated(key):

        def call(*values, sample=sample, leaves=leaves):
            swap = {id(t): v for t, v in zip(leaves, values, strict=True)}
            out = record.fn(*S.swapped(sample.args, swap), **S.swapped(sample.kwargs, swap))
            return tuple(t for t in (out if isinstance(out, (tuple, list)) else (out,))
                         if isinstance(t, flambeau.Tensor) and jac.is_checked(t) and t.requires_grad)

        if not leaves or not call(*leaves):
            continue
        for position, leaf in enumerate(leaves):
            u = rng.standard_normal(jac.n_real(leaf))
            outputs = call(*leaves)
            tangents = jac.tangent(call, leaves, position, jac.as_tensor(u, leaf), range(len(outputs)))
            for out, t in zip(outputs, tangents, strict=True):
                v = rng.standard_normal(jac.n_real(out))
                (g,) = jac.backward_row(out, [leaf], jac.as_tensor(v, out))
                np.testing.assert_allclose(t @ v, jac.gradient_vector(g, leaf) @ u, rtol=1e-6, atol=1e-8)


def tangents_of(record, sample, leaves, directions):
    with fwAD.dual_level():
        swap = {id(t): fwAD.make_dual(v, d) for t, v, d in zip(*leaves, directions, strict=True)}
        out = record.fn(*S.swapped(sample.args, swap), **S.swapped(sample.kwargs, swap))
        out = out if isinstance(out, (tuple, list)) else (out,)
        found = [fwAD.unpack_dual(t).tangent for t in out if isinstance(t, flambeau.Tensor) and jac.is_checked(t)]
        return [None if t is None else t.detach().numpy() for t in found]


@pytest.mark.parametrize("key", KEYS)
@pytest.mark.filterwarnings("ignore")
def test_forward_mode_needs_no_graph(key):
    """Functions have shorter ways where nothing requires grad: tangents must not get lost on them."""
    record = REGISTRY[key]
    for sample, leaves in differentiated(key):
        plain = [t.detach() for t in leaves]
        directions = [flambeau.ones_like(t) for t in plain]
        want = tangents_of(record, sample, (leaves, leaves), directions)
        for a, b in zip(tangents_of(record, sample, (leaves, plain), directions), want, strict=True):
            if b is not None and b.any():
                np.testing.assert_allclose(a, b, rtol=1e-9, atol=1e-10)
