"""Calls the verb of a command with the arguments that were typed, and prints its result.

Results go to standard output. Everything else goes to standard error: progress, notices of what was
left out, and where files are. A function that returns an int returns the exit code: 1 if a part of
the work failed, otherwise 0. Under torchrun every process calls the verb, and only the first one
prints.
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
from unmask.runs.file_names import IS_NAMED, names_a_file, refuse_file_name
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


def call_and_print(verb: str, options: dict[str, Any], show: Callable[[Any], None]) -> Any:
    """Call `unmask.<verb>`, print its result with `show`, or as JSON with --json, and return it.

    Takes --json out of `options`, and gives the verb its `progress`.
    """
    as_json = options.pop("json", False)
    function = _function(verb)
    takes_progress = "progress" in signature(function).parameters
    shows_progress = takes_progress and _prints()
    with terminal.progress(quiet=not shows_progress) as report:
        if takes_progress:
            options["progress"] = report
        result = function(**options)
    if result is None or not _prints():  # a server has no result
        return result
    if as_json:
        terminal.print_json(result.to_dict())
    else:
        show(result)
    return result


def _prints() -> bool:
    """Whether this process prints: the first one of those that torchrun started."""
    return process.rank() == 0


def _function(verb: str) -> Any:
    """The public function of a verb, or of a study: `unmask.fill`, `unmask.lab.train`."""
    return attrgetter(verb)(unmask)


def _name_writer(verb: str) -> NameWriter:
    """How the command of a verb writes the arguments that messages name."""
    return writer(options_of(_function(verb)))


def _message(line: str) -> None:
    """Print a line on standard error."""
    if _prints():
        terminal.messages().print(line)


def show_result(result: Result, write: NameWriter = in_python) -> None:
    """Print a result on standard output. One that has lines for other programs (`Result.stream`)
    is printed on standard error instead, and its lines on standard output.

    write   writes the arguments that sentences name
    """
    lines_for_programs = result.stream()
    screen = terminal.console(at_least=terminal.USUAL)
    if lines_for_programs is not None:
        print(lines_for_programs, end="")
        screen = terminal.messages()
    print_result(screen, result, write)


def one_result(verb: str, options: dict[str, Any]) -> int:
    """Call a verb and print its result; 1 if a part failed."""
    show = partial(show_result, write=_name_writer(verb))
    result = call_and_print(verb, options, show)
    if result is None:  # a server has no result
        return 0
    return finished(verb, result)


def finished(verb: str, result: Result) -> int:
    """Print the notices of a result on standard error; 1 if a part failed.

    Raises KeyboardInterrupt if Ctrl-C ended the work early.
    """
    write = _name_writer(verb)
    for notice in result.notices():
        _message(written_by(write, notice))
    if result.interrupted:
        raise KeyboardInterrupt
    return int(not result.complete)


# ---- rows ----


def rows_or_result(verb: str, options: dict[str, Any]) -> int:
    """Call a verb that has rows, and print either the rows or the result; 1 if a part failed.

    Rows are printed if --format is given, or if the texts come from a file and standard output is
    not a terminal. This does not hold with --out, where a folder keeps the rows, and with --json,
    which prints the result.
    """
    function = _function(verb)
    has_out = "out" in options
    as_json = options.get("json", False)
    prints_result = has_out or as_json
    has_format = "format" in options
    if has_format and as_json and not has_out:
        raise InputError(
            f"{argument_name('json')} and {argument_name('format')} were both given",
            use=f"give one of them, or {argument_name('out')} for a file in this format",
        )
    are_in_file = False
    are_typed = False  # neither, for a verb without texts
    if TEXTS in signature(function).parameters:
        texts = _source(options.pop(TEXTS, []), options)
        are_in_file = isinstance(texts, Path)
        if isinstance(texts, list):
            are_typed = True
            _refuse_empty(texts)
        options[TEXTS] = texts
    is_piped = are_in_file and not terminal.is_terminal()
    if (has_format or is_piped) and not prints_result:
        return _printed_rows(verb, options)
    if are_typed and not has_format:
        _set_defaults_of_typed_texts(function, options)
    return one_result(verb, options)


def _set_defaults_of_typed_texts(function: Callable[..., Any], options: dict[str, Any]) -> None:
    """Add the defaults that hold for typed texts alone, such as nested rows: a declaration states
    them as `Written(typed=...)`.
    """
    for option in options_of(function):
        if option.written.typed is not None:
            options.setdefault(option.name, option.written.typed)


def _printed_rows(verb: str, options: dict[str, Any]) -> int:
    """Print the rows of a verb; 1 if a part failed.

    A verb with a `sink` writes each row to it as soon as it has the row.
    """
    from unmask.scoring.row_files import LineWriter, check_format

    function = _function(verb)
    rows_format = "jsonl"
    # The verb takes `format` only beside `out`, so it is not given to the verb, but checked here.
    if "format" in options:
        declared = hints(function)["format"]
        rows_format = accepted("format", options.pop("format"), declared)
    check_format(rows_format, options.get("rows", ""), on_stream=True)
    write = LineWriter(terminal.rows_stream(), rows_format)

    takes_sink = "sink" in signature(function).parameters
    is_first_process = _prints()

    def write_as_it_comes(row: Any) -> None:
        if is_first_process:
            write(row)

    def write_all(result: Any) -> None:
        if takes_sink:  # its rows are written, and the result has none
            return
        for row in result.rows:
            write(row)

    if takes_sink:
        options["sink"] = write_as_it_comes
    return finished(verb, call_and_print(verb, options, write_all))


def _refuse_empty(texts: list[str]) -> None:
    """Raise if one of the texts that were typed is empty."""
    if not all(text.strip() for text in texts):
        raise InputError(
            "a text is empty",
            use=f"give a sentence, or {argument_name('file')} with one text per line",
        )


# ---- one text, or many ----


def answers(verb: str, options: dict[str, Any]) -> int:
    """Print the answer to each text as soon as it is ready; 1 if a text that is not empty has no
    answer, or a part of one failed.

    With --json the answer to one text is indented, and the answers to a file have one line each.

    The verb gives its answers one by one, and writes the files of an answer when it is asked for
    the next: an answer is printed before its files are written, so that a full disk costs only the
    files.
    """
    as_json = options.pop("json", False)
    function = _function(verb)
    declared = options_of(declared_verb(verb))
    text_name = declared[0].name  # what the verb calls a text
    by_place = []
    if text_name in options:
        by_place = [options.pop(text_name)]
    texts = _source(by_place, options)
    for output in ("figure", "save"):
        if output in options:  # refused now if it cannot be written
            output_file(output, options[output], reads=[texts])  # texts may be a file, or a list
    is_file = isinstance(texts, Path)
    if as_json:
        indent = None if is_file else 2
        show = partial(_print_answer_as_json, text_name=text_name, indent=indent)
    else:
        console = terminal.console(at_least=terminal.USUAL)
        show = partial(_print_answer, console, write=writer(declared))
    reasons: dict[int, str] = {}  # of the texts without an answer, by their numbers
    code = 0
    n_printed = 0
    with ExitStack() as bar:  # a stack, so that the bar can go before the block ends
        # On a terminal, a bar would be drawn while the answers of a file are printed.
        bar_would_disturb = is_file and terminal.is_terminal()
        quiet = bar_would_disturb or not _prints()
        report = bar.enter_context(terminal.progress(quiet=quiet))
        if isinstance(texts, Path):
            found = function.rows(texts, progress=report, **options)
        else:
            found = function.of_text(texts[0], progress=report, **options)
        for answer in found:
            if not is_file:
                bar.close()  # the one answer is printed after the bar has gone
            if _is_printed(answer, as_json):
                if n_printed > 0 and not as_json:
                    console.print()
                show(answer)
                n_printed += 1
            # After the answer: notices follow it.
            if isinstance(answer, Unanswered):
                reasons[answer.item] = answer.reason
            else:
                code = max(code, finished(verb, answer))
    return max(code, _report_unanswered(reasons))


def _is_printed(answer: Result | Unanswered, as_json: bool) -> bool:
    """Whether an answer is printed: an empty line of a file has one in JSON alone."""
    if not _prints():
        return False
    is_empty = isinstance(answer, Unanswered) and answer.reason == EMPTY
    return as_json or not is_empty


def _print_answer(console: Console, answer: Result | Unanswered, write: NameWriter) -> None:
    """Print an answer, or a text and why it has none.

    write   writes the arguments that sentences name
    """
    if isinstance(answer, Unanswered):
        print_heading(console, answer.text)
        console.print(f"no answer: {answer.reason}", soft_wrap=True)
    else:
        print_result(console, answer, write)


def _print_answer_as_json(answer: Result | Unanswered, text_name: str, indent: int | None) -> None:
    """Print an answer, or a text and why it has none, as JSON.

    text_name   the key of a text that has no answer
    indent      of the lines of an answer; None prints it in one line
    """
    if isinstance(answer, Unanswered):
        row = {"item": answer.item, text_name: answer.text, "reason": answer.reason}
        terminal.print_json(row, indent=None)
    else:
        terminal.print_json(answer.to_dict(), indent=indent)


def _report_unanswered(reasons: Mapping[int, str]) -> int:
    """Print how many texts have no answer, and the reason of the first; 1 if any of them failed.

    An empty line of a file did not fail. Empty lines are counted only if no other text lacks an
    answer.

    reasons   of the texts without an answer, by their numbers
    """
    if not reasons:
        return 0
    failed = {number: reason for number, reason in reasons.items() if reason != EMPTY}
    counted = reasons
    code = 0
    if failed:
        counted = failed
        code = 1
    count = "1 text lacks an answer"
    if len(counted) > 1:
        count = f"{len(counted):,} texts lack an answer"
    first = min(counted)
    _message(f"{count}, the first is text {first}: {counted[first]}")
    return code


def _source(by_place: Sequence[str], options: dict[str, Any]) -> list[str] | Path:
    """The texts that were typed, or the file that holds them; `-` is standard input.

    Takes --file and --text out of `options`. Raises InputError unless the texts come in exactly one
    way: by place, after --file, or after --text.

    by_place   the texts that stand by place on the command line
    """
    file = options.pop("file", None)
    after_text = options.pop("text_", None)  # of --text: one text, or a list, or None
    if after_text is None:
        after_text = []
    elif isinstance(after_text, str):
        after_text = [after_text]
    ways = []
    if by_place:
        ways.append("a text")
    if file is not None:
        ways.append(argument_name("file"))
    if after_text:
        ways.append(argument_name("text_"))
    if len(ways) != 1:
        raise _not_one_source(ways)
    if file is not None:
        return user_path(file, "file")
    if after_text:
        return [*after_text]  # texts, even if they look like names of files
    if list(by_place) == ["-"]:
        return STANDARD_INPUT
    if set(by_place) == {"-"}:
        raise InputError("- is standard input, and was given more than once: give it once")
    for text in by_place:
        if text == "-":
            others = len(by_place) - 1
            texts = "1 text was" if others == 1 else f"{others} texts were"
            raise InputError(
                f"- is standard input, and {texts} given beside it: give one of the two"
            )
        refuse_file_name(
            text, file=argument_name("file", text), as_text=argument_name("text_", text)
        )
    return [*by_place]


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

    The text is the verb's first parameter. It is typed by place or comes from --file, which stands
    for the first place.
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
        in_file = argument_name("file", text)
        refuse_file_name(text, file=in_file, as_text=None, kind=first.name)
    else:
        raise InputError(f"no {first.name} was given", use=f"give one, or {argument_name('file')}")
    # Beside --file the parser requires none of the places, so they are checked here.
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
    if template is not None and names_a_file(template):
        use = "give a text with [MASK]"
        if START in signature(_function(verb)).parameters:
            use = f"give {argument_name(START, template)} to start from its texts"
        raise InputError(f"the text {shown(template)} {IS_NAMED}", use=use)
    return one_result(verb, options)
