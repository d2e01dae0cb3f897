"""Scenarios 11 to 13: custom functions, checks of their derivatives, derivatives of derivatives."""

from __future__ import annotations

import pytest

import flambeau


def test_a_scaled_relu_with_a_python_slope(both):
    def program(torch):
        class ScaledReLU(torch.autograd.Function):
            @staticmethod
            def forward(ctx, x, slope):
                ctx.save_for_backward(x)
                ctx.slope = slope
                return x.clamp(min=0) * slope

            @staticmethod
            def backward(ctx, g):
                (x,) = ctx.saved_tensors
                return g * ctx.slope * (x > 0), None

        x = torch.tensor([-1.0, 2.0, 3.0], requires_grad=True)
        y = ScaledReLU.apply(x, 0.5)
        y.sum().backward()
        return y, x.grad, y.grad_fn.name()

    both(program)


def test_a_linear_layer_whose_output_carries_a_penalty(both):
    def program(torch):
        class Penalised(torch.autograd.Function):
            @staticmethod
            def forward(ctx, x, weight, strength):
                ctx.save_for_backward(x, weight)
                ctx.strength = strength
                return x @ weight.t(), strength * weight.pow(2).sum()

            @staticmethod
            def backward(ctx, of_out, of_penalty):
                x, weight = ctx.saved_tensors
                of_weight = of_out.t() @ x + of_penalty * 2 * ctx.strength * weight
                return (of_out @ weight if ctx.needs_input_grad[0] else None), of_weight, None

        weight = torch.nn.Parameter(torch.randn(2, 3))
        out, penalty = Penalised.apply(torch.randn(4, 3), weight, 0.1)
        (out.pow(2).mean() + penalty).backward()
        return out, penalty, weight.grad

    both(program)


def test_fake_quantization_with_a_straight_through_estimator(both):
    def program(torch):
        class Round(torch.autograd.Function):
            @staticmethod
            def forward(x):
                return torch.round(x * 8) / 8

            @staticmethod
            def setup_context(ctx, inputs, output):
                pass

            @staticmethod
            def backward(ctx, g):
                return g

        w = torch.randn(5, requires_grad=True)
        (Round.apply(w) ** 2).sum().backward()
        return w.grad, Round.apply(w)

    both(program)


def function(**methods):
    return type("Mine", (flambeau.autograd.Function,), {k: staticmethod(v) for k, v in methods.items()})


def test_a_wrong_count_of_gradients_is_told():
    mine = function(forward=lambda ctx, a, b: a * b, backward=lambda ctx, g: g)
    y = mine.apply(flambeau.ones(2, requires_grad=True), flambeau.ones(2, requires_grad=True))
    with pytest.raises(RuntimeError, match=r"incorrect number of gradients \(expected 2, got 1\)"):
        y.sum().backward()


def test_a_gradient_of_a_wrong_shape_is_told():
    mine = function(forward=lambda ctx, a: a * 2, backward=lambda ctx, g: flambeau.ones(5))
    with pytest.raises(RuntimeError, match="invalid gradient.*shape"):
        mine.apply(flambeau.ones(2, requires_grad=True)).sum().backward()


def test_a_forgotten_save_is_told():
    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        return g * x

    mine = function(forward=lambda ctx, a: a * 2, backward=backward)
    with pytest.raises(ValueError, match="unpack"):
        mine.apply(flambeau.ones(2, requires_grad=True)).sum().backward()


def wrong_square(factor):
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * x

    return function(forward=forward, backward=lambda ctx, g: g * factor * ctx.saved_tensors[0])


def test_gradcheck_passes_a_right_derivative_and_catches_a_missing_factor():
    x = flambeau.tensor([0.5, -1.5], dtype=flambeau.float64, requires_grad=True)
    assert flambeau.autograd.gradcheck(wrong_square(2).apply, x)
    assert flambeau.autograd.gradgradcheck(wrong_square(2).apply, x)
    with pytest.raises(RuntimeError, match="Jacobian mismatch") as error:
        flambeau.autograd.gradcheck(wrong_square(1).apply, x)
    assert "2" in str(error.value)                           # the factor between the two
    assert flambeau.autograd.gradcheck(wrong_square(1).apply, x, raise_exception=False) is False


def test_a_hessian_vector_product_by_hand(both):
    def program(torch):
        x = torch.tensor([2.0], requires_grad=True)
        (g,) = torch.autograd.grad((x ** 2 + x ** 3).sum(), x, create_graph=True)
        (h,) = torch.autograd.grad(g, x, torch.ones(1))
        return g, h

    assert both(program)[1] == [14.0]


def test_the_gradient_penalty_of_wgan_gp(both):
    def program(torch):
        critic = torch.nn.Sequential(torch.nn.Linear(3, 8), torch.nn.LeakyReLU(0.2), torch.nn.Linear(8, 1))
        real, fake = torch.randn(4, 3), torch.randn(4, 3)
        mix = torch.rand(4, 1)
        between = (mix * real + (1 - mix) * fake).requires_grad_()
        (g,) = torch.autograd.grad(critic(between).sum(), between, create_graph=True)
        penalty = ((g.norm(2, dim=1) - 1) ** 2).mean()
        (critic(fake).mean() - critic(real).mean() + 10 * penalty).backward()
        return penalty, [p.grad for p in critic.parameters()]

    both(program)


def test_the_residual_of_a_differential_equation(both):
    def program(torch):
        net = torch.nn.Sequential(torch.nn.Linear(1, 10), torch.nn.Tanh(), torch.nn.Linear(10, 1))
        optimizer = torch.optim.Adam(net.parameters(), lr=0.01)
        t = torch.linspace(0, 1, 9).reshape(-1, 1).requires_grad_()
        losses = []
        for _ in range(5):
            optimizer.zero_grad()
            u = net(t)
            (du,) = torch.autograd.grad(u, t, torch.ones_like(u), create_graph=True)
            (ddu,) = torch.autograd.grad(du, t, torch.ones_like(du), create_graph=True)
            loss = ((ddu + u) ** 2).mean() + (u[0] - 1).pow(2).sum()
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
        return losses

    both(program, rel=1e-4)


def test_the_inner_step_of_maml(both):
    def program(torch):
        w = torch.randn(3, requires_grad=True)
        x, y = torch.randn(5, 3), torch.randn(5)
        inner = ((x @ w - y) ** 2).mean()
        (g,) = torch.autograd.grad(inner, w, create_graph=True)
        adapted = w - 0.1 * g
        ((x @ adapted - y) ** 2).mean().backward()
        return w.grad

    both(program)


def test_unused_inputs_of_grad(both):
    def program(torch):
        x, unused = torch.ones(2, requires_grad=True), torch.ones(3, requires_grad=True)
        y = (x * 2).sum()
        some = torch.autograd.grad(y, [x, unused], allow_unused=True, retain_graph=True)
        zeros = torch.autograd.grad(y, [x, unused], materialize_grads=True)
        return some, zeros

    both(program)
    x, unused = flambeau.ones(2, requires_grad=True), flambeau.ones(3, requires_grad=True)
    with pytest.raises(RuntimeError, match="appears to not have been used in the graph.*allow_unused=True"):
        flambeau.autograd.grad(x.sum(), [x, unused])
