"""autograd.profiler: counts, nesting, regions."""

from __future__ import annotations

import gzip
import json
import warnings

import pytest
import torch

import flambeau as T
from flambeau.autograd.profiler import profile, record_function


def run(record_shapes=False):
    x = T.ones(4, 4).requires_grad_()
    with profile(record_shapes=record_shapes) as prof:
        with record_function("region"):
            y = (x * x * x).exp()
        y.backward(T.ones(4, 4))
    return prof


def test_counts_of_operators_nodes_and_regions():
    counts = {e.key: e.count for e in run().key_averages()}
    assert (counts["aten::mul"], counts["aten::exp"], counts["MulBackward0"], counts["ExpBackward0"], counts["region"]) == (
        2, 1, 2, 1, 1)


def test_self_time_leaves_out_what_is_inside():
    prof = run()
    region = next(e for e in prof.function_events if e.name == "region")
    inside = [e for e in prof.function_events if e.name in ("aten::mul", "aten::exp")]
    assert region.cpu_time_total >= sum(e.cpu_time_total for e in inside) > 0
    assert abs(region.self_cpu_time_total - (region.cpu_time_total - sum(e.cpu_time_total for e in inside))) < 1e-3
    outer = [e for e in prof.function_events if e.name == "region" or e.name.endswith("0")]
    assert abs(prof.self_cpu_time_total - sum(e.cpu_time_total for e in outer)) < 1e-3


def test_table_and_trace(tmp_path):
    prof = run(record_shapes=True)
    text = prof.key_averages(group_by_input_shape=True).table(sort_by="self_cpu_time_total", row_limit=3)
    assert "Self CPU %" in text and "# of Calls" in text and "Self CPU time total:" in text
    assert "[[4, 4], [4, 4]]" in str(prof.function_events)
    prof.export_chrome_trace(str(tmp_path / "trace.json"))
    names = {e["name"] for e in json.loads((tmp_path / "trace.json").read_text())["traceEvents"]}
    assert {"aten::mul", "region", "MulBackward0"} <= names


def test_nothing_is_measured_outside_and_profilers_do_not_nest():
    from flambeau.core.state import state

    run()
    assert state.special == 0 and state.watch is None
    with profile():
        with pytest.raises(RuntimeError, match="already enabled"):
            with profile():
                pass
    with profile(enabled=False) as prof:
        T.ones(2) * 2
    assert prof.function_events == []

    @record_function("f")
    def f():
        return T.ones(2) * 2

    with profile() as prof:
        f()
    assert [e.name for e in prof.function_events if e.name == "f"] == ["f"]


def test_values_and_gradients_do_not_change():
    x = T.tensor([1.0, 2.0], requires_grad=True)
    with profile():
        y = x * 2
        y[0] = 5.0
        y.mul_(3)
        a, b = y.unbind()
        (a * b).backward()
    assert x.grad.tolist() == [0.0, 90.0]


def cycles(package, plan, steps, **options):
    """(step number, how many exp were recorded) for each trace, and the last step number."""
    P, seen = package.profiler, []

    def ready(prof):
        seen.append((prof.step_num, sum(e.name == "aten::exp" for e in prof.events())))

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")     # PyTorch's, of schedules without warm-up
        with P.profile(activities=[P.ProfilerActivity.CPU], schedule=plan and P.schedule(**plan), on_trace_ready=ready,
                       **options) as prof:
            for _ in range(steps):
                package.ones(2).exp()
                prof.step()
    return seen, prof.step_num


@pytest.mark.parametrize("plan, steps, options", [
    (None, 2, {}), (dict(wait=1, warmup=1, active=2, repeat=2), 9, {}), (dict(wait=0, warmup=0, active=2), 4, {}),
    (dict(wait=0, warmup=1, active=3), 7, {}), (dict(wait=2, warmup=0, active=1, skip_first=1), 8, {}),
    (dict(wait=0, warmup=1, active=1, repeat=2), 6, {"acc_events": True})])
def test_scheduled_steps_are_recorded_as_in_pytorch(plan, steps, options):
    assert cycles(T, plan, steps, **options) == cycles(torch, plan, steps, **options)


def test_steps_are_regions_and_traces_go_to_files(tmp_path):
    P = T.profiler
    with P.profile(schedule=P.schedule(wait=0, warmup=1, active=1, repeat=1), record_shapes=True,
                   on_trace_ready=P.tensorboard_trace_handler(str(tmp_path), "me", use_gzip=True)) as prof:
        prof.add_metadata("run", "first")
        for _ in range(3):
            T.ones(2).exp()
            prof.step()
    assert {"ProfilerStep#1", "aten::exp"} == {e.key for e in prof.key_averages()}
    (path,) = tmp_path.iterdir()
    assert path.name.startswith("me.") and path.name.endswith(".pt.trace.json.gz")
    trace = json.loads(gzip.decompress(path.read_bytes()))
    assert trace["run"] == "first" and {e["name"] for e in trace["traceEvents"]} == {"ProfilerStep#1", "aten::exp"}


def test_profiles_that_cannot_be():
    P = T.profiler
    with pytest.raises(AssertionError, match="No valid profiler activities.*ProfilerActivity.CPU"):
        P.profile(activities=[P.ProfilerActivity.CUDA])
    with pytest.warns(UserWarning, match="CUDA is not available"):
        prof = P.profile(activities=[P.ProfilerActivity.CPU, P.ProfilerActivity.CUDA])
    prof.step()
    with pytest.raises(AssertionError, match="nothing was recorded"):
        prof.key_averages()
    with pytest.raises(NotImplementedError, match="cProfile"):
        prof.export_stacks("stacks.txt")
