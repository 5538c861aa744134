"""From a request to its answer: the same functions as on the command line, on the one model that is served.

The docstrings of the public methods are those of the JSON interface.
"""

from __future__ import annotations

import re
import threading
from collections import OrderedDict
from collections.abc import Hashable
from math import prod

from unmask.answers.chain_filling import ChainFilling, searches
from unmask.answers.comparison import Comparison, compare
from unmask.answers.conditionals import conditionals
from unmask.answers.dependence import dependence
from unmask.answers.filling import Filling, fill
from unmask.answers.plots import dependence_in_words, pair_map
from unmask.errors import InputError
from unmask.formats import percent_at_least
from unmask.joints.joint import not_converged
from unmask.joints.registry import CONSTRUCTIONS, INDEPENDENT, named
from unmask.models.masked_lm import MaskedLM
from unmask.options.answers import FillOptions
from unmask.runs.files import plain
from unmask.runs.progress import Progress
from unmask.sampling.settings import SampleSettings
from unmask.scoring.registry import SCORES, chosen
from unmask.scoring.results import Scores
from unmask.scoring.score import score
from unmask.scoring.texts import spaced_words
from unmask.serving import requests, schemas
from unmask.serving.jobs import FairLock, shared
from unmask.variants.mutants import Mutants, mutants
from unmask.variants.parent import residue_ids

BLANKS_AS_TYPED = r"\[MASK\]|\[WORD\]|\[GAP:[\d\s-]*\]|<mask>|_{2,}"
"""Which the page takes as blanks; the functions take the first three and the model's own mask token."""


CACHED_CELLS = 160_000_000
"""Cells of cached tables, 640 MB: an exact pair of 8,000 tokens, and many small ones."""


class Questions:
    """Answers requests on one model, and caches the latest joints for what is asked about them next."""

    def __init__(self, model: MaskedLM) -> None:
        self._alone, self._turn = model, FairLock()
        self.model = shared(model, self._turn)
        self._typed = re.compile(rf"{BLANKS_AS_TYPED}|{re.escape(model.words.mask_token)}")
        self._cache = JointCache(CACHED_CELLS)

    def words(self, asked: requests.TextAsked) -> schemas.Words:
        """The words of a text as the tokenizer cuts it, how many tokens each is, and the blanks that were typed."""
        found: list[schemas.Word] = []
        end = 0
        for typed in self._typed.finditer(asked.text):
            found += self._words(asked.text[end : typed.start()], end)
            start, end = typed.span()
            kind = {"[WORD": "word", "[GAP:": "gap"}.get(typed[0][:5], "token")
            shown = {"text": typed[0], "start": start, "end": end}
            found.append(schemas.Word.model_validate({**shown, "pieces": 1, "blank": kind, "known": True}))
        return schemas.Words(words=found + self._words(asked.text[end:], end))

    def _words(self, text: str, offset: int) -> list[schemas.Word]:
        if not text.strip():
            return []
        words = self.model.words
        tokens = words.tokens_of(text)
        ids, numbers, spans = tokens.ids, tokens.words, tokens.spans
        by_number: dict[int, list[int]] = {}
        for t, number in enumerate(numbers):
            if number is not None and spans[t][1] > spans[t][0]:
                by_number.setdefault(number, []).append(t)
        places = [(spans[ts[0]][0], spans[ts[-1]][1], ts) for ts in by_number.values()]
        if not places:
            places = [(a, b, [0]) for a, b in spaced_words(text)]
        unknown = words.unknown_id
        found = []
        for start, end, own in places:
            start += len(text[start:end]) - len(text[start:end].lstrip())
            known = unknown not in [ids[t] for t in own]
            shown = {"text": text[start:end], "start": offset + start, "end": offset + end}
            found.append(schemas.Word(**shown, pieces=len(own), blank=None, known=known))
        return found

    def fill(self, asked: requests.FillAsked, progress: Progress | None = None) -> schemas.Filled:
        """The most probable fillings of the blanks, under a joint of them."""
        several = asked.text.count("[WORD]") + asked.text.count("[GAP")
        requests.check_blanks(several + self._blanks(asked.text))
        candidates = asked.candidates
        options = FillOptions.given(joint=asked.joint, candidates=candidates, exact=asked.exact)
        if not searches(self.model, asked.text, options):
            candidates = self._candidates(asked.text, candidates, asked.exact)
        found = fill(model=self.model, **asked.model_dump() | {"candidates": candidates}, progress=progress)
        if isinstance(found, ChainFilling):
            about = {"blanks": len(found.completions[0].parts), "summary": found.summary}
        else:
            sizes, held = " × ".join(f"{n:,}" for n in found.joint.shape), percent_at_least(found.candidates_mass)
            about = {"blanks": found.joint.sites, "summary": f"{sizes} tokens hold {held} of the independent blanks' mass"}
        return schemas.Filled(**found.to_dict() | about | {"completions": _completions(found)})

    def joint(self, asked: requests.JointAsked, progress: Progress | None = None) -> schemas.JointOut:
        """The joint of two or more blanks by every construction; of two, as a map, with a word pinned if asked."""
        chosen = named(asked.joint, "joint")
        compared = self._compared(asked, chosen.name, progress)
        described = []
        for name, row in compared.descriptions.items():
            best = _completions(self._filling(compared, name, 1))[0]
            described.append(schemas.Described(name=name, label=named(name).label, best=best, **vars(row)))
        joint = compared.joints[chosen.name]
        two = joint.sites == 2
        pinned = None if asked.pin is None else (asked.pin.blank, asked.pin.token)
        if pinned and not two:
            raise InputError(f"a word is pinned in one of two blanks, and the text has {len(compared.cloze.block)}: leave it out")
        shown = pair_map(joint, compared.joints[INDEPENDENT], asked.cells, pinned) if two else None
        return schemas.JointOut(
            text=compared.text,
            joint=chosen.name,
            shape=list(joint.shape),
            exact=asked.exact,
            candidates_mass=compared.candidates_mass,
            compatibility=compared.compatibility,
            summary=dependence_in_words(joint, compared.compatibility),
            warning=not_converged(compared.joints.values()),
            constructions=described,
            completions=_completions(self._filling(compared, chosen.name, asked.top)),
            map=None if shown is None else schemas.MapOut.model_validate(shown),
        )

    def _compared(self, asked: requests.JointAsked, name: str, progress: Progress | None) -> Comparison:
        names = [*CONSTRUCTIONS] if not asked.exact else [INDEPENDENT]
        names += [name] if name not in names else []
        candidates = self._candidates(asked.text, asked.candidates, asked.exact, asked.positions)
        key = (asked.text, tuple(asked.positions or ()), candidates, asked.exact, *names)
        if (cached := self._cache.get(key)) is not None:
            return cached
        compared = compare(
            asked.text,
            self.model,
            joints=names,
            joint=name,
            candidates=candidates,
            exact=asked.exact,
            positions=asked.positions,
            progress=progress,
        )
        self._cache.put(key, compared)
        return compared

    def _filling(self, compared: Comparison, name: str, top: int) -> Filling:
        joints = compared.joints
        return Filling(compared.text, joints[name], joints[INDEPENDENT], self.model, compared.cloze, top)

    def dependence(self, asked: requests.DependenceAsked, progress: Progress | None = None) -> schemas.DependenceOut:
        """Mutual information between all tokens of a text, or between its blanks."""
        ids = self.model.words.encode(asked.text)
        regular = sum(i not in self.model.special_ids for i in ids)
        requests.check_dependence(self._blanks(asked.text) or regular, asked.candidates)
        found = dependence(model=self.model, **asked.model_dump(), progress=progress)
        return schemas.DependenceOut.model_validate(found.to_dict())

    def mutants(self, asked: requests.MutantsAsked, progress: Progress | None = None) -> schemas.MutantsOut:
        """Log-probabilities of single or double mutants of a sequence, and their epistasis."""
        requests.check_mutants(len(set(asked.positions)), asked.changes, len(residue_ids(self.model, None)))
        found = mutants(model=self.model, **asked.model_dump(), progress=progress)
        assert isinstance(found, Mutants)
        return schemas.MutantsOut(wild_type=list(found.wild_type), **plain(found.to_dict()))

    def score(self, asked: requests.ScoreAsked, progress: Progress | None = None) -> schemas.ScoreOut:
        """Named scores of texts, with each word's and token's share; two texts also aligned."""
        scores = [SCORES[name] for name in chosen(asked.scores)]
        for one in scores:
            if one.page_refusal:
                raise InputError(f"score {one.name} {one.page_refusal}: use `unmask score --score {one.name}`")
        over_orders = any("exact_tokens" in one.options for one in scores)
        found = score(
            asked.texts,
            asked.scores,
            model=self.model,
            tokens=True,
            unit=asked.unit,
            exact_tokens=requests.MOST_EXACT_TOKENS if over_orders else None,
            progress=progress,
        )
        assert isinstance(found, Scores)
        scored = all(row["reason"] is None for row in found.rows)
        difference = found.difference() if len(found) == 2 and scored else None
        return schemas.ScoreOut(
            scores=found.to_dict()["scores"],
            unit=asked.unit,
            rows=plain(found.rows),
            difference=plain(difference),
        )

    def conditionals(self, asked: requests.ConditionalsAsked) -> schemas.ConditionalsOut:
        """The model's own log-probabilities at positions of a text."""
        found = conditionals(asked.text, asked.positions, self.model, asked.masking, asked.top, asked.words)
        return schemas.ConditionalsOut(
            text=asked.text, conditionals=[schemas.ConditionalOut.model_validate(one) for one in found]
        )

    def settings(self, asked: requests.SampleAsked) -> SampleSettings:
        """The settings of a run, checked before anything streams."""
        free = self.model.cloze(asked.template).block
        requests.check_chains(asked.chains, asked.sweeps, len(free))
        return SampleSettings.given(asked.model_dump() | {"init": None if asked.init is None else (asked.init,)})

    def _blanks(self, text: str) -> int:
        return self.model.words.encode(text).count(self.model.mask_id)

    def _candidates(self, text: str, candidates: int | None, exact: bool, positions: list[int] | None = None) -> int | None:
        with self._turn:  # the default follows the speed of the model itself, which is measured while no other job has a batch
            return requests.joint_candidates(self._alone, text, candidates, exact, positions)


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


def _completions(found: Filling | ChainFilling) -> list[schemas.Completion]:
    return [schemas.Completion.model_validate(one) for one in found.completions]
