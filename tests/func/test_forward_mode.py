"""func.jvp and its relatives: a Function's own jvp, writes into primals, modes around a transform, dual tensors in it."""

from __future__ import annotations

import gc
import sys
import threading
import weakref

import pytest

import flambeau
import flambeau.autograd.forward_ad as fwAD
from flambeau.core.state import state
from flambeau.func import functional_call, grad, grad_and_value, hessian, jacfwd, jacrev, jvp, vjp, vmap

from .test_transforms import agree


def weighted(T, with_backward=True):
    """x * x * y and x + y, whose jvp is marked by factors of 3 and 5: what forward mode gives shows whether it was used."""

    class Weighted(T.autograd.Function):
        generate_vmap_rule = True

        @staticmethod
        def forward(x, y, times):
            return x * x * y * times, x + y

        @staticmethod
        def setup_context(ctx, inputs, output):
            ctx.save_for_backward(inputs[0], inputs[1])
            ctx.save_for_forward(inputs[0], inputs[1], output[0])
            ctx.times = inputs[2]

        @staticmethod
        def jvp(ctx, s, t, _):
            x, y, out = ctx.saved_tensors
            return 3 * ctx.times * (2 * x * y * s + x * x * t) + 0 * out, 5 * (s + t)

    if with_backward:
        def backward(ctx, g, h):
            x, y = ctx.saved_tensors
            return 2 * x * y * ctx.times * g + h, x * x * ctx.times * g + h, None

        Weighted.backward = staticmethod(backward)
    return lambda x, y: Weighted.apply(x, y, 2.0)


def first(f):
    return lambda x, y: f(x, y)[0]


OWN_JVP = {
    "jvp": lambda T, F, d: F.jvp(weighted(T), (d(3), d(3)), (d(3), d(3))),
    "no backward": lambda T, F, d: F.jvp(weighted(T, False), (d(3), d(3)), (d(3), d(3))),
    "in a chain": lambda T, F, d: F.jvp(lambda x, y: sum(weighted(T)(x.sin(), y)).exp(), (d(3), d(3)), (d(3), d(3))),
    "one input is a constant": lambda T, F, d: (lambda y: F.jvp(lambda x: weighted(T)(x, y), (d(3),), (d(3),)))(d(3)),
    "jacfwd": lambda T, F, d: F.jacfwd(first(weighted(T)), (0, 1))(d(3), d(3)),
    "jacfwd, no backward": lambda T, F, d: F.jacfwd(first(weighted(T, False)), (0, 1))(d(3), d(3)),
    "jacrev uses backward": lambda T, F, d: F.jacrev(first(weighted(T)), (0, 1))(d(3), d(3)),
    "hessian": lambda T, F, d: F.hessian(lambda x, y: weighted(T)(x, y)[0].sum(), (0, 1))(d(3), d(3)),
    "jvp of grad uses backward": lambda T, F, d: (lambda y: F.jvp(
        F.grad(lambda x: weighted(T)(x, y)[0].sum()), (d(3),), (d(3),)))(d(3)),
    "grad of jvp": lambda T, F, d: (lambda y, t: F.grad(
        lambda x: F.jvp(lambda x: weighted(T)(x, y)[0], (x,), (t,))[1].sum())(d(3)))(d(3), d(3)),
    "vmap of jvp": lambda T, F, d: F.vmap(lambda x, y: F.jvp(weighted(T), (x, y), (y, x)))(d(2, 3), d(2, 3)),
    "jvp of vmap, one shared": lambda T, F, d: F.jvp(F.vmap(weighted(T), (0, None)), (d(2, 3), d(3)), (d(2, 3), d(3))),
    "linearize": lambda T, F, d: F.linearize(weighted(T), d(3), d(3))[1](d(3), d(3)),
}


@pytest.mark.parametrize("name", OWN_JVP)
def test_a_function_with_a_jvp_is_differentiated_forward_by_it(name):
    agree(OWN_JVP[name])


def test_a_second_forward_derivative_goes_through_the_jvp():
    x, t = flambeau.tensor(2.0), flambeau.tensor(1.0)
    f = first(weighted(flambeau))
    once = lambda x: jvp(lambda x: f(x, t), (x,), (t,))[1]      # noqa: E731  3 * 2 * 2 x
    assert [v.item() for v in jvp(once, (x,), (t,))] == [24.0, 12.0]


def test_dual_tensors_in_vmap_use_the_jvp_of_a_function():
    x, t, y = flambeau.randn(2, 3), flambeau.randn(2, 3), flambeau.randn(3)
    f = first(weighted(flambeau))
    with fwAD.dual_level():
        out = vmap(lambda x: f(x, y))(fwAD.make_dual(x, t))
        flambeau.testing.assert_close(fwAD.unpack_dual(out).tangent, 12 * x * y * t)


def test_functions_that_keep_values_for_jvp_die_without_the_collector():
    f = weighted(flambeau)
    gc.disable()
    try:
        x = flambeau.randn(3)
        out = jvp(f, (x, x + 1), (x, x))
        dead = weakref.ref(x)
        del x, out
        assert dead() is None
    finally:
        gc.enable()


def doubled(x):
    x.mul_(2)
    return x ** 3


WRITES = {
    "jvp": lambda T, F, d: F.jvp(doubled, (d(3),), (d(3),)),
    "jacfwd": lambda T, F, d: F.jacfwd(doubled)(d(3)),
    "jvp of a row": lambda T, F, d: (lambda b: (F.jvp(doubled, (b[0],), (d(3),)), b))(d(2, 3)),
    "jvp of vmap": lambda T, F, d: F.jvp(F.vmap(doubled), (d(2, 3),), (d(2, 3),)),
}


@pytest.mark.parametrize("name", WRITES)
def test_primals_may_be_written(name):
    agree(WRITES[name])


def test_written_inputs_of_nested_transforms_have_the_right_derivative():
    ones = flambeau.ones(2)
    total = lambda x: doubled(x).sum()                          # noqa: E731  (2x)^3
    start = lambda: flambeau.tensor([1.0, 2.0])                 # noqa: E731
    want = [48.0, 96.0]
    assert grad(lambda x: jvp(doubled, (x,), (ones,))[1].sum())(start()).tolist() == want
    assert jvp(lambda x: jvp(doubled, (x,), (ones,))[1], (start(),), (ones,))[1].tolist() == want
    assert grad(lambda x: grad(total)(x).sum())(start()).tolist() == want
    x = start().requires_grad_()
    (g,) = flambeau.autograd.grad(grad(total)(x * 1).sum(), x)
    assert g.tolist() == want


def test_transforms_work_in_inference_mode():
    with flambeau.inference_mode():
        w = flambeau.tensor([1.0, 2.0])
        f = lambda x: (x ** 3 * w).sum()                        # noqa: E731
        assert grad(f)(w).tolist() == [3.0, 24.0]
        assert jvp(f, (w,), (w,))[1].item() == 51.0
        assert hessian(f)(w).tolist() == [[6.0, 0.0], [0.0, 24.0]]
        assert vmap(grad(lambda x: x * x))(w).tolist() == [2.0, 4.0]
        assert vjp(f, w)[1](flambeau.tensor(1.0))[0].tolist() == [3.0, 24.0]
        assert flambeau.is_inference_mode_enabled() and not flambeau.is_grad_enabled()
    assert grad(f)(flambeau.ones(2)).tolist() == [3.0, 6.0]
    with pytest.raises(RuntimeError, match="Inference tensors cannot be saved"):
        flambeau.ones(2, requires_grad=True) * w


def test_results_of_nested_transforms_ask_for_no_gradient():
    net = flambeau.nn.Linear(2, 1)
    p = {k: v.detach() for k, v in net.named_parameters()}
    u = lambda p, x: functional_call(net, p, (x,)).exp().squeeze()     # noqa: E731
    x = flambeau.randn(2)
    for transform in (grad, jacrev, jacfwd, hessian):
        g, value = grad_and_value(lambda p, transform=transform: transform(u, 1)(p, x).sum())(p)
        assert not value.requires_grad and not g["weight"].requires_grad, transform
    w = flambeau.ones(2, requires_grad=True)
    assert grad(lambda x: grad(lambda x: (x * x * w).sum())(x).sum())(x).requires_grad


def test_transforms_of_dual_tensors_carry_tangents():
    with fwAD.dual_level():
        x = fwAD.make_dual(flambeau.tensor([1.0, 2.0]), flambeau.tensor([1.0, 0.0]))
        results = {"grad": grad(lambda x: (x ** 3).sum())(x), "vmap": vmap(grad(lambda x: x ** 3))(x),
                   "jvp": jvp(lambda x: x ** 3, (x,), (flambeau.ones(2),))[1]}
        for name, out in results.items():
            assert fwAD.unpack_dual(out).tangent.tolist() == [6.0, 0.0], name
        value, pull = vjp(lambda x: x ** 3, x)
        assert fwAD.unpack_dual(value).tangent.tolist() == [3.0, 0.0]
        assert fwAD.unpack_dual(pull(flambeau.ones(2))[0]).tangent.tolist() == [6.0, 0.0]
        jacobian = jacrev(lambda x: x ** 3)(x)
        assert fwAD.unpack_dual(jacobian).tangent.tolist() == [[6.0, 0.0], [0.0, 0.0]] and jacobian.grad_fn is None


def test_a_dual_parameter_is_a_plain_tensor_that_a_module_takes():
    net = flambeau.nn.Linear(2, 1, bias=False)
    with fwAD.dual_level():
        weight = net.weight
        del net.weight
        net.weight = fwAD.make_dual(weight, flambeau.ones(1, 2))
        assert type(net.weight) is flambeau.Tensor
        assert fwAD.unpack_dual(net(flambeau.tensor([2.0, 3.0]))).tangent.tolist() == [5.0]


def test_jvp_refuses_integer_primals():
    with pytest.raises(ValueError, match="primal must be floating point or complex"):
        jvp(lambda x: x, (flambeau.arange(3),), (flambeau.ones(3),))


def test_transforms_of_meta_tensors():
    net = flambeau.nn.Linear(3, 2, device="meta")
    x = flambeau.empty(4, 3, device="meta")
    assert vmap(grad(lambda x: net(x).sum()))(x).shape == (4, 3)
    assert jvp(net, (x,), (x,))[1].device.type == "meta"
    assert jacrev(net)(x).shape == (4, 2, 4, 3) and jacrev(net)(x).device.type == "meta"


def test_threads_enter_and_leave_transforms_at_once():
    x = flambeau.randn(3, 2)
    failed = []

    def work():
        for _ in range(60):
            out = vmap(lambda v: flambeau.rand(2) + v * 0, randomness="different")(x)
            if (out[0] == out[1]).all():
                failed.append(out)

    interval = sys.getswitchinterval()
    before = state.special
    sys.setswitchinterval(1e-6)
    try:
        threads = [threading.Thread(target=work) for _ in range(4)]
        for t in threads:
            t.start()
        for t in threads:
            t.join()
    finally:
        sys.setswitchinterval(interval)
    assert not failed and state.special == before


def test_tangents_are_turned_with_their_tensors():
    with fwAD.dual_level():
        x = fwAD.make_dual(flambeau.zeros(2, 3), flambeau.arange(6.0).view(2, 3))
        for turn in ("t_", "unsqueeze_", "squeeze_"):
            y = x * 1
            getattr(y, turn)(*((0,) if turn == "unsqueeze_" else ()))
            assert fwAD.unpack_dual(y * 2).tangent.shape == y.shape == fwAD.unpack_dual(y).tangent.shape
        y = (x * 1).t_()
        assert fwAD.unpack_dual(y).tangent.tolist() == [[0.0, 3.0], [1.0, 4.0], [2.0, 5.0]]
