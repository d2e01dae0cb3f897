"""Every error of autograd says what happened, where in the user's program, and what to do."""

from __future__ import annotations

import inspect
import sys
import warnings

import pytest

import flambeau as torch
from flambeau import nn


def line_of(words: str) -> int:
    """The line of the calling test that holds `words`."""
    lines, first = inspect.getsourcelines(sys._getframe(1).f_code)
    return first + next(i for i, line in enumerate(lines) if words in line and "line_of" not in line)


def error_of(run):
    with pytest.raises(Exception) as caught:
        run()
    return caught.value


def whole_text(error: BaseException) -> str:
    return "\n".join([str(error), *getattr(error, "__notes__", ())])


# ---------------------------------------------------------------------------------------------- saved values


@pytest.mark.parametrize("kind", ["SGD", "Adam", "RMSprop"])
def test_backward_after_the_optimizer_s_step_says_to_compute_the_loss_again(kind):
    layer = nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 1))
    optimizer = getattr(torch.optim, kind)(layer.parameters(), lr=0.1)
    loss = layer(torch.ones(1, 2)).sum()
    loss.backward(retain_graph=True)
    optimizer.step()
    text = str(error_of(loss.backward))
    assert "modified by an inplace operation" in text
    assert f"{kind}.step() made it version" in text
    assert f"{__file__}:{line_of('optimizer.step()')}" in text
    assert f"{__file__}:{line_of('loss = layer(')}" in text
    assert "Compute the loss again after it, or run every backward through this graph before it" in text
    assert "out-of-place" not in text


def test_an_update_by_hand_before_backward_says_the_same():
    w = torch.ones(2, 3, requires_grad=True)
    x = torch.ones(1, 3, requires_grad=True)
    loss = (x @ w.t()).sum()
    with torch.no_grad():
        w -= 0.1
    text = str(error_of(loss.backward))
    assert "sub_ made it version 1" in text and f"{__file__}:{line_of('w -= 0.1')}" in text
    assert "Compute the loss again after it" in text


def test_a_write_to_a_result_says_to_use_the_other_form():
    y = torch.ones(2, requires_grad=True).exp()
    y.add_(1)
    error = error_of(y.sum().backward)
    assert "y = y.add(...) instead of y.add_(...)" in str(error)
    assert "the output of ExpBackward0" in str(error)


def test_no_line_is_named_twice():
    x = torch.ones(2, requires_grad=True)
    loss = (x * x).sum()
    loss.backward()
    error = error_of(loss.backward)
    assert whole_text(error).count("recorded at") == 1
    assert not getattr(error, "__notes__", None)


def test_another_error_in_backward_gets_the_forward_line_once():
    class Fails(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x.clone()

        @staticmethod
        def backward(ctx, g):
            error = ZeroDivisionError("by zero")
            error.add_note("mine")
            raise error

    y = Fails.apply(torch.ones(2, requires_grad=True))
    error = error_of(y.sum().backward)
    assert error.__notes__[0] == "mine" and len(error.__notes__) == 2
    assert error.__notes__[1].startswith("while computing the gradient of FailsBackward, recorded at ")
    assert f"{__file__}:{line_of('y = Fails')}" in error.__notes__[1]


def test_a_gradient_of_the_wrong_shape_says_which_shape():
    class Wrong(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x.clone()

        @staticmethod
        def backward(ctx, g):
            return torch.ones(5)

    y = Wrong.apply(torch.ones(2, requires_grad=True))
    text = whole_text(error_of(y.sum().backward))
    assert "got [5] but expected shape compatible with [2]" in text and "sum it over what was broadcast" in text
    assert f"{__file__}:{line_of('y = Wrong')}" in text


# -------------------------------------------------------------------------------------------------- warnings


def test_a_write_through_data_warns_at_the_user_s_line_once_for_each_value():
    w, x = torch.ones(3, requires_grad=True), torch.ones(3, requires_grad=True)
    loss = (w * x * w).sum()
    w.data.mul_(3)
    x.data.mul_(3)
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        loss.backward(retain_graph=True)
        loss.backward()
    assert len(seen) == 2
    assert {(s.filename, s.lineno) for s in seen} == {(__file__, line_of("loss.backward(retain_graph"))}
    text = "\n".join(str(s.message) for s in seen)
    assert f"{__file__}:{line_of('w.data.mul_')}" in text and f"{__file__}:{line_of('x.data.mul_')}" in text
    assert "write under torch.no_grad()" in text


def test_a_further_write_through_data_warns_again():
    w = torch.ones(3, requires_grad=True)
    for _ in range(2):
        loss = (w * w).sum()
        w.data.mul_(3)
        with pytest.warns(UserWarning, match="changed through .data"):
            loss.backward()


def test_reading_grad_of_a_result_warns_at_the_user_s_line():
    y = torch.ones(3, requires_grad=True) * 2
    with pytest.warns(UserWarning, match="not a leaf Tensor") as seen:
        assert y.grad is None
    assert (seen[0].filename, seen[0].lineno) == (__file__, line_of("assert y.grad is None"))
    assert f"{__file__}:{line_of('y = torch.ones')}" in str(seen[0].message)


def test_anomaly_mode_warns_at_the_user_s_line():
    x = torch.zeros(2, requires_grad=True)
    with pytest.warns(UserWarning) as seen, torch.autograd.detect_anomaly():
        y = (x.sqrt() * 0).sum()
        with pytest.raises(RuntimeError, match="nan values"):
            y.backward()
    assert [(s.filename, s.lineno) for s in seen][-1] == (__file__, line_of("y.backward()"))


@pytest.mark.parametrize("run, words", [
    (lambda: nn.functional.softmax(torch.ones(2)), "Implicit dimension choice for softmax"),
    (lambda: nn.Softmax()(torch.ones(2)), "Implicit dimension choice for softmax"),
    (lambda: torch.qr(torch.eye(2)), "torch.qr is deprecated"),
    (lambda: nn.functional.mse_loss(torch.ones(2, 1), torch.ones(2)), "different to the input size"),
    (lambda: nn.MSELoss()(torch.ones(2, 1), torch.ones(2)), "different to the input size"),
    (lambda: torch.ones(2).std(0, correction=3), "degrees of freedom"),
], ids=["function", "layer", "deprecated", "loss", "loss layer", "method"])
def test_warnings_of_operators_point_at_the_user_s_line(run, words):
    with pytest.warns(UserWarning, match=words) as seen:
        run()
    assert (seen[0].filename, seen[0].lineno) == (__file__, run.__code__.co_firstlineno)


# ------------------------------------------------------------------------------------------- flags and leaves


@pytest.mark.parametrize("make", [lambda x: x * 2, lambda x: x[:1]], ids=["result", "view"])
def test_freezing_a_result_names_its_line_and_detach(make):
    y = make(torch.ones(2, requires_grad=True))
    text = str(error_of(lambda: y.requires_grad_(False)))
    assert "you can only change requires_grad flags of leaf variables" in text
    assert "It is the result of " in text and f"at {__file__}:" in text
    assert "y = x.detach()" in text and "torch.no_grad()" in text


def test_writing_to_a_view_of_a_leaf_gives_both_shapes():
    w = torch.ones(3, 4, requires_grad=True)
    text = str(error_of(lambda: w[0].add_(1)))
    assert "a view of a leaf Variable that requires grad" in text
    assert "through a view of shape [4], values of a leaf of shape [3, 4]" in text
    assert "with torch.no_grad()" in text and "clone()" in text
    assert "(shape [3, 4])" in str(error_of(lambda: w.add_(1)))


def test_a_hook_that_returns_something_else_is_named():
    def wrong_kind(g):
        return 1

    def wrong_shape(g):
        return g.sum()

    for hook, words in ((wrong_kind, "must return a Tensor or None, not int"), (wrong_shape, "given [2] and returned []")):
        for make in (lambda: torch.ones(2, requires_grad=True), lambda: torch.ones(2, requires_grad=True) * 2):
            x = make()
            x.register_hook(hook)
            text = str(error_of((x * 3).sum().backward))
            assert words in text
            assert f"{hook.__qualname__}, defined at {__file__}:{hook.__code__.co_firstlineno}" in text


def test_an_empty_parameter_list_gives_the_three_causes():
    model = nn.Linear(2, 2)
    parameters = model.parameters()
    assert len(list(parameters)) == 2
    text = str(error_of(lambda: torch.optim.SGD(parameters, lr=0.1)))
    assert "optimizer got an empty parameter list" in text
    assert "list(model.parameters())" in text and "nn.ModuleList" in text and "has no parameters" in text


# ------------------------------------------------------------------------------------------------------ names


def test_a_lacking_name_says_what_it_means():
    text = str(error_of(lambda: torch.zeross))
    assert text.startswith("module 'flambeau' has no attribute 'zeross': torch.zeross is not supported by flambeau yet, "
                           "or PyTorch has no such name either.")
    assert "Did you mean zeros" in text
    assert not hasattr(torch, "zeross")
    for module, name, near in ((torch.linalg, "invv", "inv"), (nn.functional, "softmx", "softmax"),
                               (torch.optim, "Adamm", "Adam"), (nn, "Linaer", "Linear")):
        text = str(error_of(lambda module=module, name=name: getattr(module, name)))
        assert f"{module.__name__.replace('flambeau', 'torch')}.{name} is not supported" in text
        assert "Did you mean " in text and near in text.split("Did you mean ")[1].split("?")[0].split(" or ")


def test_importing_a_lacking_name_says_the_same():
    words = "cannot import name 'nope' from 'flambeau'.*torch.nope is not supported"
    with pytest.raises(ImportError, match=words) as caught:
        from flambeau import nope  # noqa: F401
    assert type(caught.value) is ImportError and caught.value.name == "flambeau"
    with pytest.raises(ImportError, match="torch.Tensr is not supported.*Did you mean tensor or Tensor"):
        from flambeau import Tensr  # noqa: F401
    with pytest.raises(ModuleNotFoundError, match="No module named 'flambeau.nope'"):
        import flambeau.nope  # noqa: F401


def test_looking_for_a_lacking_module_raises_nothing():
    import importlib.util

    assert importlib.util.find_spec("flambeau.nope") is None
