"""Functions named like the verbs: each calls `unmask.<verb>` with the arguments that were
typed, and prints what it returns.

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
from typing import TYPE_CHECKING, Any, get_args

import unmask
from unmask.common.checks import one_of, shown
from unmask.common.errors import InputError, argument_name
from unmask.common.files import output_file, user_path
from unmask.common.formats import (
    nats,
    number,
    percent_at_least,
)
from unmask.common.results import Result
from unmask.joints.registry import label_of
from unmask.runs.lines import EMPTY, IS_NAMED, STANDARD_INPUT, file_name, refuse_file_name
from unmask.surfaces.cli import process, terminal
from unmask.surfaces.cli.show import print_heading, print_result
from unmask.surfaces.cli.terminal import (
    print_frame,
    print_names,
    print_table,
)
from unmask.verbs import Unanswered

if TYPE_CHECKING:
    from rich.console import Console

    from unmask.scoring.row_files import LineWriter

WIDEST, LISTED, SHOWN = 10, 20, 5
"""Positions whose matrix fits into 80 columns, pairs that are listed instead, texts printed at
the end of a run.
"""
BESIDE, GIVEN = 36, "* the tokens given"
"""Columns of the numbers beside a completion; a note below."""


def answered(verb: str, options: dict[str, Any], show: Callable[[Any], None]) -> Any:
    """Call `unmask.<verb>`, print its result, by `show` or (with --json) as JSON, and return it."""
    json, leads = options.pop("json", False), process.rank() == 0
    with terminal.progress(quiet=not leads) as report:
        function = attrgetter(verb)(unmask)
        if "progress" in signature(function).parameters:
            options["progress"] = report
        result = function(**options)
    if leads:
        terminal.print_json(result.to_dict()) if json else show(result)
    return result


def _message(line: str) -> None:
    """Print a line on standard error."""
    terminal.messages().print(line)


def show_result(result: Result) -> None:
    """Print a result on standard output, and its notices on standard error."""
    print_result(terminal.console(at_least=terminal.USUAL), result)
    for notice in result.notices():
        _message(notice)


def one_result(verb: str, options: dict[str, Any]) -> int:
    """Call a verb that no function below calls, and print its result; 1 if a part failed."""
    result = answered(verb, options, show_result)
    return int(not result.complete)


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


def _show_dependence(result: unmask.Dependence, console: Console) -> None:
    from unmask.verbs.blanked_texts import sizes_in_words

    names, pairs = result.names(), result.pairs()
    print_heading(console, result.text)
    beside = (
        "the other blanks masked" if result.others == "masked" else "the other tokens as they stand"
    )
    mass = (
        f"{sizes_in_words([result.candidates] * 2)} tokens hold at least"
        f" {percent_at_least(result.least_mass)} of a product joint"
    )
    console.print(
        f"mutual information of each pair (nats), {beside};\n{result.construction} joints; {mass}\n"
    )
    if len(names) <= WIDEST:
        cells = [[nats(value) for value in row] for row in result.matrix.tolist()]
        rows = [
            [name, *row[:i], "-", *row[i + 1 :]]
            for i, (name, row) in enumerate(zip(names, cells, strict=True))
        ]
        print_table(console, [*map(str, result.positions)], rows, first="token")
    else:
        rows = [[f"{names[i]} - {names[j]}", nats(value)] for i, j, value in pairs[:LISTED]]
        print_table(console, ["nats"], rows, first="pair")
        console.print(
            f"\nthe {min(LISTED, len(pairs))} strongest of {len(pairs)} pairs; --figure and --json"
            " have all"
        )


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


def _show_mutants(result: unmask.Mutants, console: Console) -> None:
    print_heading(console, result.sequence)
    console.print(
        f"{len(result):,} mutants; {result.construction} joint; {len(result.alphabet)} tokens"
        " per residue; in nats\n"
    )
    best = result.best()
    print_frame(console, best.to_frame().drop(columns="changes"))
    if len(best) < len(result):
        having_all = "--save and --json have all"
        if result.top is not None:
            having_all = "--save has all"
        console.print(f"\nthe {len(best)} of largest {result.ranked_by}; {having_all}")


def _show_assay(result: unmask.Assay) -> None:
    import pandas

    from unmask.studies.variants.assay import HEADS, STATISTICS

    console = terminal.console(at_least=terminal.USUAL)
    print_heading(console, result.sequence)
    statistic = f"{STATISTICS[result.statistic]} with {result.column}, {result.better} is better"
    within = "; within: among variants with as many changes" if "within" in result.scores[0] else ""
    sites = f"{len(result):,} variants at {len(result.places)} sites"
    console.print(f"{sites}; {statistic};\nlow, high: its 95 % interval{within}\n", soft_wrap=True)
    heads = {"value": HEADS[result.statistic], "within_low": "low", "within_high": "high"}
    print_frame(
        console, pandas.DataFrame(result.scores).drop(columns="best_in").rename(columns=heads)
    )
    console.print("", *result.notes, result.sentence, sep="\n", soft_wrap=True)


dependence: partial[int] = partial(answers, "dependence", _show_dependence)
mutants: partial[int] = partial(answers, "mutants", _show_mutants)


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
    answered("assay", options, _show_assay)


def profile(options: dict[str, Any]) -> None:
    """Measure a model's profile, and print it."""
    answered("profile", options, _show_profile)


def check(options: dict[str, Any]) -> None:
    """Print what was understood of a model."""
    hint = "" if "data" in options else "; give --data to measure it on your texts"

    def show(result: unmask.Check) -> None:
        console = terminal.console()
        print_table(console, (), result.rows(), first="name", last="found")
        for sentence in [f"looks wrong: {concern}" for concern in result.concerns] or [
            f"nothing looks wrong{hint}"
        ]:
            console.print(f"\n{sentence}", soft_wrap=True)

    answered("check", options, show)


# ---- a corpus: evaluate, frontier, train, translate, serve ----


def evaluate(options: dict[str, Any]) -> int:
    """Print the table, and what was left out; 1 if pairs failed.

    --paper without a scheme measures both schemes; its JSON is one object, with the result of
    each scheme under its name.
    """
    from unmask.studies.evaluation.pairs import is_pairs_file

    if (
        not options.get("paper")
        or options.get("scheme") is not None
        or is_pairs_file(options["data"])
    ):
        result = _evaluated(options)
        return _print_failed(result, options.get("out"))
    out, json = options.get("out"), options.pop("json", False)
    results, failed = {}, 0
    for scheme in ("random", "contiguous"):
        place = {} if out is None else {"out": Path(out) / scheme}
        result = _evaluated({**options, "scheme": scheme, **place}, shows=not json)
        results[scheme] = result.to_dict()
        failed = max(failed, _print_failed(result, place.get("out")))
    if json and process.rank() == 0:
        terminal.print_json(results)
    return failed


def _evaluated(options: dict[str, Any], shows: bool = True) -> unmask.Evaluation:
    """Evaluate by one scheme, and print the table if `shows`."""
    from unmask.studies.evaluation.markdown import HEADINGS, cell, written

    out = options.get("out")

    def show(evaluation: unmask.Evaluation) -> None:
        if not shows:
            return
        rows = []
        for row in evaluation.summary["constructions"]:
            difference = cell(row["difference"], "difference") if "difference" in row else ""
            rows.append(
                [
                    label_of(row["construction"]),
                    *(written(row[m]["value"], m) for m in HEADINGS),
                    difference,
                ]
            )
        if rows:
            pairs = (
                f"{evaluation.summary['pairs']:,} {evaluation.settings.get('scheme') or 'given'}"
                " pairs"
            )
            print_table(
                terminal.console(),
                [*HEADINGS.values(), "P-NLL per token\nminus product"],
                rows,
                first=pairs,
            )
            _print_place("intervals, rows and figures", out)

    result: unmask.Evaluation = answered("evaluate", options, show)
    return result


def _print_failed(result: unmask.Evaluation, out: Any) -> int:
    """Say which texts were skipped and how many pairs failed; 1 if some did."""
    _print_skipped(result)
    if result.failed:
        failed = (
            f"{len(result.failed)} of {result.pairs} pairs failed, the first with"
            f" {result.failed[0]['reason']}"
        )
        where = "" if out is None else f"see {Path(out) / 'failures.jsonl'}; "
        _message(f"{failed}: {where}the same command tries them again")
    return int(bool(result.failed))


def frontier(options: dict[str, Any]) -> None:
    """Print the table, and what was left out."""

    def show(result: unmask.Frontier) -> None:
        from unmask.studies.evaluation.frontier import cells

        console = terminal.console(at_least=terminal.USUAL)
        console.print(result.headline, soft_wrap=True)
        rows = ([result.name_of(point), *cells(point)] for point in result.points)
        print_table(
            console,
            ["rounds", "rows", "nats per token", f"minus {result.best}"],
            rows,
            first="decoder",
        )
        _print_place("rows, table and figure", options.get("out"))

    _print_skipped(answered("frontier", options, show))


def _print_place(what: str, out: Any) -> None:
    _message(
        f"\n{what} are not kept: give --out FOLDER" if out is None else f"\n{what} are in {out}"
    )


def _print_skipped(result: unmask.Evaluation | unmask.Frontier) -> None:
    for reason, count in result.skipped.items():
        _message(f"{count} {'text' if count == 1 else 'texts'} skipped: {reason}")


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


# ---- score, minimal_pairs ----


def score(options: dict[str, Any]) -> int:
    """Print tables of sentences, or rows as they come; 1 if a text lacks a score.

    Sentences that were typed, and files at a terminal, get tables, unless --format asks for rows.
    """
    json, words = options.pop("json", False), options.pop("texts", [])
    out = options.get("out")
    texts = _source(words, options)
    if isinstance(texts, list) and not all(text.strip() for text in texts):
        raise InputError(
            "a text is empty",
            use=f"give a sentence, or {argument_name('file')} with one text per line",
        )
    format = options.get("format")
    tables = format is None and (isinstance(texts, list) or terminal.is_terminal())
    if tables and isinstance(texts, list):
        options.setdefault("rows", "nested")
    write = _row_writer(options, json)
    lines = not (json or out or tables)
    missing, complete = dict[int, str](), set[bool]()

    def note(place: int, reason: str | None) -> None:
        complete.add(reason is None)
        if reason is not None:
            missing.setdefault(place, reason)

    def sink(row: Mapping[str, Any]) -> None:
        write(row)
        names = list(row)  # by place: a column of the user may have one of our names
        reason = names[-3] if options.get("rows") == "nested" else names[-1]
        note(row[names[0]], row[reason])

    with terminal.progress() as report:
        scores = unmask.score(texts, **options, sink=sink if lines else None, progress=report)
    if json:
        terminal.print_json(scores.to_dict())
    elif tables and out is None:
        _show_sentences(scores)
    for place, why in () if lines else scores.reasons():
        note(place, why)
    failed = _report_missing(missing, "text lacks a score", "texts lack a score", "text")
    _report_rows(out, format)
    return int(True not in complete or bool(failed))


def minimal_pairs(options: dict[str, Any]) -> int:
    """Print accuracies, or with --format the pairs; 1 if a pair lacks a score."""
    json, format = options.pop("json", False), options.get("format")
    out = options.get("out")
    write = _row_writer(options, json)
    with terminal.progress() as report:
        pairs = unmask.minimal_pairs(**options, progress=report)
    if json:
        terminal.print_json(pairs.to_dict())
    elif format is not None and out is None:
        for row in pairs.rows:
            write(row)
    else:
        _show_pairs(pairs)
    missing = {place: reason for place, reason in pairs.reasons() if reason is not None}
    failed = _report_missing(missing, "pair lacks a score", "pairs lack a score", "pair")
    _report_rows(out, format)
    return int(len(missing) == len(pairs) or bool(failed))


def _row_writer(options: dict[str, Any], json: bool) -> LineWriter:
    """What prints rows in the format that was typed.

    Without --out, the format is taken out of the options: the verb writes no file.
    """
    from unmask.scoring.row_files import LineWriter, check_format
    from unmask.verbs.score_options import Format

    out, format = options.get("out"), options.get("format")
    if out is None:
        options.pop("format", None)
    if json and format and out is None:
        raise InputError(
            f"and {argument_name('format')} were both given",
            argument="json",
            use=f"give one of them, or {argument_name('out')} for a file in this format",
        )
    written_as = "jsonl"
    if format is not None:
        written_as = one_of("format", format, get_args(Format))
    check_format(written_as, options.get("rows", "texts"), on_stream=out is None)
    return LineWriter(terminal.rows_stream(), written_as)


def _report_rows(out: str | None, format: str | None) -> None:
    """Say where the rows of a folder are."""
    if out is not None:
        _message(f"rows are in {Path(out) / 'scores'}.{format or 'jsonl'}")


def _show_sentences(scores: unmask.Scores) -> None:
    console, unit = terminal.console(at_least=terminal.USUAL), scores.shape.unit
    if scores.shape.kind != "nested":
        import pandas

        hidden = {scores.shape.own(column) for column in ("id", "reason", "position")}
        columns = [column for column in scores.shape.columns.names if column not in hidden]
        columns.sort(
            key=lambda column: column != scores.shape.own("text")
        )  # a long text is folded in the first column alone
        return print_frame(
            console, pandas.DataFrame(list(scores), columns=columns, dtype=object)
        )  # counts stay whole numbers
    for place, row_as_given in enumerate(scores):
        row = scores.shape.ours(row_as_given)
        console.print(end="\n" if place else "")
        print_heading(console, row["text"])
        cells = []
        for name in (score.name for score in scores.shape.scores):
            per_token, error = (
                None if row[name] is None else row[name] / row["length"],
                row.get(f"{name}_se"),
            )
            shown = "" if error is None else f"± {error:.3f}" if error else "exact"
            cells.append([name, number(row[name]), number(per_token), shown])
        columns = [unit, "per token", *(["error"] if any(cell[-1] for cell in cells) else [])]
        print_table(
            console,
            columns,
            (cell[: len(columns) + 1] for cell in cells),
            first=f"{row['length']} tokens",
        )
    if len(scores) == 2 and (by_token := [score.name for score in scores.by_token()]):
        console.print(f"\nfirst minus second, token by token ({unit})")
        cells = []
        for row in scores.difference():
            pair = dict.fromkeys([row["first_token"] or "-", row["second_token"] or "-"])
            cells.append(
                [" / ".join(pair), *(f"{row[f'{name}_difference']:+.3f}" for name in by_token)]
            )
        print_names(console, by_token, cells, first="first / second")
    return None


def _show_pairs(pairs: unmask.PairScores) -> None:
    console, rows = terminal.console(at_least=terminal.USUAL), dict[str, list[str]]()
    for row in pairs.accuracy:
        low, high = (None if row[end] is None else 100 * row[end] for end in ("low", "high"))
        share = (
            "-"
            if row["accuracy"] is None
            else f"{100 * row['accuracy']:.1f} [{low:.0f}, {high:.0f}]"
        )
        name = "all pairs" if row["level"] == "all" else f"{row['level']} {row['name']}"
        rows.setdefault(name, [name, str(row["pairs"]), str(row["ties"])]).append(share)
    print_names(console, ["pairs", "ties", *pairs.scores], rows.values(), first="group")
    console.print(
        "\naccuracy in %, with 95 % intervals; ties count half; pairs that lack a score are"
        " left out"
    )
