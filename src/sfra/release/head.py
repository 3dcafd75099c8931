"""A head by itself: all that an audit needs, but for measuring."""

from __future__ import annotations

from pathlib import Path

from sfra.core.head import Head
from sfra.release.base import Loader, Options, Release


class HeadLoader(Loader):
    """A :class:`~sfra.Head`, or a file of two arrays."""

    name = "head"
    description = "a head (sfra.Head, .npz, .safetensors)"
    suffixes = (".npz",)

    def accepts(self, source: object) -> bool:
        """Tell whether it is a head."""
        return isinstance(source, Head) or super().accepts(source)

    def load(self, source: Head | Path, options: Options) -> Release:
        """Wrap the head."""
        if isinstance(source, Head):
            return head_release(source, "a head")
        return head_release(Head.load(source), f"head file {source.name}")


def head_release(head: Head, source: str) -> Release:
    """Make a release without an encoder."""
    return Release(head=head, encoder=None, source=source, fingerprint=head.fingerprint)
