"""The types of answers of the JSON interface, every field described; `requests` has those of what is asked."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, PlainSerializer, model_validator

from unmask.runs.files import plain

Number = Annotated[float, PlainSerializer(plain, return_type=float | Literal["Infinity", "-Infinity", "NaN"], when_used="json")]
"""A number of an answer; infinities are words, as in files and on the command line."""


class Refusal(BaseModel):
    """Why a request was not answered."""

    error: str = Field(description="one line: what was given, what is wrong with it, what to do")


class Health(BaseModel):
    """The server answers."""

    status: Literal["ok"] = Field(description="always ok: a server that ends answers 503")
    version: str = Field(description="of unmask")
    jobs: int = Field(description="requests under way")


class JobOut(BaseModel):
    """How far a request is that is answered by events."""

    id: str = Field(description="the job's name, from the event `job`")
    done: int = Field(description="how much is done, in units of `what`")
    total: int = Field(description="how much there is in all; 0: not known")
    what: str = Field(description="what is counted, for example passes")
    seconds: float = Field(description="since it began")
    left: float | None = Field(description="seconds left at this pace; null: not known")
    stopping: bool = Field(description="whether it was told to stop")


class Named(BaseModel):
    """Something that is described by an object with the same attributes."""

    model_config = ConfigDict(from_attributes=True)


class Construction(Named):
    """A rule that derives a joint."""

    name: str = Field(description="as requests name it")
    label: str = Field(description="as people read it")


class ConstructionAbout(Construction):
    """A rule that derives a joint, and what it is."""

    meaning: str = Field(description="the rule in one sentence")


class Kernel(Construction):
    """A Markov kernel or a decoder."""

    step: str = Field(description="what one step does")
    invariant: str = Field(description="the distribution that it leaves invariant")
    options: list[str] = Field(description="options that it reads, of the command line")
    decodes: bool = Field(description="whether it is a decoder, which ends when all blanks are filled")


class ScoreAbout(Named):
    """A named score."""

    name: str = Field(description="as requests name it")
    definition: str = Field(description="the definition in words")
    probability: bool = Field(description="whether it is the logarithm of a probability")
    by_token: bool = Field(description="whether it is a sum over tokens")
    better: Annotated[Literal["higher", "lower"], BeforeValidator(lambda sign: "higher" if sign > 0 else "lower")] = Field(
        description="which values are better"
    )


class RunAbout(BaseModel):
    """A finished run that was named on the command line."""

    number: int = Field(description="as paths name it, from 0")
    name: str = Field(description="the folder's name")
    kind: str = Field(description="the command that made it")
    folder: str = Field(description="the folder's path")


class Example(BaseModel):
    """A text that the model can read, and what to do with it."""

    text: str = Field(description="the text")
    blanks: str = Field("", description="words to blank, from 0, with commas between")
    second: str = Field("", description="a second text to compare it with")


class About(BaseModel):
    """The model that is served, the names of everything that can be asked for, and the limits."""

    version: str = Field(description="of unmask")
    model: str = Field(description="the model's name, as people read it")
    given: str | None = Field(description="the model as it was named on the command line; null: the bundled one")
    options: dict[str, str | bool] = Field(description="options of its loading that are not the default")
    beside: bool = Field(description="whether there is a second model, under /beside")
    vocabulary: int = Field(description="regular tokens")
    longest: int | None = Field(description="tokens of the longest text; null: no limit")
    by_character: bool = Field(description="whether tokens are single letters, as residues are")
    whole_words: bool = Field(description="whether a blank can be a [WORD]")
    examples: dict[str, Example] = Field(description="texts that the model can read, by view")
    default_joint: str = Field(description="the construction of two blanks by default")
    searched_joint: str = Field(description="the construction of three blanks or more by default")
    constructions: list[ConstructionAbout] = Field(description="all constructions")
    kernels: list[Kernel] = Field(description="all kernels and decoders")
    scores: list[ScoreAbout] = Field(description="the scores that can be asked for here")
    runs: list[RunAbout] = Field(description="the runs that were named on the command line")
    limits: dict[str, int] = Field(description="limits of one request, by name")


class Word(BaseModel):
    """A word of a text as the tokenizer cuts it."""

    text: str = Field(description="the word")
    start: int = Field(description="its first character, from 0")
    end: int = Field(description="the character after its last")
    pieces: int = Field(description="how many tokens it is")
    blank: Literal["token", "word", "gap"] | None = Field(description="the kind of a blank that was typed; null: a word")
    known: bool = Field(description="whether the model knows all its tokens")


class Words(BaseModel):
    """The words of a text; blanks may be typed as [MASK], [WORD], [GAP:2-5], <mask> or ___."""

    words: list[Word] = Field(description="in the order of the text")


class Completion(Named):
    """A filling: its tokens, its text, and its log-probabilities in nats."""

    tokens: list[str] = Field(description="the tokens of the blanks")
    text: str = Field(description="the whole text")
    spans: list[tuple[int, int]] = Field(description="first and last character (exclusive) of each token in the text")
    log_prob: Number = Field(description="under the joint")
    product_log_prob: Number = Field(description="with independent blanks")
    parts: list[str] | None = Field(None, description="of a search: what fills each blank, as text")
    standard_error: float | None = Field(None, description="of a search: of log_prob, in nats; 0: exact")


class Reading(BaseModel):
    """A number of tokens for each blank, where [WORD] or [GAP] leaves it open."""

    lengths: list[int] = Field(description="tokens of each blank")
    weight: float = Field(description="its prior probability")
    mass: float = Field(description="probability of the fillings found that have it, at least")


class Filled(BaseModel):
    """The most probable fillings: over candidate sets, or searched over the whole vocabulary."""

    text: str = Field(description="as it was asked")
    joint: str = Field(description="the construction used")
    blanks: int = Field(description="how many blanks the text has")
    candidates_mass: float | None = Field(None, description="of candidate sets: the share of independent blanks' mass in them")
    mass: float | None = Field(None, description="of a search: probability of all fillings found, at least")
    bound: float | None = Field(None, description="of a search: no filling that was not found has more probability")
    certain: int | None = Field(None, description="of a search: how many completions, from the first, are certain to be the best")
    passes: int | None = Field(None, description="of a search: rows that the model passed")
    stopped: str | None = Field(
        None, description="of a search: why it ended (certain, mass, exhausted, passes, memory, or asked: it was stopped)"
    )
    lengths: list[Reading] | None = Field(None, description="of a search with several lengths: what was found of each")
    summary: str = Field(description="what was found, in one line")
    warning: str = Field("", description="the constructions that did not converge, if any")
    completions: list[Completion] = Field(description="most probable first")


class AxisOut(BaseModel):
    """One blank of a map."""

    ids: list[int] = Field(description="ids of the tokens shown, likeliest first")
    tokens: list[str] = Field(description="the tokens shown")
    marginal: list[float] = Field(description="their probabilities under the joint")
    product: list[float] = Field(description="their probabilities with independent blanks")


class Given(BaseModel):
    """The other blank's likeliest tokens with a word pinned."""

    blank: int = Field(description="the blank of the pinned word")
    token: str = Field(description="the pinned word")
    ids: list[int] = Field(description="ids of the other blank's tokens")
    tokens: list[str] = Field(description="the other blank's tokens, likeliest first")
    given: list[float] = Field(description="their probabilities given the pinned word, under the joint")
    marginal: list[float] = Field(description="their probabilities under the joint before")
    model: list[float] = Field(description="the model's own conditional probabilities")


class MapOut(BaseModel):
    """Probabilities of pairs of tokens, rows of the first blank."""

    axes: list[AxisOut] = Field(description="both blanks")
    joint: list[list[float]] = Field(description="probabilities under the joint")
    product: list[list[float]] = Field(description="probabilities with independent blanks")
    given: Given | None = Field(description="the other blank's distribution, if a word is pinned")


class Described(BaseModel):
    """One construction on this text, in nats, and its best completion."""

    name: str = Field(description="the construction")
    label: str = Field(description="as people read it")
    entropy: Number = Field(description="of the joint")
    total_correlation: Number = Field(description="of the blanks under the joint; of two, their mutual information")
    a_kl: Number = Field(description="mean divergence of the model's conditionals from the joint's")
    best: Completion = Field(description="the most probable filling")


class JointOut(BaseModel):
    """The joint of the blanks, every construction beside it."""

    text: str = Field(description="as it was asked")
    joint: str = Field(description="the construction of the map and the completions")
    shape: list[int] = Field(description="tokens considered at each blank")
    exact: bool = Field(description="whether every token was considered")
    candidates_mass: float = Field(description="the share of independent blanks' mass in the candidate sets")
    compatibility: Number = Field(description="mean square log-ratio between the conditionals and one joint; 0: compatible")
    summary: str = Field(description="how dependent the blanks are, in words")
    warning: str = Field("", description="the constructions that did not converge, if any")
    constructions: list[Described] = Field(description="every construction; of an exact joint the chosen one and the product")
    completions: list[Completion] = Field(description="most probable first")
    map: MapOut | None = Field(description="of two blanks, the joint as a map")


Matrix = list[list[float | None]]


class DependenceOut(BaseModel):
    """Mutual information of every pair of tokens."""

    text: str = Field(description="as it was asked")
    tokens: list[str] = Field(description="the tokens measured")
    positions: list[int] = Field(description="their positions; the start token is 0")
    joint: str = Field(description="the construction used")
    others: str = Field(description="the tokens beside a pair: masked, or text")
    candidates: int = Field(description="tokens considered at each position")
    passes: int = Field(description="rows that the model passed")
    matrix: Matrix = Field(description="symmetric, in nats; null on the diagonal, and for pairs not measured when it was stopped")
    candidates_mass: Matrix = Field(description="share of the pair's independent mass in its candidate sets; null as in matrix")


class MutantsOut(BaseModel):
    """The mutants by name, in nats."""

    sequence: str = Field(description="as it was asked")
    joint: str = Field(description="the construction used")
    alphabet: list[str] = Field(description="tokens that may stand at a residue")
    wild_type: list[str] = Field(description="the residues of the sequence")
    mutants: list[dict[str, Any]] = Field(
        description="one row each: mutant, and the five numbers of `unmask mutants`; those done, if it was stopped"
    )


class ScoreOut(BaseModel):
    """The definition of each score, one row per text with its words and tokens, and two texts aligned."""

    scores: dict[str, dict[str, Any]] = Field(description="by name: definition, probability, why, better")
    unit: str = Field(description="nats or bits")
    rows: list[dict[str, Any]] = Field(description="one per text, with its words and tokens; reason says why a score is missing")
    difference: list[dict[str, Any]] | None = Field(description="two texts aligned token by token, first minus second")


class TokenProbability(BaseModel):
    """A token and its log-probability."""

    token: str = Field(description="the token")
    log_prob: Number = Field(description="in nats")

    @model_validator(mode="before")
    @classmethod
    def of_pair(cls, found: Any) -> Any:
        """From (token, log-probability)."""
        return dict(zip(cls.model_fields, found, strict=True)) if isinstance(found, tuple) else found


class ConditionalOut(Named):
    """The model's distribution at one position."""

    position: int = Field(description="the start token is 0")
    token: str = Field(description="the token that stands there")
    log_prob: Number = Field(description="of that token, in nats")
    likeliest: list[TokenProbability] = Field(description="the likeliest tokens, best first")
    asked: list[TokenProbability] = Field(description="the tokens of `words`")


class ConditionalsOut(BaseModel):
    """The conditionals of a text."""

    text: str = Field(description="as it was asked")
    conditionals: list[ConditionalOut] = Field(description="one per position")


class RunOut(RunAbout):
    """A run as tables, series of numbers, and the figures it left."""

    about: dict[str, Any] = Field(description="its settings and sizes")
    verdict: list[str] = Field(description="what it says, in sentences")
    tables: list[dict[str, Any]] = Field(description="title, columns, rows")
    traces: list[dict[str, Any]] = Field(description="name, x, y")
    figures: list[str] = Field(description="file names")
