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

import unmask
from unmask.surfaces.serving.server import listening_socket


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
    with pytest.raises(unmask.InputError, match="without http:// and port"):
        unmask.serve(allow_host=["http://box.local/"])


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
                "POST", "/api/sample", json.dumps(body), {"content-type": "application/json"}
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
