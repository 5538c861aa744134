"""What both checkouts read: tiny models with random weights, texts and files.

They are written once, by transformers and never by unmask.
A call names a model of `MODELS`, or a file of `FILES`; both lie in the folder `materials` of a
worker's working directory.
"""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

SPECIAL = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")
WORDS = tuple("the a cat dog sat ran on under mat tree . s man saw old red and bed".split())
PIECES = (
    *"abcdefgh",
    "ab",
    "cd",
    "abc",
    ".",
    "##a",
    "##b",
    "##ab",
    "##c",
    "##d",
    "##cd",
    "##efg",
    "##h",
)
LETTERS = tuple("ACDEFGHIKL")
SMALL: dict[str, Any] = {
    "hidden_size": 16,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "intermediate_size": 32,
}

SENTENCES = (
    "the cat sat on the mat .",
    "a dog ran under the tree .",
    "the old man saw a red bed .",
    "the dog and the cat ran .",
    "a cat sat under a tree and ran .",
    "the man saw the dog on the bed .",
    "the red cat ran on a mat .",
    "a man sat .",
    "the cats saw the mats .",
    "dog .",
    "the old dog sat on the old red mat under the old tree .",
    "a man and a dog and a cat sat on the bed .",
)
"""Of the model `words`; the longest two have 13 tokens."""
ENGLISH = (
    "The cat sat on the mat.",
    "A man rides a red bicycle down the street.",
    "Two children are playing in the park.",
    "The woman read an old book to her daughter.",
    "People walk past a small shop.",
    "The dog ran across the field.",
    "A boy in a blue shirt is jumping.",
    "She drank a cup of tea at the table.",
)
GOOD_AND_BAD = (
    ("the cat sat .", "the cat cat sat .", "agreement"),
    ("a dog ran on the mat .", "a dog ran the on mat .", "order"),
    ("the man saw a dog .", "the man a saw dog .", "order"),
    ("the red cat ran .", "the cat red ran .", "agreement"),
)
MEASURED = (
    ("A1C", 0.3),
    ("A1D", -0.7),
    ("C2A", 1.25),
    ("C2E", 0.1),
    ("D3F", -1.5),
    ("A1C+C2A", 0.9),
    ("A1D+D3F", -2.0),
    ("E4G", 0.2),
)
PROTEIN = "ACDEFGHIKL"


def tokenizer_of(tokens: Sequence[str], kind: str) -> Any:
    """A tokenizer with [CLS] and [SEP] around a text.

    kind   words (split at spaces and signs), letters (split at every letter) or pieces (word
           pieces)
    """
    from tokenizers import (
        Regex,
        Tokenizer,
        decoders,
        models,
        normalizers,
        pre_tokenizers,
        processors,
    )
    from transformers import PreTrainedTokenizerFast

    vocabulary = {token: i for i, token in enumerate([*SPECIAL, *tokens])}
    if kind == "pieces":
        core = Tokenizer(models.WordPiece(vocabulary, unk_token="[UNK]"))
        core.normalizer = normalizers.BertNormalizer(lowercase=False)
        core.decoder = decoders.WordPiece()
        core.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    elif kind == "letters":
        core = Tokenizer(models.WordLevel(vocabulary, unk_token="[UNK]"))
        core.pre_tokenizer = pre_tokenizers.Split(Regex(r"\[MASK\]|[^\s]"), "isolated")
    else:
        core = Tokenizer(models.WordLevel(vocabulary, unk_token="[UNK]"))
        core.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    ends = [("[CLS]", SPECIAL.index("[CLS]")), ("[SEP]", SPECIAL.index("[SEP]"))]
    core.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", special_tokens=ends
    )
    names = {f"{name[1:-1].lower()}_token": name for name in SPECIAL}
    return PreTrainedTokenizerFast(tokenizer_object=core, **names)


def save(
    folder: Path, config: Any, tokenizer: Any, positions: int, seed: int, causal: bool = False
) -> None:
    """Save a model of a configuration, with random weights, and its tokenizer."""
    import torch
    from transformers import AutoModelForCausalLM, AutoModelForMaskedLM
    from transformers.utils import logging

    logging.disable_progress_bar()
    torch.manual_seed(seed)
    kind = AutoModelForCausalLM if causal else AutoModelForMaskedLM
    kind.from_config(config).eval().save_pretrained(folder)
    tokenizer.model_max_length = positions
    tokenizer.save_pretrained(folder)


def bert(
    tokens: Sequence[str], kind: str, positions: int, seed: int, spread: float
) -> Callable[[Path], None]:
    """A BERT whose weights have the standard deviation `spread`; .5 makes dependence of nats."""

    def write(folder: Path) -> None:
        from transformers import BertConfig

        tokenizer = tokenizer_of(tokens, kind)
        size = {
            "vocab_size": len(tokenizer),
            "max_position_embeddings": positions,
            "initializer_range": spread,
        }
        save(folder, BertConfig(**size, **SMALL), tokenizer, positions, seed)

    return write


def distilbert(folder: Path) -> None:
    """A DistilBERT."""
    from transformers import DistilBertConfig

    tokenizer = tokenizer_of(WORDS, "words")
    size = {"vocab_size": len(tokenizer), "max_position_embeddings": 20, "initializer_range": 0.5}
    save(
        folder,
        DistilBertConfig(dim=16, n_layers=2, n_heads=2, hidden_dim=32, **size),
        tokenizer,
        20,
        seed=21,
    )


def electra(folder: Path) -> None:
    """An ELECTRA generator."""
    from transformers import ElectraConfig

    tokenizer = tokenizer_of(WORDS, "words")
    size = {
        "vocab_size": len(tokenizer),
        "max_position_embeddings": 20,
        "initializer_range": 0.5,
        "embedding_size": 8,
    }
    save(folder, ElectraConfig(**size, **SMALL), tokenizer, 20, seed=22)


def albert(folder: Path) -> None:
    """An ALBERT, whose layers share their weights."""
    from transformers import AlbertConfig

    tokenizer = tokenizer_of(WORDS, "words")
    size = {
        "vocab_size": len(tokenizer),
        "max_position_embeddings": 20,
        "initializer_range": 0.5,
        "embedding_size": 8,
    }
    save(folder, AlbertConfig(**size, **SMALL), tokenizer, 20, seed=23)


def roberta(folder: Path) -> None:
    """A RoBERTa with a byte-level vocabulary, whose tokens carry the space before them."""
    from tokenizers import (
        AddedToken,
        Tokenizer,
        decoders,
        models,
        pre_tokenizers,
        processors,
        trainers,
    )
    from transformers import PreTrainedTokenizerFast, RobertaConfig

    core = Tokenizer(models.BPE())
    core.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    core.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=320,
        special_tokens=["<s>", "<pad>", "</s>", "<unk>"],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    core.train_from_iterator([*SENTENCES] * 5, trainer)
    mask = AddedToken("<mask>", lstrip=True, special=True)
    core.add_special_tokens([mask])
    core.post_processor = processors.RobertaProcessing(
        ("</s>", 2), ("<s>", 0), trim_offsets=True, add_prefix_space=False
    )
    names = {
        "bos": "<s>",
        "cls": "<s>",
        "pad": "<pad>",
        "eos": "</s>",
        "sep": "</s>",
        "unk": "<unk>",
        "mask": mask,
    }
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=core, **{f"{name}_token": token for name, token in names.items()}
    )
    size = {
        "vocab_size": len(tokenizer),
        "max_position_embeddings": 42,
        "pad_token_id": 1,
        "initializer_range": 0.6,
    }
    save(folder, RobertaConfig(**size, **SMALL), tokenizer, 40, seed=11)


def causal(folder: Path) -> None:
    """A GPT-2 over the tokens of `words`, which judges samples."""
    from transformers import GPT2Config

    tokenizer = tokenizer_of(WORDS, "words")
    ends = {"bos_token_id": 2, "eos_token_id": 3}
    config = GPT2Config(
        vocab_size=len(tokenizer),
        n_positions=32,
        n_embd=16,
        n_layer=2,
        n_head=2,
        initializer_range=0.5,
        **ends,
    )
    save(folder, config, tokenizer, 32, seed=31, causal=True)


MODELS: dict[str, Callable[[Path], None]] = {
    "words": bert(WORDS, "words", positions=20, seed=3, spread=0.5),
    "sure": bert(WORDS, "words", positions=20, seed=4, spread=1.5),
    "pieces": bert(PIECES, "pieces", positions=24, seed=5, spread=0.6),
    "letters": bert(LETTERS, "letters", positions=32, seed=6, spread=0.6),
    "distilbert": distilbert,
    "electra": electra,
    "albert": albert,
    "roberta": roberta,
    "causal": causal,
}
"""Models by name, and the functions that write them."""


def corpus(lines: int, seed: int) -> list[str]:
    """Sentences in which the noun decides the verb, and the verb the object."""
    verbs = {
        "farmer": "ploughs",
        "sailor": "steers",
        "baker": "kneads",
        "painter": "mixes",
        "miller": "grinds",
    }
    objects = {
        "ploughs": "fields",
        "steers": "boats",
        "kneads": "dough",
        "mixes": "colours",
        "grinds": "barley",
    }
    draw = random.Random(seed)
    made = []
    for _ in range(lines):
        noun = draw.choice(list(verbs))
        day = draw.choice(["Monday", "Tuesday", "Friday"])
        made.append(
            f"The {draw.choice(['old', 'young'])} {noun} {verbs[noun]} {objects[verbs[noun]]} on"
            f" {day}."
        )
    return made


def word_salad(lines: int, seed: int) -> list[str]:
    """Words of `words` in any order: enough texts for a profile of its dependence."""
    draw = random.Random(seed)
    return [" ".join(draw.choices(WORDS, k=draw.randint(8, 14))) for _ in range(lines)]


def translations(lines: int, seed: int) -> tuple[list[str], list[str]]:
    """Sources, and the same words the other way round with other endings."""
    draw = random.Random(seed)
    sources = [
        " ".join(
            draw.choice(("kalo", "miru", "teso", "nipa", "loka")) for _ in range(draw.randint(2, 4))
        )
        for _ in range(lines)
    ]
    targets = [
        " ".join(f"{word[2:]}{word[:2]}x" for word in reversed(source.split()))
        for source in sources
    ]
    return sources, targets


def json_lines(rows: Sequence[dict[str, Any]]) -> str:
    """Rows, one JSON object per line."""
    return "".join(json.dumps(row) + "\n" for row in rows)


def files() -> dict[str, str]:
    """All files by name."""
    sources, targets = translations(120, seed=1)
    table = [{"text": text, "source": f"s{i}", "weight": i / 4} for i, text in enumerate(SENTENCES)]
    csv = "source,text,weight\n" + "".join(
        f'{row["source"]},"{row["text"]}",{row["weight"]}\n' for row in table
    )
    pairs = [
        {"sentence_good": good, "sentence_bad": bad, "field": field}
        for good, bad, field in GOOD_AND_BAD
    ]
    blocks = [{"text": text, "block": [2, 4]} for text in SENTENCES[:6]]
    return {
        "sentences.txt": "".join(f"{text}\n" for text in SENTENCES),
        "english.txt": "".join(f"{text}\n" for text in ENGLISH),
        "many.txt": "".join(f"{line}\n" for line in word_salad(60, seed=4)),
        "gaps.txt": "the cat sat .\n\na dog ran .\n\n\nthe man saw a bed .\n",
        "unknown.txt": "the zebra sat .\nthe cat sat .\n",
        "long.txt": "the cat sat . " * 9 + "\nthe cat sat .\n",
        "table.jsonl": json_lines(table),
        "table.csv": csv,
        "items.csv": "item,text,length\n7,the cat sat .,long\n9,a dog ran .,short\n",
        "items.jsonl": json_lines(
            [{"item": "b", "text": "the cat sat ."}, {"item": "a", "text": "a dog ran ."}]
        ),
        "blanks_and_gaps.txt": "the [MASK] sat .\n\na [MASK] ran .\n",
        "table.tsv": csv.replace(",", "\t"),
        "letters.fasta": ">one\nACDEFG\n>two\nGFEDCA\nHIK\n",
        "blanks.txt": "the [MASK] sat .\na [MASK] ran on the [MASK] .\n",
        "pairs.jsonl": json_lines(pairs),
        "pairs.csv": (
            "sentence_good,sentence_bad\n"
            + "".join(f"{good},{bad}\n" for good, bad, _ in GOOD_AND_BAD)
        ),
        "blocks.jsonl": json_lines(blocks),
        "measured.csv": (
            "variant,value\n" + "".join(f"{name},{value}\n" for name, value in MEASURED)
        ),
        "mutants.txt": "A1C\nC2A\nA1C+C2A\n",
        "corpus.txt": "".join(f"{line}\n" for line in corpus(160, seed=1)),
        "valid.txt": "".join(f"{line}\n" for line in corpus(20, seed=2)),
        "sources.txt": "".join(f"{line}\n" for line in sources),
        "targets.txt": "".join(f"{line}\n" for line in targets),
        "few_sources.txt": "".join(f"{line}\n" for line in sources[:5]),
        "few_targets.txt": "".join(f"{line}\n" for line in targets[:5]),
        "empty.txt": "",
        "broken.jsonl": '{"text": "the cat sat ."}\n{"text": \n',
    }


def write_materials(folder: Path, calls: Sequence[dict[str, Any]]) -> None:
    """Write all files, and the models that calls name, into a folder."""
    named = json.dumps(calls)
    for name, write in MODELS.items():
        if f'"{name}"' in named or f"materials/{name}" in named:
            write(folder / name)
    for name, content in files().items():
        (folder / name).write_text(content, encoding="utf-8")
