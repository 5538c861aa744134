"""A RoBERTa that was trained with fairseq, under the names of transformers.

fairseq keeps a model as a pickle with its training options, which is never opened here. Take the dictionary of tensors out of it
yourself, if you trust it (docs/bring-your-own-model.md); `heads_of` finds the number of heads among its options, and
`roberta_from_fairseq` gives the folder that `unmask` reads.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from unmask.errors import InputError
from unmask.models.text.vocabulary import tokenizer_from_vocabulary
from unmask.runs.outputs import output_folder

NAMES = {
    r".*sentence_encoder\.embed_tokens\.": "roberta.embeddings.word_embeddings.",
    r".*sentence_encoder\.embed_positions\.": "roberta.embeddings.position_embeddings.",
    r".*sentence_encoder\.(layernorm_embedding|emb_layer_norm)\.": "roberta.embeddings.LayerNorm.",
    r".*sentence_encoder\.layers\.": "roberta.encoder.layer.",
    r"\.self_attn\.q_proj\.": ".attention.self.query.",
    r"\.self_attn\.k_proj\.": ".attention.self.key.",
    r"\.self_attn\.v_proj\.": ".attention.self.value.",
    r"\.self_attn\.out_proj\.": ".attention.output.dense.",
    r"\.self_attn_layer_norm\.": ".attention.output.LayerNorm.",
    r"\.fc1\.": ".intermediate.dense.",
    r"\.fc2\.": ".output.dense.",
    r"\.final_layer_norm\.": ".output.LayerNorm.",
    r".*lm_head\.weight$": "lm_head.decoder.weight",
    r".*lm_head\.": "lm_head.",
}
"""Regular expressions over fairseq's names, applied in this order."""
ONLY_AS_HERE = {"activation_fn": "gelu", "encoder_normalize_before": False}
"""Options of fairseq that no tensor shows, and their values in a RoBERTa."""
BEFORE, AFTER = ("<s>", "<pad>", "</s>", "<unk>"), ("<mask>",)
"""Tokens that fairseq puts before and after those of its dict.txt."""


def heads_of(checkpoint: Mapping[str, Any]) -> int:
    """The number of attention heads among a checkpoint's options, which lie in `args`, or in `cfg` under `model`.

    Raises InputError for options that would make another network than the one that is written here.
    """
    kept = checkpoint.get("args") or (checkpoint.get("cfg") or {}).get("model")
    options: Mapping[str, Any] = kept if isinstance(kept, Mapping) else vars(kept) if hasattr(kept, "__dict__") else {}
    heads = options.get("encoder_attention_heads")
    if heads is None:
        raise InputError(
            "the checkpoint has no encoder_attention_heads in args or cfg.model: give the number of heads of its architecture"
        )
    for name, value in ONLY_AS_HERE.items():
        if options.get(name, value) != value:
            raise InputError(f"the checkpoint has {name} {options[name]!r}, and a RoBERTa has {value!r}: it cannot be converted")
    return int(heads)


def roberta_from_fairseq(
    tensors: Mapping[str, Tensor], tokens: Sequence[str], heads: int, folder: str | Path, pattern: str | None = None
) -> None:
    """Write the folder of a RoBERTa: config.json, model.safetensors and tokenizer.json.

    tensors   the checkpoint's own, by fairseq's names
    tokens    those of dict.txt, in order: the first word of each line
    heads     the number of attention heads, which no tensor shows; see `heads_of`
    pattern   a regular expression whose matches are the tokens, unless they are letters; see `vocabulary`
    """
    from safetensors.torch import save_file

    renamed = {_renamed(name): tensor for name, tensor in tensors.items() if name.endswith((".weight", ".bias"))}
    layers = {int(found[1]) for name in renamed if (found := re.match(r"roberta\.encoder\.layer\.(\d+)\.", name))}
    words, places = (renamed.get(f"roberta.embeddings.{name}_embeddings.weight") for name in ("word", "position"))
    if words is None or places is None or not layers:
        raise InputError(
            "these are not the tensors of a fairseq RoBERTa: sentence_encoder.embed_tokens or its layers are missing"
        )
    vocabulary = [*BEFORE, *tokens, *AFTER]
    if len(vocabulary) > len(words):
        raise InputError(
            f"{len(tokens)} tokens and {len(BEFORE + AFTER)} special ones, but {len(words)} embeddings: give its dict.txt"
        )
    renamed["roberta.embeddings.token_type_embeddings.weight"] = torch.zeros(1, words.shape[1])
    config = {
        "architectures": ["RobertaForMaskedLM"],
        "model_type": "roberta",
        "vocab_size": len(words),
        "hidden_size": words.shape[1],
        "num_hidden_layers": len(layers),
        "num_attention_heads": heads,
        "intermediate_size": len(renamed["roberta.encoder.layer.0.intermediate.dense.weight"]),
        "max_position_embeddings": len(places),
        "type_vocab_size": 1,
        "layer_norm_eps": 1e-5,
        "pad_token_id": 1,
    }
    folder = output_folder("folder", folder)
    if folder.is_dir() and any(folder.iterdir()):
        raise InputError(f"folder {str(folder)!r} is not empty: name a new one")
    tokenizer_from_vocabulary(vocabulary, pattern, max_length=len(places) - 2).save_pretrained(folder)
    (folder / "config.json").write_text(json.dumps(config, indent=2) + "\n", encoding="utf-8")
    save_file({name: tensor.clone() for name, tensor in renamed.items()}, folder / "model.safetensors", {"format": "pt"})


def _renamed(name: str) -> str:
    for old, new in NAMES.items():
        name = re.sub(old, new, name, count=1)
    return name
