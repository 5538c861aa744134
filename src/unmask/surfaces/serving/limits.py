"""What the server refuses: requests that are too large, and work that takes too long.

The page is for people on one machine: work that takes minutes belongs on the command line.
"""

from __future__ import annotations

from unmask.common.errors import InputError

MOST_BYTES = 64 * 1024  # of a request
MOST_BATCH_BYTES = 1_000_000  # of a request with a list or a file of texts, and of such a text
LONGEST_TEXT = 2_000  # characters
HIGHEST_POSITION = 100_000  # of a token: a typing error, where it is above
MOST_TEXTS = 4  # that are scored
MOST_ROWS = 2_000  # texts, or minimal pairs, of a batch
MOST_BLANKS = 8
MOST_COMPLETIONS = 100
MOST_SCORES = 6
MOST_CHAINS = 16
MOST_DRAWN_TEXTS = 16  # by a decoder
MOST_SWEEPS = 500
MOST_STEPS = 200_000  # of a run: chains x sweeps x free tokens
MOST_PASSES = 70_000  # of a fill, compare, score or mutants: an exact pair of 30,000 tokens fits
MOST_MUTANTS = 20_000
MOST_JOBS = 48  # at once; more are answered with 429
MOST_CELLS = 40  # along each edge of a heat map

COMMAND = "use the command line"
PASSES = ("passes of the model", "passes for candidates")
"""How verbs call the passes that they report."""


def limits() -> dict[str, int]:
    """The numbers above, by name in small letters."""
    numbers = {}
    for name, value in globals().items():
        if name.isupper() and isinstance(value, int):
            numbers[name.lower()] = value
    return numbers


def refuse_more(count: int, most: int, what: str, less: str) -> None:
    """Refuse work beyond a limit.

    what   what was asked for, with {} in the place of the number, such as "the text has {} blanks"
    less   what to do
    """
    if count > most:
        given = what.format(f"{count:,}")
        raise InputError(f"{given}, and the page takes {most:,}: {less}")


def refuse_many_passes(total: int, what: str) -> None:
    """Refuse an answer that reports, before the first pass, that it takes too many.

    what   the unit of `total`: only passes are counted
    """
    if what in PASSES:
        less = f"consider fewer candidates or a shorter text, or {COMMAND}"
        refuse_more(total, MOST_PASSES, "this takes {} passes of the model", less)
