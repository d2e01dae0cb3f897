"""Activations of `torch.nn.functional`.

Each saves one tensor: relu and sigmoid their output, the others their input. The derivatives are fused kernels
on arrays, and compositions when a backward is itself recorded.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from flambeau.core.apply import apply1, apply2, apply_n
from flambeau.core.inplace import apply_inplace, apply_inplace1
from flambeau.core.objects import TensorBase, array_of, dtype_of, make, shape_of
from flambeau.core.op import Op, slot
from flambeau.kernels import activations as kernel
from flambeau.kernels.random import rrelu_noise

from ._args import dim as checked_dim
from ._args import tensor, word
from ._generator import default_generator
from ._lazy import is_meta
from ._pointwise import fused, unary, unary_samples
from ._record import KERNEL, call, primitive, public
from ._shapes import elementwise, resized

_FUNCTIONAL = ("nn.functional",)
_SELU_ALPHA = 1.6732632423543772848170429916717
_SELU_SCALE = 1.0507009873554804934193349852946

RELU = unary("relu", kernel.relu, float_result=False, expr="max(self, 0)", example=("[-1., 2.]", "[0.0, 2.0]"),
             doc="max(input, 0), elementwise; nan stays nan. Only the output is kept for backward.",
             self=lambda xp, g, out: xp.relu_backward(g, out), samples=unary_samples(0.2, 2.0))
fused("relu_backward", kernel.relu_backward, lambda xp, g, out: xp.linked(xp.drop(g, out <= 0), out))
SIGMOID, TANH = slot("sigmoid"), slot("tanh")


def _parametric(name: str, fn: Callable, backward: Callable, composed: Callable, params: tuple[str, ...],
                **options: Any) -> Op:
    """An activation with numbers as parameters that saves its input."""
    fused(f"{name}_backward", backward, composed)
    names = "".join(", " + p for p in params)
    code = f"lambda xp, g, self{names}: xp.{name}_backward(g, self{names})"
    return primitive(name, fn, params=params, scalars=tuple(p for p in params if p != "approximate"), pointwise=True,
                     same_dtype=True, expr=KERNEL, self=eval(code), **options)  # noqa: S307 (text of our own)


def _elu_composed(xp: Any, g: Any, a: Any, alpha: float, scale: float, input_scale: float) -> Any:
    low = xp.keep(a, a < 0)         # 0 counts as high in the second derivative, nan in both
    return xp.drop(g * scale, a <= 0) + xp.keep(g * (alpha * scale * input_scale) * xp.exp(low * input_scale), a <= 0)


def _gelu_composed(xp: Any, g: Any, a: Any, approximate: str) -> Any:
    if approximate == "tanh":
        c, cube = math.sqrt(2 / math.pi), 0.044715
        t = xp.tanh((a + a * a * a * cube) * c)
        return g * ((t + 1) * 0.5 + a * 0.5 * (1 - t * t) * c * (a * a * (3 * cube) + 1))
    phi = xp.exp(a * a * -0.5) * (1 / math.sqrt(2 * math.pi))
    return g * ((xp.erf(a * math.sqrt(0.5)) + 1) * 0.5 + a * phi)


def _silu_composed(xp: Any, g: Any, a: Any) -> Any:
    s = xp.sigmoid(a)
    return g * xp.conj(s * (a * (1 - s) + 1))


def _mish_composed(xp: Any, g: Any, a: Any) -> Any:
    t = xp.tanh(xp.softplus(a, 1.0, 20.0))
    return g * (t + a * xp.sigmoid(a) * (1 - t * t))


def _softplus_composed(xp: Any, g: Any, a: Any, beta: float, threshold: float) -> Any:
    linear = a * beta > threshold
    return xp.keep(g, linear) + xp.drop(g * xp.sigmoid(a * beta), linear)


def _hardswish_composed(xp: Any, g: Any, a: Any) -> Any:
    return xp.drop(g, a < 3) + xp.keep(g * (a / 3 + 0.5), (a > -3) & (a < 3))


LEAKY_RELU = _parametric("leaky_relu", kernel.leaky_relu, kernel.leaky_relu_backward,
                         lambda xp, g, a, slope: xp.linked(xp.keep(g, a > 0) + xp.drop(g * slope, a > 0), a),
                         ("negative_slope",))
ELU = _parametric("elu", kernel.elu, kernel.elu_backward, _elu_composed, ("alpha", "scale", "input_scale"))
CELU = primitive("celu", kernel.elu, params=("alpha", "scale", "input_scale"), scalars=("alpha", "scale", "input_scale"),
                 pointwise=True, same_dtype=True, expr=KERNEL,
                 self=lambda xp, g, self, alpha, scale, input_scale: xp.elu_backward(g, self, alpha, scale, input_scale))
GELU = _parametric("gelu", kernel.gelu, kernel.gelu_backward, _gelu_composed, ("approximate",))
SILU = _parametric("silu", kernel.silu, kernel.silu_backward, _silu_composed, (), inplace=kernel.silu.into)
MISH = _parametric("mish", kernel.mish, kernel.mish_backward, _mish_composed, (), inplace=kernel.mish.into)
SOFTPLUS = _parametric("softplus", kernel.softplus, kernel.softplus_backward, _softplus_composed, ("beta", "threshold"))
LOG_SIGMOID = _parametric("log_sigmoid", kernel.log_sigmoid, kernel.log_sigmoid_backward,
                          lambda xp, g, a: g * xp.sigmoid(-a), ())
HARDTANH = _parametric("hardtanh", kernel.hardtanh, kernel.hardtanh_backward,
                       lambda xp, g, a, low, high: xp.linked(xp.keep(g, (a > low) & (a < high)), a), ("min_val", "max_val"))
HARDSIGMOID = _parametric("hardsigmoid", kernel.hardsigmoid, kernel.hardsigmoid_backward,
                          lambda xp, g, a: xp.keep(g * (1 / 6), (a > -3) & (a < 3)), ())
HARDSWISH = _parametric("hardswish", kernel.hardswish, kernel.hardswish_backward, _hardswish_composed, ())
SOFTSHRINK = _parametric("softshrink", kernel.softshrink, kernel.shrink_backward,
                         lambda xp, g, a, lambd: xp.linked(xp.keep(g, (a < -lambd) | (a > lambd)), a), ("lambd",))
HARDSHRINK = _parametric("hardshrink", kernel.hardshrink, kernel.shrink_backward,
                         lambda xp, g, a, lambd: xp.linked(xp.keep(g, (a < -lambd) | (a > lambd)), a), ("lambd",))
fused("threshold_backward", kernel.threshold_backward, lambda xp, g, a, limit: xp.linked(xp.drop(g, a <= limit), a))
THRESHOLD = primitive("threshold", kernel.threshold, params=("threshold", "value"), scalars=("threshold", "value"),
                      pointwise=True, same_dtype=True, expr="self <= threshold ? value : self",
                      self=lambda xp, g, self, threshold: xp.threshold_backward(g, self, threshold))
fused("prelu_backward", lambda g, a, weight: kernel.prelu_backward(g, a, weight),
      lambda xp, g, a, weight: xp.linked(xp.keep(g, a > 0) + xp.drop(g * weight, a > 0), a))
PRELU = primitive("prelu_kernel", kernel.prelu, inputs=("self", "weight"), pointwise=True,
                  expr="self > 0 ? self : self * weight", node="PreluKernelBackward0",
                  self=lambda xp, g, self, weight: xp.prelu_backward(g, self, weight),
                  weight=lambda xp, g, self: xp.drop(g * self, self > 0))


def _glu_composed(xp: Any, g: Any, a: Any, dim: int) -> Any:
    half = a.shape[dim] // 2
    x, gate = xp.narrow(a, dim, 0, half), xp.narrow(a, dim, half, half)
    s = xp.sigmoid(gate)
    return xp.cat([g * s, g * x * s * (1 - s)], dim)


fused("glu_backward", kernel.glu_backward, _glu_composed)
GLU = primitive("glu", kernel.glu, params=("dim",), meta=lambda self, dim: resized(self, dim, self.shape[dim] // 2),
expr=KERNEL, self=lambda xp, g, self, dim: xp.glu_backward(g, self, dim))


# --------------------------------------------------------------------------------- functions


def _run(op: Op, input: Any, params: tuple | None, inplace: bool, name: str) -> Any:
    if not isinstance(input, TensorBase):
        tensor(input, name)
    if inplace:
        return apply_inplace1(op, input) if params is None else apply_inplace(op, [input], params)
    return apply1(op, input, params)


def _samples(**kw: Any) -> Callable:
    return lambda t: [call(t(3, 4)), call(t(0, 2)), call(t(4, 3, transposed=True), **kw)]


def _functional(samples: Callable, **options: Any) -> Callable:
    return public(namespaces=_FUNCTIONAL, method=False, out=False, samples=samples, **options)


def _relu(input: Any, inplace: bool = False) -> Any:
    """max(input, 0), elementwise; nan stays nan.

    Args:
        inplace: write the result into input.

    >>> flambeau.nn.functional.relu(flambeau.tensor([-1., 2.])).tolist()
    [0.0, 2.0]
    """
    return _run(RELU, input, None, inplace, "relu")


_functional(unary_samples(0.2, 2.0), name="relu")(_relu)


@_functional(_samples())
def relu6(input: Any, inplace: bool = False) -> Any:
    """min(max(input, 0), 6), elementwise.

    Source: Krizhevsky, "Convolutional deep belief networks on CIFAR-10", 2010.

    >>> flambeau.nn.functional.relu6(flambeau.tensor([-1., 2., 9.])).tolist()
    [0.0, 2.0, 6.0]
    """
    return _run(HARDTANH, input, (0, 6), inplace, "relu6")


@_functional(_samples(negative_slope=0.3))
def leaky_relu(input: Any, negative_slope: float = 0.01, inplace: bool = False) -> Any:
    """input where positive, else negative_slope * input.

    >>> flambeau.nn.functional.leaky_relu(flambeau.tensor([-1., 2.]), 0.5).tolist()
    [-0.5, 2.0]
    """
    return _run(LEAKY_RELU, input, (negative_slope,), inplace, "leaky_relu")


@_functional(_samples(alpha=0.5))
def elu(input: Any, alpha: float = 1.0, inplace: bool = False) -> Any:
    """input where positive, else alpha * (exp(input) - 1).

    Source: Clevert, Unterthiner and Hochreiter, arXiv:1511.07289.

    >>> flambeau.nn.functional.elu(flambeau.tensor([0., 2.])).tolist()
    [0.0, 2.0]
    """
    return _run(ELU, input, (alpha, 1.0, 1.0), inplace, "elu")


@_functional(_samples())
def selu(input: Any, inplace: bool = False) -> Any:
    """scale * elu(input, alpha), with the constants that keep mean 0 and variance 1 through layers.

    Source: Klambauer et al., arXiv:1706.02515.

    >>> flambeau.nn.functional.selu(flambeau.tensor([0.])).tolist()
    [0.0]
    """
    return _run(ELU, input, (_SELU_ALPHA, _SELU_SCALE, 1.0), inplace, "selu")


@_functional(_samples(alpha=0.5))
def celu(input: Any, alpha: float = 1.0, inplace: bool = False) -> Any:
    """max(0, input) + min(0, alpha * (exp(input / alpha) - 1)).

    Raises:
        RuntimeError: alpha is 0.

    Source: Barron, arXiv:1704.07483.

    >>> flambeau.nn.functional.celu(flambeau.tensor([0., 2.])).tolist()
    [0.0, 2.0]
    """
    if alpha == 0:
        raise RuntimeError("ZeroDivisionError: alpha cannot be 0 for CELU")
    return _run(CELU, input, (alpha, 1.0, 1.0 / alpha), inplace, "celu")


@_functional(_samples(approximate="tanh"))
def gelu(input: Any, approximate: str = "none") -> Any:
    """Gaussian error linear unit, input * Phi(input), elementwise.

    Args:
        approximate: "none" for the exact form, "tanh" for the fast one (absolute error below 1e-3).

    Raises:
        RuntimeError: approximate is neither word.

    Source: Hendrycks and Gimpel, arXiv:1606.08415.

    >>> flambeau.nn.functional.gelu(flambeau.tensor([0.])).tolist()
    [0.0]
    """
    if word(approximate, "gelu", "approximate") not in ("none", "tanh"):
        raise RuntimeError(f"approximate argument must be either none or tanh, not {approximate!r}.")
    return _run(GELU, input, (approximate,), False, "gelu")


@_functional(_samples())
def silu(input: Any, inplace: bool = False) -> Any:
    """input * sigmoid(input), elementwise; also called swish.

    Source: Elfwing, Uchibe and Doya, arXiv:1702.03118.

    >>> flambeau.nn.functional.silu(flambeau.tensor([0.])).tolist()
    [0.0]
    """
    return _run(SILU, input, None, inplace, "silu")


@_functional(_samples())
def mish(input: Any, inplace: bool = False) -> Any:
    """input * tanh(softplus(input)), elementwise.

    Source: Misra, arXiv:1908.08681.

    >>> flambeau.nn.functional.mish(flambeau.tensor([0.])).tolist()
    [0.0]
    """
    return _run(MISH, input, None, inplace, "mish")


@_functional(_samples(beta=2.0, threshold=3.0))
def softplus(input: Any, beta: float = 1.0, threshold: float = 20.0) -> Any:
    """log(1 + exp(beta * input)) / beta, elementwise; input itself where beta * input > threshold.

    >>> flambeau.nn.functional.softplus(flambeau.tensor([30.])).tolist()
    [30.0]
    """
    return _run(SOFTPLUS, input, (beta, threshold), False, "softplus")


@_functional(_samples(lambd=0.3))
def softshrink(input: Any, lambd: float = 0.5) -> Any:
    """input moved by lambd towards 0, and 0 within lambd of it.

    Raises:
        RuntimeError: lambd is negative.

    >>> flambeau.nn.functional.softshrink(flambeau.tensor([-1., 0.2, 1.])).tolist()
    [-0.5, 0.0, 0.5]
    """
    if lambd < 0:
        raise RuntimeError(f"lambda must be greater or equal to 0, but found to be {lambd}.")
    return _run(SOFTSHRINK, input, (lambd,), False, "softshrink")


def hardshrink(input: Any, lambd: float = 0.5) -> Any:
    """input, and 0 within lambd of 0.

    >>> flambeau.nn.functional.hardshrink(flambeau.tensor([-1., 0.2, 1.])).tolist()
    [-1.0, 0.0, 1.0]
    """
    return _run(HARDSHRINK, input, (lambd,), False, "hardshrink")


public(namespaces=("torch", "nn.functional"), samples=_samples(lambd=0.3))(hardshrink)


@_functional(_samples())
def tanhshrink(input: Any) -> Any:
    """input - tanh(input), elementwise.

    >>> flambeau.nn.functional.tanhshrink(flambeau.tensor([0.])).tolist()
    [0.0]
    """
    return apply2(slot("sub"), input, apply1(TANH, tensor(input, "tanhshrink")))


@_functional(_samples(min_val=-0.5, max_val=0.7))
def hardtanh(input: Any, min_val: float = -1.0, max_val: float = 1.0, inplace: bool = False) -> Any:
    """min(max(input, min_val), max_val), elementwise. The gradient is 0 at the bounds.

    Raises:
        ValueError: min_val is above max_val.

    >>> flambeau.nn.functional.hardtanh(flambeau.tensor([-2., 0.5])).tolist()
    [-1.0, 0.5]
    """
    if min_val > max_val:
        raise ValueError("min_val cannot be greater than max_val")
    return _run(HARDTANH, input, (min_val, max_val), inplace, "hardtanh")


@_functional(_samples())
def hardsigmoid(input: Any, inplace: bool = False) -> Any:
    """min(max(input + 3, 0), 6) / 6, elementwise.

    >>> flambeau.nn.functional.hardsigmoid(flambeau.tensor([-3., 0., 3.])).tolist()
    [0.0, 0.5, 1.0]
    """
    return _run(HARDSIGMOID, input, None, inplace, "hardsigmoid")


@_functional(_samples())
def hardswish(input: Any, inplace: bool = False) -> Any:
    """input * hardsigmoid(input), elementwise.

    Source: Howard et al., arXiv:1905.02244.

    >>> flambeau.nn.functional.hardswish(flambeau.tensor([-3., 0., 3.])).tolist()
    [-0.0, 0.0, 3.0]
    """
    return _run(HARDSWISH, input, None, inplace, "hardswish")


@_functional(_samples())
def logsigmoid(input: Any) -> Any:
    """log(sigmoid(input)), elementwise, without overflow.

    >>> flambeau.nn.functional.logsigmoid(flambeau.tensor([0.])).shape
    torch.Size([1])
    """
    return _run(LOG_SIGMOID, input, None, False, "logsigmoid")


@_functional(_samples())
def softsign(input: Any) -> Any:
    """input / (1 + |input|), elementwise.

    >>> flambeau.nn.functional.softsign(flambeau.tensor([1., -3.])).tolist()
    [0.5, -0.75]
    """
    return apply2(slot("div"), input, apply2(slot("add"), apply1(slot("abs"), tensor(input, "softsign")), 1))


def _sigmoid(input: Any) -> Any:
    """1 / (1 + exp(-input)), elementwise.

    >>> flambeau.nn.functional.sigmoid(flambeau.tensor([0.])).tolist()
    [0.5]
    """
    return _run(SIGMOID, input, None, False, "sigmoid")


def _tanh(input: Any) -> Any:
    """Hyperbolic tangent, elementwise.

    >>> flambeau.nn.functional.tanh(flambeau.tensor([0.])).tolist()
    [0.0]
    """
    return _run(TANH, input, None, False, "tanh")


_functional(_samples(), name="sigmoid")(_sigmoid)
_functional(_samples(), name="tanh")(_tanh)


def _threshold(input: Any, threshold: float, value: float, inplace: bool = False) -> Any:
    """input where above threshold, else value.

    >>> flambeau.nn.functional.threshold(flambeau.tensor([0., 2.]), 1.0, 9.0).tolist()
    [9.0, 2.0]
    """
    return _run(THRESHOLD, input, (threshold, value), inplace, "threshold")


_functional(lambda t: [call(t(3, 4), 0.1, 5.0)], name="threshold")(_threshold)


@public(method=False, out=False, samples=lambda t: [call(t(3, 4), 0.1, 5.0)])
def threshold(input: Any, threshold: float, value: float) -> Any:
    """input where above threshold, else value.

    >>> flambeau.threshold(flambeau.tensor([0., 2.]), 1.0, 9.0).tolist()
    [9.0, 2.0]
    """
    return _run(THRESHOLD, input, (threshold, value), False, "threshold")


def prelu(input: Any, weight: Any) -> Any:
    """input where positive, else weight * input.

    Args:
        input: tensor of shape (N, C, ...), or (C,) or ().
        weight: one number for all, or one for each of the C channels: shape (1,), () or (C,).

    Raises:
        RuntimeError: another shape of weight, or another dtype than input.

    Source: He et al., arXiv:1502.01852.

    >>> flambeau.nn.functional.prelu(flambeau.tensor([-2., 2.]), flambeau.tensor([0.25])).tolist()
    [-0.5, 2.0]
    """
    tensor(input, "prelu")
    tensor(weight, "prelu", "weight", 2)
    if dtype_of(input) != dtype_of(weight):
        raise RuntimeError(f"prelu: Type promoting not supported. Got {dtype_of(input)} and {dtype_of(weight)}")
    shape, count = shape_of(input), 1
    for s in shape_of(weight):
        count *= s
    if len(shape_of(weight)) > 1:
        raise RuntimeError("prelu: Expected `weight` to be a scalar or 1D tensor, but got: ndim = "
                           f"{len(shape_of(weight))}")
    if count != 1:
        channels = shape[1] if len(shape) > 1 else 1
        if not shape:
            raise RuntimeError("prelu: Not allow zero-dim input tensor with a weight of several channels.")
        if channels != count:
            raise RuntimeError(f"Mismatch of parameter numbers and input channel size. Found parameter numbers = {count} "
                               f"and channel size = {channels}.")
    if len(shape_of(weight)) == 1 and len(shape) != 1:
        weight = weight.reshape(()) if not shape else weight.reshape((1, count, *([1] * (len(shape) - 2))))
    return apply_n(PRELU, [input, weight])


public(namespaces=("torch", "nn.functional"), out=False,
       samples=lambda t: [call(t(3, 4), t(1)), call(t(2, 3, 4), t(3)), call(t(), t())])(prelu)


@_functional(lambda t: [call(t(4, 6)), call(t(4, 6), 0)])
def glu(input: Any, dim: int = -1) -> Any:
    """a * sigmoid(b), a and b being the halves of input along dim.

    Raises:
        RuntimeError: the size of dim is odd, or input has no dimensions.

    Source: Dauphin et al., arXiv:1612.08083.

    >>> flambeau.nn.functional.glu(flambeau.tensor([3., 0.])).tolist()
    [1.5]
    """
    shape = shape_of(tensor(input, "glu"))
    if not shape:
        raise RuntimeError("glu does not support 0-dimensional tensors")
    at = checked_dim(dim, len(shape))
    if shape[at] % 2:
        raise RuntimeError(f"Halving dimension must be even, but dimension {at} is size {shape[at]}")
    return apply1(GLU, input, (at,))


# rrelu in training draws a slope for every negative element; the slopes are the derivative
RRELU = primitive("rrelu_with_noise", lambda a, noise: a * noise, inputs=("self", "noise"), meta=elementwise(2),
                  batch="pointwise", expr="self * noise",
                  self=lambda xp, g, noise: g * noise)
RRELU_EVAL = primitive("rrelu_eval", kernel.leaky_relu, params=("slope",), pointwise=True, same_dtype=True,
batch="pointwise", expr=KERNEL,
                       node="RreluWithNoiseBackward0",
                       self=lambda xp, g, self, slope: xp.leaky_relu_backward(g, self, slope))


@_functional(lambda t: [call(t(3, 4))], random=True)
def rrelu(input: Any, lower: float = 1.0 / 8, upper: float = 1.0 / 3, training: bool = False, inplace: bool = False) -> Any:
    """input where positive, else input times a slope: random in [lower, upper] in training, else their mean.

    Raises:
        RuntimeError: lower is above upper.

    Source: Xu et al., arXiv:1505.00853.

    >>> flambeau.nn.functional.rrelu(flambeau.tensor([2.])).tolist()
    [2.0]
    """
    if lower > upper:
        raise RuntimeError(f"Lower bound should be less than or equal to the upper bound, got {lower} and {upper}")
    tensor(input, "rrelu")
    if not training:
        return _run(RRELU_EVAL, input, ((lower + upper) / 2,), inplace, "rrelu")
    return _rrelu_training(input, lower, upper, inplace)


def _rrelu_training(input: Any, lower: float, upper: float, inplace: bool) -> Any:
    generator = default_generator
    if is_meta(input):
        return apply_inplace(RRELU, [input, input.detach()]) if inplace else apply_n(RRELU, [input, input.detach()])
    with generator.lock:
        slopes = make(rrelu_noise(generator.engine, array_of(input), lower, upper))
    if inplace:
        return apply_inplace(RRELU, [input, slopes])
    return apply_n(RRELU, [input, slopes])


def _inplace_form(fn: Callable, name: str) -> Callable:
    def inplace_form(input: Any, *args: Any, **kwargs: Any) -> Any:
        return fn(input, *args, **kwargs, inplace=True)

    inplace_form.__name__ = inplace_form.__qualname__ = name + "_"
    inplace_form.__doc__ = f"`{name}` with inplace=True.\n\nThe result is written into input, which is returned."
    return inplace_form


for _fn, _name, _call in (
    (_relu, "relu", ()), (leaky_relu, "leaky_relu", ()), (elu, "elu", ()), (selu, "selu", ()), (celu, "celu", ()),
    (hardtanh, "hardtanh", ()), (_threshold, "threshold", (0.1, 5.0)), (rrelu, "rrelu", ()),
):
    public(name=_name + "_", namespaces=_FUNCTIONAL, method=False, out=False, differentiable=False,
           samples=lambda t, _call=_call: [call(t(3, 4, grad=False), *_call)])(_inplace_form(_fn, _name))

