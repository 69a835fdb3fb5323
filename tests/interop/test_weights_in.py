"""Foreign models give the same outputs once they are ours."""

import json
import math
import re

import keras_hub
import numpy as np
import pytest
import tensorflow as tf
import tokenizers

from seg_tf.checkpoints.pretrained import load_pretrained
from seg_tf.inference.masked_lm import MaskFiller, SentenceScorer
from seg_tf.interop import convert
from seg_tf.interop.hugging_face import write as write_hugging_face
from seg_tf.interop.keras_hub import write_preset
from seg_tf.preprocessing import TextPreprocessor
from seg_tf.text.normalization import CASED, UNCASED, Normalization
from tests import numpy_reference, official_models
from tests.interop import foreign_files
from tests.interop.foreign_files import (
    HEADS,
    INNER,
    LAYERS,
    NUM_WORDS,
    POSITIONS,
    WIDTH,
)

pytestmark = pytest.mark.slow


def imported(path, output, **arguments):
    """A foreign checkpoint as `load_pretrained` returns it, and the report."""
    report = convert.convert(convert.open_model(path), output, **arguments)
    return load_pretrained(output), report


def encode(pretrained, token_ids, types, mask):
    features = foreign_files.position_features(token_ids, mask)
    return np.asarray(pretrained.encoder({**features, "token_type": types}))


def test_hugging_face_gives_the_outputs_of_transformers(tmp_path):
    pretrained, report = imported(foreign_files.HUGGING_FACE_DIR, tmp_path / "model")
    with np.load(foreign_files.HUGGING_FACE_DIR / "outputs.npz") as archive:
        outputs = dict(archive)
    mask = outputs["mask"].astype(bool)
    found = encode(pretrained, outputs["token_ids"], outputs["token_types"], mask)
    np.testing.assert_allclose(found[mask], outputs["sequence"][mask], atol=1e-5)
    positions = np.zeros_like(mask) + np.arange(mask.shape[1])
    logits = pretrained.objectives["masked_lm"].logits(found, positions)
    np.testing.assert_allclose(
        np.asarray(logits)[mask], outputs["logits"][mask], atol=1e-5
    )
    assert pretrained.normalization == UNCASED
    assert report.unmatched == (
        "cls.seq_relationship.bias",
        "cls.seq_relationship.weight",
    )
    assert not report.new
    assert report.equal_for == "every window"
    assert not report.settings


def test_early_names_half_precision_and_a_bare_encoder(tmp_path):
    tensors = {
        name.replace("LayerNorm.weight", "LayerNorm.gamma")
        .replace("LayerNorm.bias", "LayerNorm.beta")
        .removeprefix("bert."): one.astype("float16")
        for name, one in foreign_files.hugging_face_tensors().items()
        if name.startswith("bert.")
    }
    folder = foreign_files.write_hugging_face(tmp_path / "theirs", tensors)
    pretrained, report = imported(folder, tmp_path / "ours")
    expected, _ = imported(foreign_files.HUGGING_FACE_DIR, tmp_path / "expected")
    halves = [one.astype("float16") for one in expected.encoder.get_weights()]
    np.testing.assert_equal(pretrained.encoder.get_weights(), halves)
    # A bare encoder has no head.
    assert len(report.new) == 5
    assert all("/head/" in path for path in report.new)
    for kind in (MaskFiller, SentenceScorer):
        with pytest.raises(ValueError, match="must have a trained masked-LM head"):
            kind.from_preset(tmp_path / "ours")
    MaskFiller.from_preset(tmp_path / "expected")


def test_google_s_checkpoint_equals_its_conversion_by_tf_models_official(tmp_path):
    from official.nlp.tools import tf1_bert_checkpoint_converter_lib as converter

    folder = foreign_files.write_google(tmp_path / "google")
    converter.convert(
        str(folder / "bert_model.ckpt"),
        str(tmp_path / "converted"),
        HEADS,
        converter.BERT_V2_NAME_REPLACEMENTS,
        converter.BERT_V2_PERMUTATIONS,
    )
    reader = tf.train.load_checkpoint(str(tmp_path / "converted"))
    peer = official_models.bert_encoder_class()(
        vocab_size=NUM_WORDS,
        hidden_size=WIDTH,
        num_layers=LAYERS,
        num_attention_heads=HEADS,
        inner_dim=INNER,
        max_sequence_length=POSITIONS,
        type_vocab_size=2,
        dict_outputs=True,
    )
    for variable in peer.variables:
        variable.assign(reader.get_tensor(variable.name.removesuffix(":0")))
    pretrained, report = imported(folder, tmp_path / "model")
    rows = foreign_files.random_rows()
    names = ("input_word_ids", "input_type_ids", "input_mask")
    given = {n: row.astype("int32") for n, row in zip(names, rows, strict=True)}
    expected = peer(given)["sequence_output"]
    np.testing.assert_allclose(encode(pretrained, *rows), expected, atol=1e-5)
    head = numpy_reference.named_weights(pretrained.objectives["masked_lm"].head)
    for ours, theirs in {
        "intermediate_dense/kernel": "transform/dense/kernel",
        "intermediate_layer_norm/gamma": "transform/LayerNorm/gamma",
        "output_bias": "output_bias/bias",
    }.items():
        name = f"bert/cls/predictions/{theirs}"
        np.testing.assert_array_equal(head[ours], reader.get_tensor(name))
    assert len(report.unmatched) == 2


def bert_backbone(num_layers=LAYERS):
    backbone = keras_hub.models.BertBackbone(
        vocabulary_size=NUM_WORDS,
        num_layers=num_layers,
        num_heads=HEADS,
        hidden_dim=WIDTH,
        intermediate_dim=INNER,
        max_sequence_length=POSITIONS,
    )
    shapes = {variable.path: variable.shape for variable in backbone.weights}
    for path, value in foreign_files.random_like(shapes).items():
        next(one for one in backbone.weights if one.path == path).assign(value)
    return backbone


def backbone_outputs(backbone, token_ids, types, mask):
    return backbone(
        {
            "token_ids": token_ids,
            "segment_ids": types,
            "padding_mask": mask.astype("int32"),
        }
    )


def authors_outputs(tensors, features, epsilon=1e-5):
    """SegaBERT's released code once more: its forward pass, in NumPy."""

    def dense(name, inputs):
        return inputs @ tensors[f"{name}.weight"].T + tensors[f"{name}.bias"]

    def norm(name, inputs):
        names = {"gamma": f"{name}.weight", "beta": f"{name}.bias"}
        weights = {ours: tensors[theirs] for ours, theirs in names.items()}
        return numpy_reference.layer_norm(weights, inputs, epsilon)

    at = "bert.embeddings"
    hidden = (
        tensors[f"{at}.word_embeddings.weight"][features["token_ids"]]
        + tensors[f"{at}.token_position_embeddings.weight"][features["token_index"]]
        + tensors[f"{at}.para_position_embeddings.weight"][features["paragraph_index"]]
        + tensors[f"{at}.sent_position_embeddings.weight"][features["sentence_index"]]
        + tensors[f"{at}.token_type_embeddings.weight"][0]
    )
    hidden = norm(f"{at}.LayerNorm", hidden.astype("float64"))
    masked = np.where(features["padding_mask"], 0.0, -1e9)[:, None, None, :]
    for layer in range(LAYERS):
        name = f"bert.encoder.layer.{layer}"
        mixed = dense(f"{name}.attention.self.query_key_value", hidden)
        by_heads = (
            part.reshape(*part.shape[:2], HEADS, -1).transpose(0, 2, 1, 3)
            for part in np.split(mixed, 3, axis=-1)
        )
        query, key, value = by_heads
        scores = query @ key.swapaxes(-1, -2) / math.sqrt(query.shape[-1]) + masked
        context = numpy_reference.softmax(scores) @ value
        context = context.transpose(0, 2, 1, 3).reshape(hidden.shape)
        attended = dense(f"{name}.attention.output.dense", context)
        hidden = norm(f"{name}.attention.output.LayerNorm", attended + hidden)
        inner = numpy_reference.gelu(dense(f"{name}.intermediate.dense", hidden), False)
        output = dense(f"{name}.output.dense", inner)
        hidden = norm(f"{name}.output.LayerNorm", output + hidden)
    return hidden


def test_segabert_as_its_authors_released_it(tmp_path):
    tensors = foreign_files.segabert_tensors()
    folder = foreign_files.write_hugging_face(
        tmp_path / "theirs", tensors, layer_norm_eps=1e-12
    )
    pretrained, report = imported(folder, tmp_path / "ours")
    generator = np.random.default_rng(2)
    token_ids, _, mask = foreign_files.random_rows()
    features = {
        "token_ids": token_ids,
        "padding_mask": mask,
        "token_type": np.zeros_like(token_ids),
    } | {
        name: generator.integers(0, rows, token_ids.shape).astype("int32")
        for name, rows in pretrained.config.model.index_tables.items()
    }
    assert pretrained.config.model.index_tables == {
        "paragraph_index": 4,
        "sentence_index": 5,
        "token_index": 7,
    }
    found = np.asarray(pretrained.encoder(features))[mask]
    np.testing.assert_allclose(
        found, authors_outputs(tensors, features)[mask], atol=1e-5
    )
    # The epsilon of pretraining, which the authors' config.json does not say.
    assert pretrained.config.model.layer_norm_epsilon == 1e-5
    assert np.abs(found - authors_outputs(tensors, features, 1e-2)[mask]).max() > 1e-3
    assert pretrained.encoder.vocab_size == NUM_WORDS
    assert report.format == "segabert"
    # The output table of masked LM is the token table.
    assert not any("decoder" in name for name in report.unmatched)
    assert report.unmatched == (
        "cls.seq_relationship.bias",
        "cls.seq_relationship.weight",
    )
    assert report.equal_for == "every window"
    notes = "\n".join(report.notes)
    assert "bert.embeddings.position_embeddings.weight is left out" in notes
    assert "2 rows of padding are dropped" in notes
    assert "layer_norm_eps=1e-12" in notes


def test_a_folder_that_does_not_name_its_casing_follows_its_vocabulary(tmp_path):
    # BERT's authors name it nowhere; these rows hold accents, which uncased ones lose.
    folder = foreign_files.write_google(tmp_path / "google")
    path = folder / "vocab.txt"
    before, _ = imported(folder, tmp_path / "before")
    path.write_text(path.read_text().replace("\nw1", "\n\u00e91"))
    after, _ = imported(folder, tmp_path / "after")
    assert before.normalization == UNCASED
    assert after.normalization == Normalization(True, strip_accents=False)


# Rows that tell all settings apart.
TELLING = [*"eéEÉσςΣ中文aA", "中文", "##文", "##e", "##\u0301"]
TELLING_ROWS = foreign_files.WORDS[:6] + TELLING
TELLING_ROWS += foreign_files.WORDS[len(TELLING_ROWS) :]
TEXTS = ["Éa é E", "ÉÉ Σ", "中文 a中文", "e\u0301 σ"]


def tokenizer_of(pieces, added=(), **normalizer):
    """Hugging Face's tokenizer, which writes a `tokenizer.json`."""
    tokenizer = tokenizers.Tokenizer(
        tokenizers.models.WordPiece(pieces, unk_token="[UNK]")
    )
    tokenizer.normalizer = tokenizers.normalizers.BertNormalizer(**normalizer)
    tokenizer.pre_tokenizer = tokenizers.pre_tokenizers.BertPreTokenizer()
    tokenizer.add_tokens(list(added))
    return tokenizer


def test_the_tokenizer_s_settings_come_with_the_weights(tmp_path):
    # Each other than it is by default.
    settings = {"lowercase": False, "strip_accents": True}
    settings["handle_chinese_chars"] = False
    names = ("do_lower_case", "strip_accents", "tokenize_chinese_chars")
    config = dict(zip(names, settings.values(), strict=True))
    folder = foreign_files.write_hugging_face(tmp_path / "theirs")
    (folder / "tokenizer_config.json").write_text(json.dumps(config))
    vocabulary = "".join(f"{row}\n" for row in TELLING_ROWS)
    (folder / "vocab.txt").write_text(vocabulary, "utf-8")
    pretrained, report = imported(folder, tmp_path / "ours")
    assert report.equal_for == "every window"
    numbers = {row: number for number, row in enumerate(TELLING_ROWS)}
    tokenizer = tokenizer_of(numbers, **settings)
    expected = [tokenizer.encode(text).ids for text in TEXTS]
    ids, lengths = pretrained.text_encoder().encode(TEXTS)
    assert [row.tolist() for row in np.split(ids, np.cumsum(lengths)[:-1])] == expected
    # In the graph, as models are served.
    row_ids = TextPreprocessor(pretrained)(tf.constant(TEXTS))["token_ids"].numpy()
    for found, row in zip(row_ids, expected, strict=True):
        assert found[1 : 1 + len(row)].tolist() == row
        assert found[1 + len(row)] == foreign_files.SEP_ID
    # What is written for Hugging Face is read back, and so is a checkpoint of ours.
    write_hugging_face(pretrained, tmp_path / "back")
    again, _ = imported(tmp_path / "back", tmp_path / "again")
    assert again.normalization == pretrained.normalization
    of_checkpoint = convert.open_checkpoint(tmp_path / "again").normalization
    assert Normalization(**of_checkpoint) == pretrained.normalization


def test_keras_hub_gives_the_same_outputs_and_pieces(tmp_path):
    names, settings = ("lowercase", "strip_accents"), (False, True)
    config = dict(zip(names, settings, strict=True))
    tokenizer = keras_hub.tokenizers.BertTokenizer(vocabulary=TELLING_ROWS, **config)
    backbone = bert_backbone()
    backbone.save_to_preset(str(tmp_path / "theirs"))
    tokenizer.save_to_preset(str(tmp_path / "theirs"))
    pretrained, report = imported(tmp_path / "theirs", tmp_path / "ours")
    assert pretrained.normalization == Normalization(*settings)
    assert report.unmatched == ()
    rows = foreign_files.random_rows()
    expected = backbone_outputs(backbone, *rows)["sequence_output"]
    np.testing.assert_allclose(encode(pretrained, *rows), expected, atol=1e-5)
    # It folds case, which composes accents and makes one sigma of two.
    texts = [text for text in TEXTS if "Σ" not in text and "\u0301" not in text]
    ids, lengths = pretrained.text_encoder().encode(texts)
    expected = [np.asarray(tokenizer(text)).tolist() for text in texts]
    assert [row.tolist() for row in np.split(ids, np.cumsum(lengths)[:-1])] == expected
    write_preset(pretrained, tmp_path / "back")
    back = keras_hub.tokenizers.BertTokenizer.from_preset(str(tmp_path / "back"))
    assert {name: getattr(back, name) for name in names} == config


@pytest.mark.parametrize(
    ("config", "given", "expected"),
    [
        ({}, {}, Normalization(True, strip_accents=False)),
        ({}, {"strip_accents": True}, UNCASED),
        ({}, {"lower_case": False}, CASED),
        # As transformers: the class of a BERT has the last word, others have none.
        ({"do_lower_case": False}, {}, CASED),
        (
            {"do_lower_case": False, "tokenizer_class": "PreTrainedTokenizerFast"},
            {},
            Normalization(True, strip_accents=False),
        ),
    ],
)
def test_whose_settings_of_the_text_count(tmp_path, config, given, expected):
    folder = foreign_files.write_hugging_face(tmp_path / "theirs")
    pieces = {word: number for number, word in enumerate(foreign_files.WORDS)}
    tokenizer_of(pieces, strip_accents=False).save(str(folder / "tokenizer.json"))
    (folder / "tokenizer_config.json").write_text(json.dumps(config))
    pretrained, _ = imported(folder, tmp_path / "ours", **given)
    assert pretrained.normalization == expected


def test_files_of_transformers_5(tmp_path):
    """tokenizer.json only, no `model_type`, tied tensors under one name, padding."""
    tensors = foreign_files.hugging_face_tensors()
    words = tensors.pop("bert.embeddings.word_embeddings.weight")
    tensors["cls.predictions.decoder.weight"] = words
    tensors["cls.predictions.decoder.bias"] = tensors.pop("cls.predictions.bias")
    folder = foreign_files.write_hugging_face(tmp_path / "theirs", tensors)
    config = json.loads((folder / "config.json").read_text())
    del config["model_type"]
    (folder / "config.json").write_text(json.dumps(config))
    (folder / "vocab.txt").unlink()
    pieces = {word: number for number, word in enumerate(foreign_files.WORDS[:20])}
    tokenizer_of(pieces, ["w99", "[ENT]"]).save(str(folder / "tokenizer.json"))
    options = {"added_tokens_decoder": {"23": {"content": "[w98]", "special": True}}}
    (folder / "tokenizer_config.json").write_text(json.dumps(options))
    pretrained, report = imported(folder, tmp_path / "ours")
    tokens = pretrained.vocabulary.tokens
    assert tokens[:20] == tuple(foreign_files.WORDS[:20])
    # Ids without a token keep their rows; padding after the last id is dropped.
    assert tokens[20:] == ("w99", "[ENT]", "[row22]", "[w98]")
    table = pretrained.encoder.token_embedding.embeddings
    np.testing.assert_array_equal(table, words[:24])
    text = report.to_text()
    assert "1 rows of the tokenizer of" in text
    assert "6 rows of padding are dropped" in text
    assert "added tokens of text, such as w99: Hugging Face" in text
    assert re.search(r"such as \[ENT\]: .*our tokenizer never, because", text)
    assert report.missing == ()


def test_added_tokens_of_early_tokenizers(tmp_path):
    folder = foreign_files.write_hugging_face(tmp_path / "theirs")
    foreign_files.write_vocabulary(folder, 20)
    (folder / "added_tokens.json").write_text(json.dumps({"@USER": 21, "w20": 20}))
    pretrained, report = imported(folder, tmp_path / "ours")
    assert pretrained.vocabulary.tokens[20:] == ("w20", "@USER")
    assert "added tokens of text, such as @USER" in report.to_text()


def test_blank_and_repeated_lines_of_a_vocabulary(tmp_path):
    folder = foreign_files.write_hugging_face(tmp_path / "theirs")
    lines = list(foreign_files.WORDS)
    lines[10], lines[12] = "", lines[14]
    (folder / "vocab.txt").write_text("".join(f"{line}\n" for line in lines))
    pretrained, report = imported(folder, tmp_path / "ours")
    assert pretrained.vocabulary.tokens[10:15:2] == ("[row10]", "[row12]", lines[14])
    assert "2 rows of" in report.to_text()
    assert "the first in line 11. No text produces them" in report.to_text()
    (ids,), _ = pretrained.text_encoder().encode([lines[14]])
    # The last of equal rows, as in other programs' tables.
    assert ids == 14
