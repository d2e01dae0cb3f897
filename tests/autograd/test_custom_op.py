"""`torch.library.custom_op`: operators of users, against PyTorch's."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import flambeau


def operators(library):
    """The same three operators in either library."""
    make = library.library.custom_op

    def scaled_sin(x, k=2.0):
        return library.from_numpy(np.sin(x.detach().numpy() * k))

    def pair(x, *, w=1):
        return x * 2, x.clone() * w

    def fill(x):
        x.numpy()[:] = 3

    make("flambeau_test::scaled_sin", scaled_sin, mutates_args=(), schema="(Tensor x, float k=2.0) -> Tensor")
    make("flambeau_test::pair", pair, mutates_args=(), schema="(Tensor x, *, int w=1) -> (Tensor, Tensor)")
    make("flambeau_test::fill", fill, mutates_args=["x"], schema="(Tensor(a0!) x) -> ()")
    return library.ops.flambeau_test


@pytest.fixture(params=[torch, flambeau], ids=["torch", "flambeau"])
def library(request):
    return request.param


def test_values_gradients_and_fake_results(library):
    ops, register = operators(library), library.library
    x = library.ones(2, dtype=library.float64, requires_grad=True)
    y = ops.scaled_sin(x)
    assert y.requires_grad
    with pytest.raises(RuntimeError, match="no autograd formula was registered"):
        y.sum().backward()
    seen = []

    def setup(ctx, inputs, output):
        seen.append(inputs[1])
        ctx.save_for_backward(inputs[0])
        ctx.k = inputs[1]

    def backward(ctx, g):
        return g * ctx.k * (ctx.saved_tensors[0] * ctx.k).cos(), None

    register.register_autograd("flambeau_test::scaled_sin", backward, setup_context=setup)
    ops.scaled_sin.default(x, k=3.0).sum().backward()
    np.testing.assert_allclose(x.grad.numpy(), 3 * np.cos(3.0) * np.ones(2))
    assert seen == [3.0]
    with library.no_grad():
        assert not ops.scaled_sin(x).requires_grad
    meta = library.ones(2, device="meta")
    with pytest.raises(RuntimeError, match="no fake impl registered"):
        ops.scaled_sin(meta)
    register.register_fake("flambeau_test::scaled_sin", lambda x, k=2.0: library.empty_like(x))
    assert ops.scaled_sin(meta).shape == (2,)
    with pytest.raises(RuntimeError, match="Expected a value of type 'Tensor' for argument 'x'"):
        ops.scaled_sin(3)


def test_keyword_only_arguments_and_several_results(library):
    pair = operators(library).pair
    kept = {}

    def setup(ctx, inputs, keyword_only_inputs, output):
        kept.update(keyword_only_inputs, n=len(inputs), outputs=len(output))
        ctx.w = keyword_only_inputs["w"]

    library.library.register_autograd("flambeau_test::pair", lambda ctx, a, b: a * 2 + b * ctx.w, setup_context=setup)
    x = library.ones(2, requires_grad=True)
    p, q = pair(x, w=3)
    (p + q).sum().backward()
    assert x.grad.tolist() == [5.0, 5.0]
    assert kept == {"w": 3, "n": 1, "outputs": 2}
    with pytest.raises(RuntimeError, match="positional argument"):
        pair(x, 3)


def test_writes_are_counted_and_exclude_a_derivative(library):
    fill = operators(library).fill
    x = library.ones(2)
    before = x._version
    fill(x)
    assert x.tolist() == [3.0, 3.0] and x._version > before
    with pytest.raises(RuntimeError, match="Cannot register autograd formula for non-functional operator"):
        library.library.register_autograd("flambeau_test::fill", lambda ctx: None)


def test_results_that_are_inputs_and_names_unknown_are_refused(library):
    same = library.library.custom_op("flambeau_test::same", lambda x: x, mutates_args=(), schema="(Tensor x) -> Tensor")
    with pytest.raises(RuntimeError, match="must not"):
        same(library.ones(2))
    with pytest.raises(RuntimeError, match="operator flambeau_test::none does not exist"):
        library.library.register_fake("flambeau_test::none", lambda x: x)
    with pytest.raises(AttributeError, match="nothing"):
        library.ops.flambeau_test.nothing  # noqa: B018


def test_schemas_are_read_from_annotations(library):
    T = library.Tensor

    def many(x: T, y: T | None, n: int, xs: list[T], *, s: str = "a", f: float = 0.5, d: bool = False) -> tuple[T, T]: ...
    def none(x: T) -> None: ...
    def bare(x): ...
    def no_result(x: T): ...
    def strange(x: set) -> T: ...

    for fn in (many, none, bare, no_result, strange):       # they are texts, and name a local
        fn.__annotations__ = {k: eval(v, {"T": T}) for k, v in fn.__annotations__.items()}
    schema = library.library.infer_schema
    assert schema(many, mutates_args={"x"}) == (
        '(Tensor(a0!) x, Tensor? y, SymInt n, Tensor[] xs, *, str s="a", float f=0.5, bool d=False) -> (Tensor, Tensor)')
    assert schema(none, mutates_args=()) == "(Tensor x) -> ()"
    for fn, words in ((bare, "type annotation"), (no_result, "No return type annotation"), (strange, "unsupported type")):
        with pytest.raises(ValueError, match=words):
            schema(fn, mutates_args=())
    with pytest.raises(ValueError, match="in mutates_args were not found"):
        schema(none, mutates_args={"y"})
