"""End the projects of a CSV file: delete each project and everything in it.

The file has the columns "project" and "domain", with names or IDs. Without --delete nothing is deleted: a dry run of
each project lists what would be deleted.
"""

import argparse
import csv
import sys

import openstack
from openstack import exceptions

from cleanup_orchestrator import sdk


def read(path):
    """Return the projects of the file; refuse a file with a blank or a missing cell before anything is requested."""
    with open(path, newline="", encoding="utf-8-sig") as file:
        rows = [{name: (row.get(name) or "").strip() for name in ("project", "domain")} for row in csv.DictReader(file)]
    for number, row in enumerate(rows, 2):
        if not all(row.values()):
            sys.exit(f"{path}, row {number}: give a project and a domain")
    return rows


def say(text, indent=""):
    """Print a line without terminal escape codes: users choose the names of projects and resources."""
    print(indent + sdk.one_line(text))


def request(conn, row, delete):
    """Request the deletion of a project, or a dry run of it."""
    domain = conn.identity.find_domain(row["domain"], ignore_missing=False)
    project = conn.identity.find_project(row["project"], ignore_missing=False, domain_id=domain.id)
    if project.domain_id != domain.id:  # an ID finds the project in every domain
        raise exceptions.NotFoundException(f"the project is in another domain than {row['domain']}")
    return conn.project_cleanup.create_deletion(project, mode="cascade", dry_run=not delete)


def follow(cleanup, deletion, seconds):
    """Wait for the end of a deletion, and print the result; return whether it ended as requested."""
    try:
        deletion = cleanup.wait_for_deletion(deletion, interval=5, wait=seconds)
        good = True
        numbers = f"found {deletion.progress.found}, deleted {deletion.progress.deleted}"
        say(f"{deletion.project_name}: {deletion.status}; {numbers}, remaining {deletion.progress.remaining}")
    except (exceptions.ResourceFailure, exceptions.ResourceTimeout) as error:
        good = False
        say(f"{deletion.project_name}: {error}")
        for blocker in cleanup.get_deletion(deletion).blockers or ():
            say(f"{blocker.service} {blocker.type}: {blocker.message}: {blocker.remedy}", "    ")
    for left in cleanup.leftovers(deletion):  # of a dry run: what would be deleted
        say(f"{left.service} {left.type} {left.name or left.id}: {left.reason}", "    ")
    return good


def main():
    """Request all deletions, then wait for each. The orchestrator works on them at the same time."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("file")
    parser.add_argument("--cloud", help="name of the cloud in clouds.yaml")
    parser.add_argument("--delete", action="store_true", help="delete the projects")
    parser.add_argument("--wait", type=float, default=3600, help="seconds to wait for each deletion (default: 3600)")
    args = parser.parse_args()

    rows = read(args.file)
    conn = openstack.connect(cloud=args.cloud)
    conn.add_service(sdk.DESCRIPTION)
    cleanup = conn.project_cleanup
    failed = 0

    deletions = []
    for row in rows:
        try:
            deletions.append(request(conn, row, args.delete))
        except exceptions.NotFoundException as error:
            say(f"{row['project']}: not found: {error}")
            failed += 1
        except exceptions.ConflictException as error:  # a lien, a project below, another deletion under way
            say(f"{row['project']}: refused: {error}")
            failed += 1
        except exceptions.SDKException as error:
            say(f"{row['project']}: {error}")
            failed += 1

    for deletion in deletions:
        try:
            failed += not follow(cleanup, deletion, args.wait)
        except exceptions.SDKException as error:
            say(f"{deletion.project_name}: {error}")
            failed += 1
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
