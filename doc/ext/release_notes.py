"""Writes the release notes, which are files of reno below ``doc/releasenotes/notes``.

reno finds the release of each note in the history of git. A source archive has no history, and a shallow clone has only
a part of it: there, all notes are shown for the version that ``setup.cfg`` names.

``.. release-notes::`` is the only directive. It has no arguments.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml
from docutils import nodes, statemachine
from docutils.parsers.rst import Directive
from reno import config, formatter, loader
from sphinx.util.nodes import nested_parse_with_titles

ROOT = Path(__file__).parents[2]
NOTES = "doc/releasenotes"


class _Folder(loader.Loader):
    """The notes of a folder without history: all belong to one version."""

    def __init__(self, conf: config.Config, version: str) -> None:
        self._only = version
        super().__init__(conf)

    def _load_data(self) -> None:
        paths = sorted((Path(self._reporoot) / self._notespath).glob("*.yaml"))
        self._cache = {"file-contents": {str(path): yaml.safe_load(path.read_text()) for path in paths}}
        self._scanner_output = {self._only: [(str(path), "") for path in paths]}
        self._tags_to_dates = {}


class _History(loader.Loader):
    """The notes of a history. Before the first tag, reno calls the release 0.0.0."""

    def __init__(self, conf: config.Config, version: str) -> None:
        self._next = version
        super().__init__(conf)

    def _load_data(self) -> None:
        super()._load_data()
        found = self._scanner_output.items()
        self._scanner_output = {self._next if name == "0.0.0" else name: files for name, files in found}


def text(version: str, root: Path = ROOT) -> str:
    """Return the release notes as reStructuredText.

    :param version: the version of this source, for the notes that belong to no release yet
    :param root: the folder with ``doc``; it need not have a history
    """
    conf = config.Config(str(root), NOTES)
    conf.override(unreleased_version_title=version)
    history = (root / ".git").exists() and not (root / ".git" / "shallow").exists()
    with _History(conf, version) if history else _Folder(conf, version) as notes:
        return formatter.format_report(notes, conf, notes.versions, title="", show_source=False)


class ReleaseNotes(Directive):
    """``.. release-notes::``."""

    def run(self) -> list[nodes.Node]:
        env = self.state.document.settings.env
        env.note_reread()  # the page changes with each note and each tag
        found = text(env.config.release)
        result = statemachine.StringList(found.splitlines(), source="<release notes>")
        node = nodes.section()
        node.document = self.state.document
        nested_parse_with_titles(self.state, result, node)
        return node.children


def setup(app: Any) -> dict[str, Any]:
    """Connect the extension to Sphinx."""
    app.add_directive("release-notes", ReleaseNotes)
    return {"parallel_read_safe": True}
