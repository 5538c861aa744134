"""`sample`: texts from the energy behind a masked language model, by Markov chains or decoders."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

from unmask.checks import one_of
from unmask.errors import InputError
from unmask.models.load import Model, model_name, shared_model
from unmask.runs.progress import Progress
from unmask.sampling import registry
from unmask.sampling.settings import BurnIn, Chains, Lengths, SampleSettings, Start, Sweeps
from unmask.signature import Method, checked
from unmask.verbs.shared import Engine, PathLike, Seed

if TYPE_CHECKING:
    from unmask.sampling.run.result import SampleRun
    from unmask.sampling.target import Energy


@checked
def sample(
    template: str | None = None,
    model: Model = None,
    *,
    kernel: Annotated[registry.Method | str, Method("unmask.sampling.registry:KERNELS")] = "mh",
    energy: registry.EnergyKind | Energy = "norm",
    length: Lengths | Sequence[Lengths] | None = None,
    chains: Chains = 16,
    sweeps: Sweeps = 20,
    seed: Seed = 0,
    burn_in: BurnIn = 0,
    thin: Sweeps = 1,
    start: Start = Start(),  # noqa: B008
    out: PathLike | None = None,
    engine: Engine = "local",
    progress: Progress | None = None,
) -> SampleRun:
    """Sample texts from the energy behind a model, by Markov chains or decoders, and measure how far to trust them.

    Parameters:
        template: Text with [MASK] where tokens are sampled; the rest is held.
        kernel: What moves the chains: mh, gibbs, block or sequential-block; or a decoder: ancestral, mask-predict, confidence,
            revise, entropy-bound, lowest-entropy, random, interleaved, least-dependent or verified. In Python also
            an object with its options, such as unmask.Block(block_size=3).
        energy: Which energy the chains sample. In Python also one with terms of your own: unmask.Energy("norm",
            text_terms=[...]).
        length: Tokens per text in the place of a template, or several lengths such as 8,12,16 [default: 12].
        chains: Chains, or texts decoded at once. The default is a first try; averages need about 64 chains of 1,000 sweeps.
        sweeps: How often each chain redraws all of its tokens; diagnose says whether that was enough.
        seed: Seed of all random choices.
        burn_in: First sweeps that are not kept.
        thin: Keep every n-th sweep.
        start: Where chains start, and which tokens they may hold.
        out: Keep the run in this folder; the same command continues a run that was stopped.
        engine: local, ray (a cluster: a worker per GPU, or per two CPUs), or ray:4 with another number of workers.

    >>> run = unmask.sample("A [MASK] sat on the [MASK].", chains=2, sweeps=3, seed=0)
    >>> len(run.to_frame())
    6
    """
    if length is not None and (template is not None or len(start.init) > 0):
        other = "template" if template is not None else "init"
        raise InputError(f"{other} and length were both given, and its texts have their own lengths: leave one out")
    from unmask.sampling.target import Energy

    sampled = energy if isinstance(energy, Energy) else Energy(one_of("energy", energy, ("norm", "raw")))  # type: ignore[arg-type]
    settings = SampleSettings(
        kernel=kernel,  # type: ignore[arg-type]  # `checked` made an object of a name
        energy=sampled.kind,
        template=template,
        length=(12,) if length is None else (length,) if isinstance(length, int) else tuple(length),
        chains=chains,
        sweeps=sweeps,
        seed=seed,
        burn_in=burn_in,
        thin=thin,
        start=start,
    )
    from unmask.runs.folder import run_output
    from unmask.sampling.run.advance import SharedChains, draw_samples
    from unmask.sampling.run.diagnostics import write_diagnosis
    from unmask.sampling.run.result import KIND

    run_output(KIND, out)
    lm, workers, load = shared_model(model, engine, settings.chains)
    shared = None if workers is None or load is None else SharedChains(settings, workers, load, sampled)
    run = draw_samples(settings, lm, out, name=model_name(model), energy=sampled, progress=progress, shared=shared)
    if run.folder is not None:
        write_diagnosis(run, run.diagnosis)
    return run
