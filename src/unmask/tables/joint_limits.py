"""How large a joint may be: the limits that no joint passes without force."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from unmask.common.errors import InputError, argument_name
from unmask.tables.unary import pass_count

MAX_PASSES = 200_000  # of the model, for the tables; more take hours on a CPU
MAX_CELLS = 1_000_000_000  # of each table; more take gigabytes


def is_feasible(sizes: Sequence[int], passes: int = MAX_PASSES) -> bool:
    """Whether candidate sets of these sizes need at most this many passes, and MAX_CELLS cells."""
    return prod(sizes) <= MAX_CELLS and pass_count(sizes) <= passes


def largest_feasible(sites: int, most: int, passes: int = MAX_PASSES) -> int:
    """The largest n <= most that is feasible with n candidates at each of `sites` blanks.

    It is 1 if not even 1 is feasible.
    """
    largest = 1  # below it all are feasible,
    too_large = most + 1  # and from here on none is
    while too_large - largest > 1:
        middle = (largest + too_large) // 2
        if is_feasible([middle] * sites, passes):
            largest = middle
        else:
            too_large = middle
    return largest


def check_feasible(
    sizes: Sequence[int], vocabulary: int, force: bool = False, takes_all: bool = False
) -> None:
    """Refuse, before any pass, a joint that needs more than MAX_PASSES passes or MAX_CELLS
    cells.

    sizes        how many candidates each blank has
    vocabulary   how many tokens a blank could have, the most that the message advises
    force        whether to let it pass
    takes_all    whether the user asked for every token, and not for a number
    """
    if force or is_feasible(sizes):
        return
    feasible = largest_feasible(len(sizes), vocabulary)
    if feasible == 1:  # which it also is if not even 1 candidate is feasible
        advice = "use fewer blanks"
    elif takes_all:
        every = argument_name("candidates", "all")
        advice = f"instead of {every} use {argument_name('candidates', feasible)} or fewer"
    else:
        advice = f"use {argument_name('candidates', feasible)} or fewer"
    shape = " x ".join(f"{size:,}" for size in sizes)
    raise InputError(
        f"{len(sizes)} blanks with {shape} candidates need {pass_count(sizes):,} passes of the"
        f" model and {prod(sizes):,} cells per table (limits {MAX_PASSES:,} and {MAX_CELLS:,}):"
        f" {advice}, or {argument_name('force', True)}"
    )
