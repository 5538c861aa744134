"""The two translators: a masked model, whose drafts are decoded or sampled, and a causal one, with its beam."""

from __future__ import annotations

import os
import time
import warnings
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import torch

from unmask.errors import InputError, UnmaskWarning
from unmask.models.loading import resolve_device, resolve_dtype
from unmask.models.text.word_pieces import Spelling
from unmask.runs.files import user_path
from unmask.runs.progress import Progress
from unmask.translation.beam_search import beam_search, load_causal_pairs
from unmask.translation.drafts import Draft, Drafting, PairModel, stream_number
from unmask.translation.pairs import PairLayout
from unmask.translation.settings import TranslateSettings

Source = tuple[int, ...]
"""The tokens of a source, at least one."""


class Translation(NamedTuple):
    """Tokens of a translation, its energy, its log-probability, and its passes."""

    tokens: tuple[int, ...]
    energy: float | None
    log_prob: float
    passes: int


class Found(NamedTuple):
    """One translation per source, what a kernel did (see `COUNTS`), and the seconds that translating took."""

    translations: list[Translation]
    moves: dict[str, int]
    seconds: float


class Translator(ABC):
    """A loaded model of pairs, and the settings."""

    settings: TranslateSettings
    spelling: Spelling
    layout: PairLayout

    @abstractmethod
    def __call__(self, sources: Sequence[Source], progress: Progress | None = None) -> Found:
        """Translate."""


class CausalTranslator(Translator):
    """Greedy, or by beam search."""

    def __init__(self, settings: TranslateSettings, model: object, device: str, dtype: str) -> None:
        if not isinstance(model, str | os.PathLike):
            raise InputError(f"{settings.method} takes the folder of a causal model, not a masked one: give its path")
        on, kind = resolve_device(device), resolve_dtype(dtype)
        folder = user_path(model, "model")
        self.settings, self.spelling = settings, Spelling.read(folder)
        self.model = load_causal_pairs(folder, self.spelling.core, on, kind)
        self.layout = self.model.layout

    def __call__(self, sources: Sequence[Source], progress: Progress | None = None) -> Found:
        began = time.monotonic()
        found = beam_search(self.model, sources, self.settings.width, self.settings.penalty, progress=progress)
        seconds = time.monotonic() - began
        return Found([Translation(tuple(one.tokens), None, one.log_prob, one.passes) for one in found], {}, seconds)


class MaskedTranslator(Translator):
    """By a decoder, or by a Markov kernel."""

    def __init__(self, settings: TranslateSettings, model: object, device: str, dtype: str) -> None:
        pair = model if isinstance(model, PairModel) else PairModel.load(Path(user_path(model, "model")), device, dtype)  # type: ignore[arg-type]
        if settings.lengths > pair.layout.longest_target:
            raise InputError(
                f"lengths {settings.lengths} is more than the {pair.layout.longest_target} that the model takes: give fewer"
            )
        corrector = settings.corrector
        if corrector is not None and not pair.corrects:
            warnings.warn(
                f"{corrector} asks the model to correct tokens that it sees, and {pair.model.name!r} was trained on blanks only: "
                "train one with --refinement, or take another decoder",
                UnmaskWarning,
                stacklevel=4,
            )
        self.settings, self.pair, self.spelling, self.layout = settings, pair, pair.spelling, pair.layout

    def __call__(self, sources: Sequence[Source], progress: Progress | None = None) -> Found:
        settings = self.settings
        drafting = Drafting(self.pair, settings.seed, progress)
        began = time.monotonic()
        drafts = self._translated(drafting, sources)
        if self.pair.model.device.type == "cuda":
            torch.cuda.synchronize()
        seconds = time.monotonic() - began
        energies = drafting.scores(drafts, "raw" if settings.energy == "raw" else "norm")
        log_probs = drafting.scores(drafts, "any-order", settings.orders)
        both = zip(drafts, energies, log_probs, strict=True)
        found = [Translation(draft.tokens, energy, log_prob, draft.passes) for draft, energy, log_prob in both]
        return Found(found, drafting.moves if settings.moves else {}, seconds)

    def _translated(self, drafting: Drafting, sources: Sequence[Source]) -> list[Draft]:
        """One draft per source: decoded at its likeliest lengths, the best chosen, and moved by the kernel if there is one."""
        settings = self.settings
        drafts = [
            Draft(stream_number(source, length), source, length, log_length)
            for source, likely in zip(sources, self.pair.likely_lengths(sources, settings.lengths), strict=True)
            for length, log_length in likely
        ]
        starting = settings.starting
        drafts = drafting.at_random(drafts) if starting is None else drafting.run(drafts, starting)
        drafts = self._best(drafting, drafts)
        return drafting.run(drafts, settings.sampling) if settings.moves else drafts

    def _best(self, drafting: Drafting, drafts: Sequence[Draft]) -> list[Draft]:
        """Of each source's drafts the one with the best score; passes of all of them, and of the scores, are its own.

        A score is that of the text and its length together: E(y | s, n) - log p(n | s), or -log p(y | s, n) - log p(n | s).
        """
        settings = self.settings
        k = settings.lengths
        if k == 1:
            return list(drafts)
        scores = drafting.scores(drafts, settings.choose, settings.orders)  # type: ignore[arg-type]
        sign, cost = (-1, settings.orders) if settings.choose == "any-order" else (1, 1)
        energies = [sign * score - draft.log_length for score, draft in zip(scores, drafts, strict=True)]
        out = []
        for first in range(0, len(drafts), k):
            some = range(first, first + k)
            best = min(some, key=lambda i: energies[i] / (drafts[i].length if settings.per_token else 1))
            spent = sum(drafts[i].passes + cost * drafts[i].length for i in some)
            out.append(replace(drafts[best], passes=spent))
        return out


def load_translator(settings: TranslateSettings, model: object, device: str, dtype: str) -> Translator:
    """The translator that the settings ask for."""
    kind = CausalTranslator if settings.autoregressive else MaskedTranslator
    return kind(settings, model, device, dtype)
