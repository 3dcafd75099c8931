"""Audit your own network: any ``nn.Module`` classifier, with a reference that never saw the class."""

import torch
from torch import nn

import sfra

train, test = sfra.load_data("digits", split="train"), sfra.load_data("digits", split="test")
images, labels = torch.cat(list(train.batches(2000))), train.labels


def fit(rows: torch.Tensor, seed: int) -> nn.Module:
    """Train a small network on some of the digits."""
    torch.manual_seed(seed)
    net = nn.Sequential(nn.Flatten(), nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 64), nn.ReLU(), nn.Linear(64, 10))
    optimiser = torch.optim.AdamW(net.parameters(), lr=3e-3, weight_decay=0.05)
    for _ in range(150):
        optimiser.zero_grad()
        nn.functional.cross_entropy(net(images[rows]), labels[rows]).backward()
        optimiser.step()
    return net.eval()


everything = torch.ones(len(labels), dtype=torch.bool)
released = fit(everything, seed=0)
with torch.no_grad():  # "unlearn" the digit 3 by switching its output off
    released[-1].weight[3] = 0.0
    released[-1].bias[3] = -15.0
reference = fit(labels != 3, seed=1)

report = sfra.audit(released, forget=3, data=test, reference=reference, n=50_000, m=200)
print(report.statement)
print(f"forget accuracy {report.forget['before']:.0%} -> {report.forget['after']:.0%}, ", end="")
print(f"RS {report.rs:.2f}, reference {report.reference_rs:.2f}, ΔRS {report.delta_rs:+.2f}")
for finding in report.findings:
    print(f"[{finding.code}] {finding.message}")
