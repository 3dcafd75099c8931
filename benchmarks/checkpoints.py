"""Make checkpoints as people have them, load each, and write down what came of it: ``docs/checkpoints.md``.

    python benchmarks/checkpoints.py                      # the table of checkpoints that are made on the spot
    python benchmarks/checkpoints.py --others             # and of what other packages write (PEFT, torchao, ...)
    python benchmarks/checkpoints.py --packages FOLDER    # and of files in packages: FOLDER/NAME-VERSION-.../...

Loaded means that ``head(encoder(x))`` was compared with the logits of the network before it was saved. Refused means
one message with a way out. The tests run the same cases.
"""

from __future__ import annotations

import argparse
import re
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path

import torch

from checkpoint_cases import CASES, Case, Made
from checkpoint_cases.others import OTHERS
from sfra.core.errors import SfraError
from sfra.core.files import write_text
from sfra.release import Release, load

PAGE = Path(__file__).parents[1] / "docs" / "checkpoints.md"
SUFFIXES = (".onnx", ".pt", ".pth", ".bin", ".ckpt", ".safetensors", ".jit", ".tflite", ".pb", ".h5", ".hdf5", ".npz")
SUFFIXES += (".pkl", ".pickle", ".mlmodel", ".dat", ".ftz")
GROUPS = (
    "state dict, with `--arch`",
    "head, with features",
    "Hugging Face directory",
    "ONNX",
    "`nn.Module` in memory",
    "not read",
)
"""The order of the table."""
LEAST = 100_000
"""Smaller files in packages are not models."""


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """What came of a checkpoint."""

    loaded: bool
    text: str
    """What it was loaded as, or the message and its way out."""
    difference: float | None = None
    """Largest difference of a logit, where it was compared."""


def outcome(made: Made) -> Outcome:
    """Load a checkpoint and compare its logits with those of the network, or return the refusal."""
    try:
        release = load(made.source, **made.options)
    except SfraError as problem:
        return refusal(problem)
    assert made.logits is not None, f"{release} was to be refused"
    inputs = torch.randn(5, *made.shape, generator=torch.Generator().manual_seed(1))
    with torch.no_grad():
        expected = made.logits(inputs)
    found = release.head(inputs if release.encoder is None else release.encoder(inputs))
    return Outcome(loaded=True, text=described(release), difference=float((found - expected).abs().max()))


def described(release: Release) -> str:
    """Say what a release is."""
    alone = "a head alone: " if release.encoder is None else ""
    return f"{alone}{release.head.classes} outputs, {release.head.width} features"


def refusal(problem: SfraError) -> Outcome:
    """Take the first line of a message, and what to do: or else what was expected."""
    parts = dict(re.findall(r"^  (expected|got|do): +(.*)$", str(problem), flags=re.MULTILINE))
    way = parts.get("do") or f"expected {parts.get('expected', 'something else')}"
    got = f" ({parts['got']})" if len(parts.get("got", "")) < 80 and "got" in parts else ""
    return Outcome(loaded=False, text=f"{problem.what}{got}. To do: {way}")


def case_rows(cases: Iterable[tuple[str, Case]]) -> Iterator[tuple[str, ...]]:
    """Make each case in a folder of its own, and yield a row for it."""
    for name, case in cases:
        with tempfile.TemporaryDirectory() as folder:
            found = outcome(case.make(made_folder(Path(folder))))
        size = "" if found.difference is None else f"{found.difference:.0e}"
        yield case.group, name, "loaded" if found.loaded else "refused", size, found.text


def made_folder(parent: Path) -> Path:
    """Make the folder that a case writes to; some messages name it."""
    (parent / "model").mkdir()
    return parent / "model"


def package_rows(folder: Path) -> Iterator[tuple[str, ...]]:
    """Load every model inside unpacked packages, and yield a row for all of which the same came."""
    names: dict[tuple[str, str, str], set[str]] = {}
    for file in sorted(folder.rglob("*")):
        if file.suffix in SUFFIXES and file.is_file() and file.stat().st_size >= LEAST:
            package, version = file.relative_to(folder).parts[0].split("-")[:2]
            try:
                found = Outcome(loaded=True, text=described(load(file)))
            except SfraError as problem:
                found = refusal(problem)
            text = found.text.replace(file.name, "this file").replace(str(folder), "FOLDER")
            names.setdefault((f"{package} {version}", "loaded" if found.loaded else "refused", text), set()).add(
                file.name
            )
    for (package, result, text), some in names.items():
        yield package, ", ".join(f"`{name}`" for name in sorted(some)), result, text


def table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Write a Markdown table, and print each row as it comes."""
    lines = [f"| {' | '.join(header)} |", f"|{'---|' * len(header)}"]
    for row in rows:
        print(*row, sep=" | ", flush=True)
        lines.append(" | ".join(["", *(cell.replace("|", r"\|") for cell in row), ""]).strip())
    return "\n".join(lines)


def put(page: str, label: str, text: str) -> str:
    """Replace what stands between the marks of a table."""
    block = re.compile(rf"(<!-- table: {label} -->\n).*?(<!-- end -->)", flags=re.DOTALL)
    assert block.search(page), label
    return block.sub(lambda found: f"{found[1]}{text}\n{found[2]}", page)


def main() -> None:
    """Write the tables of the page."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--packages", type=Path, help="folder of unpacked wheels, called NAME-VERSION-...")
    parser.add_argument("--others", action="store_true", help="and what other packages write; all must be installed")
    asked = parser.parse_args()
    page = PAGE.read_text(encoding="utf-8")
    header = ("what", "checkpoint", "outcome", "largest difference", "as what, or why not and the way out")
    made = case_rows(sorted(CASES.items(), key=lambda item: GROUPS.index(item[1].group)))
    page = put(page, "made", table(header, made))
    if asked.others:
        others = ((f"{name} {version(name.replace('.', '-'))}", *row) for name, *row in case_rows(OTHERS.items()))
        page = put(page, "others", table(("package", *header[1:]), others))
    if asked.packages is not None:
        found = list(package_rows(asked.packages))
        if not found:
            parser.error(f"no model in {asked.packages}: wheels must be unpacked first")
        page = put(page, "packages", table(("package", "file", "outcome", header[-1]), found))
    write_text(PAGE, page)


if __name__ == "__main__":
    main()
