"""The categorical distribution."""

from __future__ import annotations

from typing import Any

import flambeau
from flambeau.core.size import Size

from . import constraints
from ._logits import ClassLogits
from .distribution import Distribution

__all__ = ["Categorical"]


class Categorical(ClassLogits, Distribution):
    """A choice among classes 0 ... K - 1.

    Probability: probs[x], for x in {0, ..., K - 1}.

    Args:
        probs: (..., K), non-negative weights of the classes, of positive sum; normalised to sum 1.
        logits: (..., K), logarithms of such weights, instead of `probs`; normalised likewise.
        validate_args: see `Distribution`.

    The batch shape is that of the parameter without its last dimension; draws are int64.

    A policy gradient (REINFORCE: Williams, Machine Learning 8, 1992) needs no more than `sample` and `log_prob`:

    >>> logits = flambeau.tensor([1.0, 2.0, 0.5], requires_grad=True)
    >>> policy = Categorical(logits=logits)
    >>> action, reward = flambeau.tensor(1), 2.0
    >>> (-policy.log_prob(action) * reward).backward()
    >>> logits.grad
    tensor([ 0.4624, -0.7429,  0.2805])
    """

    arg_constraints = {"probs": constraints.simplex, "logits": constraints.real_vector}
    has_enumerate_support = True

    def __init__(self, probs: Any = None, logits: Any = None, validate_args: bool | None = None) -> None:
        self._set(probs, logits)
        self._num_events = self._param.size(-1)
        super().__init__(self._param.size()[:-1], validate_args=validate_args)

    def expand(self, batch_shape: Any, _instance: Any = None) -> Any:
        new = self._expanded(Categorical, batch_shape, _instance, probs=1, logits=1, _param=1)
        new._num_events = self._num_events
        return new

    @constraints.dependent_property(is_discrete=True, event_dim=0)
    def support(self) -> Any:
        return constraints.integer_interval(0, self._num_events - 1)

    @property
    def mean(self) -> Any:
        """nan: classes are not numbers."""
        return flambeau.full(self._extended_shape(), flambeau.nan, dtype=self.probs.dtype, device=self.probs.device)

    @property
    def mode(self) -> Any:
        return self.probs.argmax(dim=-1)

    @property
    def variance(self) -> Any:
        """nan: classes are not numbers."""
        return self.mean

    def sample(self, sample_shape: Any = ()) -> Any:
        shape = Size(sample_shape)
        rows = self.probs.reshape(-1, self._num_events)
        return flambeau.multinomial(rows, shape.numel(), True).mT.reshape(self._extended_shape(shape))

    def log_prob(self, value: Any) -> Any:
        if self._validate_args:
            self._validate_sample(value)
        index, logits = flambeau.broadcast_tensors(value.long().unsqueeze(-1), self.logits)
        return logits.gather(-1, index[..., :1]).squeeze(-1)

    def entropy(self) -> Any:
        finite = self.logits.clamp(min=flambeau.finfo(self.logits.dtype).min)     # p log p is 0 where p is
        return -(finite * self.probs).sum(-1)

    def enumerate_support(self, expand: bool = True) -> Any:
        values = flambeau.arange(self._num_events, dtype=flambeau.int64, device=self._param.device)
        return self._enumerated(values, expand)
