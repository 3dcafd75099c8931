"""Source-free relearning audit: does an unlearned image classifier still hold the class it forgot?

    release = load(model)                                # released classifier -> encoder | head
    probes = sample_probes(release.head, forget, ...)    # step 1, sees (W, b) only
    path = relearn(release.head, probes)                 # step 2, sees (W, b) and probes only
    trace = evaluate(path, features, labels, forget)     # the only place where real data appears
    report = audit(model, forget, data=...)              # all of it, at every scale, with a verdict

Names are imported on first use, so that ``import sfra`` is quick and step 1 and 2 load nothing that could read data.
"""

from collections.abc import Callable
from importlib import import_module
from typing import TYPE_CHECKING, Any

from sfra._version import __version__
from sfra.core.views import VIEWS

if TYPE_CHECKING:
    from sfra.attack.path import Trajectory
    from sfra.attack.probes import Probes, sample_probes
    from sfra.attack.relearn import relearn
    from sfra.auditing.audit import audit
    from sfra.auditing.config import AuditConfig
    from sfra.auditing.evaluate import evaluate
    from sfra.auditing.findings import Finding
    from sfra.auditing.result import AuditReport
    from sfra.auditing.trace import Trace
    from sfra.core import metrics
    from sfra.core.errors import SfraError
    from sfra.core.head import Head
    from sfra.data import load_data
    from sfra.diagnostics import diagnose
    from sfra.release import Preprocess, Release, load

_HOMES = {
    "AuditConfig": "sfra.auditing.config",
    "AuditReport": "sfra.auditing.result",
    "Finding": "sfra.auditing.findings",
    "Head": "sfra.core.head",
    "Preprocess": "sfra.release",
    "Probes": "sfra.attack.probes",
    "Release": "sfra.release",
    "SfraError": "sfra.core.errors",
    "Trace": "sfra.auditing.trace",
    "Trajectory": "sfra.attack.path",
    "audit": "sfra.auditing.audit",
    "diagnose": "sfra.diagnostics",
    "evaluate": "sfra.auditing.evaluate",
    "load": "sfra.release",
    "load_data": "sfra.data",
    "metrics": "sfra.core",
    "relearn": "sfra.attack.relearn",
    "sample_probes": "sfra.attack.probes",
}

__all__ = [
    "AuditConfig",
    "AuditReport",
    "Finding",
    "Head",
    "Preprocess",
    "Probes",
    "Release",
    "SfraError",
    "Trace",
    "Trajectory",
    "__version__",
    "audit",
    "diagnose",
    "evaluate",
    "load",
    "load_data",
    "metrics",
    "relearn",
    "sample_probes",
]


def _later(module: str, name: str) -> Callable[..., Any]:
    """Return a function that is imported when it is called."""
    return lambda *given: getattr(import_module(module), name)(*given)


VIEWS.update(summary=_later("sfra.cli.summary", "text"))
VIEWS.update({name: _later("sfra.report.notebook", name) for name in ("card", "page", "plot")})


def __getattr__(name: str) -> Any:
    """Import a public name from its module on first use."""
    if name not in _HOMES:
        raise AttributeError(f"module 'sfra' has no attribute {name!r}")
    return getattr(import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    """List the public names."""
    return __all__
