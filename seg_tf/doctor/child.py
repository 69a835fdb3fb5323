"""What a child process runs: `python -m seg_tf.doctor.child <check> <report file>`."""

from __future__ import annotations

import faulthandler
import importlib
import os
import sys
import traceback

from seg_tf.doctor.children import Report


def main(check: str, path: str) -> int:
    faulthandler.enable()
    # Of several processes, those after the first write to a file that nobody reads.
    rank = os.environ.get("HOROVOD_RANK", "0")
    report = Report(path if rank == "0" else f"{path}.{rank}")
    try:
        importlib.import_module(f"seg_tf.doctor.{check}").probe(report)
    except BaseException as error:
        traceback.print_exc()
        report.fail(error)
        return 1
    report.end()
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
