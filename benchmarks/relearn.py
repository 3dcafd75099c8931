"""Time relearning against the plain torch loop (autograd and torch.optim.Adam), in the same run.

Prints seconds per 100 epochs, by the clock and of processor time, the best of several repetitions each. Where other
programs share the cores, the processor time is the steadier of the two. Beside it stands what bounds it: an epoch is
``4 C d P`` operations of two products, the first loss half as many, and the last lines say how fast one core makes
these products alone: both of them by torch, and the first by the compiled loop.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy

from sfra.attack.adam_kernels import logits
from sfra.attack.relearn import relearn
from sfra.core.cpu import one_thread
from sfra.core.head import Head
from timing import shortest, shortest_of_each


class Probes(NamedTuple):
    """Random probes: the time does not depend on what they are."""

    samples: Tensor
    labels: Tensor


def make_case(classes: int, width: int, samples: int, device: str) -> tuple[Head, Probes]:
    """Draw a head and probes with random labels."""
    own = torch.Generator().manual_seed(0)
    head = Head(torch.randn(classes, width, generator=own) / width**0.5)
    labels = torch.randint(0, classes, (samples,), generator=own)
    return head, Probes(torch.randn(samples, width, generator=own).to(device), labels.to(device))


def train_plainly(head: Head, probes: Probes, epochs: int, batch_size: int) -> None:
    """Run the loop that anyone would write, and keep every epoch's weights as relearning does."""
    linear = torch.nn.Linear(head.width, head.classes).to(probes.samples.device)
    linear.load_state_dict({"weight": head.weight, "bias": head.bias})
    optimizer = torch.optim.Adam(linear.parameters(), lr=1e-2, weight_decay=1e-4)
    generator, path = torch.Generator().manual_seed(0), []
    for _ in range(epochs):
        order = torch.randperm(len(probes.labels), generator=generator).to(probes.labels.device)
        total = torch.zeros((), device=order.device)
        for start in range(0, len(order), batch_size):
            rows = order[start : start + batch_size]
            loss = cross_entropy(linear(probes.samples[rows]), probes.labels[rows])
            optimizer.zero_grad()
            loss.backward()  # type: ignore[no-untyped-call]
            optimizer.step()
            total += loss.detach() * len(rows)
        path.append((linear.weight.detach().clone(), total))


def product_seconds(head: Head, probes: Probes, batch_size: int, repeats: int, dtype: torch.dtype) -> float:
    """Return the processor time of the two products of one step, on one core and without anything around them."""
    x, weight = probes.samples[:batch_size].cpu().to(dtype), head.weight.to(dtype)
    residual = torch.randn(len(x), head.classes).to(dtype)
    steps = max(1, 2**29 // (weight.numel() * len(x)))

    def products() -> None:
        for _ in range(steps):
            torch.mm(x, weight.T)
            torch.mm(residual.T, x)

    with one_thread():
        return shortest(products, repeats, time.process_time) / steps


def compiled_speed(head: Head, probes: Probes, batch_size: int, repeats: int) -> float:
    """Return the billion operations a second of the compiled product of one step, in processor time."""
    x, order = probes.samples[:batch_size].cpu().clone().numpy(), torch.arange(batch_size).numpy()
    z, steps = torch.empty(head.classes + 1, batch_size + 3).numpy(), max(1, 2**28 // (head.weight.numel() * len(x)))

    def products() -> None:
        for _ in range(steps):
            logits(head.weight.numpy(), head.bias.numpy(), x, order, z, 0, head.classes)

    return 2e-9 * steps * head.weight.numel() * len(x) / shortest(products, repeats, time.process_time)


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.ArgumentDefaultsHelpFormatter)
    parser.add_argument("--classes", type=int, default=10)
    parser.add_argument("--width", type=int, default=512)
    parser.add_argument("--samples", type=int, default=9000)
    parser.add_argument("--batch-size", type=int, default=256)
    parser.add_argument("--epochs", type=int, default=20, help="epochs timed; the table is scaled to 100")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--device", default="cpu")
    options = parser.parse_args()
    shape = (options.classes, options.width, options.samples)
    case = make_case(*shape, options.device)
    settings = {"epochs": options.epochs, "batch_size": options.batch_size}

    works: dict[str, Callable[[], object]] = {
        "plain torch loop": lambda: train_plainly(*case, **settings),
        "relearn": lambda: relearn(*case, **settings),
    }
    where = f"{options.device}, {torch.get_num_threads()} threads"
    print(f"C={shape[0]} d={shape[1]} P={shape[2]}, {where}, per 100 epochs")
    print(f"{'':18} {'clock s':>9} {'ratio':>7} {'cpu s':>9} {'ratio':>7}  GFLOP/s")
    plain: list[float] = []
    for name, work in works.items():
        spent = shortest_of_each(work, options.repeats, time.perf_counter, time.process_time)
        times = [100 * seconds / options.epochs for seconds in spent]
        plain = plain or times
        clock, cpu = (plain[i] / times[i] for i in (0, 1))
        loss = 0 if name.startswith("plain") else 2 / options.epochs  # relearning begins with the loss of the head
        speed = (4 + loss) * 100e-9 * shape[0] * shape[1] * shape[2] / times[1]
        print(f"{name:18} {times[0]:9.3f} {clock:6.1f}× {times[1]:9.3f} {cpu:6.1f}× {speed:8.0f}")
    batch = min(options.batch_size, shape[2])
    for dtype in (torch.float32, torch.bfloat16):
        alone = 4e-9 * shape[0] * shape[1] * batch / product_seconds(*case, batch, options.repeats, dtype)
        print(f"the two products of a step alone, on one core, {dtype}: {alone:.0f} GFLOP/s")
    print(f"the compiled logits of a step alone: {compiled_speed(*case, batch, options.repeats):.0f} GFLOP/s")


if __name__ == "__main__":
    main()
