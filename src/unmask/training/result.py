"""What a run leaves: its log and checkpoints, the model folder with its card, and the object that `unmask.train` returns.

The log, training/log.jsonl, has losses every few steps, and every validation. A checkpoint is written whole or not at all; the
last two are kept. It is good if it reads, belongs to this run and holds finite numbers of the right shapes. A resumed run starts
from the newest good one. `AutoModelForMaskedLM.from_pretrained` and `unmask --model` load the folder.
"""

from __future__ import annotations

import datetime
import io
import json
import time
import warnings
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import torch
from tokenizers import Tokenizer
from torch import Tensor

from unmask.errors import InputError, UnmaskError
from unmask.models.encoder.bert import BertMaskedLM
from unmask.models.text.vocabulary import vocabulary_hash
from unmask.models.text.word_pieces import config_to_save
from unmask.models.weights import as_safetensors
from unmask.runs.files import as_json, read_bytes, write_atomically, write_json, writing
from unmask.runs.progress import Progress
from unmask.training.choosing import in_words
from unmask.training.prepare import Prepared
from unmask.training.settings import TrainSettings, config_json, weights_to_save
from unmask.training.validation import Validation

if TYPE_CHECKING:
    import pandas

KEPT = 2
Status = Literal["finished", "interrupted", "paused"]


class RunLog:
    """Writes the events of a run to its log file, and reports them to `progress`."""

    def __init__(self, path: Path, steps: int, start: int = 0, progress: Progress | None = None, writes: bool = True) -> None:
        self.path, self.steps, self.progress, self.writes = path, steps, progress, writes
        self.training = self.validation = ""
        self.began = time.monotonic()
        self.first: tuple[int, float] | None = None
        if writes and path.exists():  # steps that a killed run logged after its last checkpoint are made again
            kept = [as_json(record, indent=None) + "\n" for record in read_log(path) if record["step"] <= start]
            write_atomically(path, "".join(kept))

    def trained(self, step: int, loss: float, penalty: float, rate: float, tokens_per_second: float) -> None:
        """The mean training loss since the last note, and the mean compatibility penalty if there is one."""
        self.training = f"training, {tokens_per_second:,.0f} tokens/s, loss {loss:.3f}{self._left(step)}"
        record = {"step": step, "loss": round(loss, 5), "lr": rate, "tokens_per_second": round(tokens_per_second)}
        if penalty:
            self.training += f", incompatibility {penalty:.2f}"
            record["compatibility"] = round(penalty, 5)
        self._note(record)

    def _left(self, step: int) -> str:
        """How long the rest takes at the speed since the first note, which may have waited for a compiler."""
        first, now = self.first, time.monotonic()
        self.first = first or (step, now)
        if first is None or step <= first[0]:
            return ""
        return f", {in_words((self.steps - step) * (now - first[1]) / (step - first[0]))} left"

    def validated(self, step: int, figures: Validation) -> None:
        """The validation figures."""
        self.validation = f", validation {figures.loss:.3f} nats, {figures.accuracy:.1%}"
        self._note({"step": step, "valid_loss": round(figures.loss, 5), "valid_accuracy": round(figures.accuracy, 5)})

    def _note(self, record: dict[str, float]) -> None:
        if not self.writes:
            return
        if self.progress:
            self.progress(int(record["step"]), self.steps, self.training + self.validation)
        record["seconds"] = round(time.monotonic() - self.began, 2)
        with writing(self.path, "free some space, and give the same command again with --resume"):
            self.path.parent.mkdir(parents=True, exist_ok=True)
            with self.path.open("a") as stream:
                stream.write(as_json(record, indent=None) + "\n")


def read_log(path: Path) -> list[dict[str, Any]]:
    """The records of a log, without a line that a kill cut short."""
    records = []
    for line in read_bytes(path).decode(errors="replace").splitlines():
        try:
            record = json.loads(line)
        except (ValueError, RecursionError):
            continue
        if isinstance(record, dict) and isinstance(record.get("step"), int):
            records.append(record)
    return records


class TrainingError(UnmaskError):
    """A number of the run is NaN or infinite."""


class CheckpointFolder:
    """The checkpoints of one run, `step-00001000.pt` and so on."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def paths(self) -> list[Path]:
        """Checkpoints, oldest first."""
        return sorted(self.folder.glob("step-*.pt"))

    @property
    def latest(self) -> Path | None:
        """The newest checkpoint."""
        paths = self.paths()
        return paths[-1] if paths else None

    def describe_latest(self) -> str:
        """The place of the last good checkpoint, in words."""
        return f"the last good checkpoint is {self.latest}" if self.latest else "there is no checkpoint yet"

    def save(self, step: int, state: dict[str, Any]) -> Path:
        """Write the state after `step` steps, then delete all except the newest two."""
        wrong = not_finite(state)
        if wrong:
            raise TrainingError(
                f"{wrong} is not finite after step {step}; {self.describe_latest()}; try a lower --lr or a longer --warmup"
            )
        buffer = io.BytesIO()
        torch.save({**state, "step": step}, buffer)
        path = self.folder / f"step-{step:08d}.pt"
        remedy = f"{self.describe_latest()}; make room for the next, and give the same command again with --resume"
        write_atomically(path, buffer.getbuffer(), remedy)
        with writing(self.folder):
            for old in self.paths()[:-KEPT]:
                old.unlink()
        return path

    def restore(self, load: Callable[[dict[str, Any]], None], device: torch.device | str = "cpu") -> int:
        """Pass the newest good checkpoint to `load`, which raises if it does not fit. Returns the steps done, or 0."""
        paths, damaged = self.paths(), ""
        for path in reversed(paths):
            try:
                state: dict[str, Any] = torch.load(path, map_location=device, weights_only=True)
                if path.name != f"step-{state['step']:08d}.pt":
                    raise ValueError(f"it is of step {state['step']}")
                if wrong := not_finite(state):
                    raise ValueError(f"{wrong} is not finite")
                load(state)
            except Exception as error:
                why = (str(error).strip() or type(error).__name__).splitlines()[0][:160]
                damaged = damaged or f"checkpoint {str(path)!r} is damaged ({why})"
                continue
            if damaged:
                warnings.warn(f"{damaged}: continuing from step {state['step']:,} instead", stacklevel=2)
            return int(state["step"])
        if damaged:
            raise InputError(
                f"{damaged}, and there is no other: delete it to begin again at the first step with the same command, "
                "or name another --out"
            )
        return 0

    def clear(self) -> None:
        """Remove all checkpoints (the run is finished and its model is written)."""
        with writing(self.folder):
            for path in self.paths():
                path.unlink()
            if self.folder.is_dir() and not any(self.folder.iterdir()):
                self.folder.rmdir()


def not_finite(state: object) -> str:
    """The name of a tensor in nested dictionaries and lists that holds an infinity or NaN; empty if all are finite."""
    named = [(name, tensor) for name, tensor in _tensors(state, "") if tensor.is_floating_point()]
    if not named:
        return ""
    good = torch.stack([tensor.isfinite().all() for _, tensor in named]).cpu()
    return "" if bool(good.all()) else named[int((~good).nonzero()[0])][0]


def _tensors(value: object, name: str) -> Iterator[tuple[str, Tensor]]:
    if isinstance(value, Tensor):
        yield name, value
    elif isinstance(value, dict | list | tuple):
        items = value.items() if isinstance(value, dict) else enumerate(value)
        for key, item in items:
            yield from _tensors(item, f"{name}.{key}" if name else str(key))


@dataclass(frozen=True)
class TrainingRun:
    """A run that finished, was interrupted or paused, and the model folder `out` that it left.

    out          the folder of the model
    status       "finished", "interrupted" or "paused"
    step         steps done, of settings.steps
    validation   loss in nats, accuracy and positions: with 15 % of held-out tokens masked, or of the next token (causal)
    parameters   of the model
    tokens       in an epoch
    epochs       of all steps
    settings     what decided the weights, those that were chosen for the data included
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
    write_json(out / "tokenizer_config.json", config_to_save(settings.max_length, causal), remedy)
    stored = as_safetensors(weights_to_save(model, dtype), vocabulary_hash(tokenizer.get_vocab()))
    write_atomically(out / "model.safetensors", stored, remedy)
    write_atomically(out / "README.md", card.encode("utf-8", "backslashreplace"), remedy)  # paths need not be UTF-8


def model_card(
    made: TrainingRun, prepared: Prepared, command: str, licence: str, device: torch.device, processes: int = 1
) -> str:
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
    where += f", {processes} processes" if processes > 1 else ""
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
