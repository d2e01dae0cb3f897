"""Forward mode against torch: operators, views, in-place, custom functions, forward over reverse."""

from __future__ import annotations

import importlib

import pytest

import flambeau


def fw(T):
    return importlib.import_module(f"{T.__name__}.autograd.forward_ad")


def derivative(T, f, value, direction):
    ad = fw(T)
    with ad.dual_level():
        x = ad.make_dual(T.tensor(value, dtype=T.float64), T.tensor(direction, dtype=T.float64))
        y = ad.unpack_dual(f(x))
        return y.primal, y.tangent


FUNCTIONS = {
    "mul and add": lambda T, x: x * x + x * 3,
    "number first": lambda T, x: 2 / x - 1,
    "exp of a product": lambda T, x: (x * 2).exp(),
    "sum": lambda T, x: (x * x).sum(),
    "sum of a dimension": lambda T, x: (x * x).sum(0, keepdim=True),
    "broadcast": lambda T, x: x.reshape(2, 1) * x,
    "views": lambda T, x: x.reshape(1, 2).transpose(0, 1)[1] * x,
    "constant": lambda T, x: T.tensor([1.0, 2.0], dtype=T.float64) + x * 0,
    "unbind": lambda T, x: x.unbind()[0] * x.unbind()[1],
    "detach": lambda T, x: x.detach() * x,
    "cat": lambda T, x: T.cat([x, x * x, T.tensor([1.0], dtype=T.float64)]),
    "negative": lambda T, x: -x / x.sum(),
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_operators(agree, name):
    agree(lambda T: derivative(T, lambda x: FUNCTIONS[name](T, x), [0.5, -1.5], [1.0, 2.0]))


def test_in_place(agree):
    def f(x):
        y = x * 1
        y.mul_(x)
        y.add_(x)
        y[0] = x[1] * 5
        y[1:].mul_(3)
        return y

    agree(lambda T: derivative(T, f, [0.5, -1.5], [1.0, 2.0]))


def test_in_place_with_itself():
    """PyTorch 2.13 is wrong here: it reads the tangent that it is writing."""
    value, tangent = derivative(flambeau, lambda x: (x * 1).mul_(x).mul_(2), [3.0], [1.0])
    assert (value.tolist(), tangent.tolist()) == ([18.0], [12.0])

    def squared(x):
        y = x * 1
        return y.mul_(y)

    value, tangent = derivative(flambeau, squared, [3.0], [1.0])
    assert (value.tolist(), tangent.tolist()) == ([9.0], [6.0])


def test_writing_a_dual_into_a_constant(agree):
    def fn(T):
        ad = fw(T)
        base = T.tensor([1.0, 2.0, 3.0])
        with ad.dual_level():
            x = ad.make_dual(T.tensor([5.0]), T.tensor([7.0]))
            base[1:2].copy_(x)
            view = base[1:]
            return ad.unpack_dual(base * 2), ad.unpack_dual(view)

    agree(fn)


def test_views_share_tangents(agree):
    def fn(T):
        ad = fw(T)
        with ad.dual_level():
            x = ad.make_dual(T.tensor([1.0, 2.0]), T.tensor([3.0, 4.0]))
            v = x[0]
            v.mul_(10)
            return ad.unpack_dual(x), ad.unpack_dual(v)

    agree(fn)


def test_levels_and_errors(agree):
    def fn(T):
        ad = fw(T)
        with ad.dual_level():
            x = ad.make_dual(T.tensor(1.0), T.tensor(2.0))
            y = x * x
        after = ad.unpack_dual(y)
        return after.tangent is None

    agree(fn)

    def nested(T):
        ad = fw(T)
        with ad.dual_level():
            with ad.dual_level():
                pass

    agree(nested, "Nested forward mode AD is not supported at the moment")
    agree(lambda T: fw(T).make_dual(T.tensor(1.0), T.tensor(1.0)), "Trying to create a dual Tensor")

    def inside(T, a, b):
        ad = fw(T)
        with ad.dual_level():
            ad.make_dual(a, b)

    agree(lambda T: inside(T, T.tensor([1.0]), T.tensor([1.0, 2.0])), "different size")
    agree(lambda T: inside(T, T.tensor([1]), T.tensor([1])), "Expected primal to be floating point or complex")
    agree(lambda T: inside(T, T.tensor([1.0]), T.tensor([1])), "Expected tangent to be floating point or complex")


def test_primal_of_unpacked_has_no_tangent(agree):
    def fn(T):
        ad = fw(T)
        with ad.dual_level():
            x = ad.make_dual(T.tensor(3.0), T.tensor(1.0))
            p = ad.unpack_dual(x).primal
            return ad.unpack_dual(p * p).tangent is None, ad.unpack_dual(T.tensor(1.0)).tangent is None

    agree(fn)


def test_custom_function_jvp(agree):
    def fn(T):
        ad = fw(T)

        class Power(T.autograd.Function):
            @staticmethod
            def forward(ctx, x, n):
                ctx.save_for_forward(x)
                ctx.n = n
                return x ** n, x * 2

            @staticmethod
            def jvp(ctx, t, _):
                (x,) = ctx.saved_tensors
                return t * ctx.n * x ** (ctx.n - 1), t * 2

        with ad.dual_level():
            x = ad.make_dual(T.tensor([2.0]), T.tensor([1.0]))
            a, b = Power.apply(x, 3)
            return ad.unpack_dual(a), ad.unpack_dual(b * 1)

    agree(fn)


def test_function_without_jvp(agree):
    def fn(T):
        ad = fw(T)

        class Plain(T.autograd.Function):
            @staticmethod
            def forward(ctx, x):
                return x * 2

        with ad.dual_level():
            Plain.apply(ad.make_dual(T.tensor(1.0), T.tensor(1.0)))

    agree(fn, "has no jvp")


def test_forward_over_reverse(agree):
    def fn(T):
        ad = fw(T)
        x = T.tensor([1.0, 2.0], dtype=T.float64, requires_grad=True)
        v = T.tensor([1.0, 3.0], dtype=T.float64)
        with ad.dual_level():
            d = ad.make_dual(x, v)
            y = (d * d * d).sum()
            (g,) = T.autograd.grad(y, d, create_graph=True)
            return ad.unpack_dual(g)

    agree(fn)


def test_reverse_over_forward(agree):
    def fn(T):
        ad = fw(T)
        x = T.tensor([1.0, 2.0], dtype=T.float64, requires_grad=True)
        v = T.tensor([1.0, 3.0], dtype=T.float64, requires_grad=True)
        with ad.dual_level():
            y = ad.unpack_dual((ad.make_dual(x, v) ** 3).sum())
            return T.autograd.grad(y.tangent, (x, v))

    agree(fn)


def test_tangents_do_not_require_grad_by_themselves(agree):
    def fn(T):
        ad = fw(T)
        with ad.dual_level():
            d = ad.make_dual(T.tensor([1.0]), T.tensor([2.0]))
            y = ad.unpack_dual(d * d + d)
            return y.primal.requires_grad, y.tangent.requires_grad

    agree(fn)


def test_several_outputs_with_a_joint_formula(agree):
    agree(lambda T: derivative(T, lambda x: T.max(x * T.tensor([[1.0, 2.0], [3.0, -1.0]], dtype=T.float64), 1)[0],
                               [0.5, -1.5], [1.0, 2.0]))


def test_complex(agree):
    def fn(T):
        ad = fw(T)
        with ad.dual_level():
            z = ad.make_dual(T.tensor([1 + 2j]), T.tensor([0.5 - 1j]))
            return ad.unpack_dual(z * z), ad.unpack_dual(z * z.conj() if hasattr(z, "conj") else z)

    agree(fn)


def cubed(T, mode):
    ad = fw(T)
    with getattr(T, mode)(), ad.dual_level():
        d = ad.make_dual(T.tensor([2.0]), T.tensor([1.0]))
        y = ad.unpack_dual(d * d * d)
        return y.primal, y.tangent, y.primal.is_inference(), y.tangent.requires_grad


def test_without_recording(agree):
    agree(lambda T: cubed(T, "no_grad"))


def test_inference_mode():
    """PyTorch drops tangents in inference mode."""
    primal, tangent, is_inference, requires_grad = cubed(flambeau, "inference_mode")
    assert (primal.item(), tangent.item(), is_inference, requires_grad) == (8.0, 12.0, True, False)


def test_assignment_conversion_and_selection(agree):
    def fn(T):
        ad = fw(T)
        with ad.dual_level():
            d = ad.make_dual(T.tensor([2.0, 3.0]), T.tensor([1.0, 5.0]))
            z = T.zeros(3)
            z[1:] = d * 2
            z[0] = 7
            return (ad.unpack_dual(z), ad.unpack_dual(z[2]), ad.unpack_dual(d.double()), ad.unpack_dual(d.clone()),
                    ad.unpack_dual(T.where(d > 2.5, d, d * d)), ad.unpack_dual(d.detach()).tangent is None)

    agree(fn)


def test_nothing_intercepts_after_the_level():
    from flambeau.core.state import state

    with fw(flambeau).dual_level():
        assert state.special == 1
    assert state.special == 0
