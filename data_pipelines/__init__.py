"""Pipelines that turn raw text into training records, for corpora of any size."""

import sys

if sys.argv[:1] == ["-m"]:  # python -m data_pipelines.NAME
    sys.exit("error: use `seg-tf NAME` or `python -m seg_tf NAME`")


class BuildError(Exception):
    """Raised if a build cannot continue. The message states the cause and a remedy."""
