"""`diagnose`: how far to trust the samples of a run."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, Any, TypeAlias

from unmask.signature import Written, checked
from unmask.verbs.shared import PathLike

if TYPE_CHECKING:
    from unmask.sampling.run.diagnostics import Diagnosis
    from unmask.sampling.run.result import SampleRun

    Run: TypeAlias = SampleRun | PathLike
else:
    Run = Annotated[Any, Written(metavar="FOLDER")]


@checked
def diagnose(run: Run, judge: str | None = None) -> Diagnosis:
    """Measure how far to trust the samples of a run: whether chains mixed, what moved, whether texts repeat themselves.

    A run that has a folder gets diagnostics.json and figures/chains.png there.

    Parameters:
        run: The out folder of an `unmask sample` run, finished or not; in Python also what `sample` returned.
        judge: A causal language model, by name or folder, that scores the texts.

    >>> run = unmask.sample("A [MASK] sat on the [MASK].", chains=2, sweeps=4, seed=0)
    >>> unmask.diagnose(run).draws
    4
    """
    from unmask.sampling.run.diagnostics import CausalJudge, judge_run, write_diagnosis
    from unmask.sampling.run.result import SampleRun, load_run

    sampled = run if isinstance(run, SampleRun) else load_run(run)
    diagnosis = sampled.diagnosis
    if judge is not None:
        diagnosis = replace(diagnosis, judge=judge_run(CausalJudge(judge), sampled))
    if sampled.folder is not None:
        write_diagnosis(sampled, diagnosis)
    return diagnosis
