"""The masked original, of which the right answer is known, in the audits with one setting varied."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean

from reproduction.ablations import PROPOSALS, ROWS, SCORES, SIZES, SUPPORT, Factor, level_rows
from reproduction.simple import joined, score, signed, simple_table
from reproduction.stored import PUBLISHED, VERDICT, Kept, arrange
from sfra.bench.tables import Table

FACTORS = {
    "proposal": PROPOSALS,
    "score": SCORES,
    "forget row": ROWS,
    "support": SUPPORT,
    "M": SIZES["M"],
    "N": SIZES["N"],
}
"""What is varied, for readers."""

WITH = {"proposal": "the {} proposal", "score": "the {} score", "forget row": "a {}", "support": "{} as support"}
"""How a level is told."""


@dataclass(frozen=True, kw_only=True)
class Control:
    """The masked original at one level of what is varied, over the classes that all levels have."""

    factor: Factor
    level: str
    classes: Sequence[str]
    least: float | None
    """Smallest difference between it and the retrained model of the same class, canonical, source-free."""
    published: float
    """Mean RS at native scale, worst-case."""
    verdict: float
    """Mean RS at canonical scale, source-free."""
    reference: float | None
    """The same of retrained models."""
    recovered: int
    """Classes whose verdict is that they came back."""

    @property
    def found(self) -> bool:
        """Whether every class was found."""
        return self.recovered == len(self.classes)

    @property
    def main(self) -> bool:
        """Whether these are the main audits."""
        return self.level == self.factor.main


def controls_of(kept: Kept, factor: Factor) -> list[Control]:
    """Read the control at every level that it was audited at; nothing where that is the main one alone."""
    published, verdict = (level_rows(kept, factor, reading) for reading in (PUBLISHED, VERDICT))
    masked = {level: arrange(rows, "rs").get("masked", {}) for level, rows in verdict.items()}
    used = [level for level, some in masked.items() if some]
    if factor.main not in used or len(used) < 2:
        return []
    classes = sorted(set.intersection(*(set(masked[level]) for level in used)))
    made = []
    for level in used if classes else []:
        native, here = (arrange(side[level], "rs") for side in (published, verdict))
        mine = [row for row in verdict[level] if row["method"] == "masked" and row["forget"] in classes]
        beside = {c: rs for c, rs in here.get("retrained", {}).items() if c in classes}
        whole = len(beside) == len(classes)
        made.append(
            Control(
                factor=factor,
                level=level,
                classes=classes,
                least=min(here["masked"][c] - rs for c, rs in beside.items()) if whole else None,
                published=fmean(native["masked"][forget] for forget in classes),
                verdict=fmean(here["masked"][forget] for forget in classes),
                reference=fmean(beside.values()) if whole else None,
                recovered=len({row["forget"] for row in mine if row["verdict"] == "recovered"}),
            )
        )
    return made


def masked_table(kept: Kept) -> Table:
    """Show the control at every level of everything that is varied."""
    rows = [
        (
            name if name in SIZES else name.capitalize(),
            one.factor.names[one.level] + (" (main)" if one.main else ""),
            str(len(one.classes)),
            *(score(value) for value in (one.published, one.verdict, one.reference)),
            f"{one.recovered} of {len(one.classes)}",
        )
        for name, factor in FACTORS.items()
        for one in controls_of(kept, factor)
    ]
    columns = {"varied": "Varied", "level": "Level", "classes": "Classes", "native": "Masked, native, worst-case"}
    columns |= {"masked": "Masked", "retrained": "Retrained", "recovered": "Recovered"}
    notes = ("RS at canonical scale, source-free, unless said otherwise. Recovered: verdicts of masked originals.",)
    return simple_table("masked-ablations", "The masked original with one setting varied", columns, rows, notes)


def masked_ablations(kept: Kept) -> str:
    """Say with which settings a class that is hidden by construction is found, and with which it is missed."""
    found = {name: some for name, factor in FACTORS.items() if (some := controls_of(kept, factor))}
    if not found:
        return "The masked original has not been audited with another setting yet."
    others = [one for some in found.values() for one in some if not one.main]
    missed = [
        f"{_setting(name, one)} ({_how_many(one)}RS {score(one.verdict)})"
        for name, some in found.items()
        for one in some
        if not one.found
    ]
    told = f"missed with {joined(missed)}" if missed else "missed with none"
    return (
        "The right answer is known for the original with its row masked: the class is there. At canonical scale with "
        f"the last epoch it is found, in every class that was audited, with {sum(one.found for one in others)} of "
        f"{len(others)} other settings, and {told}. {_audited(found)}{_loudest(found)}"
    )


def _audited(found: Mapping[str, Sequence[Control]]) -> str:
    """Say which classes that rests on."""
    names: dict[tuple[str, ...], list[str]] = {}
    for name, some in found.items():
        names.setdefault(tuple(some[0].classes), []).append(name)
    told = [
        f"{joined(some)} {'were' if len(some) > 1 else 'was'} varied for "
        f"{f'class {classes[0]} alone' if len(classes) == 1 else f'{len(classes)} classes'}"
        for classes, some in names.items()
    ]
    text = "; ".join(told)
    return f"{text[0].upper()}{text[1:]}."


def _setting(name: str, one: Control) -> str:
    return WITH.get(name, f"{name} = {{}}").format(one.factor.names[one.level])


def _how_many(one: Control) -> str:
    return f"{one.recovered} of {len(one.classes)}, mean " if len(one.classes) > 1 else ""


def _loudest(found: Mapping[str, Sequence[Control]]) -> str:
    """Name the setting that leaves the least between the control and a model that never saw the class."""
    gaps = [
        (one.verdict - one.reference, name, one)
        for name, some in found.items()
        for one in some
        if one.found and one.reference is not None
    ]
    if not gaps:
        return ""
    gap, name, one = min(gaps, key=lambda place: place[0])
    least = f"{_setting(name, one)}: {score(one.verdict)} against {score(one.reference)}, {signed(gap)}"
    single = f" on average, {signed(one.least)} for one class" if len(one.classes) > 1 else ""
    return f" Where it is found, least is left between it and retrained models with {least}{single}."
