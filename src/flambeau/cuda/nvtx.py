"""`torch.cuda.nvtx`: marks for NVIDIA's tools. There is no CUDA device; each function says what to use instead."""

from __future__ import annotations

from flambeau._unavailable import missing

globals().update(missing(__name__, "range_push range_pop range_start range_end mark range",
                         "there is no CUDA device. To time parts of a program use torch.autograd.profiler.record_function."))
