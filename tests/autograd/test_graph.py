"""Nodes as users see them, gradient edges, saved-tensor hooks, hooks over several tensors: against torch."""

from __future__ import annotations

import weakref

import pytest
import torch

import flambeau


def test_walk_names_numbers_and_variables(agree):
    def fn(T):
        x = T.tensor([1.0, 2.0], requires_grad=True)
        c = T.tensor([3.0, 4.0])
        y = ((x * c) + x).sum()
        lines, seen, stack = [], set(), [(y.grad_fn, 0)]
        while stack:
            f, depth = stack.pop()
            if f is None or f in seen:
                continue
            seen.add(f)
            is_leaf = hasattr(f, "variable")
            lines.append((depth, type(f).__name__, f.name(), is_leaf and f.variable is x, [n for _, n in f.next_functions]))
            stack += [(g, depth + 1) for g, _ in f.next_functions]
        return lines

    agree(fn)


def test_identity_of_nodes(agree):
    def fn(T):
        x = T.tensor([1.0], requires_grad=True)
        y = x * x
        a = y.grad_fn.next_functions[0][0]
        return (y.grad_fn is y.grad_fn, a is y.grad_fn.next_functions[1][0], a.variable is x, a.next_functions == (),
                isinstance(a, T.autograd.graph.Node), isinstance(y.grad_fn, T.autograd.graph.Node),
                (x + 1).grad_fn.next_functions[0][0] is a, isinstance(3, T.autograd.graph.Node))

    agree(fn)


def test_saved_attributes(agree):
    def fn(T):
        x, w = T.tensor([1.0, 2.0], requires_grad=True), T.tensor([3.0, 4.0])
        y = x * w
        out = [y.grad_fn._saved_other, y.grad_fn._saved_self, hasattr(y.grad_fn, "_saved_nothing")]
        e = y.exp()
        out += [e.grad_fn._saved_result, e.grad_fn._saved_result.grad_fn is e.grad_fn]
        s = x.sum(0)
        out += [hasattr(s.grad_fn, "_saved_other")]
        return out

    agree(fn)


def test_saved_attributes_after_free(agree):
    def fn(T):
        x = T.tensor([1.0], requires_grad=True)
        y = x * x
        y.sum().backward()
        return y.grad_fn._saved_self

    agree(fn, "second time")


def test_raw_saved_register_hooks(agree):
    def fn(T):
        x = T.tensor([2.0], requires_grad=True)
        y = x * T.tensor([3.0])
        kept = []
        y.grad_fn._raw_saved_other.register_hooks(lambda t: kept.append(t) or 0, lambda i: kept[i] * 10)
        y.sum().backward()
        return x.grad, len(kept)

    agree(fn)


def test_node_hooks_and_prehooks_order_and_values(agree):
    def fn(T):
        log = []
        x = T.tensor([1.0, 2.0], requires_grad=True)
        y = x * 3
        y.register_hook(lambda g: log.append(("tensor", g.tolist())))
        y.grad_fn.register_prehook(lambda g: log.append(("pre", g[0].tolist())) or (g[0] * 2,))
        y.grad_fn.register_hook(lambda gi, go: log.append(("post", gi[0].tolist(), go[0].tolist())) or (gi[0] * 10, *gi[1:]))
        h = y.grad_fn.register_hook(lambda gi, go: log.append("removed"))
        h.remove()
        y.retain_grad()
        x.register_hook(lambda g: log.append(("leaf", g.tolist())))
        x.register_post_accumulate_grad_hook(lambda t: log.append(("post acc", t.grad.tolist())))
        a = y.grad_fn.next_functions[0][0]
        a.register_prehook(lambda g: log.append(("acc pre", g[0].tolist())))
        a.register_hook(lambda gi, go: log.append(("acc", len(gi), go[0].tolist())))
        y.sum().backward()
        return log, x.grad, y.grad

    agree(fn)


def test_hooks_run_in_torchs_order_over_a_graph(agree):
    def fn(T):
        log = []

        def watch(t, name):
            t.register_hook(lambda g: log.append((name, g.tolist())))
            return t

        a = watch(T.tensor([1.0], requires_grad=True), "a")
        b = watch(T.tensor([2.0], requires_grad=True), "b")
        c = watch(a * b, "c")
        d = watch(c + a, "d")
        e = watch(d * c, "e")
        f = watch(b * 2, "f")
        (e + f).sum().backward()
        return log, a.grad, b.grad

    agree(fn)


def test_hook_on_later_version_of_tensor(agree):
    def fn(T):
        log = []
        x = T.tensor([1.0], requires_grad=True)
        y = x * 2
        y.register_hook(lambda g: log.append(("old", g.tolist())))
        y.mul_(5)
        y.register_hook(lambda g: log.append(("new", g.tolist())))
        y.sum().backward()
        return log, x.grad

    agree(fn)


def test_gradient_edges(agree):
    def fn(T):
        x = T.tensor([3.0], requires_grad=True)
        y = x * x
        edge = T.autograd.graph.get_gradient_edge(y)
        leaf = T.autograd.graph.get_gradient_edge(x)
        z = (y * 2).sum()
        del y
        (gy,) = T.autograd.grad(z, edge, retain_graph=True)
        (gx,) = T.autograd.grad(z, leaf, retain_graph=True)
        (direct,) = T.autograd.grad(edge, x, T.tensor([5.0]), retain_graph=True)
        T.autograd.backward(edge, T.tensor([7.0]))
        return gy, gx, direct, x.grad, edge.output_nr, leaf.node.name()

    agree(fn)
    agree(lambda T: T.autograd.graph.get_gradient_edge(T.tensor([1.0])), "gradient edge")


def test_increment_version(agree):
    def fn(T):
        x = T.tensor([1.0], requires_grad=True) * 1
        y = x * x
        T.autograd.graph.increment_version(x)
        y.sum().backward()

    agree(fn, "modified by an inplace operation")


def test_saved_tensors_hooks_pack_and_unpack(agree):
    def fn(T):
        log = []

        def pack(t):
            log.append(("pack", t.tolist()))
            return t.tolist()

        def unpack(v):
            log.append(("unpack", v))
            return T.tensor(v)

        x = T.tensor([2.0, 3.0], requires_grad=True)
        with T.autograd.graph.saved_tensors_hooks(pack, unpack):
            y = x * x
            z = y.exp()
        w = z * z                         # outside: not packed
        w.sum().backward()
        return log, x.grad

    agree(fn)


def test_pack_hooks_record_nothing_and_derivatives_go_on(agree):
    def fn(T):
        modes = []

        def pack(t):
            modes.append(T.is_grad_enabled())
            return t.numpy().copy()

        x = T.tensor([[1.0, 2.0], [3.0, 4.0]], requires_grad=True)
        with T.autograd.graph.saved_tensors_hooks(pack, T.from_numpy):
            (g,) = T.autograd.grad((x.exp() * x @ x).sum(), x, create_graph=True)
        (h,) = T.autograd.grad(g.sum(), x)
        node = x.exp().grad_fn
        node._raw_saved_result.register_hooks(lambda t: modes.append(T.is_grad_enabled()) or t, lambda t: t)
        return g, h, set(modes), T.is_grad_enabled()

    agree(fn)


def test_inner_saved_tensors_hooks_win(agree):
    def fn(T):
        log = []
        x = T.tensor([2.0], requires_grad=True)
        with T.autograd.graph.saved_tensors_hooks(lambda t: log.append("outer") or t, lambda t: t):
            with T.autograd.graph.saved_tensors_hooks(lambda t: log.append("inner") or t, lambda t: t):
                y = x * x
            z = y * y
        z.sum().backward()
        return log, x.grad

    agree(fn)


def test_double_backward_through_hooks(agree):
    def fn(T):
        x = T.tensor([2.0], requires_grad=True)
        with T.autograd.graph.saved_tensors_hooks(lambda t: t * 1, lambda t: t):
            y = x * x * x
        (g,) = T.autograd.grad(y.sum(), x, create_graph=True)
        (h,) = T.autograd.grad(g.sum(), x)
        return g, h

    agree(fn)


def test_bad_hooks_are_refused(agree):
    def writes(T):
        x = T.tensor([2.0], requires_grad=True) * 1
        with T.autograd.graph.saved_tensors_hooks(lambda t: t.detach().mul_(2), lambda t: t):
            x * x

    def no_tensor(T):
        x = T.tensor([2.0], requires_grad=True)
        with T.autograd.graph.saved_tensors_hooks(lambda t: t, lambda t: 5):
            y = x * x
        y.sum().backward()

    agree(writes, "pack hook is modifying its input in place")
    agree(no_tensor, "Output of saved tensor unpack_hook")


def test_disable_saved_tensors_hooks(agree):
    def fn(T):
        with T.autograd.graph.disable_saved_tensors_hooks("not here"):
            x = T.tensor([2.0], requires_grad=True)
            (x * x).sum().backward()
            with T.autograd.graph.saved_tensors_hooks(lambda t: t, lambda t: t):
                pass

    agree(fn, "not here")


def test_save_on_cpu(agree):
    def fn(T):
        x = T.tensor([2.0], requires_grad=True)
        with T.autograd.graph.save_on_cpu(pin_memory=False):
            y = (x * x).exp()
        y.sum().backward()
        return x.grad

    agree(fn)


def test_allow_mutation_on_saved_tensors(agree):
    def fn(T):
        a = T.tensor([2.0, 3.0])
        b = T.tensor([1.0, 1.0], requires_grad=True)
        with T.autograd.graph.allow_mutation_on_saved_tensors():
            out = (b * a).sum()
            a.mul_(100)
            c = b.exp()
            d = (c * c).sum()
            c.mul_(0.5)
            (out + d).backward()
        return b.grad, a

    agree(fn)


@pytest.mark.parametrize("mode", ["all", "any"])
def test_multi_grad_hooks(agree, mode):
    def fn(T):
        log = []
        a, b, c, unused = (T.tensor([float(i)], requires_grad=True) for i in range(1, 5))
        keep = lambda g: log.append(  # noqa: E731
            [None if x is None else x.tolist() for x in g] if mode == "all" else g.tolist())
        h = T.autograd.graph.register_multi_grad_hook((a, b, c, unused), keep, mode=mode)
        (a * b + c).sum().backward()
        (a * 5).sum().backward()
        h.remove()
        (a * 7).sum().backward()
        return log

    agree(fn)


def test_multi_grad_hook_of_an_unknown_mode(agree):
    agree(lambda T: T.autograd.graph.register_multi_grad_hook((), lambda g: None, mode="some"), "Expects mode")


def test_origin_of_a_node():
    x = flambeau.tensor([1.0], requires_grad=True)
    y = x * 2  # the line
    assert "test_graph.py" in y.grad_fn.where and "y = x * 2  # the line" in y.grad_fn.where


@pytest.mark.usefixtures("no_collector")
def test_looking_at_a_graph_does_not_keep_it():
    x = flambeau.tensor([1.0], requires_grad=True)
    y = x * x
    a = y.grad_fn.next_functions[0][0]
    alive = weakref.ref(a)

    class Canary:
        pass

    y.grad_fn.metadata["canary"] = Canary()
    other = weakref.ref(y.grad_fn.metadata["canary"])
    del a
    assert alive() is None
    del y
    assert other() is None
    leaf = weakref.ref(x)
    z = x.exp()
    z.grad_fn.next_functions[0][0].register_hook(lambda gi, go: None)
    del x, z
    assert leaf() is None


def test_post_accumulate_hooks_are_called_when_no_gradient_comes():
    for library in (flambeau, torch):
        class Nothing(library.autograd.Function):
            @staticmethod
            def forward(ctx, x):
                return x * 2

            @staticmethod
            def backward(ctx, g):
                return None

        seen = []
        x = library.ones(2, requires_grad=True)
        x.register_post_accumulate_grad_hook(lambda p, seen=seen: seen.append(p.grad))
        Nothing.apply(x).sum().backward()
        assert seen == [None]
