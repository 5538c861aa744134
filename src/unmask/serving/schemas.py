"""The types of requests and answers of the JSON interface, from which its OpenAPI document is made."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, PlainSerializer, model_validator

from unmask.joints.registry import DEFAULT, DEFAULT_OF_DEPENDENCE, DEFAULT_OF_MUTANTS
from unmask.runs.files import plain
from unmask.scoring.registry import DEFAULT as DEFAULT_SCORE
from unmask.serving import limits

Text = Annotated[str, Field(min_length=1, max_length=limits.LONGEST_TEXT, description="a text with [MASK] at each blank")]
WholeText = Annotated[str, Field(min_length=1, max_length=limits.LONGEST_TEXT, description="a text without blanks")]
Number = Annotated[float, PlainSerializer(plain, return_type=float | Literal["Infinity", "-Infinity", "NaN"], when_used="json")]
"""A number of an answer; infinities are words, as in files and on the command line."""
Name = Annotated[str, Field(min_length=1, max_length=40)]
Candidates = Annotated[int, Field(ge=2, le=limits.MOST_CANDIDATES, description="tokens considered at each blank")]
Position = Annotated[int, Field(ge=0, le=100_000, description="a token of the text; the start token is 0")]
Positions = Annotated[list[Position], Field(min_length=1, max_length=limits.MOST_POSITIONS)]


class Asked(BaseModel):
    """A request: nothing but what is named, and every number finite."""

    model_config = ConfigDict(extra="forbid", allow_inf_nan=False)


class Refusal(BaseModel):
    """Why a request was not answered, in one line: what was given, where, and what to do."""

    error: str


class Named(BaseModel):
    """Something that is described by an object with the same attributes."""

    model_config = ConfigDict(from_attributes=True)


class Construction(Named):
    """A rule that derives a joint."""

    name: str
    label: str


class ConstructionAbout(Construction):
    """A rule that derives a joint, and what it is in one sentence."""

    meaning: str


class Kernel(Construction):
    """A Markov kernel or a decoder."""

    step: str
    invariant: str
    options: list[str]
    decodes: bool


class ScoreAbout(BaseModel):
    """A named score."""

    name: str
    definition: str
    probability: bool
    by_token: bool
    better: Literal["higher", "lower"]


class RunAbout(BaseModel):
    """A finished run that was named on the command line."""

    number: int
    name: str
    kind: str
    folder: str


class Example(BaseModel):
    """A text that the model can read, words of it (from 0) to blank, and a second text to compare it with."""

    text: str
    blanks: str = ""
    second: str = ""


class About(BaseModel):
    """The model that is served, the names of everything that can be asked for, and the limits."""

    version: str
    model: str
    given: str | None
    options: dict[str, str | bool]
    beside: bool
    vocabulary: int
    longest: int | None
    by_character: bool
    whole_words: bool
    examples: dict[str, Example]
    default_joint: str
    searched_joint: str
    constructions: list[ConstructionAbout]
    kernels: list[Kernel]
    scores: list[ScoreAbout]
    runs: list[RunAbout]
    limits: dict[str, int]


class TextAsked(Asked):
    """A text."""

    text: Text


class Word(BaseModel):
    """A word of a text as the tokenizer cuts it: its place in characters, and how many tokens it is."""

    text: str
    start: int
    end: int
    pieces: int
    blank: Literal["token", "word", "gap"] | None
    known: bool


class Words(BaseModel):
    """The words of a text; blank says of what kind a blank is that was typed as [MASK], [WORD], [GAP:2-5], <mask> or ___."""

    words: list[Word]


class FillAsked(TextAsked):
    """Blanks to fill; [WORD] is a whole word of one or more tokens."""

    joint: Name | None = None
    candidates: Candidates | None = None
    exact: bool = False
    top: Annotated[int, Field(ge=1, le=limits.MOST_COMPLETIONS)] = 10


class Completion(Named):
    """A filling: its tokens, its text, their places in it, and its log-probabilities."""

    tokens: list[str]
    text: str
    spans: list[tuple[int, int]]
    log_prob: Number
    product_log_prob: Number


class Filled(BaseModel):
    """The most probable fillings.

    candidates_mass is of a joint over candidate sets; mass, bound and summary are of a search over the whole vocabulary.
    warning names the constructions that did not converge.
    """

    text: str
    joint: str
    blanks: int
    candidates_mass: float | None = None
    mass: float | None = None
    bound: float | None = None
    certain: int | None = None
    passes: int | None = None
    stopped: str | None = None
    lengths: list[dict[str, Any]] | None = None
    summary: str
    warning: str = ""
    completions: list[Completion]


class Pin(Asked):
    """A token held in one of two blanks."""

    blank: Annotated[int, Field(ge=0, le=1)]
    token: Annotated[int, Field(ge=0, le=10_000_000, description="its id")]


class JointAsked(FillAsked):
    """The joint of two or more blanks, by every construction; `positions` blanks tokens of a whole text."""

    joint: Name = DEFAULT
    positions: Positions | None = None
    cells: Annotated[int, Field(ge=2, le=limits.MOST_CELLS, description="tokens along each edge of the map")] = 14
    pin: Pin | None = None


class AxisOut(BaseModel):
    """One blank: tokens shown, and their probabilities under the joint and with independent blanks."""

    ids: list[int]
    tokens: list[str]
    marginal: list[float]
    product: list[float]


class Given(BaseModel):
    """The other blank's likeliest tokens once a word is pinned: joint, joint before, and the model's own conditional."""

    blank: int
    token: str
    ids: list[int]
    tokens: list[str]
    given: list[float]
    marginal: list[float]
    model: list[float]


class MapOut(BaseModel):
    """Probabilities of pairs of tokens, rows of the first blank, under the joint and with independent blanks."""

    axes: list[AxisOut]
    joint: list[list[float]]
    product: list[list[float]]
    given: Given | None


class Described(BaseModel):
    """One construction on this text, in nats, and its best completion."""

    name: str
    label: str
    entropy: Number
    total_correlation: Number
    a_kl: Number
    best: Completion


class JointOut(BaseModel):
    """The joint of the blanks, every construction beside it."""

    text: str
    joint: str
    shape: list[int]
    exact: bool
    candidates_mass: float
    compatibility: Number
    summary: str
    warning: str = ""
    constructions: list[Described]
    completions: list[Completion]
    map: MapOut | None


class DependenceAsked(TextAsked):
    """Mutual information between the tokens of a whole text, or between its blanks."""

    joint: Name = DEFAULT_OF_DEPENDENCE
    others: Literal["masked", "text"] | None = None
    candidates: Candidates = 32


class DependenceOut(BaseModel):
    """A symmetric matrix in nats; the diagonal is null."""

    text: str
    tokens: list[str]
    positions: list[int]
    joint: str
    others: str
    candidates: int
    passes: int
    matrix: list[list[float | None]]
    candidates_mass: list[list[float | None]]


class MutantsAsked(Asked):
    """Mutants of a sequence: one change at each of the residues, or one at each two of them; the first residue is 1."""

    sequence: WholeText
    positions: Annotated[list[Annotated[int, Field(ge=1, le=100_000)]], Field(min_length=1, max_length=limits.LONGEST_TEXT)]
    changes: Annotated[int, Field(ge=1, le=2)] = 1
    joint: Name = DEFAULT_OF_MUTANTS


class MutantsOut(BaseModel):
    """The mutants by name, and the five numbers of `unmask mutants` for each, in nats."""

    sequence: str
    joint: str
    alphabet: list[str]
    wild_type: list[str]
    mutants: list[dict[str, Any]]


class ScoreAsked(Asked):
    """Named scores of one text or more; of two, the difference token by token."""

    texts: Annotated[list[WholeText], Field(min_length=1, max_length=limits.MOST_TEXTS)]
    scores: Annotated[list[Name], Field(min_length=1, max_length=limits.MOST_SCORES)] = [DEFAULT_SCORE]
    unit: Literal["nats", "bits"] = "nats"


class ScoreOut(BaseModel):
    """The definition of each score, one row per text with its words and tokens, and two texts aligned."""

    scores: dict[str, dict[str, Any]]
    unit: str
    rows: list[dict[str, Any]]
    difference: list[dict[str, Any]] | None


class ConditionalsAsked(TextAsked):
    """Log-probabilities at positions; by default the blanks."""

    positions: Positions | None = None
    masking: Literal["alone", "together", "none"] = "alone"
    top: Annotated[int, Field(ge=0, le=limits.MOST_COMPLETIONS)] = 10
    words: Annotated[list[Annotated[str, Field(min_length=1, max_length=60)]], Field(max_length=50)] = []


class TokenProbability(BaseModel):
    """A token and its log-probability."""

    token: str
    log_prob: Number

    @model_validator(mode="before")
    @classmethod
    def of_pair(cls, found: Any) -> Any:
        """From (token, log-probability)."""
        return dict(zip(cls.model_fields, found, strict=True)) if isinstance(found, tuple) else found


class ConditionalOut(Named):
    """One position: the token there, the likeliest tokens, and those asked for."""

    position: int
    token: str
    log_prob: Number
    likeliest: list[TokenProbability]
    asked: list[TokenProbability]


class ConditionalsOut(BaseModel):
    """The conditionals of a text."""

    text: str
    conditionals: list[ConditionalOut]


class SampleAsked(Asked):
    """Chains (or a decoder) over the blanks of a text; the other words are held.

    init    a whole text to start from, as many tokens as the template has; blanks are filled one by one if left out
    """

    template: Text
    init: WholeText | None = None
    kernel: Name = "mh"
    energy: Literal["norm", "raw"] = "norm"
    temperature: Annotated[float, Field(gt=0, le=100)] | None = None
    chains: Annotated[int, Field(ge=1, le=limits.MOST_CHAINS)] = 1
    sweeps: Annotated[int, Field(ge=1, le=limits.MOST_SWEEPS)] = 20
    seed: Annotated[int, Field(ge=0, le=2**53)] = 0


class RunOut(RunAbout):
    """A run as tables (columns, rows), series of numbers, and how many figures it left."""

    about: dict[str, Any]
    verdict: list[str]
    tables: list[dict[str, Any]]
    traces: list[dict[str, Any]]
    figures: list[str]
