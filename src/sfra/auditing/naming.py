"""Names of classes: which index a name stands for, and where model, data and reference contradict each other."""

from __future__ import annotations

import operator
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from itertools import combinations
from typing import NoReturn, SupportsIndex

from sfra.core.errors import InputError, listed, meant

Forget = SupportsIndex | str | Sequence[SupportsIndex | str]
"""A forget class by index or name, or several."""

Names = Sequence[str | None] | None
"""The name of each class by index: None where a class has none, or nothing is known."""

LONGEST = 80
"""Letters of a name that a message repeats."""

LEAVE_OUT = "leave missing_row (--missing-row) out"


def forget_classes(forget: Forget, class_names: Sequence[str] | None) -> tuple[int, ...]:
    """Turn names and indices into sorted indices.

    >>> forget_classes(["dog", 2], ["cat", "dog", "ox"])
    (1, 2)
    """
    alone = isinstance(forget, str | bytes) or not isinstance(forget, Iterable) or getattr(forget, "ndim", 1) == 0
    given: list[SupportsIndex | str] = [forget] if alone else list(forget)  # type: ignore[list-item, arg-type]
    return tuple(sorted({_class_index(one, class_names) for one in given}))


def typed(classes: Iterable[int], names: Names) -> str:
    """Write forget classes as ``--forget`` reads them back: by index or, where some index is another's name, by name.

    >>> typed([0, 1], ["cat", "dog"]), typed([0, 1], ["1", "2", "3"])
    ('0,1', '1,2')
    """
    known = [name or "" for name in names or ()]
    by_index = all(_reads(str(label), known) == label for label in range(len(known)))

    def one(label: int) -> str:
        name = known[label] if 0 <= label < len(known) and not by_index else ""
        words = (word for word in (name, *name.split(",")) if word and "," not in word)
        return next((word for word in words if _reads(word, known) == label), str(label))

    return ",".join(map(one, classes))


def _reads(word: str, names: Sequence[str]) -> int | None:
    try:
        return _class_index(word, names)
    except InputError:
        return None


def _class_index(given: SupportsIndex | str, class_names: Sequence[str] | None) -> int:
    if not isinstance(given, str):
        return _index(given)
    names = list(class_names or ())
    matches = [i for i, name in enumerate(names) if name == given] or [
        i for i, name in enumerate(names) if given.lower() in (part.strip().lower() for part in name.split(","))
    ]
    if len(matches) == 1:
        return matches[0]
    if re.fullmatch(r"\s*-?\d{1,18}\s*", given):
        return int(given)
    given = given if len(given) <= LONGEST else f"{given[:LONGEST]}…"
    raise InputError(
        f"there is no class named {given!r}" if not matches else f"several classes are named {given!r}",
        expected=f"one of {listed(names[:12])}{' …' if len(names) > 12 else ''}" if names else "an index",
        got=given,
        do="give the index of the class"
        if matches or not names
        else meant(given, names) or "check the spelling, or give the index",
    )


def _index(given: SupportsIndex) -> int:
    """Take a whole number of any type; True and False are refused, although Python counts with them."""
    try:
        if isinstance(given, bool) or str(getattr(given, "dtype", "")).endswith("bool"):
            raise TypeError("True and False")  # noqa: TRY301
        return operator.index(given)
    except TypeError:
        whole = isinstance(given, float) and given.is_integer()
        raise InputError(
            "a forget class is neither an index nor a name",
            expected="a whole number, a name, or several of them",
            got=repr(given),
            do=f"write {int(given)}" if whole else None,
        ) from None


def placed_names(names: Sequence[str] | None, forget: Sequence[int], *, missing: bool) -> Names:
    """Return the names of all classes by index; outputs that are missing took theirs along.

    >>> placed_names(["cat", "ox"], [1], missing=True)
    ['cat', None, 'ox']
    """
    if names is None or not missing:
        return names
    placed: list[str | None] = list(names)
    if _numbered(names) or not all(0 <= label < len(names) + len(forget) for label in forget):
        return None
    for label in sorted(forget):
        placed.insert(label, None)
    return placed


def check_order(mine: Names, theirs: Names, *, one: str = "model", other: str = "data") -> None:
    """Refuse names that both sides have, but at another index: every label would mean another class.

    Names that only one side has (numbers here, words there) say nothing about the order.
    """
    if mine is None or theirs is None or not _comparable(mine, theirs):
        return
    here, there = _places(mine), _places(theirs)
    moved = next((name for name in here if there.get(name, here[name]) != here[name]), None)
    if moved is None:
        return
    lacking = next((mine[place] for name, place in here.items() if name not in there), None)
    raise InputError(
        f"{one} and {other} number their classes differently",
        expected=f"{mine[here[moved]]!r} to be class {here[moved]}, as in the {one}",
        got=f"class {there[moved]}" + (f"; there is no {lacking!r} in the {other}" if lacking else ""),
        do=_remedy(one, other, lacking=lacking is not None, fewer=len(mine) < len(theirs) and None not in mine),
    )


def check_names(names: Mapping[str, Names], forget: Sequence[int]) -> None:
    """Refuse a model (first), its data and its reference, each under its title, if their names contradict each other.

    Data that share names with the model must have those of the forget classes as well.
    """
    for title, theirs in names.items():
        if title.endswith("data"):
            _check_present(names["model"], theirs, forget, title)
    for (one, mine), (other, theirs) in combinations(names.items(), 2):
        check_order(mine, theirs, one=one, other=other)


def check_rows_missing(outputs: int, forget: Sequence[int], names: Sequence[str] | None, data: Names) -> None:
    """Refuse fresh rows for outputs that the head has, as far as the names of model and data tell."""
    if data is None:
        return
    if names is not None and not _numbered(names) and _comparable(names, data):
        own = _places(names)
        if any(_fold(data[label]) in own for label in forget if 0 <= label < len(data)):
            refuse_rows_missing(outputs, forget, len(data))
    elif outputs + len(forget) > len(data):
        refuse_rows_missing(outputs, forget, len(data))


def refuse_rows_missing(outputs: int, forget: Sequence[int], classes: int) -> NoReturn:
    """Say that the outputs which are said to be missing are there."""
    whole = f"the head has an output for each of the {classes} classes"
    raise InputError(
        whole if outputs >= classes else "the head does not lack an output for each forget class",
        expected=f"{classes - len(forget)} outputs, if those of the forget classes are missing",
        got=f"{outputs} outputs",
        do=LEAVE_OUT if outputs >= classes else f"check the forget classes, or {LEAVE_OUT}",
    )


def _check_present(model: Names, data: Names, forget: Sequence[int], title: str) -> None:
    """Refuse data that share names with the model, but have no class of the name of a forget class.

    A name in its place that the model does not know may be another word for it: a car, an automobile.
    """
    if model is None or data is None or not _comparable(model, data):
        return
    theirs, known = {part for name in data for part in _parts(name)}, set(map(_fold, model))
    for label in forget:
        name = model[label] if 0 <= label < len(model) else None
        another_word = 0 <= label < len(data) and _fold(data[label]) not in known
        if name is not None and not another_word and not theirs & _parts(name):
            raise InputError(
                f"the {title} have no class {name!r}",
                expected="every forget class under the name that it has in the model",
                got=", ".join(map(str, data[:12])) + (" …" if len(data) > 12 else ""),
                do="add the class to the data; if it is there under another name, call it as the model does",
            )


def _remedy(one: str, other: str, *, lacking: bool, fewer: bool) -> str:
    if other == "reference":
        return f"pass a reference whose classes stand in the order of the {one}"
    if one == "model" and fewer:
        return "pass missing_row (--missing-row), if the head lost the output of the forgotten class"
    if lacking:
        return f"give the {other} every class of the {one}; for an image folder, an empty sub-folder will do"
    return f"bring the {other} into the {one}'s order of classes"


def _comparable(one: Sequence[str | None], other: Sequence[str | None]) -> bool:
    """Say whether two lists of names are about the same classes; an index as a name tells little by itself."""
    mine, theirs = (set(map(_fold, names)) - {None} for names in (one, other))
    if _numbered(one) or _numbered(other):
        return mine <= theirs or theirs <= mine
    return bool(mine & theirs)


def _numbered(names: Sequence[str | None]) -> bool:
    return all(name == str(index) for index, name in enumerate(names))


def _places(names: Sequence[str | None]) -> dict[str, int]:
    """Return the index of every name that one class alone has."""
    folded = [_fold(name) for name in names]
    count = Counter(folded)
    return {name: index for index, name in enumerate(folded) if name is not None and count[name] == 1}


def _parts(name: str | None) -> set[str]:
    """Return a name and, where it is several with commas, each of them."""
    return set() if name is None else {name.strip().casefold(), *(part.strip().casefold() for part in name.split(","))}


def _fold(name: str | None) -> str | None:
    return None if name is None else name.strip().casefold()
