"""Private names that public libraries import from PyTorch: Lightning, Accelerate, Pyro, Transformers, PyTorch Geometric."""

from __future__ import annotations

import pytest
import torch

import flambeau
import flambeau.distributed.tensor


@pytest.fixture(params=[torch, flambeau], ids=["torch", "flambeau"])
def library(request):
    return request.param


def test_arguments_of_to_are_parsed(library):
    parse, cpu = library._C._nn._parse_to, library.device("cpu")
    one = library.ones(1, dtype=library.float64)
    assert parse() == (None, None, False, None)
    assert parse("cpu") == (cpu, None, False, None)
    assert parse(library.float16) == (None, library.float16, False, None)
    assert parse("cpu", library.float64, True) == (cpu, library.float64, True, None)
    assert parse(one, True) == parse(tensor=one, non_blocking=True) == (cpu, library.float64, True, None)
    order = library.channels_last
    assert parse(device="meta", memory_format=order) == (library.device("meta"), None, False, order)
    with pytest.raises(RuntimeError, match="copy"):
        parse("cpu", copy=True)


def test_nothing_is_traced_or_counted(library):
    assert library._C._get_tracing_state() is None
    assert library._C._log_api_usage_once("an event") is None


def test_an_optimizer_that_only_wraps_another_steps_it(library):
    class Wrapping(library.optim.Optimizer):
        """As Accelerate's, which leaves Optimizer.__init__ out."""

        def __init__(self, optimizer):
            self.optimizer = optimizer

        def step(self, closure=None):
            return self.optimizer.step(closure)

    x = library.ones(1, requires_grad=True)
    x.sum().backward()
    steps = []
    inner = library.optim.SGD([x], lr=0.5)
    inner.register_step_post_hook(lambda *_: steps.append(1))
    Wrapping(inner).step()
    assert x.item() == 0.5 and steps == [1]


def test_no_tensor_is_spread_over_processes():
    tensor = flambeau.distributed.tensor
    assert not isinstance(flambeau.ones(1), tensor.DTensor)
    with pytest.raises(NotImplementedError, match="DistributedDataParallel"):
        tensor.distribute_tensor(flambeau.ones(1), None)
