"""Source-free relearning audit: does an unlearned image classifier still hold the class it forgot?

    release = load(model)                                # released classifier -> encoder | head
    probes = sample_probes(release.head, forget, ...)    # step 1, sees (W, b) only
    path = relearn(release.head, probes)                 # step 2, sees (W, b) and probes only
    trace = evaluate(path, features, labels, forget)     # the only place where real data appears
    report = audit(model, forget, data=...)              # all of it, at every scale, with a verdict

Names are imported on first use, so that ``import sfra`` is quick and step 1 and 2 load nothing that could read data.
"""

import sys
from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING, Any

from sfra._version import __version__

if TYPE_CHECKING:
    from sfra import metrics
    from sfra.audit import audit
    from sfra.config import AuditConfig
    from sfra.data import load_data
    from sfra.errors import SfraError
    from sfra.evaluate import evaluate
    from sfra.findings import Finding
    from sfra.head import Head
    from sfra.probes import Probes, sample_probes
    from sfra.relearn import relearn
    from sfra.release import Release, load
    from sfra.result import AuditReport
    from sfra.trace import Trace
    from sfra.trajectory import Trajectory

_HOMES = {
    "AuditConfig": "sfra.config",
    "AuditReport": "sfra.result",
    "Finding": "sfra.findings",
    "Head": "sfra.head",
    "Probes": "sfra.probes",
    "Release": "sfra.release",
    "SfraError": "sfra.errors",
    "Trace": "sfra.trace",
    "Trajectory": "sfra.trajectory",
    "audit": "sfra.audit",
    "evaluate": "sfra.evaluate",
    "load": "sfra.release",
    "load_data": "sfra.data",
    "relearn": "sfra.relearn",
    "sample_probes": "sfra.probes",
}

__all__ = [
    "AuditConfig",
    "AuditReport",
    "Finding",
    "Head",
    "Probes",
    "Release",
    "SfraError",
    "Trace",
    "Trajectory",
    "__version__",
    "audit",
    "evaluate",
    "load",
    "load_data",
    "metrics",
    "relearn",
    "sample_probes",
]


def __getattr__(name: str) -> Any:
    """Import a public name from its module on first use."""
    if name == "metrics":
        return import_module("sfra.metrics")
    if name not in _HOMES:
        raise AttributeError(f"module 'sfra' has no attribute {name!r}")
    return getattr(import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    """List the public names."""
    return __all__


class _Package(ModuleType):
    """Lets ``sfra.relearn`` be the function, also after ``import sfra.relearn`` has loaded the module of that name."""

    def __setattr__(self, name: str, value: object) -> None:
        shadowed = isinstance(value, ModuleType) and name in _HOMES
        super().__setattr__(name, getattr(value, name) if shadowed else value)


sys.modules[__name__].__class__ = _Package
