"""Builds and installs Horovod's source release, patched for TensorFlow 2.20.

Run it with the Python of the environment that shall have Horovod; TensorFlow has
to be installed there. `make setup` does so.

    .venv/bin/python third_party/horovod/build_horovod.py

The release and CMake come from the package index, each checked against its hash
in requirements/horovod-build.txt. Needed besides: a C++17 compiler and `make`; no
MPI. The wheel is kept in .cache/horovod, under a version that names TensorFlow's
version and the patch, so that a second run only installs it.

The build reads Horovod's own variables, HOROVOD_GPU_OPERATIONS=NCCL for one, and
CXX. Where none of Horovod's is set, any Horovod that was built with this patch for
this TensorFlow stays: a shell without the variables does not undo a GPU build.
"""

import argparse
import fcntl
import hashlib
import importlib.metadata
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tarfile
import time
import zipfile

HERE = pathlib.Path(__file__).resolve().parent
REPOSITORY = HERE.parent.parent
PATCH = HERE / "tensorflow-2.20.patch"
REQUIREMENTS = REPOSITORY / "requirements" / "horovod-build.txt"
RELEASE = "0.28.1"

# What a build of Horovod reads from its environment (docs/install.rst there).
BUILD_VARIABLE = re.compile(
    r"HOROVOD_(GPU|CPU_OPERATIONS|WITH|BUILD|CUDA|NCCL|ROCM|ALLOW_MIXED|DEBUG)"
)
# TensorFlow only, and Gloo in place of MPI, which a machine may not have.
DEFAULT_OPTIONS = {
    "HOROVOD_WITH_TENSORFLOW": "1",
    "HOROVOD_WITHOUT_PYTORCH": "1",
    "HOROVOD_WITHOUT_MXNET": "1",
    "HOROVOD_WITH_GLOO": "1",
}
CHECK = """
import horovod.tensorflow as hvd
hvd.init()
assert hvd.gloo_built() and hvd.size() == 1
hvd.shutdown()
"""


NO_COMPILER_STATUS = 3


class BuildError(Exception):
    """Horovod could not be built; the message says why and what to do."""


class NoCompilerError(BuildError):
    """There is nothing to build it with."""


def chosen_options(environment: dict[str, str]) -> dict[str, str]:
    """Horovod's build variables that `environment` sets."""
    return {
        name: value
        for name, value in sorted(environment.items())
        if BUILD_VARIABLE.match(name)
    }


def local_version(
    tensorflow_version: str, patch: bytes, options: dict[str, str]
) -> str:
    """The local version of the wheel, after `0.28.1+`: all that it depends on."""
    release = re.match(r"[0-9.]+", tensorflow_version).group().rstrip(".")
    label = f"tf{release}.patch{hashlib.sha256(patch).hexdigest()[:8]}"
    if options:
        listed = repr(sorted(options.items())).encode()
        label += f".options{hashlib.sha256(listed).hexdigest()[:8]}"
    return label


def apply_patch(patch: str, root: pathlib.Path) -> list[str]:
    """Applies a unified diff below `root`, where every line must match exactly.

    Done here because neither `patch` nor `git` is on every machine.

    Args:
        patch: the diff, with paths of the form `a/x` and `b/x`.
        root: folder that the paths are relative to.

    Returns:
        The changed files.

    Raises:
        BuildError: if the lines that a hunk expects are not there.
    """
    changed = []
    for part in re.split(r"(?m)^--- a/.*\n(?=\+\+\+ b/)", patch)[1:]:
        name, body = part.removeprefix("+++ b/").split("\n", 1)
        lines = (root / name).read_text(encoding="utf-8").splitlines(keepends=True)
        shift = 0
        for hunk in re.split(r"(?m)^(?=@@ )", body)[1:]:
            header, *edits = hunk.splitlines(keepends=True)
            start = int(re.match(r"@@ -(\d+)", header).group(1)) - 1 + shift
            before = [edit[1:] for edit in edits if edit[0] in " -"]
            after = [edit[1:] for edit in edits if edit[0] in " +"]
            if lines[start : start + len(before)] != before:
                raise BuildError(
                    f"{PATCH.name} does not fit {name}, line {start + 1}: expected "
                    f"{before[0]!r} and what follows it there"
                )
            lines[start : start + len(before)] = after
            shift += len(after) - len(before)
        (root / name).write_text("".join(lines), encoding="utf-8")
        changed.append(name)
    return changed


def parallel_jobs() -> int:
    """One compiler a core, and 2 GiB for each: TensorFlow's headers are large."""
    cores = len(os.sched_getaffinity(0))
    gibibytes = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    return max(1, min(cores, int(gibibytes / 2)))


def find_compiler(environment: dict[str, str]) -> str:
    """Path of the C++ compiler that CMake will take, or an empty string."""
    names = [environment["CXX"].split()[0]] if environment.get("CXX") else []
    for name in (*names, "c++", "g++", "clang++"):
        if shutil.which(name):
            return shutil.which(name)
    return ""


def download(folder: pathlib.Path) -> tuple[pathlib.Path, pathlib.Path]:
    """Downloads the source release and a wheel of CMake; returns their paths."""
    command = [
        *(sys.executable, "-m", "pip", "--disable-pip-version-check", "download"),
        *("--quiet", "--no-deps", "--require-hashes"),
        # Its metadata come from its setup.py, run with what is installed here.
        *("--no-binary", "horovod", "--no-build-isolation"),
        *("--dest", str(folder), "--requirement", str(REQUIREMENTS)),
    ]
    subprocess.run(command, check=True)
    return next(folder.glob("horovod-*.tar.gz")), next(folder.glob("cmake-*.whl"))


def unpack_cmake(wheel: pathlib.Path, folder: pathlib.Path) -> pathlib.Path:
    """Unpacks CMake's wheel; returns the program in it."""
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(folder)
    program = folder / "cmake" / "data" / "bin" / "cmake"
    program.chmod(0o755)
    return program


def build_environment(label: str, cmake: pathlib.Path) -> dict[str, str]:
    """The environment of the build: the caller's, and what it leaves open."""
    environment = {**DEFAULT_OPTIONS, "HOROVOD_CMAKE": str(cmake), **os.environ}
    if "HOROVOD_WITH_MPI" not in environment:
        environment.setdefault("HOROVOD_WITHOUT_MPI", "1")
    environment["HOROVOD_LOCAL_VERSION"] = label
    environment["MAKEFLAGS"] = f"-j{parallel_jobs()}"
    environment["TF_CPP_MIN_LOG_LEVEL"] = "3"
    # The CMake files ask for `python` too: the one of this environment.
    environment["PATH"] = os.pathsep.join(
        [os.path.dirname(sys.executable), environment.get("PATH", os.defpath)]
    )
    return environment


def compile_wheel(
    source: pathlib.Path, environment: dict[str, str], log: pathlib.Path
) -> pathlib.Path:
    """Runs the build below `source`, its output going to `log`."""
    call = "import setuptools.build_meta as b; b.__legacy__.build_wheel('dist')"
    with open(log, "w", encoding="utf-8") as stream:
        finished = subprocess.run(
            [sys.executable, "-c", call],
            cwd=source,
            env=environment,
            stdout=stream,
            stderr=subprocess.STDOUT,
            check=False,
        )
    if finished.returncode:
        tail = "".join(log.read_text(errors="replace").splitlines(True)[-30:])
        raise BuildError(f"{tail}\nHorovod did not compile; the whole output: {log}")
    return next((source / "dist").glob("*.whl"))


def check_wheel(wheel: pathlib.Path, folder: pathlib.Path) -> None:
    """Imports the wheel's content and starts it; raises BuildError if it fails."""
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(folder)
    finished = subprocess.run(
        [sys.executable, "-c", CHECK],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(folder), "TF_CPP_MIN_LOG_LEVEL": "3"},
        capture_output=True,
        text=True,
        check=False,
    )
    if finished.returncode:
        raise BuildError(f"{finished.stderr}\nthe Horovod just built does not work")


def build(label: str, cache: pathlib.Path) -> pathlib.Path:
    """Builds the wheel and puts it into `cache`, under its final name only if good."""
    compiler = find_compiler(os.environ)
    if not compiler or not shutil.which("make"):
        raise NoCompilerError("building Horovod needs a C++17 compiler and make")
    work = cache / "build"
    shutil.rmtree(work, ignore_errors=True)
    work.mkdir()
    release, cmake_wheel = download(work)
    with tarfile.open(release) as archive:
        # Python 3.11.2, Debian's, has no filters yet; 3.12 wants one.
        archive.extraction_filter = getattr(tarfile, "data_filter", None)
        archive.extractall(work)
    source = work / f"horovod-{RELEASE}"
    apply_patch(PATCH.read_text(encoding="utf-8"), source)
    environment = build_environment(label, unpack_cmake(cmake_wheel, work / "tools"))
    print(
        f"Compiling Horovod {RELEASE} with {compiler}, {environment['MAKEFLAGS']} "
        "(about two minutes on 2 cores)",
        flush=True,
    )
    wheel = compile_wheel(source, environment, cache / "build.log")
    check_wheel(wheel, work / "check")
    final = cache / wheel.name
    os.replace(wheel, final)
    shutil.rmtree(work)
    return final


def installed_version() -> str:
    """Version of the Horovod in this environment, or an empty string."""
    try:
        return importlib.metadata.version("horovod")
    except importlib.metadata.PackageNotFoundError:
        return ""


def ensure_installed(cache: pathlib.Path) -> str:
    """Installs Horovod, built if need be; returns its version."""
    options = chosen_options(os.environ)
    tensorflow = importlib.metadata.version("tensorflow")
    label = local_version(tensorflow, PATCH.read_bytes(), options)
    required, present = f"{RELEASE}+{label}", installed_version()
    if present == required or (not options and present.startswith(required)):
        return present
    cache.mkdir(parents=True, exist_ok=True)
    with open(cache / "lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        python = f"cp{sys.version_info.major}{sys.version_info.minor}"
        wheels = list(cache.glob(f"horovod-{required}-{python}-*.whl"))
        wheel = wheels[0] if wheels else build(label, cache)
    command = [
        *(sys.executable, "-m", "pip", "--disable-pip-version-check", "install"),
        *("--quiet", "--no-deps", "--no-index", "--force-reinstall", str(wheel)),
    ]
    subprocess.run(command, check=True)
    return required


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--cache",
        type=pathlib.Path,
        default=REPOSITORY / ".cache" / "horovod",
        help="folder that keeps the wheels (default: .cache/horovod)",
    )
    arguments = parser.parse_args()
    started = time.monotonic()
    try:
        version = ensure_installed(arguments.cache.resolve())
    except NoCompilerError as error:
        print(f"build_horovod.py: {error}", file=sys.stderr)
        return NO_COMPILER_STATUS
    except (BuildError, subprocess.CalledProcessError) as error:
        print(f"build_horovod.py: {error}", file=sys.stderr)
        return 1
    print(f"Horovod {version} is installed ({time.monotonic() - started:.0f} s)")
    return 0


if __name__ == "__main__":
    sys.exit(main())
