"""Pretraining objectives."""

from seg_tf.objectives.causal_lm import CausalLM
from seg_tf.objectives.exchange_sentence import ExchangeSentence
from seg_tf.objectives.masked_lm import MaskedLM
from seg_tf.objectives.sentence_unshuffling import SentenceUnshuffling

__all__ = ["CausalLM", "ExchangeSentence", "MaskedLM", "SentenceUnshuffling"]
