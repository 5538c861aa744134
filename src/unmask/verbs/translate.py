"""`translate`: the lines of a file, or a list of texts, by a model of pairs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal

from annotated_types import Interval

from unmask.common.border.calls import checked
from unmask.common.border.marks import Only, TakesMethod, Written
from unmask.common.errors import InputError, argument_name
from unmask.common.files import as_json, output_file, write_atomically
from unmask.common.formats import in_form
from unmask.common.result_tables import Column, Table
from unmask.common.results import Result
from unmask.runs.progress import Progress
from unmask.sampling.decoders.decoder import Decoder
from unmask.sampling.energies.energy import ModelEnergy
from unmask.sampling.kernels.kernel import Kernel
from unmask.studies.translation.recipe import Beam, TranslateSettings, Translator
from unmask.verbs import Engine, Out, PathLike, Seed

if TYPE_CHECKING:
    from unmask.studies.translation.causal_pairs import CausalPairs
    from unmask.studies.translation.masked_pairs import PairModel
    from unmask.studies.translation.measures import Measures

KERNELS = "unmask.sampling.kernels.kernel:KERNELS"
WRITERS = "unmask.studies.translation.recipe:WRITERS"
TextFile = Annotated[PathLike | Sequence[str], Written(metavar="FILE")]
Sweeps = Annotated[int, Interval(ge=1, le=10**6)]
Lengths = Annotated[int, Interval(ge=1, le=10**4)]
OF_KERNEL = Only(beside=("kernel",))
"""Marks a parameter that can be given only beside a Markov kernel."""
BEGINNING = {"": (b'{"text": ',)}
"""The `formats` of `output_file`: a file of translations has any ending, and begins like this. A
file that begins otherwise is not replaced.
"""
LINES_FILE = "translations.jsonl"
"""The file of a run's folder that has the lines."""


@dataclass(frozen=True, repr=False)
class Translations(Result):
    """Translations in the order of their sources.

    settings  what decided them
    rows      one dict per source: text, energy, log_prob, passes, stutter (equal neighbouring
              tokens), tokens, length (of the text, in tokens). A masked model computes log_prob
              in a random order of the tokens, a causal one from left to right with the end token.
              An empty source has an empty text; its energy and log_prob are None, its other
              numbers 0
    seconds   of all translations; with workers, the sum over the workers
    moves     of a kernel: steps, and how many were accepted, proposed another token, and
              changed the text
    measures  against the references: BLEU, chrF and others
    files     where the lines were written

    >>> # the folder that `unmask.train(parallel=[english, german], out="numbers")` left
    >>> translations = unmask.translate(["two three", "five"], model="numbers")
    >>> translations.to_frame().columns.tolist()
    ['text', 'energy', 'log_prob', 'passes', 'stutter', 'tokens', 'length']
    """

    KEYS: ClassVar[tuple[str, ...]] = (
        "settings",
        "translations=rows",
        "seconds",
        "moves",
        "measures",
    )
    ROWS: ClassVar[str] = "translations"
    settings: TranslateSettings
    rows: list[dict[str, Any]]
    seconds: float
    moves: dict[str, int]
    measures: Measures | None = None
    files: tuple[Path, ...] = ()

    @property
    def texts(self) -> list[str]:
        """The translations."""
        return [row["text"] for row in self.rows]

    def lines(self) -> str:
        """JSON lines, one per source."""
        return "".join(as_json(row, indent=None) + "\n" for row in self.rows)

    @checked
    def save(self, path: PathLike) -> Path:
        """Write the JSON lines."""
        file = output_file("path", path, formats=BEGINNING)
        write_atomically(file, self.lines())
        return file

    # ---- what a person sees ----

    def stream(self) -> str | None:
        """The lines, for standard output; None if they are in a file."""
        if self.files:
            return None
        return self.lines()

    @property
    def headline(self) -> str:
        """How many texts were translated, and by what."""
        texts = "1 text" if len(self.rows) == 1 else f"{len(self.rows):,} texts"
        return f"{texts} translated by {self._method_in_words}"

    @property
    def _method_in_words(self) -> str:
        """The decoder, the kernel if there is one, and the number of lengths."""
        settings = self.settings
        decoder = settings.decoder
        if isinstance(decoder, Beam):  # a causal model has neither kernel nor lengths
            return f"beam {decoder.beam}"
        if decoder is None:
            words = "random tokens"
        else:
            words = f"{decoder.name} at temperature {decoder.temperature:g}"
        if settings.kernel is not None:
            sweeps = "1 sweep" if settings.sweeps == 1 else f"{settings.sweeps:,} sweeps"
            words += f", moved by {sweeps} of {settings.kernel.name}"
            words += f" ({settings.energy.name} energy)"
        if settings.length_beam > 1:
            words += f", the best of {settings.length_beam} lengths"
        return words

    def about(self) -> list[str]:
        """How many texts were translated, and by what."""
        return [f"{self.headline}."]

    def tables(self) -> list[Table]:
        """With references one row of measures."""
        if self.measures is None:
            return []
        measures = self.measures
        as_score = in_form(".2f")
        as_share = in_form(".2%")
        cells: list[tuple[Column, Any]] = [
            (Column("BLEU", show=as_score), measures.bleu),
            (Column("chrF", show=as_score), measures.chrf),
            (Column("equal\nneighbours", show=as_share), measures.stutter),
            (Column("texts\nwith them", show=as_share), measures.stuttering),
            (Column("passes\nper text", show=in_form(".1f")), measures.passes),
            (Column("seconds\nper text", show=in_form(".4f")), measures.seconds),
        ]
        if measures.accepted is not None:  # a kernel made steps
            cells.append((Column("accepted", show=as_share), measures.accepted))
            cells.append((Column("changed", show=as_share), measures.novel))
        columns = [column for column, _ in cells]
        row = [value for _, value in cells]
        notes = [f"BLEU {measures.bleu_signature}", f"chrF {measures.chrf_signature}"]
        return [Table(columns, [row], notes=notes)]

    def notices(self) -> list[str]:
        """Where the lines are."""
        if not self.files:
            return []
        places = " and ".join(str(file) for file in self.files)
        return [f"translations are in {places}"]

    def __repr__(self) -> str:
        return f"Translations({self.headline})"


@checked
def translate(
    data: TextFile,
    model: Translator,
    *,
    decoder: Annotated[
        Decoder | Beam | str | None,
        TakesMethod(WRITERS, usual="mask-predict", other=("kernel", KERNELS)),
    ] = None,
    kernel: Annotated[Kernel | str | None, TakesMethod(KERNELS, other=("decoder", WRITERS))] = None,
    sweeps: Annotated[Sweeps | None, OF_KERNEL] = None,
    start: Annotated[
        Literal["random"] | None, Only(beside=("kernel",), without=("decoder",))
    ] = None,
    length_beam: Lengths | None = None,
    energy: Annotated[
        ModelEnergy | str | None, TakesMethod("unmask.sampling.energies.energy:ENERGIES")
    ] = None,
    seed: Seed | None = None,
    reference: TextFile | None = None,
    save: PathLike | None = None,
    out: Out = None,
    engine: Engine = "local",
    progress: Progress | None = None,
) -> Translations:
    """Translate the lines of a file, or a list of texts, by a model of pairs.

    Each translation is a JSON line with text, energy, log_prob (any-order; of a causal model
    its own), passes, stutter, tokens and length. With references BLEU and chrF, stutter,
    acceptance, and passes and seconds per text are printed, too. An empty source has an
    empty translation.

    Parameters:
        data: Sources, one per line; - reads standard input. Or a list of texts.
        model: A folder that `unmask train` wrote for pairs.
        decoder: What writes a translation: {names}; or a class of your own, my.py:Mine. Of a
            causal model beam [default: mask-predict; of a causal model beam].
        kernel: A Markov kernel that then moves what the decoder wrote: {names}; or a class of
            your own, my.py:Mine [default: none].
        sweeps: How often the kernel redraws each token [default: 10].
        start: random, so that the kernel starts from random tokens and not from the output of a
            decoder.
        length_beam: How many of the likeliest lengths are decoded; the lowest raw energy per token
            is taken [default: 5].
        energy: Energy of the kernel and of the output: {names}; or a class of your own, my.py:Mine
            [default: norm].
        seed: Seed of all random choices [default: 0].
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
    from unmask.models.sharing import workers_for
    from unmask.runs.fingerprint import content_hash
    from unmask.runs.folder import RunFolder, output_folder
    from unmask.studies.translation import translating
    from unmask.studies.translation.causal_pairs import CausalPairs
    from unmask.studies.translation.measures import measured
    from unmask.studies.translation.recipe import settle

    # What is read, and where the lines go.
    file = None
    if save is not None:
        file = output_file("save", save, reads=(data, reference), formats=BEGINNING)
    folder = None
    if out is not None:
        folder = output_folder(out, translating.KIND)
    if file is not None and folder is not None:
        _refuse_inside(folder, file)
    sources = translating.read_lines(data, "data")
    references = _references(reference, len(sources))

    # The model, and the settings.
    loaded = _loaded(model, engine)
    # `checked` has replaced the names of methods by objects.
    assert not isinstance(decoder, str)
    assert not isinstance(kernel, str)
    assert not isinstance(energy, str)
    settings = settle(
        causal=isinstance(loaded, CausalPairs),
        decoder=decoder,
        kernel=kernel,
        sweeps=sweeps,
        start=start,
        length_beam=length_beam,
        energy=energy,
        seed=seed,
        longest=loaded.layout.longest_target,
    )
    translating.warn_of_misfit(loaded, settings)

    # The work. Empty sources have empty translations, and are left out of it.
    source_ids = translating.encoded(loaded.spelling, loaded.layout, sources)
    ids_to_translate = [ids for ids in source_ids if ids]
    workers = workers_for(model, engine, most=len(ids_to_translate))
    run_settings = {
        **settings.to_dict(),
        "model": loaded.name,
        "data_sha256": content_hash("\n".join(sources)),
        "weights": loaded.fingerprint,
    }
    translate_all = partial(
        translating.translations,
        model,
        loaded,
        settings,
        sources=ids_to_translate,
        workers=workers,
        progress=progress,
    )
    if folder is None:
        translated = translate_all(folder=None)
    else:
        with RunFolder(folder, translating.KIND, run_settings) as run:
            translated = translate_all(folder=run)

    # The result, and its files.
    rows = translating.in_order(loaded.spelling, source_ids, translated)
    seconds = sum(row["seconds"] for row in translated)
    moves = translating.moves_of(settings, translated)
    files = []
    if file is not None:
        files.append(file)
    if folder is not None:
        files.append(folder / LINES_FILE)
    measures = None
    if references is not None:
        measures = measured(rows, references, seconds, moves)
    result = Translations(
        settings=settings,
        rows=rows,
        seconds=seconds,
        moves=moves,
        measures=measures,
        files=tuple(files),
    )
    for path in files:
        write_atomically(path, result.lines())
    return result


def _refuse_inside(folder: Path, file: Path) -> None:
    """Refuse a file for the lines that is inside the folder of the run."""
    if folder.resolve() in file.resolve().parents:
        raise InputError(
            f"{str(file)!r} is in the folder {argument_name('out')}, whose {LINES_FILE} has"
            " the lines",
            argument="save",
            use="leave it out",
        )


def _loaded(model: Translator, engine: str) -> PairModel | CausalPairs:
    """The model of this process. If workers share the work, it is on the CPU, because they load
    the model on the devices themselves.
    """
    from unmask.models.sharing import is_shared
    from unmask.studies.translation.recipe import as_translator, loader_on

    if not is_shared(model, engine):
        return as_translator(model)
    load_on_cpu = loader_on(model, "cpu")
    return load_on_cpu()


def _references(reference: TextFile | None, n_sources: int) -> list[str] | None:
    """The references, one for each source; None without them."""
    if reference is None:
        return None
    from unmask.studies.translation.translating import read_lines

    references = read_lines(reference, "reference")
    if len(references) != n_sources:
        raise InputError(
            f"has {len(references):,} texts, and {argument_name('data')} {n_sources:,}",
            argument="reference",
            use="give one reference per source, line by line",
        )
    return references
