"""Makes the virtual environment that everything here runs in, or completes it.

    python3 tools/set_up.py run     # what training needs
    python3 tools/set_up.py corpora # and what corpora of many machines need
    python3 tools/set_up.py profile # training, and TensorBoard's page for profiles
    python3 tools/set_up.py dev     # and what tests and developers need

`make` calls it before every target. Three phases, each skipped when it is done:
a virtual environment, the packages of a lock file under requirements/, and Horovod
(see third_party/horovod). `set-up.json` in the environment lists what is done.
An environment that an interrupted set-up left half-installed is made anew.

Runs on Python 3.6 and later, with nothing installed, so that it can say which Python
is needed.
"""

import argparse
import contextlib
import fcntl
import hashlib
import json
import os
import pathlib
import shutil
import subprocess
import sys
import time
import typing

REPOSITORY = pathlib.Path(__file__).resolve().parent.parent
HOROVOD = REPOSITORY / "third_party" / "horovod"
OLDEST, NEWEST = (3, 11), (3, 13)
# A lock file, and those whose packages it holds as well.
LOCKS = {
    "run": ("run",),
    "corpora": ("corpora", "run"),
    "profile": ("profile", "run"),
    "dev": ("dev", "corpora", "run"),
}
# What build_horovod.py exits with where it finds no compiler.
NO_COMPILER_STATUS = 3
NO_COMPILER = """\
No C++ compiler was found, so Horovod is not built. Everything works in one process;
training on several (horovodrun) needs it. On Debian or Ubuntu:
    apt-get install g++ make    and then    make setup HOROVOD=require"""
NOT_WANTED = """\
Set-up: without Horovod, which takes some minutes to compile and which only training in
several processes (horovodrun) needs: make setup HOROVOD=require"""


class SetUpError(Exception):
    """Set-up cannot continue; the message says why and what to do."""


def check_version(version: tuple, where: str) -> None:
    """Raises SetUpError unless `version`, found at `where`, is supported."""
    if not OLDEST <= tuple(version[:2]) <= NEWEST:
        raise SetUpError(
            f"Python 3.{OLDEST[1]} to 3.{NEWEST[1]} is needed. Received: "
            f"{version[0]}.{version[1]}, at {where}. Name another by PYTHON=, as in: "
            "make pretrain PYTHON=python3.12"
        )


def check_can_make_environments() -> None:
    """Raises SetUpError where Debian's split packages left the venv module out."""
    try:
        import ensurepip
        import venv
    except ImportError as error:
        raise SetUpError(
            f"{sys.executable} cannot make virtual environments ({error}). On Debian "
            "or Ubuntu: apt-get install python3-venv"
        ) from error
    del ensurepip, venv


def checksum(path: pathlib.Path) -> str:
    """SHA-256 of a file's bytes."""
    return hashlib.sha256(path.read_bytes()).hexdigest()


def count_packages(lock: pathlib.Path) -> int:
    """Number of packages that a lock file pins, with any markers."""
    lines = lock.read_text().splitlines()
    return len({line.split("==")[0] for line in lines if "==" in line})


def count_gpus() -> int:
    """Number of NVIDIA's devices that this machine has."""
    return len(list(pathlib.Path("/dev").glob("nvidia[0-9]*")))


@contextlib.contextmanager
def only_one(path: pathlib.Path) -> typing.Iterator[None]:
    """Holds the file lock `path`: a second set-up waits for the first."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with open(path, "w") as stream:
        try:
            fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            print("Waiting for another set-up of this folder to end", flush=True)
            fcntl.flock(stream, fcntl.LOCK_EX)
        yield


@contextlib.contextmanager
def phase(title: str) -> typing.Iterator[None]:
    """Prints what begins, and how long it took."""
    print(f"Set-up: {title}", flush=True)
    started = time.monotonic()
    yield
    print(f"Set-up: done in {time.monotonic() - started:.0f} s", flush=True)


def show_count(text: str) -> None:
    """Writes a line over the last one, on a terminal only."""
    if sys.stdout.isatty():
        print(f"\r\033[K{text}", end="", flush=True)


class Environment:
    """A virtual environment and the record of what was installed in it.

    Args:
        folder: where it is, or shall be.
    """

    def __init__(self, folder: pathlib.Path):
        self.folder = folder
        self.python = folder / "bin" / "python"
        self._record_path = folder / "set-up.json"

    def read_record(self) -> dict:
        """Checksum of every lock file that is installed; `{}` if there is none."""
        try:
            return json.loads(self._record_path.read_text())
        except FileNotFoundError:
            return {}
        except ValueError:
            return {"unfinished": "record"}

    def write_record(self, record: dict) -> None:
        """Writes the record at once, never half of it."""
        self.folder.mkdir(parents=True, exist_ok=True)
        temporary = self._record_path.with_suffix(".tmp")
        temporary.write_text(json.dumps(record, indent=2) + "\n")
        os.replace(str(temporary), str(self._record_path))

    def version(self) -> tuple:
        """Version of its Python; `()` if it does not run."""
        call = "import sys; print(*sys.version_info[:2])"
        try:
            printed = subprocess.check_output([str(self.python), "-c", call])
        except (OSError, subprocess.CalledProcessError):
            return ()
        return tuple(int(number) for number in printed.split())

    def ensure_made(self) -> None:
        """Makes the environment, unless it is there and whole."""
        record = self.read_record()
        if "unfinished" in record and "made_here" in record:
            print(f"Set-up: {self.folder} was left half-installed; making it anew")
            shutil.rmtree(str(self.folder))
        version = self.version()
        if version:
            check_version(version, str(self.python))
            return
        if self.folder.exists() and "made_here" not in record:
            raise SetUpError(
                f"{self.folder} exists and is no working virtual environment. Remove "
                "it, or name another folder by VENV="
            )
        check_version(sys.version_info, sys.executable)
        check_can_make_environments()
        with phase(f"virtual environment {self.folder}"):
            shutil.rmtree(str(self.folder), ignore_errors=True)
            self.write_record({"made_here": True, "unfinished": "environment"})
            subprocess.check_call([sys.executable, "-m", "venv", str(self.folder)])
            self.write_record({"made_here": True})

    def ensure_packages(self, name: str) -> None:
        """Installs the packages of requirements/`name`.txt, unless they are there."""
        lock = REPOSITORY / "requirements" / f"{name}.txt"
        record = self.read_record()
        if record.get(name) == checksum(lock):
            return
        self.write_record({**record, "unfinished": name})
        with phase(f"{count_packages(lock)} packages of {lock.name} (1 to 5 minutes)"):
            try:
                self._install(lock)
            except SetUpError:
                # pip ended normally, so it undid what it had begun.
                self.write_record(record)
                raise
        for contained in LOCKS[name]:
            path = REPOSITORY / "requirements" / f"{contained}.txt"
            record[contained] = checksum(path)
        # Horovod is compiled against TensorFlow, which may be another one now.
        if "horovod" in record:
            record["horovod"] = "to be checked"
        self.write_record(record)

    def _install(self, lock: pathlib.Path) -> None:
        log = REPOSITORY / ".cache" / "set-up.log"
        command = [
            *(str(self.python), "-m", "pip", "--disable-pip-version-check"),
            # The lock is complete: see requirements/README.md on --no-deps. Wheels
            # only, so that installing runs nobody's code; promise, which TensorFlow
            # Datasets imports, has none.
            *("install", "--no-deps", "--require-hashes", "--only-binary=:all:"),
            "--no-binary=promise",
            *("--progress-bar=off", "--requirement", str(lock)),
        ]
        total = count_packages(lock)
        with subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        ) as process:
            collected = 0
            with open(str(log), "w") as stream:
                for line in process.stdout:
                    stream.write(line)
                    if line.startswith(("Collecting ", "Requirement already")):
                        collected += 1
                        show_count(f"  {collected} of {total} packages found")
                    elif line.startswith("Installing collected"):
                        show_count(f"  installing {collected} packages")
        show_count("")
        if process.returncode < 0:
            raise subprocess.CalledProcessError(process.returncode, command[:4])
        if process.returncode:
            tail = "".join(log.read_text().splitlines(True)[-15:])
            raise SetUpError(
                f"{tail}\npip could not install {lock}; its whole output: {log}"
            )

    def ensure_commands(self) -> None:
        """Makes `seg-tf` run the code of this folder, unless it does already."""
        record = self.read_record()
        if record.get("commands") == str(REPOSITORY):
            return
        subprocess.check_call(
            [
                *(str(self.python), "-m", "pip", "--disable-pip-version-check"),
                *("install", "--quiet", "--no-deps", "--no-build-isolation"),
                *("--editable", str(REPOSITORY)),
            ]
        )
        self.write_record({**record, "commands": str(REPOSITORY)})

    def ensure_horovod(self, mode: str) -> None:
        """Builds and installs Horovod, unless it is there.

        Args:
            mode: `"auto"` builds it if it is likely to be wanted and a C++ compiler
                is found, `"require"` in any case, `"skip"` leaves Horovod alone.
        """
        patched = checksum(HOROVOD / "tensorflow-2.20.patch")
        record = self.read_record()
        chosen = any(name.startswith("HOROVOD_") for name in os.environ)
        if mode == "skip" or (record.get("horovod") == patched and not chosen):
            return
        if mode == "auto" and not chosen and not self._wants_horovod(record):
            if not record.get("without_horovod"):
                print(NOT_WANTED, flush=True)
                self.write_record({**record, "without_horovod": True})
            return
        status = subprocess.call([str(self.python), str(HOROVOD / "build_horovod.py")])
        if status == NO_COMPILER_STATUS and mode == "auto":
            print(NO_COMPILER, flush=True)
        elif status:
            raise SetUpError(
                "Horovod was not installed (see above). To continue without it, in one "
                "process, add HOROVOD=skip to the make command"
            )
        else:
            self.write_record({**record, "horovod": patched})

    def _wants_horovod(self, record: dict) -> bool:
        """True where tests need it, an older one is there, or GPUs are several."""
        return "dev" in record or "horovod" in record or count_gpus() > 1


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("packages", choices=sorted(LOCKS), help="which lock file")
    parser.add_argument("--venv", default=".venv", help="folder of the environment")
    parser.add_argument(
        "--horovod",
        choices=("auto", "require", "skip"),
        default="auto",
        help="auto: build Horovod where there are several GPUs, and for developers, if "
        "there is a C++ compiler; require: build it or fail; skip: leave it alone",
    )
    arguments = parser.parse_args()
    environment = Environment((REPOSITORY / arguments.venv).absolute())
    # Settings that would lead pip out of the environment.
    os.environ["PIP_USER"] = "0"
    try:
        with only_one(REPOSITORY / ".cache" / "set-up.lock"):
            environment.ensure_made()
            environment.ensure_packages(arguments.packages)
            environment.ensure_commands()
            environment.ensure_horovod(arguments.horovod)
    except (SetUpError, subprocess.CalledProcessError) as error:
        print(f"Set-up: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("Set-up: interrupted; the same command starts it again", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
