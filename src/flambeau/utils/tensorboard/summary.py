"""Values as TensorBoard's protocol buffers."""

from __future__ import annotations

import io
import struct
import wave
import zlib
from collections.abc import Callable
from typing import Any

import numpy as np
from tensorboard.compat.proto.summary_pb2 import HistogramProto, Summary, SummaryMetadata
from tensorboard.compat.proto.tensor_pb2 import TensorProto
from tensorboard.compat.proto.tensor_shape_pb2 import TensorShapeProto
from tensorboard.plugins.custom_scalar import layout_pb2
from tensorboard.plugins.pr_curve.plugin_data_pb2 import PrCurvePluginData
from tensorboard.plugins.text.plugin_data_pb2 import TextPluginData

from flambeau.core.objects import TensorBase

DT_FLOAT, DT_DOUBLE, DT_STRING = 1, 2, 7


def as_array(value: Any) -> np.ndarray:
    """A tensor, an array, a number or a list of numbers as an array."""
    if isinstance(value, TensorBase):
        value = value.detach().cpu()  # type: ignore[attr-defined]
        if value.dtype.itemsize == 2 and value.is_floating_point():
            value = value.float()
        return value.numpy()
    if isinstance(value, (list, tuple)):
        return np.array([as_array(v) for v in value])
    if isinstance(value, (np.ndarray, np.generic, int, float)):
        return np.asarray(value)
    raise NotImplementedError(f"Got {type(value)}, but numpy array or torch tensor are expected.")


def shape_proto(*sizes: int) -> Any:
    return TensorShapeProto(dim=[TensorShapeProto.Dim(size=n) for n in sizes])


def _one(**fields: Any) -> Any:
    return Summary(value=[Summary.Value(**fields)])


def _plugin(name: str, content: bytes = b"", **fields: Any) -> Any:
    return SummaryMetadata(plugin_data=SummaryMetadata.PluginData(plugin_name=name, content=content), **fields)


def scalar(tag: str, value: Any, new_style: bool = False, double_precision: bool = False) -> Any:
    """One number."""
    a = as_array(value)
    if a.size != 1:
        raise AssertionError(f"Tensor should contain one element (0 dimensions). Was given size: {a.size} and {a.ndim} "
                             "dimensions.")
    number = float(a.reshape(()))
    if not new_style:
        return _one(tag=tag, simple_value=number)
    if double_precision:
        tensor = TensorProto(double_val=[number], dtype=DT_DOUBLE)
    else:
        tensor = TensorProto(float_val=[number], dtype=DT_FLOAT)
    return _one(tag=tag, tensor=tensor, metadata=_plugin("scalars"))


def tensor(tag: str, value: Any) -> Any:
    """A tensor's float32 values and shape."""
    a = as_array(value).astype(np.float32)
    proto = TensorProto(dtype=DT_FLOAT, float_val=a.reshape(-1).tolist(), tensor_shape=shape_proto(*a.shape))
    return _one(tag=tag, tensor=proto, metadata=_plugin("tensor"))


def _exponential_bins() -> np.ndarray:
    """Limits that grow by a tenth, on both sides of 0: TensorBoard's default."""
    limits = []
    limit = 1e-12
    while limit < 1e20:
        limits.append(limit)
        limit *= 1.1
    return np.array([*(-x for x in reversed(limits)), 0.0, *limits])


def histogram(tag: str, values: Any, bins: Any = "tensorflow", max_bins: int | None = None) -> Any:
    """How often values fall into bins: "tensorflow", or what `numpy.histogram` takes."""
    a = as_array(values).astype(float).reshape(-1)
    if a.size == 0:
        raise ValueError("The input has no element.")
    if isinstance(bins, str) and bins == "tensorflow":
        bins = _exponential_bins()
    counts, limits = np.histogram(a, bins)
    if max_bins is not None and len(counts) > max_bins:
        together = len(counts) // max_bins
        padded = np.concatenate([counts, np.zeros(-len(counts) % together, counts.dtype)])
        counts = padded.reshape(-1, together).sum(-1)
        limits = np.concatenate([limits[:-1:together], limits[-1:]])
    filled = np.nonzero(counts)[0]
    if filled.size == 0:
        raise ValueError("The histogram is empty, please file a bug report: no value lies in any bin.")
    first, last = int(filled[0]), int(filled[-1])
    # the bins from first to last, and one empty bin before them: a bin begins where the one before it ends
    before = counts[first - 1:first] if first > 0 else np.zeros(1, counts.dtype)
    return histogram_raw(tag, a.min(), a.max(), a.size, a.sum(), a.dot(a), limits[first:last + 2].tolist(),
                         np.concatenate([before, counts[first:last + 1]]).tolist())


def histogram_raw(tag: str, least: float, most: float, n: int, total: float, squares: float, limits: list,
                  counts: list) -> Any:
    """A histogram counted elsewhere."""
    return _one(tag=tag, histo=HistogramProto(min=least, max=most, num=n, sum=total, sum_squares=squares,
                                              bucket_limit=limits, bucket=counts))


# ------------------------------------------------------------------------------------- images and sounds


def png(pixels: np.ndarray) -> bytes:
    """uint8 pixels (height, width, 1 to 4 channels) as a PNG file.

    Source: Portable Network Graphics (PNG) Specification, 2nd edition, W3C, 2003.
    """
    height, width, channels = pixels.shape

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    color_type = {1: 0, 2: 4, 3: 2, 4: 6}[channels]
    rows = np.zeros((height, 1 + width * channels), np.uint8)          # each row begins with its filter: none
    rows[:, 1:] = pixels.reshape(height, -1)
    return (b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, color_type, 0, 0, 0))
            + chunk(b"IDAT", zlib.compress(rows.tobytes())) + chunk(b"IEND", b""))


def grid(images: np.ndarray, most: int = 8) -> np.ndarray:
    """(N, C, H, W) as one (C, rows * H, columns * W) picture of at most so many columns."""
    n, channels, height, width = images.shape
    columns = min(n, most)
    rows = -(-n // columns)
    sheet = np.zeros((channels, rows * height, columns * width), images.dtype)
    for i, image in enumerate(images):
        y, x = divmod(i, columns)
        sheet[:, y * height:(y + 1) * height, x * width:(x + 1) * width] = image
    return sheet


def _height_width_channels(a: np.ndarray, order: str) -> np.ndarray:
    order = order.upper()
    if len(order) != a.ndim or len(set(order)) != len(order):
        raise AssertionError(f"size of input tensor and input format are different: tensor shape: {a.shape}, "
                             f"input_format: {order}")
    if len(order) == 4:
        a, order = grid(np.transpose(a, [order.index(c) for c in "NCHW"])), "CHW"
    if len(order) == 2:
        a, order = a[None], "C" + order
    a = np.transpose(a, [order.index(c) for c in "HWC"])
    return np.concatenate([a] * 3, 2) if a.shape[2] == 1 else a


def as_pixels(value: Any, dataformats: str) -> np.ndarray:
    """uint8 pixels (height, width, channels) of a picture, or of several, of uint8 or floats from 0 to 1."""
    a = as_array(value)
    scale = 1 if a.dtype == np.uint8 else 255
    pixels: np.ndarray = (_height_width_channels(a, dataformats).astype(np.float32) * scale).clip(0, 255).astype(np.uint8)
    return pixels


def image(tag: str, value: Any, dataformats: str = "NCHW") -> Any:
    """A picture, or several as one; uint8, or floats from 0 to 1."""
    pixels = as_pixels(value, dataformats)
    height, width, channels = pixels.shape
    return _one(tag=tag, image=Summary.Image(height=height, width=width, colorspace=channels,
                                             encoded_image_string=png(pixels)))


def audio(tag: str, value: Any, sample_rate: int = 44100) -> Any:
    """One channel of sound, from -1 to 1."""
    a = as_array(value).squeeze()
    if a.ndim != 1:
        raise AssertionError("input tensor should be 1 dimensional.")
    file = io.BytesIO()
    with wave.open(file, "wb") as w:
        w.setnchannels(1)
        w.setsampwidth(2)
        w.setframerate(sample_rate)
        w.writeframes((a.clip(-1, 1) * np.iinfo(np.int16).max).astype("<i2").tobytes())
    return _one(tag=tag, audio=Summary.Audio(sample_rate=sample_rate, num_channels=1, length_frames=len(a),
                                             encoded_audio_string=file.getvalue(), content_type="audio/wav"))


# ------------------------------------------------------------------------------------- texts, curves, layouts


def text(tag: str, value: str) -> Any:
    """A text, in Markdown."""
    proto = TensorProto(dtype=DT_STRING, string_val=[value.encode("utf-8")], tensor_shape=shape_proto(1))
    content = TextPluginData(version=0).SerializeToString()
    return _one(tag=tag + "/text_summary", tensor=proto, metadata=_plugin("text", content))


def _curve(tag: str, rows: np.ndarray, num_thresholds: int) -> Any:
    content = PrCurvePluginData(version=0, num_thresholds=num_thresholds).SerializeToString()
    proto = TensorProto(dtype=DT_FLOAT, float_val=rows.reshape(-1).tolist(), tensor_shape=shape_proto(*rows.shape))
    return _one(tag=tag, tensor=proto, metadata=_plugin("pr_curves", content))


def pr_curve_raw(tag: str, *rows: Any, num_thresholds: int = 127) -> Any:
    """True and false positives, true and false negatives, precision and recall, for each threshold."""
    num_thresholds = min(num_thresholds, 127)
    return _curve(tag, np.stack([as_array(row) for row in rows]), num_thresholds)


def pr_curve(tag: str, labels: Any, predictions: Any, num_thresholds: int = 127, weights: Any = None) -> Any:
    """Precision and recall of scores from 0 to 1 against labels, for thresholds from 0 to 1."""
    num_thresholds = min(num_thresholds, 127)            # more make TensorBoard slow
    truth, scores = as_array(labels).astype(float), as_array(predictions)
    weight = 1.0 if weights is None else as_array(weights)
    bucket = np.int32(np.floor(scores * (num_thresholds - 1)))
    span = (0, num_thresholds - 1)
    positive, _ = np.histogram(bucket, num_thresholds, span, weights=truth * weight)
    negative, _ = np.histogram(bucket, num_thresholds, span, weights=(1.0 - truth) * weight)
    hits, false_alarms = np.cumsum(positive[::-1])[::-1], np.cumsum(negative[::-1])[::-1]
    misses = hits[0] - hits
    least = 1e-7
    rows = np.stack((hits, false_alarms, false_alarms[0] - false_alarms, misses,
                     hits / np.maximum(least, hits + false_alarms), hits / np.maximum(least, hits + misses)))
    return _curve(tag, rows, num_thresholds)


def custom_scalars(layout: dict) -> Any:
    """Charts that show several scalars: {category: {title: ["Multiline" | "Margin", tags]}}."""
    categories = []
    for category, charts in layout.items():
        found = []
        for title, (kind, tags) in charts.items():
            if kind == "Margin":
                if len(tags) != 3:
                    raise AssertionError(f"a Margin chart has three tags: value, lower, upper; {title!r} has {len(tags)}")
                series = layout_pb2.MarginChartContent.Series(value=tags[0], lower=tags[1], upper=tags[2])
                found.append(layout_pb2.Chart(title=title, margin=layout_pb2.MarginChartContent(series=[series])))
            else:
                found.append(layout_pb2.Chart(title=title, multiline=layout_pb2.MultilineChartContent(tag=tags)))
        categories.append(layout_pb2.Category(title=category, chart=found))
    data = layout_pb2.Layout(category=categories).SerializeToString()
    proto = TensorProto(dtype=DT_STRING, string_val=[data], tensor_shape=TensorShapeProto())
    return _one(tag="custom_scalars__config__", tensor=proto, metadata=_plugin("custom_scalars"))


def hparams(options: dict, metrics: dict, domains: dict | None = None) -> tuple[Any, Any, Any]:
    """An experiment, the start of a session and its end, for the HParams page."""
    from google.protobuf import struct_pb2
    from tensorboard.plugins.hparams import api_pb2, metadata, plugin_data_pb2

    kinds: list[tuple[Any, int, Callable[[Any], Any]]] = [
        ((int, float), api_pb2.DATA_TYPE_FLOAT64, lambda v: struct_pb2.Value(number_value=v)),      # bool too
        (str, api_pb2.DATA_TYPE_STRING, lambda v: struct_pb2.Value(string_value=v))]
    infos, session = [], plugin_data_pb2.SessionStartInfo()
    for name, value in options.items():
        if value is None:
            continue
        if isinstance(value, (TensorBase, np.generic)):
            value = as_array(value).item()
        fitting = next(((data_type, proto) for kind, data_type, proto in kinds if isinstance(value, kind)), None)
        if fitting is None:
            raise ValueError(f"value should be one of int, float, str, bool, or torch.Tensor: {name!r} is {type(value)}")
        data_type, proto = fitting
        session.hparams[name].CopyFrom(proto(value))
        domain = None
        if domains and name in domains:
            domain = struct_pb2.ListValue(values=[proto(v) for v in domains[name]])
        infos.append(api_pb2.HParamInfo(name=name, type=data_type, domain_discrete=domain))
    experiment = api_pb2.Experiment(hparam_infos=infos, metric_infos=[
        api_pb2.MetricInfo(name=api_pb2.MetricName(tag=tag)) for tag in metrics])
    end = plugin_data_pb2.SessionEndInfo(status=api_pb2.STATUS_SUCCESS)
    return tuple(  # type: ignore[return-value]
        _one(tag=tag, metadata=_plugin(metadata.PLUGIN_NAME, plugin_data_pb2.HParamsPluginData(
            version=metadata.PLUGIN_DATA_VERSION, **content).SerializeToString()))
        for tag, content in ((metadata.EXPERIMENT_TAG, {"experiment": experiment}),
                             (metadata.SESSION_START_INFO_TAG, {"session_start_info": session}),
                             (metadata.SESSION_END_INFO_TAG, {"session_end_info": end})))
