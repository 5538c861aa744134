"""From a request to its answer: the same functions as on the command line, on the one model that is served."""

from __future__ import annotations

import threading
from collections import OrderedDict
from math import isfinite, prod
from typing import Any

from unmask.answers.chain_answer import ChainFilling
from unmask.answers.comparison import Comparison, compare
from unmask.answers.completion import Completion
from unmask.answers.conditionals import conditionals
from unmask.answers.dependence import dependence
from unmask.answers.filling import Filling, fill
from unmask.answers.pair_map import pair_map, told_dependence
from unmask.errors import InputError
from unmask.formats import percent_at_least
from unmask.joints.joint import not_converged
from unmask.joints.registry import CONSTRUCTIONS, named
from unmask.models.text.text_tokenizer import BLANK
from unmask.runs.progress import Progress
from unmask.sampling.settings import SampleSettings
from unmask.scoring.results import Scores
from unmask.scoring.score import score
from unmask.scoring.tokens import spaced_words
from unmask.serving import limits, schemas
from unmask.serving.shared_model import SharedLM

KEPT_CELLS = 160_000_000
"""Cells of tables that are kept for the next question about the same blanks: an exact pair of 8,000 tokens, and many small."""
EXACT_ORDERS = 10
"""any_order is exact up to so many tokens, and sampled beyond: a page waits for seconds."""


class Questions:
    """Answers requests on one model, and keeps the latest joints for what is asked about them next."""

    def __init__(self, model: SharedLM) -> None:
        self.model = model
        self._kept: OrderedDict[tuple[object, ...], Comparison] = OrderedDict()
        self._keeping = threading.Lock()

    def words(self, asked: schemas.TextAsked) -> schemas.Words:
        """The words that can be blanked; each [MASK] in the text is one."""
        found: list[schemas.Word] = []
        start = 0
        for number, part in enumerate(asked.text.split(BLANK)):
            if number:
                found.append(schemas.Word(text=BLANK, start=start - len(BLANK), end=start, pieces=1, blank=True, known=True))
            if part.strip():
                found += self._words(part, start)
            start += len(part) + len(BLANK)
        return schemas.Words(words=found)

    def _words(self, text: str, offset: int) -> list[schemas.Word]:
        words = self.model.words
        ids, spans, numbers = words.tokens_of(text)
        by_number: dict[int, list[int]] = {}
        for t, number in enumerate(numbers):
            if number is not None and spans[t][1] > spans[t][0]:
                by_number.setdefault(number, []).append(t)
        places = [(spans[ts[0]][0], spans[ts[-1]][1], ts) for ts in by_number.values()]
        if not places:
            places = [(a, b, [0]) for a, b in spaced_words(text)]
        unknown = words.unknown_id
        found = []
        for start, end, tokens in places:
            start += len(text[start:end]) - len(text[start:end].lstrip())
            known = unknown not in [ids[t] for t in tokens]
            shown = {"text": text[start:end], "start": offset + start, "end": offset + end}
            found.append(schemas.Word(**shown, pieces=len(tokens), blank=False, known=known))
        return found

    def fill(self, asked: schemas.FillAsked, progress: Progress | None = None) -> schemas.Filled:
        """The most probable fillings; whole words and many blanks by a search over the vocabulary, as `unmask.fill` does."""
        several = asked.text.count("[WORD]") + asked.text.count("[GAP")
        limits.check_blanks(several + self._blanks(asked.text))
        grid = not several and (asked.joint or asked.candidates or asked.exact or self._blanks(asked.text) < 3)
        candidates = asked.candidates
        if grid:
            candidates = self._candidates(asked.text, asked.candidates, asked.exact)
        found = fill(
            asked.text,
            self.model,
            joint=asked.joint,
            candidates=candidates,
            exact=asked.exact,
            top=asked.top,
            progress=progress,
        )
        if isinstance(found, ChainFilling):
            return schemas.Filled(
                text=found.text,
                joint=found.joint,
                blanks=len(found.completions[0].parts),
                mass=found.mass,
                bound=found.bound,
                summary=found.summary,
                completions=[_completion(c) for c in found.completions],
            )
        sizes = " × ".join(f"{n:,}" for n in found.joint.shape)
        return schemas.Filled(
            text=found.text,
            joint=found.joint.name,
            blanks=found.joint.sites,
            candidates_mass=found.candidates_mass,
            summary=f"{sizes} tokens hold {percent_at_least(found.candidates_mass)} of the independent blanks' mass",
            warning=not_converged([found.joint]),
            completions=[_completion(c) for c in found.completions],
        )

    def joint(self, asked: schemas.JointAsked, progress: Progress | None = None) -> schemas.JointOut:
        """Every construction of the joint, and the map of two blanks; exact joints by the construction shown alone."""
        chosen = named(asked.joint, "joint")
        compared = self._compared(asked, chosen.name, progress)
        top = {name: self._filling(compared, name, 1).completions[0] for name in compared.joints}
        described = [
            schemas.Described(
                name=name,
                label=named(name).label,
                entropy=_number(row.entropy),
                total_correlation=_number(row.total_correlation),
                a_kl=_number(row.a_kl),
                best=_completion(top[name]),
            )
            for name, row in compared.descriptions.items()
        ]
        joint = compared.joints[chosen.name]
        two = joint.sites == 2
        pinned = None if asked.pin is None else (asked.pin.blank, asked.pin.token)
        if pinned and not two:
            raise InputError(f"a word is pinned in one of two blanks, and the text has {len(compared.cloze.block)}: leave it out")
        shown = pair_map(joint, compared.joints["product"], asked.cells, pinned) if two else None
        return schemas.JointOut(
            text=compared.text,
            joint=chosen.name,
            shape=list(joint.shape),
            exact=asked.exact,
            candidates_mass=compared.candidates_mass,
            compatibility=_number(compared.compatibility),
            summary=told_dependence(joint, compared.compatibility),
            warning=not_converged(compared.joints.values()),
            constructions=described,
            completions=[_completion(c) for c in self._filling(compared, chosen.name, asked.top).completions],
            map=None if shown is None else schemas.MapOut.model_validate(shown.to_dict()),
        )

    def _compared(self, asked: schemas.JointAsked, name: str, progress: Progress | None) -> Comparison:
        names = [*CONSTRUCTIONS] if not asked.exact else ["product"]
        names += [name] if name not in names else []
        candidates = self._candidates(asked.text, asked.candidates, asked.exact, asked.positions)
        key = (asked.text, tuple(asked.positions or ()), candidates, asked.exact, *names)
        with self._keeping:
            if key in self._kept:
                self._kept.move_to_end(key)
                return self._kept[key]
        found = compare(
            asked.text,
            self.model,
            joints=names,
            joint=name,
            candidates=candidates,
            exact=asked.exact,
            positions=asked.positions,
            progress=progress,
        )
        with self._keeping:
            self._kept[key] = found
            while len(self._kept) > 1 and sum(map(_cells, self._kept.values())) > KEPT_CELLS:
                self._kept.popitem(last=False)
        return found

    def _filling(self, compared: Comparison, name: str, top: int) -> Filling:
        joints = compared.joints
        return Filling(compared.text, joints[name], joints["product"], self.model, compared.cloze, top)

    def dependence(self, asked: schemas.DependenceAsked, progress: Progress | None = None) -> schemas.DependenceOut:
        """Mutual information of every pair of tokens of a text, or of its blanks."""
        ids = self.model.words.encode(asked.text)
        regular = sum(i not in self.model.special_ids for i in ids)
        limits.check_dependence(self._blanks(asked.text) or regular, asked.candidates)
        found = dependence(
            asked.text,
            self.model,
            joint=named(asked.joint, "joint").name,
            others=asked.others,
            candidates=asked.candidates,
            progress=progress,
        )
        return schemas.DependenceOut.model_validate(found.to_dict())

    def score(self, asked: schemas.ScoreAsked, progress: Progress | None = None) -> schemas.ScoreOut:
        """Scores with their words' and tokens' shares; of two texts, aligned differences."""
        for name in asked.scores:
            if name in limits.REFUSED_SCORES:
                raise InputError(f"score {name} takes minutes for one text: use `unmask score --score {name}`")
        over_orders = {"any_order", "order_bounds"} & set(asked.scores)
        found = score(
            asked.texts,
            asked.scores,
            model=self.model,
            tokens=True,
            unit=asked.unit,
            exact_tokens=EXACT_ORDERS if over_orders else None,
            progress=progress,
        )
        assert isinstance(found, Scores)
        scored = all(row["reason"] is None for row in found.rows)
        difference = found.difference() if len(found) == 2 and scored else None
        return schemas.ScoreOut(
            scores=found.to_dict()["scores"],
            unit=asked.unit,
            rows=finite(found.rows),
            difference=None if difference is None else finite(difference),
        )

    def conditionals(self, asked: schemas.ConditionalsAsked) -> schemas.ConditionalsOut:
        """The model's own conditionals at positions."""
        found = conditionals(asked.text, asked.positions, self.model, asked.masking, asked.top, asked.words)
        rows = [
            schemas.ConditionalOut(
                position=one.position,
                token=one.token,
                log_prob=_number(one.log_prob),
                likeliest=[schemas.TokenProbability(token=t, log_prob=_number(p)) for t, p in one.likeliest],
                asked=[schemas.TokenProbability(token=t, log_prob=_number(p)) for t, p in one.asked],
            )
            for one in found
        ]
        return schemas.ConditionalsOut(text=asked.text, conditionals=rows)

    def settings(self, asked: schemas.SampleAsked) -> SampleSettings:
        """The settings of a run, checked before anything streams."""
        free = self.model.cloze(asked.template).block
        limits.check_chains(asked.chains, asked.sweeps, len(free))
        return SampleSettings.given(
            template=asked.template,
            init=None if asked.init is None else (asked.init,),
            kernel=asked.kernel,
            energy=asked.energy,
            temperature=asked.temperature,
            chains=asked.chains,
            sweeps=asked.sweeps,
            seed=asked.seed,
        )

    def _blanks(self, text: str) -> int:
        return self.model.words.encode(text).count(self.model.mask_id)

    def _candidates(self, text: str, candidates: int | None, exact: bool, positions: list[int] | None = None) -> int | None:
        found: int | None = self.model.worker.call(
            0, lambda: limits.joint_candidates(self.model.model, text, candidates, exact, positions)
        )
        return found


def finite(value: Any) -> Any:
    """Plain values with null where a number is infinite or none."""
    if isinstance(value, dict):
        return {str(k): finite(v) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return [finite(v) for v in value]
    return _number(value) if isinstance(value, float) else value


def _number(value: float) -> float | None:
    return float(value) if isfinite(value) else None


def _cells(compared: Comparison) -> int:
    shape = next(iter(compared.joints.values())).shape
    return len(shape) * prod(shape)


def _completion(found: Completion) -> schemas.Completion:
    return schemas.Completion(
        tokens=list(found.tokens),
        text=found.text,
        spans=list(found.spans),
        log_prob=_number(found.log_prob),
        product_log_prob=_number(found.product_log_prob),
    )
