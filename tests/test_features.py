"""The batch contract."""

import keras
import pytest

from seg_tf.features import FEATURES, INDEX_FEATURES, tensor_specs


def test_specs_replace_letters_by_sizes():
    names = ["token_ids", "masked_weights", "sample_number"]
    assert tensor_specs(names, {"B": None, "L": 128, "P": 20}) == {
        "token_ids": ((None, 128), "int32"),
        "masked_weights": ((None, 20), "float32"),
        "sample_number": ((None,), "int64"),
    }
    with pytest.raises(ValueError, match=r"token_ids.*Received: 'token_id'"):
        tensor_specs(["token_id"], {"B": None, "L": None})


def test_features_are_batches_of_dtypes_that_keras_knows():
    for name, feature in FEATURES.items():
        assert feature.shape[0] == "B"
        assert keras.backend.standardize_dtype(feature.dtype) == feature.dtype
        if name in INDEX_FEATURES:
            assert (feature.shape, feature.dtype) == (("B", "L"), "int32")
