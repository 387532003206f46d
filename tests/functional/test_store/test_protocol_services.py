"""The record of what services answered over the protocol, on each kind of database."""

import dataclasses
from concurrent.futures import ThreadPoolExecutor

import pytest

from cleanup_orchestrator.store import ProtocolService, Spoken

DOCUMENT = {"protocol": "project-resources", "version": "1.0", "service_type": "vendor", "types": [{"name": "ü" * 60}]}
VENDOR = ProtocolService("R1", "vendor", "http://v", Spoken.DOCUMENT, document=DOCUMENT, digest="d1")


def test_a_document_is_read_as_it_was_saved(store):
    assert store.protocol_services()[0] == ()
    store.save_protocol_service(VENDOR)
    [row], now = store.protocol_services()
    assert (row.document, row.digest, row.spoken) == (DOCUMENT, "d1", Spoken.DOCUMENT)
    assert row.asked_at == row.read_at <= now


def test_an_answer_without_a_document_keeps_the_last_one(store):
    store.save_protocol_service(VENDOR)
    [before], _now = store.protocol_services()
    for spoken in (Spoken.SILENT, Spoken.ABSENT, Spoken.INVALID):
        store.save_protocol_service(ProtocolService("R1", "vendor", "http://w", spoken, error="why"))
        [row], _now = store.protocol_services()
        kept = dataclasses.replace(before, spoken=spoken, url="http://w", error="why", asked_at=row.asked_at)
        assert row == kept


def test_a_service_that_never_answered_has_no_document(store):
    store.save_protocol_service(ProtocolService("R1", "other", "http://o", Spoken.ABSENT))
    [row], _now = store.protocol_services()
    assert (row.document, row.digest, row.read_at) == (None, "", None)


def test_a_new_document_replaces_the_old_one(store):
    store.save_protocol_service(VENDOR)
    store.save_protocol_service(dataclasses.replace(VENDOR, document={**DOCUMENT, "types": []}, digest="d2"))
    [row], _now = store.protocol_services()
    assert (row.digest, row.document["types"]) == ("d2", [])


@pytest.mark.parametrize("said", ["nul \0 here", "lone \ud800 surrogate"])
def test_what_a_service_says_is_saved_whatever_it_is(store, said):
    """Otherwise one service would end the survey of every deletion."""
    document = {**DOCUMENT, "types": [{"name": "widget", "description": said}]}
    store.save_protocol_service(dataclasses.replace(VENDOR, document=document))
    store.save_protocol_service(ProtocolService("R1", "vendor", "http://v", Spoken.SILENT, error=said))
    [row], _now = store.protocol_services()
    assert row.document["types"] == [{"name": "widget", "description": row.error}]
    assert row.error == said.replace("\0", "\ufffd").replace("\ud800", "?")


def test_services_are_listed_by_region(store):
    for region in ("R2", "R1"):
        store.save_protocol_service(dataclasses.replace(VENDOR, region=region))
    assert [row.region for row in store.protocol_services()[0]] == ["R1", "R2"]
    assert [row.region for row in store.protocol_services("R2")[0]] == ["R2"]


def test_of_two_processes_that_save_the_first_answer_none_fails(store):
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(store.save_protocol_service, [VENDOR] * 8))
    assert len(store.protocol_services()[0]) == 1
