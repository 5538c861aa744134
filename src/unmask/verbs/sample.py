"""The verb `sample`: texts by Markov chains, from the energy behind a model."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, fields
from functools import cached_property
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, TypeAlias

import unmask
from unmask.common.border.calls import checked, trusted
from unmask.common.border.marks import Only, ShownType, TakesMethod, Written
from unmask.common.errors import InputError, MissingLibrary, argument_name
from unmask.common.formats import how_many, in_form
from unmask.common.result_tables import Column, Table
from unmask.common.results import Result
from unmask.models.load import Model, model_name
from unmask.models.sharing import shared_model
from unmask.runs.progress import Progress
from unmask.sampling.chains.chain_samples import ChainSamples
from unmask.sampling.chains.watching import Watcher
from unmask.sampling.energies.energy import ModelEnergy
from unmask.sampling.energies.with_terms import Energy
from unmask.sampling.kernels.kernel import Kernel
from unmask.sampling.settings import (
    STARTS,
    BurnIn,
    Chains,
    Lengths,
    SampleSettings,
    Sweeps,
    lengths_of,
    starts_of,
    tokens_of_alphabet,
)
from unmask.verbs import Allow, Alphabet, Engine, Out, PathLike, Seed

if TYPE_CHECKING:
    import pandas

    from unmask.common.figures import Figure
    from unmask.sampling.energies.with_terms import TermOfIds

    Start: TypeAlias = PathLike | Sequence[str]
else:  # what the help and the documentation show in the place of the type
    Start = Annotated[
        Any,
        ShownType('Literal["ancestral", "random"] | Sequence[str] | str | PathLike[str]'),
        Written(metavar="ancestral|random|FILE"),
    ]
    TermOfIds = Annotated[Callable, ShownType("Callable[[Tensor], Tensor]")]


CHAINS_FIGURE = "chains.png"  # in the folder `figures` of a run
TEXTS_SHOWN = 5  # chains whose last text is in the summary


@dataclass(frozen=True)
class NotDiagnosed(Result):
    """What stands in the place of a diagnosis that could not be measured.

    chains    how many there are
    samples   how many texts are kept, of all chains
    reason    why there is no diagnosis
    """

    chains: int
    samples: int
    reason: str

    def about(self) -> list[str]:
        """How many chains and samples there are."""
        return [f"{how_many(self.chains, 'chain')}, {how_many(self.samples, 'sample')}"]

    def verdict(self) -> list[str]:
        """Nothing is known of how far to trust the samples."""
        return [f"Whether the chains have mixed was not measured: {self.reason}"]


@dataclass(frozen=True, repr=False, eq=False)
class SampleRun(ChainSamples, Result):
    """The result of `unmask.sample`.

    Its JSON has the settings; as "samples", the last sample of each chain; and the diagnosis, or
    why there is none.

    settings   what decided the samples: kernel, energy, sweeps, seed, ...
    samples    the kept texts as arrays: chain, sweep, text, energy, passes, length, ids
    starts     a dict for each chain: its number (`chain`), the token ids that it started from
               (`ids`), and their `text`
    rates      a dict for each length and position: steps, accepted, proposed, changed, and
               scoring_passes
    folder     where the run is kept, if it is

    >>> run = unmask.sample("A [MASK] sat on the [MASK].", chains=2, sweeps=3, seed=0)
    >>> run.settings.kernel.name, len(run.starts), len(run.rows)
    ('mh', 2, 6)
    """

    KEYS: ClassVar[tuple[str, ...]] = ("settings", "samples=last", "diagnosis=_diagnosis_or_why")
    ROWS: ClassVar[str] = "samples"

    @cached_property
    def rows(self) -> list[dict[str, Any]]:
        """A dict for each kept text: chain, sweep, text, energy, passes, length, ids."""
        return self.samples.rows()

    @property
    def texts(self) -> list[str]:
        """The kept texts."""
        return list(self.samples.text)

    @property
    def last(self) -> list[dict[str, Any]]:
        """The last sample of each chain: chain, sweep, text, energy, passes."""
        rows = self.samples.last_of_each_chain().rows()
        for row in rows:
            del row["length"], row["ids"]
        return rows

    @cached_property
    def diagnosis(self) -> unmask.Diagnosis:
        """How far to trust the samples: measured when first asked for. `unmask.sample` asks for
        it where it writes into a folder. Raises `MissingLibrary` where R-hat cannot be computed.
        """
        from unmask.verbs.diagnose import diagnosis_of

        return diagnosis_of(self)

    def to_frame(self) -> pandas.DataFrame:
        """A row for each kept text: chain, sweep, text, energy, passes, length, ids."""
        return self.samples.to_frame()

    def figure(self) -> Figure:
        """Energies and unchanged tokens along the chains, and what is accepted."""
        from unmask.sampling.chains.figure import chain_figure

        return chain_figure(self)

    @cached_property
    def _diagnosis_or_why(self) -> Result:
        """The diagnosis, or why it could not be measured: R-hat needs a library of its own."""
        try:
            return self.diagnosis
        except MissingLibrary as error:
            return NotDiagnosed(
                chains=self.settings.chains, samples=len(self.samples), reason=error.marked
            )

    def about(self) -> list[str]:
        """How many samples and passes there are, and how often chains moved; without a diagnosis
        only how many chains and samples.
        """
        return self._diagnosis_or_why.about()

    def tables(self) -> list[Table]:
        """The functionals of the texts, and the last texts of some chains."""
        columns = [Column("energy", in_form(".2f")), Column("text", text=True)]
        rows = []
        for sample in self.last[:TEXTS_SHOWN]:
            rows.append([sample["energy"], sample["text"]])
        return [*self._diagnosis_or_why.tables(), Table(columns, rows)]

    def verdict(self) -> list[str]:
        """How far to trust the samples."""
        return self._diagnosis_or_why.verdict()

    def notices(self) -> list[str]:
        """Where the samples are, or how to keep them."""
        samples = how_many(len(self.samples), "sample")
        if len(self.samples) == 1:
            were, are, them = "was", "is", "it"
        else:
            were, are, them = "were", "are", "them"
        if self.folder is None:
            keep = f"give {argument_name('out', 'FOLDER')} to keep {them}"
            return [f"{samples} {were} drawn and none is kept: {keep}"]
        where = f"{samples} {are} in {self.folder / 'samples.parquet'}"
        figures = self.folder / "figures"
        if (figures / CHAINS_FIGURE).is_file():  # there is none where its library is missing
            where += f", figures in {figures}"
        return [where]

    def __repr__(self) -> str:
        what = f"{self.settings.kernel.label}, {self.settings.energy.name} energy"
        return f"SampleRun({what}, {how_many(len(self.samples), 'sample')})"


@checked
def sample(
    template: str | None = None,
    model: Model = None,
    *,
    kernel: Annotated[Kernel | str, TakesMethod("unmask.sampling.kernels.kernel:KERNELS")] = "mh",
    energy: Annotated[
        ModelEnergy | Energy | TermOfIds | str,
        TakesMethod("unmask.sampling.energies.with_terms:SAMPLED"),
    ] = "norm",
    length: Annotated[Lengths | Sequence[Lengths] | None, Only(without=("template",))] = None,
    chains: Chains = 16,
    sweeps: Sweeps = 20,
    seed: Seed = 0,
    burn_in: BurnIn = 0,
    thin: Sweeps = 1,
    start: Start = "ancestral",
    allow: Allow = None,
    alphabet: Alphabet = None,
    out: Out = None,
    engine: Engine = "local",
    progress: Progress | None = None,
    partial: Callable[[SampleRun], None] | None = None,
    watcher: Watcher | None = None,
) -> SampleRun:
    """Sample texts from the energy behind a model, by Markov chains, and measure how far to trust
    them.

    Parameters:
        template: Text with [MASK] where tokens are sampled; the rest is held.
        kernel: What moves the chains: {names}; or a class of your own,
            my.py:Mine. In Python also an object with its options, such as
            unmask.Block(block_size=3).
        energy: Which energy the chains sample: {names}; or a class of your own, my.py:Mine; or
            my.py:function, the norm energy and a function of token ids. In Python also objects
            and functions, or an energy with terms of your own: unmask.Energy("norm",
            text_terms=[...]).
        length: Tokens per text in the place of a template, or several lengths such as 8,12,16
            [default: 12].
        chains: How many. The default is a first try; averages need about 64 chains of 1,000
            sweeps.
        sweeps: How often each chain redraws all of its tokens; diagnose says whether that was
            enough.
        burn_in: First sweeps that are not kept.
        thin: Keep every n-th sweep.
        start: Where chains start: ancestral (blanks filled one by one), random (tokens drawn
            uniformly), or the texts of a file (lines or FASTA), which chains take in turn; in
            Python also a list of texts.
        partial: Called with the samples so far, after 4 sweeps, 8, 16 and so on.
        watcher: An object whose methods `begun`, `stepped` and `swept` are called as the chains go
            on; see `unmask.sampling.chains.watching`.

    Returns:
        A `SampleRun`: the texts with their energies, and a diagnosis.

    >>> run = unmask.sample("A [MASK] sat on the [MASK].", chains=2, sweeps=3, seed=0)
    >>> len(run.to_frame())
    6
    """
    # `checked` has turned a name or a function into an object.
    if isinstance(energy, Energy):
        whole = energy  # it may have terms of the user
    else:  # the energy of a model, which has been checked: an `Energy` without terms
        whole = trusted(Energy, kind=energy)
    starts = starts_of(start)  # the texts themselves, or one of the names in STARTS
    tokens = () if alphabet is None else tokens_of_alphabet(alphabet)
    if length is not None and starts not in STARTS:
        raise InputError(
            "is not used with texts to start from",
            argument="length",
            use="leave it out: a chain has the length of its start",
        )
    settings = SampleSettings(
        kernel=kernel,  # type: ignore[arg-type]  # `checked` turned a name into an object
        energy=whole.of_model,
        template=template,
        length=lengths_of(length),
        chains=chains,
        sweeps=sweeps,
        seed=seed,
        burn_in=burn_in,
        thin=thin,
        start=starts,
        allow=allow,
        alphabet=tokens,
    )
    from unmask.runs.folder import output_folder
    from unmask.sampling.chains.drawing import draw_samples
    from unmask.sampling.chains.sample_folder import KIND
    from unmask.sampling.chains.sharing import SharedChains
    from unmask.verbs.diagnose import write_diagnosis

    if out is not None:
        output_folder(out, KIND)  # refuses one where the run cannot be kept; makes none
    lm, workers, load = shared_model(model, engine, settings.chains)
    if watcher is not None and workers is not None:
        raise InputError(
            "sees the chains of this process, and workers run them",
            argument="watcher",
            use="leave it out, or run on one device of this machine",
        )
    shared = None
    if workers is not None and load is not None:  # there are both, or none
        shared = SharedChains(settings, workers, load, whole)

    so_far = None
    if partial is not None:
        so_far = _as_runs(partial)
    drawn = draw_samples(
        settings,
        lm,
        out,
        name=model_name(model),
        energy=whole,
        progress=progress,
        so_far=so_far,
        watcher=watcher,
        shared=shared,
    )
    run = _run_of(drawn)
    if run.folder is not None:
        # The samples are in the folder. A library that is missing only now does not take them
        # back: `verdict` says what was not measured, and `unmask.diagnose` writes it later.
        with suppress(MissingLibrary):
            write_diagnosis(run, run.folder, run.diagnosis)
    return run


def _run_of(drawn: ChainSamples) -> SampleRun:
    """What was drawn, as the result of the verb."""
    return SampleRun(**{field.name: getattr(drawn, field.name) for field in fields(drawn)})


def _as_runs(partial: Callable[[SampleRun], None]) -> Callable[[ChainSamples], None]:
    """A function that gives what was drawn so far to `partial`, as the result of the verb."""

    def give(drawn: ChainSamples) -> None:
        partial(_run_of(drawn))

    return give
