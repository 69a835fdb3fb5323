"""The site of the documents: built without a warning, complete, and from one host."""

import html.parser
import inspect
import pathlib
import pydoc
import re
import subprocess
import sys
import urllib.parse
import zlib

import pytest

import seg_tf
from seg_tf import command_table, config, finetuning, tasks
from tests.conformance.test_conformance import public_layers

pytestmark = pytest.mark.slow

REPOSITORY = pathlib.Path(__file__).resolve().parent.parent
# Attributes of HTML that make a browser load something.
LOADED = {"src", "srcset", "poster", "data"}


@pytest.fixture(name="site", scope="module")
def _site(tmp_path_factory):
    site = tmp_path_factory.mktemp("site") / "site"
    variables = [f"RUN={sys.executable}", f"SITE={site}"]
    built = subprocess.run(
        ["make", "--old-file=setup-dev", "docs", *variables],
        cwd=REPOSITORY,
        capture_output=True,
        text=True,
    )
    assert built.returncode == 0, built.stderr
    return site


def documented_objects(site):
    """Names of the reference's classes and functions, and what they name."""
    content = (site / "objects.inv").read_bytes().split(b"\n", 4)[4]
    lines = zlib.decompress(content).decode().splitlines()
    names = [line.split()[0] for line in lines if re.search(" py:(class|func)", line)]
    return {name: pydoc.locate(name) for name in names}


def test_the_reference_has_every_public_class_and_function(site):
    documented = documented_objects(site)
    assert all(documented.values())
    public = [
        getattr(package, name)
        for package in (seg_tf, finetuning)
        for name in package.__all__
    ]
    public += [
        value
        for package in (config, tasks)
        for value in vars(package).values()
        if inspect.isclass(value) or inspect.isfunction(value)
    ]
    known = set(documented.values())
    missing = {one for one in [*public, *public_layers()] if one not in known}
    # A function that checks an argument.
    assert missing == {tasks.check_choice}


class Loads(html.parser.HTMLParser):
    """Collects the addresses that a page loads, and those that it links to."""

    def __init__(self):
        super().__init__()
        self.loaded, self.links = [], []

    def handle_starttag(self, tag, attrs):
        for name, value in attrs:
            if name in LOADED or (tag, name) == ("link", "href"):
                self.loaded.append(value)
            elif (tag, name) == ("a", "href"):
                self.links.append(value)


def read_page(path):
    page = Loads()
    page.feed(path.read_text(encoding="utf-8"))
    return page


def test_pages_load_files_of_the_site_alone(site):
    for path in site.rglob("*.html"):
        page = read_page(path)
        assert page.loaded
        for address in page.loaded:
            file = urllib.parse.urlsplit(address)
            assert (file.scheme, file.netloc) == ("", ""), f"{path.name}: {address}"
            assert (path.parent / urllib.parse.unquote(file.path)).exists(), address
    for path in site.rglob("*.css"):
        text = path.read_text(encoding="utf-8")
        assert not re.search(r"@import|url\(['\"]?(https?:)?//", text), path.name
    for path in site.rglob("*.js"):
        text = path.read_text(encoding="utf-8")
        code = re.sub(r"/\*.*?\*/|^\s*//.*?$", "", text, flags=re.DOTALL | re.MULTILINE)
        # Names of elements' kinds are addresses as well.
        assert not re.search(r"https?://(?!www\.w3\.org/)", code), path.name


def test_the_home_page_is_the_readme_and_leads_to_all_documents(site):
    links = {
        urllib.parse.urldefrag(one).url for one in read_page(site / "index.html").links
    }
    documents = [
        *REPOSITORY.glob("*.md"),
        *REPOSITORY.glob("docs/*.md"),
        *REPOSITORY.glob("docs/reference/*.md"),
    ]
    for path in documents:
        page = path.relative_to(REPOSITORY).with_suffix(".html").as_posix()
        assert page in links | {"README.html"}


def test_sections_of_docstrings_are_lists(site):
    text = (site / "docs/reference/models.html").read_text(encoding="utf-8")
    _, _, text = text.partition('id="seg_tf.layers.transformer_xl.SegmentRelative')
    text, *_ = text.partition('id="seg_tf.layers.transformer_xl.RelativePositions')
    assert "num_heads" in re.search("<em class=.*?Relative multi-head", text, re.S)[0]
    for field, arguments in {
        "Parameters": ("head_size", "dropout"),
        "Call arguments": ("memory", "content_bias"),
    }.items():
        (items,) = re.findall(rf"{field}<.*?</ul>", text, re.DOTALL)
        assert all(f"<strong>{one}</strong>" in items for one in arguments)
    formula = "(W_q E_i + u)^T W_k E_j + (W_q E_i + v)^T W_R R_ij"
    blocks = re.findall("<pre>(.*?)</pre>", text, re.DOTALL)
    assert formula in [re.sub("<[^>]*>", "", one).strip() for one in blocks]


def test_every_command_has_its_flags_and_no_folder_of_this_machine(site):
    text = (site / "docs/reference/commands.html").read_text(encoding="utf-8")
    names = list(command_table.MODULES)
    for name in names:
        assert f'<section id="{name}">' in text
    blocks = re.findall("<pre><span></span>(.*?)</pre>", text, re.DOTALL)
    assert len(blocks) == len(names)
    without_flags = [one for one in blocks if "\nflags:\n" not in one]
    # The lists of configs and of tasks.
    assert [one.split()[0] for one in without_flags] == ["Lists", "Lists"]
    for path in site.rglob("*.html"):
        assert str(REPOSITORY) not in path.read_text(encoding="utf-8"), path.name
