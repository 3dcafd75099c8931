"""Errors that the user can fix: one message that says what, expected, got and what to do."""

from __future__ import annotations

from collections.abc import Iterable


def printable(text: object) -> str:
    """Make text that may come out of a file safe for a terminal: no control character but the ends of lines.

    >>> printable("a cat" + chr(27) + "[2J")
    'a cat?[2J'
    """
    return "".join(letter if letter.isprintable() or letter == "\n" else "?" for letter in str(text))


def counted(number: int, one: str, several: str) -> str:
    """Write a number with its noun.

    >>> counted(1, "class", "classes"), counted(3, "class", "classes")
    ('1 class', '3 classes')
    """
    return f"{number:,} {one if number == 1 else several}"


def listed(names: Iterable[str]) -> str:
    """Write names one after the other, apart from each other even where they have commas in them.

    >>> listed(["ox", "cow"]), listed(["tench, Tinca tinca", "ox"])
    ('ox, cow', 'tench, Tinca tinca; ox')
    """
    several = list(names)
    return ("; " if any("," in name for name in several) else ", ").join(several)


def meant(given: object, known: Iterable[str]) -> str | None:
    """Suggest the known names that are close to a misspelt one; None if no name is.

    >>> meant("smal-cnn", ["resnet18", "small-cnn", "small-mlp"])
    'write small-cnn, if you mean that'
    """
    from difflib import get_close_matches

    names = {name.lower(): name for name in known}
    close = get_close_matches(str(given).lower(), names, n=2, cutoff=0.7)
    return f"write {' or '.join(names[name] for name in close)}, if you mean that" if close else None


class SfraError(Exception):
    """An error the user can fix; the command line prints it without a traceback and exits with 2.

    The message has up to four parts, each on its own line, and holds nothing that a terminal would act upon::

        the forget index is out of range
          expected: 0 to 9
          got:      12
          do:       pass --forget with one of the 10 classes of this head

    >>> print(SfraError("m is too large", expected="2m <= n", got="m=9, n=10"))
    m is too large
      expected: 2m <= n
      got:      m=9, n=10
    """

    def __init__(self, what: str, *, expected: object = None, got: object = None, do: object = None) -> None:
        parts = (("expected:", expected), ("got:", got), ("do:", do))
        lines = [what] + [f"  {label:<9} {part}" for label, part in parts if part is not None]
        super().__init__(printable("\n".join(lines)))
        self.what = printable(what)


class InputError(SfraError, ValueError):
    """An argument, a file's content or a data set that cannot be audited as given."""


class UnsafeFileError(SfraError):
    """A file that would run code, or could, if it were opened; it was not opened."""


class SamplingError(SfraError):
    """No probes: some retain class has no, or almost no, mass under the proposal."""


class MissingPackageError(SfraError, ImportError):
    """An optional package is needed for this input; the message names the extra that brings it."""


class NotFiniteError(InputError):
    """A model that a method or a training left with NaN or infinite weights."""
