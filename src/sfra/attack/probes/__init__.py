"""Step 1: synthetic probes from ``(W, b)`` alone. Nothing here can see data, controls or the benchmark."""

from sfra.attack.known import MAX_DRAWS
from sfra.attack.probes.proposals import Support, support
from sfra.attack.probes.sample import Probes, sample_probes
from sfra.attack.probes.settings import ProbeSettings

__all__ = ["MAX_DRAWS", "ProbeSettings", "Probes", "Support", "sample_probes", "support"]
