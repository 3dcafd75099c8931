"""Write what a search of hyper-parameters chose into the recipe, with its source.

    python benchmarks/recipes.py NAME --candidates … --forget 0 30 60 --out FOLDER    # several, side by side
    python benchmarks/choose.py src/sfra/models/recipes/NAME.toml FOLDER/*/NAME.csv --out benchmarks/recipes

The candidates of all searches end up in ``OUT/NAME.csv``, and the recipe names how many there were, for which classes.
Methods that no search is about stay as they are. Nothing is written unless the recipe can be read afterwards.
"""

from __future__ import annotations

import argparse
import csv
import io
import json
import re
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from recipes import COLUMNS, block
from sfra.core.errors import InputError
from sfra.core.files import write_atomically
from sfra.models import recipes

Row = Mapping[str, str]


def read_rows(files: Iterable[Path]) -> dict[str, list[Row]]:
    """Read the candidates of each method; of a method in several files, those of the last."""
    found: dict[str, list[Row]] = {}
    for file in files:
        with file.open(newline="", encoding="utf-8") as stream:
            rows = list(csv.DictReader(stream))
        found |= {method: [row for row in rows if row["method"] == method] for method in {r["method"] for r in rows}}
    return dict(sorted(found.items()))


def chosen(rows: Sequence[Row]) -> dict[str, object]:
    """Give the settings that the search marked.

    Raises:
        InputError: None or several are marked.
    """
    marked = {row["settings"] for row in rows if row["chosen"]}
    if len(marked) != 1:
        names = ", ".join(sorted({row["method"] for row in rows}))
        raise InputError(f"the search of {names} is not over", expected="one chosen candidate", got=str(len(marked)))
    settings: dict[str, object] = json.loads(marked.pop())
    return settings


def source(rows: Sequence[Row], name: str) -> str:
    """Say in one sentence how a method's settings were found.

    >>> row = {"method": "delete", "settings": "{}", "forget": "0", "chosen": "yes"}
    >>> source([row, {**row, "forget": "30"}], "toy")
    'Best validation AUS of 1 candidate for classes 0 and 30 (benchmarks/recipes/toy.csv).'
    """
    tried, forgets = (list(dict.fromkeys(row[key] for row in rows)) for key in ("settings", "forget"))
    candidates = f"{len(tried)} candidate{'s' if len(tried) > 1 else ''}"
    classes = f"classes {', '.join(forgets[:-1])} and {forgets[-1]}" if len(forgets) > 1 else f"class {forgets[0]}"
    return f"Best validation AUS of {candidates} for {classes} (benchmarks/recipes/{name}.csv)."


def rewrite(text: str, method: str, settings: Mapping[str, object], told: str) -> str:
    """Put a method's settings and their source into the text of a recipe, for what it said of the method."""
    without = re.sub(rf"\[methods\.{method}\]\n(?:[^\[\n].*\n)*\n?", "", text)
    without = re.sub(rf'(?m)^{method} = ".*"\n', "", without)
    lines = block(method, dict(settings)).strip()
    body, heading, sources = without.partition("[sources]\n")
    if not heading:
        raise InputError(
            "the recipe has no sources", expected="a table [sources]", do="say there where training is from"
        )
    return f"{body}{lines}\n\n{heading}{sources.rstrip()}\n{method} = {json.dumps(told)}\n"


def write_recipe(path: Path, found: Mapping[str, Sequence[Row]]) -> str:
    """Rewrite a recipe file with what was chosen, if the result is a recipe."""
    text = path.read_text(encoding="utf-8")
    for method, rows in found.items():
        text = rewrite(text, method, chosen(rows), source(rows, path.stem))
    with tempfile.TemporaryDirectory() as scratch:
        trial = Path(scratch) / path.name
        trial.write_text(text, encoding="utf-8")
        recipes.load(str(trial))
    write_atomically(path, text.encode())
    return text


def merge(target: Path, searches: Sequence[Path]) -> None:
    """Write the candidates of all searches into one file, which keeps those of other methods."""
    rows = read_rows([*([target] if target.exists() else []), *searches])
    text = io.StringIO()
    writer = csv.DictWriter(text, COLUMNS, lineterminator="\n")
    writer.writeheader()
    writer.writerows(row for some in rows.values() for row in some)
    write_atomically(target, text.getvalue().encode())


def main() -> None:
    """Merge the searches, rewrite the recipe, print it."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("recipe", type=Path, help="file of the recipe")
    parser.add_argument("searches", type=Path, nargs="+", help="CSV files that benchmarks/recipes.py wrote")
    parser.add_argument("--out", type=Path, required=True, help="folder of NAME.csv, with the candidates of all")
    asked = parser.parse_args()
    print(write_recipe(asked.recipe, read_rows(asked.searches)))
    merge(asked.out / f"{asked.recipe.stem}.csv", asked.searches)


if __name__ == "__main__":
    main()
