"""Commands of `seg-tf` for pretrained models and their files."""

import sys

if sys.argv[:1] == ["-m"]:  # python -m seg_tf.commands.NAME
    sys.exit("error: use `seg-tf NAME` or `python -m seg_tf NAME`")
