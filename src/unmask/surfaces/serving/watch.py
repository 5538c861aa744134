"""Chains and decoders as they run: each step as an event of the JSON interface, and the numbers of
each sweep.

A run that is watched here is in no folder, so it begins at its starts. No request has `burn_in` or
`thin`, so every sweep is kept.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from typing import Any

from unmask.models.masked_lm import MaskedLM
from unmask.sampling.chains.group_run import GroupRun, MarkovRun
from unmask.sampling.chains.samples import SweepRows
from unmask.sampling.chains.snapshot import COUNTS
from unmask.sampling.decoders.decoder import DecodeState
from unmask.sampling.kernels.state import StepInfo
from unmask.surfaces.serving.drawings.chains import (
    GENERATE_LEGEND,
    REJECTED,
    SAMPLE_PICTURES,
    Begun,
    Confidence,
    Counts,
    Move,
    Stepped,
    SweepLog,
    Swept,
    confidence_of,
    ends_at,
    frame_of_chains,
    frame_of_decoder,
    sample_legend,
    text_tokens,
    tokens_at,
)

OnEvent = Callable[[Begun | Stepped | Swept], None]
"""Takes the step events of a question, in their order."""


def of_logits(model: MaskedLM) -> MaskedLM:
    """The same network, which offers only its logits.

    Logits come in batches, before each of which a job waits for its turn, and may be stopped.
    Hidden states come in one call, which a GPU records and replays.
    """

    def offers_none(ids: Any) -> bool:
        return False

    model = copy.copy(model)
    model.offers_states = offers_none  # type: ignore[method-assign]
    return model


class ChainWatcher:
    """Watches chains: gives their steps as events, and keeps the log of their sweeps.

    noun       what a token is called
    log        the sweeps so far
    on_event   takes the events; None: nobody wants them
    """

    def __init__(self, model: MaskedLM, noun: str, log: SweepLog, on_event: OnEvent | None) -> None:
        self.model = model
        self.noun = noun
        self.log = log
        self.on_event = on_event
        self._free: list[int] = []  # positions of the sites of the group that runs
        self._steps = 0  # of this group so far

    def begun(self, run: GroupRun) -> None:
        """The chains of a group are at their starts."""
        self._free = run.group.target.free_positions.tolist()
        self._steps = 0
        # Before the event, whose "starts" are read from the log.
        self._add(run, run.watched_energies().tolist())
        if self.on_event is None:
            return
        self.on_event(
            {
                "kind": "begun",
                "frame": self._frame(run, sweep=0),
                "names": _names(run),
                "tokens": [text_tokens(self.model, ids) for ids in run.texts().tolist()],
                "free": self._free,
                "legend": sample_legend(self.noun),
                "rejected": "",
                "pictures": SAMPLE_PICTURES,
                "starts": self.log.sweep(run.group.chains, 0),
                "ends": ends_at(self.log.sweeps),
            }
        )

    def stepped(self, run: GroupRun, step: StepInfo | DecodeState) -> None:
        """Each chain has made a step of the kernel."""
        assert isinstance(step, StepInfo)
        self._steps += 1
        if self.on_event is None:
            return
        texts = run.texts().tolist()
        sites = step.sites.tolist()
        proposed = step.proposed.tolist()
        changed = step.changed.tolist()
        moves = []
        for chain, ids in enumerate(texts):
            move = self._move(
                ids, sites=sites[chain], proposed=proposed[chain], changed=changed[chain]
            )
            moves.append(move)
        frame = self._frame(run, sweep=run.done + 1)  # the one under way
        self.on_event({"kind": "stepped", "frame": frame, "moves": moves})

    def swept(self, run: GroupRun, samples: Sequence[SweepRows]) -> None:
        """A sweep is done."""
        (rows,) = samples  # every sweep is kept
        assert rows.energies is not None  # those of chains are
        self._add(run, rows.energies.tolist())
        of_all_sites = run.counts.sum(1).tolist()  # `run.counts` has a row for each of COUNTS
        by_name = dict(zip(COUNTS, of_all_sites, strict=True))
        counts = Counts(
            steps=by_name["steps"], accepted=by_name["accepted"], changed=by_name["changed"]
        )
        self.log.add_counts(run.group.chains, run.done, counts)
        if self.on_event is not None:
            self.on_event({"kind": "swept", "swept": self.log.sweep(run.group.chains, run.done)})

    def _add(self, run: GroupRun, energies: Sequence[float]) -> None:
        """Add the texts now to the log, with their energies."""
        texts = [self.model.text(ids) for ids in run.texts()]
        self.log.add(run.group.chains, energies, texts, passes=run.spent.tolist())

    def _frame(self, run: GroupRun, sweep: int) -> str:
        """Where the run is: its step of all steps, and its sweep."""
        assert isinstance(run, MarkovRun)
        return frame_of_chains(self._steps, run.plan.steps * self.log.sweeps, sweep)

    def _move(
        self, ids: list[int], sites: list[int], proposed: list[bool], changed: list[bool]
    ) -> Move:
        """One chain's part of a step.

        ids        its text after the step
        sites      those that the step redrew; at each of them:
        proposed   whether another token was proposed
        changed    whether another token was taken
        """
        positions = [self._free[site] for site in sites]
        marks = []
        for is_proposed, is_changed in zip(proposed, changed, strict=True):
            if is_changed:
                marks.append("changed")
            elif is_proposed:
                marks.append("refused")
            else:
                marks.append("same")
        tokens = tokens_at(self.model, [ids[position] for position in positions])
        return {
            "positions": positions,
            "tokens": tokens,
            "marks": marks,
            "confidence": [],
            "rejected": [],
        }


class DecoderWatcher:
    """Watches texts being decoded, and gives as events the steps that change one, or reject a
    draft for one.
    """

    def __init__(self, model: MaskedLM, on_event: OnEvent) -> None:
        self.model = model
        self.on_event = on_event
        self._free: list[int] = []  # positions of the sites of the group that is decoded
        self._states = 0  # of the decoder so far; the first is before its first step
        self._before: list[list[int]] = []  # the texts before this step

    def begun(self, run: GroupRun) -> None:
        """The texts of a group are blank."""
        self._free = run.group.target.free_positions.tolist()
        self._states = 0
        self._before = run.starts.tolist()
        self.on_event(
            {
                "kind": "begun",
                "frame": frame_of_decoder(0),
                "names": _names(run),
                "tokens": [text_tokens(self.model, ids) for ids in self._before],
                "free": self._free,
                "legend": GENERATE_LEGEND,
                "rejected": REJECTED,
                "pictures": [],  # a decoder has no curves
                "starts": None,
                "ends": ends_at(1),
            }
        )

    def stepped(self, run: GroupRun, step: StepInfo | DecodeState) -> None:
        """The decoder has made a step, or is before the first."""
        assert isinstance(step, DecodeState)
        steps = self._states
        self._states += 1
        texts = step.ids.tolist()
        confidence = step.confidence.tolist()
        drafts: list[list[int]] = [[] for _ in texts]
        # Only states of decoders that verify have `drafts`; None if the step drafted nothing.
        drafted = getattr(step, "drafts", None)
        if drafted is not None:
            drafts = drafted.tolist()
        moves = []
        for number, ids in enumerate(texts):
            move = self._move(
                before=self._before[number],
                ids=ids,
                confidence=confidence[number],
                drafts=drafts[number],
            )
            moves.append(move)
        self._before = texts
        if any(move["positions"] or move["rejected"] for move in moves):
            frame = frame_of_decoder(steps)
            self.on_event({"kind": "stepped", "frame": frame, "moves": moves})

    def swept(self, run: GroupRun, samples: Sequence[SweepRows]) -> None:
        """The texts are whole. There is no event of it: the answer has them."""

    def _move(
        self, before: list[int], ids: list[int], confidence: list[float], drafts: list[int]
    ) -> Move:
        """One text's part of a step.

        before, ids   the text before and after the step
        confidence    at each site
        drafts        of this step, a token for each site, negative where none was drafted; empty
                      of a decoder that drafts nothing
        """
        positions = []
        confidences: list[Confidence | None] = []  # None where the token was made a blank again
        for site, position in enumerate(self._free):
            if ids[position] == before[position]:
                continue
            positions.append(position)
            is_blank_again = ids[position] == self.model.mask_id
            if is_blank_again:
                confidences.append(None)
            else:
                confidences.append(confidence_of(confidence[site]))
        return {
            "positions": positions,
            "tokens": tokens_at(self.model, [ids[position] for position in positions]),
            "marks": ["new"] * len(positions),
            "confidence": confidences,
            "rejected": self._rejected(ids, drafts),
        }

    def _rejected(self, ids: list[int], drafts: list[int]) -> list[tuple[int, str]]:
        """The positions and tokens of drafts that a step did not take.

        ids      the text after the step
        drafts   as of `_move`
        """
        rejected = []
        for site, draft in enumerate(drafts):
            position = self._free[site]
            is_rejected = draft >= 0 and ids[position] != draft
            if is_rejected:
                [(letters, _kind)] = tokens_at(self.model, [draft])
                rejected.append((position, letters))
        return rejected


def _names(run: GroupRun) -> list[str]:
    """What the texts of a group are called: by their numbers, from 1."""
    return [str(chain + 1) for chain in run.group.chains]
