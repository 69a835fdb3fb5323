import os
import signal

import pytest

from seg_tf.training.errors import stop_requests


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_first_signal_is_a_request_and_the_second_acts_as_before(number):
    received = []
    before = signal.signal(number, lambda *_: received.append("handler before"))
    try:
        with stop_requests() as request:
            assert not request
            os.kill(os.getpid(), number)
            assert request
            assert request.signal_number == number
            assert received == []
            os.kill(os.getpid(), number)
            assert received == ["handler before"]
    finally:
        signal.signal(number, before)
