"""Limits of work that a user can lift with `force`."""

from __future__ import annotations

from unmask.common.errors import InputError, argument_name


def refuse_more(count: int, most: int, what: str, advice: str, force: bool = False) -> None:
    """Raise if `count` is more than `most`, unless `force`.

    what   a sentence that has the count
    """
    if count > most and not force:
        force_it = argument_name("force", True)
        raise InputError(f"{what} (limit {most:,}): {advice}, or give {force_it}")
