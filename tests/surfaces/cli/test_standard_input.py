"""Several lines on standard input are several texts, wherever a command takes a file of them."""

import json
import shlex

import pytest

from support.command_runner import invoke, refused

TEXTS = ["the cat sat on the mat .", "a dog ran under the tree .", "the dog sat on a mat ."]
BLANKS = "the [MASK] sat\na [MASK] ran under the [MASK]\n"
CASES = {
    "fill": ("fill --file {file} --json", BLANKS),
    "compare": ("compare --file {file} --json", "the [MASK] [MASK]\na [MASK] [MASK] .\n"),
    "dependence": ("dependence --file {file} --json", "the [MASK] [MASK]\na [MASK] [MASK] .\n"),
    "mutants of": ("mutants --file {file} --positions 2 --json", "the cat sat\na dog ran\n"),
    "mutants named": (
        "mutants 'the cat sat' --mutations {file} --json",
        "cat2dog\ncat2tree+sat3ran\n",
    ),
    "score": ("score --file {file} --score pll,any_order", "\n".join(TEXTS) + "\n"),
    "minimal-pairs": (
        "minimal-pairs {file} --json",
        '{"sentence_good": "the cat sat", "sentence_bad": "cat the sat"}\n' * 2,
    ),
    "evaluate": ("evaluate {file} --pairs 3 --json --out {new}", "\n".join(TEXTS)),
    "sample": (
        "sample --start {file} --chains 2 --sweeps 2 --json",
        "the cat sat on the mat\na dog ran under the tree\n",
    ),
    "check": ("check --data {file} --json", "\n".join(TEXTS)),
}
FREE = ("median_seconds_a_pair", "date", "set", "name", "data")
"""What depends on the clock, or on the file's name."""


def run(line, model, text=None):
    return invoke([*shlex.split(line), "--model", str(model)], input=text)


def told(out):
    """The lines of JSON, or the one value, less what is free to differ."""

    def bare(value):
        if isinstance(value, dict):
            return {key: bare(item) for key, item in value.items() if key not in FREE}
        return [bare(item) for item in value] if isinstance(value, list) else value

    try:
        return bare(json.loads(out))
    except json.JSONDecodeError:
        return [bare(json.loads(line)) for line in out.splitlines()]


@pytest.mark.parametrize("name", CASES)
def test_standard_input_is_a_file(tiny_folder, tmp_path, name):
    line, text = CASES[name]
    file = tmp_path / ("texts.jsonl" if text.startswith("{") else "texts.txt")
    file.write_text(text)
    from_file = run(line.format(file=file, new=tmp_path / "a"), tiny_folder)
    piped = run(line.format(file="-", new=tmp_path / "b"), tiny_folder, text)
    assert from_file.exit_code == 0, from_file.output
    assert piped.exit_code == 0, piped.output
    assert told(piped.stdout) == told(from_file.stdout)


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("content", ["", b"the cat \xff sat\n"])
def test_what_cannot_be_read_is_told_as_standard_input(tiny_folder, tmp_path, name, content):
    words = shlex.split(CASES[name][0].format(file="-", new=tmp_path / "new"))
    message = refused([*words, "--model", tiny_folder], content)
    assert not list(tmp_path.iterdir())
    assert not content or "standard input line 1: byte 8 is not UTF-8" in message


def test_a_run_goes_on_with_the_same_lines_and_refuses_others(tiny_folder, tmp_path):
    line = f"evaluate - --pairs 3 --json --out {tmp_path / 'run'}"
    first = run(line, tiny_folder, "\n".join(TEXTS))
    assert told(run(line, tiny_folder, "\n".join(TEXTS)).stdout) == told(first.stdout)
    other = run(line, tiny_folder, "\n".join(TEXTS[:2]))
    assert other.exit_code == 2
    assert "holds a run with DATA" in other.stderr
