"""Pictures with boxes, films, and meshes."""

from __future__ import annotations

import io
import json
import os
import tempfile
from typing import Any

import numpy as np
from tensorboard.compat.proto.summary_pb2 import Summary
from tensorboard.compat.proto.tensor_pb2 import TensorProto

from .summary import DT_FLOAT, as_array, as_pixels, shape_proto

_THICKNESS = 2


def _boxed(picture: Any, box: Any, label: str | None) -> None:
    """Draw a red frame, and its label in its lower left corner."""
    from PIL import ImageDraw, ImageFont

    draw = ImageDraw.Draw(picture)
    left, top, right, bottom = box
    draw.line([(left, top), (left, bottom), (right, bottom), (right, top), (left, top)], width=_THICKNESS, fill="Red")
    if label:
        font = ImageFont.load_default()
        x0, y0, x1, y1 = font.getbbox(label)
        width, height = x1 - x0, y1 - y0
        margin = np.ceil(0.05 * height)
        draw.rectangle([(left, bottom - height - 2 * margin), (left + width, bottom)], fill="Red")
        draw.text((left + margin, bottom - height - margin), label, fill="black", font=font)


def image_boxes(tag: str, value: Any, boxes: Any, rescale: float = 1, dataformats: str = "CHW", labels: Any = None) -> Any:
    """A picture with frames (x1, y1, x2, y2), in pixels of it before it is rescaled."""
    from PIL import Image

    pixels = as_pixels(value, dataformats)
    height, width, channels = pixels.shape
    picture = Image.fromarray(pixels)
    for i, box in enumerate(as_array(boxes)):
        _boxed(picture, box, None if labels is None else labels[i])
    picture = picture.resize((int(width * rescale), int(height * rescale)), Image.Resampling.LANCZOS)
    file = io.BytesIO()
    picture.save(file, format="PNG")
    return Summary(value=[Summary.Value(tag=tag, image=Summary.Image(
        height=height, width=width, colorspace=channels, encoded_image_string=file.getvalue()))])


# ------------------------------------------------------------------------------------- films


def frames(value: Any) -> np.ndarray:
    """(N, T, C, H, W), uint8 or floats from 0 to 1, as T pictures (H', W', C), in each of which the N lie side by side."""
    a = as_array(value)
    n, t, channels, height, width = a.shape
    if a.dtype == np.uint8:
        a = a.astype(np.float32) / 255
    if n & (n - 1):                                # the sheet has a power of two places
        a = np.concatenate([a, np.zeros((2 ** n.bit_length() - n, t, channels, height, width))])
    rows = 2 ** ((n.bit_length() - 1) // 2)
    a = a.reshape(rows, -1, t, channels, height, width).transpose(2, 0, 4, 1, 5, 3)
    a = a.reshape(t, rows * height, -1, channels).astype(np.float32)
    sheets: np.ndarray = (a * 255).clip(0, 255).astype(np.uint8)
    return sheets


def video(tag: str, value: Any, fps: float = 4) -> Any:
    """A film, as an animated GIF that the moviepy package writes.

    Raises:
        ModuleNotFoundError: moviepy is not installed.
    """
    try:
        try:
            from moviepy.editor import ImageSequenceClip
        except ModuleNotFoundError:
            from moviepy import ImageSequenceClip  # since moviepy 2
    except ImportError as error:
        raise ModuleNotFoundError("add_video needs package moviepy, which encodes films: pip install moviepy. Without it, "
                                  f"log frames by add_images. ({error})", name="moviepy") from None
    sheets = frames(value)
    _, height, width, channels = sheets.shape
    clip = ImageSequenceClip(list(sheets), fps=fps)
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "film.gif")
        clip.write_gif(path, logger=None)
        with open(path, "rb") as file:
            data = file.read()
    return Summary(value=[Summary.Value(tag=tag, image=Summary.Image(
        height=height, width=width, colorspace=channels, encoded_image_string=data))])


# ------------------------------------------------------------------------------------- meshes


def mesh(tag: str, vertices: Any, colors: Any, faces: Any, config: dict | None) -> Any:
    """Points in space (N, V, 3), with colors (N, V, 3) and triangles (N, F, 3), or without."""
    from tensorboard.plugins.mesh import metadata
    from tensorboard.plugins.mesh.plugin_data_pb2 import MeshPluginData

    parts = [(value, kind) for value, kind in ((vertices, MeshPluginData.VERTEX), (faces, MeshPluginData.FACE),
                                               (colors, MeshPluginData.COLOR)) if value is not None]
    present = metadata.get_components_bitmask([kind for _, kind in parts])
    text = "{}" if config is None else json.dumps(config, sort_keys=True)
    values = []
    for value, kind in parts:
        a = as_array(value)
        if a.ndim != 3:
            raise ValueError(f"add_mesh(): vertices, colors and faces have shape (batch, number, 3), not {a.shape}")
        about = metadata.create_summary_metadata(tag, None, kind, present, list(a.shape), None, json_config=text)
        proto = TensorProto(dtype=DT_FLOAT, float_val=a.reshape(-1).tolist(), tensor_shape=shape_proto(*a.shape))
        values.append(Summary.Value(tag=metadata.get_instance_name(tag, kind), tensor=proto, metadata=about))
    return Summary(value=values)
