"""Audit your own network: any ``nn.Module`` classifier, with a reference that never saw the class."""

import torch
from torch import nn

import sfra
from sfra.models.backbones import build
from sfra.models.training.train import TensorData, train
from sfra.unlearn import mask_head

images, test = sfra.load_data("digits", split="train"), sfra.load_data("digits", split="test")
digits = TensorData(torch.cat(list(images.batches(2000))), images.labels)


def fit(seed: int, data: TensorData = digits) -> nn.Module:
    """Train a small network; any other ``nn.Module`` classifier would do."""
    return train(
        build("small-cnn", classes=10, seed=seed), data, epochs=40, learning_rate=0.1, batch_size=64, seed=seed
    )


released = mask_head(fit(seed=0), [7])  # "unlearn" the digit 7 by switching its output off
keep = digits.labels != 7
reference = fit(seed=1, data=TensorData(digits.images[keep], digits.labels[keep]))

report = sfra.audit(released, forget=7, data=test, reference=reference, n=50_000, m=200)
print(report.statement)
print(f"forget accuracy {report.forget.before:.0%} -> {report.forget.after:.0%}, ", end="")
print(f"RS {report.rs:.2f}, reference {report.reference_rs:.2f}, ΔRS {report.delta_rs:+.2f}")
for finding in report.findings:
    print(f"[{finding.code}] {finding.message}")
