"""Texts that are read, passed and written together get what each gets alone, and no more of
them are held than is needed.
"""

import pytest

import unmask
from unmask.common.errors import InputError
from unmask.runs.ray_cluster import RayWorkers
from unmask.scoring import run, text_scores
from unmask.scoring.encoding import encode, prepare
from unmask.scoring.items import Item
from unmask.scoring.row_shape import RowShape
from unmask.scoring.scores.pll import PLL

TEXTS = [
    "The dog ran.",
    "",
    "a [MASK] sat",
    "don't walk, dogs",
    "a [SEP] dog",
    "\x01 cat",
    "zzz",
    "The unplayed dog sat.",
    "a dog",
]


def alone(words, item):
    try:
        return encode(words, item)
    except InputError as error:
        return str(error)


@pytest.mark.filterwarnings("ignore::unmask.common.errors.UnmaskWarning")
@pytest.mark.parametrize("name", ["pieces", "roberta"])
def test_texts_read_together_have_the_tokens_of_each(request, name):
    words = request.getfixturevalue(name).words
    items = [
        *(Item(text) for text in TEXTS),
        Item("The dog sat.", (4, 7)),
        Item("The dogs sat.", (4, 6)),
    ]
    read = prepare(words, list(enumerate(items, 1)))
    assert any(text.encoded is None for text in read)
    assert read[0].encoded is not None
    for number, item, text, reason in read:
        expected = alone(words, item)
        assert item is items[number - 1]
        if text is None:
            assert reason == expected
        else:
            assert (text.ids, text.sites, text.unknown) == (
                expected.ids,
                expected.sites,
                expected.unknown,
            )
            assert (text.tokens.words, text.tokens.spans) == (
                expected.tokens.words,
                expected.tokens.spans,
            )


@pytest.mark.parametrize("name", ["pieces", "roberta", "english"])
def test_the_text_begins_and_ends_where_its_words_do(request, name):
    words = request.getfixturevalue(name).words
    words._ends = None
    texts = ["\u200b", "dog", "a dog [SEP] ran", " a  cat.", "\u200b\u200b", "don't"]
    for text, tokens in zip(texts, words.tokens_of_each(texts), strict=True):
        core = words.core.encode(words.prepared(text))
        own = [t for t, word in enumerate(core.word_ids) if word is not None]
        assert list(tokens.ids) == core.ids, text
        assert list(range(*tokens.inside)) == own, text


def test_equal_tokens_with_other_sites_are_other_texts(pieces):
    texts = [
        encode(pieces.words, Item("a dog a dog", target))
        for target in ((0, 5), (6, 11), None, (0, 5))
    ]
    scored = text_scores.begin(pieces, texts, [PLL()], shares=True)()
    pll = scored.values["pll"]
    assert pll[0] == pll[3] != pll[1]
    assert pll[2] == pytest.approx(pll[0] + pll[1], abs=1e-5)
    assert [len(share) for share in scored.shares["pll"]] == [2, 2, 4, 2]


def test_passes_are_asked_for_before_the_numbers_of_the_chunk_before_are_read(pieces, monkeypatch):
    events = []

    def begin(*args, **named):
        read = text_scores.begin(*args, **named)
        number = sum(event.startswith("begin") for event in events)
        events.append(f"begin {number}")
        return lambda: (events.append(f"read {number}"), read())[1]

    monkeypatch.setattr(run, "begin", begin)
    monkeypatch.setitem(run.CHUNK_TEXTS, "cpu", 2)
    shape = RowShape((PLL(),))

    def rows(ahead):
        work = run.chunks(
            pieces,
            enumerate([Item(text) for text in TEXTS[:1] + TEXTS[7:]] * 2, 1),
            shape.scores,
            "cpu",
        )
        chunks = run.scored(pieces, work, shape, ahead=ahead)
        return [row for chunk, scores in chunks for row in shape.rows(pieces.words, chunk, scores)]

    one_by_one = rows(False)
    assert events == ["begin 0", "read 0", "begin 1", "read 1", "begin 2", "read 2"]
    events.clear()
    assert rows(True) == one_by_one
    assert [row["item"] for row in one_by_one] == [1, 2, 3, 4, 5, 6]
    assert events == ["begin 0", "begin 1", "read 0", "begin 2", "read 1", "read 2"]


def test_a_stream_is_not_read_far_ahead(pieces, monkeypatch):
    monkeypatch.setitem(run.CHUNK_PASSES, "cpu", 4)
    taken, ahead = 0, []

    def texts():
        nonlocal taken
        for _ in range(200):
            taken += 1
            yield "a dog"

    seen = []
    unmask.score(
        texts(),
        "pll",
        model=pieces,
        sink=lambda row: (seen.append(row), ahead.append(taken - len(seen))),
    )
    assert len(seen) == 200
    assert max(ahead) <= run.FEWEST_READ


def test_chunks_go_to_workers_as_they_take_them_and_lost_ones_are_scored_again(
    pieces_folder, tmp_path, monkeypatch
):
    taken, kept = [], []

    def each(function, items, workers, setup):
        """In the place of Ray: takes an item when it has answered the one before; the third is
        lost.
        """
        for place, item in enumerate(items):
            taken.append(place)
            if place == 2:
                raise unmask.UnmaskError("lost")
            yield place, function(setup(), item)

    monkeypatch.setattr(run, "each", each)
    monkeypatch.setattr(
        "unmask.runs.ray_cluster.ray_workers",
        lambda count, device, most=None: RayWorkers(1, device),
    )
    monkeypatch.setitem(run.CHUNK_TEXTS, "cpu", 16)
    file, out = tmp_path / "texts.txt", tmp_path / "run"
    file.write_text("".join(f"{text}\n" for text in ["a dog", "", "The cats sat."] * 40))
    model = unmask.ModelSpec(pieces_folder, device="cpu")

    def progress(done, total, what):
        kept.append((done, len(taken)))

    with pytest.raises(unmask.UnmaskError, match="lost"):
        unmask.score(file, model=model, out=out, engine="ray", format="parquet", progress=progress)
    assert kept == [(0, 0), (16, 1), (32, 2)], "no chunk is taken before the one before is answered"
    monkeypatch.undo()
    scores = unmask.score(file, model=model, out=out, format="parquet")
    assert scores.rows == unmask.score(file, model=model).rows


def test_what_is_missing_is_counted_without_the_rows(pieces, tmp_path):
    (tmp_path / "texts.txt").write_text("a dog\n\n")
    for out in (None, tmp_path / "run"):
        scores = unmask.score(tmp_path / "texts.txt", "pll", model=pieces, out=out)
        assert scores.missing == {2: "the text is empty"}
        assert scores.complete
        assert out is None or "rows" not in vars(scores.scored)


@pytest.mark.gpu
def test_a_gpu_gives_the_rows_of_a_processor_chunk_after_chunk(
    pieces_folder, tmp_path, monkeypatch
):
    monkeypatch.setitem(run.CHUNK_TEXTS, "cuda", 16)
    file, out = tmp_path / "texts.txt", tmp_path / "run"
    file.write_text(
        "".join(
            f"{text}\n" for text in ["a dog", "", "The cats sat.", "The unplayed dog ran."] * 20
        )
    )
    expected = unmask.score(file, "pll", model=unmask.load(pieces_folder, device="cpu")).rows
    rows = unmask.score(
        file, "pll", model=unmask.load(pieces_folder, device="cuda"), out=out, format="parquet"
    ).rows
    assert len(list((out / "parts").iterdir())) == 5
    assert [{**row, "pll": None} for row in rows] == [{**row, "pll": None} for row in expected]
    assert [row["pll"] for row in rows] == pytest.approx(
        [row["pll"] for row in expected], abs=1e-4, nan_ok=True
    )
