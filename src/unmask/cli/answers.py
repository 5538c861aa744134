"""`unmask fill`, `compare`, `dependence` and `mutants`: texts in, answers printed as they are ready, files last; and `check`."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from unmask.cli import terminal
from unmask.errors import InputError
from unmask.formats import count_at_most, percent_at_least
from unmask.joints.registry import named
from unmask.runs.lines import STANDARD_INPUT, plain_texts, refuse_file_name, source_name
from unmask.runs.outputs import output_file

if TYPE_CHECKING:
    from rich.console import Console

    from unmask.answers.chain_filling import ChainFilling
    from unmask.answers.checking import Check
    from unmask.answers.comparison import Comparison
    from unmask.answers.dependence import Dependence
    from unmask.answers.filling import Filling
    from unmask.tables.profile import Profile
    from unmask.variants.measured import Measured
    from unmask.variants.mutants import Mutants

WIDEST = 10
"""The most positions whose matrix fits into 80 columns; for more, the strongest pairs are listed."""
LISTED = 20


def _answer(verb: str, show: Callable[[Any, Console], None], given: dict[str, Any]) -> None:
    """Call `unmask.<verb>` on the texts and print its answers: by `show`, or as JSON, one line per text of a file.

    An answer is printed before the files that belong to it are written (see `one_or_many`), so that a full disk costs only these.
    """
    json = given.pop("json", False)
    text, file = given.pop("text", given.pop("sequence", None)), given.pop("file", None)
    for name in ("figure", "out"):
        if name in given:
            output_file(name, given[name], (file, STANDARD_INPUT if text == "-" else None))
    found = _read_texts(text, file)
    texts, many = (found, True) if isinstance(found, list) else ([found], False)
    console = terminal.console(at_least=terminal.USUAL)
    with ExitStack() as bar:
        report = bar.enter_context(terminal.progress(quiet=sys.stdout.isatty() if many else json))
        import unmask

        for number, one in enumerate(getattr(unmask, verb).each(texts, progress=report, **given)):
            ready = one.to_dict()
            if not many or sys.stdout.isatty():
                bar.close()
            if json:
                terminal.print_json(ready, indent=None if many else 2)
            else:
                console.print(end="\n" if number else "")
                show(one, console)


def _read_texts(text: str | None, file: Path | None) -> str | list[str]:
    """The text itself; or a list, one per line that is not blank, of a file or of standard input (-)."""
    if (text is None) == (file is None):
        given = "TEXT and --file were both given" if file is not None else "no text was given"
        raise InputError(f"{given}: give a text, - for standard input, or --file with one text per line")
    if text is not None and text != "-":
        refuse_file_name(text, f"give --file {text}")
        return text
    source = file or STANDARD_INPUT
    texts = list(plain_texts(source))
    if not texts:
        raise InputError(f"{source_name(source)!r} has no text: give one text per line")
    return texts


def _show_filling(filling: Filling | ChainFilling, console: Console) -> None:
    from unmask.answers.blanked_text import mass_in_words
    from unmask.answers.chain_filling import ChainFilling

    more: dict[str, Callable[[Any], str]] = {}
    if isinstance(filling, ChainFilling):
        said, beside, answers = filling.summary, 30, filling.answers
        if not filling.exact:
            more["error"] = lambda completion: f"{completion.standard_error:.2f}"
    else:
        joint, answers = filling.joint, []
        kind = "distribution of 1 blank" if joint.sites == 1 else f"{joint.name} joint of {joint.sites} blanks"
        said = f"{kind}; {terminal.shape(joint.shape)} {mass_in_words(filling.candidates_mass, joint.sites)}"
        beside = 24 if joint.sites == 1 else 36
        if joint.sites > 1:
            more["product"] = lambda completion: terminal.percent(completion.product_log_prob)
    terminal.print_heading(console, filling.text)
    console.print(f"{said}\n")
    rows: list[list[Any]] = []
    for completion in filling.completions:
        mark = " *" if completion.is_gold else ""
        shown = terminal.marked(completion.text, completion.spans, console.width - beside - len(mark)).append(mark)
        rows.append([*terminal.probability(completion.log_prob), *[number(completion) for number in more.values()], shown])
    terminal.print_table(console, ["probability", "nats", *more], rows, last="completion")
    if answers:
        rows = []
        for answer in answers:
            rank = "-" if answer.rank is None else " to ".join(map(count_at_most, sorted(set(answer.rank))))
            odds = f"1 : {1 / answer.odds:.3g}" if answer.odds else "0"
            rows.append([*terminal.probability(answer.log_prob), rank, odds, answer.answer])
        console.print()
        terminal.print_table(console, ["probability", "nats", "rank", "odds"], rows, last="answer")
    if any(completion.is_gold for completion in filling.completions):
        console.print("* the tokens given")


def _show_comparison(comparison: Comparison, console: Console) -> None:
    from unmask.answers.blanked_text import mass_in_words

    joint = next(iter(comparison.joints.values()))
    terminal.print_heading(console, comparison.text)
    console.print(
        f"{joint.sites} blanks; {terminal.shape(joint.shape)} {mass_in_words(comparison.candidates_mass, joint.sites)}\n"
    )
    console.print(f"Probability of a completion (%) under each construction, the best by {comparison.ranked_by}")
    names = [named(name).heading or name.replace("_", "\n") for name in comparison.joints]
    rows = []
    for completion in comparison.completions:
        name = " ".join(completion.tokens) + (" *" if completion.is_gold else "")
        log_probs = [*completion.log_probs.values(), completion.orders_log_prob]
        rows.append([name, *map(terminal.short_percent, log_probs)])
    terminal.print_table(console, [*names, "all\nord."], rows, first="completion")
    known = comparison.cloze.gold is not None
    some = len(comparison.support) < len(comparison.model.regular_ids)
    console.print(f"all orders: the chain rule averaged over all orders, over the {'alphabet' if some else 'whole vocabulary'}")
    if known:
        console.print("* the tokens given")
    dependence = "mutual\ninformation" if joint.sites == 2 else "total\ncorrelation"
    console.print("\nEntropy, dependence, and divergence from the model's own conditionals (nats)")
    columns = ["entropy", dependence, "A-KL", *(["G-KL", "U-PPL", "P-PPL"] if known else [])]
    rows = []
    for construction, row in comparison.descriptions.items():
        in_nats = [row.entropy, row.total_correlation, row.a_kl, *([row.g_kl] if row.g_kl is not None else [])]
        perplexities = [f"{p:.4g}" for p in (row.u_ppl, row.p_ppl) if p is not None]
        rows.append([construction, *map(terminal.nats, in_nats), *perplexities])
    terminal.print_table(console, columns, rows, first="construction")
    console.print(f"\ncompatibility {terminal.nats(comparison.compatibility)} (0: one joint has all these conditionals)")


def _show_dependence(found: Dependence, console: Console) -> None:
    names = found.names()
    terminal.print_heading(console, found.text)
    beside = "the other blanks masked" if found.others == "masked" else "the other tokens as they stand"
    console.print(
        f"mutual information of each pair (nats), {beside};\n{found.construction} joints; "
        f"{terminal.shape([found.candidates] * 2)} tokens hold at least {percent_at_least(found.least_mass)} of a product joint\n"
    )
    if len(names) <= WIDEST:
        cells = [[terminal.nats(value) for value in row] for row in found.matrix.tolist()]
        for i, row in enumerate(cells):
            row[i] = "-"
        rows = ([name, *row] for name, row in zip(names, cells, strict=True))
        terminal.print_table(console, [*map(str, found.positions)], rows, first="token")
    else:
        rows = ([f"{names[i]} - {names[j]}", terminal.nats(value)] for i, j, value in found.pairs()[:LISTED])
        terminal.print_table(console, ["nats"], rows, first="pair")
        console.print(
            f"\nthe {min(LISTED, len(found.pairs()))} strongest of {len(found.pairs())} pairs; --figure and --json have all"
        )


def dependence(given: dict[str, Any]) -> None:
    """Print informations of pairs, or measure a profile."""
    if "profile" not in given:
        return _answer("dependence", _show_dependence, given)
    for name in ("text", "file"):
        if name in given:
            raise InputError(f"{name} and profile were both given: give one of them")
    terminal.answered("dependence", given, _show_profile)
    return None


def _show_profile(found: Profile) -> None:
    console = terminal.console()
    about = found.about
    console.print(
        f"dependence of two blanks by distance, {found.texts:,} texts, {about['candidates']} tokens tried at a site, which hold "
        f"{about['mass_of_candidates']:.0%} of its probability; nats\n",
        soft_wrap=True,
    )
    rows = []
    for i in [i for i in range(len(found.by_distance)) if i < 8 or (i + 1) & i == 0]:
        numbers = about["information"][i], about["smaller_entropy"][i], found.by_distance[i]
        rows.append([str(i + 1), *map(terminal.nats, numbers), f"{about['pairs'][i]:,}"])
    terminal.print_table(console, ["information", "smaller entropy", "ratio", "pairs"], rows, first="distance")
    console.print(f"\n{len(found.by_distance)} distances in all")


def _show_variants(found: Any, console: Console) -> None:
    """Mutants, or measured variants."""
    (_show_measured if hasattr(found, "sentence") else _show_mutants)(found, console)


def _show_mutants(found: Mutants, console: Console) -> None:
    terminal.print_heading(console, found.sequence)
    console.print(f"{len(found):,} mutants; {found.joint} joint; {len(found.alphabet)} tokens per residue; in nats\n")
    best = found.best()
    rows = ([name, *(f"{values[i]:.3f}" for values in best.numbers.values())] for i, name in enumerate(best.names))
    terminal.print_table(console, ["log-prob.", "effect", "singles", "epistasis", "interaction"], rows, first="mutant")
    if len(best) < len(found):
        console.print(f"\nthe {len(best)} of largest {found.by}; --out and --json have all")


def _show_measured(found: Measured, console: Console) -> None:
    from unmask.variants.measured import HEADS, STATISTICS

    terminal.print_heading(console, found.sequence)
    within = "within" in found.scores[0]
    console.print(
        f"{len(found):,} variants at {len(found.places)} sites; {STATISTICS[found.statistic]} with {found.column}, "
        f"{found.better} is better" + (";\nwithin: among variants with as many changes\n" if within else "\n"),
        soft_wrap=True,
    )
    heads, rows = [HEADS[found.statistic], "95 % interval", *(["within", "95 % interval"] if within else [])], []
    for row in found.scores:
        inside = [_short(row["within"]), _bracket(row, "within_")] if within else []
        rows.append([row["score"], _short(row["value"]), _bracket(row), *inside])
    terminal.print_table(console, heads, rows, first="score")
    console.print()
    for note in found.notes:
        console.print(note, soft_wrap=True)
    console.print(found.sentence, soft_wrap=True)


def _short(value: float) -> str:
    """A number from -1 to 1 in five characters."""
    return f"{value:.3f}".replace("0.", ".", 1)


def _bracket(row: Mapping[str, Any], name: str = "") -> str:
    return f"[{_short(row[f'{name}low'])}, {_short(row[f'{name}high'])}]"


fill = partial(_answer, "fill", _show_filling)
compare = partial(_answer, "compare", _show_comparison)
mutants = partial(_answer, "mutants", _show_variants)


def check(given: dict[str, Any]) -> None:
    """Print what was understood of a model."""
    terminal.answered("check", given, partial(_show_check, with_data="data" in given))


def _show_check(found: Check, with_data: bool) -> None:
    console = terminal.console()
    terminal.print_table(console, (), found.rows(), first="name", last="found")
    for concern in found.concerns:
        console.print(f"\nlooks wrong: {concern}", soft_wrap=True)
    if not found.concerns:
        console.print("\nnothing looks wrong" + ("" if with_data else "; give --data to measure it on your texts"))
