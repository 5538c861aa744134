"""The look at the first text that a model gets: three passes, once per model.

A model that is read wrong still gives numbers, and they look wrong. Every verb looks at the first
text that a model gets (`look_at_first`). Each of LOOKED_ROWS rows masks every LOOKED_ROWS-th token
that the text shows, and the mean of -log q(token | rest) is compared with log V. A model that is
read right lies far below, even on a text of another language; with another model's tokenizer it
lies several nats above. A mean above log V by more than ERRORS standard errors is reported. So is
a text of amino acids or bases under a model of words.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Sequence
from itertools import islice
from math import inf, log
from weakref import WeakSet

import torch

from unmask.common.errors import UnmaskWarning
from unmask.common.intervals import mean_and_error
from unmask.models.masked_lm import MaskedLM
from unmask.models.text.text_tokenizer import BLANK, TextTokenizer

LOOKED_ROWS = 3


LEAST_LOOKED, MOST_LOOKED, TEXTS_LOOKED = 6, 48, 64
"""Tokens of a text that are looked at; of the first TEXTS_LOOKED texts, those with fewer than
LEAST_LOOKED are skipped.
"""


ERRORS = 2.0
"""Standard errors by which a mean must lie above log V."""


_seen, _seen_sequence = WeakSet[MaskedLM](), WeakSet[MaskedLM]()


AMINO_ACIDS, BASES = set("ACDEFGHIKLMNPQRSTVWY"), set("ACGT")


LEAST_LETTERS, MOST_LETTERS = 10, 60
"""Letters of a sequence that are looked at."""


def look_at_first(model: MaskedLM, texts: Iterable[Sequence[int]]) -> None:
    """Warn, once per model, if the first text is a sequence and the model reads words, and if
    the model predicts what the first text shows worse than a uniform distribution; `texts`:
    token ids."""
    special, longest = set(model.special_ids), model.max_length or inf
    for ids in islice(texts, TEXTS_LOOKED):
        shown = [place for place, i in enumerate(ids) if i not in special]
        if len(shown) >= LEAST_LOOKED and len(ids) <= longest:
            break
    else:
        return
    problem = None
    if model not in _seen_sequence and is_sequence(model.words, model.text(ids)):
        _seen_sequence.add(model)
        problem = (
            "it reads words, and the text looks like amino acids or bases: give a model of such"
            " sequences"
        )
    elif model not in _seen:
        nats, error = mean_and_error(_surprise(model, ids, shown[:: -(-len(shown) // MOST_LOOKED)]))
        problem = worse_than_uniform(
            "the tokens that the text shows", nats, error, log(len(model.regular_ids))
        )
        problem = problem and f"{problem}; unmask check --data with your own texts shows more"
    _seen.add(model)
    if problem:
        warnings.warn(f"model {model.name!r}: {problem}", UnmaskWarning, stacklevel=4)


def is_sequence(words: TextTokenizer, text: str) -> bool:
    """Whether a text is a protein or DNA that a tokenizer of words has to spell.

    Without its blanks it is one run of capitals, or single capitals with spaces between them,
    all of them amino acids. Also as small letters it is cut into pieces of less than two
    letters; words and names in capitals are then cut into longer ones. Words spelled with amino
    acids, which have no U, have no Q.
    """
    text = text if words.cased else text.upper()
    runs, letters = (
        [run.split() for run in text.split(BLANK)],
        "".join(text.replace(BLANK, "").split()),
    )
    kinds, alone = (
        set(letters),
        all(len(run) < 2 for run in runs) or all(len(part) == 1 for run in runs for part in run),
    )
    if (
        not alone
        or len(letters) < LEAST_LETTERS
        or not (kinds == BASES or (len(kinds) > len(BASES) + 1 and kinds <= AMINO_ACIDS))
    ):
        return False
    if words.by_character or not words.regular_tokens.keys() & {"the", "Ġthe", "▁the"}:
        return False
    letters = letters[:MOST_LETTERS]
    cuts = [words.tokens_of(one).inside for one in (letters, letters.lower(), letters.capitalize())]
    return min(stop - start for start, stop in cuts) > len(letters) / 2 + (
        0 if "Q" in letters else 1.5
    )


@torch.no_grad()
def _surprise(model: MaskedLM, ids: Sequence[int], shown: Sequence[int]) -> list[float]:
    """-log q of the tokens at these places, every LOOKED_ROWS-th of them masked in one row; the
    last one or two are left out.
    """
    places = (
        torch.tensor(shown[: len(shown) // LOOKED_ROWS * LOOKED_ROWS])
        .view(-1, LOOKED_ROWS)
        .T.contiguous()
    )
    rows = torch.tensor([list(ids)] * LOOKED_ROWS)
    log_q = (
        model.logits(rows.scatter(1, places, model.mask_id), places).double().log_softmax(-1).cpu()
    )
    return (-log_q.gather(2, rows.gather(1, places).unsqueeze(2))).flatten().tolist()


def worse_than_uniform(what: str, nats: float, error: float, uniform: float) -> str | None:
    """The sentence about a model that predicts tokens worse than a uniform distribution by more
    than ERRORS errors; else None.
    """
    if nats - ERRORS * error <= uniform:
        return None
    return (
        f"it predicts {what} worse than a uniform distribution ({nats:.1f} nats, uniform"
        f" {uniform:.1f}): the tokenizer may be another model's, config.json may state another"
        " network, or the texts are not of its kind"
    )
