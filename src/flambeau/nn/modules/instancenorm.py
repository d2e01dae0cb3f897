"""Instance normalisation."""

from __future__ import annotations

from typing import Any

from flambeau.core.origin import warn_user
from flambeau.nn import functional as F

from .batchnorm import _NormBase
from .lazy import _LazyNormBase


class _InstanceNorm(_NormBase):
    """Each channel of each sample with its own statistics. Source: Ulyanov et al., 2016, arXiv:1607.08022."""

    def __init__(self, num_features: int, eps: float = 1e-5, momentum: float = 0.1, affine: bool = False,
                 track_running_stats: bool = False, device: Any = None, dtype: Any = None, *,
                 bias: bool = True) -> None:
        super().__init__(num_features, eps, momentum, affine, track_running_stats, device, dtype, bias=bias)

    def _get_no_batch_dim(self) -> int:
        raise NotImplementedError

    def _load_from_state_dict(self, state_dict: Any, prefix: str, local_metadata: dict, strict: bool,
                              missing_keys: list, unexpected_keys: list, error_msgs: list) -> None:
        if local_metadata.get("version", None) is None and not self.track_running_stats:
            old = [prefix + name for name in ("running_mean", "running_var") if prefix + name in state_dict]
            if old:
                error_msgs.append(
                    f"Unexpected running stats buffer(s) {' and '.join(repr(k) for k in old)} for "
                    f"{type(self).__name__} with track_running_stats=False: the checkpoint was saved before "
                    "the default changed to False. Remove them, or build the layer with "
                    "track_running_stats=True.")
                for key in old:
                    state_dict.pop(key)
        super()._load_from_state_dict(state_dict, prefix, local_metadata, strict, missing_keys,
                                      unexpected_keys, error_msgs)

    def forward(self, input: Any) -> Any:
        self._check_input_dim(input)
        unbatched = input.dim() == self._get_no_batch_dim()
        channel_dim = input.dim() - self._get_no_batch_dim()
        if input.size(channel_dim) != self.num_features:
            if self.affine:
                raise ValueError(f"expected input's size at dim={channel_dim} to match num_features "
                                 f"({self.num_features}), but got: {input.size(channel_dim)}.")
            warn_user(f"input's size at dim={channel_dim} does not match num_features. Nothing depends on "
                      "num_features with affine=False; give the right number.")
        result = F.instance_norm(input.unsqueeze(0) if unbatched else input, self.running_mean,
                                 self.running_var, self.weight, self.bias,
                                 self.training or not self.track_running_stats,
                                 self.momentum if self.momentum is not None else 0.0, self.eps)
        return result.squeeze(0) if unbatched else result


class InstanceNorm1d(_InstanceNorm):
    """Instance normalisation of (N, C, L) or (C, L)."""

    def _get_no_batch_dim(self) -> int:
        return 2

    def _check_input_dim(self, input: Any) -> None:
        if input.dim() not in (2, 3):
            raise ValueError(f"expected 2D or 3D input (got {input.dim()}D input)")


class InstanceNorm2d(_InstanceNorm):
    """Instance normalisation of (N, C, H, W) or (C, H, W)."""

    def _get_no_batch_dim(self) -> int:
        return 3

    def _check_input_dim(self, input: Any) -> None:
        if input.dim() not in (3, 4):
            raise ValueError(f"expected 3D or 4D input (got {input.dim()}D input)")


class InstanceNorm3d(_InstanceNorm):
    """Instance normalisation of (N, C, D, H, W) or (C, D, H, W)."""

    def _get_no_batch_dim(self) -> int:
        return 4

    def _check_input_dim(self, input: Any) -> None:
        if input.dim() not in (4, 5):
            raise ValueError(f"expected 4D or 5D input (got {input.dim()}D input)")


class _LazyInstanceNorm(_LazyNormBase):
    def _channels(self, input: Any) -> int:
        return input.shape[input.dim() - self._get_no_batch_dim()]  # type: ignore[attr-defined]


class LazyInstanceNorm1d(_LazyInstanceNorm, InstanceNorm1d):
    """InstanceNorm1d whose num_features are the channels of the first input."""

    cls_to_become = InstanceNorm1d


class LazyInstanceNorm2d(_LazyInstanceNorm, InstanceNorm2d):
    """InstanceNorm2d whose num_features are the channels of the first input."""

    cls_to_become = InstanceNorm2d


class LazyInstanceNorm3d(_LazyInstanceNorm, InstanceNorm3d):
    """InstanceNorm3d whose num_features are the channels of the first input."""

    cls_to_become = InstanceNorm3d
