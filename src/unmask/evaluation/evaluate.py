"""The whole evaluation as one call: load, choose, measure or resume, report."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from unmask.errors import InputError
from unmask.evaluation.engines import local_engine
from unmask.evaluation.plan import Plan, Request, check, make_plan
from unmask.evaluation.report import write_report
from unmask.evaluation.runner import Engine, Progress, run
from unmask.models.masked_lm import MaskedLM

ENGINES = ("local", "ray")


@dataclass(frozen=True)
class Outcome:
    """What a run came to: the numbers of the table (None if no pair succeeded), and what is not in it."""

    summary: dict[str, Any] | None
    pairs: int
    failed: list[dict[str, Any]]
    skipped: Counter[str]


def evaluate(
    request: Request, out: Path | str, engine: str = "local", workers: int | None = None, progress: Progress | None = None
) -> Outcome:
    """Measure the pairs of `request` that the folder `out` does not hold yet, and write the report there."""
    check(request)
    if engine not in ENGINES:
        raise InputError(f"engine {engine!r} is unknown: use {' or '.join(ENGINES)}")
    if workers is not None and workers < 1:
        raise InputError(f"{workers} workers were asked for: use 1 or more")
    plan, measure_all = _local(request) if engine == "local" else _on_ray(request, workers)
    rows, failed = run(plan, out, measure_all, progress)
    summary = write_report(rows, Path(out).expanduser(), plan.settings, failed, plan.skipped) if len(rows) else None
    return Outcome(summary, len(plan.pairs), failed, plan.skipped)


def _local(request: Request) -> tuple[Plan, Engine]:
    model = MaskedLM.load(request.model, device=request.device, dtype=request.dtype)
    plan = make_plan(request, model, model.device.type)
    return plan, lambda pairs: local_engine(model, pairs, request.constructions, request.arnold_gokhale_steps)


def _on_ray(request: Request, workers: int | None) -> tuple[Plan, Engine]:
    """The driver loads the model on the CPU, to choose the pairs and to know the weights; the workers measure."""
    from unmask.evaluation.ray_engine import pool_device, ray_engine, start_ray

    start_ray()
    device = pool_device(request.device)
    model = MaskedLM.load(request.model, device="cpu", dtype=request.dtype)
    plan = make_plan(request, model, device.split(":")[0])
    dtype = plan.settings["dtype"]
    return plan, lambda pairs: ray_engine(
        pairs, request.model, device, dtype, request.constructions, request.arnold_gokhale_steps, workers
    )
