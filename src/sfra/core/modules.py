"""Modules by the path of their file."""

from __future__ import annotations

import hashlib
import importlib.util
import re
import sys
from pathlib import Path
from types import ModuleType


def import_file(file: Path) -> ModuleType:
    """Import a file by its path, once in a process; whatever it raises is passed on.

    One with relative imports is imported as a part of the package that it lies in.
    """
    path = file.resolve()
    package = path.name == "__init__.py"
    within = (path.parent.parent if package else path.parent) / "__init__.py"
    if within.is_file() and (package or re.search(rb"^\s*from\s+\.", path.read_bytes(), re.MULTILINE)):
        own = path.parent.name if package else path.stem
        return importlib.import_module(f"{import_file(within).__name__}.{own}")
    name = f"sfra_file_{path.stem}_{hashlib.sha256(str(path).encode()).hexdigest()[:8]}"
    if name in sys.modules:
        return sys.modules[name]
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None
    assert spec.loader is not None
    module = sys.modules[name] = importlib.util.module_from_spec(spec)
    try:
        spec.loader.exec_module(module)
    except BaseException:
        del sys.modules[name]
        raise
    return module
