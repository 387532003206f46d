"""The manual builds from a source archive, loads nothing from another host, and has what the code declares."""

import configparser
import html.parser
import importlib.util
import os
import pathlib
import re
import shutil
import subprocess
import sys

import pytest

from cleanup_orchestrator import opts
from cleanup_orchestrator.api import policy_rules
from cleanup_orchestrator.core import transitions
from cleanup_orchestrator.core.deletion import Status
from cleanup_orchestrator.keystone import options as keystone_options

ROOT = pathlib.Path(__file__).parents[2]
EXTENSIONS = ROOT / "doc" / "ext"


@pytest.fixture(scope="module", autouse=True)
def sphinx():
    """Skip without the packages of the extra `docs`. Where CI is set, fail: CI must not skip a test silently."""
    missing = [name for name in ("sphinx", "furo", "reno") if importlib.util.find_spec(name) is None]
    if missing:
        (pytest.fail if os.environ.get("CI") else pytest.skip)(f"not installed: {', '.join(missing)}")


@pytest.fixture(scope="module")
def archive(tmp_path_factory):
    """What the build needs, without a history, as in a source archive."""
    root = tmp_path_factory.mktemp("manual") / "source"
    shutil.copytree(ROOT / "doc", root / "doc", ignore=shutil.ignore_patterns("build", "services", "__pycache__"))
    shutil.copytree(ROOT / "etc", root / "etc")
    shutil.copy(ROOT / "setup.cfg", root)
    return root


@pytest.fixture(scope="module")
def manual(archive):
    """The folder of the built pages. A warning of Sphinx is an error."""
    out = archive / "html"
    command = [
        sys.executable,
        "-m",
        "sphinx",
        "-W",
        "--keep-going",
        "-q",
        "-b",
        "html",
        archive / "doc" / "source",
        out,
    ]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(map(str, (ROOT, *sys.path)))}
    done = subprocess.run(command, cwd=archive, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    return out


class Page(html.parser.HTMLParser):
    """Collects what a browser loads for a page, the targets of its forms, and its IDs."""

    LOADED = {
        ("script", "src"), ("link", "href"), ("img", "src"), ("img", "srcset"), ("iframe", "src"), ("object", "data"),
        ("embed", "src"), ("source", "src"), ("source", "srcset"), ("video", "src"), ("audio", "src"),
        ("image", "href"), ("use", "href"), ("form", "action"), ("base", "href"),
    }  # fmt: skip

    def __init__(self, text):
        super().__init__()
        self.loaded, self.ids, self.text = [], set(), []
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        for name, value in attributes:
            if (tag, name) in self.LOADED:
                self.loaded.append(value or "")
            if name == "style":
                self.loaded += in_style(value or "")
            if name == "id":
                self.ids.add(value)

    def handle_data(self, data):
        self.text.append(data)


def in_style(text):
    """Return what a style sheet loads."""
    return re.findall(r"url\(\s*[\"']?([^\"')]+)", text) + re.findall(r"@import\s+[\"']([^\"']+)", text)


def elsewhere(address):
    return re.match(r"([a-z+]+:)?//", address.strip(), re.IGNORECASE) is not None


@pytest.fixture(scope="module")
def pages(manual):
    return {str(path.relative_to(manual)): Page(path.read_text()) for path in manual.rglob("*.html")}


@pytest.mark.slow
def test_no_page_loads_or_sends_anything_elsewhere(pages):
    assert len(pages) > 40
    assert {name: page.loaded for name, page in pages.items() if any(map(elsewhere, page.loaded))} == {}
    assert "search.html" in pages["index.html"].loaded  # the search is a page of the manual


@pytest.mark.slow
def test_no_style_loads_anything_elsewhere(manual, pages):
    found = {str(path): in_style(path.read_text()) for path in manual.rglob("*.css")}
    assert found
    assert {name: list(filter(elsewhere, urls)) for name, urls in found.items() if any(map(elsewhere, urls))} == {}


@pytest.mark.slow
def test_no_script_names_another_host(manual):
    """Names of XML languages are no addresses. No script is inside of a page except those that set the theme."""
    addresses = set()
    for path in [*manual.rglob("*.js"), *manual.rglob("*.html")]:
        text = path.read_text()
        scripts = [text] if path.suffix == ".js" else re.findall(r"<script[^>]*>(.*?)</script>", text, re.DOTALL)
        if path.name != "searchindex.js":
            addresses |= {found for script in scripts for found in re.findall(r"[\"'`](?:https?:)?//([\w.-]+)", script)}
    assert addresses <= {"www.w3.org"}


def test_what_another_host_serves_is_seen():
    page = Page(
        '<script src="https://example.com/t.js"></script><link rel="stylesheet" href="//example.com/f.css">'
        '<p style="background: url(http://example.com/p.png)">'
    )
    assert len(page.loaded) == 3
    assert all(map(elsewhere, page.loaded))
    assert not any(map(elsewhere, ("_static/a.css", "#top", "search.html", "data:image/png;base64,AA==")))
    assert in_style('@import "//example.com/a.css"; a { background: url(b.png) }') == ["b.png", "//example.com/a.css"]


def picture(manual, page, name):
    found = re.findall(rf'<svg[^>]*aria-labelledby="{name}-title".*?</svg>', (manual / page).read_text(), re.DOTALL)
    assert len(found) == 1
    return found[0]


@pytest.mark.slow
def test_the_picture_of_the_statuses_has_each_status_and_each_move(manual):
    svg = picture(manual, "concepts.html", "states")
    boxes = re.findall(r'rx="6"/><text [^>]*><tspan [^>]*>(\w+)</tspan>', svg)
    assert sorted(boxes) == sorted(Status)
    legend = 2
    assert svg.count('<path class="arrow ') == len(transitions.MOVES) + legend


@pytest.mark.slow
def test_the_usual_way_has_each_status_in_its_order(manual):
    boxes = re.findall(r'rx="6"/><text [^>]*><tspan [^>]*>(\w+)</tspan>', picture(manual, "concepts.html", "usual"))
    assert boxes == list(transitions.ORDER)


@pytest.mark.slow
def test_every_picture_can_be_read_on_a_phone(manual, extension):
    widths = [
        (path.name, float(width))
        for path in manual.rglob("*.html")
        for width in re.findall(r'class="picture"><svg [^>]*viewBox="0 0 ([\d.]+) ', path.read_text())
    ]
    assert len(widths) >= 6
    assert [each for each in widths if each[1] > extension("pictures").WIDEST] == []


@pytest.mark.slow
def test_no_page_has_two_lists_of_its_sections(manual):
    listed = re.compile('<(nav|div) class="contents')
    doubled = [path.name for path in manual.rglob("*.html") if listed.search(path.read_text())]
    assert doubled == []


@pytest.mark.parametrize(("page", "name"), [("index.html", "parts"), ("contributor/architecture.html", "rooms")])
@pytest.mark.slow
def test_a_picture_of_boxes_is_in_its_page(manual, page, name):
    assert picture(manual, page, name).count("<rect ") >= 7


@pytest.mark.slow
def test_every_option_has_its_place_in_the_reference(pages):
    page = pages["reference/options.html"]
    declared = [*opts.list_opts(), *keystone_options.list_opts()]
    names = [f"{group}.{option.name}" for group, options in declared for option in options]
    assert len(names) > 80
    assert {name for name in names if name.replace("-", "_") not in {i.replace("-", "_") for i in page.ids}} == set()


@pytest.mark.slow
def test_every_policy_rule_is_in_the_reference(pages):
    text = "".join(pages["reference/policy.html"].text)
    assert [rule.name for rule in policy_rules.list_rules() if rule.name not in text] == []


@pytest.mark.slow
def test_the_release_notes_of_an_archive_are_those_of_its_version(manual):
    text = (manual / "release-notes.html").read_text()
    setup = configparser.ConfigParser()
    setup.read(ROOT / "setup.cfg")
    assert re.findall(r"<h2>(.*?)<a", text) == [setup["metadata"]["version"]]
    assert "This is the first release." in text


@pytest.fixture
def extension(monkeypatch):
    """Import a module of doc/ext."""
    monkeypatch.syspath_prepend(EXTENSIONS)
    return importlib.import_module


def test_the_release_notes_of_a_checkout_are_those_of_its_history(extension, archive, tmp_path):
    def git(*arguments):
        who = ("-c", "user.name=tester", "-c", "user.email=tester@example.com")
        subprocess.run(["git", *who, *arguments], cwd=tmp_path, check=True, capture_output=True)

    def headings():
        return re.findall(r"^([0-9.]+)\n=+$", extension("release_notes").text("9.9.9", tmp_path), re.MULTILINE)

    shutil.copytree(archive / "doc" / "releasenotes", tmp_path / "doc" / "releasenotes")
    git("init", "-q")
    git("add", ".")
    git("commit", "-q", "-m", "first")
    assert headings() == ["9.9.9"]
    git("tag", "0.1.0")
    assert headings() == ["0.1.0"]
    note = tmp_path / "doc" / "releasenotes" / "notes" / "second-0123456789abcdef.yaml"
    note.write_text("---\nfixes:\n  - A defect.\n")
    git("add", ".")
    git("commit", "-q", "-m", "second")
    assert headings() == ["9.9.9", "0.1.0"]


def test_the_release_notes_of_a_shallow_clone_are_those_of_its_version(extension, archive, tmp_path):
    shutil.copytree(archive / "doc" / "releasenotes", tmp_path / "doc" / "releasenotes")
    (tmp_path / ".git").mkdir()
    (tmp_path / ".git" / "shallow").touch()
    text = extension("release_notes").text("9.9.9", tmp_path)
    assert "\n9.9.9\n=====\n" in text
    assert "This is the first release." in text


def test_the_notes_are_valid(extension):
    from reno import config
    from reno.linter import lint_cmd

    conf = config.Config(str(ROOT), "doc/releasenotes")
    assert lint_cmd(None, conf) == 0


def test_a_status_without_a_place_is_an_error(extension, monkeypatch):
    pictures = extension("pictures")
    monkeypatch.delitem(pictures._SIDES, Status.FAILED)
    with pytest.raises(pictures.PictureError, match="failed"):
        pictures.states()


@pytest.mark.parametrize(
    ("draw", "line", "said"),
    [
        ("boxes", "a -> b", "there is no box a, b"),
        ("boxes", "a (1): text", "neither a box nor an arrow"),
        ("usual", "accepted: text", "the lines have to be accepted, draining, "),
        ("boxes", "a (9, 0): text", "the limit"),
        ("sequence", "a -> b: text", "there is no participant a, b"),
        ("sequence", "nothing", "neither a participant"),
    ],
)
def test_a_line_that_cannot_be_drawn_is_an_error(draw, line, said, extension):
    pictures = extension("pictures")
    with pytest.raises(pictures.PictureError, match=said):
        getattr(pictures, draw)("name", "title", [line])


def test_text_in_a_picture_is_text(extension):
    svg = extension("pictures").boxes("name", "a < b", ["one (0, 0): <script>"])
    assert "<script>" not in svg
    assert "&lt;script&gt;" in svg
    assert "a &lt; b" in svg
