"""The core: tensors, graph nodes, the engine and the modes. Arrays are opaque here; no operator is named.

Read in this order: `state` (switches), `op` (operator records), `objects` (tensor, node, view, cell),
`saved` and `views` (what a node keeps), `apply` and `inplace` (the forward), `engine` (the backward).
"""
