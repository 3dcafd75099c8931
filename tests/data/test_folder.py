"""Image folders: classes, splits, decoding, and files that are not what they seem."""

import io
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from PIL import Image

from sfra.core.errors import InputError
from sfra.data import ImageSet, Split, decode, load_data, sets
from sfra.release import Preprocess

RNG = np.random.default_rng(0)


def paint(path: Path, pixels: NDArray[Any] | None = None, size: tuple[int, int] = (6, 4)) -> NDArray[Any]:
    """Write an image of random colours, height × width, and return it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    pixels = RNG.integers(0, 256, size=(*size, 3), dtype=np.uint8) if pixels is None else pixels
    Image.fromarray(pixels).save(path)
    return pixels


def load(folder: Path, split: Split = "test") -> ImageSet:
    data = load_data(folder, split=split)
    assert isinstance(data, ImageSet)
    return data


def test_the_sorted_sub_folders_are_the_classes_and_the_pixels_are_exact(tmp_path: Path) -> None:
    painted = [
        paint(tmp_path / name) for name in ("cat/1.png", "cat/2.BMP", "dog/deep/1.ppm", "emu/1.webp", "emu/2.JPEG")
    ]
    (tmp_path / "ant").mkdir()
    (tmp_path / "cat" / "notes.txt").write_text("not an image")
    (tmp_path / "cat" / "._1.png").write_bytes(b"left by another system")
    data = load(tmp_path)
    assert data.class_names == ("ant", "cat", "dog", "emu")
    assert data.labels.tolist() == [1, 1, 2, 3, 3]
    (batch,) = data.batches(10)
    lossless = np.stack(painted[:3]).transpose(0, 3, 1, 2).astype(np.float32) / np.float32(255)
    np.testing.assert_array_equal(batch[:3].numpy(), lossless)


@pytest.mark.parametrize("problem", ["cut", "no image", "a gif"])
def test_an_image_that_cannot_be_decoded_is_named_when_its_turn_comes(tmp_path: Path, problem: str) -> None:
    for i in range(3):
        paint(tmp_path / "a" / f"{i}.png", size=(64, 64))
    gif = io.BytesIO()
    Image.fromarray(RNG.integers(0, 256, size=(6, 4, 3), dtype=np.uint8)).save(gif, "gif")
    whole = (tmp_path / "a" / "2.png").read_bytes()
    content = {"cut": whole[:4000], "no image": b"broken", "a gif": gif.getvalue()}[problem]
    (tmp_path / "a" / "2.png").write_bytes(content)
    batches = load(tmp_path).batches(2)
    assert len(next(batches)) == 2
    with pytest.raises(InputError, match=r"2\.png cannot be decoded\n  expected: a complete image file"):
        next(batches)


def test_splits_share_the_classes_of_all_of_them(tmp_path: Path) -> None:
    for name in ("train/a", "train/b", "train/c", "val/a", "test/c"):
        paint(tmp_path / name / "1.png")
    names = ("a", "b", "c")
    expected: dict[Split, list[int]] = {"train": [0, 1, 2], "validation": [0], "test": [2]}
    for split, labels in expected.items():
        data = load(tmp_path, split)
        assert (data.class_names, data.labels.tolist()) == (names, labels)


def test_a_missing_split_is_not_replaced_by_another(tmp_path: Path) -> None:
    paint(tmp_path / "train" / "a" / "1.png")
    paint(tmp_path / "val" / "a" / "1.png")
    with pytest.raises(InputError, match="has no test split\n  expected: a sub-folder test\n  got:      train, val"):
        load(tmp_path)
    assert len(load(tmp_path / "val")) == 1


def test_a_class_called_test_is_a_class(tmp_path: Path) -> None:
    paint(tmp_path / "test" / "1.png")
    paint(tmp_path / "toast" / "1.png")
    assert load(tmp_path).class_names == ("test", "toast")


def test_grey_images_stay_grey_and_a_colour_among_them_is_named(tmp_path: Path) -> None:
    grey = paint(tmp_path / "a" / "1.png", np.arange(24, dtype=np.uint8).reshape(6, 4))
    batch = next(load(tmp_path).batches(9))
    np.testing.assert_array_equal(batch.numpy(), grey[None, None].astype(np.float32) / np.float32(255))
    paint(tmp_path / "a" / "2.png")
    with pytest.raises(InputError, match=r"2\.png cannot be used\n  expected: grey images .*\n  got: .* mode RGB"):
        list(load(tmp_path).batches(9))


def test_one_class_in_colour_makes_the_set_colour(tmp_path: Path) -> None:
    grey = paint(tmp_path / "a" / "1.png", np.arange(24, dtype=np.uint8).reshape(6, 4))
    paint(tmp_path / "b" / "1.png")
    batch = next(load(tmp_path).batches(9))
    assert batch.shape == (2, 3, 6, 4)
    np.testing.assert_array_equal((batch[0] * 255).round().numpy(), np.stack([grey] * 3))


def test_transparency_and_palettes_are_decoded_to_their_colours(tmp_path: Path) -> None:
    pixels = paint(tmp_path / "a" / "1.png")
    alpha = np.concatenate([pixels, np.full((6, 4, 1), 99, dtype=np.uint8)], axis=2)
    paint(tmp_path / "a" / "2.png", alpha)
    palette = Image.fromarray(pixels).quantize(256)
    palette.save(tmp_path / "a" / "3.png", transparency=bytes(range(24)))
    batch = next(load(tmp_path).batches(9))
    assert torch.equal(batch[1], batch[0])
    assert torch.equal(batch[2], batch[0])


def test_sixteen_bits_are_refused_rather_than_clipped(tmp_path: Path) -> None:
    paint(tmp_path / "a" / "1.png", np.full((6, 4), 40_000, dtype=np.uint16))
    with pytest.raises(InputError, match=r"1\.png cannot be used\n  expected: images of 8 bits"):
        next(load(tmp_path).batches(1))


def test_images_of_different_sizes_need_a_preprocess_that_resizes(tmp_path: Path) -> None:
    sizes = ((8, 8), (8, 8), (16, 16), (8, 8))
    for i, size in enumerate(sizes):
        paint(tmp_path / "a" / f"{i}.png", np.full((*size, 3), 10 * i, dtype=np.uint8))
    for batch_size in (1, 2, 4):
        with pytest.raises(InputError, match=r"differ in size\n  expected: all like the first, \[3, 8, 8\]"):
            list(load(tmp_path).batches(batch_size))
        batch = torch.cat(list(load(tmp_path).batches(batch_size, Preprocess(size=(4, 5)))))
        assert batch.shape == (4, 3, 4, 5)
        levels = torch.tensor([0.0, 10, 20, 30]) / 255
        torch.testing.assert_close(batch, levels[:, None, None, None].expand_as(batch))


def test_an_image_of_too_many_pixels_is_refused_before_it_is_decoded(tmp_path: Path) -> None:
    paint(tmp_path / "a" / "1.png", size=(20, 20))
    content = (tmp_path / "a" / "1.png").read_bytes()
    wide = b"IHDR" + (9000).to_bytes(4, "big") + (9000).to_bytes(4, "big") + content[24:29]
    bomb = content[:12] + wide + zlib.crc32(wide).to_bytes(4, "big") + content[33:]
    (tmp_path / "b").mkdir()
    (tmp_path / "b" / "1.png").write_bytes(bomb)
    with pytest.raises(
        InputError, match=r"1\.png is too large\n  expected: at most 67,108,864.*\n  got:      9,000 x 9,"
    ):
        list(load(tmp_path).batches(2))


@pytest.mark.parametrize("side", [10_000, 20_000])
def test_what_pillow_warns_of_or_refuses_is_too_large_in_our_words(tmp_path: Path, side: int) -> None:
    Image.new("1", (side, side)).save(tmp_path / "1.png")
    with pytest.raises(InputError, match=r"1\.png is too large\n  expected: at most 67,108,864 pixels\n"):
        decode.head_of(tmp_path / "1.png")


def test_large_images_come_fewer_at_a_time_and_are_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for i in range(40):
        paint(tmp_path / "a" / f"{i:02}.png")
    whole = next(load(tmp_path).batches(40))
    assert len(whole) == 40
    monkeypatch.setattr(decode, "PIECE", 1000)
    prepared = next(load(tmp_path).batches(40, Preprocess(size=(2, 2))))
    assert torch.equal(prepared, Preprocess(size=(2, 2))(whole))
    assert [len(piece) for piece in load(tmp_path).pixels.pieces(3, 40)] == [14, 14, 9]
    monkeypatch.setattr(sets, "LARGEST", whole[:20].nbytes)
    parts = list(load(tmp_path).batches(40))
    assert [len(part) for part in parts] == [20, 20]
    assert torch.equal(torch.cat(parts), whole)


def test_a_folder_without_classes_or_images_is_refused(tmp_path: Path) -> None:
    paint(tmp_path / "1.png")
    with pytest.raises(InputError, match="is not an image folder\n  expected: one sub-folder per class"):
        load(tmp_path)
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "1.gif").write_bytes(b"")
    with pytest.raises(InputError, match=r"hold no images\n  expected: files ending in \.png"):
        load(tmp_path)


def test_the_fingerprint_follows_the_bytes_of_the_files_not_their_dates_or_place(tmp_path: Path) -> None:
    for folder in ("x", "y"):
        paint(tmp_path / folder / "a" / "1.png", np.full((4, 4, 3), 7, dtype=np.uint8))
        paint(tmp_path / folder / "b" / "1.png", np.full((4, 4, 3), 8, dtype=np.uint8))
    base = load(tmp_path / "x").fingerprint
    assert load(tmp_path / "y").fingerprint == base
    paint(tmp_path / "y" / "b" / "1.png", np.full((4, 4, 3), 9, dtype=np.uint8))
    assert load(tmp_path / "y").fingerprint != base
