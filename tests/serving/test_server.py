"""The command: where it listens, what it refuses in one line, how it ends; and the folders of runs that it shows."""

from __future__ import annotations

import http.client
import json
import re
import signal
import socket
import subprocess
import sys
import threading
import time

import pytest

import unmask
from unmask.serving.server import listening_socket


@pytest.fixture(scope="module")
def runs(tmp_path_factory, tiny_folder):
    folder = tmp_path_factory.mktemp("runs")
    unmask.sample("the [MASK] sat .", model=str(tiny_folder), chains=2, sweeps=6, out=folder / "chains")
    texts = folder / "texts.txt"
    texts.write_text("the cat sat on the mat .\na dog ran under the tree .\n")
    unmask.evaluate(data=str(texts), model=str(tiny_folder), pairs=8, joints="product,balanced", out=folder / "table")
    return folder


def test_runs_that_were_named_are_shown(tiny, runs):
    from fastapi.testclient import TestClient

    from unmask.serving.app import create_app
    from unmask.serving.jobs import Jobs

    client = TestClient(create_app(tiny, Jobs(), [runs / "chains", runs / "table"]))
    assert [(r["name"], r["kind"]) for r in client.get("/api/about").json()["runs"]] == [
        ("chains", "sample"),
        ("table", "evaluate"),
    ]
    chains, table = (client.get(f"/api/runs/{n}").json() for n in (0, 1))
    assert chains["verdict"] == unmask.diagnose(runs / "chains").verdict and len(chains["traces"]) == 2
    assert chains["traces"][0]["x"] == [1, 2, 3, 4, 5, 6]
    known = json.loads((runs / "table" / "table.json").read_text())
    assert table["tables"][0]["rows"][0][2].startswith(f"{known['constructions'][0]['p_ppl']['value']:.3f}")
    assert chains["figures"] == ["chains.png"]
    figure = client.get("/api/runs/0/figures/0")
    assert figure.headers["content-type"] == "image/png" and figure.content.startswith(b"\x89PNG")
    for path in ("/api/runs/2", "/api/runs/0/figures/1"):
        assert client.get(path).status_code == 404 and "numbered from 0" in client.get(path).json()["error"]


def test_a_folder_that_is_no_run_is_refused(tmp_path):
    from unmask.serving.runs import Runs

    with pytest.raises(unmask.InputError, match="holds no run: give the --out folder"):
        Runs([tmp_path])
    (tmp_path / "settings.json").write_text('{"kind": "train"}')
    with pytest.raises(unmask.InputError, match="is a run of train: give folders of unmask evaluate or unmask sample"):
        Runs([tmp_path])
    with pytest.raises(unmask.InputError):
        Runs([tmp_path / "nowhere"])


def test_a_port_that_is_taken_and_a_host_that_is_unknown(tiny_folder):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        with pytest.raises(unmask.InputError, match=f"127.0.0.1 port {port} cannot be had .*give another --port"):
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
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as server:
        port = int(re.findall(r":(\d+)/", server.stdout.readline())[0])

        def ask():
            connection = http.client.HTTPConnection("127.0.0.1", port)
            body = {"template": "[MASK] [MASK] [MASK] sat .", "chains": 16, "sweeps": 500}
            connection.request("POST", "/api/sample", json.dumps(body), {"content-type": "application/json"})
            first.append(connection.getresponse().readline())
            begun.set()

        begun, first = threading.Event(), []
        threading.Thread(target=ask, daemon=True).start()
        assert begun.wait(60) and first == [b"event: job\n"]
        time.sleep(0.2)
        server.send_signal(signal.SIGINT)
        assert server.wait(10) == 130
        assert server.stderr.read() == ""
