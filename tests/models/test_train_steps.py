"""Steps that are captured and replayed: all but the capture itself, and, where there is a GPU, that too."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn

from builders.models import moved, net, samples
from sfra.models.training import stepper
from sfra.models.training.stepper import Capture, CapturedStepper, Stepper
from sfra.models.training.train import Epoch, TensorData, Training, train

RATES = [0.1, 0.2, 0.05, 0.3, 0.1, 0.2, 0.4, 0.1]
SIZES = [8, 8, 5, 8, 8, 8, 3, 8]


class Again(Capture):
    """Records by remembering the work, and counts."""

    def __init__(self, problem: str | None = None) -> None:
        self.warmed = self.replayed = 0
        self.problem = problem

    def warm(self, work: Callable[[], Tensor]) -> Tensor:
        self.warmed += 1
        return work()

    def record(self, work: Callable[[], Tensor]) -> tuple[Tensor, Callable[[], None]]:
        if self.problem:
            raise RuntimeError(self.problem)
        loss = torch.zeros((), dtype=torch.float64)

        def replay() -> None:
            self.replayed += 1
            loss.copy_(work())

        return loss, replay


def sgd(model: nn.Module, rate: float | Tensor) -> torch.optim.SGD:
    return torch.optim.SGD(model.parameters(), lr=rate, momentum=0.9, weight_decay=0.01)


def run(step: Stepper) -> list[float]:
    data, losses, start = samples(20), [], 0
    for rate, size in zip(RATES, SIZES, strict=True):
        losses.append(step(data.images[start : start + size], data.labels[start : start + size], rate))
        start += size
    return [float(loss) for loss in losses]


def test_replayed_steps_are_the_plain_ones_on_the_same_weights() -> None:
    plain, replayed, capture = net(norm=True), net(norm=True), Again()
    expected = run(Stepper(plain, sgd(plain, 1.0), 0.1))
    rate = torch.tensor(1.0, dtype=torch.float64)
    captured = CapturedStepper(replayed, sgd(replayed, rate), 0.1, capture)
    assert run(captured) == pytest.approx(expected, rel=1e-12)
    assert moved(replayed, plain) < 1e-12
    assert torch.equal(replayed.get_buffer("1.num_batches_tracked"), torch.tensor(len(SIZES)))
    assert (capture.warmed, capture.replayed) == (3, SIZES.count(8) - 3)
    assert captured.note == ""
    assert float(rate) == RATES[-1]  # the tensor that a graph reads is overwritten, not replaced


def test_batches_of_other_shapes_step_through_the_network_that_is_not_compiled() -> None:
    plain, student = net(norm=True), net(norm=True)
    expected = run(Stepper(plain, sgd(plain, 1.0), 0.0))
    seen: list[int] = []

    class Compiled(nn.Module):
        def forward(self, images: Tensor) -> Tensor:
            seen.append(len(images))
            answer: Tensor = student(images)
            return answer

    assert run(CapturedStepper(Compiled(), sgd(student, 1.0), 0.0, Again(), plain=student)) == expected
    assert set(seen) == {8}


def test_a_capture_that_fails_leaves_plain_steps_and_a_note() -> None:
    plain, other = net(norm=True), net(norm=True)
    expected = run(Stepper(plain, sgd(plain, 1.0), 0.0))
    captured = CapturedStepper(other, sgd(other, 1.0), 0.0, Again("cannot do this\nand more"))
    assert run(captured) == expected
    assert moved(other, plain) == 0
    assert captured.note == "steps are not captured as a CUDA graph: cannot do this"


def test_a_note_reaches_the_progress_once(monkeypatch: pytest.MonkeyPatch) -> None:
    def captured(student: nn.Module, training: Training, device: torch.device) -> Stepper:
        return CapturedStepper(student, sgd(student, 0.1), 0.0, Again("no"))

    monkeypatch.setattr("sfra.models.training.train.make_stepper", captured)
    seen: list[Epoch] = []
    train(net(), samples(), epochs=4, learning_rate=0.1, batch_size=15, progress=seen.append)
    told = "steps are not captured as a CUDA graph: no"
    assert [done.note for done in seen] == ["", told, "", ""]


gpu = pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no CUDA device here")


@gpu
@pytest.mark.parametrize("dropout", [False, True])
def test_graphs_on_a_gpu_train_what_plain_steps_train(monkeypatch: pytest.MonkeyPatch, dropout: bool) -> None:
    data = TensorData(samples(40).images.float().cuda(), samples(40).labels)
    settings = Training(epochs=4, learning_rate=0.1, batch_size=16, precision="float32")
    model = net(norm=True, dropout=dropout).float().cuda()
    notes: list[str] = []
    runs = [train(model, data, training=settings, progress=lambda done: notes.append(done.note)) for _ in range(2)]
    assert set(notes) == {""}
    assert moved(runs[0], runs[1]) == 0
    if not dropout:
        monkeypatch.setattr(stepper, "WARM_UPS", 10**9)
        assert moved(runs[0], train(model, data, training=settings)) < 1e-4


@gpu
def test_a_network_that_cannot_be_captured_trains_plainly_on_a_gpu() -> None:
    class Looking(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner = net().float()

        def forward(self, images: Tensor) -> Tensor:
            out: Tensor = self.inner(images)
            return out if float(out.detach().sum()) > -1e9 else -out  # waits for the device

    data = TensorData(samples(40).images.float().cuda(), samples(40).labels)
    notes: list[str] = []
    train(
        Looking().cuda(),
        data,
        epochs=3,
        learning_rate=0.1,
        batch_size=16,
        progress=lambda done: notes.append(done.note),
    )
    assert any("not captured" in note for note in notes)
