"""autograd.profiler: counts, nesting, regions."""

from __future__ import annotations

import json

import pytest

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
