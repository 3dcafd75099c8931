"""Names of classes: what contradicts is refused, and what says nothing is let through."""

from __future__ import annotations

import pytest

from sfra.auditing.naming import check_names, check_order, check_rows_missing, forget_classes, placed_names, typed
from sfra.core.errors import InputError

DIGITS = ("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine")
WITHOUT_SEVEN = tuple(name for name in DIGITS if name != "seven")
NUMBERS = tuple("0123456789")


@pytest.mark.parametrize(
    "data",
    [WITHOUT_SEVEN, ("Zero", "ONE", "three"), ("acht", "zero"), tuple(sorted(DIGITS))],
    ids=["fewer", "other case", "one of them", "sorted"],
)
def test_one_name_at_another_index_is_enough(data: tuple[str, ...]) -> None:
    with pytest.raises(InputError, match="model and data number their classes differently"):
        check_order(DIGITS, data)


@pytest.mark.parametrize(
    "data",
    [None, DIGITS, DIGITS[:4], NUMBERS, ("Null", "Eins"), ("zero", "eins", "two"), (*DIGITS, "ten")],
    ids=["unknown", "same", "fewer at the end", "numbers", "other words", "one other word", "more at the end"],
)
def test_names_that_do_not_contradict_are_taken(data: tuple[str, ...] | None) -> None:
    check_order(DIGITS, data)
    check_order(data, DIGITS)
    check_order(None, data)


def test_a_name_that_two_classes_have_says_nothing() -> None:
    check_order(("crane", "cardigan", "crane"), ("ox", "cardigan", "crane"))
    check_order(("ox", "Cardigan", "cardigan"), ("ox", "owl", "crane", "cardigan", "Cardigan"))


def test_numbers_count_as_names_only_beside_the_same_numbers() -> None:
    check_order(NUMBERS, tuple(str(index) for index in range(1, 11)))
    check_order(NUMBERS, NUMBERS[:6])
    with pytest.raises(InputError, match="'8' to be class 8"):
        check_order(NUMBERS, tuple("012345689"))


def test_the_forget_class_must_be_among_names_that_are_the_models() -> None:
    with pytest.raises(InputError, match="the validation data have no class 'ox'"):
        check_names({"model": ("cat", "dog", "ox"), "validation data": ("cat", "dog")}, [2])
    for forget, data in ((9, DIGITS[:9]), (7, WITHOUT_SEVEN)):
        with pytest.raises(InputError, match=f"the data have no class '{DIGITS[forget]}'"):
            check_names({"model": DIGITS, "data": data}, [forget])


@pytest.mark.parametrize(
    ("model", "data", "forget"),
    [
        (("cat", "dog", "ox"), ("Katze", "Hund", "Ochse"), 2),
        (("plane", "car", "bird"), ("plane", "automobile", "bird"), 1),
        (("cat", "tabby, tabby cat", "ox"), ("cat", "Tabby Cat"), 1),
        (("cat", "tabby", "ox"), ("cat", "tabby, tabby cat"), 1),
        (NUMBERS, DIGITS, 7),
        (("cat", "dog", "ox"), None, 2),
        (("cat", "dog", "ox"), ("cat", "dog"), 5),
    ],
)
def test_a_forget_class_that_may_be_there_is_let_through(
    model: tuple[str, ...], data: tuple[str, ...] | None, forget: int
) -> None:
    check_names({"model": model, "data": data}, [forget])


def test_names_of_missing_outputs_are_left_open() -> None:
    assert placed_names(("a", "d"), [1, 2], missing=True) == ["a", None, None, "d"]
    assert placed_names(("a", "d"), [2], missing=True) == ["a", "d", None]
    assert placed_names(("a", "d"), [0], missing=False) == ("a", "d")
    assert placed_names(("0", "1"), [1], missing=True) is None
    assert placed_names(("a", "d"), [-1], missing=True) is None
    assert placed_names(None, [1], missing=True) is None


@pytest.mark.parametrize(
    ("outputs", "forget", "names", "message"),
    [
        (10, [7], None, "the head has an output for each of the 10 classes"),
        (10, [7], NUMBERS, "the head has an output for each of the 10 classes"),
        (9, [6, 7], None, "the head does not lack an output for each forget class"),
        (9, [6], WITHOUT_SEVEN, "the head does not lack an output for each forget class"),
    ],
)
def test_outputs_that_are_there_are_not_missing(
    outputs: int, forget: list[int], names: tuple[str, ...] | None, message: str
) -> None:
    with pytest.raises(InputError) as caught:
        check_rows_missing(outputs, forget, names, DIGITS)
    assert str(caught.value).splitlines()[0] == message


@pytest.mark.parametrize("names", [None, WITHOUT_SEVEN, NUMBERS[:9]])
def test_outputs_that_are_missing_may_be(names: tuple[str, ...] | None) -> None:
    check_rows_missing(9, [7], names, DIGITS)
    check_rows_missing(9, [7], names, None)


def test_the_names_of_a_model_that_lost_an_output_win_over_the_number_of_classes_in_the_data() -> None:
    check_rows_missing(9, [7], WITHOUT_SEVEN, DIGITS[:9])


@pytest.mark.parametrize(
    ("names", "expected"),
    [
        (None, "0,2"),
        (("cat", "dog", "ox"), "0,2"),
        (("1", "2", "3"), "1,3"),
        (("2", "b", "c"), "2,c"),
        (("2, two", "b", "c, sea"), "2,c"),
    ],
    ids=["no names", "words", "numbers from 1", "a number among words", "several words"],
)
def test_classes_are_typed_as_they_are_read_back(names: tuple[str, ...] | None, expected: str) -> None:
    assert typed([0, 2], names) == expected
    assert forget_classes(expected.split(","), names) == (0, 2)
