"""Every public name has its place in the reference, and an example in its docstring that runs,
except groups of options.
"""

import doctest
import re
from dataclasses import is_dataclass
from pathlib import Path

import pytest
import torch

import unmask

ROOT = Path(__file__).parents[1]
VALUES = {"CONSTRUCTIONS", "__version__"}
"""Public names that are no functions or classes: they have no docstring, and an example in
docs/reference.
"""

REFERENCE = {path.name: path.read_text() for path in (ROOT / "docs" / "reference").glob("*.md")}
OPTIONS = set(re.findall(r"^::: unmask\.(\w+)$", REFERENCE["options.md"], re.MULTILINE))
"""Groups of options and methods: the examples of the verbs show how they are given."""
TRANSLATED = (
    "translation.md",
    "unmask translate test.de --model masked --reference test.en --save test.jsonl",
)
IN_PAGES = {
    "load_translator": TRANSLATED,
    "TranslatorSpec": TRANSLATED,
    "serve": ("serve.md", "unmask serve --model bert-base-cased --port 8001"),
    "TrainingRun": (
        "training.md",
        'run = unmask.train(texts, out="crafts-again", optimisation=unmask.Optimisation(steps=40))',
    ),
    "translate": TRANSLATED,
    "Translations": TRANSLATED,
}
"""Names whose example is on a page: it trains a model, needs one that takes minutes to train,
or does not end by itself.
"""


@pytest.mark.parametrize("name", sorted(set(unmask.__all__) - VALUES - OPTIONS - set(IN_PAGES)))
def test_examples_run(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    names = {"unmask": unmask, "torch": torch}
    flags = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
    examples = doctest.DocTestParser().get_doctest(
        getattr(unmask, name).__doc__, names, name, None, 0
    )
    told: list[str] = []
    results = doctest.DocTestRunner(optionflags=flags).run(examples, out=told.append)
    assert results.attempted > 0
    assert not any(example.options.get(doctest.SKIP) for example in examples.examples)
    assert results.failed == 0, "".join(told)


def test_only_groups_of_options_have_no_example():
    assert all(is_dataclass(getattr(unmask, name)) and name[0].isupper() for name in OPTIONS)


def test_the_reference_has_every_public_name():
    pages = "".join(REFERENCE.values())
    assert (
        set(re.findall(r"^::: unmask\.(\w+)$", pages, re.MULTILINE)) == set(unmask.__all__) - VALUES
    )
    assert all(f"unmask.{name}" in pages for name in VALUES)
    for page, example in IN_PAGES.values():
        assert example in (ROOT / "docs" / page).read_text().splitlines()


def test_the_site_reads_every_docstring(caplog, monkeypatch):
    """As mkdocs builds it, where a warning ends the build: parameters that are in the
    signature, sections that parse.
    """
    griffe = pytest.importorskip("griffe")
    monkeypatch.chdir(ROOT)
    extensions = griffe.load_extensions("dataclasses", "tools/docstring_tables.py")
    package = griffe.load(
        "unmask", search_paths=["src"], docstring_parser="numpy", extensions=extensions
    )
    names = re.findall(r"^::: unmask\.(\w+)$", "".join(REFERENCE.values()), re.MULTILINE)
    sections = {
        name: [section.kind.value for section in package[name].docstring.parsed] for name in names
    }
    assert not caplog.records
    assert "parameters" in sections["Search"]
    assert {"parameters", "examples"} <= set(sections["fill"])
