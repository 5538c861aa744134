"""Sentences of CoNLL-U with their parses, and the distance of two tokens in them."""

from collections import deque

import pytest
from hypothesis import given
from hypothesis import strategies as st

from unmask.common.errors import InputError
from unmask.studies.evaluation.conllu import Parse, read_conllu


def word(number: str, form: str, head: str = "_", misc: str = "_") -> str:
    return "\t".join([number, form, "_", "_", "_", "_", head, "_", "_", misc])


SENTENCE = [
    "# text = I don't like Anna's  cats.",
    word("1", "I", "4"),
    word("2-3", "don't"),
    word("2", "do", "4"),
    word("3", "n't", "4"),
    word("4", "like", "0"),
    word("5", "Anna", "7", "SpaceAfter=No"),
    word("6", "'s", "5"),
    word("6.1", "empty"),
    word("7", "cats", "4", "SpaceAfter=No"),
    word("8", ".", "4"),
]


def read(lines: list[str]) -> tuple[str, Parse]:
    (sentence,) = read_conllu(enumerate(lines, 1), "file")
    return sentence


def test_words_are_found_in_the_text():
    text, parse = read(SENTENCE)
    assert [text[slice(*span)] for span in parse.spans] == [
        "I",
        "do",
        "n't",
        "like",
        "Anna",
        "'s",
        "cats",
        ".",
    ]
    assert parse.heads == (3, 3, 3, -1, 6, 4, 3, 3)
    assert (
        parse.distance(0, 3),
        parse.distance(5, 3),
        parse.distance(5, 0),
        parse.distance(2, 2),
    ) == (1, 3, 4, 0)


def test_a_contraction_that_is_not_its_words_is_shared_by_them():
    text, parse = read([word("1-2", "au"), word("1", "à", "2"), word("2", "le", "0")])
    assert text == "au"
    assert parse.spans == ((0, 2), (0, 2))


def test_without_a_text_line_the_words_spell_it():
    text, _ = read([line for line in SENTENCE if not line.startswith("#")])
    assert text == "I don't like Anna's cats."


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        (["1\tonly\ttwo"], "line 1: 3 tab-separated columns"),
        ([word("1", "a", "0"), word("3", "b", "1")], "line 2: word 3 follows word 1"),
        ([word("1", "a", "x")], "line 1: id '1' and head 'x'"),
        ([word("1", "a", "7")], "sentence at line 1: word 1 has head 7"),
        ([word("1", "a", "0"), word("2", "b", "0")], "2 words have head 0"),
        (
            [word("1", "a", "0"), word("2", "b", "3"), word("3", "c", "2")],
            "word 2 hangs in a cycle",
        ),
        (["# text = something else", word("1", "a", "0")], "word 'a' is not found at character 0"),
        (
            [word("2-3", "bc"), word("1", "a", "0"), word("2", "b", "1"), word("3", "c", "1")],
            "line 1: words 2-3 follow word 0: give the line of several words once",
        ),
        (
            [word("1-2", "ab"), word("1-2", "ab"), word("1", "a", "0"), word("2", "b", "1")],
            "line 2: words 1-2 follow word 0: give the line of several words once",
        ),
        ([word("1-3", "ab"), word("1", "a", "0"), word("2", "b", "1")], "goes to word 3 of 2"),
    ],
)
def test_a_malformed_file_is_refused_with_its_place(lines, message):
    with pytest.raises(InputError, match=message.replace("(", r"\(")):
        read(lines)


def breadth_first(heads: tuple[int, ...], start: int) -> dict[int, int]:
    near = {
        w: {v for v in range(len(heads)) if heads[v] == w or heads[w] == v}
        for w in range(len(heads))
    }
    distances, queue = {start: 0}, deque([start])
    while queue:
        at = queue.popleft()
        for other in near[at] - distances.keys():
            distances[other] = distances[at] + 1
            queue.append(other)
    return distances


@given(st.lists(st.integers(0, 10**6), min_size=1, max_size=9), st.randoms(use_true_random=False))
def test_distance_is_the_shortest_path_in_the_tree(choices, random):
    heads = [-1] + [choice % i for i, choice in enumerate(choices[1:], 1)]
    names = list(range(len(heads)))
    random.shuffle(names)
    renamed = [-1] * len(heads)
    for child, head in enumerate(heads):
        renamed[names[child]] = -1 if head < 0 else names[head]
    parse = Parse(((0, 0),) * len(heads), tuple(renamed))
    for start in names:
        expected = breadth_first(parse.heads, start)
        assert {other: parse.distance(start, other) for other in names} == expected


def test_tokens_belong_to_the_words_whose_characters_they_cover():
    text, parse = read(SENTENCE)
    pieces = ["", "I", " don't", " li", "ke", " Anna'", "s", "  cats", ".", ""]
    offsets, place = [], 0
    for piece in pieces:
        offsets.append((place, place + len(piece)))
        place += len(piece)
    words = parse.words_of(text, offsets)
    assert words == [(), (0,), (1, 2), (3,), (3,), (4, 5), (5,), (6,), (7,), ()]
    assert parse.token_distance(words[3], words[4]) == 0
    assert parse.token_distance(words[5], words[6]) == 0
    assert parse.token_distance(words[2], words[7]) == 2
    assert parse.token_distance(words[0], words[7]) is None
