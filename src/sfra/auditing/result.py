"""The result of an audit, as types: what ``audit.json`` holds, and how it is written.

The JSON schema comes from these types (``schema.py``); ``docs/audit-json.md`` describes the keys.
"""

from __future__ import annotations

import json
from operator import attrgetter
from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta, Struct

from sfra.core.errors import InputError
from sfra.core.files import to_bytes, write_together
from sfra.core.head import Head
from sfra.core.views import VIEWS
from sfra.release.preprocess import Preprocess

SCHEMA = "sfra.audit/3"
"""Name and version of the layout of ``audit.json``.

Earlier ones are read too: version 2 knew one ``reference``; version 1 called the traces ``trajectory``.
"""

HEAD_FILE = "relearned_head.safetensors"
"""What lies beside ``audit.json``."""

Share = Annotated[float, Meta(ge=0, le=1)]
"""An accuracy, a score, a probability."""

Delta = Annotated[float, Meta(ge=-1, le=1)]
Interval = tuple[float, float]
Index = Annotated[int, Meta(ge=0)]
Covers = Literal["test samples", "test samples and audit seeds"]
"""What an interval covers: one seed has no spread, so its interval leaves the seeds out."""

Severity = Literal["info", "warning", "critical"]
"""How to read a score with a finding: in this light; with care; not at all."""


class Score(Struct, frozen=True, kw_only=True):
    """What one selection rule reads off the runs of one scale and variant: means over the seeds."""

    scale: str
    kappa: float | None
    """Median norm of the retain rows at this scale, where the scale fixes it."""
    variant: str
    """The forget row: ``released``, ``reset-row`` or ``restored-row``."""
    rule: str
    """Which epoch counts."""
    rs: Share
    rs_std: float | None
    """Sample standard deviation over seeds; None for one seed."""
    rs_seeds: tuple[Share, ...]
    rs_interval: Interval | None = None
    """95 % interval of RS."""
    rs_sample_interval: Interval | None = None
    """The same from test samples alone."""
    rs_seed_error: float | None = None
    """Standard error of RS over seeds, without what finite samples cause; None for one seed."""
    interval_covers: Covers | None = None
    """What all intervals of this score cover; None in files of older versions, whose intervals cover less."""
    delta_rs: Delta | None = None
    """RS minus the reference's, or the mean of several; None without a reference."""
    delta_rs_interval: Interval | None = None
    """95 % interval of ΔRS from the intervals of RS of model and reference."""
    margin: float | None = None
    """ΔRS that honest retrainings stay below: what the verdict compares ΔRS with."""
    reference_rs: Share | None = None
    reference_rs_each: tuple[Share, ...] = ()
    """RS of each reference."""
    reference_retain_before: Share | None = None
    reference_retain_after: Share | None = None
    reference_forget_before: Share | None = None
    reference_forget_after: Share | None = None
    retain_before: Share
    retain_after: Share
    forget_before: Share
    forget_after: Share
    retain_before_interval: Interval | None = None
    retain_after_interval: Interval | None = None
    forget_before_interval: Interval | None = None
    forget_after_interval: Interval | None = None
    floor: Share
    """RS of a head that always answers the forget class."""
    verdict: str = "not-measured"
    """What these numbers alone allow one to say."""
    forget_samples: Index
    """Forget samples that were measured on."""
    epoch: Index
    """Epoch of the first seed."""
    epochs: tuple[Index, ...]
    """Epoch of each seed."""


class Hidden(Struct, frozen=True, kw_only=True):
    """Classes that were hidden at the head by construction, and what the audit brought back of them."""

    classes: tuple[Index, ...]
    accuracy: Share
    """What the model recognised of them before they were hidden."""
    seen: bool
    """Whether the audit would have said that they come back."""
    score: Score

    @property
    def seen_words(self) -> str:
        """Say whether they were seen; a class may come back and yet not stand out from the reference."""
        alike = self.score.verdict in ("generic", "inconclusive") and self.score.rs >= 0.5
        return "yes" if self.seen else "no: the reference is near" if alike else "no"


class Control(Struct, frozen=True, kw_only=True):
    """What the audit sees of classes that are hidden by construction."""

    kind: Literal["original", "self"]
    """The forget classes of the original, or retain classes of the released model itself."""
    source: str
    hidden: tuple[Hidden, ...]

    @property
    def seen(self) -> float:
        """Share of the hidden groups that the audit would have seen."""
        return sum(one.seen for one in self.hidden) / len(self.hidden)


class ScaleStep(Struct, frozen=True, kw_only=True):
    """What hidden retain classes gave back at one size of the head."""

    kappa: float
    rs: tuple[Share, ...]
    """RS of each group of hidden classes."""
    retain_drop: float
    """Median of the retain accuracy that they cost."""


class Calibration(Struct, frozen=True, kw_only=True):
    """How the scale of the verdict was found: on retain classes that were hidden, without the forgotten one."""

    kappa: float
    """The smallest size at which they come back; the canonical one where there is none."""
    found: bool
    """They do come back at it."""
    classes: tuple[tuple[Index, ...], ...]
    """The groups of classes that were hidden."""
    steps: tuple[ScaleStep, ...]
    """The sizes that were looked at, in ascending order."""


class ClassResult(Struct, frozen=True, kw_only=True):
    """What became of one of several forget classes."""

    label: Index
    verdict: str
    scores: tuple[Score, ...]
    """At the verdict's scale and rule; the first is the verdict's. Empty where the class has no samples."""


class BeforeAfter(Struct, frozen=True, kw_only=True):
    """An accuracy before and after relearning; None where nothing was measured."""

    before: Share | None = None
    after: Share | None = None
    before_interval: Interval | None = None
    after_interval: Interval | None = None


class Finding(Struct, frozen=True):
    """Something about an audit that changes how its score is read.

    >>> Finding("retain-drop", "warning", 0.07, 0.05, "relearning cost 7.0 points").code
    'retain-drop'
    """

    code: str
    """Name of the rule, as in ``docs/flags.md``."""
    severity: Severity
    measured: float | None
    """The number that the rule compared; None where there was nothing to measure."""
    threshold: float | None
    """What it was compared with; None for a rule without a threshold."""
    message: str
    """One or two sentences for a reader who does not know the rule."""
    remedy: str | None = None
    """What to do about it, in one line; every critical finding has one."""


class SweepPoint(Struct, frozen=True, kw_only=True):
    """One scale of a sweep, under the verdict's rule."""

    kappa: float
    scale: str
    rs: Share
    reference_rs: Share | None
    delta_rs: Delta | None
    retain_before: Share
    retain_after: Share
    forget_after: Share


class Sweep(Struct, frozen=True, kw_only=True):
    """The curve over scales and its summary."""

    points: tuple[SweepPoint, ...]
    best_rs: Share
    area: float | None = None
    """Area between the curve of (RS of the reference, RS of the model) and the diagonal."""
    rs_at_reference: float | None = None
    """Highest RS of the model while the reference stays at or below ``level``."""
    level: float | None = None


class RunTrace(Struct, frozen=True, kw_only=True):
    """Accuracies and loss of every epoch of one run; None where nothing was measured."""

    subject: Literal["model", "reference"]
    scale: str
    kappa: float | None
    variant: str
    seed: Index
    retain: tuple[Share, ...] | None
    forget: tuple[Share, ...] | None
    rs: tuple[Share, ...] | None
    loss: tuple[float, ...]


class Confusion(Struct, frozen=True, kw_only=True):
    """What the samples of each forget class are taken for: counts per class."""

    classes: tuple[Index, ...]
    before: tuple[tuple[Index, ...], ...]
    after: tuple[tuple[Index, ...], ...]


class SupportFacts(Struct, frozen=True, kw_only=True):
    """Where the proposal's draws lie."""

    negative_coordinates: Share
    zero_coordinates: Share
    nonnegative_vectors: Share
    mean_norm: float


class ProbeFacts(Struct, frozen=True, kw_only=True):
    """How the probes of one run came about."""

    scale: str
    variant: str
    seed: Index
    retain: Index
    forget: Index
    draws: Index
    acceptance: tuple[float, ...]
    conditional: dict[str, str]
    """Classes that were sampled conditionally, and how."""
    support: SupportFacts
    engine: str
    seconds: float


class ReleaseFacts(Struct, frozen=True, kw_only=True):
    """What was audited."""

    source: str
    fingerprint: str
    outputs: Index
    width: Index
    forget_row: Literal["present", "missing"]
    preprocess: Preprocess | str | None = None
    """How its images were prepared, a function of the user's own in words; None where it got none."""


class DataFacts(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What it was measured on."""

    source: str
    kind: Literal["features", "images", "inputs"] | None = None
    samples: Index
    labels: str
    """Hash of the labels."""
    numbering: str | None = None
    """How labels that were names became indices."""
    validation: str
    """What the validation rule selected on."""
    confidence: Share | None = None
    """Mean of the model's largest probability over the retain samples, before relearning."""
    drift: float | None = None
    """How far the images are from what the network's first batch norm remembers; None where that is not known."""


class AuditResult(Struct, frozen=True, kw_only=True):
    """What an audit found. Accuracies are in [0, 1]; None stands for what was not measured."""

    schema: str = SCHEMA
    verdict: str
    """A key of ``sfra.auditing.verdicts.VERDICTS``."""
    statement: str
    """The verdict in words."""
    rs: Share | None
    """Relearning score at the scale, rule and variant named below, mean over seeds."""
    rs_std: float | None
    rs_interval: Interval | None
    interval_covers: Covers | None = None
    """What all intervals cover."""
    delta_rs: Delta | None
    """RS minus the reference's RS in the same audit."""
    delta_rs_interval: Interval | None
    reference_rs: Share | None
    scale: str
    rule: str
    variant: str
    floor: Share | None
    retain: BeforeAfter
    forget: BeforeAfter
    rs_at: dict[str, Share]
    """RS@ε: best RS on the trajectory among epochs that lose at most ε of retain accuracy."""
    relearned: bool | None
    """(ε, δ)-relearning holds, with the ε and δ of the settings."""
    findings: tuple[Finding, ...]
    results: tuple[Score, ...]
    """One score per scale, variant and rule; the first is the verdict's."""
    sweep: Sweep | None
    traces: tuple[RunTrace, ...]
    confusion: Confusion | None
    probes: tuple[ProbeFacts, ...]
    model: ReleaseFacts
    references: tuple[ReleaseFacts, ...]
    data: DataFacts | None
    forget_classes: tuple[Index, ...]
    class_names: tuple[str, ...] | None
    settings: dict[str, Any]
    """The fields of :class:`sfra.AuditConfig`, with ``n`` and ``m`` filled in."""
    versions: dict[str, str]
    seconds: float
    created: str
    classes: tuple[ClassResult, ...] = ()
    """Each class for itself, where several were forgotten."""
    controls: tuple[Control, ...] = ()
    """What the audit sees of classes that are hidden by construction."""
    calibration: Calibration | None = None
    """How the scale of the verdict was found, with ``scale="calibrated"``."""
    diagnostics: dict[str, Any] | None = None
    """What :func:`sfra.diagnose` says of the verdict's setting, where asked for."""
    relearned_head_digest: str | None = None
    """SHA-256 of the file with the relearned head; None in files of older versions."""

    def __repr__(self) -> str:
        """Show the verdict and its numbers; :meth:`to_dict` has all of it."""
        shown = {"rs": self.rs, "delta_rs": self.delta_rs}
        numbers = [f"{name}={'None' if value is None else f'{value:.3f}'}" for name, value in shown.items()]
        moves = [
            f"{name} {pair.before:.1%} to {pair.after:.1%}"
            for name, pair in (("retain", self.retain), ("forget", self.forget))
            if pair.before is not None and pair.after is not None
        ]
        codes = ", ".join(finding.code for finding in self.findings) or "none"
        classes = f"forget_classes={list(self.forget_classes)}"
        parts = [repr(self.verdict), *numbers, *moves, classes, f"findings: {codes}"]
        return f"{type(self).__name__}({', '.join(parts)})"

    @property
    def scored(self) -> bool:
        """Whether RS says anything: it was measured, the set-up is right, and the class had gone before."""
        return self.rs is not None and self.verdict not in ("unusable", "not-unlearned")

    def _repr_html_(self) -> str:
        """Show verdict, numbers and the one picture in a notebook."""
        return str(VIEWS["card"](self))

    def summary(self) -> str:
        """Return what ``sfra audit`` prints, as text."""
        return str(VIEWS["summary"](self))

    def to_html(self) -> str:
        """Return the page of ``sfra report``, which stands alone; needs the packages of ``sfra[report]``."""
        return str(VIEWS["page"](self))

    def plot(self, name: str = "trajectory") -> Any:
        """Return a figure (``sfra list figures``) as an Altair chart; needs the packages of ``sfra[report]``."""
        return VIEWS["plot"](self, name)

    def to_dict(self) -> dict[str, Any]:
        """Return the content of ``audit.json``."""
        plain: dict[str, Any] = msgspec.to_builtins(
            {name: getattr(self, name) for name in AuditResult.__struct_fields__}
        )
        return plain

    def to_json(self) -> str:
        """Return the text of ``audit.json``."""
        return json.dumps(self.to_dict(), indent=1, ensure_ascii=False, allow_nan=False) + "\n"

    def scalars(self) -> dict[str, float | None]:
        """Return every number of the result that a gate can test, by dotted name."""
        found: dict[str, float | None] = {
            name: getattr(self, name) for name in ("rs", "rs_std", "delta_rs", "reference_rs", "floor", "seconds")
        }
        found["relearned"] = None if self.relearned is None else float(self.relearned)
        found["findings"] = float(len(self.findings))
        for name in ("retain", "forget"):
            found |= {f"{name}.{when}": getattr(getattr(self, name), when) for when in ("before", "after")}
        for name in WITH_INTERVAL:
            ends = attrgetter(f"{name}_interval")(self) or (None, None)
            found |= {f"{name}.low": ends[0], f"{name}.high": ends[1]}
        found |= {f"rs_at.{epsilon}": value for epsilon, value in self.rs_at.items()}
        if self.sweep is not None:
            found |= {f"sweep.{key}": getattr(self.sweep, key) for key in ("best_rs", "area", "rs_at_reference")}
        for score in self.results:
            prefix = f"{score.scale}.{score.variant}.{score.rule}"
            found |= {f"{prefix}.{key}": getattr(score, key) for key in ROW_SCALARS}
        return found


WITH_INTERVAL = ("rs", "delta_rs", "retain.before", "retain.after", "forget.before", "forget.after")
"""Numbers with an interval, whose ends a gate can test as ``NAME.low`` and ``NAME.high``."""

ROW_SCALARS = ("rs", "delta_rs", "retain_after", "forget_after")
"""Numbers of each score that a gate can test, as ``scale.variant.rule.NAME``."""


class AuditReport(AuditResult, frozen=True, kw_only=True):
    """The result of an audit with the relearned head, which is written to its own file."""

    relearned_head: Head
    """The relearned head of the verdict, in the coordinates of the released features; not part of the JSON."""

    def save(self, folder: str | Path) -> Path:
        """Write ``audit.json`` and ``relearned_head.safetensors`` to a folder, both or none.

        A process that is killed between the two leaves a pair that :func:`sfra.auditing.stored.read_result` refuses.
        """
        out = Path(folder)
        if out.exists() and not out.is_dir():
            raise InputError("cannot write the results there", expected="a folder", got=f"the file {out}")
        head, audit = out / HEAD_FILE, out / "audit.json"
        write_together({head: self.relearned_head.to_safetensors(), audit: to_bytes(self.to_json())})
        return audit
