"""Blanks in a text: found, placed, and filled with target words that are never cut."""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import pairwise

from unmask import checks
from unmask.cloze import Cloze
from unmask.errors import InputError
from unmask.models.text.readings import has_several_lengths
from unmask.models.text.text_tokenizer import BLANK, TextTokenizer, refuse_hopeless, shortened


def cloze_of(
    words: TextTokenizer,
    text: str,
    positions: Sequence[int] | None = None,
    targets: Sequence[str] | None = None,
    max_length: int | None = None,
) -> Cloze:
    """The cloze of a text with blanks in it, or of a plain text whose tokens at `positions` become the blanks.

    With blanks, `targets` may name the words that stand there, as gold. One target a blank: a word of m tokens turns its
    blank into m consecutive ones. Fewer targets than blanks: their tokens must fill the blanks exactly, each word in
    consecutive ones. With positions (in tokens, the start token being 0), the tokens that stood there are the gold.
    """
    if has_several_lengths(text):
        raise InputError(f"the text {shortened(text)} has a [WORD] or [GAP], which fill alone takes: put a [MASK] for each token")
    refuse_hopeless(text, max_length)
    ids = words.encode(text)
    words.refuse_unknown(text, ids)
    blanks = [t for t, token in enumerate(ids) if token == words.mask_id]
    if positions is not None:
        if blanks or targets is not None:
            also = "blanks in the text" if blanks else "targets"
            raise InputError(f"positions {list(positions)} were given and {also} too: give one or the other")
        _refuse_too_long(len(ids), max_length)
        return _at_positions(words, ids, positions)
    if not blanks:
        raise InputError(f"the text {shortened(text)} has no blank: put [MASK] where a token should be modelled")
    if targets is None:
        _refuse_too_long(len(ids), max_length)
        return Cloze(tuple(ids), tuple(blanks))
    filling = _filling(words, text, blanks, targets)
    widened: list[int] = []
    block: list[int] = []
    waiting = iter(filling)
    for token in ids:
        copies = len(next(waiting)) if token == words.mask_id else 1
        if token == words.mask_id:
            block += range(len(widened), len(widened) + copies)
        widened += [token] * copies
    _refuse_too_long(len(widened), max_length)
    return Cloze(tuple(widened), tuple(block), tuple(i for word in filling for i in word))


def _at_positions(words: TextTokenizer, ids: list[int], positions: Sequence[int]) -> Cloze:
    special = set(words.special_ids)
    positions = checks.wholes("positions", positions)
    for position in positions:
        if not 0 <= position < len(ids):
            raise InputError(f"position {position} is outside the text: its {len(ids)} tokens are numbered 0 to {len(ids) - 1}")
        if ids[position] in special:
            raise InputError(
                f"position {position} is the special token {words.token(ids[position])}: choose a position of a word"
            )
    masked = [words.mask_id if t in positions else token for t, token in enumerate(ids)]
    return Cloze(tuple(masked), tuple(int(p) for p in positions), tuple(ids[p] for p in positions))


def _filling(words: TextTokenizer, text: str, blanks: list[int], targets: Sequence[str]) -> list[list[int]]:
    """For each blank of the text the ids that go there."""
    if isinstance(targets, str) or not all(isinstance(target, str) for target in targets):
        raise InputError(f"targets {targets!r} is one string, or has what is none: give a list of words, one per blank")
    if not targets or len(targets) > len(blanks):
        raise InputError(f"{len(targets)} targets for {len(blanks)} blanks: give one word per blank")
    empty = [number for number, target in enumerate(targets, 1) if not target.strip()]
    if empty:
        raise InputError(f"target {empty[0]} of {len(targets)} is empty: give one word per blank")
    contexts = _contexts(words, text)
    if len(targets) == len(blanks):
        return [words.encode_word(target, *context) for target, context in zip(targets, contexts, strict=True)]
    filling: list[list[int]] = []
    for target in targets:
        if len(filling) == len(blanks):
            raise InputError(f"{list(targets)} is more tokens than the text's {len(blanks)} blanks: add a [MASK] for each")
        ids = words.encode_word(target, *contexts[len(filling)])
        run = blanks[len(filling) : len(filling) + len(ids)]
        if len(run) < len(ids) or any(b - a != 1 for a, b in pairwise(run)):
            shown = [words.token(i) for i in ids]
            raise InputError(f"target {target!r} is {len(ids)} tokens {shown}: give it {len(ids)} consecutive [MASK], or one")
        filling += [[i] for i in ids]
    if len(filling) < len(blanks):
        raise InputError(f"{list(targets)} is {len(filling)} tokens for {len(blanks)} blanks: give one word per blank")
    return filling


def _contexts(words: TextTokenizer, text: str) -> list[tuple[bool, bool]]:
    """For each blank: whether it is at the start of the text, and whether a space comes before it."""
    spelled = text.replace(BLANK, words.tokenizer.mask_token)
    before = [spelled[: match.start()] for match in re.finditer(re.escape(words.tokenizer.mask_token), spelled)]
    return [(not left.strip(), left[-1:].isspace()) for left in before]


def _refuse_too_long(tokens: int, max_length: int | None) -> None:
    if max_length is not None and tokens > max_length:
        raise InputError(f"the text has {tokens} tokens and the model takes {max_length}: shorten the text")
