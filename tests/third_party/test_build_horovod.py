"""The patch and the version of our build of Horovod, without building it."""

import pytest

from third_party.horovod import build_horovod

PATCH = """\
--- a/lib/one.txt
+++ b/lib/one.txt
@@ -1,3 +1,4 @@
 first
-second
+2nd
+and a half
 third
@@ -6,2 +7,2 @@
 sixth
-seventh
+7th
--- a/two.txt
+++ b/two.txt
@@ -1 +1 @@
-alone
+ALONE
"""


@pytest.fixture
def tree(tmp_path):
    (tmp_path / "lib").mkdir()
    lines = ["first", "second", "third", "fourth", "fifth", "sixth", "seventh"]
    (tmp_path / "lib" / "one.txt").write_text("\n".join(lines) + "\n")
    (tmp_path / "two.txt").write_text("alone\n")
    return tmp_path


def test_patch_changes_its_lines_and_no_others(tree):
    changed = build_horovod.apply_patch(PATCH, tree)
    assert changed == ["lib/one.txt", "two.txt"]
    # Checked against the hunks by hand: the second one moved by one line.
    assert (tree / "lib" / "one.txt").read_text().split("\n") == [
        *("first", "2nd", "and a half", "third", "fourth", "fifth", "sixth", "7th", "")
    ]
    assert (tree / "two.txt").read_text() == "ALONE\n"


def test_patch_that_does_not_fit_names_file_and_line(tree):
    (tree / "lib" / "one.txt").write_text("first\nsecond\nTHIRD\n")
    with pytest.raises(build_horovod.BuildError, match=r"lib/one\.txt, line 1"):
        build_horovod.apply_patch(PATCH, tree)


def test_version_changes_with_all_that_the_wheel_depends_on():
    def version(tensorflow="2.20.0", patch=b"patch", **options):
        return build_horovod.local_version(tensorflow, patch, options)

    assert version().startswith("tf2.20.0.patch")
    others = {
        version(tensorflow="2.21.0"),
        version(patch=b"another"),
        version(HOROVOD_GPU_OPERATIONS="NCCL"),
        version(HOROVOD_GPU_OPERATIONS="MPI"),
    }
    assert len(others | {version()}) == 5
    # A shell without options accepts a build with them: see `ensure_installed`.
    assert version(HOROVOD_GPU_OPERATIONS="NCCL").startswith(version())


@pytest.mark.parametrize(
    ("present", "options", "builds"),
    [
        pytest.param("{wanted}", {}, False, id="same"),
        pytest.param("{wanted}.options12345678", {}, False, id="keeps_gpu_build"),
        pytest.param("{wanted}", {"HOROVOD_GPU_OPERATIONS": "NCCL"}, True, id="gpu"),
        pytest.param("0.28.1", {}, True, id="unpatched"),
        pytest.param("", {}, True, id="absent"),
    ],
)
def test_builds_only_what_is_not_installed(
    monkeypatch, tmp_path, present, options, builds
):
    for name in build_horovod.chosen_options(dict(build_horovod.os.environ)):
        monkeypatch.delenv(name)
    tensorflow = build_horovod.importlib.metadata.version("tensorflow")
    patch = build_horovod.PATCH.read_bytes()
    plain = build_horovod.local_version(tensorflow, patch, {})
    wanted = f"{build_horovod.RELEASE}+{plain}"
    for name, value in options.items():
        monkeypatch.setenv(name, value)
    present = present.format(wanted=wanted)
    calls = []
    monkeypatch.setattr(build_horovod, "installed_version", lambda: present)
    monkeypatch.setattr(build_horovod, "build", lambda *_: calls.append("build"))
    monkeypatch.setattr(build_horovod.subprocess, "run", lambda *_, **__: None)
    version = build_horovod.ensure_installed(tmp_path)
    assert bool(calls) == builds
    assert version.startswith(wanted)
