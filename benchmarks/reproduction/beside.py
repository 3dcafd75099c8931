"""Both sides of a comparison: the numbers of a group, and those that the paper printed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from statistics import fmean

from reproduction.agreement import ByClass, means
from reproduction.stored import (
    METHOD_OF,
    PUBLISHED,
    READINGS,
    VERDICT,
    Kept,
    arrange,
    diagnosed,
    own,
    paper_rows,
    printed,
)
from sfra.bench.protocol import load_protocol
from sfra.bench.tables.names import dataset_name

Reading = tuple[str, str]
"""Scale and rule."""

CONFIDENCE = {"correct_confidence": "correct_retain_conf", "assigned_confidence": "forget_assigned_conf", "gap": "gap"}
"""What is known of how sure a head is, and what the paper's table calls it."""


@dataclass(frozen=True, kw_only=True)
class Side:
    """Numbers of one source: the paper, or a group of protocols."""

    name: str
    """Heading of its columns."""
    rs: Mapping[Reading, ByClass]
    delta: Mapping[Reading, ByClass]
    retain: ByClass
    """Accuracy of the released models; ``original`` is among them."""
    forget: ByClass
    """The same of the forget class."""
    pra: ByClass
    """RS of the cosine variant."""
    probe: ByClass
    """Forget accuracy of a linear probe."""
    inner: ByClass
    """Inner product of mean probe and mean feature."""
    cosine: ByClass
    """The same between unit vectors."""
    confidence: Mapping[str, float]
    """How sure Bad Teacher's head is, on average."""


def paper_side() -> Side:
    """Read what the paper printed of CIFAR-10; its one reading stands beside each of ours."""
    average = next(row for row in paper_rows("confidence") if row["forget"] == "avg")
    return Side(
        name="Paper",
        rs=dict.fromkeys(READINGS, printed("sfra", "rs")),
        delta=dict.fromkeys(READINGS, printed("sfra", "delta_rs")),
        retain=printed("original", "retain_acc") | printed("unlearned", "retain_acc"),
        forget=printed("original", "forget_acc") | printed("unlearned", "forget_acc"),
        pra=printed("pra", "rs"),
        probe=printed("linear_probe", "forget_acc"),
        inner=_paper_alignment("a_ip"),
        cosine=_paper_alignment("a_cos"),
        confidence={name: average[theirs] for name, theirs in CONFIDENCE.items()},
    )


def side_of(kept: Kept) -> Side:
    """Read the numbers of a group, under the name of its data set."""
    retain, forget = originals(kept)
    sure = {name: diagnosed(kept, name).get("bad-teacher", {}) for name in CONFIDENCE}
    return Side(
        name=place_name(kept),
        rs={reading: kept.by_class(*reading) for reading in READINGS},
        delta={reading: kept.by_class(*reading, "delta_rs") for reading in READINGS},
        retain={"original": retain} | kept.by_class(*PUBLISHED, "retain_before"),
        forget={"original": forget} | kept.by_class(*PUBLISHED, "forget_before"),
        pra=arrange([row for row in own(kept.pra, kept) if row["variant"] == "cosine"], "rs"),
        probe=arrange(own(kept.probes, kept), "forget_accuracy"),
        inner=diagnosed(kept, "inner"),
        cosine=diagnosed(kept, "cosine"),
        confidence={name: fmean(some.values()) for name, some in sure.items() if some},
    )


def originals(kept: Kept) -> tuple[dict[str, float], dict[str, float]]:
    """Compute the original's accuracy of all but one class, and of that class, for each that was forgotten."""
    rows = own(kept.originals, kept)
    forgotten = dict.fromkeys(row["forget"] for row in kept.main(*VERDICT))
    retain, forget = {}, {}
    for label in forgotten:
        parts = [[row for row in rows if (f"{row['label']:.0f}" == label) == gone] for gone in (False, True)]
        if all(parts):
            retain[label], forget[label] = (accuracy(part) for part in parts)
    return retain, forget


def accuracy(rows: list[Mapping[str, float]]) -> float:
    """Compute the share of hits."""
    return sum(row["hits"] for row in rows) / sum(row["samples"] for row in rows)


def class_names(kept: Kept) -> list[str] | None:
    """List the names of the classes; None before the original is there."""
    names = {int(row["label"]): str(row["name"]) for row in own(kept.originals, kept)}
    return [names.get(label, str(label)) for label in range(max(names) + 1)] if names else None


def place_name(kept: Kept) -> str:
    """Name the data set of a group."""
    return dataset_name(load_protocol(kept.group).dataset)


def common_gap(ours: ByClass, theirs: ByClass) -> dict[str, float]:
    """Average ours minus theirs over the forget classes that both have, for the methods of both.

    >>> common_gap({"scrub": {"0": 0.5, "10": 0.9}}, {"scrub": {"0": 0.25}, "delete": {"0": 0.5}})
    {'scrub': 0.25}
    """
    both = {m: [c for c in some if c in theirs.get(m, {})] for m, some in ours.items()}
    return {m: fmean(ours[m][c] - theirs[m][c] for c in classes) for m, classes in both.items() if classes}


def floors(kept: Kept) -> list[float]:
    """List what answering everything with the forget class would score, of the retrained models."""
    found = (row["floor"] for row in kept.main(*VERDICT) if row["method"] == "retrained")
    return [floor for floor in found if floor is not None]


def alarm(kept: Kept, *readings: Reading, whose: str = "the model's") -> str:
    """Say what a false alarm is in the readings: what retrained models have that raise one.

    The bar of a verdict is the floor or, for a head that lost retain accuracy, higher: both are told where they differ.
    """
    rows = [row for reading in readings for row in kept.main(*reading) if row["method"] == "retrained"]
    same = all((row["verdict"] != "not-recovered") == (row["rs"] > (row["floor"] or 0.0)) for row in rows)
    return f"{'an RS above' if same else 'a verdict other than not-recovered, whose bar is at least'} {whose} floor"


def paper_alignment(value: str) -> dict[str, float]:
    """Average a printed alignment over the forget classes."""
    return means(_paper_alignment(value))


def _paper_alignment(value: str) -> ByClass:
    rows = [row | {"method": METHOD_OF[row["method"]]} for row in paper_rows("alignment") if row["forget"] != "avg"]
    return arrange(rows, value)
