"""Score what was measured: RS under every rule, ΔRS against the reference, RS@ε, the curve over scales."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from statistics import fmean

import msgspec

from sfra.attack.grid import Setting
from sfra.attack.scale import SWEEP, scale_curve
from sfra.auditing.intervals import delta_interval, score_intervals
from sfra.auditing.measure import Measured
from sfra.auditing.result import Score, Sweep, SweepPoint
from sfra.auditing.rules import RULES, VERDICT_RULE
from sfra.auditing.verdict import margin, verdict
from sfra.core.cpu import one_thread
from sfra.core.metrics import degenerate_floor, mean_and_std, relearning_score, rs_at_budget

ACCURACIES = ("retain_before", "retain_after", "forget_before", "forget_after")


@one_thread()
def scores(measured: Sequence[Measured]) -> list[Score]:
    """Score every setting under every rule, in the order of the runs."""
    settings = dict.fromkeys(one.run.setting for one in measured)
    found = []
    for setting in settings:
        mine = [one for one in measured if one.run.setting == setting]
        found += [score for rule in RULES if (score := _score(setting, rule, mine)) is not None]
    return found


def _score(setting: Setting, rule: str, measured: Sequence[Measured]) -> Score | None:
    chosen = [(one, pick) for one in measured if (pick := one.chosen(rule)) is not None]
    picks = [pick for _, pick in chosen]
    epochs = tuple(one.epochs[at] for one, (at, _) in chosen)
    if not picks:
        return None
    accuracies = [
        (float(t.retain[0]), float(t.retain[epoch]), float(t.forget[0]), float(t.forget[epoch])) for epoch, t in picks
    ]
    seeds = [relearning_score(*four) for four in accuracies]
    rs, std = mean_and_std(seeds)
    retain_before, retain_after, forget_before, forget_after = (
        mean_and_std(column)[0] for column in zip(*accuracies, strict=True)
    )
    score = Score(
        scale=setting.scale.name,
        kappa=setting.scale.kappa,
        variant=setting.variant,
        rule=rule,
        rs=rs,
        rs_std=std,
        rs_seeds=tuple(seeds),
        **score_intervals(picks, accuracies, seeds),
        retain_before=retain_before,
        retain_after=retain_after,
        forget_before=forget_before,
        forget_after=forget_after,
        floor=degenerate_floor(retain_before),
        forget_samples=picks[0][1].forget_count,
        epoch=epochs[0],
        epochs=epochs,
    )
    return msgspec.structs.replace(score, verdict=verdict(score))


def class_scores(measured: Sequence[Measured], forget: Sequence[int]) -> dict[int, list[Score]]:
    """Score each of several forget classes that has samples for itself, at the verdict's scale and rule."""
    if len(forget) < 2 or not measured:
        return {}
    scale = measured[0].run.setting.scale
    mine = [one for one in measured if one.run.setting.scale == scale]
    counts = mine[0].test.counts
    return {
        label: [one for one in scores([part.only(label) for part in mine]) if one.rule == VERDICT_RULE]
        for label in forget
        if int(counts[label]) > 0
    }


def compare(model: Sequence[Score], references: Sequence[Sequence[Score]]) -> list[Score]:
    """Put every score beside those of each reference: same scale and rule, and a fresh row beside a fresh row.

    A reference without the forget row has nothing but fresh rows, so it is compared by scale and rule.
    """
    compared = []
    for score in model:
        fresh = score.variant != "released"
        beside = []
        for reference in references:
            same = [one for one in reference if (one.scale, one.rule) == (score.scale, score.rule)]
            beside += [one for one in same if (one.variant != "released") == fresh][:1] or same[:1]
        compared.append(against(score, beside) if beside else score)
    return compared


def against(score: Score, references: Sequence[Score]) -> Score:
    """Return a score with ΔRS to the mean of the references, its interval, and the verdict that they allow."""

    def mean(name: str) -> float:
        return fmean(getattr(one, name) for one in references)

    each = tuple(one.rs for one in references)
    beside = msgspec.structs.replace(
        score,
        delta_rs=score.rs - mean("rs"),
        delta_rs_interval=delta_interval(score, references),
        margin=margin(each, fresh=score.variant != "released"),
        reference_rs=mean("rs"),
        reference_rs_each=each,
        **{f"reference_{name}": mean(name) for name in ACCURACIES},
    )
    return msgspec.structs.replace(beside, verdict=verdict(beside))


def rs_at(measured: Sequence[Measured], setting: Setting, epsilons: Sequence[float]) -> dict[str, float]:
    """Return RS@ε of a setting for each retain budget ε, averaged over seeds."""
    traces = [one.test for one in measured if one.run.setting == setting]
    return {
        f"{epsilon:g}": mean_and_std([rs_at_budget(t.retain, t.forget, epsilon) for t in traces])[0]
        for epsilon in epsilons
    }


def summarise_sweep(found: Sequence[Score]) -> Sweep:
    """Summarise the verdict's rule over the scales of the sweep, in ascending order."""
    order = [scale.name for scale in SWEEP]
    curve = [one for one in found if one.rule == VERDICT_RULE and one.scale in order and one.variant != "reset-row"]
    points = [
        msgspec.convert(msgspec.structs.asdict(one), SweepPoint)
        for one in sorted(curve, key=lambda one: order.index(one.scale))
    ]
    best, beside = max(point.rs for point in points), [point.reference_rs for point in points]
    known = [rs for rs in beside if rs is not None]
    if len(known) < len(points):
        return Sweep(points=tuple(points), best_rs=best)
    return Sweep(points=tuple(points), best_rs=best, **asdict(scale_curve([point.rs for point in points], known)))
