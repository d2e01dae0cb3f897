"""`torch.cuda.random`: the functions of `torch.cuda` about random streams of devices."""

from __future__ import annotations

from flambeau.cuda import (  # type: ignore[attr-defined]
    get_rng_state,
    get_rng_state_all,
    initial_seed,
    manual_seed,
    manual_seed_all,
    seed,
    seed_all,
    set_rng_state,
    set_rng_state_all,
)

__all__ = ["get_rng_state", "get_rng_state_all", "initial_seed", "manual_seed", "manual_seed_all", "seed", "seed_all",
           "set_rng_state", "set_rng_state_all"]
