"""Runs a script without what costs a short run more than it gives.

python -m tests.quick_script run_pretraining.py --config=…
"""

import runpy
import sys

if __name__ == "__main__":
    import tensorflow as tf

    # As in conftest.py.
    tf.config.optimizer.set_experimental_options({"disable_meta_optimizer": True})
    del sys.argv[0]
    runpy.run_path(sys.argv[0], run_name="__main__")
