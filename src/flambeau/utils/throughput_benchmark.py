"""`torch.utils.throughput_benchmark`: calls from many C++ threads."""

from __future__ import annotations

from flambeau._unavailable import missing

globals().update(missing(
    __name__, "ThroughputBenchmark ExecutionStats format_time",
    "it calls models from C++ threads. Measure with torch.utils.benchmark.Timer."))
