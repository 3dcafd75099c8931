"""Images that travel in chunks: small ones, and pixel for pixel the same on the other side."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from PIL import Image

from images import pack, unpack


def made(folder: Path, seed: int) -> dict[str, np.ndarray]:
    """Write noise and smooth images of two sizes and modes, by class."""
    draw, pixels = np.random.default_rng(seed), {}
    for label in ("cat", "dog"):
        for number in range(6):
            shape = (8, 8) if number == 4 else (4, 6, 3) if number == 5 else (8, 8, 3)
            values = draw.integers(0, 256, shape) if number % 2 else np.full(shape, 10 * number)
            pixels[f"train/{label}/{number:04}.png"] = values.astype(np.uint8)
    for name, values in pixels.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(values).save(folder / name)
    return pixels


def test_unpacked_images_have_the_names_and_the_pixels_of_the_packed_ones(tmp_path: Path) -> None:
    pixels = made(tmp_path / "from", seed=0)
    chunks = pack(tmp_path / "from", tmp_path / "chunks")
    assert unpack(chunks, tmp_path / "to") == len(pixels)
    found = sorted(path.relative_to(tmp_path / "to").as_posix() for path in (tmp_path / "to").rglob("*.png"))
    assert found == sorted(pixels)
    for name, values in pixels.items():
        assert np.array_equal(np.asarray(Image.open(tmp_path / "to" / name)), values), name


def test_no_chunk_is_larger_than_the_limit_and_each_unpacks_alone(tmp_path: Path) -> None:
    pixels = made(tmp_path / "from", seed=1)
    chunks = pack(tmp_path / "from", tmp_path / "chunks", limit=2000)
    assert len(chunks) > 1
    assert all(chunk.stat().st_size <= 2000 for chunk in chunks)
    assert sum(unpack([chunk], tmp_path / "to") for chunk in chunks) == len(pixels)


def test_jpeg_files_and_lists_travel_byte_for_byte(tmp_path: Path) -> None:
    source = tmp_path / "from" / "val"
    source.mkdir(parents=True)
    Image.fromarray(np.zeros((8, 8, 3), np.uint8)).save(source / "a.JPEG")
    (source / "labels.txt").write_text("a.JPEG\tn01\n")
    assert unpack(pack(tmp_path / "from", tmp_path / "chunks"), tmp_path / "to") == 2
    for path in source.iterdir():
        assert (tmp_path / "to" / "val" / path.name).read_bytes() == path.read_bytes()
