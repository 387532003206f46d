"""Defects of the conformance test of the project resources protocol."""

from tests.mutants.mutation import Mutation, tests

CHECK = "cleanup_orchestrator/protocol/conformance/__init__.py"
SUBJECT = "cleanup_orchestrator/protocol/conformance/subject.py"
WRITES = "cleanup_orchestrator/protocol/conformance/writes.py"
COMMAND = "cleanup_orchestrator/cmd/protocol_check.py"
TESTS = tests("protocol/conformance")

MUTATIONS = (
    Mutation(
        "The check writes to a service that does not keep projects apart",
        CHECK,
        "BEFORE_WRITES = (3, 4, 6, 7, 8, 12)",
        "BEFORE_WRITES = ()",
        TESTS,
    ),
    Mutation(
        "The check goes on after a delete that hit too much",
        WRITES,
        'raise Halted(f"{answer.seen}, and {lost}")',
        'raise Broken(f"{answer.seen}, and {lost}")',
        TESTS,
    ),
    Mutation(
        "The check deletes what the service keeps",
        SUBJECT,
        'own = row.get("project_id") == project and not row.get("keep") and not row.get("protected")',
        'own = row.get("project_id") == project',
        TESTS,
    ),
    Mutation(
        "The check accepts a 202 after which the resource looks present",
        WRITES,
        'if present := [row for row in left if row.get("state") != State.DELETING]:',
        'if present := [row for row in left if row.get("state") == "unknown"]:',
        TESTS,
    ),
    Mutation(
        "The check accepts errors that are no problem documents",
        SUBJECT,
        "self.errors.append((answer.seen, _problem(answer, kind)))",
        'self.errors.append((answer.seen, ""))',
        TESTS,
    ),
    Mutation(
        "The check sends the token of an admin to a service",
        COMMAND,
        "if ADMIN in roles:",
        "if not roles:",
        tests("cmd/protocol_check"),
    ),
    Mutation(
        "The check may write below any address",
        COMMAND,
        'if not url.startswith(tuple(f"{base}/{part}/" for base in bases for part in ("projects", "drains"))):',
        "if not bases:",
        tests("cmd/protocol_check"),
    ),
    Mutation(
        "A service that a user without the role may read passes the check",
        "cleanup_orchestrator/protocol/conformance/access.py",
        "return _read_refused(subject, _member(subject), {}, 403, ProblemType.FORBIDDEN)",
        '_member(subject)\n    return "refused"',
        TESTS,
    ),
    Mutation(
        "A service that answers an unknown path like a resource that is gone passes the check",
        "cleanup_orchestrator/protocol/conformance/errors.py",
        'if isinstance(answer.document, dict) and answer.document.get("type") == ProblemType.NOT_FOUND:',
        "if False:",
        TESTS,
    ),
    Mutation(
        "A service that takes the id of a project as a pattern passes the check",
        "cleanup_orchestrator/protocol/conformance/errors.py",
        "            if answer.status != 200 or _rows(answer):\n",
        "            if answer.status != 200:\n",
        TESTS,
    ),
    Mutation(
        "A service whose list has the rows of another project passes the check",
        "cleanup_orchestrator/protocol/conformance/reads.py",
        '                if row.get("project_id") != project:\n',
        "                if False:\n",
        TESTS,
    ),
    Mutation(
        "A service that loses rows while its backend is down passes the check",
        "cleanup_orchestrator/protocol/conformance/reads.py",
        "        if lost := sorted(expected - listed):\n",
        "        if lost := []:\n",
        TESTS,
    ),
    Mutation(
        "A service whose small pages lose rows passes the check",
        "cleanup_orchestrator/protocol/conformance/reads.py",
        "        if lost := sorted(set(expected) - set(paged)):\n",
        "        if lost := []:\n",
        TESTS,
    ),
    Mutation(
        "A service that has rows for an unknown project passes the check",
        "cleanup_orchestrator/protocol/conformance/reads.py",
        '        if page["resources"]:\n',
        "        if False:\n",
        TESTS,
    ),
    Mutation(
        "A delete that takes resources of another type along passes the check",
        "cleanup_orchestrator/protocol/conformance/writes.py",
        '                stay = {} if name in along else {id_: row for id_, row in rows.items() if not row.get("keep")}\n',
        "                stay = {}\n",
        TESTS,
    ),
)
