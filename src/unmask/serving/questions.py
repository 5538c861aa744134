"""From a request to its answer: the verbs of the command line, on the one model that is served.

An answer is the JSON of the verb's result, and what the page draws beside it. The docstrings of the public methods are those of
the JSON interface where a question is not a verb.
"""

from __future__ import annotations

import re
import threading
from collections import OrderedDict
from collections.abc import Hashable, Mapping
from math import comb, prod
from typing import Any

from unmask.answers.blanked_text import Grid
from unmask.answers.chain_filling import ChainFilling, searches
from unmask.answers.comparison import Comparison
from unmask.answers.filling import Filling
from unmask.answers.plots import dependence_in_words, pair_map
from unmask.answers.search import Search
from unmask.cloze import Cloze
from unmask.errors import InputError
from unmask.formats import percent_at_least
from unmask.joints.joint import not_converged
from unmask.joints.registry import CONSTRUCTIONS, INDEPENDENT, named
from unmask.models.masked_lm import MaskedLM
from unmask.results import as_plain
from unmask.runs.progress import Progress
from unmask.sampling.settings import SampleSettings
from unmask.scoring.registry import SCORES
from unmask.scoring.texts import spaced_words
from unmask.serving import limits
from unmask.serving.jobs import FairLock, shared
from unmask.serving.limits import QUESTIONS
from unmask.signature import arguments, fitted, hints
from unmask.tables.candidates import plan_candidates
from unmask.tables.unary import pass_count

BLANKS_AS_TYPED = r"\[MASK\]|\[WORD\]|\[GAP:[\d\s-]*\]|<mask>|_{2,}"
"""Which the page takes as blanks; the functions take the first three and the model's own mask token."""
CACHED_CELLS = 160_000_000
"""Cells of cached tables, 640 MB: an exact pair of 8,000 tokens, and many small ones."""
COMMAND = "use the command line"
Values = Mapping[str, Any]
Answer = dict[str, Any]


class Questions:
    """Answers requests on one model, and caches the latest joints for what is asked about them next."""

    def __init__(self, model: MaskedLM) -> None:
        self._alone, self._turn = model, FairLock()
        self.model = shared(model, self._turn)
        self._typed = re.compile(rf"{BLANKS_AS_TYPED}|{re.escape(model.words.mask_token)}")
        self._blank = re.compile(rf"\[MASK\]|\[WORD\]|\[GAP|{re.escape(model.words.mask_token)}")
        self._cache = JointCache(CACHED_CELLS)

    def _result(self, verb: str, values: Values, **more: Any) -> Any:
        """The result of a verb on the served model, from values of its options; those that are None are left out."""
        function = QUESTIONS[verb].function
        return function(**arguments(function, _given(values)), model=self.model, **more)

    def words(self, asked: Values) -> Answer:
        """The words of a text as the tokenizer cuts it, how many tokens each is, and the blanks that were typed."""
        text, words, end = asked["text"], [], 0
        for typed in self._typed.finditer(text):
            words += self._words(text[end : typed.start()], end)
            start, end = typed.span()
            kind = {"[WORD": "word", "[GAP:": "gap"}.get(typed[0][:5], "token")
            words.append({"text": typed[0], "start": start, "end": end, "pieces": 1, "blank": kind, "known": True})
        return {"words": words + self._words(text[end:], end)}

    def _words(self, text: str, offset: int) -> list[Answer]:
        if not text.strip():
            return []
        tokens, unknown = self.model.words.tokens_of(text), self.model.words.unknown_id
        by_number: dict[int, list[int]] = {}
        for t, number in enumerate(tokens.words):
            if number is not None and tokens.spans[t][1] > tokens.spans[t][0]:
                by_number.setdefault(number, []).append(t)
        places = [(tokens.spans[ts[0]][0], tokens.spans[ts[-1]][1], ts) for ts in by_number.values()]
        if not places:
            places = [(a, b, [0]) for a, b in spaced_words(text)]
        words = []
        for start, end, own in places:
            start += len(text[start:end]) - len(text[start:end].lstrip())
            known = unknown not in [tokens.ids[t] for t in own]
            shown = {"text": text[start:end], "start": offset + start, "end": offset + end}
            words.append({**shown, "pieces": len(own), "blank": None, "known": known})
        return words

    def fill(self, asked: Values, progress: Progress | None = None) -> Answer:
        _refuse_blanks(len(self._blank.findall(asked["text"])))
        grid = Grid(candidates=asked["candidates"], exact=asked["exact"])
        joint = None if asked["joint"] is None else named(asked["joint"], "joint").name
        searched, cloze = searches(self.model, asked["text"], joint, grid, Search())
        if not searched:
            asked = {**asked, "candidates": self._candidates(cloze or self.model.cloze(asked["text"]), asked)}
        filling = self._result("fill", asked, progress=progress)
        if searched:
            more = {"blanks": len(filling.completions[0].parts), "summary": filling.summary}
        else:
            sizes, held = " × ".join(f"{n:,}" for n in filling.joint.shape), percent_at_least(filling.candidates_mass)
            more = {"blanks": filling.joint.sites, "summary": f"{sizes} tokens hold {held} of the independent blanks' mass"}
        return {"warning": "", **filling.to_dict(), **more, "completions": _completions(filling)}

    def joint(self, asked: Values, progress: Progress | None = None) -> Answer:
        """The joint of two or more blanks by every construction; of two, as a map, with a word pinned if asked.

        Of an exact joint there are the chosen construction and the product.
        """
        name = named(asked["joint"], "joint").name
        compared = self._compared(asked, name, progress)
        described = [
            {
                **{"name": one, "label": named(one).label, "best": _completions(self._filling(compared, one, 1))[0]},
                **{key: value for key, value in vars(row).items() if value is not None},
            }
            for one, row in compared.descriptions.items()
        ]
        joint, pin = compared.joints[name], asked["pin"]
        if pin and joint.sites != 2:
            raise InputError(f"a word is pinned in one of two blanks, and the text has {joint.sites}: leave it out")
        pinned = (pin["blank"], pin["token"]) if pin else None
        return {
            "text": compared.text,
            "joint": name,
            "shape": list(joint.shape),
            "exact": asked["exact"],
            "candidates_mass": compared.candidates_mass,
            "compatibility": compared.compatibility,
            "summary": dependence_in_words(joint, compared.compatibility),
            "warning": not_converged(compared.joints.values()),
            "constructions": described,
            "completions": _completions(self._filling(compared, name, asked["top"])),
            "map": pair_map(joint, compared.joints[INDEPENDENT], asked["cells"], pinned) if joint.sites == 2 else None,
        }

    def _compared(self, asked: Values, name: str, progress: Progress | None) -> Comparison:
        names = [*CONSTRUCTIONS] if not asked["exact"] else [INDEPENDENT]
        names += [name] if name not in names else []
        cloze = self.model.cloze(asked["text"], asked["positions"])
        candidates = self._candidates(cloze, asked)
        key = (asked["text"], cloze.block, candidates, asked["exact"], *names)
        if (cached := self._cache.get(key)) is not None:
            return cached
        values = {one: asked[one] for one in ("text", "exact", "positions")}
        values |= {"candidates": candidates, "joints": names, "joint": name}
        compared: Comparison = self._result("joint", values, progress=progress)
        self._cache.put(key, compared)
        return compared

    def _filling(self, compared: Comparison, name: str, top: int) -> Filling:
        joints = compared.joints
        return Filling(compared.text, joints[name], joints[INDEPENDENT], self.model, compared.cloze, top)

    def _candidates(self, cloze: Cloze, asked: Values) -> int | None:
        """The candidates of each blank as the verb will be given them; refuses a joint that is too large to be served."""
        _refuse_blanks(len(cloze.block))
        with self._turn:  # the default follows the speed of the model itself, which is measured while no other job has a batch
            plan = plan_candidates(self._alone, cloze, asked["candidates"], asked["exact"])
        what = f"{len(plan.sizes)} blanks of {plan.size:,} candidates take {{}} passes"
        limits.refuse_more(pass_count(plan.sizes), limits.MOST_PASSES, what, f"ask for fewer candidates, or {COMMAND}")
        return None if asked["exact"] or len(cloze.block) == 1 else plan.size

    def dependence(self, asked: Values, progress: Progress | None = None) -> Answer:
        ids = self.model.words.encode(asked["text"])
        tokens = ids.count(self.model.mask_id) or sum(i not in self.model.special_ids for i in ids)
        passes = comb(tokens, 2) * pass_count([asked["candidates"]] * 2)
        what = f"{tokens} tokens with {asked['candidates']} candidates take {{}} passes"
        less = f"ask for fewer candidates or a shorter text, or {COMMAND}"
        limits.refuse_more(passes, limits.MOST_PASSES, what, less)
        answer: Answer = self._result("dependence", asked, progress=progress).to_dict()
        return answer

    def mutants(self, asked: Values, progress: Progress | None = None) -> Answer:
        residues, changes = len(set(asked["positions"])), asked["changes"]
        count = comb(residues, changes) * (len(self.model.regular_ids) - 1) ** changes
        what = f"{changes} changes among {residues} residues are {{}} mutants"
        limits.refuse_more(count, limits.MOST_MUTANTS, what, f"ask for fewer residues, or {COMMAND}")
        scanned = self._result("mutants", asked, progress=progress)
        return {"wild_type": list(scanned.wild_type), **scanned.to_dict()}

    def score(self, asked: Values, progress: Progress | None = None) -> Answer:
        chosen = [SCORES[name] for name in asked["score"] if name in SCORES]
        for one in chosen:
            if one.page_refusal:
                raise InputError(f"score {one.name} {one.page_refusal}: use `unmask score --score {one.name}`")
        orders = {"exact_tokens": limits.MOST_EXACT_TOKENS} if any(hasattr(one, "exact_tokens") for one in chosen) else {}
        scores = self._result("score", {**asked, **orders, "rows": "nested"}, progress=progress)
        compares = len(scores) == 2 and all(row["reason"] is None for row in scores.rows)
        return {**scores.to_dict(), "difference": scores.difference() if compares else None}

    def conditionals(self, asked: Values) -> Answer:
        return {"text": asked["text"], "conditionals": as_plain(self._result("conditionals", asked))}

    def settings(self, asked: Values) -> SampleSettings:
        """The settings of a run, checked before anything streams."""
        free = len(self.model.cloze(asked["template"]).block)
        what = f"{asked['chains']} chains of {asked['sweeps']} sweeps over {free} tokens are {{}} steps"
        steps = asked["chains"] * asked["sweeps"] * free
        limits.refuse_more(steps, limits.MOST_STEPS, what, f"ask for fewer chains or sweeps, or {COMMAND}")
        function, values = QUESTIONS["sample"].function, _given(asked)
        values |= {"init": [values["init"]]} if "init" in values else {}
        annotations = hints(function)
        made = arguments(function, values)
        return SampleSettings(**{name: fitted(name, value, annotations[name]) for name, value in made.items()})


class JointCache:
    """Comparisons by question, at most `cells` cells of tables in all; those that were used longest ago go first."""

    def __init__(self, cells: int) -> None:
        self.cells = cells
        self._joints: OrderedDict[Hashable, tuple[int, Comparison]] = OrderedDict()
        self._lock = threading.Lock()

    def get(self, key: Hashable) -> Comparison | None:
        """The comparison of a question, if it is cached."""
        with self._lock:
            if key not in self._joints:
                return None
            self._joints.move_to_end(key)
            return self._joints[key][1]

    def put(self, key: Hashable, compared: Comparison) -> None:
        """Cache a comparison; one that is larger than the cache is not cached."""
        shape = next(iter(compared.joints.values())).shape
        with self._lock:
            self._joints[key] = len(shape) * prod(shape), compared
            self._joints.move_to_end(key)
            while sum(cells for cells, _ in self._joints.values()) > self.cells:
                self._joints.popitem(last=False)


def _given(values: Values) -> Answer:
    return {name: value for name, value in values.items() if value is not None}


def _refuse_blanks(count: int) -> None:
    limits.refuse_more(count, limits.MOST_BLANKS, "the text has {} blanks", "blank fewer words")


def _completions(filling: Filling | ChainFilling) -> list[Answer]:
    """The completions, with the place of each token in the text."""
    return [{**one.to_dict(), "spans": one.spans} for one in filling.completions]
