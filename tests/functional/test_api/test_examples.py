"""The examples of the OpenAPI document and of the API reference, as the API answers them.

``cleanup_orchestrator/api/examples.json`` has them. IDs and times are replaced, so that each run gives the same text.
After a change of the API, write the file anew with ``python -m tests.functional.test_api.test_examples``.
"""

import dataclasses
import datetime
import hashlib
import itertools
import json
import pathlib
import re
import tempfile
import uuid

from cleanup_orchestrator.api import openapi, operations
from cleanup_orchestrator.core.deletion import Force, RoundPurpose, Status
from cleanup_orchestrator.core.journal import Event
from cleanup_orchestrator.core.tally import tally
from cleanup_orchestrator.store.journal import write_journal
from tests.functional.test_api import keystone as ks
from tests.functional.test_api import test_plans as plans
from tests.functional.test_api.site import Site
from tests.support import orphaned
from tests.support.stores import save

FILE = pathlib.Path(openapi.__file__).with_name("examples.json")
DEMO, OTHER, STUCK, LARGE, PLANNED = (uuid.uuid5(uuid.NAMESPACE_DNS, name).hex for name in "abcde")
#: The document is long, and an answer without a body has nothing to show.
WITHOUT = {"root_openapi"}

_UUID = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_TIME = re.compile(r"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)(\.\d{6})?Z")


def same(site, records):
    """Return the records with the same ids and times in each run."""
    ids, numbers = {}, itertools.count(1)

    def known(found):
        if found[0] not in ids:
            ids[found[0]] = str(uuid.uuid5(uuid.NAMESPACE_URL, str(next(numbers))))
        return ids[found[0]]

    text = _UUID.sub(known, json.dumps(records).replace("http://cleanup.", "https://cleanup."))
    text = _TIME.sub(lambda found: f"2026-11-21T10:00:00{'.123456' if found[2] else ''}Z", text)
    return json.loads(text, object_hook=_with_same_digest)


def _with_same_digest(record):
    """Return an object; if it is of a journal, with a digest that does not depend on the times."""
    number = record.get("sequence", record.get("length"))
    if number is not None and "digest" in record:
        record |= {
            name: hashlib.sha256(str(number).encode()).hexdigest() for name in ("digest", "shown") if name in record
        }
    return record


def recorded(site):
    """Send the example of each operation, in an order in which each finds what it needs."""
    for number, project in enumerate((DEMO, OTHER, STUCK, LARGE, PLANNED)):
        site.keystone.project(project, f"demo-{number}", "d1")
    later = (datetime.datetime.now() + datetime.timedelta(days=30)).strftime("%Y-%m-%dT00:00:00Z")
    found = {}

    def send(method, path, body=None, token=ks.ADMIN):
        answer = site.call(method, path, token, body)
        assert answer.status < 300, answer.body
        pattern = re.sub(_UUID, "{id}", path.partition("?")[0]).replace(STUCK, "{id}")
        name = operations.OPERATIONS[method, pattern].name
        assert name not in found
        found[name] = {"method": method, "path": path, "status": answer.status}
        found[name] |= {"body": body} if body is not None else {}
        found[name] |= {"answer": answer.json} if answer.body else {}
        return next(iter(answer.json.values())) if answer.body else None

    send("GET", "/", token=None)
    send("GET", "/v1", token=None)
    # a deletion that finds something
    demo = send("POST", "/v1/deletions", {"project_id": DEMO, "mode": "cascade"})["id"]
    plans.inventory(site, demo, "port", ["77ab3c1e"], kept_resources=["dhcp"], protected=["shared"])
    before = site.store.get(demo)  # a list has the numbers of the latest decision
    begun = [Event("deletion.inventory", "from accepted to inventory", "engine-1")]
    counted = dataclasses.replace(before, tally=tally(before, site.store.steps(demo)))
    save(site.store, before, counted, events=begun)
    send("GET", "/v1/deletions?status=live&limit=2")
    send("GET", f"/v1/deletions/{demo}")
    send("GET", f"/v1/deletions/{demo}/leftovers?service=network")
    send("GET", f"/v1/deletions/{demo}/events?limit=1")
    send("GET", "/v1/leftovers?service=neutron&reason=protected")
    gone = Event(
        "resource.deleted",
        "network.port: 1 gone",
        "worker-1",
        {"region": "R1", "service": "network", "type": "port", "resources": [{"id": "77ab3c1e", "name": "web"}]},
    )
    with site.store.database.begin() as c:
        write_journal(c, demo, site.store.now(), [gone])
    send("GET", "/v1/events?resource_id=77ab3c1e")
    send("GET", f"/v1/deletions/{demo}/report")
    send("POST", f"/v1/deletions/{demo}/restore")
    other = site.ask(OTHER)["id"]
    send("PATCH", f"/v1/deletions/{other}", {"not_before": later, "ticket": "CHG-4711"})
    plans.ended(site, other, status=Status.LEFTOVERS)
    send("POST", f"/v1/deletions/{other}/retry")
    send("POST", f"/v1/deletions/{other}/cancel")
    large = site.ask(LARGE, mode="cascade")["id"]
    plans.inventory(site, large, "port", list("abcd"))
    plans.put(site, large, Status.RECOVERABLE, conditions=(plans.ASKS,))
    send("POST", f"/v1/deletions/{large}/approve", {"reason": "ticket 4711"}, ks.SECOND_ADMIN)
    stuck = site.ask(STUCK, mode="cascade")["id"]
    before = site.store.get(stuck)
    deleting = dataclasses.replace(before, status=Status.DELETING, purpose=RoundPurpose.DELETE, round=3)
    save(site.store, before, deleting)
    body = {"reason": "storage burnt down, ticket 4711", "types": ["block-storage.volume"]}
    send("DELETE", f"/v1/projects/{STUCK}/force", body)
    assert isinstance(site.store.get(stuck).forced, Force)
    # a plan
    plan = site.ask(PLANNED, mode="cascade", dry_run=True)["id"]
    volumes = {"service": "block-storage", "sizes": {"1f0c7d1a": 40 * 2**30, "8b2e4c90": 300 * 2**30}}
    plans.inventory(site, plan, "volume", list(volumes["sizes"]), **volumes)
    plans.inventory(site, plan, "port", ["77ab3c1e"], kept_resources=["dhcp"])
    plans.inventory(site, plan, "network", ["5c9d0e37"], protected=["shared"], after=("network.port",))
    plans.ended(site, plan)
    send("GET", f"/v1/plans/{plan}")
    send("GET", f"/v1/plans/{plan}/resources?action=delete&type=volume")
    # what admins decide
    send("GET", "/v1/services")
    lien = send("POST", "/v1/liens", {"project_id": DEMO, "origin": "legal", "reason": "court order 08/15"})["id"]
    send("GET", "/v1/liens?origin=legal")
    send("GET", f"/v1/liens/{lien}")
    send("DELETE", f"/v1/liens/{lien}")
    send("POST", "/v1/brake", {"reason": "the storage misbehaves"})
    send("GET", "/v1/brake")
    send("DELETE", "/v1/brake")
    waiver = {"service_type": "weather", "region": "RegionOne", "reason": "retired, ticket 4711", "expires_at": later}
    waiver = send("POST", "/v1/waivers", waiver)["id"]
    send("GET", "/v1/waivers?service_type=weather")
    send("GET", f"/v1/waivers/{waiver}")
    send("DELETE", f"/v1/waivers/{waiver}")
    # orphans
    scan = orphaned.found(site.store, orphaned.FOUND[:1] + orphaned.FOUND[3:]).id
    send("GET", "/v1/orphan-scans?status=completed")
    send("GET", f"/v1/orphan-scans/{scan}")
    send("GET", f"/v1/orphan-scans/{scan}/orphans?type=port")
    send("GET", f"/v1/orphan-scans/{scan}/projects")
    send("POST", f"/v1/orphan-scans/{scan}/adopt", {"project_id": orphaned.DEAD})
    begun = send("POST", "/v1/orphan-scans")["id"]
    send("DELETE", f"/v1/orphan-scans/{begun}")
    return same(site, found)


def test_the_api_answers_the_examples(tmp_path):
    site = Site(tmp_path)
    try:
        examples = recorded(site)
    finally:
        site.close()
    assert examples == json.loads(FILE.read_text())


def test_every_operation_has_an_example():
    known = {operation.name for operation in operations.OPERATIONS.values()}
    assert set(json.loads(FILE.read_text())) == known - WITHOUT


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as name:
        site = Site(pathlib.Path(name))
        FILE.write_text(json.dumps(recorded(site), indent=1) + "\n")
        site.close()
