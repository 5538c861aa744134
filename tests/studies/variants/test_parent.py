"""Sequences that a model cannot count the residues of."""

import pytest

from unmask.common.errors import InputError
from unmask.studies.variants.parent import Parent, residue_ids


@pytest.mark.parametrize(
    ("sequence", "said"),
    [
        ("the zebra sat", r"token 2 of the sequence, 'zebra', is \[UNK\] to the model"),
        ("the [SEP] sat", r"is \[SEP\] to the model"),
        ("[CLS] the cat", r"token 1 of the sequence, '\[CLS\]', is \[CLS\] to the model"),
    ],
)
def test_a_sequence_whose_residues_cannot_be_counted_is_refused(tiny, sequence, said):
    with pytest.raises(InputError, match=said):
        Parent(tiny, sequence, residue_ids(tiny, None))
