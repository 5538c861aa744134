"""Every public name has its place in the reference, and an example in its docstring that runs."""

import doctest
import re
import warnings
from pathlib import Path

import pytest
import torch

import unmask
from unmask.common.errors import UnmaskWarning

ROOT = Path(__file__).parents[1]
VALUES = {"ASSAY_SCORES", "CONSTRUCTIONS", "SCORES", "__version__"}
"""Public names that are no functions or classes: they have no docstring, and an example in
docs/reference.
"""

REFERENCE = {path.name: path.read_text() for path in (ROOT / "docs" / "reference").glob("*.md")}
IN_PAGES = {"serve": ("serve.md", "unmask serve --model bert-base-cased --port 8001")}
"""Names whose example is on a page: it does not end by itself."""


@pytest.fixture(scope="module")
def numbers(tmp_path_factory):
    """A model that translates numbers: the folder that examples of translation name."""
    english = ["one", "two", "three", "four", "five"]
    german = ["eins", "zwei", "drei", "vier", "fünf"]
    pairs = [
        [f"{first} {second}" for first in language for second in language]
        for language in (english, german)
    ]
    folder = tmp_path_factory.mktemp("translation") / "numbers"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UnmaskWarning)  # it has learned nothing
        unmask.train(
            parallel=pairs,
            out=folder,
            shape=unmask.Shape(layers=1, width=16, heads=1, vocab=80, max_length=16),
            optimisation=unmask.Optimisation(steps=2, batch_tokens=128),
            held_out=unmask.HeldOut(valid_share=0.2),
            device="cpu",
        )
    return folder


@pytest.mark.parametrize("name", sorted(set(unmask.__all__) - VALUES - set(IN_PAGES)))
def test_examples_run(name, tmp_path, monkeypatch, request):
    monkeypatch.chdir(tmp_path)
    if '"numbers"' in getattr(unmask, name).__doc__:
        (tmp_path / "numbers").symlink_to(request.getfixturevalue("numbers"))
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
