"""The folder a run leaves: what `AutoModelForMaskedLM.from_pretrained` and `unmask --model` load, and its model card."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from unmask.training.files import write_atomic
from unmask.training.model import weights_to_save
from unmask.training.prepare import Prepared
from unmask.training.settings import TrainSettings
from unmask.training.tokenizer import tokenizer_config
from unmask.training.validation import Figures


@dataclass(frozen=True)
class RunFacts:
    """What the model card tells besides the settings."""

    command: str
    licence: str
    status: str
    step: int
    tokens_seen: int
    figures: Figures
    device: str
    date: str


def export_model(out: Path, model: Any, prepared: Prepared, settings: TrainSettings, facts: RunFacts, dtype: torch.dtype) -> None:
    """Write config.json, model.safetensors, tokenizer.json, tokenizer_config.json and README.md, each whole."""
    from safetensors.torch import save

    config = model.config.to_dict() | {"architectures": ["BertForMaskedLM"], "dtype": str(dtype).removeprefix("torch.")}
    remedy = "the checkpoint under training/ is intact; free some space and run again with --resume"
    write_atomic(out / "config.json", json.dumps(config, indent=2, sort_keys=True) + "\n", remedy)
    write_atomic(out / "tokenizer.json", prepared.tokenizer.to_str(), remedy)
    write_atomic(out / "tokenizer_config.json", json.dumps(tokenizer_config(settings.max_length), indent=2) + "\n", remedy)
    weights = weights_to_save(model, dtype)
    write_atomic(out / "model.safetensors", save(weights, {"format": "pt"}), remedy)
    parameters = sum(w.numel() for w in weights.values())
    write_atomic(out / "README.md", model_card(out.resolve().name, prepared, settings, facts, parameters), remedy)


def model_card(name: str, prepared: Prepared, settings: TrainSettings, facts: RunFacts, parameters: int) -> str:
    """The card, from the run."""
    rows = "\n".join(
        f"| {s.path.name} | {tokens:,} | {s.weight:g} |"
        for s, tokens in zip(prepared.sources, prepared.source_tokens, strict=True)
    )
    held = (
        prepared.held.file.name
        if prepared.held.file
        else f"{prepared.held.share:.3g} of the corpus' lines, by a hash of the line"
    )
    limit = prepared.held.max_tokens or settings.max_length
    unfinished = (
        "" if facts.status == "finished" else f"\n\nThe run was {facts.status} at step {facts.step:,} of {settings.steps:,}.\n"
    )
    extra = f", plus {settings.compatibility:g} times the compatibility regulariser" if settings.compatibility else ""
    epochs = facts.tokens_seen / max(1, prepared.tokens)
    listed = "\n".join(f"    {k}: {v}" for k, v in settings.to_dict().items())
    return f"""---
license: {facts.licence}
pipeline_tag: fill-mask
library_name: transformers
---

# {name}

A masked language model of the BERT architecture: {settings.layers} layers of width {settings.width}, {settings.heads} heads,
a cased WordPiece vocabulary of {prepared.tokenizer.get_vocab_size():,} tokens, {parameters:,} parameters,
texts of up to {settings.max_length} tokens. Trained by `unmask train` on {facts.date} ({facts.device}).{unfinished}

## Data

| file | tokens | weight |
| --- | --- | --- |
{rows}

Licence of the data: {facts.licence}. Held out for validation: {held}.

## Training

{facts.step:,} steps of {settings.batch_tokens:,} tokens, {facts.tokens_seen:,} tokens in all ({epochs:.1f} epochs).
Masking {settings.masking}, replacement {settings.replacement} (mask, random, keep), {settings.loss} loss{extra}.

    {facts.command}

## Figures

With 15 % of the tokens masked, on held-out segments of up to {limit} tokens ({facts.figures.positions:,} masked positions):
loss {facts.figures.loss:.4f} nats, accuracy {facts.figures.accuracy:.2%}.

## Settings

{listed}
"""
