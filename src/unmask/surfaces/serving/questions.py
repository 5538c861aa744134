"""From a request to its answer: the verbs of the command line, on one model that is served.

The answer of a verb is the JSON of its result; beside it `view`, what a person reads of the
result, and `drawn`, what the page draws. All its numbers, maps and sentences come from one result.
The helpers of the page (`words`, `differences`, `batch`) answer in their own form.

The JSON interface documents a question by the docstring of its method here. A method without one
answers by a verb of the same name, and the interface has the docstring of the verb.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from inspect import signature
from json import dumps
from math import comb, prod
from time import monotonic
from typing import Any

import unmask
from unmask.common.border.declarations import hints
from unmask.common.border.options import arguments, options
from unmask.common.border.values import accepted
from unmask.common.results import Result
from unmask.models.masked_lm import MaskedLM
from unmask.runs.progress import Progress
from unmask.sampling.decoders.decoder import DECODERS
from unmask.sampling.settings import STARTS, GenerateSettings, SampleSettings
from unmask.surfaces.serving import limits
from unmask.surfaces.serving.drawings.chains import SweepLog, generate_drawing
from unmask.surfaces.serving.drawings.dependence import StrongestJoints, drawn_dependence
from unmask.surfaces.serving.drawings.differences import differences as differences_drawing
from unmask.surfaces.serving.drawings.fill import drawn_filling
from unmask.surfaces.serving.drawings.lists import BatchAnswer
from unmask.surfaces.serving.drawings.mutants import drawn_mutants
from unmask.surfaces.serving.drawings.scores import drawn_scores
from unmask.surfaces.serving.jobs import FairLock, shared
from unmask.surfaces.serving.limits import COMMAND
from unmask.surfaces.serving.lists import Lists
from unmask.surfaces.serving.names import in_request
from unmask.surfaces.serving.texts import SENTENCE, SEQUENCE, TypedTexts, WordsAnswer
from unmask.surfaces.serving.watch import ChainWatcher, DecoderWatcher, OnEvent, of_logits
from unmask.verbs.dependence import Dependence
from unmask.verbs.fill import Filling
from unmask.verbs.filling_from_table import filling_given
from unmask.verbs.sample import SampleRun

Values = Mapping[str, Any]
Answer = dict[str, Any]
Partial = Callable[[Answer], None]
BETWEEN_PARTIALS = 1.0  # seconds
CACHED_CELLS = 160_000_000
"""Cells of the fillings that are kept of a model, 640 MB: an exact pair of 8,000 tokens, whose
two conditionals have 64 million cells each, and many small ones.
"""
CELLS = 14  # tokens along each edge of a map, if a request does not say


def described(result: Result, drawn: Any = None) -> Answer:
    """A result as JSON, with what a person sees of it and what the page draws beside it."""
    return {**result.to_dict(), "view": result.view(in_request), "drawn": drawn}


class KeptFillings:
    """The fillings over tables that were used last, at most CACHED_CELLS cells: another word that
    is pinned in one of them takes no pass of the model.

    A filling is kept by the values of its request without the pins. Its joint is not conditional
    on them, so it is the same for all pins.
    """

    def __init__(self) -> None:
        self._fillings: OrderedDict[str, Filling] = OrderedDict()  # the one used last comes last
        self._lock = threading.Lock()

    def get(self, values: Values) -> Filling | None:
        """A filling with the joint that these values ask for; None if it is not there."""
        key = _key(values)
        with self._lock:
            filling = self._fillings.get(key)
            if filling is not None:
                self._fillings.move_to_end(key)
            return filling

    def keep(self, values: Values, filling: Filling) -> None:
        """Keep a filling, and drop those that were not used for longest beyond the limit.

        Nothing is kept of a search, which has no table, and may have been stopped. A filling
        over a table is whole: if its passes are stopped, there is none.
        """
        if filling.table is None or _cells(filling) > CACHED_CELLS:
            return
        key = _key(values)
        with self._lock:
            self._fillings[key] = filling
            # Another request may have kept it meanwhile; a key that is there keeps its old place.
            self._fillings.move_to_end(key)
            while sum(map(_cells, self._fillings.values())) > CACHED_CELLS:
                self._fillings.popitem(last=False)


def _key(values: Values) -> str:
    """The values of a request, whatever their order."""
    return dumps(values, sort_keys=True)


def _cells(filling: Filling) -> int:
    """Cells of the tables of a filling: a conditional for each blank, as large as the joint."""
    return filling.joint.sites * prod(filling.joint.shape)


@dataclass(frozen=True)
class FillQuestion:
    """A request of `fill`.

    options   of the verb, without the pins
    pins      words that stand in blanks, by the number of the blank from 1: the option `given`
    cells     tokens along each edge of the map
    """

    options: dict[str, Any]
    pins: dict[int, str]
    cells: int

    @classmethod
    def of(cls, request: Values) -> FillQuestion:
        """Read from the values of a request, which has the pins as `given`."""
        options = dict(request)
        cells = options.pop("cells", CELLS)
        pins_in_json = options.pop("given", {})
        pins = {int(blank): word for blank, word in pins_in_json.items()}  # a key of JSON is a text
        return cls(options=options, pins=pins, cells=cells)

    @property
    def with_pins(self) -> dict[str, Any]:
        """The options of the verb, with the pins if there are some."""
        if not self.pins:
            return self.options
        return {**self.options, "given": self.pins}


class Answers:
    """Answers requests on one model.

    checks   by question, a function of its values that raises for what is refused. The server
             calls it before a stream of steps begins, where an error still has a status of its own
    """

    def __init__(self, model: MaskedLM) -> None:
        # Two models have a lock each. They share no memory, and two long jobs that compute side by
        # side are done sooner than in turn.
        self.model: MaskedLM = shared(model, FairLock())
        self.texts = TypedTexts(model)  # which takes no pass
        self.nouns = SEQUENCE if model.words.by_character else SENTENCE
        self.noun = self.nouns.unit
        self.checks: dict[str, Callable[[Values], object]] = {
            "sample": self.sample_settings,
            "generate": self.generate_settings,
        }
        self._kept = KeptFillings()
        self._for_steps = of_logits(self.model)  # chains and decoders run on it
        self._lists = Lists(model=self.model, texts=self.texts, result=self.result)

    def result(self, verb: str, given: Values, **hooks: Any) -> Any:
        """The result of a verb on the served model, from values of its options.

        A text of the page is a text, also where it looks like the name of a file.

        hooks   arguments that are no options of a request, such as `progress`; a `model` takes
                the place of the served one
        """
        function = getattr(unmask, verb)
        from_request = arguments(function, given)
        from_server = {"model": self.model, **hooks}
        takes_many_texts = hasattr(function, "of_text")
        if not takes_many_texts:
            return function(**from_request, **from_server)
        text_option = options(function)[0].name  # the text is the first option of such a verb
        text = from_request.pop(text_option)
        (result,) = function.of_text(text, **from_request, **from_server)
        return result

    def words(self, given: Values) -> WordsAnswer:
        """The words of a text as the tokenizer cuts it, how many tokens each is, and the blanks
        that were typed.

        Of a model of single letters, a header of FASTA and spaces are left out. If the model does
        not know one of the letters as it is written, all are read as capitals. `text` of the
        answer is the text as it is read.
        """
        return self.texts.words(given["text"])

    def fill(
        self, given: Values, progress: Progress | None = None, partial: Partial | None = None
    ) -> Answer:
        question = FillQuestion.of(given)
        self._refuse_many_blanks(question.options)

        def answered(filling: Filling) -> Answer:
            drawn = drawn_filling(filling, self.model, self.noun, question.cells)
            return described(filling, drawn)

        def first_look(filling: Filling) -> None:
            if partial is not None:
                partial(answered(filling))

        # The filling may have been kept with other pins, or none: its joint is the same, and other
        # pins in it take no pass of the model.
        kept = self._kept.get(question.options)
        if kept is not None:
            return answered(filling_given(kept, question.pins))
        filling = self.result(
            "fill",
            question.with_pins,
            progress=within_limits(progress),
            partial=first_look,
        )
        self._kept.keep(question.options, filling)
        return answered(filling)

    def _refuse_many_blanks(self, given: Values) -> None:
        """Refuse a text with too many blanks, typed or chosen by their positions."""
        typed = len(self.texts.blanks.findall(given["text"]))
        chosen = len(given.get("positions", ()))
        less = f"blank fewer {self.noun}s"
        limits.refuse_more(typed + chosen, limits.MOST_BLANKS, "the text has {} blanks", less)

    def compare(self, given: Values, progress: Progress | None = None) -> Answer:
        compared = self.result("compare", given, progress=within_limits(progress))
        return described(compared)

    def dependence(
        self, given: Values, progress: Progress | None = None, partial: Partial | None = None
    ) -> Answer:
        joints = StrongestJoints()
        shown_at = monotonic()

        def answered(dependence: Dependence) -> Answer:
            drawn = drawn_dependence(dependence, joints, self.model, self.nouns)
            return described(dependence, drawn)

        def so_far(dependence: Dependence) -> None:
            nonlocal shown_at
            if partial is None:
                return
            if monotonic() - shown_at < BETWEEN_PARTIALS:
                return
            shown_at = monotonic()
            partial(answered(dependence))

        # Not `within_limits`: dependence that takes long can be stopped, and then shows the pairs
        # that are measured. The verb refuses what takes hours.
        dependence = self.result(
            "dependence", given, progress=progress, partial=so_far, look=joints.look
        )
        return answered(dependence)

    def mutants(self, given: Values, progress: Progress | None = None) -> Answer:
        residues = len(set(given["positions"]))
        changes = given.get("changes", 1)
        sets_of_residues = comb(residues, changes)
        other_letters = len(self.model.regular_ids) - 1  # of a residue: all but its own
        count = sets_of_residues * other_letters**changes
        # `refuse_more` puts the number in the place of {}.
        what = f"{changes} changes among {residues} residues are" + " {} mutants"
        less = f"ask for fewer residues, or {COMMAND}"
        limits.refuse_more(count, limits.MOST_MUTANTS, what, less)
        mutants = self.result("mutants", given, progress=within_limits(progress))
        return described(mutants, drawn_mutants(mutants, given["positions"], changes))

    def differences(self, given: Values) -> Answer:
        """The numbers that the answers of two models told (`drawn.told` of each), and their
        differences, as a table.
        """
        return dict(differences_drawing(given["models"], given["told"]))

    def score(self, given: Values, progress: Progress | None = None) -> Answer:
        nested = {**given, "rows": "nested"}  # with words and tokens, which the page draws
        scores = self.result("score", nested, progress=within_limits(progress))
        return described(scores, drawn_scores(scores, self.nouns))

    # ---- chains and decoders, whose steps are events ----

    def sample(
        self,
        given: Values,
        progress: Progress | None = None,
        partial: Partial | None = None,
        step: OnEvent | None = None,
    ) -> Answer:
        settings = self.sample_settings(given)
        log = SweepLog(settings.chains, settings.sweeps)
        watcher = ChainWatcher(self.model, self.noun, log, step)

        def so_far(run: SampleRun) -> None:
            if partial is not None:
                partial(described(run, log.drawn(is_last=False)))

        run = self.result(
            "sample",
            _with_start(given),
            model=self._for_steps,
            progress=progress,
            partial=so_far,
            watcher=watcher,
        )
        return described(run, log.drawn(is_last=True))

    def generate(
        self, given: Values, progress: Progress | None = None, step: OnEvent | None = None
    ) -> Answer:
        watcher = None if step is None else DecoderWatcher(self.model, step)
        generation = self.result(
            "generate", given, model=self._for_steps, progress=progress, watcher=watcher
        )
        return described(generation, generate_drawing(generation))

    def sample_settings(self, given: Values) -> SampleSettings:
        """The settings of a run of chains; raises if there are too many steps, too."""
        values = _accepted_values(unmask.sample, _with_start(given))
        settings = SampleSettings(**values)
        free = len(self.model.cloze(given["template"]).block)
        steps = settings.chains * settings.sweeps * free
        asked = f"{settings.chains} chains of {settings.sweeps} sweeps over {free} tokens"
        what = asked + " are {} steps"  # `refuse_more` puts the number in the place of {}
        less = f"ask for fewer chains or sweeps, or {COMMAND}"
        limits.refuse_more(steps, limits.MOST_STEPS, what, less)
        return settings

    def generate_settings(self, given: Values) -> GenerateSettings:
        """The settings of texts by a decoder; raises for what the verb would refuse.

        No number of steps is refused: a text has at most LONGEST_TEXT characters, each pass is a
        turn, between two of which the texts can be stopped, and memory bounds how many are decoded
        together.
        """
        values = _accepted_values(unmask.generate, given)
        parameters = signature(unmask.generate).parameters
        for name in ("decoder", "n_texts"):  # the verb's defaults; GenerateSettings needs a decoder
            values.setdefault(name, parameters[name].default)
        decoder = DECODERS.taken("decoder", values.pop("decoder"))
        return GenerateSettings(decoder=decoder, **values)

    # ---- lists and files of texts ----

    def batch(self, given: Values, progress: Progress | None = None) -> BatchAnswer:
        """A list of texts, one per line, or a file (.csv, .tsv, .jsonl, .fasta), as one table.

        Texts with blanks are filled, minimal pairs (sentence_good and sentence_bad) are
        compared, and other texts are scored.
        """
        return self._lists.answer(
            given["content"],
            name=given.get("name"),
            read_as=given.get("read_as"),
            score=given.get("score"),
            progress=progress,
        )


def _with_start(given: Values) -> dict[str, Any]:
    """The options of chains. A start that is none of STARTS is the text of all chains."""
    values = dict(given)
    if "start" in values and values["start"] not in STARTS:
        text = values["start"]
        values["start"] = (text,)  # a list of texts: the verb would take a text as a file's name
    return values


def _accepted_values(verb: Callable[..., Any], given: Values) -> dict[str, Any]:
    """The arguments of a verb, each as its annotation has it; raises for what it does not take."""
    annotations = hints(verb)
    values = {}
    for name, value in arguments(verb, given).items():
        values[name] = accepted(name, value, annotations[name])
    return values


def within_limits(progress: Progress | None) -> Progress:
    """Progress that refuses an answer which takes too many passes, as soon as that is known."""

    def report(done: int, total: int, what: str = "") -> None:
        limits.refuse_many_passes(total, what)
        if progress is not None:
            progress(done, total, what)

    return report
