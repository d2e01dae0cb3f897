"""Optimizers and learning-rate schedules."""

from __future__ import annotations

from typing import Any

from . import lr_scheduler
from .adadelta import Adadelta
from .adagrad import Adagrad
from .adam import Adam
from .adamax import Adamax
from .adamw import AdamW
from .asgd import ASGD
from .nadam import NAdam
from .optimizer import Optimizer
from .radam import RAdam
from .rmsprop import RMSprop
from .rprop import Rprop
from .sgd import SGD

__all__ = ["ASGD", "Adadelta", "Adagrad", "Adam", "AdamW", "Adamax", "NAdam", "Optimizer", "RAdam", "RMSprop",
           "Rprop", "SGD", "lr_scheduler"]


def __getattr__(name: str) -> Any:
    text = f"module '{__name__}' has no attribute '{name}'"
    if name.startswith("_"):
        raise AttributeError(text)
    raise AttributeError(f"{text}: flambeau does not support it yet, or PyTorch has no such optimizer; use "
                         f"one of {', '.join(n for n in __all__ if n[0].isupper())}")
