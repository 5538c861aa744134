"""The folder of models and files that the calls of `option_witnesses` name."""

from __future__ import annotations

import json
from itertools import product
from pathlib import Path

import torch
from safetensors.torch import load_file, save_file
from tokenizers.pre_tokenizers import BertPreTokenizer

import unmask
from support import flat, made_up_language
from support.small_models import save_bert

WORDS = "the a cat dog sat ran on under mat tree . s".split()
ENDS = (".", "on the mat .", "under a tree .", "on a cat .", "under the dog .")
TEXTS = [
    " ".join(parts)
    for parts in product(("the", "a"), ("cat", "dog", "mat", "tree"), ("sat", "ran"), ENDS)
]
LONG = "a mat under the tree and a dog ran on the mat"
BLANKS = "the [MASK] [MASK] on"


def make_inputs(folder: Path) -> None:
    """Write all models and files into a folder."""
    _write_lines(folder / "texts.txt", TEXTS)
    _write_lines(folder / "others.txt", TEXTS[10:])
    _write_lines(folder / "start.txt", ["the mat tree on cat"])
    _write_objects(folder / "rows.jsonl", [{"body": "a dog sat", "text": "the cat sat on"}])
    for name, block in (("blocks.jsonl", [2, 3]), ("blocks-again.jsonl", [1, 2])):
        _write_objects(folder / name, [{"text": text, "block": block} for text in TEXTS[:2]])
    _write_pairs(folder)
    _write_measured(folder)
    for name, seed in (("tiny", 3), ("other", 4)):
        splits = BertPreTokenizer()
        save_bert(
            folder / name,
            WORDS,
            splits,
            positions=16,
            seed=seed,
            spread=0.5,
            model_max_length=16,
        )
    tiny = str(folder / "tiny")
    _make_judge(folder / "judge", folder / "tiny")
    unmask.profile(TEXTS, tiny, candidates=4, save=folder / "profile.json")
    for name, seed in (("run-a", 0), ("run-b", 1)):
        unmask.sample(BLANKS, tiny, chains=2, sweeps=4, seed=seed, out=folder / name)
    _train(folder)


def _write_lines(path: Path, lines: list[str]) -> None:
    path.write_text("\n".join(lines) + "\n")


def _write_objects(path: Path, objects: list[dict[str, object]]) -> None:
    _write_lines(path, [json.dumps(one) for one in objects])


def _write_pairs(folder: Path) -> None:
    """Minimal pairs, one of them longer than the model."""
    for name, good, bad in (("pairs.jsonl", "sat", "ran"), ("pairs-again.jsonl", "ran", "mat")):
        pairs = [
            {"sentence_good": f"the {who} {good} on", "sentence_bad": f"the {who} {bad} on"}
            for who in ("cat", "dog", "mat", LONG)
        ]
        _write_objects(folder / name, pairs)


def _write_measured(folder: Path) -> None:
    """Measured variants of "the cat sat on"; in one file a row cannot be read."""
    variants = [
        "cat2dog",
        "cat2mat",
        "sat3ran",
        "cat2dog+sat3ran",
        "cat2mat+sat3ran",
        "the1dog+cat2ran",
        "the1on+cat2dog+sat3mat+on4cat",
        "the1mat+sat3dog+on4mat",
    ]
    for name, shift in (("measured.csv", 0), ("measured-again.csv", 3)):
        lines = ["variant,other,value,second"]
        for number, variant in enumerate(variants):
            value = (number * 5 + shift) % 7
            lines.append(f"{variant},{variants[-number]},{value},{(number * 3) % 7}")
        _write_lines(folder / name, lines)
        bad = "cat9dog,cat9dog,3,4"
        _write_lines(folder / name.replace("measured", "measured-bad"), [*lines, bad])


def _make_judge(folder: Path, tokenizer: Path) -> None:
    """A causal model with the tokenizer of another folder."""
    from transformers import AutoTokenizer, GPT2Config, GPT2LMHeadModel

    words = AutoTokenizer.from_pretrained(tokenizer)
    torch.manual_seed(0)
    config = GPT2Config(
        vocab_size=len(words),
        n_embd=16,
        n_layer=1,
        n_head=2,
        n_positions=32,
        bos_token_id=2,
        eos_token_id=3,
        initializer_range=0.5,
    )
    GPT2LMHeadModel(config).save_pretrained(folder)
    words.bos_token = "[CLS]"
    words.eos_token = "[SEP]"
    words.save_pretrained(folder)


def _train(folder: Path) -> None:
    """Corpora of a made-up language, models to start from, and translators."""
    for number, names in enumerate((("source", "target"), ("source-again", "target-again"))):
        sides = made_up_language.pairs(120, seed=number)
        for name, side in zip(names, sides, strict=True):
            _write_lines(folder / f"{name}.txt", side)
    _write_lines(folder / "held.txt", made_up_language.pairs(20, seed=2)[0])
    few = {"steps": 2, "batch_tokens": 128, "valid_share": 0.2, "device": "cpu"}
    shape = {"layers": 1, "width": 16, "heads": 2}
    corpus = str(folder / "source.txt")
    for seed, (name, vocab) in enumerate((("start", 80), ("start-again", 70))):
        size = {"vocab": vocab, "max_length": 16}
        flat.train(corpus, out=folder / name, seed=seed, **few, **shape, **size)
        _shake(folder / name)
    sides = [corpus, str(folder / "target.txt")]
    for name, more in (
        ("translator", {}),
        ("translator-again", {"seed": 1}),
        ("causal-translator", {"objective": "causal"}),
    ):
        size = {"vocab": 80, "max_length": 32}
        flat.train(parallel=sides, out=folder / name, **few, **shape, **size, **more)
        _shake(folder / name)
        described = folder / name / "translation.json"
        hashes = described.read_text()
        changed = json.loads(hashes)
        _forget(changed)
        described.write_text(json.dumps(changed))
    translator = str(folder / "translator")
    unmask.profile(corpus, translator, candidates=4, save=folder / "translator-profile.json")


def _shake(folder: Path) -> None:
    """Add normal numbers to all matrices of a model, so that every token depends on the others."""
    path = folder / "model.safetensors"
    weights = load_file(path)
    generator = torch.Generator().manual_seed(0)
    for name, values in weights.items():
        if values.dim() == 2:
            weights[name] = values + 0.4 * torch.randn(values.shape, generator=generator)
    save_file(weights, path, metadata={"format": "pt"})


def _forget(described: object) -> None:
    """Take the hash of the weights out of a translator's description."""
    if not isinstance(described, dict):
        return
    described.pop("model.safetensors", None)
    for part in described.values():
        _forget(part)
