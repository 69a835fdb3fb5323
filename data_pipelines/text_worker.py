"""What a worker does with a slice of documents: trees, then shards."""

import pathlib
from collections.abc import Iterator

from data_pipelines import records, tree_shards
from data_pipelines.documents_job import DocumentOptions, Slice
from data_pipelines.manifest import SPLITS, shard_name
from seg_tf.text import encoding
from seg_tf.text.punkt import SentenceSplitter
from seg_tf.text.punkt_parameters import load_parameters
from seg_tf.text.tree import DocumentTree, TreeBuilder

# Documents are encoded in batches of about this many characters, so that memory
# stays small and the tokeniser's calls stay large.
_BATCH_CHARACTERS = 1 << 19


class SliceMaker:
    """Makes the train and the validation shard of a slice.

    Args:
        options: the build's options.
        output_dir: where the shards go.
    """

    def __init__(self, options: DocumentOptions, output_dir: pathlib.Path):
        tokenizer = options.tokenizer
        vocabulary = encoding.read_vocabulary(tokenizer, options.vocab_file)
        splitter = SentenceSplitter(load_parameters(options.sentence_parameters))
        encoder = encoding.text_encoder(tokenizer, vocabulary, options.lower_case)
        self._options = options
        self._output_dir = output_dir
        self._builder = TreeBuilder(
            encoding.sentence_splitter(tokenizer, splitter), encoder.encode
        )
        self._paragraph_end = vocabulary.special_ids.get("eos")
        self._no_token = (
            ("no_word_pieces", "word piece")
            if tokenizer == encoding.WORD_PIECES
            else ("no_words", "word")
        )
        self._widths = records.number_widths(vocabulary.size, None)

    def make(self, payload: Slice) -> dict:
        """Writes the shards of a slice.

        Returns:
            The task's report: the shards' manifest entries, the rejected documents
            and where reading goes on.
        """
        rejected = list(payload.rejected)
        reason, token = self._no_token
        items = {split: [] for split in SPLITS}
        places_and_trees = zip(payload.places, self._trees(payload), strict=True)
        for document_id, ((source, location), tree) in enumerate(
            places_and_trees, payload.first_document_id
        ):
            if len(tree.token_ids):
                split = self._options.split_of(document_id, source)
                items[split].append((tree, document_id, None))
            else:
                rejected.append(
                    {
                        "source": source,
                        "location": location,
                        "reason": reason,
                        "message": "expected text, found characters that make no "
                        f"{token} (control characters only)",
                    }
                )
        shards = {}
        for split in SPLITS:
            path = self._output_dir / shard_name(split, payload.number)
            shard = tree_shards.write_trees(path, items[split], self._widths)
            shards[split] = vars(shard)
        return {"shards": shards, "rejected": rejected, "next": vars(payload.next)}

    def _trees(self, payload: Slice) -> Iterator[DocumentTree]:
        batch, characters = [], 0
        for paragraphs in payload.paragraphs:
            batch.append(paragraphs)
            characters += sum(map(len, paragraphs))
            if characters >= _BATCH_CHARACTERS:
                yield from self._build(batch)
                batch, characters = [], 0
        yield from self._build(batch)

    def _build(self, batch: list[tuple[str, ...]]) -> list[DocumentTree]:
        trees = self._builder.build(batch)
        if self._paragraph_end is None:
            return trees
        return [tree.with_paragraph_ends(self._paragraph_end) for tree in trees]
