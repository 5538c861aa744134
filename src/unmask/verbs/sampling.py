"""Verbs that draw texts, by Markov chains or decoders, and judge them: sample, diagnose,
translate.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, Any, TypeAlias, overload

from annotated_types import Interval

import unmask
from unmask.common.border.calls import checked, trusted
from unmask.common.border.marks import Only, ShownType, TakesMethod, Written
from unmask.common.errors import InputError, argument_name
from unmask.models.load import Model, model_name
from unmask.models.sharing import shared_model
from unmask.runs.progress import Progress
from unmask.sampling.decoders.decoder import Decoder
from unmask.sampling.energies.energy import ModelEnergy
from unmask.sampling.energies.with_terms import Energy
from unmask.sampling.methods import SampleMethod
from unmask.sampling.settings import (
    BurnIn,
    Chains,
    Lengths,
    SampleSettings,
    Start,
    Sweeps,
)
from unmask.studies.translation.recipe import Auto, Beam, Translator
from unmask.verbs import Engine, Out, PathLike, Seed

TextFile = Annotated[PathLike | Sequence[str], Written(metavar="FILE")]
Count = Annotated[int, Interval(ge=1, le=10**4)]
if TYPE_CHECKING:
    from unmask.sampling.energies.with_terms import TermOfIds

    Run: TypeAlias = unmask.SampleRun | PathLike
    Runs: TypeAlias = list[Run] | tuple[Run, ...]
else:
    TermOfIds = Annotated[Callable, ShownType("Callable[[Tensor], Tensor]")]
    Run = Annotated[
        Any, ShownType("SampleRun | str | PathLike[str]"), Written(metavar="FOLDER...", repeat=True)
    ]
    Runs = Annotated[Any, ShownType("list[SampleRun | str | PathLike[str]]")]


@checked
def sample(
    template: str | None = None,
    model: Model = None,
    *,
    kernel: Annotated[SampleMethod | str, TakesMethod("unmask.sampling.methods:METHODS")] = "mh",
    energy: Annotated[
        ModelEnergy | Energy | TermOfIds | str,
        TakesMethod("unmask.sampling.energies.with_terms:SAMPLED"),
    ] = "norm",
    length: Annotated[
        Lengths | Sequence[Lengths] | None, Only(without=("template", "init"))
    ] = None,
    chains: Chains = 16,
    sweeps: Sweeps = 20,
    seed: Seed = 0,
    burn_in: BurnIn = 0,
    thin: Sweeps = 1,
    start: Start = Start(),  # noqa: B008
    out: Out = None,
    engine: Engine = "local",
    progress: Progress | None = None,
) -> unmask.SampleRun:
    """Sample texts from the energy behind a model, by Markov chains or decoders, and measure
    how far to trust them.

    Parameters:
        template: Text with [MASK] where tokens are sampled; the rest is held.
        kernel: What moves the chains, or a decoder: {names}; or a class of your own,
            my.py:Mine. In Python also an object with its options, such as
            unmask.Block(block_size=3).
        energy: Which energy the chains sample: {names}; or a class of your own, my.py:Mine; or
            my.py:function, the norm energy and a function of token ids. In Python also objects
            and functions, or an energy with terms of your own: unmask.Energy("norm",
            text_terms=[...]).
        length: Tokens per text in the place of a template, or several lengths such as 8,12,16
            [default: 12].
        chains: Chains, or texts decoded at once. The default is a first try; averages need
            about 64 chains of 1,000 sweeps.
        sweeps: How often each chain redraws all of its tokens; diagnose says whether that was
            enough.
        burn_in: First sweeps that are not kept.
        thin: Keep every n-th sweep.
        start: Where chains start, and which tokens they may hold.

    Returns:
        A `SampleRun`: the texts with their energies, and a diagnosis.

    >>> run = unmask.sample("A [MASK] sat on the [MASK].", chains=2, sweeps=3, seed=0)
    >>> len(run.to_frame())
    6
    """
    # `checked` turned names and functions into objects
    whole = energy if isinstance(energy, Energy) else trusted(Energy, kind=energy)
    settings = SampleSettings(
        kernel=kernel,  # type: ignore[arg-type]  # `checked` turned a name into an object
        energy=whole.of_model,
        template=template,
        length=(12,) if length is None else (length,) if isinstance(length, int) else tuple(length),
        chains=chains,
        sweeps=sweeps,
        seed=seed,
        burn_in=burn_in,
        thin=thin,
        start=start,
    )
    from unmask.runs.folder import output_folder
    from unmask.sampling.chains.diagnosis import write_diagnosis
    from unmask.sampling.chains.drawing import draw_samples
    from unmask.sampling.chains.sample_folder import KIND
    from unmask.sampling.chains.sharing import SharedChains

    if out is not None:
        output_folder(out, KIND)
    lm, workers, load = shared_model(model, engine, settings.chains)
    shared = (
        None if workers is None or load is None else SharedChains(settings, workers, load, whole)
    )
    run = draw_samples(
        settings, lm, out, name=model_name(model), energy=whole, progress=progress, shared=shared
    )
    if run.folder is not None:
        write_diagnosis(run, run.diagnosis)
    return run


@overload
def diagnose(run: Run, judge: str | None = None) -> unmask.Diagnosis: ...
@overload
def diagnose(run: Runs, judge: str | None = None) -> unmask.Diagnoses: ...
@checked
def diagnose(run: Run | Runs, judge: str | None = None) -> unmask.Diagnosis | unmask.Diagnoses:
    """Measure how far to trust the samples of a run: whether chains mixed, what moved, whether
    texts repeat themselves.

    A run that has a folder gets diagnostics.json there, and, of chains, figures/chains.png.
    Several runs are put side by side.

    Parameters:
        run: The out folder of an `unmask sample` run, finished or not; in Python also what
            `sample` returned. Or a list of them.
        judge: A causal language model, by name or folder, that scores the texts.

    Returns:
        A `Diagnosis`; of a list of runs, `Diagnoses`.

    >>> run = unmask.sample("A [MASK] sat on the [MASK].", chains=2, sweeps=4, seed=0)
    >>> unmask.diagnose(run).draws
    4
    """
    from unmask.sampling.chains.diagnosis import Diagnoses, write_diagnosis
    from unmask.sampling.chains.judge import CausalJudge, judge_run

    runs = list(run) if isinstance(run, list | tuple) else [run]
    if not runs:
        raise InputError("is empty", argument="run", use="give the folder of a run, or several")
    sampled = [
        _loaded(one, f"run {place} of {len(runs)}: " if len(runs) > 1 else "")
        for place, one in enumerate(runs, 1)
    ]
    diagnoses = [one.diagnosis for one in sampled]
    if judge is not None:
        scores = CausalJudge(judge)
        diagnoses = [
            replace(of, judge=judge_run(scores, one))
            for of, one in zip(diagnoses, sampled, strict=True)
        ]
    for one, diagnosis in zip(sampled, diagnoses, strict=True):
        if one.folder is not None:
            write_diagnosis(one, diagnosis)
    if not isinstance(run, list | tuple):
        return diagnoses[0]
    names = [
        f"run {place}" if one.folder is None else str(one.folder)
        for place, one in enumerate(sampled, 1)
    ]
    return Diagnoses(names, diagnoses)


def _loaded(run: Any, which: str) -> unmask.SampleRun:
    """A run as `sample` returned it, or as its folder has it; an error begins with `which` run
    it is.
    """
    from unmask.sampling.chains.sample_folder import load_run
    from unmask.sampling.chains.sample_run import SampleRun

    if isinstance(run, SampleRun):
        return run
    try:
        return load_run(run)
    except InputError as error:
        raise InputError(f"{which}{error.marked}") from None


@checked
def translate(
    data: TextFile,
    *,
    model: Translator,
    kernel: Annotated[
        SampleMethod | Auto | Beam | str, TakesMethod("unmask.studies.translation.recipe:METHODS")
    ] = "auto",
    sweeps: Annotated[int, Interval(ge=1, le=10**6)] | None = None,
    start: Decoder | str | None = None,
    lengths: Count | None = None,
    energy: Annotated[
        ModelEnergy | str | None, TakesMethod("unmask.sampling.energies.energy:ENERGIES")
    ] = None,
    seed: Seed = 0,
    reference: TextFile | None = None,
    save: PathLike | None = None,
    out: Out = None,
    engine: Engine = "local",
    progress: Progress | None = None,
) -> unmask.Translations:
    """Translate the lines of a file, or a list of texts, by a model of pairs.

    Each translation is a JSON line with text, energy, log_prob (any-order; of a causal model
    its own), passes, stutter, tokens and length. With references BLEU and chrF, stutter,
    acceptance, and passes and seconds per sentence are printed, too. An empty source has an
    empty translation.

    Parameters:
        data: Sources, one per line; - reads standard input. Or a list of texts.
        model: A folder that `unmask train` wrote for pairs.
        kernel: A decoder, at temperature 0 unless another one is given, or a Markov
            kernel of `sample`; of a causal model beam; auto is mask-predict, of a causal model
            beam.
        sweeps: Of a Markov kernel: how often each token is redrawn [default: 10].
        start: Of a Markov kernel: the decoder whose output it moves, such as mask-predict@4
            with its steps, or random tokens [default: mask-predict]. In Python also an object.
        lengths: How many of the likeliest lengths are decoded; the lowest raw energy per token
            is taken [default: 5].
        energy: Energy of kernels and of the output: {names}; or a class of your own, my.py:Mine
            [default: norm].
        reference: A translation of each source, to measure against: a file, or a list of texts.
        save: Write the JSON lines here, not to standard output.
        out: Keep the run in this folder, its lines in translations.jsonl; the same command
            continues a run that was stopped.

    Returns:
        `Translations`, in the order of the sources.

    >>> # the folder that `unmask.train(parallel=[english, german], out="numbers")` left
    >>> translations = unmask.translate(["two three", "five"], model="numbers")
    >>> len(translations.texts)
    2
    """
    from contextlib import nullcontext

    from unmask.common.files import output_file, write_atomically
    from unmask.models.sharing import is_shared, workers_for
    from unmask.runs.fingerprint import content_hash
    from unmask.runs.folder import RunFolder, output_folder
    from unmask.studies.translation import translating
    from unmask.studies.translation.causal_pairs import CausalPairs
    from unmask.studies.translation.recipe import as_translator, loader_on, settle

    file = (
        None
        if save is None
        else output_file("save", save, (data, reference), translating.BEGINNING)
    )
    folder = None if out is None else output_folder(out, translating.KIND)
    if file is not None and folder is not None and folder.resolve() in file.resolve().parents:
        raise InputError(
            f"{str(file)!r} is in the folder {argument_name('out')}, whose translations.jsonl has"
            " the lines",
            argument="save",
            use="leave it out",
        )
    sources = translating.read_lines(data, "data")
    references = None if reference is None else translating.read_lines(reference, "reference")
    if references is not None and len(references) != len(sources):
        raise InputError(
            f"has {len(references):,} texts, and {argument_name('data')} {len(sources):,}",
            argument="reference",
            use="give one reference per source, line by line",
        )
    loaded = loader_on(model, "cpu")() if is_shared(model, engine) else as_translator(model)
    causal = isinstance(loaded, CausalPairs)
    longest = None if causal else loaded.layout.longest_target
    assert energy is None or isinstance(energy, ModelEnergy)  # `checked` made an object of a name
    settings = settle(causal, kernel, sweeps, start, lengths, energy, seed, longest)
    translating.warn_of_misfit(loaded, settings)
    ids = translating.encoded(loaded.spelling, loaded.layout, sources)
    full = [source for source in ids if source]
    workers = workers_for(model, engine, len(full))
    decided = {
        **settings.to_dict(),
        "model": loaded.name,
        "data_sha256": content_hash("\n".join(sources)),
    }
    decided |= {"weights": loaded.fingerprint}
    run = None if folder is None else RunFolder(folder, translating.KIND, decided)
    with run or nullcontext() as stored:
        rows = translating.translations(model, loaded, settings, full, workers, stored, progress)
    result = translating.collected(settings, loaded.spelling, ids, rows, references)
    for path in (file, folder and folder / "translations.jsonl"):
        if path is not None:
            write_atomically(path, result.lines())
    return result
