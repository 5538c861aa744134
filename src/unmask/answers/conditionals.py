"""The model's conditionals at asked positions of a text: log q_t(. | rest), without any joint.

Masking says what the rest is. "alone": each position is masked by itself, all others are as written (`pll` sums these).
"together": all asked positions are masked at once. "none": nothing is masked.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Literal

import torch
from annotated_types import Interval

from unmask import checks
from unmask.errors import InputError
from unmask.models.load import Model, as_model
from unmask.signature import checked
from unmask.tables.revealing import Conditionals

Masking = Literal["alone", "together", "none"]
MOST_TOKENS = 1_000


@dataclass(frozen=True)
class Conditional:
    """One position: its token with the token's log-probability, the likeliest tokens, and those asked for.

    likeliest, asked   (token, log-probability)
    """

    position: int
    token: str
    log_prob: float
    likeliest: tuple[tuple[str, float], ...]
    asked: tuple[tuple[str, float], ...]


@checked
def conditionals(
    text: str,
    positions: Sequence[int] | None = None,
    model: Model = None,
    masking: Masking = "alone",
    top: Annotated[int, Interval(ge=0, le=MOST_TOKENS)] = 10,
    words: Sequence[str] = (),
) -> list[Conditional]:
    """log q_t(. | rest) over the whole vocabulary at positions of a text, one entry per position.

    Parameters:
        text: A text, with [MASK] or whole.
        positions: Tokens counted from 0, the start token included [default: the blanks of the text].
        model: Folder or hub name of a masked language model [default: the bundled English model].
        masking: What is masked while a position is predicted: it "alone", all positions "together", or "none".
        top: How many of the likeliest tokens.
        words: Tokens whose log-probability is wanted too, each one token of the model.

    >>> [found] = unmask.conditionals("The cat sat on the [MASK].", top=2)
    >>> [token for token, _ in found.likeliest]
    ['couch', 'floor']
    """
    lm = as_model(model)
    ids = torch.tensor(lm.words.encode(text))
    named = [lm.words.encode_word(word, at_start=False, after_space=True) for word in words]
    for word, tokens in zip(words, named, strict=True):
        if len(tokens) != 1:
            raise InputError(f"word {word!r} is {len(tokens)} tokens of the model: ask for words of one token")
    if positions is None:
        at = (ids == lm.mask_id).nonzero()[:, 0].tolist()
        if not at:
            raise InputError("the text has no blank: put [MASK] in it, or give positions")
    elif not positions or len(set(positions)) != len(positions):
        raise InputError(f"positions {list(positions)} are empty or name one twice: name each position once")
    else:
        at = [checks.whole("positions", position, 0, len(ids) - 1) for position in positions]
    rows = ids.repeat(len(at) if masking == "alone" else 1, 1)
    where = torch.tensor(at).reshape(-1, 1) if masking == "alone" else torch.tensor([at])
    if masking != "none":
        rows = rows.scatter(1, where, lm.mask_id)
    conditionals = []
    for position, log_q in zip(at, Conditionals(lm).distributions(rows, where).reshape(len(at), -1), strict=True):
        token, likeliest = int(ids[position]), log_q.topk(min(top, len(log_q))).indices.tolist()
        best, wanted = ([(lm.token(i), float(log_q[i])) for i in some] for some in (likeliest, [i for (i,) in named]))
        conditionals.append(Conditional(position, lm.token(token), float(log_q[token]), tuple(best), tuple(wanted)))
    return conditionals
