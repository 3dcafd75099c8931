"""What load_data makes of what the user names."""

import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from sfra.core.errors import InputError
from sfra.data import dataset, datasets, load_data

PAIR = (np.ones((3, 2), dtype=np.float32), np.array([0, 1, 2]))


def test_a_name_cannot_be_registered_twice() -> None:
    before = datasets()
    with pytest.raises(ValueError, match="two data sets are called 'digits'"):
        dataset("digits", "again")(lambda split: load_data(PAIR))
    assert datasets() == before


@pytest.mark.parametrize("spec", ["cifar-10", "./missing/folder", Path("digits")])
def test_an_unknown_name_is_answered_with_what_is_known(spec: str | Path, tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(InputError, match=r"has this name\n  expected: one of cifar10, .*digits.*npz") as caught:
        load_data(spec)
    assert ("write cifar10 or cifar100, if you mean that" in str(caught.value)) == (spec == "cifar-10")


def test_a_file_of_another_kind_is_not_said_to_be_missing(tmp_path: Path) -> None:
    (tmp_path / "labels.csv").write_text("1,2")
    with pytest.raises(InputError, match=r"labels\.csv is not data that can be read\n  expected: one of .*\n.*\.csv$"):
        load_data(tmp_path / "labels.csv")


def test_a_single_set_is_never_handed_out_as_training_data() -> None:
    ready = load_data(PAIR)
    assert load_data(ready) is ready
    with pytest.raises(
        InputError, match=r"the given features has no train split\n(.*\n)+  do: +put .* train and valid"
    ):
        load_data(PAIR, split="train")
    with pytest.raises(InputError, match="the given features has no validation split"):
        load_data(ready, split="validation")


def test_what_is_optional_is_not_imported_before_it_is_needed() -> None:
    optional = ("PIL", "sklearn", "transformers", "pyarrow", "huggingface_hub")
    script = "import sys, sfra.data, sfra.diagnostics, sfra.models.backbones as known; known.names()\n"
    script += f"print([m for m in {optional} if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
