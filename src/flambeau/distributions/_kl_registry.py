"""Which function computes the divergence of two distributions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from flambeau.core.origin import warn_user

from .distribution import Distribution

__all__ = ["kl_divergence", "register_kl"]

_KL_REGISTRY: dict[tuple[type, type], Callable] = {}
_KL_MEMOIZE: dict[tuple[type, type], Callable] = {}


def register_kl(type_p: type, type_q: type) -> Callable:
    """A decorator: the function computes KL(p || q) for p of class `type_p` and q of class `type_q`.

    Subclasses are served too. Of several functions that fit, the one registered for the most specific classes is
    taken; where p's class and q's disagree on which that is, a RuntimeWarning says so, and p's decides.

    Raises:
        TypeError: one is not a class.

    >>> from flambeau.distributions import Normal
    >>> class Spike(Normal):
    ...     pass
    >>> @register_kl(Spike, Spike)
    ... def of_spikes(p, q):
    ...     return (p.loc - q.loc).abs()
    >>> kl_divergence(Spike(0.0, 1.0), Spike(2.0, 1.0))
    tensor(2.)
    """
    for name, kind in (("type_p", type_p), ("type_q", type_q)):
        if not isinstance(kind, type):
            raise TypeError(f"Expected {name} to be a Distribution subclass, or a class of distributions that a library has "
                            f"besides, but got {kind!r}.")

    def enter(function: Callable) -> Callable:
        _KL_REGISTRY[type_p, type_q] = function
        _KL_MEMOIZE.clear()
        return function

    return enter


def _dispatch_kl(type_p: type, type_q: type) -> Any:
    """The function for the most specific registered pair of base classes, or NotImplemented."""
    fitting = [pair for pair in _KL_REGISTRY if issubclass(type_p, pair[0]) and issubclass(type_q, pair[1])]
    if not fitting:
        return NotImplemented

    def distance(pair: tuple[type, type]) -> tuple[int, int]:
        return type_p.__mro__.index(pair[0]), type_q.__mro__.index(pair[1])

    by_p = min(fitting, key=distance)
    by_q = min(fitting, key=lambda pair: distance(pair)[::-1])
    if _KL_REGISTRY[by_p] is not _KL_REGISTRY[by_q]:
        warn_user(f"Ambiguous kl_divergence({type_p.__name__}, {type_q.__name__}): the functions of "
                  f"({by_p[0].__name__}, {by_p[1].__name__}), which is used, and ({by_q[0].__name__}, "
                  f"{by_q[1].__name__}) both fit. Please register_kl({by_p[0].__name__}, {by_q[1].__name__}).",
                  RuntimeWarning)
    return _KL_REGISTRY[by_p]


def kl_divergence(p: Distribution, q: Distribution) -> Any:
    """Kullback-Leibler divergence KL(p || q): the mean, over draws of p, of log p(x) - log q(x).

    Args:
        p, q: distributions whose batch shapes broadcast.

    Returns:
        Tensor of the batch shape, in nats; inf where p gives probability to what q excludes.

    Raises:
        NotImplementedError: no formula is registered for the two classes (see `register_kl`). The mean of
            `p.log_prob(x) - q.log_prob(x)` over draws x estimates it.

    Source: Kullback and Leibler, Annals of Mathematical Statistics 22, 1951.

    >>> from flambeau.distributions import Normal
    >>> kl_divergence(Normal(1.0, 1.0), Normal(0.0, 1.0))
    tensor(0.5000)
    """
    pair = type(p), type(q)
    function = _KL_MEMOIZE.get(pair)
    if function is None:
        function = _KL_MEMOIZE[pair] = _dispatch_kl(*pair)
    if function is NotImplemented:
        raise NotImplementedError(f"No KL(p || q) is implemented for p type {pair[0].__name__} and q type "
                                  f"{pair[1].__name__}. Register one with register_kl, or average "
                                  "p.log_prob(x) - q.log_prob(x) over draws x of p.")
    return function(p, q)
