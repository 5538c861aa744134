"""The same question gives the same numbers, notes and verdict from the page, the command and
Python: thirty questions, among them the default one of each view.
"""

import json

import pytest

import unmask
from support.command_runner import invoke
from unmask.common.errors import in_python
from unmask.common.plain import in_json
from unmask.surfaces.serving.copies import Copies
from unmask.surfaces.serving.names import in_request

ONE = "the [MASK] sat on the mat ."
TWO = "the [MASK] sat on the [MASK] ."
THREE = "the [MASK] [MASK] on the [MASK] ."
WHOLE = "the cat sat on the mat ."
OTHER = "the dog sat on the mat ."

QUESTIONS = [
    ("fill", {"text": ONE}),
    ("fill", {"text": TWO}),
    ("fill", {"text": THREE}),
    ("fill", {"text": "the [GAP:2] sat .", "top": 5}),
    ("fill", {"text": "the [GAP:1-2] sat ."}),
    ("fill", {"text": TWO, "construction": "mrf"}),
    ("fill", {"text": TWO, "candidates": 5}),
    ("fill", {"text": TWO, "candidates": "all", "top": 3}),
    ("fill", {"text": THREE, "construction": "balanced", "candidates": 4}),
    ("fill", {"text": WHOLE, "positions": [2, 5]}),
    ("fill", {"text": TWO, "given": {"1": "cat"}}),
    ("compare", {"text": TWO}),
    ("compare", {"text": TWO, "candidates": 4, "top": 2}),
    ("compare", {"text": WHOLE, "positions": [2, 3]}),
    ("dependence", {"text": WHOLE}),
    ("dependence", {"text": TWO}),
    ("dependence", {"text": WHOLE, "others": "masked"}),
    ("dependence", {"text": WHOLE, "positions": [1, 2, 5], "candidates": 4}),
    ("mutants", {"sequence": WHOLE, "positions": [2, 3], "changes": 2}),
    ("mutants", {"sequence": WHOLE, "positions": [2, 3], "changes": 2, "construction": "mrf"}),
    ("score", {"texts": [WHOLE]}),
    ("score", {"texts": [WHOLE, OTHER]}),
    ("score", {"texts": [OTHER, WHOLE], "score": ["energy_norm"]}),
    ("score", {"texts": [WHOLE, OTHER], "score": ["energy_raw", "left_to_right"]}),
    ("score", {"texts": [WHOLE, OTHER], "score": ["any_order"], "unit": "bits"}),
    ("generate", {"template": TWO}),
    ("generate", {"template": TWO, "decoder": "verified", "n_texts": 4, "seed": 2}),
    ("sample", {"template": TWO, "chains": 4}),
    ("sample", {"template": TWO, "kernel": "gibbs", "chains": 2, "sweeps": 5, "seed": 1}),
    ("sample", {"template": TWO, "energy": "raw", "chains": 2, "sweeps": 6}),
]


def of_the_page(client, verb, body):
    answer = client.post(f"/api/{verb}", json=body)
    assert answer.status_code == 200, answer.text
    return answer.json()


def in_a_call(verb, body):
    """The values as Python has them."""
    values = dict(body)
    if "given" in values:
        values["given"] = {int(blank): word for blank, word in values["given"].items()}
    if verb == "score":
        values["rows"] = "nested"
    return values


@pytest.mark.parametrize(("verb", "body"), QUESTIONS)
def test_page_command_and_python_say_the_same(client, tiny, tiny_folder, verb, body):
    answer = of_the_page(client, verb, body)
    known = getattr(unmask, verb)(**in_a_call(verb, body), model=tiny)
    described = in_json(known.to_dict())
    assert {name: answer[name] for name in described} == described
    assert answer["view"] == known.view(in_request)
    for table in answer["view"]["tables"]:
        assert table["shown"], "a table is not empty"

    line = Copies(str(tiny_folder), {"device": "cpu"}).words(verb, body)
    printed = invoke(line[1:]).stdout
    seen = " ".join(printed.split())
    shown = known.view(in_python)
    for sentence in (*shown["about"], *shown["verdict"]):
        assert " ".join(sentence.split()).replace("`", "")[:40] in seen.replace("`", "")
    numbers = {cell for table in shown["tables"] for row in table["shown"] for cell in row}
    missing = [cell for cell in numbers if " ".join(cell.split()) not in seen]
    assert missing == []
    if verb != "score":  # whose JSON has rows of texts
        of_command = json.loads(invoke([*line[1:], "--json"]).stdout)
        assert of_command == described
