"""One thread runs the model for all requests: small questions of several requests together, large ones in slices.

`SharedLM` is the model as requests see it: a `MaskedLM` whose passes go through the worker. A request is a job with its own
thread, which asks for passes and waits. The worker takes the question of the job that has had the fewest rows per second
since it began, so that a small request never waits for the end of a large one and a large one is never left out, and fills its
call up with questions of other jobs that have the same shape. A job that has had many rows continues in small slices, and lets
smaller ones that are about to ask go first. A job that was cancelled gets no more passes: its next question raises `Cancelled`;
that of a job that was stopped raises `Enough`, so that it returns what it has.
"""

from __future__ import annotations

import secrets
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextvars import ContextVar
from dataclasses import dataclass, field
from functools import partial
from itertools import count
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor

from unmask.models.masked_lm import MaskedLM
from unmask.models.text.text_tokenizer import refuse_too_long
from unmask.runs.progress import Enough

FIRST_ROWS = 64
"""Rows of a job that hardly count: a blank, a score of a sentence."""
MANY_ROWS = 512
"""A job that has had this many rows is large."""
SMALL_SLICE = 16
"""Rows of a slice of a large job on a CPU while there are others: a small request waits for at most one slice."""
SECONDS_ALONE = 5.0
"""A job has been alone for this long before its slices are whole again."""
GRACE, SILENT = 0.25, 1.0
"""Seconds that a large job waits for smaller ones, under way, to ask; then it has a slice, so that it always continues. It does
not wait for those that have not asked for SILENT seconds: they compute, or their client does not read."""


class Cancelled(Exception):
    """The client has left, so the answer is not needed."""


@dataclass(eq=False)
class Job:
    """A request under way.

    apart       its calls run as they are, never with those of others: the last bits of a chain depend on the shape of a call
    spent       rows that it has had so far
    cancelled   its next question, or the one that waits now, raises `Cancelled`
    stopping    its next question, or the one that waits now, raises `Enough`
    heard       when it began, or had its last answer
    done        how much of `total` is done, in units of `what`, as it last reported
    """

    apart: bool = False
    spent: int = 0
    cancelled: bool = False
    stopping: bool = False
    done: int = 0
    total: int = 0
    what: str = ""
    id: str = field(default_factory=lambda: secrets.token_hex(8))
    began: float = field(default_factory=time.monotonic)
    counting: float = field(default_factory=time.monotonic)
    heard: float = field(default_factory=time.monotonic)

    @property
    def large(self) -> bool:
        return self.spent >= MANY_ROWS

    @property
    def pace(self) -> float:
        """Rows per second since it began; the first FIRST_ROWS count a tenth, so that small questions are answered at once."""
        counted = max(self.spent - FIRST_ROWS, 0) + min(self.spent, FIRST_ROWS) / 10
        return counted / max(time.monotonic() - self.began, 1e-3)

    def report(self, done: int, total: int, what: str = "") -> None:
        """Note how far it is."""
        if what != self.what or done < self.done:
            self.counting = time.monotonic()
        self.done, self.total, self.what = done, total, what

    def refuse(self) -> None:
        """Raise `Cancelled` or `Enough`, if it was cancelled or stopped."""
        if self.cancelled:
            raise Cancelled
        if self.stopping:
            raise Enough

    @property
    def left(self) -> float | None:
        """Seconds left at the pace since this count began; None if it is not known."""
        gone = time.monotonic() - self.counting
        return gone * (self.total - self.done) / self.done if 0 < self.done <= self.total else None


CURRENT: ContextVar[Job | None] = ContextVar("job", default=None)
"""The job that this thread works for."""


@dataclass(eq=False)
class _Question:
    """Rows for the model, and how many a call of their shape takes; or a call of it that nothing can be added to."""

    job: Job
    number: int
    size: int
    rows: tuple[Tensor, Tensor] | None = None
    most: int = 0
    call: Callable[[], Any] | None = None
    answer: Any = None
    error: BaseException | None = None
    done: threading.Event = field(default_factory=threading.Event)

    @property
    def shape(self) -> tuple[int, int] | None:
        return None if self.rows is None else (self.rows[0].shape[1], self.rows[1].shape[1])


class PassWorker:
    """The worker of one model. It runs until `close`, and counts the calls of the model that it made."""

    def __init__(self, model: MaskedLM) -> None:
        self.model = model
        self.calls = self.questions = 0
        self._numbers = count()
        self._waiting: list[_Question] = []
        self._under_way: set[Job] = set()
        self._changed = threading.Condition()
        self._closed = False
        self._crowded = float("-inf")
        self._thread = threading.Thread(target=self._work, name="passes", daemon=True)
        self._thread.start()

    def rows(self, ids: Tensor, positions: Tensor) -> Tensor:
        """Logits of rows that may be run together with those of other jobs; no more of them than the model takes at once.

        What can fail before the pass fails here, in the request's thread: the worker's is there for all.
        """
        most = self.model.rows_at_once(ids.shape[1], positions.shape[1])
        return self._ask(len(ids), rows=(ids, positions), most=most)

    def call(self, size: int, call: Callable[[], Any]) -> Any:
        """Returns `call()`, run on the worker's thread; `size` is how many rows it passes."""
        return self._ask(size, call=call)

    def begin(self, job: Job) -> None:
        """A job is under way, and may ask soon."""
        with self._changed:
            self._under_way.add(job)
            self._note_others()

    def end(self, job: Job) -> None:
        """It asks no more."""
        with self._changed:
            self._note_others()
            self._under_way.discard(job)
            self._changed.notify_all()

    @property
    def crowded(self) -> bool:
        """Whether several jobs were under way lately."""
        return len(self._under_way) > 1 or time.monotonic() - self._crowded < SECONDS_ALONE

    def _note_others(self) -> None:
        if len(self._under_way) > 1:
            self._crowded = time.monotonic()

    def wake(self) -> None:
        """Look again at the jobs: one was cancelled or stopped."""
        with self._changed:
            self._changed.notify_all()

    def close(self, patience: float = 1.0) -> bool:
        """Refuse everything that waits, and end; whether the call under way ended too."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()
        self._thread.join(patience)
        return not self._thread.is_alive()

    def _ask(self, size: int, **asked: Any) -> Any:
        question = _Question(CURRENT.get() or Job(), next(self._numbers), size, **asked)
        with self._changed:
            if self._closed:
                raise Cancelled
            question.job.refuse()
            self._waiting.append(question)
            self._changed.notify_all()
        question.done.wait()
        if question.error is not None:
            raise question.error
        return question.answer

    def _work(self) -> None:
        while True:
            with self._changed:
                self._drop_cancelled()
                while not self._waiting and not self._closed:
                    self._changed.wait()
                    self._drop_cancelled()
                if not self._closed and self._smaller_may_ask():
                    self._changed.wait_for(lambda: self._closed or not self._smaller_may_ask(), GRACE)
                    self._drop_cancelled()
                if self._closed:
                    return
                chosen = self._choose() if self._waiting else []
            if chosen:
                self._answer(chosen)

    def _smaller_may_ask(self) -> bool:
        since = time.monotonic() - SILENT
        return all(q.job.large for q in self._waiting) and any(not j.large and j.heard > since for j in self._under_way)

    def _drop_cancelled(self) -> None:
        for question in [q for q in self._waiting if self._closed or q.job.cancelled or q.job.stopping]:
            self._waiting.remove(question)
            question.error = Cancelled() if self._closed or question.job.cancelled else Enough()
            question.done.set()

    def _choose(self) -> list[_Question]:
        """The question of the job with the lowest pace, and others of its shape while there is room in the call."""
        order = sorted(self._waiting, key=lambda q: (q.job.pace, q.number))
        chosen, room = [order[0]], order[0].most - order[0].size
        for question in order[1:]:
            if question.shape is not None and question.shape == order[0].shape and question.size <= room:
                chosen.append(question)
                room -= question.size
        for question in chosen:
            self._waiting.remove(question)
        return chosen

    def _answer(self, chosen: list[_Question]) -> None:
        self.calls += 1
        self.questions += len(chosen)
        try:
            if chosen[0].call is not None:
                chosen[0].answer = chosen[0].call()
            else:
                rows = [q.rows for q in chosen if q.rows is not None]
                logits = self.model.logits(torch.cat([ids for ids, _ in rows]), torch.cat([at for _, at in rows]))
                for question, part in zip(chosen, logits.split([q.size for q in chosen]), strict=True):
                    question.answer = part
        except BaseException as error:
            for question in chosen:
                question.error = error
        for question in chosen:
            question.job.spent += question.size
            question.job.heard = time.monotonic()
            question.done.set()


class SharedLM(MaskedLM):
    """A `MaskedLM` that many threads may use at once; `model` is the one underneath."""

    def __init__(self, model: MaskedLM) -> None:
        self.__dict__.update(model.__dict__)
        self.model = model
        self.worker = PassWorker(model)

    def logits(self, ids: Int[Tensor, "n T"], positions: Int[Tensor, "n p"]) -> Float[Tensor, "n p V"]:
        """As `MaskedLM.logits`: a call of a job that stays apart runs as it is, others in slices that jobs may share."""
        refuse_too_long(ids.shape[1], self.max_length)
        job = CURRENT.get()
        if job is not None and job.apart:
            found: Tensor = self.worker.call(len(ids), lambda: self.model.logits(ids, positions))
            return found
        most = self.rows_at_once(ids.shape[1], positions.shape[1])
        most = min(most, SMALL_SLICE) if self._in_small_slices else most
        parts = [
            self.worker.rows(ids[start : start + most], positions[start : start + most]) for start in range(0, len(ids), most)
        ]
        if not parts:
            return self.model.logits(ids, positions)
        return parts[0] if len(parts) == 1 else torch.cat(parts)

    def offers_states(self, ids: Int[Tensor, "n T"]) -> bool:
        """As `MaskedLM.offers_states`; its two passes are one call."""
        return bool(self.worker.call(2, lambda: self.model.offers_states(ids)))

    def substitutions(
        self, ids: Sequence[int], vary: Sequence[int], values: Int[Tensor, "n v"], predict: int
    ) -> Iterator[tuple[slice, Float[Tensor, "b V"]]]:
        """As `MaskedLM.substitutions`: many rows in their own slices, few as rows that jobs may share."""
        if len(values) * 2 <= self.rows_at_once(len(ids), 1):
            rows = torch.tensor(list(ids), device=self.device).repeat(len(values), 1)
            rows[:, list(vary)] = values.to(self.device)
            if len(rows):
                yield slice(0, len(rows)), self.logits(rows, torch.full((len(rows), 1), predict, device=self.device))[:, 0]
            return
        start = 0
        while start < len(values):
            part = values[start : start + (SMALL_SLICE if self._in_small_slices else self.cost.rows(len(ids)))]
            logits = self.worker.call(len(part), partial(self._substituted, ids, vary, part, predict))
            yield slice(start, start + len(part)), logits
            start += len(part)

    unchecked_substitutions = substitutions

    @property
    def _in_small_slices(self) -> bool:
        job = CURRENT.get()
        return job is not None and job.large and self.device.type == "cpu" and self.worker.crowded

    def _substituted(self, ids: Sequence[int], vary: Sequence[int], values: Tensor, predict: int) -> Tensor:
        return torch.cat([logits for _, logits in self.model.substitutions(ids, vary, values, predict)])
