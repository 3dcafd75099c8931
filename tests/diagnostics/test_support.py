"""Support of the proposals on one head."""

from __future__ import annotations

import json

import numpy as np
import pytest

from builders.audits import FORGET, hidden
from sfra.attack.probes import proposals, sample_probes
from sfra.attack.scale import Canonical, place
from sfra.diagnostics import compare_support


def test_every_proposal_is_described_as_its_probes_are() -> None:
    head = hidden().head
    rows = compare_support(head, [FORGET], n=400, m=20, threads=1, scale=Canonical(1.7), seed=3)
    assert [row.proposal for row in rows] == list(proposals.names())
    for row in rows:
        placed = place(head, [FORGET], scale=Canonical(1.7)).head
        probes = sample_probes(placed, [FORGET], n=400, m=20, threads=1, seed=3, proposal=row.proposal)
        s = probes.samples.numpy()
        assert row.negative_coordinates == pytest.approx(np.mean(s < 0))
        assert row.zero_coordinates == pytest.approx(np.mean(s == 0))
        assert row.nonnegative_vectors == pytest.approx(np.mean((s >= 0).all(1)))
        assert row.mean_norm == pytest.approx(np.linalg.norm(s, axis=1).mean(), rel=1e-5)
        assert (row.probes, row.draws) == (len(s), probes.draws)
        assert row.failure is None
    assert json.loads(json.dumps(rows[0].to_dict())) == rows[0].to_dict()


def test_a_proposal_that_cannot_reach_a_class_says_so_and_the_others_go_on() -> None:
    # No non-negative vector is answered as class 0; half of the Gaussian ones are.
    toy = hidden()
    weight, bias = toy.head.weight.abs(), toy.head.bias.clone()
    weight[0], bias[:] = -weight[0], 0.0
    bias[FORGET] = -15.0
    head = type(toy.head)(weight, bias)
    rows = compare_support(head, [FORGET], n=60, m=5, threads=1, names=["abs-gaussian", "gaussian"], max_draws=20_000)
    assert rows[0].failure is not None
    assert "0" in rows[0].failure
    assert rows[0].draws is None
    assert rows[1].failure is None
    assert rows[1].probes == 50
