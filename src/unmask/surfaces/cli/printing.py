"""Calls the verb of a command with the arguments that were typed, and prints its result.

Results go to standard output. Everything else goes to standard error: progress, notices of what was
left out, and where files are. A function that returns an int returns the exit code: 1 if a part of
the work failed, otherwise 0.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from functools import partial
from inspect import signature
from operator import attrgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any

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

if TYPE_CHECKING:
    from rich.console import Console

TEXTS = "texts"
"""The parameter of a verb that takes texts by place or from a file, and returns a row for each."""
TEMPLATE = "template"
"""The parameter of a verb that draws texts."""
START = "start"
"""The parameter of a verb that may start from the texts of a file."""


def answered(verb: str, options: dict[str, Any], show: Callable[[Any], None]) -> Any:
    """Call `unmask.<verb>`, print its result with `show`, or as JSON with --json, and return it.

    Takes --json out of `options`. Under torchrun only the first process prints.
    """
    as_json = options.pop("json", False)
    prints = process.rank() == 0
    function = _function(verb)
    takes_progress = "progress" in signature(function).parameters
    shows_progress = prints and takes_progress
    with terminal.progress(quiet=not shows_progress) as report:
        if takes_progress:
            options["progress"] = report
        result = function(**options)
    if prints:
        if as_json:
            terminal.print_json(result.to_dict())
        elif result is not None:
            show(result)
    return result


def _function(verb: str) -> Any:
    """The public function of a verb, or of a study: `unmask.fill`, `unmask.lab.train`."""
    return attrgetter(verb)(unmask)


def _name_writer(verb: str) -> NameWriter:
    """How the command of a verb writes the arguments that messages name."""
    return writer(options_of(_function(verb)))


def _message(line: str) -> None:
    """Print a line on standard error."""
    terminal.messages().print(line)


def show_result(result: Result, write: NameWriter = in_python) -> None:
    """Print a result on standard output.

    If the result has lines for other programs (`Result.stream`), these go to standard output, and
    the result goes to standard error.

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
    show = partial(show_result, write=_name_writer(verb))
    result = answered(verb, options, show)
    if result is None:  # a server has no result
        return 0
    return finished(verb, result)


def finished(verb: str, result: Result) -> int:
    """Print the notices of a result on standard error; 1 if a part failed.

    Raises KeyboardInterrupt if Ctrl-C ended the work early.
    """
    if process.rank() == 0:
        write = _name_writer(verb)
        for notice in result.notices():
            _message(written_by(write, notice))
    if result.interrupted:
        raise KeyboardInterrupt
    return int(not result.complete)


# ---- rows ----


def rows_or_result(verb: str, options: dict[str, Any]) -> int:
    """Call a verb that has rows, and print either the rows or the result; 1 if a part failed.

    Rows are printed if --format is given. They are also printed if the texts come from a file and
    standard output is not a terminal. With --out a folder keeps the rows, and the result is
    printed. With --json alone the result is printed as JSON.
    """
    function = _function(verb)
    has_out = "out" in options
    as_json = options.get("json", False)
    names_format = "format" in options
    if names_format and as_json and not has_out:
        raise InputError(
            f"and {argument_name('format')} were both given",
            argument="json",
            use=f"give one of them, or {argument_name('out')} for a file in this format",
        )
    from_file = False
    from_words = False  # the texts themselves stand on the command line
    if TEXTS in signature(function).parameters:
        texts = _source(options.pop(TEXTS, []), options)
        if isinstance(texts, Path):
            from_file = True
        else:
            from_words = True
            _refuse_empty(texts)
        options[TEXTS] = texts
    wants_rows = names_format or (from_file and not terminal.is_terminal())
    if wants_rows and not has_out and not as_json:
        return _printed_rows(verb, options)
    if from_words and not names_format:
        _set_defaults_of_typed_texts(function, options)
    return one_result(verb, options)


def _set_defaults_of_typed_texts(function: Callable[..., Any], options: dict[str, Any]) -> None:
    """Add the defaults that hold for typed texts alone (`Written.typed`), such as nested rows."""
    for option in options_of(function):
        if option.written.typed is not None:
            options.setdefault(option.name, option.written.typed)


def _printed_rows(verb: str, options: dict[str, Any]) -> int:
    """Print the rows of a verb; 1 if a part failed.

    A verb with a `sink` writes each row to it as soon as it has the row.
    """
    from unmask.scoring.row_files import LineWriter, check_format

    function = _function(verb)
    typed_format = options.pop("format", None)  # the verb takes a format only beside `out`
    format = accepted("format", typed_format, hints(function)["format"])
    if format is None:
        format = "jsonl"
    check_format(format, options.get("rows", ""), on_stream=True)
    write = LineWriter(terminal.rows_stream(), format)
    has_sink = "sink" in signature(function).parameters
    if has_sink:
        options["sink"] = write

    def show(result: Any) -> None:
        if has_sink:  # the rows are printed already
            return
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
    """Print the answer to each text as soon as it is ready; 1 if a text has no answer.

    With --json the answer to one text is indented, and the answers to a file have one line each.

    An answer is printed before its files are written (see `one_or_many`), so that a full disk
    costs only the files.
    """
    as_json = options.pop("json", False)
    function = _function(verb)
    declared = options_of(declared_verb(verb))
    text_name = declared[0].name  # what the verb calls a text
    words = []
    if text_name in options:
        words = [options.pop(text_name)]
    texts = _source(words, options)
    for output in ("figure", "save"):
        if output in options:  # refused now if it cannot be written
            output_file(output, options[output], [texts])
    is_file = isinstance(texts, Path)
    write = writer(declared)
    console = terminal.console(at_least=terminal.USUAL)
    reasons: dict[int, str] = {}  # of the texts without an answer, by their numbers
    with ExitStack() as bar:
        # On a terminal, a bar would be drawn while the answers of a file are printed.
        quiet = is_file and terminal.is_terminal()
        report = bar.enter_context(terminal.progress(quiet=quiet))
        if isinstance(texts, Path):
            found = function.rows(texts, progress=report, **options)
        else:
            found = function.of_text(texts[0], progress=report, **options)
        for place, answer in enumerate(found):
            if not is_file:
                bar.close()  # the one answer is printed after the bar has gone
            if isinstance(answer, Unanswered):
                reasons[answer.item] = answer.reason
                if as_json:
                    _print_reason_as_json(answer, text_name)
                elif answer.reason != EMPTY:
                    _separate(console, place)
                    _print_reason(console, answer)
            elif as_json:
                terminal.print_json(answer.to_dict(), indent=None if is_file else 2)
            else:
                _separate(console, place)
                print_result(console, answer, write)
                finished(verb, answer)
    return _report_unanswered(reasons)


def _separate(console: Console, place: int) -> None:
    """Print an empty line between two answers.

    place   of the answer that comes next, from 0
    """
    if place > 0:
        console.print()


def _print_reason(console: Console, unanswered: Unanswered) -> None:
    """Print a text and why it has no answer."""
    print_heading(console, unanswered.text)
    console.print(f"no answer: {unanswered.reason}", soft_wrap=True)


def _print_reason_as_json(unanswered: Unanswered, text_name: str) -> None:
    """Print a text and why it has no answer, as one line of JSON.

    text_name   the key of the text
    """
    row = {"item": unanswered.item, text_name: unanswered.text, "reason": unanswered.reason}
    terminal.print_json(row, indent=None)


def _report_unanswered(reasons: Mapping[int, str]) -> int:
    """Print how many texts have no answer, and the reason of the first; 1 if any of them failed.

    An empty line of a file did not fail. Empty lines are counted only if no other text lacks an
    answer.

    reasons   of the texts without an answer, by their numbers
    """
    failed = {number: reason for number, reason in reasons.items() if reason != EMPTY}
    counted = failed or reasons
    if not counted:
        return 0
    count = "1 text lacks an answer"
    if len(counted) > 1:
        count = f"{len(counted):,} texts lack an answer"
    number, reason = next(iter(counted.items()))
    _message(f"{count}, the first is text {number}: {reason}")
    return int(bool(failed))


def _source(words: Sequence[str], options: dict[str, Any]) -> list[str] | Path:
    """The texts that were typed, or the file that holds them; `-` is standard input.

    Takes --file and --text out of `options`. Raises InputError unless the texts come in exactly one
    way: by place, after --file, or after --text.

    words   the texts by place
    """
    file = options.pop("file", None)
    after_text = options.pop("text_", None)  # what stands after --text, where a text has a place
    if isinstance(after_text, str):
        named = [after_text]
    else:
        named = after_text or []
    ways = []
    if words:
        ways.append("a text")
    if file is not None:
        ways.append(argument_name("file"))
    if named:
        ways.append(argument_name("text_"))
    if len(ways) != 1:
        raise _not_one_source(ways)
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


def _not_one_source(ways: Sequence[str]) -> InputError:
    """The error of a call without texts, or with texts in several ways."""
    if not ways:
        problem = "no text was given"
    elif len(ways) == 2:
        problem = f"{ways[0]} and {ways[1]} were both given"
    else:
        problem = f"{ways[0]}, {ways[1]} and {ways[2]} were all given"
    in_file = argument_name("file")
    return InputError(
        problem, use=f"give a text, - for standard input, or {in_file} with one text per line"
    )


def with_one_text(verb: str, options: dict[str, Any]) -> int:
    """Call a verb about one text, and print its result; 1 if a part failed.

    The text is the verb's first parameter. It is typed by place or comes from --file.
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
    """Call a verb that draws texts over a template, and print its result; 1 if a part failed.

    Raises InputError if the template, the verb's first parameter, is the name of a file.
    """
    template = options.get(TEMPLATE)
    if template is not None and file_name(template) == IS_NAMED:  # a file of this name exists
        use = "give a text with [MASK]"
        if START in signature(_function(verb)).parameters:
            use = f"give {argument_name(START, template)} to start from its texts"
        raise InputError(f"the text {shown(template)} {IS_NAMED}", use=use)
    return one_result(verb, options)
