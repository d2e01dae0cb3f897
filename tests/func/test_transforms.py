"""grad, vjp, jvp, jacobians and vmap against torch.func: the same program on both libraries."""

from __future__ import annotations

import functools
import warnings

import numpy as np
import pytest
import torch
import torch.func

import flambeau
import flambeau.func

torch.set_num_threads(1)


def arrays(result):
    """A result as nested containers of arrays."""
    if isinstance(result, dict):
        return {k: arrays(v) for k, v in result.items()}
    if isinstance(result, (tuple, list)):
        return [arrays(v) for v in result]
    return result.detach().numpy() if hasattr(result, "detach") else result


def assert_equal(a, b, tolerance):
    assert type(a) is type(b), (a, b)
    if isinstance(a, dict):
        assert list(a) == list(b)
        for k in a:
            assert_equal(a[k], b[k], tolerance)
    elif isinstance(a, list):
        assert len(a) == len(b)
        for x, y in zip(a, b, strict=True):
            assert_equal(x, y, tolerance)
    elif isinstance(a, np.ndarray):
        assert a.shape == b.shape and a.dtype == b.dtype, (a.shape, b.shape, a.dtype, b.dtype)
        np.testing.assert_allclose(a, b, rtol=tolerance, atol=tolerance)
    else:
        assert a == b


class Data:
    """The same random tensors for both libraries."""

    def __init__(self, lib, seed=0):
        self.lib, self.random = lib, np.random.RandomState(seed)

    def __call__(self, *shape, dtype="float64"):
        return self.lib.tensor(self.random.randn(*shape).astype(dtype) if shape else np.asarray(self.random.randn(), dtype))

    def ints(self, high, *shape):
        return self.lib.tensor(self.random.randint(0, high, shape))


def agree(program, tolerance=1e-10):
    """program(lib, func, data) gives the same on PyTorch and here."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")         # its own functions warn of deprecations in others
        expected = arrays(program(torch, torch.func, Data(torch)))
    assert_equal(arrays(program(flambeau, flambeau.func, Data(flambeau))), expected, tolerance)


# ------------------------------------------------------------------------------------------------- derivatives


def cubic(x):
    return (x ** 3).sum()


PROGRAMS = {
    "grad": lambda T, F, d: F.grad(cubic)(d(4)),
    "grad of a dict": lambda T, F, d: F.grad(lambda p: (p["a"] * p["b"].sum()).sum())({"a": d(3), "b": d(2)}),
    "grad of several": lambda T, F, d: F.grad(lambda a, b, c: (a * b * c).sum(), argnums=(0, 2))(d(3), d(3), d(3)),
    "grad of the last": lambda T, F, d: F.grad(lambda a, b: (a * b * b).sum(), argnums=-1)(d(3), d(3)),
    "grad with aux": lambda T, F, d: F.grad(lambda x: (cubic(x), {"twice": x * 2}), has_aux=True)(d(3)),
    "grad and value": lambda T, F, d: F.grad_and_value(cubic)(d(3)),
    "grad and value with aux": lambda T, F, d: F.grad_and_value(lambda x: (cubic(x), (x, x + 1)), has_aux=True)(d(3)),
    "grad with keywords": lambda T, F, d: F.grad(lambda x, k=1.0: (x * k).sum())(d(3), k=3.0),
    "grad of grad": lambda T, F, d: F.grad(lambda x: F.grad(cubic)(x).sum())(d(3)),
    "third derivative": lambda T, F, d: F.grad(F.grad(F.grad(lambda x: x.sin() * x)))(d()),
    "grad of an unused input": lambda T, F, d: F.grad(lambda x, y: y.sum())(d(3), d(2)),
    "no confusion": lambda T, F, d: F.grad(lambda x: x * F.grad(lambda y: x + y)(x))(d()),
    "no confusion, deeper": lambda T, F, d: F.grad(
        lambda x: F.grad(lambda y: x * y * F.grad(lambda z: x * y * z)(y))(x))(d()),
    "inputs captured by the inner": lambda T, F, d: F.grad(lambda x: (F.grad(lambda y: (y * x).sum())(x) * x).sum())(d(3)),
    "no_grad inside": lambda T, F, d: F.grad(functools.partial(constant_square, T))(d(3)),
    "detach inside": lambda T, F, d: F.grad(lambda x: (x.detach() * x).sum())(d(3)),
    "in place inside": lambda T, F, d: F.grad(lambda x: (x.clone().mul_(x).add_(1)).sum())(d(3)),
    "in place on a view inside": lambda T, F, d: F.grad(functools.partial(written, T))(d(4)),
    "vjp": lambda T, F, d: apply_vjp(F, lambda x: x.sin() * x, d(3), cotangent=d(3)),
    "vjp of several": lambda T, F, d: apply_vjp(F, lambda x, y: x * y, d(3), d(3), cotangent=d(3)),
    "vjp of a dict": lambda T, F, d: F.vjp(lambda x: {"a": x * 2, "b": x.sin()}, d(3))[1]({"a": d(3), "b": d(3)}),
    "vjp with aux": lambda T, F, d: (lambda r: (r[0], r[1](r[0]), r[2]))(F.vjp(lambda x: (x * x, x), d(3), has_aux=True)),
    "vjp twice": lambda T, F, d: twice(*F.vjp(lambda x: x ** 3, d(3))),
    "jvp": lambda T, F, d: F.jvp(lambda x: x.sin() * x, (d(3),), (d(3),)),
    "jvp of several": lambda T, F, d: F.jvp(lambda x, y: (x * y, x + y), (d(3), d(3)), (d(3), d(3))),
    "jvp with aux": lambda T, F, d: F.jvp(lambda x: (x * x, x + 1), (d(3),), (d(3),), has_aux=True),
    "jvp of a constant": lambda T, F, d: F.jvp(lambda x: T.ones(2), (d(3),), (d(3),)),
    "jvp of integers": lambda T, F, d: F.jvp(lambda x: (x > 0, x * 2), (d(3),), (d(3),)),
    "jvp of jvp": lambda T, F, d: F.jvp(lambda x: F.jvp(T.sin, (x,), (x,))[1], (d(3),), (d(3),)),
    "jvp of jvp, no confusion": lambda T, F, d: F.jvp(
        lambda x: F.jvp(lambda y: x * y, (x,), (T.ones_like(x),))[1], (d(),), (d(),)),
    "jvp of grad": lambda T, F, d: F.jvp(F.grad(cubic), (d(3),), (d(3),)),
    "grad of jvp": lambda T, F, d: F.grad(lambda x: F.jvp(lambda y: (y ** 3).sum(), (x,), (x * 2,))[1])(d(3)),
    "linearize": lambda T, F, d: (lambda r: (r[0], r[1](d(3)), r[1](d(3))))(F.linearize(lambda x: x.exp() * x, d(3))),
    "jacrev": lambda T, F, d: F.jacrev(lambda x: T.stack([x.sum(), x[0] * x[1]]))(d(3)),
    "jacfwd": lambda T, F, d: F.jacfwd(lambda x: T.stack([x.sum(), x[0] * x[1]]))(d(3)),
    "jacrev in chunks": lambda T, F, d: F.jacrev(lambda x: x.outer(x), chunk_size=2)(d(3)),
    "jacrev of several": lambda T, F, d: F.jacrev(lambda x, y: (x * y.sum(), y), argnums=(0, 1))(d(3), d(2)),
    "jacfwd of several": lambda T, F, d: F.jacfwd(lambda x, y: (x * y.sum(), y), argnums=(0, 1))(d(3), d(2)),
    "jacrev of dicts": lambda T, F, d: F.jacrev(lambda p: {"o": p["a"] * p["b"].sum()})({"a": d(2, 2), "b": d(3)}),
    "jacfwd of dicts": lambda T, F, d: F.jacfwd(lambda p: {"o": p["a"] * p["b"].sum()})({"a": d(2, 2), "b": d(3)}),
    "jacrev with aux": lambda T, F, d: F.jacrev(lambda x: (x * x, x + 1), has_aux=True)(d(3)),
    "jacfwd with aux": lambda T, F, d: F.jacfwd(lambda x: (x * x, x + 1), has_aux=True)(d(3)),
    "jacfwd of jacfwd": lambda T, F, d: F.jacfwd(F.jacfwd(lambda x: x ** 3))(d(3)),
    "jacrev of jacfwd": lambda T, F, d: F.jacrev(F.jacfwd(lambda x: x ** 3))(d(3)),
    "jacfwd of jacrev": lambda T, F, d: F.jacfwd(F.jacrev(lambda x: x ** 3))(d(3)),
    "jacobian of scalars": lambda T, F, d: (F.jacrev(T.sin)(d()), F.jacfwd(T.sin)(d())),
    "hessian": lambda T, F, d: F.hessian(lambda x: (x ** 3).sum() * x[0])(d(3)),
    "hessian of several": lambda T, F, d: F.hessian(lambda x, y: (x * x * y).sum(), argnums=(0, 1))(d(2), d(2)),
    "hessian of a vector": lambda T, F, d: F.hessian(lambda x: x ** 3)(d(2)),
    # vmap
    "vmap": lambda T, F, d: F.vmap(T.dot)(d(4, 3), d(4, 3)),
    "vmap over other dims": lambda T, F, d: F.vmap(T.dot, in_dims=(1, 0))(d(3, 4), d(4, 3)),
    "vmap with None": lambda T, F, d: F.vmap(T.mv, in_dims=(None, 0))(d(2, 3), d(4, 3)),
    "vmap out_dims": lambda T, F, d: F.vmap(lambda x: (x, x.outer(x)), out_dims=(1, -1))(d(4, 3)),
    "vmap of a dict": lambda T, F, d: F.vmap(lambda p: {"s": p["a"] + p["b"]}, in_dims=({"a": 0, "b": None},))(
        {"a": d(4, 3), "b": d(3)}),
    "vmap of nested lists": lambda T, F, d: F.vmap(lambda xs: xs[0] * xs[1][0], in_dims=([0, [1]],))([d(4, 3), [d(3, 4)]]),
    "vmap keywords": lambda T, F, d: F.vmap(lambda x, y: x * y)(d(4, 3), y=d(4, 3)),
    "vmap of an unbatched output": lambda T, F, d: F.vmap(lambda x: T.ones(2))(d(3, 2)),
    "vmap out_dims None": lambda T, F, d: F.vmap(lambda x: (x, T.ones(2)), out_dims=(0, None))(d(3, 2)),
    "vmap in chunks": lambda T, F, d: F.vmap(lambda x: x * x.sum(), chunk_size=3)(d(7, 2)),
    "vmap in chunks, other dims": lambda T, F, d: F.vmap(
        lambda x: x * x.sum(), in_dims=1, out_dims=1, chunk_size=2)(d(2, 5)),
    "vmap of vmap": lambda T, F, d: F.vmap(F.vmap(T.dot, in_dims=(None, 0)), in_dims=(0, None))(d(4, 3), d(5, 3)),
    "vmap of vmap over the inner": lambda T, F, d: F.vmap(lambda x: F.vmap(lambda y: y * x.sum())(x))(d(4, 3)),
    "three levels": lambda T, F, d: F.vmap(F.vmap(F.vmap(lambda x, y: x * y, (0, None)), (None, 0)), (0, 0))(
        d(2, 3, 2), d(2, 3, 2)),
    "vmap of grad": lambda T, F, d: F.vmap(F.grad(cubic))(d(4, 3)),
    "vmap of grad of what all share": lambda T, F, d: F.vmap(
        F.grad(lambda w, x: (w * x).sin().sum()), (None, 0))(d(3), d(4, 3)),
    "grad of vmap": lambda T, F, d: F.grad(lambda x: F.vmap(cubic)(x).sum())(d(4, 3)),
    "vmap of jacrev": lambda T, F, d: F.vmap(F.jacrev(lambda x: x.outer(x)))(d(4, 3)),
    "vmap of jacfwd": lambda T, F, d: F.vmap(F.jacfwd(lambda x: x.outer(x)))(d(4, 3)),
    "vmap of hessian": lambda T, F, d: F.vmap(F.hessian(cubic))(d(4, 3)),
    "vmap of jvp": lambda T, F, d: F.vmap(lambda x, t: F.jvp(T.sin, (x,), (t,)))(d(4, 3), d(4, 3)),
    "jvp of vmap": lambda T, F, d: F.jvp(F.vmap(cubic), (d(4, 3),), (d(4, 3),)),
    "jacrev of vmap": lambda T, F, d: F.jacrev(F.vmap(cubic))(d(3, 2)),
    "jacfwd of vmap": lambda T, F, d: F.jacfwd(F.vmap(cubic))(d(3, 2)),
    "vmap of vjp": lambda T, F, d: F.vmap(lambda x, c: F.vjp(T.sin, x)[1](c)[0])(d(4, 3), d(4, 3)),
    "vmap over cotangents": lambda T, F, d: F.vmap(F.vjp(T.sin, d(3))[1])(d(5, 3)),
    "grad of vmap of grad": lambda T, F, d: F.grad(
        lambda w: F.vmap(F.grad(lambda x: (w * x ** 3).sum()))(x3(T)).sum())(d(3)),
    "in place in vmap": lambda T, F, d: F.vmap(lambda x: x.clone().add_(1).mul_(x))(d(4, 3)),
    "in place on the input": lambda T, F, d: (lambda x: (F.vmap(lambda s: s.add_(1))(x), x))(d(4, 3)),
    "in place on a view in vmap": lambda T, F, d: F.vmap(functools.partial(written_copy, T))(d(4, 3)),
    "index put in vmap": lambda T, F, d: F.vmap(assigned)(d(4, 3)),
    "own indices": lambda T, F, d: F.vmap(lambda x, i: (x[i], x[:, i], x[..., i]))(d(4, 3, 3), d.ints(3, 4, 2)),
    "own single index": lambda T, F, d: F.vmap(lambda x, i: x[i])(d(4, 3, 2), d.ints(3, 4)),
    "own indices into a shared tensor": lambda T, F, d: F.vmap(
        lambda x, i: x[i], in_dims=(None, 0))(d(3, 2), d.ints(3, 4, 5)),
    "one index for all": lambda T, F, d: F.vmap(lambda x: x[T.tensor([0, 2]), T.tensor([1, 1])])(d(4, 3, 3)),
    "indices apart": lambda T, F, d: F.vmap(lambda x: x[T.tensor([0, 2]), :, T.tensor([1, 1])])(d(4, 3, 2, 3)),
    "new_zeros written": lambda T, F, d: F.vmap(lambda x: fill_zeros(x))(d(4, 3)),
    "where": lambda T, F, d: F.vmap(lambda x: T.where(x > 0, x, 0.5 * x))(d(4, 3)),
    "number in promotion": lambda T, F, d: F.vmap(lambda x, y: x * y)(d(4, dtype="float64"), d(4, 3, dtype="float32")),
    "types of integers": lambda T, F, d: F.vmap(lambda i: (i / 2, i * 1.5, i + 1, i.float().mean()))(d.ints(5, 3, 2)),
    "cross entropy": lambda T, F, d: F.vmap(T.nn.functional.cross_entropy)(d(4, 3, 5), d.ints(5, 4, 3)),
    "conv": lambda T, F, d: F.vmap(T.nn.functional.conv2d, in_dims=(0, 0, 0))(d(3, 2, 2, 5, 5), d(3, 4, 2, 3, 3), d(3, 4)),
    "conv, shared weights": lambda T, F, d: F.vmap(T.nn.functional.conv1d, in_dims=(0, None))(d(3, 2, 6), d(4, 2, 3)),
    "linalg": lambda T, F, d: F.vmap(lambda a, b: (T.linalg.solve(a, b), T.linalg.det(a), T.linalg.inv(a)))(
        d(3, 4, 4), d(3, 4)),
    "sort": lambda T, F, d: F.vmap(lambda x: T.sort(x)[0])(d(4, 5)),
    "captured batch": lambda T, F, d: F.vmap(lambda x: F.vmap(lambda y: x * y)(T.arange(3.0, dtype=T.float64)))(d(2)),
    "under no_grad": lambda T, F, d: under_no_grad(T, lambda: with_flags(F.grad(
        lambda x: F.grad(lambda y: (y ** 3).sum())(x).sum())(d(3).requires_grad_()))),
    "jacobian under no_grad": lambda T, F, d: under_no_grad(T, lambda: with_flags(F.jacrev(
        lambda x: x ** 3)(d(3).requires_grad_()))),
    "flags of jacrev": lambda T, F, d: with_flags(F.jacrev(lambda x: x ** 3)(d(3).requires_grad_())),
    "flags of jacfwd": lambda T, F, d: with_flags(F.jacfwd(lambda x: x ** 3)(d(3).requires_grad_())),
    "flags of jvp": lambda T, F, d: with_flags(F.jvp(lambda x: x ** 3, (d(3).requires_grad_(),), (d(3),))),
    "flags of a cotangent": lambda T, F, d: with_flags(F.vjp(lambda x: x ** 3, d(3))[1](d(3).requires_grad_())),
    "flags of vmap": lambda T, F, d: with_flags(F.vmap(lambda x: x ** 3)(d(3, 2).requires_grad_())),
    "flags of no_grad in vmap": lambda T, F, d: with_flags(F.vmap(lambda x: under_no_grad(T, lambda: x ** 3))(
        d(3, 2).requires_grad_())),
    "flags of what is captured": lambda T, F, d: (lambda w: with_flags(F.vmap(F.grad(
        lambda x: (x * x * w).sum()))(d(4, 3))))(d(3).requires_grad_()),
    "flags of aux": lambda T, F, d: with_flags(F.grad(lambda x: ((x ** 2).sum(), x * 2), has_aux=True)(d(3))),
    "grad inside no_grad inside grad": lambda T, F, d: F.grad(lambda x: (x * under_no_grad(
        T, lambda: F.grad(lambda y: (y ** 3).sum())(x))).sum())(d(3)),
    "products with the Hessian": lambda T, F, d: (lambda x: F.vmap(lambda v: F.jvp(F.grad(
        lambda x: (x ** 4).sum()), (x,), (v,))[1])(T.eye(3, dtype=T.float64)))(d(3)),
    "nested in_dims": lambda T, F, d: F.vmap(lambda t: t[0] @ t[1]["k"], in_dims=((0, {"k": None}),))(
        (d(3, 2, 2), {"k": d(2)})),
    "nested out_dims": lambda T, F, d: F.vmap(lambda x: {"a": (x, [x.sum()])}, out_dims={"a": (1, [0])})(d(3, 2)),
    "complex numbers": lambda T, F, d: F.vmap(lambda x: T.fft.fft(x).abs().sum())(d(3, 4)),
    "gradient in complex numbers": lambda T, F, d: F.grad(lambda z: (z * z.conj()).real.sum())(T.complex(d(3), d(3))),
    "jvp in complex numbers": lambda T, F, d: F.jvp(lambda z: z * z, (T.complex(d(3), d(3)),), (T.complex(d(3), d(3)),)),
    "jacobian of nothing": lambda T, F, d: F.jacrev(lambda x: x * 2)(d(3)[:0]),
    "integer outputs": lambda T, F, d: F.vmap(lambda x: (x.argmax(), *x.max(0)))(d(3, 4)),
    "own embeddings": lambda T, F, d: F.vmap(lambda w, x: T.nn.functional.embedding(x, w), in_dims=(0, None))(
        d(3, 5, 2), d.ints(5, 4)),
    "cross entropy of images": lambda T, F, d: F.vmap(F.grad(T.nn.functional.cross_entropy))(
        d(2, 3, 4, 5, 5), d.ints(4, 2, 3, 5, 5)),
    "class weights": lambda T, F, d: F.vmap(F.grad(lambda x, y: T.nn.functional.cross_entropy(
        x, y, weight=T.arange(1.0, 5.0, dtype=T.float64), label_smoothing=0.1)))(d(2, 3, 4), d.ints(4, 2, 3)),
    "own class weights": lambda T, F, d: F.vmap(lambda x, y, w: T.nn.functional.cross_entropy(x, y, weight=w))(
        d(2, 3, 4), d.ints(4, 2, 3), d(2, 4).abs()),
    "transposed conv": lambda T, F, d: F.vmap(F.grad(lambda w, x: T.nn.functional.conv_transpose2d(
        x, w, stride=2).pow(2).sum()), in_dims=(None, 0))(d(2, 3, 2, 2), d(4, 1, 2, 3, 3)),
    "attention": lambda T, F, d: F.vmap(F.grad(lambda q, k, v: T.nn.functional.scaled_dot_product_attention(
        q, k, v).pow(2).sum()))(d(2, 3, 4, 5), d(2, 3, 4, 5), d(2, 3, 4, 5)),
}


def under_no_grad(T, fn):
    with T.no_grad():
        return fn()


def flags(result):
    if isinstance(result, (tuple, list)):
        return [flags(r) for r in result]
    return result.requires_grad


def with_flags(result):
    """A result, and which of its tensors ask for a gradient."""
    return result, flags(result)


def constant_square(T, x):
    with T.no_grad():
        c = x ** 2
    return (x - c).sum()


def written(T, x):
    y = x.clone()
    y[1:3].mul_(x[0])
    y[0] = x[3] * 2
    return (y * y).sum()


def written_copy(T, x):
    y = T.zeros_like(x)
    y[1:].copy_(x[:-1])
    y[0] += x[2]
    return y


def assigned(x):
    y = x.clone()
    y[0] = x[1] * 2
    return y


def fill_zeros(x):
    out = x.new_zeros(2, 3)
    out[0] = x
    return out


def x3(T):
    return T.arange(6.0, dtype=T.float64).reshape(2, 3) / 3


def apply_vjp(F, f, *primals, cotangent):
    value, fn = F.vjp(f, *primals)
    return value, fn(cotangent)


def twice(value, fn):
    return value, fn(value), fn(value * 2)


@pytest.mark.parametrize("name", PROGRAMS)
def test_agrees_with_pytorch(name):
    agree(PROGRAMS[name])


# ------------------------------------------------------------------------------------------------- errors


def double(x):
    return x * 2


ERRORS = {
    "grad of a vector": (lambda T, F, d: F.grad(double)(d(3)), "scalar"),
    "grad of no tensor": (lambda T, F, d: F.grad(lambda x: 3)(d(3)), "to return a Tensor"),
    "grad of a string": (lambda T, F, d: F.grad(cubic)("a"), "must be Tensor"),
    "grad of integers": (lambda T, F, d: F.grad(cubic)(d.ints(3, 2)), "floating point"),
    "argnums too large": (lambda T, F, d: F.grad(cubic, argnums=1)(d(3)), "only 1 positional"),
    "argnums empty": (lambda T, F, d: F.grad(cubic, argnums=())(d(3)), "non-empty"),
    "argnums twice": (lambda T, F, d: F.grad(cubic, argnums=(0, 0))(d(3)), "unique"),
    "argnums of another type": (lambda T, F, d: F.grad(cubic, argnums="a")(d(3)), "must be int or Tuple"),
    "aux missing": (lambda T, F, d: F.grad(cubic, has_aux=True)(d(3)), "should be a tuple"),
    "cotangent shape": (lambda T, F, d: F.vjp(double, d(3))[1](d(2)), "Mismatch in shape"),
    "cotangent structure": (lambda T, F, d: F.vjp(double, d(3))[1]((d(3),)), "pytree structure"),
    "vjp of no tensor": (lambda T, F, d: F.vjp(lambda x: 2, d(3)), "expected f"),
    "tangent shape": (lambda T, F, d: F.jvp(double, (d(3),), (d(2),)), "different size"),
    "primals not a tuple": (lambda T, F, d: F.jvp(double, d(3), d(3)), "to be a tuple"),
    "jvp strict": (lambda T, F, d: F.jvp(lambda x: T.ones(2), (d(3),), (d(3),), strict=True), "independent of the inputs"),
    "jvp without inputs": (lambda T, F, d: F.jvp(lambda: 1, (), ()), "at least one Tensor"),
    "jacrev of integers": (lambda T, F, d: F.jacrev(lambda x: x.long())(d(3)), "floating-point"),
    "jacrev of complex inputs": (lambda T, F, d: F.jacrev(double)(T.complex(d(3), d(3))), "real"),
    "jacfwd of complex inputs": (lambda T, F, d: F.jacfwd(double)(T.complex(d(3), d(3))), "real"),
    "jacrev of complex outputs": (lambda T, F, d: F.jacrev(lambda x: T.complex(x, x))(d(3)), "real"),
    "jacfwd of complex outputs": (lambda T, F, d: F.jacfwd(lambda x: T.complex(x, x))(d(3)), "real"),
    "jacrev chunk": (lambda T, F, d: F.jacrev(double, chunk_size=0)(d(3)), "greater than 0"),
    "linearize shape": (lambda T, F, d: F.linearize(double, d(3))[1](d(2)), "doesn't match"),
    "item": (lambda T, F, d: F.vmap(lambda x: x.sum().item())(d(3, 2)), "item"),
    "if": (lambda T, F, d: F.vmap(lambda x: x if x.sum() > 0 else -x)(d(3, 2)), "data-dependent control flow"),
    "nonzero": (lambda T, F, d: F.vmap(lambda x: x.nonzero())(d(3, 2)), "vmap"),
    "mask": (lambda T, F, d: F.vmap(lambda x: x[x > 0])(d(3, 2)), "vmap"),
    "write into a shared tensor": (lambda T, F, d: F.vmap(lambda x, y: y.add_(x), in_dims=(0, None))(d(3, 2), d(2)), "vmap"),
    "in_dims type": (lambda T, F, d: F.vmap(double, in_dims="a")(d(3)), "`in_dims` is an int"),
    "in_dims structure": (lambda T, F, d: F.vmap(double, in_dims=(0, 0))(d(3)), "in_dims is not compatible"),
    "in_dims range": (lambda T, F, d: F.vmap(double, in_dims=2)(d(3)), "in_dim"),
    "in_dims all None": (lambda T, F, d: F.vmap(double, in_dims=None)(d(3)), "in_dims"),
    "no inputs": (lambda T, F, d: F.vmap(lambda: 1)(), "no inputs"),
    "sizes differ": (lambda T, F, d: F.vmap(lambda x, y: x)(d(3), d(2)), "same size in the mapped dimension"),
    "mapped number": (lambda T, F, d: F.vmap(double)(3.0), "not"),
    "returns a number": (lambda T, F, d: F.vmap(lambda x: 3)(d(3)), "must only return Tensors"),
    "out_dims type": (lambda T, F, d: F.vmap(double, out_dims="a")(d(3)), "out_dims"),
    "out_dims structure": (lambda T, F, d: F.vmap(double, out_dims=(0, 0))(d(3)), "out_dims"),
    "out_dims range": (lambda T, F, d: F.vmap(double, out_dims=3)(d(3)), "out of range"),
    "out_dims None of a batch": (lambda T, F, d: F.vmap(double, out_dims=None)(d(3)), "None"),
    "randomness": (lambda T, F, d: F.vmap(double, randomness="x")(d(3)), "randomness"),
    "chunk_size": (lambda T, F, d: F.vmap(double, chunk_size=0)(d(3)), "chunk_size"),
    "random": (lambda T, F, d: F.vmap(lambda x: x + T.rand(2))(d(3, 2)), "randomness"),
    "dropout": (lambda T, F, d: F.vmap(T.nn.functional.dropout)(d(3, 2)), "randomness"),
    "requires_grad_": (lambda T, F, d: F.vmap(lambda x: x.requires_grad_())(d(3)), "requires_grad_"),
    "backward": (lambda T, F, d: F.vmap(functools.partial(backward_of, T))(d(3)), "backward"),
    "batch norm": (lambda T, F, d: F.vmap(functools.partial(normed, T))(d(3, 4, 2, dtype="float32")), "atch norm"),
    "functionalize": (lambda T, F, d: F.functionalize(double, remove="x")(d(3)), "remove"),
}


def backward_of(T, x):
    w = T.ones((), dtype=T.float64, requires_grad=True)
    (x * w).backward()
    return x


def normed(T, x):
    return T.nn.BatchNorm1d(2)(x)


@pytest.mark.parametrize("name", ERRORS)
def test_errors_are_pytorchs(name):
    program, words = ERRORS[name]
    with pytest.raises(Exception) as theirs, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        program(torch, torch.func, Data(torch))
    kind = next(k for k in type(theirs.value).__mro__ if k.__module__ == "builtins")
    with pytest.raises(kind, match=words):
        program(flambeau, flambeau.func, Data(flambeau))


def test_what_is_no_tensor_comes_out_of_vmap_where_out_dims_are_none():
    x = flambeau.ones(3)
    for chunk_size in (None, 2):
        out = flambeau.vmap(lambda x: (x, [1, None]), out_dims=(0, [None, None]), chunk_size=chunk_size)(x)
        assert out[0].shape == (3,) and out[1] == [1, None]
    with pytest.raises(ValueError, match="must only return Tensors"):
        flambeau.vmap(lambda x: (x, None))(x)


def test_chunks_share_the_same_draw():
    flambeau.manual_seed(0)
    out = flambeau.vmap(lambda x: flambeau.rand(2) + x, randomness="same", chunk_size=2)(flambeau.zeros(5, 2))
    flambeau.manual_seed(0)
    assert out.tolist() == flambeau.rand(2).expand(5, 2).tolist()


def test_a_gradient_is_of_a_real_number():
    with pytest.raises(RuntimeError, match="only for real scalar outputs"):
        flambeau.func.grad(lambda z: (z * z).sum())(flambeau.ones(2, dtype=flambeau.complex64))


def test_a_tensor_made_of_a_batched_one_is_a_copy():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        out = flambeau.vmap(lambda x: flambeau.tensor(x, dtype=flambeau.float64).mul_(2))(x := flambeau.ones(3, 2))
    assert out.tolist() == [[2.0, 2.0]] * 3 and out.dtype == flambeau.float64 and x.tolist() == [[1.0, 1.0]] * 3


NUMERICAL = {
    "a row set to zero": lambda h, x: (h * 1).index_fill(0, flambeau.tensor([1]), 0.0) * h,
    "slices": lambda h, x: flambeau.hypot(copied_slice(h), x),
    "solve": lambda h, x: flambeau.linalg.solve(h @ h.t() + flambeau.eye(3, dtype=h.dtype), x),
    "layer_norm": lambda h, x: flambeau.nn.functional.layer_norm(h, (3, 4), x, h),
    "det": lambda h, x: h * (flambeau.eye(3, dtype=h.dtype) + h[:, :3]).det(),
}


def copied_slice(h):
    h = h.clone()
    h[:2, 1:3] = h[1:, :2]
    return h


@pytest.mark.parametrize("name", NUMERICAL)
def test_second_forward_derivatives_are_those_of_finite_differences(name):
    """PyTorch's are wrong here: see docs/differences.md."""
    d = Data(flambeau)
    x, t, w = d(3, 4), d(3, 4), d(3, 4)
    f = lambda x: NUMERICAL[name](x, w)         # noqa: E731
    once = lambda x: flambeau.func.jvp(f, (x,), (t,))[1]        # noqa: E731
    second = flambeau.func.jvp(once, (x,), (t,))[1]
    step = 1e-4
    want = (f(x + step * t) - 2 * f(x) + f(x - step * t)) / step ** 2
    flambeau.testing.assert_close(second, want, rtol=1e-4, atol=1e-4)
    value, linear = flambeau.func.linearize(f, x)
    flambeau.testing.assert_close(linear(t), (f(x + step * t) - f(x - step * t)) / (2 * step), rtol=1e-5, atol=1e-5)
