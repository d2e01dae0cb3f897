"""autograd.functional against torch."""

from __future__ import annotations

import pytest


def _two(x, y):
    return (x * x * y).sum(), y * 3


@pytest.mark.parametrize("strategy", ["reverse-mode", "forward-mode"])
def test_jacobian(agree, strategy):
    kw = {"vectorize": True, "strategy": strategy}

    def fn(T):
        x = T.tensor([[1.0, 2.0], [3.0, 4.0]])
        y = T.tensor([2.0, -1.0])
        jac = T.autograd.functional.jacobian
        return (jac(lambda x: x * x, x, **kw), jac(_two, (x, y), **kw), jac(lambda x: (x.sum(), x * 2), x, **kw),
                jac(lambda x, y: (x * y).sum(0), (x, y), **kw))

    agree(fn)


def test_jacobian_create_graph(agree):
    def fn(T):
        x = T.tensor([1.0, 2.0], requires_grad=True)
        j = T.autograd.functional.jacobian(lambda x: x * x * x, x, create_graph=True)
        j.sum().backward()
        plain = T.autograd.functional.jacobian(lambda x: x * x, x)
        return j, x.grad, plain.requires_grad

    agree(fn)


def test_jacobian_of_what_does_not_depend(agree):
    def fn(T):
        x, y = T.tensor([1.0]), T.tensor([2.0, 3.0])
        return T.autograd.functional.jacobian(lambda x, y: (x * 2, T.tensor([5.0])), (x, y))

    agree(fn)
    agree(lambda T: T.autograd.functional.jacobian(lambda x, y: x * 2, (T.tensor([1.0]), T.tensor([1.0])), strict=True),
          "independent of input 1")
    agree(lambda T: T.autograd.functional.jacobian(lambda x: T.tensor([1.0]), T.tensor([1.0]), strict=True),
          "does not require gradients")


@pytest.mark.parametrize("strategy", ["reverse-mode", "forward-mode"])
def test_hessian(agree, strategy):
    def fn(T):
        x, y = T.tensor([1.0, 2.0]), T.tensor([3.0])
        h = T.autograd.functional.hessian
        kw = {"outer_jacobian_strategy": strategy, "vectorize": True}
        return h(lambda x: (x * x * x).sum(), x, **kw), h(lambda x, y: (x * x * y).sum(), (x, y), **kw)

    agree(fn)


def test_products(agree):
    def fn(T):
        F = T.autograd.functional
        x, y = T.tensor([1.0, 2.0]), T.tensor([3.0])
        f = lambda x, y: x * x * y  # noqa: E731
        s = lambda x, y: (x * x * x * y).sum()  # noqa: E731
        vx, vy = T.tensor([1.0, -1.0]), T.tensor([2.0])
        return (F.vjp(f, (x, y), vx), F.jvp(f, (x, y), (vx, vy)), F.vhp(s, (x, y), (vx, vy)), F.hvp(s, (x, y), (vx, vy)),
                F.hvp(lambda x: x * x + x * x * x, T.tensor(2.0), T.tensor(1.0)), F.vjp(lambda x: x.sum(), x))

    agree(fn)


def test_products_create_graph(agree):
    def fn(T):
        F = T.autograd.functional
        x = T.tensor([1.0, 2.0], requires_grad=True)
        v = T.tensor([1.0, -1.0])
        out = []
        for name, f in (("vjp", lambda x: x * x * x), ("jvp", lambda x: x * x * x),
                        ("vhp", lambda x: (x * x * x).sum()), ("hvp", lambda x: (x * x * x).sum())):
            _, r = getattr(F, name)(f, x, v, create_graph=True)
            out += [r, T.autograd.grad(r.sum(), x)[0]]
        return out

    agree(fn)


def test_without_grad_mode(agree):
    def fn(T):
        F = T.autograd.functional
        with T.no_grad():
            x = T.tensor([1.0])
            return (F.vjp(lambda x: x * x, x, x), F.jacobian(lambda x: x * x, x), F.hvp(lambda x: (x * x * x).sum(), x, x),
                    T.is_grad_enabled())

    agree(fn)


def test_strict_second_derivatives(agree):
    def each(name):
        agree(lambda T: getattr(T.autograd.functional, name)(
            lambda x: x.sum(), T.tensor([1.0, 2.0]), *([] if name == "hessian" else [T.tensor([1.0, 1.0])]), strict=True),
            "strict mode")
        agree(lambda T: getattr(T.autograd.functional, name)(
            lambda x: x.sum(), T.tensor([1.0, 2.0]), *([] if name == "hessian" else [T.tensor([1.0, 1.0])])))

    for name in ("hessian", "hvp", "vhp"):
        each(name)


def test_errors(agree):
    agree(lambda T: T.autograd.functional.jacobian(lambda x: x, [T.tensor([1.0])]), "a Tensor or a tuple of Tensors")
    agree(lambda T: T.autograd.functional.vjp(lambda x: x * 2, T.tensor([1.0, 2.0])), "v")
    agree(lambda T: T.autograd.functional.vjp(lambda x: x * 2, T.tensor([1.0, 2.0]), T.tensor([1.0])), "size")
    agree(lambda T: T.autograd.functional.hessian(lambda x: x * 2, T.tensor([1.0, 2.0])), "single element")
    agree(lambda T: T.autograd.functional.hessian(lambda x: (x.sum(), x.sum()), T.tensor([1.0, 2.0])), "single Tensor")
    agree(lambda T: T.autograd.functional.jacobian(lambda x: x, 3), "a Tensor or a tuple of Tensors")
    agree(lambda T: T.autograd.functional.jacobian(lambda x: 3, T.tensor([1.0])), "outputs of the user-provided function")
