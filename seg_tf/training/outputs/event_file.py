"""Scalars for TensorBoard."""

import os
import pathlib
import socket
import time
from collections.abc import Mapping

import tensorflow as tf

_Event = tf.compat.v1.Event


class EventFile:
    """Writes scalars to a new event file in `folder`.

    A file of events is a file of records, one protocol buffer each. Written like
    this, rather than with `tf.summary`, it can tell TensorBoard to forget what a
    killed process wrote after the update from which this one continues.

    Args:
        folder: the folder that TensorBoard is pointed at, or one below it.
        updates: updates that are done.
    """

    def __init__(self, folder: pathlib.Path, updates: int = 0):
        folder.mkdir(parents=True, exist_ok=True)
        # TensorBoard reads the files of a folder in the order of their names.
        name = (
            f"events.out.tfevents.{time.time_ns()}.{socket.gethostname()}.{os.getpid()}"
        )
        self.path = folder / name
        self._writer = tf.io.TFRecordWriter(str(self.path))
        self._write(_Event(file_version="brain.Event:2"))
        start = tf.compat.v1.SessionLog(status=tf.compat.v1.SessionLog.START)
        # Steps from this one on are purged: they will come again.
        self._write(_Event(step=updates + 1, session_log=start))
        self._flush()

    def write(self, updates: int, scalars: Mapping[str, float]) -> None:
        values = [
            tf.compat.v1.Summary.Value(tag=tag, simple_value=value)
            for tag, value in scalars.items()
        ]
        self._write(_Event(step=updates, summary=tf.compat.v1.Summary(value=values)))
        self._flush()

    def close(self) -> None:
        self._writer.close()

    def _write(self, event: _Event) -> None:
        event.wall_time = time.time()
        self._writer.write(event.SerializeToString())

    def _flush(self) -> None:
        try:
            self._writer.flush()
        except tf.errors.OpError as error:
            raise OSError(f"{self.path}: {error.message}") from error
