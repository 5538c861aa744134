"""The public names."""

import tomllib
from pathlib import Path

import pytest

import unmask

ROOT = Path(__file__).parents[1]


def test_every_public_name_is_there():
    for name in unmask.__all__:
        assert getattr(unmask, name) is not None
    assert set(dir(unmask)) == set(unmask.__all__)
    assert unmask.__all__ == sorted(unmask.__all__)


def test_unknown_name_is_an_attribute_error():
    with pytest.raises(AttributeError, match="unmask attribute no_such_name"):
        unmask.no_such_name  # noqa: B018


def test_one_version():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert unmask.__version__ == project["version"]
