"""An encoder of words that is small enough to check by hand."""

import keras

from seg_tf.layers.adaptive import AdaptiveEmbedding


@keras.saving.register_keras_serializable(package="tests")
class WordEncoder(keras.layers.Layer):
    """Looks at one word at a time: its vector through a dense layer.

    Args:
        sizes: arguments of its `AdaptiveEmbedding`.
    """

    def __init__(self, sizes, **kwargs):
        super().__init__(autocast=False, **kwargs)
        self.sizes = dict(sizes)
        self.token_embedding = AdaptiveEmbedding(
            **sizes, dtype=self.dtype_policy, name="token_embedding"
        )
        self.dense = keras.layers.Dense(
            sizes["hidden_size"],
            activation="tanh",
            dtype=self.dtype_policy,
            name="dense",
        )

    def build(self, features_shape=None):
        self.token_embedding.build()
        self.dense.build((None, None, self.sizes["hidden_size"]))

    def call(self, features, training=None):
        return self.dense(self.token_embedding(features["token_ids"]))

    def get_config(self):
        return {**super().get_config(), "sizes": self.sizes}
