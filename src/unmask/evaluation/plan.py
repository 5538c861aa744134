"""What a run will do, settled before the first pass: the pairs, and the settings that a resumed run must share."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch

from unmask.errors import InputError
from unmask.evaluation.alignment import syntactic_distance, words_of_tokens
from unmask.evaluation.conllu import Parse
from unmask.evaluation.datasets import Text, read_texts
from unmask.evaluation.pairs import Pair, choose_pairs
from unmask.evaluation.pairs_file import pairs_as_lines, read_pairs
from unmask.evaluation.results import COLUMNS
from unmask.evaluation.run_folder import content_hash
from unmask.joints.registry import CONSTRUCTIONS, all_named
from unmask.models.masked_lm import MaskedLM


@dataclass(frozen=True)
class Request:
    """What the user asked for. Either `data` (with scheme, pairs and seed) or `pairs_file`."""

    model: str | None = None
    data: str | None = None
    pairs_file: str | None = None
    scheme: str = "random"
    pairs: int = 1000
    seed: int = 0
    constructions: tuple[str, ...] = tuple(CONSTRUCTIONS)
    arnold_gokhale_steps: int | None = None
    device: str = "auto"
    dtype: str = "auto"


@dataclass(frozen=True)
class Plan:
    """The pairs to measure, the settings of the run, and how many texts were skipped by reason."""

    pairs: list[Pair]
    settings: dict[str, Any]
    skipped: Counter[str]


def check(request: Request) -> None:
    """Refuse what can be refused before a model is loaded."""
    if (request.data is None) == (request.pairs_file is None):
        raise InputError("give the texts either with --data or with --pairs-file")
    names = [construction.name for construction in all_named(request.constructions)]
    if request.arnold_gokhale_steps is not None and "arnold_gokhale" not in names:
        raise InputError(
            f"arnold_gokhale_steps was given, but arnold_gokhale is not among {', '.join(names)}: add it, or leave them out"
        )
    if request.arnold_gokhale_steps is not None and request.arnold_gokhale_steps < 1:
        raise InputError(f"{request.arnold_gokhale_steps} Arnold-Gokhale steps were asked for: use 1 or more, or leave it out")


def make_plan(request: Request, model: MaskedLM, device: str) -> Plan:
    """The pairs and settings of `request` for `model`; `device` is the kind of device that will measure them."""
    settings: dict[str, Any] = {
        "model": request.model or "bundled",
        "weights": weights_fingerprint(model.network),
        "dtype": str(model.dtype).removeprefix("torch."),
        "device": device,
        "constructions": list(request.constructions),
        "arnold_gokhale_steps": request.arnold_gokhale_steps,
        "data": request.data,
        "pairs_file": request.pairs_file,
    }
    encode, limit, skipped = model.words.encode, model.max_length, Counter[str]()
    if request.pairs_file is not None:
        pairs = read_pairs(request.pairs_file, encode, model.special_ids, COLUMNS, limit)
    else:
        assert request.data is not None
        texts = read_texts(request.data)
        chosen = choose_pairs(texts, encode, model.special_ids, request.scheme, request.pairs, request.seed, limit)
        pairs, skipped = _with_syntax(chosen.pairs, texts, model), chosen.skipped
        settings["data_sha256"] = content_hash("\n".join(text.text for text in texts))
        settings |= {"scheme": request.scheme, "pairs": request.pairs, "seed": request.seed}
    settings["pairs_sha256"] = content_hash(pairs_as_lines(pairs))
    return Plan(pairs, settings, skipped)


def _with_syntax(pairs: Sequence[Pair], texts: Sequence[Text], model: MaskedLM) -> list[Pair]:
    """The pairs with their distance in the dependency tree, where their text has one."""
    found = []
    for pair in pairs:
        parse = texts[pair.text_index].parse
        found.append(pair if parse is None else replace(pair, syntactic_distance=_distance(pair, parse, model)))
    return found


def _distance(pair: Pair, parse: Parse, model: MaskedLM) -> int | None:
    """None where the tokenizer cannot tell which characters of the text a token covers."""
    if model.words.prepared(pair.text) != pair.text:
        return None
    try:
        offsets = model.tokenizer(pair.text, return_offsets_mapping=True)["offset_mapping"]
    except NotImplementedError:
        return None
    words = words_of_tokens(pair.text, offsets, parse)
    return syntactic_distance(parse, words[pair.block[0]], words[pair.block[1]])


def weights_fingerprint(network: torch.nn.Module, values: int = 64) -> str:
    """Identifies the weights by up to `values` numbers of each tensor, spread evenly."""
    digest = hashlib.sha256()
    for name, tensor in sorted(network.state_dict().items()):
        flat = tensor.detach().flatten()
        picked = flat[:: max(1, len(flat) // values)].to(torch.float64 if flat.is_floating_point() else torch.int64)
        digest.update(f"{name} {tuple(tensor.shape)}".encode())
        digest.update(picked.cpu().numpy().tobytes())
    return digest.hexdigest()[:16]
