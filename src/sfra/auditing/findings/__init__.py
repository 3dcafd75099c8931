"""What a reader must know before quoting a score: one small function per finding.

Importing this package registers them all. Every code has its paragraph in ``docs/flags.md``.
"""

from sfra.auditing.findings import fit, reference, release, score
from sfra.auditing.findings.facts import facts_of
from sfra.auditing.findings.registry import FINDINGS, HIGH_RS, finding, raise_findings
from sfra.auditing.findings.release import odd_rows
from sfra.auditing.result import Finding, Severity

__all__ = [
    "FINDINGS",
    "HIGH_RS",
    "Finding",
    "Severity",
    "facts_of",
    "finding",
    "fit",
    "odd_rows",
    "raise_findings",
    "reference",
    "release",
    "score",
]
