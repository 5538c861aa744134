"""The JSON interface as its document describes it: every field, every refusal; and copies of
questions, which can be run.
"""

import json
import re
import subprocess
import sys
import urllib.request
from dataclasses import replace
from typing import Annotated

import pytest
from annotated_types import Interval
from fastapi.testclient import TestClient

import unmask
from support.command_runner import invoke
from unmask.common.border.options import options
from unmask.common.errors import in_python, written_by
from unmask.surfaces.serving.app import create_app
from unmask.surfaces.serving.copies import Copies
from unmask.surfaces.serving.jobs import FAILED, Jobs
from unmask.surfaces.serving.requests import ENDPOINTS, controls, request
from unmask.surfaces.serving.server import (
    Guard,
    address_of,
    names_of,
    outward_address,
    print_address,
)

TWO = "the [MASK] sat on the [MASK] ."


@pytest.fixture(scope="module")
def document(served):
    return served[0].openapi()


def test_every_field_of_a_request_is_described_and_has_an_example(document):
    """Help and limits come from the verbs' signatures and one table."""
    for path, methods in document["paths"].items():
        for method, about in methods.items():
            assert about["description"], (path, method)
            assert "default" in about["responses"], (path, method)
            assert all(one.get("description") for one in about.get("parameters", ())), (
                path,
                method,
            )
            if "requestBody" in about:
                name = about["requestBody"]["content"]["application/json"]["schema"]["$ref"].split(
                    "/"
                )[-1]
                schema = document["components"]["schemas"][name]
                assert schema["examples"], name
                assert all("description" in field for field in schema["properties"].values()), name


@pytest.mark.parametrize("name", ENDPOINTS)
def test_requests_are_the_options_of_verbs_within_the_limits_of_the_page(name):
    endpoint, body = ENDPOINTS[name], request(name)
    assert body(**endpoint.example)
    if endpoint.verb:
        known = {option.name: option for option in options(endpoint.function)}
        for field in endpoint.types:
            condition = written_by(in_python, known[field].condition)
            assert known[field].help != ""
            assert body.model_fields[field].description == known[field].help + condition


def test_a_request_says_beside_what_an_option_goes():
    described = request("mutants").model_fields["changes"].description
    assert described.endswith(" [with positions]")


def test_400_and_405_are_given(client):
    for path, method, allowed in (
        ("/api/fill", "get", "POST"),
        ("/api/about", "post", "GET"),
        ("/healthz", "put", "GET"),
    ):
        answer = client.request(method, path)
        assert answer.status_code == 405
        assert allowed in answer.headers["allow"]
        assert "another method" in answer.json()["error"]
    for body in (b'{"text": ' + b"9" * 5000 + b"}", b"[" * 30_000, b'{"text": "\xff"}'):
        answer = client.post(
            "/api/fill", content=body, headers={"content-type": "application/json"}
        )
        assert answer.status_code == 400
        assert "the body cannot be read: send JSON" in answer.json()["error"]


@pytest.mark.parametrize(
    "wrong", [{"candidates": "5"}, {"candidates": 5.5}, {"candidates": 10**400}, {"top": "1"}]
)
def test_values_of_another_type_are_refused(client, wrong):
    answer = client.post("/api/fill", json={"text": TWO, **wrong})
    assert answer.status_code == 422
    assert answer.json()["error"].startswith(next(iter(wrong)))


def test_a_seed_is_a_number_that_javascript_reads_as_it_stands(client):
    """2**53 + 1 is 2**53 there: it would be another seed than the one that was typed."""
    body = {"template": TWO, "n_texts": 1, "decoder": "ancestral"}
    answer = client.post("/api/generate", json={**body, "seed": 2**53 - 1})
    assert answer.status_code == 200, answer.text
    answer = client.post("/api/generate", json={**body, "seed": 2**53})
    assert answer.status_code == 422
    assert answer.json()["error"].startswith(f"seed {2**53}: ")


def test_a_search_says_what_is_certain_and_why_it_stopped(client, tiny):
    text = "the [GAP:1-2] on the [MASK] ."
    answer = client.post("/api/fill", json={"text": text, "top": 4}).json()
    known = unmask.fill(text, tiny, top=4)
    assert answer["search"] == known.to_dict()["search"]
    assert answer["view"]["about"] == known.about()
    parts = [list(one.parts) for one in known.completions]
    assert [one["parts"] for one in answer["completions"]] == parts


@pytest.mark.parametrize("name", [name for name, one in ENDPOINTS.items() if one.verb])
def test_controls_are_the_options_of_the_verb(name):
    """Defaults, bounds and choices that the page offers are those of the signature."""
    declared = {option.name: option for option in options(ENDPOINTS[name].function)}
    for control in controls(name):
        option = declared[control["name"]]
        is_plain = isinstance(option.default, str | int | float)
        assert control["default"] == (option.default if is_plain else None)
        assert control["help"] == option.help
        if control["range"]:
            assert control["range"]["min"] <= control["range"]["max"]
        if control["closed"] and control["default"] is not None:
            assert control["default"] in [value for value, _, _ in control["choices"]]


def test_a_changed_default_and_bound_of_a_verb_are_those_of_the_page(monkeypatch):
    """Nothing of an option is written in the page: it follows the signature."""

    def scan(
        template: str | None = None,
        n_texts: Annotated[int, Interval(ge=2, le=5)] = 4,
        seed: int = 7,
    ) -> None:
        """Scan.

        Parameters:
            template: A text.
            n_texts: How many texts there are.
            seed: A number.
        """

    monkeypatch.setattr(unmask, "generate", scan)
    endpoint = replace(ENDPOINTS["generate"], types={"n_texts": None, "seed": None})
    monkeypatch.setitem(ENDPOINTS, "generate", endpoint)
    texts, seed = controls("generate")
    assert (texts["default"], texts["range"]) == (
        4,
        {"min": 2, "max": 5, "step": 1, "said": "2 to 5"},
    )
    assert texts["help"] == "How many texts there are."
    assert seed["default"] == 7


def test_every_answer_has_a_schema(document):
    for name, endpoint in ENDPOINTS.items():
        answer = document["paths"][f"/api/{name}"]["post"]["responses"]["200"]
        schema = answer["content"]["application/json"]["schema"]
        assert schema["type"] == "object"
        assert schema["required"], name
        if endpoint.verb and name != "batch":
            assert {"view", "drawn"} <= set(schema["required"])


def test_models_of_one_name_are_told_apart(tiny):
    """As "Model" and "Beside" show them; a model whose name is its own keeps the short one."""
    jobs = Jobs()
    others = [create_app(tiny, jobs, name=name) for name in ("b/bert", "b/small")]
    client = TestClient(create_app(tiny, jobs, name="a/bert", others=others))
    assert client.get("/api/about").json()["models"] == ["a/bert", "b/bert", "small"]
    abouts = [client.get(f"{path}/api/about").json() for path in ("", "/models/1", "/models/2")]
    assert [about["model"] for about in abouts] == ["a/bert", "b/bert", "small"]
    assert [about["models"] for about in abouts[1:]] == [["b/bert"], ["small"]]


def test_a_model_beside_itself_has_two_names(tiny):
    """They are the heads of two columns, and the names of two panes."""
    jobs = Jobs()
    others = [create_app(tiny, jobs, name=name) for name in ("a/bert", "b/bert")]
    client = TestClient(create_app(tiny, jobs, name="a/bert", others=others))
    known = ["a/bert (1)", "a/bert (2)", "b/bert"]
    assert client.get("/api/about").json()["models"] == known
    shown = [client.get(f"{path}/api/about").json()["model"] for path in ("", "/models/1")]
    assert shown == known[:2]


def test_a_defect_beside_is_a_line(tiny, monkeypatch):
    """Of a model under /models/1, and of a route that is no job."""
    jobs = Jobs()
    beside = create_app(tiny, jobs, name="beside")
    client = TestClient(create_app(tiny, jobs, others=[beside]), raise_server_exceptions=False)
    monkeypatch.setattr(Copies, "of", lambda *given: 1 // 0)
    for path in ("/api/fill/copy", "/models/1/api/fill/copy"):
        answer = client.post(path, json={"text": TWO})
        assert answer.status_code == 500
        assert answer.json() == {"error": FAILED}


def test_healthz(client):
    assert client.get("/healthz").json() == {
        "status": "ok",
        "version": unmask.__version__,
        "jobs": 0,
    }


@pytest.mark.parametrize(
    ("host", "address"),
    [
        ("0.0.0.0", "http://127.0.0.1:8000/"),
        ("::", "http://[::1]:8000/"),
        ("127.0.0.1", "http://127.0.0.1:8000/"),
        ("::1", "http://[::1]:8000/"),
        ("box.local", "http://box.local:8000/"),
    ],
)
def test_the_address_printed_can_be_opened(capsys, host, address):
    assert address_of(host, 8000) == address
    print_address(address, host)
    printed = capsys.readouterr()
    assert address in printed.out
    assert ("beyond this machine" in printed.err) == (host not in ("127.0.0.1", "::1"))
    assert ("other machines" in printed.out) == (host in ("0.0.0.0", "::"))


@pytest.mark.parametrize(
    ("own", "hosts", "said"),
    [
        ("10.1.2.3", [], "at http://10.1.2.3:8000/; any other name needs --allow-host NAME"),
        (
            "10.1.2.3",
            ["box.local"],
            "at http://10.1.2.3:8000/, under the name box.local; any other",
        ),
        ("10.1.2.3", ["*"], "at http://10.1.2.3:8000/, under any name"),
        (None, ["*.lab"], "under any name that ends in .lab; any other name needs"),
        (None, ["box.local"], "under the name box.local; any other name needs --allow-host NAME"),
        (None, ["*"], "under any name"),
        (None, [], "no name is allowed yet; start it with --allow-host NAME"),
    ],
)
def test_where_other_machines_open_it_is_printed_and_allowed(
    capsys, monkeypatch, served, own, hosts, said
):
    monkeypatch.setattr("unmask.surfaces.serving.server.outward_address", lambda host: own)
    print_address("http://127.0.0.1:8000/", "0.0.0.0", hosts)
    assert capsys.readouterr().out.splitlines()[1].startswith(f"other machines: {said}")
    guarded = TestClient(Guard(served[0], names_of("0.0.0.0", hosts)))
    for name in [name.replace("*", "page") for name in (own, *hosts) if name not in (None, "*")]:
        assert guarded.get("/healthz", headers={"host": f"{name}:8000"}).status_code == 200
    elsewhere = guarded.get("/healthz", headers={"host": "10.9.9.9:8000"}).status_code
    assert elsewhere == (200 if "*" in hosts else 400)


def test_a_server_at_every_address_answers_under_its_own(tiny_folder):
    """The address that is printed for other machines, asked as one of them would."""
    own = outward_address("0.0.0.0")
    if own is None:
        pytest.skip("this machine has no network")
    command = [sys.executable, "-m", "unmask", "serve", "--host", "0.0.0.0", "--port", "0"]
    command += ["--model", str(tiny_folder)]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as server:
        try:
            server.stdout.readline()
            match = re.search(r"other machines: at (http://\S+/)", server.stdout.readline())
            assert match
            assert own in match[1]
            with urllib.request.urlopen(f"{match[1]}healthz") as answer:
                assert json.load(answer)["status"] == "ok"
        finally:
            server.terminate()
            server.communicate()


FILL = {"text": "A [MASK].", "top": 3, "cells": 14}


def test_defaults_are_left_out_and_the_model_goes_along():
    copy = Copies(None, {}).of("fill", FILL)
    lines = copy["python"].splitlines()
    assert lines[:3] == ["import unmask", "", 'result = unmask.fill("A [MASK].", top=3)']
    assert lines[3:] == ["print(result.summary())", "print(result.to_frame().to_string())"]
    assert copy["command"] == "unmask fill 'A [MASK].' --top 3"
    copy = Copies("bert", {"device": "cpu"}).of("fill", {**FILL, "candidates": "all"})
    loaded = 'model=unmask.load("bert", device="cpu")'
    assert f'unmask.fill("A [MASK].", top=3, candidates="all", {loaded})' in copy["python"]
    line = "unmask fill 'A [MASK].' --top 3 --candidates all --model bert --device cpu"
    assert copy["command"] == line


def test_a_pin_goes_along():
    values = {"text": "A [MASK] [MASK].", "given": {"2": "dog"}}
    copy = Copies(None, {}).of("fill", values)
    assert 'unmask.fill("A [MASK] [MASK].", given={2: "dog"})' in copy["python"]
    assert copy["command"] == "unmask fill 'A [MASK] [MASK].' --given 2=dog"


def test_a_start_is_passed_by_a_pipe():
    values = {
        "template": "A [MASK].",
        "start": "It's.",
        "kernel": "mh",
        "energy_temperature": 0.5,
        "chains": 2,
        "seed": 0,
    }
    copy = Copies(None, {}).of("sample", values)
    kernel = "kernel=unmask.MH(energy_temperature=0.5)"
    assert f'start=["It\'s."], {kernel}, chains=2)' in copy["python"]
    assert copy["command"].startswith(
        "printf '%s\\n' 'It'\"'\"'s.' | unmask sample 'A [MASK].' --start -"
    )


def test_a_way_to_start_is_no_text():
    """`start` of a request may name one, as that of the verb."""
    values = {"template": "A [MASK].", "start": "random"}
    copy = Copies(None, {}).of("sample", values)
    assert 'unmask.sample("A [MASK].", start="random")' in copy["python"]
    assert copy["command"] == "unmask sample 'A [MASK].' --start random"
    copy = Copies(None, {}).of("sample", {**values, "start": "ancestral"})
    assert 'unmask.sample("A [MASK].")' in copy["python"]
    assert copy["command"] == "unmask sample 'A [MASK].'"


@pytest.mark.parametrize(
    ("start", "piped"),
    [("a  dog sat .", "a  dog sat ."), ("a dog\n sat .\r\n", "a dog sat .")],
)
def test_a_start_is_one_line_of_the_pipe(start, piped):
    """Some tokenizers read two spaces as another token than one."""
    copy = Copies(None, {}).of("sample", {"template": "A [MASK].", "start": start})
    assert copy["command"].startswith(f"printf '%s\\n' '{piped}' | unmask sample")


def test_a_decoder_is_copied_as_generate():
    values = {"template": "A [MASK].", "decoder": "verified", "n_texts": 2, "seed": 3}
    copy = Copies(None, {}).of("generate", values)
    line = 'unmask.generate("A [MASK].", decoder="verified", n_texts=2, seed=3)'
    assert line in copy["python"]
    assert copy["command"] == "unmask generate 'A [MASK].' --decoder verified --n-texts 2 --seed 3"


@pytest.mark.parametrize("text", ["and/or", "-", "notes.txt", "https://a.org"])
def test_a_copied_text_that_looks_like_a_file_is_a_text(text):
    request = {
        "text": text,
        "chosen": [],
        "others": None,
        "construction": "pseudo_gibbs",
        "candidates": 8,
    }
    copy = Copies(None, {}).of(
        "dependence", {name: request[name] for name in ("text", "candidates")}
    )
    assert f'unmask.dependence(["{text}"], candidates=8)[0]' in copy["python"]
    assert copy["command"] == f"unmask dependence --text {text} --candidates 8"
    copy = Copies(None, {}).of("score", {"texts": [text, "a dog"], "score": ["pll"]})
    assert f'unmask.score(["{text}", "a dog"]' in copy["python"]
    assert copy["command"].startswith(f"unmask score --text {text} --text 'a dog'")
    copy = Copies(None, {}).of("score", {"texts": ["a cat", "a dog"], "score": ["pll"]})
    assert copy["command"] == "unmask score 'a cat' 'a dog'", "pll is the default"


@pytest.mark.parametrize(
    ("verb", "values"),
    [
        ("fill", {"text": "--help the [MASK] sat ."}),
        ("score", {"texts": ["-- the cat sat .", "the cat sat ."]}),
        ("generate", {"template": "--quiet [MASK] sat .", "seed": 0}),
    ],
)
def test_a_copied_text_that_looks_like_an_option_is_a_text(tiny_folder, verb, values):
    words = Copies(str(tiny_folder), {}).words(verb, values)
    text = values.get("text") or values.get("template") or values["texts"][0]
    answer = invoke(words[1:])
    assert answer.exit_code == 0, answer.stderr
    if verb != "generate":  # which prints the texts that it made
        assert " ".join(text.split()[1:3]) in answer.stdout


def test_positions_of_mutants_are_all_only_where_they_are():
    whole = Copies(None, {}).of("mutants", {"sequence": "EVQL", "positions": [1, 2, 3, 4]})
    assert whole["command"] == "unmask mutants EVQL --positions all"
    some = Copies(None, {}).of("mutants", {"sequence": "EVQL", "positions": [2, 3]})
    assert some["command"] == "unmask mutants EVQL --positions 2,3"


def test_the_number_of_a_blank_is_bounded(client):
    """A text of 5,000 digits is no number that Python reads."""
    answer = client.post("/api/fill", json={"text": "a [MASK]", "given": {"9" * 5000: "cat"}})
    assert answer.status_code == 422


def test_what_a_message_suggests_can_be_asked(client):
    """`force` is no field of a request."""
    text = " ".join(["[MASK]"] * 30)
    answer = client.post("/api/dependence", json={"text": text, "candidates": 10**6})
    line = answer.json()["error"]
    assert answer.status_code == 422, line
    assert "force:" not in line
