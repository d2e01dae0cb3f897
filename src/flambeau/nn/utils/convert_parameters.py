"""All parameters as one vector, and back."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import flambeau
from flambeau.tensor import Tensor


def parameters_to_vector(parameters: Iterable[Any]) -> Any:
    """The parameters, flattened, one after the other: a vector that autograd follows."""
    return flambeau.cat([p.view(-1) for p in parameters])


def vector_to_parameters(vec: Any, parameters: Iterable[Any]) -> None:
    """Give the parameters the values of a vector made by `parameters_to_vector`; they become views of it."""
    if not isinstance(vec, Tensor):
        raise TypeError(f"expected torch.Tensor, but got: {type(vec).__name__}")
    start = 0
    for p in parameters:
        n = p.numel()
        p.data = vec[start:start + n].view_as(p).data
        start += n
