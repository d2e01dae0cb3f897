"""autograd.Function against torch: both styles, contracts of in-place, views and constants, errors, double backward."""

from __future__ import annotations

import warnings
import weakref

import pytest

import flambeau


def square(T):
    class Square(T.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x * x

        @staticmethod
        def backward(ctx, g):
            (x,) = ctx.saved_tensors
            return g * 2 * x

    return Square


def test_gradient_and_second_gradient(agree):
    def fn(T):
        x = T.tensor([1.0, -3.0], requires_grad=True)
        y = (square(T).apply(x) * x).sum()
        (g,) = T.autograd.grad(y, x, create_graph=True)
        (h,) = T.autograd.grad(g.sum(), x)
        return y, g, h

    agree(fn)


def test_setup_context_style_with_defaults_and_keywords(agree):
    def fn(T):
        class Scale(T.autograd.Function):
            @staticmethod
            def forward(x, factor=3.0):
                return x * factor

            @staticmethod
            def setup_context(ctx, inputs, output):
                x, ctx.factor = inputs

            @staticmethod
            def backward(ctx, g):
                return g * ctx.factor, None

        x = T.tensor([1.0, 2.0], requires_grad=True)
        (Scale.apply(x) + Scale.apply(x, factor=5.0)).sum().backward()
        return x.grad

    agree(fn)


def test_keywords_count_as_positions(agree):
    def fn(T):
        seen = []

        class Scale(T.autograd.Function):
            @staticmethod
            def forward(ctx, x, factor=2.0):
                ctx.factor = factor
                seen.append(ctx.needs_input_grad)
                return x * factor

            @staticmethod
            def backward(ctx, g):
                return (g * ctx.factor, None)[: len(ctx.needs_input_grad)]

        x = T.tensor([1.0], requires_grad=True)
        (Scale.apply(x=x) + Scale.apply(x, factor=5.0)).sum().backward()
        return x.grad, seen

    agree(fn)


def test_names_and_types(agree):
    def fn(T):
        x = T.tensor([1.0], requires_grad=True)
        y = square(T).apply(x)
        f = y.grad_fn
        return [f.name(), type(f).__name__, [n.name() for n, _ in f.next_functions], isinstance(f, T.autograd.graph.Node),
                f.saved_tensors[0], f.needs_input_grad, y.output_nr]

    agree(fn)


def test_several_outputs_with_none_numbers_and_integers(agree):
    def fn(T):
        seen = []

        class Many(T.autograd.Function):
            @staticmethod
            def forward(ctx, x, k):
                return x * 2, None, 5, T.tensor([1]), x * k

            @staticmethod
            def backward(ctx, *g):
                seen.append([None if y is None else y.tolist() for y in g])
                return g[0] * 2 + g[4] * 3, None

        x = T.tensor([1.0, 2.0], requires_grad=True)
        a, none, five, number, b = Many.apply(x, 3.0)
        (a * T.tensor([1.0, 10.0])).sum().backward()
        return x.grad, none, five, number.requires_grad, b.requires_grad, a.output_nr, b.output_nr, seen

    agree(fn)


def test_materialize_grads_off_gives_none(agree):
    def fn(T):
        seen = []

        class Two(T.autograd.Function):
            @staticmethod
            def forward(ctx, x):
                ctx.set_materialize_grads(False)
                return x * 2, x * 3

            @staticmethod
            def backward(ctx, a, b):
                seen.append((a is None, b is None))
                return a * 2

        x = T.tensor([1.0], requires_grad=True)
        Two.apply(x)[0].sum().backward()
        return x.grad, seen

    agree(fn)


def test_mark_non_differentiable(agree):
    def fn(T):
        class Split(T.autograd.Function):
            @staticmethod
            def forward(ctx, x):
                a, b = x * 2, x * 3
                ctx.mark_non_differentiable(b)
                return a, b

            @staticmethod
            def backward(ctx, a, b):
                return a * 2 + b

        x = T.tensor([1.0], requires_grad=True)
        a, b = Split.apply(x)
        a.sum().backward()
        return x.grad, a.requires_grad, b.requires_grad, b.grad_fn is None

    agree(fn)


def dirty(T):
    class Double(T.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            x.mul_(2.0)
            ctx.mark_dirty(x)
            return x

        @staticmethod
        def backward(ctx, g):
            return g * 2.0

    return Double


def test_dirty_input_is_returned_itself(agree):
    def fn(T):
        leaf = T.tensor([1.0, 2.0], requires_grad=True)
        z = leaf * 1
        before = z._version
        y = dirty(T).apply(z)
        y.sum().backward()
        plain = T.tensor([1.0])
        return y is z, leaf.grad, y, z.grad_fn.name(), z._version > before, dirty(T).apply(plain) is plain

    agree(fn)


def test_dirty_view_rewrites_the_base(agree):
    def fn(T):
        leaf = T.tensor([1.0, 2.0, 3.0], requires_grad=True)
        base = leaf * 1
        view = base[1:]
        out = dirty(T).apply(view)
        (base * T.tensor([1.0, 10.0, 100.0])).sum().backward()
        return leaf.grad, base, out is view, base.grad_fn.name()

    agree(fn)


def test_dirty_leaf_is_refused(agree):
    agree(lambda T: dirty(T).apply(T.tensor([1.0], requires_grad=True)), "leaf Variable that requires "
                                                                         "grad", "in-place operation")


def test_dirty_input_not_returned_is_refused(agree):
    def fn(T):
        class Forgets(T.autograd.Function):
            @staticmethod
            def forward(ctx, x):
                ctx.mark_dirty(x)
                return x * 1

            @staticmethod
            def backward(ctx, g):
                return g

        Forgets.apply(T.tensor([1.0], requires_grad=True) * 1)

    agree(fn, "dirty")


def test_input_returned_as_is_becomes_a_view(agree):
    def fn(T):
        class Same(T.autograd.Function):
            @staticmethod
            def forward(ctx, x):
                return x

            @staticmethod
            def backward(ctx, g):
                return g * 5

        x = T.tensor([1.0, 2.0], requires_grad=True)
        y = Same.apply(x)
        y.sum().backward()
        with T.no_grad():
            quiet = Same.apply(x)
        return y is x, y._base is x, y.grad_fn.name(), x.grad, quiet is x, quiet.requires_grad, x.is_leaf

    agree(fn)


def test_writing_to_a_returned_view_is_refused(agree):
    def fn(T):
        class First(T.autograd.Function):
            @staticmethod
            def forward(ctx, x):
                return x[0]

            @staticmethod
            def backward(ctx, g):
                return T.stack([g, g])

        x = T.tensor([1.0, 2.0], requires_grad=True) * 1
        First.apply(x).mul_(2)

    agree(fn, "is a view and is being modified inplace", "custom")


@pytest.mark.parametrize("returned, words", [
    (lambda T, g: (g, g, g), ("incorrect number of gradients", "expected 2", "got 3")),
    (lambda T, g: g, ("incorrect number of gradients", "expected 2", "got 1")),
    (lambda T, g: (g, g), ("different than None at position 2",)),
    (lambda T, g: (3, None), ("expected Variable or None (got int)",)),
    (lambda T, g: (T.tensor([1.0] * 5), None), ("invalid gradient at index 0", "[5]", "[2]")),
    (lambda T, g: (g, None, None, None), ()),
])
def test_wrong_gradients_name_the_function(agree, returned, words):
    def fn(T):
        class Bad(T.autograd.Function):
            @staticmethod
            def forward(ctx, x, k):
                return x * k

            @staticmethod
            def backward(ctx, g):
                return returned(T, g)

        x = T.tensor([1.0, 2.0], requires_grad=True)
        Bad.apply(x, 2.0).sum().backward()
        return x.grad

    result = agree(fn, *words)
    assert not words or "expected Variable" in words[0] or "BadBackward" in result[2]


def test_saving_something_else_is_refused(agree):
    def fn(T):
        class Bad(T.autograd.Function):
            @staticmethod
            def forward(ctx, x):
                ctx.save_for_backward(x, 3)
                return x * 1

            @staticmethod
            def backward(ctx, g):
                return g

        Bad.apply(T.tensor([1.0], requires_grad=True))

    agree(fn, "save_for_backward can only save variables, but argument 1 is of type int")


def test_missing_methods(agree):
    def forward_missing(T):
        class Empty(T.autograd.Function):
            pass

        Empty.apply(T.tensor(1.0))

    def backward_missing(T):
        class Half(T.autograd.Function):
            @staticmethod
            def forward(ctx, x):
                return x * 1

        Half.apply(T.tensor(1.0, requires_grad=True)).backward()

    agree(forward_missing, "must implement the forward")
    agree(backward_missing, "neither backward nor vjp")


def test_second_backward_and_freed_saved_tensors(agree):
    def twice(T):
        x = T.tensor([1.0], requires_grad=True)
        y = square(T).apply(x).sum()
        y.backward()
        y.backward()

    def read(T):
        x = T.tensor([1.0], requires_grad=True)
        y = square(T).apply(x)
        y.sum().backward()
        return y.grad_fn.saved_tensors

    agree(twice, "second time")
    agree(read, "second time")


def test_saved_tensor_changed_in_place_is_refused(agree):
    def fn(T):
        x = T.tensor([1.0], requires_grad=True) * 1
        y = square(T).apply(x)
        x.mul_(2)
        y.sum().backward()

    agree(fn, "modified by an inplace operation", "version")


def test_saved_output_and_double_backward(agree):
    def fn(T):
        class Inverse(T.autograd.Function):
            @staticmethod
            def forward(ctx, x):
                y = 1 / x
                ctx.save_for_backward(y)
                return y

            @staticmethod
            def backward(ctx, g):
                (y,) = ctx.saved_tensors
                return -g * y * y

        x = T.tensor([2.0, 4.0], dtype=T.float64, requires_grad=True)
        (g,) = T.autograd.grad(Inverse.apply(x).sum(), x, create_graph=True)
        (h,) = T.autograd.grad(g.sum(), x, create_graph=True)
        (k,) = T.autograd.grad(h.sum(), x)
        return g, h, k

    agree(fn)


def test_intermediate_saved_warns_in_double_backward():
    T = flambeau

    class Fourth(T.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            t = x * 2
            ctx.save_for_backward(t)
            return t * t

        @staticmethod
        def backward(ctx, g):
            (t,) = ctx.saved_tensors
            return g * 4 * t

    x = T.tensor(3.0, requires_grad=True)
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        Fourth.apply(x).backward()
        assert not seen, "an ordinary backward is right"
        T.autograd.grad(Fourth.apply(x), x, create_graph=True)
    assert "FourthBackward" in str(seen[0].message) and "intermediate" in str(seen[0].message)


def test_once_differentiable(agree):
    def fn(T):
        class Once(T.autograd.Function):
            @staticmethod
            def forward(ctx, x):
                ctx.save_for_backward(x)
                return x * x

            @staticmethod
            @T.autograd.function.once_differentiable
            def backward(ctx, g):
                return g * 2 * ctx.saved_tensors[0]

        x = T.tensor([3.0], requires_grad=True)
        Once.apply(x).sum().backward()
        first = x.grad.tolist()
        (g,) = T.autograd.grad(Once.apply(x).sum(), x, T.tensor(1.0, requires_grad=True), create_graph=True)
        try:
            g.sum().backward()
        except RuntimeError as error:
            return first, g, "once_differentiable" in str(error)

    agree(fn)


def test_user_attributes_do_not_meet_the_engine(agree):
    def fn(T):
        class Named(T.autograd.Function):
            @staticmethod
            def forward(ctx, x):
                ctx.shape, ctx.n, ctx.op, ctx.extra, ctx.params, ctx.out, ctx.seq = x.shape, 7, "op", [1], (), None, -1
                ctx.e0 = ctx.s0 = ctx.freed = ctx.more = "mine"
                return x.reshape(-1) * 2

            @staticmethod
            def backward(ctx, g):
                assert (ctx.n, ctx.op, ctx.extra, ctx.freed, ctx.seq) == (7, "op", [1], "mine", -1)
                return g.reshape(ctx.shape) * 2

        x = T.tensor([[1.0, 2.0]], requires_grad=True)
        Named.apply(x).sum().backward()
        return x.grad

    agree(fn)


def test_nested_functions_and_enable_grad_inside_forward(agree):
    def fn(T):
        Square = square(T)

        class Outer(T.autograd.Function):
            @staticmethod
            def forward(ctx, x):
                with T.enable_grad():
                    inner = x.detach().requires_grad_()
                    ctx.result = Square.apply(inner) * inner
                ctx.inner = inner
                return ctx.result.detach()

            @staticmethod
            def backward(ctx, g):
                with T.enable_grad():
                    return T.autograd.grad(ctx.result, ctx.inner, g)[0]

        x = T.tensor([2.0], requires_grad=True)
        Outer.apply(x).sum().backward()
        return x.grad

    agree(fn)


def test_backward_returning_its_saved_tensor_does_not_share_grad(agree):
    def fn(T):
        class Keeps(T.autograd.Function):
            @staticmethod
            def forward(ctx, x, w):
                ctx.save_for_backward(w)
                return x * w

            @staticmethod
            def backward(ctx, g):
                return ctx.saved_tensors[0], None

        x, w = T.tensor([1.0], requires_grad=True), T.tensor([5.0])
        Keeps.apply(x, w).sum().backward()
        x.grad.mul_(100)
        return w, x.grad

    agree(fn)


def test_version_and_hooks_apply_to_saved_tensors(agree):
    def fn(T):
        packed = []

        def pack(t):
            packed.append(t.tolist())
            return len(packed) - 1

        def unpack(i):
            return T.tensor(packed[i])

        x = T.tensor([3.0], requires_grad=True)
        with T.autograd.graph.saved_tensors_hooks(pack, unpack):
            y = square(T).apply(x)
        y.sum().backward()
        return x.grad, packed

    agree(fn)


@pytest.mark.usefixtures("no_collector")
def test_graphs_with_functions_die_by_reference_counts():
    T = flambeau

    class Both(T.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            y = x * 2
            ctx.save_for_backward(x, y)
            ctx.y_shape = y.shape
            return y

        @staticmethod
        def backward(ctx, g):
            return g * 2

    class Canary:
        pass

    w = T.tensor([1.0], requires_grad=True)
    for walked in (False, True):
        h = w * 3
        y = Both.apply(h)
        canary = Canary()
        y.grad_fn.metadata["canary"] = canary
        alive = weakref.ref(canary)
        h.mul_(y.detach())           # a younger node: a tensor kept by the Function would close a cycle
        z = y.sum()
        if walked:
            z.backward()
        del canary, h, y, z
        assert alive() is None
