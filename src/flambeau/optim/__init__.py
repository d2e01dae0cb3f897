"""Optimizers and learning-rate schedules."""

from __future__ import annotations

import importlib
from typing import Any

from flambeau._unavailable import no_attribute

from . import lr_scheduler
from ._swap import swap_in_optimizer_params_and_state
from .adadelta import Adadelta
from .adafactor import Adafactor
from .adagrad import Adagrad
from .adam import Adam
from .adamax import Adamax
from .adamw import AdamW
from .asgd import ASGD
from .lbfgs import LBFGS
from .muon import Muon
from .nadam import NAdam
from .optimizer import Optimizer
from .radam import RAdam
from .rmsprop import RMSprop
from .rprop import Rprop
from .sgd import SGD
from .sparse_adam import SparseAdam

__all__ = ["ASGD", "Adadelta", "Adafactor", "Adagrad", "Adam", "AdamW", "Adamax", "LBFGS", "Muon", "NAdam", "Optimizer",
           "RAdam", "RMSprop", "Rprop", "SGD", "SparseAdam", "lr_scheduler", "swa_utils",
           "swap_in_optimizer_params_and_state"]


def __getattr__(name: str) -> Any:
    if name in ("swa_utils", "_functional", "_multi_tensor"):        # swa_utils needs flambeau.nn, which others do not
        return importlib.import_module(f"{__name__}.{name}")
    raise no_attribute(__name__, name, __all__, f"Use one of {', '.join(n for n in __all__ if n[0].isupper())}.")
