"""Results on their way from one machine to another, in files small enough for any door."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

from reproduction.heads import protocol_groups, take_features, take_heads
from reproduction.parts import PROTOCOLS
from sfra.bench.engine.cell import reachable
from sfra.bench.engine.packing import pack, unpack
from sfra.bench.engine.store import Store
from sfra.bench.plan import Goal
from sfra.core.files import write_atomically

PIECE = 15 * 2**20
"""Bytes of a file that leaves a machine; longer ones travel in pieces: ``NAME.00``, ``NAME.01``, …"""

RESULTS, HEADS, FEATURES, ORIGINAL = "results.tar.gz", "heads.tar.gz", "features.safetensors", "original.tar"


def bring(goals: Sequence[tuple[str, Goal]], store: Store, out: Path, *, originals: bool = False) -> list[Path]:
    """Write what is done of some goals: their results, and heads and a few test features of all audited models.

    The store may go on computing. With ``originals`` there is ``GROUP-original.tar`` too, with which another machine
    goes on.
    """
    known, written = dict(protocol_groups(PROTOCOLS)), list[Path]()
    for name in dict.fromkeys(name for name, _ in goals):
        if not any(name in members for members in known.values()):
            known[name] = [name]
    for group, members in known.items():
        cells = [goal.cell for name, goal in goals if name in members and store.is_done(goal.cell)]
        if cells:
            named = {what: out / f"{Path(group).stem}-{what}" for what in (RESULTS, HEADS, FEATURES, ORIGINAL)}
            pack(cells, store, named[RESULTS])
            take_heads(members, store, named[HEADS])
            take_features(members, store, named[FEATURES])
            if originals:
                made = [one for one in reachable(cells).values() if one.kind == "train"]
                pack([], store, named[ORIGINAL], whole=[one for one in made if not one.settings["without"]])
            written += [piece for file in named.values() if file.exists() for piece in _pieces(file)]
    return written


def take(files: Sequence[Path], store: Store) -> int:
    """Put what was brought into a store, pieces joined; return how many cells are new."""
    whole: dict[Path, list[Path]] = {}
    for file in sorted(files):
        whole.setdefault(file.with_suffix("") if file.suffix[1:].isdigit() else file, []).append(file)
    new = 0
    with tempfile.TemporaryDirectory() as scratch:
        for name, pieces in whole.items():
            if name.name.endswith((RESULTS, ORIGINAL)):
                joined = Path(scratch, name.name)
                joined.write_bytes(b"".join(piece.read_bytes() for piece in pieces))
                new += unpack(joined, store)
    return new


def _pieces(file: Path) -> Iterator[Path]:
    """Cut a file that is too long, and name what there is."""
    if file.stat().st_size <= PIECE:
        yield file
        return
    content = file.read_bytes()
    file.unlink()
    for number, start in enumerate(range(0, len(content), PIECE)):
        piece = file.with_name(f"{file.name}.{number:02}")
        write_atomically(piece, content[start : start + PIECE])
        yield piece
