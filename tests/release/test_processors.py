"""Images are prepared as transformers' image processors do; what cannot be repeated is refused by name."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch

from preprocessing import FILES, compare, table
from sfra.core.errors import InputError
from sfra.release import Preprocess
from sfra.release.directory import read_preprocess
from sfra.release.processors import FAMILIES, MODELS, SPECIAL, preprocess_from

VIT = {
    "do_normalize": True,
    "do_rescale": True,
    "do_resize": True,
    "image_mean": [0.5, 0.4, 0.3],
    "image_std": [0.5, 0.25, 0.2],
    "resample": 2,
    "rescale_factor": 1 / 255,
    "size": {"height": 6, "width": 4},
}
MEAN, STD = (torch.tensor(VIT[key]).reshape(3, 1, 1) for key in ("image_mean", "image_std"))
NUMBERS: dict[str, Any] = {"mean": (0.5, 0.4, 0.3), "std": (0.5, 0.25, 0.2)}


def pixels(*shape: int) -> torch.Tensor:
    return torch.randint(0, 256, shape, dtype=torch.uint8, generator=torch.Generator().manual_seed(0))


@pytest.mark.parametrize("family", FILES)
def test_pixels_are_those_of_the_image_processor_of_transformers(family: str) -> None:
    pytest.importorskip("transformers")
    found = compare(family, FILES[family])
    assert found.value < 1e-6
    assert found.pixel < 1e-4


@pytest.mark.parametrize("family", FAMILIES)
def test_a_file_that_names_only_its_processor_has_the_defaults_of_the_family(family: str) -> None:
    transformers = pytest.importorskip("transformers")
    assert hasattr(transformers, f"{family}ImageProcessorPil")
    assert compare(family, {"image_processor_type": f"{family}ImageProcessor"}).value < 1e-6


def test_the_processor_of_a_model_is_the_one_that_transformers_knows() -> None:
    auto = pytest.importorskip("transformers.models.auto.image_processing_auto")
    known = auto.IMAGE_PROCESSOR_MAPPING_NAMES
    assert {model: known[model]["pil"] for model in MODELS} == {
        model: f"{family}ImageProcessorPil" for model, family in MODELS.items()
    }


def test_the_table_names_every_family() -> None:
    rows = [compare(family, FILES[family]) for family in ("ViT", "MobileViT")]
    assert len([*table(rows)]) == 4


@pytest.mark.parametrize("suffix", ["ImageProcessor", "ImageProcessorFast", "ImageProcessorPil", "FeatureExtractor"])
def test_old_and_new_names_of_a_processor_mean_the_same(suffix: str) -> None:
    assert preprocess_from({"feature_extractor_type": f"DeiT{suffix}"}) == preprocess_from({}, "deit")


def test_a_rescale_factor_is_part_of_the_normalisation() -> None:
    images = pixels(1, 3, 6, 4)
    efficientnet = {**VIT, "image_processor_type": "EfficientNetImageProcessor", "include_top": False}
    odd = preprocess_from({**efficientnet, "rescale_factor": 1 / 127.5, "rescale_offset": True})
    raw = preprocess_from({**VIT, "do_rescale": False, "do_normalize": False})
    torch.testing.assert_close(odd(images), (images / 127.5 - 1 - MEAN) / STD, rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(raw(images), images.float())


@pytest.mark.parametrize(
    ("size", "expected"),
    [
        ({"height": 6, "width": 4}, {"size": (6, 4)}),
        ([6, 4], {"size": (6, 4)}),
        (8, {"size": (8, 8)}),
        ({"shortest_edge": 8}, {"resize": 8}),
        ({"shortest_edge": 8, "longest_edge": 12}, {"resize": 8, "longest": 12}),
    ],
)
def test_every_form_of_a_size_is_understood(size: Any, expected: dict[str, Any]) -> None:
    assert preprocess_from({**VIT, "size": size}) == Preprocess(**expected, **NUMBERS)


def test_a_single_number_is_the_shorter_side_where_the_processor_keeps_the_shape() -> None:
    assert preprocess_from({"image_processor_type": "CLIPImageProcessor", "size": 8}).resize == 8
    assert preprocess_from({"image_processor_type": "ViTImageProcessor", "size": 8}).size == (8, 8)


def test_a_file_without_size_resizes_nothing() -> None:
    assert preprocess_from({"image_mean": [0.5]}) == Preprocess(mean=(0.5,))
    assert preprocess_from({**VIT, "do_resize": False}) == Preprocess(**NUMBERS)


@pytest.mark.parametrize("field", ["do_thumbnail", "do_pad", "size_divisor", "use_square_size", "my_own_thing"])
def test_a_field_that_is_not_known_is_refused_by_name_unless_it_is_off(field: str) -> None:
    with pytest.raises(InputError, match=rf"(?s)not done here: {field}.*{field}: True.*--size"):
        preprocess_from({**VIT, field: True})
    assert preprocess_from({**VIT, field: False}) == preprocess_from({**VIT, field: None}) == preprocess_from(VIT)


@pytest.mark.parametrize("field", sorted(SPECIAL))
def test_a_field_of_one_family_is_refused_where_the_family_is_not_named_and_disregarded_in_another(field: str) -> None:
    with pytest.raises(InputError, match=f"not done here: {field}"):
        preprocess_from({**VIT, field: 1})
    assert preprocess_from({**VIT, field: 1}, "vit") == preprocess_from(VIT, "vit")


@pytest.mark.parametrize("name", ["PerceiverImageProcessor", "TextNetImageProcessorFast", "ImageGPTFeatureExtractor"])
def test_a_processor_that_is_not_known_is_refused_by_name(name: str) -> None:
    with pytest.raises(InputError, match=rf"(?s)not known here.*ViTImageProcessor.*got: +{name}"):
        preprocess_from({**VIT, "image_processor_type": name})


@pytest.mark.parametrize(
    "change",
    [
        {"size": {"height": "tall", "width": 3}},
        {"size": [1]},
        {"size": {"depth": 3}},
        {"size": {"longest_edge": 3}},
        {"size": {"max_height": 3, "max_width": 3}},
        {"image_mean": "grey"},
        {"rescale_factor": 0},
        {"resample": 9},
        {"do_center_crop": True},
    ],
)
def test_odd_settings_are_refused_by_file(change: dict[str, Any]) -> None:
    with pytest.raises(InputError, match=r"preprocessor_config\.json cannot be used"):
        preprocess_from({**VIT, **change})


def test_convnext_takes_no_second_crop_and_no_other_size() -> None:
    convnext = {"image_processor_type": "ConvNextImageProcessor", "size": {"shortest_edge": 8}, "crop_size": 6}
    for change in ({"do_center_crop": True}, {"size": {"height": 8, "width": 8}}):
        with pytest.raises(InputError, match="cannot be used"):
            preprocess_from({**convnext, **change})


def test_a_processor_of_images_and_text_holds_that_of_the_images(tmp_path: Path) -> None:
    assert read_preprocess(tmp_path, {"model_type": "clip"}) is None
    (tmp_path / "preprocessor_config.json").write_text(json.dumps({"size": 30}))
    assert read_preprocess(tmp_path, {"model_type": "clip"}) == preprocess_from({"size": 30}, "clip")
    (tmp_path / "processor_config.json").write_text(json.dumps({"processor_class": "CLIPProcessor"}))
    assert read_preprocess(tmp_path, {"model_type": "clip"}) == preprocess_from({"size": 30}, "clip")
    (tmp_path / "processor_config.json").write_text(json.dumps({"image_processor": VIT}))
    assert read_preprocess(tmp_path, {"model_type": "vit"}) == preprocess_from(VIT, "vit")
