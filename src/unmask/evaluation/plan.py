"""What a run will do, settled before the first pass: the pairs, and the settings that a resumed run must share."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from unmask.errors import InputError
from unmask.evaluation.conllu import Parse
from unmask.evaluation.datasets import Text, read_texts
from unmask.evaluation.measure import COLUMNS, about_pair, as_table, schema
from unmask.evaluation.pairs import Pair, choose_pairs
from unmask.evaluation.pairs_file import pairs_as_lines, read_pairs
from unmask.joints.registry import all_named
from unmask.models.masked_lm import MaskedLM
from unmask.models.text.words import alphabet_ids, alphabet_tokens
from unmask.options.evaluation import EvaluateOptions
from unmask.runs.fingerprint import content_hash

SAME_CONTENT = {"model": "weights", "data": "data_sha256", "pairs_file": "pairs_sha256"}
"""Settings that may be written differently as long as what they name is the same: setting, and the one that is compared."""


@dataclass(frozen=True)
class Request(EvaluateOptions):
    """What the user asked for, checked before a model is loaded."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if (self.data is None) == (self.pairs_file is None):
            given = "neither data nor pairs_file was given" if self.data is None else "data and pairs_file were both given"
            raise InputError(f"{given}: give one of the two")
        if self.alphabet is not None and self.support != "regular":
            raise InputError(f"alphabet and support {self.support} exclude each other: leave one out")
        if self.arnold_gokhale_steps is not None and "arnold_gokhale" not in self.constructions:
            raise InputError(
                f"arnold_gokhale_steps was given, but arnold_gokhale is not among {', '.join(self.constructions)}: "
                "add it, or leave the steps out"
            )
        if isinstance(self.model, MaskedLM) and self.engine == "ray":
            raise InputError("engine ray loads the model in every worker: give its folder or name, not a loaded model")

    @property
    def model_name(self) -> str:
        """The model as settings name it."""
        return (
            "bundled" if self.model is None else "a loaded model" if isinstance(self.model, MaskedLM) else os.fspath(self.model)
        )

    @property
    def constructions(self) -> list[str]:
        """The names of the constructions, in the order asked for."""
        return [construction.name for construction in all_named(self.joints)]


@dataclass(frozen=True)
class Support:
    """The alphabet's tokens, if one was given; the ids that pairs are chosen from; those that joints run over (None: all)."""

    alphabet: tuple[str, ...] | None
    regular: tuple[int, ...]
    joints: tuple[int, ...] | None


def support_of(request: Request, model: MaskedLM) -> Support:
    """What is known of a plan before a text is read."""
    alphabet = None if request.alphabet is None else tuple(alphabet_tokens(request.alphabet))
    regular = model.regular_ids if alphabet is None else tuple(sorted(alphabet_ids(model.words, alphabet)))
    return Support(alphabet, regular, None if request.support == "all" else regular)


@dataclass(frozen=True)
class Plan:
    """The pairs to measure, the settings, and the texts skipped by reason."""

    pairs: list[Pair]
    settings: dict[str, Any]
    skipped: Counter[str]


def make_plan(request: Request, model: MaskedLM, support: Support, device: str) -> Plan:
    """The pairs and settings of `request` for `model`; `device` is the kind of device that will measure them."""
    settings: dict[str, Any] = {
        "dtype": str(model.dtype).removeprefix("torch."),
        "device": device,
        "model": request.model_name,
        "weights": model.fingerprint,
        "constructions": request.constructions,
        "arnold_gokhale_steps": request.arnold_gokhale_steps,
        "support": request.support,
        "alphabet": None if support.alphabet is None else list(support.alphabet),
        "data": None,
        "pairs_file": None,
    }
    special = sorted(set(range(model.vocab_size)) - set(support.regular))
    encode, limit, skipped = model.words.encode, model.max_length, Counter[str]()
    if request.pairs_file is not None:
        settings["pairs_file"] = str(request.pairs_file)
        pairs = read_pairs(request.pairs_file, encode, special, COLUMNS, limit)
    else:
        assert request.data is not None
        texts = read_texts(request.data)
        chosen = choose_pairs(texts, encode, special, request.scheme, request.pairs, request.seed, limit)
        pairs, skipped = _with_syntax(chosen.pairs, texts, model), chosen.skipped
        settings["data"] = str(request.data) if isinstance(request.data, str | os.PathLike) else f"{len(texts)} given texts"
        settings["data_sha256"] = content_hash("\n".join(text.text for text in texts))
        settings |= {"scheme": request.scheme, "pairs": request.pairs, "seed": request.seed}
    settings["pairs_sha256"] = content_hash(pairs_as_lines(pairs))
    as_table([about_pair(pair, model.decode(pair.gold), 0.0) for pair in pairs], schema(pairs))
    return Plan(pairs, settings, skipped)


def _with_syntax(pairs: Sequence[Pair], texts: Sequence[Text], model: MaskedLM) -> list[Pair]:
    """The pairs with their distance in the dependency tree, where their text has one."""
    found = []
    for pair in pairs:
        parse = texts[pair.text_index].parse
        found.append(pair if parse is None else replace(pair, syntactic_distance=_distance(pair, parse, model)))
    return found


def _distance(pair: Pair, parse: Parse, model: MaskedLM) -> int | None:
    """None if the tokenizer does not say which characters of the text a token covers."""
    spans = model.words.spans(pair.text) if model.words.prepared(pair.text) == pair.text else None
    if spans is None:
        return None
    words = parse.words_of(pair.text, spans)
    return parse.token_distance(words[pair.block[0]], words[pair.block[1]])
