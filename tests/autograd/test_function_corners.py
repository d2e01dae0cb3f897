"""Corner cases of autograd.Function, each the same lines on torch and on flambeau."""

from __future__ import annotations

import pytest


def mk(T, fwd, bwd, **kw):
    d = {"forward": staticmethod(fwd), "backward": staticmethod(bwd)}
    d.update({k: staticmethod(v) for k, v in kw.items()})
    return type("Fn", (T.autograd.Function,), d)


CASES = {}


def case(f):
    CASES[f.__name__] = f
    return f


@case
def view_out(T):
    F = mk(T, lambda ctx, x: x.view(2, 1), lambda ctx, g: g.view(2) * 3)
    x = T.tensor([1.0, 2.0], requires_grad=True)
    y = F.apply(x)
    r = [y._is_view(), y.grad_fn.name()]
    (y * y).sum().backward()
    return r, x.grad


@case
def twice_same(T):
    def f(ctx, x):
        y = x * 2
        return y, y

    F = mk(T, f, lambda ctx, a, b: a * 2 + b * 20)
    x = T.tensor([1.0], requires_grad=True)
    a, b = F.apply(x)
    (a + b).sum().backward()
    return a is b, x.grad, a.output_nr, b.output_nr


@case
def list_out(T):
    F = mk(T, lambda ctx, x: [x * 2, x * 3], lambda ctx, a, b: a)
    x = T.tensor([1.0], requires_grad=True)
    return str(type(F.apply(x)))


@case
def tuple_one(T):
    F = mk(T, lambda ctx, x: (x * 2,), lambda ctx, a: a * 2)
    x = T.tensor([1.0], requires_grad=True)
    y = F.apply(x)
    y[0].sum().backward()
    return len(y), x.grad


@case
def wrong_dtype(T):
    F = mk(T, lambda ctx, x: x * 2, lambda ctx, a: a.double() * 2)
    x = T.tensor([1.0], requires_grad=True)
    F.apply(x).sum().backward()
    return x.grad


@case
def broadcast_grad(T):
    F = mk(T, lambda ctx, x: x.sum(), lambda ctx, a: T.ones(3, 2) * a)
    x = T.tensor([1.0, 2.0], requires_grad=True)
    F.apply(x).backward()
    return x.grad


@case
def scalar_for_vector(T):
    F = mk(T, lambda ctx, x: x.sum(), lambda ctx, a: a)
    x = T.tensor([1.0, 2.0], requires_grad=True)
    F.apply(x).backward()
    return x.grad


@case
def saved_in_forward(T):
    r = []

    def f(ctx, x):
        ctx.save_for_backward(x)
        r.append(len(ctx.saved_tensors))
        r.append(ctx.to_save[0] is x)
        return x * 2

    F = mk(T, f, lambda ctx, a: a * 2)
    x = T.tensor([1.0], requires_grad=True)
    F.apply(x).sum().backward()
    return r, x.grad


@case
def no_tensor(T):
    F = mk(T, lambda ctx, k: T.tensor([k]), lambda ctx, a: None)
    y = F.apply(3.0)
    return y, y.requires_grad


@case
def none_out(T):
    F = mk(T, lambda ctx, x: None, lambda ctx, a: None)
    return F.apply(T.tensor([1.0], requires_grad=True))


@case
def none_grads(T):
    F = mk(T, lambda ctx, x: x * 2, lambda ctx, a: None)
    x = T.tensor([1.0], requires_grad=True)
    F.apply(x).sum().backward()
    return x.grad


@case
def none_grads_deep(T):
    F = mk(T, lambda ctx, x: x * 2, lambda ctx, a: None)
    x = T.tensor([1.0], requires_grad=True)
    log = []
    z = x * 3
    z.register_hook(lambda g: log.append(g is None))
    (F.apply(z).sum() + x).backward()
    return x.grad, log


@case
def dirty_many(T):
    def f(ctx, x):
        x.mul_(2)
        ctx.mark_dirty(x)
        return x, x * 1

    F = mk(T, f, lambda ctx, a, b: a * 2 + b * 2)
    leaf = T.tensor([1.0, 2.0], requires_grad=True)
    b = leaf * 1
    r = F.apply(b[0])
    return r


@case
def dirty_two_out(T):
    def f(ctx, x):
        x.mul_(2)
        ctx.mark_dirty(x)
        return x, x * 1

    F = mk(T, f, lambda ctx, a, b: a * 2 + b * 2)
    leaf = T.tensor([1.0, 2.0], requires_grad=True)
    b = leaf * 1
    r = F.apply(b)
    (r[0] + r[1]).sum().backward()
    return leaf.grad, r[0] is b


@case
def dirty_not_input(T):
    def f(ctx, x):
        y = x * 2
        ctx.mark_dirty(y)
        return y

    F = mk(T, f, lambda ctx, a: a * 2)
    x = T.tensor([1.0], requires_grad=True)
    F.apply(x).sum().backward()
    return x.grad


@case
def dirty_retain(T):
    def f(ctx, x):
        x.mul_(2)
        ctx.mark_dirty(x)
        return x

    F = mk(T, f, lambda ctx, a: a * 2)
    x = T.tensor([1.0], requires_grad=True)
    y = x * 1
    y.retain_grad()
    F.apply(y)
    (y * 5).sum().backward()
    return x.grad, y.grad


@case
def bwd_error(T):
    def b(ctx, a):
        raise ValueError("mine")

    F = mk(T, lambda ctx, x: x * 2, b)
    F.apply(T.tensor([1.0], requires_grad=True)).sum().backward()


@case
def nondiff_input_returned(T):
    def f(ctx, x, i):
        ctx.mark_non_differentiable(i)
        return x * 2, i

    F = mk(T, f, lambda ctx, a, b: (a * 2, None))
    x = T.tensor([1.0], requires_grad=True)
    i = T.tensor([5.0])
    a, j = F.apply(x, i)
    return j is i, j.requires_grad, a


@case
def vjp_name(T):
    F = type(
        "Fn",
        (T.autograd.Function,),
        {"forward": staticmethod(lambda ctx, x: x * 2), "vjp": staticmethod(lambda ctx, g: g * 2)},
    )
    x = T.tensor([1.0], requires_grad=True)
    F.apply(x).sum().backward()
    return x.grad


@case
def dup_inputs(T):
    F = mk(T, lambda ctx, x, y: x * y, lambda ctx, g: (g, g * 10))
    x = T.tensor([1.0], requires_grad=True)
    F.apply(x, x).sum().backward()
    return x.grad


@case
def grad_dups(T):
    x = T.tensor([1.0, 2.0], requires_grad=True)
    return T.autograd.grad((x * x).sum(), [x, x])


@case
def needs_pruned(T):
    log = []

    def b(ctx, g):
        log.append(ctx.needs_input_grad)
        return g, g

    F = mk(T, lambda ctx, x, y: x * y, b)
    x = T.tensor([1.0], requires_grad=True)
    y = T.tensor([1.0], requires_grad=True)
    return T.autograd.grad(F.apply(x, y).sum(), x), log


@case
def setup_returns(T):
    class F(T.autograd.Function):
        @staticmethod
        def forward(x, y):
            return x * y, x + y

        @staticmethod
        def setup_context(ctx, inputs, output):
            ctx.save_for_backward(*inputs, output[0])
            ctx.set_materialize_grads(False)

        @staticmethod
        def backward(ctx, a, b):
            x, y, o = ctx.saved_tensors
            return (0 if b is None else b) + a * y, a * x

    x = T.tensor([2.0], requires_grad=True)
    y = T.tensor([3.0], requires_grad=True)
    F.apply(x, y)[0].sum().backward()
    return x.grad, y.grad


@case
def mock_ctx(T):
    ctx = T.autograd.function.FunctionCtx()
    ctx.save_for_backward(T.tensor([1.0]))
    ctx.mark_dirty(1)
    return len(ctx.to_save), ctx.dirty_tensors


@case
def instance_call(T):
    F = mk(T, lambda ctx, x: x, lambda ctx, a: a)
    F()(T.tensor([1.0]))


@case
def int_input_saved(T):
    def f(ctx, x, i):
        ctx.save_for_backward(x, i, None)
        return x[i]

    def b(ctx, g):
        x, i, n = ctx.saved_tensors
        r = T.zeros(3)
        r[i] = g
        return r, None

    F = mk(T, f, b)
    x = T.tensor([1.0, 2.0, 3.0], requires_grad=True)
    F.apply(x, T.tensor([0, 2])).sum().backward()
    return x.grad


@case
def hook_on_fn(T):
    log = []
    F = mk(T, lambda ctx, x: x * 2, lambda ctx, a: a * 2)
    x = T.tensor([1.0], requires_grad=True)
    y = F.apply(x)
    y.grad_fn.register_hook(lambda gi, go: log.append((gi[0].tolist(), go[0].tolist())))
    y.grad_fn.register_prehook(lambda g: (g[0] * 10,))
    y.sum().backward()
    return x.grad, log


@case
def meta_attrs(T):
    def f(ctx, x):
        ctx.a = 5
        return x * 2

    F = mk(T, f, lambda ctx, a: a * 2)
    x = T.tensor([1.0], requires_grad=True)
    y = F.apply(x)
    y.grad_fn.b = 7
    return y.grad_fn.a, y.grad_fn.b, y.grad_fn.metadata, hasattr(y.grad_fn, "zz")


@pytest.mark.filterwarnings("ignore:Fn. ctx.mark_dirty", "ignore:.*should not be instantiated")
@pytest.mark.parametrize("name", CASES)
def test_corner(agree, name):
    agree(CASES[name])
