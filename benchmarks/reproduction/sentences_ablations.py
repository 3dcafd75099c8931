"""Sentences about audits with one setting varied; their numbers come from the rows, whatever part of them is there."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import fmean

from reproduction.ablations import (
    PROPOSALS,
    ROWS,
    SCORES,
    SIZES,
    SUPPORT,
    Compared,
    compare,
    level_averages,
    levels,
    order,
    paper_missing_row,
    paper_proposals,
    paper_scores_ablation,
    paper_support,
)
from reproduction.sentences_levels import loud, no_epoch, verdicts_told
from reproduction.simple import listed, number, percent, score, signed
from reproduction.stored import METHOD_LIST, PUBLISHED, Kept
from sfra.bench.tables.names import method_name


def ablations(kept: Kept) -> str:
    """Say how much of the ablations is there."""
    protocol = f"{kept.group}-ablations"
    row = next((one for one in kept.coverage if (one["protocol"], one["what"]) == (protocol, "audit")), None)
    if row is None or not row["done"]:
        return "None of these audits has been computed yet."
    found = {one["method"] for one in kept.audits if one["protocol"] == protocol}
    names = [method for method in METHOD_LIST if method in found]
    of = "all methods" if len(names) == len(METHOD_LIST) else f"{listed(names)} alone"
    of += " and of the masked original" if "masked" in found else ""
    failed = [one for one in kept.failures if one["protocol"] == protocol]
    if row["done"] + len(failed) < row["goals"]:
        return f"{row['done']:.0f} of {row['goals']:.0f} of these audits are there, of {of}: what follows is a part."
    if failed:
        why = f"{number(len(failed), 'other').capitalize()} cannot be computed ([why](#what-was-run))."
        return f"{row['done']:.0f} of {row['goals']:.0f} of these audits are there, of {of}. {why}"
    return f"All {row['goals']:.0f} of these audits are there, of {of}."


def proposals(kept: Kept) -> str:
    """Say what another proposal distribution changes."""
    found = compare(kept, PROPOSALS, paper_proposals())
    return "No other proposal has been audited yet." if found is None else _told(kept, found) + _references(found)


def uncertainty(kept: Kept) -> str:
    """Say what another score changes, and how far seeds are apart."""
    found = compare(kept, SCORES, paper_scores_ablation())
    if found is None:
        return "No other score has been audited yet."
    spreads = (
        level_averages(levels(kept, SCORES, PUBLISHED, "rs_std"), found.classes),
        level_averages(paper_scores_ablation("rs_std"), found.classes),
    )
    ours, theirs = ([value for some in side.values() for value in some.values()] for side in spreads)
    seeds = f" Seeds of one audit deviate by {score(fmean(ours), 3)} on average" if ours else ""
    beside = f", the paper's by {score(fmean(theirs), 3)}" if ours and theirs else ""
    return _told(kept, found) + loud(kept, found) + (f"{seeds}{beside}." if seeds else "")


def missing_row(kept: Kept) -> str:
    """Say what a random forget row changes."""
    found = compare(kept, ROWS, paper_missing_row())
    if found is None:
        return "No model without its forget row has been audited yet."
    before = level_averages(levels(kept, ROWS, PUBLISHED, "forget_before"), found.classes)["True"]
    changed, theirs, verdict = (_changes(side, "False", "True") for side in (found.ours, found.paper, found.verdict))
    most, most_verdict = (max(some, key=lambda m: abs(some[m])) for some in (changed, verdict))
    answered = max(before.values())
    return (
        f"{_whom(found)}. A random row in the place of the released one changes RS by "
        f"{score(fmean(map(abs, changed.values())))} either way on average ({signed(fmean(changed.values()))} with its "
        f"sign, the paper's {signed(fmean(theirs.values()))}), most for {method_name(most)} ({signed(changed[most])}; "
        f"{_paper_change(theirs, most)}). At canonical scale with the last epoch it is "
        f"{score(fmean(map(abs, verdict.values())))}, most for {method_name(most_verdict)} "
        f"({signed(verdict[most_verdict])}). Before relearning, the restored heads answer "
        f"{f'at most {percent(answered)} %' if answered else 'none'} of the forget samples with the class."
        f"{_order_told(found)}{verdicts_told(kept, found)}"
    )


def support(kept: Kept) -> str:
    """Say what a proposal without negative coordinates changes."""
    found = compare(kept, SUPPORT, paper_support())
    if found is None:
        return "No proposal of another support has been audited yet."
    told = f"{_whom(found)}. Mean RS: {found.told(found.ours)}; at canonical scale with the last epoch "
    told += f"{found.told(found.verdict)}.{verdicts_told(kept, found)}"
    if "bad-teacher" not in found.classes:
        return f"{told} Bad Teacher, of which the paper's table is, is not among them yet."
    mine, theirs = (
        ", ".join(f"{SUPPORT.names[level]} {score(side[level]['bad-teacher'])}" for level in found.ours)
        for side in (found.ours, found.paper)
    )
    return f"{told} Bad Teacher, of which the paper's table is: {mine}; the paper's {theirs}."


def sizes(kept: Kept) -> str:
    """Say what other numbers of probes and of candidates change."""
    told = [_size_told(kept, size) for size in SIZES]
    return " ".join([*told, "The paper's numbers for M and N are not among the printed ones that we have."])


def _size_told(kept: Kept, size: str) -> str:
    factor = SIZES[size]
    found = compare(kept, factor, {})
    if found is None:
        return f"No other {size} has been audited yet."
    used = [level for level in factor.names if level in found.ours]
    ranges = {m: _range(found.ours, used, m) for m in found.classes}
    up = [level for level in used if int(level) >= int(factor.main)]
    above = {m: _range(found.ours, up, m) for m in found.classes}
    most, most_above = (max(some, key=some.__getitem__) for some in (ranges, above))
    whom = _whom(found)
    ours, verdict = (
        ", ".join(f"{score(found.mean(side, level))} at {factor.names[level]}" for level in used if side.get(level))
        for side in (found.ours, found.verdict)
    )
    further = f", from {factor.names[factor.main]} up by {score(above[most_above])} ({method_name(most_above)})"
    return (
        f"By {size} ({whom[0].lower()}{whom[1:]}), at canonical scale with the last epoch, mean RS is {verdict}."
        f"{verdicts_told(kept, found, '')} In the paper's reading mean RS is {ours}; a method's moves by up to "
        f"{score(ranges[most])} ({method_name(most)}){further if len(up) > 1 else ''}.{no_epoch(kept, found)}"
    )


def _references(found: Compared) -> str:
    """Set what retrained models give beside the paper's."""
    sides = [
        [side[level]["retrained"] for level in found.ours if "retrained" in side.get(level, {})]
        for side in (found.ours, found.paper)
    ]
    if not all(len(side) == len(found.ours) for side in sides):
        return ""
    ours, theirs = (", ".join(f"{score(value)}" for value in side) for side in sides)
    names = ", ".join(found.factor.names[level] for level in found.ours)
    return f" Retrained models alone, {names}: ours {ours}, the paper's {theirs}."


def _told(kept: Kept, found: Compared) -> str:
    near = {level: _difference(found, level) for level in found.ours}
    apart = ", ".join(f"{found.factor.names[level]} {score(one)}" for level, one in near.items() if one is not None)
    return (
        f"{_whom(found)}. Mean RS: {found.told(found.ours)}; the paper's, over the same classes, "
        f"{found.told(found.paper)}; ours at canonical scale with the last epoch {found.told(found.verdict)}. Mean "
        f"absolute difference from the paper's: {apart}. {_most(found)}{_order_told(found)}"
        f"{verdicts_told(kept, found)}"
    )


def _whom(found: Compared) -> str:
    methods, models = list(found.classes), sum(map(len, found.classes.values()))
    classes = sorted({forget for some in found.classes.values() for forget in some})
    where = f"class {classes[0]}" if len(classes) == 1 else f"{models} models"
    if len(methods) == len(METHOD_LIST):
        return f"All {len(methods)} methods, {where}"
    if len(methods) + len(found.lost) == len(METHOD_LIST):
        return f"{len(methods)} of {len(METHOD_LIST)} methods (not {listed(found.lost)}, see above), {where}"
    if len(methods) == 1:
        return f"So far only {method_name(methods[0])}, {where}"
    return f"So far {len(methods)} of {len(METHOD_LIST)} methods, {where}"


def _most(found: Compared) -> str:
    """Name the largest change against the main audits, in both readings."""
    told = []
    for side, name in (
        (found.ours, "in the paper's reading"),
        (found.verdict, "at canonical scale with the last epoch"),
    ):
        changes = {
            (level, m): change
            for level in found.others
            for m, change in _changes(side, found.factor.main, level).items()
        }
        if changes:
            level, method = max(changes, key=lambda key: abs(changes[key]))
            place = f"{method_name(method)} with {found.factor.names[level]}"
            told.append(f"{signed(changes[level, method])} {name} ({place})")
    return f"The largest change against {found.factor.names[found.factor.main]} is {' and '.join(told)}."


def _order_told(found: Compared) -> str:
    """Say how far methods keep their order, where there are enough of them."""
    if len(found.classes) < 3:
        return " These are too few methods for an order."
    sides, names, alone = [], found.factor.names, len(found.others) == 1
    for side in (found.ours, found.verdict, found.paper):
        rhos = {level: order(side, found.factor.main, level) for level in found.others}
        told = [f"{'' if alone else f'{names[level]} '}{score(rho)}" for level, rho in rhos.items() if rho is not None]
        sides.append(", ".join(told))
    ours, verdict, paper = (side or "none" for side in sides)
    other = names[found.others[0]] if alone else "another"
    return (
        f" Spearman between methods' RS with {names[found.factor.main]} and with {other}: {ours}; at "
        f"canonical scale with the last epoch {verdict}; in the paper {paper}."
    )


def _changes(side: Mapping[str, Mapping[str, float]], main: str, level: str) -> dict[str, float]:
    a, b = side.get(main, {}), side.get(level, {})
    return {method: b[method] - a[method] for method in a if method in b}


def _difference(found: Compared, level: str) -> float | None:
    ours, theirs = found.ours[level], found.paper.get(level, {})
    both = [abs(ours[method] - theirs[method]) for method in ours if method in theirs]
    return fmean(both) if both else None


def _paper_change(theirs: Mapping[str, float], method: str) -> str:
    return f"the paper's {signed(theirs[method])}" if method in theirs else "not in the paper"


def _range(side: Mapping[str, Mapping[str, float]], used: Sequence[str], method: str) -> float:
    values = [side[level][method] for level in used]
    return max(values) - min(values)
