"""Custom autograd Functions for random programs, made for a library."""

from __future__ import annotations

import functools
from collections.abc import Callable
from types import ModuleType
from typing import Any


@functools.cache
def functions(library: ModuleType) -> dict[str, Callable]:
    """Functions of two tensors by the name of their step."""
    base = library.autograd.Function

    def fit(g: Any, x: Any) -> Any:
        while g.dim() > x.dim():
            g = g.sum(0)
        for d, n in enumerate(x.shape):
            g = g.sum(d, keepdim=True) if n == 1 else g
        return g if x.is_complex() or not g.is_complex() else g.real

    class Square(base):  # type: ignore[misc, valid-type]
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            ctx.save_for_backward(x)
            return x * x

        @staticmethod
        def backward(ctx: Any, g: Any) -> Any:
            (x,) = ctx.saved_tensors
            return g * x * 2

    class Dirty(base):  # type: ignore[misc, valid-type]
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            x.mul_(2)
            ctx.mark_dirty(x)
            return x

        @staticmethod
        def backward(ctx: Any, g: Any) -> Any:
            return g * 2

    class Flat(base):  # type: ignore[misc, valid-type]
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            ctx.shape = x.shape
            return x.view(-1)

        @staticmethod
        def backward(ctx: Any, g: Any) -> Any:
            return g.reshape(ctx.shape)

    class Two(base):  # type: ignore[misc, valid-type]
        @staticmethod
        def forward(ctx: Any, x: Any, y: Any) -> Any:
            ctx.save_for_backward(x, y)
            return x * 3, x * y

        @staticmethod
        def backward(ctx: Any, a: Any, b: Any) -> Any:
            x, y = ctx.saved_tensors
            return fit(a * 3 + b * y.conj(), x), fit(b * x.conj(), y)

    class Same(base):  # type: ignore[misc, valid-type]
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            return x

        @staticmethod
        def backward(ctx: Any, g: Any) -> Any:
            return g * 5

    class Nondiff(base):  # type: ignore[misc, valid-type]
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            out, mask = x * 2, (x * 1.0).abs() > 0.3
            ctx.mark_non_differentiable(mask)
            ctx.set_materialize_grads(False)
            ctx.save_for_backward(mask)
            return out, mask

        @staticmethod
        def backward(ctx: Any, g: Any, _: Any) -> Any:
            (mask,) = ctx.saved_tensors
            return None if g is None else g * mask

    class Inner(base):  # type: ignore[misc, valid-type]
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            ctx.save_for_backward(x)
            return x.detach().sin()

        @staticmethod
        def backward(ctx: Any, g: Any) -> Any:
            (x,) = ctx.saved_tensors
            with library.enable_grad():         # as checkpointing does
                z = x.detach().requires_grad_()
                out = z.sin()
            (found,) = library.autograd.grad(out, z, g.detach())
            return found

    class Nothing(base):  # type: ignore[misc, valid-type]
        @staticmethod
        def forward(ctx: Any, x: Any, y: Any) -> Any:
            return x + y

        @staticmethod
        def backward(ctx: Any, g: Any) -> Any:
            return None, None

    return {"f_square": lambda x, y: Square.apply(x), "f_dirty": lambda x, y: Dirty.apply(x),
            "f_view": lambda x, y: Flat.apply(x), "f_two": Two.apply, "f_same": lambda x, y: Same.apply(x),
            "f_nondiff": lambda x, y: Nondiff.apply(x), "f_inner": lambda x, y: Inner.apply(x), "f_none": Nothing.apply}
