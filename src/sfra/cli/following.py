"""What to type after an audit."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping
from pathlib import Path

from sfra.auditing.findings.registry import critical
from sfra.auditing.naming import typed
from sfra.auditing.result import AuditReport
from sfra.cli.made import command, reference_beside

SEEDS, EPOCHS = 5, 300
"""Seeds that narrow an interval; epochs to try where hidden classes do not come back in fewer."""


def following(
    report: AuditReport, *, model: str, data: str | None, how: Mapping[str, str | None], out: Path | None
) -> list[str]:
    """Return the commands that lead on from a result, the most useful first; ``how`` is how the model was opened."""
    lines = [*_lead_on(report, model, data, how)]
    if out is not None:
        lines.append(command("report", out, out=out / "report.html"))
    grave = critical(report.findings)
    return [*lines, command("explain", grave[0].code if grave else report.verdict)]


def _lead_on(report: AuditReport, model: str, data: str | None, how: Mapping[str, str | None]) -> Iterator[str]:
    """Name what this verdict lacks: a reference, a control, data, or a longer or wider look."""
    settings, controls = report.settings, {control.kind for control in report.controls}
    of_its_own = " --{}-data FEATURES" if report.data is not None and report.data.kind == "features" else ""
    match report.verdict:
        case "unusable":
            yield command("doctor", model, data=data, **how)
        case "not-measured":
            yield _again("--data DATA")
        case "no-reference" | "like-hidden":
            reference = reference_beside(Path(model), report.forget_classes)
            train = [] if reference.exists() else [*_train(report, model, data, how["arch"], reference)]
            known = shlex.quote(str(reference)) if train or reference.exists() else "REFERENCE"
            what = "" if known != "REFERENCE" else ", a model trained without the class"
            yield from [*train, _again(f"--reference {known}{of_its_own.format('reference')}{what}")]
        case "inconclusive":
            yield _again("one more --reference, trained with another --seed")
            if settings["seeds"] < SEEDS:
                yield _again(f"--seeds {SEEDS}")
        case "blind" if "original" not in controls:
            yield _again(f"--control ORIGINAL{of_its_own.format('control')}, the model before it forgot")
        case "degenerate" | "blind" if settings["scale"] == "canonical":
            yield _again("--scale calibrated")
        case "degenerate" if settings["scale"] != "sweep":
            yield _again("--scale sweep")
        case "blind" if settings["epochs"] < EPOCHS:
            yield _again(f"--epochs {EPOCHS}")


def _train(report: AuditReport, model: str, data: str | None, arch: str | None, reference: Path) -> Iterator[str]:
    """Train a reference, where the images are a data set that can be trained on by name."""
    from sfra.data import datasets
    from sfra.models import backbones
    from sfra.models.backbones.checkpoint import NOTES, load_model

    if data not in datasets():
        return
    backbone = arch if arch in backbones.names() else "NAME"
    if (Path(model) / NOTES).is_file():
        backbone = load_model(model).backbone
    without = typed(report.forget_classes, report.class_names)
    yield command("train", data=data, backbone=backbone, without=without, out=reference)


def _again(options: str) -> str:
    return f"the same audit with {options}"
