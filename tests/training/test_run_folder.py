import json

import pytest

from seg_tf import files
from seg_tf.checkpoints import folders
from seg_tf.training import run_folder
from seg_tf.training.errors import OutputFolderError
from seg_tf.training.run_folder import RunFolder
from tests.training.stand_ins import small_config


def describe(manifest="abc", **training):
    return run_folder.describe_run(
        small_config(**training), {"manifest_checksum": manifest}
    )


@pytest.fixture
def folder(tmp_path):
    """The folder of a run with one (empty) checkpoint."""
    folder = RunFolder(tmp_path / "run")
    run_folder.prepare(folder, describe(), overwrite=False)
    (folder.checkpoints_folder / folders.name(5)).mkdir(parents=True)
    return folder


def test_settings_that_no_weight_depends_on_may_change(folder):
    changed = describe(
        log_interval=7,
        keep_checkpoints=9,
        validation_interval=99,
        recompute_layers=True,
        probes=("blimp=elsewhere",),
    )
    run_folder.prepare(folder, changed, overwrite=False)
    assert '"log_interval": 7' in folder.run_file.read_text()


@pytest.mark.parametrize(
    "run, difference",
    [
        (describe(seed=3), "config.training.seed: 0 there, 3 now"),
        (describe("def"), "records.manifest_checksum: abc there, def now"),
    ],
)
def test_other_run_is_refused_naming_what_differs(folder, run, difference):
    before = folder.run_file.read_text()
    with pytest.raises(OutputFolderError, match="holds another run") as caught:
        run_folder.prepare(folder, run, overwrite=False)
    assert difference in str(caught.value)
    assert folder.run_file.read_text() == before


@pytest.mark.parametrize("num_updates", [5, 19, 21])
def test_length_may_change_to_what_is_not_done_yet(folder, num_updates):
    run = describe(num_updates=num_updates)
    assert run_folder.prepare(folder, run, overwrite=False) == 20
    # Not recorded before the run has gone back to the checkpoint it continues from.
    assert run_folder.prepare(folder, run, overwrite=False) == 20
    files.write_json(folder.run_file, run)
    assert run_folder.prepare(folder, run, overwrite=False) == num_updates


def test_fields_that_an_earlier_version_did_not_have_are_no_difference(folder):
    content = json.loads(folder.run_file.read_text())
    del content["config"]["optimizer"]["warmup_share"]
    folder.run_file.write_text(json.dumps(content))
    assert run_folder.prepare(folder, describe(), overwrite=False) == 20
    other = describe()
    other["config"]["optimizer"]["warmup_share"] = 0.5
    with pytest.raises(OutputFolderError, match=r"warmup_share: 0\.01 there, 0\.5 now"):
        run_folder.prepare(folder, other, overwrite=False)


def test_overwrite_removes_the_run_and_nothing_else(folder):
    for name in ("records", "tensorboard"):
        (folder.path / name).mkdir()
        (folder.path / name / "file").write_text("")
    for path in (folder.log_file, folder.curve_file, folder.path / "vocab.txt"):
        path.write_text("")
    run_folder.prepare(folder, describe(seed=1), overwrite=True)
    left = sorted(path.name for path in folder.path.iterdir())
    assert left == ["records", "run.json", "vocab.txt"]
    assert '"seed": 1' in folder.run_file.read_text()


@pytest.mark.parametrize("overwrite", [False, True])
def test_folders_of_another_program_are_not_removed(tmp_path, overwrite):
    (tmp_path / "checkpoints").mkdir()
    with pytest.raises(OutputFolderError, match="which has checkpoints without it"):
        run_folder.prepare(RunFolder(tmp_path), describe(), overwrite=overwrite)
    assert [path.name for path in tmp_path.iterdir()] == ["checkpoints"]


def test_checking_touches_nothing(tmp_path):
    folder = RunFolder(tmp_path / "run")
    run_folder.check(folder, describe(), overwrite=False)
    assert not folder.path.exists()


def test_second_run_is_kept_out_until_the_first_has_gone(tmp_path):
    folder = RunFolder(tmp_path / "run")
    refused = pytest.raises(OutputFolderError, match="must not be in use")
    with folder.locked(), refused:
        folder.locked().__enter__()
    with folder.locked():
        pass
