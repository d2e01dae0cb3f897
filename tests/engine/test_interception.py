"""The seams for capture: operators, backward calls and optimizer steps can be intercepted, and answered."""

from __future__ import annotations

import flambeau as torch
from flambeau.core import interception


def test_operator_interceptor_sees_and_may_answer():
    seen = []

    def watch(op, inputs, params, kind):
        seen.append(op.name)
        return 7 if op.name == "exp" else NotImplemented

    interception.register(interception.CAPTURE, watch)
    try:
        x = torch.ones(2)
        assert torch.exp(x) == 7
        assert (x * 2).tolist() == [2.0, 2.0]
    finally:
        interception.unregister(interception.CAPTURE, watch)
    assert seen == ["exp", "mul"]
    assert torch.exp(torch.zeros(1)).item() == 1.0


def test_step_watcher_sees_backward_and_optimizer_step():
    w = torch.ones(2, requires_grad=True)
    optimizer = torch.optim.SGD([w], lr=0.5)
    seen = []

    def watch(kind, payload):
        seen.append(kind)
        return NotImplemented

    interception.register_step(watch)
    try:
        (w * 3).sum().backward()
        optimizer.step()
    finally:
        interception.unregister_step(watch)
    assert seen == ["backward", "optimizer_step"]
    assert w.tolist() == [-0.5, -0.5]


def test_step_watcher_may_take_the_place_of_a_step():
    w = torch.ones(2, requires_grad=True)
    optimizer = torch.optim.SGD([w], lr=0.5)
    (w * 3).sum().backward()

    def watch(kind, payload):
        return "mine"

    interception.register_step(watch)
    try:
        assert optimizer.step() == "mine"
    finally:
        interception.unregister_step(watch)
    assert w.tolist() == [1.0, 1.0]
