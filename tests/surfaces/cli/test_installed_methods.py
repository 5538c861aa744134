"""Methods that an installed package brings by its entry points."""

import json

import pytest

import unmask
from support.command_runner import invoke, refused
from unmask.common.border.options import options
from unmask.common.errors import InputError
from unmask.common.methods.own_code import without_own_code
from unmask.common.methods.registry import installed
from unmask.joints.constructions.construction import CONSTRUCTIONS
from unmask.sampling.methods import METHODS

RULES = """
import unmask


@unmask.method
class Sharp(unmask.Construction):
    '''The product joint to a power.

    Parameters:
        power: The power.
    '''

    power: float = 1.0
    keeps_compatible = False

    def derive(self, tables):
        joint = unmask.Product().derive(tables)
        log_mu = self.power * joint.dense()
        return log_mu - log_mu.logsumexp(tuple(range(tables.sites)))


def even(tables):
    return (0 * tables.log_q[0]).flatten().log_softmax(0).reshape(tables.shape)
"""
ENTRIES = """
[unmask.methods]
construction.sharp = {package}.rules:Sharp
construction.even = {package}.rules:even
kernel.sharp = {package}.rules:Sharp
kernel.gone = {package}.nothing:Gone
"""
PACKAGE = "package_with_methods"
TEXT = "the [MASK] [MASK] ."


@pytest.fixture(autouse=True)
def package(tmp_path, monkeypatch):
    """An installed package."""
    folder, metadata = tmp_path / PACKAGE, tmp_path / f"{PACKAGE}-1.0.dist-info"
    folder.mkdir()
    metadata.mkdir()
    (folder / "__init__.py").write_text("")
    (folder / "rules.py").write_text(RULES)
    (metadata / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {PACKAGE}\nVersion: 1.0\n")
    (metadata / "entry_points.txt").write_text(ENTRIES.format(package=PACKAGE))
    monkeypatch.syspath_prepend(tmp_path)
    installed.cache_clear()
    yield
    installed.cache_clear()
    CONSTRUCTIONS.brought.clear()
    METHODS.brought.clear()
    options.cache_clear()


def test_its_name_and_its_options_are_those_of_the_class(tiny, tiny_folder):
    filling = unmask.fill(TEXT, model=tiny, construction="sharp")
    product = unmask.fill(TEXT, model=tiny, construction="product")
    assert filling.construction == "sharp"
    assert filling.joint.entropy() == pytest.approx(product.joint.entropy())
    typed = ["fill", TEXT, "--construction", "sharp", "--power", "3", "--json"]
    done = invoke([*typed, "--model", tiny_folder])
    assert done.exit_code == 0, done.output
    best = json.loads(done.stdout)["completions"][0]["log_prob"]
    assert best > product.completions[0].log_prob + 0.01


def test_it_may_be_a_function_where_a_function_is_enough(tiny, tiny_folder):
    typed = ["fill", TEXT, "--construction", "even", "--candidates", "4", "--json"]
    done = invoke([*typed, "--model", tiny_folder])
    assert done.exit_code == 0, done.output
    assert json.loads(done.stdout)["construction"] == "even"
    filling = unmask.fill(TEXT, model=tiny, construction="even", candidates=4)
    assert filling.construction == "even"
    assert filling.completions[0].log_prob == pytest.approx(filling.completions[-1].log_prob)


def test_a_request_may_name_it(tiny):
    with without_own_code():
        assert unmask.fill(TEXT, model=tiny, construction="sharp").construction == "sharp"
        with pytest.raises(InputError, match="names a file of code"):
            unmask.fill(TEXT, model=tiny, construction=f"{PACKAGE}.rules:Sharp")


def test_what_is_no_method_of_its_kind_or_cannot_be_loaded_is_one_line():
    message = "rules:Sharp of an installed package is no kernel"
    with pytest.raises(InputError, match=message):
        METHODS.taken("kernel", "sharp")
    with pytest.raises(InputError, match=r"kernel\.gone of an installed package cannot be loaded"):
        METHODS.taken("kernel", "gone")
    told = refused(["sample", "--kernel", "gone", "--length", "3"])
    assert "cannot be loaded" in str(told)
