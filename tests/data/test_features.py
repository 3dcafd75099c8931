"""Feature extraction: the same as a direct forward pass, computed once, and again when anything changes."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest
import torch
from safetensors.torch import load as load_safetensors
from safetensors.torch import save as save_safetensors
from torch import Tensor, nn

from sfra.core.errors import InputError
from sfra.data import ArrayPixels, ImageSet, Transform, extract_features, load_data
from sfra.data.cache import cache_folder
from sfra.models import backbones
from sfra.release import Preprocess


class Counted:
    """An encoder that counts the images it was given."""

    def __init__(self, scale: float = 1.0) -> None:
        self.scale, self.images = scale, 0

    def __call__(self, images: Tensor) -> Tensor:
        self.images += len(images)
        return images.flatten(1) * self.scale


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("SFRA_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache" / "features"


def some_images(seed: int = 0, n: int = 7) -> ImageSet:
    pixels = torch.randint(256, (n, 3, 4, 4), dtype=torch.uint8, generator=torch.Generator().manual_seed(seed))
    names = ("a", "b", "c")
    return ImageSet(pixels=ArrayPixels(pixels.numpy()), labels=torch.arange(n) % 3, class_names=names, source="some")


def extract(encoder: Counted, images: ImageSet, *, model: str = "m", preprocess: Transform | None = None) -> Tensor:
    return extract_features(encoder, images, model_fingerprint=model, preprocess=preprocess).features


@pytest.mark.parametrize("batch_size", [64, 1024])
def test_extraction_equals_a_direct_forward_pass(batch_size: int) -> None:
    model = backbones.build("small-cnn", classes=10, seed=0).eval()
    digits = load_data("digits")
    assert isinstance(digits, ImageSet)
    encoder = model.get_submodule("encoder")
    found = extract_features(encoder, digits, model_fingerprint="m", batch_size=batch_size)
    with torch.no_grad():
        direct = encoder(next(digits.batches(len(digits))))
    torch.testing.assert_close(found.features, direct)
    assert not found.features.requires_grad
    assert torch.equal(found.labels, digits.labels)
    assert (found.class_names, found.source) == (digits.class_names, digits.source)


def test_features_are_kept_and_other_weights_images_labels_or_preprocessing_are_encoded_anew() -> None:
    encoder, base = Counted(), some_images()
    first = extract(encoder, base)
    assert torch.equal(extract(encoder, some_images()), first)
    assert encoder.images == 7
    extract(encoder, base, model="other")
    extract(encoder, some_images(seed=1))
    extract(encoder, ImageSet(pixels=base.pixels, labels=base.labels.flip(0)))
    extract(encoder, base, preprocess=Preprocess(size=(2, 2)))
    extract(encoder, base, preprocess=Preprocess(size=(2, 3)))
    extract(encoder, base, preprocess=Preprocess(size=(2, 3)))
    assert encoder.images == 6 * 7


def test_only_a_preprocessing_that_can_be_told_from_others_is_cached(cache: Path) -> None:
    @dataclass(frozen=True)
    class Shift:
        by: Tensor

        def __call__(self, images: Tensor) -> Tensor:
            return images + self.by

    encoder = Counted()
    unnamed: list[Transform] = [lambda images: images + 1, Shift(torch.ones(1)), nn.Identity()]
    for preprocess in unnamed:
        extract(encoder, some_images(), preprocess=preprocess)
    assert encoder.images == 3 * 7
    assert not cache.exists()
    named = nn.Identity()
    named.fingerprint = "one"  # type: ignore[assignment]
    for _ in range(2):
        extract(encoder, some_images(), preprocess=named)
    assert encoder.images == 4 * 7


def test_the_cache_can_be_left_out(cache: Path) -> None:
    encoder = Counted()
    for _ in range(2):
        extract_features(encoder, some_images(), model_fingerprint="m", cache=False)
    assert encoder.images == 2 * 7
    assert not cache.exists()


def altered(change: Callable[[Tensor], Tensor]) -> Callable[[bytes], bytes]:
    """Write other features under the same checksum."""

    def write(whole: bytes) -> bytes:
        arrays = load_safetensors(whole)
        return save_safetensors(arrays | {"features": change(arrays["features"])})

    return write


@pytest.mark.parametrize(
    "damage",
    [
        lambda whole: b"",
        lambda whole: b"garbage",
        lambda whole: whole[:-5],
        altered(lambda features: features[:, :5].clone()),
        altered(lambda features: features + 1e-6),
        altered(lambda features: features.flip(0)),
        altered(lambda features: features.half()),
        altered(lambda features: features[0]),
    ],
    ids=["empty", "garbage", "cut", "narrower", "other numbers", "another order", "another kind", "one row"],
)
def test_cached_features_that_were_changed_are_made_again(cache: Path, damage: Callable[[bytes], bytes]) -> None:
    encoder = Counted()
    first = extract(encoder, some_images())
    (stored,) = cache.iterdir()
    whole = stored.read_bytes()
    stored.write_bytes(damage(whole))
    assert torch.equal(extract(encoder, some_images()), first)
    assert encoder.images == 2 * 7
    assert stored.read_bytes() == whole


@pytest.mark.parametrize(("model", "n"), [("other", 7), ("m", 5)], ids=["another model", "other samples"])
def test_cached_features_of_something_else_are_made_again(cache: Path, model: str, n: int) -> None:
    first = extract(Counted(), some_images())
    (own,) = cache.iterdir()
    extract(Counted(scale=2.0), some_images(n=n), model=model)
    (other,) = set(cache.iterdir()) - {own}
    own.write_bytes(other.read_bytes())
    assert torch.equal(extract(Counted(), some_images()), first)


def test_a_cache_folder_that_cannot_be_made_is_no_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_text("in the way")
    monkeypatch.setenv("SFRA_CACHE", str(tmp_path / "file"))
    assert extract(Counted(), some_images()).shape == (7, 48)


def test_the_cache_is_in_the_users_cache_folder_by_default(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SFRA_CACHE")
    monkeypatch.setenv("XDG_CACHE_HOME", "/somewhere")
    assert cache_folder() == Path("/somewhere/sfra")
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setenv("HOME", "/home/someone")
    assert cache_folder() == Path("/home/someone/.cache/sfra")


def test_progress_counts_the_samples_and_ends_at_the_total() -> None:
    calls: list[tuple[int, int]] = []
    for _ in range(2):
        extract_features(
            Counted(),
            some_images(),
            model_fingerprint="m",
            batch_size=3,
            progress=lambda step, done, total: calls.append((done, total)),
        )
    assert calls == [(3, 7), (6, 7), (7, 7), (7, 7)]


def test_large_images_reach_the_encoder_a_few_at_a_time() -> None:
    seen: list[int] = []

    def encoder(images: Tensor) -> Tensor:
        seen.append(len(images))
        return images.mean(dim=(2, 3))

    def enlarge(images: Tensor) -> Tensor:
        return images.repeat_interleave(512, dim=2).repeat_interleave(512, dim=3)

    found = extract_features(encoder, some_images(), model_fingerprint="m", preprocess=enlarge, cache=False)
    assert seen == [1] * 7  # 48 MiB each
    torch.testing.assert_close(found.features, next(some_images().batches(7)).mean(dim=(2, 3)))


def test_an_encoder_in_training_mode_is_refused() -> None:
    with pytest.raises(InputError, match=r"training mode(\n.*)*call \.eval\(\)"):
        extract_features(nn.Sequential(nn.Flatten(), nn.Dropout()), some_images(), model_fingerprint="m")


def test_what_is_not_one_row_per_image_is_refused() -> None:
    with pytest.raises(
        InputError, match=r"expected: shape \[7, d\] for a batch of 7 images\n  got:      \[7, 3, 4, 4\]"
    ):
        extract_features(lambda images: images, some_images(), model_fingerprint="m")


def test_features_that_are_not_finite_are_refused_and_not_cached(cache: Path) -> None:
    with pytest.raises(InputError, match="the features of some are not finite"):
        extract(Counted(scale=float("nan")), some_images())
    assert not cache.exists()
