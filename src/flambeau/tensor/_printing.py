"""The printed form of tensors, character for character PyTorch's.

Three steps, each blind to the others:

1. *cut*: a tensor of more than `threshold` elements keeps `edgeitems` entries at both ends of each long axis,
   and everything later looks only at what was kept (so column widths come from it alone);
2. *cells*: the kept numbers become texts of one width, in one notation chosen for all of them;
3. *lay out*: cells become nested brackets, wrapped at `linewidth`; the facts about the tensor
   (size, dtype, requires_grad, ...) follow as `name=value` notes.

Nothing here knows the Tensor class: it passes its array and its facts to `tensor_text`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np

from flambeau.core.origin import warn_user

__all__ = [
    "PrintOptions",
    "format_text",
    "get_printoptions",
    "printoptions",
    "set_printoptions",
    "tensor_text",
    "values_text",
]


@dataclass(frozen=True)
class PrintOptions:
    """How tensors are printed; see `set_printoptions` for each field."""

    precision: int = 4
    threshold: float = 1000
    edgeitems: int = 3
    linewidth: float = 80
    sci_mode: bool | None = None


_PROFILES: dict[str, dict[str, Any]] = {
    "default": {"precision": 4, "threshold": 1000, "edgeitems": 3, "linewidth": 80},
    "short": {"precision": 2, "threshold": 1000, "edgeitems": 2, "linewidth": 80},
    "full": {"precision": 4, "threshold": math.inf, "edgeitems": 3, "linewidth": 80},
}

_options = PrintOptions()


def set_printoptions(
    precision: int | None = None,
    threshold: float | None = None,
    edgeitems: int | None = None,
    linewidth: float | None = None,
    profile: str | None = None,
    sci_mode: bool | None = None,
) -> None:
    """Choose how tensors are printed from now on.

    Args:
        precision: digits after the point (default 4), at least 0.
        threshold: number of elements above which the middle of long axes is left out (default 1000).
        edgeitems: entries shown at each end of an axis that is cut (default 3), at least 0.
        linewidth: characters per line (default 80).
        profile: "default", "short" or "full": a starting point that the other arguments refine.
        sci_mode: True for scientific notation, False for none, None to choose by the magnitudes. As in
            PyTorch this one is set by every call: leaving it out goes back to None.

    Raises:
        ValueError: a negative precision or edgeitems.
    """
    global _options
    for name, value in (("precision", precision), ("edgeitems", edgeitems)):
        if value is not None and value < 0:
            raise ValueError(
                f"set_printoptions() got {name}={value}: it counts digits or entries; give 0 or more."
            )
    changes: dict[str, Any] = {"sci_mode": sci_mode}
    if profile is not None:
        known = _PROFILES.get(profile)
        if known is None:
            warn_user(
                f"set_printoptions() ignored the unknown profile {profile!r}: choose default, short or full.")
        else:
            changes.update(known)
    given = {"precision": precision, "threshold": threshold, "edgeitems": edgeitems, "linewidth": linewidth}
    changes.update({name: value for name, value in given.items() if value is not None})
    _options = replace(_options, **changes)


def get_printoptions() -> dict[str, Any]:
    """Return the options now in force, as keyword arguments for `set_printoptions`."""
    return asdict(_options)


@contextmanager
def printoptions(**changes: Any) -> Iterator[None]:
    """Apply `set_printoptions(**changes)` inside a `with` block and restore the earlier options after it."""
    global _options
    before = _options
    set_printoptions(**changes)
    try:
        yield
    finally:
        _options = before


def tensor_text(
    array: np.ndarray | None,
    *,
    dtype_name: str,
    default_dtype_name: str = "float32",
    device: str = "cpu",
    requires_grad: bool = False,
    grad_fn_name: str | None = None,
    is_parameter: bool = False,
    parameter_header: bool = True,
    class_name: str = "tensor",
    is_meta: bool = False,
    shape: Sequence[int] | None = None,
    tangent_text: str | None = None,
) -> str:
    """Return `repr(tensor)` as PyTorch prints it.

    Args:
        array: the values, any shape (*); may be None for a meta tensor.
        dtype_name: bare name of the dtype, such as "float32".
        default_dtype_name: bare name of the default floating dtype; dtypes that follow from it go unsaid.
        device: device of the tensor; "cpu" goes unsaid.
        requires_grad: noted when there is no grad_fn.
        grad_fn_name: name of the node that made the tensor, such as "MulBackward0".
        is_parameter: whether the tensor is an `nn.Parameter`.
        parameter_header: False for a parameter that keeps its own tensor class (`Parameter(MyTensor(...))`),
            which PyTorch prints without the "Parameter containing:" line.
        class_name: "tensor" for Tensor and Parameter themselves, else the name of the user's class.
        is_meta: whether the tensor has a shape and no values.
        shape: shape of a meta tensor; by default that of `array`.
        tangent_text: printed form of the forward-mode tangent, if there is one.

    Returns:
        The text, without a final newline.
    """
    options = _options
    if shape is None:
        if array is None:
            raise TypeError("tensor_text() needs an array, or the shape of a meta tensor")
        shape = array.shape
    prefix = class_name + "("
    numel = math.prod(shape)

    notes = []
    if is_meta or device != "cpu":
        notes.append(f"device='{'meta' if is_meta else device}'")
    # PyTorch also gives the size with edgeitems=0, whether or not this tensor is cut.
    if is_meta or (numel == 0 and len(shape) != 1) or (numel > 0 and options.edgeitems == 0):
        notes.append(f"size={tuple(shape)}")
    values_tell_dtype = numel > 0 and not is_meta
    if not _goes_unsaid(dtype_name, default_dtype_name, values_tell_dtype):
        notes.append(f"dtype=torch.{dtype_name}")
    if grad_fn_name is not None:
        notes.append(f"grad_fn=<{grad_fn_name}>")
    elif requires_grad:
        notes.append("requires_grad=True")
    if tangent_text is not None:
        notes.append(f"tangent={tangent_text}")

    if is_meta:
        body = "..."
    elif numel == 0:
        body = "[]"
    else:
        assert array is not None
        body = _values_text(array, len(prefix), options)
    text = _append_notes(prefix + body, notes, len(prefix), options.linewidth)
    if not is_parameter:
        return text
    if class_name != "tensor":
        text = f"Parameter({text})"
    return "Parameter containing:\n" + text if parameter_header else text


def format_text(
    array: np.ndarray | None, spec: str, text: Callable[[], str], class_name: str = "Tensor"
) -> str:
    """Return `format(tensor, spec)`: a 0-d tensor formats as its Python number, others only as their text.

    Args:
        array: the values; None for a meta tensor.
        spec: what follows the colon in an f-string.
        text: gives the printed form, called only when needed.
        class_name: name of the tensor's class; as in PyTorch only "Tensor" itself formats as a number.

    Raises:
        TypeError: `spec` is not empty and the tensor is not a plain one of dimension 0 with a value.
        ValueError: Python's own, when `spec` does not suit the number.
    """
    if class_name == "Tensor" and array is not None and array.ndim == 0:
        return format(_numbers(array)[0], spec)
    if spec:
        raise TypeError(
            f"unsupported format string passed to {class_name}.__format__: {spec!r} formats one number, "
            "which only a plain 0-d tensor with a value stands for. Format t.item() or an element's .item()."
        )
    return text()


def _goes_unsaid(dtype_name: str, default_dtype_name: str, values_tell_dtype: bool) -> bool:
    if dtype_name == default_dtype_name:
        return True
    default_complex = "complex128" if default_dtype_name == "float64" else "complex64"
    return values_tell_dtype and dtype_name in ("int64", "bool", default_complex)


def _append_notes(text: str, notes: list[str], indent: int, linewidth: float) -> str:
    """Close the bracket after `notes`, each on the last line while it fits, else on a new one."""
    # PyTorch counts two characters more than the values' last line has; later lines are counted as they are.
    used = len(text) - (text.rfind("\n") + 1) + 2
    parts = [text]
    for note in notes:
        if used + 2 + len(note) > linewidth:
            parts.append(",\n" + " " * indent + note)
            used = indent + len(note)
        else:
            parts.append(", " + note)
            used += 2 + len(note)
    return "".join(parts) + ")"


# 1. Cut -----------------------------------------------------------------------------------------------------


def values_text(array: np.ndarray, indent: int) -> str:
    """The values alone, as they stand in `repr(tensor)`; all lines but the first are indented."""
    return _values_text(array, indent, _options) if array.size else "[]"


def _values_text(array: np.ndarray, indent: int, options: PrintOptions) -> str:
    cuts = [False] * array.ndim
    if array.size > options.threshold:
        edge = options.edgeitems
        if edge == 0 and array.ndim > 0:
            return "[...]"
        cuts = [size > 2 * edge for size in array.shape]
        array = _keep_edges(array, cuts, edge)
    cells, width = _cells(array, options)
    if array.ndim == 0:
        return cells[0]
    room = (options.linewidth - indent - array.ndim + 1) / (width + 2)
    per_line = max(1, int(min(room, array.shape[-1] + 1)))
    return _Layout(cells, array.shape, cuts, options.edgeitems, per_line).text(indent)


def _keep_edges(array: np.ndarray, cuts: list[bool], edge: int) -> np.ndarray:
    for axis, cut in enumerate(cuts):
        if cut:
            before = (slice(None),) * axis
            ends = [array[(*before, slice(edge))], array[(*before, slice(-edge, None))]]
            array = np.concatenate(ends, axis=axis)
    return array


# 2. Cells ---------------------------------------------------------------------------------------------------


def _numbers(array: np.ndarray) -> list[Any]:
    """Flat list of Python numbers; every narrower float is exact as a float64."""
    flat = array.reshape(-1)
    if flat.dtype.kind == "c":
        return flat.astype(np.complex128).tolist()
    if _is_floating(flat):
        return flat.astype(np.float64).tolist()
    return flat.tolist()


def _is_floating(array: np.ndarray) -> bool:
    # bfloat16 is an extension dtype, whose NumPy kind is "V".
    return array.dtype.kind not in "biuc"


def _cells(array: np.ndarray, options: PrintOptions) -> tuple[list[str], int]:
    """Texts of all elements in order, and the width that one takes on a line."""
    if array.dtype.kind == "c":
        return _complex_cells(array, options)
    if _is_floating(array):
        return _real_cells(array, options)
    texts = [str(number) for number in _numbers(array)]
    width = max(map(len, texts))
    return [text.rjust(width) for text in texts], width


def _complex_cells(array: np.ndarray, options: PrintOptions) -> tuple[list[str], int]:
    real, real_width = _real_cells(array.real, options)
    imaginary, imaginary_width = _real_cells(array.imag, options)
    cells = []
    for re, im in zip(real, imaginary, strict=True):
        im = im.lstrip()
        cells.append(f"{re}{im}j" if im[0] == "-" else f"{re}+{im}j")
    return cells, real_width + imaginary_width + 1


def _real_cells(array: np.ndarray, options: PrintOptions) -> tuple[list[str], int]:
    """Texts of real numbers in one notation: "1." for whole numbers, fixed point, or scientific.

    Notation and width follow from the finite non-zero numbers only; zeros, nan and inf take what is there.
    """
    numbers = _numbers(array)
    telling = [x for x in numbers if x != 0 and math.isfinite(x)]
    if not telling:
        return [_whole(x) for x in numbers], 1
    integral = all(x == math.floor(x) for x in telling)
    scientific = options.sci_mode
    if scientific is None:
        sizes = [abs(x) for x in telling]
        largest, smallest = max(sizes), min(sizes)
        scientific = largest / smallest > 1000.0 or largest > 1.0e8 or (not integral and smallest < 1.0e-4)
    if scientific:
        write: Callable[[float], str] = f"{{:.{options.precision}e}}".format
    elif integral:
        write = _whole
    else:
        write = f"{{:.{options.precision}f}}".format
    width = max(len(write(x)) for x in telling)
    return [write(x).rjust(width) for x in numbers], width


def _whole(x: float) -> str:
    return f"{x:.0f}." if math.isfinite(x) else str(x)


# 3. Lay out -------------------------------------------------------------------------------------------------


class _Layout:
    """Arranges the cells of a kept array (row-major, of `shape`) in nested brackets."""

    def __init__(
        self, cells: list[str], shape: tuple[int, ...], cuts: list[bool], edge: int, per_line: int
    ) -> None:
        self.cells = cells
        self.shape = shape
        self.cuts = cuts
        self.edge = edge
        self.per_line = per_line
        self.position = 0

    def text(self, indent: int, axis: int = 0) -> str:
        """Text of the next block along `axis`; `indent` is the column of its opening bracket."""
        size = self.shape[axis]
        below = len(self.shape) - axis - 1
        if below == 0:
            items = self.cells[self.position : self.position + size]
            self.position += size
            if self.cuts[axis]:
                items.insert(self.edge, " ...")
            lines = [", ".join(items[i : i + self.per_line]) for i in range(0, len(items), self.per_line)]
            return "[" + (",\n" + " " * (indent + 1)).join(lines) + "]"
        blocks = [self.text(indent + 1, axis + 1) for _ in range(size)]
        if self.cuts[axis]:
            blocks.insert(self.edge, "...")
        return "[" + ("," + "\n" * below + " " * (indent + 1)).join(blocks) + "]"
