"""``sfra audit``: can the forgotten class be brought back from the released model alone?"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import typer

from sfra.cli import options as opt
from sfra.cli.command import say
from sfra.cli.output import check_folder, print_json, show
from sfra.cli.progress import showing
from sfra.core.errors import InputError

if TYPE_CHECKING:
    from sfra.auditing.result import AuditReport

FILES = ("audit.json", "relearned_head.safetensors")
"""What ``--out`` receives."""

NEEDS = {"reference": "data", "reference-data": "reference", "validation": "data"}
"""Options that mean nothing without another."""

GATE_FAILED = 1


def audit(
    model: opt.Model,
    forget: opt.Forget,
    data: opt.Data = None,
    reference: opt.Reference = None,
    reference_data: opt.ReferenceData = None,
    validation: opt.Validation = None,
    arch: opt.Arch = None,
    reference_arch: opt.ReferenceArch = None,
    missing_row: opt.MissingRow = False,
    n: opt.N = None,
    m: opt.M = None,
    proposal: opt.Proposal = "gaussian",
    score: opt.Score = "softmax",
    assignment: opt.Assignment = "greedy",
    scale: opt.Scale = "canonical",
    epochs: opt.Epochs = 100,
    seeds: opt.Seeds = 1,
    max_draws: opt.MaxDraws = None,
    no_reset_row: opt.NoResetRow = False,
    diagnostics: opt.Diagnostics = False,
    seed: opt.Seed = 0,
    device: opt.Device = "cpu",
    threads: opt.Threads = None,
    no_cache: opt.NoCache = False,
    quiet: opt.Quiet = False,
    debug: opt.Debug = False,
    out: opt.Out = None,
    json: opt.Json = False,
    fail_if: opt.FailIf = None,
) -> None:
    """Test whether a forgotten class can be brought back.

    The audit needs nothing but the released model. Real data (--data), where given, only measures what came back. The
    verdict compares with a model that never saw the class (--reference): without one, a high score is no evidence of
    memory.

    Example: sfra audit head.npz --forget 7 --data features.npz --out results/
    """
    _check_needs({"data": data, "reference": reference, "reference-data": reference_data, "validation": validation})
    classes = split_classes(forget)
    check_folder(out, *FILES)
    with showing(quiet=quiet) as progress:
        from sfra.attack.probes import MAX_DRAWS
        from sfra.auditing.audit import audit as run
        from sfra.auditing.config import AuditConfig
        from sfra.cli import gates
        from sfra.release.base import usable_device

        config = AuditConfig(
            n=n,
            m=m,
            proposal=proposal,
            score=score,
            assignment=assignment,
            scale=_number(scale),
            epochs=epochs,
            seeds=seeds,
            seed=seed,
            reset_row=not no_reset_row,
            device=device,
            threads=threads,
            max_draws=MAX_DRAWS if max_draws is None else max_draws,
        )
        usable_device(device)
        tests = [gates.parse(text) for text in fail_if or ()]
        gates.check_gates(tests, config, data=data is not None, reference=reference is not None, missing=missing_row)
        report = run(
            model,
            classes,
            data=data,
            reference=reference,
            reference_data=reference_data,
            validation=validation,
            arch=arch,
            reference_arch=reference_arch,
            missing_row=missing_row,
            cache=not no_cache,
            diagnostics=diagnostics,
            progress=progress,
            config=config,
        )
    _deliver(report, out, json=json, quiet=quiet)
    failed = gates.failures(tests, report.scalars())
    for sentence in failed:
        say(sentence)
    if failed:
        raise typer.Exit(GATE_FAILED)


def split_classes(given: list[str]) -> list[str]:
    """Split ``--forget`` at its commas.

    >>> split_classes(["1,6", "ship"])
    ['1', '6', 'ship']
    """
    classes = [part.strip() for text in given for part in text.split(",")]
    if not all(classes):
        raise InputError(
            "a forget class is empty",
            expected="--forget with an index or a name, or several with commas",
            got=repr(",".join(given)),
        )
    return classes


def _check_needs(given: dict[str, str | None]) -> None:
    for name, other in NEEDS.items():
        if given[name] is not None and given[other] is None:
            raise InputError(f"--{name} is of no use without --{other}", got=given[name], do=f"pass --{other} as well")


def _number(scale: str) -> str | float:
    try:
        return float(scale)
    except ValueError:
        return scale


def _deliver(report: AuditReport, out: Path | None, *, json: bool, quiet: bool) -> None:
    """Write the files, then print the JSON or the summary."""
    if out is not None:
        try:
            report.save(out)
        except OSError as problem:
            raise InputError("the results could not be written", got=f"{out}: {problem}") from None
    if json:
        print_json(report.to_json())
    elif not quiet:
        from sfra.cli.summary import summary

        show(summary(report, out))
