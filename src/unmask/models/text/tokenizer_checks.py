"""Tokenizers that cannot be the one that a model was trained with.

Each check compares a tokenizer with what else is known: the vocabulary file beside the weights,
the settings of the model, its number of embeddings.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from unmask.common.errors import ModelError
from unmask.common.warn import warn
from unmask.models.checkpoint_files import Source, read_json
from unmask.models.text.folder_tokenizer import core_of
from unmask.models.text.tokenizer_config import given_special_tokens, tokenizer_config
from unmask.models.text.vocabulary import SPELLINGS, is_bracketed, read_vocabulary

ADVICE = (
    "make tokenizer.json with the rule that the model was trained with (documentation: Bring your"
    " own model)"
)
FEWEST_CAPITALS = 3
SHARE_OF_CAPITALS = 0.05
"""A vocabulary has capitals on purpose if words with a capital are at least FEWEST_CAPITALS of
its regular tokens, and at least this share of them.
"""
CAPITALS_TRIED = 50  # Tokens with a capital that are tokenised to see whether they are lowered
PADDED_TO = (64, 128)
"""Models round the number of their embeddings up to a multiple of one of these, for speed. The
embeddings without a token that this leaves call for no warning.
"""
FEW_UNUSED = 8
SHARE_UNUSED = 0.02
"""Nor do as few embeddings without a token as published models have: FEW_UNUSED, or this share
of the embeddings if that is more.
"""


def refuse_other_mask(tokenizer: Any, source: Source) -> None:
    """Raise if the tokenizer's mask is not the model's.

    ESM states the id of its mask in config.json, and sets the embedding of this id to 0. Of any
    model, the mask is the one in its vocabulary: somebody may have added [MASK] to a vocabulary
    with <mask>, and the model never saw [MASK].
    """
    vocabulary = tokenizer.get_vocab()
    zeroed = None
    if source.config.get("token_dropout"):
        zeroed = source.config.get("mask_token_id")
    if isinstance(zeroed, int) and zeroed != tokenizer.mask_token_id:
        raise ModelError(
            f"config.json of {source.name!r} says mask_token_id {zeroed}, and"
            f" {tokenizer.mask_token!r} of its tokenizer has id {tokenizer.mask_token_id}: use the"
            " tokenizer that the model was trained with, or correct mask_token_id"
        )
    if _is_named_mask_of_vocabulary(tokenizer, source):  # it counts more than a usual spelling
        return
    for spelling in SPELLINGS["mask"]:
        if spelling in vocabulary and vocabulary[spelling] != tokenizer.mask_token_id:
            raise ModelError(
                f"the tokenizer of {source.name!r} takes {tokenizer.mask_token!r} (id"
                f" {tokenizer.mask_token_id}) for its mask, but its vocabulary has {spelling!r} (id"
                f" {vocabulary[spelling]}): name it as mask_token in tokenizer_config.json"
            )


def _is_named_mask_of_vocabulary(tokenizer: Any, source: Source) -> bool:
    """Whether tokenizer_config.json names the tokenizer's mask, and the vocabulary itself, not
    the tokens that were added to it, has this token.
    """
    if not source.local:
        return False
    named = given_special_tokens(tokenizer_config(source)).get("mask")
    core = core_of(tokenizer)
    if core is None or named != tokenizer.mask_token:
        return False
    return named in core.get_vocab(with_added_tokens=False)


def refuse_unread_mask(tokenizer: Any, source: Source) -> None:
    """Raise if the mask token is not read as one token, as where letters are cut apart."""
    two_masks = tokenizer(2 * tokenizer.mask_token, verbose=False)["input_ids"]
    if two_masks.count(tokenizer.mask_token_id) != 2:
        raise ModelError(
            f"the tokenizer of {source.name!r} does not read {tokenizer.mask_token!r} as its mask"
            f" token: {ADVICE}"
        )


def refuse_other_vocabulary(tokenizer: Any, source: Source) -> None:
    """Raise if a vocabulary file beside the weights gives other ids."""
    listed = _listed_ids(source.folder) if source.local else {}
    known = tokenizer.get_vocab()
    other = [(token, i) for token, i in listed.items() if token and known.get(token) != i]
    if other:
        token, i = other[0]
        raise ModelError(
            f"the tokenizer of {source.name!r} is not that of its vocabulary file, for"
            f" {len(other):,} of {len(listed):,} tokens: {token!r} is {i} there and"
            f" {known.get(token)} in the tokenizer, which has {len(known):,} tokens; {ADVICE}"
        )


def _listed_ids(folder: Path) -> dict[str, int]:
    """The tokens and ids of a vocab.txt or vocab.json beside the weights; empty if there is
    none that can be read.
    """
    if (folder / "vocab.txt").is_file():
        return {token: i for i, token in enumerate(read_vocabulary(folder / "vocab.txt"))}
    try:
        ids = read_json(folder / "vocab.json", remedy="")  # the error is not shown
    except ModelError:
        return {}
    return ids if all(isinstance(i, int) for i in ids.values()) else {}


def refuse_shared_ids(tokenizer: Any, source: Source) -> None:
    """Raise if two regular tokens have one id: a text of one would get the numbers of the other."""
    core = core_of(tokenizer)
    if core is None:
        return
    ids = core.get_vocab(with_added_tokens=False)
    if len(set(ids.values())) == len(ids):  # nearly every vocabulary: nothing to sort
        return
    tokens: dict[int, str] = {}
    for token, i in sorted(ids.items()):
        if i in tokens:
            problem = f"gives {tokens[i]!r} and {token!r} one id, {i}"
            raise ModelError(
                f"the tokenizer of {source.name!r} {problem}: correct its vocabulary; {ADVICE}"
            )
        tokens[i] = token


def refuse_lost_capitals(tokenizer: Any, source: Source) -> None:
    """Raise for a tokenizer that lowers the text, over a vocabulary with capitals: most of it
    could never occur.
    """
    special = set(tokenizer.all_special_tokens)
    regular = [
        token
        for token in sorted(tokenizer.get_vocab())
        if token not in special and not is_bracketed(token)
    ]
    with_capital = [token for token in regular if _is_word_with_capital(token)]
    if len(with_capital) < max(FEWEST_CAPITALS, SHARE_OF_CAPITALS * len(regular)):
        return
    text = " ".join(with_capital[:CAPITALS_TRIED])
    ids = tokenizer(text, add_special_tokens=False, verbose=False)["input_ids"]
    of_lowered = tokenizer(text.lower(), add_special_tokens=False, verbose=False)["input_ids"]
    if ids == of_lowered:
        raise ModelError(
            f"the tokenizer of {source.name!r} lowers the text, but {len(with_capital):,} of"
            f' {len(regular):,} tokens have capitals: write "do_lower_case": false in'
            ' tokenizer_config.json (or "lowercase": false in tokenizer.json)'
        )


def _is_word_with_capital(token: str) -> bool:
    return token.isalpha() and token.isascii() and token != token.lower()


def refuse_foreign_tokenizer(
    tokenizer: Any, embeddings: int, name: str, used: Sequence[str] = ("mask",)
) -> None:
    """Raise when the tokenizer has a token that a model of `embeddings` tokens does not know.

    The model may lack special tokens, except those of the kinds in `used`, which a text needs.
    """
    needed = {getattr(tokenizer, f"{kind}_token_id") for kind in used}
    ignored = set(tokenizer.all_special_ids) - needed
    beyond = sorted(
        (i, token)
        for token, i in tokenizer.get_vocab().items()
        if i >= embeddings and i not in ignored
    )
    if beyond:
        raise ModelError(
            f"{len(beyond)} tokens of the tokenizer of {name!r}, {beyond[0][1]!r} first, are"
            f" unknown to the model, which has {embeddings}: use the tokenizer that the model was"
            " trained with"
        )


def warn_of_few_tokens(tokenizer: Any, embeddings: int, name: str) -> None:
    """Warn when the tokenizer has far fewer tokens than the model: it may be another model's."""
    tokens = len(set(tokenizer.get_vocab().values()))
    unused = embeddings - tokens
    rounded_up = [-(-tokens // multiple) * multiple for multiple in PADDED_TO]
    is_padded = embeddings in rounded_up
    if is_padded or unused <= max(FEW_UNUSED, SHARE_UNUSED * embeddings):
        return
    sizes = (
        f"the tokenizer of {name!r} has {tokens:,} tokens and the model {embeddings:,} embeddings"
    )
    advice = (
        "if it is another model's, the numbers mean nothing; check with texts of your own as its"
        " data shows it"
    )
    warn(f"{sizes}: {advice}")
