"""Meta tensors themselves: views, writes, out=, devices, values that are not there, sizes that fit no memory."""

from __future__ import annotations

import tracemalloc

import pytest

import flambeau as torch
import flambeau.nn.functional as F


def meta(*size, **options):
    return torch.empty(*size, device="meta", **options)


def raised(kind, words, run):
    with pytest.raises(kind, match=words):
        run()


# ------------------------------------------------------------------------------------------------- sizes


def test_sizes_that_fit_no_memory_cost_nothing():
    tracemalloc.start()
    a = meta(1 << 20, 1 << 20, requires_grad=True)
    index = meta(1 << 20, dtype=torch.int64)
    shapes = {
        "product": (a @ a).shape, "sum": a.sum(0).shape, "maximum": a.max(1).values.shape, "softmax": a.softmax(-1).shape,
        "order": a.sort().indices.shape, "picked": a[:, index].shape, "joined": torch.cat([a, a]).shape,
        "deviation": a.std(1).shape, "chosen": torch.where(a > 0, a, 0.0).shape,
        "einsum": torch.einsum("ij,kj->ik", a, a).shape,
        "random": torch.randn(10**6, 10**6, device="meta").shape, "numbers": torch.arange(10**12, device="meta").shape,
        "svd": torch.linalg.svd(a).S.shape, "padded": F.pad(a, (1, 2)).shape,
    }
    images = meta(1024, 3, 4096, 4096, requires_grad=True)
    features = F.conv2d(images, meta(4096, 3, 3, 3))
    query = meta(8, 64, 1 << 17, 128, requires_grad=True)
    attended = F.scaled_dot_product_attention(query, query, query, is_causal=True)
    (attended.sum() + features.mean() + a.std() + a.softmax(-1).sum()).backward()
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    n = 1 << 20
    assert {k: tuple(v) for k, v in shapes.items()} == {
        "product": (n, n), "sum": (n,), "maximum": (n,), "softmax": (n, n), "order": (n, n), "picked": (n, n),
        "joined": (2 * n, n), "deviation": (n,), "chosen": (n, n), "einsum": (n, n), "random": (10**6, 10**6),
        "numbers": (10**12,), "svd": (n,), "padded": (n, n + 3)}
    assert tuple(features.shape) == (1024, 4096, 4094, 4094) and tuple(attended.shape) == tuple(query.shape)
    assert a.grad.shape == a.shape and images.grad.shape == images.shape and query.grad.is_meta
    assert peak < 2_000_000


def test_an_operator_without_a_rule_says_so_instead_of_computing():
    from flambeau.core.apply import apply1
    from flambeau.core.op import Op

    op = Op("mystery")
    op.kernel = lambda a: a.sum(0)
    assert tuple(apply1(op, meta(3, 4)).shape) == (4,)         # small: the kernel is asked
    raised(NotImplementedError, r"mystery\(\) has no shape rule.*meta=", lambda: apply1(op, meta(10**5, 10**5)))


# ------------------------------------------------------------------------------------------------- values


def test_what_depends_on_values_raises():
    a = meta(3)
    for run in (lambda: torch.nonzero(a), lambda: torch.unique(a), lambda: torch.masked_select(a, a > 0), lambda: a[a > 0],
                lambda: torch.where(a > 0), lambda: torch.bincount(a.long()), lambda: torch.argwhere(a),
                lambda: torch.unique_consecutive(a)):
        raised(NotImplementedError, "Meta tensors.*depends on the values", run)
    for run in (lambda: a.sum().item(), lambda: bool(a.any()), lambda: float(a.sum()), lambda: int(a.sum()),
                lambda: torch.allclose(a, a), lambda: F.one_hot(a.long())):
        raised(RuntimeError, "cannot be called on meta tensors", run)
    raised(RuntimeError, "cannot repeat_interleave a meta tensor without output_size",
           lambda: torch.repeat_interleave(a, a.long()))
    assert tuple(torch.repeat_interleave(a, a.long(), output_size=7).shape) == (7,)
    for run in (a.tolist, a.cpu, lambda: torch.empty(3).copy_(a), lambda: torch.equal(a, a)):
        raised(NotImplementedError, "Cannot copy out of meta tensor; no data!", run)
    raised(TypeError, "can't convert meta device type tensor to numpy", a.numpy)


# ------------------------------------------------------------------------------------------------- devices


def test_meta_and_cpu_do_not_mix():
    a, c = meta(3), torch.ones(3)
    for run in (lambda: a + c, lambda: c + a, lambda: torch.stack([a, c]), lambda: torch.where(a > 0, a, c),
                lambda: a.add_(c), lambda: c.add_(a), lambda: c[a.long()], lambda: F.linear(c, meta(2, 3)),
                lambda: torch.dot(a, c), lambda: torch.cat([c, a])):
        raised(RuntimeError, "same device", run)
    assert torch.equal(c, torch.ones(3))


def test_numbers_scalars_and_indices_may_come_from_the_cpu():
    a = meta(3, 4)
    assert (a + torch.tensor(2.0)).is_meta and (2 * a).is_meta and (torch.tensor(1.0) / a).is_meta
    assert tuple(a[torch.tensor([0, 0, 1])].shape) == (3, 4)
    assert tuple(a[torch.tensor([True, False, True])].shape) == (2, 4)
    assert tuple(F.embedding(torch.tensor([[0, 2]]), a).shape) == (1, 2, 4)
    assert a.copy_(torch.ones(4)) is a
    a[torch.tensor([0])] = torch.tensor(1.0)
    a[a > 0] = 0.0


def test_out_is_on_the_results_device():
    a, out = meta(3), meta(0)
    assert torch.add(a, 1, out=out) is out and tuple(out.shape) == (3,)
    raised(RuntimeError, "device", lambda: torch.add(a, 1, out=torch.empty(3)))
    raised(RuntimeError, "device", lambda: torch.add(torch.ones(3), 1, out=a))


def test_moving_to_meta_keeps_shape_order_and_flag():
    t = torch.ones(2, 3).t().requires_grad_()
    moved = t.to("meta", torch.float64)
    assert moved.stride() == (1, 3) and moved.dtype is torch.float64 and moved.requires_grad
    assert moved.to("meta") is moved
    raised(NotImplementedError, "to_empty", lambda: moved.to("cpu"))


# ------------------------------------------------------------------------------------------------- views and writes


def test_views_share_versions_and_storage():
    a = meta(4, 6)
    v = a[1:, ::2].t()
    assert (tuple(v.shape), v.stride(), v.storage_offset()) == ((3, 3), (2, 6), 6)
    assert v._base is a and v.untyped_storage().nbytes() == a.untyped_storage().nbytes() == 96
    v.add_(1)
    assert a._version == v._version == 1
    parts = a.split([1, 3])
    assert [p.storage_offset() for p in parts] == [0, 6] and parts[1]._base is a
    assert a.as_strided((2,), (3,), 5).storage_offset() == 5
    raised(RuntimeError, "out of bounds for storage of size 96", lambda: a.as_strided((2,), (30,), 5))
    raised(RuntimeError, r"view size is not compatible", lambda: a.t().view(24))
    assert a.t().reshape(24)._base is None
    assert a.is_set_to(a.view(4, 6)) and not a.is_set_to(meta(4, 6))
    assert a.untyped_storage().device.type == "meta" and a.data_ptr() == 0


def test_in_place_rules_hold():
    a = meta(3, 1)
    raised(RuntimeError, "doesn't match the broadcast shape", lambda: a.add_(meta(3, 4)))
    raised(RuntimeError, "can't be cast", lambda: meta(3, dtype=torch.int64).add_(1.5))
    raised(RuntimeError, "single memory location|same place in memory|more than one element", lambda: a.expand(3, 4).add_(1))
    leaf = meta(3, requires_grad=True)
    raised(RuntimeError, "leaf", lambda: leaf.add_(1))
    y = leaf * 2
    z = y.exp()
    y.add_(1)
    w = y.square()
    y.mul_(2)
    raised(RuntimeError, "modified by an inplace operation", w.sum().backward)
    z.sum().backward()
    assert tuple(leaf.grad.shape) == (3,)


def test_a_written_slice_passes_its_gradient_on():
    x, row = meta(4, 4, requires_grad=True), meta(4, requires_grad=True)
    y = x * 1
    y[1] = row
    y[2:].mul_(3)
    y.sum().backward()
    assert tuple(x.grad.shape) == (4, 4) and tuple(row.grad.shape) == (4,)


def test_one_of_several_views_passes_its_gradient_on():
    x = meta(4, 6, requires_grad=True)
    (x.split(2)[1].sum() + x.unbind(1)[0].sum()).backward()
    assert tuple(x.grad.shape) == (4, 6)


def test_shape_methods_in_place():
    a = meta(2, 1, 3)
    assert tuple(a.squeeze_().shape) == (2, 3) and tuple(a.t_().shape) == (3, 2) and a.stride() == (1, 3)
    assert tuple(a.unsqueeze_(0).shape) == (1, 3, 2)
    assert tuple(meta(2).resize_(10, 10).shape) == (10, 10)


# ------------------------------------------------------------------------------------------------- gradients


def test_first_and_second_derivatives_have_the_inputs_shapes_and_dtypes():
    x, w = meta(5, 3, dtype=torch.float64, requires_grad=True), meta(4, 3, dtype=torch.float64, requires_grad=True)
    y = F.linear(x, w).tanh().pow(2).sum()
    gx, gw = torch.autograd.grad(y, (x, w), create_graph=True)
    assert (gx.shape, gx.dtype, gw.shape) == (x.shape, torch.float64, w.shape) and gx.requires_grad
    (gx.square().sum() + gw.sum()).backward()
    assert x.grad.shape == x.shape and w.grad.is_meta


def test_backward_takes_gradients_hooks_and_accumulates():
    x = meta(3, 2, requires_grad=True)
    seen = []
    x.register_hook(lambda g: seen.append((tuple(g.shape), g.is_meta)))
    y = x.t()
    y.backward(meta(2, 3))
    first = x.grad
    (x * 2).backward(meta(3, 2), inputs=[x])
    assert x.grad is first and first._version == 1 and seen == [((3, 2), True)] * 2
    raised(RuntimeError, "Mismatch in shape", lambda: (x * 2).backward(meta(2, 2)))
    raised(RuntimeError, "device", lambda: (x * 2).backward(torch.ones(3, 2)))
    raised(RuntimeError, "scalar outputs", (x * 2).backward)


def test_the_gradient_has_the_parameters_memory_order():
    w = torch.empty(4, 3, 2, 2, device="meta").to(memory_format=torch.channels_last).requires_grad_()
    F.conv2d(meta(1, 3, 8, 8), w).sum().backward()
    assert w.grad.stride() == w.stride()


def test_a_freed_graph_is_reported():
    x = meta(3, requires_grad=True)
    y = x.exp().sum()
    y.backward()
    raised(RuntimeError, "backward through the graph a second time", y.backward)


def test_custom_functions_and_checkpoints_run():
    class Double(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x * 2

        @staticmethod
        def backward(ctx, g):
            x, = ctx.saved_tensors
            assert x.is_meta
            return g * 2

    x = meta(3, requires_grad=True)
    Double.apply(x).sum().backward()
    assert x.grad.is_meta
    from flambeau.utils.checkpoint import checkpoint

    checkpoint(lambda t: (t * 2).exp(), x, use_reentrant=False).sum().backward()
    assert tuple(x.grad.shape) == (3,)


# ------------------------------------------------------------------------------------------------- random streams


def test_no_random_numbers_are_drawn():
    torch.manual_seed(3)
    before = torch.get_rng_state()
    a = meta(30)
    with torch.device("meta"):
        torch.rand(3), torch.randint(0, 5, (3,)), torch.randperm(4), torch.normal(0.0, 1.0, (2,))
    a.normal_(), a.uniform_(), a.bernoulli_(0.5), a.exponential_(), a.random_()
    F.dropout(a), F.dropout2d(meta(2, 3, 4, 4)), F.alpha_dropout(a, 0.5, True), F.rrelu(a, training=True)
    torch.multinomial(a, 3), torch.bernoulli(a), torch.poisson(a), torch.normal(a, 1.0), F.gumbel_softmax(meta(2, 3))
    torch.randn_like(a), torch.rand_like(a), torch.randint_like(a, 5)
    assert torch.equal(before, torch.get_rng_state())


def test_numpys_argument_names_reach_functions_with_a_rule():
    for t in (torch.ones(3, 2), meta(3, 2)):
        assert tuple(torch.quantile(t, 0.5, axis=0, keepdims=True).shape) == (1, 2)
        assert tuple(t.quantile(0.5, axis=1).shape) == (3,)
