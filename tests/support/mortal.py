"""A process that dies at a chosen effect: right before a write, to the store, the cloud or the bus, becomes real.

Between two effects nothing changes that outlives the process. So dying right before each of them is dying anywhere. The
answer to a call counts as one, too: there the call has taken effect, and nobody has used what it said.
"""

from __future__ import annotations

import functools
import multiprocessing
import os
import pathlib
import re
import signal
import types
from collections.abc import Callable
from typing import Any

import keystoneauth1.identity.v3  # noqa: F401 - so that the server of forks has it, and not each fork anew
import openstack.connection  # noqa: F401
import oslo_messaging._drivers.impl_fake
import oslo_messaging._drivers.impl_rabbit  # noqa: F401
import sqlalchemy as sa

from cleanup_orchestrator import opts, service
from cleanup_orchestrator.cloud.session import SAFE_METHODS, GuardedSession
from cleanup_orchestrator.drain import base, fence, revoke  # noqa: F401
from cleanup_orchestrator.messaging.rpc import Bus
from cleanup_orchestrator.plugins import registry
from cleanup_orchestrator.store import Store

_PROCESSES = multiprocessing.get_context("forkserver")
_PROCESSES.set_forkserver_preload([__name__, "tests.emulated.mortal"])
#: What is imported or found in the first use: once, in the server that the processes are forked of.
_WARM = (opts.list_opts(), registry.load())
_ID = re.compile(r"[0-9a-f-]{32,}")


class Fuse:
    """Counts effects, notes each in a file, and ends the process right before one of them.

    :param length: number of the effect among all, or, with `name`, among those of that name; 0: none
    """

    def __init__(self, log: pathlib.Path, length: int, name: str = "") -> None:
        self._log, self._left, self._name = log.open("w", buffering=1), length, name

    def effect(self, what: str) -> None:
        self._left -= self._name in ("", what)
        if self._left == 0 and self._name in ("", what):
            os.kill(os.getpid(), signal.SIGKILL)
        self._log.write(f"{what}\n")

    def watch_store(self, store: Store) -> None:
        """A transaction that wrote is an effect at its commit; one that does not get there is rolled back."""

        @sa.event.listens_for(store.database.engine, "begin")
        def begin(connection):
            connection.info.pop("wrote", None)

        @sa.event.listens_for(store.database.engine, "before_cursor_execute")
        def execute(connection, cursor, statement, *_):
            verb, *rest = statement.split(maxsplit=2)
            # The shares of the rate budget are asked for whenever somebody calls: they are nobody's record.
            if verb in ("INSERT", "UPDATE", "DELETE") and "account" not in statement.split("(")[0]:
                connection.info["wrote"] = " ".join([verb, *rest[: 1 if verb == "UPDATE" else 2]]).split("(")[0]

        @sa.event.listens_for(store.database.engine, "commit")
        def commit(connection):
            if what := connection.info.get("wrote"):
                self.effect(f"store: {what}")

    def watch_calls(self, answers: bool = False) -> None:
        """Every write call is one before it leaves; and, with `answers`, one more when it is answered."""
        request = GuardedSession.request

        def watched(session, url, method, **kwargs):
            authenticating = kwargs.get("authenticated") is False
            if method.upper() in SAFE_METHODS or authenticating:
                return request(session, url, method, **kwargs)
            to = (kwargs.get("endpoint_filter") or {}).get("service_type", "")
            what = f"{to}: {method} {_ID.sub('*', url.partition('?')[0])}"
            self.effect(what)
            answer = request(session, url, method, **kwargs)
            if answers:
                self.effect(f"{what} -> {answer.status_code}")
            return answer

        GuardedSession.request = watched

    def watch_bus(self, bus: Bus) -> Bus:
        """Every cast is one."""

        def cast(to, id_):
            self.effect(f"bus: {to}")
            getattr(bus, to)(id_)

        names = ("step", "deletion", "orphan_scan", "orphan_scan_part")
        return types.SimpleNamespace(**{name: functools.partial(cast, name) for name in names})


def run(
    does: Callable[..., None], config: pathlib.Path, *arguments: Any, die_before: int = 0, name: str = ""
) -> tuple[bool, list[str]]:
    """Call `does(config, fuse, *arguments)` in a process of its own.

    :param does: of a module, for it is looked up by name
    :param die_before: number of the effect; 0: none
    :param name: of the effects that are counted; empty: all
    :returns: whether it came to its end, and the effects
    """
    log = config.with_name("effects")
    process = _PROCESSES.Process(target=_call, args=(does, config, log, (die_before, name), arguments))
    process.start()
    process.join()
    assert process.exitcode in (0, -signal.SIGKILL), process.exitcode
    return process.exitcode == 0, log.read_text().splitlines()


def _call(
    does: Callable[..., None], config: pathlib.Path, log: pathlib.Path, die_before: tuple[int, str], arguments: Any
) -> None:
    does(config, Fuse(log, *die_before), *arguments)


def parts(config: pathlib.Path, fuse: Fuse, bus: Bus, answers: bool = False) -> service.Parts:
    """What an orchestrator consists of, with the fuse in it. It does not wait: that has tests of its own."""
    made = service.Parts(service.load(["--config-file", str(config)]), in_process=True)
    base.time = fence.time = types.SimpleNamespace(sleep=lambda _: None)
    base.PROBES = fence.PROBES = 1
    made.log_in()
    fuse.watch_store(made.store)
    fuse.watch_calls(answers)
    made.bus = fuse.watch_bus(bus)
    return made
