"""The page that `flambeau demo` writes: one HTML file that needs nothing else."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING

import numpy as np

import flambeau

if TYPE_CHECKING:
    from .demo import GradientRow, Result

MAX_MISTAKES = 24

STYLE = """
:root { color-scheme: light dark; --fg: #1c1b1a; --bg: #fdfcfa; --soft: #e7e2da; --dim: #6d675f;
  --hot: #d9480f; --cool: #1971c2; }
@media (prefers-color-scheme: dark) { :root { --fg: #ece8e1; --bg: #1b1a19; --soft: #3a3733; --dim: #a39c92;
  --hot: #ff922b; --cool: #74c0fc; } }
body { font: 16px/1.5 system-ui, sans-serif; color: var(--fg); background: var(--bg);
  max-width: 60rem; margin: 2rem auto; padding: 0 1rem; }
h1 { font-size: 1.6rem; margin-bottom: .2rem; } h2 { font-size: 1.15rem; margin-top: 2.2rem; }
p, figcaption { color: var(--dim); } figure { margin: 0; }
.figures { display: flex; flex-wrap: wrap; gap: 2.5rem; }
.figures b { display: block; font-size: 1.7rem; color: var(--fg); }
.scroll { overflow-x: auto; }
table { border-collapse: collapse; font-variant-numeric: tabular-nums; }
th, td { padding: .25rem .7rem; text-align: right; } th { font-weight: 600; }
.report td, .report th { border-bottom: 1px solid var(--soft); }
.report td:first-child, .report th:first-child { text-align: left; font-family: ui-monospace, monospace; }
.confusion td { width: 2.1rem; height: 2.1rem; padding: 0; text-align: center;
  border: 1px solid var(--soft); }
.meter { display: inline-block; height: .6rem; background: var(--hot); vertical-align: middle; }
.mistakes { display: flex; flex-wrap: wrap; gap: 1rem; } .mistakes figure { text-align: center; }
.mistakes svg { width: 64px; height: 64px; background: #000; } .mistakes figcaption { font-size: .85rem; }
.chart { width: 100%; height: auto; } .chart text { fill: var(--dim); font-size: 12px; }
.chart .grid { stroke: var(--soft); } .chart polyline { fill: none; }
"""


def render(result: Result) -> str:
    """The whole page as HTML text.

    Args:
        result: record of a demo run.

    Returns:
        A document with style and pictures inside, no script and no reference to any other file.
    """
    n_wrong = int((result.labels != result.predictions).sum())
    n_epochs = len(result.accuracies)
    return f"""<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>flambeau demo</title>
<style>{STYLE}</style>
</head>
<body>
<h1>A small network learns digits</h1>
<p>flambeau {escape(flambeau.version.flambeau)}; two convolutions and a linear layer, Adam, {n_epochs} epochs.</p>
<div class="figures">
<div><b>{result.accuracies[-1]:.1%}</b>accuracy on {len(result.labels)} test digits</div>
<div><b>{result.test_losses[-1]:.3f}</b>test loss</div>
<div><b>{result.n_parameters:,}</b>parameters</div>
<div><b>{result.seconds:.1f} s</b>training time</div>
</div>
<h2>Loss</h2>
{loss_chart(result.losses, result.test_losses)}
<h2>Gradients</h2>
<p>Means over the steps of the last epoch. Update / weight is the norm of one step's change over the norm of
the parameter: around 0.001 is usual; far above it training is rough, far below it hardly moves.</p>
<div class="scroll">{gradient_report(result.gradients)}</div>
<h2>Confusion matrix</h2>
<p>Rows are the true digits, columns the predictions.</p>
<div class="scroll">{confusion_matrix(result.confusion())}</div>
<h2>Misclassified</h2>
{mistakes(result, n_wrong)}
</body>
</html>
"""


def loss_chart(losses: list[float], test_losses: list[float]) -> str:
    """SVG line chart: loss of every batch, and the test loss after each epoch, on a logarithmic axis."""
    width, height, left, right, top, bottom = 720, 300, 52, 12, 12, 34
    values = np.array([*losses, *test_losses])
    values = values[np.isfinite(values) & (values > 0)]
    low, high = (values.min(), values.max()) if len(values) else (0.1, 1.0)
    log_low, log_high = np.floor(np.log10(low)), np.ceil(np.log10(high) + 1e-9)

    def y(value: float) -> float:
        position = (np.log10(max(value, 10**log_low)) - log_low) / max(log_high - log_low, 1e-9)
        return float(height - bottom - position * (height - top - bottom))

    def x(step: float) -> float:
        return left + step / max(len(losses), 1) * (width - left - right)

    def points(steps: list[float], series: list[float]) -> str:
        pairs = zip(steps, series, strict=True)
        return " ".join(f"{x(step):.1f},{y(value):.1f}" for step, value in pairs if np.isfinite(value))

    n_epochs = len(test_losses)
    ends = [(epoch + 1) * len(losses) / n_epochs for epoch in range(n_epochs)]
    batches = points([step + 1 for step in range(len(losses))], losses)
    tests = points(ends, test_losses)
    grid = []
    for power in range(int(log_low), int(log_high) + 1):
        level = y(10.0**power)
        grid.append(f'<path class="grid" d="M{left} {level:.1f}H{width - right}"/>')
        grid.append(f'<text x="{left - 6}" y="{level + 4:.1f}" text-anchor="end">{10.0**power:g}</text>')
    every = max(1, -(-n_epochs // 10))
    for epoch in range(every, n_epochs + 1, every):
        place = x(epoch * len(losses) / n_epochs)
        grid.append(f'<text x="{place:.1f}" y="{height - 14}" text-anchor="middle">{epoch}</text>')
    dots = "".join(
        f'<circle cx="{pair.split(",")[0]}" cy="{pair.split(",")[1]}" r="3.5" fill="var(--cool)"/>'
        for pair in tests.split()
    )
    return f"""<figure>
<svg class="chart" viewBox="0 0 {width} {height}" role="img" aria-label="training and test loss by epoch">
{"".join(grid)}
<polyline points="{batches}" stroke="var(--hot)" stroke-width="1"/>
<polyline points="{tests}" stroke="var(--cool)" stroke-width="2"/>{dots}
</svg>
<figcaption>Cross entropy by epoch: <span style="color:var(--hot)">each training batch</span>,
<span style="color:var(--cool)">test set after each epoch</span>. Logarithmic axis.</figcaption>
</figure>"""


def gradient_report(rows: list[GradientRow]) -> str:
    """Table of the parameters, with a bar for each gradient norm."""
    largest = max((row.grad_norm for row in rows), default=0.0) or 1.0
    lines = "".join(
        f"<tr><td>{escape(row.name)}</td><td>{' &times; '.join(map(str, row.shape))}</td>"
        f"<td>{row.weight_norm:.3f}</td><td>{row.grad_norm:.2e}</td>"
        f'<td style="text-align:left"><span class="meter" style="width:{90 * row.grad_norm / largest:.0f}px">'
        f"</span></td><td>{row.update_ratio:.1e}</td></tr>"
        for row in rows
    )
    titles = ("parameter", "shape", "weight norm", "gradient norm", "", "update / weight")
    head = "".join(f"<th>{title}</th>" for title in titles)
    return f'<table class="report"><thead><tr>{head}</tr></thead><tbody>{lines}</tbody></table>'


def confusion_matrix(counts: np.ndarray) -> str:
    """Table of counts, shaded: hits in one colour, mistakes in the other."""
    totals = np.maximum(counts.sum(axis=1), 1)
    digits = range(len(counts))
    lines = []
    for i in digits:
        cells = []
        for j in digits:
            share = counts[i, j] / totals[i]
            colour, strength = ("--cool", 0.55 * share) if i == j else ("--hot", min(1.0, 0.25 + 3 * share))
            style = f"background:color-mix(in srgb,var({colour}) {100 * strength:.0f}%,transparent)"
            cells.append(f'<td style="{style}">{counts[i, j]}</td>' if counts[i, j] else "<td></td>")
        lines.append(f"<tr><th>{i}</th>{''.join(cells)}</tr>")
    head = "".join(f'<th style="text-align:center;padding:0">{j}</th>' for j in digits)
    return f'<table class="confusion"><tr><th></th>{head}</tr>{"".join(lines)}</table>'


def mistakes(result: Result, n_wrong: int) -> str:
    """Pictures of misclassified test digits, at most MAX_MISTAKES."""
    wrong = np.flatnonzero(result.labels != result.predictions)
    if not len(wrong):
        return "<p>None: every test digit was recognised.</p>"
    figures = "".join(
        f"<figure>{picture(result.images[i])}<figcaption>{result.labels[i]} read as {result.predictions[i]}"
        "</figcaption></figure>"
        for i in wrong[:MAX_MISTAKES]
    )
    note = f"<p>The first {MAX_MISTAKES} of {n_wrong}.</p>" if n_wrong > MAX_MISTAKES else ""
    return f'{note}<div class="mistakes">{figures}</div>'


def picture(image: np.ndarray) -> str:
    """SVG of a grey image, values 0 to 1, one square per pixel."""
    squares = "".join(
        f'<rect x="{x}" y="{y}" width="1" height="1" fill="#fff" fill-opacity="{value:.2f}"/>'
        for (y, x), value in np.ndenumerate(image)
        if value > 0
    )
    rows, columns = image.shape
    return f'<svg viewBox="0 0 {columns} {rows}" shape-rendering="crispEdges">{squares}</svg>'
