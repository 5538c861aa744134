"""How far to trust a chain: acceptance and novelty, rank R-hat and effective sample size of
scalar functionals.

    energy      E(x)
    unchanged   tokens that are still those of the chain's start
    stutter     neighbouring tokens that are equal

R-hat compares the variance between chains with that within them, on ranks (Vehtari et al.
2021); near 1 when the chains look the same. ESS is the number of independent draws that would
give as good a mean. Both are computed by ArviZ. Chains over texts of different lengths have
different targets and are compared length by length.

An ESS means nothing, and is left out, where R-hat is above NEARLY: it takes for granted that
the chains have one distribution. It can be above the number of draws, if neighbouring draws lie
on opposite sides of the mean. Of fewer than ENOUGH draws that is an error of the estimate, and
is left out, too.

Nothing here assumes a language. Equal neighbours are compared with those of the starts: with 20
amino acids, neighbours are equal now and then; with 8,000 words, they hardly ever are. Chains
that have not left their start are known by their moves, since over a small space a chain
rightly comes back to its start again and again.

A causal language model is an independent judge of texts:

    score(x) = -1/n sum_t log p(x_t | x_<t)
            nats per token; the end token counts, where the judge has one; lower is better

It does not depend on the energy that was sampled: a chain can lower its own energy with texts
that nobody would write, and the judge shows it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from math import isnan
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import torch
from numpy.typing import NDArray

from unmask.common.errors import InputError
from unmask.common.files import atomic_path, write_json
from unmask.common.results import Result
from unmask.models.checkpoint import load_causal, resolve_device
from unmask.sampling.chains.sample_run import SampleRun
from unmask.sampling.settings import SampleSettings

if TYPE_CHECKING:
    import pandas

    from unmask.common.figures import Figure

FEWEST_DRAWS = 4  # Draws per chain that ArviZ needs at least
TAILS = (0.05, 0.95)  # Quantiles whose ESS the tail ESS is the smaller of
MIXED, NEARLY, ENOUGH = 1.01, 1.05, 400
"""R-hat below 1.01 and a bulk ESS above 400 are what Vehtari et al. (2021) ask before means are
believed.
"""
MUCH_STUTTER, MANY_AT_START = 0.05, 0.05
INK, MOST_TRACES = "#1b1b1b", 64
MOST_JUDGED, AT_ONCE = 512, 64
SENTENCES = {
    "energy": "energy",
    "unchanged": "number of unchanged tokens",
    "stutter": "number of equal neighbours",
}


@dataclass(frozen=True)
class Functional:
    """One scalar function of the text, over the chains of one length; R-hat and ESS are NaN
    where they mean nothing.
    """

    name: str
    length: int
    mean: float
    sd: float
    r_hat: float
    ess_bulk: float
    ess_tail: float
    ess_per_1000_passes: float


@dataclass(frozen=True, repr=False)
class Diagnosis(Result):
    """The result of `unmask.diagnose`.

    kernel       what moved the chains
    energy       which energy they sampled
    chains       how many there are
    draws        kept texts of the chain that has fewest
    passes       forward passes of the chains
    scoring_passes  further passes that scored and compared the samples
    passes_per_step  passes that one step of a chain took
    acceptance   share of the steps that were accepted
    novelty      share of the steps that changed a token
    functionals  energy, unchanged tokens and equal neighbours, by length: mean, R-hat,
                 effective sample sizes
    stutter      share of neighbouring tokens that are equal
    start_stutter  the same of the starts; NaN for decoders
    unique       share of the samples' texts that are different
    at_start     share of samples that were taken before their chain had left its start
    lowest_energy  of all samples
    lowest_text  the text that has it
    verdict      sentences: how far to trust the samples
    judge        with `judge`, what a causal language model says of the texts

    >>> run = unmask.sample("A [MASK] sat on the [MASK].", chains=2, sweeps=4, seed=0)
    >>> run.diagnosis.verdict[0].startswith("The chain leaves exp(-E / T) invariant")
    True
    """

    kernel: str
    energy: str
    chains: int
    draws: int
    passes: int
    scoring_passes: int
    passes_per_step: float
    acceptance: float
    novelty: float
    functionals: list[Functional]
    stutter: float
    start_stutter: float
    unique: float
    at_start: float
    lowest_energy: float
    lowest_text: str
    verdict: list[str] = field(default_factory=list)
    judge: dict[str, Any] | None = None

    ROWS: ClassVar[str] = "functionals"

    def to_dict(self) -> dict[str, Any]:
        """The object that `unmask diagnose --json` prints: null where a number is not known."""
        return dict(_known(super().to_dict()))

    def row(self) -> dict[str, Any]:
        """The numbers by which runs are compared, NaN where they are not known."""
        largest_r_hat = [f.r_hat for f in self.functionals if not isnan(f.r_hat)]
        with_meaning = [f for f in self.functionals if not isnan(f.ess_bulk)]
        sized = len(with_meaning) == len([f for f in self.functionals if f.sd > 0])
        fewest = min(with_meaning, key=lambda f: f.ess_bulk) if with_meaning and sized else None
        judged = None if self.judge is None else self.judge["samples"]
        return {
            "kernel": self.kernel,
            "energy": self.energy,
            "chains": self.chains,
            "draws": self.draws,
            "passes": self.passes,
            "acceptance": self.acceptance,
            "novelty": self.novelty,
            "r_hat": max(largest_r_hat, default=float("nan")),
            "ess_bulk": float("nan") if fewest is None else fewest.ess_bulk,
            "ess_per_1000_passes": float("nan") if fewest is None else fewest.ess_per_1000_passes,
            "stutter": self.stutter,
            "unique": self.unique,
            "lowest_energy": self.lowest_energy,
            "judge": float("nan") if judged is None else judged,
        }

    @property
    def headline(self) -> str:
        """The verdict."""
        return " ".join(self.verdict)

    def __repr__(self) -> str:
        return (
            f"Diagnosis({self.kernel}, {self.chains} chains of {self.draws} draws: {self.headline})"
        )


@dataclass(frozen=True, repr=False)
class Diagnoses(Result):
    """The result of `unmask.diagnose` for several runs, side by side.

    names   of the runs: their folders as they were given, or "run 2" for a run that has none
    runs    the diagnosis of each

    >>> kernels = ("mh", "gibbs")
    >>> runs = [unmask.sample("A [MASK] sat.", chains=2, sweeps=4, kernel=k) for k in kernels]
    >>> unmask.diagnose(runs).to_frame()[["run", "kernel"]].values.tolist()
    [['run 1', 'mh'], ['run 2', 'gibbs']]
    """

    names: list[str]
    runs: list[Diagnosis]

    def to_dict(self) -> dict[str, Any]:
        """The object that `unmask diagnose A B --json` prints: the diagnosis of each run, under
        its name.
        """
        return {
            "runs": [
                {"run": name, **run.to_dict()}
                for name, run in zip(self.names, self.runs, strict=True)
            ]
        }

    def to_frame(self) -> pandas.DataFrame:
        """One row per run: how its chains moved, the largest R-hat and the smallest ESS of its
        functionals, its texts.
        """
        import pandas

        return pandas.DataFrame(
            [{"run": name, **run.row()} for name, run in zip(self.names, self.runs, strict=True)]
        )

    @property
    def headline(self) -> str:
        """How many runs there are."""
        return f"{len(self.runs)} runs"

    def __repr__(self) -> str:
        return f"Diagnoses({', '.join(self.names)})"


def write_diagnosis(run: SampleRun, diagnosis: Diagnosis) -> None:
    """Write diagnostics.json and, of chains, figures/chains.png into the folder of a run."""
    assert run.folder is not None
    write_json(run.folder / "diagnostics.json", diagnosis.to_dict())
    if not run.settings.kernel.decodes:
        with atomic_path(run.folder / "figures" / "chains.png") as temporary:
            chain_figure(run).savefig(temporary, dpi=120, format="png")


def measure_run(run: SampleRun) -> Diagnosis:
    """Statistics of a run's samples and of the steps that led to them."""
    settings, samples, kernel = run.settings, run.samples, run.settings.kernel
    frame = with_functionals(run)
    passes, steps = (
        int(samples.groupby("chain")["passes"].max().sum()),
        int(run.rates["steps"].sum()),
    )
    functionals = []
    if not kernel.decodes:
        for length, part in frame.groupby("length"):
            spent = int(part.groupby("chain")["passes"].max().sum())
            functionals += [
                measure(name, int(length), draws_of(part, name), spent) for name in SENTENCES
            ]
    diagnosis = Diagnosis(
        kernel=kernel.name,
        energy=settings.energy,
        chains=int(samples["chain"].nunique()),
        draws=int(samples.groupby("chain").size().min()),
        passes=passes,
        scoring_passes=int(run.rates["scoring_passes"].sum()),
        passes_per_step=passes / max(1, steps) * kernel.sites_per_step if steps else float("nan"),
        acceptance=_share(run.rates, "accepted"),
        novelty=_share(run.rates, "changed"),
        functionals=functionals,
        stutter=stutter_rate(list(frame["tokens"])),
        start_stutter=(
            float("nan")
            if kernel.decodes
            else stutter_rate(list(frame.drop_duplicates("chain")["start"]))
        ),
        unique=float(samples["text"].nunique() / len(samples)),
        at_start=float(frame["at_start"].mean()),
        lowest_energy=float(samples["energy"].min()),
        lowest_text=str(samples["text"].iloc[int(samples["energy"].argmin())]),
    )
    return replace(diagnosis, verdict=verdict(diagnosis, settings))


def with_functionals(run: SampleRun) -> pandas.DataFrame:
    """The samples with their scalar functionals. `tokens`, `start`: ids from first to last free
    position.
    """
    frame = run.samples.copy()
    starts = dict(zip(run.starts["chain"], run.starts["ids"], strict=True))
    where = {length: part["position"].tolist() for length, part in run.rates.groupby("length")}
    rows = list(zip(frame["chain"], frame["length"], frame["ids"], strict=True))
    spans = {
        length: slice(min(positions), max(positions) + 1) for length, positions in where.items()
    }
    frame["tokens"] = [ids[spans[n]] for _, n, ids in rows]
    frame["start"] = [starts[c][spans[n]] for c, n, _ in rows]
    frame["unchanged"] = [
        float(sum(ids[p] == starts[c][p] for p in where[n])) for c, n, ids in rows
    ]
    frame["stutter"] = [float(stutters(x)) for x in frame["tokens"]]
    frame["at_start"] = (frame["unchanged"] == frame["length"]).groupby(frame["chain"]).cummin()
    return frame


def stutters(text: Sequence[int]) -> int:
    """How many neighbouring tokens are equal."""
    return sum(int(a == b) for a, b in zip(text, text[1:], strict=False))


def stutter_rate(texts: Sequence[Sequence[int]]) -> float:
    """Share of neighbouring tokens that are equal; nan for texts of one token."""
    pairs = sum(max(0, len(t) - 1) for t in texts)
    return sum(stutters(t) for t in texts) / pairs if pairs else float("nan")


def draws_of(frame: pandas.DataFrame, name: str) -> NDArray[np.float64]:
    """A functional as (chains, draws), truncated to the shortest chain."""
    chains = [part[name].to_numpy(dtype=np.float64) for _, part in frame.groupby("chain")]
    common = min(len(chain) for chain in chains)
    return np.array([chain[:common] for chain in chains])


def measure(name: str, length: int, draws: NDArray[np.float64], passes: int) -> Functional:
    """R-hat and ESS of one functional."""
    chains, count = draws.shape
    r_hat = bulk = tail = float("nan")
    if count >= FEWEST_DRAWS and np.ptp(draws) > 0:
        from arviz_stats import base

        stats: Any = base.array_stats  # type: ignore[attr-defined,unused-ignore]
        axes = {"chain_axis": 0, "draw_axis": 1}
        with np.errstate(
            divide="ignore", invalid="ignore"
        ):  # chains that do not move have R-hat inf
            bulk = float(stats.ess(draws, method="bulk", **axes))
            tail = float(stats.ess(draws, method="tail", prob=TAILS, **axes))
            r_hat = float(stats.rhat(draws, method="rank", **axes)) if chains > 1 else r_hat
        bulk, tail = (
            size if _has_meaning(size, r_hat, draws.size) else float("nan") for size in (bulk, tail)
        )
    per_pass = 1000 * bulk / passes if passes else float("nan")
    return Functional(
        name, length, float(draws.mean()), float(draws.std()), r_hat, bulk, tail, per_pass
    )


def _has_meaning(ess: float, r_hat: float, draws: int) -> bool:
    """Whether an effective sample size says something: see the head of this file."""
    if r_hat > NEARLY:
        return False
    return ess <= draws or draws >= ENOUGH


def _share(rates: pandas.DataFrame, name: str) -> float:
    steps = int(rates["steps"].sum())
    return float(rates[name].sum() / steps) if steps else float("nan")


def _known(value: Any) -> Any:
    """The value with None in the place of NaN."""
    if isinstance(value, dict):
        return {name: _known(item) for name, item in value.items()}
    if isinstance(value, list):
        return [_known(item) for item in value]
    return None if isinstance(value, float) and isnan(value) else value


def verdict(diagnosis: Diagnosis, settings: SampleSettings) -> list[str]:
    """One sentence for each thing that a reader should know, the most important first."""
    kernel = settings.kernel
    sentences = [
        kernel.verdict.format(
            energy=settings.energy, temperature=getattr(kernel, "temperature", 1.0)
        )
    ]
    if not kernel.decodes:
        sentences += [*_mixing(diagnosis), *_moves(diagnosis)]
    chance = 0.0 if isnan(diagnosis.start_stutter) else diagnosis.start_stutter
    if diagnosis.stutter > MUCH_STUTTER + 2 * chance:
        beside = f", {chance:.1%} in the starts" if chance else ""
        sentences.append(
            f"{diagnosis.stutter:.1%} of neighbouring tokens are equal{beside}: the texts stutter."
        )
    return sentences


def _moves(diagnosis: Diagnosis) -> list[str]:
    sentences = []
    if (
        not isnan(diagnosis.novelty)
        and diagnosis.acceptance > 0.5
        and diagnosis.novelty < 0.5 * diagnosis.acceptance
    ):
        sentences.append(
            f"{diagnosis.acceptance:.0%} of steps were accepted, but only {diagnosis.novelty:.0%}"
            " of redrawn tokens changed: most accepted proposals redraw the current token."
        )
    if diagnosis.at_start > MANY_AT_START:
        sentences.append(
            f"{diagnosis.at_start:.0%} of the samples were taken before their chain had left the"
            " text it started from: run longer, or burn in."
        )
    return sentences


def _mixing(diagnosis: Diagnosis) -> list[str]:
    if diagnosis.chains < 2 or diagnosis.draws < 4:
        return [
            f"{diagnosis.chains} chains of {diagnosis.draws} draws are too few to know whether they"
            " mix: run 2 or more chains, with 4 or more draws each."
        ]
    known = [f for f in diagnosis.functionals if not isnan(f.r_hat)]
    if not known:
        return [
            "No functional varies, so nothing can be said about mixing: the chains do not move."
        ]
    worst = max(known, key=lambda f: f.r_hat)
    named = f"R-hat of the {SENTENCES[worst.name]} is {worst.r_hat:.3f}"
    if worst.r_hat > NEARLY:
        sentences = [
            f"The chains have NOT mixed: {named}, which should be below {MIXED}. Averages over"
            " these samples still depend on the starts, and an effective sample size has no"
            f" meaning where R-hat is above {NEARLY}: run longer, or use blocks."
        ]
    elif worst.r_hat > MIXED:
        sentences = [
            f"The chains have nearly mixed: {named}, which should be below {MIXED}. Run longer"
            " before trusting averages."
        ]
    else:
        sentences = [f"No sign that the chains have not mixed: {named} or less."]
    sized = [f for f in known if not isnan(f.ess_bulk)]
    fewest = min(sized, key=lambda f: f.ess_bulk, default=None)
    if worst.r_hat <= NEARLY and fewest is not None and fewest.ess_bulk < ENOUGH:
        sentences.append(
            f"{diagnosis.chains * diagnosis.draws:,} draws are worth {fewest.ess_bulk:.0f}"
            f" independent ones for the {SENTENCES[fewest.name]}; {ENOUGH} are wanted for a stable"
            " mean."
        )
    return sentences


def chain_figure(run: SampleRun) -> Figure:
    """Energies and unchanged tokens along the chains, and what is accepted, for the length that
    most chains have.
    """
    from unmask.common.figures import Figure, to_rgb

    kernel, frame = run.settings.kernel, with_functionals(run)
    colour, soft = kernel.colour, tuple(0.4 * part + 0.6 for part in to_rgb(kernel.colour))
    length = int(frame.groupby("length")["chain"].nunique().idxmax())
    part, rates = frame[frame["length"] == length], run.rates[run.rates["length"] == length]
    energy, unchanged = draws_of(part, "energy"), draws_of(part, "unchanged")
    sweeps, places = np.sort(part["sweep"].unique())[: energy.shape[1]], np.arange(len(rates))
    figure = Figure(figsize=(15, 4), layout="constrained")
    along, stays, accepted = figure.subplots(1, 3)
    for axis, draws in ((along, energy), (stays, unchanged)):
        axis.plot(sweeps, draws[:MOST_TRACES].T, color=soft, linewidth=0.6, alpha=0.6)
        axis.plot(sweeps, draws.mean(0), color=colour, linewidth=2, label="mean of the chains")
        axis.xaxis.get_major_locator().set_params(integer=True)
        axis.legend(frameon=False)
    accepted.bar(places, rates["accepted"] / rates["steps"], color=soft, label="accepted")
    accepted.bar(
        places, rates["changed"] / rates["steps"], color=colour, width=0.5, label="changed (novel)"
    )
    accepted.set_xticks(places, rates["position"].tolist())
    along.set(xlabel="sweep", ylabel="energy", title="energy along the chains")
    stays.set(xlabel="sweep", ylabel=f"of {length} tokens", title="tokens still those of the start")
    title = "accepted, and of these the ones that change a token"
    accepted.set(xlabel="position", ylabel="share of steps", title=title, ylim=(0, 1.18))
    accepted.legend(frameon=False, ncols=2, loc="upper center")
    figure.suptitle(
        f"{kernel.label}, {run.settings.energy} energy, {len(energy)} chains of {length} tokens",
        color=INK,
    )
    return figure


class CausalJudge:
    """A causal model by name or folder; a text is scored between its start and end tokens,
    where it has them.
    """

    def __init__(self, name: str, device: str = "auto") -> None:
        self.name = name
        network, self.words = load_causal(name)
        self.network = network.to(resolve_device(device)).eval()
        start, end = self.words.bos_token_id, self.words.eos_token_id
        self.before = [i for i in (end if start is None else start,) if i is not None]
        self.after = [] if end is None else [end]
        self._refuse_one_that_looks_ahead()

    @torch.no_grad()
    def _refuse_one_that_looks_ahead(self) -> None:
        """A masked model loads as a causal one, sees the token that it should predict, and
        finds every text likely.
        """
        rows = torch.tensor([[1, 2, 3, 4], [1, 2, 3, 5]], device=self.network.device)
        first = self.network(input_ids=rows).logits[:, :3].double()
        if float((first[0] - first[1]).abs().max()) > 1e-5 * (1 + float(first.abs().max())):
            raise InputError(
                f"judge {self.name!r} looks ahead in the text: give a causal language model, such"
                " as GPT-2"
            )

    @torch.no_grad()
    def __call__(self, texts: Sequence[str]) -> NDArray[np.float64]:
        """Nats per token of each text; NaN for a text without a token to predict. Texts of one
        length go together.
        """
        nats = np.full(len(texts), np.nan)
        bare = [self.words(text, add_special_tokens=False)["input_ids"] for text in texts]
        ids = [i for tokens in bare for i in tokens]
        if any(text.strip() for text in texts) and 2 * (
            unknown := ids.count(self.words.unk_token_id)
        ) >= len(ids):
            what = (
                f"{unknown:,} of {len(ids):,} tokens are unknown" if ids else "they have no token"
            )
            raise InputError(
                f"judge {self.name!r} cannot read the texts ({what}): give a causal model of their"
                " kind, with its own tokenizer"
            )
        longest, positions = (
            max(map(len, bare), default=0),
            getattr(self.network.config, "max_position_embeddings", None),
        )
        if positions is not None and longest > (
            most := positions - len(self.before) - len(self.after)
        ):
            raise InputError(
                f"judge {self.name!r} takes texts of at most {most} tokens, and one has {longest}:"
                " give a causal model that takes longer ones"
            )
        rows = [[*self.before, *tokens, *self.after] for tokens in bare]
        for length in {len(row) for row in rows if len(row) > 1}:
            places = [place for place, row in enumerate(rows) if len(row) == length]
            for start in range(0, len(places), AT_ONCE):
                batch = places[start : start + AT_ONCE]
                tokens = torch.tensor([rows[place] for place in batch], device=self.network.device)
                logits = self.network(input_ids=tokens).logits[:, :-1].float()
                log_probs = (
                    logits.gather(2, tokens[:, 1:, None]).squeeze(2).double()
                    - logits.logsumexp(-1).double()
                )
                nats[batch] = -log_probs.mean(1).cpu().numpy()
        return nats


def judge_run(judge: CausalJudge, run: SampleRun) -> dict[str, float | str | None]:
    """Mean scores of the last texts of the chains (a decoder's texts, thinned evenly) and of
    the texts that they started from.
    """
    texts = list(run.last["text"])
    groups = {"samples": texts[:: max(1, -(-len(texts) // MOST_JUDGED))], "starts": []}
    if not run.settings.kernel.decodes and "text" in run.starts:
        groups["starts"] = list(run.starts["text"])[:MOST_JUDGED]
    nats = {
        name: scores[~np.isnan(scores)]
        for name, scores in ((name, judge(some)) for name, some in groups.items())
    }
    means = {name: float(scores.mean()) if len(scores) else None for name, scores in nats.items()}
    return {"name": judge.name, **means}
