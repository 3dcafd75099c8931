"""Annotations are checked while tests run: with axes and without, in arguments and in results."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import pytest
import torch
from jaxtyping import Float, TypeCheckError
from torch import Tensor

from builders.instrument import has_axes
from sfra.attack.probes import assign
from sfra.attack.probes.region import win_region
from sfra.bench.tables import names
from sfra.core.metrics import relearning_curve
from sfra.report.page.charts import rounded

Row = Float[Tensor, " n"]


def test_a_wrong_argument_is_refused_with_axes_and_without() -> None:
    assert rounded([0.12345], digits=2) == [0.12]
    with pytest.raises(TypeCheckError, match="digits"):
        rounded([0.12345], digits="2")  # type: ignore[arg-type]
    with pytest.raises(TypeCheckError, match="relearning_curve"):
        relearning_curve([0.5], [0.5])  # type: ignore[arg-type]


def test_axes_of_one_name_must_have_one_size() -> None:
    weight = torch.eye(3, 2, dtype=torch.float64)
    assert win_region(weight, torch.zeros(3, dtype=torch.float64), 0)
    with pytest.raises(TypeCheckError, match="win_region"):
        win_region(weight, torch.zeros(4, dtype=torch.float64), 0)


def test_a_wrong_result_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(names, "METHODS", {"delete": 3})
    with pytest.raises(TypeCheckError, match="return"):
        names.method_name("delete")
    monkeypatch.setattr(assign, "_greedy", lambda affinity, m: torch.zeros(3, dtype=torch.int64))
    with pytest.raises(TypeCheckError, match="return"):
        assign.assign(torch.eye(2), 1, "greedy")


@pytest.mark.parametrize("hint", [Row, Row | None, list[Row], Mapping[str, tuple[Row, ...]], Callable[[Row], None]])
def test_axes_are_found_wherever_they_stand(hint: Any) -> None:
    assert has_axes(hint)


@pytest.mark.parametrize("hint", [int, Tensor, Tensor | None, dict[str, list[Any]], Callable[..., Tensor], None, "n"])
def test_other_types_have_none(hint: Any) -> None:
    assert not has_axes(hint)
