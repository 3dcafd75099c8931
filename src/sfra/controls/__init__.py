"""Controls that do see real samples: what prototypes and a linear probe bring back, to set an audit's result against.

They are no audit: the audit's two steps cannot import this package.
"""

from sfra.controls.linear import Probed, linear_probe
from sfra.controls.prototypes import ALPHAS, VARIANTS, PraOutcome, Prototyped, pra

__all__ = ["ALPHAS", "VARIANTS", "PraOutcome", "Probed", "Prototyped", "linear_probe", "pra"]
