"""Decoded images on disk: made once, made again when they must be, never in the way."""

import logging
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from builders.data import toy, write_folders
from sfra.data import ArrayPixels, ImageSet, cache, decode, load_data
from sfra.data.decode import FilePixels

NAMES = ("ape", "bee", "cow")


@pytest.fixture(autouse=True)
def keep_everything(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Keep even small sets, in a cache of the test's own."""
    monkeypatch.setattr(cache, "SMALL", 0)
    monkeypatch.setenv("SFRA_CACHE", str(tmp_path / "cache"))
    write_folders(tmp_path / "pets", NAMES, test=toy(3, 4, size=6))
    return tmp_path / "cache" / "decoded"


@pytest.fixture
def decodings(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Note each time images are decoded."""
    seen: list[int] = []
    real = decode.decode_stack

    def noting(sources, mode, size):  # type: ignore[no-untyped-def]
        seen.append(len(sources))
        return real(sources, mode, size)

    monkeypatch.setattr("sfra.data.decode.decode_stack", noting)
    return seen


def load(path: Path) -> ImageSet:
    data = load_data(path)
    assert isinstance(data, ImageSet)
    return data


def pixels(data: ImageSet) -> torch.Tensor:
    return torch.cat(list(data.pixels.pieces(0, len(data))))


def entry(cache: Path) -> Path:
    (found,) = (path for path in cache.iterdir() if path.suffix != ".lock")
    return found


def test_images_are_decoded_once_and_are_what_the_files_hold(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, decodings: list[int]
) -> None:
    first, second = load(tmp_path / "pets"), load(tmp_path / "pets")
    assert decodings == [12]
    assert isinstance(second.pixels, ArrayPixels)
    assert isinstance(second.pixels.images, np.memmap)
    monkeypatch.setattr(cache, "SMALL", 2**40)
    lazy = load(tmp_path / "pets")
    assert isinstance(lazy.pixels, FilePixels)
    for data in (first, second):
        assert torch.equal(pixels(data), pixels(lazy))
        assert torch.equal(data.labels, lazy.labels)
        assert (data.class_names, data.source) == (lazy.class_names, lazy.source)


def test_kept_images_and_selections_of_them_are_those_of_the_same_images_in_memory(tmp_path: Path) -> None:
    data = load(tmp_path / "pets")
    whole = pixels(data)
    assert isinstance(data.pixels, ArrayPixels)
    assert data.pixels.known == ArrayPixels(whole.numpy()).fingerprint()
    chosen = data.pixels.take([5, 2, 2]).take([2, 0])
    assert chosen.fingerprint() == ArrayPixels(whole[[2, 5]].numpy()).fingerprint()
    assert torch.equal(next(data.pixels.pieces(3, 7)), whole[3:7])
    next(data.pixels.pieces(0, 2)).zero_()
    assert torch.equal(pixels(data), whole)


def test_a_changed_source_is_decoded_anew(tmp_path: Path, decodings: list[int]) -> None:
    before = load(tmp_path / "pets")
    file = next((tmp_path / "pets" / "test" / "ape").iterdir())
    stat = file.stat()
    Image.new("RGB", (6, 6), (1, 2, 3)).save(file)
    os.utime(file, ns=(stat.st_atime_ns, stat.st_mtime_ns + 1))
    after = load(tmp_path / "pets")
    assert decodings == [12, 12]
    assert after.fingerprint != before.fingerprint
    file.unlink()
    assert len(load(tmp_path / "pets")) == 11


@pytest.mark.parametrize(
    ("file", "damage"),
    [
        ("images.npy", lambda content: content[:-100]),
        ("images.npy", lambda content: content[:-1] + bytes([content[-1] ^ 1])),
        ("sets.json", lambda content: content.replace(b"[0,0,", b"[0,1,")),
        ("sets.json", lambda content: content[:-9]),
        ("sets.json", lambda content: b'{"images": {}}'),
    ],
    ids=["cut", "a bit flipped", "a label changed", "notes cut", "notes lost"],
)
def test_a_damaged_entry_is_noticed_and_made_again(
    tmp_path: Path,
    keep_everything: Path,
    decodings: list[int],
    caplog: pytest.LogCaptureFixture,
    file: str,
    damage: Callable[[bytes], bytes],
) -> None:
    before = load(tmp_path / "pets").fingerprint
    target = entry(keep_everything) / file
    target.write_bytes(damage(target.read_bytes()))
    with caplog.at_level(logging.WARNING):
        assert load(tmp_path / "pets").fingerprint == before
    assert decodings == [12, 12]
    assert "damaged and will be made again" in caplog.text
    load(tmp_path / "pets")
    assert decodings == [12, 12]


def test_an_entry_that_was_only_copied_is_still_good(
    tmp_path: Path, keep_everything: Path, decodings: list[int]
) -> None:
    load(tmp_path / "pets")
    os.utime(entry(keep_everything) / "images.npy", ns=(1, 1))
    load(tmp_path / "pets")
    assert decodings == [12]


def test_a_cache_that_cannot_be_written_is_done_without(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    kept = load(tmp_path / "pets").fingerprint
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("SFRA_CACHE", str(tmp_path / "file"))
    data = load(tmp_path / "pets")
    assert isinstance(data.pixels, ArrayPixels)
    assert not isinstance(data.pixels.images, np.memmap)
    assert data.fingerprint == kept


def test_a_full_disk_leaves_nothing_behind(
    tmp_path: Path, keep_everything: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(np.lib.format, "open_memmap", full)
    assert len(load(tmp_path / "pets")) == 12
    assert [path.suffix for path in keep_everything.iterdir()] == [".lock"]


def test_images_of_several_sizes_stay_files(tmp_path: Path, keep_everything: Path) -> None:
    Image.new("RGB", (9, 6)).save(tmp_path / "pets" / "test" / "cow" / "wide.png")
    assert isinstance(load(tmp_path / "pets").pixels, FilePixels)
    assert [path.suffix for path in keep_everything.iterdir()] == [".lock"]


def test_one_of_several_processes_decodes_and_all_have_the_same(tmp_path: Path, keep_everything: Path) -> None:
    script = (
        "import sys, pathlib\n"
        "from sfra.data import cache, decode, load_data\n"
        "cache.SMALL, real = 0, decode.decode_stack\n"
        "decode.decode_stack = lambda *arguments: (print('decoded'), real(*arguments))[1]\n"
        "print(load_data(pathlib.Path(sys.argv[1])).fingerprint)\n"
    )
    command = [sys.executable, "-c", script, str(tmp_path / "pets")]
    runs = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(2)]
    lines = [line for run in runs for line in run.communicate()[0].split()]
    assert [run.returncode for run in runs] == [0, 0]
    assert lines.count("decoded") == 1
    assert len(set(lines) - {"decoded"}) == 1
    assert entry(keep_everything).is_dir()
