"""A graph convolution by hand: which of three groups does a person belong to, when few have told?

    flambeau run examples/graph_convolution.py          (or: python examples/graph_convolution.py, with PyTorch)

Kipf and Welling, 2016, arXiv:1609.02907. People know each other more often within a group; each has noisy features;
the labels of four a group are known. A layer takes the degree-normalised sum over neighbours, by `index_add` over the
list of edges, then a linear map.
"""

import argparse

import torch
import torch.nn.functional as F
from torch import nn

N_GROUPS = 3
N_MEMBERS = 40
N_FEATURES = 12


def make_graph():
    """Features (N, D), groups (N,), edges (2, E): both directions of each, and from each node to itself."""
    groups = torch.arange(N_GROUPS).repeat_interleave(N_MEMBERS)
    n = len(groups)
    same = groups.unsqueeze(0) == groups.unsqueeze(1)
    chance = torch.where(same, 0.15, 0.02)
    upper = torch.bernoulli(chance).triu(diagonal=1)
    edges = (upper + upper.T + torch.eye(n)).nonzero().T
    features = torch.randn(n, N_FEATURES) + 0.4 * F.one_hot(groups, N_FEATURES)
    return features, groups, edges


def edge_weights(edges, n):
    """1 / sqrt(degree of source * degree of target), (E,)."""
    degree = torch.zeros(n).index_add_(0, edges[0], torch.ones(edges.shape[1]))
    return (degree[edges[0]] * degree[edges[1]]).rsqrt()


class GraphConvolution(nn.Module):
    """(N, n_in) to (N, n_out), summed over neighbours."""

    def __init__(self, n_in, n_out):
        super().__init__()
        self.linear = nn.Linear(n_in, n_out)

    def forward(self, x, edges, weights):
        source, target = edges
        messages = self.linear(x)[source] * weights.unsqueeze(1)
        return torch.zeros(len(x), messages.shape[1]).index_add(0, target, messages)


class GraphNet(nn.Module):
    def __init__(self, n_hidden=16):
        super().__init__()
        self.layer1 = GraphConvolution(N_FEATURES, n_hidden)
        self.layer2 = GraphConvolution(n_hidden, N_GROUPS)

    def forward(self, x, edges, weights):
        h = F.elu(self.layer1(x, edges, weights))
        h = F.dropout(h, 0.3, training=self.training)
        return self.layer2(h, edges, weights)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()

    torch.manual_seed(options.seed)
    features, groups, edges = make_graph()
    n = len(groups)
    weights = edge_weights(edges, n)
    known = torch.zeros(n, dtype=torch.bool)
    for group in range(N_GROUPS):
        members = (groups == group).nonzero().squeeze(1)
        known[members[torch.randperm(len(members))[:4]]] = True
    print(f"{n} people, {(edges.shape[1] - n) // 2} acquaintances, {known.sum()} known labels")

    model = GraphNet()
    optimizer = torch.optim.Adam(model.parameters(), lr=0.02, weight_decay=5e-3)
    for step in range(1, options.steps + 1):
        logits = model(features, edges, weights)
        loss = F.cross_entropy(logits[known], groups[known])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step % max(options.steps // 10, 1) == 0:
            model.eval()
            with torch.no_grad():
                hits = model(features, edges, weights).argmax(dim=1) == groups
            model.train()
            print(f"step {step:4d}  loss {loss.item():.5f}  others right {hits[~known].float().mean().item():.3f}")

    # the same sums as a product with the dense normalised adjacency matrix
    adjacency = torch.zeros(n, n).index_put((edges[1], edges[0]), weights)
    model.eval()
    with torch.no_grad():
        h = F.elu(adjacency @ model.layer1.linear(features))
        dense = adjacency @ model.layer2.linear(h)
        gap = (dense - model(features, edges, weights)).abs().max().item()
    print(f"as a matrix product: {'the same' if gap < 1e-4 else 'different'}, mean logit {dense.mean().item():.5f}")


if __name__ == "__main__":
    main()
