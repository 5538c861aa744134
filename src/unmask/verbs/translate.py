"""`translate`: the lines of a file, or a list of texts, by a model of pairs."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import dataclass
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
    from unmask.studies.translation.measures import Measures

KERNELS = "unmask.sampling.kernels.kernel:KERNELS"
WRITERS = "unmask.studies.translation.recipe:WRITERS"
TextFile = Annotated[PathLike | Sequence[str], Written(metavar="FILE")]
OF_KERNEL = Only(beside=("kernel",))
"""Marks what means something for a Markov kernel alone."""
BEGINNING = {"": (b'{"text": ',)}
"""How files of translations begin, whatever their ending; see `formats` of `output_file`."""
LINES_FILE = "translations.jsonl"
"""The file of a run's folder that has the lines."""


@dataclass(frozen=True, repr=False)
class Translations(Result):
    """Translations in the order of their sources.

    settings  what decided them
    rows      one dict per source: text, energy, log_prob, passes, stutter (equal neighbouring
              tokens), tokens, length (of the text, in tokens). An empty source has an empty text;
              its energy and log_prob are None, its other numbers 0. The log_prob of a masked
              model is that of its tokens in a random order, of a causal one in the order of the
              text, the end token included
    seconds   in all; with workers, those of all together
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
        """The lines, unless they are in a file."""
        return None if self.files else self.lines()

    @property
    def headline(self) -> str:
        """How many texts were translated, and by what."""
        texts = "1 text" if len(self.rows) == 1 else f"{len(self.rows):,} texts"
        return f"{texts} translated by {self._method}"

    @property
    def _method(self) -> str:
        settings = self.settings
        if settings.decoder is None:
            words = "random tokens"
        elif isinstance(settings.decoder, Beam):
            return f"beam {settings.decoder.beam}"
        else:
            words = f"{settings.decoder.name} at temperature {settings.decoder.temperature:g}"
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
        found = self.measures
        shares = in_form(".2%")
        columns = [
            Column("BLEU", show=in_form(".2f")),
            Column("chrF", show=in_form(".2f")),
            Column("equal\nneighbours", show=shares),
            Column("texts\nwith them", show=shares),
            Column("passes\nper text", show=in_form(".1f")),
            Column("seconds\nper text", show=in_form(".4f")),
        ]
        row = [
            found.bleu,
            found.chrf,
            found.stutter,
            found.stuttering,
            found.passes,
            found.seconds,
        ]
        if found.accepted is not None:
            columns += [Column("accepted", show=shares), Column("changed", show=shares)]
            row += [found.accepted, found.novel or 0.0]
        notes = [f"BLEU {found.bleu_signature}", f"chrF {found.chrf_signature}"]
        return [Table(columns, [row], notes=notes)]

    def notices(self) -> list[str]:
        """Where the lines are."""
        if not self.files:
            return []
        return [f"translations are in {' and '.join(map(str, self.files))}"]

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
    sweeps: Annotated[Annotated[int, Interval(ge=1, le=10**6)] | None, OF_KERNEL] = None,
    start: Annotated[
        Literal["random"] | None, Only(beside=("kernel",), without=("decoder",))
    ] = None,
    length_beam: Annotated[int, Interval(ge=1, le=10**4)] | None = None,
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
    from unmask.models.sharing import is_shared, workers_for
    from unmask.runs.fingerprint import content_hash
    from unmask.runs.folder import RunFolder, output_folder
    from unmask.studies.translation import translating
    from unmask.studies.translation.causal_pairs import CausalPairs
    from unmask.studies.translation.measures import measured
    from unmask.studies.translation.recipe import as_translator, loader_on, settle

    file = None
    if save is not None:
        file = output_file("save", save, (data, reference), BEGINNING)
    folder = None
    if out is not None:
        folder = output_folder(out, translating.KIND)
    if file is not None and folder is not None and folder.resolve() in file.resolve().parents:
        raise InputError(
            f"{str(file)!r} is in the folder {argument_name('out')}, whose {LINES_FILE} has"
            " the lines",
            argument="save",
            use="leave it out",
        )
    sources = translating.read_lines(data, "data")
    references = _references(reference, len(sources))
    if is_shared(model, engine):
        loaded = loader_on(model, "cpu")()
    else:
        loaded = as_translator(model)
    # `checked` made objects of the names of methods
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
    ids = translating.encoded(loaded.spelling, loaded.layout, sources)
    full = [source for source in ids if source]
    workers = workers_for(model, engine, len(full))
    decided = {
        **settings.to_dict(),
        "model": loaded.name,
        "data_sha256": content_hash("\n".join(sources)),
        "weights": loaded.fingerprint,
    }
    run = None if folder is None else RunFolder(folder, translating.KIND, decided)
    with run or nullcontext() as stored:
        made = translating.translations(
            model,
            loaded,
            settings,
            sources=full,
            workers=workers,
            folder=stored,
            progress=progress,
        )
    rows = translating.in_order(loaded.spelling, ids, made)
    seconds = sum(row["seconds"] for row in made)
    moves = translating.moves_of(settings, made)
    files = [] if file is None else [file]
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
    for one in files:
        write_atomically(one, result.lines())
    return result


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
