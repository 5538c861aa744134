"""What serving costs: candidate-set fills over HTTP at 1, 8 and 32 clients, against the same fills called directly, in one run.

    python bench/serve_load.py [--requests 32] [--candidates 64]

Prints, for each number of clients, the median and the 95th percentile of a request's seconds, seconds per request of the
whole load, and its ratio to the direct call. Then the same at 1 client while an exact joint is computed for another one.
Direct calls are timed before and after the load, and the mean of both is what is compared with.
"""

from __future__ import annotations

import argparse
import http.client
import json
import re
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress

import numpy as np

import unmask
from unmask.models.masked_lm import MaskedLM

SUBJECTS = ["man", "woman", "boy", "girl", "dog", "crowd", "child", "player"]
PLACES = ["park", "street", "house", "water", "field", "city", "garden", "crowd"]


def texts(count: int) -> list[str]:
    """Different sentences of one length."""
    every = [f"The {s} [MASK] a [MASK] in the {p}." for s in SUBJECTS for p in PLACES]
    return [every[i % len(every)] for i in range(count)]


def post(port: int, path: str, body: dict[str, object]) -> bytes:
    """One request, answered."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=600)
    connection.request("POST", path, json.dumps(body), {"content-type": "application/json"})
    answer = connection.getresponse()
    found = answer.read()
    assert answer.status == 200, found
    connection.close()
    return found


def until_the_end(port: int, body: dict[str, object]) -> None:
    """An exact joint, which the end of the server may interrupt."""
    with suppress(OSError, AssertionError, http.client.HTTPException):
        post(port, "/api/joint", body)


def load(port: int, asked: list[str], clients: int, candidates: int) -> tuple[list[float], float]:
    """Seconds of each request, and seconds of all."""

    def one(text: str) -> float:
        start = time.perf_counter()
        post(port, "/api/fill", {"text": text, "joint": "balanced", "candidates": candidates})
        return time.perf_counter() - start

    start = time.perf_counter()
    with ThreadPoolExecutor(clients) as pool:
        seconds = list(pool.map(one, asked))
    return seconds, time.perf_counter() - start


def direct(model: MaskedLM, asked: list[str], candidates: int) -> list[float]:
    """Seconds of each fill without a server."""
    seconds = []
    for text in asked:
        start = time.perf_counter()
        unmask.fill(text, model, joint="balanced", candidates=candidates).to_dict()
        seconds.append(time.perf_counter() - start)
    return seconds


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--requests", type=int, default=32)
    parser.add_argument("--candidates", type=int, default=64)
    options = parser.parse_args()
    asked = texts(options.requests)
    model = MaskedLM.load(device="cpu")
    command = [sys.executable, "-m", "unmask", "serve", "--port", "0", "--device", "cpu"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        port = int(re.findall(r":(\d+)/", server.stdout.readline())[0])
        try:
            load(port, asked[:4], 1, options.candidates)
            direct(model, asked[:2], options.candidates)
            alone = direct(model, asked, options.candidates)
            found = {clients: load(port, asked, clients, options.candidates) for clients in (1, 8, 32)}
            alone += direct(model, asked, options.candidates)
            base = float(np.mean(alone))
            print(f"direct: median {np.median(alone):.3f} s, 95 % {np.quantile(alone, 0.95):.3f} s, mean {base:.3f} s")
            for clients, (seconds, all_of_them) in found.items():
                each = all_of_them / len(asked)
                print(
                    f"{clients:2d} clients: median {np.median(seconds):.3f} s, 95 % {np.quantile(seconds, 0.95):.3f} s, "
                    f"{each:.3f} s per request, {each / base:.2f} of the direct call"
                )
            exact = {"text": "The [MASK] [MASK] at the casino.", "exact": True}
            background = threading.Thread(target=until_the_end, args=(port, exact), daemon=True)
            background.start()
            time.sleep(3)
            beside, _ = load(port, asked, 1, options.candidates)
            ended = "" if background.is_alive() else " (the exact joint ended meanwhile)"
            p95, before = np.quantile(beside, 0.95), np.quantile(found[1][0], 0.95)
            print(
                f" 1 client beside an exact joint: median {np.median(beside):.3f} s, 95 % {p95:.3f} s, "
                f"{p95 / before:.2f} of the 95 % without it{ended}"
            )
        finally:
            server.terminate()


if __name__ == "__main__":
    main()
