"""The verbs: the public functions, and types of arguments that several of them have.

A signature is the only declaration of a verb (`unmask.signature`). The files load nothing heavy before a function runs.
The stub `unmask/__init__.pyi` lists the verbs with all other public names; `lab` has commands of its own.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import wraps
from importlib import import_module
from inspect import Parameter, signature
from typing import Annotated, Any, Concatenate, ParamSpec, Protocol, TypeVar, cast, overload

from annotated_types import Interval

import unmask
from unmask.errors import InputError
from unmask.signature import Written

VERBS = {name: home for name, home in sorted(unmask._HOMES.items()) if home.startswith(f"{__name__}.")}
"""The module of each verb, by name."""
PathLike = str | os.PathLike[str]
Texts = str | Sequence[str]
TOKENS = (
    "The only tokens that may stand in a blank: letters such as ACDEFGHIKLMNPQRSTVWY, words with commas, or a file of either."
)
Alphabet = Annotated[str | os.PathLike[str] | Sequence[str] | None, Written(metavar="TOKENS", help=TOKENS)]
Joint = Annotated[str, Written(metavar="NAME", short="-j", help="How the joint is derived: a construction of `fill`.")]
Seed = Annotated[int, Interval(ge=0, le=2**63 - 1), Written(help="Seed of all random choices.")]
OUT = "Folder of the run; the same command continues a run that was stopped. Left out, the result is in memory only."
Out = Annotated[PathLike | None, Written(help=OUT)]
WORKERS = "local, ray (a cluster: a worker per GPU, or per two CPUs), or ray:4 with another number of workers."
Engine = Annotated[str, Written(metavar="local|ray|ray:N", help=WORKERS)]
LIMITS = "Go on beyond 200,000 passes, a billion cells of a joint, or five million mutants."
Force = Annotated[bool, Written(help=LIMITS)]

Options = ParamSpec("Options")
Answer = TypeVar("Answer")


def verb(name: str) -> Callable[..., Any]:
    """The function of this name."""
    function: Callable[..., Any] = getattr(import_module(VERBS[name]), name)
    return function


def refuse_given(declared: Callable[..., Any], values: Mapping[str, Any], names: Iterable[str], by: str) -> None:
    """Raise for the first of these arguments that has not its default: `by` does not use it."""
    for name in names:
        default = signature(declared).parameters[name].default
        if values[name] is not default and values[name] != default:
            raise InputError(f"{name} was given, which {by} does not use: leave it out")


class OneOrMany(Protocol[Options, Answer]):
    """A function of a text that also takes a list of texts; `each` gives the answers of a list one by one."""

    each: Callable[..., Iterator[Any]]

    @overload
    def __call__(self, text: None = None, *args: Options.args, **options: Options.kwargs) -> Answer: ...
    @overload
    def __call__(self, text: str, *args: Options.args, **options: Options.kwargs) -> Answer: ...
    @overload
    def __call__(self, text: list[str] | tuple[str, ...], *args: Options.args, **options: Options.kwargs) -> list[Answer]: ...


def one_or_many(each: Callable[Concatenate[Any, Options], Iterator[Answer]]) -> OneOrMany[Options, Answer]:
    """The function of one text, or of a list of them, whose answers `each` gives one by one.

    `each` gets a list. It checks everything before its first answer, and writes the files of an answer before the next one.
    """
    first, parameter = next(iter(signature(each).parameters.items()))
    left_out = () if parameter.default is Parameter.empty else parameter.default

    @wraps(each)
    def function(*args: Any, **options: Any) -> Answer | list[Answer]:
        from unmask.runs.lines import refuse_file_name

        text, rest = (args[0], args[1:]) if args else (options.pop(first, left_out), ())
        if isinstance(text, str):
            refuse_file_name(text, "give the texts in it, as a list")
        if text is None or isinstance(text, str):
            (answer,) = each(text if text is None else [text], *rest, **options)
            return answer
        return list(each(text, *rest, **options))

    function.each = each  # type: ignore[attr-defined]
    return cast(OneOrMany[Options, Answer], function)
