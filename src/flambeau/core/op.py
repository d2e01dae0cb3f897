"""Operator records as the core sees them: a kernel, and formulas decoded to integer codes.

`slot(name)` makes a record empty; `ops` fills it later. Compiled dunder methods thus hold their record as a
C static and reach it without a look-up, while the core names no operator.
"""
from __future__ import annotations

from typing import Any, Final

from mypy_extensions import i64

# What a formula's parameter names, as an integer
OUT: Final = 16          # 0..15 inputs; 16..31 outputs
SHAPE: Final = 32        # 32..47 shapes of inputs
DTYPE: Final = 48        # 48..63 dtypes of inputs
PARAM: Final = 64        # 64..   parameters
INPUTS: Final = 200      # all inputs of a variadic operator
SHAPES: Final = 201      # their shapes
DTYPES: Final = 202      # their dtypes
NEEDS: Final = 203       # which inputs require grad
ALL_INPUTS_BIT: Final = 4294967296   # bit 32 of a save mask: every input

# How a formula can be run without entering Python
GENERAL: Final = 0
IDENTITY: Final = 1      # g
UNARY: Final = 2         # direct(g)
BINARY: Final = 3        # direct(g, value)


class Formula:
    """One derivative formula, and the codes of the values that its parameters name."""

    def __init__(self, fn: Any, codes: list[int]) -> None:
        self.fn: Any = fn
        self.n: i64 = len(codes)
        self.codes: list[int] = codes
        self.c0: i64 = codes[0] if len(codes) > 0 else 0
        self.c1: i64 = codes[1] if len(codes) > 1 else 0
        self.c2: i64 = codes[2] if len(codes) > 2 else 0
        self.kind: i64 = 0             # GENERAL, IDENTITY, UNARY or BINARY
        self.direct: Any = None
        self.real_only: bool = False   # `direct` leaves out a conjugate
        self.mask: i64 = 0             # what it saves: bit i input i, bit 16 + j output j, bit 32 all inputs
        one: i64 = 1
        for c in codes:
            if c < 32:
                b: i64 = c
                self.mask |= one << b
            elif c == INPUTS:
                self.mask |= ALL_INPUTS_BIT

    def set_direct(self, kind: int, direct: Any, real_only: bool) -> None:
        """Record that the formula is one kernel call (found by `ops` at registration)."""
        self.kind = kind
        self.direct = direct
        self.real_only = real_only


class Op:
    def __init__(self, name: str) -> None:
        self.name: str = name
        self.node_name: str = name
        self.node_class: Any = None         # the empty class under which users see a node
        self.kernel: Any = None
        self.inplace: Any = None            # kernel(..., out) for in-place use
        self.n_in: i64 = 1
        self.n_out: i64 = 1
        self.input_names: list[str] = []
        self.param_names: list[str] = []
        self.formulas: list[Formula | None] = []
        self.joint: Formula | None = None
        self.f0: Formula | None = None
        self.f1: Formula | None = None
        self.mask0: i64 = 0
        self.mask1: i64 = 0
        self.differentiable: bool = False   # some input has a formula
        self.outputs: list[bool] = []       # several outputs: which are differentiable
        self.sparse: bool = False           # the output is sparse: so may be its gradient
        self.view: bool = False
        self.pointwise: bool = False        # output shape is the broadcast of the inputs'
        self.same_dtype: bool = False       # pointwise: floating inputs of one dtype give that dtype
        self.bool_out: bool = False         # comparisons
        self.float_result: bool = False     # integer inputs are computed in the default float dtype
        self.promotes: bool = True          # mixed dtypes are brought to one
        self.is_copy: bool = False          # copy_ and fill: exempt from some in-place checks
        self.check_float: bool = False      # the output may be of an integer dtype: then nothing is recorded
        self.no_overlap: bool = False       # in-place, no other input may share memory with the one written
        self.overlap_allowed: bool = False  # in-place on expanded memory is deprecated, not refused
        self.writes: bool = False           # declared effects, for capture
        self.random: bool = False
        self.may_raise: bool = False
        self.dynamic_shape: bool = False
        self.static: list[bool] = []        # for each parameter: static (True) or a scalar that may change
        self.expr: Any = None
        self.jvp: Any = None
        self.meta: Any = None               # shape rule, when not found by running the kernel
        self.record: Any = None             # the full record in `ops`
        self.custom: Any = None             # autograd.Function: the class


_slots: Final[dict[str, Op]] = {}


def slot(name: str) -> Op:
    """The record called `name`, made empty if it does not exist yet."""
    op = _slots.get(name)
    if op is None:
        op = Op(name)
        _slots[name] = op
    return op


def all_slots() -> dict[str, Op]:
    return _slots


COPY_SLICES: Final = Op("CopySlices")
COPY_SLICES.node_name = "CopySlices"
