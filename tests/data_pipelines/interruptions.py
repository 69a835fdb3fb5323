"""Builds that are interrupted, and what is made again afterwards."""

import contextlib
from collections.abc import Iterator

import pytest


@contextlib.contextmanager
def interrupted(maker: type, slice_number: int) -> Iterator[None]:
    """Expects an interruption when a maker of a build in this process makes one slice.

    Args:
        maker: class of the maker.
        slice_number: the slice that is not made any more.
    """
    make = maker.make

    def make_until(self, payload, folder):
        if payload.number == slice_number:
            raise KeyboardInterrupt
        return make(self, payload, folder)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(maker, "make", make_until)
        with pytest.raises(KeyboardInterrupt):
            yield


@contextlib.contextmanager
def noted(maker: type) -> Iterator[list[int]]:
    """Gives a list to which the numbers of the slices that makers make are added."""
    original, numbers = maker.make, []

    def make(self, payload, folder):
        numbers.append(payload.number)
        return original(self, payload, folder)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(maker, "make", make)
        yield numbers
