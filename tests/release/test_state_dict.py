"""Files of tensors are hostile until read: nothing in them is executed, and damage is one message."""

from __future__ import annotations

import pickle
import warnings
import zipfile
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import save_file
from torch import Tensor, nn

from builders.releases import Bomb
from sfra.core import files
from sfra.core.errors import InputError, UnsafeFileError
from sfra.release import load
from sfra.release.checkpoint import read_checkpoint

ARCH = "small-cnn"
WRITERS: dict[str, Callable[[object, Path], object]] = {
    "zip": torch.save,
    "legacy": lambda content, file: torch.save(content, file, _use_new_zipfile_serialization=False),
    "protocol 4": lambda content, file: file.write_bytes(pickle.dumps(content, protocol=4)),
    "protocol 0": lambda content, file: file.write_bytes(pickle.dumps(content, protocol=0)),
}


@pytest.mark.parametrize("write", WRITERS)
@pytest.mark.parametrize("arch", [None, ARCH])
@pytest.mark.parametrize("suffix", [".pt", ".pth"])
def test_a_malicious_pickle_is_never_executed(tmp_path: Path, write: str, arch: str | None, suffix: str) -> None:
    file, marker = tmp_path / f"evil{suffix}", tmp_path / "marker"
    WRITERS[write]({"state_dict": {"fc.weight": Bomb(marker)}}, file)
    with pytest.raises(UnsafeFileError, match=r"(?s)could run code: it was not opened.*posix\.mkdir.*safetensors"):
        load(file, arch=arch)
    assert not marker.exists()
    if write == "protocol 4":  # the control: opened, it would have worked
        pickle.loads(file.read_bytes())
        assert marker.exists()


def test_an_environment_that_asks_for_unsafe_loading_changes_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    torch.save(Bomb(tmp_path / "marker"), tmp_path / "evil.pt")
    monkeypatch.setenv("TORCH_FORCE_NO_WEIGHTS_ONLY_LOAD", "1")
    with pytest.raises(UnsafeFileError):
        load(tmp_path / "evil.pt")
    assert not (tmp_path / "marker").exists()


def test_a_checkpoint_with_other_objects_is_refused(tmp_path: Path) -> None:
    torch.save({"state_dict": nn.Linear(4, 3).state_dict(), "accuracy": Fraction(1, 2)}, tmp_path / "other.pt")
    with pytest.raises(UnsafeFileError, match="fractions"):
        load(tmp_path / "other.pt", arch=ARCH)


def test_torchscript_is_refused(tmp_path: Path) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        scripted = torch.jit.trace(nn.Linear(4, 3), torch.zeros(1, 4))  # type: ignore[no-untyped-call]
        scripted.save(str(tmp_path / "script.pt"))
    with pytest.raises(UnsafeFileError, match=r"(?s)another archive.*a TorchScript archive.*ONNX"):
        load(tmp_path / "script.pt", arch=ARCH)


@pytest.mark.parametrize("content", [b"", b"garbage" * 9, b"PK\x03\x04broken", pickle.dumps({"a": 1}, protocol=4)])
def test_what_torch_did_not_write_is_refused(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "bad.pt").write_bytes(content)
    with pytest.raises(InputError, match=r"bad\.pt cannot be read"):
        load(tmp_path / "bad.pt", arch=ARCH)


@pytest.mark.parametrize("suffix", [".pt", ".safetensors"])
@pytest.mark.parametrize("share", [0.1, 0.5, 0.99])
def test_a_truncated_file_is_refused(tmp_path: Path, suffix: str, share: float) -> None:
    file, weights = tmp_path / f"cut{suffix}", nn.Linear(64, 7).state_dict()
    save_file(weights, file) if suffix == ".safetensors" else torch.save(weights, file)
    content = file.read_bytes()
    file.write_bytes(content[: int(share * len(content))])
    with pytest.raises(InputError, match=f"cut{suffix} cannot be read"):
        load(file, arch=ARCH)


def nested() -> Tensor:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return torch.nested.nested_tensor([torch.zeros(2), torch.zeros(3)])


@pytest.mark.parametrize(
    "tensor",
    [
        torch.zeros(1, 1).expand(10**12, 10**3),
        torch.eye(3).to_sparse(),
        torch.zeros(3, dtype=torch.complex64),
        nested(),
    ],
    ids=["claims its size", "sparse", "complex", "nested"],
)
@pytest.mark.parametrize("arch", [None, ARCH])
def test_a_tensor_that_is_not_plain_numbers_is_refused(tmp_path: Path, tensor: Tensor, arch: str | None) -> None:
    torch.save({"weight": tensor}, tmp_path / "wide.pt")
    with pytest.raises(InputError, match=r"(?s)wide\.pt holds a tensor that is not plain numbers.*got: +weight"):
        load(tmp_path / "wide.pt", arch=arch)


def test_a_compressed_file_that_would_fill_the_memory_is_not_opened(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    torch.save({"weight": torch.zeros(2**20)}, tmp_path / "plain.pt")
    with (
        zipfile.ZipFile(tmp_path / "plain.pt") as plain,
        zipfile.ZipFile(tmp_path / "bomb.pt", "w", zipfile.ZIP_DEFLATED) as packed,
    ):
        for member in plain.namelist():
            packed.writestr(member, plain.read(member))
    monkeypatch.setattr(files, "SUSPICIOUS_BYTES", 2**20)
    with pytest.raises(UnsafeFileError, match=r"bomb\.pt would grow to"):
        read_checkpoint(tmp_path / "bomb.pt")
    assert len(read_checkpoint(tmp_path / "plain.pt").parts[""]["weight"]) == 2**20


LOOP: dict[str, Any] = {"epoch": 1}
LOOP["state_dict"] = LOOP


@pytest.mark.parametrize("content", [{}, [1, 2], {"state_dict": {"a": 1}}, {1: torch.zeros(2)}, LOOP])
def test_a_file_without_a_state_dict_is_refused(tmp_path: Path, content: object) -> None:
    torch.save(content, tmp_path / "other.pt")
    with pytest.raises(InputError, match=r"other\.pt holds no state dict"):
        load(tmp_path / "other.pt", arch=ARCH)


def test_names_in_a_message_cannot_steer_the_terminal(tmp_path: Path) -> None:
    torch.save({"\x1b[2Jfc.weight\nall is well": torch.zeros(2)}, tmp_path / "odd.pt")
    with pytest.raises(InputError) as caught:
        load(tmp_path / "odd.pt", arch=ARCH)
    assert "\x1b" not in str(caught.value)
    assert "\nall is well" not in str(caught.value)
