"""The whole orchestrator, engine and workers over the in-process bus, against the light cloud."""

from __future__ import annotations

import contextlib
import dataclasses
import datetime
import time
import uuid
from collections.abc import Iterator

from cleanup_orchestrator import service
from cleanup_orchestrator.core import transitions
from cleanup_orchestrator.core.blockers import blockers
from cleanup_orchestrator.core.deletion import Deletion, Mode, Status, accepted
from cleanup_orchestrator.core.journal import Event, EventType
from cleanup_orchestrator.core.step import TASKS
from cleanup_orchestrator.store import tables
from tests.cloud.launcher import Cloud
from tests.support.stores import cancel

CONFIGURATION = """
[database]
connection = sqlite:///{directory}/orchestrator.sqlite
[orchestrator]
auth_type = password
auth_url = {auth_url}
username = orchestrator
password = orchestrator
project_name = service
user_domain_id = default
project_domain_id = default
interface = public
[drain]
token_cache_time = 5
[engine]
tick = 0.5
retry_cap = 4
[service_image]
delete_shared_images = true
"""

#: With it, each deletion that needs a janitor makes one.
JANITOR = """
[janitor]
secret = a secret of the tests, and of no cloud
"""

#: A user of the project resources protocol: `speaker`, in the project `service`.
SPEAKER = """
[protocol]
auth_type = password
auth_url = {auth_url}
username = speaker
password = speaker
project_name = service
user_domain_id = default
project_domain_id = default
acts_on_user_content = {service_type}
"""


@contextlib.contextmanager
def catalogued(cloud: Cloud, type_: str, url: str) -> Iterator[None]:
    """Have a new service in the catalog; then remove it with its endpoints, which would block other deletions."""
    cloud.admin.ensure_service(type_, type_, url, "RegionOne")
    (entry,) = cloud.admin.call("GET", f"/services?type={type_}")["services"]
    try:
        yield
    finally:
        cloud.admin.call("DELETE", f"/services/{entry['id']}")


class Orchestrator:
    """Engine and workers in this process, with methods for tests."""

    def __init__(self, cloud: Cloud, directory, extra: str = "") -> None:
        self.cloud = cloud
        self.user_id = cloud.admin.ensure_user("orchestrator", "orchestrator", "service", ("admin", "service"))["id"]
        path = directory / "orchestrator.conf"
        path.write_text(CONFIGURATION.format(directory=directory, auth_url=cloud.auth_url) + extra)
        self.parts = service.Components(service.load(["--config-file", str(path)]), in_process=True)
        self.store = self.parts.store
        tables.metadata.create_all(self.store.database.engine)
        self.running = service.Running(self.parts)
        part = self.parts.engine()
        part.rules = dataclasses.replace(part.rules, heartbeat=datetime.timedelta(seconds=3))
        self.parts.engine = lambda: part
        self.running.start_engine()
        self.running.start_worker()

    def request(self, project_id: str, mode: Mode, dry_run: bool = False, **values: object) -> str:
        """Request a deletion, with further fields of the record; return its id."""
        about = {"id": str(uuid.uuid4()), "project_id": project_id, "project_name": "?", "domain_id": "default"}
        record = accepted(**about, mode=mode, dry_run=dry_run, **values)
        self.store.create(record, TASKS, Event("deletion.accepted", "a test asks for it"))
        self.parts.bus.decide(record.id)
        return record.id

    def run(self, project_id: str, mode: Mode, *statuses: Status) -> str:
        """Request a deletion, and wait until it has ended with one of the statuses; return its id."""
        deletion_id = self.request(project_id, mode)
        self.wait(deletion_id, *statuses)
        return deletion_id

    def wait(self, deletion_id: str, *statuses: Status, until=None, seconds: float = 400) -> Deletion:
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            record = self.store.get(deletion_id)
            if until is not None and until(record):
                return record
            if until is None and record.status not in transitions.LIVE:
                assert not statuses or record.status in statuses, (record.status, record.message)
                return record
            time.sleep(0.1)
        steps = self.store.steps(deletion_id)
        raise AssertionError(f"still {record.status}: {blockers(record, steps)}")

    def deleted(self, deletion_id: str) -> list[str]:
        """Return what the journal says of each delete, such as ``alarm.quota: 1 gone``."""
        events = [row.event for row in self.store.events(deletion_id, 1000)]
        return [event.message for event in events if event.type == EventType.RESOURCE_DELETED]

    def cancel(self, deletion_id: str) -> None:
        cancel(self.store, deletion_id)
        self.parts.bus.decide(deletion_id)

    def step(self, deletion_id: str, name: str):
        return next(s for s in self.store.steps(deletion_id) if s.name == name)

    def tried_again(self, deletion_id: str, name: str, times: int = 2) -> None:
        """Wait until workers have begun a step this number of times more."""
        before = self.step(deletion_id, name).fencing_token
        self.wait(deletion_id, until=lambda _: self.step(deletion_id, name).fencing_token >= before + times)

    def blockers(self, deletion_id: str) -> dict[str, str]:
        record = self.store.get(deletion_id)
        return {f"{b.service}.{b.type}": b.reason for b in blockers(record, self.store.steps(deletion_id))}
