"""Verdicts at a calibrated scale: the rows, and what the page says of them."""

from __future__ import annotations

from pathlib import Path

import pytest

from sfra.auditing.calibrate import COMES_BACK, GRID

calibrated = pytest.importorskip("calibrated", reason="the benchmarks are not on the path")
MODELS = Path(__file__).parents[2] / "reproduction" / "cifar10-vit-small" / "models"


NORMALISED = ("cifar10", "cifar10-resnet18-224", "norm-mlp", "small-cnn")


def kinds(networks: tuple[str, ...], what: str, scale: str) -> list[str]:
    """List the kinds of verdicts of some networks; all kinds of models if none is named."""
    rows = [row for row in calibrated.read_rows() if row["network"] in networks and row["scale"] == scale]
    return [calibrated.VERDICTS[row["verdict"]].kind for row in rows if what in ("any", calibrated.known(row["model"]))]


def test_the_table_of_the_page_is_that_of_the_rows() -> None:
    page = calibrated.PAGE.read_text(encoding="utf-8")
    assert calibrated.put(page, "calibrated", calibrated.table(calibrated.read_rows())) == page


def test_the_page_says_what_the_calibration_does() -> None:
    page = " ".join(calibrated.PAGE.read_text(encoding="utf-8").split())
    assert f"from κ = {GRID[0]:.2f} to {GRID[-1]:.2f}" in page
    assert f"median RS is at least {COMES_BACK}" in page


def test_the_page_quotes_the_rows() -> None:
    page = " ".join(calibrated.PAGE.read_text(encoding="utf-8").split())

    def back(networks: tuple[str, ...], what: str) -> tuple[int, int, int]:
        both = [kinds(networks, what, scale) for scale in calibrated.SCALES]
        return both[0].count("back"), both[1].count("back"), len(both[0])

    vit, plain = ("cifar10-vit-small",), ("small-mlp",)
    constant, found = (kinds(vit, "any", scale) for scale in calibrated.SCALES)
    some = back(vit, "any")
    assert f"leaves {constant.count('open')} of {some[2]} models open" in page
    assert f"Calibrated, {found.count('open')} stay open, and {some[1]} are called back instead of {some[0]}" in page
    assert back(vit, "hides the class") == (0, 1, 1)
    assert back(vit, "never saw it") == (0, 0, 1)
    some = back(NORMALISED, "hides the class")
    assert f"Of {some[2]} hidden classes {some[0]} are called back at the constant, {some[1]} calibrated" in page
    some = back(NORMALISED, "never saw it")
    assert some[:2] == (1, 1)
    assert f"of {some[2]} models that never saw the class, 1 either way" in page
    clear = [kinds(NORMALISED, "never saw it", scale).count("clear") for scale in calibrated.SCALES]
    assert f"It clears {clear[1]} of those instead of {clear[0]}" in page
    some = back(plain, "hides the class")
    assert some[0] == 0
    assert f"{some[1]} of {some[2]} hidden classes are called back instead of none" in page
    assert f"and {back(plain, 'never saw it')[1]} of 15 models that never saw the class" in page
    hundred = [row for row in calibrated.read_rows() if row["network"] == "cifar100" and row["found"]]
    at_a_size = sum(row["found"] == "True" for row in hundred)
    assert f"come back at a size in {at_a_size} of {len(hundred)} models" in page


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
