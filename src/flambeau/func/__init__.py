"""Transforms of functions: derivatives, maps over batches, and modules as functions of their parameters.

>>> from flambeau.func import grad, vmap
>>> vmap(grad(lambda x: x ** 3))(flambeau.tensor([1.0, 2.0]))
tensor([ 3., 12.])
"""

from __future__ import annotations

from typing import Any

from flambeau._unavailable import no_attribute

from ._functional_call import functional_call, stack_module_state
from ._functionalize import functionalize
from ._grad import grad, grad_and_value, vjp
from ._jacobians import hessian, jacfwd, jacrev
from ._jvp import jvp, linearize
from ._levels import debug_unwrap
from ._modules import replace_all_batch_norm_modules_
from ._rearrange import rearrange
from ._vmap import vmap

__all__ = ["debug_unwrap", "functional_call", "functionalize", "grad", "grad_and_value", "hessian", "jacfwd", "jacrev",
           "jvp", "linearize", "rearrange", "replace_all_batch_norm_modules_", "stack_module_state", "vjp", "vmap"]


def __getattr__(name: str) -> Any:
    raise no_attribute(__name__, name, __all__)
