"""`torch.library`: operators of users in PyTorch's registry, which flambeau does not have."""

from __future__ import annotations

from typing import Any

from ._unavailable import missing, refusal

_OWN = ("write an autograd.Function with forward and backward, or an operator record (docs/adding-an-operator.md): both "
        "take part in everything that operators do.")
globals().update(missing(__name__, "custom_op triton_op wrap_triton opcheck define impl impl_abstract register_fake "
                                   "register_autograd register_kernel register_vmap register_autocast "
                                   "register_torch_dispatch get_ctx infer_schema fallthrough_kernel Library", _OWN))
_unknown = refusal(__name__, _OWN)


def __getattr__(name: str) -> Any:
    return _unknown(name)
