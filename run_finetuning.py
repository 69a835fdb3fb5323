"""Fine-tunes a pretrained model: `seg-tf finetune`, from a checkout."""

from seg_tf.commands import console

if __name__ == "__main__":
    console.run("seg_tf.commands.finetune")
