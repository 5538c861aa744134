"""Engines: items go in, answers come out, in any order. An item that fails is an answer too, and does not stop the others.

    engine = OnRay(make_work, workers=4, gpu=True)   as many processes as `workers`, each with its own make_work(), by Ray Data
    for answer in engine(items):                     answer.place: which item; answer.result, or answer.failure: the reason

`make_work` travels to the workers, so it must be picklable: a function of a module, or `functools.partial` of one. Ray
restarts a worker that dies and gives its unfinished items to the others; every item is answered exactly once.
"""

from __future__ import annotations

import logging
import os
import pickle
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from unmask.errors import InputError, UnmaskError

Item = TypeVar("Item")
Result = TypeVar("Result")


@dataclass(frozen=True)
class Answer(Generic[Result]):
    """The answer for the item at `place`: a result, or the reason of its failure; `more`: others found with it follow."""

    place: int
    result: Result | None = None
    failure: str | None = None
    more: bool = False


Engine = Callable[[Sequence[Item]], Iterator[Answer[Result]]]
"""Answers every item once."""


class OnRay(Generic[Item, Result]):
    """On Ray: `start_ray` first. By default one worker per GPU, or per two CPUs."""

    def __init__(self, make_work: Callable[[], Callable[[Item], Result]], workers: int | None = None, gpu: bool = False) -> None:
        self.make_work, self.workers, self.gpu = make_work, workers, gpu

    def __call__(self, items: Iterable[Item]) -> Iterator[Answer[Result]]:
        """Answers as they arrive."""
        import ray

        items = list(items)
        unanswered = set(range(len(items)))
        try:
            for row in self._answers(items).iter_rows() if items else ():
                answer: Answer[Result] = pickle.loads(row["answer"])
                if answer.place in unanswered:
                    unanswered.remove(answer.place)
                    yield answer
        except ray.exceptions.RayError as error:
            reason = (str(error).strip() or type(error).__name__).splitlines()[-1]
            raise UnmaskError(f"Ray gave up ({reason}): what was done is kept, the same command continues") from None
        for place in sorted(unanswered):
            yield Answer(place, failure="Ray ended without an answer for it")

    def _answers(self, items: Sequence[Item]) -> Any:
        import ray

        resources = ray.cluster_resources()
        cpus = int(resources.get("CPU", 1))
        size = self.workers or max(1, int(resources.get("GPU", 1)) if self.gpu else cpus // 2)
        size = min(size, len(items))
        rows = [{"item": pickle.dumps((place, item))} for place, item in enumerate(items)]
        return ray.data.from_items(rows, override_num_blocks=_blocks(len(items), size)).map_batches(
            _Worker,
            fn_constructor_args=(self.make_work,),
            compute=ray.data.ActorPoolStrategy(size=size),
            batch_size=None,
            num_gpus=1 if self.gpu else 0,
            num_cpus=1 if self.gpu else max(1, cpus // size),
        )


class _Worker:
    """One process of the pool."""

    def __init__(self, make_work: Callable[[], Callable[[Any], Any]]) -> None:
        self.work = make_work()

    def __call__(self, batch: dict[str, Any]) -> dict[str, list[bytes]]:
        return {"answer": [pickle.dumps(answered(self.work, *pickle.loads(bytes(item)))) for item in batch["item"]]}


def start_ray() -> None:
    """Join the cluster that RAY_ADDRESS names, or start Ray on this machine; an already started Ray is used as it is."""
    try:
        import ray
        import ray.data
    except ImportError:
        raise InputError('--engine ray needs the package ray, which is not installed: pip install "unmask[ray]"') from None
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    os.environ.setdefault("RAY_BACKEND_LOG_LEVEL", "fatal")
    if not ray.is_initialized():
        ray.init(include_dashboard=False, log_to_driver=False, logging_level="ERROR")
    ray.data.DataContext.get_current().enable_progress_bars = False
    logging.getLogger("ray.data").setLevel(logging.ERROR)


def ray_has_gpus() -> bool:
    """Whether the cluster that was started or joined has a GPU."""
    import ray

    return bool(ray.cluster_resources().get("GPU", 0))


def answered(work: Callable[[Item], Result], place: int, item: Item) -> Answer[Result]:
    """The answer for one item; an exception other than an interrupt becomes a failure."""
    try:
        return Answer(place, work(item))
    except UnmaskError as error:
        return Answer(place, failure=str(error))
    except Exception as error:
        line = (str(error).strip() or "no message").splitlines()[0]
        return Answer(place, failure=f"{type(error).__name__}: {line}")


def _blocks(items: int, workers: int) -> int:
    """How many blocks; a block is redone when a worker dies. Small ones lose little, but too many cost more than the work."""
    return min(items, max(64, 16 * workers))
