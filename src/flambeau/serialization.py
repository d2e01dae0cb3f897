"""`torch.save` and `torch.load`: they come in the next version."""

from __future__ import annotations

from typing import Any

from ._unavailable import missing, refusal

_LATER = ("saving comes in the next version. Until then keep arrays: numpy.savez(path, **{k: v.numpy() for k, v in "
          "model.state_dict().items()}), and load_state_dict({k: torch.from_numpy(v) for k, v in numpy.load(path).items()}).")

globals().update(missing(
    __name__, "save load add_safe_globals clear_safe_globals get_safe_globals safe_globals get_unsafe_globals_in_checkpoint "
    "skip_data register_package default_restore_location set_default_load_endianness get_default_load_endianness", _LATER))


class SourceChangeWarning(Warning):
    """A saved module's source has changed; never given here."""


_unknown = refusal(__name__, _LATER)


def __getattr__(name: str) -> Any:
    return _unknown(name)
