"""Values and derivatives at the edges, against PyTorch: ties, poles, infinities, empty and singular inputs.

A case is an expression of `L` (a library), `F` (its nn.functional) and the helpers below. Zeros have signs here.
"""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

import flambeau
from flambeau.testing import samples as S

inf, nan = math.inf, math.nan

INTEGERS = """
T([5, -5, 7, -7]) // T([2, 2, -2, -2])
T([5, -5, 7, -7]) % T([2, 2, -2, -2])
L.fmod(T([5, -5, 7, -7]), T([2, 2, -2, -2]))
T([1, 2]) // T([0, 1])
T([1, 2]) % T([0, 1])
L.fmod(T([1, 2]), 0)
L.div(T([7, -7]), T([0, 2]), rounding_mode="trunc")
L.div(T([7, -7]), T([2, 2]), rounding_mode="floor")
T([127], dtype=L.int8) + 1
T([-128], dtype=L.int8).abs()
T([200], dtype=L.uint8) + T([100], dtype=L.uint8)
-T([1], dtype=L.uint8)
T([2**31 - 1], dtype=L.int32) * 2
T([2**63 - 1]) + 1
T([2]) ** T([64])
T([0, 1, -1, 2]) ** T([-1, -1, -1, -1])
T([2, 3]) ** -1
T([True, False]) + T([True, True])
T([True, False]) - T([True, True])
T([True, False]) * 2
-T([True])
T([True, False]) / T([True, True])
T([True, False]).prod()
T([1]) << 64
T([1]) << -1
T([-8]) >> 65
T([8]) >> 64
T([1], dtype=L.int8) << 8
T([200], dtype=L.uint8) >> 9
T([-100], dtype=L.int8) >> 9
"""
ROUNDING = """
L.remainder(T([1., -1., 0., inf, nan, -0., 5., -5., -6.]), T([0., 0., 0., 2., 1., 3., inf, inf, 3.]))
L.remainder(T([-0., 6., -6.]), 3)
L.fmod(T([1., -1., 0., inf, nan, -0., 5., -5.]), T([0., 0., 0., 2., 1., 3., inf, inf]))
T([1., -1., 0., inf, nan]) // T([0., 0., 0., 2., 1.])
L.div(T([7., -7., 0., 1., -1.]), T([2., 2., 0., 0., 0.]), rounding_mode="trunc")
L.round(T([0.5, 1.5, 2.5, -0.5, -1.5, -2.5]))
L.round(T([0.125, 0.135, 2.675, 1.005, -0.125]), decimals=2)
L.round(T([125., 135., 145., -125.]), decimals=-1)
L.round(T([inf, nan, -inf]), decimals=2)
L.round(T([1.5]), decimals=400)
T([0., -0., 0.]) ** T([-1., -1., -2.])
T([-8., -2., 0.]) ** T([1 / 3, 2., 0.])
"""
STATISTICS = """
[L.quantile(T([1., 2., 4., 8.]), T([0., .1, .5, .77, 1.]), interpolation=m) for m in MODES]
[L.nanquantile(T([1., 2., nan, 8.]), T([0., .1, .5, .77, 1.]), interpolation=m) for m in MODES]
L.quantile(T([1., 2., nan]), 0.5)
L.quantile(T([inf, 1., 2.]), T([.5, .9]))
L.quantile(T([-inf, inf, 2.]), T([.25, .5, .9]))
L.quantile(T([]), 0.5)
L.histc(T([1., 2., nan, 3.]), bins=3, min=0, max=4)
L.histc(T([1., 2., inf, 3.]), bins=3)
L.histc(T([1., 1.]), bins=3)
L.histogram(T([1., inf]), bins=2)
L.bucketize(T([nan, -inf, inf, 1., 0.5]), T([0., 1., 2.]), right=True)
L.searchsorted(T([0., 1., 1., inf]), T([inf, 1., nan, -inf]), right=True)
L.nan_to_num(T([nan, inf, -inf, 1.], dtype=L.float16))
L.nan_to_num(T([nan, inf, -inf, 1.]), nan=2., posinf=3.)
L.unique(T([nan, 1., nan, 0., -0., 1.]), return_inverse=True, return_counts=True)
L.isclose(T([nan, inf, inf, 1.]), T([nan, inf, -inf, 1. + 1e-9]), equal_nan=True)
L.renorm(T([[1., nan], [3., 4.], [0., 0.]]), 2, 0, 1.)
G(lambda a: L.renorm(a, 2, 0, .5), [[0., 0.], [3., 4.]])
L.std(T([1.]))
L.std(T([1., 2.]), correction=3)
G(lambda a: L.std(a, correction=0), [1., 1.])
G(lambda a: L.var(a), [1.])
"""
EMPTY = """
[getattr(T([]), n)() for n in ("sum", "prod", "mean", "std", "var", "norm", "nansum", "nanmean", "all", "any", "median")]
[getattr(L.zeros(0, 3), n)(0) for n in ("sum", "prod", "mean", "std", "var", "logsumexp")]
T([]).max()
L.amax(T([]))
L.amax(L.zeros(0, 3), 1)
L.zeros(0, 3).argmax(1)
L.zeros(0, 3).max(0)
L.linalg.vector_norm(T([]), ord=inf)
L.linalg.vector_norm(L.zeros(0, 3), ord=inf, dim=1)
[f(L.zeros(0, 0)) for f in (L.linalg.det, L.linalg.slogdet, L.linalg.inv, L.linalg.cond, L.linalg.matrix_norm)]
L.cdist(L.zeros(2, 0), L.zeros(3, 0))
F.cross_entropy(L.zeros(0, 3), L.zeros(0, dtype=L.long))
F.mse_loss(T([]), T([]))
"""
EXPONENTIALS = """
L.logaddexp(T([-inf, inf, inf, nan, 0.]), T([-inf, inf, -inf, 0., -inf]))
G(lambda a, b: L.logaddexp(a, b), [-inf, inf, inf, 0., -inf], [-inf, inf, -inf, -inf, 0.])
G(lambda a: L.logsumexp(a, 1), [[-inf, -inf], [inf, 1.], [0., -inf], [inf, inf]])
G(lambda a: F.softmax(a, 1), [[-inf, -inf], [inf, 1.], [0., -inf]])
G(lambda a: F.log_softmax(a, 1), [[-inf, -inf], [inf, 1.], [0., -inf]])
G(lambda a: L.logcumsumexp(a, 0), [-inf, -inf, 0., 1., -inf])
G(lambda a: L.logcumsumexp(a, 0), [2.5, inf, 2.5, 1.])
G(lambda a: L.cumprod(a, 0), [2., 0., 3., 0., 4.])
G(lambda a: L.prod(a), [2., 0., 3.])
G(lambda a: L.prod(a), [2., 0., 0.])
L.lgamma(T([0., -0., -1., inf, -inf, nan, 5e-324, -1e-310], dtype=D))
L.special.airy_ai(T([1e10, 200., -1e10, 0.], dtype=D))
H(lambda a: L.special.log_ndtr(a), [-5., 0., 30., 1e4])
G(lambda a: L.special.i1(a), [0., 1e-308, 2.])
"""
LOSSES = """
F.cross_entropy(L.zeros(2, 3), T([-100, -100]))
F.cross_entropy(T([[1., 2., 3.], [1., -inf, 0.]]), T([0, 0]), label_smoothing=0.1)
F.cross_entropy(T([[1., 2., 3.], [1., 1., 0.]]), T([0, -100]), label_smoothing=0.1, weight=T([1., 0., 2.]))
F.cross_entropy(T([[1., 2., 3.], [0., 0., 0.]]), T([[.2, .3, .5], [1., 0., 0.]]), weight=T([1., 0., 2.]))
G(lambda x: F.cross_entropy(x, T([0, -100])), [[1., 2.], [3., 4.]])
F.binary_cross_entropy(T([0., 1., 0., 1.]), T([0., 1., 1., 0.]), reduction="none")
G(lambda x: F.binary_cross_entropy_with_logits(x, T([1., 0., 0., 1.], dtype=D)), [inf, -inf, 1e10, -1e10])
F.kl_div(T([0., -1., -inf]), T([0., 0., 0.]), reduction="none")
H(lambda x: F.huber_loss(x, x.detach() * 0), [1., -1., 0., 2.])
H(lambda x: F.smooth_l1_loss(x, x.detach() * 0), [1., -1., 0., 2., .5])
G(lambda x: F.smooth_l1_loss(x, x.detach() * 0), [nan, 1.])
"""
NORMS = """
[G(lambda a, b: L.cdist(a, b, p=p), [[1., 2.], [3., 4.]], [[1., 2.], [1., 4.]]) for p in (0., .5, 1., 2., 3., inf)]
[G(lambda a: F.pdist(a, p=p), [[1., 2.], [1., 2.], [3., 2.]]) for p in (0., .5, 1., 1.5, 2., 3., inf)]
[J(lambda a: L.linalg.vector_norm(a, p), [0., -0., 0.]) for p in (2, 3, 1.5)]
[J(f, [2., 2., 2.]) for f in (L.std, lambda a: L.std_mean(a)[0])]
G(lambda a, b: F.cosine_similarity(a, b, dim=0), [0., 0.], [1., 2.])
G(lambda a: F.normalize(a, dim=0), [0., 0.])
G(lambda a: F.layer_norm(a, (3,)), [3., 3., 3.])
F.group_norm(T([[3., 3., 1., 1.]]), 2)
F.rms_norm(T([0., 0.]), (2,))
"""
TIES = """
[G(f, [2., 2., 1., 2.]) for f in (L.max, L.min, L.amax, L.amin, L.median)]
[G(f, [2., nan, 1., 2.]) for f in (L.max, L.min, L.amax, L.amin)]
[G(lambda a: f(a, 1), [[2., 2.], [nan, 1.]]) for f in (L.amax, L.amin)]
[J(f, [2., 2., 1., 2.]) for f in (L.amax, L.amin)]
[G(f, [1., 2.], [1., 3.]) for f in (L.maximum, L.minimum, L.fmax, L.fmin)]
G(lambda a: L.clamp(a, -1., 1.), [-1., 1., 0., nan])
[H(f, [0., -0., 1., -2.]) for f in (F.elu, F.selu, F.celu, F.relu, F.hardtanh, L.abs, F.leaky_relu)]
[G(f, [nan, 1., -1.]) for f in (F.elu, F.selu, F.celu)]
G(F.hardswish, [nan, 3., -3., 1.])
"""
POLES = """
H(lambda a, b: a / b, [1., 0., 2.], [2., 1., 4.])
J(lambda a: a / (a - 1), [1., 2.])
J(L.sinc, [0., -0., 1.])
J(lambda a: L.copysign(a, a), [0., -0., 2.])
J(lambda a: L.logit(a, .1), [0., .5, 1.])
H(L.logit, [-1., .5, 2.])
G(lambda a, b: a ** b, [0., 0., 0., 2.], [0., 1., 2., 0.])
G(L.atan2, [0., -0., 1.], [0., 0., 0.])
G(L.hypot, [0., 3.], [0., 4.])
G(L.sqrt, [0., 4.])
G(L.rsqrt, [0., 4.])
G(lambda a: L.where(a > 0, a.log(), a * 0), [0., 2.])
G(lambda a, b: L.xlogy(a, b), [0., 0., 1.], [0., 1., 1.])
"""
MATRICES = """
[J(L.linalg.det, m) for m in SINGULAR]
L.linalg.inv(T([[1., 1.], [1., 1.]]))
L.linalg.cholesky(T([[1., 2.], [2., 1.]]))
L.cholesky_inverse(T([[0., 0.], [1., 1.]]))
L.linalg.solve(T([[1., 1.], [1., 1.]]), T([1., 1.]))
L.linalg.slogdet(T([[1., 1.], [1., 1.]]))
[J(f, [[2., 1.], [1., 3.]]) for f in (L.linalg.svdvals, L.linalg.cond, L.linalg.matrix_norm)]
[J(lambda a: f(a)[0], [[2., 1.], [1., 3.]]) for f in (L.linalg.lu_factor, L.linalg.qr)]
[L.linalg.vector_norm(T(v, dtype=D), p, -1) for v in ([1e200], [[-1e-200], [0.]]) for p in (2, 3, 0, inf)]
J(lambda a: L.linalg.qr(a)[1], [[2., 1., 4.], [1., 3., 5.]])
"""
PRECISION = """
L.addcmul(T([0.]), T([3e38]), T([1e-10]), value=10.)
[L.addcdiv(T(NUMBERS), T(NUMBERS[::-1]), T([1.7 + x * x for x in NUMBERS]), value=-0.1234)]
"""
GROUPS = {k: v for k, v in globals().items() if k.isupper() and isinstance(v, str)}
CASES = [pytest.param(line, id=f"{name.lower()}{i}") for name, text in GROUPS.items()
         for i, line in enumerate(text.strip().splitlines())]


def evaluate(L, line):
    def T(values, **options):
        return L.tensor(values, **options)

    def leaves(values):
        return [L.tensor(v, dtype=L.float64, requires_grad=True) for v in values]

    def weights(t):
        return L.arange(1, t.numel() + 1, dtype=t.dtype).reshape(t.shape)

    def gradients(f, *values, create_graph=False):
        xs = leaves(values)
        out = f(*xs)
        return xs, [out, *L.autograd.grad((out * weights(out)).sum(), xs, create_graph=create_graph)]

    def second(f, *values):
        """The value, the gradients, and theirs."""
        xs, found = gradients(f, *values, create_graph=True)
        total = sum((g * weights(g)).sum() for g in found[1:])
        again = L.autograd.grad(total, xs, allow_unused=True) if total.requires_grad else [None for x in xs]
        return [*found, *[L.zeros_like(x) if g is None else g for g, x in zip(again, xs, strict=True)]]

    def forward(f, *values):
        """The tangent."""
        ad = L.autograd.forward_ad
        with ad.dual_level():
            duals = [ad.make_dual(x, weights(x)) for x in (t.detach() for t in leaves(values))]
            return ad.unpack_dual(f(*duals)).tangent

    names = {"L": L, "F": L.nn.functional, "T": T, "D": L.float64, "inf": inf, "nan": nan, "H": second, "J": forward,
             "G": lambda f, *values: gradients(f, *values)[1],
             "MODES": ("linear", "lower", "higher", "midpoint", "nearest"),
             "SINGULAR": ([[1., 1.], [1., 1.]], [[1., 2., 3.], [4., 5., 6.], [7., 8., 9.]], [[0., 0.], [0., 0.]]),
             "NUMBERS": np.random.RandomState(0).standard_normal(40).tolist()}
    return S.tensors(eval(line, names))  # noqa: S307 (the lines above)


@pytest.mark.parametrize("line", CASES)
@pytest.mark.filterwarnings("ignore")
def test_edge_agrees_with_pytorch(line):
    try:
        expected = evaluate(torch, line)
    except Exception as error:
        with pytest.raises(type(error).__mro__[0] if type(error).__module__ == "builtins" else RuntimeError):
            evaluate(flambeau, line)
        return
    found = evaluate(flambeau, line)
    S.assert_same(expected, found, line)
    for a, b in zip(expected, found, strict=True):
        x, y = S.to_numpy(a), S.to_numpy(b)
        if x.dtype.kind == "f" and "G(" not in line and "H(" not in line and "J(" not in line:
            np.testing.assert_array_equal(np.signbit(x) & (x == 0), np.signbit(y) & (y == 0), line)


def test_second_derivative_of_the_determinant_of_singular_matrices():
    """PyTorch's own first gradient is 0 for some of them when no graph is asked for; the cofactors are right."""
    for rows in ([[1., 1.], [1., 1.]], [[1., 2., 3.], [4., 5., 6.], [7., 8., 9.]]):
        line = f"H(L.linalg.det, {rows})"
        for a, b in zip(evaluate(torch, line), evaluate(flambeau, line), strict=True):
            np.testing.assert_allclose(S.to_numpy(b), S.to_numpy(a), atol=1e-5)
    ones = flambeau.ones(2, 2, requires_grad=True)
    flambeau.linalg.det(ones).backward()
    np.testing.assert_allclose(ones.grad.numpy(), [[1., -1.], [-1., 1.]], rtol=1e-6)


def test_products_are_scaled_first_as_pytorch_does():
    """Bit for bit: optimizers are written with these."""
    numbers = np.random.RandomState(1).standard_normal((3, 500)).astype(np.float32)
    got = flambeau.addcdiv(*map(flambeau.tensor, numbers), value=-0.1234).numpy()
    np.testing.assert_array_equal(got, torch.addcdiv(*map(torch.tensor, numbers), value=-0.1234).numpy())
