"""What an audit is about: classes by name, features from images, and what is refused before any work."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest
import torch
from torch import Tensor

from builders.audits import FORGET, C, D, hidden, knowing
from sfra.auditing.audit import audit
from sfra.auditing.config import AuditConfig
from sfra.auditing.examine import examine
from sfra.auditing.inputs import (
    Beside,
    check_distinct,
    known_names,
    load_parts,
    open_subject,
    own_parts,
    resolve_forget,
    shared,
)
from sfra.auditing.naming import forget_classes
from sfra.auditing.subject import Subject
from sfra.core.errors import InputError
from sfra.data import FeatureSet, ImageSet, load_data
from sfra.data.noise import noise_images
from sfra.release import Preprocess, Release

EARLIER = audit(hidden().head, FORGET, n=100, m=10, epochs=1, threads=1)
NAMES = ("cat, tabby", "dog", "3", "tabby, brown", "ox")


@pytest.mark.parametrize(
    ("forget", "found"),
    [
        (3, (3,)),
        ("dog", (1,)),
        ("cat", (0,)),
        ("brown", (3,)),
        ("3", (2,)),  # a name wins over an index
        (" 4 ", (4,)),
        ("-1", (-1,)),  # refused later, with the range of classes
        (["ox", 0, "dog"], (0, 1, 4)),
        ((2, 2, "3"), (2,)),
        (np.array([4, 1]), (1, 4)),
        (torch.tensor([2, 0]), (0, 2)),
    ],
)
def test_forget_classes_are_found_by_name_or_index(forget: Any, found: tuple[int, ...]) -> None:
    assert forget_classes(forget, NAMES) == found


@pytest.mark.parametrize(
    ("forget", "names", "message"),
    [
        ("cow", NAMES, "there is no class named 'cow'"),
        ("gote", ("goat", "ox, cow", "pig"), r"(?s)one of goat; ox, cow; pig.*write goat, if you mean that"),
        ("tabby", NAMES, "several classes are named 'tabby'"),
        ("cow", None, "there is no class named 'cow'"),
    ],
)
def test_a_class_that_cannot_be_found_is_refused(forget: str, names: Any, message: str) -> None:
    with pytest.raises(InputError, match=message):
        forget_classes(forget, names)


@pytest.mark.parametrize("odd", ["²", "3.5", ""])
def test_what_only_looks_like_an_index_is_a_name(odd: str) -> None:
    with pytest.raises(InputError, match="there is no class named"):
        forget_classes(odd, None)


def release(**parts: Any) -> Release:
    return Release(**({"head": knowing().head, "encoder": None, "source": "a toy", "fingerprint": "0"} | parts))


def named(names: tuple[str, ...] | None) -> FeatureSet:
    data = knowing().data
    labels = data.labels if names is None else data.labels % len(names)
    return FeatureSet(features=data.features, labels=labels, class_names=names)


def test_names_are_those_of_the_release_unless_it_lost_rows_and_names_with_them() -> None:
    own, others = tuple("abcdef"), tuple("uvwxyz")
    assert known_names(release(class_names=own), named(others), missing=False) == own
    assert known_names(release(), named(others), missing=False) == others
    assert known_names(release(class_names=own[:5]), named(others), missing=True) == others
    assert known_names(release(class_names=own[:5]), None, missing=True) is None
    assert known_names(release(), named(None), missing=False) is None


@pytest.mark.parametrize(
    ("reference", "found"),
    [
        ("other.pt", True),
        (Path("other.safetensors"), True),
        ("other.ckpt", True),
        ("head.npz", False),
        ("audit.json", False),
        (knowing().head, False),
    ],
)
def test_the_architecture_is_shared_with_a_reference_that_is_a_state_dict(reference: object, found: bool) -> None:
    named = {"arch": "resnet18", "key": "ema"}
    assert shared(reference, named) == (named if found else {})


def test_a_reference_that_is_a_bare_state_dict_does_without_the_key(tmp_path: Path) -> None:
    weights = torch.nn.Linear(3, 4).state_dict()
    torch.save(weights, tmp_path / "bare.pt")
    torch.save({"model": weights, "ema": weights}, tmp_path / "both.pt")
    torch.save({f"ema.{name}": tensor for name, tensor in weights.items()}, tmp_path / "prefixed.pt")
    found = {path.stem: shared(path, {"arch": None, "key": "ema"})["key"] for path in tmp_path.iterdir()}
    assert found == {"bare": None, "both": "ema", "prefixed": "ema"}


def test_a_data_set_brings_its_own_validation_split_and_a_file_does_not() -> None:
    test, held = load_parts("digits", None)
    assert test is not None
    assert held is not None
    assert (test.source, held.source) == ("digits (test)", "digits (validation)")
    data = knowing().data
    assert load_parts(data, None) == (data, None)
    assert load_parts(data, "digits")[1].source == "digits (test)"  # type: ignore[union-attr]
    assert load_parts(None, None) == (None, None)


def test_a_reference_is_measured_on_the_same_images_or_on_features_of_its_own() -> None:
    images, own = load_data("digits"), knowing().data
    assert own_parts("reference", images, None, None) == (images, None)
    assert own_parts("reference", images, images, own) == (own, None)
    assert own_parts("reference 2", own, None, own) == (own, None)


def images() -> ImageSet:
    found = load_data("digits")
    assert isinstance(found, ImageSet)
    return found


def opened(
    made: Release, test: Any, *, forget: tuple[int, ...] = (FORGET,), missing: bool = False, validation: Any = None
) -> Subject:
    return open_subject(
        made, forget, test, validation, missing=missing, cache=False, progress=lambda stage, done, total: None
    )


def test_the_anchored_scale_gets_features_of_noise_as_large_as_the_images() -> None:
    def encoder(batch: Tensor) -> Tensor:
        return batch.flatten(1)[:, :D]

    made, quiet = release(encoder=encoder), lambda stage, done, total: None
    subject = open_subject(made, (FORGET,), images(), None, missing=False, cache=False, anchored=True, progress=quiet)
    (noise,) = noise_images(2000, (1, 8, 8)).batches(2000)
    assert subject.test is not None
    assert subject.test.anchor is not None
    assert torch.equal(subject.test.anchor, noise.flatten(1)[:, :D])
    assert opened(made, images()).anchor is None


def test_features_are_what_the_encoder_gives() -> None:
    def encoder(batch: Tensor) -> Tensor:
        return batch.flatten(1)[:, :D]

    subject = opened(release(encoder=encoder), images(), validation=images())
    assert subject.test is not None
    assert subject.validation is not None
    pixels = torch.cat(list(images().batches(1000)))
    assert torch.equal(subject.test.features, pixels.flatten(1)[:, :D])
    assert subject.test.class_names == tuple("0123456789")
    assert len(subject.validation) == len(images())


def relabelled(change: int) -> FeatureSet:
    data = hidden().data
    return FeatureSet(features=data.features, labels=data.labels + change)


def test_the_model_itself_is_no_reference_but_its_head_on_other_features_is_one() -> None:
    model = opened(release(), knowing().data)
    opened(release(), knowing(seed=2).data).check_against(model)
    opened(release(head=hidden().head), knowing().data).check_against(model)
    with pytest.raises(InputError, match="model and reference are the same model"):
        opened(release(source="a copy", fingerprint="1"), knowing().data).check_against(model)


def test_equal_weights_are_seen_before_features_are_extracted_and_a_head_alone_is_not_judged() -> None:
    def encoder(batch: Tensor) -> Tensor:
        return batch

    whole = release(encoder=encoder)
    facts = msgspec.structs.replace(EARLIER.model, fingerprint=whole.fingerprint)
    for reference in (whole, msgspec.structs.replace(EARLIER, model=facts)):
        with pytest.raises(InputError, match="model and reference are the same model"):
            check_distinct(whole, reference)
        check_distinct(release(), reference)
        check_distinct(release(encoder=encoder, fingerprint="1"), reference)


def test_labels_of_an_output_that_is_missing_are_explained_and_others_are_not() -> None:
    made, data = release(head=knowing().without_row().head), knowing().data
    hint = "from 0; or pass --missing-row, if the head lost the output of the forgotten class"
    with pytest.raises(InputError) as caught:
        opened(made, data).check(AuditConfig())
    assert str(caught.value).endswith(hint)
    for missing, strays in ((False, relabelled(1)), (True, relabelled(1))):
        with pytest.raises(InputError, match="labels outside") as plain:
            opened(made, strays, missing=missing).check(AuditConfig())
        assert str(plain.value).endswith("do:       number the classes as the model does, from 0")


def part_of(data: FeatureSet, *lacking: int) -> FeatureSet:
    kept = torch.tensor([int(label) not in lacking for label in data.labels])
    return FeatureSet(features=data.features[kept], labels=data.labels[kept])


@pytest.mark.parametrize("lacking", [(), (C - 1,), (C - 2, C - 1), (0,)])
def test_a_head_that_lost_a_row_may_be_measured_without_some_classes(lacking: tuple[int, ...]) -> None:
    made = release(head=knowing().without_row().head)
    opened(made, part_of(knowing().data, *lacking), missing=True).check(AuditConfig())


WORDS = tuple("abcdef")


def resolve(
    forget: Any, made: Release, data: FeatureSet | None, *, missing: bool = False, reference: Any = None
) -> tuple[int, ...]:
    others = [Beside(title="reference", model=reference, parts=None)] if reference is not None else []
    return resolve_forget(forget, made, others, {"data": data, "validation data": None}, missing=missing)


def test_a_release_that_lost_a_row_is_compared_with_the_row_in_its_place() -> None:
    lost = {"head": knowing().without_row().head}
    made = release(**lost, class_names=tuple("abdef"))
    assert resolve("c", made, named(WORDS), missing=True) == (FORGET,)
    assert resolve(FORGET, release(**lost, class_names=tuple("01234")), named(tuple("012345")), missing=True) == (2,)
    with pytest.raises(InputError, match="model and data number their classes differently"):
        resolve(FORGET, made, named(tuple("abcedf")), missing=True)
    with pytest.raises(
        InputError, match=r"(?s)'d' to be class 2.*do: +pass missing_row \(--missing-row\), if the head"
    ):
        resolve("c", made, named(WORDS))


def test_the_classes_of_a_reference_are_held_against_model_and_data() -> None:
    moved, lost = tuple("abcdfe"), knowing().without_row().head
    for model, data in ((WORDS, None), (None, WORDS), (WORDS, WORDS)):
        given = release(class_names=model), named(data)
        assert resolve(FORGET, *given, reference=release(class_names=WORDS)) == (FORGET,)
        assert resolve(FORGET, *given, reference=release()) == (FORGET,)
        assert resolve(FORGET, *given, reference=release(head=lost, class_names=tuple("abdef"))) == (FORGET,)
        for reference in (release(class_names=moved), msgspec.structs.replace(EARLIER, class_names=moved)):
            with pytest.raises(InputError) as caught:
                resolve(FORGET, *given, reference=reference)
            title = "data" if model is None else "model"
            assert str(caught.value).startswith(f"{title} and reference number their classes differently\n")
            assert f"'e' to be class 4, as in the {title}\n  got:      class 5" in str(caught.value)


def test_files_that_are_there_are_told_by_their_content(tmp_path: Path) -> None:
    (tmp_path / "audit.json").write_text("{}")
    knowing().head.save(tmp_path / "head.npz")
    torch.save(torch.nn.Linear(3, 4).state_dict(), tmp_path / "best.pth.tar")
    found = {path.name: bool(shared(path, {"arch": "small-cnn"})) for path in tmp_path.iterdir()}
    assert found == {"audit.json": False, "head.npz": False, "best.pth.tar": True}


def unusual() -> torch.nn.Sequential:
    """A network that takes images of 12 x 20 pixels and no others."""
    return torch.nn.Sequential(torch.nn.Conv2d(3, 4, 5), torch.nn.Flatten(), torch.nn.Linear(4 * 8 * 16, 5))


def test_a_network_of_unusual_size_is_tried_with_the_images_that_it_gets(tmp_path: Path) -> None:
    images, labels = torch.rand(10, 3, 24, 40), torch.arange(10) % 5
    torch.save(unusual().state_dict(), tmp_path / "net.pt")
    given: dict[str, Any] = {"arch": unusual, "progress": lambda *_: None, "cache": False}
    with pytest.raises(InputError, match=r"(?s)no usual input fits this model.*--data with --size"):
        examine(tmp_path / "net.pt", **given)
    with pytest.raises(InputError, match="no usual input fits"):
        examine(tmp_path / "net.pt", data=(images, labels), **given)
    half = Preprocess(size=(12, 20))
    found = examine(tmp_path / "net.pt", data=(images, labels), preprocess=half, **given)
    assert found.width == 4 * 8 * 16
    quick: dict[str, Any] = {"n": 100, "m": 10, "epochs": 1, "self_controls": 0, "cache": False}
    small = (images[:, :, ::2, ::2], labels)
    report = audit(tmp_path / "net.pt", 0, data=small, reference=unusual(), arch=unusual, **quick)
    assert len(report.references) == 1


def test_an_error_says_which_of_the_models_it_is_about(tmp_path: Path) -> None:
    good, bad = tmp_path / "good.npz", tmp_path / "bad.npz"
    weight = np.eye(4, dtype=np.float32)
    np.savez(good, weight=weight)
    np.savez(bad, weight=weight * np.nan)
    data = {"features": weight, "labels": np.arange(4)}
    with pytest.raises(InputError, match=r"^the reference .*bad\.npz: [\s\S]*finite"):
        audit(good, 0, data=data, reference=[good, bad], reference_data=[data, data])
    with pytest.raises(InputError, match=r"^the control .*bad\.npz: [\s\S]*finite"):
        audit(good, 0, data=data, control=bad, control_data=data)
    with pytest.raises(InputError, match="self_controls"):
        audit(good, 0, data=data, self_controls=-1)
