"""The audit step by step, for those who want to look inside or swap a part."""

import torch
from torch import nn

import sfra

digits = sfra.load_data("digits", split="test")
images = torch.cat(list(digits.batches(1000)))
torch.manual_seed(0)
model = nn.Sequential(nn.Flatten(), nn.Linear(64, 32), nn.ReLU(), nn.Linear(32, 10)).eval()

release = sfra.load(model, example=images[:1])  # encoder | head, found by watching a forward pass
probes = sfra.sample_probes(release.head, 7, n=20_000, m=200)  # step 1: sees the head only
path = sfra.relearn(release.head, probes, epochs=30)  # step 2: sees the head and the probes only
trace = sfra.evaluate(path, release.encoder(images), digits.labels, [7])  # the only place where real data appears

print(f"{probes.draws:,} draws, {len(probes.labels):,} probes, {probes.seconds:.2f} s")
print(f"loss {path.losses[0]:.2f} -> {path.losses[-1]:.2f}")
print(f"retain {trace.retain[0]:.2f} -> {trace.retain[-1]:.2f}, forget {trace.forget[0]:.2f} -> {trace.forget[-1]:.2f}")
print(f"RS {sfra.metrics.relearning_score(trace.retain[0], trace.retain[-1], trace.forget[0], trace.forget[-1]):.2f}")
print("An untrained network knows no digit: whatever comes back here is relearnability in general, not memory.")
