"""A cloze: a text with blanks, as token ids from end to end."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Literal

from annotated_types import Interval

from unmask.common import checks
from unmask.common.border.calls import checked, settings, trusted
from unmask.common.errors import InputError

Others = Literal["masked", "text"]
"""What stands at the other positions of a block while two of them are looked at: blanks, or the
tokens of the whole text.
"""
TokenId = Annotated[int, Interval(ge=0, le=checks.MOST_TOKENS)]


@settings
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

    ids: tuple[TokenId, ...]
    block: tuple[int, ...]
    gold: tuple[TokenId, ...] | None = None

    def __post_init__(self) -> None:
        if not self.block:
            raise InputError("the text has no blank: put [MASK] where a token should be modelled")
        if len(set(self.block)) != len(self.block):
            raise InputError(
                f"{list(self.block)} names a position twice",
                argument="block",
                use="name each position once",
            )
        for position in self.block:
            if not 0 <= position < len(self.ids):
                raise InputError(
                    f"{list(self.block)} has position {position}, which is outside the text",
                    argument="block",
                    use=f"the {len(self.ids)} tokens are numbered 0 to {len(self.ids) - 1}",
                )
        if self.gold is not None and len(self.gold) != len(self.block):
            raise InputError(
                f"has {len(self.gold)} tokens for {len(self.block)} blanks",
                argument="gold",
                use="give one token per blank",
            )

    @checked
    def filled(self, values: Sequence[TokenId]) -> tuple[int, ...]:
        """The text's ids with `values` in the block."""
        if len(values) != len(self.block):
            raise InputError(
                f"has {len(values)} tokens for {len(self.block)} blanks",
                argument="values",
                use="give one token per blank",
            )
        return ids_of_filling(self, values)


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


def pair_cloze(cloze: Cloze, a: int, b: int, others: Others) -> Cloze:
    """The text with places a and b of the block blank, and the block's other positions as
    `others` says. Where the cloze has no gold tokens, these are blank.
    """
    block = (cloze.block[a], cloze.block[b])
    if cloze.gold is None:
        return cloze_of_ids(cloze.ids, block)
    if others == "masked":
        return cloze_of_ids(cloze.ids, block, (cloze.gold[a], cloze.gold[b]))
    mask_id = cloze.ids[block[0]]
    return blanked(whole_text(cloze), block, mask_id)
