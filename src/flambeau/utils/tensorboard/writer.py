"""SummaryWriter: what a program logs, as event files of TensorBoard."""

from __future__ import annotations

import datetime
import os
import socket
import time
from typing import Any

import numpy as np
from tensorboard.compat.proto.event_pb2 import Event, SessionLog, TaggedRunMetadata
from tensorboard.summary.writer.event_file_writer import EventFileWriter

from . import _pictures as pictures
from . import summary
from ._embedding import embedding
from ._graph import graph


class FileWriter:
    """One event file in a folder.

    Args:
        log_dir: the folder, made if need be.
        max_queue: how many events wait before a write blocks; flush_secs: how often they go to the disk.
        filename_suffix: at the end of the file's name.
    """

    def __init__(self, log_dir: Any, max_queue: int = 10, flush_secs: float = 120, filename_suffix: str = "") -> None:
        self.event_writer = EventFileWriter(str(log_dir), max_queue, flush_secs, filename_suffix)

    def get_logdir(self) -> str:
        """The folder."""
        found: str = self.event_writer.get_logdir()
        return found

    def add_event(self, event: Any, step: int | None = None, walltime: float | None = None) -> None:
        """Write an event, at a step and a time in seconds (now by default)."""
        event.wall_time = time.time() if walltime is None else walltime
        if step is not None:
            event.step = int(step)
        self.event_writer.add_event(event)

    def add_summary(self, value: Any, global_step: int | None = None, walltime: float | None = None) -> None:
        """Write a Summary."""
        self.add_event(Event(summary=value), global_step, walltime)

    def add_graph(self, graph_profile: tuple, walltime: float | None = None) -> None:
        """Write a GraphDef and its RunMetadata."""
        drawn, statistics = graph_profile
        self.add_event(Event(graph_def=drawn.SerializeToString()), None, walltime)
        about = TaggedRunMetadata(tag="step1", run_metadata=statistics.SerializeToString())
        self.add_event(Event(tagged_run_metadata=about), None, walltime)

    def flush(self) -> None:
        """Bring all to the disk."""
        self.event_writer.flush()

    def close(self) -> None:
        """Flush, and close the file."""
        self.event_writer.close()

    def reopen(self) -> None:
        """Go on in a new file: the old one stays."""
        self.event_writer = EventFileWriter(self.get_logdir())


class SummaryWriter:
    """Logs scalars, histograms, images, texts and more for TensorBoard.

    Args:
        log_dir: the folder; by default runs/<date and time>_<host>, so that each run has its own.
        comment: appended to the default folder's name.
        purge_step: events of earlier runs in the folder from this step on are hidden.
        max_queue, flush_secs, filename_suffix: see FileWriter.

    Tags such as "loss/train" group charts. Values may be tensors, NumPy arrays or numbers; each has a global_step
    and, if given, a walltime in seconds.
    """

    def __init__(self, log_dir: Any = None, comment: str = "", purge_step: int | None = None, max_queue: int = 10,
                 flush_secs: float = 120, filename_suffix: str = "") -> None:
        if not log_dir:
            now = datetime.datetime.now().strftime("%b%d_%H-%M-%S")
            log_dir = os.path.join("runs", f"{now}_{socket.gethostname()}{comment}")
        self.log_dir = os.fspath(log_dir)
        self.purge_step = purge_step
        self.max_queue, self.flush_secs, self.filename_suffix = max_queue, flush_secs, filename_suffix
        self.file_writer: FileWriter | None = None
        self.all_writers: dict[str, FileWriter] | None = None
        self._projector: Any = None                 # the list of embeddings
        self._get_file_writer()

    def _get_file_writer(self) -> FileWriter:
        if self.file_writer is None or self.all_writers is None:
            self.file_writer = self._open(self.log_dir)
            self.all_writers = {self.file_writer.get_logdir(): self.file_writer}
            if self.purge_step is not None:
                self.file_writer.add_event(Event(step=self.purge_step, file_version="brain.Event:2"))
                self.file_writer.add_event(Event(step=self.purge_step, session_log=SessionLog(status=SessionLog.START)))
                self.purge_step = None
        return self.file_writer

    def _open(self, folder: str) -> FileWriter:
        return FileWriter(folder, self.max_queue, self.flush_secs, self.filename_suffix)

    def get_logdir(self) -> str:
        """The folder."""
        return self.log_dir

    def _add(self, value: Any, global_step: Any, walltime: Any) -> None:
        self._get_file_writer().add_summary(value, global_step, walltime)

    # ------------------------------------------------------------------ numbers

    def add_scalar(self, tag: str, scalar_value: Any, global_step: Any = None, walltime: Any = None,
                   new_style: bool = False, double_precision: bool = False) -> None:
        """A number: a point of a curve."""
        self._add(summary.scalar(tag, scalar_value, new_style, double_precision), global_step, walltime)

    def add_scalars(self, main_tag: str, tag_scalar_dict: dict, global_step: Any = None, walltime: Any = None) -> None:
        """Several numbers, which one chart shows: each has a folder of its own."""
        own = self._get_file_writer()
        assert self.all_writers is not None
        for tag, value in tag_scalar_dict.items():
            folder = os.path.join(own.get_logdir(), f"{main_tag.replace('/', '_')}_{tag}")
            if folder not in self.all_writers:
                self.all_writers[folder] = self._open(folder)
            self.all_writers[folder].add_summary(summary.scalar(main_tag, value), global_step, walltime)

    def add_tensor(self, tag: str, tensor: Any, global_step: Any = None, walltime: Any = None) -> None:
        """A tensor's values, as float32."""
        self._add(summary.tensor(tag, tensor), global_step, walltime)

    def add_histogram(self, tag: str, values: Any, global_step: Any = None, bins: Any = "tensorflow",
                      walltime: Any = None, max_bins: int | None = None) -> None:
        """How values are distributed. bins: "tensorflow", or what `numpy.histogram` takes."""
        self._add(summary.histogram(tag, values, bins, max_bins), global_step, walltime)

    def add_histogram_raw(self, tag: str, min: float, max: float, num: int, sum: float, sum_squares: float,
                          bucket_limits: list, bucket_counts: list, global_step: Any = None,
                          walltime: Any = None) -> None:
        """A histogram counted elsewhere: bucket_limits holds the upper limit of each bucket."""
        if len(bucket_limits) != len(bucket_counts):
            raise ValueError("len(bucket_limits) != len(bucket_counts), see the document.")
        self._add(summary.histogram_raw(tag, min, max, num, sum, sum_squares, bucket_limits, bucket_counts), global_step,
                  walltime)

    def add_pr_curve(self, tag: str, labels: Any, predictions: Any, global_step: Any = None, num_thresholds: int = 127,
                     weights: Any = None, walltime: Any = None) -> None:
        """Precision and recall of predictions from 0 to 1 against labels 0 or 1."""
        self._add(summary.pr_curve(tag, labels, predictions, num_thresholds, weights), global_step, walltime)

    def add_pr_curve_raw(self, tag: str, true_positive_counts: Any, false_positive_counts: Any,
                         true_negative_counts: Any, false_negative_counts: Any, precision: Any, recall: Any,
                         global_step: Any = None, num_thresholds: int = 127, weights: Any = None,
                         walltime: Any = None) -> None:
        """A curve computed elsewhere: one entry of each for each threshold."""
        self._add(summary.pr_curve_raw(tag, true_positive_counts, false_positive_counts, true_negative_counts,
                                       false_negative_counts, precision, recall, num_thresholds=num_thresholds),
                  global_step, walltime)

    def add_hparams(self, hparam_dict: dict, metric_dict: dict, hparam_domain_discrete: dict | None = None,
                    run_name: str | None = None, global_step: Any = None) -> None:
        """A run's options and its final metrics, for the HParams page."""
        if not isinstance(hparam_dict, dict) or not isinstance(metric_dict, dict):
            raise TypeError("hparam_dict and metric_dict should be dictionary.")
        parts = summary.hparams(hparam_dict, metric_dict, hparam_domain_discrete)
        with SummaryWriter(os.path.join(self._get_file_writer().get_logdir(), run_name or str(time.time()))) as run:
            for part in parts:
                run._get_file_writer().add_summary(part, global_step)
            for tag, value in metric_dict.items():
                run.add_scalar(tag, value, global_step)

    # ------------------------------------------------------------------ pictures, sounds, texts

    def add_image(self, tag: str, img_tensor: Any, global_step: Any = None, walltime: Any = None,
                  dataformats: str = "CHW") -> None:
        """A picture: uint8, or floats from 0 to 1; dataformats "CHW", "HWC" or "HW"."""
        self._add(summary.image(tag, img_tensor, dataformats), global_step, walltime)

    def add_images(self, tag: str, img_tensor: Any, global_step: Any = None, walltime: Any = None,
                   dataformats: str = "NCHW") -> None:
        """Several pictures, side by side."""
        self._add(summary.image(tag, img_tensor, dataformats), global_step, walltime)

    def add_figure(self, tag: str, figure: Any, global_step: Any = None, close: bool = True, walltime: Any = None) -> None:
        """A figure of matplotlib, or several of one size; `close` closes them."""
        several = isinstance(figure, (list, tuple))
        pictures = []
        for one in figure if several else [figure]:
            from matplotlib.backends.backend_agg import FigureCanvasAgg

            canvas = FigureCanvasAgg(one)
            canvas.draw()
            pictures.append(np.asarray(canvas.buffer_rgba())[..., :3])
            if close:
                from matplotlib import pyplot

                pyplot.close(one)
        if several:
            self.add_images(tag, np.stack(pictures), global_step, walltime, dataformats="NHWC")
        else:
            self.add_image(tag, pictures[0], global_step, walltime, dataformats="HWC")

    def add_audio(self, tag: str, snd_tensor: Any, global_step: Any = None, sample_rate: int = 44100,
                  walltime: Any = None) -> None:
        """A sound (1, L), from -1 to 1."""
        self._add(summary.audio(tag, snd_tensor, sample_rate), global_step, walltime)

    def add_text(self, tag: str, text_string: str, global_step: Any = None, walltime: Any = None) -> None:
        """A text, in Markdown."""
        self._add(summary.text(tag, text_string), global_step, walltime)

    # ------------------------------------------------------------------ layouts of charts

    def add_custom_scalars(self, layout: dict) -> None:
        """Which charts show which scalars: {category: {title: ["Multiline", tags] or ["Margin", three tags]}}."""
        self._add(summary.custom_scalars(layout), None, None)

    def add_custom_scalars_multilinechart(self, tags: list, category: str = "default", title: str = "untitled") -> None:
        """One chart with a line for each tag."""
        self.add_custom_scalars({category: {title: ["Multiline", tags]}})

    def add_custom_scalars_marginchart(self, tags: list, category: str = "default", title: str = "untitled") -> None:
        """One chart of a value between two limits: three tags."""
        if len(tags) != 3:
            raise AssertionError(f"a Margin chart has three tags: value, lower, upper; not {len(tags)}")
        self.add_custom_scalars({category: {title: ["Margin", tags]}})

    # ------------------------------------------------------------------ models, points, bodies

    def add_graph(self, model: Any, input_to_model: Any = None, verbose: bool = False,
                  use_strict_trace: bool = True) -> None:
        """The operators that a model runs, grouped by module.

        Args:
            model: a Module; it runs once, in evaluation mode.
            input_to_model: its argument, or a tuple of arguments.
            verbose: print the nodes.
            use_strict_trace: False allows results that are dictionaries.
        """
        self._get_file_writer().add_graph(graph(model, input_to_model, verbose, use_strict_trace))

    def add_onnx_graph(self, prototxt: Any) -> None:
        """Raises: ONNX files are not drawn."""
        raise NotImplementedError("add_onnx_graph: ONNX graphs are not drawn. View the file with Netron.")

    def add_embedding(self, mat: Any, metadata: Any = None, label_img: Any = None, global_step: Any = None,
                      tag: str = "default", metadata_header: Any = None) -> None:
        """Points for the projector.

        Args:
            mat: one row for each point (N, D).
            metadata: N labels, or N rows of labels under the names in metadata_header.
            label_img: pictures (N, C, H, W), of floats from 0 to 1.

        Raises:
            AssertionError: the sizes do not fit.
        """
        self._projector = embedding(self._get_file_writer().get_logdir(), self._projector, mat, metadata, label_img,
                                    global_step or 0, tag, metadata_header)

    def add_video(self, tag: str, vid_tensor: Any, global_step: Any = None, fps: float = 4, walltime: Any = None) -> None:
        """Films (N, T, C, H, W) side by side, uint8 or floats from 0 to 1, in fps frames a second; needs moviepy.

        Raises:
            ModuleNotFoundError: moviepy is not installed.
        """
        self._add(pictures.video(tag, vid_tensor, fps), global_step, walltime)

    def add_mesh(self, tag: str, vertices: Any, colors: Any = None, faces: Any = None, config_dict: Any = None,
                 global_step: Any = None, walltime: Any = None) -> None:
        """Bodies or clouds of points: vertices (N, V, 3), colors (N, V, 3) from 0 to 255, faces (N, F, 3) of three vertices.

        config_dict: classes and settings of Three.js for camera, lights and material.
        """
        self._add(pictures.mesh(tag, vertices, colors, faces, config_dict), global_step, walltime)

    def add_image_with_boxes(self, tag: str, img_tensor: Any, box_tensor: Any, global_step: Any = None,
                             walltime: Any = None, rescale: float = 1, dataformats: str = "CHW",
                             labels: Any = None) -> None:
        """A picture with red frames (N, 4), each (x1, y1, x2, y2) in pixels, and N labels if given."""
        if isinstance(labels, str):
            labels = [labels]
        if labels is not None and len(labels) != len(box_tensor):
            labels = None                               # as PyTorch has it
        self._add(pictures.image_boxes(tag, img_tensor, box_tensor, rescale, dataformats, labels), global_step, walltime)

    # ------------------------------------------------------------------ the files

    def flush(self) -> None:
        """Bring all to the disk."""
        for writer in (self.all_writers or {}).values():
            writer.flush()

    def close(self) -> None:
        """Flush, and close the files; a later add opens a new one."""
        for writer in (self.all_writers or {}).values():
            writer.flush()
            writer.close()
        self.file_writer = self.all_writers = None

    def __enter__(self) -> SummaryWriter:
        return self

    def __exit__(self, *error: Any) -> None:
        self.close()
