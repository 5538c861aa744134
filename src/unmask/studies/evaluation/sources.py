"""Texts to evaluate: a list, a text file, CoNLL-U, FASTA, or a dataset on the hub by its name."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass

from unmask.common.errors import InputError
from unmask.common.files import first_line, user_path
from unmask.runs.file_names import kind_of
from unmask.runs.lines import numbered_lines, plain_texts
from unmask.runs.unpacking import STANDARD_INPUT, source_name
from unmask.studies.evaluation.conllu import Parse, read_conllu

HUB_DATASETS: dict[str, tuple[str, str, tuple[str, ...]]] = {
    "snli": ("stanfordnlp/snli", "validation", ("premise", "hypothesis")),
    "xsum": ("EdinburghNLP/xsum", "test", ("summary",)),
}
"""Short name: repository, split, and the columns whose texts are taken."""

PARQUET_REVISION = "refs/convert/parquet"
"""The hub's own conversion of every dataset; some repositories hold a loading script instead,
which is never run.
"""


@dataclass(frozen=True)
class Text:
    """One text of a dataset, with its parse where the data carry one."""

    text: str
    parse: Parse | None = None


def read_texts(data: str | os.PathLike[str] | Sequence[str]) -> list[Text]:
    """The texts of a list, of a file, or of `snli` or `xsum`.

    A file ending in .conllu holds parsed sentences, one in .fasta, .fa or .faa sequences, any
    other one text per line; each may be packed (.gz, .xz). `-` is standard input, one text per
    line.
    """
    if not isinstance(data, str | os.PathLike):
        if not data:
            raise InputError("is an empty list", argument="data", use="give one text or more")
        return [Text(text) for text in data]
    path = user_path(data, "data")
    if path != STANDARD_INPUT and not path.exists():
        if str(data) in HUB_DATASETS:
            return _read_hub(str(data))
        raise InputError(
            f"{str(data)!r} is neither a file nor a known name ({', '.join(HUB_DATASETS)})",
            argument="data",
            use="give a text file",
        )
    if kind_of(path) == ".conllu":
        sentences = read_conllu(numbered_lines(path), str(path))
        texts = [Text(text, parse) for text, parse in sentences]
    else:
        texts = [Text(text) for text in plain_texts(path)]
    if not texts:
        raise InputError(
            f"{source_name(path)!r} holds no text",
            argument="data",
            use="give a file with one text per line",
        )
    return texts


def _read_hub(name: str) -> list[Text]:
    """The different texts of a dataset, in its order, column by column."""
    try:
        import datasets
    except ImportError:
        raise InputError(
            f"{name!r} is read through the package datasets, which is not installed",
            argument="data",
            use='pip install "unmask[hub]", or give a text file',
        ) from None
    repository, split, columns = HUB_DATASETS[name]
    try:
        table = datasets.load_dataset(repository, split=split, revision=PARQUET_REVISION)
        texts = dict.fromkeys(str(text).strip() for column in columns for text in table[column])
    except Exception as error:
        raise InputError(
            f"{name!r} ({repository}) could not be fetched ({first_line(error)})",
            argument="data",
            use="give a text file instead",
        ) from None
    return [Text(text) for text in texts if text]
