"""Verbs on a text or several: fill, compare, dependence, mutants, and measured variants."""

from __future__ import annotations

from collections.abc import Iterator

from same.calls import Call, call, file, method, model, out
from same.calls.joints import CONSTRUCTIONS
from same.calls.models import BLANKED
from same.materials import PROTEIN, SENTENCES

PAIR = "the [MASK] sat on the [MASK] ."
THREE = "the [MASK] [MASK] on the [MASK] ."
WHOLE = "the old man saw a red bed ."
ALPHABET = "cat,dog,man,bed,tree"


def calls() -> list[Call]:
    """All calls of this file."""
    return [
        *of_fill(),
        *of_search(),
        *of_compare(),
        *of_dependence(),
        *of_profiles(),
        *of_mutants(),
        *of_measured(),
        *refused(),
    ]


def of_fill() -> Iterator[Call]:
    """Joints of the blanks of a text, by every construction."""
    for name, texts in BLANKED.items():
        for number, text in enumerate(texts):
            for construction in CONSTRUCTIONS:
                where = f"fill/{name}/{number}/{construction}"
                yield call(
                    where,
                    "fill",
                    text=text,
                    model=model(name),
                    joint=construction,
                    candidates=4,
                    top=6,
                )
    for name in ("words", "sure"):
        for member in ("family:0.5,0.25", "family:1", "family:0,0.5"):
            yield call(
                f"fill/{name}/{member}",
                "fill",
                text=PAIR,
                model=model(name),
                joint=member,
                candidates=6,
                top=40,
            )
        for size in (1, 2, 9):
            yield call(
                f"fill/{name}/candidates/{size}",
                "fill",
                text=PAIR,
                model=model(name),
                joint="mrf",
                candidates=size,
            )
        sets = [[7, 8, 12], [9, 14]]
        yield call(
            f"fill/{name}/sets",
            "fill",
            text=PAIR,
            model=model(name),
            joint="balanced",
            candidates=sets,
        )
        yield call(
            f"fill/{name}/exact",
            "fill",
            text=PAIR,
            model=model(name),
            joint="restarted",
            exact=True,
            top=50,
        )
        yield call(
            f"fill/{name}/alphabet",
            "fill",
            text=PAIR,
            model=model(name),
            joint="hcb",
            alphabet=ALPHABET,
        )
        for positions in ([2], [2, 3], [2, 5], [3, 6, 7]):
            where = f"fill/{name}/positions/{'-'.join(map(str, positions))}"
            yield call(
                where,
                "fill",
                text=WHOLE,
                model=model(name),
                joint="pseudo_gibbs",
                positions=positions,
                candidates=4,
            )
        yield call(
            f"fill/{name}/targets",
            "fill",
            text=PAIR,
            model=model(name),
            joint="chain",
            targets=["cat", "mat"],
            candidates=5,
        )
        several = [PAIR, "a [MASK] ran under the [MASK] .", "the [MASK] [MASK] ."]
        for construction in ("product", "arnold_gokhale", "restarted"):
            where = f"fill/{name}/several/{construction}"
            yield call(
                where, "fill", text=several, model=model(name), joint=construction, candidates=5
            )
        for dtype in ("float64", "bfloat16"):
            where = f"fill/{name}/{dtype}"
            yield call(
                where,
                "fill",
                text=PAIR,
                model=model(name, dtype=dtype),
                joint="balanced",
                candidates=5,
            )


def of_search() -> Iterator[Call]:
    """Searches over the whole vocabulary, and constraints on fillings."""
    options = {
        "passes": {"passes": 40},
        "mass": {"mass": 0.3},
        "answers": {"answers": ["cat mat", "dog tree"], "passes": 30},
        "allow": {"allow": {"$numbers": {"1": ["cat", "dog"], "2": ["mat"]}}},
        "forbid": {"forbid": ["cat", "the"], "passes": 60},
    }
    for name in ("words", "sure"):
        for end, search in options.items():
            yield call(
                f"fill/{name}/search/{end}",
                "fill",
                text=PAIR,
                model=model(name),
                search=method("Search", **search),
                top=8,
            )
        for passes in (60, 120):
            search = method("Search", passes=passes)
            where = f"fill/{name}/search/three/{passes}"
            yield call(
                where, "fill", text=THREE, model=model(name), joint="chain", search=search, top=6
            )
        for top in (3, 60):
            search = method("Search", passes=40)
            where = f"fill/{name}/search/one/{top}"
            yield call(
                where, "fill", text="the [MASK] sat .", model=model(name), search=search, top=top
            )
    for text in ("[WORD] ab .", "ab [WORD] cd .", "[GAP:1-2] ab .", "[GAP:2-3] ."):
        for passes in (20, 80):
            search = method("Search", passes=passes)
            yield call(
                f"fill/pieces/search/{text}/{passes}",
                "fill",
                text=text,
                model=model("pieces"),
                search=search,
                top=6,
            )
    for pieces in (1, 2, 3):
        search = method("Search", pieces=pieces, passes=60, answers=["abc", "a"])
        yield call(
            f"fill/pieces/search/pieces/{pieces}",
            "fill",
            text="ab [WORD] .",
            model=model("pieces"),
            search=search,
        )


def of_compare() -> Iterator[Call]:
    """All constructions side by side."""
    for name, texts in BLANKED.items():
        for number, text in enumerate(texts):
            if text.count("mask") + text.count("MASK") > 1:
                yield call(
                    f"compare/{name}/{number}/all",
                    "compare",
                    text=text,
                    model=model(name),
                    candidates=4,
                    top=5,
                )
                some = ["product", "mrf", "family:0.5,0.25", "chain"]
                where = f"compare/{name}/{number}/some"
                yield call(
                    where,
                    "compare",
                    text=text,
                    model=model(name),
                    joints=some,
                    joint="chain",
                    candidates=3,
                )
    for name in ("words", "sure"):
        for positions in ([2, 3], [2, 6], [1, 4, 5]):
            where = f"compare/{name}/positions/{'-'.join(map(str, positions))}"
            yield call(
                where, "compare", text=WHOLE, model=model(name), positions=positions, candidates=4
            )
        yield call(
            f"compare/{name}/targets",
            "compare",
            text=PAIR,
            model=model(name),
            targets=["cat", "mat"],
            candidates=6,
        )
        yield call(
            f"compare/{name}/exact", "compare", text=PAIR, model=model(name), exact=True, top=3
        )
        yield call(
            f"compare/{name}/alphabet", "compare", text=PAIR, model=model(name), alphabet=ALPHABET
        )
        yield call(
            f"compare/{name}/several",
            "compare",
            text=[PAIR, "a [MASK] [MASK] ."],
            model=model(name),
            candidates=4,
        )


def of_dependence() -> Iterator[Call]:
    """Mutual information of every pair."""
    for name in ("words", "sure", "distilbert", "roberta"):
        blanks = "the<mask> sat on the<mask> ." if name == "roberta" else THREE
        for construction in ("pseudo_gibbs", "product", "mrf", "balanced", "chain"):
            for size in (2, 5):
                where = f"dependence/{name}/blanks/{construction}/{size}"
                yield call(
                    where,
                    "dependence",
                    text=blanks,
                    model=model(name),
                    joint=construction,
                    candidates=size,
                )
        for others in ("masked", "text"):
            where = f"dependence/{name}/text/{others}"
            yield call(
                where,
                "dependence",
                text=SENTENCES[0],
                model=model(name),
                others=others,
                candidates=4,
            )
    for name in ("words", "sure"):
        yield call(
            f"dependence/{name}/positions",
            "dependence",
            text=WHOLE,
            model=model(name),
            positions=[2, 3, 7],
            candidates=6,
        )
        yield call(
            f"dependence/{name}/alphabet",
            "dependence",
            text=PAIR,
            model=model(name),
            alphabet=ALPHABET,
        )
        yield call(
            f"dependence/{name}/several",
            "dependence",
            text=[PAIR, THREE],
            model=model(name),
            candidates=4,
        )
    yield call(
        "dependence/figure",
        "dependence",
        text=PAIR,
        model=model("words"),
        candidates=3,
        figure=out("map.png"),
    )


def of_profiles() -> Iterator[Call]:
    """Dependence by distance."""
    for name in ("words", "sure", "electra"):
        for size in (4, 8):
            for sentences in (40, 60):
                where = f"profile/{name}/{size}/{sentences}"
                options = {
                    "profile": file("many.txt"),
                    "candidates": size,
                    "sentences": sentences,
                }
                yield call(
                    where, "dependence", model=model(name), save=out("profile.json"), **options
                )
        yield call(f"profile/{name}/loaded", "loaded_profile", path={"$profile": name})


def of_mutants() -> Iterator[Call]:
    """Mutants by name, and scans of one to three changes."""
    letters = "ACDEF"
    scan = {"positions": "2,4-5", "alphabet": letters, "top": 8}
    # Single mutants have no joint, and a construction for them is refused.
    yield call(
        "mutants/scan/1", "mutants", sequence=PROTEIN, model=model("letters"), changes=1, **scan
    )
    for construction in ("balanced", "mrf", "arnold_gokhale", "chain", "product", "family:0.5,0.2"):
        for changes in (2, 3):
            where = f"mutants/scan/{construction}/{changes}"
            options = {**scan, "changes": changes, "joint": construction}
            yield call(where, "mutants", sequence=PROTEIN, model=model("letters"), **options)
    for ranked in ("log_prob", "effect", "singles", "epistasis", "interaction"):
        options = {"positions": [1, 3], "changes": 2, "alphabet": letters, "by": ranked, "top": 5}
        yield call(
            f"mutants/by/{ranked}", "mutants", sequence=PROTEIN, model=model("letters"), **options
        )
    yield call(
        "mutants/four",
        "mutants",
        sequence=PROTEIN,
        model=model("letters"),
        positions="1-4",
        changes=4,
        alphabet="ACDE",
    )
    yield call(
        "mutants/all",
        "mutants",
        sequence=PROTEIN,
        model=model("letters"),
        positions="all",
        changes=1,
    )
    named = ["A1C", "C2A", "A1C+C2A", "D3E+E4D+F5A"]
    yield call(
        "mutants/named", "mutants", sequence=PROTEIN, mutations=named, model=model("letters")
    )
    yield call(
        "mutants/file",
        "mutants",
        sequence=PROTEIN,
        mutations=file("mutants.txt"),
        model=model("letters"),
    )
    both = [PROTEIN, "CADEFGHIKL"]
    yield call(
        "mutants/several",
        "mutants",
        sequence=both,
        model=model("letters"),
        positions="1-3",
        alphabet=letters,
    )
    words = {"alphabet": "cat,dog,man", "mutations": ["cat2dog", "cat2man"]}
    yield call("mutants/words", "mutants", sequence="the cat sat .", model=model("words"), **words)
    saved = {"positions": "1-2", "changes": 2, "alphabet": letters, "save": out("mutants.parquet")}
    yield call("mutants/saved", "mutants", sequence=PROTEIN, model=model("letters"), **saved)


def of_measured() -> Iterator[Call]:
    """Which score ranks measured variants best."""
    for scores in (
        "all",
        "singles,pll",
        "left_to_right,any_order",
        "epistasis,pairs:balanced",
        "product",
    ):
        for better in ("higher", "lower"):
            ranking = method("Ranking", scores=scores, better=better, orders=4)
            options = {"measured": file("measured.csv"), "ranking": ranking}
            yield call(
                f"measured/{scores}/{better}",
                "mutants",
                sequence=PROTEIN,
                model=model("letters"),
                **options,
            )
    for construction in ("mrf", "arnold_gokhale", "pseudo_gibbs"):
        options = {
            "measured": file("measured.csv"),
            "joint": construction,
            "save": out("scores.parquet"),
        }
        yield call(
            f"measured/joint/{construction}",
            "mutants",
            sequence=PROTEIN,
            model=model("letters"),
            **options,
        )
    options = {
        "measured": file("measured.csv"),
        "alphabet": "ACDEFG",
        "ranking": method("Ranking", skip_bad=True),
    }
    yield call("measured/alphabet", "mutants", sequence=PROTEIN, model=model("letters"), **options)


def refused() -> Iterator[Call]:
    """Input that cannot be answered: the kind of error is the result."""
    loaded = model("words")
    few = method("Search", passes=5)
    yield call("refused/fill/passes", "fill", text=THREE, model=loaded, joint="chain", search=few)
    yield call("refused/fill/no-blank", "fill", text="the cat sat .", model=loaded)
    yield call("refused/fill/empty", "fill", text="", model=loaded)
    yield call("refused/fill/construction", "fill", text=PAIR, model=loaded, joint="maximum")
    yield call("refused/fill/family", "fill", text=PAIR, model=loaded, joint="family:2")
    yield call("refused/fill/candidates", "fill", text=PAIR, model=loaded, candidates=0)
    yield call("refused/fill/top", "fill", text=PAIR, model=loaded, top=0)
    yield call("refused/fill/type", "fill", text=5, model=loaded)
    yield call("refused/fill/targets", "fill", text=PAIR, model=loaded, targets=["cat"])
    yield call("refused/fill/positions", "fill", text=WHOLE, model=loaded, positions=[40])
    yield call("refused/fill/long", "fill", text="the [MASK] " * 12, model=loaded, candidates=2)
    yield call(
        "refused/fill/many", "fill", text="[MASK] " * 9, model=loaded, joint="mrf", candidates=12
    )
    yield call(
        "refused/fill/unknown",
        "fill",
        text=PAIR,
        model=loaded,
        candidates=4,
        joint="mrf",
        targets=["zebra", "cat"],
    )
    yield call("refused/fill/model", "fill", text=PAIR, model="materials/nowhere")
    yield call("refused/fill/not-a-model", "fill", text=PAIR, model="materials/causal")
    yield call("refused/fill/alphabet", "fill", text=PAIR, model=loaded, alphabet="zebra,cat")
    yield call("refused/compare/one-blank", "compare", text="the [MASK] .", model=loaded)
    yield call("refused/compare/twice", "compare", text=PAIR, model=loaded, joints="mrf,mrf")
    yield call("refused/dependence/one-blank", "dependence", text="the [MASK] .", model=loaded)
    yield call("refused/dependence/nothing", "dependence", model=loaded)
    yield call("refused/dependence/others", "dependence", text=PAIR, model=loaded, others="none")
    yield call("refused/mutants/nothing", "mutants", sequence=PROTEIN, model=model("letters"))
    yield call(
        "refused/mutants/wild-type",
        "mutants",
        sequence=PROTEIN,
        mutations=["C1A"],
        model=model("letters"),
    )
    yield call(
        "refused/mutants/place",
        "mutants",
        sequence=PROTEIN,
        mutations=["A99C"],
        model=model("letters"),
    )
    yield call(
        "refused/mutants/changes",
        "mutants",
        sequence=PROTEIN,
        positions="1-2",
        changes=3,
        model=model("letters"),
    )
    yield call(
        "refused/measured/file",
        "mutants",
        sequence=PROTEIN,
        measured="materials/nofile.csv",
        model=model("letters"),
    )
    column = method("Ranking", column="speed")
    yield call(
        "refused/measured/column",
        "mutants",
        sequence=PROTEIN,
        measured=file("measured.csv"),
        ranking=column,
        model=model("letters"),
    )
