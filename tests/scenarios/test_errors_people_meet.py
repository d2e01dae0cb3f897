"""The errors that people meet: PyTorch's type, its words to search for, and what happened, where, what to do."""

from __future__ import annotations

import pytest
import torch

import flambeau


def double_backward(f):
    y = (f.ones(2, requires_grad=True) ** 2).exp().sum()
    y.backward()
    y.backward()


def no_requires_grad(f):
    (f.ones(2) * 2).sum().backward()


def vector(f):
    (f.ones(2, requires_grad=True) * 2).backward()


def overwritten(f):
    y = (f.ones(2, requires_grad=True) * 2).exp()
    y.add_(1)
    y.sum().backward()


def leaf_inplace(f):
    f.ones(2, requires_grad=True).mul_(2)


def view_of_leaf(f):
    f.ones(2, requires_grad=True)[0:1].mul_(2)


def multi_view(f):
    first, _ = (f.ones(2, requires_grad=True) * 1).unbind()
    first.mul_(2)


def float_and_double(f):
    f.nn.Linear(2, 2)(f.ones(1, 2, dtype=f.float64))


def long_and_float(f):
    f.ones(2, 2, dtype=f.int64) @ f.ones(2, 2)


def inner_sizes(f):
    f.nn.Linear(3, 2)(f.ones(4, 5))


def no_broadcast(f):
    f.ones(2, 3) + f.ones(4)


def channels_last_input(f):
    f.nn.Conv2d(3, 4, 3)(f.ones(1, 8, 8, 3))


def numpy_of_grad(f):
    f.ones(2, requires_grad=True).numpy()


def no_parameters(f):
    f.optim.SGD([], lr=0.1)


def tensors_as_parameters(f):
    f.optim.SGD(f.nn.Linear(1, 1).weight, lr=0.1)


def non_leaf_parameter(f):
    f.optim.SGD([f.ones(1, requires_grad=True) * 2], lr=0.1)


def missing_keys(f):
    f.nn.Linear(2, 2).load_state_dict({"weight": f.ones(2, 2), "extra": f.ones(1)})


def other_size(f):
    f.nn.Linear(2, 2, bias=False).load_state_dict({"weight": f.ones(3, 2)})


def embedding_index(f):
    f.nn.Embedding(3, 2)(f.tensor([0, 3]))


def class_index(f):
    f.nn.functional.cross_entropy(f.ones(2, 3), f.tensor([0, 3]))


def one_value(f):
    f.nn.BatchNorm1d(3)(f.ones(1, 3))


def bad_view(f):
    f.ones(2, 3).t().view(6)


def bad_reshape(f):
    f.ones(6).reshape(4, 2)


def many_values(f):
    bool(f.ones(2) > 0)


def item_of_many(f):
    f.ones(2).item()


def integer_requires_grad(f):
    f.ones(2, dtype=f.int64).requires_grad_()


def not_in_the_graph(f):
    f.autograd.grad(f.ones(1, requires_grad=True).sum(), f.ones(1, requires_grad=True))


def inference_in_training(f):
    with f.inference_mode():
        x = f.ones(2)
    (f.ones(2, requires_grad=True) * x).sum()


def deep_copy_of_a_result(f):
    import copy

    copy.deepcopy(f.ones(1, requires_grad=True) * 2)


def freeze_a_result(f):
    (f.ones(1, requires_grad=True) * 2).requires_grad_(False)


def float_targets(f):
    f.nn.functional.cross_entropy(f.ones(2, 3), f.ones(2))


def probabilities(f):
    f.nn.functional.binary_cross_entropy(f.tensor([1.5]), f.tensor([1.0]))


def cat_sizes(f):
    f.cat([f.ones(2, 3), f.ones(2, 4)], 0)


ERRORS = [
    (double_backward, RuntimeError, ["backward through the graph a second time", "retain_graph=True"]),
    (no_requires_grad, RuntimeError, ["does not require grad and does not have a grad_fn"]),
    (vector, RuntimeError, ["grad can be implicitly created only for scalar outputs"]),
    (overwritten, RuntimeError, ["modified by an inplace operation"]),
    (leaf_inplace, RuntimeError, ["a leaf Variable that requires grad"]),
    (view_of_leaf, RuntimeError, ["view of a leaf Variable that requires grad"]),
    (multi_view, RuntimeError, ["view", "multiple views"]),
    (float_and_double, RuntimeError, ["dtype"]),
    (long_and_float, RuntimeError, ["dtype"]),
    (inner_sizes, RuntimeError, ["shapes cannot be multiplied"]),
    (no_broadcast, RuntimeError, ["must match the size of tensor"]),
    (channels_last_input, RuntimeError, ["3", "channels"]),
    (numpy_of_grad, RuntimeError, ["detach"]),
    (no_parameters, ValueError, ["empty parameter list"]),
    (tensors_as_parameters, TypeError, ["params argument given to the optimizer"]),
    (non_leaf_parameter, ValueError, ["non-leaf"]),
    (missing_keys, RuntimeError, ["Missing key(s)", "Unexpected key(s)", "bias", "extra"]),
    (other_size, RuntimeError, ["size mismatch for weight"]),
    (embedding_index, IndexError, ["out of range"]),
    (class_index, IndexError, ["Target 3 is out of bounds"]),
    (one_value, ValueError, ["Expected more than 1 value per channel when training"]),
    (bad_view, RuntimeError, ["view size is not compatible", "reshape"]),
    (bad_reshape, RuntimeError, ["is invalid for input of size 6"]),
    (many_values, RuntimeError, ["ambiguous"]),
    (item_of_many, RuntimeError, ["cannot be converted to Scalar"]),
    (integer_requires_grad, RuntimeError, ["floating point"]),
    (not_in_the_graph, RuntimeError, ["appears to not have been used in the graph", "allow_unused=True"]),
    (inference_in_training, RuntimeError, ["Inference tensors cannot be saved for backward"]),
    (deep_copy_of_a_result, RuntimeError, ["deepcopy"]),
    (freeze_a_result, RuntimeError, ["you can only change requires_grad flags of leaf variables", "detach"]),
    (float_targets, RuntimeError, []),
    (probabilities, RuntimeError, ["between 0 and 1"]),
    (cat_sizes, RuntimeError, ["Sizes of tensors must match except in dimension 0"]),
]


@pytest.mark.parametrize("program, kind, words", ERRORS, ids=[e[0].__name__ for e in ERRORS])
def test_an_error_has_pytorchs_type_and_words_and_a_way_out(program, kind, words):
    with pytest.raises(kind):
        program(torch)
    with pytest.raises(kind) as error:
        program(flambeau)
    text = str(error.value)
    for word in words:
        assert word in text, text
    assert len(text) >= 60, f"says too little: {text}"


LINES = [double_backward, overwritten]


@pytest.mark.parametrize("program", LINES)
def test_errors_of_backward_name_the_lines_of_the_program(program):
    with pytest.raises(RuntimeError) as error:
        program(flambeau)
    first = program.__code__.co_firstlineno
    assert any(f"test_errors_people_meet.py:{first + i}" in str(error.value) for i in (1, 2, 3)), str(error.value)


def test_a_loss_that_is_nan_is_found_by_anomaly_mode():
    x = flambeau.tensor([-1.0, 1.0], requires_grad=True)
    with pytest.warns(UserWarning), pytest.raises(RuntimeError, match="Backward0.*nan"):  # noqa: PT031
        with flambeau.autograd.detect_anomaly():
            (x.sqrt() ** 2).sum().backward()


def test_a_device_that_is_not_there():
    with pytest.raises(RuntimeError, match="'cuda' is not available.*device='cpu'"):
        flambeau.ones(2, device="cuda")


def test_hooks_that_see_only_part_of_the_gradients_point_to_the_full_ones():
    layer = flambeau.nn.Linear(1, 1)
    layer.register_full_backward_hook(lambda m, gin, gout: None)
    with pytest.raises(RuntimeError, match="regular backward hooks and full backward hooks"):
        layer.register_backward_hook(lambda m, gin, gout: None)
