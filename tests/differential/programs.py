"""Random programs for two libraries: what they compute, what they refuse, and every gradient must agree.

A program is a list of steps on a growing pool of tensors: operators, views, in-place writes, casts, `detach`,
`no_grad`, hooks, `retain_grad`. It runs on flambeau and on PyTorch; after each step the versions, flags, shapes and
dtypes of the whole pool are compared, at the end values, gradients (to order three) and hook calls.
"""

from __future__ import annotations

import contextlib
import random
import warnings
from collections import Counter
from dataclasses import dataclass
from types import ModuleType
from typing import Any

import numpy as np

UNARY = ("exp", "tanh", "sin", "relu", "neg", "abs", "sigmoid", "square")
BINARY = ("add", "sub", "mul", "div", "maximum")
VIEWS = ("tail", "select", "t", "flat", "pairs", "expand", "narrow", "unsqueeze", "diagonal", "permute", "unbind", "chunk")
COPIES = ("clone", "sum", "sum0", "mean", "cat", "stack", "where", "matmul", "double", "gather", "masked", "contiguous",
          "cumsum", "amax", "softmax")
CUTS = ("detach", "data")
INPLACE = ("add_", "add_", "mul_", "mul_", "scale_", "exp_", "tanh_", "sin_", "copy_", "zero_", "fill_", "set_row",
           "set_mask", "clamp_", "masked_fill_", "addcmul_", "index_add_", "iadd")
FLAGS = ("retain", "hook", "hook_double", "requires")
ALL = UNARY + BINARY * 2 + VIEWS * 2 + COPIES + CUTS + INPLACE * 2 + FLAGS
REFUSALS = (RuntimeError, IndexError, ValueError, TypeError, NotImplementedError)


@dataclass(frozen=True)
class Step:
    op: str
    i: int              # operands: numbers taken modulo the size of the pool
    j: int
    number: float
    no_grad: bool


@dataclass(frozen=True)
class Program:
    steps: tuple[Step, ...]
    ending: str         # backward, twice, freed, second, third
    seed: int


ENDINGS = ("backward", "twice", "freed", "second", "third")


def random_program(seed: int) -> Program:
    """The program of a seed."""
    r = random.Random(seed)
    steps = tuple(Step(r.choice(ALL), r.randrange(50), r.randrange(50), r.choice((0.5, 2.0, -1.5)), r.random() < 0.08)
                  for _ in range(r.randint(3, 15)))
    return Program(steps, r.choice(ENDINGS), seed)


def leaves(library: ModuleType, seed: int) -> list[Any]:
    """Two leaves that require grad, a constant, a float32 leaf; the others are float64, where rounding does not matter."""
    rs = np.random.RandomState(seed % (2**32))
    arrays = [rs.uniform(-1, 1, s) for s in ((2, 3), (3,), (2, 3), (2, 3))]
    dtypes = ("float64", "float64", "float64", "float32")
    arrays[3] += 0.6 * np.sign(arrays[3])       # in float32 x / x has a derivative of rounding only: large near 0
    made = [library.tensor(a, dtype=getattr(library, d)) for a, d in zip(arrays, dtypes, strict=True)]
    for k in (0, 1, 3):
        made[k].requires_grad_()
    return made


class Run:
    """One run of a program on one library."""

    def __init__(self, library: ModuleType, program: Program) -> None:
        self.library, self.program = library, program
        self.leaves = leaves(library, program.seed)
        self.pool = list(self.leaves)
        self.events: list[Any] = []
        self.refusals: dict[int, tuple[str, bool]] = {}      # event -> message, whether a view was written

    def step(self, s: Step) -> None:
        x, y = self.pool[s.i % len(self.pool)], self.pool[s.j % len(self.pool)]
        mode = self.library.no_grad() if s.no_grad else contextlib.nullcontext()
        result: Any = None
        before = x.detach().clone()
        try:
            with mode:
                result = self.apply(s, x, y)
        except REFUSALS as error:
            one_write = s.op not in ("write_double", "expand", "f_dirty")
            if self.library.__name__ == "torch" and before.shape == x.shape and one_write:
                with self.library.inference_mode(), contextlib.suppress(RuntimeError):
                    (x.detach() if x.is_inference() else x.data).copy_(before)       # PyTorch may write before it refuses
            self.events.append(("refused", kind_of(error)))
            self.refusals[len(self.events) - 1] = (str(error), x._base is not None)
        for r in result if isinstance(result, (tuple, list)) else (result,):
            if r is not None and not any(r is p for p in self.pool):
                self.pool.append(r)
        self.events.append(tuple(self.describe(p) for p in self.pool))

    def describe(self, p: Any) -> tuple:
        """What can be said of a tensor without its values."""
        return int(p._version), bool(p.requires_grad), tuple(p.shape), str(p.dtype)

    def apply(self, s: Step, x: Any, y: Any) -> Any:
        t, op = self.library, s.op
        if op in UNARY:
            return getattr(t, op)(x * 0.1 if op in ("exp", "square") else x)
        if op in BINARY:
            return getattr(t, op)(x, y)
        if op in VIEWS:
            return self.view(op, x)
        if op in COPIES:
            return self.copy(op, x, y, s)
        if op == "detach":
            return x.detach()
        if op == "data":
            return x.data
        if op in INPLACE:
            return self.write(op, x, y, s)
        return self.flag(op, x)

    def view(self, op: str, x: Any) -> Any:
        if op == "tail":
            return x[1:]
        if op == "select":
            return x[0]
        if op == "t":
            return x.transpose(0, -1)
        if op == "flat":
            return x.view(-1)
        if op == "pairs":
            return x.view(2, -1)
        if op == "expand":
            return x.expand(2, *x.shape)
        if op == "narrow":
            return x.narrow(-1, 0, 2)
        if op == "unsqueeze":
            return x.unsqueeze(0)
        if op == "diagonal":
            return x.diagonal()
        if op == "permute":
            return x.permute(*reversed(range(x.dim())))
        if op == "unbind":
            return list(x.unbind(0))[:2]
        return list(x.chunk(2, 0))

    def copy(self, op: str, x: Any, y: Any, s: Step) -> Any:
        t = self.library
        if op == "clone":
            return x.clone()
        if op == "sum":
            return x.sum()
        if op == "sum0":
            return x.sum(0, keepdim=s.number > 1)
        if op == "mean":
            return x.mean(-1)
        if op == "cat":
            return t.cat([x, y], 0)
        if op == "stack":
            return t.stack([x, y])
        if op == "where":
            return t.where(x > 0, x, y)
        if op == "matmul":
            return (x @ y.transpose(-1, -2) if y.dim() > 1 else x @ y) * 1.0     # PyTorch counts a write in its own mv
        if op == "double":
            return x.float() if x.dtype == t.float64 else x.double()
        if op == "gather":
            return (x * 1.0).gather(0, t.zeros(tuple(x.shape), dtype=t.long))     # PyTorch saves x for its shape
        if op == "masked":
            return x[x > 0]
        if op == "contiguous":
            return x.contiguous()
        if op == "cumsum":
            return x.cumsum(0)
        if op == "amax":
            return x.amax(0) if x.dim() else x.clone()      # PyTorch saves both for a 0-d tensor
        return x.softmax(-1)

    def write(self, op: str, x: Any, y: Any, s: Step) -> Any:
        t = self.library
        if op == "scale_":
            return x.mul_(s.number)
        if op in ("exp_", "tanh_", "sin_", "zero_"):
            return getattr(x, op)()
        if op == "fill_":
            return x.fill_(s.number)
        if op == "set_row":
            x[0] = y
            return x
        if op == "set_mask":
            x[x > 0] = s.number
            return x
        if op == "clamp_":
            return x.clamp_(-0.5, 0.5)
        if op == "masked_fill_":
            return x.masked_fill_(x.detach() > 0.2, s.number)
        if op == "addcmul_":
            z = y * 1.0 if y._is_view() else self.apart(x, y)      # an expanded view of x: PyTorch reads what it has written
            return x.addcmul_(z, z, value=s.number)
        if op == "index_add_":
            z = y * 1.0 if y.requires_grad else y       # PyTorch saves y for its number of dimensions
            return x.index_add_(0, t.zeros(y.shape[0], dtype=t.long), z)
        if op == "iadd":
            x += self.apart(x, y)
            return x
        return getattr(x, op)(self.apart(x, y))

    def apart(self, x: Any, y: Any) -> Any:
        """y, or a copy where it is another part of x's memory: of an overlap, PyTorch may read what it has written."""
        whole = x.is_contiguous() and y.is_contiguous()     # these it checks
        shared = x is not y and not whole and x.untyped_storage().data_ptr() == y.untyped_storage().data_ptr()
        return y * 1.0 if shared and x.numel() and x.untyped_storage().nbytes() else y

    def flag(self, op: str, x: Any) -> Any:
        if op == "retain":
            x.retain_grad()
        elif op == "requires":
            if self.program.ending in ENDINGS[:3]:      # a constant already saved joins PyTorch's second-order graph
                x.requires_grad_()
        elif x._base is not None and x.requires_grad and x.grad_fn is None:
            return None             # PyTorch crashes on such a hook
        elif op == "hook":
            k = len(self.events)
            x.register_hook(lambda g: self.events.append(("hook", k, None if g is None else values(g))))
        else:
            x.register_hook(lambda g: None if g is None else g * 2.0)
        return None

    def loss(self) -> Any:
        total = None
        for p in self.pool[-4:]:
            if p.requires_grad:
                term = (p * 1.0).sum().double()
                total = term if total is None else total + term
        return total

    def run(self) -> None:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            for s in self.program.steps:
                self.step(s)
            for p in self.pool:
                try:
                    self.events.append(("leaf", bool(p.is_leaf)))
                except REFUSALS:
                    self.events.append(("leaf", "refused"))
            try:
                self.end()
            except REFUSALS as error:
                text = str(error)
                self.refusals[len(self.events)] = (text, False)
                self.events.append(("refused", kind_of(error), "inplace" in text, "second time" in text))
            for p in self.pool:
                self.events.append(("value", values(p), None if p.grad is None else values(p.grad)))

    def end(self) -> None:
        ending = self.program.ending
        total = self.loss()
        if total is None:
            return
        if ending == "backward":
            total.backward()
        elif ending == "twice":
            total.backward(retain_graph=True)
            total.backward()
        elif ending == "freed":
            total.backward()
            total.backward()
        else:
            self.higher(total, 3 if ending == "third" else 2)

    def term(self, g: Any) -> Any:
        return g.sin().sum().double()

    def higher(self, total: Any, order: int) -> None:
        grad = self.library.autograd.grad
        wanted = [leaf for leaf in self.leaves if leaf.requires_grad and leaf.is_leaf]
        for _ in range(order):
            found = grad([total], wanted, create_graph=True, allow_unused=True)
            self.events.append(("gradients", [None if g is None else values(g) for g in found]))
            terms = [self.term(g) for g in found if g is not None and g.requires_grad]
            if not terms:
                return
            total = sum(terms[1:], terms[0])


def kind_of(error: BaseException) -> str:
    """The class that a user's except clause names."""
    for kind in (IndexError, TypeError, NotImplementedError, ValueError):
        if isinstance(error, kind):
            return kind.__name__
    return "RuntimeError"


def values(t: Any) -> np.ndarray:
    if hasattr(t, "_is_zerotensor") and t._is_zerotensor():      # PyTorch may crash in numpy() of one
        return np.zeros(tuple(t.shape))
    t = t.detach()
    a = (t.float() if str(t.dtype) == "torch.bfloat16" else t).numpy(force=True)
    if a.dtype == np.int64:
        a = np.where(np.abs(a) > 2**40, 0, a)       # bits of floating numbers: those of nan and of rounding are free
    return np.array(a, dtype=np.complex128 if a.dtype.kind == "c" else np.float64)


def agree(a: Any, b: Any, rough: bool = False) -> bool:
    """Whether two events say the same; a gradient None and one of zeros do in higher orders.

    Rough programs hold half-precision tensors: rounding is of 1e-2 there, and differs by the order of sums.
    """
    if isinstance(a, np.ndarray) or isinstance(b, np.ndarray):
        if a is None or b is None:
            return False            # a missing gradient is not a zero one
        finite = np.abs(b[np.isfinite(b)])
        scale = max(1.0, float(finite.max())) if finite.size else 1.0
        rtol, atol = (5e-2, 5e-2) if rough else (2e-3, 1e-4)
        return a.shape == b.shape and np.allclose(a, b, rtol=rtol, atol=atol * scale, equal_nan=True)
    if isinstance(a, tuple) and isinstance(b, tuple):
        if a[:2] == ("refused", "NotImplementedError") and b[:2] == ("refused", "RuntimeError"):
            return a[2:] == b[2:]       # a subclass serves the same except clauses
    if isinstance(a, (tuple, list)) and isinstance(b, (tuple, list)):
        if a and b and isinstance(a[0], str) and a[0] == b[0] == "gradients":
            return _same_gradients(a[1], b[1], rough)
        return len(a) == len(b) and all(agree(x, y, rough) for x, y in zip(a, b, strict=True))
    return a == b


def _same_gradients(a: list, b: list, rough: bool) -> bool:
    def zero(x: Any) -> bool:
        return x is None or not np.any(np.nan_to_num(x))

    return all((zero(x) and zero(y)) or (x is not None and y is not None and agree(x, y, rough))
               for x, y in zip(a, b, strict=True))


KNOWN: Counter[str] = Counter()     # programs on which PyTorch is known to be defective, by reason (docs/differences.md)


def known(k: int, event: Any, ours: Run, theirs: Run) -> bool:
    """Whether the runs part at event k for a reason that is listed as PyTorch's own."""
    message, of_view = theirs.refusals.get(k, ("", False))
    mine = ours.refusals.get(k, ("", False))[0]
    reason = ""
    views = any(s.no_grad or s.op in ("no_grad_view", "set_grad", "inference_view") for s in ours.program.steps)
    refused = isinstance(event[0], str) and event[0] == "refused"
    if event[0] != "refused" and of_view and "a leaf Variable that requires grad is being used in an in-place" in message:
        reason = "a view of a tensor written since counts as a leaf"
    elif "more than one element of the written-to tensor" in message and len(theirs.events[k]) == 4:
        reason = "backward of a write to an expanded tensor fails"
    elif mine and "view was created in no_grad mode" in message:
        reason = "two errors at once: the other one is named"
    elif "made inside torch.no_grad()" in mine and not message and any(s.op == "retain" for s in ours.program.steps):
        reason = "retain_grad() passes over a view of a tensor written since"
    elif (("modified by an inplace" in message or "created in no_grad mode" in message) and views
          and (not refused or "second time" in mine)):
        reason = "a derivative that nobody asked for is computed, and its saved values are checked"
    elif not refused and "nteger" in _written_integers(event, theirs.events[k]):
        reason = "an integer tensor requires grad once a differentiable one is written to a part of it"
    elif "nference tensor" in mine and not message:
        reason = "an inference tensor changes its shape in place outside inference mode"
    elif not refused and "modified by an inplace" in message and type(theirs) is not Run:
        reason = "the operand of another dtype is saved, where its converted copy is used"
    elif "does not support automatic differentiation for outputs with complex dtype" in message:
        reason = "a complex derivative that PyTorch lacks"
    elif "Could this error message be improved" in message:
        reason = "where() of a real and a complex tensor has no backward"
    elif not refused and "detached in-place" in message:
        reason = "a tensor detached in place loses what was saved of it"
    elif "setStorage" in message or (0 in _sizes(theirs) and not message and any(w in mine for w in _UNCHECKED)):
        reason = "an empty tensor is not checked"
    elif refused and (("dtypes match" in mine and "with size 0" in message)
                      or ("single memory location" in mine and "not implemented for" in message)):
        reason = "two errors at once: the other one is named"
    elif refused and ours.program.ending == "vmap" and mine and message:
        reason = "two errors at once: the other one is named"
    elif "mutate a captured Tensor" in message:
        reason = "torch.func refuses writes into tensors from outside"
    elif "INTERNAL ASSERT" in message:
        reason = "an assertion of PyTorch's own fails"
    elif "another shape in place since" in mine or _reshaped(ours, event):
        reason = "a tensor with a history or views is given another shape in no_grad mode"
    elif ("returns multiple views" in message and not mine
          and not all(p.is_floating_point() or p.is_complex() for p in theirs.pool)):
        reason = "an integer tensor requires grad once a differentiable one is written to a part of it"
    elif _inference(ours, theirs, event):
        reason = "what is refused of an inference tensor has been done, or its mark is lost"
    elif not message and "requires grad through its base" in mine:
        reason = "requires_grad_(False) of a view does nothing"
    elif "_will_engine_execute_node" in message:
        reason = "hooks of several leaves do not work in autograd.grad"
    elif refused and event[1] == "IndexError" and "is a view and " in message and "modified in" in message:
        reason = "two errors at once: the other one is named"
    kept_more = event[0:1] == ("value",) and event[2] is not None and theirs.events[k][2] is None
    if not reason and kept_more:
        if any(s.op == "retain" for s in ours.program.steps):
            reason = "retain_grad() passes over a view of a tensor written since"
        elif any(e[:3] == ("refused", "RuntimeError", True) for e in theirs.events if e):
            reason = "a backward that fails has reached other leaves before"
    if reason:
        KNOWN[reason] += 1
    return bool(reason)


_UNCHECKED = ("same dtype", "not implemented for", "is out of bounds for dimension")
_CHANGES = ("t_", "transpose_", "squeeze_", "unsqueeze_")     # of a tensor's own shape


def _reshaped(ours: Run, event: Any) -> bool:
    """Whether the runs may part for a shape that is changed in no_grad mode: not before the end."""
    return any(s.op in _CHANGES and s.no_grad for s in ours.program.steps) and event[0] in (
        "value", "refused", "grad", "inputs", "now", "edge", "leaf")


def _inference(ours: Run, theirs: Run, event: Any) -> bool:
    """Whether the runs part in what PyTorch has done to an inference tensor, or in its mark."""
    steps = {s.op for s in ours.program.steps}
    if not any(op.startswith("inference") for op in steps):
        return False
    refused = any("nference tensor" in message for message, _ in theirs.refusals.values())
    return refused and bool(steps & {*_CHANGES, "f_dirty"}) or "view_dtype" in steps and isinstance(event[0], tuple)


def _sizes(run: Run) -> list[int]:
    return [n for p in run.pool for n in p.shape]


def _written_integers(a: Any, b: Any) -> str:
    """"integer" when the descriptions of a pool part only in a flag that PyTorch gives an integer tensor."""
    if not (isinstance(a[0], tuple) and isinstance(b[0], tuple) and len(a) == len(b)):
        return ""
    parted = [(x, y) for x, y in zip(a, b, strict=True) if x != y]
    return "integer" if all(y[1] and not x[1] and ("int" in y[3] or "bool" in y[3]) for x, y in parted) else ""


def compare(program: Program, ours: ModuleType, theirs: ModuleType, kind: type[Run] = Run) -> str | None:
    """The first disagreement of a program's two runs, in words; None when they agree."""
    a, b = kind(ours, program), kind(theirs, program)
    with np.errstate(all="ignore"):
        a.run()
        b.run()
    higher = program.ending in ("second", "third")
    rough = any(str(p.dtype) in ("torch.float16", "torch.bfloat16") for p in b.pool)
    ea, eb = ([e for e in r.events if not (higher and e and e[0] == "gradients")] for r in (a, b))
    ga, gb = ([e for e in r.events if higher and e and e[0] == "gradients"] for r in (a, b))
    for k, (x, y) in enumerate(zip(ea, eb, strict=False)):
        if not agree(x, y, rough):
            if known(k, x, a, b):
                return None
            return f"event {k}: flambeau {different(x, y)}\n          PyTorch  {different(y, x)}"
    if len(ea) != len(eb):
        return f"{len(ea)} events, PyTorch {len(eb)}: {ea[len(eb):len(eb) + 2]} {eb[len(ea):len(ea) + 2]}"
    if rough:
        return None                 # later orders of half-precision programs are rounding
    for x, y in zip(ga, gb, strict=False):
        if not agree(x, y, rough):
            return f"{x}\nPyTorch {y}"
    longer = (ga if len(ga) > len(gb) else gb)[min(len(ga), len(gb)):]
    if any(np.any(np.nan_to_num(g)) for e in longer for g in e[1] if g is not None):
        return f"{len(ga)} orders of gradients, PyTorch {len(gb)}"
    return None


def different(a: Any, b: Any) -> Any:
    """The part of a that is not in b, when both describe a pool."""
    if isinstance(a, tuple) and isinstance(b, tuple) and len(a) == len(b) and a and isinstance(a[0], tuple):
        return [(k, x) for k, (x, y) in enumerate(zip(a, b, strict=True)) if x != y]
    return a


def text(program: Program) -> str:
    """A program in words, for a report."""
    lines = [f"seed {program.seed}, ending {program.ending}"]
    lines += [f"  {s.op:12s} {s.i} {s.j} {s.number}{'  no_grad' if s.no_grad else ''}" for s in program.steps]
    return "\n".join(lines)
