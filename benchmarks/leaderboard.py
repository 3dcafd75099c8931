"""Keep heads and test features of audited models, audit them again, and make the page of all models.

    python benchmarks/leaderboard.py keep HEADS.tar.gz FEATURES.safetensors… --group cifar10-resnet18-224
    python benchmarks/leaderboard.py again delete-0 retrained-0 --group cifar10-resnet18-224
    python benchmarks/leaderboard.py page --out all-models.html              # make docs does it too

``keep`` writes ``reproduction/GROUP/models/NAME/head.npz`` (float32) and ``features.npz``: 100 test samples of the
forget class and 10 of every other one, the first ones, float16 with the last five bits cleared. Only models with an
audit in the rows are kept. ``again`` runs the command that the page prints for a model, and writes what came out into
``again.csv``.
"""

from __future__ import annotations

import argparse
import json
import shlex
import subprocess
import sys
import tarfile
from collections.abc import Sequence
from pathlib import Path

import torch
from safetensors.torch import load, load_file

from reproduction.heads import OF_FORGET, OF_OTHERS
from reproduction.leaderboard import command_of, leaderboard, models_folder
from reproduction.rows import ROOT, VERDICT, Group
from sfra.core.files import write_atomically
from sfra.core.head import Head
from stored import append, kept_rows, write_features

COLUMNS = ("protocol", "method", "forget", "rs", "delta_rs", "rs_std", "verdict", "row_rs", "row_delta_rs")


def keep(group: Group, heads: Path, features: Sequence[Path]) -> None:
    """Write head and features of every audited model; a head other than the committed one is of another model."""
    data = {name: tensor for path in features for name, tensor in load_file(path).items()}
    known = load_file(group.folder / group.name / "heads.safetensors")
    rows = group.audits(VERDICT)
    with tarfile.open(heads) as archive:
        for method, forget in rows.select("method", "forget").iter_rows():
            name = f"{method}-{forget}"
            stream = archive.extractfile(f"heads/{name}.safetensors") if f"{name}.labels" in data else None
            if stream is None:
                continue
            labels, head = data[f"{name}.labels"].long(), load(stream.read())
            if not torch.equal(head["weight"], known.get(f"{name}.weight", head["weight"])):
                print(f"{name}: left out, its head is another")
                continue
            chosen, folder = kept_rows(labels, [int(forget)], OF_FORGET, OF_OTHERS), models_folder(group) / name
            Head(**head).save(folder / "head.npz")
            write_features(folder / "features.npz", data[f"{name}.features"][chosen], labels[chosen], coarse=True)


def again(group: Group, names: Sequence[str]) -> None:
    """Run the commands of some models and append what came out."""
    out = group.folder / group.name / "again.csv"
    for name in names:
        method, _, forget = name.rpartition("-")
        line = command_of(group, method, forget)
        if line is None:
            raise SystemExit(f"{name} is not kept")
        words = [sys.executable, "-m", *shlex.split(line), "--quiet", "--json"]
        found = json.loads(subprocess.run(words, cwd=ROOT, check=True, capture_output=True).stdout)  # noqa: S603 - ours
        row = group.audits(VERDICT).filter(method=method, forget=forget).row(0, named=True)
        numbers = {key: found[key] for key in ("rs", "delta_rs", "rs_std")}
        numbers |= {"row_rs": row["rs"], "row_delta_rs": None if method == "retrained" else row["delta_rs"]}
        texts = {key: "" if value is None else round(value, 5) for key, value in numbers.items()}
        told = {"protocol": group.name, "method": method, "forget": forget, "verdict": found["verdict"], **texts}
        print(told, flush=True)
        append(out, [told], COLUMNS)


def main() -> None:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(required=True, dest="command")
    keeping, repeating, page = (commands.add_parser(name) for name in ("keep", "again", "page"))
    keeping.add_argument("heads", type=Path)
    keeping.add_argument("features", type=Path, nargs="+")
    repeating.add_argument("names", nargs="+")
    for one in (keeping, repeating):
        one.add_argument("--group", type=Group, required=True)
    page.add_argument("--out", type=Path, required=True)
    asked = parser.parse_args()
    torch.set_num_threads(1)
    if asked.command == "keep":
        keep(asked.group, asked.heads, asked.features)
    elif asked.command == "again":
        again(asked.group, asked.names)
    else:
        write_atomically(asked.out, leaderboard().encode())


if __name__ == "__main__":
    main()
