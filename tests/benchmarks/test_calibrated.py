"""Verdicts at a calibrated scale: the rows, and what the page says of them."""

from __future__ import annotations

from pathlib import Path

import pytest

from sfra.auditing.calibrate import COMES_BACK, GRID

calibrated = pytest.importorskip("calibrated", reason="the benchmarks are not on the path")
MODELS = Path(__file__).parents[2] / "reproduction" / "cifar10-vit-small" / "models"


def kinds(network: str, what: str, scale: str) -> dict[str, int]:
    """Count the kinds of verdicts of a row of the table."""
    rows = [row for row in calibrated.read_rows() if (row["network"], row["scale"]) == (network, scale)]
    codes = [calibrated.VERDICTS[row["verdict"]].kind for row in rows if calibrated.known(row["model"]) == what]
    return {kind: codes.count(kind) for kind in calibrated.KINDS}


def test_the_table_of_the_page_is_that_of_the_rows() -> None:
    page = calibrated.PAGE.read_text(encoding="utf-8")
    assert calibrated.put(page, "calibrated", calibrated.table(calibrated.read_rows())) == page


def test_the_page_says_what_the_calibration_does() -> None:
    page = " ".join(calibrated.PAGE.read_text(encoding="utf-8").split())
    assert f"from κ = {GRID[0]:.2f} to {GRID[-1]:.2f}" in page
    assert f"median RS is at least {COMES_BACK}" in page


def test_every_model_is_audited_at_both_scales() -> None:
    rows = calibrated.read_rows()
    asked = {(row["network"], row["model"], row["forget"], row["seed"], row["scale"]) for row in rows}
    assert len(asked) == len(rows)
    other = {"canonical": "calibrated", "calibrated": "canonical"}
    assert asked == {(*key, other[scale]) for *key, scale in asked}


def test_a_kept_model_has_its_jobs() -> None:
    jobs = list(calibrated.jobs_of(MODELS, None))
    assert len(jobs) == 2 * len(list(MODELS.iterdir()))
    masked = next(job for job in jobs if job.model.name == "masked")
    assert masked.key == ("cifar10-vit-small", "masked", "0", "0", "canonical")
    assert masked.reference is not None
    assert (masked.reference.name, masked.original) == ("retrained", None)
    alone = next(job for job in jobs if job.model.name == "retrained")
    assert alone.reference is None
