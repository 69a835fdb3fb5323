"""Columns of SLM: the model, other rows of tables 4 and 5, and SegaBERT with SLM.

The paper is the only source; its authors released no code. Where a source begins with
"unsaid", the paper leaves the setting open, and what follows is taken instead.
"""

from collections.abc import Mapping

from seg_tf.fidelity.paper_values import (
    BERT,
    BERT_CODE,
    BERT_CONFIG,
    PaperValue,
    attention_dropout,
    whole_run,
)

_SLM = "SLM (arXiv:2010.16249)"
_SETUP = f"{_SLM}, section 3.2"
_SECTION_5 = f"{_SLM}, section 5.1"
_TABLE_5 = f"{_SLM}, table 5"
_TABLE_7 = f"{_SLM}, table 7"
# "Any other configuration not mentioned here is the same as the original BERT."
_AS_BERT = f"{_SETUP}: as {BERT}"
_AS_BERT_CODE = f"unsaid; {BERT_CODE}"

_SHARED = (
    PaperValue("model.num_layers", 12, _TABLE_7),
    PaperValue("model.hidden_size", 768, _TABLE_7),
    PaperValue("model.num_heads", 12, _TABLE_7),
    PaperValue("model.intermediate_size", 3072, _AS_BERT),
    PaperValue("model.dropout", 0.1, _TABLE_7),
    PaperValue("model.attention_dropout", attention_dropout, _TABLE_7),
    PaperValue("model.layer_norm_epsilon", 1e-12, _AS_BERT_CODE),
    PaperValue("model.initializer_range", 0.02, f"unsaid; {BERT_CONFIG}"),
    PaperValue("inputs.row_length", 512, _TABLE_7),
    PaperValue("inputs.masking", "SpanMaskingConfig", _SETUP),
    PaperValue("inputs.masking.max_span_length", 3, _SETUP),
    PaperValue("inputs.masking.span_end_rate", 0.2, _SETUP),
    PaperValue("inputs.masking.mask_rate", 0.15, f"{_AS_BERT}, section 3.1"),
    PaperValue("inputs.masking.max_predictions", 80, _AS_BERT_CODE),
    PaperValue("inputs.masking.mask_token_rate", 0.8, f"{_AS_BERT}, section 3.1"),
    PaperValue("inputs.masking.random_token_rate", 0.1, f"{_AS_BERT}, section 3.1"),
    PaperValue("objectives.masked_lm.loss_weight", 1.0, f"{_SLM}, equation 4"),
    PaperValue("optimizer", "AdamWConfig", f"{_SETUP}: Adam; {BERT}: with decay"),
    PaperValue("optimizer.learning_rate", 1.5e-4, _TABLE_7),
    PaperValue("optimizer.warmup_updates", 10_000, _TABLE_7),
    PaperValue("optimizer.decay_power", 1.0, f"{_SETUP}: linear decay"),
    PaperValue("optimizer.decay_updates", whole_run, _AS_BERT_CODE),
    PaperValue("optimizer.end_learning_rate", 0.0, _AS_BERT_CODE),
    PaperValue("optimizer.beta_1", 0.9, f"{_AS_BERT}, appendix A.2"),
    PaperValue("optimizer.beta_2", 0.999, f"{_AS_BERT}, appendix A.2"),
    PaperValue("optimizer.epsilon", 1e-6, _TABLE_7),
    PaperValue("optimizer.weight_decay", 0.01, f"{_AS_BERT}, appendix A.2"),
    PaperValue("training.clip_norm", 1.0, _AS_BERT_CODE),
    PaperValue("training.batch_size", 256, _TABLE_7),
    PaperValue("training.num_updates", 1_000_000, f"{_TABLE_7}: 1M, and 3M"),
    PaperValue("training.dtype_policy", "mixed_float16", _TABLE_7),
)

_TOKEN_TYPES = PaperValue(
    "model.num_token_types", 2, f"{_SLM}, section 2.2: the same for all but QA"
)
_BERT_TABLES = (
    PaperValue("model.index_tables", {"position_index": 512}, _AS_BERT),
    _TOKEN_TYPES,
)
_TABLES = (
    PaperValue(
        "model.index_tables",
        {"position_index": 512, "sentence_id": 22},
        f"{_SLM}, section 2.1; rows of [CLS] and [SEP] unsaid",
    ),
    _TOKEN_TYPES,
)
_SEGABERT_TABLES = (
    PaperValue(
        "model.index_tables",
        {
            "paragraph_index": 50,
            "sentence_index": 100,
            "token_index": 256,
            "sentence_id": 22,
        },
        f"in no paper; SegaBERT, section 2, and {_SLM}, section 2.1",
    ),
    PaperValue("model.num_token_types", 0, "SegaBERT, section 2, input sum"),
)


def _sentences(
    shuffle_rate: float, source: str, inputs: str = "SentenceInputsConfig"
) -> tuple[PaperValue, ...]:
    return (
        PaperValue("inputs", inputs, f"{_SLM}, section 2.1"),
        PaperValue("inputs.max_sentences", 20, _SETUP),
        PaperValue("inputs.shuffle_rate", shuffle_rate, source),
    )


_HALF_SHUFFLED = _sentences(0.5, f"{_SLM}, section 2.1: half of the batches")
_ALL_SHUFFLED = _sentences(1.0, _TABLE_5)
_NONE_SHUFFLED = _sentences(0.0, _TABLE_5)
_PLAIN_SHUFFLED = _sentences(1.0, _SECTION_5, "ShuffledWindowInputsConfig")
_NO_SENTENCES = (PaperValue("inputs", "WindowInputsConfig", _TABLE_5),)

_RECONSTRUCTOR = (
    PaperValue(
        "objectives", ("masked_lm", "sentence_unshuffling"), f"{_SLM}, equation 4"
    ),
    PaperValue("objectives.sentence_unshuffling.num_layers", 3, _TABLE_7),
    PaperValue(
        "objectives.sentence_unshuffling.scale_pointers", False, f"{_SLM}, equation 2"
    ),
    PaperValue(
        "objectives.sentence_unshuffling.normalize_first",
        False,
        f"unsaid; {_SLM}, section 2.1: transformer decoder",
    ),
    PaperValue(
        "objectives.sentence_unshuffling.loss_weight", 1.0, f"{_SLM}, equation 4"
    ),
)
_NO_RECONSTRUCTOR = (PaperValue("objectives", ("masked_lm",), _TABLE_5),)

COLUMNS: Mapping[str, tuple[PaperValue, ...]] = {
    name: (*tables, *inputs, *objectives, *_SHARED)
    for name, tables, inputs, objectives in (
        ("slm_base", _TABLES, _HALF_SHUFFLED, _RECONSTRUCTOR),
        ("slm_base_shuffle_all", _TABLES, _ALL_SHUFFLED, _RECONSTRUCTOR),
        (
            "slm_base_shuffle_all_no_reconstructor",
            _TABLES,
            _ALL_SHUFFLED,
            _NO_RECONSTRUCTOR,
        ),
        ("slm_base_no_shuffle", _TABLES, _NONE_SHUFFLED, _NO_RECONSTRUCTOR),
        ("slm_base_plain", _BERT_TABLES, _NO_SENTENCES, _NO_RECONSTRUCTOR),
        ("slm_base_plain_shuffled", _BERT_TABLES, _PLAIN_SHUFFLED, _NO_RECONSTRUCTOR),
        ("segabert_slm_base", _SEGABERT_TABLES, _HALF_SHUFFLED, _RECONSTRUCTOR),
    )
}

# What a config does not hold, so that nothing here can compare it.
NOT_COMPARED = (
    "the corpus (English Wikipedia and BookCorpus, without sentences of few words) and "
    "its vocabulary; which of its pieces is [SENT] is unsaid",
    "the sentence splitter (NLTK)",
    "how room is made for the [SENT] tokens (unsaid; here rows are so much longer than "
    "the records' windows)",
    "what is shuffled (half of the batches; here each row by a draw of its own)",
    "what spans are of ('word tokens'; here word pieces, so that a span may begin and "
    "end inside a word, where SpanBERT's are of whole words)",
    "lengths over three (unsaid; here drawn among 1, 2 and 3, as 0.41, 0.33 and 0.26)",
    "whether spans of a sentence may touch (unsaid; here only where every piece left "
    "touches one)",
    "whether spans may cross the ends of sentences (unsaid; here they do not)",
    "short windows (unsaid; BERT's 1 in 10 has a random length)",
    "the reconstructor beyond its layers (its sizes are unsaid; here the encoder's)",
    "the initial weights",
)
