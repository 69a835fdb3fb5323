"""Runs a script without what costs a short run more than it gives.

python -m tests.quick_script run_pretraining.py --config=…
"""

import runpy
import sys
import time

from seg_tf.training import silent_ranks

if __name__ == "__main__":
    import tensorflow as tf

    # As in conftest.py.
    tf.config.optimizer.set_experimental_options({"disable_meta_optimizer": True})
    # A silent rank, and its return, are noticed sooner.
    silent_ranks._INTERVAL = 0.5
    silent_ranks.Watch.__init__.__defaults__ = (4.0, time.monotonic)
    del sys.argv[0]
    runpy.run_path(sys.argv[0], run_name="__main__")
