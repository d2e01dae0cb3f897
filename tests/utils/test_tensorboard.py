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
@pytest.mark.parametrize("fill", [scalars, histograms, curves, texts, images], ids=lambda fn: fn.__name__)
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
    for name, arguments in (("add_graph", (None,)), ("add_embedding", (None,)), ("add_video", ("v", None)),
                            ("add_mesh", ("m", None)), ("add_onnx_graph", ("x",))):
        with pytest.raises(NotImplementedError, match=name):
            getattr(w, name)(*arguments)
    with pytest.raises(AssertionError, match="one element"):
        w.add_scalar("a", [1.0, 2.0])
    w.close()
