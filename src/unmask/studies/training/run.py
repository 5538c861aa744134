"""A run: its steps until the end, an interrupt or a NaN; its log, checkpoints and validations;
its folder and its result.

The log, training/log.jsonl, has losses every few steps, and every validation. A run validates
ten times and writes its checkpoint twenty times, from which a resumed run starts.
`AutoModelForMaskedLM.from_pretrained` and `unmask --model` load the folder.
"""

from __future__ import annotations

import io
import json
import math
import signal
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, fields
from datetime import date
from pathlib import Path
from threading import current_thread, main_thread
from typing import TYPE_CHECKING, Any, Literal

import torch
from safetensors.torch import save
from tokenizers import Tokenizer

from unmask.common.errors import InputError, UnmaskError
from unmask.common.files import (
    DiskFull,
    as_json,
    first_line,
    read_bytes,
    reading,
    user_path,
    write_atomically,
    write_json,
    writing,
)
from unmask.common.results import Result
from unmask.models.batching import is_out_of_memory
from unmask.models.encoder.bert import BertMaskedLM, BertShape
from unmask.models.text.word_pieces import load_word_pieces, special_id
from unmask.runs.progress import Progress, stopping_signals
from unmask.studies.training.batches import seed_for
from unmask.studies.training.corpus import Prepared
from unmask.studies.training.optimisers import rate_at
from unmask.studies.training.packing import PackedRows
from unmask.studies.training.recipe import PathLike
from unmask.studies.training.settings import TrainSettings
from unmask.studies.training.start import INITIAL_DEVIATION, Start
from unmask.studies.training.trainer import StepNumbers, Trainer
from unmask.studies.training.validation import Validation
from unmask.studies.training.word_piece_training import config_to_save
from unmask.studies.translation.pairs import fit_length_head

if TYPE_CHECKING:
    import pandas

Status = Literal["finished", "interrupted", "paused"]
_FLUSH_STEPS, _FLUSH_SECONDS = 50, 2.0
VALIDATIONS, CHECKPOINTS = 10, 20  # Of a run


@dataclass(frozen=True)
class TrainingRun(Result):
    """A run that finished, was interrupted or paused, and the model folder `out` that it left.

    out, status  the folder of the model; "finished", "interrupted" or "paused"
    step         steps done, of `steps`
    validation   loss in nats, accuracy and positions: with 15 % of held-out tokens masked, or
                 of the next token (causal)
    parameters   of the model; `tokens` in an epoch, and `epochs` of all steps
    settings     what decided the weights, those that were chosen for the data included
    learned      whether the validation loss is better than that of the tokens' frequencies
                 (`validation.unigram`)
    """

    KEYS = (
        "out",
        "status",
        "step",
        "steps",
        "validation",
        "learned",
        "parameters",
        "tokens",
        "epochs",
        "settings",
    )
    out: Path
    status: Status
    step: int
    validation: Validation
    parameters: int
    tokens: int
    epochs: float
    settings: TrainSettings

    @property
    def steps(self) -> int:
        """All steps of the run."""
        return self.settings.steps

    @property
    def finished(self) -> bool:
        """Whether all steps are done; `resume=True` continues a run that is not."""
        return self.status == "finished"

    @property
    def learned(self) -> bool | None:
        """Whether the model has learned anything."""
        return self.validation.learned

    def to_frame(self) -> pandas.DataFrame:
        """The log, one row per note: step, loss, lr, tokens_per_second, valid_loss,
        valid_accuracy, seconds.
        """
        import pandas

        return pandas.DataFrame(read_log(self.out / "training" / "log.jsonl"))

    @property
    def headline(self) -> str:
        """The line that the command prints."""
        figures = (
            f"validation {self.validation.loss:.3f} nats, {self.validation.accuracy:.1%} right"
        )
        frequencies = f"(the tokens' frequencies alone: {self.validation.unigram:.3f})"
        return (
            f"{self.out}: {self.status} at step {self.step:,} of {self.steps:,}, {figures}"
            f" {frequencies}"
        )

    def __str__(self) -> str:
        return self.headline


def refuse_mixed(options: Mapping[str, object], pairs: bool) -> None:
    """Refuse options of pairs without pairs, and options of texts without texts."""
    what, other = ("--parallel SOURCE TARGET", "a CORPUS of texts")[:: 1 if pairs else -1]
    for name in ("weight", "valid") if pairs else ("mask_source", "refinement"):
        if options.get(name):
            raise InputError(
                f"{name} was given, which {what} does not use: leave it out, or use {other}"
            )


def write_model(run: TrainingRun, model: BertMaskedLM, prepared: Prepared, card: str) -> None:
    """Write the files of the model folder, each whole, and note that the run is finished if it
    is.
    """
    settings, pairs, tokenizer, out = run.settings, prepared.pairs, prepared.tokenizer, run.out
    causal = settings.objective == "causal"
    if pairs and not causal:
        fit_length_head(
            model, pairs.layout, pairs.sources, pairs.targets, seed_for(settings.seed, 2)
        ).save(out)
    write_json(out / "config.json", config_json(model, tokenizer, causal))
    write_atomically(out / "tokenizer.json", tokenizer.to_str())
    write_json(out / "tokenizer_config.json", config_to_save(settings.max_length, causal))
    tied = model.tied()
    weights = {
        n: t.detach().to("cpu", torch.float32).contiguous()
        for n, t in model.state_dict().items()
        if n not in tied
    }
    write_atomically(out / "model.safetensors", save(weights, {"format": "pt"}))
    write_atomically(
        out / "README.md", card.encode("utf-8", "backslashreplace")
    )  # paths need not be UTF-8
    if pairs:
        pairs.layout.save(out, settings.objective, tokenizer.get_vocab(), settings.refinement > 0)
    if run.finished:
        write_json(out / "training" / "finished.json", {"step": run.step, **asdict(run.validation)})


def config_json(network: BertMaskedLM, tokenizer: Tokenizer, causal: bool) -> dict[str, Any]:
    """The content of config.json; a causal network is a decoder."""
    start, end, pad = (special_id(tokenizer, token) for token in ("[CLS]", "[SEP]", "[PAD]"))
    kind = {"is_decoder": True, "bos_token_id": start, "eos_token_id": end} if causal else {}
    return {
        **{field.name: getattr(network.config, field.name) for field in fields(BertShape)},
        **kind,
        "architectures": ["BertLMHeadModel" if causal else "BertForMaskedLM"],
        **{"attention_probs_dropout_prob": 0.0, "dtype": "float32", "hidden_dropout_prob": 0.0},
        **{"initializer_range": INITIAL_DEVIATION, "pad_token_id": pad},
    }


def model_card(
    run: TrainingRun, prepared: Prepared, device: torch.device, processes: int = 1
) -> str:
    """The text of the model card."""
    settings, figures, causal = run.settings, run.validation, run.settings.objective == "causal"
    tokens = zip(prepared.sources, prepared.source_tokens, strict=True)
    rows = "\n".join(
        f"| {source.name} | {count:,} | {source.weight:g} |" for source, count in tokens
    )
    unfinished = (
        ""
        if run.finished
        else f"\n\nThe run was {run.status} at step {run.step:,} of {settings.steps:,}.\n"
    )
    unlearned = f"\n\nThis model {figures.doubt}.\n" if figures.doubt else ""
    pairs = (
        ", of translations given their sources (`unmask translate`)" if settings.parallel else ""
    )
    seen = round(run.step * settings.batch_tokens * prepared.packed.fill)
    listed = "\n".join(f"    {name}: {value}" for name, value in settings.to_dict().items())
    where = (
        torch.cuda.get_device_name(device)
        if device.type == "cuda"
        else f"CPU, {torch.get_num_threads()} threads"
    )
    where += f", {processes} processes" if processes > 1 else ""
    origin = (
        f"A {settings.objective} language model of the BERT architecture{pairs}:"
        f" {run.parameters:,} parameters, a cased WordPiece\n"
        f"vocabulary of {prepared.tokenizer.get_vocab_size():,} tokens."
        f" Trained by `unmask train` on {date.today()} ({where}):"
    )
    predicted = "the next token" if causal else "15 % of the tokens masked"
    return f"""---
pipeline_tag: {"text-generation" if causal else "fill-mask"}
library_name: transformers
---

# {run.out.resolve().name}

{origin}
{run.step:,} steps, {seen:,} tokens in all ({seen / max(1, run.tokens):.1f} epochs).{unfinished}

| file | tokens | weight |
| --- | --- | --- |
{rows}

Validation on {prepared.held_out}, {predicted} ({figures.positions:,} positions):
loss {figures.loss:.4f} nats, accuracy {figures.accuracy:.2%}.
The tokens' frequencies alone have a loss of {figures.unigram:.4f} nats.{unlearned}

## Settings

{listed}
"""


def advice(run: TrainingRun, suited: int | None) -> str:
    """What to do about a model that has learned nothing or little.

    `suited` is the size of vocabulary that suits the corpus, if the run trains its tokenizer.
    """
    if not run.validation.positions:
        return "give longer texts to --valid, or a larger --valid-share"
    if suited is not None and run.settings.vocab < suited:
        return f"give a larger --vocab ({suited} is chosen for this corpus), or more --epochs"
    return "give more --epochs or more text"


def refuse_folder(out: Path, resume: bool) -> None:
    """Refuse a folder that is not empty, unless it holds a run to resume."""
    with reading(out):
        used = out.exists() and (not out.is_dir() or any(out.iterdir()))
        begun = (out / "training" / "settings.json").exists()
        finished = (out / "training" / "finished.json").exists()
    if resume and not begun:
        raise InputError(
            f"no run to resume in {str(out)!r}: leave out --resume, or name the --out folder of an"
            " earlier run"
        )
    if finished:
        further = f"to train its model further, name another --out and add --init {str(out)!r}"
        raise InputError(f"the training in {str(out)!r} is finished: {further}")
    if used and not resume:
        go_on = (
            "name another --out, or add --resume to go on with the run in it"
            if begun
            else "name another --out"
        )
        raise InputError(f"{str(out)!r} exists and is not empty: {go_on}")


@contextmanager
def beginning(out: Path) -> Iterator[None]:
    """After an error: --resume in the advice of a full disk; but if the run has logged nothing
    yet, no tokenizer in `out`.
    """
    try:
        yield
    except Exception as error:
        if not (out / "training" / "log.jsonl").exists():
            (out / "tokenizer.json").unlink(missing_ok=True)
        elif isinstance(error, DiskFull):
            raise InputError(f"{error} with --resume") from None
        raise


def tokenizer_to_use(
    path: PathLike | None, start: Start | None, resumed: Path | None
) -> Path | None:
    """The tokenizer to use: that at `path`, of the model to start from, or of the resumed run;
    None trains one.
    """
    if path is not None:
        given = user_path(path, "tokenizer")
        if start is not None:
            start.refuse_other_tokenizer(given)
        return given
    if start is not None:
        return start.folder
    if resumed is None or not (file := resumed / "tokenizer.json").is_file():
        return None
    try:
        load_word_pieces(file)
    except InputError:
        raise InputError(
            f"{str(file)!r} is damaged: delete it and give the same command again, which makes it"
            " again"
        ) from None
    return file


class RunLog:
    """Writes the losses and validations of a run to its log file, and reports them to `progress`.

    Losses and norms stay on the device and are read every few steps; the first NaN or infinity
    stops the run.
    """

    def __init__(
        self,
        path: Path,
        trainer: Trainer,
        checkpoint: Checkpoint,
        start: int = 0,
        progress: Progress | None = None,
    ) -> None:
        self.path, self.trainer, self.checkpoint, self.progress = (
            path,
            trainer,
            checkpoint,
            progress,
        )
        self.training, self.validation = "steps", ""
        self.waiting: list[tuple[int, StepNumbers]] = []
        self.began = self.since = time.monotonic()
        if (
            trainer.processes.leads and path.exists()
        ):  # steps that a killed run logged after its last checkpoint are made again
            records = [
                as_json(record, indent=None) + "\n"
                for record in read_log(path)
                if record["step"] <= start
            ]
            write_atomically(path, "".join(records))

    def add(self, step: int, numbers: StepNumbers) -> None:
        """Note the numbers of a step."""
        self.waiting.append((step, numbers))
        if len(self.waiting) >= _FLUSH_STEPS or time.monotonic() - self.since > _FLUSH_SECONDS:
            self.flush()

    def flush(self) -> None:
        """Write the mean loss since the last note."""
        if not self.waiting:
            return
        settings, seconds = self.trainer.settings, max(time.monotonic() - self.since, 1e-9)
        steps, waiting = zip(*self.waiting, strict=True)
        rows = (
            torch.stack([torch.stack([numbers.loss, numbers.norm]) for numbers in waiting])
            .double()
            .cpu()
        )
        for step, (loss, norm) in zip(steps, rows.tolist(), strict=True):
            if not (math.isfinite(loss) and math.isfinite(norm)):
                what = "gradient" if math.isfinite(loss) else "loss"
                shown = ", ".join(map(str, self.trainer.plan.rows_of(step)[:4]))
                raise TrainingError(
                    f"the {what} of step {step} is not a finite number (rows {shown}, ... of the"
                    f" packed corpus); {self.checkpoint}; try a lower --lr or a longer --warmup"
                )
        loss, speed = rows.mean(0).tolist()[0], sum(numbers.tokens for numbers in waiting) / seconds
        self.training = f"steps, {speed:,.0f} tokens/s, loss {loss:.3f}"
        rate = rate_at(steps[-1], settings.steps, settings.warmup, settings.lr)
        self._note(
            {
                "step": steps[-1] + 1,
                "loss": round(loss, 5),
                "lr": rate,
                "tokens_per_second": round(speed),
            }
        )
        self.waiting, self.since = [], time.monotonic()

    def validated(self, step: int, figures: Validation) -> None:
        """Write the validation figures."""
        self.flush()
        self.validation = f", validation {figures.loss:.3f} nats, {figures.accuracy:.1%}"
        self._note(
            {
                "step": step,
                "valid_loss": round(figures.loss, 5),
                "valid_accuracy": round(figures.accuracy, 5),
            }
        )
        self.since = time.monotonic()

    def save(self, step: int) -> None:
        """Write a checkpoint."""
        self.flush()
        if self.trainer.processes.leads:
            self.checkpoint.save(step, self.trainer.state())
        self.since = time.monotonic()

    def _note(self, record: dict[str, Any]) -> None:
        if not self.trainer.processes.leads:
            return
        if self.progress:
            self.progress(
                int(record["step"]), self.trainer.settings.steps, self.training + self.validation
            )
        record["seconds"] = round(time.monotonic() - self.began, 2)
        with writing(self.path):
            self.path.parent.mkdir(parents=True, exist_ok=True)
            with self.path.open("a", encoding="utf-8", newline="\n") as stream:
                stream.write(as_json(record, indent=None) + "\n")


def run_steps(
    trainer: Trainer, valid: PackedRows, log: RunLog, max_minutes: float | None, start: int = 0
) -> tuple[Status, int, Validation]:
    """Train from step `start` to the end, an interrupt or the end of the time; each of them
    writes a checkpoint.
    """
    steps, processes, done, began = (
        trainer.settings.steps,
        trainer.processes,
        start,
        time.monotonic(),
    )
    status: Status = "finished"
    validate_every, save_every = max(1, steps // VALIDATIONS), max(1, steps // CHECKPOINTS)
    seeded = [trainer.device] if trainer.device.type == "cuda" else []
    with _interrupts(once=processes.alone) as interrupted, torch.random.fork_rng(seeded):
        while done < steps:
            log.add(done, trainer.step(done))
            done += 1
            late = max_minutes is not None and time.monotonic() - began > 60 * max_minutes
            if reason := processes.highest(2 if interrupted else 1 if late else 0):
                status = "interrupted" if reason == 2 else "paused"
                break
            if done < steps and done % validate_every == 0:
                log.validated(done, trainer.validate(valid))
            if done < steps and done % save_every == 0:
                log.save(done)
        if done > start:
            log.save(done)
        figures = trainer.validate(valid)
        log.validated(done, figures)
    return "finished" if done == steps else status, done, figures


@contextmanager
def _interrupts(once: bool = True) -> Iterator[list[int]]:
    """A list that becomes non-empty at the first signal to stop; with `once`, a second one ends
    the program as usual.

    Of several processes each gets an interrupt twice, from the terminal and from torchrun,
    which ends them itself if they linger.
    """
    seen: list[int] = []
    if current_thread() is not main_thread():
        yield seen
        return
    signals = stopping_signals()
    former = {
        s: signal.getsignal(s) for s in signals if signal.getsignal(s) not in (signal.SIG_IGN, None)
    }

    def note(number: int, frame: Any) -> None:
        seen.append(number)
        for s, handler in former.items() if once else ():
            signal.signal(s, handler)

    for s in former:
        signal.signal(s, note)
    try:
        yield seen
    finally:
        for s, handler in former.items():
            signal.signal(s, handler)


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


class Checkpoint:
    """The file that holds a run on its way. Each replaces the one before, whole or not at all."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __str__(self) -> str:
        return (
            f"the last good checkpoint is {self.path}"
            if self.path.is_file()
            else "there is no checkpoint yet"
        )

    def save(self, step: int, state: dict[str, Any]) -> None:
        """Write the state after `step` steps, if weights and moments are finite."""
        tensors = dict(state["model"])
        for optimiser in state.get("optimisers", ()):
            for place, moments in optimiser.get("state", {}).items():
                tensors |= {
                    f"{name} of parameter {place}": moment for name, moment in moments.items()
                }
        if wrong := next(
            (name for name, tensor in tensors.items() if not tensor.isfinite().all()), ""
        ):
            raise TrainingError(
                f"{wrong} is not finite after step {step}; {self}; try a lower --lr or a longer"
                " --warmup"
            )
        buffer = io.BytesIO()
        torch.save({**state, "step": step}, buffer)
        write_atomically(self.path, buffer.getbuffer())

    def restore(
        self, load: Callable[[dict[str, Any]], None], device: torch.device | str = "cpu"
    ) -> int:
        """Pass the state to `load`, which raises if it does not fit. Returns the steps done; 0
        without a checkpoint.
        """
        if not self.path.is_file():
            return 0
        try:
            state: dict[str, Any] = torch.load(self.path, map_location=device, weights_only=True)
            load(state)
        except Exception as error:
            if is_out_of_memory(error):
                raise
            why = f"checkpoint {str(self.path)!r} is damaged ({first_line(error)})"
            raise InputError(
                f"{why}: delete it to begin at the first step, or name another --out"
            ) from None
        return int(state["step"])
