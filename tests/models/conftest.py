"""Small checkpoints of many architectures with random weights, saved to disk as a user would
have them.
"""

import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

os.environ.setdefault("HF_HUB_OFFLINE", "1")

import pytest
import torch
from tokenizers import processors
from transformers import CONFIG_MAPPING, AutoConfig, AutoModelForMaskedLM, PreTrainedTokenizerFast

from support import small_models

WORDS = (
    "the a cat dog bird sat ran sang on in mat house tree red old small . , ! ##s ##ing ##ed play"
    " walk un ##able".split()
)
LETTERS = "abcdefghijklmnopqrstuvwxyz"
VOCABULARY = list(
    dict.fromkeys([*small_models.SPECIAL, *WORDS, *LETTERS, *(f"##{letter}" for letter in LETTERS)])
)

COMMON = {"vocab_size": len(VOCABULARY), "pad_token_id": 0, "max_position_embeddings": 24}
BERT_SHAPE = {
    "hidden_size": 32,
    "num_hidden_layers": 3,
    "num_attention_heads": 4,
    "intermediate_size": 48,
}
ENDS = {"cls_token_id": 2, "sep_token_id": 3, "bos_token_id": 2, "eos_token_id": 3}
SETTINGS: dict[str, dict[str, Any]] = {
    "bert": BERT_SHAPE,
    "roberta": BERT_SHAPE,
    "xlm-roberta": BERT_SHAPE,
    "camembert": BERT_SHAPE,
    "data2vec-text": BERT_SHAPE,
    "electra": BERT_SHAPE | {"embedding_size": 16},
    "albert": BERT_SHAPE | {"embedding_size": 16, "num_hidden_groups": 1, "inner_group_num": 1},
    "distilbert": {"dim": 32, "hidden_dim": 48, "n_layers": 3, "n_heads": 4},
    "modernbert": BERT_SHAPE | ENDS | {"local_attention": 8},
    "esm": (
        BERT_SHAPE
        | {
            "mask_token_id": 4,
            "position_embedding_type": "rotary",
            "token_dropout": True,
        }
    ),
    "deberta": (
        BERT_SHAPE
        | {
            "pos_att_type": ["p2c", "c2p"],
            "relative_attention": True,
            "max_relative_positions": 24,
        }
    ),
}
ARCHITECTURES = [kind for kind in SETTINGS if kind in CONFIG_MAPPING]
WITHOUT_FAST_PATH = ["albert", "deberta"]


def word_tokenizer() -> PreTrainedTokenizerFast:
    """A cased WordPiece tokenizer over VOCABULARY."""
    return small_models.tokenizer_of(VOCABULARY[len(small_models.SPECIAL) :])


def byte_tokenizer(mask_takes_space: bool = True) -> PreTrainedTokenizerFast:
    """A byte-level tokenizer as RoBERTa has it."""
    sentences = [
        "The cat sat on the mat.",
        "The dog ran to the house.",
        "A cat and a dog sat on the old mat in the house.",
    ]
    around = processors.TemplateProcessing(
        single="<s> $A </s>", special_tokens=[("<s>", 0), ("</s>", 2)]
    )
    return small_models.byte_tokenizer(sentences, 330, around, mask_takes_space)


def random_network(kind: str, seed: int = 0, **changes: Any) -> torch.nn.Module:
    """A network whose logits spread over several nats, unlike those of freshly initialised
    weights.
    """
    settings = {
        key: value
        for key, value in (COMMON | SETTINGS[kind] | changes).items()
        if value is not None
    }
    network = AutoModelForMaskedLM.from_config(AutoConfig.for_model(kind, **settings))
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for name, weight in network.named_parameters():
            noise = torch.randn(weight.shape, generator=generator)
            is_norm = weight.dim() == 1 and "bias" not in name and "norm" in name.lower()
            weight.copy_(1 + 0.2 * noise if is_norm else 0.3 * noise)
    return network.eval()


@pytest.fixture(autouse=True)
def without_gpu(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """All but the tests for a GPU run on the CPU, wherever they run."""
    if request.node.get_closest_marker("gpu") is None:
        monkeypatch.setattr(torch.cuda, "is_available", lambda: False)


@pytest.fixture(scope="session")
def checkpoint(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """checkpoint(kind): the folder of a small random checkpoint of that architecture with the
    word tokenizer.
    """
    made: dict[str, Path] = {}

    def make(kind: str) -> Path:
        if kind not in made:
            made[kind] = tmp_path_factory.mktemp(kind)
            random_network(kind).save_pretrained(made[kind])
            word_tokenizer().save_pretrained(made[kind])
        return made[kind]

    return make


@pytest.fixture
def copied(checkpoint: Callable[[str], Path], tmp_path: Path) -> Path:
    """A copy of the small BERT checkpoint that a test may change."""
    return shutil.copytree(checkpoint("bert"), tmp_path / "model")


@pytest.fixture(scope="session")
def roberta_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A small random RoBERTa with a byte-level tokenizer and RoBERTa's numbering of positions."""
    folder = tmp_path_factory.mktemp("byte-roberta")
    tokenizer = byte_tokenizer()
    network = random_network(
        "roberta", vocab_size=len(tokenizer), pad_token_id=1, max_position_embeddings=22
    )
    network.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


@pytest.fixture
def make_network() -> Callable[..., torch.nn.Module]:
    return random_network


@pytest.fixture
def make_word_tokenizer() -> Callable[[], PreTrainedTokenizerFast]:
    return word_tokenizer


@pytest.fixture
def make_byte_tokenizer() -> Callable[..., PreTrainedTokenizerFast]:
    return byte_tokenizer


@pytest.fixture(params=ARCHITECTURES)
def any_architecture(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(params=[kind for kind in ARCHITECTURES if kind not in WITHOUT_FAST_PATH])
def fast_architecture(request: pytest.FixtureRequest) -> str:
    return str(request.param)
