"""The application: the JSON interface under /api, its OpenAPI document, and the page's own
files; nothing from outside.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from inspect import getdoc, signature
from json import loads
from pathlib import Path
from typing import Annotated, Any, TypeVar

from fastapi import Depends, FastAPI, Request
from fastapi import Path as PathParameter
from fastapi.exceptions import RequestValidationError
from fastapi.responses import FileResponse, JSONResponse, Response, StreamingResponse
from fastapi.staticfiles import StaticFiles
from starlette.exceptions import HTTPException

from unmask import __version__
from unmask.common.border.declarations import description, summary
from unmask.common.checks import shown
from unmask.common.errors import InputError, UnmaskError
from unmask.common.files import as_json, parse_json
from unmask.models.load import model_name
from unmask.models.masked_lm import MaskedLM
from unmask.models.text.text_tokenizer import TextTokenizer
from unmask.models.text.word_marks import WordMarks
from unmask.surfaces.serving.copies import Copies
from unmask.surfaces.serving.jobs import ENDING, FAILED, Busy, Cancelled, Emit, Jobs
from unmask.surfaces.serving.limits import COMMAND, MOST_JOBS, limits
from unmask.surfaces.serving.lists import about_lists
from unmask.surfaces.serving.names import in_request
from unmask.surfaces.serving.questions import Answer, Answers, Values
from unmask.surfaces.serving.reports import Reports
from unmask.surfaces.serving.requests import ENDPOINTS, controls, given
from unmask.surfaces.serving.requests import request as request_model
from unmask.surfaces.serving.schemas import answer_schema
from unmask.surfaces.serving.texts import EXTENTS, KINDS

Route = TypeVar("Route", bound=Callable[..., Any])
BUNDLED = model_name(None)
COPIED = ("fill", "compare", "dependence", "mutants", "score", "sample", "generate")
PAGE = Path(__file__).parent / "page"

REFUSALS: dict[int | str, dict[str, Any]] = {
    "default": {
        "description": (
            "4xx: the line says what was given, what is wrong with it, and what to do; 429: that"
            " too many requests are under way. 500: the server failed. 503: the server is ending."
        ),
        "content": {
            "application/json": {
                "schema": {
                    "type": "object",
                    "properties": {"error": {"type": "string"}},
                    "required": ["error"],
                }
            }
        },
    }
}
"""Every answer but 200, as the OpenAPI document describes it."""
SAID_OF = {
    "There was an error parsing the body": (
        "the body cannot be read: send JSON in UTF-8, with numbers of at most 4,000 digits"
    ),
    "Method Not Allowed": "this path takes another method: see the header Allow, or /api",
    "Not Found": "this path is not there: see /api",
}
"""What this server says in the place of a line of the framework."""
EVENTS: dict[int | str, dict[str, Any]] = {
    200: {
        "content": {"text/event-stream": {}},
        "description": "Server-sent events, each with a JSON value.",
    }
}
EXAMPLES: list[dict[str, dict[str, str]]] = loads(
    (PAGE / "examples.json").read_text(encoding="utf-8")
)
"""Sets of examples, one in English and one for proteins. A set has an example for each view: a
text, the words to blank, and a second text to compare it with.
"""
BUSY = f"{MOST_JOBS} requests are under way: wait for one of them, and ask again"
JobId = Annotated[str, PathParameter(description="the id of the event `job`")]


def create_app(
    model: MaskedLM,
    jobs: Jobs,
    name: str = BUNDLED,
    options: Mapping[str, str | bool] | None = None,
    others: Sequence[FastAPI] = (),
) -> FastAPI:
    """The application of a model; a `Guard` stands in front of it.

    name      of the model, as a command takes it (see `command_name`)
    options   with which the model was loaded, where they are not the default
    others    applications of further models, which the page shows in the place of this one or
              beside it. They are under /models/1, /models/2 and so on.
    """
    app = FastAPI(
        title="unmask",
        version=__version__,
        docs_url=None,
        redoc_url=None,
        redirect_slashes=False,
        responses=REFUSALS,
        dependencies=[Depends(_refuse_unsound)],
    )
    name_in_copies = _name_in_copies(name)
    about_model = _about(model, name_in_copies)
    app.state.name = name
    app.state.about = about_model
    models = [app, *others]
    labels = _told_apart([one.state.name for one in models])
    for one, label in zip(models, labels, strict=True):
        one.state.about.update(model=label, models=[label])  # each knows itself alone,
    about_model["models"] = labels  # and this one knows all
    _add_refusals(app)
    _add_answers(app, jobs, Answers(model), Copies(name_in_copies, options or {}))

    @app.get("/healthz")
    async def health() -> dict[str, Any]:
        """Whether the server answers, and how many requests are under way."""
        if jobs.closing:
            raise Cancelled  # which is answered with 503
        return {"status": "ok", "version": __version__, "jobs": len(jobs.under_way)}

    @app.get("/api/about")
    async def about() -> dict[str, Any]:
        """The model that is served, the names of everything that can be asked for, and the
        limits.
        """
        return about_model

    @app.delete("/api/jobs/{job}")
    async def stop(job: JobId) -> dict[str, Any]:
        """Stop a job: its events end with what it has, where that is an answer, else with
        `error`.
        """
        under_way = jobs.under_way.get(job)
        if under_way is None:
            line = f"job {shown(job)} is not under way: it has ended, or never began"
            raise HTTPException(404, line)
        under_way.stopping = True
        return {"id": job, "stopping": True}

    app.mount("/page", StaticFiles(directory=str(PAGE)))
    app.router.add_route("/", _page("index.html"), include_in_schema=False)
    app.router.add_route("/api", _page("api.html"), include_in_schema=False)
    for number, other in enumerate(others, 1):
        app.mount(f"/models/{number}", other)
    return app


def _page(file: str) -> Callable[[Request], FileResponse]:
    """A route of a page."""

    def page(request: Request) -> FileResponse:
        return FileResponse(PAGE / file)

    return page


def _add_answers(app: FastAPI, jobs: Jobs, answers: Answers, copies: Copies) -> None:
    """The routes of all questions, and of their copies."""
    for name in ENDPOINTS:
        method = getattr(answers, name)
        _add_question(app, jobs, name, method)
        takes_progress = "progress" in signature(method).parameters
        if takes_progress:
            _add_events(app, jobs, name, method, check=answers.checks.get(name))
    for name in COPIED:
        _add_copy(app, name, copies)


def _add_question(app: FastAPI, jobs: Jobs, name: str, method: Callable[..., Answer]) -> None:
    """The route of a question, whose answer is one JSON object."""

    async def answer(body: Any, request: Request) -> Response:
        found = await jobs.answer(request, lambda: method(given(body)))
        return Response(as_json(found, indent=None), media_type="application/json")

    answer.__doc__ = method.__doc__ or _about_verb(ENDPOINTS[name].function)
    route = _with_body(answer, name, question=name)
    in_document = {"content": {"application/json": {"schema": answer_schema(name)}}}
    app.post(f"/api/{name}", responses={200: in_document})(route)


def _add_events(
    app: FastAPI,
    jobs: Jobs,
    name: str,
    method: Callable[..., Answer],
    check: Callable[[Values], object] | None,
) -> None:
    """The route of a question that reports its progress, whose answer is events.

    check   raises for what is refused with a status, before the events begin. None: the method
            alone refuses, and its refusal is the event `error`.
    """
    taken = signature(method).parameters

    async def events(body: Any, request: Request) -> StreamingResponse:
        """The same as events: `job` (id), `progress` (done, total, what, share, said), `step` (of
        chains and decoders), `partial` (what there is so far), then `answer` or `error`.
        """
        if check is not None:
            await jobs.answer(request, lambda: check(given(body)))

        def ask(emit: Emit) -> None:
            hooks = {}
            for parameter, hook in _hooks(emit).items():
                if parameter in taken:
                    hooks[parameter] = hook
            emit("answer", method(given(body), **hooks))

        return jobs.stream(ask)

    route = _with_body(events, f"{name}_events", question=name)
    app.post(f"/api/{name}/events", responses=EVENTS, response_class=StreamingResponse)(route)


def _add_copy(app: FastAPI, name: str, copies: Copies) -> None:
    """The route that gives a question as code."""

    async def copy(body: Any) -> dict[str, str]:
        """The same question as a line of Python and as a command, which print its answer."""
        return copies.of(name, given(body))

    app.post(f"/api/{name}/copy")(_with_body(copy, f"{name}_copy", question=name))


def _with_body(route: Route, name: str, question: str) -> Route:
    """A route whose parameter `body` is a request of this question. FastAPI reads the type of a
    body from the annotations, and the name of an operation from that of the function.
    """
    route.__name__ = name
    route.__annotations__["body"] = request_model(question)
    return route


def _summary(name: str) -> str:
    """What a question answers: the first paragraph of the method that answers, else the verb's
    summary.
    """
    own = getdoc(getattr(Answers, name))
    if own is None:
        return summary(ENDPOINTS[name].function)
    first_paragraph, _, _ = own.partition("\n\n")
    return first_paragraph.replace("\n", " ")


def _hooks(emit: Emit) -> dict[str, Callable[..., None]]:
    """What a method calls while it works, by parameter: each emits an event."""
    reports = Reports()

    def progress(done: int, total: int, what: str = "") -> None:
        emit("progress", reports.report(done, total, what))

    return {
        "progress": progress,
        "partial": partial(emit, "partial"),
        "step": partial(emit, "step"),
    }


def _about_verb(verb: Any) -> str:
    return f"{summary(verb)}\n\n{description(verb)}"


def _add_refusals(app: FastAPI) -> None:
    """Every error is one line of JSON."""

    async def of_unmask(request: Request, error: Any) -> JSONResponse:
        return _refusal(422, error.written(in_request))

    async def of_schema(request: Request, error: Any) -> JSONResponse:
        return _refusal(422, _invalid(error.errors()[0]))

    async def of_framework(request: Request, error: Any) -> JSONResponse:
        line = SAID_OF.get(error.detail, str(error.detail))
        return _refusal(error.status_code, line, error.headers)

    async def of_many_jobs(request: Request, error: Any) -> JSONResponse:
        return _refusal(429, BUSY, {"retry-after": "2"})

    async def of_the_end(request: Request, error: Any) -> JSONResponse:
        return _refusal(503, ENDING, {"retry-after": "10"})

    async def of_a_defect(request: Request, error: Any) -> JSONResponse:
        # starlette raises the error again after this answer, and uvicorn prints its traceback.
        return _refusal(500, FAILED)

    app.add_exception_handler(UnmaskError, of_unmask)
    app.add_exception_handler(RequestValidationError, of_schema)
    app.add_exception_handler(HTTPException, of_framework)
    app.add_exception_handler(Busy, of_many_jobs)
    app.add_exception_handler(Cancelled, of_the_end)
    app.add_exception_handler(Exception, of_a_defect)


async def _refuse_unsound(request: Request) -> None:
    """Refuse three kinds of bodies that the framework takes:

    1. An object has a key twice. The framework has the last value, and says nothing.
    2. A text has half of a surrogate pair.
    3. It is JSON in UTF-16 or UTF-32.

    This runs in the event loop, as the framework's own reading does. 1 MB of texts takes 7 ms, and
    the worst 120 ms.
    """
    body = await request.body()
    if not body:
        return
    try:
        text = body.decode("utf-8-sig")  # without a byte order mark, as the framework reads it
    except UnicodeDecodeError:
        raise InputError("the request is not in UTF-8: send JSON in UTF-8") from None
    try:
        parse_json(text)
    except ValueError as error:
        raise InputError(f"the request holds {error}: correct it") from None


def _invalid(first: Any) -> str:
    """What does not fit the schema, what is there, and what should be.

    first   error of pydantic
    """
    _, *parts = first["loc"]  # the first part is "body"
    path = ".".join(map(str, parts))
    if first["type"] == "string_too_long":
        length = len(first["input"])
        most = first["ctx"]["max_length"]
        return (
            f"{path} has {length:,} characters, and the page takes {most:,}: shorten it, or"
            f" {COMMAND}"
        )
    is_not_json = first["type"] == "json_invalid"  # its path is the number of a character
    if is_not_json or not path:
        return f"the request: {first['msg']}"
    if first["type"] == "missing":  # pydantic's input is the object that should have it
        return f"{path}: {first['msg']}"
    return f"{path} {shown(first['input'])}: {first['msg']}"


def _refusal(status: int, line: str, headers: Any = None) -> JSONResponse:
    """A refusal in a line. Half of a surrogate pair, which no answer can hold, is written as its
    number: \\ud800.
    """
    text = line.encode("utf-8", "backslashreplace").decode()
    return JSONResponse({"error": text}, status, headers)


def _label(name: str) -> str:
    """How the page calls the model of this name."""
    if name == BUNDLED:
        return "the bundled English model"
    return Path(name).name or name


def _told_apart(names: Sequence[str]) -> list[str]:
    """How the page calls the models of these names, such that no two are called the same.

    Models whose labels are the same (a/bert, b/bert) have their whole names. A model that is there
    twice has a number behind its name, too.
    """
    short = [_label(name) for name in names]
    labels = []
    for n, (name, label) in enumerate(zip(names, short, strict=True)):
        if names.count(name) > 1:
            number = names[: n + 1].count(name)
            labels.append(f"{name} ({number})")
        elif short.count(label) > 1:
            labels.append(name)
        else:
            labels.append(label)
    return labels


def _name_in_copies(name: str) -> str | None:
    """How copies of questions name the model; None: they do not, it is the default."""
    if name == BUNDLED:
        return None
    path = Path(name)
    return str(path.resolve()) if path.exists() else name


def _marks_words(model: MaskedLM) -> bool:
    """Whether the tokenizer marks where a word begins, as [WORD] needs it."""
    try:
        WordMarks(model.words, model.words.size)  # raises where no mark is known
    except InputError:
        return False
    return True


def _about(model: MaskedLM, name_in_copies: str | None) -> dict[str, Any]:
    """What the page has to know of the model, except how it calls it."""
    kinds = []
    for kind, sign, text in KINDS:
        kinds.append({"name": kind, "sign": sign, "text": text, "extent": EXTENTS[kind]})
    options = {}
    for question, endpoint in ENDPOINTS.items():
        if endpoint.verb is not None:
            options[question] = controls(question)
    return {
        "version": __version__,
        "given": name_in_copies,
        "vocabulary": len(model.regular_ids),
        "size": f"{len(model.regular_ids):,} tokens",
        "longest": model.max_length,
        "by_character": model.words.by_character,
        "whole_words": _marks_words(model),
        "examples": examples_for(model.words),
        "kinds": kinds,
        "summaries": {question: _summary(question) for question in ENDPOINTS},
        "options": options,
        "copied": list(COPIED),
        "lists": about_lists(),
        "limits": limits(),
    }


def examples_for(words: TextTokenizer) -> dict[str, dict[str, str]]:
    """An example for each view: the first set whose every text the tokenizer reads without an
    unknown token. Empty if there is no such set.
    """
    for examples in EXAMPLES:
        texts: list[str] = []
        for example in examples.values():
            texts += [example["text"], example["second"]]
        if all(_is_known(text, words) for text in texts if text):
            return examples
    return {}


def _is_known(text: str, words: TextTokenizer) -> bool:
    """Whether the tokenizer reads the text without an unknown token."""
    try:
        ids = words.tokens_of(text).ids
    except InputError:  # it cannot read the text at all
        return False
    return words.unknown_id not in ids
