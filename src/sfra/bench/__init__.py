"""The benchmark: a grid of cells, each computed once, kept in one folder, and a report that reads only that folder.

    run_protocol("digits", "store")             # compute what is missing
    report = make_report("digits", "store")     # tables, from the folder alone

Names are imported on first use: a worker process needs few of them.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from sfra.bench.engine.summary import Summary
    from sfra.bench.grid import discard_done, protocol_status, retry_failed, run_protocol
    from sfra.bench.protocol import Ablation, Diagnosed, Protocol, load_protocol
    from sfra.bench.report import BenchReport, make_report

_NAMES = {
    "engine.summary": ("Summary",),
    "grid": ("discard_done", "protocol_status", "retry_failed", "run_protocol"),
    "protocol": ("Ablation", "Diagnosed", "Protocol", "load_protocol"),
    "report": ("BenchReport", "make_report"),
}
_HOMES = {name: f"sfra.bench.{module}" for module, names in _NAMES.items() for name in names}

__all__ = [
    "Ablation",
    "BenchReport",
    "Diagnosed",
    "Protocol",
    "Summary",
    "discard_done",
    "load_protocol",
    "make_report",
    "protocol_status",
    "retry_failed",
    "run_protocol",
]


def __getattr__(name: str) -> Any:
    """Import a public name from its module on first use."""
    if name not in _HOMES:
        raise AttributeError(f"module 'sfra.bench' has no attribute {name!r}")
    return getattr(import_module(_HOMES[name]), name)
