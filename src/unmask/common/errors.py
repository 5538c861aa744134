"""Errors that the user can correct; every message says what was given, where, and what to do.

A message names arguments, and each surface writes a name in its own way: `max_length` in Python,
`--max-length` on the command line. So a message does not hold a name as plain text but as
`argument_name("max_length")`, and `UnmaskError.written` puts the surface's form in its place.
`str(error)` has Python's form.
"""

from __future__ import annotations

import re
from collections.abc import Callable

NameWriter = Callable[[str, str | None], str]
"""How a surface writes an argument: its name, and its value where the message states one."""

BEGIN, END = "\x96", "\x97"
"""Around a name in a message. Control characters: `repr` writes them as escapes, so no value of
a user that a message shows can hold them.
"""
NAME = re.compile(f"{BEGIN}([^={END}]+)(?:=([^{END}]*))?{END}")


def argument_name(name: str, value: object = None) -> str:
    """The name of an argument, for a message; with a value, the argument as one would give it.

    `argument_name("top", 5)` is `top=5` in Python and `--top 5` on the command line;
    `argument_name("force", True)` is `force=True` and `--force`.
    """
    if value is None:
        return f"{BEGIN}{name}{END}"
    return f"{BEGIN}{name}={value}{END}"


def in_python(name: str, value: str | None) -> str:
    """An argument as Python writes it."""
    if value is None:
        return name
    return f"{name}={value}"


def written_by(write: NameWriter, message: str) -> str:
    """A message in which a surface has written the names of arguments."""
    return NAME.sub(lambda found: write(found[1], found[2]), message)


def _writable(message: object) -> str:
    """A message that every stream can write: half of a surrogate pair, which none can, is
    escaped.
    """
    return str(message).encode("utf-8", "backslashreplace").decode()


class _Message(Exception):
    """What errors and warnings share: a message whose names of arguments each surface writes."""

    def __init__(self, message: object) -> None:
        super().__init__(_writable(message))

    @property
    def marked(self) -> str:
        """The message with its names marked, to be made part of another message."""
        return str(self.args[0])

    def written(self, write: NameWriter) -> str:
        """The message with the names of arguments as a surface writes them."""
        return written_by(write, self.marked)

    def __str__(self) -> str:
        return self.written(in_python)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({str(self)!r})"


class UnmaskError(_Message):
    """Base of all errors that the user can correct; the command line prints it in one line and
    exits with 2.

    >>> try:
    ...     unmask.fill("No blank here.")
    ... except unmask.UnmaskError as error:
    ...     print(type(error).__name__)
    InputError
    """


class InputError(UnmaskError):
    """A text, a position, an option or a file that cannot be used as given.

    problem    what is wrong; of an argument without its name, such as "0 is out of range"
    argument   the name of the argument that was given and cannot be used
    use        what to give instead

    >>> unmask.fill("A [MASK].", construction="guess")
    Traceback (most recent call last):
    unmask.common.errors.InputError: ...
    """

    def __init__(
        self, problem: str, *, argument: str | None = None, use: str | None = None
    ) -> None:
        message = problem
        if argument is not None:
            message = f"{argument_name(argument)} {message}"
        if use is not None:
            message = f"{message}: {use}"
        super().__init__(message)
        self.argument = argument


class ModelError(UnmaskError):
    """A checkpoint that cannot serve as a masked language model.

    >>> unmask.fill("A [MASK].", "no/such/model/here")
    Traceback (most recent call last):
    unmask.common.errors.ModelError: ...
    """


class MissingLibrary(UnmaskError):
    """A library that this part of unmask needs, and that is not installed.

    name    of the library
    extra   of unmask, which has it
    """

    def __init__(self, name: str, extra: str) -> None:
        super().__init__(f"{name} is not installed: pip install 'unmask[{extra}]'")


class UnmaskWarning(_Message, UserWarning):
    """Something that is not an error and may not be what was meant; the command line prints it
    in one line.
    """


class Notice(_Message):
    """A message of a log that names arguments, such as the settings that a run chose."""


class BadTexts(InputError):
    """Some of several texts cannot be answered; `reasons` has the reason of each, by its place
    from 0.
    """

    def __init__(self, message: str, reasons: dict[int, str]) -> None:
        super().__init__(message)
        self.reasons = reasons
