"""Inputs of a model: ids and positions that it has, what some types of transformers need besides, and types that are refused.

refused       transformers cannot compute it, or mixes the texts of a batch
missing       the network was trained with inputs that a text does not have: boxes, images, a language
a language    an id for the text, for XLM, FlauBERT and X-MOD (`lang`)
a fresh pass  two types change with their passes: BigBird keeps full attention after a first short text, and Reformer draws
              its hashes at random and keeps the number of buckets of its first text
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import Tensor, nn

from unmask.checks import shown, whole
from unmask.errors import InputError, ModelError

HASH_SEED = 0
"""Reformer's seed, if config.json has no hash_seed."""
MOST_NAMED = 20
LANGUAGE_EMBEDDING = ("flaubert", "xlm")
"""Types that add an embedding of the language, if they know several."""
EXPECTED = {
    "layoutlm": "the box of each token on its page (bbox)",
    "modernvbert": "images (pixel_values)",
    "neomme": "images (pixel_values)",
    "roc_bert": "the shape and the pronunciation of each character (input_shape_ids, input_pronunciation_ids)",
    "tapas": "a table, with the row and column of each token (token_type_ids)",
    "ultravbert": "images (pixel_values)",
}
"""Inputs that a text does not have, by type."""


def refuse_unusable(network: Any, tokenizer: Any, name: str) -> None:
    """Raise if the two are not a model and a tokenizer of transformers, or of our own, or if the type is refused."""
    if not all(hasattr(network, part) for part in ("config", "base_model", "get_input_embeddings")):
        raise InputError(f"network {shown(network)} is not one of transformers: give what from_pretrained returns")
    refuse_no_tokenizer(tokenizer)
    refuse_no_mask(tokenizer)
    refuse_type(network.config, name)


def refuse_no_tokenizer(tokenizer: object) -> None:
    """Raise for what is not a tokenizer."""
    if not all(hasattr(tokenizer, name) for name in ("mask_token_id", "all_special_ids", "get_vocab", "convert_ids_to_tokens")):
        raise InputError(f"tokenizer {shown(tokenizer)} is not one of transformers: give what from_pretrained returns")


def refuse_no_mask(tokenizer: object) -> None:
    """Raise for a tokenizer without a mask token."""
    if getattr(tokenizer, "mask_token_id", None) is None:
        raise ModelError(
            f"tokenizer {type(tokenizer).__name__} has no mask token: give that of a masked language model, or mask_id"
        )


def refuse_outside(ids: Tensor, positions: Tensor, input_size: int) -> None:
    """Raise for token ids and positions that are not there; those on a GPU are not looked at, since that would wait for it."""
    for name, given in (("ids", ids), ("positions", positions)):
        if given.dim() != 2 or given.is_floating_point() or given.is_complex() or given.dtype == torch.bool:
            raise InputError(f"{name} {shown(given)} are not rows of whole numbers: give a tensor such as [[3, 4]]")
    for what, given, size in (("token id", ids, input_size), ("position", positions, ids.shape[1])):
        if given.device.type == "cpu" and given.numel():
            for value in given.aminmax():
                whole(what, value, 0, size - 1)
    if len(ids) != len(positions):
        raise InputError(f"{len(ids)} texts and {len(positions)} rows of positions were given: give one row for each text")


def refuse_type(config: Any, name: str) -> None:
    """Raise for a type, or a setting of it, that transformers does not compute right."""
    kind, why = getattr(config, "model_type", None), ""
    if kind == "mra":
        why = "transformers has its attention only as a CUDA kernel for texts of 32, 64, ... tokens, and gives zeros without it"
    elif kind == "nystromformer" and config.num_landmarks != config.segment_means_seq_len:
        why = (
            f"with num_landmarks {config.num_landmarks} and segment_means_seq_len {config.segment_means_seq_len} in its "
            "config.json its attention mixes the texts of a batch"
        )
    elif kind == "yoso" and not config.use_expectation:
        why = "with use_expectation false in its config.json its attention is drawn at random, by a CUDA kernel"
    elif kind in LANGUAGE_EMBEDDING and config.causal:
        why = "with causal true in its config.json it does not look ahead"
    elif kind == "flaubert" and config.pre_norm:
        why = "with pre_norm true in its config.json transformers' pass fails"
    if why:
        raise ModelError(f"{name} is a {kind} model, and {why}: use another model")


def missing_input(config: Any, name: str, lang: str | None) -> str | None:
    """A sentence about the input that the model was trained with and does not get; None if it gets all."""
    kind = getattr(config, "model_type", None)
    what, advice = EXPECTED.get(str(kind)), "its answers may be far off, so do not rely on them"
    if kind == "roc_bert" and not (config.enable_shape or config.enable_pronunciation):
        what = None
    if kind in LANGUAGE_EMBEDDING and lang is None and _languages(config):
        what, advice = "the language of the text (langs)", f"name it with lang, one of {_listed(_languages(config))}"
    return what and f"{name} ({kind}) was trained with {what}, and is given none: {advice}"


def language_input(config: Any, name: str, lang: str | None) -> Callable[[Tensor], dict[str, Tensor]]:
    """The argument of a pass that names the language, as a function of the ids; empty if `lang` is None."""
    languages, kind = _languages(config), getattr(config, "model_type", None)
    if lang is None:
        if kind == "xmod" and getattr(config, "default_language", None) not in languages:
            raise ModelError(
                f"{name} has no valid default_language in its config.json: name one of {_listed(languages)} there, or with lang"
            )
        return lambda ids: {}
    if not languages:
        raise InputError(f"lang {lang!r} was given, and {name} ({kind}) takes no language: leave it out")
    if lang not in languages:
        raise InputError(f"lang {lang!r} is not a language of {name}: use one of {_listed(languages)}")
    number = languages[lang]
    if kind == "xmod":
        return lambda ids: {"lang_ids": ids.new_full((len(ids),), number)}
    return lambda ids: {"langs": torch.full_like(ids, number)}


def _languages(config: Any) -> dict[str, int]:
    """The model's languages and their ids; a language without a name is called by its id."""
    kind = getattr(config, "model_type", None)
    if kind == "xmod":
        return {str(language): i for i, language in enumerate(config.languages)}
    if kind in LANGUAGE_EMBEDDING and config.use_lang_emb and config.n_langs > 1:
        return dict(getattr(config, "lang2id", None) or {str(i): i for i in range(config.n_langs)})
    return {}


def _listed(names: dict[str, int]) -> str:
    return ", ".join(list(names)[:MOST_NAMED]) + (", ..." if len(names) > MOST_NAMED else "")


class FreshPass:
    """Makes a pass independent of earlier passes."""

    def __init__(self, network: nn.Module) -> None:
        config: Any = network.config
        kind = getattr(config, "model_type", None)
        self.network, self.device = network, next(network.parameters()).device
        self.sparse = kind == "big_bird" and config.attention_type == "block_sparse"
        self.hashing = [module for module in network.modules() if kind == "reformer" and hasattr(module, "hash_seed")]
        self.unset = [module for module in self.hashing if config.num_buckets is None]
        for module in self.hashing:
            module.hash_seed = HASH_SEED if module.hash_seed is None else module.hash_seed  # type: ignore[assignment]

    @contextlib.contextmanager
    def __call__(self, tokens: int) -> Iterator[None]:
        """Inside, the network passes texts of this many tokens as if they were its first."""
        if self.sparse:
            config: Any = self.network.config
            full = tokens <= (5 + 2 * config.num_random_blocks) * config.block_size
            self.network.base_model.set_attention_type("original_full" if full else "block_sparse")  # type: ignore[union-attr, operator]
        for module in self.unset:
            module.num_buckets = None  # type: ignore[assignment]
        devices = [self.device] if self.device.type == "cuda" else []
        with torch.random.fork_rng(devices, enabled=bool(self.hashing)):  # Reformer sets the seed of the whole process
            yield
