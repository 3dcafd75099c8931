"""Sentences about what the audit itself does on a group, beside another: scale, verdicts, epochs and controls.

They were written before the rows were there: each says what comes out whichever way it does, or that it is missing.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from statistics import fmean

from reproduction.agreement import spearman
from reproduction.beside import alarm, class_names, floors, place_name
from reproduction.sentences_beside import between
from reproduction.simple import joined, listed, percent, score, signed
from reproduction.stored import METHOD_LIST, PUBLISHED, VERDICT, Kept
from reproduction.tables_audit import false_alarms, selection_parts
from reproduction.tables_models import native_kappas
from reproduction.tables_rs import correlation, scores
from sfra.attack.scale import KAPPA
from sfra.auditing.trace import RETAIN_FLOOR
from sfra.bench.protocol import load_protocol
from sfra.bench.tables.names import method_name
from sfra.report.classes import class_name

NOTHING = "Nothing is computed yet."


def scales(kept: Kept, other: Kept) -> str:
    """Say what the canonical scale changes, and how quiet it keeps the references."""
    readings = (("native", "source-free"), PUBLISHED, VERDICT)
    here, there = ([false_alarms(one, *reading) for reading in readings] for one in (kept, other))
    count = here[0][1]
    if not count:
        return "No retrained model is audited yet."
    alarms, others = ([f"{n}" for n, _ in some] for some in (here, there))
    reference = kept.by_class(*VERDICT)["retrained"]
    top = max(reference, key=reference.__getitem__)
    quiet = "none of them" if here[2][0] == 0 else f"{here[2][0]} of them"
    bars = f"{between(floors(kept))}; {place_name(other)}: {between(floors(other))}"
    return (
        f"{_sizes(kept, other)} Of {count} retrained models, {alarms[0]} raise an alarm at native scale with the last "
        f"epoch and {alarms[1]} with the best one; at canonical scale with the last epoch {quiet} (on "
        f"{place_name(other)} {joined(others)} of {there[0][1]}). An alarm is {alarm(kept, *readings)}, what "
        f"answering everything with the forget class would score ({bars}). The highest RS of a retrained model "
        f"at canonical scale, last epoch, is {score(reference[top])}, of {class_name(int(top), class_names(kept))}."
    ).strip()


def _sizes(kept: Kept, other: Kept) -> str:
    """Say how large heads are as released, and what comes back at either scale."""
    kappas = [of_given(native_kappas(one)) for one in (kept, other)]
    both = [scores(kept, "native", "source-free"), scores(kept, *VERDICT)]
    if not all(kappas) or not all(both):
        return ""
    ours, theirs = (fmean(some.values()) for some in kappas)
    size = "smaller" if ours > KAPPA else "larger"
    names = [m for m in both[0] if m in both[1]]
    rho = spearman(*([some[m] for m in names] for some in both))
    order = f", and the methods' order agrees with Spearman {correlation(rho)}" if rho is not None else ""
    before, after = (fmean(some[m] for m in names) for some in both)
    return (
        f"As released, heads have κ = {ours:.2f} on average over methods ({place_name(other)}: {theirs:.2f}); "
        f"canonical ones, with κ = {KAPPA:.2f}, are {size}. With the last epoch mean RS is {before:.2f} at native "
        f"scale and {after:.2f} at canonical scale{order}."
    )


def verdicts(kept: Kept, other: Kept) -> str:
    """Count the verdicts of the unlearned models, and name methods that are recovered for every class or for none."""
    here, there = (_verdicts(one) for one in (kept, other))
    if not here:
        return "No unlearned model is audited yet."
    every = [m for m, some in here.items() if set(some) == {"recovered"}]
    none = [m for m, some in here.items() if "recovered" not in some]
    beside = f" (on {place_name(other)}: {_total(there)})" if there else ""
    return (
        f"At canonical scale with the last epoch the verdicts of {sum(map(len, here.values()))} unlearned models are "
        f"{_total(here)}{beside}. Recovered for every class audited: {listed(every) or 'none'}; for no class: "
        f"{listed(none) or 'none'}."
    )


def _verdicts(kept: Kept) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for row in kept.main(*VERDICT):
        if row["method"] in METHOD_LIST and row["method"] != "retrained":
            found.setdefault(row["method"], []).append(row["verdict"])
    return {method: found[method] for method in METHOD_LIST if method in found}


def _total(found: Mapping[str, list[str]]) -> str:
    count = Counter(one for some in found.values() for one in some)
    return joined([f"{n} {name}" for name, n in count.most_common()])


def selection(kept: Kept, other: Kept) -> str:
    """Say what choosing the best epoch adds, and how much of that other seeds have too."""
    added, theirs = ([_added(one, scale) for scale in ("native", "canonical")] for one in (kept, other))
    if not all(added):
        return NOTHING
    native, parts = added[0], selection_parts(kept, "native")
    ours, others = ([plain(fmean(some.values())) for some in both if some] for both in (added, theirs))
    beside = f" ({place_name(other)}: {joined(others)})" if all(theirs) else ""
    split = [[part[m] for m in native if m in part] for part in (parts["shared"], parts["single"], parts["test"])]
    shared = (
        f" Of that at native scale {between(split[0], signed)} by method, {signed(fmean(split[0]))} on average, is an "
        f"epoch that other seeds share, and {signed(fmean(split[1]))} on average is found in one seed alone."
        if split[0]
        else ""
    )
    test = f" Worst-case minus the choice on a validation split is {between(split[2], signed)}." if split[2] else ""
    return (
        f"The best of {load_protocol(kept.group).audit['epochs']} epochs on the test data adds {ours[0]} to the last "
        f"epoch at native scale and {ours[1]} at canonical scale, on average over methods{beside}, most for "
        f"{most_added(*added)}.{shared}{below_last(*added)}{test}"
    )


def most_added(native: Mapping[str, float], canonical: Mapping[str, float]) -> str:
    """Name the method that choosing the epoch adds most to at either scale, with what it adds at both.

    >>> most_added({"scrub": 0.4, "delete": 0.1}, {"scrub": 0.1, "delete": 0.2})
    'SCRUB (+0.40 native, +0.10 canonical)'
    """
    most = max([*native, *canonical], key=lambda m: max(native.get(m, -1.0), canonical.get(m, -1.0)))
    scales = {"native": native, "canonical": canonical}
    told = ", ".join(f"{signed(some[most])} {scale}" for scale, some in scales.items() if most in some)
    return f"{method_name(most)} ({told})"


def below_last(native: Mapping[str, float], canonical: Mapping[str, float]) -> str:
    """Name the methods that choosing the epoch takes from: the last epoch may give up retain accuracy, the best not.

    >>> below_last({"delete": -0.05}, {"delete": -0.05}).partition(":")[0]
    ' For DELETE the best epoch is below the last, on average'
    """
    lower = [[m for m in METHOD_LIST if round(some.get(m, 0.0), 2) < 0] for some in (native, canonical)]
    where = [
        f"{listed(names)} at {scale} scale"
        for names, scale in zip(lower, ("native", "canonical"), strict=True)
        if names
    ]
    if not where:
        return ""
    return (
        f" For {listed(lower[0]) if lower[0] == lower[1] else ' and for '.join(where)} the best epoch is below the "
        f"last, on average: it must keep {percent(RETAIN_FLOOR, 0)} % of the retain accuracy, the last need not."
    )


def _added(kept: Kept, scale: str) -> dict[str, float]:
    parts = selection_parts(kept, scale)
    return {m: parts["best"][m] - parts["last"][m] for m in METHOD_LIST if m in parts["best"]}


def plain(value: float) -> str:
    """Write a number without a sign for what is above zero.

    >>> plain(0.126), plain(-0.126)
    ('0.13', '−0.13')
    """
    return f"{value:.2f}".replace("-", "−")


def of_given(values: Mapping[str, float]) -> dict[str, float]:
    """Keep the methods of the paper."""
    return {m: values[m] for m in METHOD_LIST if m in values}
