"""What belongs to no layer: data loading, hook handles. Submodules are imported when first used."""

from __future__ import annotations

import importlib
from typing import Any

from flambeau._unavailable import missing, no_attribute

_SUBMODULES = ("_python_dispatch", "_pytree", "backend_registration", "benchmark", "bundled_inputs", "checkpoint",
               "collect_env", "cpp_extension", "data", "deterministic", "dlpack", "flop_counter", "hooks", "mkldnn",
               "mobile_optimizer", "model_zoo", "module_tracker", "show_pickle", "tensorboard", "throughput_benchmark",
               "weak")

__all__ = ["data", "hooks", "set_module"]

globals().update(missing(__name__, "swap_tensors", "tensors keep what they are: assign `a.data = b.data`, or exchange the "
                                                   "names."))
globals().update(missing(__name__, "get_cpp_backtrace", "there is no C++ code to trace. Use Python's traceback module."))
globals().update(missing(__name__, "rename_privateuse1_backend generate_methods_for_privateuse1_backend",
                         "devices are added in Python: see CONTRIBUTING.md."))
globals().update(missing(__name__, "ThroughputBenchmark", "it calls models from C++ threads. Measure with "
                                                          "torch.utils.benchmark.Timer."))


def set_module(obj: Any, mod: str) -> None:
    """Show an object as defined in a module.

    Raises:
        TypeError: mod is no str.
    """
    if not isinstance(mod, str):
        raise TypeError(f"The mod argument should be a string, not a {type(mod).__name__}")
    obj.__module__ = mod


def __getattr__(name: str) -> Any:
    if name in _SUBMODULES:
        try:
            return importlib.import_module(f"{__name__}.{name}")
        except ModuleNotFoundError as error:
            if error.name != f"{__name__}.{name}":
                raise
    raise no_attribute(__name__, name, [*_SUBMODULES, *__all__])
