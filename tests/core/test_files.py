import gc
import os
import pickle
import stat
import warnings
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from safetensors.torch import save_file

from builders.releases import Bomb
from sfra.core import files
from sfra.core.errors import InputError, UnsafeFileError
from sfra.core.files import read_arrays, write_atomically, write_npz

ARRAYS: dict[str, NDArray[Any]] = {
    "weight": np.arange(12, dtype=np.float32).reshape(3, 4),
    "bias": np.ones(3),
    "count": np.array(7),
}


def refusal(path: Path) -> str:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)
        with pytest.raises(InputError) as problem:
            read_arrays(path)
        gc.collect()
    return str(problem.value)


def test_both_formats_give_back_what_was_written(tmp_path: Path) -> None:
    write_npz(tmp_path / "a.npz", **ARRAYS)
    save_file({name: torch.tensor(value) for name, value in ARRAYS.items()}, tmp_path / "a.safetensors")
    for name in ("a.npz", "a.safetensors"):
        found = read_arrays(tmp_path / name)
        assert set(found) == set(ARRAYS)
        for key, value in ARRAYS.items():
            assert torch.equal(found[key], torch.tensor(value))
            assert found[key].dtype == torch.tensor(value).dtype
    with pytest.raises(ValueError, match=r"[Oo]bject arrays cannot be saved"):
        write_npz(tmp_path / "b.npz", weight=np.array([{}], dtype=object))
    assert not (tmp_path / "b.npz").exists()


@pytest.mark.parametrize("suffix", [".npz", ".safetensors"])
@pytest.mark.parametrize("share", [0.3, 0.9])
def test_a_truncated_file_is_refused_with_what_to_do(suffix: str, share: float, tmp_path: Path) -> None:
    whole = tmp_path / f"whole{suffix}"
    if suffix == ".npz":
        write_npz(whole, **ARRAYS)
    else:
        save_file({"weight": torch.zeros(30, 40)}, whole)
    cut = tmp_path / f"cut{suffix}"
    cut.write_bytes(whole.read_bytes()[: int(share * whole.stat().st_size)])
    assert f"cut{suffix} cannot be read" in refusal(cut)


@pytest.mark.parametrize("suffix", [".npz", ".safetensors"])
@pytest.mark.parametrize("content", [b"", b"garbage", b"\x93NUMPY", b"PK\x03\x04" + bytes(40)])
def test_garbage_is_refused(suffix: str, content: bytes, tmp_path: Path) -> None:
    (tmp_path / f"x{suffix}").write_bytes(content)
    assert f"x{suffix} cannot be read" in refusal(tmp_path / f"x{suffix}")


def test_a_damaged_byte_inside_a_compressed_archive_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "x.npz"
    np.savez_compressed(path, weight=np.random.default_rng(0).standard_normal((40, 40)))
    content = bytearray(path.read_bytes())
    for position in (60, 200, 900):
        content[position] ^= 0xFF
    path.write_bytes(bytes(content))
    assert "x.npz cannot be read" in refusal(path)


def test_a_header_that_claims_a_giant_array_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "x.npz"
    header = b"{'descr': '<f4', 'fortran_order': False, 'shape': (4000000000000, 4000), }"
    header += b" " * (118 - len(header) - 1) + b"\n"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("weight.npy", b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header)
    assert "x.npz cannot be read" in refusal(path)


def test_a_refused_file_is_closed(tmp_path: Path) -> None:
    (tmp_path / "x.npz").write_bytes(b"PK\x03\x04" + bytes(40))
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        with pytest.raises(InputError):
            read_arrays(tmp_path / "x.npz")
        gc.collect()
    assert [str(warning.message) for warning in seen] == []


def test_a_pickle_is_refused_and_never_run(tmp_path: Path) -> None:
    mark = tmp_path / "ran"
    inside = tmp_path / "inside.npz"
    np.savez(inside, weight=np.array([Bomb(mark)], dtype=object))
    plain = tmp_path / "plain.npz"
    plain.write_bytes(pickle.dumps(Bomb(mark)))
    assert "plain.npz cannot be read" in refusal(plain)
    message = refusal(inside)
    assert "got:      pickled objects, which could run code" in message
    assert "allow_pickle" not in message  # numpy's own words tell how to open it
    assert not mark.exists()
    pickle.loads(plain.read_bytes())
    assert mark.exists()  # the bomb was live


def test_text_in_an_archive_is_left_out(tmp_path: Path) -> None:
    np.savez(tmp_path / "a.npz", weight=np.zeros(3), note=np.array("made on a Tuesday"))
    assert set(read_arrays(tmp_path / "a.npz")) == {"weight"}


def test_a_missing_file_and_a_foreign_suffix_are_refused(tmp_path: Path) -> None:
    assert "the file does not exist" in refusal(tmp_path / "none.npz")
    (tmp_path / "model.pt").write_bytes(b"x")
    assert "not a file of arrays" in refusal(tmp_path / "model.pt")


def test_writing_makes_its_folder_and_replaces_the_old_file(tmp_path: Path) -> None:
    target = tmp_path / "new" / "folder" / "a.bin"
    write_atomically(target, b"old")
    write_atomically(target, b"new")
    assert target.read_bytes() == b"new"
    assert list(target.parent.iterdir()) == [target]


@pytest.mark.parametrize("problem", [OSError("disk full"), KeyboardInterrupt()])
def test_a_failed_write_leaves_the_old_file_and_nothing_else(
    problem: BaseException, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    target = tmp_path / "a.bin"
    write_atomically(target, b"old")

    def fail(*_: object) -> None:
        raise problem

    monkeypatch.setattr(os, "replace", fail)
    with pytest.raises(type(problem)):
        write_atomically(target, b"new")
    assert target.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [target]


def test_a_written_file_has_the_permissions_of_any_other_new_file(tmp_path: Path) -> None:
    (tmp_path / "plain").write_bytes(b"x")
    write_atomically(tmp_path / "ours", b"x")
    modes = [stat.S_IMODE((tmp_path / name).stat().st_mode) for name in ("plain", "ours")]
    assert modes[0] == modes[1]


def test_a_file_that_would_fill_the_memory_is_not_opened(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    np.savez_compressed(tmp_path / "bomb.npz", weight=np.zeros(2**20, dtype=np.float32))
    assert (tmp_path / "bomb.npz").stat().st_size < 2**22 / 200
    assert len(read_arrays(tmp_path / "bomb.npz")["weight"]) == 2**20  # 4 MiB hurt nobody
    monkeypatch.setattr(files, "SUSPICIOUS_BYTES", 2**20)
    with pytest.raises(UnsafeFileError, match=r"would grow to 0\.0 GiB[\s\S]*times as large"):
        read_arrays(tmp_path / "bomb.npz")
    np.savez(tmp_path / "plain.npz", weight=np.zeros(2**20, dtype=np.float32))
    assert len(read_arrays(tmp_path / "plain.npz")["weight"]) == 2**20
