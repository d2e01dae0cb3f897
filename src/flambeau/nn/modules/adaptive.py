"""Softmax over many classes in clusters of growing size and shrinking cost."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import flambeau
from flambeau.nn import functional as F

from .container import ModuleList, Sequential
from .linear import Linear
from .module import Module

__all__ = ["AdaptiveLogSoftmaxWithLoss"]


class _ASMoutput(NamedTuple):
    output: Any
    loss: Any


class AdaptiveLogSoftmaxWithLoss(Module):
    """Log-softmax over many classes, the frequent ones first: rare classes sit in clusters of their own.

    The head scores the classes below cutoffs[0] and the clusters; each cluster has a projection to fewer features,
    in_features / div_value^(i + 1), and scores its own classes.

    Args:
        in_features: D. n_classes: all classes; targets number them by falling frequency.
        cutoffs: increasing numbers of the first class of each cluster.
        div_value: how features shrink from cluster to cluster.
        head_bias: whether the head has a bias.

    Source: Grave et al., 2017, arXiv:1609.04309.
    """

    def __init__(self, in_features: int, n_classes: int, cutoffs: Sequence[int], div_value: float = 4.0,
                 head_bias: bool = False, device: Any = None, dtype: Any = None) -> None:
        super().__init__()
        made: dict[str, Any] = {"device": device, "dtype": dtype}
        cutoffs = list(cutoffs)
        if not cutoffs:
            raise ValueError("cutoffs should be a sequence of length larger than 0")
        rising = all(a < b for a, b in zip(cutoffs[:-1], cutoffs[1:], strict=True))
        if not rising or cutoffs[0] <= 0 or cutoffs[-1] > n_classes - 1 or any(int(c) != c for c in cutoffs):
            raise ValueError("cutoffs should be a sequence of unique, positive integers sorted in an increasing order, "
                             f"where each value is between 1 and n_classes-1, got {cutoffs} for {n_classes} classes")
        self.in_features = in_features
        self.n_classes = n_classes
        self.cutoffs = [*cutoffs, n_classes]
        self.div_value = div_value
        self.head_bias = head_bias
        self.shortlist_size = self.cutoffs[0]
        self.n_clusters = len(self.cutoffs) - 1
        self.head_size = self.shortlist_size + self.n_clusters
        self.head = Linear(in_features, self.head_size, bias=head_bias, **made)
        self.tail = ModuleList()
        for i in range(self.n_clusters):
            features = int(in_features // (div_value ** (i + 1)))
            n = self.cutoffs[i + 1] - self.cutoffs[i]
            self.tail.append(Sequential(Linear(in_features, features, bias=False, **made),
                                        Linear(features, n, bias=False, **made)))

    def reset_parameters(self) -> None:
        """Draw the initial values anew."""
        self.head.reset_parameters()
        for projection, scores in self.tail:
            projection.reset_parameters()
            scores.reset_parameters()

    def forward(self, input_: Any, target_: Any) -> _ASMoutput:
        """(output: the log-probability of each target (N,), loss: minus their mean), for input (N, D) or (D,)."""
        dims = target_.dim()
        if dims == 1:
            if input_.size(0) != target_.size(0):
                raise RuntimeError("Input and target should have the same size in the batch dimension, got "
                                   f"{input_.size(0)} and {target_.size(0)}.")
            if input_.dim() != 2:
                raise RuntimeError(f"A 1D target goes with a 2D input, this one has size {input_.size()}")
        elif dims == 0:
            if input_.dim() != 1:
                raise RuntimeError(f"A 0D target goes with a 1D input, this one has size {input_.size()}")
        else:
            raise RuntimeError(f"0D or 1D target tensor expected, multi-target not supported; got shape {target_.size()}")
        x = input_ if dims == 1 else input_.unsqueeze(0)
        target = target_ if dims == 1 else target_.unsqueeze(0)
        if target.numel() and (int(target.min()) < 0 or int(target.max()) >= self.n_classes):
            raise RuntimeError(f"Target values should be in [0, {self.n_classes - 1}], but values in range "
                               f"[{target.min().item()}, {target.max().item()}] were found. ")
        head = F.log_softmax(self.head(x), dim=1)
        in_head = target.clone()            # of a rare class: its cluster
        output = head.new_zeros(target.size(0))
        for i in range(self.n_clusters):
            rows = ((target >= self.cutoffs[i]) & (target < self.cutoffs[i + 1])).nonzero().squeeze(1)
            if rows.numel() == 0:
                continue
            in_head[rows] = self.shortlist_size + i
            own = F.log_softmax(self.tail[i](x.index_select(0, rows)), dim=1)
            own = own.gather(1, (target.index_select(0, rows) - self.cutoffs[i]).unsqueeze(1)).squeeze(1)
            output = output.index_add(0, rows, own)
        output = output + head.gather(1, in_head.unsqueeze(1)).squeeze(1)
        loss = (-output).mean()
        return _ASMoutput(output if dims == 1 else output.squeeze(0), loss)

    def _get_full_log_prob(self, input: Any, head_output: Any) -> Any:
        """Log-probabilities of all classes, from the head's scores."""
        head = F.log_softmax(head_output, dim=1)
        parts = [head[:, :self.shortlist_size]]
        for i, cluster in enumerate(self.tail):
            at = self.shortlist_size + i
            parts.append(F.log_softmax(cluster(input), dim=1) + head[:, at:at + 1])
        return flambeau.cat(parts, dim=1)

    def log_prob(self, input: Any) -> Any:
        """Log-probabilities (N, n_classes) for input (N, D)."""
        return self._get_full_log_prob(input, self.head(input))

    def predict(self, input: Any) -> Any:
        """The most probable class of each row, (N,): clusters are computed only where their class may be it."""
        scores = self.head(input)
        best = scores.argmax(dim=1)
        rare = best >= self.shortlist_size
        if bool(rare.any()):
            rows = rare.nonzero().squeeze(1)
            own = self._get_full_log_prob(input.index_select(0, rows), scores.index_select(0, rows)).argmax(dim=1)
            best = best.index_copy(0, rows, own)
        return best
