"""The site of the documents: `make docs`.

Its source folder is the repository, so that links between pages are the same here and
on a code host. Pages are Markdown (MyST); the reference is made of docstrings in
Google's form. Nothing that a page loads comes from another host.
"""

import os
import pathlib
import shutil
import sys

from sphinx.application import Sphinx
from sphinx.util.inspect import signature, stringify_signature

SITE = pathlib.Path(__file__).resolve().parent
REPOSITORY = SITE.parent.parent
sys.path[:0] = [str(REPOSITORY), str(SITE)]
# TensorFlow's messages at its start.
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

project = "seg_tf"
author = copyright = "the authors of seg_tf"

extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.napoleon",
    "command_help",
    "docstring_code",
]
root_doc = "README"
include_patterns = ["*.md", "docs/**.md", "requirements/*.md", "third_party/**.md"]
exclude_patterns = [".*", "build", "docs/site"]

# Anchors of headings, as code hosts make them.
myst_heading_anchors = 4

default_role = "literal"
autodoc_default_options = {"members": True, "inherited-members": "tuple,Exception"}
autodoc_inherit_docstrings = False
autodoc_member_order = "bysource"
autodoc_preserve_defaults = True
autodoc_typehints_format = "short"
python_use_unqualified_type_names = True
python_maximum_signature_line_length = 88
toc_object_entries_show_parents = "hide"
napoleon_custom_sections = [
    ("Call arguments", "params_style"),
    ("Outputs", "params_style"),
    ("Signatures", "params_style"),
]
napoleon_use_ivar = True
napoleon_use_rtype = False

html_theme = "furo"
html_title = "seg_tf"
html_copy_source = False


def _append_navigation(app: Sphinx, name: str, source: list[str]) -> None:
    """Gives the home page the table of contents, which every page shows at its side."""
    if name == root_doc:
        source[0] += (SITE / "navigation.md").read_text(encoding="utf-8")


def _copy_home_page(app: Sphinx, error: Exception | None) -> None:
    """Makes the README the page of the site's root."""
    if error is None and app.builder.name == "html":
        shutil.copyfile(app.outdir / "README.html", app.outdir / "index.html")


def _skip_foreign(
    app: Sphinx, kind: str, name: str, member: object, skip: bool, options: object
) -> bool | None:
    """Leaves out what classes inherit from those of Python, TensorFlow and Keras."""
    function = member.fget if isinstance(member, property) else member
    module = getattr(function, "__module__", None) or "seg_tf"
    # None lets autodoc decide.
    return None if module.split(".")[0] in ("seg_tf", "data_pipelines") else True


def _sign_keras_class(
    app: Sphinx, kind: str, name: str, value: type, options: object, *shown: str | None
) -> tuple[str, str] | None:
    """Shows the arguments of `__init__` where Keras's `__new__` hides them."""
    if kind != "class" or shown[0] != "(*args, **kwargs)":
        return None
    arguments = signature(value.__init__, bound_method=True)
    text = stringify_signature(
        arguments, show_return_annotation=False, unqualified_typehints=True
    )
    return text, ""


def setup(app: Sphinx) -> None:
    app.connect("source-read", _append_navigation)
    app.connect("autodoc-skip-member", _skip_foreign)
    app.connect("autodoc-process-signature", _sign_keras_class)
    app.connect("build-finished", _copy_home_page)
