"""A user's own code: a file, or a module of a package, that the user names.

    my_rules.py:Mine          the class (or function) Mine of a file
    package.module:Mine       the same of a module that Python can import

The text is split at its last colon, so that C:\\my_rules.py:Mine is a file, too.

Whose code runs: a file is loaded only where the user of this process names it, on the command line
or in Python. A request to the page never loads one (`refuse_in_requests`), nor does a setting that
was read from a folder: there the user names the code again, and its hash must be that of before.

The hash covers the file and the modules beside it that it imports. Another process gets the sources
and the hash, and loads them there; it never gets a pickled class.
"""

from __future__ import annotations

import ast
import importlib
import importlib.util
import inspect
import os
import re
import sys
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any

from unmask.common.border.names import nearest
from unmask.common.errors import InputError

DIGITS = 16
"""Hexadecimal digits of a hash, as in `unmask.runs.fingerprint`."""
MODULE = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)*")
STORED = re.compile(rf".+:[\w.]+ [0-9a-f]{{{DIGITS}}}")
"""What `OwnCode.stored_text` writes."""
INSTALLED = ("site-packages", "dist-packages")
"""Names of folders that hold installed packages."""
IN_REQUEST: ContextVar[bool] = ContextVar("IN_REQUEST", default=False)
"""Whether what runs now was asked for by a request, or read from a folder."""


@contextmanager
def without_own_code() -> Iterator[None]:
    """While this lasts, a text that names own code is refused: it came from a request, or from a
    file that was read.
    """
    token = IN_REQUEST.set(True)
    try:
        yield
    finally:
        IN_REQUEST.reset(token)


def refuse_in_requests(argument: str, text: str) -> None:
    """Refuse own code that a request or a stored setting names."""
    if IN_REQUEST.get():
        raise InputError(
            f"{text} names a file of code, which is loaded only where the user of this process"
            " names it",
            argument=argument,
            use="name a method of unmask, or start the server with it",
        )


@dataclass(frozen=True)
class OwnCode:
    """Own code, with all that another process needs to load the same.

    spelling   as the user wrote it
    path       of the file
    name       of the class or function in it
    root       the folder from which its modules are imported
    module     the dotted name of a module that Python can import; empty for a file
    sources    the text of each file that the hash covers, by its path below `root`
    """

    spelling: str
    path: Path
    name: str
    root: Path
    module: str = ""
    sources: dict[str, str] = field(default_factory=dict, repr=False, compare=False)

    @property
    def sha256(self) -> str:
        """The hash of the file and of the modules beside it that it imports."""
        import hashlib  # it loads a large library, and the help of a command needs no hash

        digest = hashlib.sha256()
        for place, text in sorted(self.sources.items()):
            for part in (place, text):
                data = part.encode("utf-8", "surrogatepass")
                digest.update(len(data).to_bytes(8, "little") + data)
        return digest.hexdigest()[:DIGITS]

    @property
    def stored(self) -> dict[str, str]:
        """What a run's settings keep: the file's own name, whatever folder it lies in, and the
        hash.
        """
        return {"code": f"{self.path.name}:{self.name}", "sha256": self.sha256}

    @property
    def stored_text(self) -> str:
        """The same as one text, for a setting that is a text."""
        return f"{self.path.name}:{self.name} {self.sha256}"

    def load(self, argument: str) -> Any:
        """The class or function; an InputError is one line, with the file and the line at fault."""
        try:
            module = _imported(self)
        except InputError:
            raise
        except (Exception, SystemExit) as error:  # a script may end the process when imported
            where = place_of(error, self)
            problem = f"{where}: {first_line_of(error)}"
            raise InputError(problem, argument=argument, use="mend the file") from None
        named = module
        for part in self.name.split("."):
            if not hasattr(named, part):
                raise self._without(argument, module)
            named = getattr(named, part)
        return named

    def load_sent(self) -> Any:
        """The class or function, in a process that was sent the sources."""
        folder = _unpacked(tuple(sorted(self.sources.items())))
        path = folder / self.path.relative_to(self.root)
        here = OwnCode(
            spelling=self.spelling,
            path=path,
            name=self.name,
            root=folder,
            module=self.module,
            sources=self.sources,
        )
        return here.load("code")

    def _without(self, argument: str, module: ModuleType) -> InputError:
        public = [one for one in vars(module) if not one.startswith("_")]
        near = nearest(self.name, public)
        use = "check the name after the colon"
        if near is not None:
            use = f"did you mean {near}?"
        return InputError(f"{self.path.name} has no {self.name}", argument=argument, use=use)


# ---- from a text, or from a class, to code ----


def names_code(text: str) -> bool:
    """Whether a text has the form of own code; no file is looked for."""
    where, colon, name = text.rpartition(":")
    if not colon or not name.isidentifier():
        return False
    of_module = MODULE.fullmatch(where) is not None and "." in where
    return of_module or where.lower().endswith(".py")


def is_stored_code(value: object) -> bool:
    """Whether a setting of a run is own code with its hash."""
    return isinstance(value, str) and STORED.fullmatch(value) is not None


def code_spelled(argument: str, text: str) -> OwnCode:
    """The own code that a text names, which has the form of it.

    Raises InputError if there is no such file or module, or where no code may be loaded.
    """
    refuse_in_requests(argument, text)
    where, _, name = text.rpartition(":")
    if not where.lower().endswith(".py"):
        return _of_module(argument, text, where, name)
    path = Path(where).expanduser()
    if not path.is_file():
        raise InputError(
            f"{text}: there is no file {where!r}", argument=argument, use="check the path"
        )
    path = path.resolve()
    return _with_sources(spelling=text, path=path, name=name, root=path.parent)


def _of_module(argument: str, text: str, module: str, name: str) -> OwnCode:
    try:
        spec = importlib.util.find_spec(module)  # imports the package that the module is in
    except Exception:
        spec = None
    if spec is None or spec.origin is None or not spec.origin.endswith(".py"):
        raise InputError(
            f"{text}: there is no module {module}",
            argument=argument,
            use="install its package, or name a file such as my.py:Name",
        )
    path = Path(spec.origin).resolve()
    root = _root_of(path, module)
    return _with_sources(spelling=text, path=path, name=name, root=root, module=module)


def _root_of(path: Path, module: str) -> Path:
    """The folder from which a module's package is imported."""
    depth = module.count(".") + 1
    if path.name == "__init__.py":
        depth += 1
    return path.parents[depth - 1]


def code_of(named: Any) -> OwnCode:
    """The code of a class or function of a user.

    Raises InputError if it stands in no file, as in a notebook or at the prompt.
    """
    own = getattr(sys.modules.get(named.__module__), "__unmask_code__", None)
    name = named.__qualname__
    if own is not None:
        return _with_sources(
            spelling=f"{own.path.name}:{name}",
            path=own.path,
            name=name,
            root=own.root,
            module=own.module,
        )
    in_file = named.__module__ != "__main__" and "<locals>" not in name
    path = None
    if in_file:
        try:
            path = Path(inspect.getfile(named)).resolve()
        except (TypeError, OSError):
            path = None
    if path is None or not path.is_file():
        raise InputError(
            f"{name} stands in no file that another process could load: put it in a file, and name"
            f" it as my.py:{name.rpartition('.')[2]}, or import it from there"
        )
    module = named.__module__
    return _with_sources(
        spelling=f"{module}:{name}",
        path=path,
        name=name,
        root=_root_of(path, module),
        module=module,
    )


def is_ours(named: Any) -> bool:
    """Whether a class or function belongs to unmask itself."""
    top, _, _ = named.__module__.partition(".")
    return bool(top == "unmask")


def _with_sources(*, spelling: str, path: Path, name: str, root: Path, module: str = "") -> OwnCode:
    return OwnCode(
        spelling=spelling,
        path=path,
        name=name,
        root=root,
        module=module,
        sources=_sources(path, root, _package_of(root, module)),
    )


def _package_of(root: Path, module: str) -> str | None:
    """The package to which the hash of a module keeps; None where it covers all modules beside it.

    What lies beside an installed package is other people's.
    """
    if "." in module or root.name in INSTALLED:
        return module.partition(".")[0]
    return None


def _sources(path: Path, root: Path, package: str | None) -> dict[str, str]:
    """The text of a file, and of the modules below `root` that it imports, and so on.

    package   only modules of this package, if one is given
    """
    texts: dict[str, str] = {}
    waiting = [path]
    while waiting:
        one = waiting.pop()
        place = one.relative_to(root).as_posix()
        if place in texts:
            continue
        try:
            texts[place] = one.read_text("utf-8")
            tree = ast.parse(texts[place])
        except SyntaxError:
            continue  # told when the file is loaded, with its line
        except (OSError, UnicodeDecodeError) as error:
            raise InputError(f"{one}: {first_line_of(error)}: check the file") from None
        for imported in _imported_files(tree, one, root):
            top = imported.relative_to(root).parts[0].removesuffix(".py")
            if package is None or top == package:
                waiting.append(imported)
    return texts


def _imported_files(tree: ast.AST, path: Path, root: Path) -> list[Path]:
    """The files below `root` of the modules that a file imports, and of their packages."""
    package = path.parent.relative_to(root).parts
    dotted: list[tuple[str, ...]] = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            dotted += [tuple(one.name.split(".")) for one in node.names]
        elif isinstance(node, ast.ImportFrom):
            stem = tuple((node.module or "").split(".")) if node.module else ()
            if node.level:  # relative: one dot is the file's own package
                stem = (*package[: len(package) - node.level + 1], *stem)
            dotted.append(stem)
            dotted += [(*stem, one.name) for one in node.names]
    files: list[Path] = []
    for parts in dotted:
        for end in range(1, len(parts) + 1):
            place = root.joinpath(*parts[:end])
            beside = (place.with_suffix(".py"), place / "__init__.py")
            files += [one for one in beside if one.is_file()]
    return files


# ---- loading ----


def _imported(code: OwnCode) -> ModuleType:
    """The module of the code: imported if Python can import it, else made from the file.

    A file that has not changed is loaded once, so that its classes stay the same.
    """
    if code.module:
        with _first_on_path(code.root):
            return importlib.import_module(code.module)
    name = f"unmask_own_{code.path.stem}_{_path_hash(code)}_{code.sha256}"
    if name in sys.modules:
        return sys.modules[name]
    beside = _modules_beside(code)
    _forget(beside)
    spec = importlib.util.spec_from_file_location(name, code.path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    module.__dict__["__unmask_code__"] = code
    sys.modules[name] = module
    try:
        loaded_before = set(sys.modules)
        with _first_on_path(code.root):
            spec.loader.exec_module(module)
        new = (sys.modules.keys() - loaded_before).intersection(beside)
        BESIDE.update({one: sys.modules[one] for one in new})
        _refuse_others(beside, code)
    except BaseException:
        del sys.modules[name]
        _forget(beside)
        raise
    return module


BESIDE: dict[str, ModuleType] = {}
"""The modules that own files imported from beside them, by name: each file has its own, also where
two folders have a module of one name.
"""


def _path_hash(code: OwnCode) -> str:
    """Two files of one content in two folders are two modules."""
    import hashlib

    return hashlib.sha256(os.fsencode(code.path)).hexdigest()[:8]


@contextmanager
def _first_on_path(folder: Path) -> Iterator[None]:
    """Modules beside the file are found first, while it is loaded.

    No bytecode is written: Python would take it for that of a file which was changed within the
    same second.
    """
    place = str(folder)
    writes_none = sys.dont_write_bytecode
    sys.path.insert(0, place)
    sys.dont_write_bytecode = True
    importlib.invalidate_caches()
    try:
        yield
    finally:
        sys.path.remove(place)
        sys.dont_write_bytecode = writes_none


def _modules_beside(code: OwnCode) -> list[str]:
    """The names of the modules that the file imports from beside it."""
    own = code.path.relative_to(code.root).as_posix()
    names = []
    for place in code.sources:
        if place == own:
            continue
        stem = place.removesuffix("/__init__.py").removesuffix(".py")
        names.append(stem.replace("/", "."))
    return names


def _forget(names: list[str]) -> None:
    """Take modules that an own file imported out of those that are loaded, so that the next file
    gets its own, and a file that has changed is read again.
    """
    for name in names:
        if name in BESIDE and sys.modules.get(name) is BESIDE[name]:
            del sys.modules[name]


def _refuse_others(names: list[str], code: OwnCode) -> None:
    """Refuse a file that got another module than the one beside it, because one of that name was
    loaded before.
    """
    for name in names:
        file = getattr(sys.modules.get(name), "__file__", None)
        if file is None:  # it is imported later, or never
            continue
        place = code.root.joinpath(*name.split("."))
        if Path(file).resolve() not in (place.with_suffix(".py"), place / "__init__.py"):
            raise InputError(
                f"{code.path.name} imports {name}, and another module of this name is loaded"
                f" already ({file}): give {name}.py another name"
            )


@cache
def _unpacked(sources: tuple[tuple[str, str], ...]) -> Path:
    """A folder of this process with the sources in it; it is kept until the process ends."""
    import tempfile  # workers need it alone

    folder = tempfile.TemporaryDirectory(prefix="unmask-own-")
    KEPT.append(folder)
    root = Path(folder.name).resolve()
    for place, text in sources:
        path = root / place
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, "utf-8", newline="")
    return root


KEPT: list[Any] = []
"""Temporary folders of sources that were sent to this process; each is removed when it ends."""


# ---- words for errors of the user's code ----


def first_line_of(error: BaseException) -> str:
    """An error in one line: its class and the first line of its text."""
    lines = str(error).strip().splitlines()
    if isinstance(error, SyntaxError):
        return f"SyntaxError: {error.msg}"
    if not lines:
        return type(error).__name__
    return f"{type(error).__name__}: {lines[0]}"


def failure(argument: str, named: Any, error: Exception) -> InputError:
    """The error of a user's own class or function that failed while it ran, in one line with its
    file and line.
    """
    where = place_in(named, error)
    return InputError(f"{where}: {first_line_of(error)}", argument=argument, use="mend it")


def place_in(named: Any, error: Exception) -> str:
    """Where a user's own class or function failed: the file and the line, or its name where it
    stands in no file, as at the prompt.
    """
    try:
        return place_of(error, code_of(named))
    except (InputError, AttributeError):  # a `partial` has no name and no module
        return str(getattr(named, "__qualname__", type(named).__name__))


def place_of(error: BaseException, code: OwnCode) -> str:
    """The file and the line of the user's code at fault, as "my.py line 3"."""
    if isinstance(error, SyntaxError) and error.filename is not None:
        return f"{Path(error.filename).name} line {error.lineno}"
    frames = traceback.extract_tb(error.__traceback__)
    in_files = [one for one in frames if not one.filename.startswith("<")]  # not <frozen site>
    own = [one for one in in_files if code.root in Path(one.filename).resolve().parents]
    if not own:
        return code.path.name
    last = own[-1]
    return f"{Path(last.filename).name} line {last.lineno}"
