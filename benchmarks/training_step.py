r"""Compares training steps per second with keras-hub and tf-models-official.

  python -m benchmarks.training_step
  python -m benchmarks.training_step --length=512 --predictions=80 --rounds=7
  python -m benchmarks.training_step --layers=2 --hidden_size=128 --num_heads=2 \
      --batch_size=32 --vocab_size=8192 --steps=10
  python -m benchmarks.training_step --dtype_policy=mixed_bfloat16

A step consists of the forward and backward pass, gradient clipping, AdamW and the
masked LM accuracy at the masked positions, with dropout and without XLA, which speeds
up no side on a CPU. Each side runs as its users run it: ours with a step of the
training loop, keras-hub's BertMaskedLM with `fit`'s train function, tf-models-official
with the steps of its masked LM task. All have the same sizes, the same batch, and tanh
GELU in the encoder, which the other two always use. The third ratio compares SegaBERT,
with three index tables, with BERT. The last two, without dropout, compare the modern
trunk with BERT's, and Muon with AdamW on the modern trunk.

On an idle machine, compare wall time. On a busy one, compare the CPU time of all
threads, which other programs affect less.
"""

import os
import warnings
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

# Both are read when TensorFlow is imported; tf-models-official needs the second.
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
os.environ["TF_USE_LEGACY_KERAS"] = "1"

import keras
import keras_hub
import numpy as np
import tensorflow as tf
from absl import flags, logging

from benchmarks import encoder_step, paired
from seg_tf import command_line
from seg_tf.config import MuonConfig, RunConfig

_BATCH_SIZE = flags.DEFINE_integer("batch_size", 8, "Rows of a batch.")
_STEPS = flags.DEFINE_integer("steps", 1, "Steps of a round.")
_ROUNDS = flags.DEFINE_integer("rounds", 15, "Counted rounds.")


def _config(index_tables: dict[str, int]) -> RunConfig:
    return encoder_step.run_config(index_tables, _BATCH_SIZE.value)


def _bert() -> RunConfig:
    return _config({"position_index": encoder_step.LENGTH.value})


def _without_dropout(**model: Any) -> RunConfig:
    run = _bert()
    return replace(run, model=replace(run.model, dropout=0.0, **model))


def _modern() -> RunConfig:
    return _without_dropout(
        index_tables={}, rotary_shares={"position_index": 1}, trunk="modern"
    )


def _keras_hub() -> Callable[[], None]:
    keras.config.set_dtype_policy(encoder_step.DTYPE_POLICY.value)
    backbone = keras_hub.models.BertBackbone(
        vocabulary_size=encoder_step.VOCAB_SIZE.value,
        num_layers=encoder_step.LAYERS.value,
        num_heads=encoder_step.NUM_HEADS.value,
        hidden_dim=encoder_step.HIDDEN_SIZE.value,
        intermediate_dim=4 * encoder_step.HIDDEN_SIZE.value,
        dropout=encoder_step.DROPOUT,
        max_sequence_length=encoder_step.LENGTH.value,
    )
    model = keras_hub.models.BertMaskedLM(backbone, preprocessor=None)
    optimizer = keras.optimizers.AdamW(
        encoder_step.LEARNING_RATE, weight_decay=0.01, global_clipnorm=1.0
    )
    optimizer.exclude_from_weight_decay(var_names=["bias", "gamma", "beta"])
    model.compile(optimizer=optimizer, jit_compile=False)
    batch = encoder_step.make_batch(_bert())
    features = {
        "token_ids": batch["token_ids"],
        "segment_ids": np.zeros_like(batch["token_ids"]),
        "padding_mask": batch["padding_mask"].astype("int32"),
        "mask_positions": batch["masked_positions"],
    }
    return encoder_step.keras_step(
        model, (features, batch["masked_ids"], batch["masked_weights"])
    )


def _tf_models_official() -> Callable[[], None]:
    """Returns a training step with the model and steps of its masked LM task."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        import tf_keras
        from official.modeling.optimization import legacy_adamw
        from official.nlp.modeling import models, networks
    tf_keras.mixed_precision.set_global_policy(encoder_step.DTYPE_POLICY.value)
    encoder = networks.BertEncoderV2(
        vocab_size=encoder_step.VOCAB_SIZE.value,
        hidden_size=encoder_step.HIDDEN_SIZE.value,
        num_layers=encoder_step.LAYERS.value,
        num_attention_heads=encoder_step.NUM_HEADS.value,
        inner_dim=4 * encoder_step.HIDDEN_SIZE.value,
        output_dropout=encoder_step.DROPOUT,
        attention_dropout=encoder_step.DROPOUT,
        max_sequence_length=encoder_step.LENGTH.value,
    )
    model = models.BertPretrainerV2(
        encoder,
        mlm_activation=lambda inputs: tf.nn.gelu(inputs, approximate=True),
        mlm_initializer=tf_keras.initializers.TruncatedNormal(stddev=0.02),
    )
    optimizer = legacy_adamw.AdamWeightDecay(
        encoder_step.LEARNING_RATE,
        epsilon=1e-6,
        weight_decay_rate=0.01,
        exclude_from_weight_decay=["LayerNorm", "layer_norm", "bias"],
        gradient_clip_norm=1.0,
    )
    accuracy = tf_keras.metrics.SparseCategoricalAccuracy()
    batch = encoder_step.make_batch(_bert())
    features = {
        "input_word_ids": batch["token_ids"],
        "input_mask": batch["padding_mask"].astype("int32"),
        "input_type_ids": np.zeros_like(batch["token_ids"]),
        "masked_lm_positions": batch["masked_positions"],
    }
    iterator = encoder_step.endless(
        (features, batch["masked_ids"], batch["masked_weights"])
    )

    @tf.function
    def train_step(iterator):
        features, labels, weights = next(iterator)
        with tf.GradientTape() as tape:
            logits = model(features, training=True)["mlm_logits"]
            losses = tf_keras.losses.sparse_categorical_crossentropy(
                labels, tf.cast(logits, tf.float32), from_logits=True
            )
            loss = tf.math.divide_no_nan(
                tf.reduce_sum(losses * weights), tf.reduce_sum(weights)
            )
        gradients = tape.gradient(loss, model.trainable_variables)
        pairs = zip(gradients, model.trainable_variables, strict=True)
        # The pooler, which no loss reaches, has no gradient.
        optimizer.apply_gradients([pair for pair in pairs if pair[0] is not None])
        accuracy.update_state(labels, logits, weights)
        return loss

    def step() -> None:
        train_step(iterator).numpy()

    return step


def main(argv: Sequence[str]) -> None:
    del argv
    logging.set_verbosity(logging.WARNING)
    # keras-hub's backbone has a pooler, and masked LM no use for it.
    warnings.filterwarnings("ignore", "Gradients do not exist for variables")
    paired.print_machine()
    steps = {
        "seg_tf BERT": encoder_step.seg_tf_step(_bert()),
        "seg_tf SegaBERT": encoder_step.seg_tf_step(_config(encoder_step.SEGABERT)),
        "BERT's trunk": encoder_step.seg_tf_step(_without_dropout()),
        "modern trunk": encoder_step.seg_tf_step(_modern()),
        "modern trunk, Muon": encoder_step.seg_tf_step(
            replace(_modern(), optimizer=MuonConfig())
        ),
        "keras-hub": _keras_hub(),
        "tf-models-official": _tf_models_official(),
    }
    rates = paired.interleave(
        {name: paired.repeated(step, _STEPS.value) for name, step in steps.items()},
        _ROUNDS.value,
    )
    for of, against, target in (
        ("seg_tf BERT", "keras-hub", 0.95),
        ("seg_tf BERT", "tf-models-official", 0.95),
        ("seg_tf SegaBERT", "seg_tf BERT", 0.98),
        ("modern trunk", "BERT's trunk", 1.0),
        ("modern trunk, Muon", "modern trunk", 0.6),
    ):
        paired.report(rates, of=of, against=against, unit="steps/s", target=target)
    paired.print_machine()


if __name__ == "__main__":
    command_line.run(main)
