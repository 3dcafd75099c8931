"""The command on the page of an audit, given to the real command line: it repeats the audit."""

from __future__ import annotations

import json
import re
import shlex
from html import unescape
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from msgspec.structs import replace
from safetensors.torch import save_file

from builders.audits import hidden, never_seen
from builders.pages import DATE, true_audit, true_result
from sfra.auditing.result import AuditResult
from sfra.auditing.stored import parse_result
from sfra.cli import main
from sfra.models.backbones import build
from sfra.models.backbones.checkpoint import save_model
from sfra.report import audit_page
from sfra.report.page.repeat import command, command_notes

QUICK = ["--n", "300", "--m", "20", "--epochs", "2", "--quiet"]
SAME = ("rs", "delta_rs", "verdict", "results", "sweep", "settings", "model", "references", "data", "diagnostics")
Files = dict[str, str]


def heads(folder: Path) -> Files:
    """A head and its reference, each with its own features."""
    files: Files = {}
    for name, toy in (("MODEL", hidden()), ("REFERENCE", never_seen())):
        np.savez(folder / f"{name}.npz", weight=toy.head.weight.numpy(), bias=toy.head.bias.numpy())
        data = folder / f"{name}-data.npz"
        np.savez(data, features=toy.data.features.numpy(), labels=toy.data.labels.numpy())
        files |= {name: str(folder / f"{name}.npz"), "DATA" if name == "MODEL" else "REFERENCE_DATA": str(data)}
    return files


def directories(folder: Path) -> Files:
    """Two model directories."""
    for seed, name in enumerate(("MODEL", "REFERENCE")):
        model = build("small-cnn", classes=10, seed=seed)
        save_model(folder / name, model, backbone="small-cnn", classes=10)
    return {name: str(folder / name) for name in ("MODEL", "REFERENCE")}


def state_dicts(folder: Path) -> Files:
    """Two state dicts, which do not say their architecture."""
    for seed, name in enumerate(("MODEL", "REFERENCE")):
        save_file(build("small-cnn", classes=10, seed=seed).state_dict(), folder / f"{name}.safetensors")
    return {name: str(folder / f"{name}.safetensors") for name in ("MODEL", "REFERENCE")}


def audited(words: list[str], out: Path) -> dict[str, Any]:
    assert main([*words, "--out", str(out), "--quiet"]) == 0
    found: dict[str, Any] = json.loads((out / "audit.json").read_text(encoding="utf-8"))
    for run in (found["diagnostics"] or {}).get("support", ()):
        run.pop("seconds")
    return found


def printed(audit: dict[str, Any]) -> list[str]:
    """The words of the command, as a shell reads them from the page."""
    block = re.search(
        r"<pre[^>]*><code>(.*?)</code></pre>", audit_page(parse_result(audit, "an audit"), date=DATE), flags=re.DOTALL
    )
    assert block
    return shlex.split(unescape(block[1]).replace("\\\n", ""))


@pytest.mark.parametrize(
    ("make", "options"),
    [
        (heads, ["--data", "DATA", "--reference-data", "REFERENCE_DATA", "--forget", "2", "--seeds", "2"]),
        (heads, ["--data", "DATA", "--reference-data", "REFERENCE_DATA", "--forget", "2", "--scale", "sweep"]),
        (directories, ["--data", "digits", "--forget", "7", "--no-reset-row"]),
        (state_dicts, ["--data", "digits", "--forget", "7", "--arch", "small-cnn"]),
    ],
)
def test_the_printed_command_repeats_the_audit(tmp_path: Path, make: Any, options: list[str]) -> None:
    files: Files = make(tmp_path)
    given = ["sfra", "audit", "MODEL", "--reference", "REFERENCE", *options, "--diagnostics", *QUICK]
    first = audited([files.get(word, word) for word in given[1:]], tmp_path / "first")
    words = printed(first)
    assert words[:2] == ["sfra", "audit"]
    assert set(files) <= set(words)
    again = audited([files.get(word, word) for word in words[1:]], tmp_path / "again")
    assert {name: again[name] for name in SAME} == {name: first[name] for name in SAME}


def test_placeholders_are_named_and_no_others() -> None:
    assert command_notes(true_result()) == [
        "MODEL, DATA, REFERENCE and REFERENCE_DATA stand for your own files; audit.json has their fingerprints."
    ]
    alone = true_result(data=None, references=[])
    assert command_notes(alone) == ["MODEL stands for your own file; audit.json has its fingerprint."]
    assert "--data" not in command(alone)


def of(**facts: dict[str, str]) -> AuditResult:
    """The toy audit with other facts about its model, its reference or its data."""
    whole = true_audit()
    found: dict[str, Any] = {name: whole[name] | changes for name, changes in facts.items() if name != "reference"}
    if "reference" in facts:
        found["references"] = [whole["references"][0] | facts["reference"]]
    return true_result(**found)


def test_a_reference_of_another_architecture_is_named() -> None:
    model, reference = ({"source": f"state dict x.pt ({arch})"} for arch in ("resnet18-small", "my_package:make"))
    words = shlex.split(command(of(model=model, reference=reference)).replace("\\\n", ""))
    assert "--arch resnet18-small --reference-arch my_package:make" in " ".join(words)


@pytest.mark.parametrize(
    ("source", "options"),
    [
        (
            "state dict a (1).pt [model_ema] (mynet:Net(10, act='relu'))",
            ["--arch", "mynet:Net(10, act='relu')", "--key", "model_ema"],
        ),
        ("head file a b.ckpt [state_dict] (layer net.fc)", ["--key", "state_dict", "--head-key", "net.fc"]),
        ("head file a [1] b.npz", []),
    ],
)
def test_what_was_chosen_in_a_checkpoint_is_chosen_again(source: str, options: list[str]) -> None:
    words = shlex.split(command(of(model={"source": source})).replace("\\\n", ""))
    start = words.index("--arch" if "--arch" in options else "--key") if options else 0
    assert words[start : start + len(options)] == options
    assert {"--arch", "--key", "--head-key"} & set(words) == {word for word in options if word.startswith("--")}


def test_validation_data_of_ones_own_are_asked_for_again() -> None:
    data = {"source": "features.npz", "validation": "40 samples"}
    assert "--validation VALIDATION" in command(of(data=data))
    halves = data | {"validation": "every second sample of the evaluation data"}
    assert "--validation" not in command(of(data=halves))


def test_a_file_that_may_hold_features_is_pointed_out_where_the_model_has_an_encoder() -> None:
    whole = {"source": "ONNX file x.onnx (Gemm head)"}
    audit = of(model=whole, reference=whole, data={"source": "test.npz", "validation": "none"})
    assert "--reference-data" not in command(audit)
    assert command_notes(audit)[1] == (
        "If DATA holds features, the reference needs its own: --reference-data REFERENCE_DATA."
    )


def test_a_class_is_named_as_the_command_line_reads_it_back() -> None:
    audit = true_result()
    [label] = audit.forget_classes
    names = tuple(str(i + 1) for i in range(audit.model.outputs))
    assert f"--forget {label + 1} " in command(replace(audit, class_names=names))
    assert f"--forget {label} " in command(replace(audit, class_names=None))
