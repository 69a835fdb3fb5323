"""tf-models-official, imported quietly: an independent oracle."""

import warnings


def bert_encoder_class():
    """`official.nlp.modeling.networks.BertEncoder`; needs what conftest.py sets."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # its dependencies deprecate one another
        from official.nlp.modeling import networks
    return networks.BertEncoder


def decoder_block_class():
    """`official.nlp.modeling.layers.TransformerDecoderBlock`; as above."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from official.nlp.modeling import layers
    return layers.TransformerDecoderBlock


def lamb_class():
    """`official.modeling.optimization.lamb.LAMB`; needs what conftest.py sets."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from official.modeling.optimization import lamb
    return lamb.LAMB


def relative_attention_class():
    """`official.nlp.modeling.layers.MultiHeadRelativeAttention`; as above."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from official.nlp.modeling import layers
    return layers.MultiHeadRelativeAttention


def squad_library():
    """`official.nlp.data.squad_lib`, the SQuAD code of BERT's authors."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from official.nlp.data import squad_lib
    return squad_lib
