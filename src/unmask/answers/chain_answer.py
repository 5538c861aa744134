"""What `fill` gives by the chain rule over all orders: fillings, how much of the mass they hold, and what is certain."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from html import escape
from math import exp
from typing import TYPE_CHECKING

from unmask.answers.completion import Completion, completions_frame, marked_html
from unmask.answers.given_answers import ScoredAnswer
from unmask.formats import percent_at_least, percent_at_most
from unmask.models.masked_lm import MaskedLM

if TYPE_CHECKING:
    import pandas


@dataclass(frozen=True)
class ChainCompletion(Completion):
    """A filling with its probability over the whole vocabulary.

    parts           what each blank is filled with, as text
    standard_error  of log_prob, in nats; 0 where no order is left out
    lengths         log-probability by the number of tokens of the blanks; several where a word has several spellings
    """

    parts: tuple[str, ...] = ()
    standard_error: float = 0.0
    lengths: Mapping[tuple[int, ...], float] | None = None

    def to_dict(self) -> dict[str, object]:
        extra: dict[str, object] = {"parts": list(self.parts), "standard_error": self.standard_error}
        if self.lengths is not None:
            extra["lengths"] = [{"tokens": list(n), "log_prob": value} for n, value in self.lengths.items()]
        return super().to_dict() | extra


@dataclass(frozen=True)
class ReadingSeen:
    """A number of tokens per blank: its weight, and the probability of the fillings found that have it."""

    lengths: tuple[int, ...]
    weight: float
    mass: float


@dataclass(frozen=True)
class ChainFilling:
    """The best fillings of a text under the chain rule averaged over all orders, and how far they are certain.

    mass      all fillings found, of which the completions are the best, have this much probability at least
    bound     no filling that was not found has more; of words, in the tokenizer's own spelling
    certain   how many of the completions are certain to be the best, in this order; of words, in the tokenizer's own spelling
    stopped   why the search ended; see `unmask.joints.chain_search.ChainSearch`
    exact     no order was left out; if some were, mass is an estimate, and so are the completions' probabilities
    words     whether the text has a [WORD]
    alphabet  whether only some of the regular tokens could stand in a blank

    Rounding is allowed for in mass, bound, certain and the answers' ranks (`unmask.tables.rounding`).

    >>> found = unmask.fill("A [MASK] of [MASK] and [MASK].", top=1)
    >>> found.completions[0].parts, found.certain
    (('group', 'men', 'women'), 1)
    """

    text: str
    model: MaskedLM
    completions: list[ChainCompletion]
    answers: list[ScoredAnswer]
    readings: list[ReadingSeen]
    mass: float
    bound: float
    certain: int
    passes: int
    stopped: str
    exact: bool = True
    words: bool = False
    alphabet: bool = False
    joint: str = "chain"

    def to_dict(self) -> dict[str, object]:
        """What `unmask fill --json` prints."""
        found: dict[str, object] = {
            "text": self.text,
            "joint": self.joint,
            "mass": self.mass,
            "bound": self.bound,
            "certain": self.certain,
            "passes": self.passes,
            "stopped": self.stopped,
            "completions": [completion.to_dict() for completion in self.completions],
        }
        if len(self.readings) > 1:
            found["lengths"] = [vars(reading) | {"lengths": list(reading.lengths)} for reading in self.readings]
        if self.answers:
            found["answers"] = [answer.to_dict() for answer in self.answers]
        return found

    def to_frame(self) -> pandas.DataFrame:
        """One row per completion: text, one column per blank with what fills it, log_prob, standard_error, product_log_prob."""
        return completions_frame(self.completions, "parts", "log_prob", "standard_error", "product_log_prob")

    def __repr__(self) -> str:
        best = self.completions[0]
        return f"ChainFilling({best.text!r}, {exp(best.log_prob):.1%}, {len(self.completions)} completions)"

    def _repr_html_(self) -> str:
        rows = "".join(f"<tr><td>{exp(c.log_prob):.2%}</td><td>{marked_html(c)}</td></tr>" for c in self.completions)
        return f"<p>{escape(self.text)}<br>{escape(self.summary)}</p><table>{rows}</table>"

    @property
    def summary(self) -> str:
        """One line: what was found, and what is certain."""
        shown = len(self.completions)
        if not self.exact:
            sure = "orders are sampled: every probability has an error"
        elif self.certain >= shown:
            sure = "the order shown is certain"
        else:
            sure = f"the first {self.certain} of {shown} are certain" if self.certain else "no place is certain"
        support = "the alphabet" if self.alphabet else "the whole vocabulary"
        spelled = "in the tokenizer's own spelling " if self.words else ""
        return (
            f"chain rule over all orders and {support}; "
            f"fillings found hold {'at least' if self.exact else 'about'} {percent_at_least(self.mass)} of all mass; "
            f"{spelled}no other has more than {percent_at_most(self.bound)}{' and' if spelled and self.exact else ';'} "
            f"{sure} ({self.passes:,} passes)"
        )
