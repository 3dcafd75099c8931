"""RS over κ, the weight of forget probes, N and M: what the audit's defaults rest on.

Heads come from a folder with ``original``, ``retrained-K-a`` and ``retrained-K-b`` (trained without class K), each with
``head.npz`` and ``features.npz`` (``features``, ``labels``). For every K the audit should bring the class back from the
original with its output masked (kind ``masked``), and not from the two retrainings (``fresh``); row K is drawn anew.

    python benchmarks/power.py --heads DIR --out benchmarks/results/power-NAME.csv --device cuda --grid whole
    python benchmarks/power.py --digits DIR          # makes such a folder of the digits models

Rows are appended setting by setting; a run that was stopped goes on where it ended.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor

from sfra.attack.path import Trajectory
from sfra.attack.probes import Probes, sample_probes
from sfra.attack.relearn import relearn_many
from sfra.attack.scale import Canonical, Placed, place
from sfra.attack.weight import ForgetWeight
from sfra.core.head import Head
from sfra.core.metrics import relearning_curve
from stored import append, digits_features, done, read_model, without, write_model

KEY = ("kappa", "n", "seed")
"""Columns by which a run finds what is done."""
LATE = range(55, 101, 5)
"""Epochs whose mean head has the RS ``rs_mean``: at many classes RS swings."""


class Subject(NamedTuple):
    """A head whose class ``forget`` is audited, with the features that measure it."""

    forget: int
    kind: str
    model: str
    variant: str
    head: Head
    features: Tensor
    labels: Tensor


@dataclass(frozen=True, kw_only=True)
class Draw:
    """Probes that are drawn once for each subject, and what is relearned with them."""

    kappa: float
    n: int
    seed: int
    m: tuple[int, ...]
    """Probes per retain class: the largest are drawn, the others are the surest and least sure of them."""
    exponents: tuple[float, ...] = (0.0, 0.5, 1.0)
    """``p`` of the forget weight ``R^-p``."""

    @property
    def key(self) -> tuple[str, ...]:
        """How its rows begin."""
        return (f"{self.kappa:g}", str(self.n), str(self.seed))


def grid(n: int, m: int, name: str) -> list[Draw]:
    """Vary κ, N, M and the seed around the protocol's ``n`` and ``m`` at κ = 1.7, each with every weight.

    ``small`` is one setting for a look; ``seeds`` repeats the scales that come into question with further seeds.
    """
    if name == "small":
        return [Draw(kappa=1.7, n=n // 50, seed=1, m=(m // 5, m // 10))]
    if name == "seeds":
        return [Draw(kappa=k, n=n // 5, seed=s, m=(m, 2 * m)) for s in (11, 12, 13) for k in (1.7, 2.0, 2.4, 2.8)]
    several = (m // 5, 2 * m // 5, m, 4 * m)
    return [
        Draw(kappa=1.7, n=n, seed=1, m=several, exponents=(0.0, 0.25, 0.5, 1.0)),
        Draw(kappa=2.4, n=n, seed=1, m=(m, 4 * m)),
        *(Draw(kappa=kappa, n=n, seed=1, m=(m,)) for kappa in (1.0, 1.4, 2.0, 3.0, 4.0)),
        *(Draw(kappa=1.7, n=n, seed=seed, m=(m,)) for seed in (2, 3)),
        *(Draw(kappa=1.7, n=part, seed=1, m=(m,)) for part in (n // 100, n // 20, n // 5, 4 * n) if part >= 2 * m),
    ]


def read(folder: Path, device: str) -> tuple[Head, Tensor, Tensor]:
    """Read a head with its features and labels."""
    head, test = read_model(folder)
    return head, test.features.to(device), test.labels.to(device)


def subjects(folder: Path, classes: Sequence[int], device: str) -> Iterator[Subject]:
    """List what is audited for each class."""
    original, *samples = read(folder / "original", device)
    for k in classes:
        yield Subject(k, "masked", "original", "restored-row", without(original, [k]), *samples)
        for name in ("a", "b"):
            yield Subject(k, "fresh", name, "reset-row", *read(folder / f"retrained-{k}-{name}", device))


def fewer(probes: Probes, m: int) -> Probes:
    """Keep the ``m`` surest and the ``m`` least sure of every pool: both parts are sorted so, pool by pool."""
    pools = len(set(probes.sources.tolist()))
    half, width = probes.retain_count // pools, probes.samples.shape[1]
    columns = {name: getattr(probes, name) for name in ("labels", "sources", "sureness")}
    kept = {name: column.view(2, pools, half)[:, :, :m].reshape(-1) for name, column in columns.items()}
    samples = probes.samples.view(2, pools, half, width)[:, :, :m].reshape(-1, width)
    return replace(probes, samples=samples, **kept, retain_count=pools * m)


def measure(path: Trajectory, placed: Placed, subject: Subject) -> tuple[Tensor, Tensor]:
    """Return retain and forget accuracy of every kept epoch and of the mean of the late heads.

    Retain classes count alike, however many samples each has.
    """
    features, labels = placed.features(subject.features), subject.labels
    late = [at for at, epoch in enumerate(path.kept) if epoch in LATE]
    weights, biases = (torch.cat([every, every[late].mean(0)[None]]) for every in (path.weights, path.biases))
    per_class = []
    for W, b in zip(weights.to(features.device), biases.to(features.device), strict=True):
        right = ((features @ W.T + b).argmax(1) == labels).double()
        hits = torch.zeros(W.shape[0], dtype=torch.float64, device=features.device).index_add_(0, labels, right)
        per_class.append(hits / labels.bincount(minlength=W.shape[0]))
    table = torch.stack(per_class).cpu()
    retain = [k for k in range(table.shape[1]) if k != subject.forget]
    return table[:, retain].nanmean(1), table[:, subject.forget]


def rows(draw: Draw, chosen: Sequence[Subject], device: str) -> Iterator[dict[str, Any]]:
    """Draw the probes of every subject, then relearn all of them side by side for each M and weight."""
    placed = [
        place(one.head, [one.forget], scale=Canonical(draw.kappa), variant=one.variant, seed=draw.seed)
        for one in chosen
    ]
    sampled = [
        sample_probes(at.head, one.forget, n=draw.n, m=max(draw.m), seed=draw.seed, device=device)
        for at, one in zip(placed, chosen, strict=True)
    ]
    for m in draw.m:
        probes = [fewer(one, m) for one in sampled]
        for exponent in draw.exponents:
            weight = ForgetWeight(exponent=exponent)
            paths = relearn_many(
                [at.head for at in placed],
                probes,
                epochs=LATE[-1],
                seeds=[draw.seed] * len(placed),
                probe_weights=[
                    weight.probe_weights(one, at.head.classes - 1) for one, at in zip(probes, placed, strict=True)
                ],
                device=device,
                record=LATE,
            )
            for one, at, path in zip(chosen, placed, paths, strict=True):
                retain, forget = measure(path, at, one)
                *curve, mean = relearning_curve(retain, forget).tolist()
                yield {
                    **dict(zip(KEY, draw.key, strict=True)),
                    "m": m,
                    "exponent": exponent,
                    "forget": one.forget,
                    "kind": one.kind,
                    "model": one.model,
                    "rs_100": f"{curve[-1]:.4f}",
                    "rs_mean": f"{mean:.4f}",
                    "retain_drop": f"{float(retain[0] - retain[-2]):.4f}",
                    "forget_after": f"{float(forget[-2]):.4f}",
                }


def make_digits(folder: Path, classes: Sequence[int]) -> None:
    """Write heads and features of the demo's digits network: an original, and two retrainings per class."""
    from sfra.demo.models import ARCH, TRAINING, digits_tensors
    from sfra.models import backbones
    from sfra.models.training.train import train

    def build(seed: int) -> torch.nn.Module:
        return backbones.build(ARCH, classes=10, seed=seed)

    def write(name: str, model: torch.nn.Module) -> None:
        write_model(folder / name, *digits_features(model))

    data = digits_tensors("train")
    original = train(build(0), data, training=TRAINING, seed=0)
    write("original", original)
    for k in classes:
        for seed, name in enumerate("ab", start=1):
            write(f"retrained-{k}-{name}", TRAINING(original, data, (k,), rebuild=build, seed=10 * k + seed).model)


def compute(heads: Path, out: Path, classes: Sequence[int] | None, device: str, name: str) -> None:
    """Append the rows of every setting that is not there yet."""
    found = sorted({int(path.name.split("-")[1]) for path in heads.glob("retrained-*-b")})
    chosen = list(subjects(heads, classes or (found[:2] if name == "small" else found), device))
    n, m = (500_000, 500) if chosen[0].head.classes <= 20 else (100_000, 50)
    known = done(out, *KEY)
    for draw in grid(n, m, name):
        if draw.key in known:
            continue
        start = time.perf_counter()
        made = list(rows(draw, chosen, device))
        append(out, made)
        print(*draw.key, f"{len(made)} rows, {time.perf_counter() - start:.1f} s", flush=True)


def main() -> None:
    """Make heads or compute rows."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--heads", type=Path, help="folder of original, retrained-K-a and retrained-K-b")
    parser.add_argument("--classes", type=int, nargs="*", help="forget classes, by default all that are there")
    parser.add_argument("--out", type=Path, help="CSV file to append to")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--grid", choices=("small", "whole", "seeds"), default="small", help="settings")
    parser.add_argument("--digits", type=Path, help="make a folder of digits heads instead")
    given = parser.parse_args()
    if given.digits:
        make_digits(given.digits, given.classes or range(10))
    else:
        compute(given.heads, given.out, given.classes, given.device, given.grid)


if __name__ == "__main__":
    main()
