"""The report of a deletion: what it has, who gets it, and that its check finds what the database's admin changes."""

import json
import tracemalloc
import types

import pytest

from cleanup_orchestrator.api import report
from cleanup_orchestrator.api.context import ReportSettings
from cleanup_orchestrator.core.deletion import Status
from cleanup_orchestrator.core.holds import Lien
from cleanup_orchestrator.core.journal import Event
from cleanup_orchestrator.core.rules import Rules
from cleanup_orchestrator.evidence import signing
from cleanup_orchestrator.evidence.verify import ReportWrong, parsed, verified
from cleanup_orchestrator.store import tables as t
from cleanup_orchestrator.store.journal import write_journal
from tests.functional.test_api import keystone as ks
from tests.functional.test_api.site import Site
from tests.support.evidence import PORT, pem

REMAINS = "Backups are kept for 30 days."


@pytest.fixture
def signing_site(tmp_path, keystone, database_url):
    (tmp_path / "key.pem").write_bytes(pem())
    made = Site(
        tmp_path, database_url, keystone, f"[report]\nsigning_key_file = {tmp_path}/key.pem\nremains = {REMAINS}\n"
    )
    made.signer = signing.read_signer(str(tmp_path / "key.pem"))
    made.keys = {made.signer.public.kid: made.signer.public}
    yield made
    made.close()


def write(site, deletion_id, *events):
    with site.store.database.begin() as c:
        write_journal(c, deletion_id, site.store.now(), events)


def gone(number, place=PORT):
    resources = [{"id": f"id-{number}-{n}", "name": f"<b>{n}</b>\u202e"} for n in range(100)]
    return Event("resource.deleted", "100 gone", "w", {**place, "resources": resources})


def fetched(site, deletion_id, token=ks.ADMIN):
    answer = site.get(f"/v1/deletions/{deletion_id}/report", token)
    assert answer.status == 200
    return answer.body


def test_a_report_is_signed_and_its_check_succeeds(signing_site):
    made = signing_site.ask()
    write(signing_site, made["id"], gone(1), Event("note", "\U0001f600 e\u0301 \0", data={"n": 2**70, "f": 0.5}))
    body = fetched(signing_site, made["id"])
    found = verified(parsed(body), signing_site.keys)
    assert found.kid == signing_site.signer.public.kid and not found.proven
    said = found.report
    assert said["verdict"] == "Not ended: no proof. The status of the deletion is accepted."
    assert (said["remains"], said["facts"]["deleted"]) == (REMAINS, 100)
    assert said["deletion"] == {**signing_site.get(f"/v1/deletions/{made['id']}").json["deletion"]}
    assert said["journal"]["digest"] == signing_site.store.get(made["id"]).journal.digest
    assert said["made_by"].startswith("cleanup-orchestrator ")
    assert len(said["rests_on"]) > 4


def test_a_page_of_the_journal_has_the_digests_of_the_report(signing_site):
    made = signing_site.ask()
    write(signing_site, made["id"], gone(1), gone(2))
    lines = json.loads(fetched(signing_site, made["id"]))["journal"]
    paged = signing_site.get(f"/v1/deletions/{made['id']}/events").json["events"]
    assert [(x["sequence"], x["digest"]) for x in paged] == [(x["sequence"], x["digest"]) for x in lines]
    assert [x["sequence"] for x in lines] == [1, 2, 3]


def test_without_a_key_the_report_says_that_it_is_unsigned(site):
    document = parsed(fetched(site, site.ask()["id"]))
    assert (document["signature"], document["report"]["key"]) == (None, "")
    assert not verified(document, None).signed


FORGERIES = {
    "a line": (lambda c: c.execute(t.events.update().where(t.events.c.sequence == 2).values(message="x")), "line 2"),
    "a dropped line": (lambda c: c.execute(t.events.delete().where(t.events.c.sequence == 2)), "line 2"),
    "the last line": (lambda c: c.execute(t.events.delete().where(t.events.c.sequence == 4)), "3 lines that fit"),
    "every line": (lambda c: c.execute(t.events.delete()), "0 lines that fit"),
    "the head": (lambda c: c.execute(t.deletions.update().values(journal_digest="0" * 64)), "4 lines that fit"),
    "a shorter head": (lambda c: c.execute(t.deletions.update().values(journal_length=3)), "3 lines that fit"),
    "a longer head": (lambda c: c.execute(t.deletions.update().values(journal_length=5)), "4 lines that fit"),
}


@pytest.mark.parametrize("name", FORGERIES)
def test_what_an_admin_of_the_database_changes_is_in_the_report(signing_site, name):
    made = signing_site.ask()
    write(signing_site, made["id"], gone(1), gone(2), gone(3))
    forge, text = FORGERIES[name]
    with signing_site.store.database.begin() as c:
        c.execute(t.event_resources.delete())
        forge(c)
    body = fetched(signing_site, made["id"])
    said = json.loads(body)["report"]
    assert text in said["journal"]["problem"] and text in said["verdict"] and not said["proven"]
    with pytest.raises(ReportWrong):
        verified(parsed(body), signing_site.keys)


def test_a_status_that_only_the_record_has(signing_site):
    made = signing_site.ask()
    with signing_site.store.database.begin() as c:
        c.execute(t.deletions.update().values(status=str(Status.DELETED)))
    found = verified(parsed(fetched(signing_site, made["id"])), signing_site.keys)
    assert not found.proven and "the record of the deletion says deleted, and its journal" in found.report["verdict"]


def test_who_may_not_read_liens_gets_no_reason_and_a_report_that_can_be_checked(signing_site):
    made = signing_site.ask(token=ks.MANAGER)
    lien = Lien("11111111-1111-4111-8111-111111111111", "p1", "plugin:nova", "SECRET REASON", signing_site.store.now())
    held = Event("condition.on_hold", "on_hold: SECRET REASON", "e", {"status": True, "reason": "lien"})
    write(signing_site, made["id"], Event("lien.raised", "a lien", "w", lien.to_dict()), held)
    for token, withheld in ((ks.ADMIN, 0), (ks.DOMAIN_READER, 2), (ks.MANAGERS_OTHER, 2)):
        body = fetched(signing_site, made["id"], token)
        assert (b"SECRET" in body) is (withheld == 0)
        found = verified(parsed(body), signing_site.keys)
        assert found.report["journal"]["withheld"] == withheld


@pytest.mark.parametrize(
    ("token", "status"),
    [
        (ks.ADMIN, 200), (ks.MANAGER, 200), (ks.DOMAIN_READER, 200), (ks.SYSTEM_READER, 200), (ks.MANAGERS_OTHER, 200),
        (ks.OTHER_READER, 404), (ks.OTHER_MANAGER, 404), (ks.MEMBER, 403),
    ],
)  # fmt: skip
def test_who_gets_a_report(site, token, status):
    made = site.ask(token=ks.MANAGER)
    assert site.get(f"/v1/deletions/{made['id']}/report", token).status == status
    assert site.get(f"/v1/deletions/{made['id']}", token).status == status


def test_a_long_journal_is_sent_in_parts(signing_site, monkeypatch):
    """The memory of the API does not grow with the journal."""
    assert report._PAGE <= 100  # lines of up to 100 resources each
    monkeypatch.setattr(report, "_PAGE", 10)
    made = signing_site.ask()
    settings = ReportSettings(signing_site.signer, "")
    handler = report.Reports(types.SimpleNamespace(store=signing_site.store, report=settings, rules=Rules()))
    peaks, readable = [], ("lien", "waiver", "brake")
    for begin, end in ((0, 40), (40, 200)):
        write(signing_site, made["id"], *map(gone, range(begin, end)))
        d, _steps = signing_site.store.shown(made["id"])
        assert verified(parsed(b"".join(handler._document(d, made, readable))), signing_site.keys)
        tracemalloc.start()
        assert sum(map(len, handler._document(d, made, readable))) > 4000 * end
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    assert peaks[1] < 1.5 * peaks[0]


def test_a_report_of_no_deletion(site):
    for id_ in ("x", "6d1f0c1e-8d57-4f6f-9b43-0a3d9c1e7a10"):
        answer = site.get(f"/v1/deletions/{id_}/report")
        assert (answer.status, answer.error["code"]) == (404, "deletion_not_found")
