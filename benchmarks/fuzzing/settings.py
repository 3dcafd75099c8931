"""Settings as inputs: recipes, protocols, packed stores and command lines."""

from __future__ import annotations

import io
import random
import shutil
import tarfile
import tomllib
from collections.abc import Sequence
from importlib.resources import files
from pathlib import Path
from typing import Any

from fuzzing.mutate import change_bytes, change_json
from fuzzing.seeds import AUDIT, SMALL

VALUES = (
    *("", "0", "1", "3", "-1", "nan", "inf", "1e400", "99999999999999999999", "4294967296", "x", "a,b", ",", "../x"),
    *("head.npz", "features.npz", "audit", "audit/audit.json", "nowhere.npz", "digits", "small-mlp", "canonical"),
    *("native", "1e-300", "1e300", "cpu", "cuda", "meta", "é", "\x1b[2J", "a" * 3000, "rs>0.1", "verdict==recovered"),
    *("privateuseone", "/dev/null", "/dev/zero", ".", "os:getcwd", "./head.npz:Net", "nowhere:Net(1)"),
)
"""What stands where a value belongs; nothing among it asks for a long run."""


def write_toml(value: dict[str, Any], name: str = "") -> str:
    """Write tables of plain values as TOML; ``name`` is that of the table, with a dot."""
    plain = [f"{_quoted(key)} = {_plain(one)}" for key, one in value.items() if not isinstance(one, dict)]
    tables = {f"{name}{_quoted(key)}": one for key, one in value.items() if isinstance(one, dict)}
    return "\n".join([*plain, *(f"[{at}]\n{write_toml(one, f'{at}.')}" for at, one in tables.items())]) + "\n"


def _quoted(key: object) -> str:
    return '"' + str(key).replace("\\", "").replace('"', "").replace("\x1b", "").replace("\n", "") + '"'


def _plain(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, list):
        return f"[{', '.join(map(_plain, value))}]"
    if isinstance(value, dict):
        return "{" + ", ".join(f"{_quoted(key)} = {_plain(one)}" for key, one in value.items()) + "}"
    return repr(value) if isinstance(value, (int, float)) else '""' if value is None else _quoted(value)


def _toml(place: Path, folder: str, name: str, chance: random.Random) -> Path:
    text = files(folder).joinpath(name).read_text(encoding="utf-8")
    target = place / "mine.toml"
    if chance.random() < 0.3:
        target.write_bytes(change_bytes(text.encode(), chance))
    else:
        changed = change_json(tomllib.loads(text), chance)
        target.write_text(write_toml(changed if isinstance(changed, dict) else {}), "utf-8", errors="replace")
    return target


def recipe(whole: Path, place: Path, chance: random.Random) -> Sequence[str]:
    """A recipe; training itself is not begun."""
    file = _toml(
        place, "sfra.models.recipes", chance.choice(("digits-small-mlp.toml", "digits-small-cnn.toml")), chance
    )
    return ["train", "--recipe", file.name, "--data", "digits", "--backbone", "small-mlp", "--out", "made"]


def protocol(whole: Path, place: Path, chance: random.Random) -> Sequence[str]:
    """A protocol; nothing of it is computed."""
    file = _toml(place, "sfra.bench.protocols", chance.choice(("digits-tiny.toml", "digits-ablations.toml")), chance)
    shutil.copytree(whole / "store", place / "store")
    command = chance.choice((["status"], ["report", "--out", "tables"]))
    return ["bench", *command, f"./{file.name}", "--store", "store"]


def packed(whole: Path, place: Path, chance: random.Random) -> Sequence[str]:
    """A packed store of a stranger, with members that lead elsewhere."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode=chance.choice(("w:xz", "w:gz", "w"))) as archive:
        for _ in range(chance.randrange(1, 5)):
            key = f"{chance.randrange(2**256):064x}"
            names = (
                f"cells/{key[:2]}/{key}/result.json",
                "../executed",
                str(place.parent / "executed"),
                "a",
                "",
                "cells/../../executed",
            )
            member = tarfile.TarInfo(chance.choice(names))
            content = chance.choice((b"{}", b"", b"x" * 5000, b"[" * 5000))
            member.size = len(content)
            member.type = chance.choice(
                (tarfile.REGTYPE, tarfile.REGTYPE, tarfile.SYMTYPE, tarfile.LNKTYPE, b"3", b"6")
            )
            member.linkname = chance.choice(("../../executed", "/etc/passwd", "a"))
            archive.addfile(member, io.BytesIO(content) if member.isreg() else None)
    content = buffer.getvalue()
    (place / "store.tar.xz").write_bytes(change_bytes(content, chance) if chance.random() < 0.5 else content)
    return ["bench", "unpack", "store.tar.xz", "--store", "store"]


def command_line(whole: Path, place: Path, chance: random.Random) -> Sequence[str]:
    """A command with options, values and words where they may not belong."""
    for name in ("head.npz", "features.npz"):
        shutil.copy(whole / name, place)
    shutil.copytree(whole / "audit", place / "audit")
    start = chance.choice((AUDIT, AUDIT, AUDIT, *OTHERS))
    arguments = [*start]
    for _ in range(chance.choice((1, 1, 2, 3, 6))):
        way = chance.randrange(5)
        if way == 0 and len(arguments) > 1:
            del arguments[chance.randrange(1, len(arguments))]
        elif way == 1 and len(arguments) > 1:
            arguments[chance.randrange(1, len(arguments))] = chance.choice(VALUES)
        elif way == 2:
            arguments.insert(chance.randrange(len(arguments) + 1), chance.choice(VALUES))
        else:
            arguments += [chance.choice(OPTIONS), chance.choice(VALUES)]
    short = [] if arguments[:1] != ["audit"] else [*SMALL[:4], *SMALL[4:6]]
    return [*arguments, *(short if chance.random() < 0.8 else [])]


OTHERS: tuple[Sequence[str], ...] = (
    ("doctor", "head.npz", "--data", "features.npz"),
    ("report", "audit", "--out", "page.html"),
    ("list", "recipes"),
    ("explain", "small-n"),
    ("bench", "status", "digits-tiny", "--store", "store"),
    ("unlearn", "audit", "--data", "digits", "--forget", "3", "--method", "delete", "--out", "made"),
    ("train", "--data", "digits", "--backbone", "small-mlp", "--out", "made"),
    ("-h",),
)

OPTIONS = (
    *("--forget", "--data", "--reference", "--reference-data", "--control", "--control-data", "--validation", "--arch"),
    *("--key", "--head-key", "--missing-row", "--expect-accuracy", "--m", "--proposal", "--score", "--scale", "--json"),
    *("--forget-weight", "--no-reset-row", "--self-controls", "--diagnostics", "--seed", "--device", "--threads", "-q"),
    *("--fail-if", "--debug", "--assignment", "--recipe", "--method", "--without", "--pretrained", "--format"),
    "--bench",
)
"""Without those that say how long to work: a large number there is a wish, not a defect."""
