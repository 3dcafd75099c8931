"""Tables of audits with one setting varied: proposals, scores, sizes, and the forget row drawn anew."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from sfra.bench.rows import AuditRow, Rows
from sfra.bench.tables import columns as c
from sfra.bench.tables.names import forget_name, forget_of, level_rank, method_rank, place
from sfra.bench.tables.stages import MODEL, deviation, group, mean, select, spread
from sfra.bench.tables.table import Column, Table, make_table

Line = dict[str, Any]

SETTINGS = ("proposal", "score", "assignment", "n", "m", "epochs")
"""What must be equal for audits to differ in one thing only."""

NON_NEGATIVE = ("relu-gaussian", "abs-gaussian")
"""Proposals with a support of their own, compared in a table of their own."""

FRESH = {"released": "unlearned", "reset-row": "reset", "restored-row": "random"}
"""How the forget row of each variant came about: as released, drawn anew, or drawn because it was missing."""

SIZES = {"m": ("M", "probes per class"), "n": ("N", "candidates per class")}


def distributions_table(rows: Rows, *, scale: str, rule: str) -> Table:
    """Compare the proposal distributions that probes are drawn from: RS per forget class."""
    audits = [row for row in rows.audits if row.proposal not in NON_NEGATIVE]
    heading = c.word("distribution", "Distribution")
    return _factor_table("distributions", "Proposal distributions", audits, "proposal", heading, scale, rule)


def scores_table(rows: Rows, *, scale: str, rule: str) -> Table:
    """Compare the uncertainty scores that rank the candidates: RS per forget class."""
    heading = c.word("score", "Score")
    return _factor_table("scores", "Uncertainty scores", rows.audits, "score", heading, scale, rule)


def support_table(rows: Rows, *, scale: str, rule: str) -> Table:
    """Compare signed and non-negative proposals: what comes back, what it costs and where the probes lie."""
    shares = {
        "neg_coord": "negative_coordinates",
        "zero_coord": "zero_coordinates",
        "nonneg_vectors": "nonnegative_vectors",
        "mean_l2": "mean_norm",
    }
    audits = [
        row
        for row in select(rows.audits, scale=scale, rule=rule)
        if row.proposal in ("gaussian", *NON_NEGATIVE) and row.support
    ]
    compared = [row for same in _comparable(audits, "proposal") for row in same]
    lines = [
        _after(same)
        | {"draws_m": mean(row.draws for row in same), "time_s": mean(row.probe_seconds for row in same)}
        | {short: mean((row.support or {}).get(name) for row in same) for short, name in shares.items()}
        for same in _by_level(compared, "proposal")
    ]
    return make_table(
        "support",
        "Support of the proposals",
        (
            *(*c.PLACE, c.METHOD, c.FORGET, c.word("proposal", "Proposal"), *c.AFTER),
            *(c.figure("draws_m", "Draws (M)", c.millions), c.figure("time_s", "Time (s)", c.seconds)),
            *(c.figure("neg_coord", "Negative (%)", c.percent), c.figure("zero_coord", "Zero (%)", c.percent)),
            *(c.figure("nonneg_vectors", "Non-negative vectors (%)", c.percent), c.figure("mean_l2", "Mean norm")),
        ),
        lines,
        notes=(c.reading(scale, rule), "Draws and time are those of the probes alone."),
    )


def missing_row_table(rows: Rows, *, scale: str, rule: str) -> Table:
    """Compare the forget row as released with one drawn anew, as for a model that was released without it."""
    known = select(rows.audits, scale=scale, rule=rule, variant=None)
    main = {_model(row): _settings(row) for row in known if row.audit == "main"}
    alike = [row for row in known if main.get(_model(row), _settings(row)) == _settings(row) and row.variant in FRESH]
    fresh = {_model(row) for row in alike if row.variant != "released"}
    lines = [
        _after(same) | {"row": FRESH[same[0].variant], "forget_acc_before": mean(row.forget_before for row in same)}
        for same in _by_level([row for row in alike if _model(row) in fresh], "variant")
    ]
    before = c.figure("forget_acc_before", "Forget before (%)", c.percent)
    return make_table(
        "missing-row",
        "Missing forget row",
        (*c.PLACE, c.METHOD, c.FORGET, c.word("row", "Forget row"), c.RETAIN, before, c.FORGOTTEN, c.RS),
        lines,
        notes=(
            c.reading(scale, rule),
            "Forget row: unlearned = as released; reset = drawn anew; random = drawn for a head that lacks it.",
        ),
    )


def sensitivity_table(rows: Rows, size: str, *, scale: str, rule: str) -> Table:
    """Show RS and accuracies for several values of ``m`` or of ``n``, all else equal.

    Only forget sets that were audited with every value of their method are averaged, so that lines can be compared.
    """
    other = "n" if size == "m" else "m"
    heading, meaning = SIZES[size]
    lines = []
    held = [name for name in SETTINGS if name != size]
    for same in group(select(rows.audits, scale=scale, rule=rule), "dataset", "backbone", "method", *held).values():
        values = {forget: {row[size] for row in mine} for (forget,), mine in group(same, "forget").items()}
        every = set().union(*values.values())
        whole = [row for row in same if values[forget_of(row)] == every]
        lines += [_over_sets(alike) for alike in group(whole, size).values() if len(every) > 1]

    def rank(line: Mapping[str, Any]) -> tuple[Any, ...]:
        return *place(line["dataset"], line["backbone"]), line[other], method_rank(line["method"]), line[size]

    fixed = Column(names=(other,), heading=SIZES[other][0], fold=True, title=f"{SIZES[other][0]} = {{}}")
    return make_table(
        f"sensitivity-{size}",
        f"Sensitivity to {heading}",
        (*c.PLACE, fixed, c.METHOD, c.figure(size, heading, c.count), *c.AFTER, c.CLASSES),
        sorted(lines, key=rank),
        notes=(
            c.reading(scale, rule),
            f"{heading}: {meaning}. Means over forget sets; ± over them, or over the seeds of the audit "
            "if there is one.",
        ),
    )


def _factor_table(
    label: str, title: str, audits: Sequence[AuditRow], factor: str, heading: Column, scale: str, rule: str
) -> Table:
    """Show RS of each forget class, one line per method and value of the factor, and the mean over classes."""
    compared = _comparable(select(audits, scale=scale, rule=rule), factor)
    forgets = sorted({forget_of(row) for same in compared for row in same}, key=lambda f: (len(f), f))
    names = ["+".join(map(str, forget)) for forget in forgets]
    lines: list[Line] = []
    for some in compared:
        for same in group(_distinct(some, factor), "dataset", "backbone", "n", "m", "method", factor).values():
            by_class = {forget_name(mine[0]): mine for mine in group(same, "forget").values()}
            means = {name: mean(row.rs for row in mine) for name, mine in by_class.items()}
            rs = {f"rs_{name}": value for name, value in means.items()}
            stds = {f"rs_{name}_std": spread(mine) for name, mine in by_class.items()}
            average = {"rs_avg": mean(means.values()), "rs_avg_std": deviation(means.values())}
            lines.append({**same[0], heading.names[0]: same[0][factor], **rs, **stds, **average})

    def rank(line: Mapping[str, Any]) -> tuple[Any, ...]:
        where = place(line["dataset"], line["backbone"])
        return *where, line["n"], line["m"], method_rank(line["method"]), level_rank(line[heading.names[0]])

    sizes = (Column(names=(n,), heading=n.upper(), fold=True, title=f"{n.upper()} = {{}}") for n in ("n", "m"))
    classes = (
        Column(names=(f"rs_{name}", f"rs_{name}_std"), heading=name, style="spread", write=c.score)
        for name in (*names, "avg")
    )
    return make_table(
        label,
        title,
        (*c.PLACE, *sizes, c.METHOD, heading, *classes),
        sorted(lines, key=rank),
        notes=(
            c.reading(scale, rule),
            "RS of each forget class; ± over the seeds of the audit; avg = mean over classes.",
        ),
    )


def _comparable(rows: Iterable[AuditRow], factor: str) -> list[list[AuditRow]]:
    """Gather audits that agree in every setting but one, where there are two values of it or more."""
    held = [name for name in SETTINGS if name != factor]
    groups = group(rows, "dataset", "backbone", *held).values()
    return [same for same in groups if len({row[factor] for row in same}) > 1]


def _distinct(rows: Iterable[AuditRow], factor: str) -> list[AuditRow]:
    """Keep one row of each model and value, that of the ablation itself before others with the same settings."""
    found: dict[tuple[Any, ...], AuditRow] = {}
    for row in sorted(rows, key=lambda row: factor not in (row.varied or {})):
        found.setdefault((_model(row), _settings(row), row[factor]), row)
    return list(found.values())


def _by_level(rows: Iterable[AuditRow], factor: str) -> list[list[AuditRow]]:
    """Gather the rows of each model and value of the factor, in the order of the tables."""
    order = list(FRESH)

    def rank(key: tuple[Any, ...]) -> tuple[Any, ...]:
        dataset, backbone, method, forget, level = key
        last = (order.index(level), "") if level in order else level_rank(level)
        return *place(dataset, backbone), method_rank(method), len(forget), forget, last

    groups = group(_distinct(rows, factor), *MODEL, factor)
    return [groups[key] for key in sorted(groups, key=rank)]


def _after(rows: Sequence[AuditRow]) -> Line:
    return {
        **rows[0],
        "forget_class": forget_name(rows[0]),
        "retain_acc": mean(row.retain_after for row in rows),
        "forget_acc": mean(row.forget_after for row in rows),
        "rs": mean(row.rs for row in rows),
        "rs_std": spread(rows),
    }


def _over_sets(rows: Sequence[AuditRow]) -> Line:
    """Average over forget sets; the main audit and an ablation may be the same audit, which counts once."""
    once = list({(forget_of(row), row.seed): row for row in rows}.values())
    sets = [_after(same) for same in group(once, "forget").values()]
    scores = [one["rs"] for one in sets]
    return {
        **rows[0],
        "retain_acc": mean(one["retain_acc"] for one in sets),
        "forget_acc": mean(one["forget_acc"] for one in sets),
        "rs": mean(scores),
        "rs_std": deviation(scores) if len(scores) > 1 else spread(once),
        "classes": len(scores),
    }


def _settings(row: AuditRow) -> tuple[Any, ...]:
    return tuple(row[name] for name in SETTINGS)


def _model(row: AuditRow) -> tuple[Any, ...]:
    return row.dataset, row.backbone, row.seed, row.method, forget_name(row)
