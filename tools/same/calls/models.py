"""What models and tokenizers give: token ids, logits, candidates, tables of texts, `check`."""

from __future__ import annotations

from collections.abc import Iterator

from same.calls import Call, call, file, model

OF_WORDS = ("words", "sure", "distilbert", "electra", "albert")
TEXTS = {
    **dict.fromkeys(OF_WORDS, ("the cat sat on the mat .", "a dog ran on the bed .")),
    "pieces": ("ab cd .", "abc a ."),
    "letters": ("ACDEFG", "GFEDCA"),
    "roberta": ("the cat sat on the mat .",),
}
BLANKED = {
    **dict.fromkeys(
        OF_WORDS, ("the [MASK] sat on the [MASK] .", "a [MASK] dog .", "the [MASK] [MASK] [MASK] .")
    ),
    "pieces": ("[MASK] [MASK] .", "ab [MASK] cd ."),
    "letters": ("A [MASK] D [MASK] F", "[MASK] C D"),
    "roberta": ("the<mask> sat on the<mask> .", "a<mask> ran ."),
}


def calls() -> list[Call]:
    """All calls of this file."""
    return [*of_logits(), *of_tables(), *of_checks()]


def of_logits() -> Iterator[Call]:
    """Token ids and logits, in several dtypes."""
    for name, texts in TEXTS.items():
        for dtype in ("float32", "float64", "bfloat16"):
            for number, text in enumerate(texts):
                loaded = model(name, dtype=dtype)
                yield call(
                    f"logits/{name}/{dtype}/{number}",
                    "logits",
                    model=loaded,
                    texts=[text],
                    places=[1, 2, 4],
                )


def of_tables() -> Iterator[Call]:
    """Candidates of texts with blanks, and their tables."""
    for name, texts in BLANKED.items():
        for number, text in enumerate(texts):
            for size in (3, 6):
                where = f"text-tables/{name}/{number}/{size}"
                yield call(where, "text_tables", model=model(name), text=text, size=size)
            if "roberta" not in name:  # whose 320 tokens would take minutes for three blanks
                where = f"text-tables/{name}/{number}/exact"
                yield call(where, "text_tables", model=model(name), text=text, size=0, exact=True)


def of_checks() -> Iterator[Call]:
    """What is understood of a model, and what looks wrong."""
    for name in TEXTS:
        yield call(f"check/{name}/model", "check", model=f"materials/{name}")
        data = file("letters.fasta" if name == "letters" else "sentences.txt")
        yield call(f"check/{name}/texts", "check", model=f"materials/{name}", data=data)
    yield call(
        "refused/check/letters", "check", model="materials/letters", data=file("sentences.txt")
    )
