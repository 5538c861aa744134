"""The same pairs through Ray Data: a pool of actors, each with its model loaded once, on GPUs or CPUs.

Ray restarts an actor that dies and gives its unfinished pairs to the pool again; the driver alone writes rows, when a pair's
answer has arrived. Pairs and rows travel as JSON text, in which Python's floats survive exactly.
"""

from __future__ import annotations

import json
import logging
import os
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from unmask.errors import InputError, UnmaskError
from unmask.evaluation.engines import Measured, measure
from unmask.evaluation.pairs import Pair


class PairWorker:
    """One actor of the pool."""

    def __init__(self, model: str | None, device: str, dtype: str, constructions: Sequence[str], steps: int | None) -> None:
        from unmask.models.masked_lm import MaskedLM

        self.model = MaskedLM.load(model, device=device, dtype=dtype)
        self.constructions, self.steps = constructions, steps

    def __call__(self, batch: dict[str, Any]) -> dict[str, list[str]]:
        """Measure the pairs of a batch: JSON in, JSON out."""
        answers = []
        for line in batch["pair"]:
            fields = json.loads(str(line))
            pair = Pair(**{**fields, "ids": tuple(fields["ids"]), "block": tuple(fields["block"])})
            answers.append(json.dumps(asdict(measure(self.model, pair, self.constructions, self.steps))))
        return {"measured": answers}


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


def pool_device(device: str) -> str:
    """The kind of device that the pool will use: CUDA where the cluster has GPUs, unless asked otherwise."""
    import ray

    gpus = ray.cluster_resources().get("GPU", 0)
    if device == "auto":
        return "cuda" if gpus else "cpu"
    if device.startswith("cuda") and not gpus:
        raise InputError(f"device {device!r} was asked for, but the Ray cluster has no GPU: use --device cpu")
    return device


def ray_engine(
    pairs: Sequence[Pair],
    model: str | None,
    device: str,
    dtype: str,
    constructions: Sequence[str],
    steps: int | None,
    workers: int | None = None,
) -> Iterator[Measured]:
    """Answers in the order in which they arrive. `workers`: by default one a GPU, or one for every two CPUs."""
    import ray

    resources = ray.cluster_resources()
    gpu = device.startswith("cuda")
    cpus = int(resources.get("CPU", 1))
    size = workers or max(1, int(resources.get("GPU", 1)) if gpu else cpus // 2)
    size = min(size, len(pairs))
    if model is not None and Path(model).expanduser().is_dir():
        model = str(Path(model).expanduser().resolve())
    lines = [{"pair": json.dumps(asdict(pair))} for pair in pairs]
    answers = ray.data.from_items(lines, override_num_blocks=_blocks(len(pairs), size)).map_batches(
        PairWorker,
        fn_constructor_kwargs={
            "model": model,
            "device": device,
            "dtype": dtype,
            "constructions": list(constructions),
            "steps": steps,
        },
        compute=ray.data.ActorPoolStrategy(size=size),
        batch_size=None,
        num_gpus=1 if gpu else 0,
        num_cpus=1 if gpu else max(1, cpus // size),
    )
    try:
        for row in answers.iter_rows():
            yield Measured(**json.loads(row["measured"]))
    except ray.exceptions.RayError as error:
        reason = (str(error).strip() or type(error).__name__).splitlines()[-1]
        raise UnmaskError(f"Ray gave up ({reason}): the pairs measured so far are kept, the same command goes on") from None


def _blocks(pairs: int, workers: int) -> int:
    """Blocks are what is redone when a worker dies: small, but not so many that scheduling costs more than measuring."""
    return min(pairs, max(64, 16 * workers))
