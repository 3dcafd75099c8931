"""Checkpoints as people have them, each made small in a folder, with the network that it must stand for.

``CASES`` is the list: ``benchmarks/checkpoints.py`` makes the table of ``docs/checkpoints.md`` from it, and the tests
make every one of them.
"""

from checkpoint_cases import directories, foreign, graphs, heads, modules, others, state_dicts
from checkpoint_cases.case import CASES, Case, Made

__all__ = ["CASES", "Case", "Made", "directories", "foreign", "graphs", "heads", "modules", "others", "state_dicts"]
