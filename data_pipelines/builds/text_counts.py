"""Counts words and pieces to detect an unsuitable vocabulary or sentence splitter.

Every shard of documents has these counts:

* `words`: tokens that begin a word, without `<eos>`. The tokenizer splits words at
  whitespace and, except with `--tokenizer=whitespace`, around punctuation and
  ideographs.
* `unknown_words`: words that are encoded as one token, `[UNK]` or `<unk>`.
* `unsplit_pieces`: tokens in paragraphs of a single sentence with more than
  `LONG_SENTENCE` tokens, where the splitter found no sentence boundary.
"""

from collections.abc import Iterable

import numpy as np

from seg_tf.data.manifest import TEXT_COUNTS, Manifest
from seg_tf.text import encoding
from seg_tf.text.normalization import CONTINUATION
from seg_tf.text.tree import DocumentTree
from seg_tf.text.vocabulary import TokenTable

LONG_SENTENCE = 200
"""Number of tokens above which a one-sentence paragraph counts as unsplit."""
_MAX_UNSPLIT_SHARE = 0.2


class TextCounter:
    """Counts the words, unknown words and unsplit pieces of documents."""

    def __init__(self, vocabulary: TokenTable):
        self._unknown_id = vocabulary.special_ids["unk"]
        end = vocabulary.special_ids.get("eos")
        # Whole words may begin with any characters, even a continuation mark.
        self._begins_word = np.array(
            [
                not token.startswith(CONTINUATION) if end is None else number != end
                for number, token in enumerate(vocabulary.tokens)
            ]
        )

    def count(self, trees: Iterable[DocumentTree]) -> dict[str, int]:
        """Returns the counts of documents as a dict. The keys are fields of `Shard`."""
        trees = list(trees)
        if not trees:
            return dict.fromkeys(TEXT_COUNTS, 0)
        ids = np.concatenate([tree.token_ids for tree in trees])
        sentences = np.concatenate([tree.sentence_lengths for tree in trees])
        paragraphs = np.concatenate([tree.paragraph_lengths for tree in trees])
        first_sentences = sentences[np.cumsum(paragraphs) - paragraphs]
        is_unsplit = (paragraphs == 1) & (first_sentences > LONG_SENTENCE)
        return {
            "words": int(np.count_nonzero(self._begins_word[ids])),
            "unknown_words": int(np.count_nonzero(ids == self._unknown_id)),
            "unsplit_pieces": int(first_sentences[is_unsplit].sum()),
        }


def summary(manifest: Manifest) -> str | None:
    """Formats the counts as one line, or returns None for windows."""
    counts = manifest.text_counts()
    if not counts:
        return None
    unknown, unsplit = _shares(manifest)
    rate = ""
    if manifest.tokenizer == encoding.WORD_PIECES:
        pieces = manifest.count("pieces") / max(counts["words"], 1)
        rate = f"{pieces:.2f} pieces a word, "
    return (
        f"text: {counts['words']:,} words, {rate}"
        f"{counts['unknown_words']:,} ({unknown:.2%}) unknown; {unsplit:.2%} of "
        f"{manifest.tokens_name} in paragraphs of one sentence longer than "
        f"{LONG_SENTENCE}"
    )


def _shares(manifest: Manifest) -> tuple[float, float]:
    counts = manifest.text_counts()
    unknown = counts["unknown_words"] / max(counts["words"], 1)
    return unknown, counts["unsplit_pieces"] / max(manifest.count("pieces"), 1)


def warnings(manifest: Manifest) -> list[str]:
    """Returns warnings if the vocabulary or sentence splitter does not fit the text."""
    texts = []
    unknown, unsplit = _shares(manifest)
    has_pieces = manifest.tokenizer == encoding.WORD_PIECES
    # Whole-word vocabularies leave out rare words by design.
    if unknown > (0.01 if has_pieces else 0.1):
        texts.append(
            f"{unknown:.1%} of all words are unknown to the vocabulary, and nothing is "
            "learned from them. `seg-tf build-vocab"
            f"{'' if has_pieces else ' --tokenizer=words'}` builds one from the text"
        )
    if unsplit > _MAX_UNSPLIT_SHARE:
        texts.append(
            f"{unsplit:.1%} of all {manifest.tokens_name} are in paragraphs of one "
            f"sentence of more than {LONG_SENTENCE}: the splitter "
            f"{manifest.sentence_splitter['name']} found no sentence ends there. "
            "Use --sentence_parameters of the text's language "
            "(`seg-tf train-punkt` learns them from text). Punkt ends sentences "
            "only at . ? and !, so text with other marks stays whole"
        )
    return texts
