"""The verbs: the public functions, and types of arguments that several of them have.

A signature is the only declaration of a verb (`unmask.common.border`). The files load nothing
heavy before a function runs. The stub `unmask/__init__.pyi` lists the verbs with all other public
names; `lab` has commands of its own.
"""

from __future__ import annotations

import ast
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import wraps
from importlib import import_module
from inspect import signature
from pathlib import Path
from typing import (
    Annotated,
    Any,
    Concatenate,
    Literal,
    NamedTuple,
    ParamSpec,
    Protocol,
    TypeVar,
    cast,
    overload,
)

from annotated_types import Interval

import unmask
from unmask.common.border.declarations import first_paragraph
from unmask.common.border.marks import Written
from unmask.common.border.readable import signature_of_many
from unmask.common.checks import shown
from unmask.common.errors import BadTexts, InputError
from unmask.common.files import user_path
from unmask.runs.file_names import refuse_file_name
from unmask.runs.lines import EMPTY, located_texts, place_name
from unmask.runs.unpacking import source_name

PathLike = str | os.PathLike[str]
Texts = str | Sequence[str]
TOKENS = (
    "The only tokens that may stand in a blank: letters such as ACDEFGHIKLMNPQRSTVWY, words with"
    " commas, or a file of either."
)
Alphabet = Annotated[
    str | os.PathLike[str] | Sequence[str] | None, Written(metavar="TOKENS", help=TOKENS)
]
POSITIONS = "Tokens of a whole text that become the blanks, such as 3,5-7 (the first is 1), or all."
Positions = Annotated[str | Sequence[int] | None, Written(metavar="PLACES", help=POSITIONS)]
Seed = Annotated[int, Interval(ge=0, le=2**63 - 1), Written(help="Seed of all random choices.")]
OUT = (
    "Folder of the run; the same command continues a run that was stopped. Left out, the result is"
    " in memory only."
)
Out = Annotated[PathLike | None, Written(help=OUT)]
WORKERS = (
    "local, ray (a cluster: a worker per GPU, or per two CPUs), or ray:4 with another number of"
    " workers."
)
Engine = Annotated[str, Written(metavar="local|ray|ray:N", help=WORKERS)]
Judge = Annotated[
    str | None, Written(help="A causal language model, by name or folder, that scores the texts.")
]
Allow = Annotated[
    Mapping[int, Sequence[str]] | None,
    Written(
        "BLANK=TOKENS",
        help="The only tokens of a blank, such as 2=red,green; blanks are numbered from 1.",
    ),
]
LIMITS = "Go on beyond 200,000 passes, a billion cells of a joint, or five million mutants."
Force = Annotated[bool, Written(help=LIMITS)]
CANDIDATES = (
    "How many tokens to consider at each blank: a number, or all; in Python also a list of token"
    " ids for each blank [default: as many as take about two seconds, by the model's size, the"
    " text's length and the device]."
)
Candidates = Annotated[
    Annotated[int, Interval(ge=1, le=10**7)] | Literal["all"] | Sequence[Sequence[int]] | None,
    Written(metavar="INT|all", short="-n", help=CANDIDATES),
]
Top = Annotated[
    int, Interval(ge=1, le=1_000_000), Written(short="-t", help="How many completions to show.")
]

Options = ParamSpec("Options")
Answer = TypeVar("Answer")


def _modules_of_verbs() -> dict[str, str]:
    """The module of each public function of this folder's files, by name.

    They are the lines `from .verbs.fill import fill as fill` of the stub. Results, which a verb's
    file may also have, are classes: their names begin with a capital letter.
    """
    stub = Path(unmask.__file__).with_suffix(".pyi")
    modules: dict[str, str] = {}
    for statement in ast.parse(stub.read_text(encoding="utf-8")).body:
        if not isinstance(statement, ast.ImportFrom) or statement.module is None:
            continue
        folder, _, file = statement.module.rpartition(".")
        if folder != "verbs":
            continue
        for alias in statement.names:
            is_function = alias.name.islower()
            if is_function:
                modules[alias.name] = f"{__name__}.{file}"
    return dict(sorted(modules.items()))


VERBS = _modules_of_verbs()
"""The module of each verb, by name."""


def verb(name: str) -> Callable[..., Any]:
    """The function of this name."""
    function: Callable[..., Any] = getattr(import_module(VERBS[name]), name)
    return function


def first_lines() -> dict[str, str]:
    """The first paragraph of each verb's docstring, in one line, by the verb's name.

    The files are read, and not imported: the help of `unmask` needs no more of the verbs.
    """
    found: dict[str, str] = {}
    for module in set(VERBS.values()):
        _, _, file = module.rpartition(".")
        source = Path(__file__).with_name(f"{file}.py").read_text(encoding="utf-8")
        for statement in ast.parse(source).body:
            if not isinstance(statement, ast.FunctionDef):
                continue
            docstring = ast.get_docstring(statement)
            if docstring is not None:  # an overload has none
                found[statement.name] = first_paragraph(docstring)
    return {name: found[name] for name in VERBS}


class Unanswered(NamedTuple):
    """A text of a file that has no answer: its number from 1, the text, and why."""

    item: int
    text: str
    reason: str


class OneOrMany(Protocol[Answer, Options]):
    """A function of a text that also takes a list of texts, or a file of them; `each` gives the
    answers of many one by one.
    """

    each: Callable[..., Iterator[Any]]
    rows: Callable[..., Iterator[Any]]
    of_text: Callable[..., Iterator[Any]]

    @overload
    def __call__(self, text: str, *args: Options.args, **options: Options.kwargs) -> Answer: ...
    @overload
    def __call__(
        self,
        text: list[str] | tuple[str, ...] | os.PathLike[str],
        *args: Options.args,
        **options: Options.kwargs,
    ) -> list[Answer]: ...


def one_or_many(
    each: Callable[Concatenate[Any, Options], Iterator[Answer]],
) -> OneOrMany[Answer, Options]:
    """The function of one text, of a list of them, or of a file (a `Path`), whose answers
    `each` gives one by one.

    `each` gets a list. It checks everything before its first answer, and writes the files of an
    answer before the next one. The function has three other forms, which give answers one by
    one:

    each      of the same texts
    rows      of a file; a text that cannot be answered, or is empty, has an `Unanswered` in its
              place
    of_text   the one answer of a text, also if it looks like the name of a file
    """
    first = next(iter(signature(each).parameters))
    answers_of: Callable[..., Iterator[Answer]] = each

    def answered(texts: Any, rest: tuple[Any, ...], options: dict[str, Any]) -> Iterator[Answer]:
        """The answers of one text, of a list, or of the texts of a file that are not empty."""
        if isinstance(texts, os.PathLike):
            path, located = _read(texts, first)
            full = [(number, text) for number, text in located if text]
            yield from _numbered(
                answers_of([text for _, text in full], *rest, **options), full, path
            )
        elif isinstance(texts, str):
            refuse_file_name(texts, f"Path({shown(texts)})", f"[{shown(texts)}]")
            yield from answers_of([texts], *rest, **options)
        else:
            yield from _numbered(answers_of(texts, *rest, **options))

    def split(args: tuple[Any, ...], options: dict[str, Any]) -> tuple[Any, tuple[Any, ...]]:
        """The texts, none if the call has none, and the other arguments by place."""
        if args:
            return args[0], args[1:]
        return options.pop(first, ()), ()

    @wraps(each)
    def function(*args: Any, **options: Any) -> Answer | list[Answer]:
        texts, rest = split(args, options)
        answers = answered(texts, rest, options)
        if isinstance(texts, str):
            (answer,) = answers
            return answer
        return list(answers)

    @wraps(each)
    def one_by_one(*args: Any, **options: Any) -> Iterator[Answer]:
        texts, rest = split(args, options)
        return answered(texts, rest, options)

    def of_text(text: str, **options: Any) -> Iterator[Answer]:
        return answers_of([text], **options)

    def rows(file: os.PathLike[str], **options: Any) -> Iterator[Answer | Unanswered]:
        path, located = _read(file, first)
        reasons = {number: EMPTY for number, text in located if not text}
        full = [(number, text) for number, text in located if text]
        answers = _numbered(answers_of([text for _, text in full], **options), full, path)
        try:
            waiting = [next(answers)]
        except BadTexts as error:
            if len(error.reasons) == len(full):
                raise
            reasons |= {full[place][0]: reason for place, reason in error.reasons.items()}
            full = [one for place, one in enumerate(full) if place not in error.reasons]
            answers, waiting = (
                _numbered(answers_of([text for _, text in full], **options), full, path),
                [],
            )
        for number, text in located:
            if number in reasons:
                yield Unanswered(number, text, reasons[number])
            else:
                yield waiting.pop() if waiting else next(answers)
        yield from answers  # none is left: what `each` does after its last answer

    function.__signature__ = signature_of_many(signature(each))  # type: ignore[attr-defined]
    function.each = one_by_one  # type: ignore[attr-defined]
    function.rows = rows  # type: ignore[attr-defined]
    function.of_text = of_text  # type: ignore[attr-defined]
    return cast(OneOrMany[Answer, Options], function)


def _read(file: os.PathLike[str], name: str) -> tuple[Path, list[tuple[int, str]]]:
    """The path of a file of texts, and all its texts with their numbers; raises if there is
    none.
    """
    path = user_path(file, name)
    located = list(located_texts(path))
    if not any(text for _, text in located):
        raise InputError(f"{source_name(path)!r} has no text: give one text per line")
    return path, located


def _numbered(
    answers: Iterator[Answer], texts: Sequence[tuple[int, str]] = (), path: Path | None = None
) -> Iterator[Answer]:
    """The answers with the numbers of their texts; an error about texts of a file names the
    first one's place.

    texts   of a file: the number of each text, and the text
    """
    try:
        for place, answer in enumerate(answers):
            number = texts[place][0] if texts else place + 1
            object.__setattr__(answer, "item", number)  # results are frozen
            yield answer
    except BadTexts as error:
        if path is None:
            raise
        place, reason = next(iter(error.reasons.items()))
        raise BadTexts(f"{place_name(path, texts[place][0])}: {reason}", error.reasons) from None
