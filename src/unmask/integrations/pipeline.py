"""`unmask.pipeline`: the answers of transformers' `pipeline("fill-mask")`, with joint probabilities of several masks.

    one mask       [{"score", "token", "token_str", "sequence"}, ...]: the same entries. `score` is q over the regular tokens;
                   transformers has special tokens in the sum, which takes nothing from it in a trained model
    several masks  the same list, one entry per filling of all masks: `score` is its joint probability (the chain rule averaged
                   over all orders), `token` and `token_str` are lists. transformers returns a list for each mask, with the
                   probability of each token by itself

`targets` are fillings: a word per mask. A word of several tokens is scored whole, with as many masks; transformers scores its
first token.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import exp
from typing import Annotated, Any, Literal

from annotated_types import Interval

from unmask.answers.chain_filling import ChainFilling, read_answer
from unmask.answers.search import Search
from unmask.models.load import Model, as_model
from unmask.models.masked_lm import MaskedLM
from unmask.models.text.blanks import read_blanks
from unmask.signature import checked
from unmask.verbs.fill import fill

Entries = Annotated[int, Interval(ge=1, le=10**6)]


class FillMask:
    """A model that fills the masks of texts; made by `unmask.pipeline`."""

    def __init__(self, model: MaskedLM, top_k: int, targets: str | Sequence[str] | None, passes: int | None) -> None:
        self.model, self.top_k, self.targets, self.passes = model, top_k, targets, passes

    @checked
    def __call__(
        self, inputs: str | Sequence[str], top_k: Entries | None = None, targets: str | Sequence[str] | None = None
    ) -> list[Any]:
        """The entries of a text, best first; a list of texts gives a list of lists, and of one text its entries, as there."""
        texts = [inputs] if isinstance(inputs, str) else list(inputs)
        most = self.top_k if top_k is None else top_k
        named = self.targets if targets is None else targets
        words = [named] if isinstance(named, str) else named
        entries = [self._fillings(text, most) if words is None else self._named(text, words)[:most] for text in texts]
        return entries[0] if len(entries) == 1 else entries

    def _fillings(self, text: str, most: int) -> list[dict[str, Any]]:
        several = len(read_blanks(self.model.words, text)) > 1
        found = fill(text, self.model, top=most, search=Search(passes=(self.passes or 1000) if several else self.passes))
        return [self._entry(one.ids, one.text, one.log_prob) for one in found.completions]

    def _named(self, text: str, words: Sequence[str]) -> list[dict[str, Any]]:
        blanks = read_blanks(self.model.words, text)
        found = fill(text, self.model, search=Search(answers=list(dict.fromkeys(words)), passes=1))
        assert isinstance(found, ChainFilling)
        entries = [
            self._entry(read_answer(self.model, blanks, one.answer).tokens, one.text, one.log_prob) for one in found.answers or ()
        ]
        return sorted(entries, key=lambda entry: -entry["score"])

    def _entry(self, ids: Sequence[int], text: str, log_prob: float) -> dict[str, Any]:
        names = [str(self.model.tokenizer.decode([i])) for i in ids]
        one = len(ids) == 1
        return {
            "score": exp(log_prob),
            "token": ids[0] if one else list(ids),
            "token_str": names[0] if one else names,
            "sequence": text,
        }


@checked
def pipeline(
    task: Literal["fill-mask"] = "fill-mask",
    model: Model = None,
    top_k: Entries = 5,
    targets: str | Sequence[str] | None = None,
    passes: int | None = None,
) -> FillMask:
    """A function from texts with masks to their best fillings, in the form of transformers' `pipeline("fill-mask")`.

    For one mask the entries are those of transformers. For several masks there is one list, with one entry per filling of all of
    them: `score` is its joint probability, `token` and `token_str` are lists.

    Parameters
    ----------
    task
        The only one: fill-mask.
    model
        Folder or hub name of a masked language model [default: the bundled English model].
    top_k
        How many entries.
    targets
        Fillings to score instead, each with as many words as the text has masks.
    passes
        The most passes of the search for fillings of several masks [default: 1,000].

    >>> fill = unmask.pipeline("fill-mask", top_k=2)
    >>> [entry["token_str"] for entry in fill("She drank a cup of [MASK].")]
    ['tea', 'coffee']
    >>> fill("She drank a [MASK] of [MASK].", top_k=1)[0]["token_str"]
    ['glass', 'wine']
    """
    return FillMask(as_model(model), top_k, targets, passes)
