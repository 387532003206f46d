"""The exit codes of the console scripts: 2 for a wrong command line, and one line for a file that does not exist."""

import configparser
import importlib.metadata
import os
import pathlib
import subprocess
import sys

import pytest

ROOT = pathlib.Path(__file__).parents[2]
#: What a script needs before its options, and its exit code if a configuration file does not exist.
SCRIPTS = {
    "cleanup-orchestrator-all-in-one": ((), 1),
    "cleanup-orchestrator-api": ((), 1),
    "cleanup-orchestrator-engine": ((), 1),
    "cleanup-orchestrator-manage": (("db", "current"), 1),
    "cleanup-orchestrator-status": (("upgrade", "check"), 255),
    "cleanup-orchestrator-worker": ((), 1),
}


def entry_points():
    setup = configparser.ConfigParser(delimiters=("=",))
    setup.read(ROOT / "setup.cfg")
    lines = setup["options.entry_points"]["console_scripts"].strip().splitlines()
    named = (map(str.strip, line.split("=")) for line in lines)
    return {name: importlib.metadata.EntryPoint(name, value, "console_scripts") for name, value in named}


def run(script, *arguments):
    """Run a script in a process of its own."""
    point = entry_points()[script]
    program = f"import sys; from {point.module} import {point.attr} as main; sys.exit(main())"
    command = [sys.executable, "-c", program, *SCRIPTS[script][0], *arguments]
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "PYTHONWARNINGS": "ignore"}
    return subprocess.run(command, capture_output=True, text=True, cwd=ROOT, env=environment)


def test_every_script_is_tried():
    assert set(SCRIPTS) == set(entry_points())


@pytest.mark.parametrize("script", SCRIPTS)
def test_a_wrong_command_line_is_2(script, monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", [script, *SCRIPTS[script][0], "--bogus"])
    with pytest.raises(SystemExit) as ended:
        entry_points()[script].load()()
    assert ended.value.code == 2
    out, err = capsys.readouterr()
    assert out == "" and "unrecognized arguments: --bogus" in err


def test_a_process_ends_with_the_exit_code_of_its_main_function():
    assert run("cleanup-orchestrator-manage", "--bogus").returncode == 2


@pytest.mark.parametrize("script", SCRIPTS)
def test_a_configuration_file_that_does_not_exist_is_named_in_one_line(script):
    done = run(script, "--config-file", "/nonexistent/cleanup.conf")
    assert (done.returncode, done.stdout) == (SCRIPTS[script][1], "")
    (line,) = done.stderr.splitlines()
    assert line.startswith(f"{script}: ")
    assert "/nonexistent/cleanup.conf" in line
