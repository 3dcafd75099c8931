"""Sentences about the verdicts of audits with one setting varied, and about models that no setting should find."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from reproduction.ablations import Compared, level_rows
from reproduction.simple import joined, listed, number, score
from reproduction.stored import METHOD_LIST, PUBLISHED, VERDICT, Kept, count_alarms
from sfra.bench.tables.names import method_name

QUIET = 0.1
"""Mean RS of retrained models from which on a setting is called loud: about the floor of ten classes."""

HIGH = 0.5
"""RS of the last epoch from which on a best epoch without any is told."""


def verdicts_told(kept: Kept, found: Compared, where: str = "at canonical scale with the last epoch, ") -> str:
    """Say which levels change verdicts, and of whom.

    Args:
        kept: The rows.
        found: The audits compared.
        where: The reading of the verdicts, if it has not been said.
    """
    names, verdicts = found.factor.names, _verdicts(kept, found)
    main, told, same = verdicts[found.factor.main], [], []
    for level in found.others:
        changed = Counter(place[0] for place, verdict in verdicts.get(level, {}).items() if verdict != main.get(place))
        whose = joined([_times(m, changed[m], len(found.classes[m])) for m in METHOD_LIST if m in changed])
        if changed:
            told.append(f"with {names[level]} {changed.total()} of {len(verdicts[level])} ({whose})")
        else:
            same.append(names[level])
    if not told:
        return f" With {joined(same)}, {where}no verdict differs from that with {names[found.factor.main]}."
    none = [f"with {joined(same)} none"] if same else []
    head = f" Verdicts that{', ' if where else ' '}{where}differ from those with {names[found.factor.main]}: "
    return f"{head}{'; '.join([*told, *none])}."


def _verdicts(kept: Kept, found: Compared) -> dict[str, dict[tuple[str, str], str]]:
    """List the verdicts of the models compared, by level."""
    return {
        level: {
            (r["method"], r["forget"]): r["verdict"] for r in rows if r["forget"] in found.classes.get(r["method"], ())
        }
        for level, rows in level_rows(kept, found.factor, VERDICT).items()
    }


def _times(method: str, changed: int, classes: int) -> str:
    return method_name(method) if classes == 1 else f"{method_name(method)} {changed}"


def loud(kept: Kept, found: Compared) -> str:
    """Name the levels with which retrained models alarm where the verdict is made, and who is told from them yet."""
    main = found.factor.main
    mean = {level: some["retrained"] for level, some in found.verdict.items() if "retrained" in some}
    some = [level for level, value in mean.items() if value > QUIET]
    if not some or main in some or main not in mean:
        return ""
    return "".join(_loud(kept, found, level, mean) for level in some)


def _loud(kept: Kept, found: Compared, level: str, mean: Mapping[str, float]) -> str:
    rows = level_rows(kept, found.factor, VERDICT)[level]
    alarms, references = count_alarms(rows)
    found_all = [
        m
        for m in METHOD_LIST
        if (mine := [row["verdict"] for row in rows if row["method"] == m]) and set(mine) == {"recovered"}
    ]
    beside = f"; beside a reference all models of {listed(found_all)} are still recovered" if found_all else ""
    names = found.factor.names
    return (
        f" With {names[level]}, at canonical scale with the last epoch, retrained models give {score(mean[level])} "
        f"({names[found.factor.main]} {score(mean[found.factor.main])}), and {number(alarms)} of "
        f"{number(references)} raise an alarm: RS alone says nothing there{beside}."
    )


def no_epoch(kept: Kept, found: Compared) -> str:
    """Name the audits in which the paper's rule takes no epoch at all, though the class is back at the last one."""
    ends = level_rows(kept, found.factor, (PUBLISHED[0], VERDICT[1]))
    last = {level: {(row["method"], row["forget"]): row["rs"] for row in rows} for level, rows in ends.items()}
    none = [
        f"{method_name(row['method'])} with {found.factor.names[level]}"
        for level, rows in level_rows(kept, found.factor, PUBLISHED).items()
        for row in rows
        if row["forget"] in found.classes.get(row["method"], ())
        and row["epoch"] == 0
        and last.get(level, {}).get((row["method"], row["forget"]), 0.0) > HIGH
    ]
    if not none:
        return ""
    return (
        f" No epoch keeps 90 % of the retain accuracy there for {joined(none)}: the rule then takes none and RS is 0, "
        f"though it is above {HIGH} at the last epoch."
    )
