"""Derivatives at the points where they go wrong: zeros, ties, norms, masks, indices, complex numbers."""

from __future__ import annotations

import copy
import math

import pytest

import flambeau


def gradient(torch, fn, values, **kwargs):
    x = torch.tensor(values, requires_grad=True, **kwargs)
    fn(x).sum().backward()
    return x.grad


@pytest.mark.parametrize("values", [[2.0, 0.0, 3.0], [0.0, 0.0, 3.0], [0.0], [0.0, 0.0, 0.0]])
@pytest.mark.parametrize("name", ["prod", "cumprod"])
def test_products_with_zeros(both, name, values):
    def program(torch):
        def fn(x):
            return x.prod() if name == "prod" else x.cumprod(0)

        x = torch.tensor(values, requires_grad=True)
        (g,) = torch.autograd.grad(fn(x).sum(), x, create_graph=True)
        if g.requires_grad:                     # of one factor it is the constant 1
            g.sum().backward()
        return g, torch.zeros_like(x) if x.grad is None else x.grad

    both(program)


def test_ties_share_or_pick(both):
    values = [[1.0, 3.0, 3.0], [2.0, 2.0, 2.0]]

    def program(torch):
        fns = [lambda x: x.max(), lambda x: x.amax(1), lambda x: x.max(1).values, lambda x: torch.maximum(x[0], x[1]),
               lambda x: x.amin((0, 1)), lambda x: x.min(0).values,
               lambda x: torch.linalg.vector_norm(x, float("inf"), dim=1)]
        return [gradient(torch, fn, values) for fn in fns]

    both(program)


def test_norms_at_zero(both):
    def program(torch):
        rows = [[0.0, 0.0], [3.0, -4.0]]
        orders = (1, 2, 3, float("inf"))
        return ([gradient(torch, lambda x, p=p: torch.linalg.vector_norm(x, p, dim=1), rows) for p in orders],
                gradient(torch, lambda x: x.norm(), [0.0, 0.0]))

    both(program)
    g = gradient(flambeau, lambda x: (x * x).sum().sqrt(), [0.0, 0.0])
    assert all(math.isnan(v) for v in g.tolist())               # the norm knows what its parts do not


def test_selecting_before_a_division_and_after(both):
    def program(torch):
        d = [0.0, 2.0]
        safe = gradient(torch, lambda x: torch.where(x > 0, 1 / torch.where(x > 0, x, torch.ones(2)), x), d)
        late = gradient(torch, lambda x: torch.where(x > 0, 1 / x, torch.zeros(2)), d)
        return safe, [math.isnan(v) for v in late.tolist()]

    assert both(program)[1] == [True, False]


def test_gradients_of_writes_by_index(both):
    def program(torch):
        base, source = torch.zeros(4, requires_grad=True), torch.tensor([1.0, 2.0, 3.0], requires_grad=True)
        where = torch.tensor([0, 2, 0])
        weights = torch.arange(1.0, 5.0)
        found = []
        for fn in (lambda: base.index_put((where,), source, accumulate=True), lambda: base.index_add(0, where, source),
                   lambda: base.index_put((torch.tensor([3, 1, 0]),), source),
                   lambda: base.scatter_add(0, where, source), lambda: base.masked_scatter(
                       torch.tensor([True, False, True, True]), source)):
            base.grad = source.grad = None
            (fn() * weights).sum().backward()
            found.append((base.grad, source.grad))
        return found

    both(program)


def test_an_index_shorter_than_its_source_gives_the_rest_no_gradient():
    source = flambeau.ones(2, 4, requires_grad=True)
    index = flambeau.tensor([[0, 1]])
    (flambeau.zeros(3, 3).scatter_add(1, index, source)).sum().backward()
    assert source.grad.tolist() == [[1.0, 1.0, 0.0, 0.0], [0.0] * 4]


def test_complex_gradients_point_along_the_conjugate(both):
    def program(torch):
        fns = [lambda z: z.abs() ** 2, lambda z: (z * z).real, lambda z: z.angle(), lambda z: (z.conj() * z).real,
               lambda z: z.exp().imag]
        return [gradient(torch, fn, [1 + 2j, -0.5 + 1j]) for fn in fns] + [gradient(torch, lambda z: z.abs(), [0j])]

    found = both(program)
    assert found[0] == [pytest.approx(2 + 4j, rel=1e-6), pytest.approx(-1 + 2j, rel=1e-6)]


def test_adam_moves_rows_of_an_embedding_that_got_no_gradient(both):
    def program(torch):
        found = []
        for kind in (torch.optim.Adam, torch.optim.SGD):
            table = torch.nn.Embedding(3, 2)
            start = table.weight.detach().clone()
            optimizer = kind(table.parameters(), lr=0.1)
            for row in (0, 1, 1):
                optimizer.zero_grad()
                table(torch.tensor([row])).sum().backward()
                before = table.weight.detach().clone()
                optimizer.step()
            moved = (table.weight != before).any(1)
            found.append((moved, (table.weight[2] == start[2]).all()))
        return found

    assert both(program) == [[[True, True, False], True], [[False, True, False], True]]


def test_batch_norm_normalises_by_one_variance_and_tracks_the_other(both):
    def program(torch):
        x = torch.randn(4, 3) * 2 + 1
        layer, average = torch.nn.BatchNorm1d(3), torch.nn.BatchNorm1d(3, momentum=None)
        out = layer(x)
        average(x)
        average(x * 3)
        layer.eval()
        return (out.var(0, unbiased=False), layer.running_var, x.var(0) * 0.1 + 0.9, average.running_mean,
                average.running_var, layer(x))

    both(program)


def test_a_state_dict_is_live_and_its_copy_is_not(both):
    def program(torch):
        layer = torch.nn.Linear(1, 1, bias=False)
        live, copied = layer.state_dict(), copy.deepcopy(layer.state_dict())
        start = layer.weight.item()
        with torch.no_grad():
            layer.weight += 1
        followed = live["weight"].item() == layer.weight.item(), copied["weight"].item() == start
        layer.load_state_dict(copied)
        with torch.no_grad():
            layer.weight += 1
        return followed, copied["weight"].item() == start

    assert both(program) == [[True, True], True]


def test_optimizer_states_are_copied():
    p, q = (flambeau.nn.Parameter(flambeau.ones(2)) for _ in range(2))
    first, second = (flambeau.optim.SGD([x], lr=0.1, momentum=0.9) for x in (p, q))
    p.grad = flambeau.ones(2)
    first.step()
    second.load_state_dict(first.state_dict())
    before = second.state[q]["momentum_buffer"].tolist()
    first.step()
    assert second.state[q]["momentum_buffer"].tolist() == before != first.state[p]["momentum_buffer"].tolist()


def test_a_hook_after_accumulation_sees_the_whole_sum(both):
    def program(torch):
        w = torch.ones(2, requires_grad=True)
        seen = []
        w.register_post_accumulate_grad_hook(lambda p: seen.append(p.grad.clone()))
        ((w * 2).sum() + (w * w).sum()).backward()
        return seen

    assert both(program) == [[4.0, 4.0]]


def test_needs_input_grad_follows_what_is_asked(both):
    def program(torch):
        asked = []

        class Multiply(torch.autograd.Function):
            @staticmethod
            def forward(ctx, a, b):
                ctx.save_for_backward(a, b)
                return a * b

            @staticmethod
            def backward(ctx, g):
                a, b = ctx.saved_tensors
                asked.append(ctx.needs_input_grad)
                return g * b if ctx.needs_input_grad[0] else None, g * a if ctx.needs_input_grad[1] else None

        a, b = torch.ones(2), torch.full((2,), 3.0, requires_grad=True)
        Multiply.apply(a, b).sum().backward()
        Multiply.apply(b, a).sum().backward()
        return asked, a.grad, b.grad

    both(program)
