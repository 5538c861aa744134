"""What some types of transformers' models need besides token ids, and the settings of which no right answer comes.

refused       transformers cannot compute it, or mixes the texts of a batch
left out      the network was trained with inputs that a text does not have: boxes, images, a language
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

from unmask.checks import shown
from unmask.errors import InputError, ModelError
from unmask.models.refusals import refuse_no_mask, refuse_no_tokenizer

HASH_SEED = 0
"""Of Reformer, if config.json has no hash_seed."""
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


def left_out(config: Any, name: str, lang: str | None) -> str | None:
    """The sentence that says which input the model was trained with and is not given; None if there is none."""
    kind = getattr(config, "model_type", None)
    what, advice = EXPECTED.get(str(kind)), "its answers may be far off, so do not rely on them"
    if kind == "roc_bert" and not (config.enable_shape or config.enable_pronunciation):
        what = None
    if kind in LANGUAGE_EMBEDDING and lang is None and _languages(config):
        what, advice = "the language of the text (langs)", f"name it with lang, one of {_listed(_languages(config))}"
    return what and f"{name} ({kind}) was trained with {what}, and is given none: {advice}"


def language_input(config: Any, name: str, lang: str | None) -> Callable[[Tensor], dict[str, Tensor]]:
    """The argument of a pass that names the language, as a function of the ids; none if the model has no languages."""
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
    """The languages that a text can be said to have, and their ids; by number where the config has no names."""
    kind = getattr(config, "model_type", None)
    if kind == "xmod":
        return {str(language): i for i, language in enumerate(config.languages)}
    if kind in LANGUAGE_EMBEDDING and config.use_lang_emb and config.n_langs > 1:
        return dict(getattr(config, "lang2id", None) or {str(i): i for i in range(config.n_langs)})
    return {}


def _listed(names: dict[str, int]) -> str:
    return ", ".join(list(names)[:MOST_NAMED]) + (", ..." if len(names) > MOST_NAMED else "")


class FreshPass:
    """Makes a pass independent of those before it."""

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
        with self._own_random_numbers() if self.hashing else contextlib.nullcontext():
            yield

    def _own_random_numbers(self) -> contextlib.AbstractContextManager[None]:
        """Reformer sets the seed of the whole process."""
        return torch.random.fork_rng([self.device] if self.device.type == "cuda" else [])
