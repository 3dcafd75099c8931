"""Pages of audits and benchmarks: one file each, complete, safe with strangers' content."""

from sfra.report.page.audit import audit_page, overview_page
from sfra.report.page.bench import bench_page

__all__ = ["audit_page", "bench_page", "overview_page"]
