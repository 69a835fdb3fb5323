"""keras-hub's word pieces, as the tokenizer that belongs to our encoders."""

import keras
import keras_hub

from seg_tf.models.encoder import Encoder


@keras.saving.register_keras_serializable(package="seg_tf")
class EncoderTokenizer(keras_hub.tokenizers.BertTokenizer):
    """`keras_hub.tokenizers.BertTokenizer` for presets of our `Encoder`.

    keras-hub looks tokenizers up by the class of the preset's backbone. With this
    module imported, `keras_hub.tokenizers.BertTokenizer.from_preset` finds it.
    """

    backbone_cls = Encoder
