import io

from seg_tf.progress import Progress


class Terminal(io.StringIO):
    def isatty(self):
        return True


def test_file_gets_a_plain_line_for_each_report():
    stream = io.StringIO()
    display = Progress(1_000, done=100, stream=stream)
    display.advance(101)
    display.show(
        150, {"loss": 2.5, "learning rate": 1e-4, "tokens per second": 12_345.6}
    )
    display.close()
    (line,) = stream.getvalue().splitlines()
    assert line.startswith(
        "update 150/1,000  loss 2.5000  learning rate 1.00e-04  "
        "tokens per second 12,346  left "
    )


def test_time_left_goes_by_the_updates_of_this_process(monkeypatch):
    times = iter([0.0, 100.0])
    monkeypatch.setattr("time.monotonic", lambda: next(times))
    stream = io.StringIO()
    display = Progress(1_000, 900, stream)
    display.show(950, {})  # 50 updates in 100 s, 50 to go
    assert stream.getvalue().endswith("left 01:40\n")


def test_terminal_gets_a_bar_that_starts_where_the_run_stands():
    stream = Terminal()
    display = Progress(1_000, done=400, stream=stream)
    display.show(500, {"loss": 2.5})
    display.show(500, {"validation loss": 2.75})
    display.advance(500)
    display.close()
    shown = stream.getvalue()
    assert "400/1000" in shown
    last = shown.split("\r")[-1]
    assert "500/1000" in last
    assert "loss=2.5000" in last
    assert "validation loss=2.7500" in last
