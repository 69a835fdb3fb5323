"""tf-models-official, imported quietly: an independent oracle.

It needs the settings of conftest.py.
"""

import importlib
import warnings


def module(name):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # its dependencies deprecate one another
        return importlib.import_module(f"official.{name}")


def nlp_layer(name):
    """A class of `official.nlp.modeling.layers`."""
    return getattr(module("nlp.modeling.layers"), name)


def bert_encoder_class():
    return module("nlp.modeling.networks").BertEncoder


def lamb_class():
    return module("modeling.optimization.lamb").LAMB


def squad_library():
    """The SQuAD code of BERT's authors."""
    return module("nlp.data.squad_lib")


class WordTokenizer:
    """A tokenizer for that code: every word is a piece."""

    def tokenize(self, text):
        return text.split()

    def convert_tokens_to_ids(self, tokens):
        return [0 for _ in tokens]
