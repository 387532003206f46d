"""Defects in what a request says about itself: its date, its reason, its ticket, and the commands about many."""

from tests.mutants.mutation import Mutation, tests

CORE = "cleanup_orchestrator/core/"
OSC = "cleanup_orchestrator/osc/"
REQUESTS = "cleanup_orchestrator/api/requests.py"
PROPOSALS = f"{CORE}proposals.py"
SCHEDULE = tests("core/schedule")
CHANGES = tests("core/proposals")
ASKED = tests("functional/test_api/test_requests")


def of(name: str) -> tuple[str, ...]:
    """Return the path of a test of the client."""
    return tests(f"functional/test_osc/test_{name}")


MUTATIONS = (
    Mutation(
        "A deletion begins at its request, whatever its date",
        f"{CORE}snapshot.py",
        "return at is not None and self.now < at and self.deletion.status is Status.ACCEPTED",
        "return False",
        SCHEDULE,
    ),
    Mutation(
        "A worker writes before the date",
        f"{CORE}guard.py",
        "return _if(at is not None and inputs.now < at,",
        "return _if(False,",
        SCHEDULE,
    ),
    Mutation(
        "A deletion that waits for its date is decided on each minute",
        f"{CORE}decide.py",
        "        plan.wake_only(min(at for at in ahead if at > view.now))\n",
        "",
        SCHEDULE,
    ),
    Mutation(
        "A deletion is stalled as soon as its date has come",
        f"{CORE}conditions.py",
        "    waiting = waiting or view.waits_for_date or view.has(Type.SCHEDULED)\n",
        "    waiting = waiting or view.waits_for_date\n",
        SCHEDULE,
    ),
    Mutation(
        "A deletion that waits for its date takes the turns of others",
        f"{CORE}deletion.py",
        'QueueState.OUT if values.get("not_before") else QueueState.WAITING',
        "QueueState.WAITING",
        SCHEDULE,
    ),
    Mutation(
        "Cascades of many days begin at one date without an approval",
        f"{CORE}deletion.py",
        "return max(self.created_at, self.not_before or self.created_at)",
        "return self.created_at",
        (*SCHEDULE, *ASKED),
    ),
    Mutation(
        "The date of a deletion that has begun is changed",
        PROPOSALS,
        "d.attempt > 1 or survey.round >= d.since_round:",
        "d.attempt > 1:",
        CHANGES,
    ),
    Mutation(
        "A later date of a retry takes a cascade out of the count of its day",
        PROPOSALS,
        " or d.attempt > 1 or survey",
        " or survey",
        CHANGES,
    ),
    Mutation(
        "The approval of one day is one of another day",
        PROPOSALS,
        ', "approvals": ()}',
        "}",
        CHANGES,
    ),
    Mutation(
        "A domain manager hastens the deletion of an admin",
        PROPOSALS,
        '        if requests.of_admin and not proposal.by.is_admin:\n            raise Refused("forbidden", _OF_ADMIN.format('
        'deletion=_named(d), verb="change it"))\n',
        "",
        CHANGES,
    ),
    Mutation(
        "A user who may postpone a deletion hastens it",
        PROPOSALS,
        'and fields["not_before"] >= d.begins_at',
        "",
        CHANGES,
    ),
    Mutation(
        "A user who may postpone a deletion changes its ticket",
        PROPOSALS,
        'fields.keys() == {"not_before"}',
        'fields.keys() >= {"not_before"}',
        CHANGES,
    ),
    Mutation(
        "The date of a request is dropped, because the project has another deletion",
        REQUESTS,
        "return existing.not_before == wanted.not_before and all",
        "return all",
        ASKED,
    ),
    Mutation(
        "A request without the ticket that the operator requires is accepted",
        REQUESTS,
        "    for name in () if dry_run else context.required:\n",
        "    for name in ():\n",
        ASKED,
    ),
    Mutation(
        "The owners of a project postpone its deletion for ever",
        REQUESTS,
        "    if at - requested_at > context.max_delay:\n",
        "    if False:\n",
        ASKED,
    ),
    Mutation(
        "A tree of which one deletion has begun is changed in part",
        "cleanup_orchestrator/api/deletion_actions.py",
        "        for child_id in below:  # before any is changed\n"
        "            self._changed(req, child_id, body, only_check=True)\n",
        "",
        ASKED,
    ),
    # ----------------------------------------------------------------------------------------------------- many at once
    Mutation(
        "Without a terminal every deletion that matches is changed without --yes",
        f"{OSC}many.py",
        "    if not parsed_args.yes and not confirm.needed(False):\n",
        "    if False:\n",
        of("many"),
    ),
    Mutation(
        "A preview changes what it shows",
        f"{OSC}many.py",
        "    if parsed_args.preview or not fitting:\n",
        "    if not fitting:\n",
        of("many"),
    ),
    Mutation(
        "A ticket does not select",
        f"{OSC}deletion_filters.py",
        '    "ticket": "ticket",\n',
        "",
        of("deletion_filters"),
    ),
    Mutation(
        "A line of the file with two tickets deletes with the last one",
        f"{OSC}project_delete.py",
        "            if named.setdefault(name, entry) != entry:\n",
        "            named[name] = entry\n            if False:\n",
        of("project_file"),
    ),
    Mutation(
        "A line of the file that lacks a column is read with the next one",
        f"{OSC}project_file.py",
        "    if len(cells) != width:\n",
        "    if False:\n",
        of("project_file"),
    ),
    Mutation(
        "A deletion that waits for its date counts as one that moves",
        f"{OSC}summary.py",
        '        elif common.is_true(row, "scheduled"):\n',
        "        elif False:\n",
        of("summary"),
    ),
)
