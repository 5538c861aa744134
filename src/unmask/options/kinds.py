"""Kinds of values: how a word of the command line becomes one, and which of them a function takes.

`parse` makes of what was typed the value that the function of the verb is given; `check` returns a value as the verb uses it,
or refuses it. Both name the option in their errors. That a value has the type of its annotation, `unmask.arguments` checks.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from numbers import Integral
from typing import Any, ClassVar

from unmask import checks
from unmask.errors import InputError
from unmask.joints.registry import all_named, named
from unmask.runs.files import user_path

MOST_BLANKS, MOST_DIGITS = 10**6, 9
"""Of a number of a blank; Python refuses to read numbers of thousands of digits."""


@dataclass(frozen=True)
class Kind:
    """Any text.

    typed     what the parser of the command line makes of the words: a type such as int or list[str]
    metavar   the value's name in the help; the type's own if empty
    commas    one word holds several values, so that the option is given once
    written   how the command line writes it, for the help
    python    what else Python takes, for its documentation
    """

    typed: ClassVar[Any] = str
    metavar: ClassVar[str] = ""
    commas: ClassVar[bool] = False
    written: ClassVar[str] = ""
    python: ClassVar[str] = ""

    def parse(self, name: str, given: Any) -> Any:
        """The value of what was typed."""
        return given

    def check(self, name: str, given: Any) -> Any:
        """The value as the verb uses it."""
        return given

    def says(self, help: str) -> str:
        """The help of an option of this kind."""
        return help


class Text(Kind):
    """Any text, of which the function that reads it knows more."""


class Alphabet(Kind):
    """Tokens: letters, words with commas between them, or a file of either."""

    python = "Or a list of tokens."


class Listed(Kind):
    """Several names or numbers in one text, which the function takes as it is typed."""

    commas = True


@dataclass(frozen=True)
class Whole(Kind):
    """A whole number from `least` to `most`."""

    least: int
    most: int
    typed: ClassVar[Any] = int

    def check(self, name: str, given: Any) -> int:
        return checks.whole(name, given, self.least, self.most)


class Candidates(Whole):
    """How many tokens of each blank; Python takes the token ids themselves, too."""

    python = "Or the token ids themselves, for each blank."

    @staticmethod
    def word(given: str) -> int:
        """The number, when it is parsed; words are a natural mistake."""
        try:
            return int(given)
        except ValueError:
            wrong = f"--candidates {checks.shown(given)} is not a whole number"
            raise InputError(f"{wrong}: give how many tokens to consider; words to score go to --answers of fill") from None

    def check(self, name: str, given: Any) -> Any:
        ids = not isinstance(given, str) and hasattr(given, "__len__")
        return given if ids else super().check(name, given)


@dataclass(frozen=True)
class Real(Kind):
    """A finite number from `least` (with `above`: greater than it) to `most`."""

    least: float
    most: float
    above: bool = False
    typed: ClassVar[Any] = float

    def check(self, name: str, given: Any) -> float:
        return checks.real(name, given, self.least, self.most, self.above)


@dataclass(frozen=True)
class Choice(Kind):
    """One of some names; a help that ends without a full stop is followed by them."""

    names: tuple[str, ...]

    def check(self, name: str, given: Any) -> str:
        return checks.one_of(name, given, self.names)

    def says(self, help: str) -> str:
        return help if help.endswith(".") else f"{help}: {', '.join(self.names)}."


class Flag(Kind):
    """Yes or no."""

    typed = bool


class File(Kind):
    """A path; `~` is the home folder also where the shell has not replaced it."""

    metavar = "PATH"

    def parse(self, name: str, given: Any) -> Any:
        return user_path(given, name)


class TextFile(File):
    """A file of texts."""

    python = "Or a list of texts."


class Files(File):
    """Several paths: the option is repeated."""

    typed = list[str]
    written = "repeat for more"

    def parse(self, name: str, given: Any) -> Any:
        return [user_path(one, name) for one in given]


class TwoFiles(Files):
    """A file of sources and one of their translations."""

    typed = tuple[str, str]
    metavar = "SOURCE TARGET"
    written = ""
    python = "Or two lists of texts."

    @staticmethod
    def word(given: str) -> str:
        """One of the two, when it is parsed: the name of the next option means that one is missing."""
        if given.startswith("--"):
            raise InputError(f"two files are needed, and {given} stands where the second should: give SOURCE TARGET")
        return given


class Construction(Kind):
    """How a joint is derived: a name of the registry."""

    def check(self, name: str, given: Any) -> Any:
        named(given, name)
        return given


class Constructions(Listed):
    """Several constructions, or all."""

    written = "with commas"

    def check(self, name: str, given: Any) -> Any:
        all_named(given, name)
        return given


class Words(Kind):
    """Words with commas between them; in Python a list."""

    commas = True
    written = "with commas"
    python = "As a list."

    def parse(self, name: str, given: str) -> list[str]:
        """ "red, green" as ["red", "green"]."""
        return [word.strip() for word in given.split(",")]

    def check(self, name: str, given: Any) -> tuple[str, ...]:
        return tuple(given)


class Decoders(Words):
    """Names of decoders that have a law."""

    def check(self, name: str, given: Any) -> tuple[str, ...]:
        from unmask.sampling.registry import refuse_no_law, with_law

        names = super().check(name, given)
        for one in names:
            refuse_no_law(f"{name} {one}", one)
        return tuple(checks.one_of(name, one, with_law()) for one in (with_law() if names == ("all",) else names))


class ForbiddenWords(Words):
    """Words, none of which is empty."""

    def check(self, name: str, given: Any) -> tuple[str, ...]:
        words = super().check(name, given)
        if not all(str(word).strip() for word in words):
            raise InputError(f"{name} {list(words)} has an empty word: name the words, or leave it out")
        return words


@dataclass(frozen=True)
class Numbers(Kind):
    """Numbers with commas between them; in Python a list. `bound` is the kind of each, None where their reader checks them.

    alone   Python takes a single whole number, too
    """

    number: Callable[[str], Any]
    bound: Kind | None = None
    alone: bool = False
    commas: ClassVar[bool] = True
    python: ClassVar[str] = "As a list."

    def parse(self, name: str, given: str) -> list[Any]:
        """ "3,4" as [3, 4]."""
        return checks.numbers(name, given, self.number)

    def check(self, name: str, given: Any) -> Any:
        if self.bound is None:
            return given
        if self.alone and isinstance(given, Integral):
            given = (given,)
        return tuple(self.bound.check(name, value) for value in given)


class Memory(Kind):
    """Bytes, such as 20GB, or a share, such as 0.5."""

    metavar = "SIZE"

    def check(self, name: str, given: Any) -> Any:
        checks.memory(name, given, 1)
        return given


class Repeated(Kind):
    """An option that is repeated, one value each."""

    typed = list[str]
    written = "repeat for more"


class Weights(Repeated):
    """Numbers, one for each time that the option is given."""

    typed = list[float]


class Renames(Repeated):
    """Names of tensors and the names that the model knows them by."""

    metavar = "OLD=NEW"
    python = 'As a mapping, {"old": "new"}.'

    def parse(self, name: str, given: Sequence[str]) -> dict[str, str]:
        """["a=b", "c=d"] as {"a": "b", "c": "d"}."""
        pairs = [(old.strip(), new.strip()) for old, _, new in (one.partition("=") for one in given)]
        for one, (old, _) in zip(given, pairs, strict=True):
            if not old or "=" not in one:
                raise InputError(
                    f"{name} {one!r} is not understood: give OLD=NEW, such as lm_head.decoder=cls.predictions.decoder"
                )
            if [first for first, _ in pairs].count(old) > 1:
                raise InputError(f"{name} names {old!r} twice: name each once")
        return dict(pairs)


class ByBlank(Repeated):
    """Something for single blanks, by their numbers from 1."""

    def check(self, name: str, given: Any) -> dict[int, Any]:
        return {checks.whole(f"the blank of {name}", number, 0, MOST_BLANKS): value for number, value in given.items()}

    @staticmethod
    def split(name: str, given: str) -> tuple[int | None, str]:
        """ "2=red" as (2, "red"); None where there is no number."""
        number, equals, rest = given.partition("=")
        if not equals or not number.strip().isdecimal():
            return None, given
        if len(number) > MOST_DIGITS:
            raise InputError(f"{name} names blank {number[:MOST_DIGITS]}..., which no text has: number blanks from 1")
        return int(number), rest


class AllowedWords(ByBlank):
    """The only words of blanks."""

    metavar = "BLANK=WORDS"
    python = 'As a mapping, {2: ["red", "green"]}.'

    def parse(self, name: str, given: Sequence[str]) -> dict[int, list[str]]:
        """["2=red,green"] as {2: ["red", "green"]}."""
        found: dict[int, list[str]] = {}
        for one in given:
            blank, words = self.split(name, one)
            if blank is None:
                raise InputError(f"{name} {one!r} is not understood: give a blank's number and words, such as 2=red,green")
            found.setdefault(blank, []).extend(word.strip() for word in words.split(",") if word.strip())
        return found

    def check(self, name: str, given: Any) -> dict[int, tuple[str, ...]]:
        return {blank: tuple(words) for blank, words in super().check(name, given).items()}


class Patterns(ByBlank):
    """What fillings must match: one expression for every blank, or by the blanks' numbers."""

    metavar = "BLANK=REGEX"
    python = 'As a mapping, {2: ".*ing"}, or one expression for all blanks.'

    def parse(self, name: str, given: Sequence[str]) -> str | dict[int, str]:
        """["2=.*ing"] as {2: ".*ing"}; one expression without a number is for every blank."""
        found = {blank or 0: pattern for blank, pattern in (self.split(name, one) for one in given)}
        return found[0] if set(found) == {0} else found

    def check(self, name: str, given: Any) -> dict[int, Any]:
        """By blank, where 0 stands for all."""
        return {0: given} if isinstance(given, str) else super().check(name, given)


@dataclass(frozen=True)
class AllowedTokens(Repeated):
    """Tokens that may stand at positions: {3: ["red", "green"]}, or ["3=red,green"] as the command line has it."""

    last: int
    metavar: ClassVar[str] = "POSITION=TOKENS"
    python: ClassVar[str] = 'Or {3: ["red", "green"]}.'

    def check(self, name: str, given: Any) -> tuple[tuple[int, tuple[str, ...]], ...]:
        found: dict[int, dict[str, None]] = {}
        given = [given] if isinstance(given, str) else given
        for position, tokens in given.items() if isinstance(given, Mapping) else [self._read(name, one) for one in given]:
            place = checks.whole(f"the position of {name}", position, 0, self.last)
            listed = [tokens] if isinstance(tokens, str) else tokens
            found.setdefault(place, {}).update(dict.fromkeys(str(token) for token in listed))
        return tuple((position, tuple(tokens)) for position, tokens in sorted(found.items()))

    @staticmethod
    def _read(name: str, given: Any) -> tuple[int, Sequence[str]]:
        """ "3=red,green" as (3, ["red", "green"]); what `check` returned is read again as it is."""
        if isinstance(given, tuple | list) and len(given) == 2 and not isinstance(given[1], str):
            return given[0], given[1]
        position, found, tokens = str(given).partition("=")
        if not found or not position.strip().isdecimal() or len(position) > 9:
            raise InputError(f"{name} {given!r} is not understood: give a position and tokens, such as 3=red,green")
        return int(position), [token.strip() for token in tokens.split(",") if token.strip()]


class VariantScores(Listed):
    """Scores of variants, or all."""

    written = "with commas"

    def check(self, name: str, given: Any) -> Any:
        from unmask.scoring.registry import chosen_of_variants

        chosen_of_variants(given)
        return given
