"""A user's own code: a file, or a module of a package, that the user names.

    my_rules.py:Mine          the class (or function) Mine of a file
    package.module:Mine       the same of a module that Python can import

The text is split at its last colon: in C:\\my_rules.py:Mine the file is C:\\my_rules.py.

A file is loaded only where the user of this process names it, on the command line or in Python. A
request to the page never loads one (`refuse_in_requests`). Neither does a setting that was read
from a folder: the user names the code again, and its hash must be the one in the setting.

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
"""The form of `OwnCode.stored_text`: my_rules.py:Mine, a space and the hash."""
INSTALLED = ("site-packages", "dist-packages")
"""Names of folders that hold installed packages."""
IN_REQUEST: ContextVar[bool] = ContextVar("IN_REQUEST", default=False)
"""Whether own code is refused now (see `without_own_code`)."""


@contextmanager
def without_own_code() -> Iterator[None]:
    """Inside this context, every text that names own code is refused: the texts come from a
    request, or from a file that was read.
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
                length = len(data).to_bytes(8, "little")  # tells "ab", "c" from "a", "bc"
                digest.update(length + data)
        return digest.hexdigest()[:DIGITS]

    @property
    def stored(self) -> dict[str, str]:
        """The code in the settings of a run: the name of the file, without its folder, the name of
        the class or function, and the hash.
        """
        return {"code": f"{self.path.name}:{self.name}", "sha256": self.sha256}

    @property
    def stored_text(self) -> str:
        """`stored` as one text, for a setting that is a text."""
        return f"{self.path.name}:{self.name} {self.sha256}"

    def load(self, argument: str) -> Any:
        """Load and return the class or function.

        If the user's code fails, this raises an InputError of one line, with the file and the line
        at fault.
        """
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
                raise self._missing_name(argument, module)
            named = getattr(named, part)
        return named

    def load_sent(self) -> Any:
        """Load and return the class or function from `sources`, in another process than that of
        the user.
        """
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

    def _missing_name(self, argument: str, module: ModuleType) -> InputError:
        """The error of a file without the class or function."""
        public = [one for one in vars(module) if not one.startswith("_")]
        near = nearest(self.name, public)
        use = "check the name after the colon"
        if near is not None:
            use = f"did you mean {near}?"
        return InputError(f"{self.path.name} has no {self.name}", argument=argument, use=use)


# ---- from a text, or from a class, to code ----


def names_code(text: str) -> bool:
    """Whether a text has the form of own code. The file need not exist."""
    where, colon, name = text.rpartition(":")
    if not colon or not name.isidentifier():
        return False
    of_module = MODULE.fullmatch(where) is not None and "." in where
    return of_module or where.lower().endswith(".py")


def is_stored_code(value: object) -> bool:
    """Whether a setting of a run is own code with its hash (`OwnCode.stored_text`)."""
    return isinstance(value, str) and STORED.fullmatch(value) is not None


def code_spelled(argument: str, text: str) -> OwnCode:
    """The own code that a text names. The text has the form of own code (see `names_code`).

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
    """The own code of a module that Python can import.

    text   "module:name", as the user wrote it
    """
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
    """The folder from which a module is imported: /lib for package.module in
    /lib/package/module.py, or in /lib/package/module/__init__.py.
    """
    levels = module.count(".")  # from the folder of the file up
    if path.name == "__init__.py":
        levels += 1
    return path.parents[levels]


def code_of(named: Any) -> OwnCode:
    """The code of a user's class or function.

    Raises InputError if it is not in a file, as in a notebook or at the prompt.
    """
    module = named.__module__
    name = named.__qualname__
    loaded = getattr(sys.modules.get(module), "__unmask_code__", None)
    if loaded is not None:  # `_imported` made its module from a file
        return _with_sources(
            spelling=f"{loaded.path.name}:{name}",
            path=loaded.path,
            name=name,
            root=loaded.root,
            module=loaded.module,
        )
    path = _file_of(named)
    if path is None:
        raise InputError(
            f"{name} stands in no file that another process could load: put it in a file, and name"
            f" it as my.py:{name.rpartition('.')[2]}, or import it from there"
        )
    return _with_sources(
        spelling=f"{module}:{name}",
        path=path,
        name=name,
        root=_root_of(path, module),
        module=module,
    )


def _file_of(named: Any) -> Path | None:
    """The file from which another process could import a class or function; None if there is none,
    as for one of the script that runs, or one that is defined inside a function.
    """
    if named.__module__ == "__main__" or "<locals>" in named.__qualname__:
        return None
    try:
        path = Path(inspect.getfile(named)).resolve()
    except (TypeError, OSError):
        return None
    return path if path.is_file() else None


def is_ours(named: Any) -> bool:
    """Whether a class or function belongs to unmask itself."""
    top, _, _ = named.__module__.partition(".")
    return bool(top == "unmask")


def _with_sources(*, spelling: str, path: Path, name: str, root: Path, module: str = "") -> OwnCode:
    """Own code with the sources that its hash covers, read now."""
    return OwnCode(
        spelling=spelling,
        path=path,
        name=name,
        root=root,
        module=module,
        sources=_sources(path, root, _package_of(root, module)),
    )


def _package_of(root: Path, module: str) -> str | None:
    """The package whose modules the hash covers; None if it covers all modules below `root`.

    The modules beside a user's file are the user's, too. What lies beside an installed package is
    other people's.
    """
    if "." in module or root.name in INSTALLED:
        return module.partition(".")[0]
    return None


def _sources(path: Path, root: Path, package: str | None) -> dict[str, str]:
    """The text of a file, of the modules below `root` that it imports, of those that these import,
    and so on, each by its path below `root`.

    package   if it is given, only modules of this package
    """
    texts: dict[str, str] = {}
    waiting = [path]
    while waiting:
        file = waiting.pop()
        place = file.relative_to(root).as_posix()
        if place in texts:
            continue
        try:
            text = file.read_text("utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise InputError(f"{file}: {first_line_of(error)}: check the file") from None
        texts[place] = text
        try:
            tree = ast.parse(text)
        except SyntaxError:
            continue  # `load` reports it, with its line
        for imported in _imported_files(tree, file, root):
            top = imported.relative_to(root).parts[0].removesuffix(".py")
            if package is None or top == package:
                waiting.append(imported)
    return texts


def _imported_files(tree: ast.AST, path: Path, root: Path) -> list[Path]:
    """The files below `root` of the modules that a file imports, and of their packages.

    tree   the syntax tree of the file
    """
    package = path.parent.relative_to(root).parts
    modules: list[tuple[str, ...]] = []  # dotted names, split at their dots
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            modules += [tuple(one.name.split(".")) for one in node.names]
        elif isinstance(node, ast.ImportFrom):
            base: tuple[str, ...] = ()
            if node.module:
                base = tuple(node.module.split("."))
            if node.level:  # relative: one dot is the file's own package, two the one above
                above = package[: len(package) - (node.level - 1)]
                base = (*above, *base)
            modules.append(base)
            modules += [(*base, one.name) for one in node.names]  # a name may be a module, too
    files: list[Path] = []
    for parts in modules:
        for length in range(1, len(parts) + 1):  # each package above the module, and the module
            place = root.joinpath(*parts[:length])
            candidates = (place.with_suffix(".py"), place / "__init__.py")
            files += [one for one in candidates if one.is_file()]
    return files


# ---- loading ----


def _imported(code: OwnCode) -> ModuleType:
    """The module of the code: imported by its name if it has one, else made from the file.

    A file that has not changed is loaded once, so that its classes stay the same.
    """
    if code.module:
        with _first_on_path(code.root):
            return importlib.import_module(code.module)
    name = f"unmask_own_{code.path.stem}_{_path_hash(code)}_{code.sha256}"
    if name in sys.modules:
        return sys.modules[name]
    beside = _modules_beside(code)
    _forget(beside)  # those of another folder, or those from before a change of their files
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
        for one in beside:
            if one in sys.modules and one not in loaded_before:
                BESIDE[one] = sys.modules[one]
        _refuse_strangers(beside, code)
    except BaseException:
        del sys.modules[name]
        _forget(beside)
        raise
    return module


BESIDE: dict[str, ModuleType] = {}
"""The modules that own files imported from beside them, by name, as they are in `sys.modules`. Two
folders may have modules of the same name: see `_forget`.
"""


def _path_hash(code: OwnCode) -> str:
    """A short hash of the file's path, so that files with the same content in two folders are two
    modules.
    """
    import hashlib

    return hashlib.sha256(os.fsencode(code.path)).hexdigest()[:8]


@contextmanager
def _first_on_path(folder: Path) -> Iterator[None]:
    """Inside this context, Python looks for modules in a folder first.

    It writes no bytecode: if the file changes within the same second, Python would take the old
    bytecode for that of the changed file.
    """
    place = str(folder)
    dont_write_before = sys.dont_write_bytecode
    sys.path.insert(0, place)
    sys.dont_write_bytecode = True
    importlib.invalidate_caches()
    try:
        yield
    finally:
        sys.path.remove(place)
        sys.dont_write_bytecode = dont_write_before


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
    """Remove the modules of these names from `sys.modules` if an own file imported them.

    The next own file then imports its own module of the name, and a module whose file has changed
    is read again.
    """
    for name in names:
        if name in BESIDE and sys.modules.get(name) is BESIDE[name]:
            del sys.modules[name]


def _refuse_strangers(names: list[str], code: OwnCode) -> None:
    """Raise if a module that the file imports is not the one beside it, because another module of
    the same name was loaded before.

    names   of the modules beside the file that it imports
    """
    for name in names:
        file = getattr(sys.modules.get(name), "__file__", None)
        if file is None:  # it is imported later, or never
            continue
        place = code.root.joinpath(*name.split("."))
        beside = (place.with_suffix(".py"), place / "__init__.py")
        if Path(file).resolve() not in beside:
            raise InputError(
                f"{code.path.name} imports {name}, and another module of this name is loaded"
                f" already ({file}): give {name}.py another name"
            )


@cache
def _unpacked(sources: tuple[tuple[str, str], ...]) -> Path:
    """Write the sources to a temporary folder, and return it. It is removed when the process ends.

    sources   pairs of a path below the folder and a text
    """
    import tempfile  # only workers need it

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
    """An error in one line: its class and the first line of its message."""
    lines = str(error).strip().splitlines()
    if isinstance(error, SyntaxError):
        return f"SyntaxError: {error.msg}"
    if not lines:
        return type(error).__name__
    return f"{type(error).__name__}: {lines[0]}"


def failure(argument: str, named: Any, error: Exception) -> InputError:
    """The InputError, of one line, for an error that a user's own class or function raised.

    It states the file and the line at fault.
    """
    where = place_in(named, error)
    return InputError(f"{where}: {first_line_of(error)}", argument=argument, use="mend it")


def place_in(named: Any, error: Exception) -> str:
    """Where a user's own class or function failed: the file and the line; or its name if it is not
    in a file, as at the prompt.
    """
    try:
        return place_of(error, code_of(named))
    except (InputError, AttributeError):  # a `partial` has no name and no module
        return str(getattr(named, "__qualname__", type(named).__name__))


def place_of(error: BaseException, code: OwnCode) -> str:
    """The file and the line of the user's code at fault, as "my.py line 3".

    That is the innermost line below the folder of the code; only the file if the error has none.
    """
    if isinstance(error, SyntaxError) and error.filename is not None:
        return f"{Path(error.filename).name} line {error.lineno}"
    frames = traceback.extract_tb(error.__traceback__)
    in_files = [one for one in frames if not one.filename.startswith("<")]  # not <frozen site>
    own = [one for one in in_files if code.root in Path(one.filename).resolve().parents]
    if not own:
        return code.path.name
    innermost = own[-1]
    return f"{Path(innermost.filename).name} line {innermost.lineno}"
