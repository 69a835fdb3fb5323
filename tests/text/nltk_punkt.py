"""NLTK's Punkt with parameters of ours: the oracle of the splitter's tests."""

import collections

from nltk.tokenize import punkt

from seg_tf.text.punkt_parameters import PunktParameters


def nltk_parameters(parameters: PunktParameters) -> punkt.PunktParameters:
    """The same tables as NLTK's class holds them."""
    theirs = punkt.PunktParameters()
    theirs.abbrev_types = set(parameters.abbreviation_types)
    theirs.collocations = set(parameters.collocations)
    theirs.sent_starters = set(parameters.sentence_starters)
    theirs.ortho_context = collections.defaultdict(int, parameters.orthographic_context)
    return theirs


def nltk_splitter(parameters: PunktParameters) -> punkt.PunktSentenceTokenizer:
    return punkt.PunktSentenceTokenizer(nltk_parameters(parameters))
