"""LAPACK routines that NumPy does not have, through SciPy, imported when the first matrix needs one.

They take one matrix at a time: for stacks of many small matrices, steps over the whole stack are faster.
"""

from __future__ import annotations

from typing import Any

import numpy as np

_routines: dict[tuple[str, str], Any] = {}


def pays(count: int, steps: int) -> bool:
    """Whether one call for each of `count` matrices is faster than `steps` operations on all."""
    return count <= 4 * steps


def _routine(name: str, d: np.dtype) -> Any:
    found = _routines.get((name, d.char))
    if found is None:
        from scipy.linalg.lapack import get_lapack_funcs

        found = _routines[name, d.char] = get_lapack_funcs((name,), dtype=d)[0]
    return found


def getrf(a: np.ndarray, out: np.ndarray, pivots: np.ndarray, info: np.ndarray) -> None:
    """LU factors of matrices (count, m, n) into out, which is stored by columns; pivots counted from 1."""
    routine = _routine("getrf", a.dtype)
    for i in range(len(a)):
        out[i], found, failed = routine(a[i])
        pivots[i] = found + 1
        info[i] = max(failed, 0)


def trtrs(a: np.ndarray, b: np.ndarray, upper: bool, unitriangular: bool) -> np.ndarray | None:
    """Solutions of triangular equations (count, n, n), (count, n, k), stored by columns; None if a diagonal has a 0."""
    routine = _routine("trtrs", a.dtype)
    x = np.empty((len(b), b.shape[2], b.shape[1]), b.dtype).swapaxes(1, 2)
    for i in range(len(a)):
        turned = not a[i].flags.f_contiguous        # then the transposed matrix needs no copy
        x[i], failed = routine(a[i].T if turned else a[i], b[i], lower=upper == turned, trans=int(turned),
                               unitdiag=int(unitriangular))
        if failed:
            return None
    return x
