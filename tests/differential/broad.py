"""Random programs over what surrounds the engine: transforms, forward mode, checkpoints, autocast, threads, indexed writes.

A broad program is a wide program with more steps, and with endings that run all of it under a transform: every
tensor a dual number (`forward`), a gradient of `torch.func` (`func_grad`), a batch of them (`vmap`).
"""

from __future__ import annotations

import copy
import pickle
import random
import threading
import warnings
from types import ModuleType
from typing import Any

import numpy as np

from . import programs
from .programs import REFUSALS, Program, Step, kind_of, values
from .wide import WIDE, WideRun, wide_leaves

VIEWS = ("offset_diagonal", "far_strided", "steps", "real_pairs", "channels_last", "view_shape", "double_t", "mid",
         "adjoint", "broadcast_to", "unfold_rows")
WRITES = ("put_mask", "put_rows", "put_column", "scatter_add_", "scatter_reduce_", "masked_part", "index_add_part",
          "put_", "diagonal_", "addmm_", "addcdiv_", "uniform_", "normal_", "clamp_tensor_", "floor_", "strided_write",
          "pairs_write", "imag_write", "copy_t", "row_minus", "index_fill_part", "resize_as_", "swap_data", "set_slice",
          "power_", "lerp_tensor_", "where_out", "ceil_part", "zero_grad", "cumsum_", "renorm_")
AROUND = ("func_grad", "func_vjp", "jvp", "vmap", "vmap_in1", "jacrev", "hessian", "dual", "checkpoint", "checkpoint_re",
          "autocast", "thread", "pickle", "deepcopied", "uint16",
          "int32", "saved_off", "anomaly", "functional", "grad_of_grad", "dropout",
          "vjp_twice", "clip", "split_sizes", "searchsorted", "bincount", "unique", "kthvalue", "median", "cdist",
          "layer_norm", "conv1d", "embedding", "interpolate", "scaled", "logcumsumexp", "householder", "block_diag",
          "allclose", "var0", "amin_dims", "max_pool")
BROAD = VIEWS + WRITES + AROUND
ENDINGS = ("backward", "second", "grad", "thread", "forward", "func_grad", "vmap")
# Steps that have a meaning under a transform of the whole program: no hooks, no other backward, no look at values
PLAIN = (programs.UNARY + programs.BINARY * 2 + programs.VIEWS * 2 + tuple(op for op in programs.COPIES if op != "masked")
         + tuple(op for op in programs.INPLACE if op != "set_mask"))


def random_broad_program(seed: int) -> Program:
    """The broad program of a seed."""
    r = random.Random(seed)
    ending = r.choice(ENDINGS)
    under = ending in ("forward", "func_grad", "vmap")

    def op() -> str:
        if under:
            return r.choice(PLAIN)
        return r.choice(BROAD if r.random() < 0.55 else WIDE if r.random() < 0.5 else programs.ALL)

    steps = tuple(Step(op(), r.randrange(50), r.randrange(50), r.choice((0.5, 2.0, -1.5)), r.random() < 0.05)
                  for _ in range(r.randint(3, 10)))
    return Program(steps, ending, seed)


class BroadRun(WideRun):
    """One run of a broad program on one library."""

    def __init__(self, library: ModuleType, program: Program) -> None:
        super().__init__(library, program)
        if program.ending in ("forward", "func_grad", "vmap"):
            self.leaves = [x.detach() for x in self.leaves]
        else:
            self.leaves = wide_leaves(library, program.seed)
            rs = np.random.RandomState(program.seed % (2**32))
            image = library.tensor(rs.uniform(-1, 1, (2, 2, 2, 3)))
            self.leaves.append(image.to(memory_format=library.channels_last).requires_grad_())
        self.pool = list(self.leaves)
        self.births: dict[int, int] = {}

    def apply(self, s: Step, x: Any, y: Any) -> Any:
        for group, act in ((VIEWS, self.broad_view), (WRITES, self.broad_write), (AROUND, self.around)):
            if s.op in group:
                return act(s, x, y)
        return super().apply(s, x, y)

    def broad_view(self, s: Step, x: Any, y: Any) -> Any:
        t = self.library
        table: dict[str, Any] = {
            "offset_diagonal": lambda: x.diagonal(1 if s.number > 1 else -1, 0, -1),
            "far_strided": lambda: x.as_strided((2,), (2,), x.storage_offset() + 1),
            "steps": lambda: x[::2, 1:],
            "real_pairs": lambda: t.view_as_real(x)[..., 1],
            "channels_last": lambda: x.contiguous(memory_format=t.channels_last),
            "view_shape": lambda: x.view(*x.shape[1:], x.shape[0]),
            "double_t": lambda: x.mT.mT,
            "mid": lambda: x[..., 1:2, :],
            "adjoint": lambda: x.transpose(-1, -2),
            "broadcast_to": lambda: x.broadcast_to((2, 2, 3)),
            "unfold_rows": lambda: x.unfold(0, 1, 1),
        }
        return table[s.op]()

    def broad_write(self, s: Step, x: Any, y: Any) -> Any:
        t = self.library
        zeros = t.zeros
        part = x[1:]

        def assign(key: Any, value: Any) -> Any:
            x[key] = value
            return x

        table: dict[str, Any] = {
            "put_mask": lambda: assign(x.detach() > 0.1, y.detach().flatten()[0].abs()),
            "put_rows": lambda: assign(t.tensor([0, -1]), y[0]),
            "put_column": lambda: assign((slice(None), t.tensor([1])), y[..., :1]),
            "scatter_add_": lambda: x.scatter_add_(0, zeros(tuple(x.shape), dtype=t.long), (y * 1.0).expand_as(x)),
            "scatter_reduce_": lambda: x.scatter_reduce_(0, zeros(tuple(x.shape), dtype=t.long), (y * 1.0).expand_as(x),
                                                         "amax" if s.number > 1 else "sum"),
            "masked_part": lambda: part.masked_fill_(part.detach() < 0, s.number),
            "index_add_part": lambda: part.index_add_(0, t.tensor([0]), (y * 1.0)[:1], alpha=2),
            "put_": lambda: x.put_(t.tensor([0, 1]), (y * 1.0).flatten()[:2], accumulate=s.number > 1),
            "diagonal_": lambda: x.fill_diagonal_(s.number),
            "addmm_": lambda: x.addmm_(y * 1.0, (x.detach() * 1.0)),
            "addcdiv_": lambda: x.addcdiv_(y * 1.0, y * y + 1.0, value=s.number),
            "uniform_": lambda: self.drawn(x.uniform_),
            "normal_": lambda: self.drawn(x.normal_),
            "clamp_tensor_": lambda: x.clamp_(min=y.detach() * 1.0),
            "floor_": lambda: x.floor_(),
            "strided_write": lambda: x.as_strided((2,), (1,)).mul_(s.number),
            "pairs_write": lambda: t.view_as_real(x)[..., 0].mul_(s.number),
            "imag_write": lambda: x.imag.add_(1.0),
            "copy_t": lambda: x.t().copy_((y * 1.0)[..., :1]),
            "row_minus": lambda: x[0].sub_(y.detach()[0] * 1.0),
            "index_fill_part": lambda: part.index_fill_(-1, t.tensor([0]), s.number),
            "resize_as_": lambda: (x.detach() * 1).resize_as_(y).fill_(2),
            "swap_data": lambda: x.copy_(x.detach().flip(0)),
            "set_slice": lambda: assign((slice(None), slice(0, 1)), y.sum()),
            "power_": lambda: x.pow_(y.detach().abs() * 0.0 + 2.0),
            "lerp_tensor_": lambda: x.lerp_(y * 1.0, y.detach() * 0.25),
            "where_out": lambda: t.where(x.detach() > 0, x.detach(), y.detach(),
                                         out=t.empty(0, dtype=t.result_type(x, y))),
            "ceil_part": lambda: part.ceil_(),
            "zero_grad": lambda: x.grad.zero_() if x.grad is not None else None,
            "cumsum_": lambda: x.cumsum_(0),
            "renorm_": lambda: x.renorm_(2, 0, 0.5),
        }
        return table[s.op]()

    def drawn(self, fill: Any) -> Any:
        self.library.manual_seed(self.program.seed)
        return fill()

    def around(self, s: Step, x: Any, y: Any) -> Any:
        t, f = self.library, self.library.nn.functional
        number = self.number

        def of(a: Any) -> Any:
            return number((a * y.detach()).sin()) if s.number > 1 else number((a * a).tanh())

        def each(a: Any) -> Any:
            return a.sin() * a.sum() if s.number > 1 else a * y.detach()[0]

        def dual() -> Any:
            fa = t.autograd.forward_ad
            with fa.dual_level():
                made = fa.make_dual(x.detach() * 1.0, t.ones_like(x))
                out = of(made) + (made * y.detach()).exp().sum()
                found = fa.unpack_dual(out)
                return [found.primal, found.tangent]

        def block(a: Any, b: Any) -> Any:
            return (a * b).tanh() + a.exp() if s.number > 1 else (a @ b.t()).sum() * a

        def amp() -> Any:
            with t.autocast("cpu", dtype=t.bfloat16):
                return (x @ y.t()).exp() if s.number > 1 else f.linear(x, y) + x.sum()

        def thread() -> None:
            total = number(x * 2.0)
            if not total.requires_grad:
                return
            errors: list[str] = []

            def work() -> None:
                try:
                    total.backward(retain_graph=True)
                except REFUSALS as error:
                    errors.append(kind_of(error))

            worker = threading.Thread(target=work)
            worker.start()
            worker.join()
            found = [None if p.grad is None else values(p.grad) for p in self.leaves if p.is_leaf]
            self.events.append(("thread", errors, found))

        def anomaly() -> Any:
            with t.autograd.detect_anomaly(check_nan=False):
                return x.sin() * y

        def clip() -> None:
            kept = [p for p in self.leaves if p.is_leaf and p.grad is not None]
            self.events.append(("norm", values(t.nn.utils.clip_grad_norm_(kept, 0.5))))

        def grad_of_grad() -> Any:
            (g,) = t.autograd.grad(number((x * 1.0).sin() * (x * 1.0)), x, create_graph=True)
            return g

        table: dict[str, Any] = {
            "func_grad": lambda: t.func.grad(of)(x),
            "func_vjp": lambda: list(t.func.vjp(lambda a: a.sin() * 2, x)[1](t.ones_like(x))),
            "vjp_twice": lambda: t.func.grad(lambda a: number(t.func.grad(of)(a).sin()))(x),
            "jvp": lambda: [r * 1.0 for r in t.func.jvp(of, (x.detach(),), (t.ones_like(x),))],
            "vmap": lambda: t.func.vmap(each)(x),
            "vmap_in1": lambda: t.func.vmap(lambda a: a.exp() + a.mean(), in_dims=-1, out_dims=-1)(x),
            "jacrev": lambda: t.func.jacrev(lambda a: (a * a).sum(0))(x) * 1.0,
            "hessian": lambda: t.func.hessian(lambda a: (a * a * a).sum())(x.detach() * 1.0).contiguous(),
            "dual": dual,
            "checkpoint": lambda: t.utils.checkpoint.checkpoint(block, x, y, use_reentrant=False),
            "checkpoint_re": lambda: t.utils.checkpoint.checkpoint(block, x, y, use_reentrant=True),
            "autocast": amp,
            "thread": thread,
            "pickle": lambda: pickle.loads(pickle.dumps(x.detach().clone())),
            "deepcopied": lambda: copy.deepcopy(x.detach()),
            "uint16": lambda: (x * 3).abs().to(t.uint16).to(t.int64),
            "int32": lambda: (x * 3).to(t.int32),
            "saved_off": lambda: self.disabled_saving(x, y),
            "anomaly": anomaly,
            "functional": lambda: list(t.autograd.functional.vjp(lambda a: (a * a).sum(), x.detach())),
            "grad_of_grad": grad_of_grad,
            "dropout": lambda: self.drawn(lambda: f.dropout(x, 0.5)),
            "clip": clip,
            "split_sizes": lambda: list(x.split([1, x.shape[0] - 1])),
            "searchsorted": lambda: t.searchsorted(t.tensor([-0.5, 0.0, 0.5]).double(), x.detach().double().contiguous()),
            "bincount": lambda: t.bincount(x.detach().flatten().abs().long(), minlength=3),
            "unique": lambda: x.detach().unique(),
            "kthvalue": lambda: x.kthvalue(1, -1)[0],
            "median": lambda: x.median(-1)[0],
            "cdist": lambda: t.cdist(x.double(), y.double() + 3.0),
            "layer_norm": lambda: f.layer_norm(x, x.shape[-1:]) * 1.0,
            "conv1d": lambda: f.conv1d(x[None] * 1.0, t.ones(2, max(1, x.shape[0]), 2, dtype=x.dtype)),
            "embedding": lambda: f.embedding(t.tensor([0, 1, 0]), x) if x.dim() == 2 and x.shape[0] > 1 else None,
            "interpolate": lambda: f.interpolate(x[None] if x.numel() else x[0], scale_factor=2.0),
            "scaled": lambda: f.scaled_dot_product_attention(x + 1.0, x * 1.0, x * y),
            "logcumsumexp": lambda: (x * 1.0).logcumsumexp(0),
            "householder": lambda: x.prod(-1, keepdim=True) * x.detach(),
            "block_diag": lambda: t.block_diag(x.double(), y.double()),
            "allclose": lambda: t.isclose(x, y).contiguous(),
            "var0": lambda: x.var(0, correction=0),
            "amin_dims": lambda: x.amin((0, -1)),
            "max_pool": lambda: f.max_pool1d(x * 1.0, 2) * 1.0,
        }
        return table[s.op]()

    def disabled_saving(self, x: Any, y: Any) -> Any:
        with self.library.autograd.graph.disable_saved_tensors_hooks("none here"):
            return x.cos() * y

    def end(self) -> None:
        total = self.loss() if self.program.ending == "thread" else None
        if total is None:
            super().end()
            return
        failed: list[BaseException] = []

        def work() -> None:
            try:
                total.backward(retain_graph=True)
            except REFUSALS as error:
                failed.append(error)

        workers = [threading.Thread(target=work) for _ in range(2)]
        for w in workers:
            w.start()
            w.join()
        if failed:
            raise failed[0]

    def run(self) -> None:
        ending = self.program.ending
        if ending not in ("forward", "func_grad", "vmap"):
            super().run()
            return
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            try:
                {"forward": self.forward, "func_grad": self.func_grad, "vmap": self.vmap}[ending]()
            except REFUSALS as error:
                self.refusals[len(self.events)] = (str(error), False)
                self.events.append(("refused", kind_of(error)))

    def apart(self, x: Any, y: Any) -> Any:
        """See `Run.apart`; PyTorch's forward mode reads the tangent that it is writing, and wrappers have no storage."""
        return y * 1.0 if self.program.ending in ("forward", "func_grad", "vmap") else super().apart(x, y)

    def describe(self, p: Any) -> tuple:
        if self.program.ending in ("func_grad", "vmap"):        # a wrapper has strides and counts of its own
            return tuple(p.shape), str(p.dtype)
        version, *rest = super().describe(p)
        return version - self.births.setdefault(id(p), version), *rest      # composite operators have written their results

    def forward(self) -> None:
        fa = self.library.autograd.forward_ad
        with fa.dual_level():
            for k in (0, 1):
                self.pool[k] = fa.make_dual(self.leaves[k], self.library.ones_like(self.leaves[k]) * (k + 0.5))
            for s in self.program.steps:
                self.step(s)
            for p in self.pool:
                primal, tangent = fa.unpack_dual(p)
                self.events.append(("dual", values(primal), None if tangent is None else values(tangent)))

    def wide_copy(self, s: Step, x: Any, y: Any) -> Any:
        found = super().wide_copy(s, x, y)      # few operators but the elementwise ones keep channels_last here
        return found.contiguous() if s.op in ("roll", "pad", "index", "where_number", "flip") else found

    def whole(self, a: Any) -> Any:
        self.pool = [a * 1.0, *[x.clone() for x in self.leaves[1:]]]
        for s in self.program.steps:
            self.step(s)
        total = self.number(self.pool[0])
        for p in self.pool[-4:]:
            if p.is_floating_point() or p.is_complex():
                total = total + self.number(p)
        return total

    def func_grad(self) -> None:
        grad, value = self.library.func.grad_and_value(self.whole)(self.leaves[0].clone())
        self.events.append(("grad", values(grad), values(value)))
        inner = lambda a: self.number(self.library.func.grad(self.whole)(a).sin())  # noqa: E731
        self.events.append(("second", values(self.library.func.grad(inner)(self.leaves[0].clone()))))

    def vmap(self) -> None:
        batch = self.library.stack([self.leaves[0], self.leaves[0] * 0.5, self.leaves[0] - 1.0])
        self.events.append(("batch", values(self.library.func.vmap(self.whole)(batch))))


__all__ = ["BROAD", "BroadRun", "random_broad_program"]
