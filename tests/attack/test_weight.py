"""The weight of forget probes: what it is for a number of classes, and that an audit takes it to the loss."""

from __future__ import annotations

import pytest
import torch

from sfra.attack.grid import Setting, relearn_release
from sfra.attack.probes import sample_probes
from sfra.attack.relearn import relearn
from sfra.attack.scale import Native
from sfra.attack.settings import AttackSettings
from sfra.attack.weight import FORGET_WEIGHTS
from sfra.core.head import Head

HEAD = Head(torch.randn(9, 12, generator=torch.Generator().manual_seed(0)))


@pytest.mark.parametrize("forget", [(4,), (1, 7)])
def test_balanced_forget_probes_weigh_their_class_the_root_of_the_retain_classes_times_a_retain_class(
    forget: tuple[int, ...],
) -> None:
    retain = HEAD.classes - len(forget)
    probes = sample_probes(HEAD, forget, n=100, m=10)
    weights = FORGET_WEIGHTS["balanced"].probe_weights(probes, retain)
    totals = torch.zeros(HEAD.classes).index_add_(0, probes.labels, weights)
    expected = torch.full((HEAD.classes,), 10.0)
    expected[list(forget)] *= retain**0.5
    torch.testing.assert_close(totals, expected)
    assert (FORGET_WEIGHTS["published"].probe_weights(probes, retain) == 1).all()


@pytest.mark.parametrize("forget", [(4,), (1, 7)])
def test_an_audit_relearns_with_the_weight_that_it_is_told(forget: tuple[int, ...]) -> None:
    def last(name: str) -> Head:
        config = AttackSettings(n=100, m=10, epochs=2, forget_weight=name)
        return relearn_release(HEAD, forget, [Setting(scale=Native(), variant="released")], config)[0].path.last

    probes = sample_probes(HEAD, forget, n=100, m=10)
    weights = torch.ones(len(probes.labels))
    weights[torch.isin(probes.labels, torch.tensor(forget))] = (9 - len(forget)) ** -0.5
    assert last("published").fingerprint == relearn(HEAD, probes, epochs=2).last.fingerprint
    assert last("balanced").fingerprint == relearn(HEAD, probes, epochs=2, probe_weights=weights).last.fingerprint
    assert last("balanced").fingerprint != last("published").fingerprint
