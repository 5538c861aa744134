"""Functions named like the verbs: each calls `unmask.<verb>` with the arguments that were typed, and prints what it returns.

Results go to standard output, everything else (progress, what was left out, where files are) to standard error.
A function that returns 1 says that a part of the work failed.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import ExitStack
from functools import partial
from math import isnan
from operator import attrgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import unmask
from unmask.cli import process, terminal
from unmask.cli.terminal import marked, nats, number, percent, print_frame, print_heading, print_table
from unmask.errors import InputError
from unmask.formats import count_at_most, percent_at_least
from unmask.joints.registry import named
from unmask.runs.lines import STANDARD_INPUT, plain_texts, refuse_file_name, source_name
from unmask.runs.outputs import output_file

if TYPE_CHECKING:
    from rich.console import Console

    from unmask.runs.progress import Progress

WIDEST, LISTED, SHOWN = 10, 20, 5
"""Positions whose matrix fits into 80 columns, pairs that are listed instead, texts printed at the end of a run."""


def answered(verb: str, options: dict[str, Any], show: Callable[[Any], None], plan: str | bool = False) -> Any:
    """Call `unmask.<verb>`, print its result, by `show` or (with --json) as JSON, and return it.

    plan   a line to print when the work begins, so after all checks; True: its first report, with the settings that were chosen
    """
    json, leads = options.pop("json", False), process.rank() == 0
    with terminal.progress(quiet=not leads) as report:
        if verb != "diagnose":
            options["progress"] = _with_plan(report, plan) if plan else report
        result = attrgetter(verb)(unmask)(**options)
    if leads:
        terminal.print_json(result.to_dict()) if json else show(result)
    return result


def _with_plan(report: Progress | None, plan: str | bool) -> Progress:
    printed = False

    def with_plan(done: int, total: int, what: str = "") -> None:
        nonlocal printed
        if total and not printed:
            if process.rank() == 0:
                terminal.messages().print(what if plan is True else plan)
            printed, what = True, "steps" if plan is True else what
        if report:
            report(done, total, what)

    return with_plan


def frame(verb: str, options: dict[str, Any]) -> None:
    """The data frame of a result that no function below prints."""
    answered(verb, options, lambda result: print(result.to_frame().to_string()))


# ---- one text, or many: fill, compare, dependence, mutants ----


def _answers(verb: str, show: Callable[[Any, Console], None], options: dict[str, Any]) -> None:
    """Print the answers to the texts as they are ready; JSON of many texts has a line for each.

    An answer is printed before its files are written (see `one_or_many`), so that a full disk costs only these.
    """
    json = options.pop("json", False)
    text, file = options.pop("text", options.pop("sequence", None)), options.pop("file", None)
    for name in ("figure", "save"):
        if name in options:
            output_file(name, options[name], (file, STANDARD_INPUT if text == "-" else None))
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


def _read_texts(text: str | None, file: Path | None) -> tuple[list[str], bool]:
    """One text; or one per line that is not blank, of a file or of standard input (-), and whether there may be many."""
    if (text is None) == (file is None):
        problem = "TEXT and --file were both given" if file is not None else "no text was given"
        raise InputError(f"{problem}: give a text, - for standard input, or --file with one text per line")
    if text is not None and text != "-":
        refuse_file_name(text, f"give --file {text}")
        return [text], False
    source = file or STANDARD_INPUT
    texts = list(plain_texts(source))
    if not texts:
        raise InputError(f"{source_name(source)!r} has no text: give one text per line")
    return texts, True


def _show_filling(filling: unmask.Filling, console: Console) -> None:
    more: dict[str, Callable[[Any], str]] = {}
    beside = 30 if filling.table is None else 24
    if not filling.exact:
        more["error"] = lambda completion: f"{completion.standard_error:.2f}"
    elif filling.table is not None and filling.joint.sites > 1:
        beside = 36
        more["product"] = lambda completion: percent(completion.product_log_prob)
    print_heading(console, filling.text)
    console.print(f"{filling.summary}\n")
    rows: list[list[Any]] = []
    for completion in filling.completions:
        star = " *" if completion.is_gold else ""
        text = marked(completion.text, completion.spans, console.width - beside - len(star)).append(star)
        numbers = [write(completion) for write in more.values()]
        rows.append([percent(completion.log_prob), f"{completion.log_prob:.2f}", *numbers, text])
    print_table(console, ["probability", "nats", *more], rows, last="completion")
    if filling.answers:
        rows = []
        for answer in filling.answers:
            rank = "-" if answer.rank is None else " to ".join(map(count_at_most, sorted(set(answer.rank))))
            odds = f"1 : {1 / answer.odds:.3g}" if answer.odds else "0"
            rows.append([percent(answer.log_prob), f"{answer.log_prob:.2f}", rank, odds, answer.answer])
        console.print()
        print_table(console, ["probability", "nats", "rank", "odds"], rows, last="answer")
    if any(completion.is_gold for completion in filling.completions):
        console.print("* the tokens given")


def _show_comparison(comparison: unmask.Comparison, console: Console) -> None:
    from unmask.answers.blanked_text import mass_in_words, sizes

    joint, known = next(iter(comparison.joints.values())), comparison.cloze.gold is not None
    print_heading(console, comparison.text)
    mass = mass_in_words(comparison.candidates_mass, joint.sites)
    console.print(f"{joint.sites} blanks; {sizes(joint.shape)} {mass}\n")
    console.print(f"Probability of a completion (%) under each construction, the best by {comparison.ranked_by}")
    names = [named(name).heading or name.replace("_", "\n") for name in comparison.joints]
    rows = []
    for completion in comparison.completions:
        log_probs = [*completion.log_probs.values(), completion.orders_log_prob]
        name = " ".join(completion.tokens) + (" *" if completion.is_gold else "")
        rows.append([name, *map(terminal.short_percent, log_probs)])
    heads = [*names, "all\nord."]
    widths = [max(len(part) for part in [*head.split("\n"), "99.99"]) + 2 for head in heads]
    first = 0
    while first < len(heads):
        ends, room = range(len(heads), first, -1), console.width - len("completion")
        end = next((end for end in ends if sum(widths[first:end]) <= room), first + 1)
        console.print(end="\n" if first else "")
        print_table(console, heads[first:end], ([row[0], *row[1 + first : 1 + end]] for row in rows), first="completion")
        first = end
    support = "alphabet" if len(comparison.support) < len(comparison.model.regular_ids) else "whole vocabulary"
    console.print(f"all orders: the chain rule averaged over all orders, over the {support}")
    if known:
        console.print("* the tokens given")
    console.print("\nEntropy, dependence, and divergence from the model's own conditionals (nats)")
    dependence = "mutual\ninformation" if joint.sites == 2 else "total\ncorrelation"
    rows = []
    for construction, row in comparison.descriptions.items():
        in_nats = [row.entropy, row.total_correlation, row.a_kl, *([row.g_kl] if row.g_kl is not None else [])]
        perplexities = [f"{p:.4g}" for p in (row.u_ppl, row.p_ppl) if p is not None]
        rows.append([construction, *map(nats, in_nats), *perplexities])
    columns = ["entropy", dependence, "A-KL", *(["G-KL", "U-PPL", "P-PPL"] if known else [])]
    print_table(console, columns, rows, first="construction")
    console.print(f"\ncompatibility {nats(comparison.compatibility)} (0: one joint has all these conditionals)")


def _show_dependence(result: unmask.Dependence, console: Console) -> None:
    from unmask.answers.blanked_text import sizes

    names, pairs = result.names(), result.pairs()
    print_heading(console, result.text)
    beside = "the other blanks masked" if result.others == "masked" else "the other tokens as they stand"
    console.print(
        f"mutual information of each pair (nats), {beside};\n{result.construction} joints; "
        f"{sizes([result.candidates] * 2)} tokens hold at least {percent_at_least(result.least_mass)} of a product joint\n"
    )
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
    if not isinstance(result, unmask.Mutants):
        return _show_measured(result, console)
    console.print(f"{len(result):,} mutants; {result.joint} joint; {len(result.alphabet)} tokens per residue; in nats\n")
    best = result.best()
    print_frame(console, best.to_frame().drop(columns="changes"))
    if len(best) < len(result):
        console.print(f"\nthe {len(best)} of largest {result.by}; --save and --json have all")
    return None


def _show_measured(result: unmask.Measured, console: Console) -> None:
    import pandas

    from unmask.variants.measured import HEADS, STATISTICS

    statistic = f"{STATISTICS[result.statistic]} with {result.column}, {result.better} is better"
    columns = "low, high: its 95 % interval"
    if "within" in result.scores[0]:
        columns += "; within: among variants with as many changes"
    console.print(f"{len(result):,} variants at {len(result.places)} sites; {statistic};\n{columns}\n", soft_wrap=True)
    heads = {"value": HEADS[result.statistic], "within_low": "low", "within_high": "high"}
    print_frame(console, pandas.DataFrame(result.scores).drop(columns="best_in").rename(columns=heads))
    console.print()
    for line in (*result.notes, result.sentence):
        console.print(line, soft_wrap=True)


fill = partial(_answers, "fill", _show_filling)
compare = partial(_answers, "compare", _show_comparison)
mutants = partial(_answers, "mutants", _show_variants)


def dependence(options: dict[str, Any]) -> None:
    """Print informations of pairs, or measure a profile."""
    if "profile" not in options:
        return _answers("dependence", _show_dependence, options)
    for name in ("text", "file"):
        if name in options:
            raise InputError(f"{name} and profile were both given: give one of them")
    answered("dependence", options, _show_profile)
    return None


def check(options: dict[str, Any]) -> None:
    """Print what was understood of a model."""
    hint = "" if "data" in options else "; give --data to measure it on your texts"

    def show(result: unmask.Check) -> None:
        console = terminal.console()
        print_table(console, (), result.rows(), first="name", last="found")
        for concern in result.concerns:
            console.print(f"\nlooks wrong: {concern}", soft_wrap=True)
        if not result.concerns:
            console.print(f"\nnothing looks wrong{hint}")

    answered("check", options, show)


# ---- a corpus: evaluate, frontier, train, translate, serve ----


def evaluate(options: dict[str, Any]) -> int:
    """Print the table, and what was left out; 1 if pairs failed."""
    out = options.get("out")
    if options.get("paper") and options.get("scheme") is None:
        places = {scheme: {} if out is None else {"out": Path(out) / scheme} for scheme in ("random", "contiguous")}
        return max(evaluate({**options, "scheme": scheme, **place}) for scheme, place in places.items())
    result: unmask.Evaluation = answered("evaluate", options, partial(_show_evaluation, out=out))
    _print_skipped(result)
    if not result.failed:
        return 0
    where = "" if out is None else f"see {Path(out) / 'failures.jsonl'}; "
    terminal.messages().print(
        f"{len(result.failed)} of {result.pairs} pairs failed, the first with {result.failed[0]['reason']}: "
        f"{where}the same command tries them again",
        style="red",
    )
    return 1


def _show_evaluation(evaluation: unmask.Evaluation, out: Any) -> None:
    from unmask.evaluation.table import HEADINGS, cell, written

    if not (pairs := evaluation.summary["pairs"]):
        return
    rows = []
    for row in evaluation.summary["constructions"]:
        difference = cell(row["difference"], "difference") if "difference" in row else ""
        rows.append([named(row["construction"]).label, *(written(row[m]["value"], m) for m in HEADINGS), difference])
    heads = [*HEADINGS.values(), "P-NLL per token\nminus product"]
    print_table(terminal.console(), heads, rows, first=f"{pairs:,} {evaluation.settings.get('scheme') or 'given'} pairs")
    _print_place("intervals, rows and figures", out)


def frontier(options: dict[str, Any]) -> None:
    """Print the table, and what was left out."""
    out = options.get("out")

    def show(result: unmask.Frontier) -> None:
        from unmask.evaluation.frontier import cells, name_of

        console = terminal.console(at_least=terminal.USUAL)
        console.print(result.headline, soft_wrap=True)
        rows = ([name_of(point), *cells(point)] for point in result.points)
        print_table(console, ["rounds", "rows", "nats per token", f"minus {result.best}"], rows, first="decoder")
        _print_place("rows, table and figure", out)

    _print_skipped(answered("frontier", options, show))


def _print_place(what: str, out: Any) -> None:
    terminal.messages().print(f"\n{what} are not kept: give --out FOLDER" if out is None else f"\n{what} are in {out}")


def _print_skipped(result: unmask.Evaluation | unmask.Frontier) -> None:
    for reason, count in result.skipped.items():
        terminal.messages().print(f"{count} {'text' if count == 1 else 'texts'} skipped: {reason}")


def train(options: dict[str, Any]) -> None:
    """Print where the model is, and how to continue a run that is not finished."""
    run = answered("train", options, print, plan=True)
    if run.status == "interrupted":
        raise KeyboardInterrupt
    if not run.finished and process.rank() == 0:
        terminal.messages().print(process.RESUME)


def translate(options: dict[str, Any]) -> None:
    """Print translations as JSON lines, and figures where there are references."""
    with terminal.progress() as report:
        translations = unmask.translate(**options, progress=report)
    quiet = bool({"save", "out"} & set(options))
    if not quiet:
        print(translations.lines(), end="")
    if translations.figures is not None:
        screen = terminal.console() if quiet else terminal.messages()
        screen.print(str(translations.figures), soft_wrap=True)


def serve(options: dict[str, Any]) -> None:
    """Serve the page until Ctrl-C."""
    try:
        unmask.serve(**options)
    except KeyboardInterrupt:
        process.leave_now()  # threads that are still in a pass must not hold the process


# ---- samples: sample, diagnose ----


def sample(options: dict[str, Any]) -> None:
    """Draw samples and print their diagnosis."""
    if (template := options.get("template")) is not None:
        refuse_file_name(template, f"give --init {template} to start from its texts")
    answered("sample", options, _show_run)


def diagnose(options: dict[str, Any]) -> None:
    """Print the diagnosis of a run."""
    json, folder = "json" in options, Path(options["run"])
    answered("diagnose", options, _show_diagnosis)
    if not json:
        terminal.messages().print(f"figures are in {folder / 'figures'}")


def _show_run(run: unmask.SampleRun) -> None:
    _show_diagnosis(run.diagnosis)
    console, screen = terminal.console(), terminal.messages()
    for row in run.last.head(SHOWN).itertuples():
        console.print(f"{row.energy:8.2f}  {row.text}", soft_wrap=True)
    if run.folder is None:
        screen.print(f"{len(run.samples):,} samples were drawn and none is kept: give --out FOLDER to keep them")
    else:
        screen.print(f"{len(run.samples):,} samples are in {run.folder / 'samples.parquet'}, figures in {run.folder / 'figures'}")


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
    if diagnosis.functionals:
        columns = {"mean": 2, "sd": 2, "r_hat": 3, "ess_bulk": 0, "ess_tail": 0, "ess_per_1000_passes": 2}
        rows = []
        for f in diagnosis.functionals:
            cells = [number(float(getattr(f, name)), f",.{digits}f") for name, digits in columns.items()]
            rows.append([f"{f.length}, {f.name}", *cells])
        heads = ["mean", "sd", "R-hat", "ESS bulk", "ESS tail", "ESS per\n1000 passes"]
        print_table(console, heads, rows, first="tokens, functional")
    console.print(f"unique texts {diagnosis.unique:.1%}, equal neighbours {number(diagnosis.stutter, '.1%')}")
    if (judge := diagnosis.judge) is not None:
        texts = "last texts" if diagnosis.functionals else "texts"
        starts = "" if judge["starts"] is None else f", {number(judge['starts'])} for their starts"
        console.print(
            f"judge {judge['name']}: {number(judge['samples'])} nats per token for the {texts}{starts} (lower is better)"
        )
    for sentence in diagnosis.verdict:
        console.print(f"- {sentence}")


# ---- score ----


def score(options: dict[str, Any]) -> int:
    """Print scores: rows as they come, tables of sentences, or accuracies of pairs; 1 if a text lacks a score."""
    json, words, file = options.pop("json", False), options.pop("texts", []), options.pop("file", None)
    pairs = options.get("minimal_pairs")
    if file is not None and words:
        raise InputError(f"a text and file {str(file)!r} were both given: give one")
    out, rows, format = options.get("out"), options.get("rows", "texts"), options.get("format", "jsonl")
    texts = Path(file) if file is not None else _texts(words, pairs)
    from_file = isinstance(texts, Path)
    lines = from_file and out is None and not json and not (terminal.is_terminal() and "format" not in options)
    if not from_file and not pairs and rows == "texts" and format == "jsonl":
        options["rows"] = "nested"
    reasons: dict[int, str] = {}
    scored: set[bool] = set()
    with terminal.progress() as report:
        from unmask.scoring.score import LineWriter, check_format

        check_format(format, rows, on_stream=out is None)
        write = LineWriter(sys.stdout, format)

        def note(place: int, reason: str | None) -> None:
            scored.add(reason is None)
            if reason is not None:
                reasons.setdefault(place, reason)

        def sink(row: Mapping[str, Any]) -> None:
            write(row)
            note(row["item"], row["reason"])

        scores = unmask.score(texts, **options, sink=sink if lines else None, progress=report)
    if json:
        terminal.print_json(scores.to_dict())
    elif isinstance(scores, unmask.PairScores) and out is None and "format" in options:
        for row in scores.rows:
            write(row)
    elif isinstance(scores, unmask.PairScores):
        _show_pairs(scores)
    elif out is None and not lines:
        _show_sentences(scores)
    if not lines:
        for place, why in scores.reasons():
            note(place, why)
    if reasons:
        (place, why), what = next(iter(reasons.items())), "pair" if pairs else "text"
        count = f"1 {what} lacks" if len(reasons) == 1 else f"{len(reasons):,} {what}s lack"
        terminal.messages().print(f"{count} a score, the first is {what} {place}: {why}")
    if out is not None:
        terminal.messages().print(f"rows are in {Path(out) / f'scores.{format}'}")
    from unmask.scoring.texts import EMPTY

    return int(True not in scored or any(reason != EMPTY for reason in reasons.values()))


def _texts(words: Sequence[str], pairs: Sequence[Path] | None) -> Path | list[str] | None:
    """A file, standard input, or sentences."""
    if pairs and words:
        raise InputError(f"{words[0]!r} and --minimal-pairs were both given: give one of the two")
    if pairs:
        return None
    if not words or not all(text.strip() for text in words):
        problem = "a text is empty" if words else "no text was given"
        raise InputError(f"{problem}: give a file, - for standard input, sentences, or --minimal-pairs")
    files = [text for text in words if text == "-" or _names_a_file(text)]
    if not files:
        return list(words)
    if len(words) > 1:
        raise InputError(f"{files[0]!r} is a file among {len(words)} texts: give one file, or sentences")
    from unmask.runs.files import user_path

    return STANDARD_INPUT if files[0] == "-" else user_path(files[0])


def _names_a_file(text: str) -> bool:
    """Whether a text is a file that exists, or is written like the path of one: without a space, with a folder or an ending."""
    written_so = not any(c.isspace() for c in text.strip()) and ("/" in text or Path(text).suffix != "")
    short = max(len(part.encode(errors="replace")) for part in text.split("/")) <= 255
    return (written_so and short) or os.path.isfile(os.path.expanduser(text))


def _show_sentences(scores: unmask.Scores) -> None:
    console = terminal.console(at_least=80)
    entries, unit = scores.shape.scores, scores.shape.unit
    if scores.shape.kind != "nested":
        import pandas

        columns = [column for column in scores.shape.columns.names if column not in ("id", "reason", "position")]
        columns.sort(key=lambda column: column != "text")
        return print_frame(console, pandas.DataFrame(list(scores), columns=columns, dtype=object))  # counts stay whole numbers
    for place, row in enumerate(scores):
        print_heading(console, row["text"])
        each = {entry.name: None if row[entry.name] is None else row[entry.name] / row["length"] for entry in entries}
        cells = [[name, number(row[name]), number(per_token), _error(row, name)] for name, per_token in each.items()]
        print_table(console, [unit, "per token", "error or bounds"], cells, first=f"{row['length']} tokens")
        if place + 1 < len(scores):
            console.print()
    if len(scores) == 2 and (by_token := [entry.name for entry in scores.by_token()]):
        console.print(f"\nfirst minus second, token by token ({unit})")
        lines = []
        for row in scores.difference():
            pair = dict.fromkeys([row["first_token"] or "-", row["second_token"] or "-"])
            lines.append([" / ".join(pair), *(f"{row[f'{name}_difference']:+.3f}" for name in by_token)])
        print_table(console, by_token, lines, first="first / second")
    return None


def _error(row: Mapping[str, Any], name: str) -> str:
    error = row.get(f"{name}_se")
    return "" if error is None else f"± {error:.3f}" if error else "exact"


def _show_pairs(pairs: unmask.PairScores) -> None:
    console, scores = terminal.console(at_least=80), list(pairs.scores)

    def accuracy(row: Mapping[str, Any]) -> str:
        value, low, high = row["accuracy"], row["low"], row["high"]
        return "-" if value is None else f"{100 * value:.1f} [{100 * low:.0f}, {100 * high:.0f}]"

    for level, title in (("set", "set"), ("phenomenon", "phenomenon"), ("all", "all pairs")):
        by_name: dict[str, dict[str, Any]] = {}
        for row in (row for row in pairs.accuracy if row["level"] == level):
            by_name.setdefault(row["name"], {})[row["score"]] = row
        if by_name:
            table: Iterable[list[str]] = [
                [name, *(str(rows[scores[0]][key]) for key in ("pairs", "ties")), *(accuracy(rows[one]) for one in scores)]
                for name, rows in by_name.items()
            ]
            print_table(console, ["pairs", "ties", *scores], table, first=title)
            console.print()
    console.print("accuracy in %, with 95 % intervals; ties count half; pairs that lack a score are left out")
