"""Random programs over all of the engine's features: more dtypes and views, custom Functions, modes, hooks, `.data`.

A wide program is a program of `programs` with more leaves (complex, half precision, integers, empty, 0-d) and more steps;
strides are compared as well.
"""

from __future__ import annotations

import contextlib
import copy
import random
from types import ModuleType
from typing import Any

import numpy as np

from . import programs
from .custom import functions
from .programs import ENDINGS, REFUSALS, Program, Run, Step, kind_of, values

WIDE_VIEWS = (
    "unfold",
    "as_strided",
    "view_as",
    "squeeze",
    "movedim",
    "real",
    "imag",
    "view_as_real",
    "view_as_complex",
    "flatten",
    "unflatten",
    "skip",
    "none",
    "last",
    "split",
    "hsplit",
    "expand_as",
    "T",
    "ravel",
    "reshape",
    "swapaxes",
    "view_dtype",
    "tensor_split",
    "ellipsis",
    "as_view",
    "conj",
    "mT",
)
WIDE_COPIES = (
    "half",
    "bfloat",
    "complex",
    "to_int",
    "to_bool",
    "prod",
    "std",
    "norm",
    "logsumexp",
    "max_dim",
    "sort",
    "topk",
    "roll",
    "flip",
    "repeat",
    "index",
    "take_along",
    "masked_select",
    "empty_like",
    "outer",
    "pow",
    "where_number",
    "lerp",
    "einsum",
    "bmm",
    "cumprod",
    "diag",
    "tril",
    "pad",
    "linear",
    "rms_norm",
    "nll",
    "argmax",
    "compare",
    "int_div",
    "add_int",
    "angle",
    "new_zeros",
    "scatter",
    "index_put",
    "type_as",
    "var_mean",
    "bitwise",
    "addmm",
)
WIDE_WRITES = (
    "t_",
    "unsqueeze_",
    "detach_",
    "requires_off",
    "div_",
    "sub_",
    "pow_",
    "zero_part",
    "write_part",
    "no_grad_part",
    "data_write",
    "data_set",
    "set_",
    "out",
    "out_fresh",
    "index_put_",
    "scatter_",
    "copy_part",
    "write_deep",
    "resize_",
    "mul_int",
    "relu_",
    "clamp_min_",
    "index_fill_",
    "squeeze_",
    "write_double",
    "transpose_",
    "neg_",
    "sqrt_",
    "lerp_",
    "iand",
    "index_copy_",
    "masked_scatter_",
    "erf_",
)
WIDE_MODES = (
    "inference",
    "inference_view",
    "inference_write",
    "enable",
    "decorated",
    "saved_hooks",
    "set_grad",
    "no_grad_view",
)
WIDE_HOOKS = (
    "reentrant",
    "raising",
    "multi_any",
    "multi_all",
    "partial",
    "backward_now",
    "post_acc",
    "node_hook",
    "node_pre",
    "grad_set",
    "grad_edge",
    "hook_write",
    "retain2",
    "remove_hook",
)
WIDE_CUSTOM = ("f_square", "f_dirty", "f_view", "f_two", "f_same", "f_nondiff", "f_inner", "f_none")
WIDE_OTHER = ("deepcopy", "parameter", "tensor_again", "clone_leaf", "swap_leaf")
WIDE = WIDE_VIEWS + WIDE_COPIES + WIDE_WRITES + WIDE_MODES + WIDE_HOOKS + WIDE_CUSTOM + WIDE_OTHER
WIDE_ALL = programs.ALL + WIDE
WIDE_ENDINGS = (*ENDINGS, "inputs", "grad", "retain_then_inputs")


def random_wide_program(seed: int) -> Program:
    """The wide program of a seed."""
    r = random.Random(seed)
    steps = tuple(
        Step(
            r.choice(WIDE if r.random() < 0.6 else programs.ALL),
            r.randrange(50),
            r.randrange(50),
            r.choice((0.5, 2.0, -1.5)),
            r.random() < 0.08,
        )
        for _ in range(r.randint(3, 12))
    )
    return Program(steps, r.choice(WIDE_ENDINGS), seed)


def wide_leaves(library: ModuleType, seed: int) -> list[Any]:
    """The leaves of narrow programs, then a few of: complex, half precision, integer, bool, empty, 0-d, transposed."""
    found = programs.leaves(library, seed)
    rs = np.random.RandomState(seed % (2**32))
    made: list[tuple[Any, str, bool]] = [
        (rs.uniform(-1, 1, (2, 3)) + 1j * rs.uniform(-1, 1, (2, 3)), "complex128", True),
        (rs.uniform(-1, 1, (3,)) + 1j * rs.uniform(-1, 1, (3,)), "complex64", False),
        (rs.uniform(-1, 1, (2, 3)), "float16", True),
        (rs.uniform(-1, 1, (2, 3)), "bfloat16", True),
        (rs.randint(-3, 4, (2, 3)), "int64", False),
        (rs.randint(0, 2, (2, 3)), "bool", False),
        (rs.randint(0, 4, (3,)), "uint8", False),
        (rs.uniform(-1, 1, (0, 3)), "float64", True),
        (rs.uniform(-1, 1, ()), "float64", True),
        (rs.uniform(-1, 1, (2, 1, 3)), "float64", True),
    ]
    for k in rs.permutation(len(made))[:2]:
        array, dtype, grad = made[k]
        t = library.tensor(array, dtype=getattr(library, dtype))
        found.append(t.requires_grad_() if grad else t)
    return found


class WideRun(Run):
    """One run of a wide program on one library."""

    def __init__(self, library: ModuleType, program: Program) -> None:
        super().__init__(library, program)
        self.leaves = wide_leaves(library, program.seed)
        self.pool = list(self.leaves)
        self.functions = functions(library)
        self.handles: list[Any] = []
        self.kept: list[Any] = []

    def describe(self, p: Any) -> tuple:
        inference = bool(p.is_inference())
        strides = tuple(s for s, n in zip(p.stride(), p.shape, strict=True) if n != 1) if p.numel() else ()
        counted = not any(s.op.startswith("inference") for s in self.program.steps)  # copies of such tensors begin at 1
        return (
            int(p._version) if counted else -1,
            bool(p.requires_grad),
            tuple(p.shape),
            str(p.dtype),
            strides,
            int(p.storage_offset()) if p.numel() else 0,
            inference,
        )

    def apply(self, s: Step, x: Any, y: Any) -> Any:
        for group, act in (
            (WIDE_VIEWS, self.wide_view),
            (WIDE_COPIES, self.wide_copy),
            (WIDE_WRITES, self.wide_write),
            (WIDE_MODES, self.wide_mode),
            (WIDE_HOOKS, self.wide_hook),
            (WIDE_CUSTOM, self.custom),
            (WIDE_OTHER, self.other),
        ):
            if s.op in group:
                return act(s, x, y)
        if s.op == "requires" and not (x.is_floating_point() or x.is_complex()):
            return None
        return super().apply(s, x, y)

    def wide_view(self, s: Step, x: Any, y: Any) -> Any:
        t = self.library
        table: dict[str, Any] = {
            "unfold": lambda: x.unfold(-1, 2, 2) if s.number > 1 else x.unfold(-1, 2, 1) * 1.0,  # no overlapping writes
            "as_strided": lambda: x.as_strided((2,), (1,)),
            "view_as": lambda: x.view_as(y),
            "squeeze": lambda: x.squeeze() if s.number > 1 else x.squeeze(0),
            "movedim": lambda: x.movedim(0, -1),
            "real": lambda: x.real,
            "imag": lambda: x.imag,
            "view_as_real": lambda: t.view_as_real(x),
            "view_as_complex": lambda: t.view_as_complex(x.unfold(-1, 2, 1)),
            "flatten": lambda: x.flatten(),
            "unflatten": lambda: x.unflatten(-1, (1, -1)),
            "skip": lambda: x[..., ::2],
            "none": lambda: x[None],
            "last": lambda: x.select(-1, -1),
            "split": lambda: list(x.split(1, -1))[:2],
            "hsplit": lambda: list(x.hsplit(1)),
            "expand_as": lambda: x.expand_as(y),
            "T": lambda: x.permute(*reversed(range(x.dim()))),
            "ravel": lambda: x.ravel(),
            "reshape": lambda: x.reshape(-1, 1),
            "swapaxes": lambda: x.swapaxes(0, 1),
            "view_dtype": lambda: x.view(t.int64),
            "tensor_split": lambda: list(x.tensor_split(2)),
            "ellipsis": lambda: x[...],
            "as_view": lambda: x.view(x.shape),
            "conj": lambda: t.view_as_real(x).select(-1, 0),
            "mT": lambda: x.mT,
        }
        return table[s.op]()

    def wide_copy(self, s: Step, x: Any, y: Any) -> Any:
        t = self.library
        zeros = t.zeros
        table: dict[str, Any] = {
            "half": lambda: x.half(),
            "bfloat": lambda: x.bfloat16(),
            "complex": lambda: t.complex(x.double(), x.double() * 0.5),
            "to_int": lambda: (x * 3).long(),
            "to_bool": lambda: x.bool(),
            "prod": lambda: x.prod(0),
            "std": lambda: x.std(-1),
            "norm": lambda: (x + 2.0).norm(),
            "logsumexp": lambda: x.logsumexp(-1),
            "max_dim": lambda: x.max(0)[0],
            "sort": lambda: x.sort(-1)[0],
            "topk": lambda: x.topk(1, -1)[0],
            "roll": lambda: x.roll(1, -1),
            "flip": lambda: x.flip(0),
            "repeat": lambda: x.repeat(2, *([1] * x.dim())),
            "index": lambda: x[t.tensor([0, 0])],
            "take_along": lambda: (x * 1.0).take_along_dim(zeros((1,) * max(x.dim(), 1), dtype=t.long), 0),
            "masked_select": lambda: (x * 1.0).masked_select(x.abs() > 0.3),
            "empty_like": lambda: t.zeros_like(x),
            "outer": lambda: t.outer(x, y),
            "pow": lambda: (x * 1.0) ** 2 if s.number > 1 else x**3.0,
            "where_number": lambda: t.where(x.abs() > 0.3, x, s.number),
            "lerp": lambda: t.lerp(x, y, 0.3),
            "einsum": lambda: t.einsum("ij,kj->ik", x * 1.0, y * 1.0).contiguous(),
            "bmm": lambda: t.bmm(x[None] * 1.0, y.transpose(-1, -2)[None] * 1.0),
            "cumprod": lambda: x.cumprod(-1),
            "diag": lambda: x.diag(),
            "tril": lambda: x.tril(),
            "pad": lambda: t.nn.functional.pad(x, (1, 1)),
            "linear": lambda: t.nn.functional.linear(x * 1.0, y * 1.0) * 1.0,
            "rms_norm": lambda: t.nn.functional.rms_norm(x, x.shape[-1:]),
            "nll": lambda: t.nn.functional.cross_entropy(x, zeros(x.shape[:1], dtype=t.long)),
            "argmax": lambda: x.argmax(-1),
            "compare": lambda: x > y,
            "int_div": lambda: t.div(x * 1.0, y + 2, rounding_mode="floor"),
            "add_int": lambda: x + 2,
            "angle": lambda: x.angle(),
            "new_zeros": lambda: x.new_zeros(2, 3),
            "scatter": lambda: (x * 1.0).scatter(0, zeros((1,) * max(x.dim(), 1), dtype=t.long), s.number),
            "index_put": lambda: x.index_put((t.tensor([0]),), y),
            "type_as": lambda: x.type_as(y),
            "var_mean": lambda: list(t.var_mean(x, -1)),
            "bitwise": lambda: x ^ y,
            "addmm": lambda: t.addmm(x * 1.0, x @ x.transpose(0, 1) * 1.0, y * 1.0),
        }
        return table[s.op]()

    def wide_write(self, s: Step, x: Any, y: Any) -> Any:
        t = self.library
        op = s.op
        if op in ("t_", "detach_", "relu_", "neg_", "sqrt_", "squeeze_", "erf_"):
            return getattr(x, op)()
        if op == "unsqueeze_":
            return x.unsqueeze_(0)
        if op == "transpose_":
            return x.transpose_(0, -1)
        if op == "requires_off":
            return x.requires_grad_(False)
        if op == "div_":
            return x.div_(self.apart(x, y))
        if op == "sub_":
            return x.sub_(self.apart(x, y), alpha=s.number)
        if op == "pow_":
            return x.pow_(2)
        if op == "zero_part":
            list(x.unbind(0))[0].zero_()
            return None
        if op == "write_part":
            x.view(-1)[1:].mul_(s.number)
            return None
        if op == "no_grad_part":
            parts = list(x.split(1))
            with t.no_grad():
                parts[0].mul_(s.number)
            return parts
        if op == "data_write":
            if not x.requires_grad:  # values saved of x may have been copied in one library
                x.data.mul_(s.number)
            return None
        if op == "data_set":
            if x._is_view() or x.requires_grad or x.is_inference() or any(p._base is x for p in self.pool):
                return None  # views part from their base; saved values are old here, new or both in PyTorch
            x.data = x.detach().clone() * s.number if x.is_floating_point() else x.detach().clone()
            return None
        if op == "set_":
            z = t.zeros(2, dtype=x.dtype)
            z.set_(x.detach())
            self.events.append(("set", values(z * 1)))
            return None
        if op == "out":
            z = t.empty(0, dtype=x.dtype)
            if tuple(x.shape) != tuple(y.shape) or s.number > 1:
                with t.no_grad():
                    return t.mul(x, y, out=z)
            with t.no_grad():
                return t.mul(x, y, out=y.detach())
        if op == "out_fresh":
            return t.add(x, y, out=t.empty(0, dtype=y.dtype))
        if op == "index_put_":
            return x.index_put_((t.tensor([0]),), y, accumulate=s.number > 1)
        if op == "scatter_":
            return x.scatter_(0, t.zeros((1,) * max(x.dim(), 1), dtype=t.long), s.number)
        if op == "copy_part":
            x[..., 0] = y[..., -1]
            return None
        if op == "write_deep":
            z = x.transpose(0, -1)[1:].unsqueeze(0)[..., :1]
            z.add_(1)
            return z
        if op == "resize_":
            return x.detach().clone().resize_(3).fill_(1)
        if op == "mul_int":
            return x.mul_(2)
        if op == "clamp_min_":
            return x.clamp_min_(0)
        if op == "index_fill_":
            return x.index_fill_(0, t.tensor([0]), s.number)
        if op == "write_double":
            a, b = x[:1], x[:1]
            a.mul_(2)
            b.exp_()
            return [a, b]
        if op == "lerp_":
            return x.lerp_(y, 0.25)
        if op == "iand":
            x &= y
            return x
        if op == "index_copy_":
            return x.index_copy_(0, t.tensor([0]), y[:1])
        return x.masked_scatter_(x.detach() > 0.1, y.clone())

    def wide_mode(self, s: Step, x: Any, y: Any) -> Any:
        t, op = self.library, s.op
        if op == "inference":
            with t.inference_mode():
                return x * 2.0
        if op == "inference_view":
            with t.inference_mode():
                return x[1:] if s.number > 1 else x.view(-1)
        if op == "inference_write":
            with t.inference_mode():
                return x.mul_(s.number)
        if op == "enable":
            with t.no_grad(), t.enable_grad():
                return x * y
        if op == "decorated":

            def double() -> Any:
                return x * 2.0

            mode = t.no_grad() if s.number > 1 else t.enable_grad()
            return mode(double)()
        if op == "saved_hooks":
            with t.autograd.graph.saved_tensors_hooks(lambda v: v.detach().clone(), lambda v: v):
                return (x * y).exp() if s.number > 1 else x.tanh() * y
        if op == "set_grad":
            with t.set_grad_enabled(s.number > 1):
                return [x.sin(), x[0]]
        with t.no_grad():
            return list(x.chunk(2)) if s.number > 1 else x.view(-1)

    def wide_hook(self, s: Step, x: Any, y: Any) -> Any:
        t, op, k = self.library, s.op, len(self.events)
        if x._base is not None and x.requires_grad and x.grad_fn is None:
            return None  # PyTorch crashes on such a hook
        if op in ("multi_any", "multi_all"):
            if not (x.requires_grad and y.requires_grad) or (y._base is not None and y.grad_fn is None):
                return None
            if op == "multi_any":
                hook: Any = lambda g: self.events.append(("any", k, None if g is None else values(g)))  # noqa: E731
            else:
                hook = lambda gs: self.events.append(("all", k, [None if g is None else values(g) for g in gs]))  # noqa: E731
            self.handles.append(t.autograd.graph.register_multi_grad_hook((x, y), hook, mode=op[6:]))
        elif op == "reentrant":

            def inside(g: Any) -> Any:
                with t.enable_grad():
                    z = g.detach().clone().requires_grad_()
                    total = (z * z).sum()
                    (total.real if total.is_complex() else total).backward()
                self.events.append(("inside", k, values(z.grad)))
                return g + z.grad * 0.5

            x.register_hook(lambda g: None if g is None else inside(g))
        elif op == "raising":
            if s.number > 1:

                def fail(g: Any) -> None:
                    raise ValueError("no more")

                x.register_hook(fail)
        elif op in ("partial", "backward_now"):
            if not x.requires_grad:
                return None
            total = self.number(x)
            if op == "partial":
                inputs = [p for p in self.leaves if p.requires_grad and p.is_leaf][:1]
                total.backward(inputs=inputs, retain_graph=True)
            else:
                total.backward(retain_graph=True)
            self.events.append(("now", [None if p.grad is None else values(p.grad) for p in self.leaves if p.is_leaf]))
        elif op == "post_acc":
            x.register_post_accumulate_grad_hook(
                lambda p: self.events.append(("post", k, None if p.grad is None else values(p.grad)))
            )
        elif op == "node_hook":
            if x.grad_fn is not None:
                x.grad_fn.register_hook(
                    lambda gi, go: self.events.append(("node", k, [None if g is None else values(g) for g in go]))
                )
        elif op == "node_pre":
            if x.grad_fn is not None:
                x.grad_fn.register_prehook(lambda go: tuple(None if g is None else g * 2.0 for g in go))
        elif op == "grad_set":
            x.grad = t.ones_like(x) if s.number > 1 else t.ones_like(y)
        elif op == "grad_edge":
            if x.requires_grad:
                edge = t.autograd.graph.get_gradient_edge(x)
                z = self.number(x * 2.0)
                found = t.autograd.grad(z, edge, retain_graph=True)
                self.events.append(("edge", values(found[0])))
        elif op == "hook_write":
            x.register_hook(lambda g: None if g is None else g.clone().mul_(2))
        elif op == "retain2":
            x.retain_grad()
            x.retain_grad()
        elif op == "remove_hook":
            handle = x.register_hook(lambda g: self.events.append(("removed", k)))
            handle.remove()
            handle.remove()
        return None

    def custom(self, s: Step, x: Any, y: Any) -> Any:
        made = self.functions[s.op](x, y)
        return list(made) if isinstance(made, tuple) else made

    def other(self, s: Step, x: Any, y: Any) -> Any:
        t = self.library
        if s.op == "deepcopy":
            self.events.append(("copy", values(copy.deepcopy(x))))  # PyTorch gives copies version 1
            return None
        if s.op == "parameter":
            return t.nn.Parameter(x.detach().clone(), requires_grad=x.is_floating_point())
        if s.op == "tensor_again":
            return t.as_tensor(x)
        if s.op == "clone_leaf":
            return x.detach().clone().requires_grad_()
        return t.detach(x).requires_grad_(x.is_floating_point())

    @staticmethod
    def number(p: Any) -> Any:
        """A real float64 number of p and its gradient."""
        total = (p * 1.0).sum()
        return total.real.double() + total.imag.double() * 0.5 if total.is_complex() else total.double()

    def loss(self) -> Any:
        total = None
        for p in self.pool[-4:]:
            if p.requires_grad:
                term = self.number(p)
                total = term if total is None else total + term
        return total

    def term(self, g: Any) -> Any:
        return self.number(g.sin())

    def end(self) -> None:
        ending = self.program.ending
        if ending not in WIDE_ENDINGS[5:]:
            super().end()
            return
        total = self.loss()
        if total is None:
            return
        wanted = [p for p in self.leaves if p.requires_grad and p.is_leaf]
        if ending == "grad":
            found = self.library.autograd.grad(total, wanted, allow_unused=True)
            self.events.append(("grad", [None if g is None else values(g) for g in found]))
            return
        total.backward(inputs=wanted[:2], retain_graph=True)
        self.events.append(("inputs", [None if p.grad is None else values(p.grad) for p in wanted]))
        total.backward(inputs=[p for p in self.pool if p.requires_grad][-1:] if ending == "inputs" else None)

    def finish(self) -> None:
        for h in self.handles:
            with contextlib.suppress(*REFUSALS):
                h.remove()


__all__ = ["WideRun", "kind_of", "random_wide_program"]
