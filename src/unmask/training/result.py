"""The end of a run: what `unmask.train` returns and `unmask train --json` prints, and the model folder with its card.

`AutoModelForMaskedLM.from_pretrained` and `unmask --model` load the folder.
"""

from __future__ import annotations

import datetime
from dataclasses import asdict, dataclass
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from tokenizers import Tokenizer

from unmask.models.encoder.bert import BertMaskedLM
from unmask.models.text.vocabulary import vocabulary_hash
from unmask.models.text.word_pieces import tokenizer_config
from unmask.models.weights import as_safetensors
from unmask.runs.files import write_atomically, write_json
from unmask.training.loop import Status
from unmask.training.model import config_json, weights_to_save
from unmask.training.prepare import Prepared
from unmask.training.records import read_log
from unmask.training.settings import TrainSettings
from unmask.training.validation import Validation

if TYPE_CHECKING:
    import pandas


@dataclass(frozen=True)
class TrainingRun:
    """A run that finished, was interrupted or paused, and the model folder `out` that it left.

    step         steps done, of settings.steps
    validation   loss in nats, accuracy and positions: with 15 % of held-out tokens masked, or of the next token (causal)
    parameters   of the model
    tokens       in an epoch
    epochs       of all steps
    learned      whether the validation loss is better than that of the tokens' frequencies (`validation.unigram`), and, of a
                 masked model of pairs, whether it does more than repeat one token

    >>> texts = [f"The {who} met {n} friends." for who in ("baker", "sailor") for n in range(50)]
    >>> run = unmask.train(texts, out="friends", layers=1, width=16, heads=1, vocab=80, max_length=16,
    ...                    segment_lengths="16", batch_tokens=128, steps=2, valid_share=0.2, device="cpu")
    >>> run.step, run.out.name
    (2, 'friends')
    """

    out: Path
    status: Status
    step: int
    validation: Validation
    parameters: int
    tokens: int
    epochs: float
    settings: TrainSettings

    @property
    def finished(self) -> bool:
        """Whether all steps are done; `resume=True` continues a run that is not."""
        return self.status == "finished"

    @property
    def learned(self) -> bool | None:
        """Whether the model has learned anything; if not, or little, `validation.doubt` gives the reason."""
        return self.validation.learned

    def to_dict(self) -> dict[str, Any]:
        """The object that `--json` prints."""
        return {
            "out": str(self.out),
            "status": self.status,
            "step": self.step,
            "steps": self.settings.steps,
            "validation": asdict(self.validation),
            "learned": self.learned,
            "parameters": self.parameters,
            "tokens": self.tokens,
            "epochs": self.epochs,
            "settings": self.settings.to_dict(),
        }

    def to_frame(self) -> pandas.DataFrame:
        """The log, one row per note: step, loss, lr, tokens_per_second, valid_loss, valid_accuracy, seconds."""
        import pandas

        return pandas.DataFrame(read_log(self.out / "training" / "log.jsonl"))

    def __str__(self) -> str:
        figures = f"validation {self.validation.loss:.3f} nats, {self.validation.accuracy:.1%}"
        frequencies = f"(the tokens' frequencies alone: {self.validation.unigram:.3f})"
        return f"{self.out}: {self.status} at step {self.step:,} of {self.settings.steps:,}, {figures} {frequencies}"

    def _repr_html_(self) -> str:
        rows = {
            "model": str(self.out),
            "status": f"{self.status} at step {self.step:,} of {self.settings.steps:,}",
            "validation loss": f"{self.validation.loss:.3f} nats",
            "frequencies alone": f"{self.validation.unigram:.3f} nats",
            "validation accuracy": f"{self.validation.accuracy:.1%} of {self.validation.positions:,} positions",
            "parameters": f"{self.parameters:,}",
        }
        cells = "".join(f"<tr><th>{escape(name)}</th><td>{escape(value)}</td></tr>" for name, value in rows.items())
        return f"<table><tbody>{cells}</tbody></table>"


def export_model(out: Path, model: BertMaskedLM, tokenizer: Tokenizer, settings: TrainSettings, card: str, half: bool) -> None:
    """Write config.json, model.safetensors, tokenizer.json, tokenizer_config.json and README.md, each whole."""
    dtype = torch.float16 if half else torch.float32
    remedy = "the checkpoint under training/ is intact; make room, and give the same command again with --resume"
    causal = settings.objective == "causal"
    write_json(out / "config.json", config_json(model, tokenizer, dtype, causal), remedy)
    write_atomically(out / "tokenizer.json", tokenizer.to_str(), remedy)
    write_json(out / "tokenizer_config.json", tokenizer_config(settings.max_length, causal), remedy)
    stored = as_safetensors(weights_to_save(model, dtype), vocabulary_hash(tokenizer.get_vocab()))
    write_atomically(out / "model.safetensors", stored, remedy)
    write_atomically(out / "README.md", card, remedy)


def model_card(made: TrainingRun, prepared: Prepared, command: str, licence: str, device: torch.device) -> str:
    """The text of the model card."""
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
    """Kind of model, its pipeline on the hub, its objective, and the question of validation."""
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
