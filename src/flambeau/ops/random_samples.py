"""Random draws whose parameters are tensors: normal, bernoulli, multinomial, poisson, binomial, Gumbel softmax.

A draw does not depend smoothly on its parameters: their gradients are zeros, as in PyTorch.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from flambeau.core.apply import apply1, apply_n
from flambeau.core.objects import TensorBase, dtype_of, make, memory_of, shape_of
from flambeau.core.op import Op
from flambeau.core.state import quiet, state
from flambeau.kernels import random, random_samplers

from . import _mapped
from . import _random_checks as check
from ._args import tensor
from ._generator import Generator, default_generator, generator_of
from ._lazy import placed
from ._meta import Meta
from ._record import KERNEL, call, ops, primitive, public
from ._shapes import INT64, elementwise
from .random import new_normal


def _sampler(name: str, kernel: Callable, node: str | None, inputs: Sequence[str] = ("self",),
             params: Sequence[str] = (), meta: Callable | None = None, batch: str = "pointwise") -> Op:
    """A primitive whose kernel(engine, arrays..., params...) draws under the lock of the last argument, a Generator.

    Without a node name it is not differentiable.
    """

    def locked(*args: Any) -> np.ndarray:
        generator = args[-1]
        with generator.lock:
            return kernel(generator.engine, *args[:-1])

    formulas = {} if node is None else {i: lambda xp, g: xp.zeros_like(g) for i in inputs}
    return primitive(name, locked, inputs=inputs, params=(*params, "generator"), node=node, random=True, may_raise=True,
                     meta=meta or elementwise(len(inputs), first=True), batch=batch,
                     expr=KERNEL, differentiable=False if node is None else None, **formulas)


# ------------------------------------------------------------------------------------------------------- normal


def _standard(engine: Any, shape: tuple, std: float, dtype: np.dtype) -> np.ndarray:
    check.floating("normal_", dtype, complex_too=True)
    return random.normal(engine, shape, 0.0, std, dtype)


def _around(engine: Any, mean: np.ndarray, std: float) -> np.ndarray:
    return _standard(engine, mean.shape, std, mean.dtype) + mean


def _spread(engine: Any, std: np.ndarray, mean: float) -> np.ndarray:
    check.deviations(std)
    return _standard(engine, std.shape, 1.0, std.dtype) * std + std.dtype.type(mean)


def _around_spread(engine: Any, mean: np.ndarray, std: np.ndarray) -> np.ndarray:
    check.deviations(std)
    values = _standard(engine, np.broadcast_shapes(mean.shape, std.shape), 1.0, mean.dtype)
    return (values * std).astype(mean.dtype) + mean


_NORMAL = {
    "mean": _sampler("normal_mean", _around, "NormalBackward1", ("mean",), ("std",)),
    "std": _sampler("normal_std", _spread, "NormalBackward2", ("std",), ("mean",)),
    "both": _sampler("normal_mean_std", _around_spread, "NormalBackward3", ("mean", "std")),
}


@public(method=False, differentiable=False, random=True,
        samples=lambda t: [call(0.0, 2.0, (3, 20)), call(t(3, 4)), call(t(20), 2.0), call(1.0, t(20, low=0.0)),
                           call(t(4, 1), t(5, low=0.0))],
        errors=lambda t: [(call(0.0, -1.0, (2,)), RuntimeError, "std >= 0.0"),
                          (call(t(2), t(2, values=[1.0, -1.0])), RuntimeError, "elements of std >= 0.0")])
def normal(mean: Any, std: Any = 1.0, size: Any = None, *, generator: Generator | None = None, dtype: Any = None,
           layout: Any = None, device: Any = None, requires_grad: bool = False, pin_memory: bool = False) -> Any:
    """Normal random numbers of given means and standard deviations.

    Args:
        mean, std: tensors that broadcast together, or numbers; std is not negative.
        size: the sizes, needed when both are numbers, and given only then.
        generator: the stream to draw from; by default the one that `torch.manual_seed` seeds.
        dtype: with size only; default: the default float dtype. Without, the dtype is that of mean, or of std.

    Raises:
        RuntimeError: a negative standard deviation.

    >>> _ = flambeau.manual_seed(1)
    >>> flambeau.normal(flambeau.tensor([0., 100.]), 1.0)
    tensor([  0.6614, 100.2669])
    """
    tensors = [isinstance(v, TensorBase) for v in (mean, std)]
    if size is not None or not any(tensors):
        if size is None or not hasattr(size, "__iter__"):
            raise TypeError("normal() received an invalid combination of arguments: with numbers for mean and std it needs "
                            "size, a tuple of ints; the forms are (Tensor mean, Tensor std), (Tensor mean, float std), "
                            "(float mean, Tensor std) and (float mean, float std, size)")
        centre, spread = check.number(mean, "normal", "mean"), check.number(std, "normal", "std")
        check.deviation(spread)
        return new_normal("normal", size, centre, spread, generator, dtype, layout, device, requires_grad, pin_memory)
    source = generator_of(generator, "normal")
    if all(tensors):
        return apply_n(_NORMAL["both"], [mean, std], (source,))
    if tensors[0]:
        spread = check.number(std, "normal", "std")
        check.deviation(spread)
        return apply1(_NORMAL["mean"], mean, (spread, source))
    return apply1(_NORMAL["std"], std, (check.number(mean, "normal", "mean"), source))


# ----------------------------------------------------------------------------------------------------- bernoulli


def _bernoulli_kernel(engine: Any, p: np.ndarray) -> np.ndarray:
    check.probabilities(p)
    return random.bernoulli_tensor(engine, p, p.dtype)


def _bernoulli_p_kernel(engine: Any, like: np.ndarray, p: float) -> np.ndarray:
    return random.bernoulli(engine, like.shape, p, like.dtype)


_BERNOULLI = _sampler("bernoulli", _bernoulli_kernel, "BernoulliBackward0")
_BERNOULLI_P = _sampler("bernoulli_p", _bernoulli_p_kernel, "BernoulliBackward2", params=("p",))


@public(differentiable=False, random=True, samples=lambda t: [call(t(3, 4, low=0.0, high=1.0)), call(t(3, 4), 0.3)],
        errors=lambda t: [(call(t(2, values=[0.5, 2.0])), RuntimeError, "p_in >= 0"),
                          (call(t(2), 1.5), RuntimeError, "expects p to be in")])
def bernoulli(input: Any, p: Any = None, *, generator: Generator | None = None) -> Any:
    """Draws of 0 or 1, in the shape and dtype of input.

    Args:
        input: the probabilities of a 1, floating, in [0, 1].
        p: one probability for all elements; input then only gives shape and dtype.
        generator: the stream to draw from; by default the one that `torch.manual_seed` seeds.

    Raises:
        RuntimeError: a probability outside [0, 1].

    >>> _ = flambeau.manual_seed(1)
    >>> flambeau.bernoulli(flambeau.tensor([0., 0.5, 1.]))
    tensor([0., 1., 1.])
    """
    source = generator_of(generator, "bernoulli")
    t = tensor(input, "bernoulli")
    if p is None:
        return apply1(_BERNOULLI, t, (source,))
    value = check.number(p, "bernoulli", "p")
    check.probability(value)
    return apply1(_BERNOULLI_P, t, (value, source))


# --------------------------------------------------------------------------------------------------- multinomial


_MULTINOMIAL = _sampler("multinomial", random_samplers.multinomial, None, params=("num_samples", "replacement"),
                        meta=lambda p, n, *_: Meta((*p.shape[:-1], n), INT64), batch="each")


@public(differentiable=False, random=True,
        samples=lambda t: [call(t(5, low=0.0), 3), call(t(3, 5, low=0.0), 10, True), call(t(5, low=0.0), 1)],
        errors=lambda t: [(call(t(3, low=0.0), 4), RuntimeError, "without replacement"),
                          (call(t(3, low=0.0), 0), RuntimeError, "n_sample <= 0"),
                          (call(t(2, 2, 2), 1), RuntimeError, "1 or 2 dim"),
                          (call(t(3, dtype="int64"), 1), RuntimeError, "only supports floating-point"),
                          (call(t(2, values=[-1.0, 2.0]), 1), RuntimeError, "element < 0")])
def multinomial(input: Any, num_samples: int, replacement: bool = False, *, generator: Generator | None = None) -> Any:
    """Indices of categories drawn with the weights in the last dimension of input.

    Args:
        input: weights (C,) or (N, C), floating, not negative; a row need not sum to 1.
        num_samples: how many indices of each row.
        replacement: a category may come again; without, at most C samples.
        generator: the stream to draw from; by default the one that `torch.manual_seed` seeds.

    Returns:
        int64 Tensor of shape (num_samples,) or (N, num_samples).

    Raises:
        RuntimeError: weights that are negative, not finite, or all zero in a row; too many samples.

    >>> _ = flambeau.manual_seed(1)
    >>> flambeau.multinomial(flambeau.tensor([0., 1., 3.]), 5, replacement=True)
    tensor([1, 1, 1, 1, 2])
    """
    t = tensor(input, "multinomial")
    count = check.integer(num_samples, "multinomial", "num_samples")
    check.weights(memory_of(t), count, bool(replacement))
    return apply1(_MULTINOMIAL, t, (count, bool(replacement), generator_of(generator, "multinomial")))


# --------------------------------------------------------------------------------------------------------- counts


_POISSON = _sampler("poisson", random_samplers.poisson, "PoissonBackward0")
_BINOMIAL = _sampler("binomial", random_samplers.binomial, None, ("count", "prob"))


@public(method=False, out=False, differentiable=False, random=True, samples=lambda t: [call(t(3, 4, low=0.0, high=20.0))],
        errors=lambda t: [(call(t(1, values=[-1.0])), RuntimeError, "non-negative"),
                          (call(t(2, dtype="int64")), NotImplementedError, "poisson")])
def poisson(input: Any, generator: Generator | None = None) -> Any:
    """Poisson counts of the rates in input, in its shape and floating dtype.

    Raises:
        RuntimeError: a negative rate.

    >>> _ = flambeau.manual_seed(1)
    >>> flambeau.poisson(flambeau.tensor([0., 5., 50.]))
    tensor([ 0.,  2., 42.])
    """
    t = tensor(input, "poisson")
    check.floating("poisson", dtype_of(t))
    return apply1(_POISSON, t, (generator_of(generator, "poisson"),))


@public(method=False, out=False, differentiable=False, random=True,
        samples=lambda t: [call(t(3, 4, values=[[9.0] * 4] * 3), t(4, low=0.0, high=1.0))],
        errors=lambda t: [(call(t(2, dtype="int64"), t(2, low=0.0, high=1.0)), ValueError, "only supports floating-point"),
                          (call(t(2, dtype="float64"), t(2, dtype="float32")), RuntimeError, "dtype")])
def binomial(count: Any, prob: Any, generator: Generator | None = None) -> Any:
    """The number of successes in `count` trials that succeed with probability `prob`.

    Args:
        count, prob: tensors of one floating dtype (float32 or float64) that broadcast together. Nothing is recorded
            for autograd.

    Raises:
        ValueError: an integer dtype.
        RuntimeError: different dtypes.

    >>> _ = flambeau.manual_seed(1)
    >>> flambeau.binomial(flambeau.tensor([10., 100.]), flambeau.tensor([0.5, 0.5]))
    tensor([ 2., 45.])
    """
    trials, chances = tensor(count, "binomial", "count"), tensor(prob, "binomial", "prob", 2)
    for name, t in (("count", trials), ("prob", chances)):
        if dtype_of(t).kind in "biu":
            raise ValueError(f"binomial only supports floating-point dtypes for {name}, got: {dtype_of(t).name}. Convert it "
                             "with .float().")
    if dtype_of(trials) != dtype_of(chances):
        raise RuntimeError(f"binomial: Found dtype {dtype_of(chances).name} for prob but expected {dtype_of(trials).name}, "
                           "that of count. Convert one of them.")
    if dtype_of(trials).name not in ("float32", "float64"):
        raise NotImplementedError(f'"binomial_cpu" not implemented for dtype {dtype_of(trials).name}: use float32 or '
                                  "float64")
    return apply_n(_BINOMIAL, [trials, chances], (generator_of(generator, "binomial"),))


# --------------------------------------------------------------------------------------------------------- Gumbel


@public(namespaces=("nn.functional",), method=False, random=True,
        samples=lambda t: [call(t(3, 4)), call(t(3, 4), tau=0.5), call(t(3, 4), hard=True)])
def gumbel_softmax(logits: Any, tau: float = 1.0, hard: bool = False, eps: float = 1e-10, dim: int = -1) -> Any:
    """A differentiable draw of a category: softmax of (logits + Gumbel noise) / tau along dim.

    Args:
        logits: unnormalised log probabilities, floating.
        tau: temperature; the smaller, the nearer to one-hot.
        hard: give the one-hot of the largest entry, with the gradients of the softmax.
        eps: ignored, as in PyTorch.
        dim: the dimension of the categories.

    Source: Jang et al., 2017, arXiv:1611.01144.
    """
    t = tensor(logits, "gumbel_softmax")

    shape = tuple(shape_of(t))

    def noise(size: tuple = shape) -> np.ndarray:
        with default_generator.lock:
            return quiet(random.exponential, (default_generator.engine, size, 1.0, dtype_of(t)))

    drawn = NotImplemented
    if state.special != 0 and _mapped.creator:
        drawn = _mapped.creator[0]("gumbel_softmax", lambda size: make(noise(size)), shape)
    if drawn is NotImplemented:
        drawn = placed(t, shape, dtype_of(t), noise)
    soft = ((t - drawn.log()) / tau).softmax(dim)
    if not hard:
        return soft
    index = soft.detach().max(dim, keepdim=True)[1]
    one_hot = ops.zeros_like(soft.detach()).scatter_(dim, index, 1.0)
    return one_hot - soft.detach() + soft
