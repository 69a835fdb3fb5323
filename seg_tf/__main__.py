"""Entry point of `python -m seg_tf`, which works without installing `seg-tf`."""

from seg_tf.command_table import main

if __name__ == "__main__":
    main()
