"""What may be asked of the JSON interface: the types of requests, every field described, with limits and examples.

The page is for people on one machine: work that takes minutes belongs on the command line. `schemas` has the types of answers.
"""

from __future__ import annotations

from math import comb
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from unmask.errors import InputError
from unmask.joints.registry import DEFAULT, DEFAULT_OF_DEPENDENCE, DEFAULT_OF_MUTANTS
from unmask.models.masked_lm import MaskedLM
from unmask.scoring.registry import DEFAULT as DEFAULT_SCORE
from unmask.tables.candidates import plan_candidates
from unmask.tables.unary import pass_count

MOST_BYTES = 64 * 1024
"""Of a request's body."""
LONGEST_TEXT = 2_000
MOST_BLANKS = 8
MOST_TEXTS = 4
MOST_SCORES = 6
MOST_POSITIONS = 64
MOST_CANDIDATES = 1_024
MOST_COMPLETIONS = 100
MOST_CELLS = 40
"""Along each edge of a heat map."""
MOST_CHAINS = 16
MOST_SWEEPS = 500
MOST_STEPS = 200_000
"""Of a chain's run: chains x sweeps x free tokens."""
MOST_PASSES = 70_000
"""Of a joint: an exact pair of a vocabulary of 30,000 tokens."""
MOST_DEPENDENCE_PASSES = 40_000
MOST_MUTANTS = 20_000
MOST_JOBS = 48
"""At once; more are answered with 429."""
MOST_EXACT_TOKENS = 10
"""Of a text whose orders are enumerated; the orders of longer ones are sampled: a page waits for seconds."""

WITH_BLANKS = "a text with [MASK] at each blank"
Text = Annotated[str, Field(min_length=1, max_length=LONGEST_TEXT, description=WITH_BLANKS)]
WholeText = Annotated[str, Field(min_length=1, max_length=LONGEST_TEXT, description="a text without blanks")]
Name = Annotated[str, Field(min_length=1, max_length=40)]
Joint = Annotated[Name, Field(description="the construction of the joint, a name of /api/about")]
Candidates = Annotated[
    int, Field(ge=2, le=MOST_CANDIDATES, description="tokens considered at each blank; by default as many as take seconds")
]
Position = Annotated[int, Field(ge=0, le=100_000, description="a token of the text; the start token is 0")]
Positions = Annotated[
    list[Position],
    Field(min_length=1, max_length=MOST_POSITIONS, description="tokens of the text, from 0; the start token counts"),
]


class Asked(BaseModel):
    """A request: nothing but what is named, every value of its own type, and every number finite."""

    model_config = ConfigDict(extra="forbid", allow_inf_nan=False, strict=True)


def _example(**fields: Any) -> ConfigDict:
    return ConfigDict(json_schema_extra={"examples": [fields]})


class TextAsked(Asked):
    """A text."""

    model_config = _example(text="She plays the [MASK] [MASK].")

    text: Text


class FillAsked(TextAsked):
    """Blanks to fill; [WORD] is a whole word of one or more tokens, [GAP:2-5] two to five tokens."""

    model_config = _example(text="She plays the [MASK] [MASK].", top=3)

    joint: Joint | None = None
    candidates: Candidates | None = None
    exact: bool = Field(False, description="consider every token at each blank")
    top: int = Field(10, ge=1, le=MOST_COMPLETIONS, description="fillings of the answer, at most")


class Pin(Asked):
    """A token held in one of two blanks."""

    blank: int = Field(ge=0, le=1, description="0 for the first blank, 1 for the second")
    token: int = Field(ge=0, le=10_000_000, description="the token's id")


class JointAsked(FillAsked):
    """The joint of two or more blanks, by every construction; `positions` blanks tokens of a whole text."""

    model_config = _example(text="She plays the [MASK] [MASK].", candidates=64, cells=14)

    joint: Joint = DEFAULT
    positions: Positions | None = None
    cells: int = Field(14, ge=2, le=MOST_CELLS, description="tokens along each edge of the map")
    pin: Pin | None = Field(None, description="a token held in one of two blanks; the map then has the other's distribution")


class DependenceAsked(TextAsked):
    """Mutual information between the tokens of a whole text, or between its blanks."""

    model_config = _example(text="The doctor told her patient to rest.", candidates=32)

    joint: Joint = DEFAULT_OF_DEPENDENCE
    others: Literal["masked", "text"] | None = Field(
        None, description="the tokens beside a pair: masked, or as they stand (text); by default masked for blanks"
    )
    candidates: Candidates = 32


class MutantsAsked(Asked):
    """Mutants of a sequence: one change at each of the residues, or one at each two of them."""

    model_config = _example(sequence="EVQLVESGGGLVQPGG", positions=[3, 5], changes=2)

    sequence: WholeText
    positions: list[Annotated[int, Field(ge=1, le=100_000)]] = Field(
        min_length=1, max_length=LONGEST_TEXT, description="residues to change; the first is 1"
    )
    changes: int = Field(1, ge=1, le=2, description="residues that a mutant changes")
    joint: Joint = DEFAULT_OF_MUTANTS


class ScoreAsked(Asked):
    """Named scores of one text or more; of two, the difference token by token."""

    model_config = _example(texts=["The keys are on the table.", "The keys is on the table."], scores=[DEFAULT_SCORE])

    texts: list[WholeText] = Field(min_length=1, max_length=MOST_TEXTS, description="texts without blanks")
    scores: list[Name] = Field([DEFAULT_SCORE], min_length=1, max_length=MOST_SCORES, description="names of /api/about")
    unit: Literal["nats", "bits"] = Field("nats", description="of all log-probabilities")


class ConditionalsAsked(TextAsked):
    """Log-probabilities at positions; by default the blanks."""

    model_config = _example(text="She drank a cup of [MASK].", top=5, words=["tea"])

    positions: Positions | None = None
    masking: Literal["alone", "together", "none"] = Field(
        "alone", description="mask each position alone, all of them together, or none"
    )
    top: int = Field(10, ge=0, le=MOST_COMPLETIONS, description="likeliest tokens of each position")
    words: list[Annotated[str, Field(min_length=1, max_length=60)]] = Field(
        [], max_length=50, description="tokens whose log-probability is wanted too"
    )


class SampleAsked(Asked):
    """Chains (or a decoder) over the blanks of a text; the other words are held."""

    model_config = _example(template="The old [MASK] [MASK] by the river.", kernel="mh", chains=2, sweeps=5)

    template: Text
    init: WholeText | None = Field(
        None,
        description="a whole text to start from, with the template's number of tokens; by default blanks are filled one by one",
    )
    kernel: Name = Field("mh", description="a Markov kernel or decoder, a name of /api/about")
    energy: Literal["norm", "raw"] = Field("norm", description="normalised log-probabilities, or logits")
    temperature: float | None = Field(None, gt=0, le=100, description="of the target")
    chains: int = Field(1, ge=1, le=MOST_CHAINS, description="chains side by side")
    sweeps: int = Field(20, ge=1, le=MOST_SWEEPS, description="steps over all blanks")
    seed: int = Field(0, ge=0, le=2**53, description="of the random numbers")


def joint_candidates(
    model: MaskedLM, text: str, candidates: int | None, exact: bool, positions: list[int] | None = None
) -> int | None:
    """The candidates of each blank as `fill` will be given them; refuses a joint that is too large to be served."""
    cloze = model.cloze(text, positions)
    check_blanks(len(cloze.block))
    plan = plan_candidates(model, cloze, candidates, exact)
    what = f"{len(plan.sizes)} blanks of {plan.size:,} candidates take"
    _refuse_more(pass_count(plan.sizes), MOST_PASSES, what, "passes", "fewer candidates")
    return None if exact else plan.size if len(cloze.block) > 1 else None


def check_blanks(blanks: int) -> None:
    """Refuse too many blanks."""
    if blanks > MOST_BLANKS:
        raise InputError(f"the text has {blanks} blanks, and the page takes {MOST_BLANKS}: blank fewer words")


def check_dependence(positions: int, candidates: int) -> None:
    """Refuse a dependence of too many pairs."""
    passes = positions * (positions - 1) // 2 * pass_count([candidates, candidates])
    what = f"{positions} tokens with {candidates} candidates take"
    _refuse_more(passes, MOST_DEPENDENCE_PASSES, what, "passes", "fewer candidates, a shorter text")


def check_mutants(positions: int, changes: int, alphabet: int) -> None:
    """Refuse too many mutants."""
    what = f"{changes} changes among {positions} residues are"
    _refuse_more(comb(positions, changes) * (alphabet - 1) ** changes, MOST_MUTANTS, what, "mutants", "fewer residues")


def check_chains(chains: int, sweeps: int, free: int) -> None:
    """Refuse a run of too many steps."""
    what = f"{chains} chains of {sweeps} sweeps over {free} tokens are"
    _refuse_more(chains * sweeps * max(1, free), MOST_STEPS, what, "steps", "fewer chains or sweeps")


def _refuse_more(count: int, most: int, what: str, unit: str, less: str) -> None:
    if count > most:
        raise InputError(f"{what} {count:,} {unit}, and the page takes {most:,}: ask for {less}, or use the command line")
