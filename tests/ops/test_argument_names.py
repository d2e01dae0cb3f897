"""Keyword arguments by the names that PyTorch accepts, of which some are not those of its documentation."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import flambeau

CALLS = {
    "eigh": lambda t, a, x: t.linalg.eigh(input=a), "cholesky": lambda t, a, x: t.linalg.cholesky(input=a),
    "matrix_power": lambda t, a, x: t.linalg.matrix_power(input=a, n=2), "pinv": lambda t, a, x: t.linalg.pinv(input=a),
    "cholesky_inverse": lambda t, a, x: t.cholesky_inverse(input=a),
    "cholesky_solve": lambda t, a, x: t.cholesky_solve(a, input2=a),
    "lstsq": lambda t, a, x: t.linalg.lstsq(input=a, b=a)[0],
    "isin": lambda t, a, x: t.isin(elements=x, test_element=1.0),
    "isin of one": lambda t, a, x: t.isin(element=1.0, test_elements=x),
    "hsplit": lambda t, a, x: t.hsplit(x, sections=2), "hsplit at": lambda t, a, x: t.hsplit(x, indices=[2]),
    "tensor_split": lambda t, a, x: t.tensor_split(x, tensor_indices_or_sections=t.tensor(2)),
    "norm": lambda t, a, x: t.linalg.norm(input=a), "vector_norm": lambda t, a, x: t.linalg.vector_norm(input=a),
    "hermite": lambda t, a, x: t.special.hermite_polynomial_he(x=x, n=3),
    "shifted": lambda t, a, x: t.special.shifted_chebyshev_polynomial_t(x, n=t.tensor(2)),
    "airy": lambda t, a, x: t.special.airy_ai(x=x), "axis": lambda t, a, x: t.sum(a, axis=0, keepdims=True),
}


@pytest.mark.parametrize("name", CALLS)
def test_name_is_accepted(name):
    results = []
    for t in (torch, flambeau):
        out = CALLS[name](t, t.eye(2) * 2 + 0.5, t.arange(6.0))
        parts = out if isinstance(out, (tuple, list)) else [out]
        results.append([abs(v.float().numpy()) for v in parts])        # eigenvectors have either sign
    for theirs, ours in zip(*results, strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("call", [lambda t: t.special.hermite_polynomial_he(t.ones(2), other=3),
                                  lambda t: t.sum(t.ones(2), dims=0)])
def test_name_is_refused(call):
    for t in (torch, flambeau):
        with pytest.raises(TypeError):
            call(t)
