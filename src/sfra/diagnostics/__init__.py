"""Diagnostics: why an audit came out as it did. They look at real data, after the fact, and change no result."""

from sfra.diagnostics.alignment import Alignment, AlignmentOverSeeds, alignment
from sfra.diagnostics.confidence import ClassConfidence, Confidence, confidence
from sfra.diagnostics.diagnose import Diagnostics, diagnose, diagnose_parts
from sfra.diagnostics.geometry import Geometry, MapPoint, geometry
from sfra.diagnostics.margin import Agreement, Competitor, Margin, agreement, margin
from sfra.diagnostics.sensitivity import Point, Sensitivity, sensitivity
from sfra.diagnostics.support import ProposalSupport, compare_support, describe_support
from sfra.diagnostics.tradeoff import Budgeted, Efficient, Tradeoff, pareto, tradeoff

__all__ = [
    "Agreement",
    "Alignment",
    "AlignmentOverSeeds",
    "Budgeted",
    "ClassConfidence",
    "Competitor",
    "Confidence",
    "Diagnostics",
    "Efficient",
    "Geometry",
    "MapPoint",
    "Margin",
    "Point",
    "ProposalSupport",
    "Sensitivity",
    "Tradeoff",
    "agreement",
    "alignment",
    "compare_support",
    "confidence",
    "describe_support",
    "diagnose",
    "diagnose_parts",
    "geometry",
    "margin",
    "pareto",
    "sensitivity",
    "tradeoff",
]
