"""Finds the services that speak the project resources protocol.

A service of the catalog without a plugin is asked for its capabilities. The answer is on record in the database for all
processes, and is asked for again after half a minute. What a service answered before is never forgotten: a service that
no longer answers still holds resources.
"""

from __future__ import annotations

import copy
import dataclasses
import datetime
import hashlib
import json
import threading
from collections.abc import Collection, Mapping, Sequence
from concurrent import futures
from typing import Any

from oslo_config import cfg
from oslo_log import log

from cleanup_orchestrator.cloud import protocol_options
from cleanup_orchestrator.cloud.catalog import NEVER_WAIVED, Entry, ProtocolStatus
from cleanup_orchestrator.cloud.connections import Clouds
from cleanup_orchestrator.cloud.endpoints import official
from cleanup_orchestrator.cloud.session import GuardedSession, read_only
from cleanup_orchestrator.errors import BadAnswer, Stopped, classify
from cleanup_orchestrator.plugins.base import Service
from cleanup_orchestrator.plugins.registry import Registry, combine
from cleanup_orchestrator.protocol import calls, checks
from cleanup_orchestrator.protocol.documents import PATH, Capabilities
from cleanup_orchestrator.protocol.plugin import service
from cleanup_orchestrator.store import ProtocolService, Spoken, Store

LOG = log.getLogger(__name__)

#: How long an answer is used before the service is asked again.
FRESH = datetime.timedelta(seconds=30)

#: Seconds by which the wait for answers is longer than the time-out of a request, whose error says more.
_SLACK = 0.5

#: Region and service type.
Place = tuple[str, str]


class Discovery:
    """Asks services for their capabilities, and makes plugins of them."""

    def __init__(self, conf: cfg.ConfigOpts, store: Store, clouds: Clouds, plugins: Registry) -> None:
        """Take the installed plugins. Nothing is asked or read yet."""
        self._conf, self._store, self._clouds, self._plugins = conf, store, clouds, plugins
        self._shows_records = False
        #: The latest registry of each region, with the documents that it is made of.
        self._registries: dict[str, tuple[object, tuple[Registry, Mapping[str, str]]]] = {}
        #: The answers that are being waited for, by place and URL.
        self._pending: dict[tuple[Place, str], futures.Future[ProtocolService]] = {}
        self._lock = threading.Lock()

    def with_clouds(self, clouds: Clouds) -> Discovery:
        """Return the same with sessions of other clouds, such as those of a step."""
        other = copy.copy(self)
        other._clouds = clouds
        return other

    def showing_records(self) -> Discovery:
        """Return the same for a process that only shows services.

        If the protocol is off there, it shows what the other processes have on record.
        """
        other = copy.copy(self)
        other._shows_records = True
        return other

    @property
    def off(self) -> bool:
        """Whether no service is asked, because ``[protocol]`` names no user."""
        return not self._conf[protocol_options.GROUP].auth_type

    def ask(self, entries: Sequence[Entry]) -> Mapping[Place, ProtocolStatus]:
        """Return what is known of the services that may speak the protocol; ask those whose answer is old.

        A service with a plugin is asked only if ``[protocol] prefer`` names it, and the second service of a type only
        if ``[protocol] endpoints`` does.

        :raises cleanup_orchestrator.errors.CleanupError: an option of ``[protocol]`` is not valid
        """
        prefer = protocol_options.prefer(self._conf)
        urls: dict[Place, str] = {}
        asked: dict[Place, Entry] = {}
        for entry in entries:
            named = protocol_options.endpoint(self._conf, entry.service_type, entry.region)
            if self._is_plugins(entry.service_type, prefer) or (entry.second_of and not named):
                continue
            place = _place(entry)
            asked[place], urls[place] = entry, named or (f"{entry.url}/{PATH}" if _is_plain(entry.url) else "")
        if not asked:
            return {}
        rows, now = self._rows()
        trouble = ""
        due = [place for place in asked if urls[place] and _is_due(rows.get(place), urls[place], now)]
        if due and not self.off:
            trouble = self._ask([asked[place] for place in due], urls, rows)
            rows, _now = self._rows()
        refused = {
            (region, name): why
            for region in {place[0] for place in asked}
            for name, why in self._combined(region, rows.values())[1].items()
        }
        return {
            place: self._status(
                rows.get(place), refused.get(place, ""), trouble if place in due else "", bool(urls[place])
            )
            for place in asked
        }

    def registry(self, region: str, service_type: str) -> Registry:
        """Return the registry in which a region's steps of a service find their types.

        For a service with a plugin these are the installed plugins, and no database is asked.
        """
        if self._is_plugins(service_type, protocol_options.prefer(self._conf)):
            return self._plugins
        rows, _now = self._store.protocol_services(region)
        return self._combined(region, rows)[0]

    def drainable(self) -> Sequence[ProtocolService]:
        """Return the services that can refuse new resources of a project."""
        rows, _now = self._store.protocol_services()
        return [row for row in rows if row.document is not None and Capabilities.from_dict(row.document).drain]

    def session(self, guard: Any = read_only) -> GuardedSession:
        """Return a session with the token of the protocol's user; see ``Clouds.service_session``."""
        return self._clouds.service_session(guard)

    # -- records
    def _is_plugins(self, service_type: str, prefer: Collection[str]) -> bool:
        """Return whether a plugin covers a service, whatever the service says."""
        installed = self._plugins.services
        return service_type in NEVER_WAIVED or (service_type in installed and service_type not in prefer)

    def _rows(self) -> tuple[dict[Place, ProtocolService], datetime.datetime]:
        rows, now = self._store.protocol_services()
        return {(row.region, row.service_type): row for row in rows}, now

    def _combined(self, region: str, rows: Collection[ProtocolService]) -> tuple[Registry, Mapping[str, str]]:
        """Return the registry of a region, and why services are left out of it."""
        prefer = protocol_options.prefer(self._conf)
        here = [
            row
            for row in rows
            if row.region == region and row.document is not None and not self._is_plugins(row.service_type, prefer)
        ]
        key = [(row.service_type, row.digest, row.url) for row in here]
        known = self._registries.get(region)
        if known is None or known[0] != key:
            known = (key, combine(self._plugins, [_service(row) for row in here]))
            self._registries[region] = known
        return known[1]

    def _status(self, row: ProtocolService | None, refused: str, trouble: str, has_url: bool) -> ProtocolStatus:
        """Return what is known of a service.

        :param refused: why its types do not fit to those of other services
        :param trouble: why no service can be asked
        :param has_url: whether it is known where to ask it
        """
        types: tuple[str, ...] = ()
        if row is not None and row.document is not None:
            types = tuple(type_.name for type_ in Capabilities.from_dict(row.document).types)
        spoke = bool(types)
        off = self.off and not (self._shows_records and row is not None)
        message, usable = "", False
        if off:
            message = "the project resources protocol is off ([protocol] auth_type is not set)"
        elif not has_url and row is None:
            message = (
                "its endpoint in the catalog is no plain URL: to ask it over the project resources protocol, name its "
                "URL in [protocol] endpoints"
            )
        elif row is None:
            message = f"whether it speaks the project resources protocol is unknown: {trouble or 'it was not asked'}"
        elif row.spoken is Spoken.INVALID or refused:
            why = row.error if row.spoken is Spoken.INVALID else refused
            message = f"its document of the project resources protocol cannot be used: {why}"
        elif row.spoken is Spoken.ABSENT and spoke:
            message = (
                "it answered over the project resources protocol before, and no longer knows it (404): what it "
                "holds is unknown"
            )
        elif row.spoken is Spoken.ABSENT:
            message = "it does not speak the project resources protocol"
        elif row.spoken is Spoken.SILENT:
            usable = spoke
            message = f"it does not answer over the project resources protocol: {row.error}"
        else:
            usable = True
        url, read_at = (row.url, row.read_at) if row is not None else ("", None)
        return ProtocolStatus(usable, spoke, types, url, read_at, message or (trouble if usable else ""))

    # -- requests
    def _ask(self, entries: Sequence[Entry], urls: Mapping[Place, str], rows: Mapping[Place, ProtocolService]) -> str:
        """Ask services for their capabilities, all at once, and save the answers.

        A service that does not answer in time is saved as silent.

        :param rows: what is on record of services
        :returns: why none can be asked; empty: they were asked
        :raises Stopped: the step that asks was given up
        """
        try:
            session = self.session()
        except Stopped:
            raise
        except Exception as error:
            return classify(error).message
        timeout = float(self._conf[protocol_options.GROUP].timeout)
        answers = {self._start(session, entry, urls[_place(entry)], timeout): _place(entry) for entry in entries}
        done, late = futures.wait(answers, timeout + _SLACK)
        records = {answers[answer]: answer.result() for answer in done}
        for place in map(answers.__getitem__, late):
            records[place] = ProtocolService(*place, urls[place], Spoken.SILENT, error="it did not answer in time")
        for place, record in records.items():
            self._store.save_protocol_service(_with_last_word(record, rows.get(place)))
        return ""

    def _start(
        self, session: GuardedSession, entry: Entry, url: str, timeout: float
    ) -> futures.Future[ProtocolService]:
        """Return the future answer of a service. A thread asks for it, unless one does already.

        So a service that never ends its answer holds one thread, and not one more at each survey.

        :param timeout: seconds
        """
        key = _place(entry), url
        answer: futures.Future[ProtocolService] = futures.Future()

        def work() -> None:
            try:
                record = read(session, entry, url, timeout)
            finally:
                with self._lock:  # before it is done: an answer that has ended is not given to a later survey
                    del self._pending[key]
            answer.set_result(record)

        with self._lock:
            if (pending := self._pending.get(key)) is not None:
                return pending
            threading.Thread(target=work, name="protocol", daemon=True).start()
            self._pending[key] = answer
        return answer


def read(session: GuardedSession, entry: Entry, url: str, timeout: float) -> ProtocolService:
    """Ask a service for its capabilities.

    :param timeout: seconds
    """
    answer = ProtocolService(entry.region, entry.service_type, url, Spoken.SILENT)
    try:
        response = calls.request(session, "GET", url, entry.service_type, entry.region, timeout=timeout, once=True)
        if response.status_code in calls.NOT_HERE:
            return dataclasses.replace(answer, spoken=Spoken.ABSENT)
        calls.expect(response, "the request for its capabilities", 200)
        declared = capabilities(calls.document(response, "CAPABILITIES", "the request for its capabilities"), entry)
    except BadAnswer as error:
        return dataclasses.replace(answer, spoken=Spoken.INVALID, error=str(error))
    except Exception as error:
        LOG.debug("%s in %s was not asked over the protocol: %s", entry.service_type, entry.region, error)
        return dataclasses.replace(answer, error=classify(error).message)
    document = declared.to_dict()
    digest = hashlib.sha256(json.dumps(document, sort_keys=True).encode()).hexdigest()
    return dataclasses.replace(answer, spoken=Spoken.DOCUMENT, document=document, digest=digest)


def _with_last_word(record: ProtocolService, before: ProtocolService | None) -> ProtocolService:
    """Return a record in which a silent service still says that its document on record is not valid now.

    :param before: what is on record of the service
    """
    if before is None or before.document is None or record.spoken is not Spoken.SILENT:
        return record
    if before.spoken in (Spoken.ABSENT, Spoken.INVALID):
        return dataclasses.replace(record, spoken=before.spoken, error=before.error)
    return record


def capabilities(document: Mapping[str, Any], entry: Entry) -> Capabilities:
    """Return the capabilities in a valid document.

    :raises BadAnswer: they are those of another service, or contradict themselves
    """
    declared = Capabilities.from_dict(document)
    expected = entry.second_of or entry.service_type
    if official(declared.service_type) != expected:
        raise BadAnswer(f"it is the document of {declared.service_type}, and the service is registered as {expected}")
    if not declared.types:  # a service that has not finished its start could send this
        raise BadAnswer("it has no type: if projects own nothing in the service, name it in [catalog] owns_nothing")
    if contradiction := next(checks.contradictions(declared), ""):
        raise BadAnswer(contradiction)
    return declared


def _place(entry: Entry) -> Place:
    return entry.region, entry.service_type


def _service(row: ProtocolService) -> Service:
    assert row.document is not None
    return service(Capabilities.from_dict(row.document), row.url, row.service_type)


def _is_due(row: ProtocolService | None, url: str, now: datetime.datetime) -> bool:
    """Return whether a service has to be asked: its answer is missing, old, or of another URL."""
    return row is None or row.url != url or row.asked_at is None or not now - FRESH < row.asked_at <= now


def _is_plain(url: str) -> bool:
    """Return whether a URL is complete, without a placeholder for the caller's project."""
    return bool(url) and not any(mark in url for mark in ("%(", "$(", "?", "#"))
