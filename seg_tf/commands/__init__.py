"""Commands for pretrained models and their files: `python -m seg_tf.commands.NAME`."""
