"""Linear algebra and Fourier transforms: values, gradients to order two, and errors, against PyTorch and gradcheck."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import flambeau
from flambeau.autograd import gradcheck, gradgradcheck

RNG = np.random.default_rng(0)
SQUARE = RNG.normal(size=(2, 3, 3)) + 3 * np.eye(3)
TALL = RNG.normal(size=(4, 3))
POSITIVE = SQUARE @ SQUARE.swapaxes(1, 2)
SIGNAL = RNG.normal(size=(3, 5))


def spectrum(library, a):
    """A function of an eigendecomposition that does not depend on the vectors' signs."""
    values, vectors = library.linalg.eigh(a + a.mT)
    return values.sin() + (vectors.abs() * library.arange(1.0, 4.0, dtype=a.dtype)).sum(-2)


def singular(library, a):
    u, s, vh = library.linalg.svd(a, full_matrices=False)
    return (u * s.exp().unsqueeze(-2)) @ vh


FUNCTIONS = {
    "inv": (lambda f, a: f.linalg.inv(a), SQUARE),
    "det": (lambda f, a: f.linalg.det(a), SQUARE),
    "slogdet": (lambda f, a: f.linalg.slogdet(a).logabsdet, SQUARE),
    "logdet": (lambda f, a: f.logdet(a), POSITIVE),
    "solve": (lambda f, a: f.linalg.solve(a, a[..., 0] * 2), SQUARE),
    "solve from the right": (lambda f, a: f.linalg.solve(a, a.mT, left=False), SQUARE),
    "solve_triangular": (lambda f, a: f.linalg.solve_triangular(a, a.mT, upper=True), SQUARE),
    "cholesky": (lambda f, a: f.linalg.cholesky(a @ a.mT), SQUARE),
    "cholesky upper": (lambda f, a: f.linalg.cholesky(a @ a.mT, upper=True), SQUARE),
    "qr": (lambda f, a: f.linalg.qr(a).R.abs(), TALL),
    "qr of a wide matrix": (lambda f, a: f.linalg.qr(a.mT).R.abs(), TALL),
    "eigh": (spectrum, SQUARE[0]),
    "eigvals": (lambda f, a: f.linalg.eigvals(a).abs().sum(), SQUARE[0]),
    "svd": (singular, TALL),
    "svd of a wide matrix": (lambda f, a: singular(f, a.mT), TALL),
    "svdvals": (lambda f, a: f.linalg.svdvals(a), TALL),
    "pinv": (lambda f, a: f.linalg.pinv(a), TALL),
    "pinv of a wide matrix": (lambda f, a: f.linalg.pinv(a.mT), TALL),
    "lstsq": (lambda f, a: f.linalg.lstsq(a, a[:, :1].exp()).solution, TALL),
    "matrix_exp": (lambda f, a: f.linalg.matrix_exp(a * 0.3), SQUARE),
    "nuclear norm": (lambda f, a: f.linalg.matrix_norm(a, "nuc"), TALL),
    "spectral norm": (lambda f, a: f.linalg.norm(a, 2), TALL),
    "column norm": (lambda f, a: f.linalg.matrix_norm(a, 1), TALL),
    "cond": (lambda f, a: f.linalg.cond(a), SQUARE),
    "fft": (lambda f, a: f.fft.fft(a).abs(), SIGNAL),
    "rfft2": (lambda f, a: f.fft.rfft2(a, s=(4, 6), norm="ortho").abs(), SIGNAL),
    "irfft of an odd size": (lambda f, a: f.fft.irfft(f.fft.rfft(a) * 2j, n=5), SIGNAL),
    "irfft of an even size": (lambda f, a: f.fft.irfft(a, n=8), SIGNAL),
    "hfft": (lambda f, a: f.fft.hfft(f.fft.ifft(a), n=8), SIGNAL),
    "ihfftn": (lambda f, a: f.fft.ihfftn(a).abs(), SIGNAL),
    "fftshift": (lambda f, a: f.fft.ifftshift(f.fft.fftshift(a).cumsum(1), dim=1), SIGNAL),
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_values_and_gradients_are_pytorchs(name):
    fn, array = FUNCTIONS[name]
    found = []
    for library in (torch, flambeau):
        a = library.tensor(array, requires_grad=True)
        out = fn(library, a)
        (out * library.linspace(1, 2, out.numel(), dtype=out.dtype).reshape(out.shape)).sum().backward()
        found.append((out.detach().numpy(), a.grad.numpy()))
    np.testing.assert_allclose(found[1][0], found[0][0], rtol=1e-9, atol=1e-11)
    np.testing.assert_allclose(found[1][1], found[0][1], rtol=1e-8, atol=1e-10)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_derivatives_to_order_two(name):
    fn, array = FUNCTIONS[name]
    a = flambeau.tensor(array, requires_grad=True)
    assert gradcheck(lambda x: fn(flambeau, x), a)
    assert gradgradcheck(lambda x: fn(flambeau, x), a)


def test_the_determinant_of_a_singular_matrix_has_a_gradient():
    a = flambeau.tensor([[1.0, 2.0], [2.0, 4.0]], dtype=flambeau.float64, requires_grad=True)
    flambeau.linalg.det(a).backward()
    np.testing.assert_allclose(a.grad.numpy(), [[4.0, -2.0], [-2.0, 1.0]], atol=1e-12)


def test_results_have_pytorchs_names():
    a = flambeau.tensor(SQUARE[0])
    for text in ("svd(a)", "qr(a)", "slogdet(a)", "eig(a)"):
        ours = eval("f." + text, {"f": flambeau.linalg, "a": a})
        theirs = eval("f." + text, {"f": torch.linalg, "a": torch.tensor(SQUARE[0])})
        assert type(ours).__name__ == type(theirs).__name__ and len(ours) == len(theirs)


ERRORS = [
    ("inv(f.ones(2, 3))", "must be batches of square matrices, but they are 2 by 3"),
    ("inv(f.ones(3))", "must have at least 2 dimensions"),
    ("inv(f.ones(2, 2, dtype=f.int64))", "Expected a floating point or complex tensor as input. Got Long"),
    ("inv(f.ones(2, 2, dtype=f.float16))", "Low precision dtypes not supported. Got Half"),
    ("inv(f.ones(2, 2))", "The diagonal element 2 is zero.*singular"),
    ("inv(f.stack([f.eye(2), f.ones(2, 2)]))", "Batch element 1"),
    ("solve(f.zeros(2, 2), f.ones(2))", "solver failed because the input matrix is singular"),
    ("solve(f.eye(2), f.ones(3, 2))", "Incompatible shapes of A and B for the equation AX = B"),
    ("cholesky(-f.eye(2))", "leading minor of order 1"),
    ("cholesky(f.tensor([[1., 2.], [2., 1.]]))", "leading minor of order 2"),
    ("cholesky(f.tensor([[1., 0.], [f.nan, 1.]]))", "leading minor of order 2"),
    ("cholesky(f.tensor([[[1.]], [[f.nan]]]))", "leading minor of order 1"),
    ("qr(f.ones(2, 2), mode='x')", "unrecognized mode"),
    ("qr(f.ones(3, 2, requires_grad=True), mode='r')", None),
    ("eigh(f.eye(2), 'X')", "Expected UPLO argument"),
    ("matrix_norm(f.eye(2), 3)", "Order 3 not supported"),
    ("norm(f.ones(2, 2, 2), 2)", "must be 1D"),
]


@pytest.mark.parametrize("text, words", ERRORS)
def test_errors_are_of_pytorchs_type_and_say_what_to_do(text, words):
    if words is None:
        with pytest.raises(RuntimeError, match="use linalg.qr"):
            eval("f.linalg." + text, {"f": flambeau})
        return
    with pytest.raises(RuntimeError, match=words):
        eval("f.linalg." + text, {"f": torch})
    with pytest.raises(RuntimeError, match=words):
        eval("f.linalg." + text, {"f": flambeau})


def test_a_singular_matrix_raises_linalg_error_and_inv_ex_tells_the_pivot():
    with pytest.raises(flambeau.linalg.LinAlgError):
        flambeau.linalg.inv(flambeau.ones(2, 2))
    assert flambeau.linalg.inv_ex(flambeau.stack([flambeau.eye(2), flambeau.ones(2, 2)])).info.tolist() == [0, 2]
    assert flambeau.linalg.cholesky_ex(-flambeau.eye(2)).info.item() == 1


def test_complete_qr_of_a_tall_matrix_has_no_derivative():
    a = flambeau.tensor(TALL, requires_grad=True)
    q, _ = flambeau.linalg.qr(a, mode="complete")
    with pytest.raises(RuntimeError, match="not differentiable when mode='complete'"):
        q.sum().backward()
