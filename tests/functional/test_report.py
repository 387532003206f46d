"""``cleanup-orchestrator-manage report``, and the report of a deletion that the whole orchestrator has made."""

import datetime
import json

import pytest
import sqlalchemy as sa

from cleanup_orchestrator.cmd import manage
from cleanup_orchestrator.core import canonical
from cleanup_orchestrator.core.deletion import Status
from cleanup_orchestrator.evidence import signing
from cleanup_orchestrator.store import retention
from cleanup_orchestrator.store import tables as t
from tests.emulated.orchestrator import Orchestrator
from tests.functional.test_api import keystone as ks
from tests.functional.test_api.site import Site
from tests.support.emulated_site import LEAN
from tests.support.evidence import DELETION, WHOLE, document, new_signer, pem
from tests.support.stores import create

CLOUD = LEAN | {"projects": 1}


@pytest.fixture
def run(tmp_path, capsys):
    """Run a ``report`` command; return the exit code, the output and the error output."""

    def command(*arguments, before=()):
        code = manage.main([*before, "report", *map(str, arguments)])
        said = capsys.readouterr()
        return code, said.out, said.err

    return command


@pytest.fixture
def files(tmp_path):
    """Write a report, and the public keys of signers; return their paths."""

    def write(made, *signers):
        report, keys = tmp_path / "report.json", tmp_path / "keys.json"
        report.write_bytes(canonical.encoded(made))
        keys.write_text(json.dumps(signing.jwks({each.public.kid: each.public for each in signers})))
        return report, keys

    return write


def test_a_signed_report_that_proves_a_deletion(run, files):
    signer = new_signer()
    report, keys = files(document(signer), new_signer(), signer)
    code, out, err = run("verify", report, "--keys", keys)
    assert (code, err) == (0, "")
    assert out.splitlines() == [
        f"deletion {DELETION} of project demo (p): Deleted. Two complete inventories, one after the other, found "
        "nothing.",
        f"journal: 13 lines lead to digest {document(signer)['journal'][-1]['digest']}",
        f"signature: by key {signer.public.kid}",
    ]


def test_exit_codes(run, files):
    signer, other = new_signer(), new_signer()
    whole, unsigned = document(signer), document(None)
    open_, changed = document(signer, WHOLE[:-1], "verifying"), document(signer)
    changed["journal"][5]["message"] = "3 gone"
    for made, known, code, text in (
        (whole, [signer], 0, "by key"),
        (whole, [], 3, "not checked"),
        (unsigned, [signer], 3, "signature: none"),
        (open_, [signer], 4, "Not ended: no proof"),
        (changed, [signer], 1, "line 6 of the journal"),
        (changed, [], 1, "line 6 of the journal"),
        (whole, [other], 1, "not among the given keys"),
    ):
        report, keys = files(made, *(known or [signer]))
        found, out, err = run("verify", report, *(["--keys", keys] if known else []))
        assert found == code and text in out + err
        if code == 1:
            assert out == "" and err.count("\n") == 1 and err.startswith("cleanup-orchestrator-manage: ")
    with pytest.raises(SystemExit) as wrong:
        run("verify")
    assert wrong.value.code == 2


def test_a_file_that_cannot_be_read_is_one_line(run, files, tmp_path):
    report, keys = files(document(None), new_signer())
    none = tmp_path / "none"
    for arguments in ((none,), (tmp_path,), (report, "--keys", none), (report, "--keys", report), (keys,)):
        code, out, err = run("verify", *arguments)
        assert (code, out, err.count("\n")) == (1, "", 1)


def test_a_name_cannot_control_the_terminal(run, files):
    made = document(None)
    made["report"]["deletion"]["project_name"] = "demo\x1b[2K\r\u202edeleted"
    code, out, _err = run("verify", files(made, new_signer())[0])
    assert code == 3 and "demo\\x1b[2K\\r\\u202edeleted" in out


def test_verify_reads_no_configuration(run, files, tmp_path, monkeypatch):
    """Not even one that is broken, at the place where the commands look for it."""
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / ".cleanup-orchestrator").mkdir()
    (tmp_path / ".cleanup-orchestrator" / "cleanup-orchestrator.conf").write_text("[broken")
    assert run("verify", files(document(None), new_signer())[0])[0] == 3


def test_keys_for_auditors(run, tmp_path):
    conf, old = tmp_path / "c.conf", new_signer()
    (tmp_path / "key.pem").write_bytes(pem())
    now = signing.read_signer(str(tmp_path / "key.pem"))
    (tmp_path / "old.json").write_text(json.dumps(signing.jwks({x.public.kid: x.public for x in (old, now)})))
    conf.write_text(f"[report]\nsigning_key_file = {tmp_path}/key.pem\nverification_keys = {tmp_path}/old.json\n")
    code, out, _err = run("keys", before=["--config-file", str(conf)])
    assert code == 0 and [each["kid"] for each in json.loads(out)["keys"]] == [now.public.kid, old.public.kid]
    assert '"d"' not in out
    for text, said in (
        ("", "no key is configured"),
        (f"[report]\nsigning_key_file = {tmp_path}/none\n", "cannot be read"),
        (f"[report]\nverification_keys = {conf}\n", "is not JSON"),
    ):
        conf.write_text(text)
        code, out, err = run("keys", before=["--config-file", str(conf)])
        assert (code, out, err.count("\n")) == (1, "", 1) and said in err


def test_the_head_of_a_journal_is_there_after_a_purge(run, store, tmp_path, database_url):
    conf = tmp_path / "c.conf"
    conf.write_text(f"[database]\nconnection = {database_url}\n")
    record = create(store)
    head = store.get(record.id).journal
    command = {"before": ["--config-file", str(conf)]}
    assert run("head", record.id, **command) == (0, f"1 lines, digest {head.digest}\n", "")
    with store.database.begin() as c:
        ended = {"finished_at": datetime.datetime(2020, 1, 1), "live_project_id": None, "status": "deleted"}
        c.execute(t.deletions.update().values(**ended))
        assert retention.purge(c, datetime.timedelta(days=1), False)
        assert c.execute(sa.select(sa.func.count()).select_from(t.events)).scalar_one() == 0
    code, out, _err = run("head", record.id, **command)
    assert code == 0 and out.startswith(f"1 lines, digest {head.digest}, purged at 20")
    code, out, err = run("head", "unknown", **command)
    assert (code, out) == (1, "") and "has no journal of deletion unknown" in err


def test_a_deletion_of_the_whole_orchestrator_is_proven(emulated, tmp_path, run):
    """Two inventories after the lock, in the journal that engine and workers write; its report is verified."""
    project = emulated.projects[0]
    emulated.state.add("RegionOne", "image.image", project)
    (tmp_path / "key.pem").write_bytes(pem())
    with Orchestrator(emulated, tmp_path) as orchestrator:
        deletion_id = orchestrator.request(project)
        assert orchestrator.wait([deletion_id]) == {deletion_id: Status.DELETED}
        extra = f"[report]\nsigning_key_file = {tmp_path}/key.pem\n"
        site = Site(tmp_path, extra=extra, store=orchestrator.store)
        answer = site.get(f"/v1/deletions/{deletion_id}/report", ks.ADMIN)
        site._own_keystone and site.keystone.close()
    assert answer.status == 200
    (tmp_path / "report.json").write_bytes(answer.body)
    signer = signing.read_signer(str(tmp_path / "key.pem"))
    (tmp_path / "keys.json").write_text(json.dumps(signing.jwks({"": signer.public})))
    code, out, err = run("verify", tmp_path / "report.json", "--keys", tmp_path / "keys.json")
    assert (code, err) == (0, "") and "Deleted. Two complete inventories" in out
    report = answer.json["report"]
    facts, lock = report["facts"], report["lock"]
    assert facts["deleted"] >= 1 and len(facts["inventories"]) == 2
    assert all(each["began_at"] for each in facts["inventories"])
    assert facts["lock"]["at"] < facts["inventories"][0]["ended_at"] < facts["inventories"][1]["ended_at"]
    assert (lock["driver"], lock["token_cache_time"]) == ("fence", 300)
    assert lock["evidence"] and lock["held_since"] and lock["closed_since"]
    names = {(each["service"], each["type"]) for each in facts["types"] if each["deleted"]}
    assert ("image", "image") in names
