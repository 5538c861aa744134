"""The law of a decoder: the probability that it fills all blanks with the text's tokens.

    decoder:NAME@N   log law(x) = sum_{t <= N} sum_{i in K_t} log q(x_i | x_{S_t}),
                     K_t chosen by NAME from x_{S_t}

q runs over the regular tokens, for the choice too. NAME sees distributions given x_S and never
a hidden token, so this is a probability. It reveals a text pass by pass as it would draw it
(`unmask.sampling.decoders.revealing`). A random order is drawn from the seed and is the same
for all texts of a length: an order that depended on the text would not give a probability.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, cast

from annotated_types import Interval

from unmask.common.border.marks import PYTHON_ONLY
from unmask.common.checks import one_of, shown
from unmask.common.errors import InputError, argument_name
from unmask.common.lazy import torch
from unmask.common.methods.method import method
from unmask.sampling.decoders.decoder import Decoder
from unmask.sampling.decoders.revealing import Revealing
from unmask.sampling.methods import decoder_class, refuse_no_law, with_law
from unmask.scoring.scores.score import Score, Scored, Seed

if TYPE_CHECKING:
    from jaxtyping import Int
    from torch import Tensor

    from unmask.models.conditional_model import ConditionalModel
    from unmask.runs.progress import Progress
    from unmask.sampling.target import Target
    from unmask.scoring.text_batch import TextBatch

DECODER = "decoder:"
"""Before the name of a decoder whose law is the score; @N after it gives the number of passes."""
USUAL_PASSES = 10
"""Of a decoder whose bound decides, for estimates of the work."""
MOST_PASSES = 10**6
MOST_DIGITS = len(str(MOST_PASSES))
"""`int` raises for thousands of digits."""


@method
class DecoderLaw(Score):
    """Law of a decoder: the log-probability that it fills all blanks with the text's tokens;
    typed as decoder:NAME@PASSES.

    Parameters:
        decoder: Decoder that chooses positions before it draws their tokens: a name, or an object
            with its options, such as unmask.Interleaved(passes=2).
        passes: Passes in which it fills a text. By default its bound decides, or the decoder's
            own number.
        sets: Of verified: sets of a text. By default the decoder's own number.
        seed: Seed of a random order, which is the same for all texts of a length.

    >>> scores = unmask.score(["The cats sit here."], unmask.DecoderLaw("interleaved", passes=2))
    >>> scores.rows[0]["decoder:interleaved@2"] < 0
    True
    """

    decoder: Annotated[Any, PYTHON_ONLY]
    passes: Annotated[int, PYTHON_ONLY, Interval(ge=1, le=MOST_PASSES)] | None = None
    sets: Annotated[int, PYTHON_ONLY, Interval(ge=1, le=MOST_PASSES)] | None = None
    seed: Seed = 0

    name = f"{DECODER}NAME@PASSES"  # of the kind; an object has its own
    reveals: ClassVar[Revealing]
    """The decoder itself, which each object has."""
    place = 80
    probability = True
    by_token = True
    why = (
        "positions are chosen from the revealed tokens only, so each pass is a conditional"
        " probability of the tokens it reveals"
    )

    def __post_init__(self) -> None:
        if isinstance(self.decoder, Decoder):
            reveals = self._checked_object(self.decoder)
            number = reveals.number
        else:
            reveals = self._named(self.decoder)
            number = self.parts
        name = f"{DECODER}{reveals.name}"
        if number is not None:
            name = f"{name}@{number}"
        # A frozen dataclass sets its own attributes in this way.
        object.__setattr__(self, "name", name)
        object.__setattr__(self, "reveals", reveals)

    def _named(self, decoder: object) -> Revealing:
        """The decoder of a name of ours, with its own number of passes or sets if none is given."""
        refuse_no_law(f"score {DECODER}{decoder}", str(decoder))
        one_of("score", f"{DECODER}{decoder}", [f"{DECODER}{one}" for one in with_law()])
        option = decoder_class(str(decoder)).parts
        for other in ("passes", "sets"):
            if other != option and getattr(self, other) is not None:
                raise InputError(
                    f"is not used by decoder {decoder}",
                    argument=other,
                    use=f"give {argument_name(option)}",
                )
        if self.parts is None:
            made = decoder_class(str(decoder))()
        else:
            made = decoder_class(str(decoder)).in_parts(self.parts)
        return cast(Revealing, made)

    def _checked_object(self, decoder: Decoder) -> Revealing:
        """A decoder with its options, which may be a user's own."""
        for other in ("passes", "sets"):
            if getattr(self, other) is not None:
                raise InputError(
                    f"is an option of the decoder {decoder.name} itself",
                    argument=other,
                    use="leave it out",
                )
        if not isinstance(decoder, Revealing):
            raise InputError(
                f"{decoder.name} has no law that can be computed, because it does not choose"
                " positions before it draws their tokens",
                argument="decoder",
                use=f"use one of {', '.join(with_law())}, or a class derived from Revealing",
            )
        return decoder

    @property
    def parts(self) -> int | None:
        """The number of passes, or of sets; None: by default."""
        if self.sets is not None:
            return self.sets
        return self.passes

    @classmethod
    def spelled(cls, text: str) -> DecoderLaw | None:
        """The law that decoder:NAME or decoder:NAME@PASSES spells."""
        if not text.startswith(DECODER):
            return None
        decoder, at, number = text.removeprefix(DECODER).partition("@")
        law = cls(decoder)
        if not at:
            return law
        option = decoder_class(decoder).parts
        is_number = number.isascii() and number.isdigit() and len(number) <= MOST_DIGITS
        if not is_number or not 1 <= int(number) <= MOST_PASSES:
            raise InputError(
                f"{DECODER}{decoder}@{number[:MOST_DIGITS]}: the number of {option} is"
                f" {shown(number)}",
                argument="score",
                use=f"give a whole number from 1 to {MOST_PASSES}",
            )
        changes: dict[str, Any] = {option: int(number)}
        return replace(law, **changes)

    @property
    def definition(self) -> str:
        """What is revealed in each pass, and how many passes there are."""
        one, several = "pass", "passes"
        if self.reveals.one_by_one:
            one, several = "set", "sets"
        number = self.reveals.number
        if number is None:
            passes = f"the default {self.reveals.limited_by}"
        elif number == 1:
            passes = f"1 {one}"
        else:
            passes = f"{number} {several}"
        return (
            f"law of the decoder {self.reveals.name}: a pass reveals {self.reveals.chooses}, each"
            " token with log q(x_i | what was revealed before),"
            f" {passes}, q over the regular tokens"
        )

    def cost(self, sites: int) -> int:
        """The decoder's own passes."""
        if self.reveals.one_by_one:
            return sites
        number = self.parts
        if isinstance(self.decoder, Decoder):
            number = self.reveals.number
        return min(sites, number or USUAL_PASSES)

    def compute(
        self, model: ConditionalModel, batch: TextBatch, progress: Progress | None = None
    ) -> Scored:
        """The law of every text; as many passes per text as the decoder makes."""
        from unmask.sampling.decoders.revealing import law
        from unmask.sampling.engine.passes import Passes
        from unmask.sampling.engine.randomness import streams_of
        from unmask.scoring.text_batch import GPU_LOGITS
        from unmask.tables.conditionals import logit_rows

        n, k = batch.sites.shape
        passes = Passes(model, form="logits")
        at_once = logit_rows(model, k, GPU_LOGITS)
        by_site = torch.zeros((n, k), dtype=torch.float64, device=model.device)
        for rows, target in _by_sites(model, batch):
            decoder = self.reveals.on(target, passes)
            for part in rows.split(at_once):
                # Every text has the randomness of chain 0, so that orders are the same.
                randomness = streams_of(self.seed, [0] * len(part), model.device).of(0, 0)
                by_site[part] = law(decoder, batch.ids[part], randomness).log_q
        return Scored(by_site.sum(1), by_site)


def _by_sites(
    model: ConditionalModel, batch: TextBatch
) -> Iterator[tuple[Int[Tensor, " m"], Target]]:
    """The texts with the same sites, and their target, in which all other tokens are given."""
    from unmask.sampling.target import target_of

    distinct, number_of_text = batch.sites.unique(dim=0, return_inverse=True)
    for number, sites in enumerate(distinct):
        rows = (number_of_text == number).nonzero().flatten()
        template = batch.ids[rows[0]].index_fill(0, sites, model.mask_id)
        free = set(sites.tolist())
        fixed = [t for t in range(len(template)) if t not in free]
        yield rows, target_of(model, template.tolist(), given=fixed)
