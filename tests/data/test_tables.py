"""Tables of images: Parquet folders, saved data sets, and the hub."""

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from builders.data import encode, save_to_disk, table_of, toy, write_parquet
from builders.hub import stand_in
from sfra.core.errors import InputError
from sfra.data import ImageSet, Split, cache, has_split, load_data
from sfra.data.tables import parse_address

IMAGES, LABELS = toy(3, 4, size=6)
NAMES = ("cow", "ape", "bee")
ENCODED = [encode(image) for image in IMAGES]


def load(spec: str | Path, split: Split = "test") -> ImageSet:
    data = load_data(spec, split=split)
    assert isinstance(data, ImageSet)
    return data


def check(data: ImageSet, names: tuple[str, ...] | None = NAMES, labels: Any = LABELS) -> None:
    (pixels,) = data.pixels.pieces(0, len(data))
    np.testing.assert_array_equal(pixels.numpy(), IMAGES)
    assert data.labels.tolist() == list(labels)
    assert data.class_names == names


@pytest.mark.parametrize("place", ["", "default/data"])
def test_rows_keep_their_order_and_declared_names_their_index(tmp_path: Path, place: str) -> None:
    write_parquet(tmp_path / place, NAMES, train=toy(3, 1, size=6), test=(IMAGES, LABELS))
    check(load(tmp_path))
    assert load(tmp_path).source == f"{tmp_path} (test)"
    assert len(load(tmp_path, "train")) == 3
    assert [has_split(tmp_path, split) for split in ("train", "validation", "test")] == [True, False, True]


def test_a_missing_split_is_not_replaced_by_another(tmp_path: Path) -> None:
    write_parquet(tmp_path, NAMES, train=(IMAGES, LABELS))
    with pytest.raises(InputError, match="has no validation split\n  expected: files called validation-"):
        load(tmp_path, "validation")
    with pytest.raises(InputError, match="has no test split"):
        load(tmp_path)


def test_a_folder_may_tell_the_split_and_validation_has_several_names(tmp_path: Path) -> None:
    for part in ("train", "val"):
        write_parquet(tmp_path / "default" / part, NAMES, "png", "label", **{"0": (IMAGES, LABELS)})
    check(load(tmp_path, "validation"))
    check(load(tmp_path, "train"))


def test_tables_without_a_split_are_a_test_set(tmp_path: Path) -> None:
    write_parquet(tmp_path, NAMES, part=(IMAGES, LABELS))
    check(load(tmp_path))
    assert len(load(tmp_path / "part-00000-of-00002.parquet")) == 6
    with pytest.raises(InputError, match=r"has no train split(\n.*)*got:      a single set"):
        load(tmp_path, "train")


def test_class_names_as_labels_are_sorted_over_all_splits(tmp_path: Path) -> None:
    words = [("bee", "ape", "cow")[label] for label in LABELS]
    pq.write_table(table_of({"image": ENCODED}, {"label": words}, {}), tmp_path / "test.parquet")
    more = table_of({"image": ENCODED[:2]}, {"label": ["ant", None]}, {})
    pq.write_table(more, tmp_path / "train.parquet")
    check(load(tmp_path), ("ant", "ape", "bee", "cow"), [(2, 1, 3)[label] for label in LABELS])


def test_plain_bytes_and_undeclared_indices_will_do(tmp_path: Path) -> None:
    pq.write_table(pa.table({"picture": ENCODED, "id": range(12), "target": LABELS}), tmp_path / "test.parquet")
    check(load(tmp_path), None)


def test_several_columns_are_asked_about_and_can_be_named(tmp_path: Path) -> None:
    columns = {"fine_label": LABELS.tolist(), "coarse_label": [0] * 12}
    table = table_of(
        {"img": ENCODED, "thumb": ENCODED[::-1]}, columns, {"fine_label": NAMES, "coarse_label": ("thing",)}
    )
    pq.write_table(table, tmp_path / "test.parquet")
    with pytest.raises(InputError, match=r"labels is not clear in test\.parquet(\n.*)*\?label=fine_label"):
        load(tmp_path)
    with pytest.raises(InputError, match=r"images is not clear .*(\n.*)*got:      img, thumb(\n.*)*\?image=img"):
        load(f"{tmp_path}?label=fine_label")
    check(load(f"{tmp_path}?image=img&label=fine_label"))
    assert load(f"{tmp_path}?image=img&label=coarse_label").class_names == ("thing",)
    with pytest.raises(InputError, match=r"has no column fine\n  expected: one of img, thumb, fine_label"):
        load(f"{tmp_path}?image=img&label=fine")
    pq.write_table(pa.table({"image": ENCODED, "caption": ["x"] * 12}), tmp_path / "test.parquet")
    with pytest.raises(InputError, match="got:      none among image, caption"):
        load(tmp_path)


def test_two_data_sets_in_one_folder_are_asked_about(tmp_path: Path) -> None:
    for name in ("full", "mini"):
        write_parquet(tmp_path / name, NAMES, test=(IMAGES, LABELS))
    with pytest.raises(InputError, match=r"more than one data set(\n.*)*got:      full, mini(\n.*)*\?folder=full"):
        load(tmp_path)
    check(load(f"{tmp_path}?folder=mini"))
    with pytest.raises(InputError, match=r"has no folder \.\."):
        load(f"{tmp_path / 'full'}?folder=..")


def test_unknown_options_are_refused_and_a_real_question_mark_is_a_name(tmp_path: Path) -> None:
    with pytest.raises(
        InputError, match=r"cannot be read\n  expected: \?image=…&label=…&folder=….*\n  got:      \?colour"
    ):
        load(f"{tmp_path}?colour=red")
    write_parquet(tmp_path / "what?label=x", NAMES, test=(IMAGES, LABELS))
    check(load(str(tmp_path / "what?label=x")))
    assert parse_address("a/b?label=x").place == "a/b"


def test_images_of_one_size_are_decoded_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cache, "SMALL", 0)
    monkeypatch.setenv("SFRA_CACHE", str(tmp_path / "cache"))
    write_parquet(tmp_path / "x", NAMES, test=(IMAGES, LABELS))
    check(load(tmp_path / "x"))
    monkeypatch.setattr("sfra.data.tables.encoded_pixels", None)
    check(load(tmp_path / "x"))


def test_what_is_no_image_is_named_by_row(tmp_path: Path) -> None:
    pq.write_table(table_of({"image": [ENCODED[0], b"GIF89a"]}, {"label": [0, 0]}, {}), tmp_path / "test.parquet")
    with pytest.raises(InputError, match=r"row 1 of .*test\.parquet cannot be decoded"):
        list(load(tmp_path).pixels.pieces(0, 2))
    column = pa.array(
        [{"bytes": None, "path": "/etc/hostname"}], pa.struct([("bytes", pa.binary()), ("path", pa.string())])
    )
    pq.write_table(pa.table({"image": column, "label": [0]}), tmp_path / "test.parquet")
    with pytest.raises(InputError, match=r"row 0 of .* has no image(\n.*)*nothing, or only a path"):
        load(tmp_path)
    (tmp_path / "test.parquet").write_bytes(b"PAR1 no more")
    with pytest.raises(InputError, match=r"test\.parquet cannot be read"):
        load(tmp_path)


@pytest.mark.parametrize(
    ("labels", "names", "message"),
    [
        ([1, None], None, r"label of .* does not hold labels(\n.*)*NoneType, int"),
        (pa.array([0, 2**64 - 1], pa.uint64()), None, r"expected: class indices.*\n  got:      18446744073"),
        (["cow", "dog"], NAMES, r"expected: the declared classes: cow, ape, bee\n  got:      dog"),
    ],
)
def test_labels_that_are_no_classes_are_named(tmp_path: Path, labels: Any, names: Any, message: str) -> None:
    table = table_of({"image": ENCODED[:2]}, {"label": labels}, {"label": names} if names else {})
    pq.write_table(table, tmp_path / "test.parquet")
    with pytest.raises(InputError, match=message):
        load(tmp_path)


def test_declarations_that_cannot_be_read_declare_nothing(tmp_path: Path) -> None:
    table = table_of({"image": ENCODED}, {"label": LABELS.tolist()}, {"label": NAMES})
    pq.write_table(table.replace_schema_metadata({"huggingface": "[" * 100_000}), tmp_path / "test.parquet")
    check(load(tmp_path), None)


def test_saved_data_sets_are_read(tmp_path: Path) -> None:
    table = table_of({"image": ENCODED}, {"label": LABELS.tolist()}, {"label": NAMES})
    save_to_disk(tmp_path / "one", table)
    check(load(tmp_path / "one"))
    (tmp_path / "dict").mkdir()
    (tmp_path / "dict" / "dataset_dict.json").write_text('{"splits": ["train", "test"]}')
    save_to_disk(tmp_path / "dict" / "test", table)
    save_to_disk(tmp_path / "dict" / "train", table.slice(0, 5))
    check(load(tmp_path / "dict"))
    assert len(load(tmp_path / "dict", "train")) == 5


@pytest.mark.parametrize("state", ["{", "{}", '{"_data_files": [{"filename": "../one/data-00000-of-00001.arrow"}]}'])
def test_a_saved_data_set_must_be_complete_and_name_its_own_files(tmp_path: Path, state: str) -> None:
    save_to_disk(tmp_path / "one", table_of({"image": ENCODED}, {"label": LABELS.tolist()}, {"label": NAMES}))
    (tmp_path / "one" / "state.json").write_text(state)
    with pytest.raises(InputError, match="is not a complete saved data set"):
        load(tmp_path / "one")


def test_an_id_is_fetched_as_parquet_files_only(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_parquet(tmp_path / "snapshot" / "data", NAMES, label="fine", train=toy(3, 1, size=6), test=(IMAGES, LABELS))
    hub = stand_in(monkeypatch, tmp_path, tmp_path / "snapshot")
    check(load("some-one/their.pets?label=fine"))
    assert hub.asked == [("some-one/their.pets", {"repo_type": "dataset", "allow_patterns": ["*.parquet"]})]
    assert load("some-one/their.pets").source == "some-one/their.pets (test)"
    assert has_split("some-one/their.pets", "train")
    assert not has_split("some-one/their.pets", "validation")


def test_a_folder_wins_over_an_id_and_a_path_is_no_id(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    hub = stand_in(monkeypatch, tmp_path, ConnectionError("no network"))
    write_parquet(tmp_path / "my" / "pets", NAMES, test=(IMAGES, LABELS))
    check(load("my/pets"))
    for spec in (Path("no/where"), "./no/where", "no/where/else", "no/where.npz", "no/where.parquet", "nowhere"):
        with pytest.raises(InputError, match=r"does not exist|has this name"):
            load(spec)
    assert hub.asked == []


def test_without_an_answer_of_the_hub_the_reason_is_given(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for problem, reason in (
        (ValueError("404 Client Error.\n\nmore"), "ValueError: 404 Client Error."),
        (OSError(), "OSError: "),
    ):
        stand_in(monkeypatch, tmp_path, problem)
        expected = rf"there is no folder no/where, and (.*\n)*  got:      {reason}\n  do: .*network"
        with pytest.raises(InputError, match=expected):
            load("no/where")
    (tmp_path / "load_me.py").write_text("raise SystemExit")
    stand_in(monkeypatch, tmp_path, tmp_path)
    with pytest.raises(InputError, match="no/where has no Parquet files on the hub"):
        load("no/where")
