"""scipy.special, imported when the first function of it is called."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from .casting import BFLOAT16, converted

_module: Any = None


def special(function: str) -> Any:
    """A function of scipy.special."""
    global _module
    if _module is None:
        try:
            import scipy.special as module
        except ImportError:
            raise ImportError(f"{function} is computed by SciPy, which is not installed: pip install scipy") from None
        _module = module
    return getattr(_module, function)


def scipy_kernel(function: str) -> Callable[..., np.ndarray]:
    """A kernel that calls scipy.special.<function>; the result has the first array's dtype."""

    def kernel(a: np.ndarray, *others: Any) -> np.ndarray:
        f = special(function)
        d = a.dtype
        if d == np.float16 or d == BFLOAT16:
            a = converted(a, np.dtype(np.float32))
            others = tuple(o.astype(np.float32) if isinstance(o, np.ndarray) else o for o in others)
        x = np.asarray(f(a, *others))
        return x if x.dtype is d else x.astype(d)

    kernel.__name__ = function
    return kernel
