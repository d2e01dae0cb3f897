"""`torch.backends.cpu`."""

from __future__ import annotations


def get_cpu_capability() -> str:
    """The vector instructions of the processor that NumPy's kernels use: "AVX512", "AVX2", "NEON" or "DEFAULT"."""
    from numpy._core._multiarray_umath import __cpu_features__ as features

    for name, flag in (("AVX512", "AVX512F"), ("AVX2", "AVX2"), ("NEON", "NEON")):
        if features.get(flag):
            return name
    return "DEFAULT"
