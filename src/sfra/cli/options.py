"""The options of the commands, with their help; an option that several commands have is the same in all."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Annotated

import typer

_what = partial(typer.Option, rich_help_panel="What is audited")
_how = partial(typer.Option, rich_help_panel="How it is audited")
_run = partial(typer.Option, rich_help_panel="How it is run")
_end = partial(typer.Option, rich_help_panel="What becomes of the result")
_made = partial(typer.Option, rich_help_panel="What is made")
_way = partial(typer.Option, rich_help_panel="How it is made")

Model = Annotated[
    str,
    typer.Argument(
        metavar="MODEL",
        help="The released model: a model directory, a Hugging Face id, a state dict (.safetensors, .pt, .pth) with "
        "--arch, an .onnx file, or a head alone (.npz or .safetensors with weight and bias).",
        rich_help_panel="What is audited",
        show_default=False,
    ),
]
Forget = Annotated[
    list[str],
    _what(
        metavar="CLASS",
        help="Forgotten class, by name or index; several with commas, or repeat the option.",
        show_default=False,
    ),
]
Data = Annotated[
    str | None,
    _what(
        metavar="DATA",
        help="Labelled test data to measure on: a name (sfra list datasets), an image folder, or a .npz or "
        ".safetensors with features or images, and labels. Without it nothing is measured.",
    ),
]
Reference = Annotated[
    str | None,
    _what(
        metavar="MODEL",
        help="A model trained without the class, to compare with (ΔRS); same forms as MODEL, or the audit.json of an "
        "earlier audit of it.",
    ),
]
ReferenceData = Annotated[
    str | None,
    _what(metavar="DATA", help="The reference's own features, when --data holds features rather than images."),
]
Validation = Annotated[
    str | None,
    _what(
        metavar="DATA",
        help="Data that the validation rule picks its epoch on.",
        show_default="own split, or half of --data",
    ),
]
Arch = Annotated[
    str | None,
    _what(metavar="NAME", help="Architecture of a state dict: a name (sfra list backbones) or package:factory."),
]
ReferenceArch = Annotated[
    str | None, _what(metavar="NAME", help="Architecture of the reference.", show_default="that of MODEL")
]
MissingRow = Annotated[
    bool, _what("--missing-row", help="The head has no output for the forgotten classes: restore it with fresh rows.")
]

N = Annotated[int | None, _how(metavar="N", help="Candidates per retain class.", show_default="by number of classes")]
M = Annotated[
    int | None,
    _how(metavar="M", help="Probes kept of the N, per retain class.", show_default="by number of classes"),
]
Proposal = Annotated[str, _how(metavar="NAME", help="Distribution of the probes (sfra list proposals).")]
Score = Annotated[str, _how(metavar="NAME", help="Score that ranks the probes (sfra list scores).")]
Assignment = Annotated[
    str, _how(metavar="NAME", help="How several forgotten classes share the probes (sfra list assignments).")
]
Scale = Annotated[
    str, _how(metavar="SCALE", help="Scale of the verdict: native, canonical, sweep or a number (sfra list scales).")
]
Epochs = Annotated[int, _how(metavar="N", help="Length of the relearning, in passes over the probes.")]
Seeds = Annotated[int, _how(metavar="N", help="How many times to audit, each with new draws; scores are means.")]
MaxDraws = Annotated[
    int | None,
    _how(metavar="N", help="Give up after so many random draws for the probes of a run.", show_default="a billion"),
]
Diagnostics = Annotated[
    bool, _how("--diagnostics", help="Also say how the result came about: alignment, margin, confidence, trade-off.")
]
NoResetRow = Annotated[
    bool, _how("--no-reset-row", help="Do not also audit with the forgotten class's output re-initialised.")
]

Seed = Annotated[int, _run(metavar="N", help="First seed; equal seeds give equal results.")]
Device = Annotated[str, _run(metavar="DEVICE", help="cpu, cuda, cuda:1, mps ...")]
Threads = Annotated[int | None, _run(metavar="N", help="Threads for the probes on the CPU.", show_default="all cores")]
NoCache = Annotated[bool, _run("--no-cache", help="Neither reuse nor keep extracted features.")]
Quiet = Annotated[bool, _run("--quiet", help="Print no progress and no summary, only what went wrong.")]
Debug = Annotated[bool, _run("--debug", help="Show where in the program an error arose.")]

Out = Annotated[Path | None, _end(metavar="DIR", help="Folder to keep the results in.", show_default="nothing is kept")]
Json = Annotated[bool, _end("--json", help="Print the result as JSON on stdout, and nothing else there.")]
FailIf = Annotated[
    list[str] | None,
    _end(metavar="EXPR", help='Exit with 1 if this holds, for example "delta_rs>0.1"; may be repeated.'),
]

Original = Annotated[
    Path,
    typer.Argument(
        metavar="MODEL",
        help="The original: a model directory, such as sfra train writes.",
        rich_help_panel="What is made",
        show_default=False,
    ),
]
Images = Annotated[
    str,
    _made(
        "--data",
        metavar="DATA",
        help="Images to train on: a name (sfra list datasets), or a folder with train and validation.",
        show_default=False,
    ),
]
Backbone = Annotated[str, _made(metavar="NAME", help="Architecture (sfra list backbones).", show_default=False)]
Without = Annotated[
    list[str] | None,
    _made(
        metavar="CLASS",
        help="Leave this class out, to make a reference; by name or index, several with commas.",
        show_default="an original, with every class",
    ),
]
Forgotten = Annotated[
    list[str],
    _made(
        "--forget",
        metavar="CLASS",
        help="Class to forget, by name or index; several with commas, or repeat the option.",
        show_default=False,
    ),
]
Method = Annotated[
    str,
    _made(metavar="NAME", help="Unlearning method (sfra list methods), or package.module:Class.", show_default=False),
]
Folder = Annotated[Path, _end("--out", metavar="DIR", help="Model directory to write.", show_default=False)]

Recipe = Annotated[
    str | None,
    _way(
        metavar="NAME",
        help="Settings for the data and the backbone: a name (sfra list recipes) or a .toml file.",
        show_default="DATA-BACKBONE, if there is one",
    ),
]
TrainingEpochs = Annotated[
    int | None, _way("--epochs", metavar="N", help="Passes over the data.", show_default="as in the recipe")
]
LearningRate = Annotated[
    float | None, _way(metavar="RATE", help="Highest learning rate.", show_default="as in the recipe")
]
BatchSize = Annotated[int | None, _way(metavar="N", help="Samples per step.", show_default="as in the recipe")]
Pretrained = Annotated[
    str | None,
    _way(metavar="MODEL", help="Start from this model directory or hub id.", show_default="as in the recipe"),
]
Compile = Annotated[bool, _way("--compile", help="Compile the network first; pays off in long runs on CUDA.")]
Set = Annotated[
    list[str] | None,
    _way(
        "--set",
        metavar="NAME=VALUE",
        help="A setting of the method, such as learning_rate=1e-3; may be repeated.",
        show_default="as in the recipe, else as published",
    ),
]
MakingSeed = Annotated[
    int, _run("--seed", metavar="N", help="Equal seeds give equal models on the same kind of device.")
]
