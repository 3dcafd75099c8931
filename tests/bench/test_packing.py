"""Results travel: an archive holds the finished goals, a store takes them in, and strangers' archives are refused."""

from __future__ import annotations

import io
import json
import tarfile
from pathlib import Path

import pytest

from builders.bench import put
from sfra.bench.engine import packing
from sfra.bench.engine.cell import Cell
from sfra.bench.engine.packing import FACTS, pack, unpack
from sfra.bench.engine.store import Store
from sfra.core.errors import InputError, UnsafeFileError

ONE = Cell(kind="number", settings={"value": 1})
TWO = Cell(kind="number", settings={"value": 2})
SUM = Cell(kind="sum", needs={"a": ONE, "b": TWO})


@pytest.fixture
def full(tmp_path: Path) -> Store:
    store = Store(tmp_path / "full")
    put(store, ONE, TWO, SUM)
    return store


def archive(path: Path, **files: bytes) -> Path:
    with tarfile.open(path, "w:gz") as out:
        for name, content in files.items():
            member = tarfile.TarInfo(name)
            member.size = len(content)
            out.addfile(member, io.BytesIO(content))
    return path


def contents(path: Path) -> dict[str, bytes]:
    with tarfile.open(path) as given:
        return {member.name: stream.read() for member in given if (stream := given.extractfile(member)) is not None}


@pytest.mark.parametrize("ending", ["tar", "tar.gz", "tar.xz"])
def test_goals_arrive_whole_and_what_they_were_made_of_stays_behind(full: Store, tmp_path: Path, ending: str) -> None:
    file, other = tmp_path / f"results.{ending}", Store(tmp_path / "other")
    assert pack([SUM], full, file) == 1
    whole = file.read_bytes()
    assert pack([SUM], full, file) == 1
    assert file.read_bytes() == whole, "the same cells give the same bytes"
    assert unpack(file, other) == 1
    assert other.record(SUM) == full.record(SUM)
    assert (other.folder(SUM) / "value.txt").read_text() == "3"
    assert not other.is_done(ONE)
    assert not list((other.root / "tmp").iterdir())


def test_an_archive_tells_what_is_known_of_the_cells_that_stayed_behind(full: Store, tmp_path: Path) -> None:
    pack([SUM], full, tmp_path / "r.tar.gz")
    lines = contents(tmp_path / "r.tar.gz")[FACTS].splitlines()
    assert sorted(json.loads(line)["result"]["value"] for line in lines) == [1, 2]


def test_cells_can_be_taken_along_and_unfinished_goals_are_left_out(full: Store, tmp_path: Path) -> None:
    missing = Cell(kind="number", settings={"value": 9})
    assert pack([SUM, missing], full, tmp_path / "r.tar.gz", whole=[ONE]) == 2
    other = Store(tmp_path / "other")
    assert unpack(tmp_path / "r.tar.gz", other) == 2
    assert other.is_done(ONE)
    assert not other.is_done(TWO)


def test_a_cell_that_is_there_stays_and_a_damaged_one_is_replaced(full: Store, tmp_path: Path) -> None:
    pack([SUM], full, tmp_path / "r.tar.gz")
    assert unpack(tmp_path / "r.tar.gz", full) == 0
    (full.folder(SUM) / "value.txt").unlink()
    assert unpack(tmp_path / "r.tar.gz", full) == 1
    assert full.result(SUM)["value"] == 3
    assert len(list((full.root / "quarantine").iterdir())) == 1


@pytest.mark.parametrize(
    "name", ["../evil", "cells/number/../../evil", f"cells/number/{'a' * 64}/../../x", "notes.txt"]
)
def test_a_name_that_leads_elsewhere_is_refused_and_nothing_is_kept(full: Store, tmp_path: Path, name: str) -> None:
    bad = archive(tmp_path / "bad.tar.gz", **{name: b"x"})
    with pytest.raises(UnsafeFileError, match="no result"):
        unpack(bad, full)
    assert not list((full.root / "tmp").iterdir())


def test_a_link_in_an_archive_is_refused(full: Store, tmp_path: Path) -> None:
    with tarfile.open(tmp_path / "link.tar.gz", "w:gz") as out:
        member = tarfile.TarInfo(f"cells/number/{'a' * 64}/value.txt")
        member.type, member.linkname = tarfile.SYMTYPE, "/etc/passwd"
        out.addfile(member)
    with pytest.raises(UnsafeFileError):
        unpack(tmp_path / "link.tar.gz", full)


def test_a_cell_without_its_record_is_refused(full: Store, tmp_path: Path) -> None:
    bad = archive(tmp_path / "bad.tar.gz", **{f"cells/number/{'a' * 64}/value.txt": b"1"})
    with pytest.raises(InputError, match="not whole"):
        unpack(bad, full)


@pytest.mark.parametrize(("ending", "first"), [("tar.gz", b"\x1f\x8b"), ("tar.xz", b"\xfd7zXZ")])
def test_an_archive_that_was_damaged_on_the_way_is_named(
    full: Store, tmp_path: Path, ending: str, first: bytes
) -> None:
    file = tmp_path / f"r.{ending}"
    pack([SUM], full, file)
    whole = file.read_bytes()
    assert whole.startswith(first)
    changed = bytearray(whole)
    changed[-8] ^= 1  # of the checksum: every file can be read, and is not what was packed
    for broken in (whole[: len(whole) // 2], whole[:40] + bytes(20) + whole[60:], bytes(changed)):
        file.write_bytes(broken)
        with pytest.raises(InputError, match="cannot be read"):
            unpack(file, full)
    assert not list((full.root / "tmp").iterdir())


def test_a_cell_under_a_false_name_is_refused_and_none_before_it_taken_in(full: Store, tmp_path: Path) -> None:
    pack([ONE, SUM], full, tmp_path / "r.tar.gz")
    files = contents(tmp_path / "r.tar.gz")
    (name,) = (name for name in files if name.endswith(f"{SUM.key}/result.json"))
    files[name] = files[name].replace(ONE.key.encode(), ("0" * 64).encode())
    other = Store(tmp_path / "other")
    with pytest.raises(UnsafeFileError, match="under a false name"):
        unpack(archive(tmp_path / "false.tar.gz", **files), other)
    assert not list(other.records())
    assert not list((other.root / "tmp").iterdir())


def test_an_archive_that_would_fill_the_disk_is_refused(
    full: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pack([ONE, SUM], full, tmp_path / "r.tar.gz")
    with tarfile.open(tmp_path / "r.tar.gz") as given:
        size = sum(member.size for member in given)
    monkeypatch.setattr(packing, "LARGEST_IN_ALL", size - 1)
    with pytest.raises(UnsafeFileError, match="no result"):
        unpack(tmp_path / "r.tar.gz", Store(tmp_path / "other"))
    monkeypatch.setattr(packing, "LARGEST_IN_ALL", size)
    assert unpack(tmp_path / "r.tar.gz", Store(tmp_path / "other")) == 2


def test_a_file_that_is_mostly_holes_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "holes.tar"
    member = tarfile.TarInfo(f"cells/number/{ONE.key}/value.txt")
    member.pax_headers = {"GNU.sparse.map": "0,1", "GNU.sparse.size": str(2**30), "GNU.sparse.major": "0"}
    member.size = 1
    with tarfile.open(file, "w", format=tarfile.PAX_FORMAT) as out:
        out.addfile(member, io.BytesIO(b"x"))
    with tarfile.open(file) as made:
        assert next(iter(made)).issparse()
    with pytest.raises(UnsafeFileError, match="no result"):
        unpack(file, Store(tmp_path / "other"))


def test_a_file_in_the_place_of_a_folder_is_refused(tmp_path: Path) -> None:
    place = f"cells/number/{ONE.key}/a"
    with pytest.raises(InputError, match="in the place of a folder"):
        unpack(archive(tmp_path / "both.tar.gz", **{place: b"x", f"{place}/b": b"y"}), Store(tmp_path / "other"))
