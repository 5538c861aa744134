"""Commands: exit code, what they print, and what they leave.

Most run in the worker, a few in a process of their own.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from same.calls import Call, call
from same.materials import PROTEIN

PAIR = "the [MASK] sat on the [MASK] ."
WORDS = ("--model", "materials/words", "--device", "cpu")
LETTERS = ("--model", "materials/letters", "--device", "cpu")


def calls() -> list[Call]:
    """All calls of this file."""
    return [
        *of_texts(),
        *of_corpora(),
        *of_samples(),
        *of_sequences(),
        *of_mistakes(),
        *in_processes(),
    ]


def command(words: Sequence[str], standard_input: str = "", process: bool = False) -> Call:
    """A command, named by its words."""
    end = "/process" if process else ""
    read = "/" + standard_input[:20].strip() if standard_input else ""
    name = f"command{end}/{' '.join(words)}{read}"
    return call(name, "command", words=list(words), standard_input=standard_input, process=process)


def both(*words: str) -> Iterator[Call]:
    """A command with its table, and with its JSON."""
    yield command(words)
    yield command((*words, "--json"))


def of_texts() -> Iterator[Call]:
    """fill, compare, dependence, mutants."""
    for construction in ("product", "restarted", "chain"):
        yield from both(
            "fill", PAIR, *WORDS, "--joint", construction, "--candidates", "5", "--top", "4"
        )
    yield from both("fill", "the [MASK] sat .", *WORDS, "--exact")
    yield from both("fill", PAIR, *WORDS, "--passes", "30", "--answers", "cat mat,dog bed")
    yield from both("fill", "the old man sat .", *WORDS, "--positions", "2,3", "--candidates", "4")
    yield from both("fill", PAIR, *WORDS, "--alphabet", "cat,dog,mat")
    yield command(("fill", "--file", "materials/blanks.txt", *WORDS, "--candidates", "4", "--json"))
    yield command(
        ("fill", "--file", "materials/blanks_and_gaps.txt", *WORDS, "--candidates", "4", "--json")
    )
    yield command(
        ("fill", "--file", "-", *WORDS, "--candidates", "4", "--json"), "the [MASK] ran .\n"
    )
    yield from both("compare", PAIR, *WORDS, "--candidates", "4", "--top", "3")
    yield from both(
        "compare",
        PAIR,
        *WORDS,
        "--candidates",
        "4",
        "--joints",
        "product,mrf",
        "--targets",
        "cat,mat",
    )
    yield from both("dependence", "the [MASK] [MASK] on the [MASK] .", *WORDS, "--candidates", "4")
    yield from both(
        "dependence", "the cat sat .", *WORDS, "--candidates", "3", "--others", "masked"
    )
    yield command(
        (
            "dependence",
            "--profile",
            "materials/many.txt",
            *WORDS,
            "--candidates",
            "4",
            "--save",
            "out/profile.json",
        )
    )
    yield from both(
        "mutants",
        PROTEIN,
        *LETTERS,
        "--positions",
        "1-2",
        "--changes",
        "2",
        "--alphabet",
        "ACD",
        "--top",
        "4",
    )
    yield from both("mutants", PROTEIN, "--mutations", "A1C,C2A+D3E", *LETTERS)
    yield from both(
        "mutants",
        PROTEIN,
        *LETTERS,
        "--measured",
        "materials/measured.csv",
        "--scores",
        "singles,pll",
    )


def of_corpora() -> Iterator[Call]:
    """score, evaluate, frontier, check, train."""
    for score in ("pll", "left_to_right,any_order", "decoder:interleaved@2"):
        yield from both("score", "the cat sat .", "the dog dog .", *WORDS, "--score", score)
    for rows in ("words", "tokens"):
        yield command(
            ("score", "the cat sat .", *WORDS, "--score", "pll", "--rows", rows, "--format", "csv")
        )
    for name in ("table.csv", "table.jsonl", "sentences.txt"):
        yield command(("score", "--file", f"materials/{name}", *WORDS, "--score", "pll"))
        yield command(
            (
                "score",
                "--file",
                f"materials/{name}",
                *WORDS,
                "--score",
                "pll,energy_norm",
                "--format",
                "csv",
                "--unit",
                "bits",
            )
        )
    yield command(
        ("score", "--file", "-", *WORDS, "--score", "pll"), "the cat sat .\na dog ran .\n"
    )
    yield command(
        ("score", "--file", "materials/table.csv", *WORDS, "--score", "pll", "--out", "out/scores")
    )
    yield from both(
        "score", "--minimal-pairs", "materials/pairs.jsonl", *WORDS, "--score", "pll,any_order"
    )
    yield from both(
        "evaluate",
        "--data",
        "materials/sentences.txt",
        *WORDS,
        "--pairs",
        "4",
        "--scheme",
        "random",
        "--out",
        "out/table",
    )
    yield from both(
        "evaluate",
        "--data",
        "materials/blocks.jsonl",
        *WORDS,
        "--joints",
        "product,chain",
    )
    yield from both(
        "frontier",
        "--data",
        "materials/sentences.txt",
        *WORDS,
        "--length",
        "6",
        "--first",
        "--passes",
        "2",
        "--decoders",
        "interleaved",
    )
    yield from both("check", *WORDS)
    yield from both("check", *WORDS, "--data", "materials/sentences.txt")
    for objective in ("masked", "causal"):
        shape = (
            "--layers",
            "1",
            "--width",
            "16",
            "--heads",
            "2",
            "--vocab",
            "80",
            "--max-length",
            "32",
        )
        steps = (
            "--steps",
            "2",
            "--batch-tokens",
            "256",
            "--lr",
            "0.01",
            "--warmup",
            "1",
            "--dropout",
            "0",
        )
        where = ("--valid", "materials/valid.txt", "--device", "cpu", "--out", "out/model")
        yield command(
            (
                "train",
                "materials/corpus.txt",
                "--objective",
                objective,
                *shape,
                *steps,
                *where,
                "--json",
            )
        )


def of_samples() -> Iterator[Call]:
    """sample, diagnose, lab."""
    short = ("--chains", "2", "--sweeps", "3", "--seed", "1")
    kernels = ("mh", "gibbs", "block", "sequential-block")
    for kernel in kernels:
        yield from both("sample", PAIR, *WORDS, "--kernel", kernel, *short)
    yield command(("sample", "--length", "5,6", *WORDS, "--kernel", "mh", *short, "--json"))
    yield command(
        ("sample", PAIR, *WORDS, "--kernel", "gibbs", *short, "--out", "out/run", "--json")
    )
    spins = ("--sites", "3", "--coupling", "0.3", "--fields", "0", "--graph", "complete")
    for study in ("dictionary", "dependence", "parallel", "schedule", "decoding"):
        yield command(("lab", study, *spins, "--out", "out/lab", "--json"))
    yield command(("lab", "masking", *spins, "--fits", "2", "--json"))
    yield command(("lab", "stutter", "--json"))
    yield command(("lab", "parallel", *spins, "--out", "out/lab"))


def of_sequences() -> Iterator[Call]:
    """Commands that read what others wrote."""
    for kernel in ("mh", "gibbs"):
        sampled = (
            "sample",
            PAIR,
            *WORDS,
            "--kernel",
            kernel,
            "--chains",
            "2",
            "--sweeps",
            "4",
            "--out",
            "out/run",
        )
        again = [*sampled[:-3], "6", "--out", "out/run", "--json"]
        several = [
            [*sampled, "--json"],
            ["diagnose", "out/run"],
            ["diagnose", "out/run", "--json"],
            again,
        ]
        yield call(f"commands/sample, diagnose, sample/{kernel}", "commands", several=several)
    for kernel in ("auto", "mh"):
        trained = {"$trained": "masked-pairs"}
        words = [
            "translate",
            "materials/few_sources.txt",
            "--model",
            trained,
            "--kernel",
            kernel,
            "--lengths",
            "2",
        ]
        several = [
            [*words, "--json"],
            [*words, "--reference", "materials/few_targets.txt", "--out", "out/run", "--json"],
        ]
        yield call(f"commands/translate/{kernel}", "commands", several=several)


def of_mistakes() -> Iterator[Call]:
    """Exit code 2 and one line."""
    yield command(("fill",))
    yield command(("fill", "the cat .", *WORDS))
    yield command(("fill", PAIR, *WORDS, "--joint", "maximum"))
    yield command(("fill", PAIR, *WORDS, "--candidates", "many"))
    yield command(("fill", PAIR, "--model", "materials/nowhere"))
    yield command(("fill", PAIR, *WORDS, "--colour", "red"))
    yield command(("fil", PAIR))
    yield command(("score", "--file", "materials/nofile.csv", *WORDS))
    yield command(("score", "the cat .", *WORDS, "--score", "perplexity"))
    yield command(("score", *WORDS))
    yield command(("sample", PAIR, *WORDS, "--kernel", "none"))
    yield command(("sample", PAIR, *WORDS, "--sweeps", "0"))
    yield command(("evaluate", "--data", "materials/nofile.txt", *WORDS))
    yield command(("mutants", PROTEIN, *LETTERS))
    yield command(("diagnose", "materials/nowhere"))
    yield command(("lab", "parallel", "--sites", "99"))
    yield command(("train", "--out", "out/model"))


def in_processes() -> Iterator[Call]:
    """What only a process of its own shows: the entry point, streams, exit codes."""
    yield command(
        ("fill", PAIR, *WORDS, "--joint", "mrf", "--candidates", "4", "--json"), process=True
    )
    yield command(
        ("score", "--file", "-", *WORDS, "--score", "pll"), "the cat sat .\n", process=True
    )
    yield command(("fill", "the cat .", *WORDS), process=True)
    yield command(("fill", "the [MASK] sat .", *WORDS, "--candidates", "4"), process=True)
