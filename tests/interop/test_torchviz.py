"""The drawing of an autograd graph."""

from __future__ import annotations

import re
import shutil

import pytest

import flambeau
from flambeau.interop.torchviz import Dot, make_dot


def parts(source):
    """{node: label} and the edges as pairs of labels."""
    labels = dict(re.findall(r'^\t(\d+) \[label="([^"]*)"', source, re.M))
    edges = [(labels[a], labels[b]) for a, b in re.findall(r"^\t(\d+) -> (\d+)", source, re.M)]
    return labels, edges


def network():
    w = flambeau.ones(2, 2, requires_grad=True)
    x = flambeau.ones(2, 2)
    return w, (x @ w).relu().sum()


def test_nodes_edges_and_names():
    w, out = network()
    labels, edges = parts(make_dot(out, params={"w": w}).source)
    assert set(labels.values()) == {"AccumulateGrad", "MmBackward0", "ReluBackward0", "SumBackward0", r"\n ()",
                                    r"w\n (2, 2)"}
    assert len(labels) == 6
    assert edges.count(("MmBackward0", "ReluBackward0")) == 1 and (r"w\n (2, 2)", "AccumulateGrad") in edges
    assert ("AccumulateGrad", "MmBackward0") in edges and ("SumBackward0", r"\n ()") in edges


def test_shared_leaf_is_drawn_once_and_long_chains_are_no_problem():
    w = flambeau.ones(1, requires_grad=True)
    y = w
    for _ in range(3000):
        y = y * w
    labels, edges = parts(make_dot([y, y], params=[("w", w)]).source)
    assert list(labels.values()).count(r"w\n (1,)") == 1 and len(edges) == 6002


def test_saved_values_attributes_and_views():
    w, _ = network()
    out = (w * w).sum(dim=1)
    source = make_dot(out, show_attrs=True, show_saved=True).source
    assert "orange" in source and "dim" in source and "[saved tensor]" in source and source.count("dir=none") >= 2
    view = (w * 2).t()
    assert "style=dotted" in make_dot(view).source and "darkolivegreen3" in make_dot(view).source
    out.sum().backward()
    assert "(freed)" in make_dot(out, show_attrs=True).source


def test_a_tensor_without_history_and_wrong_names():
    labels, edges = parts(make_dot(flambeau.ones(3)).source)
    assert list(labels.values()) == [r"\n (3,)"] and edges == []
    with pytest.raises(TypeError, match="params must hold tensors by name"):
        make_dot(flambeau.ones(3), params={"w": 3})


def test_files(tmp_path, monkeypatch):
    dot = Dot(make_dot(network()[1]).source)
    path = dot.save("graph.gv", tmp_path)
    assert (tmp_path / "graph.gv").read_text() == dot.source == str(dot) and dot.filepath == path
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(RuntimeError, match="Graphviz's `dot` program was not found"):
        dot.render(tmp_path / "g")


@pytest.mark.skipif(shutil.which("dot") is None, reason="needs Graphviz")
def test_rendering(tmp_path):
    drawn = Dot(make_dot(network()[1]).source).render(tmp_path / "g", format="svg")
    with open(drawn) as file:
        assert "SumBackward0" in file.read()
