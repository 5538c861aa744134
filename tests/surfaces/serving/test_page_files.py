"""The page's own files: how wide, and what they leave to the server."""

import re
from pathlib import Path

import pytest

import unmask.surfaces.serving
from unmask.common.border.options import options
from unmask.joints.constructions.construction import all_constructions
from unmask.surfaces.serving.requests import ENDPOINTS

PAGE = Path(unmask.surfaces.serving.__file__).parent / "page"
SCRIPTS = sorted(PAGE.rglob("*.js"))
WIDTH = 120
FORMATS = re.compile(r"toFixed|toPrecision|toExponential|toLocaleString|Intl\.")


@pytest.mark.parametrize("file", SCRIPTS, ids=lambda file: file.name)
def test_lines_are_at_most_120_characters_wide(file):
    lines = file.read_text(encoding="utf-8").splitlines()
    wide = [number for number, line in enumerate(lines, 1) if len(line) > WIDTH]
    assert wide == []


@pytest.mark.parametrize("file", SCRIPTS, ids=lambda file: file.name)
def test_no_number_is_formatted_in_a_script(file):
    assert FORMATS.findall(file.read_text(encoding="utf-8")) == []


@pytest.mark.parametrize("file", SCRIPTS, ids=lambda file: file.name)
def test_no_method_is_named_in_a_script(file):
    """Choices and defaults come from the server; a script knows names of options alone."""
    text = file.read_text(encoding="utf-8")
    quoted = set(re.findall(r"[\"'`]([a-z_]+)[\"'`]", text))
    names = {entry.name for entry in all_constructions()} - {"chain", "product"}  # plain words
    for endpoint in ENDPOINTS.values():
        if endpoint.verb:
            defaults = [option.default for option in options(endpoint.function)]
            names |= {value for value in defaults if isinstance(value, str) and "_" in value}
    assert not quoted & names


def test_every_view_is_in_the_menu():
    listed = (PAGE / "views" / "index.js").read_text(encoding="utf-8")
    for file in PAGE.glob("views/*.js"):
        if file.name != "index.js":
            assert f'from "./{file.name}"' in listed, file.name
