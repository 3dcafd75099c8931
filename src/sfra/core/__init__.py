"""What every room stands on: the head, errors, files, metrics. It imports nothing else of the package."""

from sfra.core import metrics

__all__ = ["metrics"]
