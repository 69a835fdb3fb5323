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


def google_tensors():
    """The stored tensors by the names and in the forms of BERT's authors."""
    tensors = {}
    for name, value in hugging_face_tensors().items():
        module, _, kind = name.rpartition(".")
        if module.endswith("LayerNorm"):
            kind = {"weight": "/gamma", "bias": "/beta"}[kind]
        elif module.endswith("_embeddings"):
            kind = ""
        elif module in ("cls.predictions", "cls.seq_relationship"):
            kind = {"weight": "/output_weights", "bias": "/output_bias"}[kind]
        elif kind == "weight":
            kind, value = "/kernel", value.T
        else:
            kind = "/bias"
        path = module.replace(".", "/").replace("/layer/", "/layer_")
        tensors[path + kind] = np.ascontiguousarray(value)
    return tensors


def write_google(folder, changes=None, **config):
    """A folder as BERT's authors published theirs.

    Args:
        folder: new folder.
        changes: tensors instead of the stored ones; None for one takes it away.
        **config: entries of bert_config.json instead of the fitting ones.
    """
    tensors = google_tensors() | (changes or {})
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


def write_hugging_face(folder, tensors=None, **config):
    """A folder of these tensors, or the stored ones, with changes to their config."""
    folder.mkdir(parents=True)
    tensors = hugging_face_tensors() if tensors is None else tensors
    tensors = {name: np.ascontiguousarray(one) for name, one in tensors.items()}
    safetensors.numpy.save_file(tensors, folder / "model.safetensors")
    (folder / "config.json").write_text(json.dumps(hugging_face_config(**config)))
    write_vocabulary(folder)
    return folder


def segabert_tensors():
    """As SegaBERT's authors saved theirs: packed QKV, padded vocabulary, all tables."""
    tensors = hugging_face_tensors()
    for layer in range(LAYERS):
        name = f"bert.encoder.layer.{layer}.attention.self"
        for kind in ("weight", "bias"):
            parts = [
                tensors.pop(f"{name}.{part}.{kind}")
                for part in ("query", "key", "value")
            ]
            tensors[f"{name}.query_key_value.{kind}"] = np.concatenate(parts)
    at = "bert.embeddings"
    rows = {"token_position": 7, "para_position": 4, "sent_position": 5}
    shapes = {f"{at}.{name}_embeddings.weight": (rows[name], WIDTH) for name in rows}
    tensors |= random_like(shapes)
    for name in (f"{at}.word_embeddings.weight", "cls.predictions.bias"):
        padding = [(0, 2), (0, 0)][: tensors[name].ndim]
        tensors[name] = np.pad(tensors[name], padding)
    tensors["cls.predictions.decoder_weight"] = tensors[f"{at}.word_embeddings.weight"]
    return tensors
