"""Where results may go: never onto what a command reads, nor into a model, a run of another command or somebody's project.

`reads` are the arguments that the command reads, as the user gave them: files, folders, lists of them, texts, None. Links of
both kinds are followed: it is the file that counts, not its name.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path

from unmask.errors import InputError
from unmask.runs.files import read_object, refuse_unmakeable, user_path, writable_file
from unmask.runs.lines import STANDARD_INPUT

ANOTHER_FILE, ANOTHER_FOLDER = "name another file", "choose another folder"
WEIGHTS = ("*.safetensors", "*.bin", "*.index.json", "tokenizer.json", "vocab.txt")
"""One of these beside config.json makes a folder a model."""
MANY = 1000
"""Members of a list that are looked at: files are fewer, and longer lists hold texts."""
LAB = "lab.json"
RUNS = (("settings.json", "begun", "run"), ("training/settings.json", "begun", "train"), (LAB, "studies", "lab"))
"""Files of a run, a key that each must have, and the command if the file does not say."""
DATA_FILES = (".parquet", ".csv", ".tsv", ".json", ".jsonl")


def output_file(name: str, value: str | os.PathLike[str], reads: Iterable[object] = (), replaces: tuple[bytes, ...] = ()) -> Path:
    """The path of the option `name`, if a file may be written there.

    replaces   beginnings of the files that the command writes; any other file is not replaced
    """
    path = user_path(value, name)
    target = writable_file(path)
    if not target.parent.is_dir():
        raise InputError(f"folder {str(target.parent)!r} of {name} does not exist: make it first, or name another")
    _refuse_inputs(name, path, target, reads)
    _refuse_place(name, path, target.parent, ANOTHER_FILE)
    if replaces and target.is_file() and target.stat().st_size:
        with target.open("rb") as stream:
            if not stream.read(max(map(len, replaces))).startswith(replaces):
                raise InputError(f"{name} {str(path)!r} is a file that this command did not write: {ANOTHER_FILE}")
    return path


def run_output(kind: str, out: str | os.PathLike[str] | None, reads: Iterable[object] = ()) -> Path | None:
    """The folder of a run of the command `kind`, if one may begin or continue there; None without `out`."""
    from unmask.runs.folder import refuse_foreign

    folder = None if out is None else output_folder("out", out, reads)
    if folder is not None:
        refuse_foreign(folder, kind)
    return folder


def answer_file(
    name: str, value: str | os.PathLike[str], formats: Mapping[str, tuple[bytes, ...]], texts: int, reads: Iterable[object] = ()
) -> Path:
    """The file that something of one text goes to; `formats`: how the files of each ending begin."""
    path = user_path(value, name)
    if path.suffix.lower() not in formats:
        raise InputError(f"{name} {str(path)!r} has no known ending: name a file that ends in {', '.join(formats)}")
    if texts > 1:
        raise InputError(f"{texts} texts and one {name} {str(path)!r} were given: give one text, or leave {name} out")
    return output_file(name, path, reads, formats[path.suffix.lower()])


def output_folder(name: str, value: str | os.PathLike[str], reads: Iterable[object] = ()) -> Path:
    """The path of the option `name`, if a folder may be made there or is there; its content is not looked at."""
    path = user_path(value, name)
    if path.suffix.lower() in DATA_FILES and not path.exists():
        raise InputError(f"{name} {str(path)!r} is named like a file, and {name} is a folder: name it without {path.suffix}")
    refuse_unmakeable(path, f"choose another --{name} folder")
    target = Path(os.path.realpath(path))
    _refuse_inputs(name, path, target, reads)
    _refuse_place(name, path, target.parent, ANOTHER_FOLDER)
    return path


def is_model(folder: Path) -> bool:
    """Whether a folder holds a checkpoint."""
    with suppress(OSError):
        return (folder / "config.json").is_file() and any(any(folder.glob(pattern)) for pattern in WEIGHTS)
    return False


def run_in(folder: Path) -> str | None:
    """The command whose run a folder holds; None if it holds none."""
    for file, key, command in RUNS:
        with suppress(InputError, OSError):
            if (folder / file).is_file() and key in (noted := read_object(folder / file)):
                return str(noted.get("kind", command))
    return None


def _refuse_inputs(name: str, path: Path, target: Path, reads: Iterable[object]) -> None:
    """Neither the target, nor anything in it where it is a folder, may be read by the command."""
    for read in _paths(reads):
        there = Path(os.path.realpath(read))
        if target == there or (target.is_file() and any(target.samefile(file) for file in _files(there))):
            raise InputError(f"{name} {str(path)!r} is read by this very command: name another")
        if target in there.parents:
            raise InputError(f"{name} {str(path)!r} holds {str(read)!r}, which this very command reads: {ANOTHER_FOLDER}")


def _refuse_place(name: str, path: Path, parent: Path, remedy: str) -> None:
    """The folder above may not be a model, nor that folder or the one above it (such as figures/) belong to a run."""
    if is_model(parent):
        raise InputError(f"{name} {str(path)!r} is in the folder of a model: {remedy}")
    for folder in (parent, parent.parent):
        if command := run_in(folder):
            raise InputError(f"{name} {str(path)!r} is in the folder of a run of `unmask {command}`: {remedy}")


def _paths(reads: Iterable[object]) -> Iterator[Path]:
    """Those of the arguments, and of the members of lists among them, that name a file or folder that exists."""
    for read in reads:
        if isinstance(read, str | os.PathLike):
            with suppress(InputError, OSError, ValueError, AttributeError):
                path = user_path(os.fspath(read))
                path = Path(f"/dev/fd/{sys.stdin.fileno()}") if path == STANDARD_INPUT else path
                if path.exists():
                    yield path
        elif isinstance(read, list | tuple):
            yield from _paths(read[:MANY])


def _files(there: Path) -> list[Path]:
    """The file, or the files of a folder."""
    with suppress(OSError):
        return [file for file in there.iterdir() if file.is_file()] if there.is_dir() else [there]
    return []
