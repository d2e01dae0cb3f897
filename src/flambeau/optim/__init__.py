"""Optimizers and learning-rate schedules."""

from __future__ import annotations

from typing import Any

from . import lr_scheduler
from .adadelta import Adadelta
from .adagrad import Adagrad
from .adam import Adam
from .adamax import Adamax
from .adamw import AdamW
from .optimizer import Optimizer
from .rmsprop import RMSprop
from .sgd import SGD

__all__ = ["Adadelta", "Adagrad", "Adam", "AdamW", "Adamax", "Optimizer", "RMSprop", "SGD", "lr_scheduler"]


def __getattr__(name: str) -> Any:
    text = f"module '{__name__}' has no attribute '{name}'"
    if name.startswith("_"):
        raise AttributeError(text)
    raise AttributeError(f"{text}: flambeau does not support it yet, or PyTorch has no such optimizer; use "
                         f"one of {', '.join(n for n in __all__ if n[0].isupper())}")
