"""The command: where it listens, what it refuses in one line, how it ends."""

import http.client
import json
import re
import signal
import socket
import subprocess
import sys
import threading

import pytest
from fastapi.testclient import TestClient

import unmask
from unmask.surfaces.serving.app import create_app
from unmask.surfaces.serving.jobs import Jobs
from unmask.surfaces.serving.server import (
    Guard,
    address_of,
    command_name,
    listening_socket,
    names_of,
    print_address,
)


def test_a_port_that_is_taken_and_a_host_that_is_unknown(tiny_folder):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        with pytest.raises(
            unmask.InputError, match=f"port {port} cannot be had at 127.0.0.1 .*give another port"
        ):
            unmask.serve(model=str(tiny_folder), port=port)
    with pytest.raises(unmask.InputError, match="host 'no.such.host.invalid' is not known"):
        listening_socket("no.such.host.invalid", 0)
    with pytest.raises(unmask.InputError, match="port 70000 is out of range"):
        unmask.serve(port=70000)
    with pytest.raises(unmask.InputError, match="allow_host .*without http:// and port"):
        unmask.serve(allow_host=["http://box.local/"])
    with pytest.raises(unmask.InputError, match="^host 'bücher.local' is not the name of a host"):
        names_of("bücher.local", [])


@pytest.mark.parametrize(
    ("host", "address", "is_every", "is_own"),
    [
        ("0", "http://127.0.0.1:8000/", True, False),
        ("0.0", "http://127.0.0.1:8000/", True, False),
        ("::0", "http://[::1]:8000/", True, False),
        ("127.0.0.2", "http://127.0.0.2:8000/", False, True),
        ("127.1", "http://127.1:8000/", False, True),
        ("LOCALHOST", "http://LOCALHOST:8000/", False, True),
        ("fe80::1%eth0", "http://[fe80::1%25eth0]:8000/", False, False),
    ],
)
def test_addresses_in_other_spellings(capsys, host, address, is_every, is_own):
    """As the system reads them: 0 is every address, and all of 127.x.x.x is this machine."""
    assert address_of(host, 8000) == address
    print_address(address, host)
    printed = capsys.readouterr()
    assert ("other machines" in printed.out) == is_every
    assert ("beyond this machine" in printed.err) == (not is_own)


@pytest.mark.parametrize(
    ("typed", "sent"),
    [
        ("127.2", "127.0.0.2"),
        ("192.168.257", "192.168.1.1"),
        ("2001:DB8:0:0::5", "[2001:db8::5]"),
    ],
)
def test_an_address_has_one_spelling(served, typed, sent):
    """A browser that opens an address writes it in its own way."""
    as_typed = f"[{typed}]" if ":" in typed else typed
    for names in (names_of(typed, []), names_of("127.0.0.1", [typed])):
        client = TestClient(Guard(served[0], names))
        for host, status in ((as_typed, 200), (sent, 200), ("192.168.1.2", 400)):
            answer = client.get("/healthz", headers={"host": f"{host}:8000"})
            assert answer.status_code == status, host


def test_a_folder_called_bundled_is_not_the_bundled_model(tiny, tmp_path, monkeypatch):
    """In what the page calls it, and in copies of questions."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "bundled").mkdir()
    assert command_name(None) == command_name(unmask.ModelSpec()) == "bundled"
    for model in ("bundled", unmask.ModelSpec("bundled")):
        client = TestClient(create_app(tiny, Jobs(), name=command_name(model)))
        about = client.get("/api/about").json()
        assert about["model"] == "bundled"
        assert about["given"] == str(tmp_path / "bundled")


def test_an_address_of_ipv6_keeps_its_scope(monkeypatch):
    """A link-local address is one of each network: without its scope no socket has it."""
    asked = []

    def listen(address, family):
        asked.append((address, family))

    monkeypatch.setattr("unmask.surfaces.serving.server.create_server", listen)
    number, name = socket.if_nameindex()[0]
    listening_socket(f"fe80::1%{name}", 8000)
    assert asked == [(("fe80::1", 8000, 0, number), socket.AF_INET6)]
    assert names_of(f"fe80::1%{name}", []) == ["[fe80::1]"], "the header Host has no scope"


def test_a_missing_extra_is_one_line(monkeypatch):
    monkeypatch.setitem(sys.modules, "uvicorn", None)
    with pytest.raises(unmask.InputError, match=r"pip install 'unmask\[serve\]'"):
        unmask.serve()


def test_an_interrupt_ends_it_while_chains_run(tiny_folder):
    command = [sys.executable, "-m", "unmask", "serve", "--port", "0", "--model", str(tiny_folder)]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as server:
        port = int(re.findall(r":(\d+)/", server.stdout.readline())[0])

        def ask():
            connection = http.client.HTTPConnection("127.0.0.1", port)
            body = {"template": "[MASK] [MASK] [MASK] sat .", "chains": 16, "sweeps": 500}
            connection.request(
                "POST", "/api/sample/events", json.dumps(body), {"content-type": "application/json"}
            )
            first.append(connection.getresponse().readline())
            begun.set()

        begun, first = threading.Event(), []
        threading.Thread(target=ask, daemon=True).start()
        assert begun.wait(300)
        assert first == [b"event: job\n"]
        server.send_signal(signal.SIGINT)
        assert server.wait(300) == 130
        assert server.stderr.read() == ""
