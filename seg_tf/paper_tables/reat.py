"""Tables of ReAT."""

from seg_tf.paper_tables import settings_tables
from seg_tf.paper_tables.table import FineTuned, Table, Validated, row

_COLUMNS = {
    "MLM": Validated("masked_lm_accuracy"),
    "ESP": Validated("exchange_sentence_accuracy"),
    "QQP": FineTuned(("glue/qqp",), "accuracy"),
    "MRPC": FineTuned(("glue/mrpc",), "accuracy"),
}


def _of_settings(size: str) -> Table:
    title = f"settings of pretraining, {size}"
    return settings_tables.table(1, title, f"ReAT {size}", f"reat_{size}", "table 1")


TABLES = (
    _of_settings("base"),
    _of_settings("small"),
    Table(
        2,
        "accuracy",
        _COLUMNS,
        (
            row("ReAT base", "reat_base", tuple(_COLUMNS), 61.8, 79.7, 89.7, 73.0),
            row("ReAT small", "reat_small", tuple(_COLUMNS), 60.8, 79.3, 89.0, 75.0),
            row("BERT base", "bert_base", tuple(_COLUMNS), None, None, 90.8, 88.9),
        ),
        notes=(
            "of QQP and MRPC the paper says test; here it is dev",
            "BERT's are those of BERT's paper, where MRPC is F1",
        ),
    ),
)
