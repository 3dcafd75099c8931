"""The committed rows, and rows that are not there yet, for the tests of several documents."""

from __future__ import annotations

import pytest

from builders.reproduction import own_world
from builders.second_group import second_group
from reproduction.build import COMPARED
from reproduction.stored import Kept, read_kept


@pytest.fixture(scope="session")
def other() -> Kept:
    """The group that is compared with the paper."""
    return read_kept(COMPARED)


@pytest.fixture(scope="session")
def kept(other: Kept) -> Kept:
    """A second group, made out of it."""
    return second_group(other)


@pytest.fixture(scope="session")
def bare(other: Kept) -> Kept:
    """Only the group's own models."""
    return own_world(other)
