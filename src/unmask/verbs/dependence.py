"""`dependence`: the mutual information of every pair of blanks, and the profile of a model's dependence by distance."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Annotated, Literal

from annotated_types import Interval

import unmask
from unmask.errors import InputError
from unmask.models.load import Model
from unmask.runs.progress import Progress
from unmask.signature import Written, checked
from unmask.verbs.shared import Alphabet, Joint, PathLike, Positions, Texts, one_or_many, refuse_given


@one_or_many
@checked
def dependence(
    text: Texts | None = None,
    model: Model = None,
    *,
    positions: Positions = None,
    joint: Joint = "pseudo_gibbs",
    others: Literal["masked", "text"] | None = None,
    candidates: Annotated[Annotated[int, Interval(ge=1, le=10**7)] | None, Written(short="-n")] = None,
    alphabet: Alphabet = None,
    figure: PathLike | None = None,
    force: bool = False,
    profile: Annotated[PathLike | Sequence[str] | None, Written(metavar="PATH")] = None,
    sentences: Annotated[int, Interval(ge=1, le=10**7)] = 2000,
    save: PathLike | None = None,
    progress: Progress | None = None,
) -> Iterator[unmask.Dependence | unmask.Profile]:
    """Measure how much blanks, or tokens, depend on each other: the mutual information of every pair.

    One text gives one answer, a list of texts a list of them. With profile in the place of a text, the answer is the model's
    profile: how much two blanks depend on each other by their distance, which the decoder least-dependent reads.

    Parameters:
        text: Text with [MASK] at two blanks or more, or a whole text.
        positions: Which tokens of a whole text, such as 2,3,6; the first, usually [CLS], is 0 [default: all but special ones].
        joint: How the joint is derived: a construction of `fill`.
        others: What stands at the other positions while a pair is measured: masked, or the text itself (text) [default: masked
            for blanks, text for a whole text].
        candidates: Tokens to consider at each position [default: 32 to 256, by how many positions; 16 of a profile].
        alphabet: The only tokens that may stand in a blank: letters such as ACDEFGHIKLMNPQRSTVWY, words with commas, or a file
            of either.
        figure: Draw the matrix as a heat map to this file (png, pdf, svg).
        force: Go on where there are more than 200,000 passes.
        profile: Measure how blanks depend on each other by distance, on the texts of this file, one per line; or a list of
            texts.
        sentences: Of a profile: the most texts to measure on.
        save: Of a profile: file for it, JSON; least-dependent decoding reads it (profile).

    >>> unmask.dependence("The [MASK] [MASK] at the casino.", candidates=16).tokens
    ('[MASK]', '[MASK]')
    """
    if profile is not None:
        refuse_given(dependence, locals(), ("text", "positions", "joint", "others", "alphabet", "figure", "force"), "profile")
        from unmask.answers.dependence import written_profile

        yield written_profile(model, profile, sentences, candidates, save, progress)
        return
    if text is None or sentences != 2000 or save is not None:
        problem = "no text was given" if text is None else "sentences and save are about a profile, and none is measured"
        raise InputError(f"{problem}: give a text, or texts to measure a profile on (profile)")
    from unmask.answers.dependence import dependences

    yield from dependences(text, model, positions, joint, others, candidates, alphabet, figure, force, progress)
