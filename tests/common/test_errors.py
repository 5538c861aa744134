"""Messages of errors and warnings can be written anywhere."""

import pickle

import pytest

from unmask.common.errors import InputError, ModelError, UnmaskWarning


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
