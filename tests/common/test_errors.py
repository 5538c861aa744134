"""Messages of errors and warnings can be written anywhere."""

import pickle

import pytest

from unmask.common.errors import InputError, ModelError, UnmaskWarning, argument_name


@pytest.mark.parametrize("kind", [InputError, ModelError, UnmaskWarning])
def test_half_of_a_surrogate_pair_is_escaped(kind):
    message = str(kind("column \ud800, of Café"))
    assert message == "column \\ud800, of Café"
    message.encode()  # control: the text itself cannot be written
    with pytest.raises(UnicodeEncodeError):
        "column \ud800".encode()


@pytest.mark.parametrize("kind", [InputError, ModelError, UnmaskWarning])
def test_a_message_survives_the_way_from_a_worker(kind):
    error = pickle.loads(pickle.dumps(kind("a \ud800")))
    assert type(error) is kind
    assert str(error) == "a \\ud800"


def test_each_surface_writes_the_names_of_arguments():
    use = f"give {argument_name('force', True)}, or {argument_name('top', 5)}"
    error = InputError("128 is too long", argument="max_length", use=use)
    assert str(error) == "max_length 128 is too long: give force=True, or top=5"
    assert error.argument == "max_length"

    def on_the_command_line(name, value):
        flag = f"--{name.replace('_', '-')}"
        return flag if value in (None, "True") else f"{flag} {value}"

    shown = error.written(on_the_command_line)
    assert shown == "--max-length 128 is too long: give --force, or --top 5"
    outer = InputError(f"text 2: {error.marked}")
    assert outer.written(on_the_command_line) == f"text 2: {shown}"
    assert str(pickle.loads(pickle.dumps(error))) == str(error)


def test_words_of_a_user_are_no_names():
    text = chr(0x96) + "top" + chr(0x97)
    error = InputError(f"{text!r} is odd")
    assert error.written(lambda name, value: "--top") == str(error)
