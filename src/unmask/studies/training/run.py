"""A run of `train`, from its options to its model folder.

The folder has the model, and in training/ the settings, the log and the last checkpoint, from which
a resumed run starts. `AutoModelForMaskedLM.from_pretrained` and `unmask.load` load the folder.

Several processes compute the same settings from the same data. Only the first of them writes and
reports.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any

from tokenizers import Tokenizer

from unmask.common.errors import InputError, argument_name
from unmask.common.files import reading, user_path, write_atomically
from unmask.common.warn import warn
from unmask.models.text.word_pieces import load_word_pieces
from unmask.runs.fingerprint import content_hash
from unmask.runs.folder import RunFolder, output_folder
from unmask.runs.progress import Progress
from unmask.studies.training.checkpoint import Checkpoint
from unmask.studies.training.choosing import (
    BYTES_PER_TOKEN,
    Data,
    announcement,
    choose,
    settle,
    suited_vocab,
)
from unmask.studies.training.corpus import TrainingData, prepare
from unmask.studies.training.log import RunLog
from unmask.studies.training.model_folder import model_card, write_model
from unmask.studies.training.parallel_corpus import prepare_parallel
from unmask.studies.training.processes import joined
from unmask.studies.training.recipe import Corpus, PathLike, Recipe, Side
from unmask.studies.training.settings import TrainSettings, refuse_what_does_not_fit
from unmask.studies.training.start import Start
from unmask.studies.training.steps import run_steps
from unmask.studies.training.text_sources import TextSource, one_source, parallel_sides, sources
from unmask.studies.training.trained import Trained
from unmask.studies.training.trainer import Trainer

logger: logging.Logger = logging.getLogger(__name__)


def train_model(
    corpus: Corpus | None,
    parallel: Sequence[Side] | None,
    recipe: Recipe,
    out: PathLike,
    *,
    max_minutes: float | None,
    device: str,
    progress: Progress | None,
) -> Trained:
    """Train a model by a recipe, on a corpus or a parallel one, and leave it in the folder `out`.

    A run that the folder holds already goes on from its last checkpoint.

    Checks that do not need the tokens come before the texts are tokenised, which may take long.
    """
    folder = output_folder(out)
    with joined(device) as processes:
        # Every process asks before any of them writes: they wait for each other below.
        begun = has_begun(folder)
        if processes.leads:
            refuse_folder(folder, begun)
        else:
            progress = None
        texts = _texts(corpus, parallel, recipe)
        start = _start(recipe)
        size_in_bytes = sum(source.size for source in texts)
        estimate = Data(
            tokens=size_in_bytes / BYTES_PER_TOKEN,
            pairs=parallel is not None,
            device=processes.device.type,
        )
        settings = choose(
            recipe.shape,
            recipe.objective,
            recipe.optimisation,
            seed=recipe.seed,
            data=estimate,
            start=start,
        )
        trains_tokenizer = start is None and recipe.shape.tokenizer is None
        suited = suited_vocab(estimate) if trains_tokenizer else None
        refuse_what_does_not_fit(
            settings, processes.device, processes.size, has_start=start is not None
        )
        valid = one_source(recipe.held_out.valid)
        resumed_folder = folder if begun else None
        tokenizer_path = tokenizer_to_use(recipe.shape.tokenizer, start, resumed_folder)
        with processes.in_turn():  # the others find its files in the cache
            prepared = _prepared(
                texts,
                valid,
                settings,
                valid_share=recipe.held_out.share,
                tokenizer_path=tokenizer_path,
                progress=progress,
                resumed=begun,
            )
        if start is not None:
            vocab_size = max(prepared.tokenizer.get_vocab().values()) + 1
            start.refuse_larger_vocabulary(vocab_size)
        if recipe.shape.tokenizer is not None:  # it decides their number, as a model does
            settings = replace(settings, vocab=prepared.tokenizer.get_vocab_size())
        data = replace(estimate, tokens=prepared.packed.tokens)
        settings = settle(settings, prepared.packed, data, recipe.options(), processes)
        identity = {
            **settings.to_dict(),
            "init": start.weights if start else None,
            "tokenizer": content_hash(prepared.tokenizer.to_str()),
            "data": prepared.fingerprint,
        }
        trainer = Trainer(settings, prepared, processes.device, init=start, processes=processes)
        epochs = settings.steps / trainer.plan.steps_per_epoch
        opened: AbstractContextManager[None] = nullcontext()
        if processes.leads:
            opened = _folder_opened(folder, identity, prepared.tokenizer, begun)
        with opened:
            checkpoint = Checkpoint(folder / "training" / "checkpoint.pt")
            done = checkpoint.restore(trainer.load_state, processes.device)
            log_file = folder / "training" / "log.jsonl"
            log = RunLog(log_file, trainer, checkpoint, start=done, progress=progress)
            if processes.leads:
                logger.info(announcement(settings, data, epochs, recipe.options(), done))
            if progress:
                progress(done, settings.steps, "steps")
            outcome = run_steps(trainer, prepared.valid, log, max_minutes, start=done)
            run = Trained(
                out=folder,
                status=outcome.status,
                step=outcome.step,
                validation=outcome.validation,
                parameters=sum(p.numel() for p in trainer.parameters),
                tokens=prepared.packed.tokens,
                epochs=epochs,
                settings=settings,
            )
            if processes.leads:
                card = model_card(run, prepared, processes.device, processes.size)
                write_model(run, trainer.model, prepared, card)
                if run.finished:
                    checkpoint.path.unlink(missing_ok=True)
        if processes.leads and run.finished:
            _warn_of_doubt(run, suited)
    return run


def _texts(
    corpus: Corpus | None, parallel: Sequence[Side] | None, recipe: Recipe
) -> list[TextSource]:
    """The sources of a corpus, or both sides of a parallel one."""
    if parallel is not None:
        return list(parallel_sides(parallel))
    if corpus is None:
        either = f"{argument_name('data')} or {argument_name('parallel')}"
        raise InputError(f"no text was given to train on: give {either}")
    return sources(corpus, recipe.weight)


def _start(recipe: Recipe) -> Start | None:
    """The model to start from; None for a new one."""
    if recipe.init is None:
        return None
    folder = user_path(recipe.init, "init")
    return Start.read(folder, causal=recipe.objective.name == "causal")


def tokenizer_to_use(
    path: PathLike | None, start: Start | None, resumed_folder: Path | None
) -> Path | None:
    """The tokenizer's file, or the folder that holds it; None if the run trains one.

    It is the one at `path`, which the user named, else that of the model to start from, else that
    of the resumed run.
    """
    if path is not None:
        return user_path(path, "tokenizer")
    if start is not None:
        return start.folder
    if resumed_folder is None:
        return None
    file = resumed_folder / "tokenizer.json"
    if not file.is_file():  # the user deleted a damaged one, as advised below
        return None
    try:
        load_word_pieces(file)
    except InputError:
        raise InputError(
            f"{str(file)!r} is damaged: delete it and give the same command again, which makes it"
            " again"
        ) from None
    return file


def _prepared(
    texts: Sequence[TextSource],
    valid: TextSource | None,
    settings: TrainSettings,
    *,
    valid_share: float,
    tokenizer_path: Path | None,
    progress: Progress | None,
    resumed: bool,
) -> TrainingData:
    """The data of the run: of texts, or of both sides of a parallel corpus."""
    if not settings.parallel:
        return prepare(
            texts,
            settings,
            valid_share,
            valid=valid,
            tokenizer_path=tokenizer_path,
            progress=progress,
            resumed=resumed,
        )
    source, target = texts
    return prepare_parallel(
        (source, target),
        settings,
        valid_share,
        tokenizer_path=tokenizer_path,
        progress=progress,
        resumed=resumed,
    )


def has_begun(out: Path) -> bool:
    """Whether a folder holds a run, finished or not."""
    with reading(out):
        return (out / "training" / "settings.json").exists()


def refuse_folder(out: Path, begun: bool) -> None:
    """Refuse a folder with other files, and one whose run is finished.

    begun   whether it holds a run
    """
    with reading(out):
        used = any(out.iterdir()) if out.is_dir() else out.exists()
        finished = (out / "training" / "finished.json").exists()
    if finished:
        init = argument_name("init", out)
        raise InputError(
            f"{str(out)!r} holds a training that is finished",
            argument="out",
            use=f"to train its model further, name another folder and give {init}",
        )
    if used and not begun:
        raise InputError(
            f"{str(out)!r} exists and is not empty", argument="out", use="name another folder"
        )


@contextmanager
def _folder_opened(
    folder: Path, identity: Mapping[str, Any], tokenizer: Tokenizer, begun: bool
) -> Iterator[None]:
    """Lock the folder for writing, and write the settings of the run and its tokenizer.

    A run that fails before it logs anything leaves no tokenizer.

    begun   whether the folder held this run before
    """
    run_folder = folder / "training"
    log_file = run_folder / "log.jsonl"
    tokenizer_file = folder / "tokenizer.json"
    with RunFolder(run_folder, "train", identity):
        try:
            if not begun and log_file.exists():
                raise InputError(
                    f"{str(folder)!r} has files that another run wrote meanwhile",
                    argument="out",
                    use="name another folder",
                )
            write_atomically(tokenizer_file, tokenizer.to_str())
            yield
        except Exception:
            if not log_file.exists():
                tokenizer_file.unlink(missing_ok=True)
            raise


def _warn_of_doubt(run: Trained, suited: int | None) -> None:
    """Warn if the model has learned nothing or little."""
    doubt = run.validation.doubt
    if doubt is not None:
        after = f"after {run.step:,} steps ({run.epochs:.3g} epochs) the model {doubt}"
        problem = f"{after}; {advice(run, suited)}"
        warn(problem)


def advice(run: Trained, suited: int | None) -> str:
    """What to do about a model that has learned nothing or little, with names of arguments for
    each surface to write.

    `suited` is the size of vocabulary that suits the corpus, if the run trains its tokenizer.
    """
    if not run.validation.positions:
        valid = argument_name("valid")
        return f"give longer texts as {valid}, or a larger {argument_name('valid_share')}"
    epochs = argument_name("epochs")
    if suited is not None and run.settings.vocab < suited:
        vocab = argument_name("vocab")
        return f"give a larger {vocab} ({suited} is chosen for this corpus), or more {epochs}"
    return f"give more {epochs} or more text"
