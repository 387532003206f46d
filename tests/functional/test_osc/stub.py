"""A small cloud over HTTP: logins and projects of Keystone, and the project-cleanup API as scripted answers.

It has the documented shapes, records every request, and returns what a test defined. The OpenAPI document checks each
request, and each answer that no test defined.
The script of a deletion is the list of states that successive requests return; the last one stays.
"""

import copy
import http.server
import json
import threading
import urllib.parse
import uuid

from tests.functional.test_api import contract

CLEANUP = "/cleanup"
REQUEST_ID = "req-11111111-2222-3333-4444-555555555555"


def deletion(project, status="accepted", **fields):
    """Return a deletion object of the API."""
    progress = {
        "steps": 0,
        "steps_done": 0,
        "found": 0,
        "deleted": 0,
        "remaining": 0,
        "abandoned": 0,
        "kept": 0,
        "unknown": 0,
        "calls": 0,
        "round": 1,
        "purpose": "",
    }
    progress |= fields.pop("progress", {})
    final = status in ("deleted", "purged", "leftovers", "planned", "cancelled", "failed")
    stalled = fields.pop("stalled", False)
    condition = {
        "type": "stalled",
        "status": True,
        "reason": "NoProgress",
        "message": "nothing moved for 15 minutes",
        "last_transition_at": "2026-11-21T10:00:00Z",
    }
    conditions = [condition] if stalled else []
    if text := fields.pop("blocked", ""):
        conditions.append(condition | {"type": "blocked", "reason": "person_needed", "message": text})
    return {
        "id": "",
        "project_id": project["id"],
        "project_name": project["name"],
        "domain_id": project["domain_id"],
        "mode": "report",
        "selection": NO_SELECTION | fields.pop("selection", {}),
        "dry_run": False,
        "status": status,
        "reason": "",
        "message": "",
        "attempt": 1,
        "cancellable": not final,
        "retryable": status not in ("deleted", "purged", "planned", "cancelled", "cancelling"),
        "user_id": "u1",
        "user_name": "admin",
        "request_id": REQUEST_ID,
        "created_at": "2026-11-21T10:00:00Z",
        "updated_at": "2026-11-21T10:00:01Z",
        "status_at": "2026-11-21T10:00:01Z",
        "progress_at": "2026-11-21T10:00:01Z",
        "finished_at": "2026-11-21T10:09:00Z" if final else None,
        "drained_at": None,
        "settle_until": None,
        "conditions": conditions,
        "attention": [each["type"] for each in conditions],
        "include_subtree": False,
        "parent_deletion_id": "",
        "progress": progress,
        "counts": [],
        "blockers": [],
        "links": [{"rel": "self", "href": "http://inner.example/v1/deletions/x"}],
    } | fields


def count(service, type, **fields):
    """Return one of a deletion's counts."""
    return {
        "region": "RegionOne",
        "service": service,
        "type": type,
        "found": 0,
        "deleted": 0,
        "remaining": 0,
        "abandoned": 0,
        "kept": 0,
        "unplanned": 0,
        "unselected": 0,
        "calls": 1,
        "outcome": "clear",
        "state": "done",
        "reason": "",
        "message": "",
    } | fields


#: The selection of everything, as the API shows it.
NO_SELECTION = {
    **{name: [] for name in ("services", "types", "skip", "tags", "not_tags", "names", "not_names")},
    **dict.fromkeys(("created_before", "updated_before")),
}
PLAN_ID, PLAN_HASH = "00000000-0000-4000-8000-000000000001", "9f86" + 60 * "0"
BLOCKER = {
    "region": "RegionOne",
    "service": "volume",
    "type": "volume",
    "reason": "unreachable",
    "message": "no answer from http://volume.example",
    "remedy": "start the service, or waive it",
    "commands": [],
    "number": 0,
    "resources": [],
    "blocked_by": [],
}


class Cloud:
    """The state of the stub; tests may change it."""

    def __init__(self):
        self.requests = []
        self.faults = []  # requests and answers that differ from the API's document
        self.is_newer = False  # it may answer with values that the document does not have
        self.domains = {"default": {"id": "default", "name": "Default"}, "d2": {"id": "d2", "name": "Second"}}
        self.projects = {}
        self.admin = self.add_project("admin")
        self.catalog = True
        self.deletions = {}  # id -> remaining states
        self.below = set()  # ids of the deletions that are listed as children
        self.scripts = {}  # project id -> states of the deletion that a POST makes
        self.users, self.roles = {}, {}
        self.after = {}  # (deletion id, "retry" | "cancel") -> states from then on
        self.leftovers = {}
        self.events = {}
        self.reports = {}
        self.services = []
        self.waivers = {}
        self.liens = {}
        self.brake = {"on": False, "reason": "", "since": None, "user_name": ""}
        self.plans = {}
        self.resources = {}
        self.scans = []  # the latest first
        self.orphans = []
        self.orphan_projects = []
        self.answers = {}  # (method, path) -> list of (status, body, headers), used up one by one
        self.page = 2
        self.lock = threading.Lock()
        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        self.server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self.server.server_port}"
        self.thread = threading.Thread(target=self.server.serve_forever, args=(0.02,), daemon=True)
        self.thread.start()

    def close(self):
        self.server.shutdown()
        self.server.server_close()
        self.thread.join()

    def add_project(self, name, domain="default"):
        project = {"id": uuid.uuid4().hex, "name": name, "domain_id": domain, "enabled": True, "is_domain": False}
        self.projects[project["id"]] = project
        return project

    def script(self, project, *states):
        """Set the states of the next deletion of a project; the first state answers the POST."""
        self.scripts[project["id"]] = list(states)

    def add_deletion(self, project, *states, **fields):
        """Add a deletion that goes through the states, and return its id."""
        id_ = str(uuid.uuid4())
        self.deletions[id_] = [deletion(project, **({"status": s} if isinstance(s, str) else s)) for s in states]
        for state in self.deletions[id_]:
            state.update(fields, id=id_)
        return id_

    def made(self, method, prefix=""):
        """Return the paths of the requests that were made with a method."""
        with self.lock:
            return [r["path"] for r in self.requests if r["method"] == method and r["path"].startswith(prefix)]

    def error(self, status, code, detail, **fields):
        """Return an answer in the API's error shape."""
        error = {
            "status": status,
            "code": code,
            "title": "T",
            "detail": detail,
            "request_id": REQUEST_ID,
            "links": [{"rel": "help", "href": f"http://inner.example/errors#{code}"}],
        } | fields
        return status, {"errors": [error]}, {}

    # -- the two services

    def answer(self, method, path, query, body):
        scripted = self.answers.get((method, path))
        if scripted:
            return scripted.pop(0) if len(scripted) > 1 else scripted[0]
        if path.startswith("/identity"):
            return self.identity(method, path.removeprefix("/identity"), query, body)
        if path.startswith(f"{CLEANUP}/v1"):
            return self.checked(method, path.removeprefix(CLEANUP), query, body)
        return 404, "<html><head><title>x</title></head><body><h1>Not Found</h1></body></html>", {}

    def identity(self, method, path, query, body):
        parts = path.strip("/").split("/")
        if path.rstrip("/") in ("", "/v3"):
            version = {
                "id": "v3.14",
                "status": "stable",
                "links": [{"rel": "self", "href": f"{self.url}/identity/v3/"}],
                "media-types": [],
            }
            return 200, ({"version": version} if path.rstrip("/") else {"versions": {"values": [version]}}), {}
        if path == "/v3/auth/tokens":
            return 201, {"token": self.token()}, {"X-Subject-Token": "the-token"}
        named = {"projects": self.projects, "domains": self.domains, "users": self.users, "roles": self.roles}
        kind = named.get(parts[1])
        if kind is None:
            return 404, {"error": {"code": 404, "message": "no such thing"}}, {}
        if len(parts) == 2:
            rows = [
                row
                for row in kind.values()
                if all(row.get(k) == v[0] for k, v in query.items() if k in ("name", "domain_id", "parent_id"))
            ]
            return 200, {parts[1]: rows, "links": {}}, {}
        row = kind.get(parts[2])
        if row is None:
            return 404, {"error": {"code": 404, "message": f"Could not find: {parts[2]}."}}, {}
        if method == "DELETE":
            del kind[parts[2]]
            return 204, None, {}
        return 200, {parts[1].removesuffix("s"): row}, {}

    def token(self):
        def endpoint(url):
            return {
                "id": "e",
                "interface": "public",
                "region": "RegionOne",
                "region_id": "RegionOne",
                "url": self.url + url,
            }

        catalog = [{"type": "identity", "name": "keystone", "id": "s1", "endpoints": [endpoint("/identity")]}]
        if self.catalog:
            cleanup = {"type": "project-cleanup", "name": "cleanup", "id": "s2", "endpoints": [endpoint(CLEANUP)]}
            catalog.append(cleanup)
        project = {"id": self.admin["id"], "name": "admin", "domain": {"id": "default", "name": "Default"}}
        return {
            "methods": ["password"],
            "user": {"id": "u1", "name": "admin", "domain": {"id": "default", "name": "Default"}},
            "project": project,
            "roles": [{"id": "r1", "name": "admin"}],
            "issued_at": "2026-11-21T10:00:00.000000Z",
            "expires_at": "2036-11-21T10:00:00.000000Z",
            "audit_ids": ["a"],
            "catalog": catalog,
        }

    def checked(self, method, path, query, body):
        """Answer as `cleanup`; note in `faults` what the API's document does not allow, of the request or the answer.

        An answer gets the required fields that the test did not write. Its ids need not be UUIDs.
        """
        try:
            contract.check_request(method, path, query, body)
        except AssertionError as error:
            self.faults.append(f"request: {error}")
        status, answer, headers = self.cleanup(method, path, query, body)
        if answer in self.reports.values():  # what is signed gets no further field
            return status, answer, headers
        answer = contract.complete_answer(method, path, status, answer)
        if self.is_newer:
            return status, answer, headers
        try:
            contract.check_answer(method, path, status, "application/json", answer, formats=False)
        except AssertionError as error:
            self.faults.append(f"answer: {error}")
        return status, answer, headers

    def cleanup(self, method, path, query, body):
        parts = path.strip("/").split("/")
        if parts[0] != "v1":
            return 404, "<html><body>no such page</body></html>", {}
        if parts[1:] == ["services"]:
            return 200, {"services": self.services}, {}
        if parts[1:2] == ["projects"] and parts[3:] == ["force"] and method == "DELETE":
            return self.force(parts[2], body)
        if parts[1:2] == ["waivers"]:
            return self.waiving(method, parts[2:], query, body)
        if parts[1:2] == ["liens"]:
            return self.protecting(method, parts[2:], query, body)
        if parts[1:] == ["brake"]:
            return self.braking(method, body)
        if parts[1:2] == ["plans"]:
            if parts[2] not in self.plans:
                return self.error(404, "plan_not_found", "no plan has this id")
            if parts[3:] == ["resources"]:
                rows = [row for row in self.resources.get(parts[2], []) if self.fits(row, query)]
                return self.paged("resources", rows, query, f"plans/{parts[2]}/resources")
            return 200, {"plan": self.plans[parts[2]]}, {}
        if parts[1:2] == ["orphan-scans"]:
            return self.scanning(method, parts[2:], query, body)
        if parts[1:] in (["leftovers"], ["events"]):
            return self.searching(parts[1], query)
        if parts[1:] == ["deletions"]:
            return self.create(body) if method == "POST" else self.listing(query)
        id_ = parts[2]
        if id_ not in self.deletions:
            return self.error(404, "deletion_not_found", f"There is no deletion {id_}.")
        rest = parts[3:]
        if not rest and method == "PATCH":
            for state in self.deletions[id_]:
                state |= body
            return 200, {"deletion": self.step(id_)}, {}
        if not rest:
            return 200, {"deletion": self.step(id_)}, {}
        if rest[0] == "approve" and method == "POST":
            if (id_, "approve") not in self.after:
                return self.error(403, "self_approval", "who asked for a deletion cannot approve it")
            return 202, {"deletion": dict(self.step(id_), approvals=[body])}, {}
        if rest[0] in ("retry", "cancel", "restore") and method == "POST":
            states = self.after.get((id_, rest[0]))
            if states is None:
                return self.error(
                    409,
                    {"retry": "not_retryable", "cancel": "not_cancellable", "restore": "not_restorable"}[rest[0]],
                    f"No {rest[0]} now: it is over.",
                )
            self.deletions[id_] = [dict(state, id=id_) for state in states]
            return 202, {"deletion": self.step(id_)}, {}
        if rest[0] == "leftovers":
            rows = [row for row in self.leftovers.get(id_, []) if self.fits(row, query)]
            return self.paged("leftovers", rows, query, f"deletions/{id_}/leftovers")
        if rest[0] == "report":
            return 200, self.reports[id_], {}
        if rest[0] == "events":
            rows = [row for row in self.events.get(id_, []) if self.fits(row, query)]
            return self.paged("events", rows, query, f"deletions/{id_}/events")
        return 404, {"errors": []}, {}

    def force(self, project_id, body):
        under_way = [id_ for id_, states in self.deletions.items() if states[0]["project_id"] == project_id]
        if not under_way:
            return self.error(
                409, "no_deletion_under_way", "no deletion of this project is under way: request one first"
            )
        forced = {"user_name": "admin", "at": "2026-11-21T10:00:00Z", "abandoned": 0, "unseen": [], "types": []} | body
        for state in self.deletions[under_way[0]]:
            state["forced"] = forced
        return 202, {"deletion": self.step(under_way[0])}, {}

    def scanning(self, method, parts, query, body):
        if not parts and method == "POST":
            self.scans.insert(0, {"id": str(uuid.uuid4()), "status": "accepted", "message": "", "links": []})
            return 202, {"orphan_scan": self.scans[0]}, {}
        if not parts:
            return self.paged("orphan_scans", [s for s in self.scans if self.fits(s, query)], query, "orphan-scans")
        scan = next((each for each in self.scans if each["id"] == parts[0]), None)
        if scan is None:
            return self.error(404, "orphan_scan_not_found", "no orphan scan has this id")
        asked = [method, *parts[1:]]
        if asked == ["DELETE"]:
            scan["status"] = "cancelled"
            return 204, None, {}
        if asked == ["GET"]:
            return 200, {"orphan_scan": scan}, {}
        if asked == ["GET", "orphans"]:
            rows = [row for row in self.orphans if self.fits(row, query)]
            return self.paged("orphans", rows, query, f"orphan-scans/{parts[0]}/orphans")
        if asked == ["GET", "projects"]:
            return self.paged("projects", self.orphan_projects, query, f"orphan-scans/{parts[0]}/projects")
        gone = {"id": body["project_id"], "name": "", "domain_id": ""}
        id_ = self.add_deletion(gone, {"status": "accepted"}, dry_run=body["dry_run"], origin="adopted")
        return 202, {"deletion": self.step(id_)}, {}

    def waiving(self, method, parts, query, body):
        if not parts and method == "POST":
            id_ = str(uuid.uuid4())
            nothing = {"region": None, "project_id": None, "deleted_at": None, "deleted_by": ""}
            made = {"created_at": "2026-11-21T10:00:00Z", "user_id": "u1", "user_name": "admin", "state": "in_force"}
            shown = {key: value for key, value in body.items() if key != "allow_unknown"}
            self.waivers[id_] = {"id": id_} | nothing | made | shown | {"links": []}
            return 201, {"waiver": self.waivers[id_]}, {}
        if not parts:
            return self.paged("waivers", list(self.waivers.values()), query, "waivers")
        if parts[0] not in self.waivers:
            return self.error(404, "waiver_not_found", "no waiver has this id")
        if method == "DELETE":
            self.waivers[parts[0]] |= {"state": "withdrawn"}
            return 204, None, {}
        return 200, {"waiver": self.waivers[parts[0]]}, {}

    def protecting(self, method, parts, query, body):
        if not parts and method == "POST":
            id_ = str(uuid.uuid4())
            made = {"created_at": "2026-11-21T10:00:00Z", "user_name": "admin", "state": "in_force"}
            self.liens[id_] = {"id": id_, "expires_at": None} | made | body | {"links": []}
            return 201, {"lien": self.liens[id_]}, {}
        if not parts:
            return self.paged("liens", list(self.liens.values()), query, "liens")
        if parts[0] not in self.liens:
            return self.error(404, "lien_not_found", "no lien has this id")
        if method == "DELETE":
            self.liens[parts[0]] |= {"state": "removed"}
            return 204, None, {}
        return 200, {"lien": self.liens[parts[0]]}, {}

    def braking(self, method, body):
        if method == "POST":
            self.brake |= {"on": True, "reason": body["reason"], "user_name": "admin"}
        elif method == "DELETE":
            self.brake["on"] = False
            return 204, None, {}
        return 200, {"brake": self.brake}, {}

    def step(self, id_):
        states = self.deletions[id_]
        return states.pop(0) if len(states) > 1 else states[0]

    def create(self, body):
        project = self.projects.get(body["project_id"])
        if project is None:
            return self.error(404, "project_not_found", f"There is no project {body['project_id']}.")
        states = self.scripts.get(project["id"], [{"status": "accepted"}])
        selection = NO_SELECTION | body.get("selection", {})
        asked = {
            "selection": selection,
            "mode": body["mode"],
            "dry_run": body["dry_run"],
            "include_subtree": "include_subtree" in body,
        }
        asked |= {name: body[name] for name in ("request_reason", "ticket", "not_before") if name in body}
        id_ = self.add_deletion(project, *states, **asked)
        return 202, {"deletion": self.step(id_)}, {"Location": f"{self.url}{CLEANUP}/v1/deletions/{id_}"}

    def listing(self, query):
        live = {"accepted", "draining", "inventory", "deleting", "verifying", "cancelling"}
        statuses = set(query.get("status", []))
        if "live" in statuses:
            statuses |= live
        rows = [
            {k: v for k, v in states[0].items() if k not in ("counts", "blockers")}
            for states in self.deletions.values()
            if not statuses or states[0]["status"] in statuses
        ]
        rows = [row for row in rows if self.fits(row, query)]
        if "changed_since" in query:
            rows = [row for row in rows if row["updated_at"] >= query["changed_since"][0]]
        if "dry_run" in query:
            rows = [row for row in rows if row["dry_run"] is (query["dry_run"] == ["true"])]
        if "parent_deletion_id" in query:
            rows = [row for row in rows if row["id"] in self.below]
        rows.sort(key=lambda row: row["created_at"], reverse=True)
        return self.paged("deletions", rows, query, "deletions")

    def searching(self, key, query):
        """Answer a search in the leftovers or the events of all deletions."""
        found = []
        for id_, states in self.deletions.items():
            project = {name: states[0][name] for name in ("project_id", "project_name", "domain_id")}
            found += [{"deletion_id": id_, **project, **row} for row in getattr(self, key).get(id_, ())]
        return self.paged(key, [row for row in found if self.fits(row, query)], query, key)

    @staticmethod
    def fits(row, query):
        names = ("mode", "project_id", "domain_id", "region", "service", "type", "reason", "action")
        names += ("project_name", "user_id", "user_name", "ticket")
        named = {each["id"] for each in (row.get("data") or {}).get("resources", ())}
        if "resource_id" in query and query["resource_id"][0] not in named:
            return False
        return all(row.get(k) == v[0] for k, v in query.items() if k in names)

    @staticmethod
    def mark(key, n, row):
        """These have no id that could be a marker: the marker of the server is only in the link."""
        return f"9{n}" if key in ("leftovers", "orphans", "resources") else str(row["id"])

    def paged(self, key, rows, query, path):
        marker, first = query.get("marker", [None])[0], 0
        if marker is not None:
            first = next((n for n, row in enumerate(rows) if self.mark(key, n, row) == marker), -1) + 1
            rows = rows[first:]
        size = min(int(query.get("limit", [self.page])[0]), self.page)
        body = {key: rows[:size], "links": []}
        if len(rows) > size:
            again = {k: v for k, v in query.items() if k != "marker"} | {
                "marker": [self.mark(key, first + size - 1, rows[size - 1])]
            }
            # An inner host, as behind a proxy that does not pass the outer one on.
            href = f"http://inner.invalid/v1/{path}?{urllib.parse.urlencode(again, doseq=True)}"
            body["links"].append({"rel": "next", "href": href})
        return 200, body, {}

    def _handler(cloud):
        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            disable_nagle_algorithm = True  # it delays each body by 40 ms

            def _serve(self):
                parsed = urllib.parse.urlsplit(self.path)
                query = urllib.parse.parse_qs(parsed.query, keep_blank_values=True)
                raw = self.rfile.read(int(self.headers.get("Content-Length") or 0))
                body = json.loads(raw) if raw else None
                path = urllib.parse.unquote(parsed.path)
                with cloud.lock:
                    cloud.requests.append(
                        {
                            "method": self.command,
                            "path": path,
                            "query": query,
                            "body": body,
                            "token": self.headers.get("X-Auth-Token"),
                        }
                    )
                    status, answer, headers = copy.deepcopy(cloud.answer(self.command, path, query, body))
                if isinstance(answer, str):
                    data, kind = answer.encode(), "text/html"
                else:
                    data, kind = (b"" if answer is None else json.dumps(answer).encode()), "application/json"
                try:
                    self.send_response(status)
                    for name, value in ({"x-openstack-request-id": REQUEST_ID} | headers).items():
                        self.send_header(name, value)
                    if data:
                        self.send_header("Content-Type", kind)
                    self.send_header("Content-Length", str(len(data)))
                    self.end_headers()
                    self.wfile.write(data)
                except (BrokenPipeError, ConnectionResetError):
                    pass

            do_GET = do_POST = do_DELETE = do_PATCH = _serve

            def log_message(self, *args):
                pass

        return Handler
