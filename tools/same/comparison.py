"""Differences between the values of two checkouts, and the list of intended ones.

Two values are the same if kind, dtype, shape and every bit are. NaNs are equal to each other,
whatever their bits. A value that the new checkout lacks is a difference; one that it has in
addition is counted and is none. Differences of messages are reported and are no failure.

The size of a difference of two arrays of one dtype and shape is that of their numbers; of
everything else it is infinite.
"""

from __future__ import annotations

import json
import math
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

import numpy as np

from same.values import ARRAY, MESSAGE, Value

Values = Mapping[str, Value]
REFUSED = "refused/"
"""What the names of calls begin with that are meant to raise."""
INTENDED = Path(__file__).with_name("intended.toml")


@dataclass(frozen=True)
class Difference:
    """A value that differs.

    call, value   its names
    size          the largest difference of two numbers; infinite for texts, other shapes and
                  dtypes, and values that are gone
    what          in words
    """

    call: str
    value: str
    size: float
    what: str

    @property
    def name(self) -> str:
        """As reports and the list of intended changes name it."""
        return f"{self.call}:{self.value}"


@dataclass(frozen=True)
class Change:
    """An intended change: which values differ from which issue on, by how much at most, and why."""

    value: str
    issue: int
    largest: float
    why: str

    def allows(self, difference: Difference) -> bool:
        """Whether the list has this difference."""
        return self.names(difference.name) and difference.size <= self.largest

    def names(self, name: str) -> bool:
        """Whether the pattern fits a value; only `*` has a meaning of its own."""
        return fnmatchcase(name, self.value.replace("[", "[[]"))

    def concerns(self, call: str) -> bool:
        """Whether it may change a value of this call."""
        return fnmatchcase(call, self.value.partition(":")[0].replace("[", "[[]"))


@dataclass
class Report:
    """All that was compared.

    calls, values    how many; added: values that only the new checkout has
    failures         differences that the list does not have
    allowed          differences that it has
    not_seen         changes of the list that did not occur
    proves_nothing   calls that raise on both sides and are not meant to, or that never raise
                     and are
    messages         calls whose messages differ, with the old and the new one
    """

    calls: int = 0
    values: int = 0
    added: int = 0
    failures: list[Difference] = field(default_factory=list)
    allowed: list[Difference] = field(default_factory=list)
    not_seen: list[Change] = field(default_factory=list)
    proves_nothing: list[str] = field(default_factory=list)
    messages: list[tuple[str, str, str]] = field(default_factory=list)

    @property
    def passed(self) -> bool:
        """Whether the checkouts do the same, intended changes aside."""
        return not self.failures and not self.not_seen and not self.proves_nothing


def intended_changes(after: int, file: Path = INTENDED) -> list[Change]:
    """The intended changes of the issues after this one."""
    stored = tomllib.loads(file.read_text(encoding="utf-8"))
    changes = [Change(**entry) for entry in stored.get("change", [])]
    return [change for change in changes if change.issue > after]


def read_values(files: Iterable[Path]) -> dict[str, dict[str, Value]]:
    """The values of all calls that workers wrote."""
    calls: dict[str, dict[str, Value]] = {}
    for file in files:
        with open(file, encoding="utf-8") as lines:
            for line in lines:
                stored = json.loads(line)
                calls[stored["call"]] = {
                    name: Value.from_json(value) for name, value in stored["values"].items()
                }
    return calls


def compare(
    old: Mapping[str, Values], new: Mapping[str, Values], changes: Sequence[Change] = ()
) -> Report:
    """Compare the values of all calls."""
    report = Report(calls=len(old))
    seen: set[Change] = set()
    for call, values in old.items():
        report.values += sum(value.count for value in values.values())
        report.added += len(new.get(call, {}).keys() - values.keys())
        if (unmeant := unmeant_end(call, values, new.get(call, {}))) is not None:
            report.proves_nothing.append(unmeant)
        for name, message in values.items():
            other = new.get(call, {}).get(name)
            if message.kind == MESSAGE and other is not None and other.data != message.data:
                report.messages.append((f"{call}:{name}", message.data, other.data))
        for difference in differences(call, values, new.get(call)):
            fitting = [change for change in changes if change.allows(difference)]
            seen.update(fitting)
            (report.allowed if fitting else report.failures).append(difference)
    for change in changes:
        made = any(change.concerns(call) for call in old)  # with --only and --quick, many are not
        if made and change not in seen:
            report.not_seen.append(change)
    return report


def unmeant_end(call: str, old: Values, new: Values) -> str | None:
    """What is wrong if a call ends in an error on both sides and is not named `refused/`, or is
    and does not.
    """
    if "raised" in old and "raised" in new:
        reason = new.get("raised/message", new["raised"]).data
        return (
            None
            if call.startswith(REFUSED)
            else f"{call} raises on both sides: {shortened(reason)}"
        )
    if call.startswith(REFUSED) and "raised" not in old and "raised" not in new:
        return f"{call} raises on neither side"
    return None


def differences(call: str, old: Values, new: Values | None) -> Iterable[Difference]:
    """The values of a call that differ."""
    if new is None:
        yield Difference(call, "", math.inf, "the call has no values: its worker ended before")
        return
    count_before = sum(value.count for value in old.values() if value.kind != MESSAGE)
    count_now = sum(value.count for value in new.values() if value.kind != MESSAGE)
    if count_now < count_before:
        yield Difference(call, "count", math.inf, f"{count_before:,} values became {count_now:,}")
    for name, value in old.items():
        if value.kind == MESSAGE:
            continue
        other = new.get(name)
        if other is None:
            yield Difference(call, name, math.inf, "the value is gone")
        elif (found := difference(value, other)) is not None:
            size, what = found
            yield Difference(call, name, size, what)
    if "raised" in new and "raised" not in old:
        yield Difference(call, "raised", math.inf, f"nothing was raised, now {new['raised'].data}")


def difference(old: Value, new: Value) -> tuple[float, str] | None:
    """The size of a difference and what it is; None if two values are the same."""
    if old == new:
        return None
    if (old.kind, old.dtype) != (new.kind, new.dtype):
        return math.inf, f"{old.kind} of {old.dtype} became {new.kind} of {new.dtype}"
    if old.shape != new.shape:
        return math.inf, f"shape {old.shape} became {new.shape}"
    if old.kind != ARRAY:
        return math.inf, f"{shortened(old.data)} became {shortened(new.data)}"
    before, now = numbers(old), numbers(new)
    both_nan = np.isnan(before) & np.isnan(now)
    same_bits = same_numbers(old, new) | both_nan
    if bool(same_bits.all()):
        return None
    with np.errstate(invalid="ignore", over="ignore"):
        gaps = np.abs(before - now)
    gaps = np.where(same_bits, 0.0, np.where(np.isnan(gaps), np.inf, gaps))
    place = int(np.argmax(gaps)) if gaps.max() > 0 else int(np.argmin(same_bits))
    size = float(gaps.max())
    return (
        size,
        (
            f"{before[place]!r} became {now[place]!r}; {int((~same_bits).sum()):,} of"
            f" {len(before):,} numbers differ"
        ),
    )


def numbers(value: Value) -> np.ndarray:
    """The numbers of an array, flat, in float64, which rounds large whole numbers."""
    if value.dtype in ("int", "bool"):
        return np.array([float(word) for word in value.data.split()])
    content = bytes.fromhex(value.data)
    if value.dtype == "bfloat16":
        return (
            (np.frombuffer(content, dtype=np.uint16).astype(np.uint32) << 16)
            .view(np.float32)
            .astype(np.float64)
        )
    dtype = {"float": "float64"}.get(value.dtype, value.dtype)
    return np.frombuffer(content, dtype=dtype).astype(np.float64)


def same_numbers(old: Value, new: Value) -> np.ndarray:
    """For each number, whether its bits are the same."""
    if old.dtype in ("int", "bool"):
        return np.array([a == b for a, b in zip(old.data.split(), new.data.split(), strict=True)])
    before, now = (np.frombuffer(bytes.fromhex(value.data), dtype=np.uint8) for value in (old, new))
    width = len(before) // max(1, old.count)
    return (before.reshape(-1, width) == now.reshape(-1, width)).all(1)


def shortened(text: str, most: int = 90) -> str:
    """A text for a line of the report."""
    return repr(text if len(text) <= most else f"{text[:most]}...")


def as_text(report: Report, most: int = 40) -> str:
    """The report, with at most so many lines per kind of difference."""
    lines = [
        f"{report.calls:,} calls, {report.values:,} values compared; {report.added:,} values"
        " are new"
    ]
    by_call: dict[str, list[Difference]] = {}
    for one in report.failures:
        by_call.setdefault(one.call, []).append(one)
    if by_call:
        lines.append(f"{len(by_call):,} calls differ in {len(report.failures):,} values:")
    for call, found in list(by_call.items())[:most]:
        worst = max(found, key=lambda one: one.size)
        lines.append(
            f"  {call}: {len(found)} values, largest difference {worst.size:.3g}, at {worst.value}:"
            f" {worst.what}"
        )
    if len(by_call) > most:
        lines.append(f"  and {len(by_call) - most:,} more calls")
    if report.allowed:
        worst = max(report.allowed, key=lambda one: one.size)
        lines.append(
            f"{len(report.allowed):,} intended differences, the largest {worst.size:.3g}, at"
            f" {worst.name}"
        )
    lines += [
        f"listed and not seen: {change.value} (issue {change.issue}: {change.why})"
        for change in report.not_seen
    ]
    if report.proves_nothing:
        lines.append(
            f"{len(report.proves_nothing):,} calls prove nothing: mend them, or name them"
            f" {REFUSED}... if they are to raise"
        )
        lines += [f"  {one}" for one in report.proves_nothing]
    if report.messages:
        lines.append(f"{len(report.messages):,} messages differ, which is no failure")
    for name, before, now in report.messages[:most]:
        lines.append(f"  {name}: {shortened(before)} became {shortened(now)}")
    lines.append("the same" if report.passed else "NOT the same")
    return "\n".join(lines)


def as_json(report: Report) -> dict[str, Any]:
    """The report, whole, for a file."""
    return {
        "passed": report.passed,
        "calls": report.calls,
        "values": report.values,
        "failures": [vars(one) for one in report.failures],
        "allowed": [vars(one) for one in report.allowed],
        "not_seen": [vars(change) for change in report.not_seen],
        "proves_nothing": report.proves_nothing,
        "messages": report.messages,
    }
