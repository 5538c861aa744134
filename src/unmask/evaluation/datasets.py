"""Where the texts come from: a text file, CoNLL-U, FASTA, or a dataset on the hub by its name."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from unmask.errors import InputError
from unmask.evaluation.conllu import Parse, read_conllu

HUB_DATASETS = {
    "snli": ("stanfordnlp/snli", "validation", ("premise", "hypothesis")),
    "xsum": ("EdinburghNLP/xsum", "test", ("summary",)),
}
"""Short name: repository, split, and the columns whose texts are taken."""

PARQUET_REVISION = "refs/convert/parquet"
"""The hub's own conversion of every dataset; some repositories hold a loading script instead, which is no longer run."""


@dataclass(frozen=True)
class Text:
    """One text of a dataset, with its parse where the data carry one."""

    text: str
    parse: Parse | None = None


def read_texts(data: str) -> list[Text]:
    """The texts of a file (.conllu: parsed sentences; .fasta, .fa: sequences; else one text a line), or of `snli` or `xsum`."""
    path = Path(data).expanduser()
    if not path.exists():
        if data in HUB_DATASETS:
            return _read_hub(data)
        raise InputError(f"data {data!r} is neither a file nor a known name ({', '.join(HUB_DATASETS)}): give a text file")
    lines = read_lines(path)
    if path.suffix == ".conllu":
        texts = [Text(text, parse) for text, parse in read_conllu(lines, str(path))]
    elif path.suffix in (".fasta", ".fa"):
        texts = [Text(sequence) for sequence in _sequences(lines)]
    else:
        texts = [Text(line.strip()) for line in lines if line.strip()]
    if not texts:
        raise InputError(f"{str(path)!r} holds no text: give a file with one text a line")
    return texts


def read_lines(path: Path) -> list[str]:
    """The lines of a UTF-8 file; a byte-order mark is dropped."""
    try:
        return path.read_text(encoding="utf-8-sig").split("\n")
    except UnicodeDecodeError as error:
        raise InputError(f"{str(path)!r} is not UTF-8 text (byte {error.start}): convert it to UTF-8") from None
    except OSError as error:
        raise InputError(f"{str(path)!r} cannot be read ({error.strerror}): check the path and its permissions") from None


def _sequences(lines: list[str]) -> Iterator[str]:
    sequence = ""
    for line in [*lines, ">"]:
        if line.startswith(">"):
            if sequence:
                yield sequence
            sequence = ""
        else:
            sequence += line.strip()


def _read_hub(name: str) -> list[Text]:
    try:
        import datasets
    except ImportError:
        raise InputError(
            f"dataset {name!r} is read through the package datasets, which is not installed: "
            'pip install "unmask[hub]", or give a text file'
        ) from None
    repository, split, columns = HUB_DATASETS[name]
    try:
        table = datasets.load_dataset(repository, split=split, revision=PARQUET_REVISION)
        found = dict.fromkeys(str(text).strip() for column in columns for text in table[column])
    except Exception as error:
        line = (str(error).strip() or type(error).__name__).splitlines()[0][:160]
        raise InputError(f"dataset {name!r} ({repository}) could not be fetched ({line}): give a text file instead") from None
    return [Text(text) for text in found if text]
