"""How often the 95 % intervals of an audit hold the truth, in simulated audits whose truth is known.

    python benchmarks/interval_coverage.py                          # writes benchmarks/results/interval-coverage.csv
    python benchmarks/interval_coverage.py --repetitions 200 --out build/coverage.csv

A sample has a difficulty, which before and after and all seeds share: the head of a seed is right on it if
``√ρ u_i + √(1-ρ) ε_is < Φ⁻¹(p) + τ η_s`` with standard normal ``u``, ``ε`` and ``η``. ``p`` is the accuracy, ``τ`` the
spread of the seeds, ``ρ`` how much they share (0.85: two seeds agree on 82 % of the samples at ``p`` = 0.5; 0.5: on
67 %; 0.97: on 92 %). Retain and forget samples have shifts ``η`` of their own. The truth is the mean over ``η`` of RS
at the accuracies of the population. Difficulties of model and reference may be correlated too (``shared``). The
intervals come from the functions that an audit calls.
"""

from __future__ import annotations

import argparse
import itertools
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
from scipy.special import ndtr, ndtri

from sfra.core.metrics import Change, Estimate, difference_interval, estimate_accuracy, estimate_rs, relearning_score
from stored import append

RETAIN_BEFORE = 0.95
Pair = tuple[float, float]


@dataclass(frozen=True, kw_only=True)
class Case:
    """One setting of the simulation."""

    forget_samples: int
    retain_samples: int
    forget_before: float
    forget_after: float
    retain_drop: float
    seeds: int
    spread: float
    """``τ``, in units of the normal quantile."""
    rho: float = 0.85
    references: tuple[float, ...] = ()
    """Forget accuracy after of each reference."""
    shared: float = 0.0
    """Correlation of the difficulties of model and reference, and of two references."""


def tally(intervals: Sequence[Pair], truth: float) -> dict[str, float]:
    """Say how many intervals hold the truth, how many lie above and below it, and how wide they are."""
    low, high = np.array(intervals).T
    above, below = (low - 1e-9 > truth).mean(), (high + 1e-9 < truth).mean()
    shares = {"coverage": 1.0 - above - below, "too_high": above, "too_low": below, "width": (high - low).mean()}
    return {name: float(value) for name, value in shares.items()}


def answers(
    rng: np.random.Generator, rho: float, difficulty: np.ndarray, before: float, after: float, shifts: np.ndarray
) -> np.ndarray:
    """Draw who is right, [repetitions, 1 + seeds, samples]: the released head first, then the head of each seed."""
    levels = np.concatenate([np.full((len(shifts), 1), ndtri(before)), ndtri(after) + shifts], 1)
    own = np.float32(np.sqrt(1 - rho)) * rng.standard_normal((*levels.shape, difficulty.shape[-1]), dtype=np.float32)
    return np.asarray(own + np.float32(np.sqrt(rho)) * difficulty[:, None] < levels[..., None])


def true_rs(case: Case, after: float) -> float:
    """Integrate RS over the seeds of the population."""
    nodes, weights = np.polynomial.hermite_e.hermegauss(41)
    forget, retain = (ndtr(ndtri(p) + case.spread * nodes) for p in (after, RETAIN_BEFORE - case.retain_drop))
    kept, gained = 1 - np.maximum(0, RETAIN_BEFORE - retain), np.maximum(0, forget - case.forget_before)[:, None]
    return float(weights @ (2 * kept * gained / (kept + gained)) @ weights / weights.sum() ** 2)


def true_mean(case: Case, after: float) -> float:
    """Integrate an accuracy over the seeds of the population: ``Φ(Φ⁻¹(p) / √(1 + τ²))``."""
    return float(ndtr(ndtri(after) / np.sqrt(1 + case.spread**2)))


def audits(
    rng: np.random.Generator, case: Case, after: float, common: Sequence[np.ndarray]
) -> Iterator[dict[str, Estimate]]:
    """Yield what each repetition of an audit of one model estimates."""
    S, tables, shares = case.seeds, [], []
    levels = ((RETAIN_BEFORE, RETAIN_BEFORE - case.retain_drop), (case.forget_before, after))
    for difficulty, pair in zip(common, levels, strict=True):
        own = rng.standard_normal(difficulty.shape, dtype=np.float32)
        mixed = np.float32(np.sqrt(case.shared)) * difficulty + np.float32(np.sqrt(1 - case.shared)) * own
        right = answers(rng, case.rho, mixed, *pair, case.spread * rng.standard_normal((len(difficulty), S)))
        cell = S * (S + 1) * right[:, 0] + right[:, 1:].sum(1)  # all seeds start from the same head
        tables.append([np.bincount(one, minlength=(S + 1) ** 2).reshape(S + 1, S + 1).tolist() for one in cell])
        shares.append(right.mean(2).tolist())
    for retain_table, forget_table, retain, forget in zip(*tables, *shares, strict=True):
        scores = [relearning_score(retain[0], r, forget[0], f) for r, f in zip(retain[1:], forget[1:], strict=True)]
        changes = Change.of(retain_table), Change.of(forget_table)
        yield {
            "rs": estimate_rs(*changes, scores),
            "retain_after": estimate_accuracy(changes[0].after, retain[1:]),
            "forget_after": estimate_accuracy(changes[1].after, forget[1:]),
        }


def coverage(case: Case, repetitions: int, seed: int) -> dict[str, dict[str, float]]:
    """Simulate audits of one case; return a tally per quantity."""
    rng = np.random.default_rng(seed)
    sizes = (case.retain_samples, case.forget_samples)
    common = [rng.standard_normal((repetitions, n), dtype=np.float32) for n in sizes]
    truths = {
        "rs": true_rs(case, case.forget_after),
        "forget_after": true_mean(case, case.forget_after),
        "retain_after": true_mean(case, RETAIN_BEFORE - case.retain_drop),
    }
    found, *references = ([*audits(rng, case, after, common)] for after in (case.forget_after, *case.references))
    if not references:
        return {name: tally([one[name].interval for one in found], truth) for name, truth in truths.items()}
    delta = truths["rs"] - float(np.mean([true_rs(case, after) for after in case.references]))
    rs = [[one["rs"] for one in some] for some in zip(found, *references, strict=True)]
    return {"delta_rs": tally([difference_interval(own, others) for own, *others in rs], delta)}


def cases() -> Iterator[Case]:
    """Yield the grid: RS and accuracies first, then ΔRS."""
    sizes = ((20, 180), (100, 100), (100, 900), (300, 2700), (1000, 4000))
    changes = (
        (0.0, 0.02, 0.0),
        (0.03, 0.1, 0.01),
        (0.0, 0.5, 0.02),
        (0.03, 0.9, 0.02),
        (0.0, 0.98, 0.05),
        (0.2, 0.6, 0.02),
    )
    seeds = ((1, 0.0), (3, 0.0), (3, 0.1), (3, 0.25), (5, 0.0), (5, 0.1), (5, 0.25))
    main = itertools.product(sizes, changes, seeds, [0.85])
    others = itertools.product([(100, 900)], changes, [(3, 0.1), (5, 0.1)], [0.5, 0.97])
    for (forget, retain), (before, after, drop), (count, spread), rho in itertools.chain(main, others):
        yield Case(
            forget_samples=forget,
            retain_samples=retain,
            forget_before=before,
            forget_after=after,
            retain_drop=drop,
            seeds=count,
            spread=spread,
            rho=rho,
        )
    models = ((0.1, (0.1,)), (0.6, (0.2,)), (0.9, (0.5,)), (0.6, (0.2, 0.4)), (0.98, (0.5, 0.5)))
    alike, runs = (0.0, 0.5, 0.9), ((1, 0.0), (3, 0.1), (5, 0.1))
    for size, (after, beside), shared, (count, spread) in itertools.product((50, 200), models, alike, runs):
        yield Case(
            forget_samples=size,
            retain_samples=9 * size,
            forget_before=0.0,
            forget_after=after,
            retain_drop=0.02,
            seeds=count,
            spread=spread,
            references=beside,
            shared=shared,
        )


def main() -> None:
    """Simulate the grid, print a summary and write every row."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--repetitions", type=int, default=1000)
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "results" / "interval-coverage.csv")
    asked = parser.parse_args()
    rows = []
    for number, case in enumerate(cases()):
        about = asdict(case) | {"references": " ".join(map(str, case.references))}
        for name, told in coverage(case, asked.repetitions, seed=number).items():
            shown = {key: f"{value:.4f}" for key, value in told.items()}
            rows.append({"quantity": name} | about | shown)
            print(*rows[-1].values(), flush=True)
    asked.out.parent.mkdir(parents=True, exist_ok=True)
    asked.out.unlink(missing_ok=True)
    append(asked.out, rows)
    for name in dict.fromkeys(row["quantity"] for row in rows):
        found = [float(row["coverage"]) for row in rows if row["quantity"] == name]
        inside = np.mean([0.93 <= one <= 0.97 for one in found])
        print(
            f"{name}: mean {np.mean(found):.3f}, from {min(found):.3f} to {max(found):.3f}; {inside:.0%} in 93 to 97 %"
        )


if __name__ == "__main__":
    main()
