"""The verb `translate`: the lines of a file, or a list of texts, by a model of pairs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

from annotated_types import Interval

import unmask
from unmask.common.border.calls import checked
from unmask.common.border.marks import TakesMethod, Written
from unmask.common.errors import InputError, argument_name
from unmask.runs.progress import Progress
from unmask.sampling.decoders.decoder import Decoder
from unmask.sampling.energies.energy import ModelEnergy
from unmask.sampling.methods import SampleMethod
from unmask.studies.translation.recipe import Auto, Beam, Translator
from unmask.verbs import Engine, Out, PathLike, Seed

TextFile = Annotated[PathLike | Sequence[str], Written(metavar="FILE")]
Count = Annotated[int, Interval(ge=1, le=10**4)]


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
