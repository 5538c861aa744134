"""`unmask.pipeline`: the answers of transformers' `pipeline("fill-mask")`, with joint probabilities of several masks.

`score` is q over the regular tokens; transformers has special tokens in the sum. Of several masks transformers returns a list for
each, with the probability of each token by itself. A target of several tokens is scored whole; transformers scores its first.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import exp
from typing import Annotated, Any, Literal

from annotated_types import Interval

from unmask.answers.chain_filling import read_answer
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
        filling = fill(text, self.model, top=most, search=Search(passes=(self.passes or 1000) if several else self.passes))
        return [self._entry(one.ids, one.text, one.log_prob) for one in filling.completions]

    def _named(self, text: str, words: Sequence[str]) -> list[dict[str, Any]]:
        blanks = read_blanks(self.model.words, text)
        filling = fill(text, self.model, search=Search(answers=list(dict.fromkeys(words)), passes=1))
        tokens = {one.answer: read_answer(self.model, blanks, one.answer).tokens for one in filling.answers}
        entries = (self._entry(tokens[one.answer], one.text, one.log_prob) for one in filling.answers)
        return sorted(entries, key=lambda entry: -entry["score"])

    def _entry(self, ids: Sequence[int], text: str, log_prob: float) -> dict[str, Any]:
        tokens, names = list(ids), [str(self.model.tokenizer.decode([i])) for i in ids]
        token, name = (tokens[0], names[0]) if len(ids) == 1 else (tokens, names)
        return {"score": exp(log_prob), "token": token, "token_str": name, "sequence": text}


@checked
def pipeline(
    task: Literal["fill-mask"] = "fill-mask",
    model: Model = None,
    top_k: Entries = 5,
    targets: str | Sequence[str] | None = None,
    passes: int | None = None,
) -> FillMask:
    """A function from texts with masks to their best fillings, in the form of transformers' `pipeline("fill-mask")`.

    For one mask the entries are those of transformers. For several masks there is one entry per filling of all of them: its joint
    probability (the chain rule averaged over all orders) is `score`, and `token` and `token_str` are lists.

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
