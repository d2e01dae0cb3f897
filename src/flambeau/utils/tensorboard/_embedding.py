"""Points with labels and pictures, as the files that TensorBoard's projector reads."""

from __future__ import annotations

import math
import os
from typing import Any

import numpy as np
from google.protobuf import text_format
from tensorboard.plugins.projector.projector_config_pb2 import EmbeddingInfo, ProjectorConfig

from .summary import as_array, grid, png


def _written(path: str, content: bytes) -> None:
    with open(path, "wb") as file:
        file.write(content)


def _lines(rows: list[str]) -> bytes:
    return ("\n".join(rows) + "\n").encode()


def encoded(tag: str) -> str:
    """A tag as the name of a folder."""
    for c in "%/\\":
        tag = tag.replace(c, f"%{ord(c):02x}")
    return tag


def _labels(metadata: Any, header: Any) -> bytes:
    if not header:
        return _lines([str(label) for label in metadata])
    if len(header) != len(metadata[0]):
        raise AssertionError(f"metadata_header has {len(header)} columns, and the rows of metadata {len(metadata[0])}: the "
                             "len of header must be equal to the number of columns")
    return _lines(["\t".join(map(str, row)) for row in [header, *metadata]])


def _sprite(images: Any) -> bytes:
    """All pictures on one square sheet."""
    a = as_array(images)
    if a.shape[1] == 1:
        a = np.concatenate([a, a, a], 1)
    sheet = grid(a, math.ceil(a.shape[0] ** 0.5)).transpose(1, 2, 0)
    square = np.zeros((sheet.shape[1], sheet.shape[1], 3))
    square[: sheet.shape[0]] = sheet
    return png(np.uint8((square * 255).clip(0, 255)))


def embedding(folder: str, config: Any, mat: Any, metadata: Any, label_img: Any, step: Any, tag: str, header: Any) -> Any:
    """Write the files of one set of points under folder, and the list of all sets; returns the list.

    Raises:
        AssertionError: mat is no matrix, or labels or pictures are not as many as its rows.
        NotADirectoryError: there is a file where the folder should be.
    """
    points = as_array(mat)
    below = f"{str(step).zfill(5)}/{encoded(tag)}"
    path = os.path.join(folder, below)
    if os.path.isdir(path):
        print("warning: Embedding dir exists, did you set global_step for add_embedding()? Its files are written anew.")
    elif os.path.exists(path):
        raise NotADirectoryError(f"{path} is a file; add_embedding() wants to make a folder of that name")
    if points.ndim != 2:
        raise AssertionError(f"mat should be 2D, one row for each data point, and has shape {points.shape}")
    for what, rows in (("labels", metadata), ("images", label_img)):
        if rows is not None and len(rows) != len(points):
            raise AssertionError(f"#{what} should equal with #data points: there are {len(rows)} and {len(points)}")
    os.makedirs(path, exist_ok=True)
    info = EmbeddingInfo(tensor_name=f"{tag}:{str(step).zfill(5)}", tensor_path=f"{below}/tensors.tsv")
    if metadata is not None:
        _written(os.path.join(path, "metadata.tsv"), _labels(metadata, header))
        info.metadata_path = f"{below}/metadata.tsv"
    if label_img is not None:
        _written(os.path.join(path, "sprite.png"), _sprite(label_img))
        info.sprite.image_path = f"{below}/sprite.png"
        info.sprite.single_image_dim.extend([label_img.shape[3], label_img.shape[2]])
    _written(os.path.join(path, "tensors.tsv"), _lines(["\t".join(str(x.item()) for x in row) for row in points]))
    config = ProjectorConfig() if config is None else config
    config.embeddings.extend([info])
    _written(os.path.join(folder, "projector_config.pbtxt"), text_format.MessageToString(config).encode())
    return config
