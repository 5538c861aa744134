"""A dependence profile and its file."""

import json
import shutil

import pytest

import unmask
from unmask.common.errors import InputError
from unmask.tables.profile import FILE


def test_a_profile_of_other_weights_in_the_folder_is_refused(tiny_folder, tmp_path):
    """It was used by `score` and `sample` without a word."""
    folder = tmp_path / "model"
    shutil.copytree(tiny_folder, folder)
    (folder / FILE).write_text(
        json.dumps({"by_distance": [0.5, 0.2], "fingerprint": "other", "n_texts": 3})
    )
    model = unmask.MaskedLM.load(folder, device="cpu")
    with pytest.raises(InputError, match="the profile was measured on model other"):
        unmask.Profile.of(model)
