"""Tables of SLM (arXiv:2010.16249).

Rows of other works are left out. The paper's models of 1 and of 3 million updates are
the runs `slm_base` and `slm_base_3m`.
"""

import statistics
from collections.abc import Mapping

from seg_tf.paper_tables import glue_columns, settings_tables
from seg_tf.paper_tables.table import (
    Average,
    BestSetting,
    Figure,
    FineTuned,
    Row,
    Table,
    row,
)
from seg_tf.tasks import finetuning_settings

_RECIPE = "slm"
_1M, _3M = "slm_base", "slm_base_3m"
_DEV, _TEST = glue_columns.dev("accuracy"), glue_columns.test("accuracy")
_BOTH = glue_columns.prefixed("dev", _DEV) | glue_columns.prefixed("test", _TEST)
_SQUAD = {
    f"{version} {name}": figure
    for version in ("v1.1", "v2.0")
    for name, figure in glue_columns.squad(version).items()
}
_DOMAINS = ("arxiv", "rocstory", "wiki")


def _probed(*tasks: str) -> FineTuned:
    return FineTuned(tuple(f"discoeval/{task}" for task in tasks), "test_accuracy")


_DISCOEVAL: Mapping[str, Figure] = {
    "SP": _probed(*(f"sp/{domain}" for domain in _DOMAINS)),
    "BSO": _probed(*(f"bso/{domain}" for domain in _DOMAINS)),
    "DC": _probed("dc/chat", "dc/wiki"),
    "SSP": _probed("ssp"),
    "PDTB-E": _probed("pdtb/explicit"),
    "PDTB-I": _probed("pdtb/implicit"),
}


def _mean(scores: Mapping[str, float]) -> float:
    return statistics.fmean(scores.values())


_ABLATED = ("MNLI-m", "MNLI-mm", "QNLI", "SST-2", "QQP")
_ABLATION: Mapping[str, Figure] = {
    **_SQUAD,
    **{name: _DEV[name] for name in _ABLATED},
    # Of all nine numbers: so the paper's averages come out.
    "average": Average((*_SQUAD, *_ABLATED), _mean),
}
_TASK_SETTINGS: Mapping[str, Figure] = {
    "epochs": BestSetting("epochs"),
    "learning rate": BestSetting("learning_rate"),
}


def _best_settings(run: str) -> tuple[Row, ...]:
    rows = []
    for task, recipe in finetuning_settings.RECIPES[_RECIPE].items():
        if recipe.best:
            best = recipe.best
            values = (best.num_epochs, best.learning_rate)
            paper = dict(zip(_TASK_SETTINGS, values, strict=True))
            rows.append(Row(task, run, paper, (task,)))
    return tuple(rows)


TABLES = (
    Table(
        1,
        "GLUE",
        _BOTH,
        (
            row(
                "SLM base, 1M updates",
                _1M,
                tuple(_BOTH),
                *(62.1, 93.7, 90.0, 90.3, 91.6, 86.6, 86.4, 93.0, 81.2, 86.1),
                *(None,) * 10,
            ),
            row(
                "SLM base, 3M updates",
                _3M,
                tuple(_BOTH),
                *(62.4, 94.2, 90.4, 90.9, 91.7, 87.4, 87.5, 93.8, 83.0, 86.8),
                *(55.3, 95.1, 90.0, 88.3, 89.6, 87.3, 86.8, 93.9, 78.5, 85.0),
            ),
        ),
        _RECIPE,
        notes=("test: of the leaderboard, in leaderboard.json (docs/paper_tables.md)",),
    ),
    Table(
        2,
        "SQuAD, dev",
        _SQUAD,
        (
            row("SLM base, 1M updates", _1M, tuple(_SQUAD), 84.6, 91.5, 80.7, 83.7),
            row("SLM base, 3M updates", _3M, tuple(_SQUAD), 85.3, 92.2, 81.9, 84.9),
        ),
        _RECIPE,
    ),
    Table(
        3,
        "DiscoEval, test, the encoder frozen",
        _DISCOEVAL,
        (
            row(
                "SLM base, 1M updates",
                _1M,
                tuple(_DISCOEVAL),
                *(72.4, 84.1, 75.4, 81.5, 45.9, 46.3),
            ),
            row(
                "SLM base, 3M updates",
                _3M,
                tuple(_DISCOEVAL),
                *(73.4, 84.5, 76.1, 81.5, 46.4, 47.8),
            ),
        ),
        _RECIPE,
    ),
    Table(
        4,
        "original and shuffled sentences, masked LM alone",
        _SQUAD,
        (
            row(
                "original sentences",
                "slm_base_plain",
                tuple(_SQUAD),
                *(82.7, 89.8, 76.5, 79.4),
            ),
            row(
                "shuffled sentences",
                "slm_base_plain_shuffled",
                tuple(_SQUAD),
                *(83.2, 90.1, 77.4, 80.5),
            ),
        ),
        _RECIPE,
    ),
    Table(
        5,
        "ablation: batches shuffled, reconstructor, sentence representation",
        _ABLATION,
        tuple(
            row(name, run, tuple(_ABLATION), *values)
            for name, run, values in (
                (
                    "50 %, both",
                    _1M,
                    (84.6, 91.5, 80.7, 83.7, 86.6, 86.4, 93.0, 93.7, 91.6, 88.0),
                ),
                (
                    "100 %, both",
                    "slm_base_shuffle_all",
                    (84.2, 91.2, 80.3, 83.4, 86.1, 86.2, 92.9, 93.5, 91.4, 87.7),
                ),
                (
                    "100 %, no reconstructor",
                    "slm_base_shuffle_all_no_reconstructor",
                    (83.7, 90.7, 77.3, 80.4, 85.4, 85.6, 92.3, 93.0, 91.3, 86.6),
                ),
                (
                    "0 %, no reconstructor",
                    "slm_base_no_shuffle",
                    (82.8, 90.1, 76.8, 79.8, 85.3, 85.5, 92.2, 93.0, 91.1, 86.3),
                ),
                (
                    "0 %, neither",
                    "slm_base_plain",
                    (82.7, 89.8, 76.5, 79.4, 84.7, 84.6, 91.7, 92.8, 91.1, 85.9),
                ),
            )
        ),
        _RECIPE,
    ),
    Table(
        6,
        "nearest neighbours of sentences in context",
        {},
        (),
        notes=(
            "by python -m seg_tf.commands.find_sentences --checkpoint=… --corpus=… "
            "--index_dir=… --queries=examples/discourse_queries.txt",
        ),
    ),
    settings_tables.table(7, "settings of pretraining", "SLM base", _1M, "table 7"),
    Table(
        8,
        "best settings of fine-tuning",
        _TASK_SETTINGS,
        _best_settings(_1M),
        _RECIPE,
    ),
)
