import keras
import pytest

from seg_tf.features import FEATURES, INDEX_FEATURES, tensor_specs


def test_specs_put_sizes_in_place_of_letters():
    specs = tensor_specs(
        ["token_ids", "masked_weights", "sample_number"], {"B": None, "L": 128, "P": 20}
    )
    assert specs == {
        "token_ids": ((None, 128), "int32"),
        "masked_weights": ((None, 20), "float32"),
        "sample_number": ((None,), "int64"),
    }


def test_unknown_feature_is_named_with_those_there_are():
    with pytest.raises(ValueError, match=r"token_ids.*Received: 'token_id'"):
        tensor_specs(["token_id"], {"B": None, "L": None})


def test_index_features_stand_beside_the_tokens():
    for name in INDEX_FEATURES:
        assert FEATURES[name].shape == FEATURES["token_ids"].shape
        assert FEATURES[name].dtype == "int32"


@pytest.mark.parametrize("name", FEATURES)
def test_every_feature_is_a_batch_of_a_type_that_keras_knows(name):
    feature = FEATURES[name]
    assert feature.shape[0] == "B"
    assert keras.backend.standardize_dtype(feature.dtype) == feature.dtype
    assert feature.meaning
