"""How a gamma, beta or Dirichlet draw moves with its parameters: implicit reparameterisation gradients.

A draw x with distribution function F(x; a) keeps its quantile as `a` changes, so dx/da = -(dF/da) / (dF/dx).
Neither derivative of F by a shape parameter has a closed form; each region has its approximation (a power series near
the ends, a saddle-point expansion for large parameters, a fitted rational function between). Relative errors are a few
units in 10**4, the same as PyTorch's, whose values these are. All is computed in float64; PyTorch's digamma function for
float32 beta draws is rounded to float32, which shows where the difference of two of them is small: one parameter
hundreds of times the other.

The coefficients of the fitted functions are the constants of PyTorch's CPU kernels (ATen/native/Distributions.h): another
fit would give other gradients for the same draws.

Sources: Figurnov, Mohamed and Mnih, 2018, arXiv:1805.08498: implicit gradients. Lugannani and Rice, 1980, Advances in
Applied Probability 12(2): the saddle-point expansion.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from flambeau.kernels.scipy_special import special


def standard_gamma_grad(alpha: np.ndarray, output: np.ndarray) -> np.ndarray:
    """d output / d alpha for draws `output` of a gamma of shape parameter `alpha` and scale 1; they broadcast."""
    a, x = np.broadcast_arrays(np.asarray(alpha, np.float64), np.asarray(output, np.float64))
    small = x < 0.8
    large = ~small & (a > 8.0)
    at_mean = large & (0.9 * a <= x) & (x <= 1.1 * a)
    return _by_region(
        ((small, _gamma_small), (at_mean, _gamma_at_mean), (large & ~at_mean, _gamma_large)), _gamma_between, (a, x)
    ).astype(alpha.dtype)


def dirichlet_grad(x: np.ndarray, alpha: np.ndarray, total: np.ndarray) -> np.ndarray:
    """d x / d alpha, over 1 - x, for draws `x` of a beta of parameters alpha and total - alpha; the three broadcast.

    For a component x_i of a Dirichlet draw, alpha is its concentration and total the sum of all. A change of that
    concentration moves the other components in proportion, so that the draw moves by this times (e_i - draw).
    """
    x64, a, t = np.broadcast_arrays(*(np.asarray(array, np.float64) for array in (x, alpha, total)))
    b = t - a
    spread = t * x64 * (1 - x64)
    low = (x64 <= 0.5) & (spread < 2.5)
    high = ~low & (x64 >= 0.5) & (spread < 0.75)
    large = ~low & ~high & (a > 6) & (b > 6)
    regions = ((low, _beta_low), (high, _beta_high), (large, _beta_large))
    return _by_region(regions, _beta_between, (x64, a, b)).astype(x.dtype)


def _by_region(
    regions: tuple[tuple[np.ndarray, Callable[..., np.ndarray]], ...],
    otherwise: Callable[..., np.ndarray],
    arrays: tuple[np.ndarray, ...],
) -> np.ndarray:
    out = np.empty(arrays[0].shape)
    rest = np.ones(out.shape, np.bool_)
    for where, function in regions:
        if where.any():
            out[where] = function(*(array[where] for array in arrays))
            rest &= ~where
    if rest.any():
        out[rest] = otherwise(*(array[rest] for array in arrays))
    return out


def _finite(values: np.ndarray) -> np.ndarray:
    return np.where(np.isnan(values), 0.0, values)


# -- gamma -------------------------------------------------------------------------------------------
def _gamma_small(a: np.ndarray, x: np.ndarray) -> np.ndarray:
    """x below 0.8: the lower incomplete gamma function as x**a * sum (-x)**i / (i! (a + i)), six terms, over exp(-x)."""
    coefficient = np.ones_like(x)
    first, second = 1 / a, 1 / (a * a)  # the sum, and less its derivative by a
    for i in range(1, 6):
        coefficient = coefficient * (-x / i)
        shifted = a + i
        first = first + coefficient / shifted
        second = second + coefficient / (shifted * shifted)
    power = x**a
    by_shape = (np.log(x) - special("psi")(a)) * (power * first) - power * second
    return _finite(-by_shape / (x ** (a - 1) * np.exp(-x)))


def _gamma_large(a: np.ndarray, x: np.ndarray) -> np.ndarray:
    """a above 8: the expansion's derivative, times Stirling's correction of the density."""
    stirling = 1 + 1 / (12 * a) * (1 + 1 / (24 * a))
    root = np.sqrt(8 * a)
    log_ratio = np.log(x / a)
    below_or_above = np.where(x < a, -1.0, 1.0) * (x - a - a * log_ratio) ** -1.5
    term = log_ratio * (root / (a - x) + below_or_above) - np.sqrt(2 / a) * (a + x) / (a - x) ** 2
    return -stirling * x * term / root


def _gamma_at_mean(a: np.ndarray, x: np.ndarray) -> np.ndarray:
    """`_gamma_large` where x / a is near 1 and its poles cancel: their series."""
    stirling = 1 + 24 * a * (1 + 12 * a)
    series = 1440 * a * a + 6 * x * (53 - 120 * x) - 65 * x * x / a + a * (107 + 3600 * x)
    return stirling * series / (1244160 * a**4)


# exp(P / Q), P and Q in powers of log(x / a) (rows) and log(a) (columns).
_GAMMA_NUMERATOR = np.array([
    [0.16009398, -0.094634809, 0.025146376, -0.0030648343],
    [0.53487893, 0.12980710, 0.065735949, -0.0015649758],
    [0.040121004, -0.0065914022, -0.0026286047, -0.0013441777],
])
_GAMMA_DENOMINATOR = np.array([
    [1.0, 0.32668115, 0.10406089, 0.0014179084],
    [0.16639465, 0.020070113, -0.0035938915, -0.00058392623],
    [0.017050642, -0.0021309326, 0.00085092367, -1.5247877e-07],
])


def _gamma_between(a: np.ndarray, x: np.ndarray) -> np.ndarray:
    u, v = np.log(x / a), np.log(a)
    polynomial = np.polynomial.polynomial.polyval2d
    return np.exp(polynomial(u, v, _GAMMA_NUMERATOR) / polynomial(u, v, _GAMMA_DENOMINATOR))


# -- beta --------------------------------------------------------------------------------------------
def _beta_low(x: np.ndarray, a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """x near 0: the incomplete beta function as x**a * sum (1 - b)_i x**i / (i! (a + i)), eleven terms."""
    psi = special("psi")
    factor = psi(a) - psi(a + b) - np.log(x)
    coefficient = np.ones_like(x)
    series = (factor + 1 / a) / a
    for i in range(1, 11):
        coefficient = coefficient * ((i - b) * x / i)
        shifted = a + i
        series = series + coefficient / shifted * (factor + 1 / shifted)
    return _finite(x * (1 - x) ** -b * series)


def _beta_high(x: np.ndarray, a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """x near 1: the upper tail as a series in 1 - x of nine terms, whose coefficients depend on a."""
    psi = special("psi")
    rest = 1 - x
    factor = psi(a + b) - psi(a)
    coefficient, product, slope = np.ones_like(x), np.ones_like(x), np.zeros_like(x)
    series = factor / b
    for i in range(1, 9):
        coefficient = coefficient * (-rest / i)
        slope = slope * (a - i) + product  # derivative by a of the product (a - 1) ... (a - i)
        product = product * (a - i)
        series = series + coefficient / (b + i) * (slope + factor * product)
    return _finite(x ** (1 - a) * series)


def _beta_large(x: np.ndarray, a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Both parameters above 6: the expansion's derivative; near the mean, where its poles cancel, their series."""
    total = a + b
    mean = a / total
    deviation = np.sqrt(a * b / (total + 1)) / total
    at_mean = (mean - 0.1 * deviation <= x) & (x <= mean + 0.1 * deviation)
    return _by_region(((at_mean, _beta_at_mean),), _beta_off_mean, (x, a, b))


def _beta_at_mean(x: np.ndarray, a: np.ndarray, b: np.ndarray) -> np.ndarray:
    total = a + b
    series = (
        47 * x * b**4
        + a * b**3 * (43 + 20 * (16 + 27 * b) * x)
        + 3 * a**2 * b**2 * (59 + 180 * b - 90 * x)
        + a**3 * b * (453 + 1620 * b * (1 - x) - 455 * x)
        + 8 * (1 - x) * a**4 * (135 * b - 11)
    )
    stirling = (1 + 12 * a) * (1 + 12 * b) / (total * total)
    return stirling / (1 - x) * series / (12960 * a**3 * b**2 * (1 + 12 * total))


def _beta_off_mean(x: np.ndarray, a: np.ndarray, b: np.ndarray) -> np.ndarray:
    total = a + b
    offset = b * x + a * (x - 1)  # total * (x - mean)
    first = (2 * a**2 * (x - 1) + a * b * (x - 1) - x * b**2) / (np.sqrt(2 * a / b) * total**1.5 * offset**2)
    log_ratio = 0.5 * np.log(a / (total * x))
    pole = np.sqrt(8 * a * b / total) / offset
    divergence = b * np.log(b / (total * (1 - x))) + a * np.log(a / (total * x))
    tail = np.where(offset < 0, 1.0, -1.0) * divergence**-1.5
    stirling = _stirling(a) * _stirling(b) / _stirling(total)
    return stirling * (-x / np.sqrt(2 * a * b / total)) * (first + log_ratio * (pole + tail))


def _stirling(a: np.ndarray) -> np.ndarray:
    return 1 + 1 / (12 * a) + 1 / (288 * a * a)


# P / Q in powers of log(x), log(a / x) and log(total / a) + log(x), from the outside in.
_BETA_NUMERATOR = np.array([
    [[1.003668233, -0.01061107488, -0.0657888334, 0.01201642863],
     [0.6336835991, -0.3557432599, 0.05486251648, -0.001465281033],
     [-0.03276231906, 0.004474107445, 0.002429354597, -0.0001557569013]],
    [[0.221950385, -0.3187676331, 0.01799915743, 0.01074823814],
     [-0.2951249643, 0.06219954479, 0.01535556598, 0.001550077057],
     [0.02155310298, 0.004170831599, 0.001292462449, 6.976601077e-05]],
    [[-0.05980841433, 0.008441916499, 0.01085618172, 0.002319392565],
     [0.02911413504, 0.01400243777, -0.002721828457, 0.000751041181],
     [0.005900514878, -0.001936558688, -9.495446725e-06, 5.385558597e-05]],
])
_BETA_DENOMINATOR = np.array([
    [[1.0, -0.02924021934, -0.04438342661, 0.007285809825],
     [0.6357567472, -0.3473456711, 0.05454656494, -0.002407477521],
     [-0.03301322327, 0.004845219414, 0.00231480583, -0.0002307248149]],
    [[0.5925320577, -0.1757678135, 0.01505928619, 0.000564515273],
     [0.1014815858, -0.06589186703, 0.01272886114, -0.0007316646956],
     [-0.007258481865, 0.001096195486, 0.0003934994223, -4.12701925e-05]],
    [[0.06469649321, -0.0236701437, 0.002902096474, -5.896963079e-05],
     [0.001925008108, -0.002869809258, 0.0008000589141, -6.063713228e-05],
     [-0.0003477407336, 6.959756487e-05, 1.097287507e-05, -1.650964693e-06]],
])


def _beta_between(x: np.ndarray, a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """The value as b goes to infinity would have it, corrected by a fitted rational function."""
    psi = special("psi")
    total = a + b
    u = np.log(x)
    v = np.log(a) - u
    w = np.log(total) - v
    polynomial = np.polynomial.polynomial.polyval3d
    correction = polynomial(u, v, w, _BETA_NUMERATOR) / polynomial(u, v, w, _BETA_DENOMINATOR)
    return correction * (x * (psi(total) - psi(a)) / b)
