"""Scores of texts, words and tokens, and of minimal pairs."""

from __future__ import annotations

from collections.abc import Iterator

from same.calls import Call, call, file, method, model, out
from same.materials import GOOD_AND_BAD, SENTENCES

WITH_TOKENS = ("pll", "pll_word", "energy_raw", "energy_norm", "left_to_right", "right_to_left")
LAWS = ("entropy-bound", "lowest-entropy", "random", "interleaved", "verified")
"""Decoders with a law that need no profile."""
TEXTS = list(SENTENCES[:7])
BY_MODEL = {
    "words": TEXTS,
    "sure": TEXTS,
    "distilbert": TEXTS[:4],
    "electra": TEXTS[:4],
    "albert": TEXTS[:4],
    "roberta": ["the cat sat on the mat .", "a dog ran ."],
    "pieces": ["ab cd .", "abc a b .", "cdd ab"],
    "letters": ["ACDEFG", "GFED"],
}


def calls() -> list[Call]:
    """All calls of this file."""
    return [*of_scores(), *of_options(), *of_laws(), *of_files(), *of_pairs(), *refused()]


def of_scores() -> Iterator[Call]:
    """Every score of every model; rows of texts, words and tokens."""
    for name, texts in BY_MODEL.items():
        for score in (*WITH_TOKENS, "any_order"):
            yield call(
                f"score/{name}/{score}", "score", texts=texts, score=score, model=model(name)
            )
        for rows in ("words", "tokens", "nested"):
            yield call(
                f"score/{name}/rows/{rows}",
                "score",
                texts=texts,
                score="pll,left_to_right",
                rows=rows,
                model=model(name),
            )
    for name in ("words", "pieces"):
        for score in WITH_TOKENS:
            for rows in ("words", "tokens", "nested"):
                where = f"score/{name}/{score}/rows/{rows}"
                yield call(
                    where, "score", texts=BY_MODEL[name], score=score, rows=rows, model=model(name)
                )


def of_options() -> Iterator[Call]:
    """Options of scores, units, dtypes, and several scores at once."""
    for orders in (2, 8):
        for seed in (0, 5):
            score = method("AnyOrder", exact_tokens=2, orders=orders, seed=seed)
            yield call(
                f"score/any_order/{orders}/{seed}",
                "score",
                texts=TEXTS,
                score=[score],
                model=model("words"),
            )
    for right in (1, 3):
        score = method("LeftToRight", right=right)
        yield call(
            f"score/left_to_right/{right}",
            "score",
            texts=TEXTS,
            score=[score],
            rows="tokens",
            model=model("words"),
        )
    for unit in ("nats", "bits"):
        for rows in ("texts", "tokens"):
            options = {"unit": unit, "rows": rows, "model": model("sure")}
            yield call(
                f"score/unit/{unit}/{rows}", "score", texts=TEXTS, score="left_to_right", **options
            )
    for dtype in ("float64", "bfloat16"):
        for score in ("pll", "energy_norm", "any_order"):
            loaded = model("words", dtype=dtype)
            yield call(f"score/{dtype}/{score}", "score", texts=TEXTS, score=score, model=loaded)
    every = ",".join((*WITH_TOKENS, "any_order"))
    for name in ("words", "sure", "electra"):
        yield call(f"score/{name}/all", "score", texts=TEXTS, score=every, model=model(name))
    yield call("score/one", "score", texts=TEXTS[0], score="pll", model=model("words"))
    yield call("score/two", "score", texts=TEXTS[:2], score="pll,any_order", model=model("words"))
    for score in ("pll", "left_to_right", "energy_raw"):
        long = ["the cat sat . " * 9, "a dog ran ."]
        for choice in ("refuse", "windows"):
            yield call(
                f"score/long/{choice}/{score}",
                "score",
                texts=long,
                score=score,
                long=choice,
                model=model("words"),
            )
    for score in ("pll", "left_to_right", "pll,energy_norm"):
        two = ["the cat sat .", "the dog sat ."]
        yield call(
            f"score/difference/{score}",
            "difference",
            texts=two,
            score=score,
            rows="nested",
            model=model("words"),
        )
    parts = [
        {"before": "the cat", "target": "sat", "after": "."},
        {"before": "a dog ran on", "target": "the bed", "after": "."},
    ]
    for score in ("pll", "left_to_right"):
        yield call(f"score/parts/{score}", "score", texts=parts, score=score, model=model("words"))


def of_laws() -> Iterator[Call]:
    """Laws of decoders."""
    for name in ("words", "sure"):
        for decoder in LAWS:
            for passes in (1, 3, None):
                score = f"decoder:{decoder}" if passes is None else f"decoder:{decoder}@{passes}"
                yield call(
                    f"score/{name}/{score}", "score", texts=TEXTS, score=score, model=model(name)
                )
    for seed in (0, 9):
        score = method("DecoderLaw", decoder="random", passes=3, seed=seed)
        yield call(
            f"score/law/random/{seed}", "score", texts=TEXTS, score=[score], model=model("words")
        )


def of_files() -> Iterator[Call]:
    """Texts of files, with columns of the user's, and rows kept in a folder."""
    for name in (
        "sentences.txt",
        "gaps.txt",
        "unknown.txt",
        "table.jsonl",
        "table.csv",
        "table.tsv",
    ):
        yield call(
            f"score/file/{name}",
            "score",
            texts=file(name),
            score="pll,left_to_right",
            model=model("words"),
        )
    yield call(
        "score/file/letters.fasta",
        "score",
        texts=file("letters.fasta"),
        score="pll",
        model=model("letters"),
    )
    yield call(
        "score/file/field",
        "score",
        texts=file("table.csv"),
        score="pll",
        field="text",
        model=model("words"),
    )
    yield call(
        "score/frame", "score", texts={"$rows": "table.jsonl"}, score="pll", model=model("words")
    )
    yield call(
        "score/file/items", "score", texts=file("items.csv"), score="pll", model=model("words")
    )
    yield call(
        "score/frame/items",
        "score",
        texts={"$rows": "items.jsonl"},
        score="pll",
        rows="tokens",
        model=model("words"),
    )
    for kind in ("jsonl", "csv", "parquet"):
        for rows in ("texts", "tokens"):
            options = {"rows": rows, "format": kind, "out": out("scores"), "model": model("words")}
            yield call(
                f"score/out/{kind}/{rows}", "score", texts=file("table.csv"), score="pll", **options
            )
    options = {"score": "any_order,energy_norm", "out": out("scores"), "model": model("sure")}
    yield call("score/out/several", "score", texts=file("sentences.txt"), **options)


def of_pairs() -> Iterator[Call]:
    """Minimal pairs."""
    rows = [
        {"sentence_good": good, "sentence_bad": bad, "field": field}
        for good, bad, field in GOOD_AND_BAD
    ]
    for name in ("words", "sure", "electra"):
        for score in ("pll", "left_to_right", "any_order", "energy_norm", "decoder:interleaved@2"):
            yield call(
                f"pairs/{name}/{score}", "score", minimal_pairs=rows, score=score, model=model(name)
            )
    for name in ("pairs.jsonl", "pairs.csv"):
        yield call(
            f"pairs/file/{name}",
            "score",
            minimal_pairs=file(name),
            score="pll,any_order",
            model=model("words"),
        )
    options = {
        "minimal_pairs": file("pairs.jsonl"),
        "out": out("pairs"),
        "unit": "bits",
        "model": model("words"),
    }
    yield call("pairs/out", "score", score="pll", **options)


def refused() -> Iterator[Call]:
    """Input that has no score: the kind of error, or the reason of a row, is the result."""
    loaded = model("words")
    yield call("refused/score/nothing", "score", model=loaded)
    yield call("refused/score/name", "score", texts=TEXTS, score="perplexity", model=loaded)
    yield call(
        "refused/score/law", "score", texts=TEXTS, score="decoder:mask-predict@4", model=loaded
    )
    yield call(
        "refused/score/both", "score", texts=TEXTS, minimal_pairs=file("pairs.csv"), model=loaded
    )
    yield call(
        "refused/score/rows", "score", texts=TEXTS, score="pll", rows="letters", model=loaded
    )
    yield call(
        "score/reason/unknown",
        "score",
        texts=["the zebra sat .", "the cat sat ."],
        score="pll,any_order",
        model=loaded,
    )
    yield call(
        "score/reason/empty", "score", texts=["", "the cat sat ."], score="pll", model=loaded
    )
    yield call("score/reason/long", "score", texts=["the cat " * 20], score="pll", model=loaded)
    yield call(
        "refused/score/no-file", "score", texts=file("nofile.csv"), score="pll", model=loaded
    )
    yield call(
        "refused/score/empty-file", "score", texts=file("empty.txt"), score="pll", model=loaded
    )
    yield call(
        "refused/score/broken", "score", texts=file("broken.jsonl"), score="pll", model=loaded
    )
    yield call(
        "refused/score/format", "score", texts=TEXTS, score="pll", format="xlsx", model=loaded
    )
    yield call(
        "score/reason/profile",
        "score",
        texts=TEXTS,
        score="decoder:least-dependent@2",
        model=loaded,
    )
    yield call(
        "refused/pairs/rows", "score", minimal_pairs=file("pairs.csv"), rows="tokens", model=loaded
    )
    yield call("refused/pairs/columns", "score", minimal_pairs=file("table.csv"), model=loaded)
