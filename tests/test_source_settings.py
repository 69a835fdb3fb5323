"""Model settings that follow the source of the weights."""

import dataclasses

import pytest

from seg_tf import papers
from seg_tf.config import describe_taken, follow_source
from seg_tf.configs import bert, bert_ps, reat, segabert, slm

# What BERT's authors, and those of SegaBERT, trained with.
GOOGLE = {
    "layer_norm_epsilon": 1e-12,
    "approximate_gelu": True,
    "num_token_types": 2,
    "index_tables": {"position_index": 512},
}
SEGABERT = {
    "layer_norm_epsilon": 1e-5,
    "approximate_gelu": False,
    "num_token_types": 2,
    "index_tables": {
        "position_index": 512,
        "paragraph_index": 50,
        "sentence_index": 100,
        "token_index": 512,
    },
}


def test_segabert_base_becomes_what_its_authors_released():
    base = segabert.RUNS["base"]
    config, taken = follow_source(base, SEGABERT, ())
    assert taken == {
        "model.layer_norm_epsilon": (1e-12, 1e-5),
        "model.num_token_types": (0, 2),
        "model.index_tables.token_index": (256, 512),
    }
    assert config.model == dataclasses.replace(
        base.model,
        layer_norm_epsilon=1e-5,
        num_token_types=2,
        index_tables={
            "paragraph_index": 50,
            "sentence_index": 100,
            "token_index": 512,
        },
    )
    assert dataclasses.replace(config, model=base.model) == base
    # The sheet says of all three that the authors' code has them.
    assert len(papers.deviations(config)) == 3
    assert all(one.released for one in papers.deviations(config))


@pytest.mark.parametrize(
    "run, others",
    [
        (segabert.RUNS["base"], {"model.num_token_types": (0, 2)}),
        (bert.RUNS["base"], {"model.num_token_types": (0, 2)}),
        (bert_ps.RUNS["base"], {"model.num_token_types": (0, 2)}),
        (slm.RUNS["base"], {}),
    ],
    ids=["segabert", "bert", "bert_ps", "slm"],
)
def test_base_configs_compute_as_google_s_bert(run, others):
    config, taken = follow_source(run, GOOGLE, ())
    assert taken == {"model.approximate_gelu": (False, True), **others}
    assert config.model.approximate_gelu
    assert config.model.num_token_types == 2
    assert config.model.index_tables == dict(run.model.index_tables)


def test_what_was_asked_for_stays():
    run = segabert.RUNS["base"]
    asked = {"model.layer_norm_epsilon", "model.index_tables"}
    config, taken = follow_source(run, SEGABERT, asked)
    assert taken == {"model.num_token_types": (0, 2)}
    assert config.model.layer_norm_epsilon == 1e-12
    assert config.model.index_tables == run.model.index_tables
    _, taken = follow_source(run, SEGABERT, {"model.index_tables.token_index"})
    assert "model.index_tables.token_index" not in taken
    assert describe_taken(taken) == (
        "model.layer_norm_epsilon=1e-05 (the config says 1e-12); "
        "model.num_token_types=2 (the config says 0)"
    )


def test_models_that_are_no_encoder_stay():
    run = reat.RUNS["tiny"]
    assert follow_source(run, GOOGLE, ()) == (run, {})
