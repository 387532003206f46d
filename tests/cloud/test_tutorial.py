"""The commands of the tutorial do what the page says, from the start of the cloud to the record of the deletion.

In the same cloud the commands of the page about offboarding do what that page says.
"""

import json
import os
import pathlib
import re
import shlex
import subprocess
import sys
import time
import urllib.error
import urllib.request

import pytest

from tests.cloud.conftest import free_port_base
from tests.cloud.processes import RUNNER

pytestmark = pytest.mark.real

ROOT = pathlib.Path(__file__).parents[2]
PAGE = (ROOT / "doc" / "source" / "tutorial.rst").read_text()
OFFBOARDING = (ROOT / "doc" / "source" / "admin" / "offboarding.rst").read_text()
#: What the environment of the tests replaces: the checkout and the installation.
PREPARED = ("git clone", "cd ", "python3 -m venv", ". ", "pip install", "rm -r")
#: Commands that do not end with exit code 0, and the code that the page names.
CODES = {
    "cleanup-orchestrator-status": 1,
    "openstack project delete --async --wait trial": 1,
    "openstack project delete --async --cascade leaver": 1,
    "openstack project show leaver": 1,
}
#: Words of a page that stand for what an earlier command printed: the command that prints it, run right before.
ASKED = {
    "LIEN": "openstack project deletion lien list --project leaver -f value -c ID",
    "PLAN": "openstack project deletion list --project leaver --limit 1 -f value -c ID",
    "HASH": "openstack project deletion plan show -f value -c hash PLAN",
}
DEADLINE = 300  #: seconds until a process has to answer


def block(language, page=PAGE):
    """Return the text of all blocks of a language."""
    found = re.findall(rf"^\.\. code-block:: {language}\n\n((?:   .*\n|\n)+)", page, re.MULTILINE)
    return [re.sub(r"^   ", "", text, flags=re.MULTILINE) for text in found]


def commands(page=PAGE):
    return [line[2:] for text in block("console", page) for line in text.splitlines() if line.startswith("$ ")]


class Reader:
    """Runs the commands of the page in the order of the page."""

    def __init__(self, directory, venv):
        self.directory, self.venv = directory, venv
        self.ports = free_port_base()
        self.environment = {key: value for key, value in os.environ.items() if not key.startswith("OS_")}
        self.environment["PATH"] = f"{pathlib.Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
        self.background, self.outputs, self.id, self.known = [], {}, "", {}

    def here(self, text):
        """Return a text of the page with the folder and the ports of this test."""
        text = text.replace("/tmp/tutorial", str(self.directory))
        text = text.replace("127.0.0.1:15000", f"127.0.0.1:{self.ports}")
        return text.replace("127.0.0.1:8790", f"127.0.0.1:{self.ports + 30}")

    def configure(self):
        """Write the configuration of the page, and the port, which the page leaves at its default."""
        (text,) = block("ini")
        (self.directory / "cleanup-orchestrator.conf").write_text(
            self.here(text) + f"[api]\nport = {self.ports + 30}\n"
        )

    def start(self, name, command, ready):
        """Start a command that runs until Ctrl-C, and wait until it is ready."""
        log = self.directory / f"{name}.log"
        line = [sys.executable, str(RUNNER), "--parent", str(os.getpid()), "exec", "--", *shlex.split(command)]
        with log.open("w") as out:
            child = subprocess.Popen(line, cwd=ROOT, env=self.environment, stdout=out, stderr=subprocess.STDOUT)
        self.background.append(child)
        deadline = time.monotonic() + DEADLINE
        while not ready(log):
            assert child.poll() is None, log.read_text()
            assert time.monotonic() < deadline, log.read_text()
            time.sleep(0.2)

    def api_answers(self, log):
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self.ports + 30}/", timeout=5) as response:
                return response.status == 200
        except (urllib.error.URLError, OSError):
            return False

    def fill_in(self, command):
        """Return a command with what its words in capitals stand for. What is known from before does not change."""
        for word in re.findall(rf"\b(?:{'|'.join(ASKED)})\b", command):
            if word not in self.known:
                asked = self.fill_in(ASKED[word])
                self.run(asked)
                self.known[word] = self.outputs[asked].split()[0]
            command = re.sub(rf"\b{word}\b", self.known[word], command)
        return command

    def run(self, command):
        """Run one command of the page, and check its exit code."""
        page, command = command, self.fill_in(command)
        command = re.sub(r"(show|events) ID$", rf"\1 {self.id}", self.here(command))
        launcher = f"{command} --venv {self.venv} --port-base {self.ports}"
        if command.startswith("export "):
            self.environment |= dict(word.split("=", 1) for word in shlex.split(command)[1:])
        elif "tests.cloud.launcher up " in command:
            self.start("cloud", launcher, lambda log: "Ctrl-C stops it" in log.read_text())
        elif command.startswith("cleanup-orchestrator-all-in-one"):
            self.start("orchestrator", command, self.api_answers)
        else:
            done = subprocess.run(
                shlex.split(launcher if "tests.cloud.launcher" in command else command),
                cwd=ROOT,
                env=self.environment,
                capture_output=True,
                text=True,
            )
            wanted = next((code for start, code in CODES.items() if page.startswith(start)), 0)
            assert done.returncode == wanted, f"{page}\n{done.stdout}{done.stderr}"
            self.outputs[page] = done.stdout + done.stderr
            if page.endswith("-f value -c ID"):
                self.id = done.stdout.split()[0]

    def stop(self):
        for child in reversed(self.background):
            child.terminate()
            child.wait(60)


@pytest.fixture(scope="module")
def reader(cloud_venv, tmp_path_factory):
    """A reader who has run every command of the page."""
    made = Reader(tmp_path_factory.mktemp("tutorial"), cloud_venv)
    made.configure()
    try:
        for command in commands():
            if not command.startswith(PREPARED):
                made.run(command)
        yield made
    finally:
        made.stop()


def test_every_service_is_supported(reader):
    answered = reader.outputs["openstack project deletion service list"]
    assert "plugin" in answered
    assert "nothing_to_own" in answered
    assert "unsupported" not in answered


def test_the_report_finds_what_the_page_shows(reader):
    report = " ".join(reader.outputs["openstack project delete --async --wait trial"].split())
    rows = re.findall(r"^      (\| RegionOne .*\|)$", PAGE, re.MULTILINE)
    assert len(rows) == 5
    assert [row for row in rows if " ".join(row.split()) not in report] == []


def test_the_cascade_deletes_the_project(reader):
    assert "deleted" in reader.outputs["openstack project delete --async --cascade --wait trial"]
    shown = reader.outputs["openstack project deletion show ID"]
    assert re.search(r"\| status +\| deleted ", shown)
    assert "from verifying to deleted" in reader.outputs["openstack project deletion events ID"]


def test_nothing_is_left(reader):
    for command in ("openstack project list -f value -c Name", "openstack network list -f value -c Name"):
        reader.run(command)
        assert "trial" not in reader.outputs[command]


@pytest.fixture(scope="module")
def offboarded(reader):
    """The reader of the tutorial, who has then run every command of the page about offboarding."""
    for command in commands(OFFBOARDING):
        reader.run(command)
    return reader


def test_the_lien_refuses_the_request_with_the_words_of_the_page(offboarded):
    refused = offboarded.outputs["openstack project delete --async --cascade leaver"]
    (block,) = re.findall(r"^    (Cannot delete project 'leaver': protected by lien) ", OFFBOARDING, re.MULTILINE)
    assert refused.startswith(block)
    assert "the last invoice is open" in refused


def test_the_plan_is_complete_and_lists_what_was_made(offboarded):
    assert "INCOMPLETE" not in offboarded.outputs["openstack project delete --async --cascade --dry-run --wait leaver"]
    planned = offboarded.outputs["openstack project deletion plan resources --action delete PLAN"]
    assert [name for name in ("leaver-net", "leaver-subnet", "leaver-files") if name not in planned] == []


def test_the_evidence_says_that_nothing_is_left(offboarded):
    assert json.loads(offboarded.outputs["openstack project deletion show -f json leaver"])["status"] == "deleted"
    assert json.loads(offboarded.outputs["openstack project deletion leftovers -f json leaver"]) == []
    events = json.loads(offboarded.outputs["openstack project deletion events -f json leaver"])
    assert "deletion.deleted" in {event["Type"] for event in events}
