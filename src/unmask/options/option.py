"""One row per option, and the table of a verb's options.

    @dataclass(frozen=True)
    class Fill(Options):
        top: int = option(10, Whole(1, MOST_SHOWN), "How many completions to show.", "-t")

`Fill.given(locals())`, the first line of `unmask.fill`, checks what was given and returns it as an object; `unmask fill` is built
from the same rows.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field, fields, replace
from functools import cache, partial
from inspect import Parameter, cleandoc
from textwrap import fill
from types import MappingProxyType
from typing import Any, ClassVar, Self, TypeVar

from unmask.checks import one_of
from unmask.errors import InputError
from unmask.options.kinds import Flag, Kind

Function = TypeVar("Function", bound=Callable[..., Any])
DEFAULT = object()
"""Stands for the default itself."""
MODEL, OUTPUT = "Model", "Output"
"""The last groups of a help."""
FLAG = re.compile(r"(?<![\w-])--([a-z][a-z-]*)")
WHERE = re.compile(r"^Arguments: help\(unmask\.\w+\)\n*", re.MULTILINE)
"""What the source says for readers of the source alone."""
FEW_METHODS = 3
"""Methods whose options a help shows all together, each with its readers."""


@dataclass(frozen=True)
class Row:
    """One option.

    default        what the verb uses where the option is left out
    kind           see `kinds`
    help           for readers of the command line and of Python
    short          its one-letter name
    group          the heading that it has in the help
    otherwise      what happens where it is left out, in words; the default itself if empty
    left_out       what Python's signature says: the default, or None, which becomes the default
    required       by whom: "python", "command", "both", or nobody ("")
    argument       on the command line it has no name, only a place
    command_only   Python has no such argument
    metavar        its value's name in the help; by default that of the kind, or of the argument
    command        what else the command line takes, for its help
    python         what else Python takes, for its documentation; of one that Python does not have, what to do there
    """

    default: Any
    kind: Kind
    help: str
    short: str = ""
    group: str = ""
    otherwise: str = ""
    left_out: Any = DEFAULT
    required: str = ""
    argument: bool = False
    command_only: bool = False
    metavar: str = ""
    command: str = ""
    python: str = ""
    name: str = ""

    @property
    def flags(self) -> list[str]:
        """Its names on the command line; a yes or no that is not No by default can be denied."""
        if self.argument:
            return []
        long = f"--{self.name.replace('_', '-')}"
        deniable = isinstance(self.kind, Flag) and self.default is not False
        return [f"{long}/--no-{long[2:]}" if deniable else long, *([self.short] if self.short else [])]

    @property
    def shown_default(self) -> str:
        """What happens where it is left out; empty where that is nothing."""
        if self.otherwise or self.required or self.default is None or self.default is False or self.default in ((), ""):
            return self.otherwise
        if self.default is True:
            return "yes"
        return ",".join(f"{x:g}" for x in self.default) if isinstance(self.default, tuple) else str(self.default)

    def command_help(self) -> str:
        """The help on the command line, without default and readers."""
        said = self.kind.says(self.help)
        said = f"{said.removesuffix('.')}; {self.kind.written}." if self.kind.written and not self.argument else said
        return f"{said} {self.command}" if self.command else said


def option(default: object, kind: Kind, help: str, short: str = "", **more: Any) -> Any:
    """A field of a table; `more` is what else a `Row` has."""
    return field(default=default, metadata={"row": Row(default, kind, help, short, **more)})  # type: ignore[call-overload]


def grouped(group: str) -> Callable[..., Any]:
    """`option` for the rows of a group."""
    return partial(option, group=group)


model_row, output_row = grouped(MODEL), grouped(OUTPUT)


def like(table: type[Options], name: str, **changes: Any) -> Any:
    """The row that another table has under this name, with `changes`; without a default of its own."""
    row = table.declaration(name)
    changed = replace(row, **{"default": None, "otherwise": row.shown_default} | changes)
    return field(default=changed.default, metadata={"row": changed})


@dataclass(frozen=True)
class Reads:
    """Which options each method reads: what a method is called, such as "kernel", and the options of each by name.

    Methods of several kinds have theirs in their names: "kernel mh", "decoder revise".

    An option that no method names is read by all.
    """

    what: str
    options: Mapping[str, Collection[str]]

    @property
    def many(self) -> bool:
        """Whether a help shows the options of one method at a time."""
        return len(self.options) > FEW_METHODS

    def users(self, option: str) -> list[str]:
        """The methods that read an option; all of them for one that is common to all."""
        return [name for name, read in self.options.items() if option in read] or list(self.options)

    def some(self, option: str) -> bool:
        """Whether some methods read it and some do not."""
        return len(self.users(option)) < len(self.options)

    def refuse_unread(self, given: Iterable[str], *chosen: str) -> None:
        """Refuse methods that are unknown, and options that no chosen method reads."""
        for name in chosen:
            one_of(self.what, name, self.options)
        for option in given:
            if not set(users := self.users(option)) & set(chosen):
                asked, others = (f"{self.what} {words}".strip() for words in (", ".join(chosen), " or ".join(users)))
                raise InputError(f"{option} was given, which {asked} does not use: leave it out, or use {others}")

    def note(self, option: str) -> str:
        """The methods that read it, for the help; empty if all do."""
        users = self.users(option)
        others = [name for name in self.options if name not in users]
        if not others:
            return ""
        few = f"all but {', '.join(others)}" if len(others) < min(4, len(users)) else ", ".join(users)
        return f" [{few.replace('decoder ', '').replace('kernel ', '')}]"


@dataclass(frozen=True)
class Fold:
    """Options that a help shows only beside one that is typed with --help: `typed`, such as "--size NAME".

    what   what they are about
    """

    typed: str
    what: str
    names: tuple[str, ...]

    def opened(self, given: Collection[str]) -> bool:
        """Whether its option is among those that were typed."""
        return self.typed.split()[0][2:].replace("-", "_") in given


@dataclass(frozen=True)
class Options:
    """The options of a verb, each checked when the object is made.

    more          what its help says after the first line
    examples      two command lines that its help ends with
    reads         which of its options only some methods read
    folds         which of its options a help shows only on demand
    python_only   arguments of the function that are no options
    """

    more: ClassVar[str] = ""
    examples: ClassVar[tuple[str, ...]] = ()
    reads: ClassVar[tuple[Reads, ...]] = ()
    folds: ClassVar[tuple[Fold, ...]] = ()
    python_only: ClassVar[Mapping[str, str]] = {"progress": "Called with (done, in all, what is counted)."}

    def __post_init__(self) -> None:
        for row in self.declared():
            value = getattr(self, row.name)
            if value is not None or row.default is not None:
                object.__setattr__(self, row.name, row.kind.check(row.name, value))

    @classmethod
    @cache
    def declared(cls) -> tuple[Row, ...]:
        """All rows: arguments, those of no group, then each group together, the model's and the output's last."""
        rows = [replace(f.metadata["row"], name=f.name) for f in fields(cls) if "row" in f.metadata]
        groups = list(dict.fromkeys(row.group for row in rows))
        places = {"": -1, MODEL: len(groups), OUTPUT: len(groups) + 1}
        return tuple(sorted(rows, key=lambda row: (not row.argument, places.get(row.group, groups.index(row.group)))))

    @classmethod
    def declaration(cls, name: str) -> Row:
        """The row of this name."""
        return next(row for row in cls.declared() if row.name == name)

    @classmethod
    def signature(cls) -> dict[str, Any]:
        """The arguments of the verb's function and their defaults, `Parameter.empty` for those that must be given."""
        found: dict[str, Any] = {}
        for row in cls.declared():
            if not row.command_only:
                some = any(reads.some(row.name) for reads in cls.reads) and not isinstance(row.kind, Flag)
                left_out = None if some else row.default if row.left_out is DEFAULT else row.left_out
                found[row.name] = Parameter.empty if row.required in ("python", "both") else left_out
        return found

    @classmethod
    def chosen(cls, what: str, given: Mapping[str, Any]) -> tuple[str, ...]:
        """The methods that were asked for, under the name that one of `reads` has for them."""
        return (given.get(what, getattr(cls, what, "")),)

    @classmethod
    def readers(cls, option: str, few: bool = False) -> str:
        """The methods that read an option, for the help; empty if all do. With `few`, only where methods are few."""
        return "".join(reads.note(option) for reads in cls.reads if not (few and reads.many))

    @classmethod
    def on_screen(cls, given: Mapping[str, Any]) -> tuple[list[Row], list[str]]:
        """The rows that a help shows where these options stand beside --help, and lines that say what it leaves out.

        Where there are many methods: the rows that all of them read, or, of methods that are named, those that only some read.
        The rows of a fold that is opened, or those of none.
        """
        shown, lines = list(cls.declared()), []
        for reads in [reads for reads in cls.reads if reads.many]:
            kinds = [reads.what] if reads.what else list(dict.fromkeys(name.split()[0] for name in reads.options))
            if not any(kind in given for kind in kinds):
                shown = [row for row in shown if not reads.some(row.name)]
                lines.append(
                    f"Options of a single {' or '.join(kinds)}: add {' or '.join(f'--{k} NAME' for k in kinds)} to --help."
                )
                continue
            chosen = cls.chosen(reads.what, given)
            reads.refuse_unread((), *chosen)
            shown = [row for row in shown if reads.some(row.name) and set(reads.users(row.name)) & set(chosen)]
            lines.append(
                f"These are the options that {f'{reads.what} '.lstrip()}{', '.join(chosen)} reads beside those of --help alone."
            )
        folded = [fold for fold in cls.folds if fold.opened(given)] or cls.folds
        names = {name for fold in folded for name in fold.names}
        if any(fold.opened(given) for fold in cls.folds):
            unread = {
                row.name
                for row in cls.declared()
                for r in cls.reads
                if not set(r.users(row.name)) & set(cls.chosen(r.what, given))
            }
            shown = [row for row in cls.declared() if row.name in names - unread]
            lines = [f"These are the options of {' and '.join(f.what for f in folded)}, beside those of --help alone."]
        elif folded:
            shown = [row for row in shown if row.name not in names]
            lines.append(f"More options: add {', '.join(f'{f.typed} ({f.what})' for f in folded)} to --help.")
        return shown, lines

    @classmethod
    def given(cls, arguments: Mapping[str, Any] = MappingProxyType({}), /, **more: Any) -> Self:
        """The options of a call from its arguments by name; None stands for the default where the signature says so.

        An option that the chosen method does not read is refused; names that are no options are left aside.
        """
        left_out, arguments = cls.signature(), {**arguments, **more}
        given = {name: arguments[name] for name in left_out if name in arguments}
        given = {name: value for name, value in given.items() if value is not left_out[name]}
        for reads in cls.reads:
            reads.refuse_unread(given, *cls.chosen(reads.what, given))
        return cls(**given)

    def part(self, table: type[Part], **changes: Any) -> Part:
        """The rows that another table has, as an object of it, with `changes`."""
        return table(**{row.name: getattr(self, row.name) for row in table.declared()} | changes)


Part = TypeVar("Part", bound=Options)


def documented(table: type[Options]) -> Callable[[Function], Function]:
    """Puts the arguments of a verb, from its rows, into its docstring: before the examples.

    What answers an unknown argument (`checked`) knows the names that other tools have for them.
    """

    def decorate(function: Function) -> Function:
        function.__doc__ = with_arguments(function.__doc__ or "", table)
        function.misnamed = lambda name: _misnamed(function.__name__, table, name)  # type: ignore[attr-defined]
        return function

    return decorate


def _misnamed(verb: str, table: type[Options], name: str) -> str:
    from unmask.options.elsewhere import misnamed

    return misnamed(verb, table, name, python=True)


def with_arguments(docstring: str, table: type[Options]) -> str:
    """The docstring with the arguments of its verb before the examples, instead of the line that says where they are."""
    said, found, examples = cleandoc(docstring).partition(">>> ")
    said = WHERE.sub("", said).rstrip()
    return f"{said}\n\n{argument_lines(table)}\n\n{found}{examples}".rstrip() + "\n"


def argument_lines(table: type[Options]) -> str:
    """One line per argument: its name and what it is."""
    lines = []
    for row in table.declared():
        if not row.command_only:
            said = " ".join(filter(None, [row.kind.says(row.help), row.python or row.kind.python]))
            shown = row.otherwise or ("True" if row.default is True else row.shown_default)
            default = f" [default: {shown}]" if shown else ""
            lines.append((row.name, in_python(f"{said}{table.readers(row.name)}{default}")))
    lines += table.python_only.items()
    width = max(len(name) for name, _ in lines) + 2
    return "\n".join(fill(f"{name:<{width}}{said}", 120, subsequent_indent=" " * width) for name, said in lines)


def in_python(said: str) -> str:
    """Words about options as Python writes their names; commands in backticks stay as they are."""
    return "".join(
        part if quoted % 2 else FLAG.sub(lambda flag: flag[1].replace("-", "_"), part)
        for quoted, part in enumerate(re.split("(`[^`]*`)", said))
    )
