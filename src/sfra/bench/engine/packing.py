"""Take results from one machine to another: an archive of finished cells without the models they were made with.

The models of a grid weigh gigabytes, its results megabytes. An archive holds the cells that tables read, whole, and
what is known of all others (settings, result, seconds) as one line each. A store that such an archive was put into
is complete as far as tables go; a cell whose inputs stayed behind makes them anew if it is still to be computed.
"""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import lzma
import os
import re
import tarfile
from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import asdict
from pathlib import Path

from sfra.bench.engine.cell import Cell, key_of, reachable
from sfra.bench.engine.disk import disk_errors, remove
from sfra.bench.engine.store import Record, Store, parse_cell
from sfra.core.errors import InputError, SfraError, UnsafeFileError
from sfra.core.files import write_atomically

FACTS = "facts.jsonl"
LARGEST = 2**31
"""Bytes that one file of an archive may have."""

LARGEST_IN_ALL = 2**33
"""Bytes that all files of an archive may have, and what may follow after them."""

_MEMBER = re.compile(r"cells/([a-z-]+)/([0-9a-f]{64})/([\w.-]+(?:/[\w.-]+)*)")


def pack(goals: Sequence[Cell], store: Store, file: str | Path, *, whole: Sequence[Cell] = ()) -> int:
    """Write the finished ones among some goals into an archive; return how many there were.

    The same cells give the same bytes, as ``.tar``, ``.tar.gz`` or ``.tar.xz``, written whole or not at all. Cells in
    ``whole``, such as the original, are taken along with all their files.
    """
    chosen = {cell.key: cell for cell in (*goals, *whole) if store.is_done(cell)}
    others = [cell for key, cell in sorted(reachable(goals).items()) if key not in chosen]
    facts = [asdict(record) for cell in others if (record := store.record(cell)) is not None]
    folders = [store.folder(chosen[key]) for key in sorted(chosen)]
    files = [path for folder in folders for path in sorted(folder.rglob("*")) if path.is_file()]
    members = {path.relative_to(store.root).as_posix(): path.read_bytes() for path in files}
    lines = [json.dumps(each, sort_keys=True) + "\n" for each in facts]
    write_archive(Path(file), members | {FACTS: "".join(lines).encode()})
    return len(chosen)


def write_archive(file: Path, members: Mapping[str, bytes]) -> None:
    """Write files into an archive, compressed as its name says, in their order; the same content, the same bytes."""
    content = io.BytesIO()
    with tarfile.open(fileobj=content, mode="w") as archive:
        for name, inside in members.items():
            member = tarfile.TarInfo(name)
            member.size = len(inside)
            archive.addfile(member, io.BytesIO(inside))
    packed = content.getvalue()
    if file.suffix == ".gz":
        packed = gzip.compress(packed, mtime=0)
    elif file.suffix == ".xz":
        packed = lzma.compress(packed)
    write_atomically(file, packed)


def unpack(file: str | Path, store: Store) -> int:
    """Put the cells of an archive into a store; return how many were new. Cells that are there stay as they are.

    Raises:
        UnsafeFileError: The archive holds something else than files of cells.
        InputError: It cannot be read, or holds a cell that is not whole.
    """
    name = hashlib.sha256(os.fsencode(Path(file).absolute())).hexdigest()
    with disk_errors(store.root), store.claim(name) as mine:  # nobody sweeps away the draft of a name that is claimed
        if not mine:
            raise InputError("the archive is being unpacked already", got=file, do="wait for the other process")
        draft = store.draft(name)
        try:
            keys = sorted(set(_extract(Path(file), draft)))
            records = [_whole(draft / kind / key, kind, key) for kind, key in keys]
            return sum(store.adopt(draft / r.kind / r.key, r) for r in records)
        finally:
            remove(draft)


def check_archive(file: str | Path) -> None:
    """Refuse a file that is no archive, before a store is made for what is in it."""
    with closing(_members(Path(file))) as members:
        next(members, None)


def _extract(file: Path, folder: Path) -> Iterator[tuple[str, str]]:
    for name, content in _members(file):
        found = _MEMBER.fullmatch(name)
        if found is not None:
            kind, key, rest = found.groups()
            target = folder / kind / key / rest
            try:
                target.parent.mkdir(parents=True, exist_ok=True)
                target.write_bytes(content)
            except (FileExistsError, NotADirectoryError, IsADirectoryError) as problem:
                raise InputError("the archive holds a file in the place of a folder", got=problem.filename) from None
            yield kind, key


def _whole(folder: Path, kind: str, key: str) -> Record:
    """Read a cell that is what its name says: whole, and of the settings that its key is the hash of."""
    record = parse_cell(folder)
    if record is None or record.kind != kind:
        raise InputError("the archive holds a cell that is not whole", got=f"{kind} {key[:12]}", do="pack it again")
    told = key_of(kind=record.kind, version=record.version, settings=record.settings, needs=record.needs)
    if told != key:
        raise UnsafeFileError(
            "the archive holds a cell under a false name, and was not unpacked",
            expected="the hash of its kind, version, settings and needs",
            got=f"{kind} {key[:12]}",
            do="do not use this file",
        )
    return record


def _members(file: Path) -> Generator[tuple[str, bytes], None, None]:
    """Yield the files of an archive, refusing every other kind of entry and every name that leads elsewhere."""
    try:
        with tarfile.open(file) as archive:
            total = 0
            for member in archive:
                total += member.size
                _check_member(member, total)
                content = archive.extractfile(member)
                assert content is not None
                yield member.name, content.read()
            stream, limit = archive.fileobj, LARGEST_IN_ALL
            assert stream is not None
            while limit > 0 and (rest := stream.read(2**20)):  # the checksum at the end tells whether it is whole
                limit -= len(rest)
    except SfraError:
        raise
    except Exception as problem:  # bytes of a stranger: the parsers raise whatever they run into
        raise InputError(
            f"{file} cannot be read",
            expected="an archive of results",
            got=f"{type(problem).__name__}: {problem}".partition("\n")[0].rstrip(":"),
            do="pass a file of sfra bench pack",
        ) from None


def _check_member(member: tarfile.TarInfo, total: int) -> None:
    """Refuse what is no file of a cell, or more than one may hold; ``total`` are the bytes up to its end."""
    known = member.name == FACTS or _MEMBER.fullmatch(member.name) is not None
    plain = member.isfile() and not member.issparse() and ".." not in member.name.split("/")
    if not (known and plain and member.size <= LARGEST and total <= LARGEST_IN_ALL):
        raise UnsafeFileError(
            "the archive holds something that is no result, and was not unpacked",
            expected=f"files of cells, and {FACTS}",
            got=member.name,
            do="do not use this file",
        )
