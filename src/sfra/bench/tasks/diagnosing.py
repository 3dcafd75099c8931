"""Why the audit of a model came out as it did: its probes drawn again, beside real features; nothing is relearned."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sfra.bench.engine.task import Context, task
from sfra.bench.tasks.measurements import read_features, without_rows
from sfra.bench.tasks.models import Inputs, Settings

if TYPE_CHECKING:
    from sfra.attack.grid import Setting
    from sfra.attack.probes import Probes
    from sfra.attack.scale import Placed
    from sfra.auditing.config import AuditConfig
    from sfra.core.head import Head
    from sfra.data import FeatureSet
    from sfra.diagnostics import Diagnostics

DIAGNOSTICS, GEOMETRY = "diagnostics.json", "geometry.json"
"""Names inside the folders of cells."""

OF_PROBES = ("n", "m", "proposal", "score", "assignment", "max_draws", "scale", "kappa", "seeds", "seed")
"""Settings of an audit that decide its probes."""

POINTS = 300
"""Pairs of exact and approximate change that are kept for a figure, for each forget class and scale."""

MAP_POINTS = 600
"""Points of a map, half of them real samples."""


@task("diagnostics", version=1)
def diagnostics(settings: Settings, inputs: Inputs, out: Path, context: Context) -> dict[str, Any]:
    """Diagnose every scale of the main audit, and sum it up in a row for each scale and forget class."""
    from sfra.diagnostics import diagnose_parts

    release = _release(settings, inputs, context)
    found = []
    for done, setting in enumerate(release.settings):
        context.progress(done, len(release.settings), f"diagnosing at {setting.scale} scale")
        seeds = [release.config.seed + i for i in range(release.config.seeds)]
        placed, probes = zip(*(release.draw(setting, seed) for seed in seeds), strict=True)
        found.append(
            diagnose_parts(
                head=placed[0].head,
                forget=release.forget,
                probes=probes,
                features=release.test.features,
                labels=release.test.labels,
                gain=placed[0].gain,
                scale=setting.scale.name,
                variant=setting.variant,
                proposal=release.config.proposal,
                points=POINTS,
            )
        )
    _write(out / DIAGNOSTICS, [one.to_dict() for one in found])
    return {"rows": [row for one in found for row in summarise(one)], **release.facts()}


@task("geometry", version=1)
def geometry(settings: Settings, inputs: Inputs, out: Path, context: Context) -> dict[str, Any]:
    """Map samples and probes at the scale of the verdict, with the probes of the first seed."""
    from sfra.diagnostics import geometry as embed

    release = _release(settings, inputs, context)
    setting = release.settings[0]
    placed, probes = release.draw(setting, release.config.seed)
    labels = release.test.labels
    most = max(MAP_POINTS, 4 * placed.head.classes)
    found = embed(placed.head, probes, release.test.features, labels, gain=placed.gain, most=most)
    _write(out / GEOMETRY, found.to_dict())
    shown = {"scale": setting.scale.name, "variant": setting.variant, "points": len(found.points)}
    return {**shown, "perplexity": found.perplexity, **release.facts()}


@dataclass(frozen=True, kw_only=True)
class _Release:
    """The head and features of a cell, and how its audit looks at them."""

    head: Head
    test: FeatureSet
    forget: tuple[int, ...]
    missing: bool
    config: AuditConfig

    @property
    def settings(self) -> list[Setting]:
        """Scales of the audit, that of the verdict first."""
        from sfra.attack.grid import Setting
        from sfra.attack.scale import Canonical, Native

        variant = "restored-row" if self.missing else "released"
        scales = dict.fromkeys([self.config.scales.verdict, Canonical(), Native()])
        return [Setting(scale=scale, variant=variant) for scale in scales]

    def draw(self, setting: Setting, seed: int) -> tuple[Placed, Probes]:
        """Draw the probes that the audit drew with this seed."""
        from sfra.attack.probes import sample_probes
        from sfra.attack.scale import place

        placed = place(self.head, self.forget, scale=setting.scale, variant=setting.variant, seed=seed)
        settings = self.config.probe_settings(placed.head.classes, len(self.forget))
        return placed, sample_probes(placed.head, self.forget, **asdict(settings), seed=seed, device=self.config.device)

    def facts(self) -> dict[str, Any]:
        """Say what the probes were drawn with."""
        classes = self.head.classes + (len(self.forget) if self.missing else 0)
        known = asdict(self.config.resolved(classes, len(self.forget)))
        return {name: known[name] for name in ("proposal", "score", "n", "m", "seeds")}


def _release(settings: Settings, inputs: Inputs, context: Context) -> _Release:
    from sfra.auditing.config import AuditConfig

    head, test = read_features(inputs["test"])
    config = {name: value for name, value in settings["config"].items() if name != "kappa"}
    return _Release(
        head=without_rows(head, settings["forget"]) if settings["missing_row"] else head,
        test=test,
        forget=tuple(settings["forget"]),
        missing=settings["missing_row"],
        config=AuditConfig(**config, device=context.device),
    )


def summarise(found: Diagnostics) -> Iterator[dict[str, Any]]:
    """Flatten what was found at one scale: a row for each forget class; confidence is of the forget set as a whole."""
    assert found.alignment is not None
    assert found.margin is not None
    assert found.confidence is not None
    sure = found.confidence.to_dict()
    confidence = ["correct_confidence", "matched_confidence", "assigned_confidence", "gap", "matched_gap"]
    confidence += ["assigned", "forget_samples"]
    for aligned, margin in zip(found.alignment, found.margin, strict=True):
        first, many = aligned.per_seed[0].to_dict(), margin.to_dict()
        exact, residual, alpha = (
            [one[name] for one in many["competitors"]] for name in ("exact", "residual", "alpha_mean")
        )
        over = aligned.to_dict()
        yield {
            "forget_class": aligned.forget_class,
            "scale": found.scale,
            "variant": found.variant,
            "gain": _short(found.gain),
            **{name: over[name] for name in ("inner", "inner_std", "cosine", "cosine_std")},
            **{name: first[name] for name in ("error", "probe_norm", "chance_norm", "feature_norm")},
            "alpha_mean": _short(sum(alpha) / len(alpha)),
            "alpha_std": _short(_pooled_std(many["competitors"])),
            "residual_min": min(residual),
            "residual_max": max(residual),
            "exact_min": min(exact),
            "exact_max": max(exact),
            "competitors": len(exact),
            **{name: many[name] for name in ("sufficient", "rising")},
            **many["agreement"],
            **{name: sure[name] for name in confidence},
        }


def _pooled_std(competitors: list[dict[str, Any]]) -> float:
    """Return the deviation of ``α_j(s)`` over all probes and competitors, each with the same number of probes."""
    means = [one["alpha_mean"] for one in competitors]
    centre = sum(means) / len(means)
    square = sum(one["alpha_std"] ** 2 + (one["alpha_mean"] - centre) ** 2 for one in competitors) / len(means)
    return float(square**0.5)


def _short(value: float) -> float:
    """Keep as many digits as records do."""
    return float(f"{value:.7g}")


def _write(path: Path, content: object) -> None:
    path.write_text(json.dumps(content, ensure_ascii=False, allow_nan=False, separators=(",", ":")), encoding="utf-8")
