"""`translate`: a file of sources in, a translation of each out."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

from annotated_types import Interval

import unmask
from unmask.errors import InputError
from unmask.runs.progress import Progress
from unmask.sampling.registry import EnergyKind
from unmask.sampling.registry import Method as Kernel
from unmask.signature import Method, Written, checked
from unmask.translation.recipe import Auto, Beam, Translator
from unmask.verbs.shared import Engine, PathLike, Seed

Texts = Annotated[PathLike | Sequence[str], Written(metavar="FILE")]
Count = Annotated[int, Interval(ge=1, le=10**4)]


@checked
def translate(
    data: Texts,
    *,
    model: Translator,
    kernel: Annotated[Kernel | Auto | Beam | str, Method("unmask.translation.recipe:METHODS")] = "auto",
    sweeps: Annotated[int, Interval(ge=1, le=10**6)] | None = None,
    start: str | None = None,
    lengths: Count | None = None,
    energy: EnergyKind | None = None,
    seed: Seed = 0,
    reference: Texts | None = None,
    save: PathLike | None = None,
    out: PathLike | None = None,
    engine: Engine = "local",
    progress: Progress | None = None,
) -> unmask.Translations:
    """Translate the lines of a file, or a list of texts, by a model of pairs.

    Each translation is a JSON line with text, energy, log_prob (any-order; of a causal model its own), passes, stutter, tokens
    and length. With references BLEU and chrF, stutter, acceptance, and passes and seconds per sentence are printed, too. An
    empty source has an empty translation.

    Parameters:
        data: Sources, one per line; - reads standard input. Or a list of texts.
        model: A folder of `unmask train --parallel`.
        kernel: A decoder, at temperature 0 unless decoding_temperature is given, or a Markov kernel of `sample`; of a causal
            model beam; auto is mask-predict, of a causal model beam.
        sweeps: Of a Markov kernel: how often each token is redrawn [default: 10].
        start: Of a Markov kernel: the decoder whose output it moves, such as mask-predict@4 with its steps, or random tokens
            [default: mask-predict].
        lengths: How many of the likeliest lengths are decoded; the lowest raw energy per token is taken [default: 5].
        energy: Energy of kernels and of the output [default: norm].
        seed: Seed of all random choices.
        reference: A translation of each source, to measure against: a file, or a list of texts.
        save: Write the JSON lines here, not to standard output.
        out: Keep the run in this folder, its lines in translations.jsonl; the same command continues a run that was stopped.
        engine: local, ray (a cluster: a worker per GPU, or per two CPUs), or ray:4 with another number of workers.
    """
    from contextlib import nullcontext

    from unmask.models.load import is_shared, workers_for
    from unmask.runs.files import output_file, write_atomically
    from unmask.runs.fingerprint import content_hash
    from unmask.runs.folder import RunFolder, run_output
    from unmask.translation import translators
    from unmask.translation.recipe import as_translator, in_worker, settle

    file = None if save is None else output_file("save", save, (data, reference), translators.BEGINNING)
    folder = run_output(translators.KIND, out)
    sources = translators.read_lines(data, "data")
    references = None if reference is None else translators.read_lines(reference, "reference")
    if references is not None and len(references) != len(sources):
        numbers = f"{len(sources):,} sources and {len(references):,} references"
        raise InputError(f"{numbers}: give one reference per source, line by line")
    loaded = in_worker(model, "cpu")() if is_shared(model, engine) else as_translator(model)
    settings = settle(isinstance(loaded, translators.CausalPairs), kernel, sweeps, start, lengths, energy, seed)
    translators.refuse_misfit(loaded, settings)
    ids = translators.encoded(loaded.spelling, loaded.layout, sources)
    full = [source for source in ids if source]
    workers = workers_for(model, engine, len(full))
    decided = {**settings.to_dict(), "model": loaded.name, "data_sha256": content_hash("\n".join(sources))}
    decided |= {"weights": loaded.fingerprint}
    run = None if folder is None else RunFolder(folder, translators.KIND, decided)
    with run or nullcontext() as stored:
        made = translators.translations(model, loaded, settings, full, workers, stored, progress)
    result = translators.collected(settings, loaded.spelling, ids, made, references)
    for path in (file, folder and folder / "translations.jsonl"):
        if path is not None:
            write_atomically(path, result.lines())
    return result
