"""What people see: the output of the commands at a terminal of 80 columns.

``captures`` has one file for each case. Ids and times are replaced, so that each run gives the same text. After a
change of the output, write the files anew with ``python -m tests.functional.test_osc.test_captures``, and look at the
difference.
"""

import datetime
import os
import pathlib
import re
import shlex
import sys

import pytest

from cleanup_orchestrator.osc import confirm, screen
from tests.functional.test_osc import stub

FOLDER = pathlib.Path(__file__).with_name("captures")
WRITE = "CLEANUP_WRITE_CAPTURES"
WIDTH = 80

DEAD = "0123456789abcdef0123456789abcdef"


def uuid(number):
    return f"0b6d2a9e-6d7c-4d44-a1b7-{number:012}"


PLACES = (
    ("compute", "server", "web-frontend-blue-01"),
    ("block-storage", "volume", "the database of the customer, second copy"),
    ("network", "port", ""),
    ("container-infrastructure-management", "cluster_template", "k8s"),
    ("object-store", "container", "c" * 90),
)
RESOURCES = [
    {
        "region": "RegionOne",
        "service": service,
        "type": type_,
        "id": "c" * 90 if type_ == "container" else uuid(n),
        "name": name,
        "size": 3 * 2**30 if type_ == "volume" else None,
        "reason": "protected" if type_ == "volume" else "in_use",
        "message": "a message of the service\nwith a second line that is much longer than a terminal is wide",
        "remedy": "remove what uses it",
        "blocked_by": [{"type": "compute.server", "id": uuid(9), "name": "web", "project_id": "", "project_name": ""}],
        "abandoned": False,
    }
    for n, (service, type_, name) in enumerate(PLACES)
]
BLOCKERS = [
    {
        "region": "RegionOne",
        "service": "image",
        "type": type_,
        "reason": "protected",
        "message": "the image is public, and other projects can use it",
        "remedy": "make the image private, if no other project needs it any longer",
        "blocked_by": [],
        "resources": [{"id": uuid(40 + n), "name": f"golden-{n}"}],
        "number": 1,
        "commands": [f"openstack image set --private {uuid(40 + n)}"],
    }
    for n, type_ in enumerate(("image", "member"))
]
COUNTS = [
    stub.count("compute", "server", found=2, remaining=2, outcome="leftovers", reason="present"),
    stub.count("block-storage", "volume", found=3, remaining=3, outcome="leftovers", reason="present"),
    stub.count("network", "port", found=12, remaining=12, outcome="leftovers", reason="present"),
    stub.count("network", "floating_ip", found=1, remaining=1, outcome="leftovers", reason="present"),
    *(
        stub.count(service, type_, found=n, remaining=n, outcome="leftovers", reason="present")
        for n, (service, type_) in enumerate(
            [
                ("key-manager", "secret"),
                ("dns", "zone"),
                ("load-balancer", "load_balancer"),
                ("orchestration", "stack"),
                ("object-store", "container"),
            ],
            1,
        )
    ),
    stub.count("shared-file-system", "share", outcome="unknown", reason="unreachable", message="no answer"),
    stub.count("image", "image", found=1, kept=1),
]
PROGRESS = {"found": 33, "remaining": 33, "kept": 1, "unknown": 1, "steps": 54, "steps_done": 54}
TYPES = [
    {
        **row,
        "delete": row["remaining"],
        "keep": row["kept"],
        "protect": 2 if row["type"] == "image" else 0,
        "size": None,
        "known": True,
        "waived": False,
    }
    for row in COUNTS
    if row["outcome"] != "unknown"
]
GOES = "33 resources in 8 services will be deleted, and the project is removed after that"
FREE = f"{GOES}; nothing blocks it"
#: By the counts of a report, and by those of the plan.
UNSEEN = f"{GOES}; blocked by 1 type that could not be listed"
BLOCKED = f"{GOES}; blocked by 2 resources and 2 types that could not be listed"
PLAN_FALSE = {
    "type": "plan_complete",
    "status": False,
    "reason": "unreachable",
    "message": "shared-file-system.share@RegionOne could not be listed: no answer",
    "last_transition_at": "2026-11-21T10:00:00Z",
}


def fill(cloud):
    """Fill a cloud; return the projects."""
    demo, long = cloud.add_project("demo"), cloud.add_project("the project of the customer with the long name")
    cloud.add_deletion(demo, "deleted", mode="cascade", created_at="2026-11-20T10:00:00Z")
    cloud.add_deletion(
        long, {"status": "deleting", "blocked": "an image is public", "blockers": BLOCKERS}, mode="cascade"
    )
    report = cloud.add_deletion(
        demo,
        {
            "status": "leftovers",
            "counts": COUNTS,
            "progress": PROGRESS,
            "message": "the project owns 33 resources",
            "summary": UNSEEN,
        },
    )
    cloud.leftovers[report] = RESOURCES
    cloud.events[report] = [
        {
            "id": n,
            "at": f"2026-11-21T10:00:0{n}Z",
            "type": type_,
            "message": message,
            "actor": actor,
            "request_id": stub.REQUEST_ID,
            "data": {"resources": [{"id": uuid(0), "name": "web"}], "text": "x" * 100},
        }
        for n, (type_, message, actor) in enumerate(
            [
                ("deletion.accepted", "requested by admin", "u1"),
                (
                    "resource.found",
                    "network.port@RegionOne: 12 found, such as " + ", ".join(map(uuid, range(9))),
                    "w-1",
                ),
                ("deletion.leftovers", "the project owns 33 resources", "engine-1"),
            ],
            1,
        )
    ]
    planned = cloud.add_deletion(
        cloud.add_project("other"), "planned", mode="cascade", dry_run=True, created_at="2026-11-21T09:00:00Z"
    )
    cloud.plans[planned] = {
        "id": planned,
        "hash": stub.PLAN_HASH,
        "project_name": "other",
        "project_id": DEAD,
        "summary": BLOCKED,
        "complete": False,
        "unknown": ["shared-file-system.share@RegionOne", "dns.zone@RegionTwo"],
        "delete": 33,
        "keep": 1,
        "protect": 2,
        "created_at": "2026-11-21T10:09:00Z",
        "expires_at": "2026-11-22T10:09:00Z",
        "order": [["compute.server", "orchestration.stack"], ["network.port", "network.floating_ip"]],
        "with_project": ["compute.quota", "network.security_group"],
        "types": TYPES,
        "blockers": BLOCKERS,
        "links": [],
    }
    actions = ("delete", "keep", "protect", "delete", "delete")
    cloud.resources[planned] = [{**row, "action": action} for row, action in zip(RESOURCES, actions)]
    cloud.services = [
        {"region": "RegionOne", "service_type": "network", "name": "neutron", "answered_by": "plugin",
         "types": ["network.port", "network.router"], "message": ""},
        {"region": "RegionOne", "service_type": "container-infrastructure-management", "name": "magnum",
         "answered_by": "unsupported", "types": [], "message": "no plugin handles it, and it speaks no protocol"},
    ]  # fmt: skip
    for n, region in enumerate(("RegionTwo", None)):
        cloud.waivers[uuid(50 + n)] = {
            "id": uuid(50 + n), "service_type": "shared-file-system", "region": region, "project_id": None,
            "reason": "the array is lost, and no one will repair it: ticket 4711", "user_id": "u1",
            "user_name": "admin", "state": "in_force", "expires_at": "2027-01-31T00:00:00Z", "links": [],
        }  # fmt: skip
    cloud.liens[uuid(60)] = {
        "id": uuid(60), "project_id": DEAD, "origin": "the department of legal affairs",
        "reason": "court order 08/15", "created_at": "2026-11-21T10:00:00Z", "expires_at": None,
        "user_name": "admin", "state": "in_force", "links": [],
    }  # fmt: skip
    skipped = "0 orphans; 2 too young, 3 types not listed"
    cloud.scans = [
        {"id": uuid(70), "status": "completed", "message": skipped, "counts": {"orphans": 0, "too_young": 2},
         "coverage": [], "not_covered": [], "created_at": "2026-11-21T10:00:00Z", "links": []}
    ]  # fmt: skip
    cloud.orphans = [{**row, "project_id": DEAD, "project_setting": False} for row in RESOURCES]
    counts = [{"type": "network.port", "count": 12}, {"type": "compute.server", "count": 1}]
    cloud.orphan_projects = [
        {"project_id": DEAD, "project_name": name, "domain_id": None, "orphans": 13, "counts": counts,
         "project_settings": []}
        for name in ("demo", None)
    ]  # fmt: skip
    return demo, long


LONG = "the project of the customer with the long name"
#: By name: the command, and the number of rows of its list; ``None``: it is no list.
CASES = {
    "deletion-list": ("project deletion list", 4),
    "deletion-list-attention-none": ("project deletion list --attention --mode purge", 0),
    "deletion-show-report": ("project deletion show demo", None),
    "deletion-show-blocked": (f"project deletion show '{LONG}'", None),
    "deletion-leftovers": ("project deletion leftovers demo", 5),
    "deletion-leftovers-all": ("project deletion leftovers --all", 5),
    "deletion-events": ("project deletion events demo", 3),
    "deletion-events-resource": (f"project deletion events --resource {uuid(0)}", 3),
    "plan-show": ("project deletion plan show other", None),
    "plan-resources": ("project deletion plan resources other", 5),
    "service-list": ("project deletion service list", 2),
    "waiver-list": ("project deletion waiver list", 2),
    "waiver-show": (f"project deletion waiver show {uuid(50)}", None),
    "lien-list": ("project deletion lien list", 1),
    "lien-show": (f"project deletion lien show {uuid(60)}", None),
    "brake-show": ("project deletion brake show", None),
    "orphan-scan-list": ("project orphan scan list", 1),
    "orphan-scan-show": (f"project orphan scan show {uuid(70)}", None),
    "orphan-list": ("project orphan list", 5),
    "orphan-list-of-a-project": (f"project orphan list --project {DEAD}", 5),
    "orphan-project-list": ("project orphan project list", 2),
    "delete-asks-after-a-report": ("project delete --async --cascade demo", None),
    "delete-asks-after-a-dry-run": ("project delete --async --cascade other", None),
    "delete-starts": ("project delete --async --cascade --yes demo", None),
    "delete-report-ends": ("project delete --async --wait demo", None),
    "delete-dry-run-ends": ("project delete --async --cascade --dry-run --wait demo", None),
    "delete-dry-run-is-incomplete": ("project delete --async --cascade --dry-run --wait demo", None),
    "delete-is-blocked": ("project delete --async --cascade --wait --stop-when-blocked demo", None),
    "delete-ends": ("project delete --async --cascade --wait demo", None),
    "delete-fails": ("project delete --async --cascade --wait demo", None),
    "delete-refused-subtree": ("project delete --async --cascade --yes demo", None),
    "purge-asks": ("project purge demo", None),
    "orphan-scan-create": ("project orphan scan create --min-age 2h --wait", None),
}
MOVING = [
    stub.count("compute", "server", found=2, remaining=1, outcome="leftovers", state="running"),
    stub.count("network", "network", found=1, remaining=1, outcome="", state="idle", message="waits for network.port"),
]
#: By name: the states of the deletion that the command requests.
STATES = {
    "delete-report-ends": [
        {"status": "inventory", "progress": {"purpose": "inventory", "found": 20, "steps": 54, "steps_done": 27}},
        {"status": "leftovers", "counts": COUNTS, "progress": PROGRESS, "message": "the project owns 33 resources",
         "summary": UNSEEN},
    ],
    "delete-dry-run-ends": [
        {"status": "planned", "counts": COUNTS[:-2], "progress": {**PROGRESS, "unknown": 0}, "summary": FREE},
    ],
    "delete-dry-run-is-incomplete": [
        {"status": "planned", "counts": COUNTS, "progress": PROGRESS, "summary": UNSEEN, "conditions": [PLAN_FALSE]},
    ],
    "delete-is-blocked": [
        {"status": "deleting", "counts": MOVING, "progress": {"found": 33, "deleted": 20, "remaining": 13},
         "blocked": "image.image@RegionOne: protected", "blockers": BLOCKERS},
    ],
    "delete-ends": [
        {"status": "deleting", "counts": MOVING, "progress": {"found": 75, "remaining": 75, "purpose": "delete"}},
        {"status": "verifying", "settle_until": "2026-11-21T10:05:00Z", "progress": {"found": 80, "deleted": 80}},
        {"status": "deleted", "progress": {"found": 80, "deleted": 80, "kept": 4}, "message": "Removed; nothing is left"
        },
    ],
    "delete-fails": [
        {"status": "failed", "message": "Keystone refused to remove the project: it has a child since 10:04"},
    ],
}  # fmt: skip


def same(text):
    """Return a text with the same ids in each run, as long as they were."""
    known = {}

    def replaced(match):
        form = "00000000-0000-4000-8000-{:012}" if "-" in match[0] else "{:032}"
        return known.setdefault(match[0], form.format(len(known) + 1))

    text = re.sub(r"\b[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}\b|\b[0-9a-f]{32}\b", replaced, text)
    return re.sub(r"127\.0\.0\.1:\d+", "127.0.0.1:PORT", text)


@pytest.fixture
def at_a_terminal(openstack, monkeypatch, terminal):
    """Run a command whose input, output and error output are a terminal of 80 columns, which cannot be redrawn."""
    monkeypatch.setenv("TERM", "dumb")
    monkeypatch.setattr("cliff.utils.terminal_width", lambda: WIDTH)
    now = datetime.datetime(2026, 11, 21, 10, 12, tzinfo=datetime.timezone.utc)
    monkeypatch.setattr(confirm, "now", lambda _client: now)
    monkeypatch.setattr(type(sys.stdout), "isatty", lambda _: True)  # those of pytest
    terminal("n\n")
    return openstack


def captured(run, cloud, name):
    cloud.is_newer = True
    demo, _ = fill(cloud)
    command, _ = CASES[name]
    if name == "purge-asks":
        cloud.deletions.clear()
    if name == "delete-refused-subtree":
        child = cloud.add_project("child")
        refused = cloud.error(409, "project_has_children", "there are projects below", children=[child["id"]])
        cloud.answers["POST", "/cleanup/v1/deletions"] = [refused]
    if name == "orphan-scan-create":
        started = {**cloud.scans[0], "id": uuid(71), "status": "waiting", "read": 1}
        cloud.answers["POST", "/cleanup/v1/orphan-scans"] = [(202, {"orphan_scan": started}, {})]
        ended = {**started, "status": "incomplete", "message": "0 orphans; 2 too young, 3 types not listed"}
        cloud.answers["GET", f"/cleanup/v1/orphan-scans/{uuid(71)}"] = [(200, {"orphan_scan": ended}, {})]
    if name in STATES:
        cloud.script(demo, "accepted", *STATES[name])
    answers = sys.stdin
    if name in STATES:
        answers.write("y\n")
        answers.seek(0)
    result = run(*shlex.split(command))
    parts = [f"$ openstack {command}\n", result.out, result.err, f"(exit code {result.code})\n"]
    return same("".join(parts))


@pytest.mark.parametrize("name", CASES)
def test_a_terminal_of_80_columns_shows(at_a_terminal, stub_cloud, name):
    text = captured(at_a_terminal, stub_cloud, name)
    file = FOLDER / f"{name}.txt"
    if os.environ.get(WRITE):
        FOLDER.mkdir(exist_ok=True)
        file.write_text(text)
    for line in text.splitlines()[1:]:
        # A broken command cannot be copied. An error is one line in every output.
        is_whole = line.lstrip().startswith("openstack ") or "Cannot " in line
        assert screen.width(line) <= WIDTH or is_whole, line
    rows = CASES[name][1]
    if rows is not None:
        cells = [line for line in text.splitlines() if line.startswith("|")]
        assert len(cells) == (rows + 1 if rows else 0), "one line for each row"
    assert text == file.read_text(), f"write it anew with: python -m {__name__}"


def test_each_capture_has_a_case():
    assert {file.stem for file in FOLDER.iterdir()} == set(CASES)


if __name__ == "__main__":
    os.environ[WRITE] = "1"
    sys.exit(pytest.main([__file__, "-q", "-n", "0"]))
