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
from contextlib import ExitStack
from itertools import chain, groupby
from pathlib import Path

from PIL import Image

SIDE = 32
"""Images in a row of a mosaic, and rows."""
LOSSLESS = (".png", ".bmp")
LIMIT = 48
"""MiB of a chunk."""
PARTS = 64
"""Of a chunk, unpacked side by side."""

Member = tuple[str, bytes]
"""A file of an archive: its name and content."""


def pack(folder: Path, out: Path, *, limit: int = LIMIT * 2**20) -> list[Path]:
    """Write chunks of at most ``limit`` bytes; return them in order."""
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    images = [path for path in files if path.suffix.lower() in LOSSLESS]
    folders = [list(same) for _, same in groupby(images, key=lambda path: path.parent)]
    jobs = [(folder, same[i : i + SIDE * SIDE]) for same in folders for i in range(0, len(same), SIDE * SIDE)]
    others = ((f"files/{path.relative_to(folder)}", path.read_bytes()) for path in sorted(set(files) - set(images)))
    out.mkdir(parents=True, exist_ok=True)
    with ProcessPoolExecutor() as pool:
        return list(_chunks(chain(chain.from_iterable(pool.map(_mosaics, jobs)), others), out, limit))


def unpack(chunks: Iterable[Path], folder: Path) -> int:
    """Write the images of some chunks into a folder; return how many files there are."""
    jobs: list[tuple[Path, list[str], Path]] = []
    for chunk in chunks:
        with zipfile.ZipFile(chunk) as archive:
            names = archive.namelist()
        jobs += [(chunk, part, folder) for start in range(PARTS) if (part := names[start::PARTS])]
    with ProcessPoolExecutor() as pool:
        return sum(pool.map(_unpack, jobs))


def _chunks(members: Iterable[Member], out: Path, limit: int) -> Iterator[Path]:
    """Fill one archive after another; the bytes are compressed already."""
    with ExitStack() as stack:
        size, number = limit, 0
        for name, content in members:
            more = len(content) + 2 * len(name.encode()) + 256
            if size + more > limit:
                stack.close()
                path = out / f"{number:02}.zip"
                archive, size, number = stack.enter_context(zipfile.ZipFile(path, "w")), 256, number + 1
                yield path
            archive.writestr(zipfile.ZipInfo(name), content)
            size += more


def _mosaics(job: tuple[Path, list[Path]]) -> list[Member]:
    """Put images of one folder side by side, those of one size and mode together; their names travel inside."""
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
        mosaic = Image.new("RGB", (SIDE * width, -(-len(some) // SIDE) * height))
        for place, (_, image) in enumerate(some):
            mosaic.paste(image.convert("RGB"), (place % SIDE * width, place // SIDE * height))
        names = [name for name, _ in some]
        told = json.dumps({"mode": mode, "size": [width, height], "names": names})
        buffer = io.BytesIO()
        mosaic.save(buffer, "WEBP", lossless=True, quality=100, method=4, xmp=told.encode())
        members.append((f"mosaics/{names[0]}.webp", buffer.getvalue()))
    return members


def _unpack(job: tuple[Path, list[str], Path]) -> int:
    """Write a part of a chunk, which is opened once for all of it: that alone takes a while for many files."""
    chunk, names, folder = job
    with zipfile.ZipFile(chunk) as archive:
        return sum(_write(name, archive.read(name), folder) for name in names)


def _write(name: str, content: bytes, folder: Path) -> int:
    """Write the images of a mosaic, or a file that travelled as it is; return how many."""
    kind, _, rest = name.partition("/")
    if kind == "files":
        (folder / rest).parent.mkdir(parents=True, exist_ok=True)
        (folder / rest).write_bytes(content)
        return 1
    opened = Image.open(io.BytesIO(content))
    mosaic, told = opened.convert("RGB"), json.loads(opened.info["xmp"])
    width, height = told["size"]
    for place, image in enumerate(told["names"]):
        left, top = place % SIDE * width, place // SIDE * height
        target = (folder / image).with_suffix(".png")
        target.parent.mkdir(parents=True, exist_ok=True)
        mosaic.crop((left, top, left + width, top + height)).convert(told["mode"]).save(target, compress_level=1)
    return len(told["names"])


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
