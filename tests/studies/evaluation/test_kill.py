import json
import os
import subprocess
import sys
from pathlib import Path

import pandas as pd

PAIRS, AT_ONCE = 99, 3


def test_ten_kills_change_nothing(tiny_folder, corpus, tmp_path):
    script = Path(__file__).with_name("kill_again_and_again.py")
    environment = os.environ | {
        "OMP_NUM_THREADS": "1",
        "TOKENIZERS_PARALLELISM": "false",
        "PYTHONPATH": ":".join(sys.path),
    }
    done = subprocess.run(
        [sys.executable, script, tiny_folder, corpus, tmp_path, str(PAIRS), str(AT_ONCE)],
        capture_output=True,
        text=True,
        env=environment,
    )
    assert done.returncode == 0, done.stderr
    stored = [int(n) for n in done.stdout.split()]
    assert all(count % AT_ONCE == 0 for count in stored), "the pairs of a batch are kept together"
    assert len(stored) == 10
    assert stored == sorted(stored)
    assert stored[-1] > stored[0]
    whole, killed = tmp_path / "whole", tmp_path / "killed"
    assert (killed / "table.md").read_bytes() == (whole / "table.md").read_bytes()
    tables = [json.loads((folder / "table.json").read_text()) for folder in (whole, killed)]
    for table in tables:
        for changing in ("date", "median_seconds_a_pair"):
            del table[changing]
    assert tables[0] == tables[1]
    rows = [
        pd.read_parquet(folder / "results.parquet").drop(columns="seconds")
        for folder in (whole, killed)
    ]
    pd.testing.assert_frame_equal(*rows, check_exact=True)
    assert not rows[1].duplicated(["pair", "construction"]).any()
    assert len(rows[1]) == 3 * PAIRS
