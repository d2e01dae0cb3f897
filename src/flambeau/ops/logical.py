"""Logic: and, or, xor, not of truth values."""

from __future__ import annotations

import numpy as np

from flambeau.kernels.pointwise import ZEROS

from ._pointwise import binary, unary
from ._record import call

for _name, _ufunc, _symbol in (("logical_and", np.logical_and, "&&"), ("logical_or", np.logical_or, "||"),
                               ("logical_xor", np.logical_xor, "^^")):
    binary(_name, _ufunc, bool_out=True, numbers=False, differentiable=False, expr=f"self {_symbol} other",
           samples=lambda t: [call(t(3, 4, dtype="bool"), t(4, dtype="bool")), call(t(3, 4), t(3, 4))],
           example=("flambeau.tensor([True, False]), flambeau.tensor([True, True])",
                    str(_ufunc([True, False], [True, True]).tolist())),
           doc=f"{_name.removeprefix('logical_')} of the truth values, elementwise, with broadcasting; a bool tensor. What "
               "is not 0 is true.")



def _logical_not(a: np.ndarray) -> np.ndarray:
    # NumPy compares floats with 0 ten times as fast as it negates them; nan is true for both
    return np.equal(a, ZEROS[a.dtype]) if a.dtype.char in "fd" else np.logical_not(a)


unary("logical_not", _logical_not, bool_out=True, float_result=False, differentiable=False, expr="!self",
      example=("[0, 2]", "[True, False]"), doc="Whether input is 0, elementwise; a bool tensor.")
