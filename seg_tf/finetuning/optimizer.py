"""The optimizer of fine-tuning."""

from seg_tf.training import optimizer
from seg_tf.training.adamw import AdamW

# As BERT and SLM (section 3.2) fine-tune; Segatron does not say.
WARMUP_SHARE = 0.1
CLIP_NORM = 1.0


def finetuning_optimizer(learning_rate: float, num_updates: int) -> AdamW:
    """AdamW as BERT is fine-tuned with it, for `compile`.

    Its rate rises over the first tenth of the updates and falls to 0 at the last, both
    linearly; weights decay by 0.01 of the rate, but for LayerNorm and bias; gradients
    are cut to a global norm of 1.

    Args:
        learning_rate: the highest rate.
        num_updates: updates of the whole training.
    """
    return optimizer.build_adamw(
        num_updates=num_updates,
        learning_rate=learning_rate,
        warmup_updates=round(WARMUP_SHARE * num_updates),
        global_clipnorm=CLIP_NORM,
    )
