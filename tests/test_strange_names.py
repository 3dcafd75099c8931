"""Files whose names are no text, as Linux allows them: what was computed is written all the same."""

from __future__ import annotations

import json
import os
from pathlib import Path

import numpy as np
import pytest
import torch

from sfra.cli import main
from sfra.core.files import write_text
from sfra.core.head import Head

STRANGE = os.fsdecode(b"caf\xe9")
"""Latin-1: a name of a file, and no UTF-8."""


def test_half_a_character_becomes_a_question_mark(tmp_path: Path) -> None:
    write_text(tmp_path / "a.txt", f"Δ {STRANGE}")
    assert (tmp_path / "a.txt").read_text(encoding="utf-8") == "Δ caf?"


@pytest.mark.parametrize("strange", ["model", "data", "out"])
def test_an_audit_of_files_with_strange_names_is_not_lost(tmp_path: Path, strange: str) -> None:
    names = {"model": "head.npz", "data": "features.npz", "out": "out"}
    names[strange] = STRANGE + names[strange]
    model, data, out = (tmp_path / names[part] for part in ("model", "data", "out"))
    generator = torch.Generator().manual_seed(0)
    head = Head(torch.randn(3, 4, generator=generator))
    np.savez(model, weight=head.weight.numpy(), bias=head.bias.numpy())
    features = torch.randn(60, 4, generator=generator)
    np.savez(data, features=features.numpy(), labels=head(features).argmax(1).numpy())
    command = ["audit", str(model), "--forget", "2", "--data", str(data), "--out", str(out), "--n", "200", "--m", "5"]
    assert main([*command, "--epochs", "2"]) == 0
    assert json.loads((out / "audit.json").read_text(encoding="utf-8"))["verdict"]
