"""`unmask.train`: a corpus in, a folder with a language model out."""

from __future__ import annotations

import dataclasses
import inspect
import os
import shlex
import warnings
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from unmask import checks
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
from unmask.training.choosing import BYTES_PER_TOKEN, Data, choose_shape, planned, settle
from unmask.training.corpus import Given, TextSource, sources
from unmask.training.hub import push, refuse_unpushable
from unmask.training.loop import Pace, Trainer, run_steps
from unmask.training.packing import seed_for
from unmask.training.prepare import Held, Parallel, Prepared, Side, prepare, prepare_parallel
from unmask.training.processes import joined, versions
from unmask.training.result import CheckpointFolder, RunLog, TrainingRun, export_model, model_card
from unmask.training.settings import Start, TrainSettings, refuse_what_does_not_fit
from unmask.training.token_store import cache_folder, default_cache
from unmask.training.validation import Validation
from unmask.translation.pairs import fit_length_head

Name = str | os.PathLike[str]
NOT_OF_THE_MODEL = ("corpus", "parallel", "progress", "resume", "push_to", "private")
"""Arguments that the command on a model card states in another way, or not at all."""
MORE = "give more --epochs or more text"
SEGMENTS = (24, 64)
"""Lengths that lines are cut to by default, beside --max-length."""


@documented(TrainOptions)
@checked
def train(
    corpus: Given | None = None,
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
    rename: Mapping[str, str] | None = None,
    field: str = "text",
    objective: str = "masked",
    max_length: int = 128,
    segment_lengths: str | Sequence[int] | None = None,
    buckets: str | Sequence[int] | None = None,
    masking: str | None = None,
    mask_source: float | None = None,
    refinement: float | None = None,
    replacement: str | None = None,
    loss: str | None = None,
    compatibility: float | None = None,
    compatibility_rows: int | None = None,
    optimiser: str = "muon",
    lr: float | None = None,
    warmup: int = 500,
    steps: int = 0,
    epochs: float | None = None,
    batch_tokens: int | None = None,
    weight_decay: float = 0.01,
    beta2: float = 0.98,
    clip: float = 1.0,
    dropout: float | None = None,
    label_smoothing: float = 0.0,
    precision: str = "auto",
    seed: int = 0,
    valid: Given | None = None,
    valid_share: float = 0.02,
    valid_max_tokens: int | None = None,
    valid_every: int = 0,
    checkpoint_every: int = 0,
    max_minutes: float | None = None,
    resume: bool = False,
    keep_checkpoints: bool = False,
    half: bool = False,
    licence: str = "unknown",
    push_to: str | None = None,
    private: bool = False,
    shard_optimiser: bool = False,
    cache: Name | None = None,
    device: str = "auto",
    compile: bool | None = None,
    progress: Progress | None = None,
) -> TrainingRun:
    """Train a masked language model (or a causal one) from text, and leave it in the folder `out`.

    An interrupt (Ctrl-C) ends the run after its step with a checkpoint and a usable model; `resume=True` continues it.

    Arguments: help(unmask.train)

    >>> texts = [f"The {who} met {n} friends." for who in ("baker", "sailor") for n in range(50)]
    >>> run = unmask.train(texts, out="friends", layers=1, width=16, heads=1, vocab=80, max_length=16,
    ...                    segment_lengths="16", batch_tokens=128, steps=2, valid_share=0.2, device="cpu")
    >>> run.status
    'finished'
    """
    given = locals()
    options = TrainOptions.given(given)
    folder = output_folder("out", out, (corpus, parallel, distil, tokenizer, init, valid))
    if push_to is not None:
        refuse_unpushable(push_to)
    elif private:
        raise InputError("private was given without push_to: give --push-to OWNER/NAME, or leave it out")
    with joined(device) as processes:
        on, progress = processes.device, progress if processes.leads else None
        processes.refuse_others({name: _spelled(value) for name, value in given.items() if name != "progress"} | versions(on))
        with processes.agreed():
            _refuse_folder(folder, resume)
            pairs = _pairs(parallel, distil, corpus)
            start = None if init is None else Start.read(user_path(init, "init"), objective == "causal", rename)
            if rename and not start:
                raise InputError("rename was given without a model to start from: give --init, or leave it out")
            read = [] if corpus is None else sources(corpus, weight, field)
            data = Data(
                sum(source.size for source in (pairs.sides if pairs else read)) / BYTES_PER_TOKEN, pairs is not None, on.type
            )
            asked = {"layers": layers, "width": width, "heads": heads, "vocab": vocab, "batch_tokens": batch_tokens, "lr": lr}
            settings = options.part(
                TrainSettings,
                **choose_shape(size, data, asked, start.shape if start else None, str(init)),
                segment_lengths=_segment_lengths(segment_lengths, max_length, parallel is not None),
                buckets=_lengths("buckets", (max_length,) if buckets is None else buckets),
                masking=masking if masking is not None else PAIRS_MASKING if pairs and objective == "masked" else PLAIN_MASKING,
                parallel=parallel is not None,
            )
            pace = Pace(valid_every, checkpoint_every, max_minutes)
            refuse_what_does_not_fit(settings, on, processes.size, shard_optimiser)
            held = Held(None if valid is None else _held_out(valid, field), valid_share, valid_max_tokens)
            kept = default_cache() if cache is None else cache_folder(output_folder("cache", cache))
            spelling = _tokenizer(tokenizer, start, folder if resume else None)
        with processes.agreed(), processes.in_turn():
            if pairs:
                prepared = prepare_parallel(pairs, settings, held, kept, on, spelling, progress)
            else:
                prepared = prepare(read, settings, held, kept, spelling, progress)
        with processes.agreed():
            if start:
                start.refuse_other_sizes(max_length, max(prepared.tokenizer.get_vocab().values()) + 1)
            data = dataclasses.replace(data, tokens=prepared.tokens)
            settings = settle(settings, prepared.packed, data, given, processes)
        identity = {
            **settings.to_dict(),
            "init": start.weights if start else None,
            "tokenizer": content_hash(prepared.tokenizer.to_str()),
            "corpus": prepared.corpus,
        }
        processes.refuse_others(identity)
        compiled = on.type == "cuda" if compile is None else compile
        trainer = Trainer(settings, prepared, on, compiled, start, processes, shard_optimiser and not processes.alone)
        with ExitStack() as stack:
            own = folder / "training"
            with processes.agreed():
                if processes.leads:
                    stack.enter_context(RunFolder(folder, "train", identity, inside="training"))
                    if not resume and (own / "log.jsonl").exists():
                        raise InputError(f"another run has written to {str(folder)!r} meanwhile: name another --out")
                    write_atomically(folder / "tokenizer.json", prepared.tokenizer.to_str())
            checkpoints = CheckpointFolder(own / "checkpoints")
            with processes.agreed():
                done = checkpoints.restore(trainer.load_state, on)
            processes.refuse_others({"a checkpoint of step": done})
            log = RunLog(own / "log.jsonl", settings.steps, done, progress, processes.leads)
            epochs = settings.steps / trainer.plan.steps_per_epoch
            if progress:
                progress(done, settings.steps, planned(settings, data, epochs, given, done))
            status, step, figures = run_steps(trainer, prepared.valid, checkpoints, pace, log, done)
            made = TrainingRun(
                out=folder,
                status=status,
                step=step,
                validation=figures,
                parameters=sum(p.numel() for p in trainer.parameters),
                tokens=prepared.tokens,
                epochs=epochs,
                settings=settings,
            )
            with processes.agreed():
                if processes.leads:
                    card = model_card(made, prepared, _command(given, read, held.source), licence, on, processes.size)
                    _write(made, trainer.model, prepared, card, half)
                    if made.finished and not keep_checkpoints:
                        checkpoints.clear()
        with processes.agreed():
            if processes.leads and made.finished:
                warn_of_unlearned(made)
                if push_to is not None:
                    push(folder, push_to, private)
    return made


def _write(made: TrainingRun, model: BertMaskedLM, prepared: Prepared, card: str, half: bool) -> None:
    """Write the model folder, and note that the run is finished if it is."""
    settings, known = made.settings, prepared.pairs
    if known and settings.objective == "masked":
        fit_length_head(model, known.layout, known.sources, known.targets, seed_for(settings.seed, 2)).save(made.out)
    export_model(made.out, model, prepared.tokenizer, settings, card, half)
    if known:
        known.layout.save(made.out, settings.objective, prepared.tokenizer.get_vocab(), settings.corrects)
    if made.finished:
        write_json(made.out / "training" / "finished.json", {"step": made.step, **dataclasses.asdict(made.validation)})


def warn_of_unlearned(made: TrainingRun) -> None:
    """Warn if a finished run left a model that has learned nothing or little."""
    if doubt := made.validation.doubt:
        done = f"{made.step:,} steps ({made.epochs:.3g} epochs)"
        warnings.warn(f"after {done} the model {doubt}; {MORE}", UnmaskWarning, stacklevel=3)


def _pairs(parallel: Sequence[Side] | None, distil: Name | None, corpus: Given | None) -> Parallel | None:
    """The parallel corpus, if one is given instead of a corpus of texts."""
    if (parallel is None) == (corpus is None):
        raise InputError("train takes a corpus or --parallel SOURCE TARGET: give one of the two")
    return None if parallel is None else Parallel.of(parallel, distil)


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


def _tokenizer(given: Name | None, start: Start | None, resumed: Path | None) -> Path | None:
    """The tokenizer to use: the given one, that of the model to start from, or that of the resumed run; None trains one."""
    if given is not None:
        return user_path(given, "tokenizer")
    if start is not None:
        return start.folder
    if resumed is None or not (file := resumed / "tokenizer.json").is_file():
        return None
    try:
        load_word_pieces(file)
    except InputError:
        raise InputError(f"{str(file)!r} is damaged: delete it and give the same command again, which makes it again") from None
    return file


def _segment_lengths(given: str | Sequence[int] | None, max_length: int, parallel: bool) -> tuple[int, ...]:
    """The lengths that lines are cut to: those given, or by default SEGMENTS and the longest. Pairs are not cut."""
    if given is None:
        return (max_length,) if parallel else (*(length for length in SEGMENTS if length < max_length), max_length)
    return _lengths("segment_lengths", given)


def _lengths(name: str, given: str | Sequence[int]) -> tuple[int, ...]:
    return tuple(checks.numbers(name, given, int)) if isinstance(given, str) else tuple(given)


def _held_out(valid: Given, field: str) -> TextSource:
    found = sources(valid, None, field, "valid")
    if len(found) != 1:
        raise InputError(f"valid names {len(found)} files: give one")
    return found[0]


def _command(given: Mapping[str, Any], read: Sequence[TextSource], held: TextSource | None) -> str:
    """The command line of a call: the corpus, and every option that is not at its default."""
    words = ["unmask", "train", *map(_where, read)]
    if given["parallel"] is not None:
        words += ["--parallel", *(_where(side) for side in Parallel.of(given["parallel"]).sides)]
    for name, parameter in inspect.signature(train).parameters.items():
        value, option = given[name], f"--{name.replace('_', '-')}"
        if name in NOT_OF_THE_MODEL or _spelled(value) == _spelled(parameter.default):
            continue
        if isinstance(value, bool):
            words.append(option if value else f"--no-{name}")
        elif name == "weight":
            words += [word for number in value for word in (option, f"{number:g}")]
        elif name == "rename":
            words += [word for old, new in value.items() for word in (option, f"{old}={new}")]
        else:
            words += [option, _where(held) if name == "valid" and held else _spelled(value)]
    return shlex.join(words)


def _where(source: TextSource) -> str:
    return str(source.path or f"({source.name})")


def _spelled(value: object) -> str:
    """A value as the command line spells it: (24, 64) is 24,64."""
    value = value.tolist() if hasattr(value, "tolist") else value
    return ",".join(map(str, value)) if isinstance(value, list | tuple) else str(value)
