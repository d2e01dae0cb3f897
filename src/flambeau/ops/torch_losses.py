"""The losses under their names in `torch`: reduction is a number, 1 for the mean and 2 for the sum.

In PyTorch its default is 0, none, and other numbers are none as well.
"""

from __future__ import annotations

from typing import Any

from flambeau.core.objects import dtype_of
from flambeau.kernels.services import is_float

from . import losses_binary, losses_likelihood, losses_margin
from ._args import tensor
from ._record import Sample, call, public
from .losses import reduced
from .losses_binary import divergences

_REDUCTIONS = ("none", "mean", "sum")


def _word(name: str, reduction: Any) -> str:
    if isinstance(reduction, bool) or not isinstance(reduction, int):
        raise TypeError(f"{name}(): argument 'reduction' must be int, not {type(reduction).__name__}: 0 is none, 1 mean, 2 "
                        f"sum. nn.functional.{name} takes the words.")
    return _REDUCTIONS[reduction] if 0 <= reduction <= 2 else "none"


def _signs(t: Any, *shape: int) -> Any:
    return losses_margin._signs(t, *shape)


def _loss(samples: Any) -> Any:
    return public(method=False, out=False, samples=samples, errors=lambda t: [
        (Sample(s.args, {**s.kwargs, "reduction": "mean"}), TypeError, "reduction") for s in samples(t)[:1]])


@_loss(lambda t: [call(t(3, 4), t(3, 4, low=0.1, high=0.9)),
                  call(t(3, 4), t(3, 4, low=0.1, high=0.9), t(4, grad=False), t(4, grad=False), 1),
                  call(t(3), t(3, low=0.1, high=0.9), reduction=2)])
def binary_cross_entropy_with_logits(input: Any, target: Any, weight: Any = None, pos_weight: Any = None,
                                     reduction: int = 0) -> Any:
    """`nn.functional.binary_cross_entropy_with_logits`, with reduction as a number: 0 none, 1 mean, 2 sum.

    >>> x = flambeau.tensor([0.])
    >>> round(flambeau.binary_cross_entropy_with_logits(x, x).item(), 4)
    0.6931
    """
    return losses_binary.binary_cross_entropy_with_logits(
        input, target, weight, pos_weight=pos_weight, reduction=_word("binary_cross_entropy_with_logits", reduction))


@_loss(lambda t: [call(t(3, 4), t(3, 4), _signs(t, 3)), call(t(3, 4), t(3, 4), _signs(t, 3), 0.3, 0)])
def cosine_embedding_loss(input1: Any, input2: Any, target: Any, margin: float = 0.0, reduction: int = 0) -> Any:
    """`nn.functional.cosine_embedding_loss`, with reduction as a number: 0 none, 1 mean, 2 sum.

    >>> x = flambeau.tensor([1., 0.])
    >>> flambeau.cosine_embedding_loss(x, x, flambeau.tensor(-1.), 0.25).item()
    0.75
    """
    return losses_margin.cosine_embedding_loss(input1, input2, target, margin,
                                               reduction=_word("cosine_embedding_loss", reduction))


@_loss(losses_likelihood._ctc_numbers)
def ctc_loss(log_probs: Any, targets: Any, input_lengths: Any, target_lengths: Any, blank: int = 0, reduction: int = 0,
             zero_infinity: bool = False) -> Any:
    """`nn.functional.ctc_loss`, with reduction as a number: 0 none, 1 mean, 2 sum.

    >>> logp = flambeau.zeros(1, 1, 2).log_softmax(2)
    >>> round(flambeau.ctc_loss(logp, flambeau.tensor([[1]]), (1,), (1,)).item(), 4)
    0.6931
    """
    return losses_likelihood.ctc_loss(log_probs, targets, input_lengths, target_lengths, blank,
                                      _word("ctc_loss", reduction), zero_infinity)


@_loss(lambda t: [call(t(3, 4), _signs(t, 3, 4)), call(t(3, 4), _signs(t, 3, 4), 0.5, 2)])
def hinge_embedding_loss(input: Any, target: Any, margin: float = 1.0, reduction: int = 0) -> Any:
    """`nn.functional.hinge_embedding_loss`, with reduction as a number: 0 none, 1 mean, 2 sum.

    >>> flambeau.hinge_embedding_loss(flambeau.tensor([2.]), flambeau.tensor([1.]), 1.0, 1).item()
    2.0
    """
    return losses_margin.hinge_embedding_loss(input, target, margin, reduction=_word("hinge_embedding_loss", reduction))


@_loss(lambda t: [call(t(3, 4), t(3, 4, low=0.1, high=0.9)), call(t(3, 4), t(3, 4), 0, log_target=True),
                  call(t(), t(low=0.1, high=0.9), reduction=2)])
def kl_div(input: Any, target: Any, reduction: int = 0, *, log_target: bool = False) -> Any:
    """`nn.functional.kl_div`, with reduction as a number: 0 none, 1 the mean over all elements, 2 sum.

    >>> p = flambeau.tensor([0.5, 0.5])
    >>> flambeau.kl_div(p.log(), p, 2).item()
    0.0
    """
    tensor(input, "kl_div")
    tensor(target, "kl_div", "target", 2)
    word = _word("kl_div", reduction)
    if not is_float(dtype_of(input)) or not is_float(dtype_of(target)):
        raise RuntimeError("kl_div: Integral inputs not supported: convert input and target to a floating dtype.")
    return reduced(divergences(input, target, log_target), word)


@_loss(lambda t: [call(t(3), t(3), _signs(t, 3)), call(t(3, 4), t(3, 4), _signs(t, 3, 4), 0.5, 2)])
def margin_ranking_loss(input1: Any, input2: Any, target: Any, margin: float = 0.0, reduction: int = 0) -> Any:
    """`nn.functional.margin_ranking_loss`, with reduction as a number: 0 none, 1 mean, 2 sum.

    >>> one = flambeau.tensor([1.])
    >>> flambeau.margin_ranking_loss(one, 3 * one, one, 0.0, 1).item()
    2.0
    """
    return losses_margin.margin_ranking_loss(input1, input2, target, margin,
                                             reduction=_word("margin_ranking_loss", reduction))


@public(method=False, out=False, samples=lambda t: [
    call(t(3, 4), t(3, 4, low=0.5, high=4.0, grad=False), True, False, 1e-8, 1),
    call(t(3, 4, low=0.5), t(3, 4, low=0.5, high=4.0, grad=False), False, True, 1e-8, 0)],
    errors=lambda t: [(call(t(3), t(3)), TypeError, "missing")])
def poisson_nll_loss(input: Any, target: Any, log_input: bool, full: bool, eps: float, reduction: int) -> Any:
    """`nn.functional.poisson_nll_loss` with no defaults, and reduction as a number: 0 none, 1 mean, 2 sum.

    >>> flambeau.poisson_nll_loss(flambeau.tensor([0.]), flambeau.tensor([2.]), True, False, 1e-8, 1).item()
    1.0
    """
    return losses_likelihood.poisson_nll_loss(input, target, log_input, full, eps=eps,
                                              reduction=_word("poisson_nll_loss", reduction))


@_loss(lambda t: [call(t(3, 4), t(3, 4), t(3, 4)), call(t(3, 4), t(3, 4), t(3, 4), 0.5, 1.0, 1e-6, True, 0)])
def triplet_margin_loss(anchor: Any, positive: Any, negative: Any, margin: float = 1.0, p: float = 2, eps: float = 1e-6,
                        swap: bool = False, reduction: int = 0) -> Any:
    """`nn.functional.triplet_margin_loss`, with reduction as a number: 0 none, 1 mean, 2 sum.

    >>> x = flambeau.tensor([[0.]])
    >>> round(flambeau.triplet_margin_loss(x, x, x + 3, 1.0).item(), 4)
    0.0
    """
    return losses_margin.triplet_margin_loss(anchor, positive, negative, margin, p, eps, swap,
                                             reduction=_word("triplet_margin_loss", reduction))
