"""The request of a call of `fill`, and its texts, read before any pass of the model.

Every bad request raises here. A text becomes one of two things: a `TabledText`, whose fillings have
a joint over candidates, or a `SearchedText`, whose fillings are searched over the whole vocabulary.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch
from jaxtyping import Int
from torch import Tensor

from unmask.common.cloze import Cloze, cloze_of_ids
from unmask.common.counting import Places
from unmask.common.errors import InputError, argument_name
from unmask.joints.chain_search import samples_orders
from unmask.joints.constructions.construction import Construction
from unmask.joints.filling_search.text_search import TextSearch
from unmask.joints.registry import SEARCHED
from unmask.models.masked_lm import MaskedLM
from unmask.models.text.answers import ReadAnswer, read_answer
from unmask.models.text.blanks import TextReading, blanks_and_readings, has_several_lengths
from unmask.models.text.constraints import Constraints, NamedWords
from unmask.tables.candidates import Candidates
from unmask.tables.conditionals import regular_tokens
from unmask.verbs.blanked_texts import BlankedText, refuse_all_of_alphabet

SEARCHED_FROM = 3  # Texts with at least 3 blanks are searched, if no option asks for a table


@dataclass(frozen=True)
class TabledText:
    """A text whose fillings have a table: a joint over candidates.

    reading   the text with one mask per blank
    gold      the tokens that stood in the blanks, where they are known and pass the constraints
    blanked   how the candidates of the blanks are found
    """

    text: str
    reading: TextReading
    constraints: Constraints
    answers: list[ReadAnswer]
    gold: tuple[int, ...] | None
    blanked: BlankedText

    @property
    def cloze(self) -> Cloze:
        """The text with its masks."""
        return self.reading.cloze


@dataclass(frozen=True)
class SearchedText:
    """A text whose fillings are searched over the whole vocabulary.

    gold     the tokens that stood in the blanks, where they are known and pass the constraints
    search   the search, in the readings of the text that can be filled
    """

    text: str
    answers: list[ReadAnswer]
    gold: tuple[int, ...] | None
    search: TextSearch

    @property
    def cloze(self) -> Cloze:
        """The text with the fewest masks that can be filled."""
        return self.search.readings[0].cloze


ReadText = TabledText | SearchedText


@dataclass(frozen=True)
class FillRequest:
    """The arguments of `fill` that all its texts share.

    letters      ids of the alphabet's tokens; None without one
    max_passes   the most passes of a search
    mass         the probability that a search is to find; None if it has no such aim
    has_search   whether `search` was given
    """

    model: MaskedLM
    construction: Construction | None
    candidates: Candidates
    has_search: bool
    max_passes: int
    mass: float | None
    letters: Sequence[int] | None
    positions: Places | None
    words: NamedWords
    answers: Sequence[str | Sequence[str]]
    top: int
    force: bool

    def read(self, text: str) -> ReadText:
        """Read a text; every bad request raises here, before any pass."""
        model = self.model
        blanks, readings = blanks_and_readings(
            model.words, text, positions=self.positions, max_length=model.max_length
        )
        is_searched = self._is_searched(has_several_lengths(text), len(blanks))
        support = self._support()
        constraints = Constraints(model, blanks, self.words)
        answers = [read_answer(model.words, blanks, readings, answer) for answer in self.answers]
        for answer in answers:
            constraints.refuse_impossible(answer, support)
        gold = readings[0].cloze.gold
        if gold is not None and not constraints.allows_tokens(gold, support):
            gold = None
        if is_searched:
            search = TextSearch.of(model, readings, constraints, support)
            self._refuse_mass_of_sampled_orders(search)
            return SearchedText(text=text, answers=answers, gold=gold, search=search)
        (reading,) = constraints.fillable(readings, support)  # raises if it cannot be filled
        # Elsewhere `candidates="all"` has an effect: it alone asks for a table.
        if self.construction is not None or len(blanks) < SEARCHED_FROM:
            refuse_all_of_alphabet(self.candidates, self.letters, len(blanks))
        return TabledText(
            text=text,
            reading=reading,
            constraints=constraints,
            answers=answers,
            gold=gold,
            blanked=self._blanked(text, reading),
        )

    def with_candidates(self, text: TabledText, candidates: int) -> BlankedText:
        """A text that was read, with another number of candidates."""
        return replace(self, candidates=candidates)._blanked(text.text, text.reading)

    def _blanked(self, text: str, reading: TextReading) -> BlankedText:
        """How the candidates of a text are found.

        The tokens that stood in the blanks are left out of the cloze, since those of a cloze are
        always candidates. Here they are only if they are likely enough.
        """
        cloze = cloze_of_ids(reading.cloze.ids, reading.cloze.block)
        return BlankedText.of(
            self.model, text, cloze, self.candidates, letters=self.letters, force=self.force
        )

    def _support(self) -> Int[Tensor, " s"]:
        """The tokens that a blank may take: those of the alphabet, or all regular ones."""
        if self.letters is None:
            return regular_tokens(self.model)
        return torch.tensor(self.letters, device=self.model.device)

    def _is_searched(self, has_lengths: bool, blanks: int) -> bool:
        """Whether the fillings of a text are searched, or have a table; raises if an option of
        tables comes with a text that is searched.

        has_lengths   whether the text has [WORD] or [GAP]
        blanks        how many blanks it has
        """
        if has_lengths:
            self._refuse_options_of_tables()
            return True
        if self.has_search:
            return True
        asks_for_table = self.construction is not None or self.candidates is not None
        if asks_for_table or blanks < SEARCHED_FROM:
            return False
        if self.words.given:
            raise InputError(
                f"needs a table, and {blanks} blanks are searched",
                argument="given",
                use=f"give {argument_name('candidates')} or {argument_name('construction')}, too",
            )
        return True

    def _refuse_options_of_tables(self) -> None:
        """Raise if an option of tables was given, for a text with [WORD] or [GAP]."""
        was_given = {
            "construction": self.construction is not None,
            "candidates": self.candidates is not None,
            "given": bool(self.words.given),
        }
        for name, is_given in was_given.items():
            if is_given:
                raise InputError(
                    "is not used with [WORD] or [GAP], whose fillings are searched over the"
                    f" whole vocabulary by {SEARCHED}",
                    argument=name,
                    use="leave one of the two out",
                )

    def _refuse_mass_of_sampled_orders(self, search: TextSearch) -> None:
        """Raise if the search is to find a mass, and can only estimate it."""
        if self.mass is not None and samples_orders(search.most_sites, self.max_passes):
            raise InputError(
                f"cannot be found: {search.most_sites} tokens in blanks have so many orders that"
                " they are sampled",
                argument="mass",
                use="leave it out, or give more passes",
            )

    def refuse_without_effect(self, texts: Sequence[ReadText]) -> None:
        """Raise for an option of tables that would do nothing in any of the texts.

        It does something where a table has two blanks or more: a single blank has the model's own
        conditional, whatever the construction. A number of candidates does something even there.
        """
        tabled = [one for one in texts if isinstance(one, TabledText)]
        if any(len(one.cloze.block) > 1 for one in tabled):
            return
        if tabled:
            why = "does nothing with a single blank, which has the model's own conditional"
        else:
            why = "is about tables, and these fillings are searched"
        was_given = {
            "construction": self.construction is not None,
            "candidates": self.candidates == "all",
            "force": self.force,
        }
        for name, is_given in was_given.items():
            if is_given:
                raise InputError(why, argument=name, use="leave it out")
