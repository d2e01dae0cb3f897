"""The categorical distribution over one-hot vectors."""

from __future__ import annotations

from typing import Any

import flambeau
from flambeau.nn.functional import one_hot

from . import constraints
from ._logits import CategoricalLogits
from .categorical import Categorical
from .distribution import Distribution

__all__ = ["OneHotCategorical", "OneHotCategoricalStraightThrough"]


class OneHotCategorical(CategoricalLogits, Distribution):
    """A choice among K classes, as a vector with a 1 at the chosen one.

    Probability: probs[k], for x the k-th unit vector.

    Args:
        probs: (..., K), non-negative weights of positive sum; normalised to sum 1.
        logits: (..., K), logarithms of such weights, instead of `probs`.
        validate_args: see `Distribution`.

    Draws have the dtype of `probs`.

    >>> OneHotCategorical(probs=flambeau.tensor([0.0, 1.0])).sample()
    tensor([0., 1.])
    """

    arg_constraints = {"probs": constraints.simplex, "logits": constraints.real_vector}
    support = constraints.one_hot
    has_enumerate_support = True

    def __init__(self, probs: Any = None, logits: Any = None, validate_args: bool | None = None) -> None:
        self._categorical = Categorical(probs, logits)
        super().__init__(self._categorical.batch_shape, self._categorical.param_shape[-1:],
                         validate_args=validate_args)

    def expand(self, batch_shape: Any, _instance: Any = None) -> Any:
        new = self._expanded(OneHotCategorical, batch_shape, _instance)
        new._categorical = self._categorical.expand(new.batch_shape)
        return new

    def _vector(self, index: Any) -> Any:
        return one_hot(index, self._event_shape[0]).to(self.probs)

    @property
    def mean(self) -> Any:
        return self.probs

    @property
    def mode(self) -> Any:
        return self._vector(self._categorical.mode)

    @property
    def variance(self) -> Any:
        return self.probs * (1 - self.probs)

    def sample(self, sample_shape: Any = ()) -> Any:
        return self._vector(self._categorical.sample(sample_shape)).detach()

    def log_prob(self, value: Any) -> Any:
        if self._validate_args:
            self._validate_sample(value)
        return self._categorical.log_prob(value.argmax(-1))

    def entropy(self) -> Any:
        return self._categorical.entropy()

    def enumerate_support(self, expand: bool = True) -> Any:
        values = flambeau.eye(self._event_shape[0], dtype=self._param.dtype, device=self._param.device)
        return self._enumerated(values, expand)


class OneHotCategoricalStraightThrough(OneHotCategorical):
    """One-hot draws whose gradient is that of the probabilities: x + probs - probs.detach().

    The gradient is biased. Source: Bengio, Léonard and Courville, 2013, arXiv:1308.3432.

    >>> weights = flambeau.tensor([1.0, 3.0], requires_grad=True)
    >>> draw = OneHotCategoricalStraightThrough(probs=weights).rsample()
    >>> (draw * flambeau.tensor([0.0, 1.0])).sum().backward()
    >>> weights.grad
    tensor([-0.1875,  0.0625])
    """

    has_rsample = True

    def rsample(self, sample_shape: Any = ()) -> Any:
        return self.sample(sample_shape) + (self.probs - self.probs.detach())
