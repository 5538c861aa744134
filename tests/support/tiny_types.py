"""A tiny model of every type that transformers has as a masked language model: settings, random
weights, a tokenizer.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from tokenizers import Tokenizer, models, pre_tokenizers, processors
from transformers import (
    AutoConfig,
    AutoModelForMaskedLM,
    PerceiverTokenizer,
    PreTrainedTokenizerFast,
)

SPECIALS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
WORDS = """
    the a cat dog bird fox sat ran sang slept on in under mat house tree old small red quiet . ,
""".split()
VOCABULARY = [*SPECIALS, *WORDS]
POSITIONS = 48
SHAPE = {
    "hidden_size": 16,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "intermediate_size": 24,
}
COMMON = {"vocab_size": len(VOCABULARY), "pad_token_id": 0, "max_position_embeddings": POSITIONS}
ENDS = {"bos_token_id": 2, "eos_token_id": 3}
LANGUAGES = {
    "emb_dim": 16,
    "n_layers": 2,
    "n_heads": 2,
    "mask_index": 4,
    "unk_index": 1,
    "pad_index": 0,
    "n_langs": 3,
}
LANGUAGES |= {"lang2id": {"de": 0, "en": 1, "fr": 2}, "id2lang": {0: "de", 1: "en", 2: "fr"}}
RELATIVE = {"pos_att_type": ["p2c", "c2p"], "relative_attention": True}
IMAGES = {
    "hidden_size": 16,
    "num_hidden_layers": 1,
    "num_attention_heads": 2,
    "intermediate_size": 16,
    "image_size": 16,
}
IMAGES |= {"patch_size": 8}
SETTINGS: dict[str, dict[str, Any]] = {
    "albert": SHAPE | {"embedding_size": 8},
    "bart": {
        "d_model": 16,
        "encoder_layers": 1,
        "decoder_layers": 1,
        "encoder_attention_heads": 2,
        "decoder_attention_heads": 2,
    }
    | {"encoder_ffn_dim": 16, "decoder_ffn_dim": 16},
    "big_bird": SHAPE | ENDS | {"block_size": 4, "num_random_blocks": 1, "sep_token_id": 3},
    "convbert": SHAPE | {"embedding_size": 8, "conv_kernel_size": 3},
    "deberta": SHAPE | RELATIVE | {"max_relative_positions": POSITIONS},
    "deberta-v2": SHAPE | RELATIVE | {"position_buckets": 8},
    "distilbert": {"dim": 16, "hidden_dim": 24, "n_layers": 2, "n_heads": 2},
    "electra": SHAPE | {"embedding_size": 8},
    "esm": SHAPE | {"mask_token_id": 4, "position_embedding_type": "rotary", "token_dropout": True},
    "esmc": SHAPE | ENDS | {"mask_token_id": 4},
    "eurobert": SHAPE | ENDS | {"mask_token_id": 4},
    "flaubert": LANGUAGES | {"n_langs": 1, "lang2id": {}, "id2lang": {}},
    "funnel": {
        "d_model": 16,
        "n_head": 2,
        "d_head": 8,
        "d_inner": 24,
        "block_sizes": [1, 1],
        "num_decoder_layers": 1,
    },
    "longformer": SHAPE | ENDS | {"attention_window": 8, "sep_token_id": 3},
    "luke": SHAPE | ENDS | {"entity_vocab_size": 8, "entity_emb_size": 8},
    "mobilebert": (
        SHAPE | {"embedding_size": 8, "intra_bottleneck_size": 8, "num_feedforward_networks": 2}
    ),
    "modernbert": SHAPE | ENDS | {"cls_token_id": 2, "sep_token_id": 3, "local_attention": 8},
    "neomme": (
        SHAPE
        | {
            "embedding_rank": 8,
            "num_key_value_heads": 1,
            "head_dim": 16,
            "sliding_window": 4,
            "patch_size": 4,
        }
        | {"embedding_dim": 8, "num_hidden_layers": 3}
    ),
    "nystromformer": (
        SHAPE | ENDS | {"num_landmarks": 8, "segment_means_seq_len": 8, "conv_kernel_size": 3}
    ),
    "perceiver": (
        {"num_latents": 4, "d_latents": 16, "d_model": 16, "num_self_attends_per_block": 2}
        | {"num_self_attention_heads": 2, "num_cross_attention_heads": 2, "vocab_size": 262}
    ),
    "reformer": (
        {
            "hidden_size": 16,
            "num_attention_heads": 2,
            "attention_head_size": 8,
            "feed_forward_size": 24,
        }
        | {
            "attn_layers": ["local", "lsh"],
            "axial_pos_shape": [6, 8],
            "axial_pos_embds_dim": [8, 8],
            "num_buckets": 4,
        }
        | {"local_attn_chunk_length": 4, "lsh_attn_chunk_length": 4, "hash_seed": 0}
    ),
    "rembert": SHAPE | ENDS | {"input_embedding_size": 8, "output_embedding_size": 8},
    "roc_bert": (
        SHAPE
        | {
            f"{what}_{size}": 8
            for what in ("pronunciation", "shape")
            for size in ("embed_dim", "vocab_size")
        }
    ),
    "roformer": SHAPE | {"embedding_size": 16},
    "squeezebert": (
        SHAPE
        | {
            "embedding_size": 16,
            "q_groups": 2,
            "k_groups": 2,
            "v_groups": 2,
            "intermediate_groups": 2,
        }
        | {"output_groups": 2}
    ),
    "ultrabert": SHAPE | ENDS | {"sliding_window": 4, "prediction_head_size": 16},
    "xlm": LANGUAGES,
    "xmod": SHAPE | {"languages": ["en_XX", "de_DE"], "default_language": "en_XX"},
}
SETTINGS["mbart"] = SETTINGS["mvp"] = SETTINGS["bart"]

OUTCOMES: dict[str, str] = {
    "works": (
        """
        albert bert big_bird camembert convbert data2vec-text deberta-v2 distilbert electra ernie
        esm esmc eurobert flaubert funnel gte ibert jina_embeddings_v3 longformer luke megatron-bert
        mobilebert modernbert mpnet nomic_bert nystromformer perceiver rembert roberta
        roberta-prelayernorm roformer squeezebert ultrabert xlm-roberta xlm-roberta-xl xmod yoso
    """
    ),
    "works, but not in half precision, where its code in transformers fails": (
        "deberta fnet reformer"
    ),
    (
        "works, with a warning: it was trained with boxes, images, tables, shapes or languages,"
        " which a text does not have"
    ): (
        """
        layoutlm modernvbert neomme roc_bert tapas ultravbert xlm
    """
    ),
    "refused: an encoder-decoder": "bart mbart mvp",
    "refused: transformers has its attention only as a CUDA kernel, and gives zeros without it": (
        "mra"
    ),
}
"""What comes of each type, in the words of docs/bring-your-own-model.md."""
REFUSED_SETTINGS: dict[tuple[str, str], tuple[dict[str, Any], str]] = {
    ("`flaubert` with `pre_norm` true", "transformers' pass fails"): (
        {"pre_norm": True},
        "with pre_norm true",
    ),
    (
        "`nystromformer` with `num_landmarks` other than `segment_means_seq_len`",
        "its attention mixes the texts of a batch",
    ): (
        {"num_landmarks": 4},
        "num_landmarks 4 and segment_means_seq_len 8",
    ),
    ("`xlm`, `flaubert` with `causal` true", "it does not look ahead"): (
        {"causal": True},
        "with causal true",
    ),
    ("`xmod` without `default_language`", "its pass fails"): (
        {"default_language": None},
        "Input language unknown",
    ),
    ("`yoso` with `use_expectation` false", "its attention is drawn at random"): (
        {"use_expectation": False},
        "use_expectation",
    ),
}
"""Settings that are refused and why, as that page says it; what makes the setting, and what the
message must have.
"""


def settings_of(kind: str) -> dict[str, Any]:
    """The settings of a tiny model."""
    if kind in ("modernvbert", "ultravbert"):
        below = "modernbert" if kind == "modernvbert" else "ultrabert"
        text = {"model_type": below} | COMMON | SETTINGS[below]
        return {
            "text_config": text,
            "vision_config": IMAGES,
            "image_token_id": len(VOCABULARY) - 1,
            "pixel_shuffle_factor": 2,
        }
    return COMMON | SETTINGS.get(kind, SHAPE)


def tiny_network(kind: str, seed: int = 0, **changes: Any) -> Any:
    """A network whose conditionals spread over nats, in evaluation mode."""
    network = AutoModelForMaskedLM.from_config(
        AutoConfig.for_model(kind, **(settings_of(kind) | changes))
    )
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for name, weight in network.named_parameters():
            noise = torch.randn(weight.shape, generator=generator)
            scales = weight.dim() == 1 and "bias" not in name
            weight.copy_(1 + 0.2 * noise if scales else 0.4 * noise)
    return network.eval()


def tiny_tokenizer(kind: str = "bert") -> Any:
    """Whole words, or Perceiver's bytes."""
    if kind == "perceiver":
        return PerceiverTokenizer(model_max_length=POSITIONS)
    core = Tokenizer(
        models.WordLevel({token: i for i, token in enumerate(VOCABULARY)}, unk_token="[UNK]")
    )
    core.pre_tokenizer = pre_tokenizers.Whitespace()
    core.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", special_tokens=[("[CLS]", 2), ("[SEP]", 3)]
    )
    names = {f"{name[1:-1].lower()}_token": name for name in SPECIALS}
    return PreTrainedTokenizerFast(tokenizer_object=core, **names)


def tiny_folder(kind: str, folder: Path, **changes: Any) -> Path:
    """A checkpoint as a user would have it."""
    tiny_network(kind, **changes).save_pretrained(folder)
    tiny_tokenizer(kind).save_pretrained(folder)
    return folder
