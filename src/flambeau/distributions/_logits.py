"""Parameters that are given as probabilities or as log-odds, whichever the caller has."""

from __future__ import annotations

from typing import Any

from flambeau.core.size import Size

from .utils import broadcast_all, lazy_property, logits_to_probs, probs_to_logits


def one_of(probs: Any, logits: Any) -> None:
    """Raise ValueError unless exactly one of the two is given."""
    if (probs is None) == (logits is None):
        had = "got neither" if probs is None else "got both"
        raise ValueError(f"Either `probs` or `logits` must be specified, but not both: {had}.")


class _Either:
    """`probs` and `logits`, each computed from the other when it is first read; `_param` is the one that was given."""

    _binary: bool
    _param: Any

    @lazy_property
    def logits(self) -> Any:
        """Log-odds, or log-probabilities, of the events."""
        return probs_to_logits(self.probs, is_binary=self._binary)

    @lazy_property
    def probs(self) -> Any:
        """Probabilities of the events."""
        return logits_to_probs(self.logits, is_binary=self._binary)

    @property
    def param_shape(self) -> Size:
        """Shape of the parameter that was given."""
        return self._param.size()


class BinaryLogits(_Either):
    """A probability of success for each member of the batch, broadcast with other parameters."""

    _binary = True

    def _set(self, probs: Any, logits: Any, *others: Any) -> tuple:
        """Store whichever is given; return the other parameters, broadcast with it."""
        one_of(probs, logits)
        self._param, *rest = broadcast_all(logits if probs is None else probs, *others)
        self.__dict__["logits" if probs is None else "probs"] = self._param
        return tuple(rest)


class ClassLogits(_Either):
    """Probabilities of classes along the last dimension, normalised."""

    _binary = False

    def _set(self, probs: Any, logits: Any) -> None:
        one_of(probs, logits)
        name, given = ("logits", logits) if probs is None else ("probs", probs)
        if given.dim() < 1:
            raise ValueError(f"`{name}` parameter must be at least one-dimensional: its last dimension is the classes.")
        if probs is None:
            self._param = given - given.logsumexp(dim=-1, keepdim=True)
        else:
            self._param = given / given.sum(-1, keepdim=True)
        self.__dict__[name] = self._param


class CategoricalLogits:
    """Probabilities of classes, kept by a `Categorical`, `_categorical`."""

    _categorical: Any

    @property
    def probs(self) -> Any:
        """Probabilities of the classes."""
        return self._categorical.probs

    @property
    def logits(self) -> Any:
        """Log-probabilities of the classes."""
        return self._categorical.logits

    @property
    def param_shape(self) -> Size:
        """Shape of the parameter that was given."""
        return self._categorical.param_shape

    @property
    def _param(self) -> Any:
        return self._categorical._param


class RelaxedLogits:
    """Probabilities and temperature of a relaxed distribution, kept by its base, `base_dist`."""

    base_dist: Any

    @property
    def temperature(self) -> Any:
        """The temperature that was given."""
        return self.base_dist.temperature

    @property
    def logits(self) -> Any:
        """Log-odds, or log-probabilities, of the events."""
        return self.base_dist.logits

    @property
    def probs(self) -> Any:
        """Probabilities of the events."""
        return self.base_dist.probs
