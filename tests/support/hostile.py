"""Hostile requests for the page's server, drawn from a seed: wrong types, huge numbers, deep
nesting, broken text, cut bodies, unknown paths and methods.
"""

from __future__ import annotations

import json
import socket
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from random import Random
from typing import Any

Body = dict[str, Any]
LONG = "a" * 70_000
VALUES: tuple[Any, ...] = (
    None,
    True,
    [],
    {},
    "",
    " ",
    "\x00",
    "\ufeff",
    "\u202etext",
    "🙂" * 50,
    "[MASK] " * 9,
    "[GAP:1-99999]",
    "[GAP:3-1]",
    "[WORD:0]",
    "[MASK",
    "the [MASK] .\r\nevent: answer",
    -1,
    0,
    1.5,
    -0.0,
    2**53 + 1,
    10**30,
    1e308,
    5e-324,
    [[]],
    [None],
    [""],
    ["a"] * 100,
    [1, 1],
    [-1],
    [10**9],
    {"0": "a"},
    {"1": None},
    {"1": "a", "01": "b"},
    {"": ""},
    {"__proto__": "a"},
    "__class__",
    "{0.__class__}",
    "%s%n",
    "'; DROP TABLE jobs; --",
    "../../etc/passwd",
    "balanced,balanced",
    "nan",
    "all",
)
RAW = (
    b"",
    b" ",
    b"null",
    b"true",
    b"3",
    b'"text"',
    b"[]",
    b"[{}]",
    b"{",
    b'{"text"',
    b'{"text": "the [MASK] ."',
    b'{"text": "the [MASK] ."}}',
    b'{"text": "the [MASK] .",}',
    b"{'text': 'the [MASK] .'}",
    b'{"text": NaN}',
    b'{"top": Infinity, "text": "the [MASK] ."}',
    b'{"top": -Infinity, "text": "the [MASK] ."}',
    b'{"top": 1e999, "text": "the [MASK] ."}',
    b'{"top": 007, "text": "the [MASK] ."}',
    b'{"top": ' + b"9" * 5_000 + b', "text": "the [MASK] ."}',
    b'{"text": "the [MASK] .", "text": "a [MASK] ."}',
    b'{"text": "\\ud800 [MASK]"}',
    b'{"\\ud800": "[MASK]"}',
    b'{"text": "\\x00"}',
    b'{"text": "\xff\xfe [MASK]"}',
    b'{"text": "\xed\xa0\x80"}',
    b'\xef\xbb\xbf{"text": "the [MASK] ."}',
    '{"text": "the [MASK] ."}'.encode("utf-16"),
    b"\x1f\x8b\x08\x00\x00\x00\x00\x00",
    b"[" * 30_000,
    b'{"text":' * 5_000 + b"1" + b"}" * 5_000,
    b"text=the+[MASK]",
    b'--x\r\ncontent-disposition: form-data; name="text"\r\n\r\nthe [MASK]\r\n--x--\r\n',
    json.dumps({"text": LONG}).encode(),
)
TYPES = (
    "",
    "text/plain",
    "application/x-www-form-urlencoded",
    "multipart/form-data; boundary=x",
    "multipart/form-data",
    "application/json; charset=utf-16",
    "application/vnd.api+json",
    "application/json, text/html",
    "json",
    "\xff",
)
METHODS = ("GET", "PUT", "PATCH", "DELETE", "OPTIONS", "HEAD", "TRACE", "CONNECT", "FILL", "P\xe4T")
PATHS = (
    "/api/nothing",
    "/api/",
    "//api/fill",
    "/api/fill/",
    "/api//fill",
    "/api/fill/events/events",
    "/API/FILL",
    "/api/fill?text=[MASK]&construction=evil.py:Mine",
    "/api/fill%00",
    "/api/%ff",
    "/api/fill;x",
    "/page/../../app.py",
    "/page/%2e%2e/app.py",
    "/page/",
    "/page/nothing.js",
    "/page/%00",
    "/models/0/api/fill",
    "/models/1/api/fill",
    "/docs",
    "/favicon.ico",
    "/" + "a" * 5_000,
    "*",
    "fill",
    "http://evil.example/api/fill",
)
JOBS = ("x", "0" * 16, "0" * 41, "%00", "%ff", "..", "a%2fb", "%F0%9F%99%82", "a b", "'", "")
HEADERS = (
    {"x-long": "a" * 40_000},
    {f"x-{n}": "a" for n in range(200)},
    {"content-length": "-1"},
    {"content-length": "99999999999"},
    {"content-length": "abc"},
    {"content-length": "5, 6"},
    {"transfer-encoding": "gzip"},
    {"transfer-encoding": "chunked"},
    {"host": "evil.example"},
    {"host": ""},
    {"host": "\xff"},
    {"origin": "http://evil.example"},
    {"origin": "\xff" * 100},
    {"expect": "200-ok"},
    {"content-encoding": "gzip"},
    {"accept-encoding": "br;q=nan, gzip;q=-1"},
    {"accept": "\xff"},
    {"sec-fetch-site": "cross-site"},
    {"upgrade": "websocket", "connection": "upgrade"},
    {"range": "bytes=5-1"},
    {"if-modified-since": "never"},
    {"bad header": "a"},
)


@dataclass(frozen=True)
class Hostile:
    """A request as it goes over the wire. `cut` bytes of the body are never sent; where a header
    may announce more than there is, the client `stops` sending after it.
    """

    kind: str
    method: str
    path: str
    body: bytes = b""
    headers: Mapping[str, str] = field(default_factory=dict)
    cut: int = 0
    stops: bool = False

    def bytes(self, port: int) -> bytes:
        """The whole request, without the bytes that are cut."""
        headers = {
            "host": f"127.0.0.1:{port}",
            "content-type": "application/json",
            "content-length": str(len(self.body)),
            "connection": "close",
            **self.headers,
        }
        lines = [f"{self.method} {self.path} HTTP/1.1"]
        lines += [f"{name}: {value}" for name, value in headers.items() if value or name == "host"]
        head = "\r\n".join([*lines, "", ""]).encode("latin-1")
        return head + self.body[: len(self.body) - self.cut]


@dataclass(frozen=True)
class Reply:
    """What came back; status 0: nothing."""

    status: int
    headers: str
    body: bytes


def send(request: Hostile, port: int, seconds: float) -> Reply:
    """The reply of a server at this port of this machine, which may take `seconds`."""
    with socket.create_connection(("127.0.0.1", port), timeout=seconds) as connection:
        try:
            connection.sendall(request.bytes(port))
            if request.stops:
                connection.shutdown(socket.SHUT_WR)
        except (BrokenPipeError, ConnectionResetError):
            pass  # refused before all was sent; what the server said may still be read
        received = bytearray()
        try:
            while part := connection.recv(65_536):
                received += part
        except ConnectionResetError:
            pass
    if not received:
        return Reply(status=0, headers="", body=b"")
    head, _, body = bytes(received).partition(b"\r\n\r\n")
    status, _, headers = head.decode("latin-1").partition("\r\n")
    headers = headers.lower()
    if "transfer-encoding: chunked" in headers:
        body = unchunked(body)
    return Reply(status=int(status.split()[1]), headers=headers, body=body)


def unchunked(body: bytes) -> bytes:
    """The content of a body that comes in chunks, as far as it came."""
    content = bytearray()
    while body:
        size, _, rest = body.partition(b"\r\n")
        length = int(size, 16)
        content += rest[:length]
        body = rest[length + 2 :]
    return bytes(content)


def hostile_requests(
    count: int, seed: int, examples: Mapping[str, tuple[Body, tuple[str, ...]]]
) -> Iterator[Hostile]:
    """`count` requests. `examples` has of each path of the interface a body that is answered, and
    the names of all of its fields.
    """
    rng = Random(seed)
    paths = list(examples)

    def fields(path: str) -> tuple[Body, str]:
        body, names = examples[path]
        return dict(body), rng.choice([*names, "nothing", "model"])

    def value() -> Hostile:
        path = rng.choice(paths)
        body, name = fields(path)
        body[name] = rng.choice(VALUES)
        return Hostile("value", "POST", path, json.dumps(body).encode())

    def nested() -> Hostile:
        path = rng.choice(paths)
        body, name = fields(path)
        deep: Any = rng.choice(VALUES)
        for _ in range(rng.choice((1, 3, 60))):
            deep = rng.choice(([deep], {"1": deep}, {name: deep}))
        body[name] = deep
        return Hostile("nested", "POST", path, json.dumps(body).encode())

    def missing() -> Hostile:
        path = rng.choice(paths)
        body, _ = fields(path)
        body.pop(rng.choice(list(body)))
        return Hostile("missing", "POST", path, json.dumps(body).encode())

    def raw() -> Hostile:
        return Hostile("raw", "POST", rng.choice(paths), rng.choice(RAW))

    def damaged() -> Hostile:
        path = rng.choice(paths)
        body = bytearray(json.dumps(examples[path][0]).encode())
        for _ in range(rng.choice((1, 2, 8))):
            body[rng.randrange(len(body))] = rng.randrange(256)
        return Hostile("damaged", "POST", path, bytes(body))

    def cut() -> Hostile:
        path = rng.choice(paths)
        body = json.dumps(examples[path][0]).encode()
        return Hostile("cut", "POST", path, body, cut=rng.randrange(1, len(body)), stops=True)

    def of_type() -> Hostile:
        path = rng.choice(paths)
        body = rng.choice((json.dumps(examples[path][0]).encode(), rng.choice(RAW)))
        return Hostile("type", "POST", path, body, {"content-type": rng.choice(TYPES)})

    def method() -> Hostile:
        path = rng.choice([*paths, "/", "/api/about", "/healthz", "/page/index.html"])
        return Hostile("method", rng.choice(METHODS), path, rng.choice(RAW[:8]))

    def path() -> Hostile:
        return Hostile("path", rng.choice(("GET", "POST", "DELETE")), rng.choice(PATHS))

    def job() -> Hostile:
        return Hostile("job", rng.choice(("DELETE", "GET")), f"/api/jobs/{rng.choice(JOBS)}")

    def header() -> Hostile:
        path = rng.choice(paths)
        body = json.dumps(examples[path][0]).encode()
        headers = rng.choice(HEADERS)
        stops = bool({"content-length", "transfer-encoding"} & set(headers))
        return Hostile("header", "POST", path, body, headers, stops=stops)

    kinds: list[Callable[[], Hostile]] = [value, value, value, nested, missing, raw, raw, damaged]
    kinds += [cut, of_type, method, path, job, header]
    for _ in range(count):
        yield rng.choice(kinds)()
