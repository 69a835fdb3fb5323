"""Imports point one way: what each part of the project may know of the others.

    run_*, reorder_sentences, find_sentences, encode_text, evaluate_perplexity,
    evaluate_squad, export_weights, generate_text, import_weights, plot_attention,
    serve_check
          > finetuning > export > inference, interop
          > training > preprocessing > checkpoints > objectives > models > layers
          > layouts > ops > papers > tasks > text
          > features, configuration, files, file_listing, output_paths, command_line,
            progress
          > remote_calls

A module imports from its own part and from parts to its right. `data_pipelines` may
import `seg_tf.text`, `remote_calls` and the six before `progress`; `seg_tf` never
imports `data_pipelines`; `configs` import `seg_tf.configuration` alone. Horovod is
imported in one file, and development packages nowhere at the top of a module.
`seg_tf.doctor` imports nothing but the standard library at its top, and Horovod in
functions that only its child processes call: it examines the installation that the file
of the rule takes for granted. `seg_tf.tasks` never imports TensorFlow or Keras: task
files are read, and predictions scored, without them. Ops, layers, models
and objectives import no backend of Keras, so that they run on any;
`seg_tf.ops.tensorflow_*` has what TensorFlow needs of its own. JAX, which is an extra,
is imported by `seg_tf.training.jax_*` alone.

No chain of imports is longer than `MOST_DEEP`, and none leads back to where it began,
through imports in functions neither. Imports for annotations alone do not count.
"""

import ast
import dataclasses
import functools
import graphlib
import pathlib
import sys
import tomllib

import pytest
from packaging.requirements import Requirement

REPOSITORY = pathlib.Path(__file__).resolve().parent.parent

# Parts of seg_tf, from the bottom to the top; parts of a set do not know each other.
LEVELS = (
    {"remote_calls"},
    {
        "command_line",
        "configuration",
        "features",
        "file_listing",
        "files",
        "output_paths",
        "progress",
        "removed",
    },
    {"text"},
    {"tasks"},
    {"papers"},
    {"ops"},
    {"layouts"},
    {"layers"},
    {"models"},
    {"objectives"},
    {"checkpoints"},
    {"preprocessing"},
    {"training"},
    {"inference", "interop", "doctor"},
    {"export"},
    {"finetuning"},
    {"demo"},
    {"commands", "configs"},
)
LEVEL_OF = {part: level for level, parts in enumerate(LEVELS) for part in parts}
DATA_PIPELINES_MAY_IMPORT = {
    "text",
    "layouts",
    "features",
    "configuration",
    "files",
    "command_line",
    "file_listing",
    "output_paths",
    "remote_calls",
}
CONFIGS_MAY_IMPORT = {"configuration", "configs"}
BACKENDS = {"tensorflow", "tensorflow_text", "jax", "jaxlib", "torch"}
DEEP_LEARNING = {*BACKENDS, "keras", "keras_hub"}
# They run on any backend.
MATHEMATICS = {"ops", "layers", "models", "objectives"}
# Operators of one backend, which others ask for where they run on it.
TENSORFLOW_OPS = "seg_tf.ops.tensorflow_"
PACKAGES = ("seg_tf", "data_pipelines", "configs")
JAX_MODULES = "seg_tf.training.jax_"
HOROVOD_MODULE = "seg_tf.training.horovod_distribution"
# Modules of the longest chain of imports, its first and its last included.
MOST_DEEP = 12
# Asks in a process of its own whether Horovod works at all.
HOROVOD_PROBES = ("seg_tf.doctor",)


@dataclasses.dataclass(frozen=True)
class Import:
    """One imported name, dotted, and where it stands."""

    imported: str
    line: int
    in_function: bool
    for_annotations: bool = False


def module_name(path: pathlib.Path) -> str:
    parts = path.relative_to(REPOSITORY).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def project_files() -> list[pathlib.Path]:
    files = [path for name in PACKAGES for path in (REPOSITORY / name).rglob("*.py")]
    return sorted([*files, *REPOSITORY.glob("run_*.py")])


def imports_of(source: str) -> list[Import]:
    """All imports in `source`, those by `importlib.import_module` too."""
    found = []

    def visit(node, in_function, for_annotations):
        in_function |= isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        for_annotations |= (
            isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"
        )
        names = []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            prefix = "." * node.level + (node.module or "")
            names = [f"{prefix}.{alias.name}" for alias in node.names]
        elif isinstance(node, ast.Call) and node.args:
            function = getattr(node.func, "attr", getattr(node.func, "id", ""))
            argument = getattr(node.args[0], "value", None)
            is_import = function in ("import_module", "__import__")
            if is_import and isinstance(argument, str):
                names = [argument]
        found.extend(
            Import(name, node.lineno, in_function, for_annotations) for name in names
        )
        for child in ast.iter_child_nodes(node):
            visit(child, in_function, for_annotations)

    visit(ast.parse(source), False, False)
    return found


def declared_modules() -> set[str]:
    """Top-level modules of the packages that pyproject.toml asks for at run time."""
    project = tomllib.loads((REPOSITORY / "pyproject.toml").read_text())["project"]
    names = {Requirement(text).name for text in project["dependencies"]}
    modules = {
        "absl-py": "absl",
        "scikit-learn": "sklearn",
        "universal-pathlib": "upath",
    }
    return {modules.get(name, name.replace("-", "_")) for name in names}


def part_of(module: str) -> str:
    """The part of seg_tf that a dotted name belongs to, "" for seg_tf itself."""
    return module.partition(".")[2].partition(".")[0]


def violation(importer: str, found: Import) -> str:
    """Why module `importer` must not import that; "" if it may."""
    package, imported = importer.split(".")[0], found.imported.split(".")[0]
    if not imported:
        return "relative imports hide the direction"
    if imported == "horovod":
        probe = importer in HOROVOD_PROBES and found.in_function
        allowed = importer == HOROVOD_MODULE or probe
        return "" if allowed else f"only {HOROVOD_MODULE} imports Horovod"
    if imported in ("tests", "benchmarks", "tools") or imported.startswith("run_"):
        return "nothing imports scripts, tests or benchmarks"
    if imported not in PACKAGES:
        if part_of(importer) == "doctor" and not found.in_function:
            standard = imported in sys.stdlib_module_names
            return "" if standard else "the doctor starts where nothing is installed"
        if part_of(importer) == "tasks" and imported in DEEP_LEARNING:
            return "tasks do without TensorFlow"
        if part_of(importer) in MATHEMATICS and imported in BACKENDS:
            if importer.startswith(TENSORFLOW_OPS) and imported == "tensorflow":
                return ""
            return "the mathematics runs on any backend of Keras"
        if imported in ("jax", "jaxlib"):
            allowed = importer.startswith(JAX_MODULES)
            return "" if allowed else f"only {JAX_MODULES}* import JAX"
        known = {*sys.stdlib_module_names, *declared_modules()}
        if imported in known or found.in_function:
            return ""
        return "no run-time dependency of pyproject.toml (import it in a function)"
    if package.startswith("run_"):
        return ""
    part = part_of(found.imported)
    if package == "seg_tf":
        if imported != "seg_tf":
            return f"seg_tf never imports {imported}"
        own = part_of(importer)
        if not own or part == own:
            return ""
        if own == "doctor" and not found.in_function:
            return "the doctor starts where nothing is installed"
        if part not in LEVEL_OF:
            return f"seg_tf.{part} has no level in this test"
        if LEVEL_OF[part] >= LEVEL_OF.get(own, -1):
            return f"{own} is not above {part}"
        return ""
    if imported == package:
        return ""
    if imported != "seg_tf":
        return f"{package} never imports {imported}"
    allowed = DATA_PIPELINES_MAY_IMPORT
    if package == "configs":
        allowed = CONFIGS_MAY_IMPORT
    return "" if part in allowed else f"{package} may import only {sorted(allowed)}"


def violations(importer: str, source: str) -> list[str]:
    return [
        f"{importer}, line {found.line}: {found.imported}: {reason}"
        for found in imports_of(source)
        if (reason := violation(importer, found))
    ]


@pytest.mark.parametrize("path", project_files(), ids=module_name)
def test_imports_point_one_way(path):
    assert not violations(module_name(path), path.read_text(encoding="utf-8"))


def import_graph(sources, *, in_functions):
    """Names of the modules in `sources` that each of them imports."""
    graph = {}
    for module, source in sources.items():
        # Of `package.module.Name` or `package.module`, the module.
        candidates = [
            one.imported
            for one in imports_of(source)
            if not one.for_annotations and (in_functions or not one.in_function)
        ]
        found = {
            name if name in sources else name.rpartition(".")[0] for name in candidates
        }
        graph[module] = (found & sources.keys()) - {module}
    return graph


def longest_chain(graph):
    """The longest chain of imports; graphlib.CycleError if one is endless."""
    chains = {}
    for module in graphlib.TopologicalSorter(graph).static_order():
        below = max((chains[one] for one in graph[module]), key=len, default=[])
        chains[module] = [module, *below]
    return max(chains.values(), key=len)


@functools.cache
def project_sources():
    return {
        module_name(path): path.read_text(encoding="utf-8") for path in project_files()
    }


def test_no_chain_of_imports_is_long():
    chain = longest_chain(import_graph(project_sources(), in_functions=False))
    assert len(chain) <= MOST_DEEP, " imports ".join(chain)


def test_no_import_leads_back():
    longest_chain(import_graph(project_sources(), in_functions=True))


def test_chains_and_cycles_are_found():
    sources = {
        "p": "",
        "p.a": "import p.b\nif TYPE_CHECKING:\n  from p import d",
        "p.b": "from p.c import Name",
        "p.c": "import os\ndef f():\n  from p import d",
        "p.d": "import p.a",
    }
    graph = import_graph(sources, in_functions=False)
    assert longest_chain(graph) == ["p.d", "p.a", "p.b", "p.c"]
    with pytest.raises(graphlib.CycleError):
        longest_chain(import_graph(sources, in_functions=True))


def test_every_part_of_seg_tf_has_a_level():
    found = {
        path.stem
        for path in (REPOSITORY / "seg_tf").iterdir()
        if path.suffix == ".py" or (path / "__init__.py").exists()
    }
    assert found - {"__init__"} <= set(LEVEL_OF)


@pytest.mark.parametrize(
    ("importer", "source", "reason"),
    [
        ("seg_tf.layers.a", "import seg_tf.models.b", "layers is not above models"),
        ("seg_tf.layers.a", "from seg_tf import models", "layers is not above models"),
        ("seg_tf.ops.a", "from seg_tf.layers.b import C", "ops is not above layers"),
        ("seg_tf.features", "from seg_tf import configuration", "is not above"),
        ("seg_tf.interop.a", "import seg_tf.finetuning.b", "is not above"),
        ("seg_tf.models.a", "import seg_tf.unheard_of", "has no level"),
        ("seg_tf.text.a", "from data_pipelines import b", "never imports"),
        ("seg_tf.checkpoints.a", "from seg_tf.training import b", "is not above"),
        ("seg_tf.training.a", "def f():\n  import configs.b", "never imports"),
        ("seg_tf.training.a", "import horovod.tensorflow as hvd", "only"),
        ("run_pretraining", "import horovod.tensorflow as hvd", "only"),
        ("seg_tf.models.a", "def f():\n  from horovod import b", "only"),
        ("seg_tf.doctor", "import horovod.tensorflow", "only"),
        ("seg_tf.doctor", "import absl", "where nothing is installed"),
        ("seg_tf.doctor", "from seg_tf import training", "nothing is installed"),
        ("seg_tf.text.a", "importlib.import_module('seg_tf.models')", "not above"),
        ("seg_tf.text.a", "from .. import models", "relative"),
        ("seg_tf.text.a", "from tests import sample_data", "nothing imports"),
        ("seg_tf.text.a", "import nltk", "no run-time dependency"),
        ("seg_tf.text.a", "from seg_tf import tasks", "text is not above tasks"),
        ("seg_tf.tasks.a", "import keras", "tasks do without TensorFlow"),
        ("seg_tf.tasks.a", "def f():\n  import tensorflow as tf", "do without"),
        ("seg_tf.layers.a", "import tensorflow as tf", "on any backend"),
        ("seg_tf.ops.a", "import tensorflow as tf", "on any backend"),
        ("seg_tf.ops.tensorflow_a", "import jax", "on any backend"),
        ("seg_tf.training.a", "def f():\n  import jax", "only seg_tf.training.jax_*"),
        ("seg_tf.models.a", "def f():\n  from jax import lax", "on any backend"),
        ("data_pipelines.a", "from seg_tf.layers import b", "may import only"),
        ("data_pipelines.a", "from configs import b", "never imports"),
        ("configs.a", "from seg_tf import features", "may import only"),
        ("configs.a", "import data_pipelines.b", "never imports"),
    ],
)
def test_a_wrong_import_is_found(importer, source, reason):
    (message,) = violations(importer, source)
    assert reason in message


@pytest.mark.parametrize(
    ("importer", "source"),
    [
        ("seg_tf.models.a", "from seg_tf.layers.b import C"),
        ("seg_tf.models.a", "from seg_tf.models import b"),
        ("seg_tf.training.horovod_distribution", "import horovod.tensorflow as hvd"),
        ("seg_tf.objectives.a", "import keras, keras_hub\nfrom keras import ops"),
        ("seg_tf.training.jax_a", "import jax\nfrom jax import lax"),
        ("seg_tf.ops.tensorflow_a", "import tensorflow as tf"),
        ("seg_tf.doctor", "def all_reduce():\n  import horovod.tensorflow"),
        ("seg_tf.doctor", "import json"),
        ("seg_tf.text.a", "def train():\n  import nltk"),
        ("seg_tf.tasks.a", "import sklearn.metrics\nfrom seg_tf.text import punkt"),
        ("seg_tf.text.a", "import json, tensorflow, absl.flags"),
        ("data_pipelines.a", "from seg_tf.text import tree"),
        ("configs.a", "from configs import b\nfrom seg_tf import configuration"),
        ("run_pretraining", "from seg_tf import training\nimport data_pipelines.a"),
    ],
)
def test_a_right_import_is_let_through(importer, source):
    assert not violations(importer, source)


def test_no_class_name_stands_for_two_classes():
    found = {}
    for path in project_files():
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            # Readers of formats are found by this name, each in its module.
            if isinstance(node, ast.ClassDef) and node.name != "Reader":
                found.setdefault(node.name, []).append(module_name(path))
    assert not {name: places for name, places in found.items() if len(places) > 1}
