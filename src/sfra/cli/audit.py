"""``sfra audit``: can the forgotten class be brought back from the released model alone?"""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

import sfra
from sfra.cli import gates, preparing
from sfra.cli import options as opt
from sfra.cli.command import check_folder, check_there, print_json, say, show
from sfra.cli.early import check_head_file
from sfra.cli.options import Count, Text, argument, ending, group, running
from sfra.cli.progress import showing
from sfra.core.errors import InputError

if TYPE_CHECKING:
    from sfra.auditing.result import AuditReport

FILES = ("audit.json", "relearned_head.safetensors")
"""What ``--out`` receives."""

GATE_FAILED = 1
WHAT = "What is audited"
MODEL = (
    "The released model: a model directory, a Hugging Face id, a state dict (.safetensors, .pt, .pth, .bin, .ckpt ...) "
    "with --arch, an .onnx file, or a head alone (.npz or .safetensors with weight and bias)."
)
DATA = (
    "Labelled test data to measure on: a name (sfra list datasets), an image folder, or a .npz or .safetensors with "
    "features, images or inputs (as the network takes them), and labels. Without it nothing is measured."
)
REFERENCE = (
    "A model trained without the class, to compare with (ΔRS): same forms as MODEL, or the audit.json of an earlier "
    "audit of it. May be repeated: several show how far separate trainings lie apart."
)
CONTROL = (
    "The original, before it forgot. The same audit must bring the class back there, or it would not have seen it in "
    "MODEL either."
)
what, how = group(WHAT), group("How it is audited")

Arch = Annotated[
    Text,
    what("NAME", "Architecture of a state dict: sfra list backbones, package:factory, ./net.py:Net(num_classes=10)."),
]
Key = Annotated[Text, what("NAME", "State dict to take, if a file holds several, such as weights and EMA.")]
HeadKey = Annotated[Text, what("NAME", "Head of a state dict without --arch.", default="its last linear layer")]


def audit(
    model: Annotated[str, argument(WHAT, "MODEL", MODEL)],
    forget: Annotated[
        list[str], what("CLASS", "Forgotten class, by name or index; several with commas.", default=False)
    ],
    data: Annotated[Text, what("DATA", DATA)] = None,
    reference: Annotated[list[str] | None, what("MODEL", REFERENCE)] = None,
    reference_data: Annotated[
        list[str] | None, what("DATA", "The reference's own features, if --data holds features; one for each.")
    ] = None,
    control: Annotated[Text, what("MODEL", CONTROL)] = None,
    control_data: Annotated[Text, what("DATA", "The control's own features, if --data holds features.")] = None,
    validation: Annotated[
        Text, what("DATA", "Data on which the validation rule picks its epoch.", default="own split, or half of --data")
    ] = None,
    arch: Arch = None,
    reference_arch: Annotated[Text, what("NAME", "Architecture of the reference.", default="that of MODEL")] = None,
    key: Key = None,
    head_key: HeadKey = None,
    missing_row: Annotated[
        bool, what(None, "The head has no output for the forgotten classes: give it fresh rows.", "--missing-row")
    ] = False,
    expect_accuracy: Annotated[
        float | None, what("SHARE", "Accuracy on the other classes that MODEL is known to reach, such as 0.94.")
    ] = None,
    size: preparing.Size = None,
    resize: preparing.Resize = None,
    crop: preparing.Crop = None,
    mean: preparing.Mean = None,
    std: preparing.Std = None,
    resample: preparing.Resample = None,
    channels: preparing.Channels = None,
    n: Annotated[Count, how("N", "Candidates per retain class.", default="by number of classes")] = None,
    m: Annotated[Count, how("M", "Probes kept of the N, per retain class.", default="by number of classes")] = None,
    proposal: Annotated[str, how("NAME", "Distribution of the probes (sfra list proposals).")] = "gaussian",
    score: Annotated[str, how("NAME", "Score that ranks the probes (sfra list scores).")] = "softmax",
    assignment: Annotated[str, how("NAME", "How forget classes share probes (sfra list assignments).")] = "greedy",
    scale: Annotated[str, how("SCALE", "Scale of the verdict: a number, or a name (sfra list scales).")] = "canonical",
    forget_weight: Annotated[
        str, how("NAME", "How much forget probes count in the loss (sfra list weights).")
    ] = "published",
    epochs: Annotated[int, how("N", "Length of the relearning, in passes over the probes.")] = 100,
    seeds: Annotated[int, how("N", "How many times to audit, each with new draws; scores are means.")] = 1,
    max_draws: Annotated[Count, how("N", "Give up after this many draws for a run.", default="a billion")] = None,
    no_reset_row: Annotated[
        bool, how(None, "Leave out the reading with a fresh row for the forgotten class.", "--no-reset-row")
    ] = False,
    self_controls: Annotated[
        int | None,
        how(
            "N",
            "How many retain classes to hide, one at a time, to see what this audit would have seen.",
            default="4, from 200 classes on 2",
        ),
    ] = None,
    diagnostics: Annotated[
        bool,
        how(None, "Also say how the result came about: alignment, margin, confidence, trade-off.", "--diagnostics"),
    ] = False,
    seed: opt.Seed = 0,
    device: opt.Device = "cpu",
    threads: Annotated[Count, running("N", "Threads for the probes on the CPU.", default="all cores")] = None,
    no_cache: Annotated[bool, running(None, "Neither reuse nor keep extracted features.", "--no-cache")] = False,
    quiet: opt.Quiet = False,
    debug: opt.Debug = False,
    out: opt.Out = None,
    json: opt.Json = False,
    markdown: Annotated[
        Path | None, ending("FILE", "Append a summary in Markdown to this file, such as $GITHUB_STEP_SUMMARY.")
    ] = None,
    junit: Annotated[
        Path | None, ending("FILE", "Write verdicts and gates as JUnit XML, for the page of a CI job.")
    ] = None,
    fail_if: Annotated[
        list[str] | None,
        ending("EXPR", 'Exit with 1 if this holds, such as "clear==false" or "delta_rs>0.1"; may be repeated.'),
    ] = None,
) -> None:
    """Test whether a forgotten class can be brought back.

    The audit needs nothing but the released model. Real data (--data) only measures what came back. The verdict
    compares with a model that never saw the class (--reference): without one, a high score is no evidence of memory.

    Example: sfra audit head.npz --forget 7 --data features.npz --out results/
    """
    from sfra.attack.known import MAX_DRAWS
    from sfra.auditing.config import AuditConfig

    classes = split_classes(forget)
    config = AuditConfig(
        n=n,
        m=m,
        proposal=proposal,
        score=score,
        assignment=assignment,
        scale=_number(scale),
        forget_weight=forget_weight,
        epochs=epochs,
        seeds=seeds,
        seed=seed,
        reset_row=not no_reset_row,
        device=device,
        threads=threads,
        expect_accuracy=expect_accuracy,
        max_draws=MAX_DRAWS if max_draws is None else max_draws,
    )
    tests = [gates.parse(text) for text in fail_if or ()]
    check_folder(out, *FILES)
    for option, file in {"--markdown": markdown, "--junit": junit}.items():
        if file is not None:
            check_folder(file.absolute().parent, file.name, option=option)
    check_there(model, *(reference or ()), control)
    check_there(data, *(reference_data or ()), control_data, validation, names=True)
    check_head_file(model, classes, data, missing_row=missing_row)
    preprocess = preparing.chosen(
        size=size, resize=resize, crop=crop, mean=mean, std=std, resample=resample, channels=channels
    )
    with showing(quiet=quiet) as progress:
        from sfra.auditing.audit import audit as run

        gates.check_gates(tests, config, data=data is not None, reference=bool(reference), missing=missing_row)
        report = run(
            model,
            classes,
            data=data,
            reference=reference,
            reference_data=reference_data,
            control=control,
            control_data=control_data,
            self_controls=self_controls,
            validation=validation,
            arch=arch,
            reference_arch=reference_arch,
            key=key,
            head_key=head_key,
            preprocess=preprocess,
            missing_row=missing_row,
            cache=not no_cache,
            diagnostics=sfra.diagnose if diagnostics else None,
            progress=progress,
            config=config,
        )
    if out is not None:
        report.save(out)
    if json:
        print_json(report.to_json())
    elif not quiet:
        from sfra.cli.following import following
        from sfra.cli.made import print_next
        from sfra.cli.summary import summary

        show(summary(report, out))
        how = {"arch": arch, "key": key, "head_key": head_key, **(preprocess.options() if preprocess else {})}
        print_next(following(report, model=model, data=data, how=how, out=out))
    judged = gates.judge(tests, report)
    _for_job_pages(report, judged, markdown, junit)
    if failed := [said for said in judged.values() if said is not None]:
        say("\n".join(failed))
        raise typer.Exit(GATE_FAILED)


def _for_job_pages(
    report: AuditReport, judged: Mapping[str, str | None], markdown: Path | None, junit: Path | None
) -> None:
    """Append a summary in Markdown, and write JUnit XML, where asked for."""
    if markdown is not None:
        from sfra.report.markdown import job_summary

        markdown.parent.mkdir(parents=True, exist_ok=True)
        with markdown.open("a", encoding="utf-8", errors="replace") as file:
            file.write(f"\n{job_summary(report, judged)}")
    if junit is not None:
        from sfra.core.files import write_text
        from sfra.report.junit import junit as to_junit

        write_text(junit, to_junit(report, judged))


def split_classes(given: list[str]) -> list[str]:
    """Split ``--forget`` at its commas.

    >>> split_classes(["1,6", "ship"])
    ['1', '6', 'ship']
    """
    classes = [part.strip() for text in given for part in text.split(",")]
    if not all(classes):
        expected = "--forget with an index or a name, or several with commas"
        raise InputError("a forget class is empty", expected=expected, got=repr(",".join(given)))
    return classes


def _number(scale: str) -> str | float:
    """Read a number; what is none, or none that a scale can be, stays as it was typed."""
    try:
        number = float(scale)
    except ValueError:
        return scale
    return number if 0 < number < math.inf else scale
