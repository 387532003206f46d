"""The orchestrator over an emulated cloud: engine and workers in this process, the store in a SQLite file."""

from __future__ import annotations

import dataclasses
import datetime
import pathlib
import time
import uuid
from collections.abc import Iterable, Mapping

from cleanup_orchestrator import service
from cleanup_orchestrator.core.blockers import blockers
from cleanup_orchestrator.core.deletion import Deletion, Mode, Status
from cleanup_orchestrator.core.journal import Event
from cleanup_orchestrator.core.selection import EVERYTHING, Selection
from cleanup_orchestrator.core.step import TASKS
from cleanup_orchestrator.core.transitions import LIVE
from tests.emulated.cloud import OWN_PROJECT, USER, Emulated
from tests.support.databases import copy_schema

#: Values that make a test fast and are too small for a cloud.
OPTIONS: Mapping[str, Mapping[str, object]] = {
    "orchestrator": {
        "auth_type": "password",
        "username": USER,
        "password": USER,
        "project_name": OWN_PROJECT,
        "user_domain_id": "default",
        "project_domain_id": "default",
        "interface": "public",
        "call_timeout": 10,
    },
    "drain": {"driver": "fence", "token_cache_time": 1},
    "engine": {"tick": 0.2, "retry_base": 0.1, "retry_cap": 1},
    "service_image": {"delete_shared_images": "true"},
}


def configuration(directory: pathlib.Path, auth_url: str, **options: Mapping[str, object]) -> pathlib.Path:
    """Write a configuration file; `options` override `OPTIONS`, group by group."""
    groups = {name: dict(OPTIONS.get(name, {}), **options.get(name, {})) for name in {*OPTIONS, *options}}
    groups["orchestrator"]["auth_url"] = auth_url
    groups.setdefault("database", {"connection": f"sqlite:///{directory}/orchestrator.sqlite"})
    lines = [line for name, each in groups.items() for line in (f"[{name}]", *(f"{k} = {v}" for k, v in each.items()))]
    path = directory / "orchestrator.conf"
    path.write_text("\n".join(lines) + "\n")
    return path


class Orchestrator:
    """Engine and workers, with methods for tests."""

    def __init__(self, cloud: Emulated, directory: pathlib.Path, **options: Mapping[str, object]) -> None:
        path = configuration(directory, cloud.auth_url, **options)
        if not (database := directory / "orchestrator.sqlite").exists():
            copy_schema(database)
        self.parts = service.Components(service.load(["--config-file", str(path)]), in_process=True)
        self.store = self.parts.store
        self._running = service.Running(self.parts)

    def __enter__(self) -> Orchestrator:
        engine = self.parts.engine()
        engine.rules = dataclasses.replace(engine.rules, heartbeat=datetime.timedelta(seconds=2))
        self.parts.engine = lambda: engine  # type: ignore[method-assign]
        self._running.start_engine()
        self._running.start_worker()
        return self

    def __exit__(self, *_: object) -> None:
        self._running.close()

    def request(
        self, project_id: str, mode: Mode = Mode.CASCADE, dry_run: bool = False, selection: Selection = EVERYTHING
    ) -> str:
        """Ask for a deletion, as the API does."""
        now = self.store.now()
        record = Deletion(
            str(uuid.uuid4()), project_id, "?", "default", mode, dry_run, Status.ACCEPTED, now, now, now, now, now
        )
        record = dataclasses.replace(record, selection=selection)
        self.store.create(record, TASKS, Event("deletion.accepted", "a test asks for it"))
        self.parts.bus.decide(record.id)
        return record.id

    def wait(self, deletion_ids: Iterable[str], seconds: float = 300) -> dict[str, Status]:
        """Wait until none of them is live or none has made progress for this time; return the status of each.

        The total time is not limited: it depends on the machine.
        """
        ids = tuple(deletion_ids)
        seen: object = None
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            records = [self.store.get(i) for i in ids]
            if not any(record.status in LIVE for record in records):
                break
            if (now := [record.progress_at for record in records]) != seen:
                seen, deadline = now, time.monotonic() + seconds
            time.sleep(0.2)
        return {i: self.store.get(i).status for i in ids}

    def blockers(self, deletion_id: str) -> dict[str, str]:
        """What keeps a deletion from going on."""
        found = blockers(*self.store.load(deletion_id)[:2])
        return {f"{b.service}.{b.type}": f"{b.reason}: {b.message}" for b in found}
