"""`unmask score`: a number for each sentence, by a named definition."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from unmask.cli import terminal
from unmask.errors import InputError
from unmask.formats import down, up
from unmask.runs.files import user_path

if TYPE_CHECKING:
    from unmask.scoring.score import PairScores, Scores


def score(given: dict[str, Any]) -> int:
    """Print scores: as rows of a file, as tables of sentences, or as accuracies of pairs; 1 if a text lacks a score."""
    json, words, pairs = given.pop("json", False), given.pop("texts", []), given.get("pairs")
    out, rows, format = given.get("out"), given.get("rows", "texts"), given.get("format", "jsonl")
    texts = _texts(words, pairs)
    from_file = isinstance(texts, Path)
    if not from_file and not pairs and rows == "texts" and format == "jsonl":
        given["rows"] = "nested"
    lines = from_file and out is None and not json
    with terminal.progress(quiet=json, lines=out is not None) as report:
        import unmask
        from unmask.scoring.registry import DEFAULT, chosen
        from unmask.scoring.score import LineWriter, RowShape, check_format

        check_format(format, rows, on_stream=out is None)
        seen = _Rows()
        if lines:
            columns = RowShape(chosen(given.get("score", DEFAULT)), rows).columns.names
            seen.write = LineWriter(sys.stdout, columns, format)
        scores = unmask.score(texts, **given, sink=seen.see if lines else None, progress=report)
    if json:
        terminal.print_json(scores.to_dict())
    elif isinstance(scores, unmask.PairScores):
        _print_pairs(scores)
    elif not from_file and out is None:
        _print_sentences(scores)
    if not lines:
        for number, reason in scores.reasons():
            seen.note(number, reason)
    seen.report_missing("pair" if pairs else "text")
    if out is not None:
        terminal.messages().print(f"rows are in {Path(out) / f'scores.{format}'}")
    return int(seen.failed)


class _Rows:
    """Prints rows, where they are printed as they come, and counts the texts, or pairs, that have no score."""

    def __init__(self) -> None:
        self.items: dict[int, str] = {}
        self.scored = False
        self.write: Callable[[Mapping[str, Any]], None] | None = None

    def see(self, row: Mapping[str, Any]) -> None:
        """A row that is printed."""
        if self.write is not None:
            self.write(row)
        self.note(row["item"], row["reason"])

    def note(self, number: int, reason: str | None) -> None:
        """A row of the text, or pair, with this number; `reason` says what it lacks."""
        if reason is not None:
            self.items.setdefault(number, reason)
        else:
            self.scored = True

    @property
    def failed(self) -> bool:
        """Whether a text lacks a score; of blank lines, whether there is nothing else."""
        from unmask.scoring.texts import EMPTY

        return not self.scored or any(reason != EMPTY for reason in self.items.values())

    def report_missing(self, what: str) -> None:
        if self.items:
            item, reason = next(iter(self.items.items()))
            count = f"1 {what} lacks" if len(self.items) == 1 else f"{len(self.items):,} {what}s lack"
            terminal.messages().print(f"{count} a score, the first is {what} {item}: {reason}")


def _texts(inputs: Sequence[str], pairs: Sequence[Path] | None) -> Path | list[str] | None:
    """A file, standard input, or sentences."""
    if pairs:
        if inputs:
            raise InputError(f"{inputs[0]!r} and --pairs were both given: give one of the two")
        return None
    if not inputs:
        raise InputError("no text was given: give a file, - for standard input, sentences, or --pairs")
    if not all(text.strip() for text in inputs):
        raise InputError("a text is empty: give a file, - for standard input, or sentences")
    files = [text for text in inputs if text == "-" or _names_a_file(text)]
    if not files:
        return list(inputs)
    if len(inputs) > 1:
        raise InputError(f"{files[0]!r} is a file among {len(inputs)} texts: give one file, or sentences")
    return Path("-") if files[0] == "-" else user_path(files[0])


def _names_a_file(text: str) -> bool:
    """Whether a text is a file that exists, or is written like the path of one: without a space, with a folder or an ending."""
    written_so = not any(c.isspace() for c in text.strip()) and ("/" in text or Path(text).suffix != "")
    short = max(len(part.encode(errors="replace")) for part in text.split("/")) <= 255
    return (written_so and short) or os.path.isfile(os.path.expanduser(text))


def _print_sentences(scores: Scores) -> None:
    console = terminal.console(at_least=80)
    entries, unit = scores.shape.scores, scores.shape.unit
    if scores.shape.kind in ("words", "tokens"):
        shown = [column for column in scores.shape.columns.names if column not in ("id", "reason", "position")]
        terminal.print_table(console, shown, ([_number(row.get(column)) for column in shown] for row in scores))
        return
    for place, row in enumerate(scores):
        terminal.print_heading(console, row["text"])
        each = {entry.name: None if row[entry.name] is None else row[entry.name] / row["length"] for entry in entries}
        cells = [[name, _number(row[name]), _number(per_token), _error(row, name)] for name, per_token in each.items()]
        terminal.print_table(console, [unit, "per token", "error or bounds"], cells, first=f"{row['length']} tokens")
        if place + 1 < len(scores):
            console.print()
    for entry in entries:
        if entry.inexact and any(row[f"{entry.name}_exact"] is False for row in scores):
            console.print(f"\n{entry.name}: {entry.inexact}")
    if len(scores) == 2 and (by_token := [entry.name for entry in scores.by_token()]):
        console.print(f"\nfirst minus second, token by token ({unit})")
        lines = []
        for row in scores.difference():
            pair = dict.fromkeys([row["first_token"] or "-", row["second_token"] or "-"])
            lines.append([" / ".join(pair), *(f"{row[f'{name}_difference']:+.3f}" for name in by_token)])
        terminal.print_table(console, by_token, lines, first="first / second")


def _error(row: Mapping[str, Any], name: str) -> str:
    error, worst, low = (row.get(f"{name}_{part}") for part in ("se", "worst", "low"))
    if error is not None:
        return f"± {error:.3f}" if error else "exact"
    if worst is not None:
        return f"worst {down(worst)}"
    if low is None:
        return ""
    return "exact" if row[f"{name}_exact"] else f"{down(low)} to {up(row[f'{name}_high'])}"


def _print_pairs(pairs: PairScores) -> None:
    console, scores = terminal.console(at_least=80), list(pairs.scores)
    for level, title in (("set", "set"), ("phenomenon", "phenomenon"), ("all", "all pairs")):
        lines = [row for row in pairs.accuracy if row["level"] == level]
        if not lines:
            continue
        rows = []
        for name in dict.fromkeys(row["name"] for row in lines):
            mine = {row["score"]: row for row in lines if row["name"] == name}
            first = mine[scores[0]]
            rows.append([name, str(first["pairs"]), str(first["ties"]), *(_percent(mine[score]) for score in scores)])
        terminal.print_table(console, ["pairs", "ties", *scores], rows, first=title)
        console.print()
    console.print("accuracy in %, with 95 % intervals; ties count half; pairs that lack a score are left out")


def _percent(row: Mapping[str, Any]) -> str:
    if row["accuracy"] is None:
        return "-"
    return f"{100 * row['accuracy']:.1f} [{100 * row['low']:.0f}, {100 * row['high']:.0f}]"


def _number(value: Any) -> str:
    return "-" if value is None else f"{value:.3f}" if isinstance(value, float) else str(value)
