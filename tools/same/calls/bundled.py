"""Calls on the model that comes with unmask, whose weights are each checkout's own."""

from __future__ import annotations

from collections.abc import Iterator

from same.calls import Call, call, method, model
from same.calls.joints import CONSTRUCTIONS
from same.calls.sampling import DECODERS, KERNELS
from same.calls.scoring import LAWS, WITH_TOKENS
from same.materials import ENGLISH, corpus

BUNDLED = model("bundled")
BLANKED = (
    "The [MASK] [MASK] at the casino.",
    "She drank a cup of [MASK].",
    "A [MASK] rides a [MASK] bicycle.",
    "Two [MASK] are [MASK] in the [MASK].",
)


def calls() -> list[Call]:
    """All calls of this file."""
    return [*of_blanks(), *of_searches(), *of_scores(), *of_samples(), *of_studies()]


def of_blanks() -> Iterator[Call]:
    """Joints, comparisons and dependence."""
    for number, text in enumerate(BLANKED):
        size = 6 if number == 3 else 12
        for construction in CONSTRUCTIONS:
            where = f"bundled/fill/{number}/{construction}"
            yield call(
                where, "fill", text=text, model=BUNDLED, joint=construction, candidates=size, top=8
            )
        if number != 1:
            yield call(
                f"bundled/compare/{number}",
                "compare",
                text=text,
                model=BUNDLED,
                candidates=size,
                top=4,
            )
            for construction in ("pseudo_gibbs", "balanced"):
                where = f"bundled/dependence/{number}/{construction}"
                yield call(
                    where, "dependence", text=text, model=BUNDLED, joint=construction, candidates=8
                )
    for number, text in enumerate(ENGLISH[:3]):
        yield call(
            f"bundled/positions/{number}",
            "fill",
            text=text,
            model=BUNDLED,
            joint="mrf",
            positions=[2, 4],
            candidates=8,
        )
        yield call(
            f"bundled/dependence/text/{number}",
            "dependence",
            text=text,
            model=BUNDLED,
            candidates=4,
            positions=[1, 2, 4],
        )
        where = f"bundled/gold/{number}"
        yield call(where, "compare", text=text, model=BUNDLED, positions=[2, 3], candidates=10)
    for number, text in enumerate(BLANKED[:3]):
        yield call(f"bundled/tables/{number}", "text_tables", model=BUNDLED, text=text, size=10)


def of_searches() -> Iterator[Call]:
    """Searches over the whole vocabulary."""
    texts = (
        "She plays the [WORD] in a band.",
        "A [GAP:1-2] is running.",
        "Two [MASK] are [MASK] in the [MASK].",
        BLANKED[0],
    )
    for number, text in enumerate(texts):
        for passes in (40, 60):
            search = method("Search", passes=passes)
            yield call(
                f"bundled/search/{number}/{passes}",
                "fill",
                text=text,
                model=BUNDLED,
                search=search,
                top=6,
            )
    answers = method("Search", passes=30, answers=["dog", "guitar"], pieces=2)
    yield call("bundled/search/answers", "fill", text=texts[0], model=BUNDLED, search=answers)


def of_scores() -> Iterator[Call]:
    """Scores of texts and tokens, and minimal pairs."""
    texts = list(ENGLISH)
    for score in (*WITH_TOKENS, "any_order"):
        yield call(f"bundled/score/{score}", "score", texts=texts[:4], score=score, model=BUNDLED)
        if score != "any_order":
            for rows in ("words", "tokens"):
                yield call(
                    f"bundled/score/{score}/{rows}",
                    "score",
                    texts=texts,
                    score=score,
                    rows=rows,
                    model=BUNDLED,
                )
    sampled = method("AnyOrder", exact_tokens=3, orders=4)
    yield call("bundled/score/orders", "score", texts=texts, score=[sampled], model=BUNDLED)
    for decoder in (*LAWS, "least-dependent"):
        for passes in (2, 4):
            yield call(
                f"bundled/law/{decoder}/{passes}",
                "score",
                texts=texts[:5],
                score=f"decoder:{decoder}@{passes}",
                model=BUNDLED,
            )
    pairs = [{"sentence_good": "The cats sit here.", "sentence_bad": "The cats sits here."}]
    for score in ("pll", "left_to_right", "any_order"):
        yield call(
            f"bundled/pairs/{score}", "score", minimal_pairs=pairs, score=score, model=BUNDLED
        )


def of_samples() -> Iterator[Call]:
    """Samples of kernels and decoders."""
    for name, kernel in KERNELS.items():
        options = {"kernel": kernel, "chains": 2, "sweeps": 2, "seed": 1}
        yield call(
            f"bundled/sample/{name}", "sample", template=BLANKED[3], model=BUNDLED, **options
        )
        yield call(f"bundled/sample/{name}/length", "sample", length=7, model=BUNDLED, **options)
    for name, kernel in DECODERS.items():
        own = {key: value for key, value in kernel.items() if key != "profile"}
        seed = 0 if name.endswith("-cold") else 2  # those draw nothing, and refuse a seed
        for length in (6, 10):
            options = {"kernel": own, "n_texts": 2, "seed": seed, "length": length}
            yield call(f"bundled/generated/{name}/{length}", "generated", model=BUNDLED, **options)


def of_studies() -> Iterator[Call]:
    """Evaluation, frontiers, mutants of words, and the check."""
    for scheme in ("random", "contiguous"):
        words = (
            "cat,mat,man,street,park,woman,book,people,shop,dog,field,boy,cup,tea,table,"
            "a,the,on,in,of,at,is,to,her"
        )
        options = {
            "alphabet": words,
            "pairs": 2,
            "scheme": scheme,
            "joints": "product,mrf,balanced,chain",
        }
        yield call(
            f"bundled/evaluate/{scheme}",
            "evaluate",
            data=["the cat sat on the mat", "a dog at the table"],
            model=BUNDLED,
            **options,
        )
    for decoder in ("entropy-bound", "least-dependent", "interleaved", "verified"):
        options = {
            "decoders": [decoder],
            "passes": [2, 4],
            "length": 8,
            "first": True,
            "sentences": 4,
        }
        yield call(
            f"bundled/frontier/{decoder}", "frontier", data=list(ENGLISH), model=BUNDLED, **options
        )
    for construction in ("balanced", "chain", "pseudo_gibbs"):
        options = {
            "mutations": ["cat2dog", "mat6bed", "cat2dog+mat6bed"],
            "alphabet": "cat,dog,mat,bed",
            "joint": construction,
        }
        yield call(
            f"bundled/mutants/{construction}",
            "mutants",
            sequence="The cat sat on the mat.",
            model=BUNDLED,
            **options,
        )
    yield call("bundled/check", "check", data=list(ENGLISH))
    options = {"profile": corpus(40, seed=5), "candidates": 4, "sentences": 40}
    yield call("bundled/profile", "dependence", model=BUNDLED, **options)
    for number in range(2):
        yield call(
            f"bundled/logits/{number}",
            "logits",
            model=BUNDLED,
            texts=[ENGLISH[number]],
            places=[1, 2, 3],
        )
