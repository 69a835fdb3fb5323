"""Foreign checkpoints of random weights, written without the code that reads them."""

import json
import pathlib

import numpy as np
import safetensors.numpy
import tensorflow as tf

HUGGING_FACE_DIR = pathlib.Path(__file__).with_name("hugging_face_bert")
NUM_WORDS = 30
WORDS = (HUGGING_FACE_DIR / "vocab.txt").read_text().split()
CLS_ID, SEP_ID, MASK_ID = 3, 4, 5
LAYERS, WIDTH, HEADS, INNER, POSITIONS = 2, 8, 2, 16, 12


def random_like(shapes, seed=11, scale=0.3):
    """Values by name; scales of LayerNorm about 1."""
    generator = np.random.default_rng(seed)
    return {
        name: np.float32(
            name.endswith(("gamma", "LayerNorm.weight"))
            + scale * generator.normal(size=shape)
        )
        for name, shape in shapes.items()
    }


def random_rows(length=9, lengths=(9, 6, 2), seed=12):
    """Token ids, token types and mask of three rows."""
    generator = np.random.default_rng(seed)
    token_ids = generator.integers(0, NUM_WORDS, (len(lengths), length))
    mask = np.arange(length) < np.array(lengths)[:, None]
    types = generator.integers(0, 2, (len(lengths), length))
    return token_ids.astype("int32"), types.astype("int32"), mask


def position_features(token_ids, mask):
    positions = np.zeros_like(token_ids) + np.arange(token_ids.shape[1], dtype="int32")
    return {"token_ids": token_ids, "padding_mask": mask, "position_index": positions}


def google_shapes():
    """Names of a TF 1 checkpoint of BERT's authors, optimizer and all."""
    shapes = {
        "bert/embeddings/word_embeddings": (NUM_WORDS, WIDTH),
        "bert/embeddings/position_embeddings": (POSITIONS, WIDTH),
        "bert/embeddings/token_type_embeddings": (2, WIDTH),
        "bert/embeddings/LayerNorm/gamma": (WIDTH,),
        "bert/embeddings/LayerNorm/beta": (WIDTH,),
        "bert/pooler/dense/kernel": (WIDTH, WIDTH),
        "bert/pooler/dense/bias": (WIDTH,),
        "cls/predictions/transform/dense/kernel": (WIDTH, WIDTH),
        "cls/predictions/transform/dense/bias": (WIDTH,),
        "cls/predictions/transform/LayerNorm/gamma": (WIDTH,),
        "cls/predictions/transform/LayerNorm/beta": (WIDTH,),
        "cls/predictions/output_bias": (NUM_WORDS,),
        "cls/seq_relationship/output_weights": (2, WIDTH),
        "cls/seq_relationship/output_bias": (2,),
    }
    for layer in range(LAYERS):
        for dense, inputs, outputs in (
            ("attention/self/query", WIDTH, WIDTH),
            ("attention/self/key", WIDTH, WIDTH),
            ("attention/self/value", WIDTH, WIDTH),
            ("attention/output/dense", WIDTH, WIDTH),
            ("intermediate/dense", WIDTH, INNER),
            ("output/dense", INNER, WIDTH),
        ):
            name = f"bert/encoder/layer_{layer}/{dense}"
            shapes[f"{name}/kernel"] = (inputs, outputs)
            shapes[f"{name}/bias"] = (outputs,)
        for norm in ("attention/output/LayerNorm", "output/LayerNorm"):
            name = f"bert/encoder/layer_{layer}/{norm}"
            shapes[f"{name}/gamma"] = shapes[f"{name}/beta"] = (WIDTH,)
    return shapes


def write_google(folder, changes=None, **config):
    """A folder as BERT's authors published theirs.

    Args:
        folder: new folder.
        changes: tensors instead of the random ones; None for one takes it away.
        **config: entries of bert_config.json instead of the fitting ones.
    """
    tensors = random_like(google_shapes()) | (changes or {})
    tensors = {name: value for name, value in tensors.items() if value is not None}
    folder.mkdir(parents=True)
    tf.raw_ops.SaveV2(
        prefix=str(folder / "bert_model.ckpt"),
        tensor_names=list(tensors),
        shape_and_slices=[""] * len(tensors),
        tensors=list(tensors.values()),
    )
    sizes = {
        "hidden_act": "gelu",
        "hidden_dropout_prob": 0.1,
        "hidden_size": WIDTH,
        "intermediate_size": INNER,
        "max_position_embeddings": POSITIONS,
        "num_attention_heads": HEADS,
        "num_hidden_layers": LAYERS,
        "type_vocab_size": 2,
        "vocab_size": NUM_WORDS,
    }
    (folder / "bert_config.json").write_text(json.dumps(sizes | config))
    write_vocabulary(folder)
    return folder


def write_vocabulary(folder, num_words=NUM_WORDS):
    words = [*WORDS, *(f"x{number}" for number in range(num_words))][:num_words]
    (folder / "vocab.txt").write_text("".join(f"{word}\n" for word in words))


def hugging_face_tensors():
    return safetensors.numpy.load_file(HUGGING_FACE_DIR / "model.safetensors")


def hugging_face_config(**changes):
    return json.loads((HUGGING_FACE_DIR / "config.json").read_text()) | changes


def write_hugging_face(folder, tensors, **config):
    """A folder of these tensors, with the config of the stored one but for changes."""
    folder.mkdir(parents=True)
    tensors = {name: np.ascontiguousarray(one) for name, one in tensors.items()}
    safetensors.numpy.save_file(tensors, folder / "model.safetensors")
    (folder / "config.json").write_text(json.dumps(hugging_face_config(**config)))
    write_vocabulary(folder)
    return folder


def segabert_tensors(padded_words=32, token_rows=7, num_layers=LAYERS):
    """As SegaBERT's authors saved theirs: packed QKV, padded vocabulary, all tables."""
    at = "bert.embeddings"
    shapes = {
        f"{at}.word_embeddings.weight": (padded_words, WIDTH),
        f"{at}.position_embeddings.weight": (POSITIONS, WIDTH),
        f"{at}.token_position_embeddings.weight": (token_rows, WIDTH),
        f"{at}.para_position_embeddings.weight": (4, WIDTH),
        f"{at}.sent_position_embeddings.weight": (5, WIDTH),
        f"{at}.token_type_embeddings.weight": (2, WIDTH),
        f"{at}.LayerNorm.weight": (WIDTH,),
        f"{at}.LayerNorm.bias": (WIDTH,),
        "bert.pooler.dense.weight": (WIDTH, WIDTH),
        "bert.pooler.dense.bias": (WIDTH,),
        "cls.predictions.bias": (padded_words,),
        "cls.predictions.transform.dense.weight": (WIDTH, WIDTH),
        "cls.predictions.transform.dense.bias": (WIDTH,),
        "cls.predictions.transform.LayerNorm.weight": (WIDTH,),
        "cls.predictions.transform.LayerNorm.bias": (WIDTH,),
        "cls.seq_relationship.weight": (2, WIDTH),
        "cls.seq_relationship.bias": (2,),
    }
    for layer in range(num_layers):
        for dense, inputs, outputs in (
            ("attention.self.query_key_value", WIDTH, 3 * WIDTH),
            ("attention.output.dense", WIDTH, WIDTH),
            ("intermediate.dense", WIDTH, INNER),
            ("output.dense", INNER, WIDTH),
        ):
            name = f"bert.encoder.layer.{layer}.{dense}"
            shapes[f"{name}.weight"] = (outputs, inputs)
            shapes[f"{name}.bias"] = (outputs,)
        for norm in ("attention.output.LayerNorm", "output.LayerNorm"):
            name = f"bert.encoder.layer.{layer}.{norm}"
            shapes[f"{name}.weight"] = shapes[f"{name}.bias"] = (WIDTH,)
    tensors = random_like(shapes)
    tensors["cls.predictions.decoder_weight"] = tensors[f"{at}.word_embeddings.weight"]
    return tensors
