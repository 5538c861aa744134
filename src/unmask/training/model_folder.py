"""Folders of models: the network of a run, new or read from one; the files that the run leaves in one.

`AutoModelForMaskedLM.from_pretrained` and `unmask --model` load the folder.
"""

from __future__ import annotations

import datetime
from dataclasses import dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from tokenizers import Tokenizer
from torch import nn

from unmask.errors import InputError
from unmask.models.encoder.bert import BertMaskedLM, BertShape
from unmask.models.loading import load_causal, load_checkpoint
from unmask.models.source import Source, as_safetensors
from unmask.models.text.vocabulary import config_to_save, special_id, vocabulary_hash
from unmask.runs.files import write_atomically, write_json
from unmask.runs.fingerprint import fingerprint
from unmask.training.corpus import Prepared
from unmask.training.settings import TrainSettings

if TYPE_CHECKING:
    from unmask.training.run import TrainingRun

INITIAL_DEVIATION = 0.02


def new_model(settings: TrainSettings, vocab_size: int, pad: int = 0) -> BertMaskedLM:
    """A network with one type of segment and tied embeddings.

    Weights are normal of deviation 0.02, biases 0. They are drawn in the order in which Hugging Face's BertForMaskedLM draws
    its own (for the encoder and then for the head: torch's defaults, and the normals over them), so that a seed gives the
    model that it gives there.
    """
    shape = BertShape(
        vocab_size=vocab_size,
        hidden_size=settings.width,
        num_hidden_layers=settings.layers,
        num_attention_heads=settings.heads,
        intermediate_size=4 * settings.width,
        hidden_act="gelu",
        max_position_embeddings=settings.max_length,
        type_vocab_size=1,
        layer_norm_eps=1e-12,
    )
    network = BertMaskedLM(shape).to_empty(device="cpu")
    with torch.random.fork_rng(devices=[]), torch.no_grad():
        torch.manual_seed(settings.seed)
        for part in (network.bert, network.cls):
            drawn = [m for m in part.modules() if isinstance(m, nn.Linear | nn.Embedding | nn.LayerNorm)]
            for module in drawn:
                module.reset_parameters()
            for module in drawn:
                if not isinstance(module, nn.LayerNorm):
                    module.weight.normal_(0.0, INITIAL_DEVIATION)
        for name, parameter in network.named_parameters():
            if name.endswith("bias"):
                parameter.zero_()
        network.get_input_embeddings().weight[pad] = 0.0
    network.tie()
    return network


@dataclass(frozen=True)
class Start:
    """A model to start from: its network in float32, which the run trains in place, and the fingerprint of its first weights."""

    folder: Path
    network: BertMaskedLM
    weights: str

    @classmethod
    def read(cls, folder: Path, causal: bool = False) -> Start:
        """The masked (or causal) language model of a folder; raises InputError if it is not a BERT with a tokenizer.json."""
        if not (folder / "tokenizer.json").is_file():
            raise InputError(f"init {str(folder)!r} has no tokenizer.json: give a folder that `unmask train` wrote")
        if causal:
            if not Source(str(folder)).config.get("is_decoder"):
                raise InputError(f"init {str(folder)!r} is not a causal model: give one, or leave out --objective causal")
            loaded, _ = load_causal(str(folder))
        else:
            loaded, _ = load_checkpoint(folder, torch.device("cpu"), torch.float32)
        network = _as_our_own(loaded, folder)
        return cls(folder, network, fingerprint(network.state_dict()))

    @property
    def shape(self) -> dict[str, int]:
        """The settings that this model fixes."""
        config = self.network.config
        return {
            "layers": config.num_hidden_layers,
            "width": config.hidden_size,
            "heads": config.num_attention_heads,
            "vocab": config.vocab_size,
        }

    def refuse_other_sizes(self, max_length: int, vocab_size: int) -> None:
        """Raise InputError if texts or tokens would have no embeddings."""
        config = self.network.config
        if max_length > config.max_position_embeddings:
            raise InputError(
                f"max_length {max_length} is more than the {config.max_position_embeddings} positions of {str(self.folder)!r}: "
                "give a smaller --max-length"
            )
        if vocab_size > config.vocab_size:
            raise InputError(
                f"the tokenizer has {vocab_size:,} tokens and {str(self.folder)!r} {config.vocab_size:,}: leave out --tokenizer"
            )


def _as_our_own(loaded: Any, folder: Path) -> BertMaskedLM:
    """The same weights in our own network, if another library's code had to read them."""
    if not isinstance(loaded, BertMaskedLM):
        if getattr(loaded.config, "model_type", None) != "bert":
            raise InputError(f"init {str(folder)!r} is not a BERT: give a folder that `unmask train` wrote")
        network = BertMaskedLM(BertShape(**{f.name: getattr(loaded.config, f.name) for f in fields(BertShape)}))
        stored = loaded.state_dict()
        network.load_state_dict({name: stored[name].float() for name in network.state_dict()}, assign=True)
        network.tie()
        loaded = network
    if loaded.config.hidden_act != "gelu" or not loaded.config.tie_word_embeddings:
        raise InputError(f"init {str(folder)!r} is a BERT of another kind (not gelu, or not tied): train a new one")
    return loaded


def config_json(network: BertMaskedLM, tokenizer: Tokenizer, causal: bool) -> dict[str, Any]:
    """The content of config.json; a causal network is a decoder."""
    start, end = special_id(tokenizer, "[CLS]"), special_id(tokenizer, "[SEP]")
    kind = {"is_decoder": True, "bos_token_id": start, "eos_token_id": end} if causal else {}
    return {
        **{field.name: getattr(network.config, field.name) for field in fields(BertShape)},
        **kind,
        "architectures": ["BertLMHeadModel" if causal else "BertForMaskedLM"],
        "attention_probs_dropout_prob": 0.0,
        "dtype": "float32",
        "hidden_dropout_prob": 0.0,
        "initializer_range": INITIAL_DEVIATION,
        "pad_token_id": special_id(tokenizer, "[PAD]"),
    }


def export_model(out: Path, model: BertMaskedLM, tokenizer: Tokenizer, settings: TrainSettings, card: str) -> None:
    """Write config.json, model.safetensors, tokenizer.json, tokenizer_config.json and README.md, each whole."""
    remedy = "the checkpoint under training/ is intact; make room, and give the same command again with --resume"
    causal = settings.objective == "causal"
    write_json(out / "config.json", config_json(model, tokenizer, causal), remedy)
    write_atomically(out / "tokenizer.json", tokenizer.to_str(), remedy)
    write_json(out / "tokenizer_config.json", config_to_save(settings.max_length, causal), remedy)
    tied = model.tied()
    weights = {n: t.detach().to("cpu", torch.float32).contiguous() for n, t in model.state_dict().items() if n not in tied}
    stored = as_safetensors(weights, vocabulary_hash(tokenizer.get_vocab()))
    write_atomically(out / "model.safetensors", stored, remedy)
    write_atomically(out / "README.md", card.encode("utf-8", "backslashreplace"), remedy)  # paths need not be UTF-8


def model_card(run: TrainingRun, prepared: Prepared, device: torch.device, processes: int = 1) -> str:
    """The text of the model card."""
    settings, held, figures = run.settings, prepared.held, run.validation
    rows = "\n".join(
        f"| {s.name} | {tokens:,} | {s.weight:g} |" for s, tokens in zip(prepared.sources, prepared.source_tokens, strict=True)
    )
    valid = held.source.name if held.source else f"{held.share:.3g} of the corpus' lines, by a hash of the line"
    unfinished = "" if run.finished else f"\n\nThe run was {run.status} at step {run.step:,} of {settings.steps:,}.\n"
    unlearned = f"\n\nThis model {figures.doubt}.\n" if figures.doubt else ""
    causal = settings.objective == "causal"
    kind = "A causal" if causal else "A masked"
    pairs = ", of translations given their sources (`unmask translate`)" if settings.parallel else ""
    seen = round(run.step * settings.batch_tokens * prepared.packed.fill)
    listed = "\n".join(f"    {name}: {value}" for name, value in settings.to_dict().items())
    today = datetime.date.today().isoformat()
    where = torch.cuda.get_device_name(device) if device.type == "cuda" else f"CPU, {torch.get_num_threads()} threads"
    where += f", {processes} processes" if processes > 1 else ""
    return f"""---
pipeline_tag: {"text-generation" if causal else "fill-mask"}
library_name: transformers
---

# {run.out.resolve().name}

{kind} language model of the BERT architecture{pairs}: {settings.layers} layers of width {settings.width}, {settings.heads} heads,
a cased WordPiece vocabulary of {prepared.tokenizer.get_vocab_size():,} tokens, {run.parameters:,} parameters,
texts of up to {settings.max_length} tokens. Trained by `unmask train` on {today} ({where}).{unfinished}

## Data

| file | tokens | weight |
| --- | --- | --- |
{rows}

Held out for validation: {valid}.

## Training

{run.step:,} steps of {settings.batch_tokens:,} tokens, {seen:,} tokens in all ({seen / max(1, run.tokens):.1f} epochs).

## Figures

{"The next token" if causal else "15 % of the tokens masked"}, on held-out segments ({figures.positions:,} positions):
loss {figures.loss:.4f} nats, accuracy {figures.accuracy:.2%}.
The tokens' frequencies alone have a loss of {figures.unigram:.4f} nats.{unlearned}

## Settings

{listed}
"""
