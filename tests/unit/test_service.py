"""SIGHUP: what may change at run time is taken over, and no secret gets into a log that is set up anew."""

import logging
import types

import pytest
from oslo_config import cfg
from oslo_log import log as oslo_log

from cleanup_orchestrator import log as our_log
from cleanup_orchestrator.service import Running

LOGGING = """
[loggers]
keys = root, named
[handlers]
keys = root, named, bare
[formatters]
keys = line
[logger_root]
level = INFO
handlers = root
[logger_named]
level = INFO
qualname = cleanup_test_named
handlers = named, bare
propagate = 1
[handler_root]
class = FileHandler
args = ("{folder}/root.log",)
formatter = line
[handler_named]
class = FileHandler
args = ("{folder}/named.log",)
formatter = line
[handler_bare]
class = FileHandler
args = ("{folder}/bare.log",)
[formatter_line]
format = %(message)s{more}
"""


@pytest.fixture
def conf(tmp_path):
    made = cfg.ConfigOpts()
    our_log.register(made)
    made.register_opts([cfg.IntOpt("number", default=0, mutable=True)])
    (tmp_path / "test.conf").write_text("[DEFAULT]\nnumber = 1\n")
    return made


@pytest.fixture
def loggers():
    """Put logging back as it was."""
    root, factory = logging.getLogger(), logging.getLogRecordFactory()
    before = root.level, root.handlers[:]
    kept = {
        name: (each.level, each.handlers[:], each.propagate)
        for name, each in root.manager.loggerDict.items()
        if isinstance(each, logging.Logger)
    }
    formatters = [(h, h.formatter) for handlers in (before[1], *(k[1] for k in kept.values())) for h in handlers]
    yield
    for each in (root, logging.getLogger("cleanup_test_named")):
        for handler in set(each.handlers) - set(before[1]):
            handler.close()
            each.removeHandler(handler)
    root.setLevel(before[0])
    root.handlers = before[1]
    for name, (level, handlers, propagate) in kept.items():
        each = logging.getLogger(name)
        each.setLevel(level)
        each.handlers, each.propagate = handlers, propagate
    for handler, formatter in formatters:
        handler.setFormatter(formatter)
    logging.setLogRecordFactory(factory)


def test_what_a_thread_reads_while_the_files_are_read_does_not_stay(conf, tmp_path, monkeypatch):
    conf(["--config-file", str(tmp_path / "test.conf")], project="test")
    parse = conf._reload_config_files

    def parsing():
        assert conf.number is not None  # another thread's: it is kept in oslo.config's cache
        return parse()

    monkeypatch.setattr(conf, "_reload_config_files", parsing)
    running = Running(types.SimpleNamespace(conf=conf))
    seen = []
    running._engines.append(types.SimpleNamespace(reread=lambda: seen.append(conf.number)))
    (tmp_path / "test.conf").write_text("[DEFAULT]\nnumber = 2\n")
    with monkeypatch.context() as patch:
        said = []
        patch.setattr("cleanup_orchestrator.service.LOG.info", lambda *args: said.append(args))
        running.reload()
    assert (conf.number, seen) == (2, [2])
    assert said == [("SIGHUP: changed: %s", "[DEFAULT] number")]


def test_no_handler_of_any_logger_writes_a_secret_also_after_sighup(conf, tmp_path, monkeypatch, loggers):
    monkeypatch.setattr(oslo_log._load_log_config, "old_time", 0, raising=False)
    settings = tmp_path / "logging.conf"
    settings.write_text(LOGGING.format(folder=tmp_path, more=""))
    (tmp_path / "test.conf").write_text(f"[DEFAULT]\nlog_config_append = {settings}\n")
    conf(["--config-file", str(tmp_path / "test.conf")], project="test")
    our_log.setup(conf)
    named = logging.getLogger("cleanup_test_named")
    named.info("password=hush first")
    settings.write_text(LOGGING.format(folder=tmp_path, more=" anew"))
    monkeypatch.setattr(oslo_log._load_log_config, "old_time", 0)  # files may be written within one tick of the clock
    Running(types.SimpleNamespace(conf=conf)).reload()
    named.info("password=hush second")
    for name in ("root", "named", "bare"):
        text = (tmp_path / f"{name}.log").read_text()
        assert "hush" not in text
        assert "*** first" in text
        assert "*** second" in text
    assert "*** second anew" in (tmp_path / "named.log").read_text()
    wrapped = [handler.formatter for handler in named.handlers]
    our_log.redact_handlers()
    assert [handler.formatter for handler in named.handlers] == wrapped, "once"
