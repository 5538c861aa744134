"""The tokens of a source are kept in the cache and read back."""

from __future__ import annotations

import errno

import numpy as np
import pytest

from unmask.common.errors import InputError
from unmask.studies.training.segmentation import Segmentation, segments
from unmask.studies.training.text_sources import TextSource
from unmask.studies.training.tokenising import tokenise

CUT = Segmentation((16, 32), 32, 0.1)


def segments_of(part):
    ends = np.cumsum(part.lengths)
    return [tuple(part.ids[e - n : e].tolist()) for e, n in zip(ends, part.lengths, strict=True)]


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "cache" / "unmask"


def stored(corpus, tokenizer, cut):
    return tokenise(TextSource.file(corpus), tokenizer, cut)


def test_store_holds_the_segments_and_is_read_back(corpus, tokenizer, lines, cache):
    train, valid, fingerprint = stored(corpus, tokenizer, CUT)
    for part, out in ((train, False), (valid, True)):
        assert segments_of(part) == [
            tuple(s)
            for s in segments(tokenizer, CUT, [x for x in lines if CUT.holds_out(x) == out])
        ]
    assert isinstance(train.ids, np.memmap)
    assert train.ids.dtype == np.uint16
    made = {p: p.stat().st_mtime_ns for p in cache.rglob("*")}
    again, _, same = stored(corpus, tokenizer, CUT)
    assert same == fingerprint
    assert segments_of(again) == segments_of(train)
    assert {p: p.stat().st_mtime_ns for p in cache.rglob("*")} == made


def test_anything_that_changes_the_tokens_changes_the_fingerprint(corpus, tokenizer, tmp_path):
    first = stored(corpus, tokenizer, CUT)[2]
    other_cut = stored(corpus, tokenizer, Segmentation((16,), 32, 0.1))[2]
    corpus.write_text(corpus.read_text() + "One line more.\n")
    other_text = stored(corpus, tokenizer, CUT)[2]
    assert len({first, other_cut, other_text}) == 3


def test_a_failed_tokenisation_leaves_nothing(corpus, tokenizer, cache, monkeypatch):
    def full(*args):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(np, "save", full)
    with pytest.raises(InputError, match="no space left on the disk of .*tokens-"):
        stored(corpus, tokenizer, CUT)
    assert list(cache.iterdir()) == []
