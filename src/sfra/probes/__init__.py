"""Step 1: synthetic probes from ``(W, b)`` alone. Nothing here can see data, controls or the benchmark."""

from sfra.probes.proposals import Support, support
from sfra.probes.sample import MAX_DRAWS, Probes, ProbeSettings, sample_probes

__all__ = ["MAX_DRAWS", "ProbeSettings", "Probes", "Support", "sample_probes", "support"]
