"""A derivative of your own: log(1 + exp(x)), written so that it neither overflows nor forgets its second derivative.

    flambeau run examples/custom_function.py          (or: python examples/custom_function.py, with PyTorch)
"""

import torch
from torch.autograd import Function, gradcheck, gradgradcheck


def naive(x):
    """The formula as it stands: for x above 88 exp(x) overflows in float32."""
    return torch.log(1 + torch.exp(x))


class Softplus(Function):
    """log(1 + exp(x)), computed from exp(-|x|); its derivative is the logistic function."""

    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x.clamp(min=0) + torch.log1p(torch.exp(-x.abs()))

    @staticmethod
    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        return g * torch.sigmoid(x)     # made of operators, so that it can be differentiated in its turn


class Forgetful(Softplus):
    """The same with a mistake: half the derivative."""

    @staticmethod
    def backward(ctx, g):
        return 0.5 * Softplus.backward(ctx, g)


x = torch.tensor([-100.0, -1.0, 0.0, 1.0, 100.0], requires_grad=True)
for name, function in (("naive", naive), ("own", Softplus.apply)):
    y = function(x)
    (slope,) = torch.autograd.grad(y.sum(), x)
    print(name, y.tolist())
    print("  derivative", [round(v, 6) for v in slope.tolist()])

points = torch.tensor([-2.0, -0.3, 0.4, 3.0], dtype=torch.float64, requires_grad=True)
print("gradcheck", gradcheck(Softplus.apply, points))
print("gradgradcheck", gradgradcheck(Softplus.apply, points))
print("gradcheck of the mistake", gradcheck(Forgetful.apply, points, raise_exception=False))
