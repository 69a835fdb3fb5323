"""Runs `seg-tf` where it is not installed: `python -m seg_tf NAME`."""

from seg_tf.command_table import main

if __name__ == "__main__":
    main()
