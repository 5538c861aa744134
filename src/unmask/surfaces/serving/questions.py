"""From a request to its answer: the verbs of the command line, on the one model that is served.

An answer is the JSON of the verb's result; what a person sees of it, `view`; and what the page
draws beside it, `drawn`. All numbers, maps and sentences of an answer come from one result.
The docstring of a public method is that of the JSON interface, unless the verb has one.
"""

from __future__ import annotations

import re
import threading
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from inspect import signature
from json import dumps
from math import comb, prod
from pathlib import Path
from tempfile import TemporaryDirectory
from time import monotonic
from typing import Any

import unmask
from unmask.common.border.declarations import hints
from unmask.common.border.options import arguments, options
from unmask.common.border.values import accepted
from unmask.common.errors import InputError
from unmask.common.files import parse_json
from unmask.common.result_tables import Column, Table
from unmask.common.results import Result
from unmask.models.masked_lm import MaskedLM
from unmask.runs.file_names import FASTA, RECORDS, kind_of
from unmask.runs.lines import column, records
from unmask.runs.progress import Progress
from unmask.sampling.decoders.decoder import DECODERS
from unmask.sampling.settings import GenerateSettings, SampleSettings
from unmask.scoring.items import Item, items_of
from unmask.scoring.sentence_pairs import PAIRS, pairs_of
from unmask.surfaces.serving import limits
from unmask.surfaces.serving.drawings import (
    StrongestJoints,
    cells_of,
    drawn_dependence,
    drawn_scores,
    pair_map,
    pinned_token,
)
from unmask.surfaces.serving.jobs import FairLock, shared
from unmask.surfaces.serving.limits import COMMAND
from unmask.surfaces.serving.names import in_request
from unmask.surfaces.serving.texts import TypedTexts
from unmask.verbs.dependence import Dependence, dependences
from unmask.verbs.fill import Filling

Values = Mapping[str, Any]
Answer = dict[str, Any]
Partial = Callable[[Answer], None]
BETWEEN_PARTIALS = 1.0  # seconds
CACHED_CELLS = 160_000_000
"""Cells of fillings that are kept, 640 MB: an exact pair of 8,000 tokens, and many small ones."""
STARTS = ("ancestral", "random")  # of chains, by name
CELLS = 14  # tokens along each edge of a map, if a request does not say


def described(result: Result, drawn: Any = None) -> Answer:
    """A result as JSON, with what a person sees of it and what the page draws beside it."""
    return {**result.to_dict(), "view": result.view(in_request), "drawn": drawn}


class KeptFillings:
    """The latest fillings over tables, for what is asked about them next: at most CACHED_CELLS
    cells.
    """

    def __init__(self) -> None:
        self._fillings: OrderedDict[str, Filling] = OrderedDict()
        self._lock = threading.Lock()

    def get(self, values: Values) -> Filling | None:
        """The filling that answers these values; None if it is not there."""
        key = dumps(values, sort_keys=True)
        with self._lock:
            if key in self._fillings:
                self._fillings.move_to_end(key)
            return self._fillings.get(key)

    def keep(self, values: Values, filling: Filling) -> None:
        """Keep a filling, and drop the oldest ones beyond the limit."""
        if filling.table is None:
            return
        with self._lock:
            self._fillings[dumps(values, sort_keys=True)] = filling
            while sum(map(_cells, self._fillings.values())) > CACHED_CELLS:
                self._fillings.popitem(last=False)


def _cells(filling: Filling) -> int:
    """Cells of the tables of a filling."""
    return filling.joint.sites * prod(filling.joint.shape)


class Answers:
    """Answers requests on one model."""

    def __init__(self, model: MaskedLM) -> None:
        self.model: MaskedLM = shared(model, FairLock())
        self.texts = TypedTexts(model)
        self.noun = "residue" if model.words.by_character else "word"
        self._kept = KeptFillings()

    def result(self, verb: str, given: Values, **hooks: Any) -> Any:
        """The result of a verb on the served model, from values of its options.

        A text of the page is a text, also where it looks like the name of a file.
        """
        function = getattr(unmask, verb)
        made = arguments(function, given)
        if not hasattr(function, "of_text"):
            return function(**made, model=self.model, **hooks)
        text = made.pop(options(function)[0].name)
        (result,) = function.of_text(text, **made, model=self.model, **hooks)
        return result

    def words(self, given: Values) -> Answer:
        """The words of a text as the tokenizer cuts it, how many tokens each is, and the blanks
        that were typed.

        Of a model of single letters, headers of FASTA and spaces are left out, and small
        letters are read as capitals if the model knows only those: `text` is the text as it is
        read.
        """
        return self.texts.words(given["text"])

    def fill(
        self, given: Values, progress: Progress | None = None, partial: Partial | None = None
    ) -> Answer:
        values = dict(given)
        cells = values.pop("cells", None) or CELLS
        words = {int(blank): word for blank, word in values.pop("given", {}).items()}
        count = len(self.texts.blanks.findall(values["text"])) + len(values.get("positions", ()))
        less = f"blank fewer {self.noun}s"
        limits.refuse_more(count, limits.MOST_BLANKS, "the text has {} blanks", less)
        kept = self._kept.get(values)
        if kept is not None and not words:
            return self._filled(kept, cells)

        def first_look(filling: Filling) -> None:
            if partial is not None and kept is None:
                partial(self._filled(filling, cells, words))

        if partial is not None and kept is not None:  # the map is known; the completions follow
            partial(self._filled(kept, cells, words))
        asked = {**values, "given": words} if words else values
        filling = self.result("fill", asked, progress=within_limits(progress), partial=first_look)
        if not words:
            self._kept.keep(values, filling)
        return self._filled(filling, cells, words)

    def _filled(
        self, filling: Filling, cells: int, given: Mapping[int, str] | None = None
    ) -> Answer:
        """The answer of `fill`, with the map of two blanks over a table; `given` are words that
        it is drawn with, by blank.
        """
        if filling.table is None or filling.joint.sites != 2:
            return described(filling)
        gold = next((one.ids for one in filling.completions if one.is_gold), None)
        pinned = None
        if given and len(given) == 1:
            ((number, word),) = given.items()
            pinned = pinned_token(filling.joint, number - 1, word)
        drawn = pair_map(
            filling.joint,
            filling.product,
            cells=cells_of(self.model, cells),
            gold=gold,
            pinned=pinned,
        )
        return described(filling, drawn)

    def compare(self, given: Values, progress: Progress | None = None) -> Answer:
        compared = self.result("compare", given, progress=within_limits(progress))
        return described(compared)

    def dependence(
        self, given: Values, progress: Progress | None = None, partial: Partial | None = None
    ) -> Answer:
        joints = StrongestJoints()
        function: Any = unmask.dependence
        made = arguments(function, given)
        annotations = hints(function)
        values = {name: accepted(name, value, annotations[name]) for name, value in made.items()}
        text = values.pop("text")

        shown_at = monotonic()

        def so_far(result: Dependence) -> None:
            nonlocal shown_at
            if partial is None or monotonic() - shown_at < BETWEEN_PARTIALS:
                return
            shown_at = monotonic()
            partial(described(result, drawn_dependence(result, joints, self.model, self.noun)))

        (dependence,) = dependences(
            [text],
            self.model,
            positions=values.get("positions"),
            construction=values.get("construction"),
            others=values.get("others"),
            candidates=values.get("candidates"),
            alphabet=None,
            force=False,
            progress=within_limits(progress),
            partial=so_far,
            look=joints.look,
        )
        return described(dependence, drawn_dependence(dependence, joints, self.model, self.noun))

    def mutants(self, given: Values, progress: Progress | None = None) -> Answer:
        residues = len(set(given["positions"]))
        changes = given.get("changes", 1)
        sets = comb(residues, changes)
        count = sets * (len(self.model.regular_ids) - 1) ** changes
        what = f"{changes} changes among {residues} residues are {{}} mutants"
        less = f"ask for fewer residues, or {COMMAND}"
        limits.refuse_more(count, limits.MOST_MUTANTS, what, less)
        mutants = self.result("mutants", given, progress=within_limits(progress))
        measured = set()
        for made in mutants.changes:
            if len(made) == changes:
                measured.add(tuple(place for place, _ in made))
        drawn = {"wild_type": list(mutants.wild_type), "measured": len(measured), "count": sets}
        return described(mutants, drawn)

    def score(self, given: Values, progress: Progress | None = None) -> Answer:
        nested = {**given, "rows": "nested"}  # with words and tokens, which the page draws
        scores = self.result("score", nested, progress=within_limits(progress))
        return described(scores, drawn_scores(scores))

    # ---- chains and decodings, which are answered step by step ----

    def sample_settings(self, given: Values) -> SampleSettings:
        """The settings of a run of chains, checked before anything streams."""
        values = dict(given)
        if "start" in values and values["start"] not in STARTS:
            values["start"] = (values["start"],)  # a text
        made = arguments(unmask.sample, values)
        annotations = hints(unmask.sample)
        settings = SampleSettings(
            **{name: accepted(name, value, annotations[name]) for name, value in made.items()}
        )
        free = len(self.model.cloze(given["template"]).block)
        run = f"{settings.chains} chains of {settings.sweeps} sweeps over {free} tokens"
        what = f"{run} are {{}} steps"
        steps = settings.chains * settings.sweeps * free
        less = f"ask for fewer chains or sweeps, or {COMMAND}"
        limits.refuse_more(steps, limits.MOST_STEPS, what, less)
        return settings

    def generate_settings(self, given: Values) -> GenerateSettings:
        """The settings of texts by a decoder, checked before anything streams."""
        annotations = hints(unmask.generate)
        made = arguments(unmask.generate, given)
        values = {name: accepted(name, value, annotations[name]) for name, value in made.items()}
        values.setdefault("n_texts", signature(unmask.generate).parameters["n_texts"].default)
        decoder = values.pop("decoder", signature(unmask.generate).parameters["decoder"].default)
        return GenerateSettings(decoder=DECODERS.taken("decoder", decoder), **values)

    # ---- lists and files of texts ----

    def batch(self, given: Values, progress: Progress | None = None) -> Answer:
        """A list of texts, one per line, or a file (.csv, .tsv, .jsonl, .fasta), as one table.

        Texts with blanks are filled, minimal pairs (sentence_good and sentence_bad) are
        compared, and other texts are scored.
        """
        scores = {"score": given["score"]} if "score" in given else {}
        with self._file(given.get("name", "list.txt"), given["content"]) as path:
            if _holds_pairs(path):
                return self._compared_pairs(path, scores, progress)
            items = [self._read_item(item) for item in items_of(path) if item.text.strip()]
        limits.refuse_more(
            len(items), limits.MOST_ROWS, "the list has {} texts", f"give fewer, or {COMMAND}"
        )
        if not items:
            raise InputError("the list is empty: write one text per line")
        if any(self.texts.blanks.search(item.text) for item in items):
            return self._filled_texts([item.text for item in items], progress)
        return self._scored_items(items, scores, progress)

    def _compared_pairs(self, path: Path, scores: Values, progress: Progress | None) -> Answer:
        count = sum(1 for _ in pairs_of(path))
        limits.refuse_more(count, limits.MOST_ROWS, "the file has {} pairs", COMMAND)
        compared = self.result("minimal_pairs", {"data": path, **scores}, progress=progress)
        hidden = ("set", "phenomenon")
        rows = [
            {name: value for name, value in row.items() if name not in hidden}
            for row in compared.rows
        ]
        return {"rows": _table(rows), "view": compared.view(in_request)}

    def _filled_texts(self, texts: Sequence[str], progress: Progress | None) -> Answer:
        rows = []
        for number, text in enumerate(texts, 1):
            rows.append(self._best_completion(text))
            if progress:
                progress(number, len(texts), "texts")
        return {"rows": _table(rows), "view": Result().view(in_request)}

    def _scored_items(
        self, items: Sequence[Item], scores: Values, progress: Progress | None
    ) -> Answer:
        scored = self.result("score", {"texts": items, **scores}, progress=progress)
        rows = []
        for row, item in zip(scored.rows, items, strict=True):
            target = {} if item.target is None else {"target": item.text[slice(*item.target)]}
            numbers = {name: row[name] for name in (*scored.scores, "reason")}
            rows.append({"text": row["text"], **target, **numbers})
        view = scored.view(in_request)
        return {"rows": _table(rows), "view": {**view, "tables": []}}  # its rows are these

    def _read_item(self, item: Item) -> Item:
        """A text as the model reads it; a part that is scored alone has to stand where it stood."""
        text = self.texts.sequence(item.text)
        if item.target is not None and text != item.text:
            raise InputError(f"the page scores whole sequences, not a target in one: {COMMAND}")
        return item._replace(text=text)

    def _best_completion(self, text: str) -> Answer:
        """The best completion of a text with blanks as they are typed, or why there is none."""

        def as_named(typed: re.Match[str]) -> str:
            return typed[0] if typed[0].startswith(("[WORD", "[GAP")) else "[MASK]"

        named = self.texts.blanks.sub(as_named, text)
        try:
            best = self.result("fill", {"text": named, "top": 1}).completions[0]
        except InputError as error:
            reason = error.written(in_request)
            return {"text": text, "best": None, "log_prob": None, "reason": reason}
        return {"text": text, "best": best.text, "log_prob": best.log_prob, "reason": None}

    @contextmanager
    def _file(self, name: str, content: str) -> Iterator[Path]:
        """A list of the page as the file that the readers of files take; their messages name it
        as the user does.
        """
        called = re.sub(r"[^\w.-]", "_", Path(name).name)[-80:].lstrip(".") or "list.txt"
        ending = kind_of(Path(called))
        if ending not in (*FASTA, *RECORDS):
            ending = _ending_of(content, self.model.words.by_character)
        with TemporaryDirectory() as folder:
            path = Path(folder, f"list{ending}")
            path.write_text(content, encoding="utf-8", errors="replace", newline="")
            try:
                yield path
            except InputError as error:
                in_quotes = repr(str(path))[1:-1]  # a backslash of Windows is doubled in a message
                raise InputError(error.marked.replace(in_quotes, called)) from None


def within_limits(progress: Progress | None) -> Progress:
    """Progress that refuses an answer which takes too many passes, as soon as that is known."""

    def report(done: int, total: int, what: str = "") -> None:
        limits.refuse_many_passes(total, what)
        if progress is not None:
            progress(done, total, what)

    return report


def _table(rows: list[Answer]) -> Answer:
    """Rows as a table: the columns, the values, and how they are shown. A column of reasons is
    there if a row has one.
    """
    names: dict[str, None] = {}  # in the order in which they come
    for row in rows:
        for name, value in row.items():
            is_empty_reason = name == "reason" and not value
            if not is_empty_reason:
                names[name] = None
    values = [list(map(row.get, names)) for row in rows]
    columns = []
    for place, name in enumerate(names):
        of_texts = any(isinstance(row[place], str) for row in values)
        columns.append(Column(name, text=of_texts))
    return Table(columns, values).to_dict()


def _ending_of(content: str, letters: bool) -> str:
    """The ending of a file with this content, where its name does not say it: by its first line.

    A JSON object and a header of minimal pairs are no texts, and for a model of single letters
    neither is a header of FASTA. Anything else is one text per line.
    """
    head = content.lstrip().partition("\n")[0].strip()
    if letters and head.startswith(">"):
        return ".fasta"
    if head.startswith("{"):
        with suppress(ValueError):
            if isinstance(parse_json(head), dict):
                return ".jsonl"
    for ending, between in ((".csv", ","), (".csv", ";"), (".tsv", "\t")):
        names = {cell.strip(' "').casefold() for cell in head.split(between)}
        if any(names.issuperset(pair) for pair in PAIRS):
            return ending
    return ".txt"


def _holds_pairs(path: Path) -> bool:
    """Whether the first record of a file has both sentences of a minimal pair."""
    if kind_of(path) not in RECORDS:
        return False
    first = next((record for _, record in records(path) if record), {})
    return any(all(column(first, name) for name in pair) for pair in PAIRS)
