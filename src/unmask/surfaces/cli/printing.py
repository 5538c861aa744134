"""Calls a verb with the arguments that were typed, and prints the result by what it states.

Results go to standard output, everything else (progress, what was left out, where files are) to
standard error. A function that returns 1 says that a part of the work failed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from functools import partial
from inspect import signature
from operator import attrgetter
from pathlib import Path
from typing import Any

import unmask
from unmask.common.border.declarations import hints
from unmask.common.border.options import options as options_of
from unmask.common.border.values import accepted
from unmask.common.checks import shown
from unmask.common.errors import InputError, NameWriter, argument_name, in_python, written_by
from unmask.common.files import output_file, user_path
from unmask.common.results import Result
from unmask.runs.file_names import IS_NAMED, file_name, refuse_file_name
from unmask.runs.lines import EMPTY
from unmask.runs.unpacking import STANDARD_INPUT
from unmask.surfaces.cli import process, terminal
from unmask.surfaces.cli.command import writer
from unmask.surfaces.cli.show import print_heading, print_result
from unmask.verbs import Unanswered
from unmask.verbs import verb as declared_verb

TEXTS = "texts"
"""The argument of a verb that takes texts by place or from a file, and gives a row for each."""
TEMPLATE = "template"
"""The argument of a verb that draws texts."""
START = "start"
"""The argument of a verb whose texts may start from those of a file."""


def answered(verb: str, options: dict[str, Any], show: Callable[[Any], None]) -> Any:
    """Call `unmask.<verb>`, print its result, by `show` or (with --json) as JSON, and return it."""
    json = options.pop("json", False)
    leads = process.rank() == 0
    function = attrgetter(verb)(unmask)
    reports = "progress" in signature(function).parameters
    with terminal.progress(quiet=not (leads and reports)) as report:
        if reports:
            options["progress"] = report
        result = function(**options)
    if leads and json:
        terminal.print_json(result.to_dict())
    elif leads and result is not None:
        show(result)
    return result


def _message(line: str) -> None:
    """Print a line on standard error."""
    terminal.messages().print(line)


def show_result(result: Result, write: NameWriter = in_python) -> None:
    """Print a result on standard output; of one that has lines for other programs, these, and the
    result on standard error.

    write   writes the arguments that sentences name
    """
    lines = result.stream()
    if lines is None:
        print_result(terminal.console(at_least=terminal.USUAL), result, write)
    else:
        print(lines, end="")
        print_result(terminal.messages(), result, write)


def one_result(verb: str, options: dict[str, Any]) -> int:
    """Call a verb and print its result; 1 if a part failed."""
    write = writer(options_of(attrgetter(verb)(unmask)))
    result = answered(verb, options, partial(show_result, write=write))
    if result is None:  # a server has none
        return 0
    return finished(verb, result)


def finished(verb: str, result: Result) -> int:
    """Print what was left out and where files are, on standard error; 1 if a part failed."""
    if process.rank() == 0:
        write = writer(options_of(attrgetter(verb)(unmask)))
        for notice in result.notices():
            _message(written_by(write, notice))
    if result.interrupted:
        raise KeyboardInterrupt
    return int(not result.complete)


# ---- rows ----


def rows_or_result(verb: str, options: dict[str, Any]) -> int:
    """Call a verb that writes rows in a format, and print its result, or the rows; 1 if a part
    failed.

    Rows are printed if the user names a format, and of texts in a file if no person reads them.
    With --out a folder keeps the rows, and the result is printed.
    """
    function = getattr(unmask, verb)
    kept = "out" in options
    as_json = options.get("json", False)
    names_format = "format" in options
    if names_format and as_json and not kept:
        raise InputError(
            f"and {argument_name('format')} were both given",
            argument="json",
            use=f"give one of them, or {argument_name('out')} for a file in this format",
        )
    typed = False
    piped = False
    if TEXTS in signature(function).parameters:
        texts = _source(options.pop(TEXTS, []), options)
        if isinstance(texts, Path):
            piped = not terminal.is_terminal()
        else:
            typed = True
            _refuse_empty(texts)
        options[TEXTS] = texts
    if (names_format or piped) and not kept and not as_json:
        return _printed_rows(verb, options)
    if typed and not names_format:
        for option in options_of(function):
            if option.written.typed is not None:
                options.setdefault(option.name, option.written.typed)
    return one_result(verb, options)


def _printed_rows(verb: str, options: dict[str, Any]) -> int:
    """Print the rows of a verb; 1 if a part failed.

    A verb with a `sink` gives each row as it comes.
    """
    from unmask.scoring.row_files import LineWriter, check_format

    function = getattr(unmask, verb)
    typed_format = options.pop("format", None)  # the verb itself takes it for a file only
    format = accepted("format", typed_format, hints(function)["format"]) or "jsonl"
    check_format(format, options.get("rows", ""), on_stream=True)
    write = LineWriter(terminal.rows_stream(), format)
    has_sink = "sink" in signature(function).parameters
    if has_sink:
        options["sink"] = write

    def show(result: Any) -> None:
        if not has_sink:
            for row in result.rows:
                write(row)

    return finished(verb, answered(verb, options, show))


def _refuse_empty(texts: list[str]) -> None:
    """Raise if one of the texts that were typed is empty."""
    if not all(text.strip() for text in texts):
        raise InputError(
            "a text is empty",
            use=f"give a sentence, or {argument_name('file')} with one text per line",
        )


# ---- one text, or many ----


def answers(verb: str, options: dict[str, Any]) -> int:
    """Print the answers to the texts as they are ready; JSON of many texts has a line for each.
    1 if a text has no answer.

    An answer is printed before its files are written (see `one_or_many`), so that a full disk
    costs only these.
    """
    json = options.pop("json", False)
    function = getattr(unmask, verb)
    declared = options_of(declared_verb(verb))
    name = declared[0].name  # what the verb calls a text
    words = [options.pop(name)] if name in options else []
    texts = _source(words, options)
    for output in {"figure", "save"} & options.keys():
        output_file(output, options[output], [texts])
    many = isinstance(texts, Path)
    missing: dict[int, str] = {}
    write = writer(declared)
    console = terminal.console(at_least=terminal.USUAL)
    with ExitStack() as bar:
        report = bar.enter_context(terminal.progress(quiet=many and terminal.is_terminal()))
        if isinstance(texts, Path):
            answers = function.rows(texts, progress=report, **options)
        else:
            answers = function.of_text(texts[0], progress=report, **options)
        for place, answer in enumerate(answers):
            if not many or terminal.is_terminal():
                bar.close()
            if isinstance(answer, Unanswered):
                missing[answer.item] = answer.reason
                if json:
                    row = {"item": answer.item, name: answer.text, "reason": answer.reason}
                    terminal.print_json(row, indent=None)
                elif answer.reason != EMPTY:
                    console.print(end="\n" if place else "")
                    print_heading(console, answer.text)
                    console.print(f"no answer: {answer.reason}", soft_wrap=True)
                continue
            ready = answer.to_dict()
            if json:
                terminal.print_json(ready, indent=None if many else 2)
            else:
                console.print(end="\n" if place else "")
                print_result(console, answer, write)
                finished(verb, answer)
    return _report_missing(missing, "text lacks an answer", "texts lack an answer", "text")


def _report_missing(missing: Mapping[int, str], one: str, several: str, what: str) -> int:
    """Say how many texts, or pairs, have no result, and why the first has none; 1 if one is
    more than an empty line.
    """
    if missing:
        bad = [place for place, reason in missing.items() if reason != EMPTY]
        place = next(iter(bad or missing))
        reason = missing[place]
        count = f"1 {one}" if len(bad or missing) == 1 else f"{len(bad or missing):,} {several}"
        _message(f"{count}, the first is {what} {place}: {reason}")
        return int(bool(bad))
    return 0


def _source(words: Sequence[str], options: dict[str, Any]) -> list[str] | Path:
    """The texts that were typed, by place or after --text; or the file, or standard input (-),
    that holds them.

    Takes --file and --text out of the options.
    """
    file, typed = options.pop("file", None), options.pop("text_", None)
    named = [typed] if isinstance(typed, str) else typed or []
    in_file = argument_name("file")
    by_name = argument_name("text_")
    given = [("a text", bool(words)), (in_file, file is not None), (by_name, bool(named))]
    ways = [name for name, is_given in given if is_given]
    if len(ways) != 1:
        problem = f"{' and '.join(ways)} were both given" if ways else "no text was given"
        if len(ways) == 3:
            problem = f"a text, {in_file} and {by_name} were all given"
        raise InputError(
            problem, use=f"give a text, - for standard input, or {in_file} with one text per line"
        )
    if file is not None:
        return user_path(file, "file")
    if list(words) == ["-"]:
        return STANDARD_INPUT
    for word in words:
        if word == "-":
            others = len(words) - 1
            texts = "1 text was" if others == 1 else f"{others} texts were"
            raise InputError(
                f"- is standard input, and {texts} given beside it: give one of the two"
            )
        refuse_file_name(word, argument_name("file", word), argument_name("text_", word))
    return [*words, *named]


def with_one_text(verb: str, options: dict[str, Any]) -> int:
    """Call a verb about one text, its first parameter, which may come from --file, and print its
    result.
    """
    first, *others = options_of(declared_verb(verb))
    file = options.pop("file", None)
    text = options.get(first.name)
    if file is not None and text is not None:
        raise InputError(
            f"a {first.name} and {argument_name('file')} were both given",
            use="give one of the two",
        )
    if file is not None:
        options[first.name] = user_path(file, "file")
    elif text == "-":
        options[first.name] = STANDARD_INPUT
    elif text is not None:
        refuse_file_name(text, argument_name("file", text), None, kind=first.name)
    else:
        raise InputError(f"no {first.name} was given", use=f"give one, or {argument_name('file')}")
    for option in others:
        if option.required and option.name not in options:
            missing = argument_name(option.name)
            raise InputError(f"{missing} is missing", use=f"give {missing}")
    return one_result(verb, options)


def with_template(verb: str, options: dict[str, Any]) -> int:
    """Call a verb that draws texts over a template, its first parameter, and print its result."""
    template = options.get(TEMPLATE)
    if template is not None and file_name(template) == IS_NAMED:
        use = "give a text with [MASK]"
        if START in signature(getattr(unmask, verb)).parameters:
            use = f"give {argument_name(START, template)} to start from its texts"
        raise InputError(f"the text {shown(template)} {IS_NAMED}", use=use)
    return one_result(verb, options)
