"""Watching a run: what its chains do, step by step, for a page or a log.

A watcher only reads. The same call without one draws the same samples, token for token, and makes
the same passes.

The texts of a decoder are watched by the same calls as chains: each text is a chain, and all of
them are drawn in one sweep.

The chains of a run are in groups: those of a group have the same length and the same blanks, and
go on together. The groups run one after the other.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol, runtime_checkable

if TYPE_CHECKING:
    from collections.abc import Sequence

    from unmask.sampling.chains.group_run import GroupRun
    from unmask.sampling.chains.samples import SweepRows
    from unmask.sampling.decoders.decoder import DecodeState
    from unmask.sampling.kernels.state import StepInfo


@runtime_checkable  # so that a verb can refuse an object without these methods
class Watcher(Protocol):
    """Called as the chains of a run go on in this process. For each group of chains:

    1. `begun`, once
    2. `stepped`, after each step; a decoder calls it once more, before its first step
    3. `swept`, after the last step of each sweep

    Each call gets the group's run as it is now: its texts, passes, counts and sweeps. `run.done`
    counts whole sweeps, and the passes of a decoder are counted when its sweep is done. A watcher
    must not change the run. The chains wait for it. No call says that a run has ended: it has,
    when the verb returns or raises.
    """

    def begun(self, run: GroupRun) -> None:
        """The chains are at their starts. A run that goes on in its folder may be past them:
        `run.done` sweeps are done. The texts of a decoder are blank, also where they are done: the
        folder has them.
        """

    def stepped(self, run: GroupRun, step: StepInfo | DecodeState) -> None:
        """Every chain of the group has made a step, or a decoder is about to make its first.

        step   what the step of a kernel did; of a decoder, its state as it is now
        """

    def swept(self, run: GroupRun, samples: Sequence[SweepRows]) -> None:
        """A sweep is done.

        samples   what is kept of it: a list of one; an empty one, where `burn_in` or `thin`
                  leave the sweep out
        """
