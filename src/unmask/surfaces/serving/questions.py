"""From a request to its answer: the verbs of the command line, on the one model that is served.

An answer is the JSON of the verb's result, and what the page draws beside it, so that all
numbers, maps and sentences of a card come from one answer. The docstring of a public method is
that of the JSON interface, unless the verb has one. `Copies` writes a request as Python and as
a command, which print its answer outside of the browser.
"""

from __future__ import annotations

import re
import shlex
import threading
from collections import OrderedDict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import is_dataclass
from json import dumps
from math import comb, prod
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import unmask
from unmask.common.border.declarations import hints
from unmask.common.border.options import arguments, options
from unmask.common.border.values import accepted
from unmask.common.cloze import Cloze
from unmask.common.errors import InputError
from unmask.common.files import parse_json
from unmask.common.formats import percent_at_least
from unmask.common.methods.own_code import without_own_code
from unmask.joints.constructions.construction import Construction, all_constructions
from unmask.joints.deriving import derived
from unmask.joints.incompatibility import incompatibility
from unmask.joints.joint import Joint, mutual_information, not_converged
from unmask.joints.registry import DEFAULT, INDEPENDENT, SEARCHED, label_of, named
from unmask.models.masked_lm import MaskedLM
from unmask.models.text.blanks import has_several_lengths, read_blanks
from unmask.runs.file_names import FASTA, RECORDS, kind_of, looks_like_a_file
from unmask.runs.lines import column, records
from unmask.runs.progress import Progress
from unmask.sampling.decoders.decoder import DECODERS
from unmask.sampling.settings import GenerateSettings, SampleSettings
from unmask.scoring.encoding import spaced_words
from unmask.scoring.items import Item, items_of
from unmask.scoring.scores.score import Score
from unmask.scoring.sentence_pairs import PAIRS, pairs_of
from unmask.surfaces.serving import limits
from unmask.surfaces.serving.jobs import FairLock, shared
from unmask.surfaces.serving.names import in_request
from unmask.tables.candidates import plan_candidates
from unmask.tables.unary import pass_count
from unmask.verbs.blanked_texts import FEW
from unmask.verbs.compare import Comparison
from unmask.verbs.dependence import _candidates_of, dependences
from unmask.verbs.fill import Completion, completions_of_table, is_searched
from unmask.verbs.pair_plots import dependence_in_words, pair_map

BLANKS_AS_TYPED = r"\[MASK\]|\[WORD(?::[\d\s-]*)?\]|\[GAP:[\d\s-]*\]|<mask>|_{2,}"
"""The blanks of the page; the verbs take the first three of them and the model's own mask token."""
CACHED_CELLS = 160_000_000
"""Cells of cached tables, 640 MB: an exact pair of 8,000 tokens, and many small ones."""
SIZES, PAIR_SIZES, QUICK = (64, 128, 256), (8, 16, 32, 64, 128, 256), 48
"""Candidates per blank that the page offers, for a joint and for the pairs of a text; and those
of its first look.
"""
DRAWN, PAIR_CELLS, SMALL = 40, 7, 40
"""Strongest pairs that come with their map, tokens along its edges, and the vocabulary that is
shown whole.
"""
SWEEPS_OF_CHAINS = 20  # where a request of chains does not say
COMMAND, OF_THE_PAGE = "use the command line", ("cells", "pin")
Values = Mapping[str, Any]
Answer = dict[str, Any]


class Answers:
    """Answers requests on one model, and caches the latest joints for what is asked about them
    next.
    """

    def __init__(self, model: MaskedLM) -> None:
        self.model: MaskedLM = shared(model, FairLock())
        self._typed = re.compile(rf"{BLANKS_AS_TYPED}|{re.escape(model.words.mask_token)}")
        self._cache, self._lock = OrderedDict[tuple[object, ...], Comparison](), threading.Lock()
        self.noun = "residue" if model.words.by_character else "word"

    def _result(self, verb: str, values: Values, **more: Any) -> Any:
        """The result of a verb on the served model, from values of its options; those that are
        None are left out.

        A text of the page is a text, also where it looks like the name of a file.
        """
        function = getattr(unmask, verb)
        given = arguments(function, _not_none(values))
        if not hasattr(function, "of_text"):
            return function(**given, model=self.model, **more)
        text = given.pop(options(function)[0].name)
        (result,) = function.of_text(text, **given, model=self.model, **more)
        return result

    def words(self, request: Values) -> Answer:
        """The words of a text as the tokenizer cuts it, how many tokens each is, and the blanks
        that were typed.

        Of a model of single letters, headers of FASTA and spaces are left out, and small
        letters are read as capitals if the model knows only those: `text` is the text as it is
        read.
        """
        text, words, end = self.sequence(request["text"]), [], 0
        for typed in self._typed.finditer(text):
            words += self._words(text[end : typed.start()], end)
            start, end = typed.span()
            kind, extent = self._kind(typed[0])
            shown = {"text": typed[0], "start": start, "end": end, "pieces": 1}
            words.append({**shown, "blank": kind, "known": True, "extent": extent})
        return {"text": text, "words": words + self._words(text[end:], end)}

    def sequence(self, text: str) -> str:
        """A text as a model of single letters reads it; any other text as it is."""
        if not self.model.words.by_character:
            return text
        lines = [line for line in text.splitlines() if not line.startswith(">")] or [
            re.sub(r"^>.*", "", text)
        ]
        parts = re.split(rf"({self._typed.pattern})", "".join("".join(lines).split()))
        with suppress(InputError):
            if (
                not any(parts[::2])
                or self.model.words.unknown_id
                not in self.model.words.tokens_of("".join(parts[::2])).ids
            ):
                return "".join(parts)
        return "".join(part if n % 2 else part.upper() for n, part in enumerate(parts))

    def _kind(self, typed: str) -> tuple[str, str]:
        """The kind of a blank, and how many tokens it takes, in words."""
        with suppress(InputError):
            if (blank := read_blanks(self.model.words, typed)[0]).kind == "gap":
                tokens = (
                    f"{blank.least} to {blank.most}"
                    if blank.most > blank.least
                    else str(blank.least)
                )
                return "gap", f"{tokens} token{'s' if blank.most > 1 else ''}"
        kind = {"[WORD": "word", "[GAP:": "gap"}.get(typed[:5], "token")
        return kind, EXTENTS[kind]

    def _words(self, text: str, offset: int) -> list[Answer]:
        if not text.strip():
            return []
        tokens, unknown, words = self.model.words.tokens_of(text), self.model.words.unknown_id, []
        spans = [
            (tokens.spans[places[0]][0], tokens.spans[places[-1]][1], places)
            for places in _by_word(tokens)
        ]
        for start, end, places in spans or [(a, b, [0]) for a, b in spaced_words(text)]:
            start += len(text[start:end]) - len(text[start:end].lstrip())
            shown = {
                "text": text[start:end],
                "start": offset + start,
                "end": offset + end,
                "pieces": len(places),
            }
            words.append(
                {**shown, "blank": None, "known": unknown not in [tokens.ids[t] for t in places]}
            )
        return words

    def plan(self, request: Values) -> Answer:
        """The construction and the number of tokens by which `fill` answers the same request, and
        the other choices.

        constructions and sizes are the choices that `fill` accepts: value, label, and for
        constructions their meaning.
        """
        searched, cloze = self._read(request)
        blanks, lengths = self.blanks(request["text"]), cloze is None
        if blanks == 1 and not lengths:
            return {
                "construction": None,
                "constructions": [["", "the model’s own conditional", ""]],
                "sizes": [],
                "meaning": "",
                "first": None,
            }
        name = SEARCHED if searched else _rule(request["construction"] or DEFAULT).name
        usual = SEARCHED if lengths or self._read({**request, "construction": None})[0] else DEFAULT
        label = "chain rule over all orders" if usual == SEARCHED else named(usual).label
        constructions = [["", f"{label} (default)", named(usual).meaning()]]
        sizes = [
            ["auto", "the whole vocabulary, searched" if searched else "as many as take seconds"]
        ]
        vocabulary = len(self.model.regular_ids)
        takes_long = request["candidates"] is None and not searched
        if not lengths:
            constructions += [
                [entry.name, entry.label, entry.meaning()] for entry in all_constructions()
            ]
            fits = [
                n
                for n in (*SIZES, vocabulary)
                if n <= vocabulary and pass_count([n] * blanks) <= limits.MOST_PASSES
            ]
            sizes += [
                ["all", "every token (exact)"] if n == vocabulary else [str(n), f"{n} each"]
                for n in fits
            ]
        first = QUICK if blanks == 2 and takes_long and vocabulary > QUICK else None
        return {
            "construction": name,
            "constructions": constructions,
            "sizes": sizes,
            "meaning": named(name).meaning(),
            "first": first,
        }

    def _read(self, request: Values) -> tuple[bool, Cloze | None]:
        """Whether the fillings of a text are searched, and its blanks; None for [WORD] and
        [GAP], which have several lengths.
        """
        text, targets = request["text"], request.get("targets")
        construction = request["construction"]
        if construction is not None:
            construction = _rule(construction)
        has_lengths = has_several_lengths(text)
        cloze = None if has_lengths else self.model.cloze(text, targets=targets)
        searched = is_searched(
            has_lengths,
            blanks=0 if cloze is None else len(cloze.block),
            construction=construction,
            candidates=request["candidates"],
            search=None,
            given={},
        )
        return searched, cloze

    def blanks(self, text: str) -> int:
        count = len(self._typed.findall(text))
        limits.refuse_more(
            count, limits.MOST_BLANKS, "the text has {} blanks", f"blank fewer {self.noun}s"
        )
        return count

    def verb_of_fill(self, request: Values) -> tuple[str, Values]:
        """The verb that answers a request of `fill`, and its values: `compare` if the joint of the
        blanks is a table, which it prints with every construction.
        """
        searched, cloze = self._read(request)
        if not searched and cloze is not None and len(cloze.block) > 1:
            return "compare", {**request, "top": None}
        return "fill", self.as_fill(request, self.blanks(request["text"]))

    def fill(self, request: Values, progress: Progress | None = None) -> Answer:
        """The blanks of a text, as `unmask.fill`: the best completions under a joint.

        Of two blanks or more over a table also every construction (of an exact joint, the
        chosen one and the product), and of two blanks the map, with a token pinned if asked.
        The targets are on it, and among the completions.
        """
        blanks = self.blanks(request["text"])
        searched, cloze = self._read(request)
        sites = 0 if searched or cloze is None else len(cloze.block)
        if request["pin"] and sites != 2:
            raise InputError(
                "a token is pinned in one of two blanks, and the text does not have two: unpin it"
            )
        if cloze is not None and sites > 1:
            return self._compared(request, cloze, progress)
        verb = self.as_fill(request, blanks)
        filling = self._result("fill", verb, progress=progress)
        more: Answer = {
            "blanks": blanks,
            "map": None,
            "constructions": [],
            "beside": searched and cloze is not None,
            "note": "",
        }
        more["summary"] = (
            _plainly(filling.summary()) if searched else "What the model itself expects there."
        )
        answer = filling.to_dict()
        completions = _with_spans(filling.completions)
        for completion in completions:
            completion["gold"] = list(completion["tokens"]) == request["targets"]
        if filling.search is not None:
            answer |= filling.search.to_dict()
        return {"warning": "", **answer, **more, "completions": completions}

    def as_fill(self, request: Values, blanks: int) -> Answer:
        """The request as the verb `fill` takes it, where its joint is not compared: what stands in
        a single blank is an answer, and a single blank has no construction.
        """
        names = ["text", "candidates", "construction", "top"]
        if blanks == 1 and not has_several_lengths(request["text"]):
            names = ["text", "top"]
        values: Answer = {name: request[name] for name in names}
        if request["targets"] is not None:
            values["answers"] = [" / ".join(request["targets"])]
        return values

    def _compared(self, request: Values, cloze: Cloze, progress: Progress | None) -> Answer:
        name = _rule(request["construction"] or DEFAULT).name
        compared = self._comparison(request, name, cloze, progress)
        described = [
            {
                "name": rule,
                "label": label_of(rule),
                "best": self._best(compared, rule, 1)[0],
            }
            | _not_none(vars(description))
            for rule, description in compared.descriptions.items()
        ]
        joint, pin = compared.joints[name], request["pin"]
        pinned = (pin["blank"], pin["token"]) if pin else None
        cells = (
            len(self.model.regular_ids)
            if len(self.model.regular_ids) <= SMALL
            else request["cells"]
        )
        sizes, held = (
            " × ".join(f"{n:,}" for n in joint.shape),
            percent_at_least(compared.candidates_mass),
        )
        note = (
            f"{sizes} tokens considered; they hold {held} of the independent blanks’ mass, and"
            " every number is given that"
        )
        return {
            **{
                "text": compared.text,
                "construction": name,
                "shape": list(joint.shape),
                "exact": request["candidates"] == "all",
                "beside": True,
            },
            **{
                "candidates_mass": compared.candidates_mass,
                "incompatibility": compared.incompatibility,
                "blanks": joint.sites,
            },
            "summary": dependence_in_words(joint, compared.incompatibility),
            "note": f"{note} the blanks lie among them.",
            "warning": not_converged(compared.joints.values()) or "",
            "constructions": described,
            "completions": self._best(compared, name, request["top"]),
            "map": (
                pair_map(joint, compared.joints[INDEPENDENT], cells, pinned, cloze.gold)
                if joint.sites == 2
                else None
            ),
        }

    def _best(self, compared: Comparison, name: str, top: int) -> list[Answer]:
        """The best completions by one of the constructions compared, and the gold one."""
        joints = compared.joints
        return _with_spans(
            completions_of_table(self.model, compared.cloze, joints[name], joints[INDEPENDENT], top)
        )

    def _comparison(
        self, request: Values, name: str, cloze: Cloze, progress: Progress | None
    ) -> Comparison:
        names = [INDEPENDENT]
        if request["candidates"] != "all":
            names = [one.name for one in all_constructions()]
        names += [name] if name not in names else []
        candidates = self._candidates(cloze, request)
        key = (request["text"], cloze.block, cloze.gold, candidates, *names)
        with self._lock:
            if key in self._cache:
                self._cache.move_to_end(key)
                return self._cache[key]
        values = {key: request[key] for key in ("text", "targets")}
        values |= {"constructions": names, "rank_by": name, "candidates": candidates}
        compared: Comparison = self._result("compare", values, progress=progress)
        with self._lock:
            self._cache[key] = compared
            while (
                sum(
                    len(c.cloze.block) * prod(c.joints[INDEPENDENT].shape)
                    for c in self._cache.values()
                )
                > CACHED_CELLS
            ):
                self._cache.popitem(last=False)
        return compared

    def _candidates(self, cloze: Cloze, request: Values) -> int | str:
        """The candidates of each blank as the verb will be given them; refuses a joint that is
        too large to be served.
        """
        plan = plan_candidates(self.model, cloze, request["candidates"], force=True)
        what = f"{len(plan.sizes)} blanks of {plan.size:,} candidates take {{}} passes"
        limits.refuse_more(
            pass_count(plan.sizes),
            limits.MOST_PASSES,
            what,
            f"consider fewer {self.noun}s, or {COMMAND}",
        )
        return "all" if request["candidates"] == "all" else plan.size

    def measured(self, request: Values) -> Answer:
        """A request of `dependence` as the verb takes it: the tokens of chosen words as
        positions, the others of them masked.
        """
        values = {name: value for name, value in request.items() if name != "chosen"}
        if request["chosen"]:
            tokens = self.model.words.tokens_of(request["text"])
            words = _by_word(tokens)
            start, _ = tokens.inside  # positions are counted from 1
            for n in request["chosen"]:
                if n >= len(words):
                    count = f"{len(words)}, counted from 0"
                    raise InputError(
                        f"chosen {n} is not a {self.noun} of the text, which has {count}:"
                        " correct it"
                    )
            values |= {
                "positions": [t - start + 1 for n in request["chosen"] for t in words[n]],
                "others": "masked",
            }
        return values

    def dependence(self, request: Values, progress: Progress | None = None) -> Answer:
        """The mutual information of every pair of tokens, as `unmask.dependence`.

        pairs: those measured, strongest first; the first ones with the map, the sentence and
        the incompatibility of the very joint that the number is of. `measured` of `count` pairs
        are there: fewer where the work was stopped.
        """
        values, text = self.measured(request), request["text"]
        ids, places = self.model.words.encode(text), values.get("positions")
        tokens = (
            len(places or ())
            or ids.count(self.model.mask_id)
            or sum(i not in self.model.special_ids for i in ids)
        )
        count = comb(tokens, 2)
        whole = len(self.model.regular_ids)
        size = _candidates_of(tokens, whole, request["candidates"], has_alphabet=False)
        less = f"consider fewer {self.noun}s or shorten the text, or {COMMAND}"
        what = f"{tokens} tokens with {size} candidates take {{}} passes"
        limits.refuse_more(count * pass_count([size] * 2), limits.MOST_PASSES, what, less)
        joints: dict[tuple[int, int], Joint] = {}

        def look(a: int, b: int, joint: Joint) -> None:
            joints[a, b] = joint
            if len(joints) > DRAWN:
                joints.pop(min(joints, key=lambda pair: mutual_information(joints[pair])))

        if progress:
            progress(0, 0, "choosing candidates")
        name = request["construction"]
        (matrix,) = dependences(
            [text],
            self.model,
            positions=places,
            construction=None if name is None else _rule(name),
            others=values["others"],
            candidates=size,
            alphabet=None,
            force=True,
            progress=progress,
            look=look,
        )
        start, _ = self.model.words.tokens_of(text).inside
        indices = [start + position - 1 for position in matrix.positions]
        stands = [ids[t] for t in indices] if self.model.mask_id not in ids else []
        pairs = [
            self._pair(matrix, i, j, value, joints.get((i, j)), stands)
            for i, j, value in matrix.pairs()
        ]
        sizes = [n for n in PAIR_SIZES if count * pass_count([n] * 2) <= limits.MOST_PASSES]
        usual = _candidates_of(tokens, whole, None, has_alphabet=False)
        counts = {
            "usual": usual,
            "measured": len(pairs),
            "count": count,
            "note": self._held(matrix, pairs, count),
            "sizes": sizes,
        }
        return {
            **matrix.to_dict(),
            "pieces": self._pieces(text, indices),
            "pairs": pairs,
            **counts,
        }

    def _pieces(self, text: str, indices: Sequence[int]) -> list[Answer]:
        """The measured tokens, by their indices in the text: letters in the text, the first token
        of the word, and the name in lists of each.
        """
        tokens, letters, pieces = (
            self.model.words.tokens_of(text),
            self.model.words.by_character,
            [],
        )
        words = (
            {} if letters else {place: places for places in _by_word(tokens) for place in places}
        )
        for place in indices:
            places, number = words.get(place, [place]), place - tokens.inside[0] + 1
            piece = text[slice(*tokens.spans[place])].strip() or self.model.token(tokens.ids[place])
            if tokens.ids[place] == self.model.mask_id:
                piece = (
                    f"residue {number}"
                    if letters
                    else f"blank {tokens.ids[: place + 1].count(self.model.mask_id)}"
                )
            elif letters:
                piece += str(number)
            word = text[tokens.spans[places[0]][0] : tokens.spans[places[-1]][1]].strip()
            pieces.append(
                {
                    "text": piece,
                    "word": places[0],
                    "name": piece if len(places) == 1 else f"{word} ({piece})",
                }
            )
        return pieces

    def _pair(
        self, matrix: Any, i: int, j: int, value: float, joint: Joint | None, stands: list[int]
    ) -> Answer:
        mass, whole = float(matrix.mass[i, j]), len(self.model.regular_ids)
        pair = {"i": i, "j": j, "value": value, "mass": mass, "held": percent_at_least(mass)}
        if joint is None:
            return pair
        apart, gold = incompatibility(joint.tables), [stands[i], stands[j]] if stands else None
        shown = pair_map(
            joint,
            derived(joint.tables, named(INDEPENDENT)),
            whole if whole <= SMALL else PAIR_CELLS,
            gold=gold,
        )
        return {
            **pair,
            "summary": dependence_in_words(joint, apart),
            "incompatibility": apart,
            "map": shown,
        }

    def _held(self, matrix: Any, pairs: list[Answer], count: int) -> str:
        """How many pairs were measured, and how much of their mass the candidates hold, in
        words.
        """
        stopped = (
            ""
            if len(pairs) == count
            else f"Stopped: {len(pairs):,} of {count:,} pairs were measured. "
        )
        passes = f"{matrix.passes:,} passes of the model."
        if matrix.candidates >= len(self.model.regular_ids):
            return f"{stopped}Every token was considered; {passes}"
        by_mass = sorted(pairs, key=lambda pair: pair["mass"])
        least, most = by_mass[0], by_mass[-1]
        share = least["held"] if len(pairs) == 1 else f"from {least['held']} to {most['held']}"
        doubt = (
            f" Where they hold little, a number is about these {self.noun}s only: consider more."
            * (least["mass"] < FEW)
        )
        held = f"They hold {share} of the mass of a pair’s independent blanks.{doubt}"
        return (
            f"{stopped}{matrix.candidates} {self.noun}s of each place were considered. {held}"
            f" {passes}"
        )

    def mutants(self, request: Values, progress: Progress | None = None) -> Answer:
        residues, changes = len(set(request["positions"])), request["changes"]
        count = comb(residues, changes) * (len(self.model.regular_ids) - 1) ** changes
        what = f"{changes} changes among {residues} residues are {{}} mutants"
        limits.refuse_more(
            count, limits.MOST_MUTANTS, what, f"ask for fewer residues, or {COMMAND}"
        )
        scanned = self._result("mutants", request, progress=progress)
        places = {
            tuple(place for place, _ in made) for made in scanned.changes if len(made) == changes
        }
        counts = {"measured": len(places), "count": comb(residues, changes)}
        return {"wild_type": list(scanned.wild_type), **scanned.to_dict(), **counts}

    def score(self, request: Values, progress: Progress | None = None) -> Answer:
        scores = self._result(
            "score",
            {**request, "rows": "nested"},
            progress=progress,
        )
        by_token = [score for score in scores.shape.scores if score.by_token]
        answer = {
            **scores.to_dict(),
            "against": {score.name: score.share_column for score in by_token},
            "difference": None,
        }
        is_compared = len(scores) == 2 and all(row["reason"] is None for row in scores.rows)
        if is_compared:
            answer["difference"] = self._compared_texts(scores)
        return answer

    def _compared_texts(self, scores: Any) -> Answer:
        """Two texts token by token, and which of them is better by each score.

        rows       first_token and second_token, and NAME_difference for each score by token
        for_first  by score: how much each row speaks for the first text
        better     by score: a sentence
        """
        rows = scores.difference()
        for_first = {}
        better = {}
        for score in scores.by_token():
            differences = [row[f"{score.name}_difference"] for row in rows]
            for_first[score.name] = [score.better * difference for difference in differences]
            first, second = (row[score.name] for row in scores.rows)
            better[score.name] = self._better(score, first, second, scores.unit)
        return {"rows": rows, "for_first": for_first, "better": better}

    def _better(self, score: Score, first: float, second: float, unit: str) -> str:
        """Which of two texts is better by a score, in a sentence."""
        lead = score.better * (first - second)
        kind = "sequence" if self.model.words.by_character else "sentence"
        by = f"{abs(lead):.2f} {unit}"
        if float(f"{lead:.2f}") == 0:
            return (
                f"By {score.name} neither {kind} is better: they differ by less than 0.01 {unit}."
            )
        which = "first" if lead > 0 else "second"
        direction = "higher" if score.better > 0 else "lower"
        return f"By {score.name} the {which} {kind} is better, by {by}: {direction} is better."

    def batch(self, request: Values, progress: Progress | None = None) -> Answer:
        """A list of texts, one per line, or a file (.csv, .tsv, .jsonl, .fasta), as one table.

        Texts with blanks are filled, minimal pairs (sentence_good and sentence_bad) are
        compared, and other texts are scored.
        """
        with self._file(request["name"], request["content"]) as path:
            options = {"score": request["score"]}
            if _holds_pairs(path):
                count = sum(1 for _ in pairs_of(path))
                limits.refuse_more(count, limits.MOST_ROWS, "the file has {} pairs", COMMAND)
                compared = self._result(
                    "minimal_pairs", {"data": path, **options}, progress=progress
                )
                overall = [
                    row for row in compared.accuracy if row["level"] == "all" and row["n_pairs"]
                ]
                lines = [
                    f"{row['accuracy']:.1%} of {row['n_pairs']} pairs right by {row['score']}."
                    for row in overall
                ]
                return _table(
                    [
                        {k: v for k, v in row.items() if k not in ("set", "phenomenon")}
                        for row in compared.rows
                    ],
                    lines,
                )
            items = [self._read_item(item) for item in items_of(path) if item.text.strip()]
        texts = [item.text for item in items]
        limits.refuse_more(
            len(texts), limits.MOST_ROWS, "the list has {} texts", f"give fewer, or {COMMAND}"
        )
        if not texts:
            raise InputError("the list is empty: write one text per line")
        if any(self._typed.search(text) for text in texts):
            rows = []
            for number, text in enumerate(texts, 1):
                rows.append(self._filled(text))
                if progress:
                    progress(number, len(texts), "texts")
            return _table(
                rows, [f"{len(rows):,} texts with blanks, and the best completion of each."]
            )
        scores = self._result("score", {"texts": items, **options}, progress=progress)
        targets = [item.target and {"target": item.text[slice(*item.target)]} for item in items]
        rows = [
            {
                "text": row["text"],
                **(target or {}),
                **{name: row[name] for name in (*scores.scores, "reason")},
            }
            for row, target in zip(scores.rows, targets, strict=True)
        ]
        return _table(rows, [f"{len(rows):,} texts."])

    def _read_item(self, item: Item) -> Item:
        """A text as the model reads it; a part that is scored alone has to stand where it stood."""
        text = self.sequence(item.text)
        if item.target is not None and text != item.text:
            raise InputError(f"the page scores whole sequences, not a target in one: {COMMAND}")
        return item._replace(text=text)

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

    def _filled(self, text: str) -> Answer:
        masked = self._typed.sub(
            lambda typed: typed[0] if typed[0].startswith(("[WORD", "[GAP")) else "[MASK]", text
        )
        try:
            best = self._result("fill", {"text": masked, "top": 1}).completions[0]
        except InputError as error:
            return {
                "text": text,
                "best": None,
                "log_prob": None,
                "reason": error.written(in_request),
            }
        return {"text": text, "best": best.text, "log_prob": best.log_prob, "reason": None}

    def sample_settings(self, request: Values) -> SampleSettings:
        """The settings of a run of chains, checked before anything streams."""
        request = {**request, "sweeps": request["sweeps"] or SWEEPS_OF_CHAINS}
        free = len(self.model.cloze(request["template"]).block)
        what = (
            f"{request['chains']} chains of {request['sweeps']} sweeps over {free} tokens are {{}}"
            " steps"
        )
        steps = request["chains"] * request["sweeps"] * free
        limits.refuse_more(
            steps, limits.MOST_STEPS, what, f"ask for fewer chains or sweeps, or {COMMAND}"
        )
        function, values = unmask.sample, _not_none(request)
        values |= {"start": (values["start"],)} if "start" in values else {}
        annotations = hints(function)
        made = arguments(function, values)
        return SampleSettings(
            **{name: accepted(name, value, annotations[name]) for name, value in made.items()}
        )

    def generate_settings(self, request: Values) -> GenerateSettings:
        """The settings of texts by a decoder, checked before anything streams."""
        return GenerateSettings(
            decoder=DECODERS.taken("decoder", request["decoder"]),
            template=request["template"],
            n_texts=request["n_texts"],
            seed=request["seed"],
        )


EXTENTS = {"token": "one token", "word": "a whole word", "gap": "1 to 3 tokens"}
KINDS = [("token", "", "[MASK]"), ("word", "w", "[WORD]"), ("gap", "g", "[GAP:1-3]")]
"""Kinds of blanks: name, the letter in the page's address, and how a text has it."""


def _by_word(tokens: Any) -> list[list[int]]:
    """The places of the tokens of each word; none of a tokenizer that does not know them."""
    words: dict[int, list[int]] = {}
    for place, number in enumerate(tokens.words):
        if number is not None and tokens.spans[place][1] > tokens.spans[place][0]:
            words.setdefault(number, []).append(place)
    return list(words.values())


def _not_none(values: Values) -> Answer:
    return {name: value for name, value in values.items() if value is not None}


def _table(rows: list[Answer], lines: list[str]) -> Answer:
    columns = list(
        dict.fromkeys(
            name for row in rows for name, value in row.items() if name != "reason" or value
        )
    )
    return {
        "columns": columns,
        "rows": [[row.get(name) for name in columns] for row in rows],
        "lines": lines,
    }


def _plainly(summary: str) -> str:
    """A summary as a sentence, without bounds of a millionth of a percent."""
    short = re.sub(r"(at least|about) [\d.]+e-\d+ %", "less than 0.001 %", summary)
    short = re.sub(r"more than [\d.]+e-\d+ %", "more than 0.001 %", short)
    return f"{short[0].upper()}{short[1:]}."


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


def _with_spans(completions: Sequence[Completion]) -> list[Answer]:
    """The completions, with the place of each token in the text."""
    return [{**completion.to_dict(), "spans": completion.spans} for completion in completions]


class Copies:
    """Requests as Python and as commands, for the model `name` (None: the bundled one), loaded
    with these options.
    """

    def __init__(self, name: str | None, load_options: Values) -> None:
        self.name: str | None = name
        self.load_options: Values = load_options

    def of(self, verb: str, values: Values) -> dict[str, str]:
        """The request with these values, as {python, command}."""
        values = {
            name: value
            for name, value in values.items()
            if value is not None and name not in OF_THE_PAGE
        }
        python, shown, before = dict(values), ".to_frame()", ""
        if verb == "mutants" and values["changes"] == 1:
            python["positions"] = values["positions"] = "all"
        elif verb == "score":
            python["rows"] = "nested"
        elif verb == "sample" and (text := python.get("start")):
            python["start"], values["start"], before = (
                [text],
                "-",
                f"printf '%s\\n' {shlex.quote(text)} | ",
            )
        function = getattr(unmask, verb)
        name, index = options(function)[0].name, ""
        if (
            isinstance(python.get(name), str)
            and hasattr(function, "of_text")
            and _needs_text(python[name])
        ):
            python[name], index = [python[name]], "[0]"
        first, named = _parts(verb, arguments(function, python))
        model = self.name and _python(self.name)
        if self.load_options:
            model = _call("load", (self.name,) if self.name else (), self.load_options)
        line = _call(verb, first, named, f"model={model}" if model else "")
        code = f"import unmask\n\nprint({line}{index}{shown}.to_string())"
        return {"python": code, "command": before + self._line(verb, values)}

    def _line(self, verb: str, values: Values) -> str:
        first, named = _parts(verb, values)
        draws = verb in ("sample", "generate")  # their template may look like a file
        texts, others = ([], first) if draws else (first[:1], first[1:])
        placed = [
            str(word) for part in texts for word in (part if isinstance(part, list) else [part])
        ]
        if any(_needs_text(word) for word in placed):
            placed = [word for text in placed for word in ("--text", text)]
        words = ["unmask", verb, *placed, *map(str, others)]
        for name, value in {
            **named,
            **({"model": self.name} if self.name else {}),
            **self.load_options,
        }.items():
            words.append(f"--{name.replace('_', '-')}")
            words += (
                []
                if value is True
                else [",".join(map(str, value)) if isinstance(value, list) else str(value)]
            )
        return shlex.join(words)


def _needs_text(text: str) -> bool:
    """Whether a command takes the text only after --text, and Python only in a list: it looks
    like a file or standard input.
    """
    return text == "-" or looks_like_a_file(text)


def _parts(verb: str, values: Values) -> tuple[list[Any], dict[str, Any]]:
    """The values that have a place, and those with a name; defaults are left out."""
    known = {option.name: option for option in options(getattr(unmask, verb))}
    place = [name for name, option in known.items() if option.positional and name in values]
    named = {
        name: value for name, value in values.items() if name not in place and value is not False
    }
    changed = {
        name: value
        for name, value in named.items()
        if name not in known or value != known[name].default
    }
    return [values[name] for name in place], changed


def _call(name: str, first: Any, named: Values, last: str = "") -> str:
    parts = [
        *map(_python, first),
        *(f"{key}={_python(value)}" for key, value in named.items()),
        *([last] if last else []),
    ]
    return f"unmask.{name}({', '.join(parts)})"


def _python(value: Any) -> str:
    if is_dataclass(kind := type(value)):
        usual: Any = kind()
        return _call(
            kind.__name__,
            (),
            {name: own for name, own in vars(value).items() if own != getattr(usual, name)},
        )
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(_python, value))}]"
    return dumps(value, ensure_ascii=False) if isinstance(value, str) else str(value)


def _rule(name: str) -> Construction:
    """The construction that a request names, which is never own code."""
    with without_own_code():
        return named(name)
