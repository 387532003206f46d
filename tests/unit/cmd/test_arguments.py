"""The configuration of a command line, wherever its options stand."""

import pytest
from oslo_config import cfg

from cleanup_orchestrator.cmd import arguments, manage, status

COMMANDS = [(status.PROG, status._parser, ("upgrade", "check")), (manage.PROG, manage._parser, ("db", "current"))]


@pytest.mark.parametrize(("prog", "parser", "words"), COMMANDS, ids=[each[0] for each in COMMANDS])
@pytest.mark.parametrize(
    ("before", "between", "after"),
    [
        (["--config-file", "A"], [], ["--config-file", "B"]),
        (["--config-file=A"], ["--config-file", "B"], ["--config-file", "C", "--config-file", "D"]),
        (["--config-dir", "A"], [], ["--config-file", "B"]),
        ([], ["--config-dir", "A", "--config-file", "B"], []),
        (["--config-d", "A"], [], []),
        ([], [], []),
    ],
)
def test_each_option_counts_in_its_order(prog, parser, words, before, between, after):
    argv = [*before, words[0], *between, words[1], *after]
    parser().parse_args(argv)
    given = [word for word in [*before, *between, *after] if not word.startswith("--config-") or "=" in word]
    found = arguments.sources(argv)
    assert [each.partition("=")[2] for each in found] == [word.rpartition("=")[2] for word in given]
    kinds = [word[:10] for word in [*before, *between, *after] if word.startswith("--")]
    assert [each[:10] for each in found] == kinds


def test_the_arguments_of_the_process_are_the_default(monkeypatch):
    monkeypatch.setattr("sys.argv", [status.PROG, "--config-file", "A", "upgrade", "check", "--config-file", "B"])
    assert arguments.sources() == ["--config-file=A", "--config-file=B"]


def test_the_last_one_wins(tmp_path):
    """As in the services."""
    argv = []
    for name in ("first", "second"):
        path = tmp_path / f"{name}.conf"
        path.write_text(f"[DEFAULT]\nwho = {name}\nonly_{name} = yes\n")
        argv += ["--config-file", str(path), "upgrade"] if name == "first" else ["check", "--config-file", str(path)]
    conf = cfg.ConfigOpts()
    conf.register_opts([cfg.StrOpt("who"), cfg.BoolOpt("only_first"), cfg.BoolOpt("only_second")])
    conf(arguments.sources(argv), project="test")
    assert (conf.who, conf.only_first, conf.only_second) == ("second", True, True)
