"""The types of requests of the JSON interface, every field described; `schemas` has those of the answers."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from unmask.joints.registry import DEFAULT, DEFAULT_OF_DEPENDENCE, DEFAULT_OF_MUTANTS
from unmask.scoring.registry import DEFAULT as DEFAULT_SCORE
from unmask.serving import limits

WITH_BLANKS = "a text with [MASK] at each blank"
Text = Annotated[str, Field(min_length=1, max_length=limits.LONGEST_TEXT, description=WITH_BLANKS)]
WholeText = Annotated[str, Field(min_length=1, max_length=limits.LONGEST_TEXT, description="a text without blanks")]
Name = Annotated[str, Field(min_length=1, max_length=40)]
Joint = Annotated[Name, Field(description="the construction of the joint, a name of /api/about")]
Candidates = Annotated[
    int, Field(ge=2, le=limits.MOST_CANDIDATES, description="tokens considered at each blank; by default as many as take seconds")
]
Position = Annotated[int, Field(ge=0, le=100_000, description="a token of the text; the start token is 0")]
Positions = Annotated[
    list[Position],
    Field(min_length=1, max_length=limits.MOST_POSITIONS, description="tokens of the text, from 0; the start token counts"),
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
    top: int = Field(10, ge=1, le=limits.MOST_COMPLETIONS, description="fillings of the answer, at most")


class Pin(Asked):
    """A token held in one of two blanks."""

    blank: int = Field(ge=0, le=1, description="0 for the first blank, 1 for the second")
    token: int = Field(ge=0, le=10_000_000, description="the token's id")


class JointAsked(FillAsked):
    """The joint of two or more blanks, by every construction; `positions` blanks tokens of a whole text."""

    model_config = _example(text="She plays the [MASK] [MASK].", candidates=64, cells=14)

    joint: Joint = DEFAULT
    positions: Positions | None = None
    cells: int = Field(14, ge=2, le=limits.MOST_CELLS, description="tokens along each edge of the map")
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
        min_length=1, max_length=limits.LONGEST_TEXT, description="residues to change; the first is 1"
    )
    changes: int = Field(1, ge=1, le=2, description="residues that a mutant changes")
    joint: Joint = DEFAULT_OF_MUTANTS


class ScoreAsked(Asked):
    """Named scores of one text or more; of two, the difference token by token."""

    model_config = _example(texts=["The keys are on the table.", "The keys is on the table."], scores=[DEFAULT_SCORE])

    texts: list[WholeText] = Field(min_length=1, max_length=limits.MOST_TEXTS, description="texts without blanks")
    scores: list[Name] = Field([DEFAULT_SCORE], min_length=1, max_length=limits.MOST_SCORES, description="names of /api/about")
    unit: Literal["nats", "bits"] = Field("nats", description="of all log-probabilities")


class ConditionalsAsked(TextAsked):
    """Log-probabilities at positions; by default the blanks."""

    model_config = _example(text="She drank a cup of [MASK].", top=5, words=["tea"])

    positions: Positions | None = None
    masking: Literal["alone", "together", "none"] = Field(
        "alone", description="mask each position alone, all of them together, or none"
    )
    top: int = Field(10, ge=0, le=limits.MOST_COMPLETIONS, description="likeliest tokens of each position")
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
    chains: int = Field(1, ge=1, le=limits.MOST_CHAINS, description="chains side by side")
    sweeps: int = Field(20, ge=1, le=limits.MOST_SWEEPS, description="steps over all blanks")
    seed: int = Field(0, ge=0, le=2**53, description="of the random numbers")
