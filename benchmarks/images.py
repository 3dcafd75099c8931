"""Carry a folder of images to another machine in few, small files.

    python benchmarks/images.py pack data/cifar10 --out chunks                 # chunks/00.zip, 01.zip, …
    python benchmarks/images.py unpack chunks/*.zip --out data/cifar10         # there, chunk by chunk or all at once

A folder of images without loss (PNG, BMP) becomes mosaics of up to 1,024 equally large images, as WebP without loss;
unpacked, they are PNG files under the old names, pixel for pixel the same. Files of other kinds (JPEG, lists of labels)
travel as they are, byte for byte.
"""

from __future__ import annotations

import argparse
import io
import json
import zipfile
from collections.abc import Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor
from itertools import chain, groupby
from pathlib import Path

from PIL import Image

SIDE = 32
"""Images in a row of a mosaic, and rows."""
LOSSLESS = (".png", ".bmp")
LIMIT = 48
"""MiB of a chunk."""

Members = list[tuple[str, bytes]]
"""Files that belong together, by name."""


def pack(folder: Path, out: Path, *, limit: int = LIMIT * 2**20) -> list[Path]:
    """Write chunks of at most ``limit`` bytes; return them in order."""
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    images = [path for path in files if path.suffix.lower() in LOSSLESS]
    folders = [list(same) for _, same in groupby(images, key=lambda path: path.parent)]
    jobs = [(folder, same[i : i + SIDE * SIDE]) for same in folders for i in range(0, len(same), SIDE * SIDE)]
    others = ([(f"files/{path.relative_to(folder)}", path.read_bytes())] for path in sorted(set(files) - set(images)))
    out.mkdir(parents=True, exist_ok=True)
    with ProcessPoolExecutor() as pool:
        return list(_chunks(chain((pair for some in pool.map(_mosaics, jobs) for pair in some), others), out, limit))


def unpack(chunks: Iterable[Path], folder: Path) -> int:
    """Write the images of some chunks into a folder; return how many files there are."""
    jobs: list[tuple[Path, str, Path]] = []
    for chunk in chunks:
        with zipfile.ZipFile(chunk) as archive:
            jobs += [(chunk, one, folder) for one in ("", *archive.namelist()) if not one or one.endswith(".webp")]
    with ProcessPoolExecutor() as pool:
        return sum(pool.map(_unpack, jobs))


def _chunks(groups: Iterable[Members], out: Path, limit: int) -> Iterator[Path]:
    """Fill one archive after another, what belongs together into one; the bytes are compressed already."""
    archive, size, number = None, 0, 0
    for group in groups:
        more = sum(len(content) + 2 * len(name.encode()) + 256 for name, content in group)
        if archive is None or size + more > limit:
            if archive is not None:
                archive.close()
            path = out / f"{number:02}.zip"
            archive, size, number = zipfile.ZipFile(path, "w"), 256, number + 1
            yield path
        for name, content in group:
            archive.writestr(zipfile.ZipInfo(name), content)
        size += more
    if archive is not None:
        archive.close()


def _mosaics(job: tuple[Path, list[Path]]) -> list[Members]:
    """Put images of one folder side by side, those of one size and mode together, and list their names."""
    folder, files = job
    found: dict[tuple[str, tuple[int, int]], list[tuple[str, Image.Image]]] = {}
    for path in files:
        image: Image.Image = Image.open(path)
        image.load()
        if image.mode not in ("RGB", "L"):
            raise SystemExit(f"{path} has mode {image.mode}: only RGB and L travel without loss")
        found.setdefault((image.mode, image.size), []).append((path.relative_to(folder).as_posix(), image))
    members = []
    for (mode, (width, height)), some in found.items():
        rows = -(-len(some) // SIDE)
        mosaic = Image.new("RGB", (SIDE * width, rows * height))
        for place, (_, image) in enumerate(some):
            mosaic.paste(image.convert("RGB"), (place % SIDE * width, place // SIDE * height))
        buffer = io.BytesIO()
        mosaic.save(buffer, "WEBP", lossless=True, quality=100, method=4)
        names = [name for name, _ in some]
        told = {"mode": mode, "size": [width, height], "names": names}
        start = f"mosaics/{names[0]}"
        members.append([(f"{start}.webp", buffer.getvalue()), (f"{start}.json", json.dumps(told).encode())])
    return members


def _unpack(job: tuple[Path, str, Path]) -> int:
    """Write the images of a mosaic or, without a name, all files of a chunk that travel as they are."""
    chunk, name, folder = job
    with zipfile.ZipFile(chunk) as archive:
        if not name:
            return sum(_write(folder, one, archive.read(one)) for one in archive.namelist() if one.startswith("files/"))
        content, told = archive.read(name), json.loads(archive.read(name.removesuffix(".webp") + ".json"))
    mosaic, (width, height) = Image.open(io.BytesIO(content)).convert("RGB"), told["size"]
    for place, image in enumerate(told["names"]):
        left, top = place % SIDE * width, place // SIDE * height
        target = (folder / image).with_suffix(".png")
        target.parent.mkdir(parents=True, exist_ok=True)
        mosaic.crop((left, top, left + width, top + height)).convert(told["mode"]).save(target, compress_level=1)
    return len(told["names"])


def _write(folder: Path, name: str, content: bytes) -> int:
    target = folder / name.removeprefix("files/")
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_bytes(content)
    return 1


def main() -> None:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(required=True, dest="command")
    packing, unpacking = commands.add_parser("pack"), commands.add_parser("unpack")
    packing.add_argument("folder", type=Path)
    packing.add_argument("--limit", type=int, default=LIMIT, help=f"MiB of a chunk ({LIMIT})")
    unpacking.add_argument("chunks", type=Path, nargs="+")
    for command in (packing, unpacking):
        command.add_argument("--out", type=Path, required=True)
    asked = parser.parse_args()
    if asked.command == "pack":
        for chunk in pack(asked.folder, asked.out, limit=asked.limit * 2**20):
            print(f"{chunk}: {chunk.stat().st_size / 2**20:.1f} MiB")
    else:
        print(f"{asked.out}: {unpack(asked.chunks, asked.out)} files")


if __name__ == "__main__":
    main()
