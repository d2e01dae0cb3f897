"""`torch.hub`: models from the internet. flambeau downloads nothing; the folder of downloaded files is known."""

from __future__ import annotations

import os
from typing import Any

from ._unavailable import missing, refusal

_OWN = ("flambeau downloads nothing and runs no code from the internet. Get the model's code and its file of parameters "
        "yourself, and pass the parameters to load_state_dict().")
_dir: list[str | None] = [None]


def get_dir() -> str:
    """The folder of downloaded models: $TORCH_HOME/hub, by default ~/.cache/torch/hub."""
    if _dir[0] is not None:
        return _dir[0]
    cache = os.environ.get("XDG_CACHE_HOME", "~/.cache")
    home = os.environ.get("TORCH_HOME", os.path.join(cache, "torch"))
    return os.path.join(os.path.expanduser(home), "hub")


def set_dir(d: Any) -> None:
    """Set the folder of downloaded models."""
    _dir[0] = os.path.expanduser(os.fspath(d))


globals().update(missing(__name__, "load list help load_state_dict_from_url download_url_to_file", _OWN))
_unknown = refusal(__name__, _OWN)


def __getattr__(name: str) -> Any:
    return _unknown(name)
