"""Epochs that are recorded and replayed, on a tape that keeps the rules of a CUDA graph and, on a GPU, as one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

import sfra.controls.linear
from sfra.controls import linear_probe
from sfra.controls.linear import ProbeEpoch, Rows, SoftmaxRegression, train_until_flat
from sfra.core.head import Head
from sfra.data import FeatureSet
from sfra.models.training.stepper import Capture

CLASSES, WIDTH, SAMPLES, BATCH = 4, 6, 109, 16


class Operations(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Writes down each operation with the tensors it read and made; a look at a value from the host is refused."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.done: list[tuple[Any, Any, Any, Any]] = []
        self.before: list[tuple[Tensor, Tensor]] = []

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func is torch.ops.aten._local_scalar_dense.default:
            raise RuntimeError("operation not permitted when stream is capturing")
        if func._schema.is_mutable:
            self.before.append((args[0], args[0].clone()))
        made = func(*args, **(kwargs or {}))
        self.done.append((func, args, kwargs or {}, made))
        return made

    def undo(self) -> None:
        for tensor, value in reversed(self.before):
            tensor.copy_(value)

    def redo(self) -> None:
        for func, args, kwargs, made in self.done:
            for old, new in zip(tree_leaves(made), tree_leaves(func(*args, **kwargs)), strict=True):
                if old.data_ptr() != new.data_ptr():
                    old.copy_(new)


class Tape(Capture):
    """A CUDA graph on the CPU: recording changes nothing, and a replay repeats the operations on the same memory."""

    def __init__(self) -> None:
        self.warmed = self.recorded = self.replayed = 0

    def warm(self, work: Callable[[], Tensor]) -> Tensor:
        self.warmed += 1
        return work()

    def record(self, work: Callable[[], Tensor]) -> tuple[Tensor, Callable[[], None]]:
        self.recorded += 1
        operations = Operations()
        try:
            with operations:
                loss = work()
        finally:
            operations.undo()

        def replay() -> None:
            self.replayed += 1
            operations.redo()

        return loss, replay

    @property
    def counts(self) -> tuple[int, int, int]:
        return self.warmed, self.recorded, self.replayed


class Looking(SoftmaxRegression):
    """Reads its loss on the host at every step, which no graph can hold."""

    def step(self, rows: Rows) -> Tensor:
        loss = super().step(rows)
        return loss if float(loss) < float("inf") else -loss


class Rebinding(SoftmaxRegression):
    """Puts its weights somewhere else at every step, where no graph looks."""

    def step(self, rows: Rows) -> Tensor:
        loss = super().step(rows)
        self.W = self.W.clone()
        return loss


def noisy() -> tuple[Tensor, Tensor]:
    """Features of classes that overlap, so that the validation loss turns."""
    generator = torch.Generator().manual_seed(3)
    labels = torch.randint(CLASSES, (SAMPLES,), generator=generator)
    return torch.eye(CLASSES, WIDTH)[labels] + 1.5 * torch.randn(SAMPLES, WIDTH, generator=generator), labels


def probe(
    capture: Capture | None, kind: type[SoftmaxRegression] = SoftmaxRegression, device: str = "cpu"
) -> tuple[Head, list[ProbeEpoch]]:
    start = Head(torch.zeros(CLASSES, WIDTH)).reset_rows(range(CLASSES), seed=1)
    features, labels = (part.to(device) for part in noisy())
    classifier = kind(start, features, labels, learning_rate=0.02, momentum=0.9)
    rows, generator = torch.arange(SAMPLES), torch.Generator().manual_seed(0)
    return train_until_flat(classifier, rows[30:], rows[:30].to(device), generator, BATCH, 4, 30, capture)


def best(history: list[ProbeEpoch]) -> int:
    losses = [epoch.validation_loss for epoch in history]
    return losses.index(min(losses))


def test_an_epoch_is_recorded_once_and_its_replays_are_the_plain_epochs() -> None:
    (expected, history), tape = probe(None), Tape()
    head, replayed = probe(tape)
    assert replayed == history
    assert head.fingerprint == expected.fingerprint
    assert tape.counts == (1, 1, len(history) - 1)
    assert 1 < best(history) < len(history) - 1  # the head is of a replayed epoch, and outlived the replays after it
    assert (SAMPLES - 30) % BATCH != 0  # the last batch is a shorter one


def test_a_recording_holds_memory_and_not_names() -> None:
    _, history = probe(None, Rebinding)
    assert history == probe(None)[1]
    assert probe(Tape(), Rebinding)[1] != history


def test_an_epoch_that_cannot_be_recorded_is_run_plainly() -> None:
    (expected, history), tape = probe(None), Tape()
    head, plain = probe(tape, Looking)
    assert plain == history
    assert head.fingerprint == expected.fingerprint
    assert tape.counts == (1, 1, 0)


gpu = pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no CUDA device here")


@gpu
def test_a_graph_on_a_gpu_trains_what_plain_steps_train() -> None:
    expected, history = probe(None, device="cuda")
    head, replayed = probe(Capture(torch.device("cuda")), device="cuda")
    torch.testing.assert_close(head.weight, expected.weight, rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(head.bias, expected.bias, rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(torch.tensor(replayed), torch.tensor(history), rtol=1e-4, atol=1e-5)


@gpu
def test_the_probe_records_one_graph_on_a_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    recorded = []

    class Counted(Capture):
        def record(self, work: Callable[[], Tensor]) -> tuple[Tensor, Callable[[], None]]:
            made = super().record(work)
            recorded.append(made)
            return made

    monkeypatch.setattr(sfra.controls.linear, "Capture", Counted)
    data = FeatureSet(features=noisy()[0], labels=noisy()[1])
    runs = [linear_probe(data, data, [1], classes=CLASSES, batch_size=BATCH, device="cuda") for _ in range(2)]
    assert len(recorded) == 2
    assert runs[0].head.fingerprint == runs[1].head.fingerprint


@gpu
def test_steps_that_wait_for_the_gpu_are_taken_plainly() -> None:
    expected, history = probe(None, device="cuda")
    head, plain = probe(Capture(torch.device("cuda")), Looking, device="cuda")
    torch.testing.assert_close(torch.tensor(plain), torch.tensor(history), rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(head.weight, expected.weight, rtol=1e-4, atol=1e-5)
