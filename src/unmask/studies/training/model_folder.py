"""The model folder that a run leaves, which unmask and Hugging Face's transformers load."""

from __future__ import annotations

from dataclasses import asdict, fields
from datetime import date
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save
from tokenizers import Tokenizer

from unmask.common.files import write_atomically, write_json
from unmask.models.encoder.bert import BertMaskedLM, BertShape
from unmask.models.text.word_pieces import special_id
from unmask.studies.training.batches import seed_for
from unmask.studies.training.corpus import PairTokens, TrainingData
from unmask.studies.training.length_fit import fit_length_head
from unmask.studies.training.start import INITIAL_DEVIATION
from unmask.studies.training.trained import Trained
from unmask.studies.training.word_piece_training import config_to_save


def write_model(run: Trained, model: BertMaskedLM, prepared: TrainingData, card: str) -> None:
    """Write the files of the model folder, each whole, and note that the run is finished if it
    is.
    """
    settings = run.settings
    tokenizer = prepared.tokenizer
    pairs = prepared.pairs
    causal = settings.objective == "causal"
    if pairs is not None and not causal:
        _write_length_head(run.out, model, pairs, settings.seed)
    write_json(run.out / "config.json", config_json(model, tokenizer, causal))
    write_atomically(run.out / "tokenizer.json", tokenizer.to_str())
    write_json(run.out / "tokenizer_config.json", config_to_save(settings.max_length, causal))
    _write_weights(run.out, model)
    as_bytes = card.encode("utf-8", "backslashreplace")  # paths need not be UTF-8
    write_atomically(run.out / "README.md", as_bytes)
    if pairs is not None:  # last: it has the hashes of other files
        pairs.layout.save(
            run.out,
            settings.objective,
            tokenizer.get_vocab(),
            corrects=settings.refinement > 0,
        )
    if run.finished:
        finished = {"step": run.step, **asdict(run.validation)}
        write_json(run.out / "training" / "finished.json", finished)


def _write_length_head(out: Path, model: BertMaskedLM, pairs: PairTokens, seed: int) -> None:
    """Fit and write what predicts the length of a translation."""
    head = fit_length_head(model, pairs.layout, pairs.sources, pairs.targets, seed_for(seed, 2))
    head.save(out)


def _write_weights(out: Path, model: BertMaskedLM) -> None:
    """Write model.safetensors, in float32; a tied weight is written once."""
    tied = model.tied()
    weights = {}
    for name, tensor in model.state_dict().items():
        if name not in tied:
            weights[name] = tensor.detach().to("cpu", torch.float32).contiguous()
    write_atomically(out / "model.safetensors", save(weights, {"format": "pt"}))


def config_json(network: BertMaskedLM, tokenizer: Tokenizer, causal: bool) -> dict[str, Any]:
    """The content of config.json; a causal network is a decoder."""
    config = {field.name: getattr(network.config, field.name) for field in fields(BertShape)}
    if causal:
        config |= {
            "is_decoder": True,
            "bos_token_id": special_id(tokenizer, "[CLS]"),
            "eos_token_id": special_id(tokenizer, "[SEP]"),
        }
    return {
        **config,
        "architectures": ["BertLMHeadModel" if causal else "BertForMaskedLM"],
        "attention_probs_dropout_prob": 0.0,
        "dtype": "float32",
        "hidden_dropout_prob": 0.0,
        "initializer_range": INITIAL_DEVIATION,
        "pad_token_id": special_id(tokenizer, "[PAD]"),
    }


def model_card(
    run: Trained, prepared: TrainingData, device: torch.device, processes: int = 1
) -> str:
    """The text of the model card."""
    settings = run.settings
    figures = run.validation
    causal = settings.objective == "causal"
    vocab = prepared.tokenizer.get_vocab_size()
    pairs = ", of translations given their sources (`unmask translate`)"
    origin = (
        f"A {settings.objective} language model of the BERT architecture"
        f"{pairs if settings.parallel else ''}:"
        f" {run.parameters:,} parameters, a cased WordPiece\n"
        f"vocabulary of {vocab:,} tokens."
        f" Trained by `unmask train` on {date.today()} ({_place_in_words(device, processes)}):"
    )
    tokens_seen = round(run.step * settings.batch_tokens * prepared.packed.fill)
    epochs_seen = tokens_seen / max(1, run.tokens)
    unfinished = ""
    if not run.finished:
        unfinished = f"\n\nThe run was {run.status} at step {run.step:,} of {settings.steps:,}.\n"
    with_tokens = zip(prepared.sources, prepared.source_tokens, strict=True)
    rows = [f"| {source.name} | {tokens:,} | {source.weight:g} |" for source, tokens in with_tokens]
    table = "\n".join(rows)
    predicted = "the next token" if causal else "15 % of the tokens masked"
    unlearned = f"\n\nThis model {figures.doubt}.\n" if figures.doubt else ""
    listed = "\n".join(f"    {name}: {value}" for name, value in settings.to_dict().items())
    return f"""---
pipeline_tag: {"text-generation" if causal else "fill-mask"}
library_name: transformers
---

# {run.out.resolve().name}

{origin}
{run.step:,} steps, {tokens_seen:,} tokens in all ({epochs_seen:.1f} epochs).{unfinished}

| file | tokens | weight |
| --- | --- | --- |
{table}

Validation on {prepared.held_out}, {predicted} ({figures.positions:,} positions):
loss {figures.loss:.4f} nats, accuracy {figures.accuracy:.2%}.
The tokens' frequencies alone have a loss of {figures.unigram:.4f} nats.{unlearned}

## Settings

{listed}
"""


def _place_in_words(device: torch.device, processes: int) -> str:
    """The device that trained a model, and on how many of its kind."""
    if device.type == "cuda":
        place = torch.cuda.get_device_name(device)
    else:
        place = f"CPU, {torch.get_num_threads()} threads"
    if processes > 1:
        place += f", {processes} processes"
    return place
