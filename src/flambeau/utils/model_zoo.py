"""Downloads of weights, under their old names: `torch.hub` is where they live."""

from __future__ import annotations

import flambeau

load_url = flambeau.hub.load_state_dict_from_url

__all__ = ["load_url"]
