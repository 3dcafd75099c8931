"""Where the time of the probes goes on a GPU, part by part, and which sizes of tiles suit it.

Every part is waited for, so that its time is its own; ``whole`` is a run in which nothing is. A first run compiles.

    python benchmarks/device.py imagenet                # a case of probes.py; or --head head.npz --n 50000 --m 25
    python benchmarks/device.py imagenet --torch        # without Triton
    python benchmarks/device.py imagenet --try ends.PAIRS=4,8,16 --try ends.COLUMNS=128,256 --try ends.num_warps=4,8
    python benchmarks/device.py c100 --try PRECISION=ieee,tf32x3 --try scan.QUADS=4,8
"""

from __future__ import annotations

import argparse
import itertools
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import torch

import probes
from sfra.attack.probes import choose, counter_stream, device_weights, sample, sample_probes, stream, torch_loops
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


def wait() -> None:
    """Wait for the device."""
    if torch.cuda.is_available():
        torch.cuda.synchronize()


class Watch:
    """Add up the time inside each part that is not inside another one."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = defaultdict(float)
        self.calls: dict[str, int] = defaultdict(int)
        self._inner = [0.0]

    def wrap(self, name: str, work: Callable[..., Any]) -> Callable[..., Any]:
        """Return the function, timed."""

        def timed(*given: Any, **named: Any) -> Any:
            wait()
            self._inner.append(0.0)
            began = time.perf_counter()
            try:
                return work(*given, **named)
            finally:
                wait()
                took = time.perf_counter() - began
                self.seconds[name] += took - self._inner.pop()
                self.calls[name] += 1
                self._inner[-1] += took

        return timed

    @contextmanager
    def on(self, parts: list[tuple[Any, str]]) -> Iterator[None]:
        """Time these attributes of modules and classes inside the block."""
        before = [(owner, name, vars(owner)[name]) for owner, name in parts]
        for owner, name, raw in before:
            label = f"{getattr(owner, '__name__', owner).rsplit('.')[-1]}.{name}"
            timed = self.wrap(label, getattr(owner, name))
            setattr(owner, name, staticmethod(timed) if isinstance(raw, classmethod) else timed)
        try:
            yield
        finally:
            for owner, name, raw in before:
                setattr(owner, name, raw)


def report(run: Callable[[], Any], loops: Any) -> None:
    """Print the parts of a run, and a run as it is."""
    print(run())
    watch = Watch()
    with watch.on([*PARTS, *((loops, name) for name in LOOPS)]):
        watch.wrap("rest", run)()
    for name, seconds in sorted(watch.seconds.items(), key=lambda part: -part[1]):
        print(f"  {name:36} {1e3 * seconds:10.2f} ms {watch.calls[name]:7} calls")
    wait()
    began = time.perf_counter()
    run()
    wait()
    print(f"  {'whole':36} {1e3 * (time.perf_counter() - began):10.2f} ms")


def attempt(run: Callable[[], Any], loops: Any, tries: list[str]) -> None:
    """Print what the loops take with every combination of the given sizes."""
    names, values = zip(*(one.split("=") for one in tries), strict=True)
    for combination in itertools.product(*(value.split(",") for value in values)):
        for name, value in zip(names, combination, strict=True):
            kernel, _, size = name.partition(".")
            if size:
                loops.BLOCKS[kernel][size] = int(value)
            else:
                setattr(loops, name, type(getattr(loops, name))(value))
        run()  # compiles
        watch = Watch()
        with watch.on([(loops, name) for name in LOOPS]):
            watch.wrap("rest", run)()
        parts = "  ".join(f"{name.rsplit('.')[-1]} {1e3 * s:.2f}" for name, s in watch.seconds.items())
        print(" ".join(f"{n}={v}" for n, v in zip(names, combination, strict=True)), " ", parts, "ms", flush=True)


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("case", nargs="?", default="imagenet", choices=probes.CASES)
    parser.add_argument("--head", type=Path, help="weight and bias of another head, .npz")
    parser.add_argument("--n", type=int)
    parser.add_argument("--m", type=int)
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--torch", action="store_true", help="without Triton")
    parser.add_argument("--try", dest="tries", action="append", default=[], metavar="kernel.SIZE=a,b")
    given = parser.parse_args()
    case = probes.CASES[given.case]
    head = case.head()
    if given.head:
        stored = np.load(given.head)
        head = Head(torch.from_numpy(stored["weight"]), torch.from_numpy(stored["bias"]))
    if given.torch:
        device_weights.find_spec = stream.find_spec = lambda _: None  # type: ignore[assignment]
    loops = device_weights.loops_on(torch.device(given.device))
    if given.device == "cpu":  # the parts of a GPU's path, for a look at them
        choose.prepare = prepare_here
    path = "auto" if given.device == "cuda" else "weighted"
    n, m = given.n or case.n, given.m or case.m
    print(f"{given.head or given.case} on {given.device}, {loops.__name__}, torch {torch.__version__}")

    def run() -> Any:
        return sample_probes(head, 0, n=n, m=m, device=given.device, path=path)

    attempt(run, loops, given.tries) if given.tries else report(run, loops)


def prepare_here(weight: Any, bias: Any, retain: Any, seed: int, device: torch.device) -> Any:
    """Prepare the weighted stream as for a GPU."""
    lines = DeviceLines.of(weight, bias, retain, device)
    return lines, device_weights.pilot_on_device(lines, seed, torch_loops)


if __name__ == "__main__":
    main()
