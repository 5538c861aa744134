"""The folder a run leaves: what `AutoModelForMaskedLM.from_pretrained` and `unmask --model` load, and its model card."""

from __future__ import annotations

import datetime
from pathlib import Path

import torch
from tokenizers import Tokenizer

from unmask.models.encoder.bert import BertMaskedLM
from unmask.models.text.word_pieces import tokenizer_config
from unmask.runs.files import write_atomically, write_json
from unmask.training.model import config_json, weights_to_save
from unmask.training.prepare import Prepared
from unmask.training.result import TrainingRun
from unmask.training.settings import TrainSettings


def export_model(out: Path, model: BertMaskedLM, tokenizer: Tokenizer, settings: TrainSettings, card: str, half: bool) -> None:
    """Write config.json, model.safetensors, tokenizer.json, tokenizer_config.json and README.md, each whole."""
    from safetensors.torch import save

    dtype = torch.float16 if half else torch.float32
    remedy = "the checkpoint under training/ is intact; make room, and give the same command again with --resume"
    causal = settings.objective == "causal"
    write_json(out / "config.json", config_json(model, tokenizer, dtype, causal), remedy)
    write_atomically(out / "tokenizer.json", tokenizer.to_str(), remedy)
    write_json(out / "tokenizer_config.json", tokenizer_config(settings.max_length, causal), remedy)
    write_atomically(out / "model.safetensors", save(weights_to_save(model, dtype), {"format": "pt"}), remedy)
    write_atomically(out / "README.md", card, remedy)


def model_card(made: TrainingRun, prepared: Prepared, command: str, licence: str, device: torch.device) -> str:
    """The model card, all from the run."""
    settings, held, figures = made.settings, prepared.held, made.validation
    rows = "\n".join(
        f"| {s.name} | {tokens:,} | {s.weight:g} |" for s, tokens in zip(prepared.sources, prepared.source_tokens, strict=True)
    )
    kept = held.source.name if held.source else f"{held.share:.3g} of the corpus' lines, by a hash of the line"
    limit = held.max_tokens or settings.max_length
    unfinished = "" if made.finished else f"\n\nThe run was {made.status} at step {made.step:,} of {settings.steps:,}.\n"
    unlearned = f"\n\nThis model {figures.doubt}.\n" if figures.doubt else ""
    kind, tag, objective, measured = _words(settings)
    if settings.parallel:
        objective += " A text is a source and its translation, and the translation is asked for (`unmask translate`)."
    seen = round(made.step * settings.batch_tokens * prepared.tokens / sum(p.ids.size for p in prepared.packed))
    listed = "\n".join(f"    {name}: {value}" for name, value in settings.to_dict().items())
    today = datetime.date.today().isoformat()
    where = torch.cuda.get_device_name(device) if device.type == "cuda" else f"CPU, {torch.get_num_threads()} threads"
    return f"""---
license: {licence}
pipeline_tag: {tag}
library_name: transformers
---

# {made.out.resolve().name}

{kind}: {settings.layers} layers of width {settings.width}, {settings.heads} heads,
a cased WordPiece vocabulary of {prepared.tokenizer.get_vocab_size():,} tokens, {made.parameters:,} parameters,
texts of up to {settings.max_length} tokens. Trained by `unmask train` on {today} ({where}).{unfinished}

## Data

| file | tokens | weight |
| --- | --- | --- |
{rows}

Licence of the data: {licence}. Held out for validation: {kept}.

## Training

{made.step:,} steps of {settings.batch_tokens:,} tokens, {seen:,} tokens in all ({seen / max(1, prepared.tokens):.1f} epochs).
{objective}

    {command}

## Figures

{measured}, on held-out segments of up to {limit} tokens ({figures.positions:,} positions):
loss {figures.loss:.4f} nats, accuracy {figures.accuracy:.2%}.
The tokens' frequencies alone have a loss of {figures.unigram:.4f} nats.{unlearned}

## Settings

{listed}
"""


def _words(settings: TrainSettings) -> tuple[str, str, str, str]:
    """What the model is, its pipeline on the hub, its objective, and what validation asks."""
    if settings.objective == "causal":
        return (
            "A causal language model of the BERT architecture (a decoder: no position looks ahead)",
            "text-generation",
            "Every token of a segment but its start token is predicted from those before it, the end token included.",
            "The next token at every position",
        )
    extra = f", plus {settings.compatibility:g} times the compatibility regulariser" if settings.compatibility else ""
    return (
        "A masked language model of the BERT architecture",
        "fill-mask",
        f"Masking {settings.masking}, replacement {settings.replacement} (mask, random, keep), {settings.loss} loss{extra}.",
        "With 15 % of the tokens masked",
    )
