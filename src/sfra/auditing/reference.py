"""The reference of an audit: relearned just now, or taken from an earlier audit of it, which serves many models."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean

import msgspec
import torch

from sfra.attack.grid import Setting, seeds_of, settings_of
from sfra.auditing.config import LATER, AuditConfig
from sfra.auditing.findings import facts_of, raise_findings
from sfra.auditing.findings.fit import expected_of_reference
from sfra.auditing.findings.registry import critical
from sfra.auditing.measure import Evidence
from sfra.auditing.record import data_facts, release_facts, run_traces
from sfra.auditing.result import AuditResult, Finding, ReleaseFacts, RunTrace, Score
from sfra.auditing.rules import RULES
from sfra.auditing.score import class_scores, scores
from sfra.auditing.subject import Subject, refuse_same
from sfra.core.errors import InputError
from sfra.core.metrics import relearning_curve

FREE = ("device", "threads", "budgets", "epsilon_r", "delta_f", "expect_accuracy")
"""Settings in which the two audits may differ: they do not touch the reference's score."""

ROUNDING = 1e-5
"""How far a score may be from its curve, which is kept with six digits."""


@dataclass(frozen=True, kw_only=True)
class Reference:
    """What an audit needs to know of a reference."""

    scores: Sequence[Score]
    """Every setting under every rule."""
    class_scores: Mapping[int, Sequence[Score]]
    """Of each class for itself, where several were forgotten."""
    traces: tuple[RunTrace, ...]
    facts: ReleaseFacts
    problems: tuple[Finding, ...]
    """What is critical about it by itself."""

    @classmethod
    def gathered(cls, evidence: Evidence, expect_accuracy: float | None = None) -> Reference:
        """Take the reference's own evidence; one that is as good as the model is said to be is not doubted either."""
        mine = scores(evidence.measured or ())
        config = AuditConfig(expect_accuracy=expected_of_reference(evidence.subject.answers, expect_accuracy))
        raised = raise_findings(facts_of(evidence, mine, (), config))
        return cls(
            scores=mine,
            class_scores=class_scores(evidence.measured or (), evidence.subject.forget),
            problems=critical(raised),
            traces=run_traces(evidence, "reference"),
            facts=release_facts(evidence.subject),
        )


def check_earlier(earlier: AuditResult, subject: Subject, config: AuditConfig) -> None:
    """Refuse an earlier audit of the reference that is not the audit at hand in every respect."""
    _same("forget classes", list(subject.forget), list(earlier.forget_classes))
    own = json.loads(json.dumps(config.resolved(subject.classes, len(subject.forget)).to_dict()))
    for name in own:
        if name not in FREE:
            _same(name, own[name], (LATER | earlier.settings).get(name))
    here = data_facts(subject)
    for name in ("samples", "labels", "validation"):
        _same(f"evaluation data ({name})", getattr(here, name, None), getattr(earlier.data, name, None))
    _same("forget row", "missing" if subject.missing else "present", earlier.model.forget_row)
    read = [(one.scale, one.variant, one.rule) for one in earlier.results]
    wanted = [] if subject.test is None else settings_of(config, missing=subject.missing)
    rules = [name for name, rule in RULES.items() if not rule.validates]
    always = {(setting.scale.name, setting.variant, rule) for setting in wanted for rule in rules}
    if len(set(read)) < len(read) or not always <= set(read):
        raise InputError(
            "the audit of the reference is incomplete",
            expected="one score per scale, variant and rule",
            got="scores that are missing or there twice",
            do="audit the reference again, or pass the reference model itself",
        )
    if not _adds_up(earlier, wanted, config):
        raise InputError(
            "the audit of the reference contradicts itself",
            expected="one curve per scale, variant and seed, over all epochs, and scores that are read off them",
            got="other curves, or other scores",
            do="it may be changed by hand: audit the reference again, or pass the reference model itself",
        )


def _adds_up(earlier: AuditResult, settings: Sequence[Setting], config: AuditConfig) -> bool:
    """Say whether the curves of an earlier audit are those of the settings, and its scores are read off them."""
    seeds = seeds_of(config)
    own = {(one.scale, one.variant, one.seed): one for one in earlier.traces if one.subject == "model"}
    curves = [curve or () for one in own.values() for curve in (one.retain, one.forget, one.rs, one.loss)]
    if {*own} != {(one.scale.name, one.variant, seed) for one in settings for seed in seeds}:
        return False
    if any(len(curve) != config.epochs + 1 for curve in curves) or not all(map(_is_curve, own.values())):
        return False
    return all(_read_off(one, [own.get((one.scale, one.variant, seed)) for seed in seeds]) for one in earlier.results)


def _is_curve(trace: RunTrace) -> bool:
    """Say whether the scores of a curve are those of its accuracies."""
    retain, forget, rs = (torch.tensor(curve, dtype=torch.float64) for curve in (trace.retain, trace.forget, trace.rs))
    return bool(((relearning_curve(retain, forget) - rs).abs() <= ROUNDING).all())


def _read_off(score: Score, traces: Sequence[RunTrace | None]) -> bool:
    """Say whether a score is the mean of what the curves of its seeds show at its epochs, inside its intervals."""
    if not len(score.rs_seeds) == len(score.epochs) == len(traces) or score.rule not in RULES:
        return False
    heads = [
        (trace, epoch) for trace, epoch in zip(traces, score.epochs, strict=True) if trace and epoch < len(trace.loss)
    ]
    if len(heads) < len(traces):
        return False
    pairs = [(fmean(score.rs_seeds), score.rs)]
    if not RULES[score.rule].validates:  # else it is read off the curve of a part of the data, which is not kept
        pairs += [(trace.rs[epoch], rs) for (trace, epoch), rs in zip(heads, score.rs_seeds, strict=True) if trace.rs]
        for curve, before, after in (
            ("retain", score.retain_before, score.retain_after),
            ("forget", score.forget_before, score.forget_after),
        ):
            found = [(getattr(trace, curve), epoch) for trace, epoch in heads]
            pairs += [(fmean(one[0] for one, _ in found), before), (fmean(one[at] for one, at in found), after)]
    for low, high in (one for one in (score.rs_interval, score.rs_sample_interval) if one is not None):
        pairs += [(min(max(low, score.rs), high), score.rs)]
    return all(abs(one - other) <= ROUNDING for one, other in pairs)


def earlier_problems(earlier: AuditResult) -> tuple[Finding, ...]:
    """Return what is critical about an audited reference by itself."""
    return tuple(one for one in critical(earlier.findings) if not one.code.startswith("reference-"))


def earlier_reference(earlier: AuditResult, evidence: Evidence) -> Reference:
    """Take the reference from an earlier audit of it, unless it is the model itself, which only the traces show."""
    reference = Reference(
        scores=earlier.results,
        class_scores={one.label: one.scores for one in earlier.classes},
        traces=tuple(
            msgspec.structs.replace(trace, subject="reference") for trace in earlier.traces if trace.subject == "model"
        ),
        facts=earlier.model,
        problems=earlier_problems(earlier),
    )
    same_model = reference.facts.fingerprint == evidence.subject.release.fingerprint
    if same_model and reference.traces == run_traces(evidence, "reference"):
        refuse_same()
    return reference


def _same(what: str, here: object, there: object) -> None:
    if here != there:
        raise InputError(
            f"the reference was audited differently: {what}",
            expected=here,
            got=there,
            do="audit the reference again with these settings, or pass the reference model itself",
        )
