"""`train`: a corpus in, a folder with a language model out."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Annotated

from annotated_types import Interval

import unmask
from unmask.common.errors import InputError, UnmaskWarning
from unmask.common.signature import Method, Written, checked
from unmask.runs.progress import Progress
from unmask.studies.training.recipe import (
    Causal,
    Corpus,
    HeldOut,
    Masked,
    Optimisation,
    Shape,
    Side,
)
from unmask.verbs import PathLike, Seed

logger = logging.getLogger(__name__)
Weight = Annotated[float, Interval(gt=0, le=1e6)]


@checked
def train(
    corpus: Annotated[Corpus | None, Written(metavar="CORPUS...", repeat=True)] = None,
    *,
    out: PathLike,
    parallel: Annotated[Sequence[Side] | None, Written(metavar="SOURCE TARGET", words=2)] = None,
    weight: Sequence[Weight] | None = None,
    init: PathLike | None = None,
    objective: Annotated[
        Masked | Causal | str, Method("unmask.studies.training.recipe:OBJECTIVES")
    ] = "masked",
    shape: Shape = Shape(),  # noqa: B008
    optimisation: Optimisation = Optimisation(),  # noqa: B008
    held_out: HeldOut = HeldOut(),  # noqa: B008
    seed: Seed = 0,
    max_minutes: Annotated[float, Interval(ge=0, le=1e7)] | None = None,
    resume: bool = False,
    device: str = "auto",
    progress: Progress | None = None,
) -> unmask.TrainingRun:
    """Train a masked language model (or a causal one) from text, and leave it in the folder `out`.

    Settings that are left out are chosen for the data and the device, and printed first. The
    folder loads in unmask (as model) and in Hugging Face's transformers, and has a model card.
    An interrupt (Ctrl-C) ends the run after its step with a checkpoint and a usable model;
    resume continues with the same numbers. On several GPUs: torchrun --nproc-per-node N -m
    unmask train with the same options.

    Parameters:
        corpus: Text files, one text per line: .txt, .txt.xz, .txt.gz or .jsonl with the text
            under "text". Or a list of texts.
        out: Folder for the model; must not exist, unless resume.
        parallel: Instead of a corpus: a file of sources and one of their translations (for
            example what translate saved), line by line; or two lists of texts.
        weight: How often an epoch sees each corpus file, such as 1,8; one per file, in order.
        init: A model folder to start from; its shape and tokenizer are taken with its weights.
        objective: masked, or causal (of the next token).
        shape: Shape of the network, and its tokenizer.
        optimisation: Optimiser, steps and regularisation.
        held_out: Texts of the validation.
        seed: Seed of weights, order and masks.
        max_minutes: Pause after this time, with a checkpoint.
        resume: Go on with the run in out.
        device: cpu, cuda or auto.

    >>> texts = [f"The {who} met {n} friends." for who in ("baker", "sailor") for n in range(50)]
    >>> small = unmask.Shape(layers=1, width=16, heads=1, vocab=80, max_length=16)
    >>> two_steps = unmask.Optimisation(steps=2, batch_tokens=128)
    >>> held_out = unmask.HeldOut(valid_share=0.2)
    >>> run = unmask.train(
    ...     texts,
    ...     out="friends",
    ...     shape=small,
    ...     optimisation=two_steps,
    ...     held_out=held_out,
    ...     device="cpu",
    ... )
    >>> run.status
    'finished'
    """
    from contextlib import ExitStack
    from dataclasses import replace
    from warnings import warn

    from unmask.common.files import user_path, write_atomically
    from unmask.runs.fingerprint import content_hash
    from unmask.runs.folder import RunFolder, output_folder
    from unmask.studies.training import run as runs
    from unmask.studies.training.choosing import (
        BYTES_PER_TOKEN,
        Data,
        announcement,
        choose,
        settle,
        suited_vocab,
    )
    from unmask.studies.training.corpus import prepare
    from unmask.studies.training.parallel_corpus import prepare_parallel
    from unmask.studies.training.processes import joined
    from unmask.studies.training.settings import refuse_what_does_not_fit
    from unmask.studies.training.start import Start
    from unmask.studies.training.text_sources import one_source, parallel_sides, sources
    from unmask.studies.training.trainer import Trainer

    assert not isinstance(objective, str)  # `checked` turned a name into an object
    folder = output_folder(out)
    with joined(device) as processes:
        on, progress = processes.device, progress if processes.leads else None
        if processes.leads:
            runs.refuse_folder(folder, resume)
        if (parallel is None) == (corpus is None):
            raise InputError(
                "train takes a corpus or --parallel SOURCE TARGET: give one of the two"
            )
        options = {**vars(shape), **vars(objective), **vars(optimisation), **vars(held_out)}
        options |= {"init": init, "weight": weight}
        runs.refuse_mixed(options, pairs=corpus is None)
        sides = None if parallel is None else parallel_sides(parallel)
        texts = [] if corpus is None else sources(corpus, weight)
        start = (
            None
            if init is None
            else Start.read(user_path(init, "init"), objective.name == "causal")
        )
        size_in_bytes = sum(source.size for source in sides or texts)
        data = Data(size_in_bytes / BYTES_PER_TOKEN, sides is not None, on.type)
        settings = choose(shape, objective, optimisation, seed, data, start)
        suited = suited_vocab(data) if start is None and shape.tokenizer is None else None
        refuse_what_does_not_fit(settings, on, processes.size)
        valid = one_source(held_out.valid)
        tokenizer = runs.tokenizer_to_use(shape.tokenizer, start, folder if resume else None)
        with processes.in_turn():
            if sides:
                prepared = prepare_parallel(
                    sides, settings, held_out.valid_share, tokenizer, progress, resume
                )
            else:
                prepared = prepare(
                    texts, settings, held_out.valid_share, valid, tokenizer, progress, resume
                )
        if start:
            start.refuse_other_sizes(
                settings.max_length, max(prepared.tokenizer.get_vocab().values()) + 1
            )
        data = replace(data, tokens=prepared.packed.tokens)
        settings = settle(settings, prepared.packed, data, options, processes)
        identity = {
            **settings.to_dict(),
            "init": start.weights if start else None,
            "tokenizer": content_hash(prepared.tokenizer.to_str()),
            "corpus": prepared.fingerprint,
        }
        trainer = Trainer(settings, prepared, on, start, processes)
        with ExitStack() as stack:
            run_folder = folder / "training"
            if processes.leads:
                stack.enter_context(RunFolder(run_folder, "train", identity))
                stack.enter_context(runs.beginning(folder))
                if not resume and (run_folder / "log.jsonl").exists():
                    raise InputError(
                        f"another run has written to {str(folder)!r} meanwhile: name another --out"
                    )
                write_atomically(folder / "tokenizer.json", prepared.tokenizer.to_str())
            checkpoint = runs.Checkpoint(run_folder / "checkpoint.pt")
            done = checkpoint.restore(trainer.load_state, on)
            log = runs.RunLog(run_folder / "log.jsonl", trainer, checkpoint, done, progress)
            epochs = settings.steps / trainer.plan.steps_per_epoch
            if processes.leads:
                logger.info(announcement(settings, data, epochs, options, done))
            if progress:
                progress(done, settings.steps, "steps")
            status, step, figures = runs.run_steps(trainer, prepared.valid, log, max_minutes, done)
            parameters = sum(p.numel() for p in trainer.parameters)
            run = runs.TrainingRun(
                folder, status, step, figures, parameters, prepared.packed.tokens, epochs, settings
            )
            if processes.leads:
                runs.write_model(
                    run, trainer.model, prepared, runs.model_card(run, prepared, on, processes.size)
                )
                if run.finished:
                    checkpoint.path.unlink(missing_ok=True)
                if run.finished and (doubt := run.validation.doubt):
                    after = f"after {step:,} steps ({epochs:.3g} epochs) the model {doubt}"
                    warn(f"{after}; {runs.advice(run, suited)}", UnmaskWarning, stacklevel=3)
    return run
