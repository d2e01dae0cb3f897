"""Makes the digits of the demo: 8x8 grey images drawn from strokes, with shifts, slant, thickness and noise.

Writes src/flambeau/cli/digits.npz. The images are of our own making, so that the demo needs no download and
no extra package. The same seed gives the same file.

    python tools/make_digits.py [output.npz]
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np

N_IMAGES = 1797
SEED = 20240607
SIZE = 8
FINE = 4  # each pixel is the mean of FINE x FINE points
OUTPUT = Path(__file__).resolve().parent.parent / "src" / "flambeau" / "cli" / "digits.npz"


def arc(cx: float, cy: float, rx: float, ry: float, start: float, stop: float) -> list[tuple[float, float]]:
    """Points of an elliptic arc; angles in degrees, 0 to the right, 90 downwards."""
    angles = np.radians(np.linspace(start, stop, 13))
    return [(cx + rx * float(np.cos(a)), cy + ry * float(np.sin(a))) for a in angles]


# Each digit is a list of strokes, each stroke a polyline of (x, y) in a box of -1..1 by -1..1, y downwards.
# The variants of a digit are ways in which people write it.
GLYPHS: dict[int, list[list[list[tuple[float, float]]]]] = {
    0: [[arc(0, 0, 0.62, 0.95, 0, 360)], [arc(0, 0, 0.5, 0.9, 0, 360)]],
    1: [[[(0.1, -0.95), (0.1, 0.95)], [(-0.4, -0.5), (0.1, -0.95)]], [[(0, -0.95), (0, 0.95)]]],
    2: [[[*arc(0, -0.45, 0.6, 0.5, 190, 400), (-0.6, 0.95), (0.65, 0.95)]]],
    3: [[arc(-0.1, -0.47, 0.6, 0.48, 200, 450), arc(-0.1, 0.45, 0.68, 0.5, 270, 520)]],
    4: [
        [[(0.25, 0.95), (0.25, -0.95), (-0.65, 0.3), (0.7, 0.3)]],
        [[(-0.5, -0.95), (-0.55, 0.1), (0.6, 0.1)], [(0.35, -0.6), (0.3, 0.95)]],
    ],
    5: [[[(0.6, -0.95), (-0.5, -0.95), (-0.55, -0.1), *arc(-0.05, 0.38, 0.65, 0.55, 240, 510)]]],
    6: [[[(0.4, -0.95), (-0.3, -0.35), (-0.55, 0.3)], arc(0, 0.42, 0.56, 0.52, 0, 360)]],
    7: [
        [[(-0.65, -0.95), (0.65, -0.95), (-0.2, 0.95)]],
        [[(-0.6, -0.9), (0.6, -0.9), (-0.1, 0.95)], [(-0.3, 0.0), (0.55, 0.0)]],
    ],
    8: [[arc(0, -0.47, 0.48, 0.46, 0, 360), arc(0, 0.46, 0.6, 0.48, 0, 360)]],
    9: [[arc(0, -0.4, 0.55, 0.52, 0, 360), [(0.55, -0.35), (0.4, 0.4), (0.05, 0.95)]]],
}


def distance_to_segment(points: np.ndarray, a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Distance of each point (N, 2) to the segment from a to b."""
    along = b - a
    t = np.clip((points - a) @ along / max(float(along @ along), 1e-9), 0.0, 1.0)
    return np.hypot(*(points - a - t[:, None] * along).T)


def draw(digit: int, rng: np.random.Generator) -> np.ndarray:
    """One image of a digit: uint8 (8, 8), 0 to 16."""
    variants = GLYPHS[digit]
    strokes = variants[rng.integers(len(variants))]
    scale = np.array([rng.uniform(2.3, 3.3), rng.uniform(2.9, 3.6)])  # half width and height, pixels
    slant, angle = rng.normal(0.0, 0.16), rng.normal(0.0, 0.12)
    turn = np.array([[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]])
    transform = turn @ np.array([[1.0, -slant], [0.0, 1.0]]) @ np.diag(scale)
    centre = SIZE / 2 + rng.normal(0.0, 0.42, size=2)
    thickness = rng.uniform(0.35, 0.8)

    grid = (np.arange(SIZE * FINE) + 0.5) / FINE
    points = np.stack(np.meshgrid(grid, grid), axis=-1).reshape(-1, 2)
    nearest = np.full(len(points), np.inf)
    for stroke in strokes:
        wobble = rng.normal(0.0, 0.05, size=(len(stroke), 2))
        path = (np.array(stroke) + wobble) @ transform.T + centre
        for a, b in zip(path[:-1], path[1:], strict=True):
            nearest = np.minimum(nearest, distance_to_segment(points, a, b))
    ink = np.clip((thickness + 0.25 - nearest) / 0.5, 0.0, 1.0)
    image = ink.reshape(SIZE, FINE, SIZE, FINE).mean(axis=(1, 3))
    image *= rng.uniform(0.75, 1.0) / max(float(image.max()), 1e-9)
    image += rng.normal(0.0, 0.06, image.shape)
    return np.clip(np.rint(image * 16), 0, 16).astype(np.uint8)


def make(n_images: int = N_IMAGES, seed: int = SEED) -> tuple[np.ndarray, np.ndarray]:
    """Images uint8 (N, 8, 8) with values 0 to 16, and labels uint8 (N,), all digits equally often."""
    rng = np.random.default_rng(seed)
    labels = rng.permutation(np.arange(n_images) % 10).astype(np.uint8)
    return np.stack([draw(int(digit), rng) for digit in labels]), labels


if __name__ == "__main__":
    output = Path(sys.argv[1]) if len(sys.argv) > 1 else OUTPUT
    images, labels = make()
    np.savez_compressed(output, images=images, labels=labels)
    print(f"{output}: {len(labels)} images, {output.stat().st_size} bytes")
