"""A process: what it needs to start, how it stops, and what SIGHUP changes without a secret in the log."""

import logging
import signal
import sys
import threading
import types

import pytest
from oslo_config import cfg
from oslo_log import log as oslo_log

from cleanup_orchestrator import http_server, service
from cleanup_orchestrator import log as our_log
from cleanup_orchestrator.errors import CleanupError
from cleanup_orchestrator.plugins import registry
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


# ----------------------------------------------------------------------------------------------------- start and stop
class Parts:
    """The parts of a process, of which a test replaces those that it needs."""

    announcer = None

    def __init__(self, said, **values):
        self.said = said
        self.conf = types.SimpleNamespace(
            graceful_stop_timeout=0,
            worker=types.SimpleNamespace(threads=1),
            api=types.SimpleNamespace(threads=1, client_timeout=1, connections=1, host="127.0.0.1", port=0),
            metrics=types.SimpleNamespace(host="127.0.0.1", port=9),
        )
        self.transport = "transport"
        self.store = types.SimpleNamespace(close=lambda: said.append("closed"), figures=None)
        self.__dict__.update(values)

    def log_in(self):
        self.said.append("logged in")

    def health(self, *names):
        return names

    def api(self):
        return None


class Worker:
    """A worker that says what it is told."""

    hung = ()

    def __init__(self, said, **context):
        self.said = said
        budget = types.SimpleNamespace(close=lambda: None)
        self.context = types.SimpleNamespace(**{"driver": 1, "hold_options": 1, "budget": budget, **context})
        self.handle = self.force = None

    def refuse(self):
        self.said.append("refuses")

    def release_claims(self, patience):
        self.said.append(f"releases its claims within {patience:g} s")


class Broken:
    """A context in which a part cannot be made."""

    driver = hold_options = 1

    def __init__(self, part):
        self.part = part

    def __getattribute__(self, name):
        if name == object.__getattribute__(self, "part"):
            raise CleanupError(f"no {name}")
        return object.__getattribute__(self, name)


@pytest.fixture
def said():
    return []


@pytest.mark.parametrize("part", ["driver", "hold_options"])
def test_a_worker_does_not_start_if_its_driver_or_its_holds_are_not_valid(said, part):
    worker = Worker(said)
    worker.context = Broken(part)
    running = Running(Parts(said, worker=lambda: worker))
    running._serve = lambda *_: said.append("serves")
    with pytest.raises(CleanupError, match=f"no {part}"):
        running.start_worker()
    assert said == []


@pytest.mark.parametrize("part", ["worker", "api"])
def test_a_process_that_calls_keystone_does_not_start_without_a_token(said, monkeypatch, part):
    def none():
        raise CleanupError("Keystone gives no token")

    monkeypatch.setattr(http_server, "Server", lambda *_: said.append("listens"))
    running = Running(Parts(said, worker=lambda: Worker(said), log_in=none))
    running._serve = lambda *_: said.append("serves")
    with pytest.raises(CleanupError, match="no token"):
        getattr(running, f"start_{part}")()
    assert said == []


class Server:
    """A server of the bus whose work ends when a test says so."""

    def __init__(self, said):
        self.said, self.over = said, threading.Event()

    def stop(self):
        self.said.append("left")

    def wait(self):
        self.said.append("waits")
        assert self.over.wait(60)


def test_a_worker_that_stops_refuses_casts_after_it_has_left(said):
    server = Server(said)
    server.over.set()
    running = Running(Parts(said))
    running.components.conf.graceful_stop_timeout = 60
    running._servers.append(server)
    running._workers.append(Worker(said))
    assert running.close()
    assert said == ["left", "refuses", "waits", "closed"]


def test_a_worker_whose_time_is_over_releases_its_claims_and_keeps_the_database(said):
    server = Server(said)
    running = Running(Parts(said))
    running._servers.append(server)
    running._workers.append(Worker(said))
    assert not running.close()
    server.over.set()
    assert "releases its claims within 5 s" in said
    assert "closed" not in said


@pytest.mark.parametrize(
    ("names", "parts"),
    [
        ({"engine"}, {"store": True, "bus": False}),
        ({"api"}, {"store": True, "bus": False, "keystone": True}),
        ({"worker"}, {"store": True, "bus": False, "keystone": True, "steps": True}),
    ],
)
def test_the_health_of_a_process_has_what_it_needs(names, parts):
    """The broker is not needed: the tick starts the work."""
    none = lambda: None  # noqa: E731
    owner = types.SimpleNamespace(
        store=types.SimpleNamespace(ping=none), clouds=types.SimpleNamespace(check=none), broker=lambda: none
    )
    workers = [types.SimpleNamespace(sound=none)] if "worker" in names else []
    found = service.Components.health(owner, names, *workers)
    assert {result.part.name: result.part.needed for result in found.results()} == parts


def test_a_monitoring_port_that_is_in_use_is_logged_and_the_process_goes_on(said, monkeypatch, caplog):
    def in_use(*_):
        raise OSError("address already in use")

    monkeypatch.setattr(service.monitoring_server, "Server", in_use)
    running = Running(Parts(said))
    running._names.append("engine")
    running.start_monitoring()
    assert "cannot listen on 127.0.0.1 port 10, so there is no monitoring: address already in use" in caplog.text


def test_a_mistake_in_the_configuration_changes_nothing_at_sighup(said, caplog):
    def mistake():
        raise cfg.ConfigFileParseError("x.conf", "a mistake")

    running = Running(types.SimpleNamespace(conf=types.SimpleNamespace(mutate_config_files=mistake)))
    running._engines.append(types.SimpleNamespace(reread=lambda: said.append("read")))
    running.reload()
    assert said == []
    assert "SIGHUP: the configuration is not changed" in caplog.text


@pytest.fixture
def process(said, monkeypatch):
    """`service.main`, whose steps only say that they are done; a test may let one of them fail."""

    class Process(Running):
        def start_part(self):
            said.append("started")

        def start_monitoring(self):
            pass

        def wait(self, signals):
            while not signals.empty():
                said.append(signal.Signals(signals.get()).name)
            return True

        def close(self):
            said.append("stopped")

    before = signal.getsignal(signal.SIGHUP)
    monkeypatch.setattr(service, "load", lambda *_: "conf")
    monkeypatch.setattr(service, "Components", lambda *_: types.SimpleNamespace(transport="transport"))
    monkeypatch.setattr(service, "Running", Process)
    monkeypatch.setattr(service.reports, "setup", lambda *_: None)
    monkeypatch.setattr(service.rpc, "check", lambda _: said.append("reaches the broker"))
    monkeypatch.setattr(service, "gc", types.SimpleNamespace(freeze=lambda: None))
    monkeypatch.setattr(sys, "argv", ["x"])
    yield Process
    signal.signal(signal.SIGHUP, before)


def run(said, check=None):
    return service.main("prog", "x", "part", check=check or (lambda _: said.append("fits the database")))


def test_a_process_starts_when_its_database_fits_and_its_broker_answers(said, process):
    assert run(said) == 0
    assert said == ["fits the database", "reaches the broker", "started"]


def test_a_signal_to_read_the_configuration_again_is_kept_during_the_start(said, process):
    """The process may have read the file before the operator changed it."""
    assert run(said, lambda _: signal.raise_signal(signal.SIGHUP)) == 0
    assert said == ["reaches the broker", "started", "SIGHUP"]


def test_a_process_whose_database_does_not_fit_does_not_start(said, process, capsys):
    def check(_):
        raise CleanupError("the schema is of another release")

    assert run(said, check) == 1
    assert said == []
    assert capsys.readouterr().err == "prog: the schema is of another release\n"


def test_a_process_that_fails_to_start_stops_what_has_started(said, process, monkeypatch):
    def fails(_):
        raise CleanupError("no plugin")

    monkeypatch.setattr(process, "start_part", fails)
    assert run(said) == 1
    assert said == ["fits the database", "reaches the broker", "stopped"]


def test_a_process_with_a_thread_that_hangs_ends_without_waiting_for_it(said, process, monkeypatch):
    monkeypatch.setattr(process, "wait", lambda *_: False)
    monkeypatch.setattr(service.logging, "shutdown", lambda: said.append("flushed"))
    monkeypatch.setattr(service.os, "_exit", lambda code: said.append(code))
    run(said)
    assert said[-2:] == ["flushed", 0]


def test_the_catalog_knows_which_types_have_a_forced_delete():
    loaded = registry.load()
    made = service.Components.catalog.func(types.SimpleNamespace(registry=loaded, conf=None))
    forcible = {f"{name}.{facts.type}" for name, of in made._facts.items() for facts in of if facts.forcible}
    assert forcible == set(loaded.forcible())
    assert any(facts.if_abandoned for of in made._facts.values() for facts in of)
