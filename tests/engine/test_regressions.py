"""Rules of the engine that random programs once found broken."""

from __future__ import annotations

import pytest
import torch as pytorch

import flambeau

BOTH = pytest.mark.parametrize("torch", [flambeau, pytorch], ids=["flambeau", "pytorch"])


@BOTH
def test_a_write_into_integers_does_not_join_the_graph(torch):
    x = torch.ones(3, requires_grad=True)
    for write in (lambda i: i.copy_(x), lambda i: i.__setitem__(slice(None), x)):
        i = torch.zeros(3, dtype=torch.int64)
        write(i)
        assert i.tolist() == [1, 1, 1]
        assert torch is pytorch or not i.requires_grad  # PyTorch marks it where the write goes through a view


@BOTH
@pytest.mark.parametrize(
    "write",
    [
        lambda t: t.zeros(2, dtype=t.uint8).fill_(300),
        lambda t: t.zeros(2, dtype=t.uint8).fill_(-1.5),
        lambda t: t.zeros(2, dtype=t.int64).fill_(1e30),
        lambda t: t.zeros(2, dtype=t.float16).fill_(1e30),
        lambda t: t.zeros(2, dtype=t.uint8).masked_fill(t.tensor([True, False]), 300),
        lambda t: t.zeros(2, dtype=t.uint8).scatter(0, t.tensor([0]), 300),
        lambda t: t.zeros(2, dtype=t.uint8).index_fill(0, t.tensor([0]), -1.5),
        lambda t: t.zeros(2, dtype=t.uint8).__setitem__(0, 300),
        lambda t: t.full((2,), 1e39, dtype=t.float32),
        lambda t: t.where(t.tensor([True, False]), t.zeros(2, dtype=t.uint8), 300),
        lambda t: t.zeros(2, dtype=t.uint8).clamp(-5, 300),
    ],
)
def test_numbers_that_a_dtype_cannot_hold_are_refused(torch, write):
    with pytest.raises(RuntimeError, match="without overflow"):
        write(torch)


@BOTH
def test_negative_integers_wrap_around_and_infinities_fit(torch):
    assert torch.zeros(1, dtype=torch.uint8).fill_(-1).tolist() == [255]
    assert torch.full((1,), -1, dtype=torch.uint8).tolist() == [255]
    assert torch.zeros(1, dtype=torch.float16).fill_(float("inf")).tolist() == [float("inf")]


@BOTH
def test_a_view_transposed_in_no_grad_mode_keeps_its_gradient_right(torch):
    x = torch.arange(6.0).reshape(2, 3).requires_grad_()
    y = x * 1.0
    v = y[None]
    with torch.no_grad():
        v.transpose_(0, -1)
    assert tuple(v.shape) == (3, 2, 1)
    (v * 2).sum().backward()
    assert x.grad.tolist() == [[2.0] * 3] * 2


@BOTH
def test_a_leaf_that_no_longer_requires_grad_gets_none(torch):
    x, w = torch.ones(2, requires_grad=True), torch.ones(2, requires_grad=True)
    y = (x * w).sum()
    x.requires_grad_(False)
    y.backward()
    assert x.grad is None
    assert w.grad.tolist() == [1.0, 1.0]


@BOTH
def test_a_leaf_written_into_the_graph_is_an_error(torch):
    x, w = torch.ones(2, requires_grad=True), torch.ones(2, requires_grad=True)
    y = x * 2
    x.requires_grad_(False)
    x.mul_(w)
    with pytest.raises(RuntimeError, match="moved into the graph interior"):
        y.sum().backward()


@BOTH
def test_inputs_may_be_views_without_history(torch):
    x = torch.ones(3, requires_grad=True)
    with torch.no_grad():
        v = x[1:]
    y = (x * 2).sum()
    y.backward(inputs=[v], retain_graph=True)
    assert x.grad is None
    assert torch.autograd.grad(y, v, allow_unused=True) == (None,)


@BOTH
def test_hooks_of_the_nodes_of_inputs_run(torch):
    x = torch.ones(3, requires_grad=True)
    y = x * 2
    seen = []
    y.grad_fn.register_hook(lambda gi, go: seen.append(go[0].tolist()))
    (y * 3).sum().backward(inputs=[y])
    assert seen == [[3.0, 3.0, 3.0]]
    assert y.grad.tolist() == [3.0, 3.0, 3.0]


@BOTH
def test_hooks_see_no_gradient_of_index_outputs(torch):
    x = torch.tensor([3.0, 1.0, 2.0], requires_grad=True)
    values, _ = x.topk(2)
    seen = []
    values.grad_fn.register_hook(lambda gi, go: seen.append((len(gi), len(go))))
    values.grad_fn.register_prehook(lambda go: (go[0] * 2,))
    values.sum().backward()
    assert seen == [(1, 1)]
    assert x.grad.tolist() == [2.0, 0.0, 2.0]


@BOTH
def test_writes_by_index_refuse_their_own_memory(torch):
    x = torch.arange(3.0)
    for write in (lambda: x.index_put_((torch.tensor([0]),), x[1:2]), lambda: x.__setitem__(torch.tensor([0, 1]), x[1:])):
        with pytest.raises(RuntimeError, match="single memory location"):
            write()
    assert x.tolist() == [0.0, 1.0, 2.0]


@BOTH
def test_alpha_meets_the_dtype_of_the_result(torch):
    assert torch.add(torch.ones(2), torch.ones(2, dtype=torch.uint8), alpha=1.5).tolist() == [2.5, 2.5]
    assert torch.rsub(torch.ones(2), 3, alpha=2).tolist() == [1.0, 1.0]
    with pytest.raises(RuntimeError, match="alpha must not be a floating point"):
        torch.add(torch.ones(2, dtype=torch.int32), torch.ones(2, dtype=torch.uint8), alpha=1.5)


@BOTH
@pytest.mark.parametrize(
    "call", [lambda t: t.tensor([1j]).relu(), lambda t: t.tensor([1j]).relu_(), lambda t: t.tensor([1j]).clamp_(0, 1)]
)
def test_complex_numbers_have_no_order_in_place_either(torch, call):
    with pytest.raises(NotImplementedError):
        call(torch)


@BOTH
@pytest.mark.parametrize("name", ["cumsum", "cumprod", "logcumsumexp", "softmax", "log_softmax"])
def test_results_of_transposed_inputs_are_contiguous_where_pytorchs_are(torch, name):
    x = torch.arange(6.0).reshape(2, 3).t()
    assert getattr(x, name)(1).is_contiguous()
    assert getattr(x, name)(1).view(-1).numel() == 6
    assert x.exp().stride() == (1, 3)  # pointwise operators keep the order


@BOTH
@pytest.mark.parametrize(
    "call",
    [
        lambda x: x.amax("x"),
        lambda x: x.mean("x"),
        lambda x: x.sum(1.5),
        lambda x: x.transpose(True, 0),
        lambda x: x.view("x"),
        lambda x: x.softmax([0.5]),
        lambda x: x.unsqueeze(x),
        lambda x: x.cumsum("x"),
    ],
)
def test_dims_that_are_no_integers_raise_type_error(torch, call):
    with pytest.raises(TypeError):
        call(torch.ones(2, 3))


def test_data_replaced_after_the_forward_leaves_saved_values_as_they_were():
    for create in (False, True):
        x = flambeau.tensor([1.0, 2.0], requires_grad=True)
        y = (x * x).sum()
        x.data = flambeau.tensor([10.0, 20.0])
        (g,) = flambeau.autograd.grad(y, x, create_graph=create)
        assert g.tolist() == [2.0, 4.0]
        if create:
            (h,) = flambeau.autograd.grad(g.sum(), x)
            assert h.tolist() == [2.0, 2.0]


def test_the_third_derivative_of_layer_norm_is_that_of_its_definition():
    def third(norm):
        x = flambeau.tensor([[0.3, -0.2, 0.5], [0.1, 0.9, -0.4]], dtype=flambeau.float64, requires_grad=True)
        y = norm(x).sin().sum()
        for _ in range(3):
            (g,) = flambeau.autograd.grad(y, x, create_graph=True)
            y = g.sin().sum()
        return g

    def defined(x):
        centred = x - x.mean(-1, keepdim=True)
        return centred / ((centred**2).mean(-1, keepdim=True) + 1e-5).sqrt()

    flambeau.testing.assert_close(third(lambda x: flambeau.nn.functional.layer_norm(x, (3,))), third(defined))


@pytest.mark.parametrize("write", [lambda v, t: v.masked_fill_(t.tensor([True, False]), 0.0), lambda v, t: v.clamp_(min=0.0),
                                   lambda v, t: v.mul_(1.0), lambda v, t: v.tril_()])
@pytest.mark.parametrize("through", ["view", "base"])
def test_a_hook_on_a_view_does_not_see_the_gradient_of_what_is_written_later(write, through):
    found = []
    for t in (pytorch, flambeau):
        x = t.ones(3, 2, requires_grad=True)
        y = x * 1
        v = y[:2]
        v.register_hook(lambda g: g * 2)
        write(v, t)
        (v * 1 if through == "view" else y).sum().backward()
        found.append(x.grad.tolist())
    assert found[1] == found[0]


@pytest.mark.parametrize("kind", ["GRU", "RNN"])
def test_the_output_of_a_recurrent_network_may_be_written_to(kind):
    found = []
    for t in (pytorch, flambeau):
        t.manual_seed(0)
        net = getattr(t.nn, kind)(3, 4)
        out, _ = net(t.randn(5, 2, 3))
        out.mul_(2).sum().backward()
        found.append(net.weight_ih_l0.grad.tolist())
    flambeau.testing.assert_close(flambeau.tensor(found[1]), flambeau.tensor(found[0]))
