"""Assembles what `import flambeau as torch` offers at its top level."""

from __future__ import annotations

import functools
import os
from typing import Any

from .core import dtype as _dtype
from .core.size import Size
from .core.state import state
from .kernels import services

services.install()

from . import ops  # noqa: E402
from .ops import _assemble  # noqa: E402
from .tensor import Tensor, _methods  # noqa: E402

from . import autograd  # noqa: E402  isort: skip

_FOLDER = os.path.dirname(os.path.abspath(__file__))


def _mark_internal_files() -> None:
    """Frames of these files are never the user's; programs under cli and testing are users like any other."""
    for folder, names, files in os.walk(_FOLDER):
        names[:] = [n for n in names if n not in ("cli", "testing", "__pycache__")]
        for file in files:
            if file.endswith(".py"):
                state.internal[os.path.join(folder, file)] = True


_mark_internal_files()


@functools.cache
def public_names() -> dict[str, Any]:
    names: dict[str, Any] = {}
    names.update(_assemble.functions("torch"))
    names.update({k: v for k, v in vars(_methods).items()      # the compiled functions win
                  if k in names and callable(v) and not k.startswith("_")})
    names.update(_dtype.by_name)
    names.update(
        Tensor=Tensor, Size=Size, dtype=_dtype.DType, device=_dtype.Device, layout=_dtype.Layout,
        memory_format=_dtype.MemoryFormat, strided=_dtype.STRIDED, contiguous_format=_dtype.CONTIGUOUS,
        preserve_format=_dtype.PRESERVE, channels_last=_dtype.CHANNELS_LAST, channels_last_3d=_dtype.CHANNELS_LAST_3D,
        half=_dtype.by_name["float16"], float=_dtype.by_name["float32"], double=_dtype.by_name["float64"],
        short=_dtype.by_name["int16"], int=_dtype.by_name["int32"], long=_dtype.by_name["int64"],
        cfloat=_dtype.by_name["complex64"], cdouble=_dtype.by_name["complex128"],
        autograd=autograd, no_grad=autograd.no_grad, enable_grad=autograd.enable_grad,
        set_grad_enabled=autograd.set_grad_enabled, is_grad_enabled=autograd.is_grad_enabled,
        inference_mode=autograd.inference_mode, is_inference_mode_enabled=autograd.is_inference_mode_enabled,
    )
    return names


_ = ops
