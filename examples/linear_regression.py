"""A line through points, by hand: no module, no optimizer, only gradients.

    flambeau run examples/linear_regression.py          (or: python examples/linear_regression.py, with PyTorch)

The data lie on y = 3 x - 2 with some noise. The loss is the mean squared error; its gradient at the two parameters
comes from `backward()`, and the update is written out.
"""

import torch

torch.manual_seed(0)
x = torch.linspace(-1, 1, 100).unsqueeze(1)
y = 3 * x - 2 + 0.1 * torch.randn(100, 1)

slope = torch.zeros(1, requires_grad=True)
offset = torch.zeros(1, requires_grad=True)
rate = 0.3

for step in range(51):
    loss = ((slope * x + offset - y) ** 2).mean()
    loss.backward()
    with torch.no_grad():               # an update is not a part of the function that is differentiated
        slope -= rate * slope.grad
        offset -= rate * offset.grad
    slope.grad = offset.grad = None     # or the next backward would add to them
    if step % 10 == 0:
        print(f"step {step:2d}  loss {loss.item():.6f}  slope {slope.item():.4f}  offset {offset.item():.4f}")

# The minimum is also known in closed form: the solution of the normal equations.
design = torch.cat([x, torch.ones(100, 1)], dim=1)
gram, right = design.T @ design, design.T @ y
determinant = gram[0, 0] * gram[1, 1] - gram[0, 1] * gram[1, 0]
best_slope = (gram[1, 1] * right[0, 0] - gram[0, 1] * right[1, 0]) / determinant
best_offset = (gram[0, 0] * right[1, 0] - gram[1, 0] * right[0, 0]) / determinant
print(f"exactly: slope {best_slope.item():.4f}  offset {best_offset.item():.4f}")
