"""Numbers as people read them: probabilities, nats, counts and bounds.

An upper bound is rounded up and a lower bound down, so that what is printed still holds. The
float is rounded as the exact number that it is, once: 0.001104 as a percentage of two digits is
at most 0.12, at least 0.11.
"""

from __future__ import annotations

from collections.abc import Callable
from decimal import ROUND_CEILING, ROUND_FLOOR, Context, Decimal
from math import exp, floor, isnan, log10
from typing import Any

DIGITS = 2  # significant ones, of a bound
UP = Context(prec=DIGITS, rounding=ROUND_CEILING)
DOWN = Context(prec=DIGITS, rounding=ROUND_FLOOR)
PLAIN = Decimal("1e-4")  # smaller percentages are written with an exponent
MOST_COUNTED = 10**12  # from here on a count is written as a bound


def percent(log_prob: float) -> str:
    """A log-probability as a percentage: two decimals, and two significant digits where it is
    small.
    """
    value = 100 * exp(log_prob)
    if value >= 0.1 or value == 0:
        return f"{value:.2f} %"
    if value < 1e-5:
        return f"{value:.0e} %"
    decimals = 1 - floor(log10(value))
    return f"{value:.{decimals}f} %"


def short_percent(log_prob: float) -> str:
    """A log-probability as a percentage in five characters, for tables of many columns."""
    value = 100 * exp(log_prob)
    return f"{value:.2f}" if value >= 0.005 else "<.01"


def nats(value: float) -> str:
    """Three decimals; rounding errors below zero show as zero."""
    if -5e-4 < value < 0:  # it would be written -0.000
        value = 0.0
    return f"{value:.3f}"


def number(value: Any, form: str = ".3f") -> str:
    """A float by its format, a dash where there is none; other values as text."""
    if value is None:
        return "-"
    if not isinstance(value, float):
        return str(value)
    if isnan(value):
        return "-"
    return format(value, form)


def in_form(form: str) -> Callable[[Any], str]:
    """The function that writes numbers by a format, such as in_form(",.2f"); a dash for NaN."""

    def written(value: Any) -> str:
        return number(value, form)

    return written


def count(value: int) -> str:
    """A number of things, such as 12,000."""
    return f"{value:,}"


def how_many(number: int, thing: str, things: str | None = None) -> str:
    """A number of things with their name, such as "1 text" and "12,000 texts".

    things   the plural of their name; by default with an s
    """
    if number == 1:
        return f"1 {thing}"
    if things is None:
        things = f"{thing}s"
    return f"{number:,} {things}"


def share(value: float) -> str:
    """A share of 1 as a percentage of one decimal, such as 12.3%; a dash for NaN."""
    return number(float(value), ".1%")


def at_most(value: float) -> str:
    """An upper bound of a number in two significant digits, such as "3.1e-16"; 0 is "0"."""
    if not value:
        return "0"
    return f"{UP.create_decimal(value):.1e}"


def percent_at_most(share: float) -> str:
    """An upper bound of a share of 1 as a percentage, such as "2.5 %": two significant digits,
    and never above 100.
    """
    return _percent(share, UP)


def percent_at_least(share: float) -> str:
    """A lower bound of a share of 1 as a percentage, such as "33.3 %": one decimal, or two
    digits where it is below 1 %.
    """
    if share < 0.01:
        return _percent(share, DOWN)
    rounded = Decimal(min(share, 1.0)).quantize(Decimal("0.001"), ROUND_FLOOR)
    return f"{rounded.scaleb(2)} %"


def count_at_most(count: int) -> str:
    """A number of things, exactly below MOST_COUNTED, else as an upper bound of two digits."""
    if count < MOST_COUNTED:
        return f"{count:,}"
    return at_most(count)


def _percent(share: float, context: Context) -> str:
    """A share as a percentage from 0 to 100, rounded as the context says."""
    exact = Decimal(min(max(share, 0.0), 1.0))
    percent = context.scaleb(exact, 2)
    if percent == 0:
        return "0 %"  # a Decimal of 0 may have an exponent
    if percent < PLAIN:
        return f"{percent:.1e} %"
    return f"{percent:f} %"
