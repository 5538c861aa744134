"""Finished runs as tables, traces and figures: the folders that were named when the server was started, and no other."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from math import isnan
from os import PathLike
from pathlib import Path
from typing import Any

from unmask.errors import InputError
from unmask.joints.registry import named
from unmask.runs.files import read_object, user_path
from unmask.sampling.run.result import load_run

KINDS = ("evaluate", "sample")
SHOWN_CHAINS, SHOWN_POINTS, SHOWN_TEXTS = 16, 400, 40
ABOUT = ("kernel", "energy", "chains", "draws", "passes", "acceptance", "novelty", "stutter", "unique")
CONVERGENCE = ["functional", "length", "mean", "sd", "R-hat", "effective samples"]
MEASURES = {"u_ppl": "U-PPL", "p_ppl": "P-PPL", "a_kl": "A-KL", "g_kl": "G-KL"}


class Runs:
    """The folders by number, from 0."""

    def __init__(self, folders: Sequence[str | PathLike[str]]) -> None:
        self.folders = [user_path(folder, "runs") for folder in folders]
        self.about = [self._about(number, folder) for number, folder in enumerate(self.folders)]

    def _about(self, number: int, folder: Path) -> dict[str, Any]:
        if not (folder / "settings.json").is_file():
            raise InputError(f"{str(folder)!r} holds no run: give the --out folder of unmask {' or unmask '.join(KINDS)}")
        kind = str(read_object(folder / "settings.json").get("kind"))
        if kind not in KINDS:
            raise InputError(f"folder {str(folder)!r} is a run of {kind}: give folders of unmask {' or unmask '.join(KINDS)}")
        return {"number": number, "name": folder.resolve().name, "kind": kind, "folder": str(folder.resolve())}

    def run(self, number: int) -> dict[str, Any]:
        """One run as tables, traces and names of figures, read again each time: it may still be growing."""
        about, folder = self.about[number], self.folders[number]
        shown = _evaluation(folder) if about["kind"] == "evaluate" else _sampling(folder)
        return {**about, **shown, "figures": [figure.name for figure in self.figures(number)], "copy": _copy(**about)}

    def figures(self, number: int) -> list[Path]:
        """The figures that a run has left, PNG files."""
        return sorted((self.folders[number] / "figures").glob("*.png"))


def _copy(kind: str, folder: str, **about: object) -> dict[str, str]:
    """The same numbers outside of the page."""
    if kind == "sample":
        python = f"import unmask\n\nprint(unmask.diagnose({folder!r}).to_dict())"
        return {"python": python, "command": shlex.join(["unmask", "diagnose", folder])}
    table = f"{folder}/table.json"
    python = f'import json\nfrom pathlib import Path\n\nprint(json.loads(Path({table!r}).read_text())["constructions"])'
    return {"python": python, "command": shlex.join(["python3", "-m", "json.tool", table])}


def _evaluation(folder: Path) -> dict[str, Any]:
    if not (folder / "table.json").is_file():
        raise InputError(f"folder {folder.name!r} has no table yet: let the evaluation finish")
    table = read_object(folder / "table.json")
    rows = [[named(row["construction"]).label, *(_interval(row.get(one)) for one in MEASURES)] for row in table["constructions"]]
    return {
        "about": {"pairs": table["pairs"], **{k: v for k, v in table["settings"].items() if isinstance(v, str | int | float)}},
        "verdict": [f"{table['pairs']:,} pairs; every number with its 95 % interval over pairs."],
        "tables": [{"title": "Table 1", "columns": ["construction", *MEASURES.values()], "rows": rows}],
        "traces": [],
    }


def _interval(number: dict[str, Any] | None) -> str:
    if not number or number.get("value") is None:
        return ""
    low, high = number.get("low"), number.get("high")
    return f"{number['value']:.3f}" + ("" if low is None or high is None else f" ({low:.3f} to {high:.3f})")


def _sampling(folder: Path) -> dict[str, Any]:
    run, traces = load_run(folder), []
    for chain, part in list(run.samples.groupby("chain"))[:SHOWN_CHAINS]:
        thin = part.iloc[:: -(-len(part) // SHOWN_POINTS)]
        traces.append({"name": f"chain {chain}", "x": thin["sweep"].tolist(), "y": thin["energy"].tolist()})
    shown = [(f.name, f.length, f.mean, f.sd, f.r_hat, f.ess_bulk) for f in run.diagnosis.functionals]
    rows = [[(None if isnan(v) else round(v, 3)) if isinstance(v, float) else v for v in row] for row in shown]
    last = run.last[["chain", "text", "energy"]].tail(SHOWN_TEXTS).round(2)
    return {
        "about": {name: getattr(run.diagnosis, name) for name in ABOUT},
        "verdict": run.diagnosis.verdict,
        "tables": [
            {"title": "Convergence", "columns": CONVERGENCE, "rows": rows},
            {"title": "Last texts", "columns": list(last), "rows": last.values.tolist()},
        ],
        "traces": traces,
    }
