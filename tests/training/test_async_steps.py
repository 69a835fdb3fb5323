"""Order in which steps are started and their outcomes read."""

import pytest

from seg_tf.training.errors import NonFiniteLossError
from seg_tf.training.learner import Learner
from seg_tf.training.step import StepOptions


class Outcome:
    """Whether a step was an update; asking waits for it, and is written down."""

    def __init__(self, number, is_finite, events):
        self.number = number
        self.is_finite = is_finite
        self.events = events

    def __bool__(self):
        self.events.append(f"read {self.number}")
        return self.is_finite


class Run(Learner):
    """Steps of which some are not finite: `Run("+-+")`."""

    def __init__(self, finite, max_skipped_steps=20):
        self.events, self.agreed = [], []
        self.batches = iter(range(len(finite)))
        self.options = StepOptions()
        self._finite = finite
        self._in_flight = None
        self._max_skipped_steps, self._skipped = max_skipped_steps, 0

    def begin(self):
        self.start_update(lambda: next(self.batches))

    def finish(self):
        self.finish_update(lambda: next(self.batches))

    def _start(self, next_batch):
        number = next_batch()
        self.events.append(f"start {number}")
        outcome = Outcome(number, self._finite[number] == "+", self.events)
        return outcome, f"flags {number}"

    def _note_stop_requests(self, stop_requests):
        self.agreed.append(stop_requests)


def test_an_outcome_is_read_when_the_next_step_was_started():
    run = Run("+++")
    for _ in range(3):
        run.begin()
    assert run.events == ["start 0", "start 1", "read 0", "start 2", "read 1"]
    assert run.agreed == ["flags 0", "flags 1"]
    run.finish()
    assert run.events[-1] == "read 2"
    assert run.agreed[-1] == "flags 2"
    run.finish()
    assert len(run.agreed) == 3


@pytest.mark.parametrize("finite", ["+-+--+++++", "--+-+-+--+", "-+++"])
@pytest.mark.parametrize("settles_at", [[], [1], [0, 1, 2]])
def test_as_many_updates_are_made_as_were_begun(finite, settles_at):
    run = Run(finite)
    wanted = 3
    for number in range(wanted):
        run.begin()
        if number in settles_at:
            run.finish()
    run.finish()
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
    with pytest.raises(NonFiniteLossError, match=f"^{1 + max_skipped_steps} steps"):
        run.begin()
    # With none allowed, the next one was started before it was known.
    started = [event for event in run.events if event.startswith("start")]
    assert len(started) == max(3, 2 + max_skipped_steps)
