"""Errors that the user can correct; every message says what was given, where, and what to do."""


def _writable(message: object) -> str:
    """A message that every stream can write: half of a surrogate pair, which none can, is
    escaped.
    """
    return str(message).encode("utf-8", "backslashreplace").decode()


class UnmaskError(Exception):
    """Base of all errors that the user can correct; the command line prints it in one line and
    exits with 2.

    >>> try:
    ...     unmask.fill("No blank here.")
    ... except unmask.UnmaskError as error:
    ...     print(type(error).__name__)
    InputError
    """

    def __init__(self, message: object) -> None:
        super().__init__(_writable(message))


class InputError(UnmaskError):
    """A text, a position, an option or a file that cannot be used as given.

    >>> unmask.fill("A [MASK].", joint="guess")
    Traceback (most recent call last):
    unmask.common.errors.InputError: ...
    """


class ModelError(UnmaskError):
    """A checkpoint that cannot serve as a masked language model.

    >>> unmask.fill("A [MASK].", "no/such/model/here")
    Traceback (most recent call last):
    unmask.common.errors.ModelError: ...
    """


class UnmaskWarning(UserWarning):
    """Something that is not an error and may not be what was meant; the command line prints it
    in one line.
    """

    def __init__(self, message: object) -> None:
        super().__init__(_writable(message))


class BadTexts(InputError):
    """Some of several texts cannot be answered; `reasons` has the reason of each, by its place
    from 0.
    """

    def __init__(self, message: str, reasons: dict[int, str]) -> None:
        super().__init__(message)
        self.reasons = reasons
