"""Reports of deletions for tests, made without the API."""

from __future__ import annotations

import copy
import dataclasses
import datetime
import hashlib
from collections.abc import Iterable
from typing import Any

from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec, ed25519

from cleanup_orchestrator.core import canonical, evidence, journal_chain
from cleanup_orchestrator.core.journal import Event
from cleanup_orchestrator.core.journal_chain import EMPTY
from cleanup_orchestrator.evidence.signing import Signer

DELETION = "6d1f0c1e-8d57-4f6f-9b43-0a3d9c1e7a10"
BEGIN = datetime.datetime(2026, 1, 2, 3, 4, 5, 678901)
PORT = {"region": "R1", "service": "network", "type": "port"}

#: The journal of a deletion that is proven.
WHOLE = (
    Event("deletion.accepted", "cascade deletion of project demo", "u1", {"mode": "cascade"}, "req-1"),
    Event("deletion.draining", "from accepted to draining", "engine", {"to": "draining"}),
    Event("drain.held", "the lock took hold at 2026-01-02T03:04:06Z", "engine"),
    Event("deletion.deleting", "from inventory to deleting", "engine", {"to": "deleting"}),
    Event("resource.deleting", "going to delete 2", "w", {**PORT, "resources": [{"id": "a"}, {"id": "b"}]}),
    Event("resource.deleted", "2 gone", "w", {**PORT, "resources": [{"id": "a"}, {"id": "b"}]}),
    Event("deletion.verifying", "from deleting to verifying", "engine", {"to": "verifying"}),
    Event("round.opened", "round 3: inventory", "engine", {"round": 3}),
    Event("inventory.empty", "inventory 3 is complete and empty", "engine", {"round": 3}),
    Event("project.closed", "the project is disabled", "engine"),
    Event("round.opened", "round 4: inventory", "engine", {"round": 4}),
    Event("inventory.empty", "inventory 4 is complete and empty", "engine", {"round": 4}),
    Event("deletion.deleted", "from verifying to deleted", "engine", {"to": "deleted"}),
)


def new_signer(curve: Any = None) -> Signer:
    """Return a signer with a new key: Ed25519, or ECDSA on a curve."""
    return Signer(ec.generate_private_key(curve) if curve else ed25519.Ed25519PrivateKey.generate())


def pem(private: Any = None) -> bytes:
    """Return a private key, or a new one of Ed25519, as PEM."""
    key = private or ed25519.Ed25519PrivateKey.generate()
    form = serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    found: bytes = key.private_bytes(*form)
    return found


def lines(events: Iterable[Event]) -> list[dict[str, Any]]:
    """Return events as the lines of a report."""
    head, made = EMPTY, list[dict[str, Any]]()
    for number, event in enumerate(events, 1):
        at = journal_chain.moment(BEGIN + datetime.timedelta(minutes=number))
        line = {**dataclasses.asdict(event), "data": copy.deepcopy(dict(event.data)), "at": at, "sequence": number}
        head = journal_chain.linked(head, {**line, "deletion_id": DELETION})
        made.append({**line, "id": 100 + number, "digest": head.digest, "withheld": False})
    return made


def facts_of(events: Iterable[Event]) -> dict[str, Any]:
    """Return the facts of events."""
    facts = evidence.Facts()
    for line in lines(events):
        facts.add(line)
    return facts.to_dict()


def report(journal: list[dict[str, Any]], status: str = "deleted") -> dict[str, Any]:
    """Return the report of a journal that is whole, with the fields that its check reads."""
    facts = evidence.Facts()
    for line in journal:
        facts.add(line)
    shown = hashlib.sha256(b"".join(canonical.encoded(line) + b"\n" for line in journal))
    verdict = evidence.verdict(facts.to_dict(), "", status)
    withheld = sum(line["withheld"] for line in journal)
    return {
        "format": evidence.FORMAT,
        "key": "",
        "proven": verdict.proven,
        "verdict": verdict.text,
        "deletion": {"id": DELETION, "project_id": "p", "project_name": "demo", "status": status},
        "facts": facts.to_dict(),
        "journal": {
            "length": len(journal),
            "digest": journal[-1]["digest"],
            "problem": "",
            "withheld": withheld,
            "shown": shown.hexdigest(),
        },
        "remains": "backups for 30 days",
    }


def signed(journal: list[dict[str, Any]], said: dict[str, Any], signer: Signer | None) -> dict[str, Any]:
    """Return the document of a report, signed if there is a signer."""
    said = {**said, "key": signer.public.kid if signer else ""}
    signature = signer.sign(canonical.encoded(said)) if signer else None
    return {"journal": journal, "report": said, "signature": signature}


def document(signer: Signer | None = None, events: Iterable[Event] = WHOLE, status: str = "deleted") -> dict[str, Any]:
    """Return a whole report of events."""
    made = lines(events)
    return signed(made, report(made, status), signer)
