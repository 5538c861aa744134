"""`unmask train` as a function: data, run, checkpoints and the folder that results."""

from __future__ import annotations

import dataclasses
import datetime
import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
from rich.console import Console
from rich.status import Status as Spinner

from unmask.errors import InputError
from unmask.training.batches import BatchPlan
from unmask.training.checkpoint import CheckpointFolder
from unmask.training.corpus import Source
from unmask.training.export import RunFacts, export_model
from unmask.training.files import write_atomic
from unmask.training.loop import Pace, Status, Trainer, run
from unmask.training.packing import default_cache
from unmask.training.prepare import Held, Prepared, Report, prepare
from unmask.training.progress import ConsoleMonitor
from unmask.training.settings import TrainSettings, refuse_other_settings
from unmask.training.validation import Figures


@dataclass(frozen=True)
class Outputs:
    """Where a run goes and how; none of this changes its numbers on a given device."""

    out: Path
    resume: bool = False
    cache: Path | None = None
    device: str = "auto"
    compile: bool | None = None
    half: bool = False
    licence: str = "unknown"
    command: str = "unmask train"
    valid_every: int = 0
    checkpoint_every: int = 0
    max_minutes: float = float("inf")
    keep_checkpoints: bool = False


@dataclass(frozen=True)
class Result:
    """How a run ended."""

    status: Status
    step: int
    figures: Figures


def train(
    sources: Sequence[Source],
    settings: TrainSettings,
    outputs: Outputs,
    held: Held | None = None,
    tokenizer: Path | None = None,
    epochs: float = 3.0,
    field: str = "text",
    console: Console | None = None,
) -> Result:
    """Train a model from corpus files; `settings.steps` 0 means `epochs` passes over the data, `warmup` is capped at a tenth."""
    console = console or Console()
    folder = outputs.out / "training"
    _check_folder(outputs.out, outputs.resume)
    if outputs.resume and tokenizer is None and (outputs.out / "tokenizer.json").exists():
        tokenizer = outputs.out / "tokenizer.json"
    device = _device(outputs.device)
    with console.status("reading the corpus") as spinner:
        prepared = prepare(
            sources, settings, held or Held(), outputs.cache or default_cache(), tokenizer, field, _reporter(console, spinner)
        )
    settings = _settle(settings, prepared, epochs)
    checkpoints = CheckpointFolder(folder / "checkpoints")
    if outputs.resume:
        refuse_other_settings(settings, json.loads((folder / "settings.json").read_text()), str(outputs.out))
    trainer = Trainer(settings, prepared, device, device.type == "cuda" if outputs.compile is None else outputs.compile)
    start = 0
    if outputs.resume and checkpoints.latest:
        state = checkpoints.load(device)
        trainer.load_state(state)
        start = int(state["step"])
    write_atomic(folder / "settings.json", json.dumps(settings.to_dict(), indent=2) + "\n")
    write_atomic(outputs.out / "tokenizer.json", prepared.tokenizer.to_str())
    parameters = sum(p.numel() for p in trainer.parameters)
    console.print(
        f"{prepared.tokens:,} tokens an epoch, {settings.steps:,} steps of {settings.batch_tokens:,} tokens, "
        f"{parameters:,} parameters, {device}" + (f", resuming at step {start:,}" if start else ""),
        highlight=False,
    )
    pace = Pace(
        outputs.valid_every or max(1, settings.steps // 10),
        outputs.checkpoint_every or max(1, settings.steps // 20),
        outputs.max_minutes,
    )
    with ConsoleMonitor(console, folder / "log.jsonl", settings.steps, start) as monitor:
        status, step, figures = run(trainer, prepared.valid, checkpoints, pace, monitor, start)
    facts = RunFacts(
        command=outputs.command,
        licence=outputs.licence,
        status=status,
        step=step,
        tokens_seen=round(step * settings.batch_tokens * prepared.tokens / sum(p.ids.size for p in prepared.packed)),
        figures=figures,
        device=_device_name(device),
        date=datetime.date.today().isoformat(),
    )
    export_model(outputs.out, trainer.model, prepared, settings, facts, torch.float16 if outputs.half else torch.float32)
    if status == "finished":
        write_atomic(folder / "finished.json", json.dumps({"step": step, **dataclasses.asdict(figures)}) + "\n")
        if not outputs.keep_checkpoints:
            checkpoints.clear()
    return Result(status, step, figures)


def _check_folder(out: Path, resume: bool) -> None:
    used = out.exists() and (not out.is_dir() or any(out.iterdir()))
    if used and not resume:
        raise InputError(f"{out} exists and is not empty: name another --out, or add --resume to go on with the run in it")
    if resume and not (out / "training" / "settings.json").exists():
        raise InputError(f"no run to resume in {out}: leave out --resume, or name the --out folder of an earlier run")
    if resume and (out / "training" / "finished.json").exists():
        raise InputError(f"the run in {out} is finished: name another --out to train again")


def _settle(settings: TrainSettings, prepared: Prepared, epochs: float) -> TrainSettings:
    plan = BatchPlan(prepared.packed, settings.batch_tokens, settings.seed)
    steps = settings.steps or max(1, round(epochs * plan.steps_per_epoch))
    return dataclasses.replace(settings, steps=steps, warmup=min(settings.warmup, max(1, steps // 10)), data=prepared.data)


def _device(name: str) -> torch.device:
    if name == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        device = torch.device(name)
        torch.zeros(1, device=device)
    except (RuntimeError, AssertionError) as error:
        raise InputError(f'device "{name}" cannot be used ({str(error).splitlines()[0]}): give cpu, cuda or auto') from None
    return device


def _device_name(device: torch.device) -> str:
    return f"one {torch.cuda.get_device_name(device)}" if device.type == "cuda" else f"CPU, {torch.get_num_threads()} threads"


def _reporter(console: Console, spinner: Spinner) -> Report:
    if console.is_terminal:
        return spinner.update
    seen: set[str] = set()

    def line(text: str) -> None:
        stage = text.partition(":")[0]
        if stage not in seen:
            seen.add(stage)
            console.print(stage, highlight=False)

    return line
