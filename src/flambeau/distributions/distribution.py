"""The base of all distributions: shapes, validation, expansion, printing."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import flambeau
from flambeau.core.objects import user_frame
from flambeau.core.origin import warn_user, where
from flambeau.core.size import Size
from flambeau.func import debug_unwrap

from . import constraints
from .utils import lazy_property

__all__ = ["Distribution"]


def _holds(valid: Any) -> bool:
    """Whether all entries are True: of a whole batch, where vmap maps over one."""
    return bool(debug_unwrap(valid).all())


def _invalid(value: Any, valid: Any) -> str:
    """How many entries failed, which was the first, and the line of the program that is to blame."""
    value, valid = debug_unwrap(value), debug_unwrap(valid)
    where_bad = (~valid).nonzero()
    first = where_bad[0].tolist() if where_bad.numel() else []
    if valid.ndim > value.ndim or any(n == 1 for n in value.shape[:valid.ndim]):     # bounds of a larger batch
        value_shape = value.shape[valid.ndim:] if valid.ndim < value.ndim else ()
        value = value.expand(valid.shape + tuple(value_shape))
    entry = value[tuple(first)] if first else value
    text = f"{value}"
    if valid.ndim and value.numel() > 1:
        shown = entry.item() if entry.numel() == 1 else f"{entry.tolist()}"
        text += f"\n  {len(where_bad)} of {valid.numel()} fail, the first at {first}: {shown}"
    if value.is_floating_point() and bool(value.isnan().any()):
        text += "\n  There are nan among them: look for the operation that made the first of them."
    return text + f"\n  at {where(*user_frame())}"


class Distribution:
    """A probability distribution, or a batch of independent ones.

    Args:
        batch_shape: shape of the batch; each member has parameters of its own.
        event_shape: shape of one draw of one member.
        validate_args: whether parameters and values are checked; None for the default, which is on unless Python runs
            with -O (see `set_default_validate_args`).

    `sample(shape)` gives `shape + batch_shape + event_shape`; `log_prob` of that gives `shape + batch_shape`.

    Subclasses set the attributes `arg_constraints`, `support`, `has_rsample` and `has_enumerate_support`, and implement
    `expand`, the moments, `sample` or `rsample`, and `log_prob`.

    >>> d = flambeau.distributions.Normal(flambeau.zeros(3), 1.0)
    >>> d.batch_shape, d.event_shape, d.sample((2,)).shape
    (torch.Size([3]), torch.Size([]), torch.Size([2, 3]))
    """

    has_rsample = False
    has_enumerate_support = False
    _validate_args = __debug__

    @staticmethod
    def set_default_validate_args(value: bool) -> None:
        """Check arguments from now on, or no longer; checking costs a few operators at each call.

        Raises:
            ValueError: value is neither True nor False.
        """
        if value not in (True, False):
            raise ValueError(f"set_default_validate_args() takes True or False, got {value!r}.")
        Distribution._validate_args = value

    def __init__(self, batch_shape: Any = (), event_shape: Any = (), validate_args: bool | None = None) -> None:
        self._batch_shape = Size(batch_shape)
        self._event_shape = Size(event_shape)
        if validate_args is not None:
            self._validate_args = validate_args
        if self._validate_args:
            self._check_parameters()
        super().__init__()

    def _check_parameters(self) -> None:
        try:
            checks = self.arg_constraints
        except NotImplementedError:
            warn_user(f"{type(self)} does not define `arg_constraints`, so its parameters are not checked. Set it to a "
                      "dictionary of constraints (`{}` for none), or pass `validate_args=False`.")
            return
        for name, constraint in checks.items():
            if constraints.is_dependent(constraint):
                continue
            if name not in self.__dict__ and isinstance(getattr(type(self), name), lazy_property):
                continue        # derived from another parameter, which is checked
            value = getattr(self, name)
            valid = constraint.check(value.detach())        # no graph of the test itself
            if not _holds(valid):
                raise ValueError(
                    f"Expected parameter {name} ({type(value).__name__} of shape {tuple(value.shape)}) of {self!r} to "
                    f"satisfy the constraint {constraint!r}, but found invalid values:\n{_invalid(value, valid)}")

    def expand(self, batch_shape: Any, _instance: Any = None) -> Any:
        """The same distributions with a larger batch: parameters are expanded as `Tensor.expand` does.

        Args:
            batch_shape: the shape wanted.
            _instance: an object to fill, for a subclass that makes its own.

        Returns:
            A new distribution that shares the parameters' memory; nothing is checked again.
        """
        raise NotImplementedError(f"{type(self).__name__} does not implement expand().")

    def _expanded(self, cls: type, batch_shape: Any, _instance: Any, **event_dims: int) -> Any:
        """What `expand` of `cls` returns: parameters named in `event_dims`, of so many event dimensions, expanded.

        Parameters that were not computed yet stay so.
        """
        new = self._get_checked_instance(cls, _instance)
        batch_shape = Size(batch_shape)
        for name, event_dim in event_dims.items():
            if name in self.__dict__:
                value = self.__dict__[name]
                tail = value.shape[value.ndim - event_dim:]
                new.__dict__[name] = value.expand(batch_shape + tail)
        Distribution.__init__(new, batch_shape, self._event_shape, validate_args=False)
        new._validate_args = self._validate_args
        return new

    @property
    def batch_shape(self) -> Size:
        """Shape of the batch of distributions."""
        return self._batch_shape

    @property
    def event_shape(self) -> Size:
        """Shape of one draw of one distribution."""
        return self._event_shape

    @property
    def arg_constraints(self) -> dict:
        """What each parameter must satisfy: a dictionary from names to constraints."""
        raise self._lacks("arg_constraints")

    @property
    def support(self) -> Any:
        """The constraint that draws satisfy."""
        raise self._lacks("support")

    @property
    def mean(self) -> Any:
        """The expected draw."""
        raise self._lacks("mean")

    @property
    def mode(self) -> Any:
        """The most probable draw."""
        raise self._lacks("mode")

    @property
    def variance(self) -> Any:
        """The variance of each entry of a draw."""
        raise self._lacks("variance")

    @property
    def stddev(self) -> Any:
        """The square root of the variance."""
        return self.variance.sqrt()

    def sample(self, sample_shape: Any = ()) -> Any:
        """Draws, without gradient; shape `sample_shape + batch_shape + event_shape`."""
        with flambeau.no_grad():
            return self.rsample(sample_shape)

    def rsample(self, sample_shape: Any = ()) -> Any:
        """Draws that are a differentiable function of the parameters (where `has_rsample`)."""
        raise self._lacks("rsample(): no gradient goes through a draw. Differentiate log_prob(sample()) times the "
                          "reward, or take a relaxed family (RelaxedBernoulli, RelaxedOneHotCategorical)")

    def sample_n(self, n: int) -> Any:
        """n draws. Deprecated: write `sample((n,))`."""
        warn_user("`sample_n(n)` will be deprecated: write `sample((n,))`, which is the same.", FutureWarning)
        return self.sample(Size((n,)))

    def log_prob(self, value: Any) -> Any:
        """Natural logarithm of the density, or probability, of `value`."""
        raise self._lacks("log_prob()")

    def cdf(self, value: Any) -> Any:
        """The probability of a draw up to `value`."""
        raise self._lacks("cdf()")

    def icdf(self, value: Any) -> Any:
        """The inverse of `cdf`: the draw below which lies a probability of `value`."""
        raise self._lacks("icdf()")

    def enumerate_support(self, expand: bool = True) -> Any:
        """All draws that a discrete distribution can give, along a new first dimension.

        Args:
            expand: repeat them over the batch; else the batch dimensions are of size 1.
        """
        raise self._lacks("enumerate_support()")

    def _enumerated(self, values: Any, expand: bool) -> Any:
        """What `enumerate_support` returns, of all possible events: (n,) + event_shape."""
        n = values.shape[:1]
        values = values.view(n + (1,) * len(self._batch_shape) + self._event_shape)
        return values.expand(n + self._batch_shape + self._event_shape) if expand else values

    def entropy(self) -> Any:
        """Entropy in nats, of shape `batch_shape`."""
        raise self._lacks("entropy()")

    def perplexity(self) -> Any:
        """The exponential of the entropy."""
        return self.entropy().exp()

    def _lacks(self, what: str) -> NotImplementedError:
        return NotImplementedError(f"{type(self)} does not implement {what}")

    def _extended_shape(self, sample_shape: Any = ()) -> Size:
        """Shape of `sample(sample_shape)`."""
        return Size((*sample_shape, *self._batch_shape, *self._event_shape))

    def _validate_sample(self, value: Any) -> None:
        """Raise ValueError unless `value` fits the shapes and lies in the support."""
        if not isinstance(value, flambeau.Tensor):
            raise ValueError("The value argument to log_prob, cdf or icdf must be a Tensor, got a "
                             f"{type(value).__name__}: wrap it in torch.tensor().")
        n_event = len(self._event_shape)
        if value.shape[max(value.ndim - n_event, 0):] != self._event_shape:
            raise ValueError(f"The right-most size of value must match event_shape: value is {tuple(value.shape)}, "
                             f"{self!r} has event_shape {tuple(self._event_shape)}.")
        wanted = self._batch_shape + self._event_shape
        for size, want in zip(reversed(value.shape), reversed(wanted), strict=False):
            if size != want and 1 not in (size, want):
                raise ValueError(f"Value is not broadcastable with batch_shape+event_shape: value is "
                                 f"{tuple(value.shape)}, the shapes of {self!r} make {tuple(wanted)}.")
        try:
            support = self.support
        except NotImplementedError:
            warn_user(f"{type(self)} does not define `support`, so values are not checked. Define it, or pass "
                      "`validate_args=False`.")
            return
        assert support is not None, f"{type(self).__name__}.support is None: define it, or pass validate_args=False."
        valid = support.check(value.detach())
        if not _holds(valid):
            raise ValueError(
                f"Expected value argument ({type(value).__name__} of shape {tuple(value.shape)}) to be within the "
                f"support ({support!r}) of {self!r}, but found invalid values:\n{_invalid(value, valid)}")

    def _get_checked_instance(self, cls: Any, _instance: Any = None) -> Any:
        """A blank object of our class to expand into; a subclass with an `__init__` of its own must expand itself."""
        if _instance is not None:
            return _instance
        mine: Callable = type(self).__init__
        if mine is not cls.__init__:
            raise NotImplementedError(f"Subclass {type(self).__name__} of {cls.__name__} defines a custom __init__ "
                                      "method: it must also define a custom .expand() method.")
        return object.__new__(type(self))

    def __repr__(self) -> str:
        shown = []
        for name in self.arg_constraints:
            if name in self.__dict__:
                value = debug_unwrap(self.__dict__[name])
                shown.append(f"{name}: {value if value.numel() == 1 else value.size()}")
        return f"{type(self).__name__}({', '.join(shown)})"
