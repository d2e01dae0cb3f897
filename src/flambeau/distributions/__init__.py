"""Probability distributions: `torch.distributions`.

Each class is a family; its parameters are tensors, which may carry gradients. `sample` draws, `rsample` draws so that
gradients pass through, `log_prob`, `cdf` and `entropy` evaluate, `kl_divergence` compares two.
"""

from __future__ import annotations

from . import constraints as constraints
from . import utils as utils
from .bernoulli import Bernoulli
from .categorical import Categorical
from .distribution import Distribution
from .exp_family import ExponentialFamily
from .normal import Normal
from .uniform import Uniform

__all__ = [
    "Bernoulli",
    "Categorical",
    "Distribution",
    "ExponentialFamily",
    "Normal",
    "Uniform",
]
