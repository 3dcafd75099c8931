"""The diagnostics of one audit as tables that can be read: alignment, margin, confidence, trade-off, support."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from sfra.auditing.result import AuditResult
from sfra.report.classes import Names, class_name
from sfra.report.numbers import MISSING, number, percent, signed, span
from sfra.report.page.html import table

Row = Mapping[str, Any]
Table = dict[str, Any]

MOST_CLASSES = 20
"""Classes that a table lists; of more, those that matter most to it."""


def diagnosis_tables(audit: AuditResult) -> list[Table]:
    """Arrange what an audit diagnosed; what it did not has no table."""
    found, names = audit.diagnostics or {}, audit.class_names
    made: list[Table] = []
    if found.get("alignment"):
        made.append(_alignment(found["alignment"], names))
    made += [_margin(one, names) for one in found.get("margin") or ()]
    if found.get("confidence"):
        made.append(_confidence(found["confidence"], names))
    if found.get("tradeoff"):
        made.append(_tradeoff(found["tradeoff"]))
    if found.get("support"):
        made.append(_support(found["support"], audit.settings["seed"], names))
    return made


def _alignment(classes: Sequence[Row], names: Names) -> Table:
    rows = [
        [class_name(row["forget_class"], names), *_spread(row, "inner"), *_spread(row, "cosine"), str(row["seeds"])]
        for row in classes
    ]
    note = "Mean forget probe against mean real feature of the class: above 0, the probes point towards it."
    heads = ("Forget class", "Inner product", "± seeds", "Cosine", "± seeds", "Seeds")
    return table("Alignment", heads, rows, note=note)


def _margin(found: Row, names: Names) -> Table:
    others = sorted(found["competitors"], key=lambda row: (row["total"], row["label"]))
    count, same = len(others), found["agreement"]
    rows = [
        [
            *(class_name(row["label"], names), number(row["alpha_mean"]), number(row["alpha_std"])),
            *(signed(row[name]) for name in ("exact", "residual", "bias", "total")),
            "yes" if row["sufficient"] else "no",
        ]
        for row in others[:MOST_CLASSES]
    ]
    note = (
        f"What one gradient step on the forget probes does to the margin of {class_name(found['forget_class'], names)} "
        "over each retain class, per unit of learning rate, first seed; smallest change first"
        f"{f', {MOST_CLASSES} of {count}' if count > MOST_CLASSES else ''}. "
        f"Inner product {signed(found['inner'])}, 95 % interval {span(found['inner_interval'], sign=True)}. "
        f"Alignment alone is sufficient for {found['sufficient']} of {count}; the margin rises over {found['rising']}. "
        f"Exact against approximate: Pearson {number(same['pearson'])}, Spearman {number(same['spearman'])}, "
        f"same sign {percent(same['sign_agreement'])}."
    )
    heads = ("Retain class", "α", "± probes", "Weight", "Left out by alignment", "Bias", "In all", "Sufficient")
    return table("Margin", heads, rows, words=("Sufficient",), note=note)


def _confidence(found: Row, names: Names) -> Table:
    classes = sorted(found["classes"], key=lambda row: (-row["assigned"], row["label"]))
    shown = [("all", found), *((class_name(row["label"], names), row) for row in classes[:MOST_CLASSES])]
    rows = [
        [
            *(who, str(row["correct"]), percent(row["correct_confidence"])),
            *(str(row["assigned"]), percent(row["assigned_confidence"])),
            MISSING if row["gap"] is None else signed(100 * row["gap"], 1),
        ]
        for who, row in shown
    ]
    left = f" The {MOST_CLASSES} classes that most are given to." if len(classes) > MOST_CLASSES else ""
    note = (
        "How sure the released head is of correct retain samples, and of forget samples that it gives to a retain "
        f"class: {found['assigned']} of {found['forget_samples']}. Confidence: the largest softmax output.{left}"
    )
    heads = ("Retain class", "Correct", "Confidence", "Forget given to it", "Confidence", "Gap (points)")
    return table("Confidence", heads, rows, note=note)


def _tradeoff(found: Row) -> Table:
    rows = [
        [f"{number(100 * row['epsilon'], 1)} points", number(row["rs"]), number(row["rs_std"])]
        for row in found["budgets"]
    ]
    efficient = ", ".join(str(len(epochs)) for epochs in found["efficient"])
    note = (
        "RS@ε: the best RS among epochs that lose at most ε of retain accuracy. "
        f"Number of epochs that no other beats in both RS and loss, by seed: {efficient}."
    )
    return table("Trade-off", ("Retain budget ε", "RS@ε", "± seeds"), rows, note=note)


def _support(runs: Sequence[Row], first: int, names: Names) -> Table:
    rows = []
    for seed, row in enumerate(runs, start=first):
        shares = [percent(row[name]) for name in ("negative_coordinates", "zero_coordinates", "nonnegative_vectors")]
        rare = ", ".join(class_name(label, names) for label in row["conditional"] or ()) or "none"
        counts = [MISSING if row[name] is None else f"{row[name]:,}" for name in ("probes", "draws")]
        last = [number(row["mean_norm"]), str(row["failure"] or rare)]
        rows.append([str(seed), str(row["proposal"]), *counts, *shares, *last])
    note = "Where the probes of the audit lie. Classes too rare for plain draws are sampled conditionally."
    heads = ("Seed", "Proposal", "Probes", "Draws", "Coordinates < 0", "Coordinates = 0", "Probes all ≥ 0")
    return table("Support", (*heads, "Mean norm", "Too rare"), rows, words=("Proposal", "Too rare"), note=note)


def _spread(row: Row, name: str) -> list[str]:
    return [signed(row[name]), number(row[f"{name}_std"])]
