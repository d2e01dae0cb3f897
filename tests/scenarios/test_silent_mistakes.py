"""Mistakes that PyTorch lets pass in silence: flambeau says them, with the words and lines that find them."""

from __future__ import annotations

import gc
import inspect
import weakref

import numpy as np
import pytest

import flambeau

nn = flambeau.nn


def test_a_tensor_with_history_does_not_go_into_a_numpy_cell_in_silence():
    loss = flambeau.tensor([1.5, 2.5], requires_grad=True).prod()
    history = np.zeros((2, 2))
    with pytest.warns(UserWarning, match="grad") as seen:
        history[1, 0] = loss
    assert seen[0].filename == __file__
    history[1, 1] = loss.detach()                       # no warning: a warning is an error here
    assert history[1, 1] == 3.75


def test_layers_in_a_plain_list_are_named_with_module_list():
    class Tower(nn.Module):
        def __init__(self, as_list):
            super().__init__()
            self.stages = as_list([nn.Linear(2, 2) for _ in range(3)])

    with pytest.warns(UserWarning, match="stages.*ModuleList"):
        net = Tower(list)
        flambeau.optim.Adam([*net.parameters(), nn.Parameter(flambeau.ones(1))])
    assert len(list(Tower(nn.ModuleList).parameters())) == 6


def test_a_write_through_data_that_spoils_a_saved_value_is_reported():
    x = flambeau.tensor([0.2, 0.4], requires_grad=True)
    y = x.sigmoid()
    y.data.mul_(0)
    here = inspect.currentframe().f_lineno
    with pytest.warns(UserWarning, match=r"through \.data") as seen:
        y.sum().backward()
    assert f"test_silent_mistakes.py:{here - 1}" in str(seen[0].message)


def test_a_step_between_two_backwards_through_one_graph_is_refused(both):
    layer = nn.Linear(2, 2)
    optimizer = flambeau.optim.Adam(layer.parameters())
    out = layer(layer(flambeau.ones(1, 2, requires_grad=True)))
    out[0, 0].backward(retain_graph=True)
    optimizer.step()
    with pytest.raises(RuntimeError, match="modified by an inplace operation") as error:
        out[0, 1].backward()
    assert "test_silent_mistakes.py" in str(error.value)

    def program(torch):
        layer = torch.nn.Linear(2, 2)
        optimizer = torch.optim.Adam(layer.parameters())
        out = layer(layer(torch.ones(1, 2)))
        out[0, 0].backward(retain_graph=True)
        out[0, 1].backward()
        optimizer.step()
        return layer.weight

    both(program)


def test_a_write_under_no_grad_matters_only_to_what_saved_the_value(both):
    def program(torch):
        x = torch.tensor([1.0, 2.0], requires_grad=True)
        weight = x * 1
        y = weight + weight                             # saves nothing
        with torch.no_grad():
            weight.zero_()
        y.sum().backward()
        return x.grad

    both(program)
    x = flambeau.ones(2, requires_grad=True)
    weight = x * 1
    y = weight * weight
    with flambeau.no_grad():
        weight.zero_()
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        y.sum().backward()


def test_views_across_a_no_grad_block_and_expanded_memory_are_not_written():
    base = flambeau.ones(4, requires_grad=True) * 1
    with flambeau.no_grad():
        half = base[:2]
    with pytest.raises(RuntimeError, match="no_grad"):
        half.mul_(2)
    row = flambeau.zeros(1, 3).expand(4, 3)
    with pytest.raises(RuntimeError, match="clone"):
        row.add_(1)
    assert row.clone().add_(1).sum().item() == 12


def test_a_state_carried_to_the_next_batch_raises_and_detach_cures_it(both):
    def program(torch, cut=True):
        cell = torch.nn.GRUCell(2, 3)
        h = torch.zeros(1, 3)
        for t in range(3):
            h = cell(torch.full((1, 2), float(t)), h.detach() if cut else h)
            h.sum().backward()
        return cell.weight_hh.grad

    both(program)
    with pytest.raises(RuntimeError, match="backward through the graph a second time"):
        program(flambeau, cut=False)


def test_a_saved_intermediate_in_a_second_derivative_is_told():
    class Cube(flambeau.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            square = x * x
            ctx.save_for_backward(square)
            return square * x

        @staticmethod
        def backward(ctx, g):
            return g * 3 * ctx.saved_tensors[0]

    x = flambeau.tensor(2.0, requires_grad=True)
    with pytest.warns(UserWarning, match="intermediate"):
        (g,) = flambeau.autograd.grad(Cube.apply(x), x, create_graph=True)
    assert g.item() == 12.0


def test_a_loss_with_nothing_to_learn_says_so():
    logits = flambeau.randn(3, 4, requires_grad=True)
    with pytest.warns(UserWarning, match="ignore_index"):
        loss = nn.functional.cross_entropy(logits, flambeau.full((3,), -100))
    loss.backward()
    assert np.isnan(loss.item()) and not logits.grad.any()


@pytest.mark.parametrize("loss", ["mse_loss", "l1_loss", "smooth_l1_loss", "huber_loss"])
def test_a_loss_of_two_shapes_warns_with_both(loss):
    fn = getattr(nn.functional, loss)
    with pytest.warns(UserWarning, match=r"\[4\].*\[4, 1\]|\[4, 1\].*\[4\]"):
        fn(flambeau.ones(4), flambeau.ones(4, 1))
    fn(flambeau.ones(4), flambeau.ones(4))


def test_a_row_that_may_attend_to_nothing_does_not_poison_the_others():
    q = flambeau.randn(1, 3, 4, requires_grad=True)
    mask = flambeau.tensor([[True, True, True], [False, False, False], [True, False, True]])
    out = nn.functional.scaled_dot_product_attention(q, q, q, attn_mask=mask)
    assert not out[0, 1].any()
    out.sum().backward()
    assert flambeau.isfinite(q.grad).all()


def test_clipping_names_the_gradient_that_is_not_finite(both):
    def program(torch):
        good, bad = torch.nn.Parameter(torch.ones(2)), torch.nn.Parameter(torch.ones(2))
        good.grad, bad.grad = torch.full((2,), 3.0), torch.tensor([float("inf"), 1.0])
        try:
            torch.nn.utils.clip_grad_norm_([good, bad], 1.0, error_if_nonfinite=True)
        except RuntimeError as error:
            return "non-finite" in str(error), good.grad, bad.grad
        return None

    assert both(program)[0] is True
    good, bad = nn.Parameter(flambeau.ones(2)), nn.Parameter(flambeau.ones(2))
    good.grad, bad.grad = flambeau.full((2,), 3.0), flambeau.tensor([float("nan"), 1.0])
    with pytest.warns(UserWarning, match="1"):
        nn.utils.clip_grad_norm_([good, bad], 1.0)


def test_clipping_with_a_spent_generator_warns():
    layer = nn.Linear(2, 2)
    layer(flambeau.ones(1, 2)).sum().backward()
    parameters = layer.parameters()
    list(parameters)
    with pytest.warns(UserWarning, match="generator|no.*parameters|empty"):
        nn.utils.clip_grad_norm_(parameters, 0.1)


def test_gradcheck_says_which_input_is_in_single_precision():
    a = flambeau.ones(2, dtype=flambeau.float64, requires_grad=True)
    b = flambeau.ones(2, requires_grad=True)
    with pytest.warns(UserWarning, match="#1.*precision|precision.*#1"):
        flambeau.autograd.gradcheck(lambda x, y: x * y, (a, b), eps=1e-3, atol=1e-1)


def test_hooks_that_hold_their_own_tensor_leave_nothing_behind():
    class Marker:
        pass

    def build():
        y = flambeau.ones(3, requires_grad=True).exp()
        y.grad_fn.metadata["marker"] = marker = Marker()
        y.register_hook(lambda g: g * (y > 0))
        return weakref.ref(marker)

    end = build()
    gc.collect()
    assert end() is None


def test_running_totals_keep_graphs_and_items_do_not():
    kept = weakref.WeakSet()

    class Box:
        def __init__(self, t):
            self.t = t

    def pack(t):
        box = Box(t.detach())
        kept.add(box)
        return box

    w = flambeau.ones(3, requires_grad=True)
    gc.disable()
    try:
        with flambeau.autograd.graph.saved_tensors_hooks(pack, lambda box: box.t):
            total, sizes = 0.0, []
            for _ in range(3):
                total = total + w.sin().exp().sum()
                sizes.append(len(kept))
            assert sizes == [sizes[0], 2 * sizes[0], 3 * sizes[0]] and sizes[0] > 0
            total = 0.0
            for _ in range(3):
                total += w.sin().exp().sum().item()
                assert len(kept) == 0
    finally:
        gc.enable()


def test_a_full_backward_hook_with_an_output_changed_in_place_says_how_to_mend_it():
    layer = nn.Linear(2, 2)
    layer.register_full_backward_hook(lambda m, gin, gout: None)
    with pytest.raises(RuntimeError, match="clone|out-of-place|inplace"):
        layer(flambeau.ones(1, 2, requires_grad=True)).relu_()


def test_an_inference_tensor_in_training_names_its_cures():
    with flambeau.inference_mode():
        scale = flambeau.full((2,), 2.0)
    x = flambeau.ones(2, requires_grad=True)
    with pytest.raises(RuntimeError, match="clone"):
        x * scale  # noqa: B018
    (x * scale.clone()).sum().backward()
    assert x.grad.tolist() == [2.0, 2.0]


def test_an_input_marked_dirty_must_be_returned():
    class Double(flambeau.autograd.Function):
        give_back = True

        @staticmethod
        def forward(ctx, x):
            ctx.mark_dirty(x)
            x.mul_(2)
            return x if Double.give_back else x.clone()

        @staticmethod
        def backward(ctx, g):
            return g * 2

    x = flambeau.ones(2, requires_grad=True)
    y = x * 1
    assert Double.apply(y) is y and y.grad_fn.name() == "DoubleBackward"
    y.sum().backward()
    assert x.grad.tolist() == [2.0, 2.0]
    Double.give_back = False
    with pytest.raises(RuntimeError, match="dirty"):
        Double.apply(x * 1)


def test_the_lines_of_both_ends_of_a_second_backward():
    w = flambeau.ones(2, requires_grad=True)
    start = inspect.currentframe().f_lineno
    loss = w.tanh().prod()
    loss.backward()
    with pytest.raises(RuntimeError) as error:
        loss.backward()
    assert all(f"test_silent_mistakes.py:{start + i}" in str(error.value) for i in (1, 2))
