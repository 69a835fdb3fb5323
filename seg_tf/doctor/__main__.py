"""Checks this installation and says what to do.

  python -m seg_tf.doctor

Prints one line for each point: ok, warning (it works, but …) or problem, with the
cause and the cure. Exits with 1 if there is a problem. Nothing is changed, and
nothing is trained; two processes add up a tensor, for which --noall_reduce spares
the time. On a cluster, from the folder and with the Python that training uses:

  python -m seg_tf.doctor --hosts=host1:8,host2:8

and the same on every host, each line with the number of its process before it:

  horovodrun -np 2 -H host1:1,host2:1 python -m seg_tf.doctor --noall_reduce
"""

from __future__ import annotations

import concurrent.futures
import dataclasses
import functools
import json
import sys
from collections.abc import Callable, Sequence

from seg_tf.doctor import horovod, hosts, machine, packages
from seg_tf.doctor.findings import PROBLEM, Finding, problem, summary

Check = Callable[[], list[Finding]]


@dataclasses.dataclass(frozen=True)
class Options:
    """The flags.

    Attributes:
        json: print one JSON object in place of lines.
        all_reduce: start two processes by horovodrun.
        hosts: hosts of a run, as in host1:8,host2:8; empty: none.
        output_dir: where runs would be written.
        time_limit: seconds after which a child process counts as hung.
    """

    json: bool = False
    all_reduce: bool = True
    hosts: str = ""
    output_dir: str = "runs"
    time_limit: float = 60.0


def checks(options: Options) -> dict[str, Check]:
    """Every check by its name, in the order in which they are printed."""
    limit = options.time_limit
    chosen: dict[str, Check] = {
        "Python": packages.check_python,
        "TensorFlow": functools.partial(packages.check_tensorflow, limit),
        "Keras": functools.partial(packages.check_keras, limit),
        "tensorflow-text": functools.partial(packages.check_tensorflow_text, limit),
        "Horovod": functools.partial(horovod.check, limit, options.all_reduce),
        "Machine": functools.partial(machine.check, options.output_dir),
    }
    if options.hosts:
        chosen["Hosts"] = functools.partial(hosts.check, options.hosts, limit)
    return chosen


def run_check(check: Check) -> list[Finding]:
    """Runs `check`; an error in it becomes a finding."""
    try:
        return check()
    except Exception as error:
        return [
            problem(
                "The check itself failed",
                f"{type(error).__name__}: {error}",
                "a fault of seg_tf.doctor: please report it with this line",
            )
        ]


def run(options: Options) -> list[Finding]:
    """Runs all checks, two at a time, and prints what they find."""
    found: dict[str, list[Finding]] = {}
    with concurrent.futures.ThreadPoolExecutor(max_workers=2) as pool:
        running = {
            name: pool.submit(run_check, check)
            for name, check in checks(options).items()
        }
        for name, future in running.items():
            found[name] = future.result()
            if not options.json:
                print(f"{name}\n" + "\n".join(map(str, found[name])), flush=True)
    everything = [finding for findings in found.values() for finding in findings]
    if options.json:
        print(json.dumps(_as_json(found), indent=2, ensure_ascii=False))
    else:
        print(f"\n{summary(everything)}")
    return everything


def _as_json(found: dict[str, list[Finding]]) -> dict[str, object]:
    return {
        "ok": not any(f.level == PROBLEM for group in found.values() for f in group),
        "findings": [
            {"check": name, **dataclasses.asdict(finding)}
            for name, findings in found.items()
            for finding in findings
        ],
    }


def main() -> None:
    try:
        from absl import app, flags
    except ImportError:
        # Where even absl is missing, the checks say so.
        if len(sys.argv) > 1:
            print("absl-py is missing, so flags are not read", file=sys.stderr)
        sys.exit(_status(run(Options())))
    _define_flags(flags)
    app.run(lambda argv: _main_with_flags(argv, flags.FLAGS))


def _define_flags(flags: object) -> None:
    default = Options()
    flags.DEFINE_bool("json", default.json, "Print one JSON object, not lines.")
    flags.DEFINE_bool(
        "all_reduce", default.all_reduce, "Try two processes started by horovodrun."
    )
    flags.DEFINE_string(
        "hosts", default.hosts, "Hosts of a run, to be tried by ssh: host1:8,host2:8."
    )
    flags.DEFINE_string(
        "output_dir", default.output_dir, "Where runs would be written."
    )
    flags.DEFINE_float(
        "time_limit", default.time_limit, "Seconds until a step counts as hung."
    )


def _main_with_flags(argv: Sequence[str], values: object) -> int:
    if len(argv) > 1:
        sys.exit(f"error: unexpected argument {argv[1]!r}; all options are flags")
    names = [field.name for field in dataclasses.fields(Options)]
    return _status(run(Options(**{name: getattr(values, name) for name in names})))


def _status(findings: list[Finding]) -> int:
    return int(any(finding.level == PROBLEM for finding in findings))


if __name__ == "__main__":
    main()
