"""A cloze: a text with blanks, as token ids from end to end."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from unmask.common import checks
from unmask.common.border.calls import trusted
from unmask.common.errors import InputError


@dataclass(frozen=True)
class Cloze:
    """Token ids of a whole text, special tokens included, and the block S of positions modelled
    jointly.

    ids     the whole text, with the mask token at every position of the block
    block   the positions of the blanks; their order is the order of the joint's axes
    gold    the tokens that stood there, if known

    >>> model = unmask.MaskedLM.load()
    >>> cloze = model.cloze("A [MASK] [MASK] here.")
    >>> cloze.block, len(cloze.ids)
    ((2, 3), 7)
    """

    ids: tuple[int, ...]
    block: tuple[int, ...]
    gold: tuple[int, ...] | None = None

    def __post_init__(self) -> None:
        self._make_tuple("ids")
        self._make_tuple("block")
        if self.gold is not None:
            self._make_tuple("gold")
        for token in (*self.ids, *(self.gold or ())):
            checks.whole("token id", token, 0, checks.MOST_TOKENS)
        if not self.block:
            raise InputError("the text has no blank: put [MASK] where a token should be modelled")
        if len(set(self.block)) != len(self.block):
            raise InputError(
                f"block {list(self.block)} names a position twice: name each position once"
            )
        for position in self.block:
            if not 0 <= position < len(self.ids):
                raise InputError(
                    f"position {position} is outside the text: its {len(self.ids)} tokens are"
                    f" numbered 0 to {len(self.ids) - 1}"
                )
        if self.gold is not None and len(self.gold) != len(self.block):
            raise InputError(
                f"{len(self.gold)} gold tokens for {len(self.block)} blanks: give one token per"
                " blank"
            )

    def _make_tuple(self, name: str) -> None:
        """Replace a field, any list of whole numbers, by a tuple of them."""
        numbers = checks.wholes(name, getattr(self, name))
        object.__setattr__(self, name, tuple(numbers))  # the class is frozen

    def filled(self, values: Sequence[int]) -> tuple[int, ...]:
        """The text's ids with `values` in the block."""
        tokens = checks.wholes("values", values)
        if len(tokens) != len(self.block):
            raise InputError(
                f"{len(tokens)} values for {len(self.block)} blanks: give one token per blank"
            )
        for token in tokens:
            checks.whole("token id", token, 0, checks.MOST_TOKENS)
        return ids_of_filling(self, tokens)


def ids_of_filling(cloze: Cloze, tokens: Sequence[int]) -> tuple[int, ...]:
    """The text's ids with one token in each blank. `Cloze.filled` is the same with a check."""
    ids = list(cloze.ids)
    for position, token in zip(cloze.block, tokens, strict=True):
        ids[position] = token
    return tuple(ids)


def whole_text(cloze: Cloze) -> tuple[int, ...]:
    """The text's ids with the gold tokens in its blanks; with masks where they are not known."""
    if cloze.gold is None:
        return cloze.ids
    return ids_of_filling(cloze, cloze.gold)


def cloze_of_ids(
    ids: Sequence[int], block: Sequence[int], gold: Sequence[int] | None = None
) -> Cloze:
    """The cloze of ids that a tokenizer made, or another cloze has: nothing is checked."""
    if gold is not None:
        gold = tuple(gold)
    return trusted(Cloze, ids=tuple(ids), block=tuple(block), gold=gold)


def blanked(ids: Sequence[int], block: Sequence[int], mask_id: int) -> Cloze:
    """A whole text with blanks at `block`, whose tokens are the gold ones. Nothing is checked."""
    masked = list(ids)
    for position in block:
        masked[position] = mask_id
    gold = [ids[position] for position in block]
    return cloze_of_ids(masked, block, gold)
