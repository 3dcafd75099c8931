"""The audit step by step, for those who want to look inside or swap a part."""

import torch
from torch import Tensor, nn

import sfra
from sfra.models.backbones import build
from sfra.models.training.train import TensorData, train
from sfra.unlearn import mask_head

digits, test = sfra.load_data("digits", split="train"), sfra.load_data("digits", split="test")
images, test_images = (torch.cat(list(part.batches(2000))) for part in (digits, test))


def fit(keep: Tensor, seed: int) -> nn.Module:
    """Train a small network on some of the digits, for a moment."""
    data = TensorData(images[keep], digits.labels[keep])
    network = build("small-cnn", classes=10, seed=seed)
    return train(network, data, epochs=15, learning_rate=0.1, batch_size=64, seed=seed)


def relearn(name: str, model: nn.Module) -> float:
    """Bring the 7 back, once and at the released scale, and return RS."""
    release = sfra.load(model, example=test_images[:1])  # encoder | head, found by watching a forward pass
    probes = sfra.sample_probes(release.head, 7, n=50_000, m=200)  # step 1: sees the head only
    path = sfra.relearn(release.head, probes)  # step 2: sees the head and the probes only
    with torch.no_grad():
        features = release.encoder(test_images)
    trace = sfra.evaluate(path, features, test.labels, [7])  # the only place where real data appears
    retain, forget = trace.retain, trace.forget
    rs = sfra.metrics.relearning_score(retain[0], retain[-1], forget[0], forget[-1])
    print(f"{name}: {probes.draws:,} draws, {len(probes.labels):,} probes, loss {path.losses[0]:.2f}", end=" ")
    print(f"-> {path.losses[-1]:.2f}, retain {retain[0]:.0%} -> {retain[-1]:.0%}", end=", ")
    print(f"forget {forget[0]:.0%} -> {forget[-1]:.0%}, RS {rs:.2f}")
    return rs


hidden = relearn("masked", mask_head(fit(digits.labels >= 0, seed=0), [7]))  # knows the 7, its output is switched off
unseen = relearn("reference", fit(digits.labels != 7, seed=1))  # never saw a 7
more = "more than" if hidden - unseen > 0.1 else "no more than"
print(f"ΔRS {hidden - unseen:+.2f}: the masked 7 comes back {more} in a model that never saw one.")
