"""Batch: a list of texts that is pasted, or a file of them, answered by the verbs as one table."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, get_args

from typing_extensions import TypedDict

from unmask.common.errors import InputError
from unmask.common.files import parse_json
from unmask.common.formats import count
from unmask.common.results import Result
from unmask.models.masked_lm import MaskedLM
from unmask.runs.file_names import FASTA, RECORDS, kind_of
from unmask.runs.lines import column, records
from unmask.runs.progress import Enough, Progress
from unmask.scoring.items import Item, items_of
from unmask.scoring.scored_batch import STOPPED
from unmask.scoring.sentence_pairs import PAIRS, pairs_of
from unmask.surfaces.serving import limits
from unmask.surfaces.serving.drawings.lists import BatchAnswer, batch_answer
from unmask.surfaces.serving.limits import COMMAND, MOST_BATCH_BYTES, MOST_ROWS
from unmask.surfaces.serving.names import in_request
from unmask.surfaces.serving.requests import ReadAs
from unmask.surfaces.serving.texts import TypedTexts

Row = dict[str, Any]
"""The cells of a row, by the names of their columns."""
ENDINGS = {"lines": ".txt", "csv": ".csv", "tsv": ".tsv", "jsonl": ".jsonl", "fasta": ".fasta"}
"""The ending of a file that is read in each way."""
LABELS = {
    "lines": "one text per line",
    "csv": "a .csv table",
    "tsv": "a .tsv table",
    "jsonl": "JSON lines",
    "fasta": "FASTA",
}
"""What each way to read a list is called."""
WITHOUT_NAME = "list.txt"
"""The name of a list that is pasted, in messages."""
LONGEST_NAME = 80
"""Characters of a file's name in messages."""
BYTE_ORDER_MARK = "\ufeff"
"""What some programs write before the first line of a file."""
HIDDEN = ("set", "phenomenon")
"""Columns of minimal pairs that belong to benchmarks."""


class AboutLists(TypedDict):
    """What the page has to know of lists and files.

    read_as    [name, label] of each way to read a list; "" is by the file's name or the first line
    accept     the endings of files that a person can choose
    taken      which files are taken, and how large
    too_large  why a larger file is refused
    """

    read_as: list[tuple[str, str]]
    accept: str
    taken: str
    too_large: str


def about_lists() -> AboutLists:
    """The ways to read a list, and the limits of files."""
    by_itself = ("", "by its name or first line")
    bytes_taken = f"{count(MOST_BATCH_BYTES)} bytes"
    files = ".csv, .tsv or .jsonl with text, or with sentence_good and sentence_bad; .fasta"
    ways = [(name, LABELS[name]) for name in get_args(ReadAs)]
    return AboutLists(
        read_as=[by_itself, *ways],
        accept=",".join([ENDINGS["lines"], *RECORDS, *FASTA]),
        taken=f"{files}; up to {count(MOST_ROWS)} rows and {bytes_taken}",
        too_large=f"The file has more than {bytes_taken}, which the page takes: {COMMAND}.",
    )


@dataclass(frozen=True)
class Lists:
    """Answers lists of texts.

    texts    reads texts as they are typed
    result   (verb, values of its options, progress=...) gives the verb's result on the model
    """

    model: MaskedLM
    texts: TypedTexts
    result: Callable[..., Any]

    def answer(
        self,
        content: str,
        *,
        name: str | None,
        read_as: ReadAs | None,
        score: Sequence[str] | None,
        progress: Progress | None,
    ) -> BatchAnswer:
        """The rows of a list. Minimal pairs are compared. Of other lists, each text with a blank is
        filled, and each text without one is scored.

        name      of the file; None of a list that is pasted
        read_as   how the content is read; None: as the name says, else as the first line does
        score     names of scores; None: the verb's default
        """
        options = {} if score is None else {"score": score}
        content = content.removeprefix(BYTE_ORDER_MARK)
        way = read_as or self._way_of(content, name)
        with _file(content, way, name or WITHOUT_NAME) as path:
            if _holds_pairs(path):
                return self._compared(path, way, options, progress)
            numbered = enumerate(items_of(path), 1)
            written = [(number, item) for number, item in numbered if item.text.strip()]
        less = f"give fewer, or {COMMAND}"
        limits.refuse_more(len(written), MOST_ROWS, "the list has {} texts", less)
        items = []
        for number, item in written:
            read = self._read(item, number)
            if read.text.strip():  # a line that is a header of FASTA has no letter of a sequence
                items.append(read)
        if not items:
            raise InputError("the list is empty: write one text per line")
        return self._of_items(items, way, options, progress)

    def _way_of(self, content: str, name: str | None) -> str:
        """How a list is read whose reader did not say it."""
        ending = kind_of(Path(name or WITHOUT_NAME))
        if ending in FASTA:
            return "fasta"
        if RECORDS.get(ending) == "JSON":
            return "jsonl"
        if ending in RECORDS:
            return ending.removeprefix(".")
        return _way_of_first_line(content, self.model.words.by_character)

    def _compared(
        self, path: Path, way: str, options: Mapping[str, Any], progress: Progress | None
    ) -> BatchAnswer:
        """Minimal pairs, a row each."""
        n_pairs = len(list(pairs_of(path)))
        limits.refuse_more(n_pairs, MOST_ROWS, "the file has {} pairs", COMMAND)
        compared = self.result("minimal_pairs", {"data": path, **options}, progress=progress)
        rows = []
        for row in compared.rows:
            rows.append({name: value for name, value in row.items() if name not in HIDDEN})
        return batch_answer(rows, compared.view(in_request), read_as=LABELS[way])

    def _of_items(
        self, items: Sequence[Item], way: str, options: Mapping[str, Any], progress: Progress | None
    ) -> BatchAnswer:
        """Texts with blanks, and texts that are scored, in the order of the list. If the work is
        stopped, the texts that it did not come to have that as the reason.
        """
        blanked = [place for place, item in enumerate(items) if self._is_filled(item)]
        whole = [place for place, item in enumerate(items) if not self._is_filled(item)]
        view = Result().view(in_request)  # if nothing is scored: without a sentence or a table
        row_at: dict[int, Row] = {}
        if whole:
            scored, view = self._scored([items[place] for place in whole], options, progress)
            row_at.update(zip(whole, scored, strict=True))
        if blanked:
            texts = [items[place].text for place in blanked]
            filled = self._filled(texts, progress, raises_if_none=not whole)
            row_at.update(zip(blanked, filled, strict=True))
        rows = [row_at[place] for place in range(len(items))]
        return batch_answer(rows, view, read_as=LABELS[way])

    def _is_filled(self, item: Item) -> bool:
        """Whether a text has a blank. One with a target is scored, whatever stands in it."""
        return item.target is None and self.texts.blanks.search(item.text) is not None

    def _scored(
        self, items: Sequence[Item], options: Mapping[str, Any], progress: Progress | None
    ) -> tuple[list[Row], dict[str, Any]]:
        """The rows of texts, or of targets in them, and what a person sees of their scores."""
        # The verb keeps a user's column in the place of its own of the same name, such as pll.
        texts = [item._replace(columns=None) for item in items]
        scored = self.result("score", {"texts": texts, **options}, progress=progress)
        rows = []
        for row, item in zip(scored.rows, items, strict=True):
            cells: Row = {"text": row["text"]}
            if item.target is not None:
                start, end = item.target
                cells["target"] = item.text[start:end]
            for name in (*scored.scores, "reason"):
                cells[name] = row[name]
            rows.append(cells)
        view = scored.view(in_request)
        view["tables"] = []  # the table of the verb repeats the first of these rows
        return rows, view

    def _filled(
        self, texts: Sequence[str], progress: Progress | None, *, raises_if_none: bool
    ) -> list[Row]:
        """The rows of texts with blanks, each with its best completion. If the work is stopped,
        the texts that were not filled have that as the reason.

        raises_if_none   whether `Enough` is passed on if not one text was filled: the list has no
                         other texts, so there is nothing to show
        """
        rows: list[Row] = []
        try:
            for number, text in enumerate(texts, 1):
                rows.append(self._best_completion(text))
                if progress:
                    progress(number, len(texts), "texts")
        except Enough:
            if raises_if_none and not rows:  # the job was stopped in a pass of the first filling
                raise
            rows += [_unfilled(text, STOPPED) for text in texts[len(rows) :]]
        return rows

    def _best_completion(self, text: str) -> Row:
        """The best completion of a text with blanks as they are typed, or why there is none."""
        asked = self.texts.blanks.sub(_blank_of_verbs, text)
        try:
            filling = self.result("fill", {"text": asked, "top": 1})
        except InputError as error:
            return _unfilled(text, error.written(in_request))
        best = filling.completions[0]
        return {"text": text, "best": best.text, "log_prob": best.log_prob, "reason": None}

    def _read(self, item: Item, number: int) -> Item:
        """A text as the model reads it. A target is a stretch of the text as it is written, so
        a text with one is refused if it is read as another one.

        number   of the text in the list, from 1, empty ones counted
        """
        text = self.texts.sequence(item.text)
        if item.target is not None and text != item.text:
            raise InputError(
                f"text {number} has a target, and spaces or small letters that are not read as"
                f" written: write it without them, or {COMMAND}"
            )
        return item._replace(text=text)


def _blank_of_verbs(typed: re.Match[str]) -> str:
    """A blank as `fill` takes it: a blank of one token is [MASK], however it was typed."""
    has_lengths = typed[0].startswith(("[WORD", "[GAP"))
    return typed[0] if has_lengths else "[MASK]"


def _unfilled(text: str, reason: str) -> Row:
    """The row of a text without a completion."""
    return {"text": text, "best": None, "log_prob": None, "reason": reason}


@contextmanager
def _file(content: str, way: str, name: str) -> Iterator[Path]:
    """A file with the content of a list, for the readers of files. It is gone after the block.

    name   of the file that a person chose, which messages of errors have in place of its path
    """
    with TemporaryDirectory() as folder:
        path = Path(folder, f"list{ENDINGS[way]}")
        path.write_text(content, encoding="utf-8", errors="replace", newline="")
        try:
            yield path
        except InputError as error:
            # Messages have the path as its repr, in which a backslash of Windows is doubled.
            path_in_message = repr(str(path))[1:-1]
            # `marked`: the names of arguments are still to be written as in a request.
            message = error.marked.replace(path_in_message, _shown_name(name))
            raise InputError(message) from None


def _shown_name(name: str) -> str:
    """The name of a file in messages: without folders and quotes, and its end if it is long."""
    plain = re.sub(r"[^\w.-]", "_", Path(name).name)
    end = plain[-LONGEST_NAME:].lstrip(".")  # nothing is left of a name such as ".."
    return end or WITHOUT_NAME


def _way_of_first_line(content: str, letters: bool) -> str:
    """How a list is read whose name does not say it.

    A first line that is a JSON object, or names the columns of minimal pairs, says how the list is
    read. For a model of single letters, so does a header of FASTA. Any other list has one text
    per line.
    """
    first_line, _, _ = content.lstrip().partition("\n")
    first_line = first_line.strip()
    if letters and first_line.startswith(">"):
        return "fasta"
    if _is_json_object(first_line):
        return "jsonl"
    for separator, way in ((",", "csv"), (";", "csv"), ("\t", "tsv")):
        if _names_pairs(first_line.split(separator)):
            return way
    return "lines"


def _is_json_object(line: str) -> bool:
    """Whether a line is a whole JSON object."""
    if not line.startswith("{"):
        return False
    try:
        value = parse_json(line)
    except ValueError:
        return False
    return isinstance(value, dict)


def _names_pairs(cells: Sequence[str]) -> bool:
    """Whether the cells of a line name both columns of minimal pairs."""
    names = {cell.strip(' "').casefold() for cell in cells}
    return any(names.issuperset(pair) for pair in PAIRS)


def _holds_pairs(path: Path) -> bool:
    """Whether a file has minimal pairs, by its first record that is not empty."""
    if kind_of(path) not in RECORDS:
        return False
    for _, record in records(path):
        if record:
            return _is_pair(record)
    return False


def _is_pair(record: Mapping[str, Any]) -> bool:
    """Whether a record has both sentences of a minimal pair."""
    for names in PAIRS:
        columns = [column(record, name) for name in names]
        if None not in columns:
            return True
    return False
