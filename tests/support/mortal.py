"""Kills a process right before a chosen effect.

An effect is a write that outlives the process: to the store, the cloud or the bus. Between two effects nothing changes
that outlives the process, so a process that is killed right before each effect in turn is killed at every point that
makes a difference. The answer to a call counts as an effect, too: the call has taken effect, and the process has not
used the answer.
"""

from __future__ import annotations

import multiprocessing
import os
import pathlib
import re
import signal
import time
import types
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import keystoneauth1.identity.v3  # noqa: F401 - the fork server imports it once for all forks
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
#: Imports and lists what the first use needs: once, in the fork server.
_WARM = (opts.list_opts(), registry.load())
_ID = re.compile(r"[0-9a-f-]{32,}")


class Fuse:
    """Counts effects, writes each to a file, and kills the process right before one of them.

    :param length: the number of the effect among all, or, with `name`, among those of that name; 0: none
    """

    def __init__(self, log: pathlib.Path, length: int, name: str = "") -> None:
        self._log, self._left, self._name = log.open("w", buffering=1), length, name

    def effect(self, what: str) -> None:
        """Count an effect; kill the process if it is the chosen one."""
        self._left -= self._name in ("", what)
        if self._left == 0 and self._name in ("", what):
            os.kill(os.getpid(), signal.SIGKILL)
        self._log.write(f"{what}\n")

    def watch_store(self, store: Store) -> None:
        """Count each commit of a transaction that wrote: without the commit it is rolled back."""

        @sa.event.listens_for(store.database.engine, "begin")
        def begin(connection: sa.Connection) -> None:
            connection.info.pop("wrote", None)

        @sa.event.listens_for(store.database.engine, "before_cursor_execute")
        def execute(connection: sa.Connection, cursor: object, statement: str, *_: object) -> None:
            verb, *rest = statement.split(maxsplit=2)
            # The rate limiter writes its rate limits whenever a call needs a permit; no deletion depends on them.
            if verb in ("INSERT", "UPDATE", "DELETE") and "rate_limit" not in statement.split("(")[0]:
                connection.info["wrote"] = " ".join([verb, *rest[: 1 if verb == "UPDATE" else 2]]).split("(")[0]

        @sa.event.listens_for(store.database.engine, "commit")
        def commit(connection: sa.Connection) -> None:
            if what := connection.info.get("wrote"):
                self.effect(f"store: {what}")

    def watch_calls(self, answers: bool = False) -> None:
        """Count each write call before it is sent and, with `answers`, again when it is answered."""
        request = GuardedSession.request

        def watched(session: GuardedSession, /, url: str, method: str, **kwargs: Any) -> Any:
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

        GuardedSession.request = watched  # type: ignore[method-assign,assignment] # for all sessions of this process

    def watch_bus(self, bus: Bus) -> Bus:
        """Count each cast."""
        return _WatchedBus(bus, self)


class _WatchedBus(Bus):
    """Counts a cast and passes it on."""

    def __init__(self, bus: Bus, fuse: Fuse) -> None:
        self._bus, self._fuse = bus, fuse

    def decide(self, id_: str) -> None:
        self._fuse.effect("bus: decide")
        self._bus.decide(id_)

    def steps(self, ids: Sequence[str]) -> None:
        self._fuse.effect("bus: steps")
        self._bus.steps(ids)

    def force(self, id_: str) -> Mapping[str, str] | None:
        return self._bus.force(id_)


def run(
    does: Callable[..., None], config: pathlib.Path, *arguments: Any, die_before: int = 0, name: str = ""
) -> tuple[bool, list[str]]:
    """Call `does(config, fuse, *arguments)` in a new process.

    :param does: a function of a module: the process finds it by its name
    :param die_before: the number of the effect; 0: none
    :param name: the name of the effects that are counted; empty: all
    :returns: whether the function returned, and the effects
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


def parts(config: pathlib.Path, fuse: Fuse, bus: Bus, answers: bool = False) -> service.Components:
    """Return the parts of an orchestrator with the fuse in them. The drain does not wait: other tests check that."""
    made = service.Components(service.load(["--config-file", str(config)]), in_process=True)
    for module in (base, fence):
        vars(module).update(time=types.SimpleNamespace(sleep=lambda _: None, monotonic=time.monotonic), PROBES=1)
    made.log_in()
    fuse.watch_store(made.store)
    fuse.watch_calls(answers)
    made.bus = fuse.watch_bus(bus)
    return made
