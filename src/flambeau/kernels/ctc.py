"""Connectionist temporal classification: the forward-backward recursion, vectorised over the batch.

With the extended label l' (blanks around and between the labels, 2 S + 1 states), the recursion over time is
alpha_t(s) = lp_t(l'_s) + logsumexp(alpha_{t-1}(s), alpha_{t-1}(s-1), alpha_{t-1}(s-2) where allowed): the last
only if l'_s is no blank and differs from l'_{s-2}.

Source: Graves, Fernandez, Gomez and Schmidhuber, 2006, Connectionist temporal classification, section 4.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

__all__ = ["ctc_loss", "ctc_loss_backward"]


def _padded_targets(targets: np.ndarray, lengths: np.ndarray, blank: int) -> np.ndarray:
    """Targets (N, S) or concatenated to (N, max length), blank beyond each length."""
    n, longest = len(lengths), int(lengths.max(initial=0))
    result = np.full((n, longest), blank, np.int64)
    inside = np.arange(longest) < lengths[:, None]
    if targets.ndim == 1:
        if targets.size != lengths.sum():
            raise RuntimeError(
                f"ctc_loss: concatenated targets hold {targets.size} labels, but target_lengths sum to {lengths.sum()}"
            )
        result[inside] = targets
    else:
        if targets.shape[0] != n or targets.shape[1] < longest:
            raise RuntimeError(
                f"ctc_loss: Expected targets to have size at least ({n}, {longest}) for the given target_lengths, "
                f"but got size {list(targets.shape)}"
            )
        result[inside] = targets[:, :longest][inside]
    return result


def _states(log_probs, targets, input_lengths, target_lengths, blank):
    """(extended labels (N, 2 S + 1), mask of states entered by a skip, lengths as arrays), after checks."""
    steps, n, classes = log_probs.shape
    input_lengths = np.asarray(input_lengths, np.int64).reshape(-1)
    target_lengths = np.asarray(target_lengths, np.int64).reshape(-1)
    if not 0 <= blank < classes:
        raise RuntimeError(f"ctc_loss: blank must be in label range 0 to {classes - 1}, got {blank}")
    for name, lengths in (("input_lengths", input_lengths), ("target_lengths", target_lengths)):
        if len(lengths) != n:
            raise RuntimeError(f"ctc_loss: {name} must be of size batch_size {n}, got {len(lengths)}")
        if lengths.min(initial=0) < 0:
            raise RuntimeError(f"ctc_loss: Expected {name} to have value at least 0, but got value {lengths.min()}")
    if input_lengths.max(initial=0) > steps:
        raise RuntimeError(
            f"ctc_loss: Expected input_lengths to have value at most {steps}, but got value {input_lengths.max()}"
        )
    labels = _padded_targets(targets, target_lengths, blank)
    if labels.size and (labels.min() < 0 or labels.max() >= classes):
        raise RuntimeError(f"ctc_loss: targets must be labels from 0 to {classes - 1}, got {labels.min()} to {labels.max()}")
    extended = np.full((n, 2 * labels.shape[1] + 1), blank, np.int64)
    extended[:, 1::2] = labels
    skip = np.zeros(extended.shape, bool)
    skip[:, 2:] = (extended[:, 2:] != blank) & (extended[:, 2:] != extended[:, :-2])
    return extended, skip, input_lengths, target_lengths


def _shift(states: np.ndarray, by: int) -> np.ndarray:
    """states moved `by` places to the right (negative: left), -inf entering."""
    result = np.full(states.shape, -np.inf, states.dtype)
    if by > 0:
        result[:, by:] = states[:, : max(states.shape[1] - by, 0)]
    else:
        result[:, :by] = states[:, -by:]
    return result


def _add3(a: np.ndarray, b: np.ndarray, c: np.ndarray) -> np.ndarray:
    """log(exp a + exp b + exp c), -inf where all are."""
    peak = np.maximum(np.maximum(a, b), c)
    peak = np.where(np.isneginf(peak), peak.dtype.type(0), peak)
    with np.errstate(divide="ignore"):
        return np.log(np.exp(a - peak) + np.exp(b - peak) + np.exp(c - peak)) + peak


def _state_log_probs(log_probs: np.ndarray, extended: np.ndarray) -> np.ndarray:
    """Log-probability of each state's label: (T, N, 2 S + 1)."""
    return np.take_along_axis(log_probs, np.broadcast_to(extended, (len(log_probs), *extended.shape)), axis=2)


def ctc_loss(
    log_probs: np.ndarray,
    targets: np.ndarray,
    input_lengths: Sequence[int],
    target_lengths: Sequence[int],
    blank: int,
    zero_infinity: bool,
) -> tuple[np.ndarray, np.ndarray]:
    """Negative log-likelihood of each label sequence.

    Args:
        log_probs: (T, N, C) log-probabilities.
        targets: (N, S) labels, or all of them concatenated.
        input_lengths, target_lengths: N integers each.
        zero_infinity: report 0 for a sequence that has no alignment.

    Returns:
        (losses (N,), log_alpha (N, T, 2 S + 1), which the backward kernel reads).

    Raises:
        RuntimeError: lengths, labels or blank that do not fit.
    """
    dtype = log_probs.dtype
    extended, skip, input_lengths, target_lengths = _states(log_probs, targets, input_lengths, target_lengths, blank)
    steps, n, _ = log_probs.shape
    emit = _state_log_probs(log_probs, extended)
    log_alpha = np.full((n, steps, extended.shape[1]), -np.inf, dtype)
    minus_inf = dtype.type(-np.inf)
    if steps:
        log_alpha[:, 0, :2] = emit[0, :, :2]
        log_alpha[target_lengths == 0, 0, 1:] = minus_inf
    for t in range(1, steps):
        before = log_alpha[:, t - 1]
        skipped = np.where(skip, _shift(before, 2), minus_inf)
        log_alpha[:, t] = _add3(before, _shift(before, 1), skipped) + emit[t]
    rows = np.arange(n)
    last = 2 * target_lengths
    if steps:
        final = log_alpha[rows, np.maximum(input_lengths - 1, 0)]
        ends = np.where(target_lengths > 0, final[rows, np.maximum(last - 1, 0)], minus_inf)
        losses = -_add3(final[rows, last], ends, np.full(n, minus_inf))
    else:
        losses = np.zeros(n, dtype)
    # Without a time step only the empty sequence is possible.
    losses = np.where(input_lengths > 0, losses, np.where(target_lengths == 0, 0, np.inf)).astype(dtype, copy=False)
    if zero_infinity:
        losses = np.where(np.isposinf(losses), dtype.type(0), losses)
    return losses, log_alpha


def ctc_loss_backward(
    g: np.ndarray,
    log_probs: np.ndarray,
    targets: np.ndarray,
    input_lengths: Sequence[int],
    target_lengths: Sequence[int],
    losses: np.ndarray,
    log_alpha: np.ndarray,
    blank: int,
    zero_infinity: bool,
) -> np.ndarray:
    """Gradient of ctc_loss, for g (N,): (T, N, C), zero beyond each input's length.

    As in PyTorch it assumes that log_probs are the output of log_softmax: exp(lp) - (share of the paths through
    the label), which is the gradient in the softmax's input, and passes unchanged through log_softmax.
    """
    dtype = log_probs.dtype
    extended, skip, input_lengths, target_lengths = _states(log_probs, targets, input_lengths, target_lengths, blank)
    steps, n, classes = log_probs.shape
    width = extended.shape[1]
    emit = _state_log_probs(log_probs, extended)
    minus_inf = dtype.type(-np.inf)
    state = np.arange(width)
    last = (2 * target_lengths)[:, None]
    # Paths end in the last label or the blank after it.
    terminal = (state == last) | ((state == last - 1) & (last > 0))
    leave_by_skip = np.zeros_like(skip)
    leave_by_skip[:, :-2] = skip[:, 2:]
    beta = np.full((n, width), minus_inf)
    log_share = np.full((steps, n, width), minus_inf)
    for t in range(steps - 1, -1, -1):
        start = np.where(terminal, emit[t], minus_inf)
        skipped = np.where(leave_by_skip, _shift(beta, -2), minus_inf)
        onward = _add3(beta, _shift(beta, -1), skipped) + emit[t]
        beta = np.where((input_lengths - 1 == t)[:, None], start, onward)
        beta = np.where((state <= last) & (t < input_lengths)[:, None], beta, minus_inf)
        # Both alpha and beta count the emission at t.
        log_share[t] = log_alpha[:, t] + beta - emit[t]
    shares = np.exp(log_share + losses[:, None])
    shares = np.where(np.isneginf(log_share), dtype.type(0), shares)
    gradient = np.exp(log_probs)
    flat = (np.arange(steps * n).reshape(steps, n, 1) * classes + extended).reshape(-1)
    gradient -= np.bincount(flat, shares.reshape(-1), steps * n * classes).reshape(gradient.shape).astype(dtype)
    impossible = np.isposinf(losses)
    gradient[:, impossible] = np.nan
    gradient *= g[:, None]
    if zero_infinity:
        # The loss was replaced by 0: recognised by log_alpha, which was not.
        gradient[:, _impossible(log_alpha, input_lengths, target_lengths)] = 0
    gradient[np.arange(steps)[:, None] >= input_lengths] = 0
    return gradient


def _impossible(log_alpha, input_lengths, target_lengths) -> np.ndarray:
    """Mask (N,) of sequences with no alignment."""
    rows = np.arange(len(log_alpha))
    if log_alpha.shape[1] == 0:
        return target_lengths > 0
    final = log_alpha[rows, np.maximum(input_lengths - 1, 0)]
    last = 2 * target_lengths
    none = np.isneginf(final[rows, last]) & (np.isneginf(final[rows, np.maximum(last - 1, 0)]) | (target_lengths == 0))
    return np.where(input_lengths > 0, none, target_lengths > 0)
