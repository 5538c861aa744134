"""Functions named like the verbs: each calls `unmask.<verb>` with the arguments that were typed, and prints what it returns.

Results go to standard output, everything else (progress, what was left out, where files are) to standard error.
A function that returns 1 says that a part of the work failed.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from functools import partial
from math import isnan
from operator import attrgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import unmask
from unmask.cli import process, terminal
from unmask.cli.terminal import marked, nats, number, percent, print_frame, print_heading, print_names, print_table
from unmask.errors import InputError
from unmask.formats import count_at_most, percent_at_least
from unmask.joints.registry import named
from unmask.runs.files import output_file, user_path
from unmask.runs.lines import plain_texts, refuse_file_name, source_name, warn_of_missing_file

if TYPE_CHECKING:
    from rich.console import Console

WIDEST, LISTED, SHOWN = 10, 20, 5
"""Positions whose matrix fits into 80 columns, pairs that are listed instead, texts printed at the end of a run."""
BESIDE, GIVEN = 36, "* the tokens given"
"""Columns of the numbers beside a completion; a note below."""


def answered(verb: str, options: dict[str, Any], show: Callable[[Any], None]) -> Any:
    """Call `unmask.<verb>`, print its result, by `show` or (with --json) as JSON, and return it."""
    json, leads = options.pop("json", False), process.rank() == 0
    with terminal.progress(quiet=not leads) as report:
        if verb != "diagnose":
            options["progress"] = report
        result = attrgetter(verb)(unmask)(**options)
    if leads:
        terminal.print_json(result.to_dict()) if json else show(result)
    return result


def _message(line: str) -> None:
    """Print a line on standard error."""
    terminal.messages().print(line)


def frame(verb: str, options: dict[str, Any]) -> None:
    """The data frame of a result that no function below prints."""
    answered(verb, options, lambda result: print_frame(terminal.console(), result.to_frame()))


# ---- one text, or many: fill, compare, dependence, mutants ----


def _answers(verb: str, show: Callable[[Any, Console], None], options: dict[str, Any]) -> None:
    """Print the answers to the texts as they are ready; JSON of many texts has a line for each.

    An answer is printed before its files are written (see `one_or_many`), so that a full disk costs only these.
    """
    json = options.pop("json", False)
    text, file = options.pop("text", options.pop("sequence", None)), options.pop("file", None)
    for name in {"figure", "save"} & options.keys():
        output_file(name, options[name], [file])
    texts, many = _read_texts(text, file)
    console = terminal.console(at_least=terminal.USUAL)
    with ExitStack() as bar:
        report = bar.enter_context(terminal.progress(quiet=many and terminal.is_terminal()))
        for place, answer in enumerate(getattr(unmask, verb).each(texts, progress=report, **options)):
            ready = answer.to_dict()
            if not many or terminal.is_terminal():
                bar.close()
            if json:
                terminal.print_json(ready, indent=None if many else 2)
            else:
                console.print(end="\n" if place else "")
                show(answer, console)


def _source(words: Sequence[str], file: str | None) -> list[str] | Path:
    """The texts that were typed; or the file, or standard input (-), that holds them."""
    if (file is None) == (not words):
        problem = "a text and --file were both given" if words else "no text was given"
        raise InputError(f"{problem}: give a text, - for standard input, or --file with one text per line")
    return user_path(file or "-", "file") if file is not None or list(words) == ["-"] else list(words)


def _read_texts(text: str | None, file: str | None) -> tuple[list[str], bool]:
    """One text; or one per line that is not blank, of a file or of standard input (-), and whether there may be many."""
    source = _source([] if text is None else [text], file)
    if isinstance(source, list):
        refuse_file_name(source[0], f"give --file {source[0]}")
        return source, False
    texts = list(plain_texts(source))
    if not texts:
        raise InputError(f"{source_name(source)!r} has no text: give one text per line")
    return texts, True


def _show_filling(filling: unmask.Filling, console: Console) -> None:
    print_heading(console, filling.text)
    console.print(f"{filling.summary}\n")
    with_product = filling.table is not None and filling.joint.sites > 1
    more = ["product"] if with_product else ["error"] if not filling.exact else []
    rows: list[list[Any]] = []
    for one in filling.completions:
        star = " *" if one.is_gold else ""
        text = marked(one.text, one.spans, console.width - BESIDE - len(star)).append(star)
        numbers = [percent(one.product_log_prob) if with_product else f"{one.standard_error:.2f}"] if more else []
        rows.append([percent(one.log_prob), f"{one.log_prob:.2f}", *numbers, text])
    print_table(console, ["probability", "nats", *more], rows, last="completion")
    rows = []
    for answer in filling.answers:
        rank = "-" if answer.rank is None else " to ".join(map(count_at_most, sorted(set(answer.rank))))
        odds = f"1 : {1 / answer.odds:.3g}" if answer.odds else "0"
        rows.append([percent(answer.log_prob), f"{answer.log_prob:.2f}", rank, odds, answer.answer])
    if rows:
        console.print()
        print_table(console, ["probability", "nats", "rank", "odds"], rows, last="answer")
    if any(one.is_gold for one in filling.completions):
        console.print(GIVEN)


def _show_comparison(comparison: unmask.Comparison, console: Console) -> None:
    from unmask.answers.blanked_text import mass_in_words, sizes

    joint, known = next(iter(comparison.joints.values())), comparison.cloze.gold is not None
    print_heading(console, comparison.text)
    console.print(f"{joint.sites} blanks; {sizes(joint.shape)} {mass_in_words(joint.tables)}\n")
    console.print(f"Probability of a completion (%) under each construction, the best by {comparison.ranked_by}")
    heads = [*(named(name).heading or name.replace("_", "\n") for name in comparison.joints), "all\nord."]
    rows = []
    for one in comparison.completions:
        log_probs = [*one.log_probs.values(), one.orders_log_prob]
        rows.append([" ".join(one.tokens) + (" *" if one.is_gold else ""), *map(terminal.short_percent, log_probs)])
    print_names(console, heads, rows, first="completion", names=len("completion"))
    support = "alphabet" if len(comparison.support) < len(comparison.model.regular_ids) else "whole vocabulary"
    console.print(f"all orders: the chain rule averaged over all orders, over the {support}")
    if known:
        console.print(GIVEN)
    console.print("\nEntropy, dependence, and divergence from the model's own conditionals (nats)")
    rows = []
    for construction, row in comparison.descriptions.items():
        in_nats = [number for number in (row.entropy, row.total_correlation, row.a_kl, row.g_kl) if number is not None]
        perplexities = [f"{number:.4g}" for number in (row.u_ppl, row.p_ppl) if number is not None]
        rows.append([construction, *map(nats, in_nats), *perplexities])
    dependence = "mutual\ninformation" if joint.sites == 2 else "total\ncorrelation"
    columns = ["entropy", dependence, "A-KL", *(["G-KL", "U-PPL", "P-PPL"] if known else [])]
    print_table(console, columns, rows, first="construction")
    if joint.sites == 2:
        meaning = "root mean square; 0: one joint has both conditionals"
    else:
        meaning = "root mean square over pairs of tables"
    console.print(f"\nincompatibility {nats(comparison.incompatibility)} nats ({meaning})")


def _show_dependence(result: unmask.Dependence, console: Console) -> None:
    from unmask.answers.blanked_text import sizes

    names, pairs = result.names(), result.pairs()
    print_heading(console, result.text)
    beside = "the other blanks masked" if result.others == "masked" else "the other tokens as they stand"
    mass = f"{sizes([result.candidates] * 2)} tokens hold at least {percent_at_least(result.least_mass)} of a product joint"
    console.print(f"mutual information of each pair (nats), {beside};\n{result.construction} joints; {mass}\n")
    if len(names) <= WIDEST:
        cells = [[nats(value) for value in row] for row in result.matrix.tolist()]
        rows = [[name, *row[:i], "-", *row[i + 1 :]] for i, (name, row) in enumerate(zip(names, cells, strict=True))]
        print_table(console, [*map(str, result.positions)], rows, first="token")
    else:
        rows = [[f"{names[i]} - {names[j]}", nats(value)] for i, j, value in pairs[:LISTED]]
        print_table(console, ["nats"], rows, first="pair")
        console.print(f"\nthe {min(LISTED, len(pairs))} strongest of {len(pairs)} pairs; --figure and --json have all")


def _show_profile(profile: unmask.Profile) -> None:
    console, about = terminal.console(), profile.about
    mass = f"{about['candidates']} tokens tried at a site, which hold {about['mass_of_candidates']:.0%} of its probability"
    console.print(f"dependence of two blanks by distance, {profile.texts:,} texts, {mass}; nats\n", soft_wrap=True)
    rows = []
    for i in [i for i in range(len(profile.by_distance)) if i < 8 or (i + 1) & i == 0]:
        numbers = about["information"][i], about["smaller_entropy"][i], profile.by_distance[i]
        rows.append([str(i + 1), *map(nats, numbers), f"{about['pairs'][i]:,}"])
    print_table(console, ["information", "smaller entropy", "ratio", "pairs"], rows, first="distance")
    console.print(f"\n{len(profile.by_distance)} distances in all")


def _show_variants(result: unmask.Mutants | unmask.Measured, console: Console) -> None:
    print_heading(console, result.sequence)
    if isinstance(result, unmask.Mutants):
        console.print(f"{len(result):,} mutants; {result.joint} joint; {len(result.alphabet)} tokens per residue; in nats\n")
        best = result.best()
        print_frame(console, best.to_frame().drop(columns="changes"))
        if len(best) < len(result):
            console.print(f"\nthe {len(best)} of largest {result.by}; --save and --json have all")
        return
    import pandas

    from unmask.variants.measured import HEADS, STATISTICS

    statistic = f"{STATISTICS[result.statistic]} with {result.column}, {result.better} is better"
    within = "; within: among variants with as many changes" if "within" in result.scores[0] else ""
    sites = f"{len(result):,} variants at {len(result.places)} sites"
    console.print(f"{sites}; {statistic};\nlow, high: its 95 % interval{within}\n", soft_wrap=True)
    heads = {"value": HEADS[result.statistic], "within_low": "low", "within_high": "high"}
    print_frame(console, pandas.DataFrame(result.scores).drop(columns="best_in").rename(columns=heads))
    console.print("", *result.notes, result.sentence, sep="\n", soft_wrap=True)


fill = partial(_answers, "fill", _show_filling)
compare = partial(_answers, "compare", _show_comparison)
mutants = partial(_answers, "mutants", _show_variants)


def dependence(options: dict[str, Any]) -> None:
    """Print informations of pairs, or measure a profile."""
    if "profile" in options and "file" not in options:
        answered("dependence", options, _show_profile)
    else:
        _answers("dependence", _show_dependence, options)


def check(options: dict[str, Any]) -> None:
    """Print what was understood of a model."""
    hint = "" if "data" in options else "; give --data to measure it on your texts"

    def show(result: unmask.Check) -> None:
        console = terminal.console()
        print_table(console, (), result.rows(), first="name", last="found")
        for sentence in [f"looks wrong: {concern}" for concern in result.concerns] or [f"nothing looks wrong{hint}"]:
            console.print(f"\n{sentence}", soft_wrap=True)

    answered("check", options, show)


# ---- a corpus: evaluate, frontier, train, translate, serve ----


def evaluate(options: dict[str, Any]) -> int:
    """Print the table, and what was left out; 1 if pairs failed."""
    from unmask.evaluation.pairs import is_pairs_file
    from unmask.evaluation.table import HEADINGS, cell, written

    out = options.get("out")
    if options.get("paper") and options.get("scheme") is None and not is_pairs_file(options["data"]):
        places = {scheme: {} if out is None else {"out": Path(out) / scheme} for scheme in ("random", "contiguous")}
        return max(evaluate({**options, "scheme": scheme, **place}) for scheme, place in places.items())

    def show(evaluation: unmask.Evaluation) -> None:
        rows = []
        for row in evaluation.summary["constructions"]:
            difference = cell(row["difference"], "difference") if "difference" in row else ""
            rows.append([named(row["construction"]).label, *(written(row[m]["value"], m) for m in HEADINGS), difference])
        if rows:
            pairs = f"{evaluation.summary['pairs']:,} {evaluation.settings.get('scheme') or 'given'} pairs"
            print_table(terminal.console(), [*HEADINGS.values(), "P-NLL per token\nminus product"], rows, first=pairs)
            _print_place("intervals, rows and figures", out)

    result: unmask.Evaluation = answered("evaluate", options, show)
    _print_skipped(result)
    if result.failed:
        failed = f"{len(result.failed)} of {result.pairs} pairs failed, the first with {result.failed[0]['reason']}"
        where = "" if out is None else f"see {Path(out) / 'failures.jsonl'}; "
        _message(f"{failed}: {where}the same command tries them again")
    return int(bool(result.failed))


def frontier(options: dict[str, Any]) -> None:
    """Print the table, and what was left out."""

    def show(result: unmask.Frontier) -> None:
        from unmask.evaluation.frontier import cells, name_of

        console = terminal.console(at_least=terminal.USUAL)
        console.print(result.headline, soft_wrap=True)
        rows = ([name_of(point), *cells(point)] for point in result.points)
        print_table(console, ["rounds", "rows", "nats per token", f"minus {result.best}"], rows, first="decoder")
        _print_place("rows, table and figure", options.get("out"))

    _print_skipped(answered("frontier", options, show))


def _print_place(what: str, out: Any) -> None:
    _message(f"\n{what} are not kept: give --out FOLDER" if out is None else f"\n{what} are in {out}")


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
    files = [options.get("save"), Path(options["out"]) / "translations.jsonl" if "out" in options else None]
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


# ---- samples: sample, diagnose ----


def sample(options: dict[str, Any]) -> None:
    """Draw samples and print their diagnosis."""
    if (template := options.get("template")) is not None:
        refuse_file_name(template, f"give --init {template} to start from its texts")
    answered("sample", options, _show_run)


def diagnose(options: dict[str, Any]) -> None:
    """Print the diagnosis of a run, or a table of several runs, and say where it is kept."""
    json, folders = "json" in options, [Path(folder) for folder in options.get("run", ())]
    if len(folders) == 1:
        (options["run"],) = folders
    result = answered("diagnose", options, _show_diagnosis if len(folders) == 1 else _show_diagnoses)
    if json:
        return
    if isinstance(result, unmask.Diagnoses):
        _message("the diagnosis of each run is in its folder, in diagnostics.json")
    elif result.functionals:
        _message(f"figures are in {folders[0] / 'figures'}")
    else:
        _message(f"the diagnosis is in {folders[0] / 'diagnostics.json'}")


def _show_diagnoses(diagnoses: unmask.Diagnoses) -> None:
    """A table with one row per run, and what to know of each."""
    frame, console = diagnoses.to_frame(), terminal.console(at_least=terminal.USUAL)
    columns = {"passes": ",.0f", "acceptance": ".1%", "novelty": ".1%", "r_hat": ".3f", "ess_bulk": ",.0f"}
    columns |= {"ess_per_1000_passes": ",.2f", "unique": ".1%", "judge": ".3f"}
    heads = ["passes", "accepted", "changed", "R-hat", "ESS", "ESS per\n1000 passes", "unique", "judge"]
    if diagnoses.runs[0].judge is None:
        del columns["judge"], heads[-1]
    rows = [
        [f"{row['run']} ({row['kernel']})", *(number(float(row[name]), digits) for name, digits in columns.items())]
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
        _message(f"{len(run.samples):,} samples were drawn and none is kept: give --out FOLDER to keep them")
    else:
        figures = "" if run.settings.kernel.decodes else f", figures in {run.folder / 'figures'}"
        _message(f"{len(run.samples):,} samples are in {run.folder / 'samples.parquet'}{figures}")


def _show_diagnosis(diagnosis: unmask.Diagnosis) -> None:
    """Tables and the verdict."""
    console = terminal.console()
    rates = [f"{diagnosis.chains} chains of {diagnosis.draws} draws, {diagnosis.passes:,} passes"]
    if not isnan(diagnosis.acceptance):
        per_step = number(float(diagnosis.passes_per_step), ",.2f")
        rates.append(f"{per_step} per step; accepted {diagnosis.acceptance:.1%}, changed {diagnosis.novelty:.1%}")
    if diagnosis.scoring_passes:
        rates.append(f"{diagnosis.scoring_passes:,} more to score the samples")
    console.print("; ".join(rates))
    columns = {"mean": 2, "sd": 2, "r_hat": 3, "ess_bulk": 0, "ess_tail": 0, "ess_per_1000_passes": 2}
    rows = []
    for f in diagnosis.functionals:
        cells = [number(float(getattr(f, name)), f",.{digits}f") for name, digits in columns.items()]
        rows.append([f"{f.length}, {f.name}", *cells])
    if rows:
        heads = ["mean", "sd", "R-hat", "ESS bulk", "ESS tail", "ESS per\n1000 passes"]
        print_table(console, heads, rows, first="tokens, functional")
    console.print(f"unique texts {diagnosis.unique:.1%}, equal neighbours {number(diagnosis.stutter, '.1%')}")
    if (judge := diagnosis.judge) is not None:
        texts = f"{number(judge['samples'])} nats per token for the {'last texts' if rows else 'texts'}"
        starts = "" if judge["starts"] is None else f", {number(judge['starts'])} for their starts"
        console.print(f"judge {judge['name']}: {texts}{starts} (lower is better)")
    for sentence in diagnosis.verdict:
        console.print(f"- {sentence}")


# ---- score ----


def score(options: dict[str, Any]) -> int:
    """Print tables of sentences, accuracies of pairs, or rows as they come; 1 if a text lacks a score.

    Sentences that were typed, and files at a terminal, get tables, unless --format asks for rows.
    """
    from unmask.scoring.score import LineWriter, check_format
    from unmask.scoring.texts import EMPTY

    json, words, file = options.pop("json", False), options.pop("texts", []), options.pop("file", None)
    pairs, out, format = (options.get(name) for name in ("minimal_pairs", "out", "format"))
    if json and format and out is None:
        raise InputError("--json and --format were both given: give one of them, or --out for a file in this format")
    if pairs and (words or file):
        raise InputError(f"{(words or [file])[0]!r} and --minimal-pairs were both given: give one of the two")
    texts = None if pairs else _scored(words, file)
    tables = format is None and (isinstance(texts, list) or terminal.is_terminal())
    if tables and isinstance(texts, list):
        options.setdefault("rows", "nested")
    check_format(format or "jsonl", options.get("rows", "texts"), on_stream=out is None)
    write, lines = LineWriter(sys.stdout, format or "jsonl"), not (json or pairs or out or tables)
    missing, complete = dict[int, str](), set[bool]()

    def note(place: int, reason: str | None) -> None:
        complete.add(reason is None)
        if reason is not None:
            missing.setdefault(place, reason)

    def sink(row: Mapping[str, Any]) -> None:
        write(row)
        note(row["item"], row["reason"])

    with terminal.progress() as report:
        scores = unmask.score(texts, **options, sink=sink if lines else None, progress=report)
    if json:
        terminal.print_json(scores.to_dict())
    elif pairs and out is None and format:
        for row in scores.rows:
            write(row)
    elif isinstance(scores, unmask.PairScores):
        _show_pairs(scores)
    elif tables and out is None:
        _show_sentences(scores)
    for place, why in () if lines else scores.reasons():
        note(place, why)
    if missing:
        (place, why), what = next(iter(missing.items())), "pair" if pairs else "text"
        count = f"1 {what} lacks" if len(missing) == 1 else f"{len(missing):,} {what}s lack"
        _message(f"{count} a score, the first is {what} {place}: {why}")
    if out is not None:
        _message(f"rows are in {Path(out) / 'scores'}.{format or 'jsonl'}")
    return int(True not in complete or any(reason != EMPTY for reason in missing.values()))


def _scored(words: Sequence[str], file: str | None) -> Path | list[str]:
    """Sentences, or the file that holds them: a word is a file if one of this name exists, or a pipe or folder of this path."""
    texts = _source(words, file)
    if isinstance(texts, Path):
        return texts
    if not all(text.strip() for text in texts):
        raise InputError("a text is empty: give a sentence, or --file with one text per line")
    paths = {text: os.path.expanduser(text) for text in texts}
    files = [t for t, path in paths.items() if t == "-" or os.path.isfile(path) or ("/" in t and os.path.exists(path))]
    if files and len(texts) > 1:
        raise InputError(f"{files[0]!r} is a file among {len(texts)} texts: give one file, or sentences")
    for text in () if files else texts:
        warn_of_missing_file(text)
    return user_path(files[0], "file") if files else texts


def _show_sentences(scores: unmask.Scores) -> None:
    console, unit = terminal.console(at_least=terminal.USUAL), scores.shape.unit
    if scores.shape.kind != "nested":
        import pandas

        columns = [column for column in scores.shape.columns.names if column not in ("id", "reason", "position")]
        columns.sort(key=lambda column: column != "text")  # a long text is folded in the first column alone
        return print_frame(console, pandas.DataFrame(list(scores), columns=columns, dtype=object))  # counts stay whole numbers
    for place, row in enumerate(scores):
        console.print(end="\n" if place else "")
        print_heading(console, row["text"])
        cells = []
        for name in (score.name for score in scores.shape.scores):
            per_token, error = None if row[name] is None else row[name] / row["length"], row.get(f"{name}_se")
            shown = "" if error is None else f"± {error:.3f}" if error else "exact"
            cells.append([name, number(row[name]), number(per_token), shown])
        columns = [unit, "per token", *(["error"] if any(cell[-1] for cell in cells) else [])]
        print_table(console, columns, (cell[: len(columns) + 1] for cell in cells), first=f"{row['length']} tokens")
    if len(scores) == 2 and (by_token := [score.name for score in scores.by_token()]):
        console.print(f"\nfirst minus second, token by token ({unit})")
        cells = []
        for row in scores.difference():
            pair = dict.fromkeys([row["first_token"] or "-", row["second_token"] or "-"])
            cells.append([" / ".join(pair), *(f"{row[f'{name}_difference']:+.3f}" for name in by_token)])
        print_names(console, by_token, cells, first="first / second")
    return None


def _show_pairs(pairs: unmask.PairScores) -> None:
    console, rows = terminal.console(at_least=terminal.USUAL), dict[str, list[str]]()
    for row in pairs.accuracy:
        low, high = (None if row[end] is None else 100 * row[end] for end in ("low", "high"))
        share = "-" if row["accuracy"] is None else f"{100 * row['accuracy']:.1f} [{low:.0f}, {high:.0f}]"
        name = "all pairs" if row["level"] == "all" else f"{row['level']} {row['name']}"
        rows.setdefault(name, [name, str(row["pairs"]), str(row["ties"])]).append(share)
    print_names(console, ["pairs", "ties", *pairs.scores], rows.values(), first="group")
    console.print("\naccuracy in %, with 95 % intervals; ties count half; pairs that lack a score are left out")
