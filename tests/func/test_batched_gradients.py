"""What vmap serves outside of torch.func: batches of vectors in autograd, and custom Functions."""

from __future__ import annotations

import gc
import threading
import warnings
import weakref
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import torch
import torch.func

import flambeau
import flambeau.func
from flambeau.autograd import Function, gradcheck
from flambeau.autograd import forward_ad as fwAD

from .test_transforms import agree

# ------------------------------------------------------------------------------------------------- autograd.grad


def vectors_of(T, F, d, **options):
    x, w = d(3, 4).requires_grad_(), d(4, 2).requires_grad_()
    y = (x.tanh() @ w).exp()
    return T.autograd.grad(y, (x, w), d(5, 3, 2), is_grads_batched=True, **options)


def test_a_batch_of_vectors_agrees_with_pytorch():
    agree(lambda T, F, d: vectors_of(T, F, d))


def test_a_batch_of_vectors_can_be_differentiated_again():
    agree(lambda T, F, d: T.autograd.grad(
        [g.sum() for g in vectors_of(T, F, d, create_graph=True)], (x := d(2).requires_grad_(),), allow_unused=True) + (x,))


def test_an_unused_input_has_no_gradient_in_a_batch():
    x, z = flambeau.ones(2, requires_grad=True), flambeau.ones(3, requires_grad=True)
    g = flambeau.autograd.grad(x * 2, (x, z), flambeau.eye(2), is_grads_batched=True, allow_unused=True)
    assert g[0].tolist() == [[2.0, 0.0], [0.0, 2.0]] and g[1] is None
    g = flambeau.autograd.grad(x * 2, (x, z), flambeau.eye(2), is_grads_batched=True, materialize_grads=True)
    assert g[1].shape == (2, 3)
    with pytest.raises(RuntimeError, match="unused|not have been used"):
        flambeau.autograd.grad(x * 2, (x, z), flambeau.eye(2), is_grads_batched=True)


def test_vmap_over_the_vectors_of_grad():
    def program(T, F, d):
        x = d(3).requires_grad_()
        y = x.sin() * x
        return F.vmap(lambda v: T.autograd.grad(y, x, v, retain_graph=True)[0])(d(4, 3))

    agree(program)


def test_backward_takes_no_mapped_tensor():
    w = flambeau.ones((), requires_grad=True)
    with pytest.raises(RuntimeError, match=r"torch\.func\.grad"):
        flambeau.vmap(lambda x: (x * w).backward())(flambeau.ones(3))
    with pytest.raises(RuntimeError, match=r"torch\.func\.grad"):
        flambeau.vmap(lambda x: flambeau.autograd.grad(x * w, w)[0])(flambeau.ones(3))


@pytest.mark.parametrize("create_graph", [False, True])
def test_vectorized_jacobians_agree_with_pytorch(create_graph):
    def program(T, F, d):
        inputs = (d(2, 3), d(3, 2))
        return T.autograd.functional.jacobian(lambda a, b: (a @ b, a.sum(), b * 2), inputs, vectorize=True,
                                              create_graph=create_graph)

    agree(program)


def test_vectorized_hessians_agree_with_pytorch():
    agree(lambda T, F, d: T.autograd.functional.hessian(lambda a, b: (a * a * b).sum(), (d(3), d(3)), vectorize=True))


def test_gradcheck_tries_a_batch():
    x = flambeau.randn(3, dtype=flambeau.float64, requires_grad=True)
    assert gradcheck(lambda x: x.sin().cumsum(0), x, check_batched_grad=True)
    assert gradcheck(lambda x: (x.sin() @ x, x.exp()), x, check_batched_grad=True, check_forward_ad=True,
                     check_batched_forward_grad=True)
    with pytest.raises(RuntimeError, match="forward mode"):
        gradcheck(lambda x: x * 2 if x.sum() > 0 else x * 2, x, check_forward_ad=True, check_batched_forward_grad=True)

    class Looks(Function):
        @staticmethod
        def forward(ctx, x):
            return x * 2

        @staticmethod
        def backward(ctx, g):
            return g * 2 if g.sum() > 0 else g * 2

    assert gradcheck(Looks.apply, x)
    with pytest.raises(RuntimeError, match="batched gradients"):
        gradcheck(Looks.apply, x, check_batched_grad=True)


def test_forward_mode_in_vmap_and_around_it():
    def derivative(x, t):
        with fwAD.dual_level():
            return fwAD.unpack_dual(fwAD.make_dual(x, t).sin() * x).tangent

    x, t = flambeau.randn(4, 3), flambeau.randn(4, 3)
    want = x.cos() * t * x
    flambeau.testing.assert_close(flambeau.vmap(derivative)(x, t), want)
    flambeau.testing.assert_close(flambeau.vmap(derivative, (None, 0))(x[0], t), x[0].cos() * t * x[0])
    with fwAD.dual_level():
        dual = fwAD.make_dual(x, t)
        out = flambeau.vmap(lambda s: s.sin().sum())(dual)
        flambeau.testing.assert_close(fwAD.unpack_dual(out).tangent, (x.cos() * t).sum(1))


# ------------------------------------------------------------------------------------------------- custom Functions


def scaled(T):
    class Scaled(T.autograd.Function):
        generate_vmap_rule = True

        @staticmethod
        def forward(x, w):
            return x * x * w, x + w

        @staticmethod
        def setup_context(ctx, inputs, output):
            ctx.save_for_backward(*inputs)

        @staticmethod
        def backward(ctx, g, h):
            x, w = ctx.saved_tensors
            return 2 * x * w * g + h, x * x * g + h

    return lambda x, w: sum(Scaled.apply(x, w))


CUSTOM = {
    "values": lambda T, F, d: F.vmap(scaled(T))(d(4, 3), d(4, 3)),
    "one shared": lambda T, F, d: F.vmap(scaled(T), in_dims=(0, None))(d(4, 3), d(3)),
    "gradients": lambda T, F, d: F.vmap(F.grad(lambda x, w: scaled(T)(x, w).sum(), argnums=(0, 1)))(d(4, 3), d(4, 3)),
    "gradients, one shared": lambda T, F, d: F.vmap(
        F.grad(lambda x, w: scaled(T)(x, w).sum(), argnums=(0, 1)), in_dims=(0, None))(d(4, 3), d(3)),
    "gradients of the batch": lambda T, F, d: F.grad(
        lambda x, w: F.vmap(scaled(T), in_dims=(0, None))(x, w).sum(), argnums=(0, 1))(d(4, 3), d(3)),
    "two levels": lambda T, F, d: F.vmap(F.vmap(scaled(T), in_dims=(0, None)), in_dims=(None, 0))(d(4), d(3)),
    "jacobian": lambda T, F, d: F.jacrev(lambda x: scaled(T)(x, x))(d(3)),
    "jacobian of each": lambda T, F, d: F.vmap(F.jacrev(lambda x: scaled(T)(x, x)))(d(2, 3)),
    "second derivative": lambda T, F, d: F.grad(lambda x: F.grad(lambda x: scaled(T)(x, x).sum())(x).sum())(d(3)),
    "second derivative of each": lambda T, F, d: F.vmap(
        F.grad(lambda x: F.grad(lambda x: scaled(T)(x, x).sum())(x).sum()))(d(2, 3)),
}


@pytest.mark.parametrize("name", CUSTOM)
def test_custom_functions_agree_with_pytorch(name):
    agree(CUSTOM[name])


def test_a_custom_function_without_jvp_is_differentiated_forward_by_its_backward():
    f = scaled(flambeau)
    x = flambeau.tensor([1.0, 2.0])
    assert flambeau.func.jvp(lambda x: f(x, x), (x,), (flambeau.ones(2),))[1].tolist() == [5.0, 14.0]


def own_rule(T, seen):
    class Cube(T.autograd.Function):
        @staticmethod
        def forward(x, scale):
            return x ** 3 * scale

        @staticmethod
        def setup_context(ctx, inputs, output):
            ctx.save_for_backward(inputs[0])
            ctx.scale = inputs[1]

        @staticmethod
        def backward(ctx, g):
            x, = ctx.saved_tensors
            return Cube.apply(x, 3 * ctx.scale) / x * g, None

        @staticmethod
        def vmap(info, in_dims, x, scale):
            seen.append((info.batch_size, info.randomness, in_dims[1]))
            return Cube.apply(x.movedim(in_dims[0], 0), scale), 0

    return lambda x: Cube.apply(x, 2.0)


def test_a_rule_of_its_own_agrees_with_pytorch():
    seen: list = []
    agree(lambda T, F, d: F.vmap(own_rule(T, seen))(d(4, 3)))
    agree(lambda T, F, d: F.vmap(F.grad(lambda x: own_rule(T, [])(x).sum()))(d(4, 3)))
    assert seen == [(4, "error", None)] * 2


def make_function(T, **members):
    def forward(x):
        return x * 1

    body = {"forward": staticmethod(forward), "backward": staticmethod(lambda ctx, g: g)}
    return type("Custom", (T.autograd.Function,), body | members)


SETUP = {"setup_context": staticmethod(lambda ctx, inputs, output: None)}
WRONG = {
    "no rule": (SETUP, "does not have vmap support"),
    "both": ({**SETUP, "generate_vmap_rule": True, "vmap": staticmethod(lambda info, dims, x: (x, 0))}, "both"),
    "no setup_context": ({"forward": staticmethod(lambda ctx, x: x), "generate_vmap_rule": True}, "setup_context"),
    "one result": ({**SETUP, "vmap": staticmethod(lambda info, dims, x: x)}, "return two things|out_dims"),
}


@pytest.mark.parametrize("name", WRONG)
def test_custom_functions_without_a_rule_are_refused(name):
    members, words = WRONG[name]
    for lib, words_of in ((torch, ".*"), (flambeau, words)):
        vmap = lib.func.vmap
        with pytest.raises(RuntimeError, match=words_of), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            vmap(make_function(lib, **members).apply)(lib.ones(3, 2))


# ------------------------------------------------------------------------------------------------- looking inside


def test_mapped_tensors_show_as_one_sample():
    seen = []

    def look(x):
        seen.append((tuple(x.shape), x.dim(), x.numel(), x.dtype, x.stride(), x.is_contiguous(), x.requires_grad, repr(x)))
        seen.append(flambeau.func.debug_unwrap(x))
        return x

    x = flambeau.arange(6.0).reshape(2, 3)
    flambeau.vmap(look)(x)
    assert seen[0][:7] == ((3,), 1, 3, flambeau.float32, (1,), True, False)
    assert seen[0][7] == ("BatchedTensor(lvl=1, bdim=0, value=\n    tensor([[0., 1., 2.],\n            [3., 4., 5.]])\n)")
    assert seen[1].tolist() == x.tolist()


def test_a_mapped_tensor_cannot_be_used_afterwards():
    kept = []
    flambeau.vmap(lambda x: kept.append(x) or x)(flambeau.ones(3))
    with pytest.raises(RuntimeError, match="after the vmap"):
        kept[0] * 2


def test_levels_are_left_when_a_function_raises():
    def fail(x):
        raise KeyError("ours")

    for _ in range(2):
        with pytest.raises(KeyError):
            flambeau.vmap(fail)(flambeau.ones(3))
    assert flambeau.rand(2).shape == (2,)


def test_parameters_can_be_made_of_mapped_tensors():
    layer = flambeau.nn.Linear(3, 1, bias=False)

    def f(x):
        layer.weight = flambeau.nn.Parameter(x.unsqueeze(0))
        return layer(flambeau.ones(3)).squeeze(0)

    assert flambeau.vmap(f)(flambeau.tensor([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]])).tolist() == [6.0, 15.0]


def test_an_empty_batch_gives_an_empty_result():
    assert flambeau.vmap(lambda x: (x * 2).sum())(flambeau.ones(0, 3)).shape == (0,)


def test_captured_tensors_get_gradients():
    w = flambeau.tensor([1.0, 2.0], requires_grad=True)
    x = flambeau.tensor([[1.0, 2.0], [3.0, 4.0]])
    g = flambeau.func.grad(lambda x: (x * x * w).sum())(x[0])
    g.sum().backward()
    assert w.grad.tolist() == [2.0, 4.0]
    w.grad = None
    flambeau.vmap(lambda s: (s * w).sum())(x).sum().backward()
    assert w.grad.tolist() == [4.0, 6.0]


def test_results_ask_for_no_gradient_that_nothing_asks_for():
    value, g = flambeau.func.grad_and_value(lambda x: (x ** 3).sum())(flambeau.ones(2))
    assert not value.requires_grad and not g.requires_grad
    with flambeau.no_grad():
        assert flambeau.func.grad(lambda x: (x ** 3).sum())(flambeau.ones(2, requires_grad=True)).tolist() == [3.0, 3.0]
    assert flambeau.func.grad(lambda x: (x ** 3).sum())(flambeau.ones(2, requires_grad=True)).requires_grad


# ------------------------------------------------------------------------------------------------- thirty functions


def _positive(x):
    return x * x + 0.5


W = flambeau.tensor(np.random.RandomState(5).randn(4, 4))
EYE = flambeau.eye(4, dtype=flambeau.float64)
FUNCTIONS = {
    "sin": lambda x: x.sin(),
    "exp of sum": lambda x: x.sum().exp() * x,
    "matrix": lambda x: W @ x,
    "outer": lambda x: x.outer(x),
    "softmax": lambda x: x.softmax(0),
    "log softmax": lambda x: x.log_softmax(0),
    "cumsum": lambda x: (x * x).cumsum(0),
    "cumprod": lambda x: x.cumprod(0),
    "prod": lambda x: x.prod() * x,
    "norm": lambda x: x / x.norm(),
    "sort": lambda x: x.sort()[0] ** 2,
    "max": lambda x: x.max() * x,
    "logsumexp": lambda x: x.logsumexp(0) * x,
    "std": lambda x: x.std() * x,
    "var": lambda x: x.var() * x,
    "gather": lambda x: x[flambeau.tensor([2, 0, 0])] * x.sum(),
    "roll": lambda x: x.roll(1) * x,
    "flip": lambda x: x.flip(0) * x,
    "where": lambda x: flambeau.where(x > 0, x ** 2, x ** 3),
    "det": lambda x: flambeau.linalg.det(x.outer(x) + W) * x,
    "inverse": lambda x: flambeau.linalg.inv(x.diag() + 5 * EYE) @ x,
    "solve": lambda x: flambeau.linalg.solve(x.diag() + 5 * EYE, x),
    "cholesky": lambda x: flambeau.linalg.cholesky(x.outer(x) + EYE),
    "conv": lambda x: flambeau.nn.functional.conv1d(x.view(1, 1, 4), x[:2].view(1, 1, 2)),
    "pow": lambda x: _positive(x) ** x,
    "gelu": flambeau.nn.functional.gelu,
    "layer norm": lambda x: flambeau.nn.functional.layer_norm(x, (4,)) * x,
    "einsum": lambda x: flambeau.einsum("i,ij,j->j", x, W, x),
    "stack": lambda x: flambeau.stack([x, x * 2]).prod(0),
    "in place": lambda x: x.clone().mul_(x).add_(x.sum()),
    "slices": lambda x: x[1:] * x[:-1],
    "atan2": lambda x: flambeau.atan2(x, x.roll(1)),
    "lgamma": lambda x: _positive(x).lgamma(),
    "erf": lambda x: x.erf() * x,
    "log": lambda x: _positive(x).log(),
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_jacobians_agree_with_differences(name):
    f = FUNCTIONS[name]
    x = flambeau.tensor(np.random.RandomState(1).randn(4))
    a, b = flambeau.func.jacrev(f)(x), flambeau.func.jacfwd(f)(x)
    step = 1e-6
    columns = [(f(x + step * e) - f(x - step * e)) / (2 * step) for e in flambeau.eye(4, dtype=x.dtype)]
    flambeau.testing.assert_close(a, b, rtol=1e-9, atol=1e-10)
    flambeau.testing.assert_close(a, flambeau.stack(columns, -1), rtol=1e-5, atol=1e-7)


def remembering(refs, f):
    """f, of whose intermediate values weak references are kept."""

    def g(x):
        y = x.sin()
        refs.append(weakref.ref(flambeau.func.debug_unwrap(y)))
        return f(y)

    return g


def test_nothing_is_kept_when_a_transform_is_done():
    double = scaled(flambeau)
    refs: list = []
    x = flambeau.randn(3, 4)
    gc.collect()
    gc.disable()
    try:
        flambeau.vmap(flambeau.func.grad(remembering(refs, lambda y: (y * y).sum())))(x)
        flambeau.func.jacrev(remembering(refs, lambda y: y * y))(x[0])
        flambeau.func.hessian(remembering(refs, lambda y: (y * y).sum()))(x[0])
        flambeau.func.jvp(remembering(refs, lambda y: y * y), (x,), (x,))
        flambeau.vmap(flambeau.func.grad(remembering(refs, lambda y: double(y, y).sum())))(x)
        _, fn = flambeau.func.vjp(remembering(refs, lambda y: y * y), x)
        fn(x)
        del fn
        assert len(refs) == 6 and all(r() is None for r in refs)
    finally:
        gc.enable()


def test_threads_map_apart():
    def work(size):
        for _ in range(20):
            out = flambeau.vmap(flambeau.func.grad(lambda x: (x ** 3).sum()))(flambeau.ones(size, 2))
            assert out.shape == (size, 2) and (out == 3).all()
        return size

    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(work, range(1, 9))) == list(range(1, 9))


def test_other_threads_see_no_vmap():
    started, done = threading.Event(), threading.Event()
    seen = []

    def other():
        started.wait(10)
        seen.append(flambeau.rand(3).shape)         # random, and no vmap of this thread forbids it
        done.set()

    thread = threading.Thread(target=other)
    thread.start()

    def mapped(x):
        started.set()
        assert done.wait(10)
        return x

    flambeau.vmap(mapped)(flambeau.ones(2))
    thread.join()
    assert seen == [(3,)]


# ------------------------------------------------------------------------------------------------- transforms in a backward


def fixed_point(T, F):
    """The solution x of x = tanh(x / 2 + a), whose backward solves a linear equation by vjp."""

    class FixedPoint(T.autograd.Function):
        generate_vmap_rule = True

        @staticmethod
        def forward(a):
            x = T.zeros_like(a)
            for _ in range(40):
                x = T.tanh(0.5 * x + a)
            return x

        @staticmethod
        def setup_context(ctx, inputs, output):
            ctx.save_for_backward(inputs[0], output)

        @staticmethod
        def backward(ctx, g):
            a, x = ctx.saved_tensors
            _, pull = F.vjp(lambda x: T.tanh(0.5 * x + a), x)
            u = g
            for _ in range(40):
                u = g + pull(u)[0]
            return F.vjp(lambda a: T.tanh(0.5 * x + a), a)[1](u)[0]

    return FixedPoint.apply


IMPLICIT = {
    "grad": lambda T, F, d: F.grad(lambda a: fixed_point(T, F)(a).sum())(d(3)),
    "vmap of grad": lambda T, F, d: F.vmap(F.grad(lambda a: fixed_point(T, F)(a).sum()))(d(2, 3)),
    "grad of vmap": lambda T, F, d: F.grad(lambda a: F.vmap(fixed_point(T, F))(a).sum())(d(2, 3)),
    "jacobian": lambda T, F, d: F.jacrev(fixed_point(T, F))(d(3)),
    "vmap of jacobian": lambda T, F, d: F.vmap(F.jacrev(fixed_point(T, F)))(d(2, 3)),
    "two levels": lambda T, F, d: F.vmap(F.vmap(F.grad(lambda a: fixed_point(T, F)(a))))(d(2, 3)),
}


@pytest.mark.parametrize("name", IMPLICIT)
def test_a_backward_may_use_transforms(name):
    agree(IMPLICIT[name])


def hooked(T, hook):
    def f(x):
        y = x * 2
        y.register_hook(lambda g: hook(g, x))
        return (y * y).sum()

    return f


HOOKS = {
    "grad": lambda T, F, d: F.vmap(F.grad(hooked(T, lambda g, x: g * 3 * x)))(d(2, 3)),
    "two levels": lambda T, F, d: F.vmap(F.vmap(F.grad(hooked(T, lambda g, x: g * 3 * x))))(d(2, 4, 3)),
    "jacobian": lambda T, F, d: F.vmap(F.jacrev(lambda x: hooked(T, lambda g, x: g * x)(x)[None]))(d(2, 3)),
    "it returns nothing": lambda T, F, d: F.vmap(F.grad(hooked(T, lambda g, x: None)))(d(2, 3)),
}


@pytest.mark.parametrize("name", HOOKS)
def test_hooks_see_gradients_of_samples(name):
    agree(HOOKS[name])


def test_hooks_of_samples_work_after_vmap():
    x = flambeau.ones(2, 3, requires_grad=True)
    flambeau.vmap(hooked(flambeau, lambda g, x: g * flambeau.tensor([1.0, 2.0, 3.0])))(x).sum().backward()
    assert x.grad.tolist() == [[8.0, 16.0, 24.0]] * 2
