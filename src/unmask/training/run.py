"""A run from its corpus to its folder, and its result."""

from __future__ import annotations

import dataclasses
import warnings
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from unmask.errors import InputError, UnmaskWarning
from unmask.models.encoder.bert import BertMaskedLM
from unmask.models.text.word_pieces import load_word_pieces
from unmask.results import Result
from unmask.runs.files import read_object, reading, user_path, write_atomically, write_json
from unmask.runs.fingerprint import content_hash
from unmask.runs.folder import RunFolder
from unmask.runs.outputs import output_folder
from unmask.runs.progress import Progress
from unmask.training.corpus import Held, Parallel, Prepared, held_out_source, prepare, prepare_parallel, sources
from unmask.training.loop import CheckpointFolder, RunLog, Status, read_log, run_steps
from unmask.training.model_folder import Start, export_model, model_card
from unmask.training.packing import seed_for
from unmask.training.processes import joined
from unmask.training.recipe import Causal, Corpus, HeldOut, Masked, Optimisation, PathLike, Shape, Side
from unmask.training.settings import (
    BYTES_PER_TOKEN,
    Data,
    TrainSettings,
    choose,
    planned,
    refuse_what_does_not_fit,
    settle,
)
from unmask.training.trainer import Trainer
from unmask.training.validation import Validation
from unmask.translation.pairs import fit_length_head

if TYPE_CHECKING:
    import pandas

MORE = "give more --epochs or more text"


@dataclass(frozen=True)
class TrainingRun(Result):
    """A run that finished, was interrupted or paused, and the model folder `out` that it left.

    out          the folder of the model
    status       "finished", "interrupted" or "paused"
    step         steps done, of `steps`
    validation   loss in nats, accuracy and positions: with 15 % of held-out tokens masked, or of the next token (causal)
    parameters   of the model
    tokens       in an epoch
    epochs       of all steps
    settings     what decided the weights, those that were chosen for the data included
    learned      whether the validation loss is better than that of the tokens' frequencies (`validation.unigram`), and, of a
                 masked model of pairs, whether it does more than repeat one token; if not, `validation.doubt` has the reason
    """

    KEYS = ("out", "status", "step", "steps", "validation", "learned", "parameters", "tokens", "epochs", "settings")
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
        """The log, one row per note: step, loss, lr, tokens_per_second, valid_loss, valid_accuracy, seconds."""
        import pandas

        return pandas.DataFrame(read_log(self.out / "training" / "log.jsonl"))

    @property
    def headline(self) -> str:
        """The line that the command prints."""
        figures = f"validation {self.validation.loss:.3f} nats, {self.validation.accuracy:.1%}"
        frequencies = f"(the tokens' frequencies alone: {self.validation.unigram:.3f})"
        return f"{self.out}: {self.status} at step {self.step:,} of {self.steps:,}, {figures} {frequencies}"

    __str__ = headline.fget  # type: ignore[assignment]


def trained(
    corpus: Corpus | None,
    out: PathLike,
    parallel: Sequence[Side] | None,
    distil: PathLike | None,
    weight: Sequence[float] | None,
    init: PathLike | None,
    objective: Masked | Causal,
    shape: Shape,
    optimisation: Optimisation,
    held_out: HeldOut,
    seed: int,
    max_minutes: float | None,
    resume: bool,
    device: str,
    progress: Progress | None,
) -> TrainingRun:
    """The run of `unmask.train`, whose docstring has the arguments."""
    read = (corpus, parallel, distil, shape.tokenizer, init, held_out.valid)
    folder = output_folder("out", out, read)
    with joined(device) as processes:
        on, progress = processes.device, progress if processes.leads else None
        if processes.leads:
            _refuse_folder(folder, resume)
        _refuse_mixed(corpus, parallel, distil, weight, objective, held_out)
        pairs = None if parallel is None else Parallel.of(parallel, distil)
        texts = [] if corpus is None else sources(corpus, weight)
        start = None if init is None else Start.read(user_path(init, "init"), objective.name == "causal")
        size_in_bytes = sum(source.size for source in (pairs.sides if pairs else texts))
        data = Data(size_in_bytes / BYTES_PER_TOKEN, pairs is not None, on.type)
        settings = choose(shape, objective, optimisation, seed, data, start)
        refuse_what_does_not_fit(settings, on, processes.size)
        held = Held(None if held_out.valid is None else held_out_source(held_out.valid), held_out.valid_share)
        tokenizer = _tokenizer(shape.tokenizer, start, folder if resume else None)
        with processes.in_turn():
            if pairs:
                prepared = prepare_parallel(pairs, settings, held, on, tokenizer, progress)
            else:
                prepared = prepare(texts, settings, held, tokenizer, progress)
        if start:
            start.refuse_other_sizes(settings.max_length, max(prepared.tokenizer.get_vocab().values()) + 1)
        data = dataclasses.replace(data, tokens=prepared.packed.tokens)
        chosen_by_user = {**vars(shape), **vars(objective), **vars(optimisation), "init": init}
        settings = settle(settings, prepared.packed, data, chosen_by_user, processes)
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
                progress(done, settings.steps, planned(settings, data, epochs, chosen_by_user, done))
            status, step, figures = run_steps(trainer, prepared.valid, checkpoints, log, max_minutes, done)
            parameters = sum(p.numel() for p in trainer.parameters)
            run = TrainingRun(folder, status, step, figures, parameters, prepared.packed.tokens, epochs, settings)
            if processes.leads:
                _write(run, trainer.model, prepared, model_card(run, prepared, on, processes.size))
                if run.finished:
                    checkpoints.clear()
                    warn_of_unlearned(run)
    return run


def _refuse_mixed(
    corpus: Corpus | None,
    parallel: Sequence[Side] | None,
    distil: PathLike | None,
    weight: Sequence[float] | None,
    objective: Masked | Causal,
    held_out: HeldOut,
) -> None:
    """Refuse options of pairs without pairs, and options of texts without texts."""
    if (parallel is None) == (corpus is None):
        raise InputError("train takes a corpus or --parallel SOURCE TARGET: give one of the two")
    masked = objective if isinstance(objective, Masked) else Masked()
    of_pairs = {"distil": distil, "mask_source": masked.mask_source, "refinement": masked.refinement or None}
    of_texts = {"weight": weight, "valid": held_out.valid}
    for name, value in (of_pairs if parallel is None else of_texts).items():
        if value is not None:
            what, other = ("a CORPUS of texts", "--parallel SOURCE TARGET")[:: 1 if parallel is None else -1]
            raise InputError(f"{name} was given, which {what} does not use: leave it out, or use {other}")


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


def _tokenizer(path: PathLike | None, start: Start | None, resumed: Path | None) -> Path | None:
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
