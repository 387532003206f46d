"""Compares what `openstack project cleanup` and `openstack project delete --async --cascade` leave of a project.

    python -m tests.cloud.launcher --full --fence up --directory /tmp/whole     (in another terminal)
    python -m tests.benchmarks.project_cleanup --cloud /tmp/whole

Two projects are filled in the same way, with one of everything. One is cleaned up by the client's own command as an
administrator runs it, and then deleted, as its documentation says; the other is deleted by the orchestrator. What is
left of each is counted in the services' databases and on Swift's disks: rows that name the project, without those that
a service has marked as deleted and without history (tests/cloud/rows.py).
"""

from __future__ import annotations

import argparse
import contextlib
import itertools
import time

from tests.cloud import demo, filler, rows
from tests.cloud.job import Job, settled, uncovered
from tests.cloud.launcher import Cloud


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cloud", required=True, help="the directory of a whole cloud that is up (launcher --full)")
    parser.add_argument("--venv", help="its services' venv, as the launcher was told (default: DIRECTORY/venv)")
    parser.add_argument("--lines", action="store_true", help="show each row that is left")
    options = parser.parse_args()
    cloud = Cloud.attach(options.cloud, options.venv)
    admin = filler.connect(cloud.auth_url, "admin", cloud.site.password, "admin")
    number = next(n for n in itertools.count() if not list(admin.identity.projects(name=f"cleaned-{n}")))
    covered = set(filler.SERVICES) - set(uncovered(cloud))
    filled = {}
    for name in (f"cleaned-{number}", f"orchestrated-{number}"):
        filled[name] = filler.fill(admin, name, only=covered)
        print(f"{name} is filled: {sum(map(len, filled[name].ids.values()))} things", flush=True)
    job = Job(cloud)
    job.start_orchestrator()
    try:
        compare(cloud, job, filled, options.lines)
    finally:
        job.stop()
        cloud.down()  # stops what this process started; the cloud keeps running


def compare(cloud: Cloud, job: Job, filled: dict[str, filler.Filled], lines: bool) -> None:
    before = settled(cloud)
    cleaned, orchestrated = filled.values()
    began = time.monotonic()
    cloud.admin.ensure_role(cleaned.project_id, admin_id(cloud), "admin")  # it uses a token of the project
    code, said = job.command("project", "cleanup", "--auto-approve", "--project", cleaned.project_id)
    print(f"openstack project cleanup: exit code {code} after {time.monotonic() - began:.0f} s; it said at last:")
    print("\n".join(f"  {line}" for line in said.strip().splitlines()[-3:]))
    code, said = job.command("project", "delete", cleaned.project_id)
    print(f"openstack project delete: exit code {code} {said.strip()}")
    began = time.monotonic()
    with contextlib.suppress(demo.DemoError):
        record = job.delete("--cascade", orchestrated.project_id, status="deleted")
        print(f"the orchestrator: {time.monotonic() - began:.0f} s, {record['progress']}")
    after = settled(cloud)
    left = {name: after.live(each.project_id) for name, each in filled.items()}
    print("\nrows that name the project, in the services' databases:")
    titles = {"before": before.live(cleaned.project_id), "cleanup": left[cleaned.project_name],
              "orchestrator": left[orchestrated.project_name]}  # fmt: skip
    print("\n".join(rows.summary(titles)))
    print("\nleft by openstack project cleanup, by table:")
    for name, count in left[cleaned.project_name].named().items():
        print(f"  {count:5} {name}")
    if lines:
        print("\n".join(line for each in left.values() for line in each.lines()))


def admin_id(cloud: Cloud) -> str:
    return str(cloud.admin.call("GET", "/users?name=admin")["users"][0]["id"])


if __name__ == "__main__":
    main()
