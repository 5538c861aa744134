"""Functions named like the verbs: each calls `unmask.<verb>` with the arguments that were
typed, and prints what it returns.

Results go to standard output, everything else (progress, what was left out, where files are) to
standard error. A function that returns 1 says that a part of the work failed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from inspect import signature
from operator import attrgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import unmask
from unmask.common.border.declarations import hints
from unmask.common.border.options import options as options_of
from unmask.common.border.values import accepted
from unmask.common.checks import shown
from unmask.common.errors import InputError, argument_name, written_by
from unmask.common.files import output_file, user_path
from unmask.common.formats import (
    nats,
    number,
)
from unmask.common.results import Result
from unmask.runs.file_names import IS_NAMED, file_name, refuse_file_name
from unmask.runs.lines import EMPTY
from unmask.runs.unpacking import STANDARD_INPUT
from unmask.surfaces.cli import process, terminal
from unmask.surfaces.cli.command import writer
from unmask.surfaces.cli.show import print_heading, print_result
from unmask.surfaces.cli.terminal import (
    print_table,
)
from unmask.verbs import Unanswered

if TYPE_CHECKING:
    from rich.console import Console

SHOWN = 5
"""Texts printed at the end of a run."""
TEXTS = "texts"
"""The argument of a verb that takes texts by place or from a file, and gives a row for each."""


def answered(verb: str, options: dict[str, Any], show: Callable[[Any], None]) -> Any:
    """Call `unmask.<verb>`, print its result, by `show` or (with --json) as JSON, and return it."""
    json, leads = options.pop("json", False), process.rank() == 0
    with terminal.progress(quiet=not leads) as report:
        function = attrgetter(verb)(unmask)
        if "progress" in signature(function).parameters:
            options["progress"] = report
        result = function(**options)
    if leads and json:
        terminal.print_json(result.to_dict())
    elif leads:
        show(result)
    return result


def _message(line: str) -> None:
    """Print a line on standard error."""
    terminal.messages().print(line)


def show_result(result: Result) -> None:
    """Print a result on standard output."""
    print_result(terminal.console(at_least=terminal.USUAL), result)


def one_result(verb: str, options: dict[str, Any]) -> int:
    """Call a verb that no function below calls, and print its result; 1 if a part failed."""
    return finished(verb, answered(verb, options, show_result))


def finished(verb: str, result: Result) -> int:
    """Print what was left out and where files are, on standard error; 1 if a part failed."""
    if process.rank() == 0:
        write = writer(options_of(attrgetter(verb)(unmask)))
        for notice in result.notices():
            _message(written_by(write, notice))
    return int(not result.complete)


# ---- rows ----


def rows_or_result(verb: str, options: dict[str, Any]) -> int:
    """Call a verb that writes rows in a format, and print its result, or the rows; 1 if a part
    failed.

    Rows are printed if the user names a format, and of texts in a file if no person reads them;
    those that a folder keeps are not.
    """
    function = getattr(unmask, verb)
    format = options.pop("format", None)
    kept = "out" in options
    typed = False
    as_lines = False
    if TEXTS in signature(function).parameters:
        source = _source(options.pop(TEXTS, []), options)
        typed = isinstance(source, list)
        as_lines = not typed and not terminal.is_terminal()
        options[TEXTS] = _not_empty(source) if isinstance(source, list) else source
    if format is not None and kept:
        options["format"] = format
    elif format is not None and options.get("json"):
        raise InputError(
            f"and {argument_name('format')} were both given",
            argument="json",
            use=f"give one of them, or {argument_name('out')} for a file in this format",
        )
    prints_rows = (as_lines or format is not None) and not (kept or options.get("json"))
    if prints_rows:
        return _printed_rows(verb, options, format)
    if typed and format is None:
        for option in options_of(function):
            if option.written.typed is not None:
                options.setdefault(option.name, option.written.typed)
    return one_result(verb, options)


def _printed_rows(verb: str, options: dict[str, Any], format: str | None) -> int:
    """Print the rows of a verb, as they come if it says when; 1 if a part failed."""
    from unmask.scoring.row_files import LineWriter, check_format

    function = getattr(unmask, verb)
    written_as = accepted("format", format, hints(function)["format"]) or "jsonl"
    check_format(written_as, options.get("rows", ""), on_stream=True)
    write = LineWriter(terminal.rows_stream(), written_as)
    comes = "sink" in signature(function).parameters
    if comes:
        options["sink"] = write

    def show(result: Any) -> None:
        if not comes:
            for row in result.rows:
                write(row)

    return finished(verb, answered(verb, options, show))


def _not_empty(texts: list[str]) -> list[str]:
    """The texts that were typed; raises if one is empty."""
    if not all(text.strip() for text in texts):
        raise InputError(
            "a text is empty",
            use=f"give a sentence, or {argument_name('file')} with one text per line",
        )
    return texts


# ---- one text, or many: fill, compare, dependence, mutants ----


def show_answer(answer: Result, console: Console) -> None:
    """Print one of several results."""
    print_result(console, answer)
    for notice in answer.notices():
        _message(notice)


def answers(verb: str, show: Callable[[Any, Console], None], options: dict[str, Any]) -> int:
    """Print the answers to the texts as they are ready; JSON of many texts has a line for each.
    1 if a text has no answer.

    An answer is printed before its files are written (see `one_or_many`), so that a full disk
    costs only these.
    """
    json = options.pop("json", False)
    name = "sequence" if "sequence" in options or verb == "mutants" else "text"
    words = [options.pop(name)] if name in options else []
    texts = _source(words, options)
    for output in {"figure", "save"} & options.keys():
        output_file(output, options[output], [texts])
    many = isinstance(texts, Path)
    function, missing = getattr(unmask, verb), dict[int, str]()
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
                show(answer, console)
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


def _show_profile(profile: unmask.Profile) -> None:
    console, about = terminal.console(), profile.about
    mass = (
        f"{about['candidates']} tokens tried at a site, which hold"
        f" {about['mass_of_candidates']:.0%} of its probability"
    )
    console.print(
        f"dependence of two blanks by distance, {profile.texts:,} texts, {mass}; nats\n",
        soft_wrap=True,
    )
    rows = []
    for i in [i for i in range(len(profile.by_distance)) if i < 8 or (i + 1) & i == 0]:
        numbers = about["information"][i], about["smaller_entropy"][i], profile.by_distance[i]
        rows.append([str(i + 1), *map(nats, numbers), f"{about['pairs'][i]:,}"])
    print_table(
        console, ["information", "smaller entropy", "ratio", "pairs"], rows, first="distance"
    )
    console.print(f"\n{len(profile.by_distance)} distances in all")


def assay(options: dict[str, Any]) -> None:
    """Print which score ranks measured variants best."""
    from unmask.verbs.assay import refuse_file_of_sequence

    file = options.pop("file", None)
    if file is not None:
        if "sequence" in options:
            raise InputError(
                f"a sequence and {argument_name('file')} were both given", use="give one of the two"
            )
        options["sequence"] = user_path(file, "file")
    elif options.get("sequence") == "-":
        options["sequence"] = STANDARD_INPUT
    elif "sequence" in options:
        sequence = options["sequence"]
        refuse_file_of_sequence(sequence, argument_name("file", sequence))
    else:
        raise InputError("no sequence was given", use=f"give one, or {argument_name('file')}")
    if "measured" not in options:
        measured = argument_name("measured")
        raise InputError(f"{measured} is missing", use="give a CSV or TSV file of variants")
    answered("assay", options, show_result)


def profile(options: dict[str, Any]) -> None:
    """Measure a model's profile, and print it."""
    answered("profile", options, _show_profile)


# ---- a corpus: train, translate, serve ----


def train(options: dict[str, Any]) -> None:
    """Print where the model is, and how to continue a run that is not finished."""
    if "corpus" in options:  # on a command line a word is a file, never a text
        options["corpus"] = [user_path(word, "corpus") for word in options["corpus"]]
    run = answered("train", options, print)
    if run.status == "interrupted":
        raise KeyboardInterrupt
    if not run.finished and process.rank() == 0:
        _message(process.RESUME)


def translate(options: dict[str, Any]) -> None:
    """Print translations as JSON lines, and figures where there are references."""
    with terminal.progress() as report:
        translations = unmask.translate(**options, progress=report)
    files = [
        options.get("save"),
        Path(options["out"]) / "translations.jsonl" if "out" in options else None,
    ]
    places = [file for file in files if file is not None]
    if not places:
        print(translations.lines(), end="")
    if translations.figures is not None:
        screen = terminal.console() if places else terminal.messages()
        screen.print(str(translations.figures), soft_wrap=True)
    if places:
        _message(f"translations are in {' and '.join(map(str, places))}")


def serve(options: dict[str, Any]) -> None:
    """Serve the page until Ctrl-C."""
    unmask.serve(**options)


# ---- texts that are drawn: sample, generate, diagnose ----


def sample(options: dict[str, Any]) -> None:
    """Draw samples and print their diagnosis."""
    template = options.get("template")
    if template is not None and file_name(template) == IS_NAMED:
        raise InputError(
            f"the text {shown(template)} {IS_NAMED}",
            use=f"give {argument_name('init', template)} to start from its texts",
        )
    answered("sample", options, _show_run)


def generate(options: dict[str, Any]) -> None:
    """Draw texts by a decoder and print them with their law."""
    template = options.get("template")
    if template is not None and file_name(template) == IS_NAMED:
        raise InputError(f"the text {shown(template)} {IS_NAMED}", use="give a text with [MASK]")
    answered("generate", options, _show_generation)


def _show_generation(generation: unmask.Generation) -> None:
    """The law in a sentence, then the texts with nats and passes."""
    console = terminal.console()
    console.print(generation.law, soft_wrap=True)
    console.print("    nats  passes  text")
    for row in generation.rows:
        nats_of_text = number(row["log_prob"], ".2f")
        console.print(f"{nats_of_text:>8}  {row['passes']:6,}  {row['text']}", soft_wrap=True)
    judge = generation.judge
    if judge is not None:
        console.print(
            f"judge {judge['name']}: {number(judge['texts'])} nats per token (lower is better)"
        )
    if generation.folder is not None:
        count = len(generation.rows)
        _message(f"{count:,} texts are in {generation.folder / 'texts.parquet'}")


def diagnose(options: dict[str, Any]) -> None:
    """Print the diagnosis of a run, or a table of several runs, and say where it is kept."""
    json, folders = "json" in options, [Path(folder) for folder in options.get("run", ())]
    if len(folders) == 1:
        (options["run"],) = folders
    result = answered(
        "diagnose", options, _show_diagnosis if len(folders) == 1 else _show_diagnoses
    )
    if json:
        return
    if isinstance(result, unmask.Diagnoses):
        _message("the diagnosis of each run is in its folder, in diagnostics.json")
    else:
        _message(f"figures are in {folders[0] / 'figures'}")


def _show_diagnoses(diagnoses: unmask.Diagnoses) -> None:
    """A table with one row per run, and what to know of each."""
    frame, console = diagnoses.to_frame(), terminal.console(at_least=terminal.USUAL)
    columns = {
        "passes": ",.0f",
        "acceptance": ".1%",
        "novelty": ".1%",
        "r_hat": ".3f",
        "ess_bulk": ",.0f",
    }
    columns |= {"ess_per_1000_passes": ",.2f", "unique": ".1%", "judge": ".3f"}
    heads = [
        "passes",
        "accepted",
        "changed",
        "R-hat",
        "ESS",
        "ESS per\n1000 passes",
        "unique",
        "judge",
    ]
    if diagnoses.runs[0].judge is None:
        del columns["judge"], heads[-1]
    rows = [
        [
            f"{row['run']} ({row['kernel']})",
            *(number(float(row[name]), digits) for name, digits in columns.items()),
        ]
        for row in frame.to_dict("records")
    ]
    print_table(console, heads, rows, first="run")
    for name, diagnosis in zip(diagnoses.names, diagnoses.runs, strict=True):
        print_heading(console, name)
        for sentence in diagnosis.verdict:
            console.print(f"- {sentence}")


def _show_run(run: unmask.SampleRun) -> None:
    _show_diagnosis(run.diagnosis)
    console = terminal.console()
    console.print("  energy  text")
    for row in run.last.head(SHOWN).itertuples():
        console.print(f"{row.energy:8.2f}  {row.text}", soft_wrap=True)
    if run.folder is None:
        _message(
            f"{len(run.samples):,} samples were drawn and none is kept: give --out FOLDER to keep"
            " them"
        )
    else:
        samples = f"{len(run.samples):,} samples are in {run.folder / 'samples.parquet'}"
        _message(f"{samples}, figures in {run.folder / 'figures'}")


def _show_diagnosis(diagnosis: unmask.Diagnosis) -> None:
    """Tables and the verdict."""
    console = terminal.console()
    per_step = number(float(diagnosis.passes_per_step), ",.2f")
    rates = [
        f"{diagnosis.chains} chains of {diagnosis.draws} draws, {diagnosis.passes:,} passes",
        f"{per_step} per step; accepted {diagnosis.acceptance:.1%}, changed"
        f" {diagnosis.novelty:.1%}",
    ]
    if diagnosis.scoring_passes:
        rates.append(f"{diagnosis.scoring_passes:,} more to score the samples")
    console.print("; ".join(rates))
    columns = {
        "mean": 2,
        "sd": 2,
        "r_hat": 3,
        "ess_bulk": 0,
        "ess_tail": 0,
        "ess_per_1000_passes": 2,
    }
    rows = []
    for f in diagnosis.functionals:
        cells = [
            number(float(getattr(f, name)), f",.{digits}f") for name, digits in columns.items()
        ]
        rows.append([f"{f.length}, {f.name}", *cells])
    heads = ["mean", "sd", "R-hat", "ESS bulk", "ESS tail", "ESS per\n1000 passes"]
    print_table(console, heads, rows, first="tokens, functional")
    console.print(
        f"unique texts {diagnosis.unique:.1%}, equal neighbours {number(diagnosis.stutter, '.1%')}"
    )
    if (judge := diagnosis.judge) is not None:
        texts = f"{number(judge['samples'])} nats per token for the last texts"
        starts = "" if judge["starts"] is None else f", {number(judge['starts'])} for their starts"
        console.print(f"judge {judge['name']}: {texts}{starts} (lower is better)")
    for sentence in diagnosis.verdict:
        console.print(f"- {sentence}")
