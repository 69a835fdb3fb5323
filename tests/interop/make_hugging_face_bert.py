"""Makes the folder `hugging_face_bert`: a BERT of random weights by `transformers`.

    python -m tests.interop.make_hugging_face_bert

needs transformers 4.57, tf-keras and TensorFlow, in an environment of their own:
releases that go with the other packages of this project run on PyTorch alone. Weights
are drawn, and outputs computed, by its `TFBertForPreTraining`. Names and forms of the
stored tensors are those by which its own loader finds them.
"""

import os
import pathlib
import sys

os.environ["TF_USE_LEGACY_KERAS"] = "1"

import numpy as np
import safetensors.numpy

FOLDER = pathlib.Path(__file__).with_name("hugging_face_bert")
SIZES = {
    "vocab_size": 30,
    "hidden_size": 8,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "intermediate_size": 16,
    "max_position_embeddings": 12,
    "type_vocab_size": 2,
    # Large enough for every weight to matter.
    "initializer_range": 0.3,
    "layer_norm_eps": 1e-3,
}
WORDS = ["[PAD]", "[unused0]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "the", "##s"]


def main() -> None:
    from transformers import BertConfig, BertTokenizer, TFBertForPreTraining
    from transformers.modeling_tf_pytorch_utils import (
        convert_tf_weight_name_to_pt_weight_name,
    )

    generator = np.random.default_rng(7)
    model = TFBertForPreTraining(BertConfig(**SIZES))
    model(model.dummy_inputs)
    tensors = {}
    for weight in model.weights:
        offset = 1.0 if "gamma" in weight.name else 0.0
        weight.assign(offset + 0.3 * generator.normal(size=weight.shape))
        name, transpose = convert_tf_weight_name_to_pt_weight_name(
            weight.name, tf_weight_shape=weight.shape
        )
        assert transpose.value in ("no", "simple"), weight.name
        value = weight.numpy()
        tensors[name] = np.ascontiguousarray(
            value.T if transpose.value == "simple" else value
        )
    FOLDER.mkdir(exist_ok=True)
    words = [
        *WORDS,
        *(f"w{number}" for number in range(SIZES["vocab_size"] - len(WORDS))),
    ]
    (FOLDER / "vocab.txt").write_text("".join(f"{word}\n" for word in words))
    tokenizer = BertTokenizer(FOLDER / "vocab.txt", do_lower_case=True)
    tokenizer.save_pretrained(FOLDER)
    model.config.save_pretrained(FOLDER)
    safetensors.numpy.save_file(
        tensors, FOLDER / "model.safetensors", metadata={"format": "pt"}
    )
    (FOLDER / "special_tokens_map.json").unlink()

    generator = np.random.default_rng(8)
    token_ids = generator.integers(0, SIZES["vocab_size"], (3, 9)).astype("int32")
    token_types = np.repeat([[0, 1]], 3, axis=0).repeat([5, 4], axis=1).astype("int32")
    mask = (np.arange(9) < np.array([[9], [6], [2]])).astype("int32")
    outputs = model.bert(token_ids, attention_mask=mask, token_type_ids=token_types)
    np.savez(
        FOLDER / "outputs.npz",
        token_ids=token_ids,
        token_types=token_types,
        mask=mask,
        sequence=outputs.last_hidden_state.numpy(),
        pooled=outputs.pooler_output.numpy(),
        logits=model(
            token_ids, attention_mask=mask, token_type_ids=token_types
        ).prediction_logits.numpy(),
    )


if __name__ == "__main__":
    sys.exit(main())
