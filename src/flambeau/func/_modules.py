"""Modules that keep statistics of their batches, made fit for vmap."""

from __future__ import annotations

from typing import Any

from flambeau.nn.modules.batchnorm import _BatchNorm


def _without_statistics(module: Any) -> None:
    module.running_mean = None
    module.running_var = None
    module.num_batches_tracked = None
    module.track_running_stats = False


def replace_all_batch_norm_modules_(root: Any) -> Any:
    """Let every batch normalisation in a module use the statistics of its input only; in place.

    Running statistics are one for all samples, which vmap cannot update.

    Returns:
        root.

    >>> net = flambeau.nn.Sequential(flambeau.nn.BatchNorm1d(3), flambeau.nn.Linear(3, 1))
    >>> replace_all_batch_norm_modules_(net)[0].track_running_stats
    False
    """
    for module in root.modules():
        if isinstance(module, _BatchNorm):
            _without_statistics(module)
    return root
