"""From a store to rows: typed records that tables, figures and pages are made of."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import MISSING, dataclass, field, fields, replace
from typing import Annotated, Any, TypeVar

import msgspec

from sfra.auditing.stored import read_result
from sfra.bench.contents import Count, Number, origin_of
from sfra.bench.engine.cell import reachable
from sfra.bench.engine.store import Store
from sfra.bench.plan import Goal

Positive = Annotated[int, msgspec.Meta(ge=1)]


@dataclass(frozen=True)
class Row(Mapping[str, Any]):
    """A record with named, typed fields that also reads like a mapping, as the rows of a CSV file do."""

    def __getitem__(self, name: str) -> Any:
        if name not in self.__dataclass_fields__:
            raise KeyError(name)
        return getattr(self, name)

    def __iter__(self) -> Iterator[str]:
        """List the fields in order; one with a default only where it is set."""
        return (one.name for one in fields(self) if one.default is MISSING or self[one.name] != one.default)

    def __len__(self) -> int:
        return sum(1 for _ in self)

    def __or__(self, changes: Mapping[str, Any]) -> dict[str, Any]:
        return {**self, **changes}


@dataclass(frozen=True, kw_only=True)
class ModelRow(Row):
    """Something measured of one model."""

    dataset: str
    backbone: str
    seed: int
    """Of the training."""
    method: str


@dataclass(frozen=True, kw_only=True)
class ForgetRow(ModelRow):
    """Something measured of a model that forgot some classes."""

    forget: str
    """Forget classes as text, such as ``1+6``."""
    forget_classes: list[int]


@dataclass(frozen=True, kw_only=True)
class OriginalRow(ModelRow):
    """Accuracy of an original on the test split."""

    accuracy: Number | None
    hits: list[Count]
    """Correct samples, per class."""
    samples: list[Count]
    class_names: list[str] | None
    model: dict[str, Any]
    """How it was trained."""


@dataclass(frozen=True, kw_only=True)
class AuditRow(ModelRow):
    """One audit at one scale, variant and rule; the fields from ``scale`` to ``epoch`` are those of audit.json."""

    forget: str
    """Forget classes as text, such as ``1+6``."""
    audit: str
    """``main``, or the name of an ablation."""
    varied: dict[str, Any] | None = None
    """What the ablation sets."""
    forget_classes: list[int]
    retain_original: Number | None
    forget_original: Number | None
    proposal: str
    score: str
    assignment: str
    n: Count
    m: Count
    epochs: Count
    seeds: Count
    cell: str
    """Key of the cell, where audit.json is."""
    seconds: Number | None
    findings: list[str]
    scale: str
    kappa: Number | None
    variant: str
    rule: str
    rs: Number
    rs_std: Number | None
    delta_rs: Number | None
    reference_rs: Number | None
    retain_before: Number
    retain_after: Number
    forget_before: Number
    forget_after: Number
    floor: Number | None
    verdict: str
    epoch: Count
    probe_seconds: Number | None
    """To draw the probes, mean over seeds; the same for ``draws``."""
    draws: Number | None
    support: dict[str, Number] | None
    """Where the probes of the first seed lie."""


@dataclass(frozen=True, kw_only=True)
class PraRow(ForgetRow):
    """One model after PRA, for one variant and draw of support samples."""

    variant: str
    support: Count
    """Number of the draw."""
    alpha: Number
    retain_before: Number
    retain_after: Number
    forget_before: Number
    forget_after: Number
    rs: Number
    delta_rs: Number | None
    """RS minus that of the retrained model with the same variant and draw."""


@dataclass(frozen=True, kw_only=True)
class ProbeRow(ForgetRow):
    """The linear probe of one model."""

    forget_accuracy: Number
    per_class: dict[str, Number | None]
    retain_accuracy: Number | None
    epoch: Count


@dataclass(frozen=True, kw_only=True)
class DiagnosisRow(ForgetRow):
    """One diagnosed model, scale and forget class."""

    cell: str
    proposal: str
    score: str
    n: Count
    m: Count
    seeds: Count
    forget_class: Count
    scale: str
    variant: str
    gain: Number
    inner: Number | None
    inner_std: Number | None
    cosine: Number | None
    cosine_std: Number | None
    error: Number | None
    probe_norm: Number | None
    chance_norm: Number | None
    feature_norm: Number | None
    alpha_mean: Number | None
    alpha_std: Number | None
    residual_min: Number | None
    residual_max: Number | None
    exact_min: Number | None
    exact_max: Number | None
    competitors: Positive
    """Retain classes; ``sufficient`` and ``rising`` count among them."""
    sufficient: Count
    rising: Count
    pairs: Count
    pearson: Number | None
    spearman: Number | None
    slope_through_origin: Number | None
    slope: Number | None
    intercept: Number | None
    sign_agreement: Number | None
    correct_confidence: Number | None
    matched_confidence: Number | None
    assigned_confidence: Number | None
    gap: Number | None
    matched_gap: Number | None
    assigned: Count
    """Forget samples that the released head gives to a retain class, out of ``forget_samples``."""
    forget_samples: Positive


@dataclass(frozen=True, kw_only=True)
class MapRow(ForgetRow):
    """One model with a map of samples and probes; the points are in a file of the cell."""

    cell: str
    scale: str
    variant: str
    points: Count


@dataclass(frozen=True, kw_only=True)
class FailureRow(Row):
    """One cell that failed."""

    label: str
    kind: str
    message: str
    attempts: int


@dataclass(frozen=True, kw_only=True)
class Rows:
    """Everything that a store holds for a protocol, as far as it is done."""

    originals: list[OriginalRow] = field(default_factory=list)
    audits: list[AuditRow] = field(default_factory=list)
    pra: list[PraRow] = field(default_factory=list)
    probes: list[ProbeRow] = field(default_factory=list)
    diagnostics: list[DiagnosisRow] = field(default_factory=list)
    maps: list[MapRow] = field(default_factory=list)
    failures: list[FailureRow] = field(default_factory=list)
    missing: int = 0
    """Goals that are not done."""


OF_AUDIT = ("proposal", "score", "assignment", "n", "m", "epochs", "seeds")
"""Settings of an audit that its rows carry."""

_NAMES = [one.name for one in fields(AuditRow)]
OF_READING = tuple(_NAMES[_NAMES.index("scale") : _NAMES.index("epoch") + 1])
"""What a row takes from one of the results in audit.json."""

AnyRow = TypeVar("AnyRow", bound=ModelRow)
Found = Mapping[str, Any]
"""What a cell says."""


def collect(goals: Sequence[Goal], store: Store) -> Rows:
    """Read what is done; compute and write nothing.

    Raises:
        InputError: A cell does not hold what its kind does; a store may be damaged, or come from elsewhere.
    """
    records = {goal.cell.key: store.record(goal.cell) for goal in goals}
    results = {key: record.result for key, record in records.items() if record is not None}

    def read(what: str, kind: type[AnyRow], rows_of: Callable[[Goal, Found], Iterable[Found]]) -> list[AnyRow]:
        rows: list[AnyRow] = []
        for goal in goals:
            if goal.what == what and goal.cell.key in results:
                with origin_of(store, goal.cell).reading():
                    found = rows_of(goal, results[goal.cell.key])
                    rows += [msgspec.convert({**row, **_identity(goal)}, kind) for row in found]
        return rows

    def overall(_: Goal, found: Found) -> list[Found]:
        return [{**found, "accuracy": accuracy(found["hits"], found["samples"], range(len(found["hits"])))}]

    originals = read("accuracy", OriginalRow, overall)
    by_model = {(row.dataset, row.backbone, row.seed): row for row in originals}
    pra = read("pra", PraRow, lambda _, found: [{"delta_rs": None, **row} for row in found["rows"]])
    return Rows(
        originals=originals,
        audits=read("audit", AuditRow, lambda goal, _: _audit_rows(goal, store, by_model)),
        pra=_with_delta(pra),
        probes=read("linear-probe", ProbeRow, lambda _, found: [found]),
        diagnostics=read("diagnostics", DiagnosisRow, lambda _, found: [{**found, **row} for row in found["rows"]]),
        maps=read("geometry", MapRow, lambda _, found: [found]),
        failures=_failures(goals, store),
        missing=sum(goal.cell.key not in results for goal in goals),
    )


def join(parts: Sequence[Rows]) -> Rows:
    """Put the rows of protocols that share a store together; a row that several of them have counts once."""
    names = [one.name for one in fields(Rows) if one.name != "missing"]
    rows = {name: list({repr(row): row for part in parts for row in getattr(part, name)}.values()) for name in names}
    return Rows(**rows, missing=sum(part.missing for part in parts))


def accuracy(hits: Sequence[int], samples: Sequence[int], classes: Iterable[int]) -> float | None:
    """Compute the accuracy over some classes; None if they have no samples.

    >>> accuracy([9, 5, 8], [10, 10, 10], [0, 2])
    0.85
    """
    chosen = list(classes)
    total = sum(samples[c] for c in chosen)
    return sum(hits[c] for c in chosen) / total if total else None


def _identity(goal: Goal) -> dict[str, Any]:
    """Say whose a row is; what a cell says cannot change it."""
    forget = goal.identity.get("forget")
    classes = {} if forget is None else {"forget_classes": [int(label) for label in str(forget).split("+")]}
    return {**goal.identity, **classes, "cell": goal.cell.key}


def _audit_rows(goal: Goal, store: Store, originals: Mapping[tuple[str, str, int], OriginalRow]) -> Iterator[Found]:
    """Read an audit; ΔRS of a retrained model, the reference itself, is 0."""
    report, identity = read_result(store.folder(goal.cell) / "audit.json"), _identity(goal)
    original = originals.get((identity["dataset"], identity["backbone"], identity["seed"]))
    hits, samples = (original.hits, original.samples) if original is not None else ([], [])
    forget = identity["forget_classes"] if original is not None else []
    shared = {
        **{name: report.settings[name] for name in OF_AUDIT},
        "retain_original": accuracy(hits, samples, set(range(len(hits))) - set(forget)),
        "forget_original": accuracy(hits, samples, forget),
        "seconds": report.seconds,
        "findings": [finding.code for finding in report.findings],
    }
    for score in report.results:
        probes = [one for one in report.probes if (one.scale, one.variant) == (score.scale, score.variant)]
        yield {
            **msgspec.structs.asdict(score),
            **shared,
            **({"delta_rs": 0.0, "reference_rs": score.rs} if identity["method"] == "retrained" else {}),
            "probe_seconds": _mean([one.seconds for one in probes]),
            "draws": _mean([one.draws for one in probes]),
            "support": msgspec.structs.asdict(probes[0].support) if probes else None,
        }


def _with_delta(rows: Sequence[PraRow]) -> list[PraRow]:
    def draw(row: PraRow) -> tuple[Any, ...]:
        return row.dataset, row.backbone, row.seed, row.forget, row.variant, row.support

    reference = {draw(row): row.rs for row in rows if row.method == "retrained"}
    return [replace(row, delta_rs=row.rs - reference[draw(row)] if draw(row) in reference else None) for row in rows]


def _failures(goals: Sequence[Goal], store: Store) -> list[FailureRow]:
    failures = store.failures()
    return [
        FailureRow(label=cell.label, kind=failed.reason, message=failed.message, attempts=failed.attempts)
        for key, cell in reachable(goal.cell for goal in goals).items()
        if (failed := failures.get(key)) is not None
    ]


def _mean(values: Sequence[int | float]) -> float | None:
    return sum(values) / len(values) if values else None
