"""Runs `seg-tf finetune` from a checkout."""

from seg_tf import command_table

if __name__ == "__main__":
    command_table.run("seg_tf.commands.finetune")
