"""The verb `diagnose`: how far to trust the samples of Markov chains."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, Any, TypeAlias, overload

import unmask
from unmask.common.border.calls import checked
from unmask.common.border.marks import ShownType, Written
from unmask.common.errors import InputError
from unmask.verbs import PathLike

if TYPE_CHECKING:
    Run: TypeAlias = unmask.SampleRun | PathLike
    Runs: TypeAlias = list[Run] | tuple[Run, ...]
else:
    Run = Annotated[
        Any, ShownType("SampleRun | str | PathLike[str]"), Written(metavar="FOLDER...", repeat=True)
    ]
    Runs = Annotated[Any, ShownType("list[SampleRun | str | PathLike[str]]")]


@overload
def diagnose(run: Run, judge: str | None = None) -> unmask.Diagnosis: ...
@overload
def diagnose(run: Runs, judge: str | None = None) -> unmask.Diagnoses: ...
@checked
def diagnose(run: Run | Runs, judge: str | None = None) -> unmask.Diagnosis | unmask.Diagnoses:
    """Measure how far to trust the samples of a run: whether chains mixed, what moved, whether
    texts repeat themselves.

    A run that has a folder gets diagnostics.json and figures/chains.png there. Several runs are
    put side by side.

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

    if isinstance(run, unmask.Generation):
        raise InputError(
            f"{which}the texts of a generation are independent: there is no chain to diagnose",
            use="read its law and log-probabilities, or generate with a judge",
        )
    if isinstance(run, SampleRun):
        return run
    try:
        return load_run(run)
    except InputError as error:
        raise InputError(f"{which}{error.marked}") from None
