"""The demo: it learns, its page stands alone, and PyTorch gets the same losses from the same seed."""

from __future__ import annotations

import importlib.util
import sys
from html.parser import HTMLParser
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
from rich.console import Console

from flambeau.cli import demo
from flambeau.cli.page import picture, render

ROOT = Path(__file__).resolve().parent.parent


@pytest.fixture(scope="module")
def result():
    return demo.train(n_epochs=3, seed=0)


def test_digits_are_those_that_the_script_draws():
    spec = importlib.util.spec_from_file_location("make_digits", ROOT / "tools" / "make_digits.py")
    make_digits = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(make_digits)
    images, labels = make_digits.make()
    with np.load(make_digits.OUTPUT) as kept:
        assert np.array_equal(kept["labels"], labels)
        # cos and sin may differ in the last place between machines, which can move a grey value by one
        assert np.abs(kept["images"].astype(int) - images).max() <= 1
        assert (kept["images"] != images).mean() < 1e-3
    assert make_digits.OUTPUT.stat().st_size < 200_000
    assert np.bincount(labels).min() >= 179


def test_sets_are_disjoint_and_scaled():
    (train_images, train_labels), (test_images, test_labels) = demo.load_digits()
    assert tuple(train_images.shape) == (1437, 1, 8, 8) and tuple(test_images.shape) == (360, 1, 8, 8)
    assert len(train_labels) == 1437 and len(test_labels) == 360
    assert float(train_images.min()) == 0.0 and float(train_images.max()) == 1.0
    seen = {image.tobytes() for image in train_images.numpy()}
    assert not any(image.tobytes() in seen for image in test_images.numpy())


def test_network_learns(result):
    assert result.accuracies[-1] > 0.85
    assert np.mean(result.losses[-45:]) < 0.3 * np.mean(result.losses[:10])
    assert result.confusion().sum() == 360
    assert np.trace(result.confusion()) == round(result.accuracies[-1] * 360)


def test_gradient_report_covers_every_parameter(result):
    names = ["conv1.weight", "conv1.bias", "conv2.weight", "conv2.bias", "head.weight", "head.bias"]
    assert [row.name for row in result.gradients] == names
    for row in result.gradients:
        assert row.grad_norm > 0 and row.weight_norm > 0
        assert 1e-5 < row.update_ratio < 0.5


def test_pytorch_gets_the_same_losses_from_the_same_seed(result):
    import torch

    text = Path(demo.__file__).read_text(encoding="utf-8")
    ours = ["import flambeau as torch", "from flambeau import nn", "from flambeau.utils.data import"]
    theirs = ["import torch", "from torch import nn", "from torch.utils.data import"]
    for line, replacement in zip(ours, theirs, strict=True):
        assert text.count(line) == 1
        text = text.replace(line, replacement)
    module = ModuleType("demo_on_torch")
    sys.modules[module.__name__] = module  # dataclasses look their module up
    try:
        exec(compile(text, "demo_on_torch.py", "exec"), module.__dict__)
        torch.set_num_threads(1)
        reference = module.train(n_epochs=1, seed=0)
    finally:
        del sys.modules[module.__name__]
    assert len(reference.losses) == 45
    # float32 rounding grows with the steps: tight at first, looser over the epoch
    np.testing.assert_allclose(result.losses[:5], reference.losses[:5], rtol=1e-5)
    np.testing.assert_allclose(result.losses[:45], reference.losses, rtol=1e-2, atol=1e-3)
    assert abs(result.accuracies[0] - reference.accuracies[0]) < 0.01


class Outline(HTMLParser):
    """Collects the tags of a page and checks that they nest."""

    VOID = {"meta", "br", "img", "link"}

    def __init__(self):
        super().__init__()
        self.open, self.tags, self.attributes = [], [], []

    def handle_starttag(self, tag, attributes):
        self.tags.append(tag)
        self.attributes += attributes
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attributes):
        self.tags.append(tag)
        self.attributes += attributes

    def handle_endtag(self, tag):
        assert self.open.pop() == tag


def test_page_stands_alone_and_is_well_formed(result):
    outline = Outline()
    page = render(result)
    outline.feed(page)
    assert outline.open == []
    assert not {"script", "link", "img", "iframe"} & set(outline.tags)
    assert not {"src", "href"} & {name for name, _ in outline.attributes}
    assert "url(" not in page and "http" not in page
    n_wrong = int((result.labels != result.predictions).sum())
    assert page.count("<figcaption>") == 1 + min(n_wrong, 24)
    assert f"{result.accuracies[-1]:.1%}" in page
    for row in result.gradients:
        assert f"<td>{row.name}</td>" in page


def test_page_without_a_mistake_says_so(result):
    perfect = demo.Result(
        n_parameters=1,
        losses=[1.0, float("nan"), 0.0],
        test_losses=[0.5],
        accuracies=[1.0],
        images=result.images,
        labels=result.labels,
        predictions=result.labels,
    )
    assert "every test digit was recognised" in render(perfect)


def test_picture_draws_one_square_for_each_inked_pixel():
    image = np.zeros((8, 8))
    image[2, 5] = 0.5
    assert picture(image).count("<rect") == 1
    assert '<rect x="5" y="2" width="1" height="1" fill="#fff" fill-opacity="0.50"/>' in picture(image)


def test_command_prints_accuracy_and_gradients_and_writes_the_page(tmp_path, capsys):
    page = tmp_path / "page.html"
    code = demo.main(n_epochs=1, seed=1, output=str(page), console=Console(width=120))
    printed = capsys.readouterr().out
    assert code == 0
    assert "Accuracy on the test digits:" in printed
    assert "conv1.weight" in printed and "update / weight" in printed
    assert str(page) in printed
    assert page.read_text(encoding="utf-8").startswith("<!DOCTYPE html>")


def test_unwritable_page_exits_1(tmp_path, capsys):
    assert demo.main(n_epochs=1, seed=0, output=str(tmp_path / "no" / "page.html"), console=Console()) == 1
    assert "cannot write" in capsys.readouterr().err
