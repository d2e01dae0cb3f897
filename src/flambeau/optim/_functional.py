"""The functions of `torch.optim._functional`, which update lists of tensors without an optimizer: not there."""

from __future__ import annotations

from flambeau._unavailable import missing

_NAMES = "adadelta adagrad adam adamax adamw asgd nadam radam rmsprop rprop sgd sparse_adam adafactor muon"

globals().update(missing(
    __name__, _NAMES, "updates of lists of tensors have no functional form here. Make an optimizer object (params may be "
                      "plain tensors whose .grad you set), or write the formula with tensor operators."))
