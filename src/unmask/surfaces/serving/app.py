"""The application: the JSON interface under /api, its OpenAPI document, and the page's own
files; nothing from outside.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from inspect import signature
from json import loads
from pathlib import Path
from typing import Annotated, Any

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
from unmask.common.results import Result
from unmask.models.load import model_name
from unmask.models.masked_lm import MaskedLM
from unmask.models.text.text_tokenizer import TextTokenizer
from unmask.models.text.word_marks import WordMarks
from unmask.surfaces.serving.copies import Copies
from unmask.surfaces.serving.drawings import MUTANT_NUMBERS
from unmask.surfaces.serving.jobs import ENDING, Busy, Cancelled, Emit, Jobs
from unmask.surfaces.serving.limits import COMMAND, MOST_JOBS, limits
from unmask.surfaces.serving.names import in_request
from unmask.surfaces.serving.questions import Answer, Answers, described
from unmask.surfaces.serving.requests import ENDPOINTS, controls, given, request
from unmask.surfaces.serving.schemas import answer_schema
from unmask.surfaces.serving.texts import EXTENTS, KINDS
from unmask.surfaces.serving.watch import Event, watch_chains, watch_texts

BUNDLED = model_name(None)
STREAMED = ("sample", "generate")
"""Questions whose steps are events, and whose answer is the last one."""
COPIED = ("fill", "compare", "dependence", "mutants", "score", *STREAMED)
PAGE = Path(__file__).parent / "page"

LINE: dict[str, Any] = {
    "type": "object",
    "properties": {"error": {"type": "string"}},
    "required": ["error"],
}
REFUSED = (
    "4xx: the line says what was given, what is wrong with it, and what to do. 503: the server is"
    " ending."
)
REFUSALS: dict[int | str, dict[str, Any]] = {
    "default": {"description": REFUSED, "content": {"application/json": {"schema": LINE}}}
}
LINES = {
    "There was an error parsing the body": (
        "the body cannot be read: send JSON, with numbers of at most 4,000 digits"
    ),
    "Method Not Allowed": "this path takes another method: see the header Allow, or /api",
    "Not Found": "this path is not there: see /api",
}
"""Lines of the framework, as this server says them."""
EVENTS: dict[int | str, dict[str, Any]] = {
    200: {
        "content": {"text/event-stream": {}},
        "description": "Server-sent events, each with a JSON value.",
    }
}
EXAMPLES: list[dict[str, dict[str, str]]] = loads(
    (PAGE / "examples.json").read_text(encoding="utf-8")
)
"""Examples of each view in English, and for proteins: a text, the words to blank, and a second
text to compare it with.
"""
JobName = Annotated[
    str, PathParameter(min_length=1, max_length=40, description="the id of the event `job`")
]


def create_app(
    model: MaskedLM,
    jobs: Jobs,
    name: str = BUNDLED,
    options: Mapping[str, str | bool] | None = None,
    others: Sequence[FastAPI] = (),
) -> FastAPI:
    """The application; a `Guard` stands in front of it.

    `name` is the model's on the command line, `options` those of its loading that are not the
    default. `others` are applications of further models, which the page shows in its place or
    beside it; they are under /models/1 ...
    """
    answers = Answers(model)
    app = FastAPI(
        title="unmask", version=__version__, docs_url=None, redoc_url=None, responses=REFUSALS
    )
    app.router.dependencies.append(Depends(_refuse_unsound))
    described = _about(model, name)
    described["models"] = [described["model"], *(other.state.name for other in others)]
    app.state.name = described["model"]
    _add_refusals(app)
    _add_answers(app, jobs, answers, Copies(described["given"], options or {}))

    @app.get("/healthz")
    async def health() -> dict[str, Any]:
        """Whether the server answers, and how many requests are under way."""
        if jobs.closing:
            raise Cancelled
        return {"status": "ok", "version": __version__, "jobs": len(jobs.under_way)}

    @app.get("/api/about")
    async def about() -> dict[str, Any]:
        """The model that is served, the names of everything that can be asked for, and the
        limits.
        """
        return described

    @app.delete("/api/jobs/{job}")
    async def stop(job: JobName) -> dict[str, Any]:
        """Stop a job: its events end with what it has, where that is an answer, else with
        `error`.
        """
        stopped = jobs.under_way.get(job)
        if stopped is None:
            raise HTTPException(404, f"job {job!r} is not under way: it has ended, or never began")
        stopped.stopping = True
        return {"id": job, "stopping": True}

    app.mount("/page", StaticFiles(directory=str(PAGE)))
    for path, file in {"/": "index.html", "/api": "api.html"}.items():
        app.router.add_route(
            path, lambda request, file=file: FileResponse(PAGE / file), include_in_schema=False
        )
    for number, other in enumerate(others, 1):
        app.mount(f"/models/{number}", other)
    app.router.redirect_slashes = False
    return app


def _add_answers(app: FastAPI, jobs: Jobs, answers: Answers, copies: Copies) -> None:
    for name in ENDPOINTS:
        if name not in STREAMED:
            _add_question(app, jobs, name, getattr(answers, name))
    for name in COPIED:
        _add_copy(app, name, copies)
    _add_stream(app, jobs, answers.model, "sample", answers.sample_settings, watch_chains)
    _add_stream(app, jobs, answers.model, "generate", answers.generate_settings, watch_texts)


def _add_question(app: FastAPI, jobs: Jobs, name: str, method: Callable[..., Answer]) -> None:
    """The route of a request; one that reports progress is answered by events, too."""

    async def route(body: Any, request: Request) -> Response:
        answer = await jobs.answer(request, lambda: method(given(body)))
        return Response(as_json(answer, indent=None), media_type="application/json")

    async def events(body: Any) -> StreamingResponse:
        """The same as events: `job` (id), `progress` (done, total, what), `partial` (what there is
        so far), then `answer` or `error`.
        """

        def work(emit: Emit) -> None:
            def progress(done: int, total: int, what: str = "") -> None:
                emit("progress", {"done": done, "total": total, "what": what})

            def partial(answer: Answer) -> None:
                emit("partial", answer)

            hooks = {"progress": progress, "partial": partial}
            known = signature(method).parameters
            used = {name: hook for name, hook in hooks.items() if name in known}
            emit("answer", method(given(body), **used))

        return jobs.stream(work)

    route.__annotations__["body"] = events.__annotations__["body"] = request(name)
    route.__name__ = name
    route.__doc__ = method.__doc__ or _about_verb(ENDPOINTS[name].function)
    responses = {200: {"content": {"application/json": {"schema": answer_schema(name)}}}}
    app.post(f"/api/{name}", responses=responses)(route)
    if "progress" in signature(method).parameters:
        events.__name__ = f"{name}_events"
        app.post(f"/api/{name}/events", responses=EVENTS, response_class=StreamingResponse)(events)


def _about_verb(verb: Any) -> str:
    return f"{summary(verb)}\n\n{description(verb)}"


def _add_copy(app: FastAPI, name: str, copies: Copies) -> None:
    async def copy(body: Any) -> dict[str, str]:
        """The same question as a line of Python and as a command, which print its answer."""
        return copies.of(name, given(body))

    copy.__annotations__["body"] = request(name)
    copy.__name__ = f"{name}_copy"
    app.post(f"/api/{name}/copy")(copy)


def _add_stream(
    app: FastAPI,
    jobs: Jobs,
    model: MaskedLM,
    name: str,
    settings_of: Callable[[dict[str, Any]], Any],
    watch: Callable[[Any, MaskedLM], Iterator[Event]],
) -> None:
    """The route of a question that is answered step by step; what nothing uses is refused before
    the stream begins.
    """

    async def route(body: Any, request: Request) -> StreamingResponse:
        settings = await jobs.answer(request, lambda: settings_of(given(body)))

        def work(emit: Emit) -> None:
            for event, value in watch(settings, model):
                is_result = isinstance(value, Result)
                emit(event, described(value) if is_result else value)

        return jobs.stream(work)

    route.__annotations__["body"] = request(name)
    route.__name__ = name
    route.__doc__ = watch.__doc__
    app.post(f"/api/{name}", responses=EVENTS, response_class=StreamingResponse)(route)


def _add_refusals(app: FastAPI) -> None:
    """Errors that the user can correct are one line of JSON."""
    busy = f"{MOST_JOBS} requests are under way: wait for one of them, and ask again"
    refusals: dict[type[Exception], Callable[[Any], JSONResponse]] = {
        UnmaskError: lambda error: _refusal(422, error.written(in_request)),
        RequestValidationError: lambda error: _refusal(422, _invalid(error.errors()[0])),
        HTTPException: lambda error: _refusal(
            error.status_code, LINES.get(error.detail, str(error.detail)), error.headers
        ),
        Busy: lambda error: _refusal(429, busy, {"retry-after": "2"}),
        Cancelled: lambda error: _refusal(503, ENDING, {"retry-after": "10"}),
    }

    async def refuse(request: Request, error: Exception) -> JSONResponse:
        return next(answer for kind, answer in refusals.items() if isinstance(error, kind))(error)

    for kind in refusals:
        app.add_exception_handler(kind, refuse)


async def _refuse_unsound(request: Request) -> None:
    """Refuse a body with a key twice, of which the framework would take the last value without
    a word.
    """
    try:
        parse_json((await request.body()).decode() or "null")
    except ValueError as error:
        raise InputError(f"the request holds {error}: correct it") from None


def _invalid(first: Any) -> str:
    """Where a request does not fit its schema, what is there, and what should be."""
    path = ".".join(str(part) for part in first["loc"] if part != "body")
    if first["type"] == "string_too_long":
        length = len(first["input"])
        most = first["ctx"]["max_length"]
        return (
            f"{path} has {length:,} characters, and the page takes {most:,}: shorten it, or"
            f" {COMMAND}"
        )
    where = (
        "the request"
        if first["type"] == "json_invalid" or not path
        else f"{path} {shown(first['input'])}"
    )
    return f"{where}: {first['msg']}"


def _refusal(status: int, line: str, headers: Any = None) -> JSONResponse:
    """A line that JSON can hold: a lone surrogate that was given is shown by its number."""
    return JSONResponse(
        {"error": line.encode("utf-8", "backslashreplace").decode()}, status, headers
    )


def _about(model: MaskedLM, name: str) -> dict[str, Any]:
    """What the page has to know of the model that is called `name` on the command line."""
    whole_words = False
    with suppress(InputError):  # of a tokenizer that does not mark where a word begins
        whole_words = bool(WordMarks(model.words, model.words.size))
    called: str | None = name  # as the copies of questions name it
    shown = Path(name).name or name
    if name == BUNDLED:
        called = None
        shown = "the bundled English model"
    elif Path(name).exists():
        called = str(Path(name).resolve())
    kinds = []
    for kind, sign, text in KINDS:
        kinds.append({"name": kind, "sign": sign, "text": text, "extent": EXTENTS[kind]})
    return {
        "version": __version__,
        "model": shown,
        "given": called,
        "vocabulary": len(model.regular_ids),
        "longest": model.max_length,
        "by_character": model.words.by_character,
        "whole_words": whole_words,
        "examples": examples_for(model.words),
        "kinds": kinds,
        "options": {name: controls(name) for name, one in ENDPOINTS.items() if one.verb},
        "copied": list(COPIED),
        "mutant_numbers": MUTANT_NUMBERS,
        "limits": limits(),
    }


def examples_for(words: TextTokenizer) -> dict[str, dict[str, str]]:
    """By view: the first set whose every text the tokenizer reads without an unknown token."""
    for examples in EXAMPLES:
        with suppress(InputError):
            texts = [
                text
                for example in examples.values()
                for text in (example["text"], example["second"])
                if text
            ]
            if all(words.unknown_id not in words.tokens_of(text).ids for text in texts):
                return examples
    return {}
