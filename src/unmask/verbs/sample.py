"""The verb `sample`: texts by Markov chains, from the energy behind a model."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Annotated

import unmask
from unmask.common.border.calls import checked, trusted
from unmask.common.border.marks import Only, ShownType, TakesMethod
from unmask.models.load import Model, model_name
from unmask.models.sharing import shared_model
from unmask.runs.progress import Progress
from unmask.sampling.energies.energy import ModelEnergy
from unmask.sampling.energies.with_terms import Energy
from unmask.sampling.kernels.kernel import Kernel
from unmask.sampling.settings import (
    BurnIn,
    Chains,
    Lengths,
    SampleSettings,
    Start,
    Sweeps,
)
from unmask.verbs import Engine, Out, Seed

if TYPE_CHECKING:
    from unmask.sampling.energies.with_terms import TermOfIds
else:
    TermOfIds = Annotated[Callable, ShownType("Callable[[Tensor], Tensor]")]


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
