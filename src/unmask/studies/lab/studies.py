"""The seven studies of `unmask lab`: each computes one statement of the theory of Li et al.
(2024), and says what holds.

    dictionary   theorem 1: the samples that a masked loss needs and the mixing time of its
                 Gibbs sampler are one quantity
    masking      theorem 2: Gamma_{k+1} <= Gamma_k for one mask per sample and joint block
                 conditionals; it fails for factorised heads, which transformers
                 have, and when all masks of each sample are averaged
    dependence   theorem 3, (1) and (2): as the coupling rises the law splits into modes, the
                 gap closes, and the mixing time and the samples that a masked loss needs
                 explode
    parallel     theorem 3, (3): drawing k blanks from the product of their conditionals settles
                 on a law, but not on p; how far off it is grows with E TC(x_K | x_{-K})
    stutter      remark 1, "walking walking": a word is in one of N slots; each slot draws it by
                 its marginal, so a parallel draw has it twice or not at all. Two slots of
                 weight 1/2: p("w w") = 1/4, p(impossible) = 1/2, TC = ln 2
    schedule     KL(p || sampler) = sum_t E TC(x_{B_t} | x_{B_<t}) for groups B_t fixed beforehand;
                 averaged over all orders, one site at a time,
                 sum_k (1/k) E_{|K|=k} [masked cross-entropy] = H(p)
    decoding     what a decoder that chooses positions before tokens loses, pass by pass, and
                 what bounds it

The result of a study is words, a table, numbers and a figure; on disk, NAME.png and NAME.json.
A folder is the lab's if it holds `lab.json`; the lab does not write into a folder with anything
else in it. What computes is imported when a study runs, so that reading the signatures is
quick.
"""

from __future__ import annotations

import inspect
import math
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import wraps
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeVar, cast

from annotated_types import Interval

from unmask.common.errors import InputError
from unmask.common.files import atomic_path, plain, reading, write_json
from unmask.common.formats import at_most
from unmask.common.results import Result
from unmask.common.signature import Function, Written, checked, settings
from unmask.runs.folder import output_folder
from unmask.runs.progress import Progress

if TYPE_CHECKING:
    import numpy as np
    import pandas
    from matplotlib.axes import Axes

    from unmask.common.figures import Figure
    from unmask.studies.lab.dynamics import MaskLaw
    from unmask.studies.lab.estimation import Learning, Loss
    from unmask.studies.lab.model import Counts, LabModel, Vector
    from unmask.studies.lab.schedules import Grouping

Item = TypeVar("Item")
MANIFEST = "lab.json"
Numbers = Annotated[str | float | Sequence[float], Written(metavar="NUMBERS")]
Strength = Annotated[float, Interval(ge=-10_000, le=10_000)]
"""Some models need a smaller limit; they raise when they are built."""
Fits = Annotated[int, Interval(ge=2, le=100_000)]
Out = str | os.PathLike[str] | None
Watch = Progress | None
Points = list[dict[str, Any]]
SERIES = BLUE, ORANGE, GREEN, RED, PURPLE, GREY = (
    "#0072B2",
    "#E69F00",
    "#009E73",
    "#D55E00",
    "#CC79A7",
    "#6b6b6b",
)
NEEDED = "samples needed, worst direction\n(maximum likelihood = 1)"

OPTIONS = {
    "model": "Spins on a graph.",
    "fits": "Fits to samples in `masking`, for each k and each loss.",
    "out": (
        "Folder for figures and numbers: new, empty, or an earlier lab's [default: nothing is"
        " written]."
    ),
    "progress": "Called with the parts done, their number, and what they are.",
}
"""The help of every option of a study, whichever have it."""
STYLE: Any = {
    **dict.fromkeys(("axes.spines.top", "axes.spines.right", "legend.frameon"), False),
    **{
        "figure.dpi": 150,
        "font.size": 10,
        "legend.fontsize": 9,
        "axes.grid": True,
        "grid.alpha": 0.25,
    },
    **{"axes.titlesize": 11, "axes.titleweight": "bold", "axes.titlelocation": "left"},
}


@settings
class SpinModel:
    """The model: Ising spins on a graph.

    A study takes what is left out from its own default model, which its signature shows, in
    Python and on the command line alike. A model that is built by itself takes it from
    `CURIE_WEISS`.

    Parameters:
        sites: Sites N of the model.
        coupling: Coupling of each pair of joined sites.
        fields: Fields: one number, one per site with commas, FIRST:LAST evenly, or normal:SD:SEED.
        graph: Which sites are joined.
    """

    sites: Annotated[int, Interval(ge=2, le=10)] | None = None
    coupling: Strength | None = None
    fields: Numbers | None = None
    graph: Literal["complete", "cycle", "path"] | None = None

    def filled(self, default: SpinModel) -> SpinModel:
        """This model, with the values of `default` where it has none."""
        given = {name: value for name, value in asdict(self).items() if value is not None}
        return replace(default, **given)

    def build(self) -> LabModel:
        """Enumerate the model."""
        from unmask.studies.lab.model import ising

        whole = self.filled(CURIE_WEISS)
        assert whole.sites is not None and whole.coupling is not None
        assert whole.fields is not None and whole.graph is not None
        return ising(whole.coupling, read_fields(whole.fields, whole.sites), whole.graph)

    def at(self, coupling: float) -> LabModel:
        """Enumerate the same model with another coupling."""
        return replace(self, coupling=coupling).build()

    def describe(self) -> str:
        """One line for tables and captions; without the coupling, if the model has none of its
        own.
        """
        coupling = "" if self.coupling is None else f", coupling {self.coupling:g}"
        return f"Ising, {self.graph} graph, N={self.sites}{coupling}, fields {self.fields}"

    def options(self, **others: Any) -> dict[str, Any]:
        """The origin of a study's numbers: these fields, the study's own options, and one line."""
        return {**asdict(self), **others, "model": self.describe()}


CURIE_WEISS = SpinModel(sites=6, coupling=0.25, fields="0", graph="complete")
TILT = replace(CURIE_WEISS, fields="-0.5:0.5")
FIVE_SITES = SpinModel(sites=5, coupling=0.4, fields="-0.35:0.35", graph="complete")
ANY_COUPLING = replace(CURIE_WEISS, coupling=None)
PATH = SpinModel(sites=8, coupling=0.6, fields="0.2", graph="path")
TILTED_PATH = replace(PATH, fields="-1:1")


def read_fields(value: Numbers, sites: int) -> np.ndarray:
    """One number per site, from `0.1` for all, one each with commas or in a sequence,
    `FIRST:LAST`, or `normal:SD:SEED`.
    """
    import numpy as np

    usage = f"use one number, {sites} numbers with commas, FIRST:LAST, or normal:SD:SEED"
    try:
        if not isinstance(value, str):
            numbers = np.atleast_1d(np.asarray(value, dtype=np.float64))
        elif value.startswith("normal:"):
            _, sd, seed = value.split(":")
            numbers = float(sd) * np.random.default_rng(int(seed)).normal(size=sites)
        elif ":" in value:
            first, last = value.split(":")
            numbers = np.linspace(float(first), float(last), sites)
        else:
            numbers = np.array([float(part) for part in value.split(",")])
    except (TypeError, ValueError):
        raise InputError(f"fields {value!r} is not understood: {usage}") from None
    if numbers.shape not in ((1,), (sites,)) or not np.isfinite(numbers).all():
        raise InputError(
            f"fields {value!r} are {numbers.size} numbers for {sites} sites, or not all finite:"
            f" {usage}"
        )
    return np.broadcast_to(numbers, (sites,)).copy()


@dataclass(frozen=True)
class Study(Result):
    """One statement of the theory, computed.

    claim, findings             the statement, and what holds
    heading, columns, rows      its table, whose cells are numbers or words; `note` explains it
    draw, numbers               makes the figure; every number behind table and figure, which go
                                to JSON
    """

    name: str
    title: str
    claim: str
    findings: Sequence[str]
    heading: str
    columns: Sequence[str]
    rows: Sequence[Sequence[object]]
    note: str
    draw: Callable[[], Figure]
    numbers: dict[str, Any]

    def to_dict(self) -> dict[str, Any]:
        """The object that `--json` prints and NAME.json holds: words, options, and every number
        behind table and figure.
        """
        words = {
            "study": self.name,
            "title": self.title,
            "claim": self.claim,
            "findings": self.findings,
        }
        return dict(plain({**words, **self.numbers}))

    def to_frame(self) -> pandas.DataFrame:
        """The table, numbers as they are."""
        import pandas

        return pandas.DataFrame([list(row) for row in self.rows], columns=list(self.columns))

    @property
    def headline(self) -> str:
        """The title and the findings."""
        return f"{self.title}. {' '.join(self.findings)}"

    def save(self, folder: Path) -> None:
        """Write figure and numbers into the folder."""
        from unmask.common.figures import rc_context

        studies = {path.stem for path in folder.glob("*.json")} - {Path(MANIFEST).stem} | {
            self.name
        }
        write_json(folder / MANIFEST, {"made_by": "unmask lab", "studies": sorted(studies)})
        with rc_context(STYLE), atomic_path(folder / f"{self.name}.png") as temporary:
            self.draw().savefig(temporary, dpi=150, format="png")
        write_json(folder / f"{self.name}.json", self.to_dict())


@dataclass(frozen=True)
class Report(Result):
    """All studies."""

    studies: Sequence[Study]

    def to_dict(self) -> dict[str, Any]:
        """The numbers of each study by its name."""
        return {study.name: study.to_dict() for study in self.studies}

    def to_frame(self) -> pandas.DataFrame:
        """One row per finding."""
        import pandas

        rows = [(study.name, finding) for study in self.studies for finding in study.findings]
        return pandas.DataFrame(rows, columns=["study", "finding"])


def study(function: Function) -> Function:
    """A study as a command: its options are documented by OPTIONS, its arguments checked, its
    files written to `out`.

    What a model leaves out is that of the study's own model, the default in its signature.
    """
    signature = inspect.signature(function)
    section = "\n".join(f"        {name}: {OPTIONS[name]}" for name in signature.parameters)
    function.__doc__ = f"{function.__doc__}\n\n    Parameters:\n{section}\n    "

    @wraps(function)
    def saved(*arguments: Any, **options: Any) -> Any:
        given = signature.bind(*arguments, **options)
        folder = lab_folder(given.arguments.get("out"))
        if "model" in given.arguments:
            given.arguments["model"] = given.arguments["model"].filled(
                signature.parameters["model"].default
            )
        result = function(*given.args, **given.kwargs)
        if folder is not None and isinstance(result, Study):
            result.save(folder)
        return result

    return cast(Function, checked(saved))


def lab_folder(out: Out) -> Path | None:
    """`out` as a path, if it is new, empty or the lab's; nothing is written."""
    if out is None:
        return None
    folder = output_folder(out)
    with reading(folder):
        if folder.is_dir() and any(folder.iterdir()) and not (folder / MANIFEST).is_file():
            raise InputError(
                f"out {str(folder)!r} is not empty and holds no lab report ({MANIFEST}): name a new"
                " or empty folder"
            )
    return folder


def counted(progress: Progress | None, items: Sequence[Item], what: str) -> Iterator[Item]:
    """The items; before the first and after each, `progress` gets how many are done."""
    if progress:
        progress(0, len(items), what)
    for done, item in enumerate(items, 1):
        yield item
        if progress:
            progress(done, len(items), what)


def without_rounding(value: float, below: float = 1e-12) -> float:
    """`value`, or 0 if its size is below `below`: rounding errors are not shown."""
    return 0.0 if abs(value) < below else value


def show(cell: object) -> str:
    """A cell as text, floats to four digits."""
    if isinstance(cell, float):
        return f"{cell:,.4g}".replace("inf", "∞")
    return f"{cell:,}" if isinstance(cell, int) else str(cell)


def panels(
    *labels: tuple[str, str, str], widths: Sequence[float] | None = None
) -> tuple[Figure, list[Axes]]:
    """A row of panels, each with a title and labels of its two axes, drawn without a display."""
    from unmask.common.figures import Figure

    figure = Figure(figsize=(4.7 * len(labels), 3.9), layout="constrained")
    axes = figure.subplots(1, len(labels), squeeze=False, width_ratios=widths)[0]
    for axis, (title, x, y) in zip(axes, labels, strict=True):
        axis.set(title=title, xlabel=x, ylabel=y)
    return figure, list(axes)


def plain_numbers(*axes: Any) -> None:
    """Label logarithmic axes with 0.01, 0.1, 1 instead of powers, and their minor ticks not at
    all.
    """
    from unmask.common.figures import FuncFormatter, LogLocator, NullFormatter

    for axis in axes:
        low, high = axis.get_view_interval()
        if high < 200 * low:
            axis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
        axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,g}"))
        axis.set_minor_formatter(NullFormatter())


def series(
    axis: Axes, rows: Sequence[Mapping[str, Any]], x: str, y: str, look: str, **style: Any
) -> None:
    """A curve through the values x and y of the rows."""
    axis.plot([row[x] for row in rows], [row[y] for row in rows], look, **style)


def shades(count: int) -> list[Any]:
    """`count` colours from light to dark, for an ordered series."""
    from unmask.common.figures import colormaps

    return [colormaps["viridis_r"](0.12 + 0.8 * i / max(1, count - 1)) for i in range(count)]


@study
def dictionary(model: SpinModel = CURIE_WEISS, *, out: Out = None, progress: Watch = None) -> Study:
    """Theorem 1: samples needed and mixing time are one quantity."""
    import numpy as np

    from unmask.studies.lab import dynamics, estimation

    spins = model.build()
    sizes, swept = range(1, spins.space.sites + 1), np.linspace(0, 0.5, 11).tolist()
    adaptive = dynamics.surprise_masks(spins, 2)
    laws = [*(dynamics.uniform_masks(spins.space, size) for size in sizes), adaptive]
    rows = [_both_sides(spins, law) for law in counted(progress, laws, "mask laws")]
    sweep: Points = []
    for coupling in counted(progress, swept, "couplings"):
        other = model.at(coupling)
        fisher = estimation.fisher_information(other)
        for size in sizes:
            law = dynamics.uniform_masks(other.space, size)
            relaxation = 1 / dynamics.spectral_gap(dynamics.block_dynamics(other, law), other.p)
            cost = estimation.worst_cost(estimation.block_covariance(other, law), fisher)
            sweep.append(
                {"coupling": coupling, "k": size, "relaxation": relaxation, "worst_cost": cost}
            )
    change = float(np.abs(spins.p @ dynamics.block_dynamics(spins, adaptive) - spins.p).max())
    naive_tv = dynamics.total_variation(
        dynamics.stationary_law(dynamics.naive_dynamics(spins, adaptive)), spins.p
    )
    shares = [row["worst_cost"] / row["relaxation"] for row in sweep]
    return Study(
        "dictionary",
        "Theorem 1: training efficiency is mixing",
        "Li et al. (2024): “Sample efficiency of MLM losses can be characterized via mixing time of"
        " Gibbs-like sampler.”",
        [
            (
                f"The bound holds: the worst direction needs from {min(shares):.0%} to"
                f" {max(shares):.0%} of what 1/gap allows."
            ),
            (
                "The reason is an identity: the information in the masked loss along a direction v"
                " is the Dirichlet form of the score v·s under the matching Gibbs sampler"
                f" (difference {max(row['identity_error'] for row in rows):.0e})."
            ),
            (
                "Masks that look at the text fit in if the conditional knows about the choice,"
                " p(x_K | x_-K, K) ∝ p(x) p(K | x): the chain then keeps p exactly (off by"
                f" {change:.0e}). With the plain p(x_K | x_-K) it settles on another law,"
                f" {naive_tv:.3f} away in total variation."
            ),
        ],
        f"{model.describe()}: sampling (left) and learning (right) with the same masks",
        ("masks", "gap", "1/gap", "t_mix", "samples, worst direction", "samples, mean direction"),
        [list(row.values())[:-1] for row in rows],
        "t_mix: steps until the sampler is within 1/4 of its law in total variation, from any"
        " start. Samples: multiples of what maximum likelihood needs; in the worst direction at"
        " most 1/gap. Adaptive masks prefer improbable tokens.",
        lambda: _draw_dictionary(rows[:-1], sizes, sweep),
        {
            "options": model.options(),
            "rows": rows,
            "sweep": sweep,
            "adaptive": {"right_invariance": change, "naive_tv": naive_tv},
        },
    )


def _both_sides(model: LabModel, law: MaskLaw) -> dict[str, Any]:
    """The sampler's side and the learner's side for one mask law."""
    from unmask.studies.lab import dynamics, estimation

    chain, fisher = dynamics.block_dynamics(model, law), estimation.fisher_information(model)
    information, covariance = (
        estimation.block_information(model, law),
        estimation.block_covariance(model, law),
    )
    gap = dynamics.spectral_gap(chain, model.p)
    forms = [dynamics.dirichlet_form(chain, model.p, score) for score in model.score.T]
    return {
        "masks": law.name,
        "gap": gap,
        "relaxation": 1 / gap,
        "mixing_time": dynamics.mixing_time(chain, model.p),
        "worst_cost": estimation.worst_cost(covariance, fisher),
        "mean_cost": estimation.mean_cost(covariance, fisher),
        "identity_error": max(
            abs(float(a) - b) for a, b in zip(information.diagonal(), forms, strict=True)
        ),
    }


def _draw_dictionary(rows: Points, sizes: Sequence[int], sweep: Points) -> Figure:
    figure, (left, right) = panels(
        ("Slow to sample = slow to learn", "1 / spectral gap of the Gibbs sampler", NEEDED),
        (
            "Mask more, and both get faster",
            "masked sites k",
            "samples (maximum likelihood = 1), or steps",
        ),
    )
    rows = [row | {"k": k} for k, row in zip(sizes, rows, strict=True)]
    top = max(p["relaxation"] for p in sweep) * 1.6
    left.fill_between(
        [0.8, top],
        [0.8, top],
        top,
        color=RED,
        alpha=0.07,
        linewidth=0,
        label="forbidden by theorem 1",
    )
    for k, colour in zip(sizes, shades(len(sizes)), strict=True):
        series(
            left,
            [p for p in sweep if p["k"] == k],
            "relaxation",
            "worst_cost",
            "o-",
            color=colour,
            label=f"k = {k}",
        )
    left.set(xscale="log", yscale="log", xlim=(0.8, top), ylim=(0.8, top))
    curves = {"relaxation": "1 / gap (bound)", "worst_cost": "samples, worst direction"}
    curves |= {"mean_cost": "samples, mean direction", "mixing_time": "mixing time (steps)"}
    for (key, name), colour in zip(curves.items(), (GREY, BLUE, GREEN, ORANGE), strict=True):
        series(right, rows, "k", key, "o-", color=colour, label=name)
    right.set(yscale="log", xticks=sizes)
    plain_numbers(left.xaxis, left.yaxis, right.yaxis)
    left.legend(loc="lower right")
    right.legend()
    return figure


SLOW = replace(CURIE_WEISS, sites=5, coupling=0.5)
"""The model of `masking` where averaging all masks goes wrong."""
LEARNED = replace(CURIE_WEISS, sites=5, fields="normal:0.2:3")
"""The model of `masking` that is fitted."""
SAMPLES = 4000
"""Samples of each fit of `masking`."""


@study
def masking(
    model: SpinModel = TILT, *, fits: Fits = 300, out: Out = None, progress: Watch = None
) -> Study:
    """Theorem 2: masking more is statistically better, and what that needs."""
    import numpy as np

    from unmask.studies.lab.dynamics import uniform_masks
    from unmask.studies.lab.estimation import (
        ESTIMATORS,
        covariances,
        drops,
        fisher_information,
        learn,
        slow_direction,
    )

    learned, slow = LEARNED.build(), slow_direction(SLOW.build())
    matrices, slow_matrices = covariances(model.build()), covariances(slow)
    traces = {
        name: [float(np.trace(gamma)) for gamma in several] for name, several in matrices.items()
    }
    falls, least = (
        {name: drops(several) for name, several in matrices.items()},
        1 / float(fisher_information(slow)[0, 0]),
    )
    one, averaged = (
        [float(gamma[0, 0]) / least for gamma in slow_matrices[name]]
        for name in ("block", "averaged")
    )
    sizes = range(1, learned.space.sites + 1)
    learnt: dict[str, list[Learning]] = {"block": [], "factorised": []}
    closed: dict[str, list[float]] = {"block": [], "factorised": []}
    plan: list[tuple[Loss, int]] = [("block", k) for k in sizes]
    plan += [("factorised", k) for k in sizes[:-1]]
    for index, (loss, k) in enumerate(counted(progress, plan, "mask sizes fitted")):
        law = uniform_masks(learned.space, k)
        learnt[loss].append(learn(learned, law, loss, SAMPLES, fits, seed=index))
        closed[loss].append(float(np.trace(ESTIMATORS[loss](learned, law))))
    cells = {
        x: [(fit.mean, fit.standard_error, t) for fit, t in zip(learnt[x], closed[x], strict=True)]
        for x in learnt
    }
    distances = [
        abs(mean - theory) / error for several in cells.values() for mean, error, theory in several
    ]
    block, factorised, largest = traces["block"], traces["factorised"], len(traces["block"])
    best, growth = (
        1 + int(np.argmin(factorised)),
        max(b / a for a, b in zip(averaged, averaged[1:], strict=False)),
    )
    shown = [
        [*(without_rounding(drop, 1e-10) for drop in several), "-"] for several in falls.values()
    ]
    between = f", {factorised[-2]:.0f} at k={largest - 1}" if best < largest - 1 else ""
    return Study(
        "masking",
        "Theorem 2: masking more is better, under two assumptions",
        "Li et al. (2024): “Masking more is (statistically) better.”",
        [
            (
                "As stated, it is true: with one mask per sample and the joint probability of the"
                f" masked block, the total variance falls from {block[0]:.0f} (k=1) to"
                f" {block[-1]:.0f} (k={largest}, maximum likelihood), in every direction of"
                " parameter space (no eigenvalue of Γ_k - Γ_k+1 is negative, to rounding)."
            ),
            (
                "It needs the joint of the block. A transformer head scores each masked token"
                f" alone. Then the variance is least at k={best}"
                f" ({factorised[best - 1]:.0f}){between}, and {show(factorised[-1])} with"
                " everything masked, where only single-site marginals are left."
            ),
            (
                "It needs one mask per sample. If every sample is seen under all its masks,"
                " averaging is never worse than one mask, but the order in k is lost: along the"
                f" slowest direction of single-site Gibbs, the variance grows by up to {growth:.1f}"
                f" times from one k to the next ({SLOW.describe()}). It is ⟨s,L²s⟩/⟨s,Ls⟩² with L ="
                " I - P_k: least exactly when the score s is an eigenfunction of the sampler."
            ),
            (
                f"Fits check the closed forms: of {len(distances)} means over {fits} fits to"
                f" {SAMPLES:,} samples, {sum(z < 2 for z in distances)} are within two standard"
                f" errors, the farthest is {max(distances):.1f} away."
            ),
        ],
        f"{model.describe()}: trace of Γ_k, and the least eigenvalue of Γ_k - Γ_k+1",
        (
            "k",
            "joint block",
            "factorised head",
            "all masks averaged",
            "least eig., block",
            "factorised",
            "averaged",
        ),
        [(k, *row) for k, row in enumerate(zip(*traces.values(), *shown, strict=True), 1)],
        "Every coupling and every field is a parameter. A negative least eigenvalue means that some"
        " direction got worse with more masking.",
        lambda: _draw_masking(traces, one, averaged, cells),
        {
            "options": model.options(fits=fits, slow=SLOW.describe(), learned=LEARNED.describe()),
            "trace": traces,
            "least_eigenvalue_of_drop": falls,
            "slow_direction": {"one_mask": one, "all_masks": averaged},
            "monte_carlo": {
                loss: [asdict(fit) for fit in several] for loss, several in learnt.items()
            },
            "monte_carlo_theory": closed,
        },
    )


def _draw_masking(
    traces: dict[str, list[float]], one: list[float], averaged: list[float], cells: dict[str, Any]
) -> Figure:
    figure, (left, middle, right) = panels(
        (
            "Factorised heads turn the curve up",
            "masked sites k",
            r"total asymptotic variance, $\mathrm{tr}\,\Gamma_k$",
        ),
        ("Averaging all masks loses the order", "masked sites k", "variance along one direction"),
        ("Fits agree with the closed forms", "masked sites k", "n · mean squared error"),
    )
    looks = {
        "block": (BLUE, "o", "joint block"),
        "factorised": (RED, "s", "factorised head"),
        "averaged": (GREEN, "^", "all masks"),
    }
    for name, (colour, marker, label) in looks.items():
        finite = [value for value in traces[name] if math.isfinite(value)]
        then = ", then ∞" if len(finite) < len(traces[name]) else ""
        left.plot(range(1, len(finite) + 1), finite, f"{marker}-", color=colour, label=label + then)
    for values, name, label in ((one, "block", "one mask"), (averaged, "averaged", "all masks")):
        colour, marker, _ = looks[name]
        middle.plot(range(1, len(values) + 1), values, f"{marker}-", color=colour, label=label)
    middle.set(yscale="log")
    plain_numbers(middle.yaxis)
    for name, several in cells.items():
        means, errors, theory = zip(*several, strict=True)
        colour, marker, label = looks[name]
        right.plot(
            range(1, len(means) + 1), theory, "-", color=colour, label=f"{label}: closed form"
        )
        right.errorbar(
            range(1, len(means) + 1),
            means,
            [2 * e for e in errors],
            fmt=marker,
            color=colour,
            capsize=3,
        )
    for axis, sizes in ((left, traces["block"]), (middle, one), (right, one)):
        axis.set(xticks=range(1, len(sizes) + 1))
        axis.legend()
    return figure


SHOWN_COUPLINGS = (0.1, 0.3, 0.6)
"""Couplings in the table of `dependence`, if none is given."""


@study
def dependence(
    model: SpinModel = ANY_COUPLING, *, out: Out = None, progress: Watch = None
) -> Study:
    """Theorem 3: strong dependence makes generation and training slow.

    The curves go from coupling 0 to 0.6. Table and bars are of the coupling that is given, or
    of 0.1, 0.3 and 0.6.
    """
    import numpy as np

    from unmask.studies.lab import dynamics, estimation
    from unmask.studies.lab.model import agreement_law
    from unmask.studies.lab.schedules import pair_information

    assert model.sites is not None  # `study` has filled it
    swept = np.linspace(0, 0.6, 13).tolist()
    shown = [*SHOWN_COUPLINGS] if model.coupling is None else [model.coupling]
    sizes = range(1, min(3, model.sites) + 1)
    points: Points = []
    laws = {}
    for coupling in counted(progress, sorted({*swept, *shown}), "couplings"):
        spins = model.at(coupling)
        laws[coupling], fisher, information = (
            agreement_law(spins),
            estimation.fisher_information(spins),
            pair_information(spins),
        )
        for size in sizes:
            chain, masks = dynamics.gibbs(spins, size), dynamics.uniform_masks(spins.space, size)
            point = {"coupling": coupling, "k": size, "gap": dynamics.spectral_gap(chain, spins.p)}
            point["mixing_time"] = dynamics.mixing_time(chain, spins.p)
            point["worst_cost"] = estimation.worst_cost(
                estimation.block_covariance(spins, masks), fisher
            )
            points.append(point | {"pair_information": information})
    columns = ("k", "pair_information", "gap", "mixing_time", "worst_cost")
    first, last = (
        next(p for p in points if (p["coupling"], p["k"]) == (end, 1))
        for end in (shown[0], shown[-1])
    )
    if len(shown) == 1:
        findings = [
            (
                "Slow generation: with masks of 1 site, the mixing time at coupling"
                f" {last['coupling']:g} is {last['mixing_time']:,.0f} steps."
            ),
            (
                f"Slow training: the masked loss needs {last['worst_cost']:,.1f} times the samples"
                " of maximum likelihood there, by the dictionary of theorem 1."
            ),
        ]
    else:
        findings = [
            (
                f"Slow generation: with masks of 1 site, going from coupling {first['coupling']:g}"
                f" to {last['coupling']:g} takes the mixing time from {first['mixing_time']:,.0f}"
                f" to {last['mixing_time']:,.0f} steps."
            ),
            (
                "Slow training: the samples that the masked loss needs, relative to maximum"
                f" likelihood, go from {first['worst_cost']:,.1f} to {last['worst_cost']:,.0f}"
                " times, by the dictionary of theorem 1."
            ),
        ]
    strongest = laws[shown[-1]]
    if min(strongest[0], strongest[-1]) > strongest.min():
        findings.append(
            "Why: the law splits into two modes, and a step that changes few sites cannot cross"
            " between them."
        )
    return Study(
        "dependence",
        "Theorem 3: strong dependence is slow",
        "Li et al. (2024): “Strong dependencies among target positions cause slow generation"
        " (multimodal) and slow training (via theorem 1).”",
        findings,
        f"{replace(model, coupling=None).describe()}, by coupling",
        (
            "coupling",
            "k",
            "mutual information of two sites, nats",
            "gap",
            "t_mix",
            "samples, worst direction",
        ),
        [
            (f"{p['coupling']:g}", *(p[name] for name in columns))
            for p in points
            if p["coupling"] in shown
        ],
        "t_mix: steps until within 1/4 of the law, from any start. Samples: multiples of what"
        " maximum likelihood needs.",
        lambda: _draw_dependence(points, sizes, {coupling: laws[coupling] for coupling in shown}),
        {
            "options": model.options(coupling=shown),
            "points": points,
            "agreement_laws": {f"{coupling:g}": law.tolist() for coupling, law in laws.items()},
        },
    )


def _draw_dependence(points: Points, sizes: Sequence[int], laws: dict[float, Counts]) -> Figure:
    figure, (left, middle, right) = panels(
        ("Generation slows down", "coupling of each pair", "mixing time, steps"),
        ("Training slows down", "coupling of each pair", NEEDED),
        ("The law of how many sites agree", "", ""),
    )
    for axis, name in ((left, "mixing_time"), (middle, "worst_cost")):
        for k, colour in zip(sizes, shades(len(sizes)), strict=True):
            series(
                axis,
                [p for p in points if p["k"] == k],
                "coupling",
                name,
                "o-",
                color=colour,
                label=f"k = {k}",
            )
        axis.set(yscale="log")
        plain_numbers(axis.yaxis)
        axis.legend(title="masked sites")
    _agreement_bars(right, {f"coupling {coupling:g}": law for coupling, law in laws.items()})
    return figure


def _agreement_bars(axis: Axes, laws: dict[str, Counts]) -> None:
    """Laws of the number of sites that take the last value, as bars beside each other."""
    width, sites = 0.8 / len(laws), max(map(len, laws.values())) - 1
    for index, (name, law) in enumerate(laws.items()):
        places = [count + (index - (len(laws) - 1) / 2) * width for count in range(sites + 1)]
        axis.bar(places, law, width, color=SERIES[index % len(SERIES)], label=name)
    axis.set(
        xlabel=f"sites, of {sites}, that take the last value",
        ylabel="probability",
        xticks=range(sites + 1),
    )
    axis.legend(loc="upper center")


@study
def parallel(model: SpinModel = FIVE_SITES, *, out: Out = None, progress: Watch = None) -> Study:
    """Theorem 3: one parallel forward pass is not a Gibbs step."""
    from unmask.studies.lab.dynamics import (
        gibbs,
        parallel_step,
        stationary_law,
        total_variation,
        uniform_masks,
    )
    from unmask.studies.lab.model import agreement_law
    from unmask.studies.lab.schedules import masked_total_correlation

    assert model.coupling is not None  # `study` has filled it
    spins = model.build()
    sizes = range(1, spins.space.sites + 1)
    couplings = sorted({0.0, 0.1, 0.2, 0.3, 0.4, model.coupling})
    laws = {"p, and the Gibbs step": agreement_law(spins)}
    points: Points = []
    for coupling in counted(progress, couplings, "couplings"):
        other = spins if coupling == model.coupling else model.at(coupling)
        for size in sizes:
            masks = uniform_masks(other.space, size)
            law = stationary_law(parallel_step(other, masks))
            tv, correlation = total_variation(law, other.p), masked_total_correlation(other, masks)
            points.append(
                {"coupling": coupling, "k": size, "tv": tv, "total_correlation": correlation}
            )
            if other is spins and size in sizes[-2:]:
                laws[f"parallel step, k = {size}"] = agreement_law(spins, law)
    mine = [point for point in points if point["coupling"] == model.coupling]
    exact = [total_variation(stationary_law(gibbs(spins, size)), spins.p) for size in sizes]
    first, largest = mine[0], max(mine, key=lambda point: point["tv"])
    near, far = ("exactly" if p["tv"] < 1e-12 else f"{p['tv']:.3f} from" for p in (first, largest))
    return Study(
        "parallel",
        "Theorem 3: a parallel step is not a Gibbs step",
        "Li et al. (2024): “A step of Gibbs can't be implemented by parallel decoding Transformers"
        " (e.g. a forward pass of BERT).”",
        [
            (
                "Here the sites are independent, and the parallel step keeps p at every k."
                if largest["tv"] < 1e-12
                else (
                    "One blank at a time is exact; several at once are not. The parallel step's"
                    f" stationary law is {near} p at k={first['k']} and {far} it at"
                    f" k={largest['k']} in total variation. The Gibbs step, which draws the block"
                    f" jointly, keeps p at every k (off by at most {at_most(max(exact))})."
                )
            ),
            (
                "The error is the dependence inside the block: it grows with the conditional total"
                " correlation of what is masked. Sites that should agree are drawn apart, so the"
                " parallel law spreads over mixtures that p hardly allows."
            ),
        ],
        model.describe(),
        ("k", "TV(parallel law, p)", "TV(Gibbs law, p)", "E TC(x_K | x_-K), nats"),
        [
            (p["k"], *map(without_rounding, (p["tv"], e, p["total_correlation"])))
            for p, e in zip(mine, exact, strict=True)
        ],
        "TV: total variation, from 0 (the same law) to 1.",
        lambda: _draw_parallel(points, couplings, sizes, laws),
        {"options": model.options(), "points": points, "gibbs_tv": exact},
    )


def _draw_parallel(
    points: Points, couplings: list[float], sizes: Sequence[int], laws: dict[str, Counts]
) -> Figure:
    figure, (left, middle, right) = panels(
        ("More blanks at once, further off", "masked sites k", "TV(stationary law, p)"),
        (
            "The error follows the dependence",
            "dependence inside the block, E TC, nats",
            "TV(stationary law, p)",
        ),
        ("Sites that should agree do not", "", ""),
    )
    several = [p for p in points if p["k"] > 1 and p["total_correlation"] > 1e-9]
    for coupling, colour in zip(couplings, shades(len(couplings)), strict=True):
        series(
            left,
            [p for p in points if p["coupling"] == coupling],
            "k",
            "tv",
            "o-",
            color=colour,
            label=f"{coupling:g}",
        )
        series(
            middle,
            [p for p in several if p["coupling"] == coupling],
            "total_correlation",
            "tv",
            "o-",
            color=colour,
        )
    left.set(ylim=(-0.02, 1), xticks=sizes)
    left.legend(title="coupling")
    if several:
        middle.set(xscale="log", yscale="log")
        plain_numbers(middle.xaxis, middle.yaxis)
    _agreement_bars(right, laws)
    return figure


MOST_SLOTS, REPAIR_SLOTS, NOISE, STEPS = 8, 4, 0.001, 24
"""Of `stutter`: slots of the parallel draw; slots, share of the uniform law and steps of the
refinement.
"""


@study
def stutter(*, out: Out = None, progress: Watch = None) -> Study:
    """Why a parallel draw says a word twice."""
    from unmask.studies.lab import dynamics
    from unmask.studies.lab.model import outcomes, slots_model, stutter_pair
    from unmask.studies.lab.schedules import Entropies

    pair = stutter_pair()
    product = dynamics.product_conditional(pair.space, pair.p, (0, 1))
    correlation = Entropies(pair).total_correlation((0, 1))
    doubled, impossible = float(product.reshape(3, 3)[1, 1]), float(product[pair.p == 0].sum())
    by_slots: Points = []
    for slots in counted(progress, range(2, MOST_SLOTS + 1), "slots"):
        model = slots_model(slots)
        drawn = outcomes(
            model, dynamics.product_conditional(model.space, model.p, tuple(range(slots)))
        )
        by_slots.append(
            {
                "slots": slots,
                **drawn,
                "total_correlation": Entropies(model).total_correlation(range(slots)),
            }
        )
    noisy = slots_model(REPAIR_SLOTS, NOISE)
    samplers = {
        "one slot (Gibbs, k=1)": dynamics.gibbs(noisy, 1),
        "two slots in parallel": dynamics.parallel_step(
            noisy, dynamics.uniform_masks(noisy.space, 2)
        ),
        "two slots jointly (Gibbs, k=2)": dynamics.gibbs(noisy, 2),
    }
    repair, long_run = {}, []
    for name, chain in samplers.items():
        laws = [dynamics.product_conditional(noisy.space, noisy.p, tuple(range(REPAIR_SLOTS)))]
        for _ in range(STEPS):
            laws.append(laws[-1] @ chain)
        repair[name], settled = (
            [outcomes(noisy, law)["repeated"] for law in laws],
            dynamics.stationary_law(chain),
        )
        end, tv = outcomes(noisy, settled), dynamics.total_variation(settled, noisy.p)
        time = dynamics.mixing_time(chain, settled)
        long_run.append(
            {
                "step": name,
                "repeated": end["repeated"],
                "missing": end["missing"],
                "tv": tv,
                "mixing_time": time,
            }
        )
    curve, last = repair["one slot (Gibbs, k=1)"], by_slots[-1]
    halved = next(steps for steps, value in enumerate(curve) if value <= curve[0] / 2)
    return Study(
        "stutter",
        "Remark: why “walking walking”",
        "Li et al. (2024): “Simple toy model to explain ‘stutter’ (common failure mode we observe):"
        " The dog was walking walking along the road.”",
        [
            (
                "One parallel draw stutters. If “s w” and “w t” have probability 0.5 each, the"
                f" product of the marginals puts {doubled:.3g} on “w w” and {impossible:.3g} on"
                f" impossible pairs in all. It loses the total correlation, {correlation:.4f} nats"
                f" (ln 2 = {math.log(2):.4f})."
            ),
            (
                f"More slots do not help: with one word to place in {last['slots']} slots,"
                f" {last['repeated']:.0%} of parallel draws repeat it and {last['missing']:.0%}"
                " forget it."
            ),
            (
                f"Refinement one blank at a time repairs the stutter: {halved} steps halve it. But"
                " it hardly ever moves the word to another slot: its mixing time is"
                f" {long_run[0]['mixing_time']:,.0f} steps. Drawing pairs jointly does both."
            ),
        ],
        "One word, N slots: what a parallel draw of all slots gives",
        ("slots", "repeated", "missing", "once (right)", "TC, nats"),
        [
            [row[name] for name in ("slots", "repeated", "missing", "once", "total_correlation")]
            for row in by_slots
        ],
        "",
        lambda: _draw_stutter(pair.p, product, by_slots, repair),
        {
            "options": {},
            "pair": {
                "stutter": doubled,
                "impossible": impossible,
                "total_correlation": correlation,
            },
            "slots": by_slots,
            "repair": repair,
            "long_run": long_run,
        },
    )


def _draw_stutter(
    pair: Vector, product: Vector, by_slots: Points, repair: dict[str, list[float]]
) -> Figure:
    import numpy as np

    figure, (left, middle, right) = panels(
        ("A pair, and its parallel draw", "second word", "first word"),
        ("One word, N slots, drawn in parallel", "slots N", "probability"),
        (
            "Refining step by step",
            "steps after a parallel draw of all slots",
            "probability that the word is repeated",
        ),
        widths=(1.15, 1, 1),
    )
    both = np.concatenate(
        [pair.reshape(3, 3), np.full((3, 1), np.nan), product.reshape(3, 3)], axis=1
    )
    left.imshow(both, cmap="Blues", vmin=0, vmax=0.8, aspect="auto")
    left.grid(False)
    for (i, j), value in np.ndenumerate(both):
        if j != 3:
            wrong = j > 3 and both[i, j - 4] == 0 and value > 0
            left.text(
                j, i, f"{value:.3g}", ha="center", va="center", color=RED if wrong else "black"
            )
    left.set_xticks([0, 1, 2, 4, 5, 6], list("swt") * 2)
    left.set_yticks(range(3), list("swt"))
    for x, words in ((1, "the law p"), (5, "drawn in parallel")):
        left.text(x, -0.62, words, ha="center", va="bottom")
    left.set_ylim(2.5, -0.95)
    slots, base = [row["slots"] for row in by_slots], np.zeros(len(by_slots))
    for name, colour in (("once", GREEN), ("repeated", RED), ("missing", GREY)):
        height = np.array([row[name] for row in by_slots])
        middle.bar(slots, height, 0.75, base, color=colour, label=name)
        base += height
    middle.set(ylim=(0, 1.25), xticks=slots)
    middle.legend(loc="upper center", ncols=3)
    for (name, curve), colour in zip(repair.items(), (BLUE, RED, GREEN), strict=True):
        right.plot(range(len(curve)), curve, color=colour, label=name)
    right.legend()
    return figure


ORDERS = 200
"""Random orders that `schedule` averages."""
FIXED = (
    "neighbours together",
    "surest sites first",
    "random order",
    "spread apart",
    "best possible",
)
SUREST, REMASKED = "keep the surest tokens", "mask-predict, random re-masking"


@study
def schedule(model: SpinModel = PATH, *, out: Out = None, progress: Watch = None) -> Study:
    """The cost of unmasking in few parallel steps, and the order that costs least."""
    import numpy as np
    from scipy.special import entr

    from unmask.studies.lab.schedules import best_schedules, masked_cross_entropy

    spins, generator = model.build(), np.random.default_rng(0)
    sites, best = spins.space.sites, best_schedules(spins)
    rows = [
        _schedules(spins, steps, best[steps - 1], generator)
        for steps in counted(progress, range(1, sites + 1), "steps")
    ]
    entropy = float(entr(spins.p).sum())
    average = sum(masked_cross_entropy(spins, k) / k for k in range(1, sites + 1))
    two, (near, far) = rows[1], (rows[end][f"KL, {SUREST}"] for end in (0, -1))
    wide, narrow = (rows[end][f"entropy, {SUREST}"] for end in (0, -1))
    best_groups = " → ".join(
        " ".join(str(site + 1) for site in group) for group in two["best schedule"]
    )
    as_good = next(
        (row["steps"] for row in rows if row[FIXED[0]] <= two["best possible"] + 1e-12), sites
    )
    return Study(
        "schedule",
        "Unmasking schedules: what few steps cost",
        "Li et al. (2024): “Iteratively refine current guess, s.t. one forward pass updates"
        " multiple positions simultaneously. If # of steps is small, latency is low.”",
        [
            (
                "The cost of a schedule is the dependence inside its groups. KL(p‖sampler)"
                " computed from the sampler's law and as a sum of conditional total correlations"
                f" agree to {max(row['identity_error'] for row in rows):.0e}."
            ),
            (
                "How sites are grouped matters more than how many steps there are. With 2 steps,"
                f" neighbours together cost {two['neighbours together']:.3f} nats and the best"
                f" grouping {two['best possible']:.3f} ({best_groups}); neighbours together get"
                f" there in {as_good} steps. The rule: draw together what depends least on each"
                " other."
            ),
            (
                "Keeping the surest tokens does not sample p: an order that looks at the values"
                f" drawn, as confidence-based decoders do, is {near:.2f} nats from p in one step"
                f" and {far:.2f} in {sites}, and the entropy of its samples goes from {wide:.2f} to"
                f" {narrow:.2f} nats (p has {entropy:.2f}). That is a search for a likely text."
                " Choosing the surest site before drawing keeps p exactly at one site per step."
            ),
            (
                "The average over all masks is the entropy: Σ_k (1/k) E[masked cross-entropy] ="
                f" {average:.6f} nats, H(p) = {entropy:.6f} nats."
            ),
        ],
        f"{model.describe()}: KL(p‖sampler) in nats, by number of parallel steps",
        ("steps", *FIXED),
        [(row["steps"], *(without_rounding(row[name]) for name in FIXED)) for row in rows],
        "Exact conditionals at every step. Groups are even; the best possible is over groups of"
        f" any sizes. Random order: mean of {ORDERS}.",
        lambda: _draw_schedule(rows, sites, entropy),
        {
            "options": model.options(),
            "entropy": entropy,
            "sum_of_masked_cross_entropies": average,
            "rows": rows,
        },
    )


def _schedules(
    model: LabModel, steps: int, best: tuple[float, Grouping], generator: np.random.Generator
) -> dict[str, Any]:
    """The cost of each order with this many steps; `best` is that of the best schedule, and the
    schedule.
    """
    import numpy as np
    from scipy.special import entr

    from unmask.studies.lab import schedules

    sites, entropies = model.space.sites, schedules.Entropies(model)
    fixed = {
        "neighbours together": schedules.contiguous(sites, steps),
        "spread apart": schedules.spread(sites, steps),
    }
    costs = {
        name: sum(schedules.schedule_cost(entropies, groups)) for name, groups in fixed.items()
    }
    divergences = {
        name: schedules.kl(model.p, schedules.unmasking_law(model, groups))
        for name, groups in fixed.items()
    }
    shuffled = [schedules.shuffled(sites, steps, generator) for _ in range(ORDERS)]
    surest, redrawn = (
        schedules.greedy_law(model, steps, "sure token"),
        schedules.mask_predict_law(model, steps),
    )
    return {
        "steps": steps,
        **costs,
        "random order": float(
            np.mean([sum(schedules.schedule_cost(entropies, order)) for order in shuffled])
        ),
        "surest sites first": schedules.kl(
            model.p, schedules.greedy_law(model, steps, "sure site")
        ),
        "best possible": best[0],
        "best schedule": [list(group) for group in best[1]],
        f"KL, {SUREST}": schedules.kl(model.p, surest),
        f"entropy, {SUREST}": float(entr(surest).sum()),
        f"KL, {REMASKED}": schedules.kl(model.p, redrawn),
        f"entropy, {REMASKED}": float(entr(redrawn).sum()),
        "identity_error": max(abs(costs[name] - divergences[name]) for name in fixed),
    }


def _draw_schedule(rows: Points, sites: int, entropy: float) -> Figure:
    across = f"parallel steps to draw {sites} sites"
    figure, (left, middle, right) = panels(
        ("The grouping decides the cost", across, "KL(p ‖ samples), nats"),
        ("Keeping sure tokens moves away from p", across, "KL(p ‖ samples), nats"),
        ("Because it narrows the samples", across, "entropy of the samples, nats"),
    )
    for name, colour, marker in zip(FIXED, (RED, PURPLE, GREY, BLUE, GREEN), "sv^o*", strict=True):
        series(left, rows, "steps", name, f"{marker}-", color=colour, label=name)
    for axis, key in ((middle, "KL"), (right, "entropy")):
        for name, colour, look in ((SUREST, RED, "s-"), (REMASKED, ORANGE, "^-")):
            series(axis, rows, "steps", f"{key}, {name}", look, color=colour, label=name)
    series(
        middle, rows, "steps", "random order", "--", color=GREY, label="random order (left panel)"
    )
    middle.set_yscale("symlog", linthresh=0.01)
    right.axhline(entropy, color=GREY, linewidth=1, linestyle="--", label="entropy of p")
    for axis in (left, middle, right):
        axis.set(xticks=[row["steps"] for row in rows])
        axis.legend()
    return figure


GAMMAS = (0.0, 0.05, 0.1, 0.2, 0.4, 0.8, 1.6, 3.2)
"""Bounds, in nats, that `decoding` tries for the rules that have one."""


@study
def decoding(model: SpinModel = TILTED_PATH, *, out: Out = None, progress: Watch = None) -> Study:
    """The loss of decoders that choose positions before tokens, and a bound on it."""
    from unmask.studies.lab import schedules
    from unmask.studies.lab.schedules import decoded, kl

    spins = model.build()
    sites = spins.space.sites
    rules = [("interleaved", 2.0**e, schedules.every(2**e)) for e in range(sites.bit_length())]
    rules += [
        ("lowest-entropy", float(count), schedules.lowest_entropy(count))
        for count in range(1, sites + 1)
    ]
    bounded = {
        "entropy-bound": schedules.entropy_bound,
        "least-dependent": schedules.least_dependent,
    }
    rules += [(name, gamma, rule(gamma)) for gamma in GAMMAS for name, rule in bounded.items()]
    points: Points = []
    for name, setting, rule in counted(progress, rules, "rules"):
        walk = decoded(spins, rule)
        numbers = {
            "passes": walk.passes,
            "kl": kl(spins.p, walk.law),
            "total_correlation": walk.cost,
            "bound": walk.bound,
        }
        points.append({"rule": name, "setting": setting, **numbers})
    difference = max(abs(p["kl"] - p["total_correlation"]) for p in points)
    ratios = [p["bound"] / p["kl"] for p in points if p["kl"] > 1e-9]
    parity, equal = schedules.even_parity(), schedules.Entropies(schedules.agreement())
    information = without_rounding(schedules.Entropies(parity).total_correlation((0, 1)))
    lost = kl(parity.p, decoded(parity, schedules.least_dependent(0.0)).law)
    return Study(
        "decoding",
        "Decoders with a law: passes against nats",
        "A decoder that chooses positions before it draws their tokens has a law; the loss is the"
        " dependence that it ignores.",
        [
            (
                "The loss of a rule is the dependence that it ignores: KL(p || law) and the"
                f" expected sum of total correlations differ by {difference:.0e} at most, for sets"
                " that depend on the tokens revealed."
            ),
            (
                f"The bound by entropies is loose: {median(ratios):,.1f} times the loss at the"
                " median. It counts what is uncertain, not what is dependent, so it spends passes"
                " on sites that are free."
                if ratios
                else (
                    "Here the sites are independent: nothing is lost at any number of passes, and"
                    " the bound does not see it."
                )
            ),
            (
                "Pairs do not tell all. Three bits of even parity are pairwise independent (I ="
                f" {information:g}), and one pass loses {lost:.4f} nats (ln 2 = {math.log(2):.4f})."
                " Three bits that agree are independent in pairs given the third, with a total"
                f" correlation of {equal.total_correlation(range(3)):.4f} nats (2 ln 2)."
            ),
        ],
        model.describe(),
        ("rule", "setting", "passes", "KL(p || law)", "sum of E TC", "bound by entropies"),
        [
            [v if isinstance(v, str) else without_rounding(v) for v in point.values()]
            for point in points
        ],
        "Setting: distance between sites (interleaved), sites per pass (lowest-entropy), or gamma"
        " in nats. Passes are expected under p. Informations of least-dependent are exact.",
        lambda: _draw_decoding(points),
        {"options": model.options(), "points": points},
    )


def _draw_decoding(points: Points) -> Figure:
    figure, (left, right) = panels(
        ("Passes against nats", "passes, expected", "KL(p || law), nats"),
        ("The bound by entropies is loose", "loss, nats", "bound, nats"),
    )
    rules = {point["rule"]: None for point in points}
    for rule, colour in zip(rules, (GREEN, ORANGE, RED, BLUE), strict=True):
        mine = sorted(
            (p for p in points if p["rule"] == rule),
            key=lambda p: (round(p["passes"], 9), -p["kl"]),
        )
        series(left, mine, "passes", "kl", "o-", color=colour, label=rule)
        series(right, [p for p in mine if p["kl"] > 1e-9], "kl", "bound", "o", color=colour)
    left.legend()
    right.axline((0, 0), slope=1, color=GREY, linewidth=0.8)
    return figure


STUDIES: dict[str, Callable[..., Study]] = {
    function.__name__: function
    for function in (dictionary, masking, dependence, parallel, stutter, schedule, decoding)
}


@study
def all_studies(*, fits: Fits = 300, out: Out = None, progress: Watch = None) -> Report:
    """Every study with its defaults."""
    options = {"masking": {"fits": fits}}
    return Report(
        [
            function(out=out, progress=progress, **options.get(name, {}))
            for name, function in STUDIES.items()
        ]
    )
