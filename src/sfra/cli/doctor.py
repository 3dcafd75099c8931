"""``sfra doctor``: what a model is, as an audit would open it, and what an audit still needs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from sfra.auditing.naming import typed
from sfra.cli import options as opt
from sfra.cli import preparing
from sfra.cli.audit import DATA, MODEL, WHAT, Arch, HeadKey, Key, what
from sfra.cli.command import check_there, print_json
from sfra.cli.list import print_entry
from sfra.cli.made import class_label, command, print_next
from sfra.cli.options import Text, argument
from sfra.cli.progress import showing
from sfra.core.errors import counted, listed, printable

if TYPE_CHECKING:
    from sfra.auditing.examine import Examined, OnData

SHOWN = 8
"""Classes that are printed one by one."""


def doctor(
    model: Annotated[str, argument(WHAT, "MODEL", MODEL)],
    data: Annotated[Text, what("DATA", DATA)] = None,
    arch: Arch = None,
    key: Key = None,
    head_key: HeadKey = None,
    size: preparing.Size = None,
    resize: preparing.Resize = None,
    crop: preparing.Crop = None,
    mean: preparing.Mean = None,
    std: preparing.Std = None,
    resample: preparing.Resample = None,
    channels: preparing.Channels = None,
    quiet: opt.Quiet = False,
    debug: opt.Debug = False,
    json: opt.Json = False,
) -> None:
    """Say what a model is and what an audit of it needs.

    Opens the model as an audit would: format, head, preprocessing, classes. With data, also how often it is right,
    which classes it does not recognise, and whether it is fed what it was trained on. Nothing is relearned.

    Example: sfra doctor model/ --data digits
    """
    check_there(model)
    check_there(data, names=True)
    preprocess = preparing.chosen(
        size=size, resize=resize, crop=crop, mean=mean, std=std, resample=resample, channels=channels
    )
    with showing(quiet=quiet) as progress:
        from msgspec import to_builtins

        from sfra.auditing.examine import examine

        found = examine(
            model, data=data, arch=arch, key=key, head_key=head_key, preprocess=preprocess, progress=progress
        )
    how = {"arch": arch, "key": key, "head_key": head_key, **(preprocess.options() if preprocess else {})}
    missing, following = _missing(found), _audit(found, model, data, how)
    if json:
        facts = {"schema": "sfra.doctor/1", **to_builtins(found, str_keys=True), "suspects": found.suspects}
        print_json({**facts, "missing": missing, "audit": following})
    elif not quiet:
        for line in _lines(found):
            print_entry(printable(line), 15)
        typer.echo("\nAn audit also needs:")
        for name, why in missing.items():
            print_entry(f"  {name:<12} {why}", 15)
        wrong = None if found.data is None else found.data.wrong
        print_next([following] if wrong is None else [command("explain", wrong), following])


def _lines(found: Examined) -> Iterator[str]:
    """Say what was found, a line for each."""
    weights = "" if found.weights is None else f", {found.weights:,} weights"
    yield f"Model          {found.source} ({found.format}{weights})"
    features = counted(found.width, "feature", "features")
    usual = f"norm {found.median_norm:.2f} and bias {found.median_bias:+.2f} in the median"
    yield f"Head           {found.outputs} outputs, {features}; {usual}"
    odd = [f"{row.label} (norm {row.norm:.2f}, bias {row.bias:+.2f})" for row in found.odd_rows]
    yield f"Odd rows       {_some(odd) or 'none'}"
    norms = {None: "not known", True: "yes", False: "no: a class may hide there from relearning"}
    yield f"Normalisation  {norms[found.normalises]}"
    yield f"Images         {_preparation(found)}"
    yield f"Class names    {_some(found.class_names or ()) or 'none: classes are called by their index'}"
    if found.data is not None:
        yield from _measured(found.data, found.class_names)


def _measured(data: OnData, names: tuple[str, ...] | None) -> Iterator[str]:
    numbering = f", labels by {data.numbering}" if data.numbering else ""
    yield f"Data           {data.source} ({counted(data.samples, 'sample', 'samples')}, {data.kind}{numbering})"
    yield f"Accuracy       {100 * data.accuracy:.1f} %"
    unknown = [f"{class_label(label, names)}: {100 * share:.1f} %" for label, share in data.unknown.items()]
    yield f"Unrecognised   {_some(unknown) or 'none: every class is recognised in at least half of its samples'}"
    for one in data.findings:
        yield f"{one.severity.capitalize():<14} {one.code}: {one.message}"
        if one.remedy is not None:
            yield f"{'':<14} What to do: {one.remedy}."


def _preparation(found: Examined) -> str:
    if not found.encoder:
        return "none: this is a head alone, which is measured on features"
    if found.data is not None and found.data.kind == "inputs":
        return "none: the data are inputs of the network, which go in as they are"
    if found.preprocess is None:
        return "go in as they are: the model says nothing about size, mean and std (--size, --mean, --std)"
    return str(found.preprocess)


def _missing(found: Examined) -> dict[str, str]:
    """Name what an audit needs besides, the most needed first."""
    needs = {"--forget": "the class that was forgotten"}
    if found.format == "state-dict" and not found.encoder:
        needs["--arch"] = "the architecture, if images are to be measured: without it this is a head alone"
    if found.data is None:
        kind = "labelled test data" if found.encoder else "features, the inputs of the head, and labels"
        needs["--data"] = f"{kind}: without it nothing is measured"
    needs["--reference"] = "a model trained without the class: without it a high score is no evidence of memory"
    return needs | {"--control": "the original, if there is one: it shows whether the audit would have seen the class"}


def _audit(found: Examined, model: str, data: str | None, how: Mapping[str, Text]) -> str:
    """Write the command line of the audit."""
    forget = typed(found.suspects, found.class_names) or "CLASS"
    shared = found.encoder and (found.data is None or found.data.kind != "features")
    own = {} if shared else {"reference_data": "FEATURES"}
    given = {"forget": forget, "data": data or "DATA", **how, "reference": "REFERENCE", **own}
    return command("audit", model, **given, out=Path("results"))


def _some(names: list[str] | tuple[str, ...]) -> str:
    """Write the first few of some names; those of classes may have commas in them."""
    more = f" and {len(names) - SHOWN:,} more" if len(names) > SHOWN else ""
    return listed(names[:SHOWN]) + more
