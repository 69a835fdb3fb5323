"""Order in which steps are started and their outcomes read."""

import pytest

from seg_tf.training.late_updates import LateUpdates, StartedStep


class Outcome:
    """Whether a step was an update; asking waits for it, and is written down."""

    def __init__(self, number, is_finite, events):
        self.number = number
        self.is_finite = is_finite
        self.events = events

    def __bool__(self):
        self.events.append(f"read {self.number}")
        return self.is_finite


class Run:
    """Steps of which some are not finite: `FiniteSteps("+-+")`."""

    def __init__(self, finite, max_skipped_steps=20):
        self.events, self.agreed = [], []
        self.batches = iter(range(len(finite)))
        self._finite = finite
        self.updates = LateUpdates(
            self._start,
            self.agreed.append,
            max_skipped_steps,
            lambda batch: RuntimeError(f"batch {batch}"),
        )

    def begin(self):
        return self.updates.begin(self.batches)

    def _start(self, batches):
        number = next(batches)
        self.events.append(f"start {number}")
        outcome = Outcome(number, self._finite[number] == "+", self.events)
        return StartedStep(number, {"number": number}, outcome, f"flags {number}")


def test_an_outcome_is_read_when_the_next_step_was_started():
    run = Run("+++")
    logs = [run.begin(), run.begin(), run.begin()]
    assert run.events == ["start 0", "start 1", "read 0", "start 2", "read 1"]
    # Reading those waits for nothing, but for the first.
    assert logs == [{"number": 0}, {"number": 0}, {"number": 1}]
    assert run.agreed == ["flags 0", "flags 1"]
    assert run.updates.settle() == {"number": 2}
    assert run.events[-1] == "read 2"
    assert run.agreed[-1] == "flags 2"
    assert run.updates.settle() == {}
    assert len(run.agreed) == 3


@pytest.mark.parametrize("finite", ["+-+--+++++", "--+-+-+--+", "-+++"])
@pytest.mark.parametrize("settles_at", [[], [1], [0, 1, 2]])
def test_as_many_updates_are_made_as_were_begun(finite, settles_at):
    run = Run(finite)
    wanted = 3
    for number in range(wanted):
        run.begin()
        if number in settles_at:
            run.updates.settle()
    run.updates.settle()
    made = [number for number in range(next(run.batches, 99)) if number < len(finite)]
    assert finite[: len(made)].count("+") == wanted
    assert finite[len(made) - 1] == "+"  # and no step more than they took
    # Every step is read, once, in order.
    reads = [event for event in run.events if event.startswith("read")]
    assert reads == [f"read {number}" for number in made]


@pytest.mark.parametrize("max_skipped_steps", [0, 1, 2])
def test_one_skipped_step_too_many_ends_it(max_skipped_steps):
    run = Run("+" + "-" * 9, max_skipped_steps)
    run.begin()
    run.begin()
    with pytest.raises(RuntimeError, match=f"batch {1 + max_skipped_steps}"):
        run.begin()
    # With none allowed, the next one was started before it was known.
    started = [event for event in run.events if event.startswith("start")]
    assert len(started) == max(3, 2 + max_skipped_steps)


def test_skipped_steps_are_counted_anew_after_an_update():
    run = Run("--+--+--+", max_skipped_steps=2)
    for _ in range(3):
        run.begin()
    assert run.updates.settle() == {"number": 8}


def test_one_process_that_waits_hands_no_flags_on_before_the_others():
    early, late = Run("++-+++"), Run("++-+++")
    for number in range(3):
        for run in (early, late):
            run.begin()
        if number == 1:
            early.updates.wait()
        assert early.agreed == late.agreed
    for run in (early, late):
        run.updates.settle()
    assert early.agreed == late.agreed == ["flags 0", "flags 1", "flags 3"]


def test_a_step_that_cannot_be_started_leaves_nothing_in_flight():
    run = Run("+")
    run.begin()
    with pytest.raises(StopIteration):
        run.begin()
    assert run.updates.settle() == {}
