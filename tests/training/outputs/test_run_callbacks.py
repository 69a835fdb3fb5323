import keras
import pytest

from seg_tf.training import trackers
from seg_tf.training.errors import TrainingStopped


class Folder(keras.callbacks.Callback):
    def __init__(self, folder):
        super().__init__()
        self.folder = folder
        self.rows = []

    def on_log(self, updates, row):
        self.rows.append((updates, row))
        row.clear()


def not_a_callback(folder):
    return str(folder)


def test_callbacks_are_made_of_their_names_with_an_existing_folder(tmp_path):
    names = [f"{__name__}:Folder", "keras.callbacks:TerminateOnNaN"]
    factories = trackers.find_factories(names[:1], "callbacks")
    (made,) = trackers.make_callbacks(factories, tmp_path / "run")
    assert isinstance(made, Folder)
    assert made.folder == tmp_path / "run"
    assert made.folder.is_dir()
    assert trackers.find_factories(names, "callbacks")[1] is (
        keras.callbacks.TerminateOnNaN
    )


@pytest.mark.parametrize(
    "name", ["nowhere:Folder", f"{__name__}:absent", "Folder", ":Folder"]
)
def test_name_that_cannot_be_imported_is_an_error(name):
    with pytest.raises(ValueError, match=rf"`--callbacks` must .*Received: '{name}'"):
        trackers.find_factories([name], "--callbacks")


def test_function_that_makes_something_else_is_an_error(tmp_path):
    with pytest.raises(TrainingStopped, match=r"must name functions that return a Ker"):
        trackers.make_callbacks([not_a_callback], tmp_path)


def test_rows_go_to_callbacks_that_take_them_each_its_own(tmp_path):
    row = {"loss": 1.0}
    takes = Folder(tmp_path), Folder(tmp_path)
    trackers.send_row([keras.callbacks.Callback(), *takes], 5, row)
    assert row == {"loss": 1.0}
    assert [len(one.rows) for one in takes] == [1, 1]
