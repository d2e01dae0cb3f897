"""Benchmarks against PyTorch: `python -m benchmarks` runs them all, `python -m benchmarks.overhead` one."""
