"""Probe construction against the plain procedure: time, draws and memory, each in a fresh process.

The plain procedure is the method as its paper times it: class by class, rejection of full-dimensional draws, one pass
for the retain probes and one for the forget probes. It is measured on a few classes and a fraction of ``N``, which
gives its speed in draws per second; its time for the whole case follows from the draws it would need, ``2 Σ_k N / p_k``
over the retain classes, with the acceptances ``p_k`` of the fast run.

Heads have rows of random directions and log-normal lengths around 2; the spread of the lengths sets the spread of the
acceptances (``c100``: .004 to .02, like a real CIFAR-100 head).

    python benchmarks/probes.py                            # CIFAR-10's case, under a minute
    python benchmarks/probes.py c21841                     # ImageNet-21K's shape, a quarter of an hour and 4 GiB
    python benchmarks/probes.py c10 c100 c200 imagenet c21841 --device cuda
    python benchmarks/probes.py imagenet --profile --head head.npz          # which kernels of a GPU take the time

``goals.py`` takes these cases, and the protocol of ``imagenet`` for a real head.
"""

from __future__ import annotations

import argparse
import json
import re
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from sfra.attack.probes import Probes, sample_probes
from sfra.core.head import Head

MIB = 2**20


@dataclass(frozen=True, kw_only=True)
class Case:
    """One head and the protocol it is sampled with."""

    classes: int
    width: int
    n: int
    m: int
    spread: float
    """Standard deviation of the logarithm of the rows' lengths."""
    share: float
    """Fraction of ``n`` on which the plain procedure is measured."""
    measured: int
    """Number of retain classes on which the plain procedure is measured."""

    def head(self) -> Head:
        """Build the head; class 0 is the forget class."""
        generator = torch.Generator().manual_seed(1)
        rows = torch.nn.functional.normalize(torch.randn(self.classes, self.width, generator=generator), dim=1)
        return Head(2.0 * rows * (self.spread * torch.randn(self.classes, 1, generator=generator)).exp())


CASES = {
    "c10": Case(classes=10, width=512, n=500_000, m=500, spread=0.03, share=1 / 50, measured=9),
    "c100": Case(classes=100, width=512, n=100_000, m=50, spread=0.06, share=1 / 50, measured=5),
    "c200": Case(classes=200, width=768, n=50_000, m=25, spread=0.07, share=1 / 50, measured=4),
    "imagenet": Case(classes=1000, width=1280, n=50_000, m=25, spread=0.09, share=1 / 500, measured=5),
    "c21841": Case(classes=21_841, width=768, n=5_000, m=5, spread=0.09, share=1 / 1000, measured=1),
}


def plain_pool(W: Tensor, b: Tensor, label: int, n: int, generator: torch.Generator) -> tuple[Tensor, int]:
    """Draw in full dimension until ``n`` draws have their arg-max at the label; return them and the number drawn."""
    found: list[Tensor] = []
    have = drawn = 0
    batch = torch.empty(2**18 if W.device.type == "cuda" else 2**14, W.shape[1], device=W.device)
    while have < n:
        batch.normal_(generator=generator)
        found.append(batch[torch.addmm(b, batch, W.T).argmax(1) == label])
        have, drawn = have + len(found[-1]), drawn + len(batch)
    return torch.cat(found)[:n], drawn


def plain_probes(head: Head, case: Case, labels: list[int], device: str) -> int:
    """Build the probes of some pools by the plain procedure; return the number of draws."""
    W, b = head.weight.to(device), head.bias.to(device)
    generator = torch.Generator(device).manual_seed(0)
    drawn, n, m = 0, round(case.n * case.share), max(1, round(case.m * case.share))
    for label in labels:
        for largest in (True, False):
            pool, more = plain_pool(W, b, label, n, generator)
            logits = torch.addmm(b, pool, W.T)
            others = logits.clone()
            others[:, label] = -torch.inf
            pool[(logits[:, label] - others.logsumexp(1)).topk(m, largest=largest).indices].clone()
            drawn += more
    return drawn


def memory(name: str, process: int | str = "self") -> int:
    """Return the bytes that a process holds (``VmRSS``) or held at most (``VmHWM``), as Linux tells it.

    The system call for it would give a process the peak of the one that started it, if that is larger.
    """
    found = re.search(rf"{name}:\s+(\d+) kB", Path(f"/proc/{process}/status").read_text())
    return 1024 * int(found[1]) if found else 0


def timed(work: Callable[[], Any], device: str) -> tuple[Any, dict[str, float]]:
    """Run once; return the result, wall and CPU seconds and the peak memory in MiB above what was in use before."""
    cuda = device == "cuda"
    if cuda:
        torch.cuda.synchronize()
        torch.cuda.reset_peak_memory_stats()
    else:
        Path("/proc/self/clear_refs").write_text("5")  # the peak counts from here
    before = torch.cuda.memory_allocated() if cuda else memory("VmRSS")
    began, busy = time.perf_counter(), time.process_time()
    result = work()
    if cuda:
        torch.cuda.synchronize()
    seconds, busy = time.perf_counter() - began, time.process_time() - busy
    peak = torch.cuda.max_memory_allocated() if cuda else memory("VmHWM")
    return result, {"seconds": seconds, "cpu_seconds": busy, "peak_mib": (peak - before) / MIB}


def work_fast(case: Case, head: Head, device: str) -> dict[str, Any]:
    """Measure the fast path in full, after a warm-up that loads and compiles everything (on a GPU, a full run)."""
    tiny = Head(torch.eye(4), torch.tensor([0.0, 0.0, -2.0, 0.0]))  # class 2 is completed by conditional sampling
    sample_probes(tiny, 1, n=400, m=10, max_draws=1, device=device)
    sample_probes(tiny, 1, n=400, m=10, path="weighted", device=device)
    if device == "cuda":
        sample_probes(head, 0, n=case.n, m=case.m, device=device)
    probes, costs = timed(lambda: sample_probes(head, 0, n=case.n, m=case.m, device=device), device)
    facts = {"draws": probes.draws, "engine": probes.engine, "conditional": len(probes.conditional)}
    facts |= {"repeats": probes.repeats, "inside": share_inside(head, probes)}
    return {**costs, **facts, "acceptance": probes.acceptance[1:].tolist()}


def share_inside(head: Head, probes: Probes) -> float:
    """Return the share of the probes that the head gives to the class of their pool, a few at a time."""
    parts = zip(probes.samples.split(4096), probes.sources.split(4096), strict=True)
    return sum(int((head(x).argmax(1) == k).sum()) for x, k in parts) / len(probes.sources)


def work_plain(case: Case, head: Head, device: str) -> dict[str, Any]:
    """Measure the plain procedure on some of the classes, none of them rare, and a fraction of the pool."""
    labels = [int(k) for k in (1 + head.weight[1:].norm(dim=1).argsort(descending=True))]
    chosen = labels[:: max(1, len(labels) // case.measured)][: case.measured]
    if device == "cuda":
        plain_pool(head.weight.to(device), head.bias.to(device), chosen[0], 1, torch.Generator(device))
    drawn, costs = timed(lambda: plain_probes(head, case, chosen, device), device)
    return {**costs, "draws": drawn, "pools": len(chosen)}


def in_process(work: str, name: str, device: str, head: Path | None = None) -> dict[str, Any]:
    """Run one measurement of a case, or of a stored head in its place, in a fresh interpreter."""
    command = [sys.executable, __file__, name, "--device", device, "--work", work]
    command += ["--head", str(head)] if head else []
    found = subprocess.run(command, check=True, capture_output=True, text=True)  # noqa: S603
    result: dict[str, Any] = json.loads(found.stdout.splitlines()[-1])
    return result


def measure(name: str, device: str) -> dict[str, dict[str, Any]]:
    """Measure one case, fast and plain; what the plain procedure would take for all of it is scaled by its draws."""
    case, fast, plain = CASES[name], in_process("fast", name, device), in_process("plain", name, device)
    needed = sum(2 * case.n / rate for rate in fast.pop("acceptance"))
    plain |= {"whole_draws": needed, "whole_seconds": needed / plain["draws"] * plain["seconds"]}
    return {"fast": fast, "plain": plain}


def profile(head: Head, case: Case) -> str:
    """Say which operations and kernels of a GPU a construction of probes spends its time on."""
    sample_probes(head, 0, n=case.n, m=case.m, device="cuda")
    with torch.profiler.profile() as told:
        sample_probes(head, 0, n=case.n, m=case.m, device="cuda")
    return str(told.key_averages().table(sort_by="self_cuda_time_total", row_limit=25))


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("cases", nargs="*", default=["c10"], metavar="case", help=f"any of {', '.join(CASES)}")
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    parser.add_argument("--profile", action="store_true", help="what a GPU does meanwhile, instead of the comparison")
    parser.add_argument("--head", type=Path, help="another head for --profile, with N and M of the case")
    parser.add_argument("--work", choices=("fast", "plain"), help=argparse.SUPPRESS)
    given = parser.parse_args()
    for name in given.cases:
        case = CASES[name]
        head = Head.load(given.head) if given.head else case.head()
        if given.work:
            print(json.dumps((work_fast if given.work == "fast" else work_plain)(case, head, given.device)))
        elif given.profile:
            print(profile(head, case))
        else:
            found = measure(name, given.device)
            ratio = found["plain"]["whole_seconds"] / found["fast"]["seconds"]
            print(f"{name} on {given.device}: {ratio:,.0f} times as fast", *found.items(), sep="\n  ", flush=True)


if __name__ == "__main__":
    main()
