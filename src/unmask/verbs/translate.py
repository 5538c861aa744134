"""`translate`: a file of sources in, a translation of each out."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

from annotated_types import Interval

from unmask.errors import InputError
from unmask.runs.progress import Progress
from unmask.sampling.registry import EnergyKind
from unmask.sampling.registry import Method as Kernel
from unmask.signature import Method, Written, checked
from unmask.translation.recipe import Auto, Beam, Translator
from unmask.verbs.shared import Engine, PathLike, Seed

if TYPE_CHECKING:
    from unmask.translation.translators import Translations

Texts = Annotated[PathLike | Sequence[str], Written(metavar="FILE")]
SAME = {"model": "weights"}
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
) -> Translations:
    """Translate the lines of a file, or a list of texts, by a model of pairs.

    Each translation is a JSON line with text, energy, log_prob (any-order; of a causal model its own), passes, stutter, tokens
    and length. With references BLEU and chrF, stutter, acceptance, and passes and seconds per sentence are printed, too. An
    empty source has an empty translation.

    Parameters
    ----------
    data
        Sources, one per line; - reads standard input. Or a list of texts.
    model
        A folder of `unmask train --parallel`.
    kernel
        A decoder, at temperature 0 unless decoding_temperature is given, or a Markov kernel of `sample`; of a causal model
        beam; auto is mask-predict, of a causal model beam.
    sweeps
        Of a Markov kernel: how often each token is redrawn [default: 10].
    start
        Of a Markov kernel: the decoder whose output it moves, such as mask-predict@4 with its steps, or random tokens
        [default: mask-predict].
    lengths
        How many of the likeliest lengths are decoded; the lowest raw energy per token is taken [default: 5].
    energy
        Energy of kernels and of the output [default: norm].
    seed
        Seed of all random choices.
    reference
        A translation of each source, to measure against: a file, or a list of texts.
    save
        Write the JSON lines here, not to standard output.
    out
        Keep the run in this folder, its lines in translations.jsonl; the same command continues a run that was stopped.
    engine
        local, ray (a cluster: a worker per GPU, or per two CPUs), or ray:4 with another number of workers.
    progress
        Called with (done, in all, what is counted).
    """
    from contextlib import nullcontext

    from unmask.models.load import is_shared, workers_for
    from unmask.runs.files import write_atomically
    from unmask.runs.fingerprint import content_hash
    from unmask.runs.folder import RunFolder
    from unmask.runs.outputs import output_file, run_output
    from unmask.translation.recipe import as_translator, in_worker, settle
    from unmask.translation.translators import (
        BEGINNING,
        KIND,
        CausalPairs,
        Translations,
        as_rows,
        encoded,
        figures,
        read_lines,
        refuse_misfit,
        translations,
    )  # fmt: skip

    file = None if save is None else output_file("save", save, (data, reference, model), BEGINNING)
    folder = run_output(KIND, out, (data, reference, model))
    sources = read_lines(data, "data")
    references = None if reference is None else read_lines(reference, "reference")
    if references is not None and len(references) != len(sources):
        raise InputError(
            f"{len(sources):,} sources and {len(references):,} references: give one reference per source, line by line"
        )
    loaded = in_worker(model, "cpu")() if is_shared(model, engine) else as_translator(model)
    settings = settle(isinstance(loaded, CausalPairs), kernel, sweeps, start, lengths, energy, seed)
    refuse_misfit(loaded, settings)
    spelling = loaded.spelling
    ids = encoded(spelling, loaded.layout, sources)
    full = [source for source in ids if source]
    workers = workers_for(model, engine, len(full))
    decided = {**settings.to_dict(), "model": loaded.name, "data_sha256": content_hash("\n".join(sources))}
    run = nullcontext() if folder is None else RunFolder(folder, KIND, decided, model=loaded.fingerprint, same_content=SAME)
    with run as stored:
        made = translations(model, loaded, settings, full, workers, stored, progress)
    rows = as_rows(spelling, ids, made.translations)
    measured = None if references is None else figures(rows, references, made.seconds, made.moves)
    result = Translations(settings, rows, made.seconds, made.moves, measured)
    for path in (file, folder and folder / "translations.jsonl"):
        if path is not None:
            write_atomically(path, result.lines())
    return result
