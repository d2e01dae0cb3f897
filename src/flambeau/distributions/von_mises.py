"""The von Mises distribution."""

from __future__ import annotations

import math
from typing import Any

import flambeau
from flambeau import special

from . import constraints
from .distribution import Distribution
from .utils import broadcast_all, lazy_property

__all__ = ["VonMises"]


class VonMises(Distribution):
    """The von Mises distribution of angles, the normal distribution of the circle.

    Density p(x) = exp(concentration * cos(x - loc)) / (2 pi I0(concentration)), x in radians, any turn of the circle.

    Args:
        loc: mean angle in radians. concentration: positive; 0 would be uniform. Floating tensors or numbers that
            broadcast together; that shape is the batch's.

    Draws lie in [-pi, pi); they are made in float64 whatever the dtype, and carry no gradient. `variance` is the
    circular one, 1 - I1(concentration) / I0(concentration).

    PyTorch computes the Bessel functions to seven digits (Abramowitz and Stegun, 9.8); here they are precise, so that
    float64 results differ in the eighth.

    Source: Best and Fisher, 1979, Applied Statistics 28(2): drawing.

    >>> d = flambeau.distributions.VonMises(flambeau.tensor([0.0]), flambeau.tensor([4.0]))
    >>> d.mean, d.sample((3,)).shape
    (tensor([0.]), torch.Size([3, 1]))
    """

    arg_constraints = {"loc": constraints.real, "concentration": constraints.positive}
    support = constraints.real

    def __init__(self, loc: Any, concentration: Any, validate_args: bool | None = None) -> None:
        self.loc, self.concentration = broadcast_all(loc, concentration)
        super().__init__(self.loc.shape, validate_args=validate_args)

    def expand(self, batch_shape: Any, _instance: Any = None) -> Any:
        loc, concentration = self.loc.expand(batch_shape), self.concentration.expand(batch_shape)
        return type(self)(loc, concentration, validate_args=self._validate_args)

    def log_prob(self, value: Any) -> Any:
        if self._validate_args:
            self._validate_sample(value)
        log_bessel = special.i0e(self.concentration).log() + self.concentration
        return self.concentration * (value - self.loc).cos() - math.log(2 * math.pi) - log_bessel

    @lazy_property
    def _proposal_r(self) -> Any:
        """The parameter of the wrapped Cauchy distribution that proposes draws; float64."""
        kappa = self.concentration.detach().double()
        tau = 1 + (1 + 4 * kappa**2).sqrt()
        rho = (tau - (2 * tau).sqrt()) / (2 * kappa)
        return flambeau.where(kappa < 1e-5, 1 / kappa + kappa, (1 + rho**2) / (2 * rho))    # its limit, near 0

    def sample(self, sample_shape: Any = ()) -> Any:
        shape = self._extended_shape(sample_shape)
        with flambeau.no_grad():
            kappa, r = self.concentration.double(), self._proposal_r
            angle = flambeau.zeros(shape, dtype=kappa.dtype, device=kappa.device)
            done = flambeau.zeros(shape, dtype=flambeau.bool, device=kappa.device)
            while not done.all():
                u1, u2, u3 = flambeau.rand((3, *shape), dtype=kappa.dtype, device=kappa.device).unbind()
                z = (math.pi * u1).cos()
                f = (1 + r * z) / (r + z)
                c = kappa * (r - f)
                accept = (c * (2 - c) - u2 > 0) | ((c / u2).log() + 1 - c >= 0)
                # Accepted draws may replace earlier ones: that keeps to PyTorch's stream.
                angle = flambeau.where(accept, (u3 - 0.5).sign() * f.acos(), angle)
                done = done | accept
            turned = (angle + math.pi + self.loc.double()) % (2 * math.pi) - math.pi
            return turned.to(self.loc.dtype)

    @property
    def mean(self) -> Any:
        """The mean angle."""
        return self.loc

    @property
    def mode(self) -> Any:
        return self.loc

    @lazy_property
    def variance(self) -> Any:  # type: ignore[override]
        """The circular variance."""
        return 1 - special.i1e(self.concentration) / special.i0e(self.concentration)
