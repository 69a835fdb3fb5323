"""Builds that are interrupted, and what is made again afterwards."""

import contextlib
import types
from collections.abc import Iterator

import pytest


@contextlib.contextmanager
def interrupted(job: types.ModuleType, slice_number: int) -> Iterator[None]:
    """Expects an interruption, which comes when `job` is to make one slice.

    Args:
        job: a module with a `make_slice`, of a build in this process.
        slice_number: the slice that is not made any more.
    """
    make_slice = job.make_slice

    def make_until(payload):
        if payload.number == slice_number:
            raise KeyboardInterrupt
        return make_slice(payload)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(job, "make_slice", make_until)
        with pytest.raises(KeyboardInterrupt):
            yield


@contextlib.contextmanager
def noted(job: types.ModuleType) -> Iterator[list[int]]:
    """Gives a list to which the numbers of the slices that `job` makes are added."""
    make_slice, numbers = job.make_slice, []

    def make(payload):
        numbers.append(payload.number)
        return make_slice(payload)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(job, "make_slice", make)
        yield numbers
