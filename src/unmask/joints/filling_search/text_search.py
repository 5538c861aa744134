"""The search of a text's fillings, in all readings of its blanks.

A text with [WORD] or [GAP:2-5] is read with every number of tokens that its blanks may have
(`unmask.models.text.blanks`). With n readings, the probability of a filling x of reading r is
p_r(x) / n, where p_r is the chain rule averaged over orders in the text with that many masks, over
all regular tokens or those of an alphabet.

Words are spelled as the tokenizer spells them. Token sequences that are not whole words, or
other spellings of one, keep their share of the probability: the sum over words is below 1.

Constraints only leave fillings out: the law is that of all readings, whatever is allowed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain

from jaxtyping import Int
from torch import Tensor

from unmask.joints.chain_search import search_fillings
from unmask.joints.filling_search.found import ChainSearch, ScoredFilling
from unmask.joints.filling_search.ranks import number_of_fillings
from unmask.models.masked_lm import MaskedLM
from unmask.models.text.blanks import TextReading
from unmask.models.text.constraints import Constraints
from unmask.runs.progress import Progress
from unmask.tables.conditionals import Conditionals
from unmask.tables.exploration import State, Variant
from unmask.tables.rounding import Rounding


@dataclass(frozen=True)
class FoundInText:
    """The result of the search of a text.

    search          the fillings with their readings, bound and mass
    passes          forward passes
    most_fillings   an upper bound of the number of fillings that the constraints allow
    """

    search: ChainSearch
    passes: int
    most_fillings: int


@dataclass(frozen=True)
class TextSearch:
    """The readings of a text that can be filled, and what their probabilities depend on.

    weight       1 / n, where n counts all readings, also those that cannot be filled
    most_sites   the number of masks of the longest of all readings
    support      the tokens that a mask may become: the model's conditionals are normalised over
                 them
    """

    model: MaskedLM
    readings: list[TextReading]
    weight: float
    most_sites: int
    constraints: Constraints
    support: Int[Tensor, " s"]

    @classmethod
    def of(
        cls,
        model: MaskedLM,
        readings: Sequence[TextReading],
        constraints: Constraints,
        support: Int[Tensor, " s"],
    ) -> TextSearch:
        """The search of a text with these readings; raises if the constraints allow none."""
        return cls(
            model=model,
            readings=constraints.fillable(readings, support),
            weight=1 / len(readings),
            most_sites=max(len(reading.cloze.block) for reading in readings),
            constraints=constraints,
            support=support,
        )

    def state(self, parts: Sequence[Sequence[int]]) -> State:
        """The state of a filling with these tokens at each blank: the number of its reading, then
        its tokens.
        """
        lengths = tuple(len(part) for part in parts)
        lengths_of_readings = [reading.lengths for reading in self.readings]
        number = lengths_of_readings.index(lengths)  # no two readings have the same lengths
        tokens = chain.from_iterable(parts)
        return (number, *tokens)

    def parts(self, filling: ScoredFilling) -> list[tuple[int, ...]]:
        """The tokens of a filling, blank by blank."""
        return self.readings[filling.variant].parts(filling.tokens)

    def run(
        self,
        top: int,
        passes: int,
        mass: float | None,
        wanted: Sequence[State],
        progress: Progress | None = None,
    ) -> FoundInText:
        """Search until the `top` best fillings are certain, or those found have this `mass`, or
        the passes are used up.

        wanted   fillings that are scored whatever they cost
        """
        conditionals = Conditionals(self.model, self.support)
        variants = [
            Variant(reading.cloze, self.weight, self.constraints.allowed(reading))
            for reading in self.readings
        ]

        def accept(number: int, tokens: tuple[int, ...]) -> bool:
            return self.constraints.accept(self.readings[number], tokens)

        search = search_fillings(
            conditionals,
            variants,
            top=top,
            passes=passes,
            mass=mass,
            wanted=wanted,
            accept=accept,
            rounding=Rounding.of(self.model.dtype),
            progress=progress,
            most_sites=self.most_sites,
        )
        return FoundInText(
            search=search,
            passes=conditionals.passes,
            most_fillings=number_of_fillings(variants, len(self.support)),
        )
