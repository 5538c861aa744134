"""Code, models and files are those that the server was started with: no field of a request names
another.
"""

import re
import subprocess
import sys
from pathlib import Path

import httpx2
import pytest

import unmask
from unmask.common.plain import in_json
from unmask.surfaces.serving.requests import ENDPOINTS

SECRET = "an old secret"
"""The content of files that no answer may hold."""
MARKER = "ran"
CODE = f"open({MARKER!r}, 'w').close()\n\ndef Mine(*args, **more):\n    pass\n"
LOADED = ("evil.py:Mine", "./evil.py:Mine", "in.package.evil:Mine")
"""Names of code that commands load."""
NAMES = (
    *LOADED,
    "evil:Mine",
    "evil.Mine",
    "evil.py",
    "evil.pickle",
    "evil.txt",
    "evil.csv",
    "../evil.txt",
    "@evil.txt",
    "file:evil.txt",
    "tiny",
    "-",
)
TEXTS = {"text", "texts", "template", "start", "sequence", "content", "given", "name"}
"""Fields of free text: a name there is a text, which is read as one (`name` is that of a file
whose content the request has, and of which only the ending is read).
"""
NOT_OF_REQUESTS = ("model", "device", "dtype", "out", "figure", "file", "judge", "data", "ready")
"""Arguments of verbs that name a model or a file."""
opened: list[str] = []
"""Names of the files that this process opened, or modules that it looked for, while a test
listens.
"""
listening: list[bool] = []


def hear(event, arguments):
    """Python calls it at each event that an audit may want to know."""
    if listening and event in ("open", "import"):
        opened.append(str(arguments[0]))


@pytest.fixture(scope="module", autouse=True)
def audit():
    sys.addaudithook(hear)  # for good: a hook cannot be taken away


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A working folder with code, a pickle and texts that a request may try to name."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    Path("evil.py").write_text(CODE)
    Path("evil.pickle").write_bytes(b"cposix\nsystem\n(S'touch ran'\ntR.")
    Path("evil.txt").write_text(SECRET)
    Path("evil.csv").write_text(f"text\n{SECRET}\n")
    return tmp_path


def operations(app):
    """(path, schema of the body) of every operation that takes one."""
    document = app.openapi()
    for path, methods in document["paths"].items():
        if "requestBody" in methods.get("post", {}):
            content = methods["post"]["requestBody"]["content"]["application/json"]
            schema = content["schema"]["$ref"].rpartition("/")[2]
            yield path, document["components"]["schemas"][schema]


def kinds(schema):
    """The schema and those of its alternatives."""
    return [schema, *schema.get("anyOf", ())]


def forms(schema, name):
    """Values of a field with this schema that hold the name, wherever it takes a text."""
    for kind in kinds(schema):
        if kind.get("type") == "string":
            yield name
        elif kind.get("type") == "array":
            yield from ([value] for value in forms(kind["items"], name))
        elif kind.get("type") == "object":
            for values in kind["patternProperties"].values():
                yield from ({"1": value} for value in forms(values, name))
            yield {name: "a"}
        elif "const" in kind or "enum" in kind:
            yield name


def test_forms_are_found():
    assert list(forms({"anyOf": [{"type": "string"}, {"type": "null"}]}, "x")) == ["x"]
    assert list(forms({"type": "array", "items": {"type": "string"}}, "x")) == [["x"]]
    given = {"type": "object", "patternProperties": {"^[1-9]": {"type": "string"}}}
    assert list(forms(given, "x")) == [{"1": "x"}, {"x": "a"}]
    assert list(forms({"type": "integer"}, "x")) == []


def test_no_field_of_any_endpoint_names_code_or_a_file(served, client, folder):
    """Every field of every operation, by their schemas, with every name."""
    tried = set()
    for path, schema in operations(served[0]):
        endpoint = ENDPOINTS[path.split("/")[2]]
        for field, kind in schema["properties"].items():
            for name in NAMES:
                for value in forms(kind, name):
                    body = {**endpoint.example, field: value}
                    is_word = path.endswith("/copy") and name not in LOADED  # of a command
                    check(client, path, body, is_text=field in TEXTS or is_word)
                    tried.add((path, field))
        for field in NOT_OF_REQUESTS:
            if field not in schema["properties"]:
                check(client, path, {**endpoint.example, field: "evil.py:Mine"}, is_text=False)
    named = {field for _, field in tried}
    assert {"construction", "kernel", "energy", "decoder", "score"} <= named
    assert {path.rpartition("/")[2] for path, _ in tried} >= {"fill", "events", "copy"}


def check(client, path, body, is_text):
    """A request that gives the name is refused in a line, or reads it as a text; nothing of the
    folder is read.
    """
    opened.clear()
    listening.append(True)
    try:
        answer = client.post(path, json=body)
    finally:
        listening.clear()
    what = (path, body, answer.text[:300])
    read = [name for name in opened if "evil" in name]
    assert not read, (read, what)
    assert not Path(MARKER).exists(), what
    assert SECRET not in answer.text, what
    if answer.status_code == 200 and "event: error" in answer.text:  # of a stream
        return
    if answer.status_code == 200:
        assert is_text, what
        return
    assert answer.status_code == 422, what
    assert "\n" not in answer.json()["error"], what


def test_a_server_that_was_started_with_code_answers_as_python_does(tiny_folder, folder):
    """`unmask serve --model loader.py:load`; requests still name none."""
    Path("loader.py").write_text(
        "import unmask\n\n\ndef load():\n"
        f"    return unmask.MaskedLM.load({str(tiny_folder)!r}, device='cpu')\n"
    )
    text = "the [MASK] sat on the [MASK] ."
    command = [sys.executable, "-m", "unmask", "serve", "--port", "0", "--model", "loader.py:load"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
        try:
            address = re.findall(r"http://\S+/", server.stdout.readline())[0]
            with httpx2.Client(base_url=address, timeout=300) as client:
                filled = client.post("/api/fill", json={"text": text, "top": 4})
                about = client.get("/api/about").json()
                copied = client.post("/api/fill/copy", json={"text": text}).json()
                body = {"text": text, "construction": "loader.py:load"}
                refused = client.post("/api/fill", json=body)
        finally:
            server.terminate()
    known = unmask.fill(text, "loader.py:load", top=4).to_dict()
    assert {name: filled.json()[name] for name in known} == in_json(known)
    assert about["given"] == "loader.py:load"
    assert copied["command"].endswith("--model loader.py:load")
    assert refused.status_code == 422
    assert "names a file of code" in refused.json()["error"]
