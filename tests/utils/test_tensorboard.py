"""SummaryWriter writes the events that PyTorch's writes; without the package it says what to install."""

from __future__ import annotations

import importlib.util
import pathlib
import struct
import subprocess
import sys
import warnings
import zlib

import numpy as np
import pytest

INSTALLED = importlib.util.find_spec("tensorboard") is not None
needs_tensorboard = pytest.mark.skipif(not INSTALLED, reason="the tensorboard extra is not installed")


def test_without_the_package_the_extra_is_named():
    program = ("import sys; sys.modules['tensorboard'] = None\n"
               "try:\n    from flambeau.utils.tensorboard import SummaryWriter\n"
               "except ImportError as error:\n    print(error)")
    told = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=True).stdout
    assert "pip install 'flambeau[tensorboard]'" in told


def library(name):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        package = pytest.importorskip(name)
        writer = importlib.import_module(name + ".utils.tensorboard").SummaryWriter
    return package, writer


def scalars(L, w):
    w.add_scalar("a/b", L.tensor(1.5), 1, walltime=5.0)
    w.add_scalar("new", 2, 1, walltime=5.0, new_style=True)
    w.add_scalar("double", 2.5, 1, walltime=5.0, new_style=True, double_precision=True)
    w.add_scalars("m/x", {"p": 1.0, "q": L.tensor([2.0])}, 2, walltime=5.0)
    w.add_tensor("tensor", L.rand(2, 3), 1, walltime=5.0)


def histograms(L, w):
    w.add_histogram("exponential", L.randn(1000), 3, walltime=5.0)
    w.add_histogram("counted", L.randn(10), 3, bins=5, walltime=5.0)
    w.add_histogram("few", L.randn(100), 3, bins=50, max_bins=7, walltime=5.0)
    w.add_histogram("zeros", np.zeros(4), 3, walltime=5.0)
    w.add_histogram_raw("raw", 0.0, 1.0, 3, 1.0, 1.0, [0.5, 1.0], [1, 2], 1, walltime=5.0)


def curves(L, w):
    w.add_pr_curve("pr", L.randint(0, 2, (50,)), L.rand(50), 1, walltime=5.0)
    w.add_pr_curve("weighted", np.array([0, 1, 1]), np.array([0.1, 0.5, 1.0]), 1, num_thresholds=10,
                   weights=np.array([1.0, 2.0, 3.0]), walltime=5.0)
    w.add_custom_scalars({"c": {"k": ["Multiline", ["a", "b"]], "z": ["Margin", ["a", "b", "c"]]}})


def texts(L, w):
    w.add_text("text", "hello *there*", 1, walltime=5.0)
    w.add_audio("sound", L.rand(1, 100) * 2 - 1, 1, walltime=5.0)
    w.add_hparams({"lr": 0.1, "name": "x", "flag": True, "n": 3, "t": L.tensor([2.0])}, {"accuracy": 0.5},
                  {"lr": [0.1, 0.2]}, run_name="run")


def images(L, w):
    w.add_image("chw", L.rand(3, 5, 6), 1, walltime=5.0)
    w.add_image("hw", L.rand(5, 6), 1, walltime=5.0, dataformats="HW")
    w.add_images("several", (L.rand(10, 1, 5, 6) * 255).to(L.uint8), 1, walltime=5.0)


def bodies(L, w):
    w.add_mesh("cloud", L.rand(1, 4, 3), global_step=1, walltime=5.0)
    w.add_mesh("body", L.rand(1, 4, 3), L.randint(0, 255, (1, 4, 3)), L.tensor([[[0, 1, 2], [1, 2, 3]]]),
               {"camera": {"cls": "PerspectiveCamera"}}, 2, walltime=5.0)


def boxes(L, w):
    picture = L.rand(3, 40, 50)
    w.add_image_with_boxes("plain", picture, L.tensor([[5.0, 6.0, 20.0, 30.0], [10.0, 2.0, 45.0, 38.0]]), 1, walltime=5.0)
    w.add_image_with_boxes("named", picture, np.array([[5, 6, 20, 30]]), 1, walltime=5.0, rescale=2, labels="cat")
    w.add_image_with_boxes("mismatch", picture.permute(1, 2, 0), np.array([[5, 6, 20, 30]]), 1, walltime=5.0,
                           dataformats="HWC", labels=["a", "b"])


def figures(L, w):
    pyplot = pytest.importorskip("matplotlib.pyplot")
    pyplot.switch_backend("agg")

    def drawn(y):
        figure = pyplot.figure(figsize=(2, 1))
        figure.gca().plot([0, 1], [0, y])
        return figure

    w.add_figure("one", drawn(1), 1, walltime=5.0)
    w.add_figure("two", [drawn(1), drawn(2)], 1, walltime=5.0)
    kept = drawn(3)
    w.add_figure("kept", kept, 1, close=False, walltime=5.0)
    assert pyplot.get_fignums() == [kept.number]
    pyplot.close(kept)


def written(name, fill, folder):
    from tensorboard.backend.event_processing.event_file_loader import LegacyEventFileLoader

    package, writer = library(name)
    package.manual_seed(0)
    with writer(str(folder), purge_step=3) as w:
        fill(package, w)
    found = []
    for file in sorted(pathlib.Path(folder).rglob("events*")):
        for event in LegacyEventFileLoader(str(file)).Load():
            event.ClearField("source_metadata")
            event.wall_time = event.wall_time if event.wall_time == 5.0 else 0
            for value in event.summary.value:
                if value.HasField("image"):
                    value.image.encoded_image_string = pixels(value.image.encoded_image_string)
            found.append((str(file.parent.relative_to(folder)), str(event)))
    return found


def pixels(data):
    """The bytes of a PNG file's picture, for files without filters or with those that PIL chooses."""
    image = pytest.importorskip("PIL.Image")
    import io

    return np.asarray(image.open(io.BytesIO(data))).tobytes()


@needs_tensorboard
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("fill", [scalars, histograms, curves, texts, images, bodies, boxes, figures],
                         ids=lambda fn: fn.__name__)
def test_events_are_those_of_pytorch(tmp_path, fill):
    pytest.importorskip("PIL")                     # PyTorch's writer needs it
    expected, got = written("torch", fill, tmp_path / "torch"), written("flambeau", fill, tmp_path / "flambeau")
    assert len(expected) == len(got) > 3
    for e, g in zip(expected, got, strict=True):
        assert e == g


@needs_tensorboard
def test_png_files_hold_the_pixels():
    from flambeau.utils.tensorboard.summary import png

    picture = np.arange(2 * 3 * 3, dtype=np.uint8).reshape(2, 3, 3)
    data = png(picture)
    assert data[:8] == b"\x89PNG\r\n\x1a\n" and struct.unpack(">II", data[16:24]) == (3, 2)
    start = data.index(b"IDAT") + 4
    rows = np.frombuffer(zlib.decompress(data[start:-16]), np.uint8).reshape(2, 10)
    assert (rows[:, 0] == 0).all() and (rows[:, 1:].reshape(2, 3, 3) == picture).all()


@needs_tensorboard
def test_folders_reopening_and_refusals(tmp_path, monkeypatch):
    _, writer = library("flambeau")
    monkeypatch.chdir(tmp_path)
    w = writer(comment="_try")
    assert w.get_logdir().startswith("runs") and w.get_logdir().endswith("_try")
    w.add_scalar("a", 1.0)
    w.close()
    w.add_scalar("a", 2.0)
    w.close()
    assert len(list(tmp_path.rglob("events*"))) in (1, 2)
    with pytest.raises(NotImplementedError, match="add_onnx_graph"):
        w.add_onnx_graph("x")
    with pytest.raises(ValueError, match="shape"):
        w.add_mesh("m", np.zeros((4, 3)))
    with pytest.raises(AssertionError, match="one element"):
        w.add_scalar("a", [1.0, 2.0])
    w.close()


@needs_tensorboard
@pytest.mark.filterwarnings("ignore")
def test_embeddings_are_the_files_of_pytorch(tmp_path, capsys):
    pytest.importorskip("PIL")

    def files(name):
        package, writer = library(name)
        package.manual_seed(0)
        folder = tmp_path / name
        with writer(str(folder)) as w:
            w.add_embedding(package.rand(5, 3), ["a", "b", 3, "d", "e"], package.rand(5, 1, 4, 4), 7, "some/tag")
            w.add_embedding(np.arange(6.0).reshape(2, 3), [["x", 1], ["y", 2]], metadata_header=["name", "n"])
        found = {}
        for file in sorted(folder.rglob("*")):
            if file.is_file() and "events" not in file.name:
                content = file.read_bytes()
                found[str(file.relative_to(folder))] = pixels(content) if file.suffix == ".png" else content
        return found

    expected = files("torch")
    assert len(expected) == 6
    assert files("flambeau") == expected
    _, writer = library("flambeau")
    with writer(str(tmp_path / "flambeau")) as w:
        w.add_embedding(np.zeros((2, 3)))
        assert "Embedding dir exists" in capsys.readouterr().out
        for match, arguments in (("2D", (np.zeros(3),)), ("#labels", (np.zeros((2, 3)), ["a"])),
                                 ("#images", (np.zeros((2, 3)), None, np.zeros((3, 1, 2, 2)))),
                                 ("header", (np.zeros((1, 3)), [["a", "b"]], None, 3, "t", ["one"]))):
            with pytest.raises(AssertionError, match=match):
                w.add_embedding(*arguments)


def drawn_graph(folder):
    from tensorboard.backend.event_processing.event_file_loader import LegacyEventFileLoader
    from tensorboard.compat.proto.graph_pb2 import GraphDef

    for file in sorted(pathlib.Path(folder).rglob("events*")):
        for event in LegacyEventFileLoader(str(file)).Load():
            if event.HasField("graph_def"):
                return GraphDef.FromString(event.graph_def)
    raise AssertionError("no graph was written")


def net(L):
    class Net(L.nn.Module):
        def __init__(self):
            super().__init__()
            self.first = L.nn.Linear(4, 8)
            self.rest = L.nn.Sequential(L.nn.Dropout(), L.nn.ReLU(), L.nn.Linear(8, 2, bias=False))
            self.register_buffer("shift", L.ones(2))
            self.register_buffer("unused", L.ones(2))

        def forward(self, x, y):
            return self.rest(self.first(x)) + self.shift, x * y

    return Net()


@needs_tensorboard
def test_graph_shows_operators_by_module(tmp_path, capsys):
    L, writer = library("flambeau")
    model = net(L)
    with writer(str(tmp_path)) as w:
        w.add_graph(model, (L.ones(3, 4), L.ones(3, 4)), verbose=True)
    assert model.training and model.rest[0].training
    nodes = {node.name: node for node in drawn_graph(tmp_path).node}
    assert [(name, node.op, list(node.input)) for name, node in nodes.items()] == [
        ("input/x", "IO Node", []), ("input/input.1", "IO Node", []),
        ("Net/Linear[first]/bias", "Parameter", []), ("Net/Linear[first]/weight", "Parameter", []),
        ("Net/Linear[first]/addmm", "aten::addmm",
         ["Net/Linear[first]/bias", "input/x", "Net/Linear[first]/weight"]),
        ("Net/Sequential[rest]/ReLU[1]/relu", "aten::relu", ["Net/Linear[first]/addmm"]),
        ("Net/Sequential[rest]/Linear[2]/weight", "Parameter", []),
        ("Net/Sequential[rest]/Linear[2]/mm", "aten::mm",
         ["Net/Sequential[rest]/ReLU[1]/relu", "Net/Sequential[rest]/Linear[2]/weight"]),
        ("Net/shift", "Parameter", []),
        ("Net/add", "aten::add", ["Net/Sequential[rest]/Linear[2]/mm", "Net/shift"]),
        ("Net/mul", "aten::mul", ["input/x", "input/input.1"]),
        ("output/output.1", "IO Node", ["Net/add"]), ("output/output.2", "IO Node", ["Net/mul"])]
    shape = nodes["Net/Linear[first]/addmm"].attr["_output_shapes"].list.shape[0]
    assert [d.size for d in shape.dim] == [3, 8]
    assert "Net/add = aten::add(Net/Sequential[rest]/Linear[2]/mm, Net/shift)" in capsys.readouterr().out


@needs_tensorboard
@pytest.mark.filterwarnings("ignore")
def test_graph_has_the_modules_and_shapes_of_pytorchs(tmp_path):
    """The operators are named alike; PyTorch lists constants, lists and sizes too."""
    pytest.importorskip("PIL")

    def shown(name):
        L, writer = library(name)
        with writer(str(tmp_path / name)) as w:
            w.add_graph(net(L), (L.ones(3, 4), L.ones(3, 4)))
        found = set()
        for node in drawn_graph(tmp_path / name).node:
            if node.op.startswith("aten::") and node.op != "aten::dropout":
                shape = [d.size for d in node.attr["_output_shapes"].list.shape[0].dim]
                found.add((node.name.rpartition("/")[0], tuple(shape)))
        return found

    assert shown("flambeau") == shown("torch")


@needs_tensorboard
def test_graphs_of_other_models(tmp_path):
    L, writer = library("flambeau")

    class Table(L.nn.Module):
        def forward(self, x):
            x = x.clone()
            x.add_(1)
            top, index = x.topk(2)
            return {"top": top, "index": index, "constant": x + L.full((1,), 2.0)}

    with writer(str(tmp_path)) as w:
        with pytest.raises(RuntimeError, match="dict.*use_strict_trace=False"):
            w.add_graph(Table(), L.ones(3))
        w.add_graph(Table(), L.ones(3), use_strict_trace=False)
        w.add_graph(L.nn.LSTM(3, 4), L.ones(5, 1, 3))
    nodes = {node.name: (node.op, list(node.input)) for node in drawn_graph(tmp_path).node}
    assert nodes["Table/add_"] == ("aten::add_", ["Table/clone"])
    assert nodes["Table/topk"] == ("aten::topk", ["Table/add_"])
    assert nodes["output/output.2"] == ("IO Node", ["Table/topk_output"])
    assert nodes["output/output.3"] == ("IO Node", ["Table/add"])


@needs_tensorboard
def test_films_need_moviepy(tmp_path, monkeypatch):
    L, writer = library("flambeau")
    from flambeau.utils.tensorboard._pictures import frames

    film = L.arange(5 * 2 * 1 * 2 * 2, dtype=L.uint8).view(5, 2, 1, 2, 2)
    sheets = frames(film)
    assert sheets.shape == (2, 4, 8, 1)                    # five films and three empty places
    assert sheets[1, :2, :2, 0].tolist() == [[4, 5], [6, 7]]
    assert sheets[0, :2, 2:4, 0].tolist() == [[8, 9], [10, 11]]
    assert not sheets[:, 2:, 2:].any()
    monkeypatch.setitem(sys.modules, "moviepy", None)
    monkeypatch.setitem(sys.modules, "moviepy.editor", None)
    with writer(str(tmp_path)) as w, pytest.raises(ModuleNotFoundError, match="add_video needs package moviepy"):
        w.add_video("film", film)
