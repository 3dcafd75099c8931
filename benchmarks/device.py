"""Where the time of the probes goes on a GPU, part by part.

Every part is waited for, so that its time is its own; ``whole`` is a run in which nothing is. A first run compiles.

    python benchmarks/device.py imagenet                # a case of probes.py; or --head head.npz --n 50000 --m 25
    python benchmarks/device.py imagenet --torch        # without Triton
"""

from __future__ import annotations

import argparse
import time
from collections import defaultdict
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any
from unittest.mock import patch

import torch

import probes
from sfra.attack.probes import counter_stream, device_weights, sample, sample_probes, stream
from sfra.attack.probes.device_lines import DeviceLines
from sfra.attack.probes.device_weights import DeviceWeightedStream
from sfra.attack.probes.pools import Pools
from sfra.attack.probes.rowspace import RowSpace
from sfra.attack.probes.weighted import WeightedPools
from sfra.core.head import Head

LOOPS = ("normals", "uniforms", "mix", "sieve", "ends", "losers", "scan")
PARTS: list[tuple[Any, str]] = [
    (sample, "row_space"),
    (DeviceLines, "of"),
    (device_weights, "pilot_on_device"),
    (DeviceWeightedStream, "_pairs"),
    (DeviceWeightedStream, "_tile"),
    (DeviceWeightedStream, "rows"),
    (counter_stream.CounterStream, "rows"),
    (stream.TorchStream, "_chunk"),
    (Pools, "absorb"),
    (WeightedPools, "absorb"),
    (sample, "_complete"),
    (RowSpace, "lift"),
]


class Spent:
    """Add up the time inside each part that is not inside another one."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = defaultdict(float)
        self.calls: dict[str, int] = defaultdict(int)
        self._inner = [0.0]

    def wrap(self, name: str, work: Callable[..., Any]) -> Callable[..., Any]:
        """Return the function, timed."""

        def timed(*given: Any, **named: Any) -> Any:
            torch.cuda.synchronize()
            self._inner.append(0.0)
            began = time.perf_counter()
            try:
                return work(*given, **named)
            finally:
                torch.cuda.synchronize()
                took = time.perf_counter() - began
                self.seconds[name] += took - self._inner.pop()
                self.calls[name] += 1
                self._inner[-1] += took

        return timed

    def watch(self, owner: Any, name: str) -> Any:
        """Time an attribute of a module or class, within the block that is entered with what is returned."""
        timed = self.wrap(f"{owner.__name__.rsplit('.')[-1]}.{name}", getattr(owner, name))
        return patch.object(owner, name, staticmethod(timed) if isinstance(vars(owner)[name], classmethod) else timed)


def report(run: Callable[[], Any], loops: Any) -> None:
    """Print the parts of a run, and a run as it is."""
    print(run())
    spent = Spent()
    with ExitStack() as stack:
        for owner, name in [*PARTS, *((loops, name) for name in LOOPS)]:
            stack.enter_context(spent.watch(owner, name))
        spent.wrap("rest", run)()
    for name, seconds in sorted(spent.seconds.items(), key=lambda part: -part[1]):
        print(f"  {name:36} {1e3 * seconds:10.2f} ms {spent.calls[name]:7} calls")
    torch.cuda.synchronize()
    began = time.perf_counter()
    run()
    torch.cuda.synchronize()
    print(f"  {'whole':36} {1e3 * (time.perf_counter() - began):10.2f} ms")


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("case", nargs="?", default="imagenet", choices=probes.CASES)
    parser.add_argument("--head", type=Path, help="weight and bias of another head, .npz")
    parser.add_argument("--n", type=int)
    parser.add_argument("--m", type=int)
    parser.add_argument("--torch", action="store_true", help="without Triton")
    given = parser.parse_args()
    case = probes.CASES[given.case]
    head = Head.load(given.head) if given.head else case.head()
    if given.torch:
        device_weights.find_spec = stream.find_spec = lambda _: None  # type: ignore[assignment]
    loops = device_weights.loops_on(torch.device("cuda"))
    n, m = given.n or case.n, given.m or case.m
    print(f"{given.head or given.case}, {loops.__name__}, torch {torch.__version__}")

    def run() -> Any:
        return sample_probes(head, 0, n=n, m=m, device="cuda")

    report(run, loops)


if __name__ == "__main__":
    main()
