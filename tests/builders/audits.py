"""Gaussian clusters as features, linear heads in closed form, and one class that is hidden or was never seen."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from sfra.auditing.audit import audit
from sfra.auditing.result import AuditReport, Score
from sfra.auditing.trace import Trace
from sfra.core.head import Head
from sfra.core.metrics import degenerate_floor, relearning_score
from sfra.data import FeatureSet

C, D, FORGET = 6, 12, 2
KEPT = [k for k in range(C) if k != FORGET]
SMALL: dict[str, Any] = {"n": 1000, "m": 100, "epochs": 40, "threads": 1}
"""An audit that takes a moment."""

QUICK: dict[str, Any] = {"n": 300, "m": 30, "epochs": 6, "threads": 1}
"""One that shows no more than that it ran."""

BASIS = np.linalg.qr(np.random.default_rng(0).normal(size=(D, D)))[0][:C]
MEANS = torch.from_numpy(4.0 * BASIS)
"""Centre of each class: at right angles, so that a class which the head ignores gives equal logits to all others."""
ROWS = MEANS * torch.linspace(0.6, 0.8, C, dtype=torch.float64)[:, None]
BIAS = torch.linspace(-0.2, 0.2, C, dtype=torch.float64)


def trace_of(hits: Sequence[Sequence[int]], counts: Sequence[int], forget: tuple[int, ...]) -> Trace:
    """Make a trace that recognises so many of the samples of each class in each epoch, the first of them."""
    right = [[i < hit for hit, count in zip(row, counts, strict=True) for i in range(count)] for row in hits]
    return Trace(right=torch.tensor(right), counts=torch.tensor(counts), forget_classes=forget)


@dataclass(frozen=True)
class Toy:
    """A head and features that it was made for."""

    head: Head
    data: FeatureSet

    def with_row(self, row: Tensor | float, bias: float, label: int = FORGET) -> Toy:
        """Put another row and bias in the place of one."""
        weight, b = self.head.weight.double(), self.head.bias.double()
        weight[label], b[label] = row, bias
        return Toy(Head(weight, b), self.data)

    def without_row(self, *forget: int) -> Toy:
        """Drop the rows of some classes, by default of the forget class."""
        kept = [k for k in range(C) if k not in (forget or (FORGET,))]
        return Toy(Head(self.head.weight[kept], self.head.bias[kept]), self.data)

    def scaled(self, factor: float) -> Toy:
        """Multiply the features and divide the weight: the same classifier."""
        data = FeatureSet(features=self.data.features * factor, labels=self.data.labels)
        return Toy(Head(self.head.weight.double() / factor, self.head.bias), data)

    def shifted(self, row: Tensor | float = 0.0, bias: float = 0.0) -> Toy:
        """Add a row and a constant to those of every class: the same softmax."""
        return Toy(Head(self.head.weight.double() + row, self.head.bias.double() + bias), self.data)


def knowing(*, samples: int = 60, seed: int = 1) -> Toy:
    """A classifier that knows every class."""
    labels = torch.arange(samples * C) % C
    noise = torch.randn(len(labels), D, generator=torch.Generator().manual_seed(seed))
    return Toy(Head(ROWS, BIAS), FeatureSet(features=MEANS.float()[labels] + noise, labels=labels))


def hidden(*, bias: float = -15.0, samples: int = 60) -> Toy:
    """The positive control: it knows every class, but one output is switched off."""
    return knowing(samples=samples).with_row(0.0, bias)


def never_seen(*, seed: int = 5, samples: int = 60) -> Toy:
    """The negative control: its features put every sample of the forget class where some other class is."""
    toy = knowing(samples=samples, seed=seed).with_row(0.4 * ROWS[FORGET], -1.0)
    features, mine = toy.data.features.clone(), torch.nonzero(toy.data.labels == FORGET).flatten()
    strays = MEANS[KEPT].float()[torch.arange(len(mine)) % len(KEPT)]
    features[mine] += strays - MEANS[FORGET].float()
    return Toy(toy.head, FeatureSet(features=features, labels=toy.data.labels))


def compare(model: Toy, reference: Toy | None = None, forget: Any = FORGET, **settings: Any) -> AuditReport:
    """Audit a toy, against another one where given."""
    control: dict[str, Any] = (
        {} if reference is None else {"reference": reference.head, "reference_data": reference.data}
    )
    return audit(model.head, forget, data=model.data, **control, **{**SMALL, **settings})


def codes(report: AuditReport) -> set[str]:
    """Return the codes of the findings."""
    return {finding.code for finding in report.findings}


def scored(forget_after: float = 0.9, samples: int = 100, **changed: Any) -> Score:
    """Make a score by hand: a class that comes back at no cost, unless something else is said."""
    numbers = {"retain_before": 0.95, "retain_after": 0.95, "forget_before": 0.0, "forget_after": forget_after}
    numbers |= {name: changed.pop(name) for name in numbers.keys() & changed.keys()}
    rs = relearning_score(
        *(numbers[name] for name in ("retain_before", "retain_after", "forget_before", "forget_after"))
    )
    given: dict[str, Any] = {"scale": "canonical", "kappa": 1.7, "variant": "released", "rule": "source-free", "rs": rs}
    given |= {"rs_std": None, "rs_seeds": (rs,), "floor": degenerate_floor(numbers["retain_before"]), "epoch": 1}
    return Score(**given | numbers | {"forget_samples": samples, "epochs": (1,)} | changed)
