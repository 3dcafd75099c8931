"""In a plain network, without normalisation, a masked class stays hidden at canonical scale; the audit warns of it."""

from __future__ import annotations

from pathlib import Path

import pytest

import sfra
from sfra.models import recipes
from sfra.models.backbones.checkpoint import save_model
from sfra.unlearn import mask_head
from sfra.unlearn.make import train_model


@pytest.fixture(scope="module")
def releases(tmp_path_factory: pytest.TempPathFactory) -> dict[int, Path]:
    """The original of the recipe, with one of its outputs switched off."""
    made = train_model(data="digits", backbone="small-mlp", recipe=recipes.load("digits-small-mlp"), seed=0)
    network, folder = made.model, tmp_path_factory.mktemp("plain")
    return {
        label: save_model(
            folder / str(label),
            mask_head(network, [label]),
            backbone="small-mlp",
            classes=10,
            preprocess=made.preprocess,
        )
        for label in (0, 3, 7)
    }


@pytest.mark.parametrize("label", [0, 3, 7])
def test_a_class_that_is_there_by_construction_gives_no_score_and_a_warning(
    releases: dict[int, Path], label: int
) -> None:
    report = sfra.audit(releases[label], label, data="digits", n=20_000, m=200, epochs=50, self_controls=0)
    assert (report.scale, report.forget.before, report.rs) == ("canonical", 0.0, 0.0)
    assert "no-normalisation" in [finding.code for finding in report.findings]
