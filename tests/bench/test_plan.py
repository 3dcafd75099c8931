"""From a protocol to cells."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from sfra.bench.engine.cell import reachable
from sfra.bench.plan import plan
from sfra.bench.protocol import load_protocol


def test_order_of_classes_does_not_make_other_cells() -> None:
    protocol = load_protocol("digits-tiny")
    turned, ordered = (plan(replace(protocol, forget=(classes,))) for classes in ((6, 1), (1, 6)))
    assert [goal.cell for goal in turned] == [goal.cell for goal in ordered]


def test_every_kind_of_cell_may_have_a_limit(tmp_path: Path) -> None:
    kinds = {cell.kind for cell in reachable([goal.cell for goal in plan(load_protocol("digits"))]).values()}
    assert {"train", "unlearn", "features", "audit"} < kinds
    limits = "\n".join(f"{kind} = 60" for kind in kinds)
    (tmp_path / "own.toml").write_text(f'name = "own"\nextends = "digits"\n[limits]\n{limits}\n')
    assert set(load_protocol(tmp_path / "own.toml").limits) >= kinds
