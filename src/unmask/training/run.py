"""`unmask.train`: a corpus in, a folder with a language model out."""

from __future__ import annotations

import dataclasses
import os
import warnings
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path

from unmask.arguments import checked
from unmask.errors import InputError, UnmaskWarning
from unmask.models.encoder.bert import BertMaskedLM
from unmask.models.text.word_pieces import load_word_pieces
from unmask.options.option import documented
from unmask.options.training import PAIRS_MASKING, PLAIN_MASKING, TrainOptions
from unmask.runs.files import read_object, reading, user_path, write_atomically, write_json
from unmask.runs.fingerprint import content_hash
from unmask.runs.folder import RunFolder
from unmask.runs.outputs import output_folder
from unmask.runs.progress import Progress
from unmask.training.corpus import Corpus, Held, Parallel, Prepared, Side, held_out_source, prepare, prepare_parallel, sources
from unmask.training.loop import CheckpointFolder, RunLog, TrainingRun, run_steps
from unmask.training.model_folder import Start, export_model, model_card
from unmask.training.packing import seed_for
from unmask.training.processes import joined
from unmask.training.settings import BYTES_PER_TOKEN, Data, TrainSettings, choose_shape, planned, refuse_what_does_not_fit, settle
from unmask.training.trainer import Trainer
from unmask.training.validation import Validation
from unmask.translation.pairs import fit_length_head

Name = str | os.PathLike[str]
MORE = "give more --epochs or more text"


@documented(TrainOptions)
@checked
def train(
    corpus: Corpus | None = None,
    *,
    out: Name,
    parallel: Sequence[Side] | None = None,
    distil: Name | None = None,
    weight: Sequence[float] | None = None,
    size: str = "auto",
    layers: int | None = None,
    width: int | None = None,
    heads: int | None = None,
    vocab: int | None = None,
    tokenizer: Name | None = None,
    init: Name | None = None,
    objective: str = "masked",
    max_length: int = 128,
    masking: str | None = None,
    mask_source: float | None = None,
    refinement: float | None = None,
    replacement: str | None = None,
    loss: str | None = None,
    compatibility: float | None = None,
    optimiser: str = "muon",
    lr: float | None = None,
    warmup: int = 500,
    steps: int = 0,
    epochs: float | None = None,
    batch_tokens: int | None = None,
    weight_decay: float = 0.01,
    dropout: float | None = None,
    label_smoothing: float = 0.0,
    seed: int = 0,
    valid: Corpus | None = None,
    valid_share: float = 0.02,
    max_minutes: float | None = None,
    resume: bool = False,
    device: str = "auto",
    progress: Progress | None = None,
) -> TrainingRun:
    """Train a masked language model (or a causal one) from text, and leave it in the folder `out`.

    An interrupt (Ctrl-C) ends the run after its step with a checkpoint and a usable model; `resume=True` continues it.

    Arguments: help(unmask.train)

    >>> texts = [f"The {who} met {n} friends." for who in ("baker", "sailor") for n in range(50)]
    >>> run = unmask.train(texts, out="friends", layers=1, width=16, heads=1, vocab=80, max_length=16,
    ...                    batch_tokens=128, steps=2, valid_share=0.2, device="cpu")
    >>> run.status
    'finished'
    """
    arguments = locals()
    options = TrainOptions.given(arguments)
    folder = output_folder("out", out, (corpus, parallel, distil, tokenizer, init, valid))
    with joined(device) as processes:
        on, progress = processes.device, progress if processes.leads else None
        if processes.leads:
            _refuse_folder(folder, resume)
        if (parallel is None) == (corpus is None):
            raise InputError("train takes a corpus or --parallel SOURCE TARGET: give one of the two")
        pairs = None if parallel is None else Parallel.of(parallel, distil)
        texts = [] if corpus is None else sources(corpus, weight)
        start = None if init is None else Start.read(user_path(init, "init"), objective == "causal")
        size_in_bytes = sum(source.size for source in (pairs.sides if pairs else texts))
        data = Data(size_in_bytes / BYTES_PER_TOKEN, pairs is not None, on.type)
        settings = TrainSettings(
            **choose_shape(size, data, arguments, start.shape if start else None, str(init)),
            masking=masking if masking is not None else PAIRS_MASKING if pairs and objective == "masked" else PLAIN_MASKING,
            parallel=pairs is not None,
            **{name: getattr(options, name) for name in AS_GIVEN},
        )
        refuse_what_does_not_fit(settings, on, processes.size)
        held = Held(None if valid is None else held_out_source(valid), valid_share)
        spelling = _tokenizer(tokenizer, start, folder if resume else None)
        with processes.in_turn():
            if pairs:
                prepared = prepare_parallel(pairs, settings, held, on, spelling, progress)
            else:
                prepared = prepare(texts, settings, held, spelling, progress)
        if start:
            start.refuse_other_sizes(max_length, max(prepared.tokenizer.get_vocab().values()) + 1)
        data = dataclasses.replace(data, tokens=prepared.packed.tokens)
        settings = settle(settings, prepared.packed, data, arguments, processes)
        identity = {
            **settings.to_dict(),
            "init": start.weights if start else None,
            "tokenizer": content_hash(prepared.tokenizer.to_str()),
            "corpus": prepared.corpus,
        }
        trainer = Trainer(settings, prepared, on, start, processes)
        with ExitStack() as stack:
            own = folder / "training"
            if processes.leads:
                stack.enter_context(RunFolder(folder, "train", identity, inside="training"))
                if not resume and (own / "log.jsonl").exists():
                    raise InputError(f"another run has written to {str(folder)!r} meanwhile: name another --out")
                write_atomically(folder / "tokenizer.json", prepared.tokenizer.to_str())
            checkpoints = CheckpointFolder(own / "checkpoints")
            done = checkpoints.restore(trainer.load_state, on)
            log = RunLog(own / "log.jsonl", settings.steps, done, progress, processes.leads)
            epochs = settings.steps / trainer.plan.steps_per_epoch
            if progress:
                progress(done, settings.steps, planned(settings, data, epochs, arguments, done))
            status, step, figures = run_steps(trainer, prepared.valid, checkpoints, log, max_minutes, done)
            run = TrainingRun(
                out=folder,
                status=status,
                step=step,
                validation=figures,
                parameters=sum(p.numel() for p in trainer.parameters),
                tokens=prepared.packed.tokens,
                epochs=epochs,
                settings=settings,
            )
            if processes.leads:
                _write(run, trainer.model, prepared, model_card(run, prepared, on, processes.size))
                if run.finished:
                    checkpoints.clear()
                    warn_of_unlearned(run)
    return run


AS_GIVEN = (
    *("max_length", "objective", "replacement", "loss", "compatibility", "optimiser", "warmup", "steps", "weight_decay", "seed"),
    *("dropout", "label_smoothing", "mask_source", "refinement"),
)
"""Settings that an option decides alone, or that `settle` changes when the rows are known."""


def _write(run: TrainingRun, model: BertMaskedLM, prepared: Prepared, card: str) -> None:
    """Write the model folder, and note that the run is finished if it is."""
    settings, pairs = run.settings, prepared.pairs
    if pairs and settings.objective == "masked":
        fit_length_head(model, pairs.layout, pairs.sources, pairs.targets, seed_for(settings.seed, 2)).save(run.out)
    export_model(run.out, model, prepared.tokenizer, settings, card)
    if pairs:
        pairs.layout.save(run.out, settings.objective, prepared.tokenizer.get_vocab(), settings.corrects)
    if run.finished:
        write_json(run.out / "training" / "finished.json", {"step": run.step, **dataclasses.asdict(run.validation)})


def warn_of_unlearned(run: TrainingRun) -> None:
    """Warn if a finished run left a model that has learned nothing or little."""
    if doubt := run.validation.doubt:
        done = f"{run.step:,} steps ({run.epochs:.3g} epochs)"
        warnings.warn(f"after {done} the model {doubt}; {MORE}", UnmaskWarning, stacklevel=3)


def _refuse_folder(out: Path, resume: bool) -> None:
    """Refuse a folder that is not empty, unless it holds a run to resume."""
    with reading(out):
        used = out.exists() and (not out.is_dir() or any(out.iterdir()))
    if used and not resume:
        raise InputError(f"{str(out)!r} exists and is not empty: name another --out, or add --resume to go on with the run in it")
    if resume and not (out / "training" / "settings.json").exists():
        raise InputError(f"no run to resume in {str(out)!r}: leave out --resume, or name the --out folder of an earlier run")
    if resume and (finished := out / "training" / "finished.json").exists():
        names = {field.name for field in dataclasses.fields(Validation)}
        stored = read_object(finished, ("loss", "accuracy", "positions"), "name another --out")
        doubt = Validation(**{name: value for name, value in stored.items() if name in names}).doubt
        more = f", and its model {doubt}; {MORE}" if doubt else ""
        raise InputError(f"the run in {str(out)!r} is finished{more}: name another --out to train again")


def _tokenizer(path: Name | None, start: Start | None, resumed: Path | None) -> Path | None:
    """The tokenizer to use: that at `path`, of the model to start from, or of the resumed run; None trains one."""
    if path is not None:
        return user_path(path, "tokenizer")
    if start is not None:
        return start.folder
    if resumed is None or not (file := resumed / "tokenizer.json").is_file():
        return None
    try:
        load_word_pieces(file)
    except InputError:
        raise InputError(f"{str(file)!r} is damaged: delete it and give the same command again, which makes it again") from None
    return file
