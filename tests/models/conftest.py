"""Small members of the transformers families for the length of a test; transformers draws no bars."""

from collections.abc import Iterator

import pytest

from builders.backbones import add_tiny


@pytest.fixture
def tiny(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    logs = pytest.importorskip("transformers").utils.logging
    add_tiny(monkeypatch)
    logs.disable_progress_bar()
    yield
    logs.enable_progress_bar()
