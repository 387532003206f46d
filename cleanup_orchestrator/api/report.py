"""``/v1/deletions/{id}/report``: the report of a deletion, with its journal and its signature."""

from __future__ import annotations

import dataclasses
import hashlib
from collections.abc import Collection, Iterator, Mapping
from typing import Any

import pecan
import webob

from cleanup_orchestrator import shapes
from cleanup_orchestrator.api import microversions, policies, views
from cleanup_orchestrator.api.deletion import DeletionHandlers, shown
from cleanup_orchestrator.core import canonical, evidence, journal_chain, lock
from cleanup_orchestrator.core.deletion import DeletionView
from cleanup_orchestrator.core.journal_chain import EMPTY, BrokenChain
from cleanup_orchestrator.core.snapshot import settle_until
from cleanup_orchestrator.core.times import utc
from cleanup_orchestrator.shapes.render import render
from cleanup_orchestrator.store import EventRow

#: Journal lines that are read, and sent, at a time. A line has up to 100 resources.
_PAGE = 50


class Reports(DeletionHandlers):
    """The handler of reports."""

    @pecan.expose("json")
    def report(self, req: webob.Request, resp: webob.Response, deletion_id: str) -> webob.Response:
        """Return the report of a deletion, with all lines of its journal.

        The body is sent in parts: neither the memory of the API nor the first byte depends on the length of the
        journal. If the database fails in the middle, the body is cut off, and is no JSON.

        :raises ApiError: 403 forbidden; 404 deletion_not_found
        """
        d, steps = self._find(req, policies.REPORT, deletion_id, self._context.store.shown)
        self._allow(req, policies.REPORT, d)
        readable = self._context.enforcer.readable(req.context)
        view = shown(self._context, req, d, steps)["deletion"]
        resp.content_type, resp.charset = "application/json", "UTF-8"
        resp.headers["Content-Disposition"] = f'attachment; filename="deletion-report-{d.id}.json"'
        resp.app_iter = self._document(d, view, readable)
        return resp

    def _document(self, d: DeletionView, view: Mapping[str, Any], readable: Collection[str]) -> Iterator[bytes]:
        """Yield the canonical JSON of the whole answer in parts."""
        yield b'{"journal":['
        walk = _Walk(d)
        for rows in self._pages(d):
            lines = [walk.add(row, readable) for row in rows]
            yield (b"" if walk.first_page else b",") + b",".join(lines)
            walk.first_page = False
        report = self._report(d, view, walk)
        payload, signer = canonical.encoded(report), self._context.report.signer
        signature = canonical.encoded(signer.sign(payload) if signer else None)
        yield b'],"report":' + payload + b',"signature":' + signature + b"}"

    def _pages(self, d: DeletionView) -> Iterator[list[EventRow]]:
        """Yield the lines of the journal as of ``d``."""
        marker = None
        while rows := self._context.store.events(d.id, _PAGE, marker):
            if known := [row for row in rows if row.sequence <= d.journal.length]:
                yield known
            if len(known) < len(rows):
                return
            marker = rows[-1].row

    def _report(self, d: DeletionView, view: Mapping[str, Any], walk: _Walk) -> Any:
        """Return what the signature covers."""
        facts, problem = walk.facts.to_dict(), walk.found_problem()
        verdict = evidence.verdict(facts, problem, str(d.status))
        given, until = self._context.report, settle_until(d, self._context.rules)
        held = {
            "driver": lock.driver(d),
            "evidence": d.lock_evidence,
            "held_since": d.drained_at,
            "closed_since": d.closed_at,
            "settled_at": until,
            "token_cache_time": int(self._context.rules.settle.total_seconds()),
            "unseen_changes": lock.unseen(d).removeprefix("; "),
        }
        chain = {"problem": problem, "withheld": walk.withheld, "shown": walk.shown.hexdigest()}
        report = {
            "format": evidence.FORMAT,
            "made_at": utc(self._context.store.now()),
            "made_by": f"cleanup-orchestrator {microversions.release()}",
            "key": given.signer.public.kid if given.signer else "",
            **dataclasses.asdict(verdict),
            "deletion": view,
            "lock": render(shapes.Lock, None, **held),
            "facts": facts,
            "journal": d.journal.to_dict() | chain,
            "remains": given.remains,
            "rests_on": evidence.RESTS_ON,
        }
        report["verdict"] = report.pop("text")
        return canonical.exact(report)


class _Walk:
    """A walk over the lines of a journal: checks the chain, and collects the facts."""

    def __init__(self, d: DeletionView) -> None:
        self._deletion, self._head, self._problem = d, EMPTY, ""
        self.facts = evidence.Facts()
        self.shown = hashlib.sha256()
        self.withheld = 0
        self.first_page = True

    def add(self, row: EventRow, readable: Collection[str]) -> bytes:
        """Take the next line; return its canonical JSON as the reader may see it."""
        e = row.event
        stored = {name: getattr(e, name) for name in ("type", "message", "actor", "request_id", "data")}
        stored |= {"deletion_id": self._deletion.id, "at": journal_chain.moment(row.at)}
        stored |= {"sequence": row.sequence, "digest": row.digest}
        self._check(stored)
        view = views.event(row, readable) | {"at": stored["at"]}
        view["withheld"] = (view["message"], view["data"]) != (e.message, dict(e.data))
        self.withheld += view["withheld"]
        self.facts.add(view)
        line = canonical.encoded(canonical.exact(view))
        self.shown.update(line + b"\n")
        return line

    def found_problem(self) -> str:
        """Return why the lines do not lead to the head of the deletion; empty: they do."""
        if not self._problem and self._head != self._deletion.journal:
            wanted = self._deletion.journal.length
            return f"the journal has {self._head.length} lines that fit, and its head stands for {wanted} others"
        return self._problem

    def _check(self, stored: Mapping[str, Any]) -> None:
        if self._problem:
            return
        try:
            self._head = journal_chain.checked(self._head, stored)
        except BrokenChain as error:
            self._problem = str(error)
