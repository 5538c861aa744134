"""What the terminal shows while work goes on."""

from io import StringIO

from rich.console import Console

from support.command_runner import invoke
from unmask.surfaces.cli import terminal


def test_a_terminal_shows_at_once_that_something_happens_and_nothing_of_it_at_the_end(monkeypatch):
    shown = StringIO()
    monkeypatch.setattr(terminal, "messages", lambda: Console(file=shown, force_terminal=True))
    with terminal.progress() as report:
        assert "loading" in shown.getvalue()
        report(1, 2, "passes")
    assert shown.getvalue().endswith("\x1b[2K")
    with terminal.progress(quiet=True) as report:
        assert report is None


def test_a_log_has_a_line_per_minute_that_says_how_long_the_rest_takes(monkeypatch):
    shown, clock = StringIO(), [0.0]
    monkeypatch.setattr(terminal, "messages", lambda: Console(file=shown, force_terminal=False))
    monkeypatch.setattr(terminal.time, "monotonic", lambda: clock[0])
    with terminal.progress() as report:
        for seconds, done in ((0, 400), (30, 450), (61, 500), (100, 600), (160, 900), (230, 1000)):
            clock[0] = float(seconds)
            report(
                done, 1000, f"steps, loss {done}"
            )  # those before 400 were done by an earlier run
        clock[0] = 240.0
        report(0, 10, "texts")
        clock[0] = 310.0
        report(0, 10, "texts")
    assert shown.getvalue().splitlines() == [
        "500/1,000 steps, loss 500, about 5 minutes left",
        "900/1,000 steps, loss 900, about 32 seconds left",
        "1,000/1,000 steps, loss 1000",
        "0/10 texts",
    ]


def test_answers_go_to_standard_output_while_a_bar_is_drawn(monkeypatch, tiny_folder, tmp_path):
    (tmp_path / "texts.txt").write_text("the [MASK] sat .\na [MASK] ran .\n")
    words = ["fill", "--file", str(tmp_path / "texts.txt"), "--model", str(tiny_folder), "--json"]
    shown = StringIO()
    monkeypatch.setattr(terminal, "messages", lambda: Console(file=shown, force_terminal=True))
    assert len(invoke(words).stdout.splitlines()) == 2
    assert "completions" not in shown.getvalue()


def test_what_is_not_a_terminal_gets_no_bar(monkeypatch):
    shown = StringIO()
    monkeypatch.setattr(terminal, "messages", lambda: Console(file=shown, force_terminal=False))
    with terminal.progress() as report:
        report(1, 2, "passes")
    assert shown.getvalue() == ""
