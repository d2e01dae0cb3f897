"""Mixing the channels of groups."""

from __future__ import annotations

from typing import Any

from flambeau.nn import functional as F

from .module import Module


class ChannelShuffle(Module):
    """Takes channels from each group in turn. Source: Zhang et al., 2017, arXiv:1707.01083."""

    __constants__ = ["groups"]

    def __init__(self, groups: int) -> None:
        super().__init__()
        self.groups = groups

    def forward(self, input: Any) -> Any:
        return F.channel_shuffle(input, self.groups)

    def extra_repr(self) -> str:
        return f"groups={self.groups}"
