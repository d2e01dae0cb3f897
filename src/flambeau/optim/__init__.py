"""Optimizers and learning-rate schedules."""

from __future__ import annotations

from typing import Any

from flambeau._unavailable import no_attribute

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
    raise no_attribute(__name__, name, __all__, f"Use one of {', '.join(n for n in __all__ if n[0].isupper())}.")
