"""Training: the recipe against torch written out, determinism, and what is left untouched."""

from __future__ import annotations

import copy
from dataclasses import dataclass
from typing import Any, ClassVar

import pytest
import torch
from torch import Tensor, nn

from builders.models import moved, net, samples
from builders.modules import untouched
from sfra.core.errors import InputError
from sfra.models.forward import computing
from sfra.models.training.train import TensorData, Training, logits, shuffled, train


def predictions(model: nn.Module, images: Tensor) -> Tensor:
    with torch.no_grad():
        return logits(model, images).argmax(1)


def test_training_learns_what_an_untrained_net_does_not_know() -> None:
    data, test = samples(20), samples(20, seed=1)
    model = net(norm=True)
    trained = train(model, data, epochs=15, learning_rate=0.1, batch_size=16)
    before, after = ((predictions(m, test.images) == test.labels).double().mean() for m in (model.eval(), trained))
    assert before < 0.5
    assert after > 0.9


def test_the_first_step_of_adamw_is_the_sign_of_the_gradient_and_the_decay() -> None:
    """With m = g and v = g² after bias correction, w ← w (1 - ηλ) - η g / (|g| + ε)."""
    data, start, rate, decay = samples(), net(), 0.01, 0.3
    settings: dict[str, Any] = {"epochs": 1, "batch_size": len(data.labels), "schedule": "steps"}
    trained = train(start, data, optimizer="adamw", learning_rate=rate, weight_decay=decay, **settings, seed=0)
    copied = copy.deepcopy(start).train()
    loss = nn.functional.cross_entropy(copied(data.images), data.labels)
    slopes = torch.autograd.grad(loss, list(copied.parameters()))
    for before, slope, after in zip(copied.parameters(), slopes, trained.parameters(), strict=True):
        step = slope / (slope.abs() + 1e-8)
        torch.testing.assert_close(after, before * (1 - rate * decay) - rate * step, rtol=1e-4, atol=1e-6)


def test_equal_seeds_give_equal_weights_and_another_seed_others() -> None:
    model = net(norm=True, dropout=True)
    runs = [
        train(model, samples(), epochs=2, learning_rate=0.1, batch_size=8, seed=seed).state_dict() for seed in (3, 3, 4)
    ]
    assert all(torch.equal(runs[0][name], runs[1][name]) for name in runs[0])
    assert not torch.equal(runs[0]["0.weight"], runs[2]["0.weight"])


def test_the_model_the_data_and_the_global_random_state_stay_as_they_were() -> None:
    model, data = net(norm=True, dropout=True), samples()
    model.train()
    model[1].eval()
    images, state = data.images.clone(), torch.get_rng_state()
    with untouched(model):
        trained = train(model, data, epochs=2, learning_rate=0.1)
    assert torch.equal(data.images, images)
    assert torch.equal(torch.get_rng_state(), state)
    assert not any(module.training for module in trained.modules())


@pytest.mark.parametrize(
    ("count", "size", "sizes"),
    [(10, 4, [4, 4, 2]), (9, 4, [4, 5]), (8, 4, [4, 4]), (1, 4, [1]), (3, 4, [3]), (3, 1, [1, 1, 1]), (5, 4, [5])],
)
def test_batches_hold_every_sample_once_and_never_a_lone_last_one(count: int, size: int, sizes: list[int]) -> None:
    data = TensorData(torch.arange(count).double().unsqueeze(1), torch.arange(count))
    batches = list(shuffled(data, size, generator=torch.Generator().manual_seed(0)))
    assert [len(labels) for _, labels in batches] == sizes
    assert torch.cat([labels for _, labels in batches]).sort().values.tolist() == list(range(count))
    assert all(torch.equal(images[:, 0].long(), labels) for images, labels in batches)


def test_batches_are_read_together_as_far_as_memory_allows(monkeypatch: pytest.MonkeyPatch) -> None:
    class Noted(TensorData):
        reads: ClassVar[list[int]] = []

        def take(self, index: Tensor) -> Tensor:
            self.reads.append(len(index))
            return super().take(index)

    data = Noted(torch.arange(20.0).unsqueeze(1), torch.arange(20))
    monkeypatch.setattr("sfra.core.batches.CHUNK_BYTES", 1)
    by_one = list(shuffled(data, 3, generator=torch.Generator().manual_seed(0)))
    assert data.reads == [3, 3, 3, 3, 3, 3, 2]
    data.reads.clear()
    monkeypatch.setattr("sfra.core.batches.CHUNK_BYTES", 3 * 3 * 4)
    together = list(shuffled(data, 3, generator=torch.Generator().manual_seed(0)))
    assert data.reads == [3, 9, 8]
    for (a, b), (c, d) in zip(by_one, together, strict=True):
        assert torch.equal(a, c)
        assert torch.equal(b, d)


def test_half_precision_trains_and_its_logits_are_float32() -> None:
    data = TensorData(samples(20).images.float(), samples(20).labels)
    half, full = (
        train(net().float(), data, epochs=5, learning_rate=0.2, batch_size=16, precision=precision)
        for precision in ("bfloat16", "float32")
    )
    assert 0 < moved(half, full) < 0.1
    assert next(half.parameters()).dtype == torch.float32
    with computing(torch.device("cpu"), "bfloat16"):
        rounded = logits(half, data.images)
    exact = logits(half, data.images)
    assert rounded.dtype == torch.float32
    assert not torch.equal(rounded, exact)
    torch.testing.assert_close(rounded, exact, rtol=0.1, atol=0.1)


def test_a_network_is_compiled_only_if_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[nn.Module] = []

    def compile_(network: nn.Module) -> nn.Module:
        asked.append(network)
        return network

    monkeypatch.setattr(torch, "compile", compile_)
    plain = train(net(), samples(), epochs=1, learning_rate=0.1)
    assert asked == []
    compiled = train(net(), samples(), epochs=1, learning_rate=0.1, compile=True)
    assert len(asked) == 1
    assert moved(compiled, plain) == 0


def test_what_the_data_draw_is_seeded_by_the_run() -> None:
    @dataclass(eq=False)
    class Jittered:
        inner: TensorData
        generator: torch.Generator

        @property
        def labels(self) -> Tensor:
            return self.inner.labels

        def take(self, index: Tensor) -> Tensor:
            images = self.inner.take(index)
            return images + torch.randn(images.shape, generator=self.generator, dtype=images.dtype)

    data = Jittered(samples(), torch.Generator().manual_seed(99))
    first, again = (train(net(), data, epochs=2, learning_rate=0.1) for _ in range(2))
    assert moved(first, again) == 0
    assert moved(first, train(net(), data, epochs=2, learning_rate=0.1, seed=1)) > 0
    assert moved(first, train(net(), samples(), epochs=2, learning_rate=0.1)) > 0


def test_what_cannot_be_trained_is_refused_with_the_reason() -> None:
    for labels, message in (
        (torch.zeros(2), "not class indices"),
        (torch.tensor([-1, 0]), "not class indices"),
        (torch.zeros(2, dtype=torch.long, device="meta"), "not on the CPU"),
        (torch.zeros(1, dtype=torch.long), "images and labels disagree"),
    ):
        with pytest.raises(InputError, match=message):
            TensorData(torch.zeros(2, 3), labels)
    with pytest.raises(InputError, match="does not answer with logits"):
        logits(nn.Flatten(0), samples().images)
    with pytest.raises(InputError, match="nothing to train on"):
        train(net(), TensorData(torch.zeros(0, 6), torch.zeros(0, dtype=torch.long)), epochs=1, learning_rate=0.1)
    with pytest.raises(InputError, match=r"given twice\n  expected: .*\n  got: +epochs, momentum"):
        train(net(), samples(), training=Training(epochs=1, learning_rate=0.1), epochs=1, momentum=0.5)
    with pytest.raises(InputError, match="no parameters"):
        train(nn.Flatten(), samples(), epochs=1, learning_rate=0.1)
    with pytest.raises(InputError, match=r"training diverged\n(.*\n)+  do: +lower the learning rate"):
        train(net(), samples(), epochs=20, learning_rate=1e200)
