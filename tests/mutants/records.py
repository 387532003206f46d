"""Defects in the record: fencing tokens, leases, versions, liens, the brake, plans, changes, what may be purged."""

from tests.mutants.mutation import Mutation, tests

STEPS = "cleanup_orchestrator/store/steps.py"
GUARD = "cleanup_orchestrator/store/guard.py"
QUERIES = "cleanup_orchestrator/store/queries.py"
DELETIONS = "cleanup_orchestrator/store/deletions.py"
LEFTOVERS = "cleanup_orchestrator/store/leftovers.py"
CHANGES = "cleanup_orchestrator/store/changes.py"
JOURNAL = "cleanup_orchestrator/store/journal.py"
TRANSIENT = "cleanup_orchestrator/store/transient.py"
CORE_GUARD = "cleanup_orchestrator/core/guard.py"
LIENS = "cleanup_orchestrator/store/liens.py"
PLUGIN_LIENS = "cleanup_orchestrator/store/plugin_liens.py"
BRAKES = "cleanup_orchestrator/store/brake.py"
EXPIRING = "cleanup_orchestrator/store/expiring.py"
PLANS = "cleanup_orchestrator/store/plans.py"
PURGE = "cleanup_orchestrator/store/retention.py"
ORPHANS = "cleanup_orchestrator/store/orphans.py"
RATE_LIMITS = "cleanup_orchestrator/store/rate_limits.py"

MUTATIONS = (
    Mutation(
        "The worker that claimed a step before still counts as its holder",
        GUARD,
        "if current.fencing_token != step.fencing_token or current.state != StepState.RUNNING:",
        "if current.state != StepState.RUNNING:",
        tests("store/fencing_rules"),
    ),
    Mutation(
        "A worker that has finished a step still counts as its holder",
        GUARD,
        "if current.fencing_token != step.fencing_token or current.state != StepState.RUNNING:",
        "if current.fencing_token != step.fencing_token:",
        tests("store/fencing_rules"),
    ),
    Mutation(
        "A step of the attempt before still has a holder",
        GUARD,
        "waiting = deletion.status in LIVE and current.round >= deletion.since_round",
        "waiting = deletion.status in LIVE",
        tests("store/fencing_rules"),
    ),
    Mutation(
        "A step of a deletion that has ended still has a holder",
        GUARD,
        "waiting = deletion.status in LIVE and current.round >= deletion.since_round",
        "waiting = current.round >= deletion.since_round",
        tests("store/fencing_rules"),
    ),
    Mutation(
        "A result is saved without comparing the fencing token",
        STEPS,
        ".where(guard.claim_holds(step))\n                .values(**{**_result_values(after)",
        ".where(t.steps.c.id == step.id)\n                .values(**{**_result_values(after)",
        tests("store/fencing_rules"),
    ),
    Mutation(
        "A lease is renewed without comparing the fencing token",
        STEPS,
        ".where(guard.claim_holds(step)).values(lease_until=until",
        ".where(t.steps.c.id == step.id).values(lease_until=until",
        tests("store/fencing_rules"),
    ),
    Mutation(
        "A step is given back without comparing the fencing token",
        STEPS,
        ".where(guard.claim_holds(step)).values(**values, version",
        ".where(t.steps.c.id == step.id).values(**values, version",
        tests("store/fencing_rules"),
    ),
    Mutation(
        "A worker gives back a step that it does not hold",
        STEPS,
        "            if (found := guard.claimed(c, step)) is None:\n                return False\n            values = {",
        "            found = queries.find_work(c, step.id)\n            values = {",
        tests("store/fencing_rules"),
    ),
    Mutation(
        "A claim does not make the fencing token grow",
        STEPS,
        "                fencing_token=step.fencing_token + 1,\n",
        "",
        tests("store/fencing_rules"),
    ),
    Mutation(
        "A step is claimed although it is not dispatched",
        STEPS,
        "if step.state is not StepState.DISPATCHED or not allowed(deletion, step):",
        "if not allowed(deletion, step):",
        tests("store/fencing_rules"),
    ),
    Mutation(
        "A step is claimed although its deletion has moved on",
        STEPS,
        "if step.state is not StepState.DISPATCHED or not allowed(deletion, step):",
        "if step.state is not StepState.DISPATCHED:",
        tests("store/fencing_rules"),
    ),
    Mutation(
        "Two workers that claim a step at once both get it",
        STEPS,
        "return (deletion, claimed) if result.rowcount == 1 else None",
        "return (deletion, claimed)",
        tests("store/fencing_rules"),
    ),
    Mutation(
        "A worker may write past its lease",
        CORE_GUARD,
        "if not claimed or step.lease_until is None or step.lease_until <= facts.now:",
        "if not claimed:",
        tests("store/fencing_rules"),
    ),
    Mutation(
        "A worker may write while a lien is in force",
        GUARD,
        "        deletion = with_holds(c, deletion, now)\n    return now if guard",
        "        pass\n    return now if guard",
        tests("store/fencing_rules"),
    ),
    Mutation(
        "The brake is not asked before a write",
        GUARD,
        "return dataclasses.replace(deletion, liens=liens, brake=brake if brake.on else None)",
        "return dataclasses.replace(deletion, liens=liens, brake=None)",
        tests("store/fencing_rules"),
    ),
    Mutation(
        "Liens are not asked before a write",
        GUARD,
        "return dataclasses.replace(deletion, liens=liens, brake=brake if brake.on else None)",
        "return dataclasses.replace(deletion, liens=(), brake=brake if brake.on else None)",
        tests("store/fencing_rules"),
    ),
    Mutation(
        "A worker may write outside of the hours",
        CORE_GUARD,
        "    OutsideWindows(),\n",
        "",
        tests("store/fencing_rules"),
    ),
    Mutation(
        "A lien keeps a drain from being undone",
        GUARD,
        "    if undoing:\n        options = NO_OPTIONS\n    else:\n        deletion",
        "    if True:\n        deletion",
        tests("store/fencing_rules"),
    ),
    Mutation(
        "A change that is undone past the lease is marked as undone",
        CHANGES,
        "            if (now := guard.may_write(c, step, undoing=True)) is None:\n                return False\n",
        "            now = guard.may_write(c, step, undoing=True) or queries.find_work(c, step.id).now\n",
        tests("store/fencing_rules"),
    ),
    Mutation(
        "A worker that may not write records a change",
        CHANGES,
        "            if guard.may_write(c, step) is None:\n                return None\n            existing",
        "            existing",
        tests("store/fencing_rules"),
    ),
    Mutation(
        "A worker that may not write records what it is about to delete",
        JOURNAL,
        "            if (now := guard.may_write(c, step)) is None:\n                return False\n            write_journal",
        "            now = guard.may_write(c, step) or guard.queries.find_work(c, step.id).now\n            write_journal",
        tests("store/fencing_rules"),
    ),
    Mutation(
        "A change that is still to be undone is written down twice",
        CHANGES,
        "if not change.undone and change.type == type_ and dict(change.data) == dict(data):",
        "if False:",
        tests("store/fencing_rules"),
    ),
    Mutation(
        "A change that was undone is not written down again",
        CHANGES,
        "if not change.undone and change.type == type_ and dict(change.data) == dict(data):",
        "if change.type == type_ and dict(change.data) == dict(data):",
        tests("store/fencing_rules"),
    ),
    Mutation(
        "Changes are given in no order",
        CHANGES,
        "c.execute(query.order_by(t.changes.c.sequence)))",
        "c.execute(query.order_by(t.changes.c.sequence.desc())))",
        tests("drain/undo"),
    ),
    Mutation(
        "Changes that are undone are undone once more",
        CHANGES,
        "query = query.where(t.changes.c.undone.is_(undone))",
        "pass",
        tests("drain/undo"),
    ),
    Mutation(
        "A decision on old facts of a deletion is saved",
        QUERIES,
        't.deletions.c.id == sa.bindparam("known_id"), t.deletions.c.version == sa.bindparam("known_version")',
        't.deletions.c.id == sa.bindparam("known_id"), t.deletions.c.version <= sa.bindparam("known_version") + 99',
        tests("store/fencing_rules"),
    ),
    Mutation(
        "A decision on old facts of a step is saved",
        QUERIES,
        't.steps.c.id == sa.bindparam("known_id"), t.steps.c.version == sa.bindparam("known_version")',
        't.steps.c.id == sa.bindparam("known_id"), t.steps.c.version <= sa.bindparam("known_version") + 99',
        tests("store/fencing_rules"),
    ),
    Mutation(
        "A result leaves a decision on older steps valid",
        STEPS,
        "                    wake_at=now,\n                    version=t.deletions.c.version + 1,  # an engine that "
        "decided on older steps reads again\n",
        "                    wake_at=now,\n",
        tests("store/fencing_rules"),
    ),
    Mutation(
        "A change leaves a decision that nothing is held valid",
        CHANGES,
        "            c.execute(t.deletions.update().where(mine).values(version=t.deletions.c.version + 1))\n"
        "            if guard.may_write",
        "            if guard.may_write",
        tests("store/fencing_rules"),
    ),
    Mutation(
        "Liens of a plugin end whatever the deletion's status was",
        DELETIONS,
        "ends = before.has_holds and before.status in LIVE and after.status not in LIVE",
        "ends = before.has_holds and after.status not in LIVE",
        tests("store/fencing_rules"),
    ),
    Mutation(
        "Liens of a plugin end while the deletion is under way",
        DELETIONS,
        "ends = before.has_holds and before.status in LIVE and after.status not in LIVE",
        "ends = before.has_holds and before.status in LIVE",
        tests("store/fencing_rules"),
    ),
    Mutation(
        "Liens of a plugin stay when the deletion has ended",
        DELETIONS,
        "ends = before.has_holds and before.status in LIVE and after.status not in LIVE",
        "ends = False",
        tests("store/fencing_rules"),
    ),
    Mutation(
        "The result of a dry run raises a lien",
        PLUGIN_LIENS,
        "if result.in_use is None or not plugin_liens.binding(deletion):",
        "if result.in_use is None:",
        tests("store/fencing_rules"),
    ),
    Mutation(
        "A lien ends with a result that did not ask for its reason",
        PLUGIN_LIENS,
        "if result.in_use is None or not plugin_liens.binding(deletion):",
        "if not plugin_liens.binding(deletion):",
        tests("store/fencing_rules"),
    ),
    Mutation(
        "A service that has left the catalog is not asked about any more",
        STEPS,
        "if not (begun and out_of_sight) and not step.abandoned:",
        "if not step.abandoned:",
        tests("store/fencing_rules"),
    ),
    Mutation(
        "What was abandoned disappears from the record",
        STEPS,
        "if not (begun and out_of_sight) and not step.abandoned:",
        "if not (begun and out_of_sight):",
        tests("store/fencing_rules"),
    ),
    Mutation(
        "What was abandoned and is unknown now disappears from the report",
        LEFTOVERS,
        "        stale &= t.leftovers.c.abandoned.is_(False)\n",
        "        pass\n",
        tests("store/fencing_rules"),
    ),
    Mutation(
        "A worker writes the steps of a survey that it does not hold",
        STEPS,
        "            if (found := guard.claimed(c, holder)) is None:\n                return False\n",
        "            held = (_get(c, holder.deletion_id), holder)\n",
        tests("store/fencing_rules"),
    ),
    # -------------------------------------------------------------------------------------------- liens, brake, waivers
    Mutation(
        "A lien that an admin removed is raised again",
        PLUGIN_LIENS,
        "if row.deleted_at is None or row.deleted_by != plugin_liens.PLUGIN:",
        "if row.deleted_at is None:",
        tests("store/fencing_rules"),
    ),
    Mutation(
        "The end of a plugin's lien ends every lien",
        PLUGIN_LIENS,
        "mine = sa.and_(t.liens.c.id == lien_id, t.liens.c.deleted_at.is_(None))",
        "mine = t.liens.c.deleted_at.is_(None)",
        tests("store/fencing_rules"),
    ),
    Mutation(
        "The liens of every project hold a project",
        LIENS,
        "return LIENS.in_force(c, now, t.liens.c.project_id.in_(project_ids))",
        "return LIENS.in_force(c, now, sa.true())",
        tests("store/fencing_rules"),
    ),
    Mutation(
        "A lien that has expired is in force",
        EXPIRING,
        "return sa.and_(self.table.c.deleted_at.is_(None), sa.or_(expires_at.is_(None), expires_at > now))",
        "return self.table.c.deleted_at.is_(None)",
        tests("store/fencing_rules"),
    ),
    Mutation(
        "A lien that was removed is in force",
        EXPIRING,
        "return sa.and_(self.table.c.deleted_at.is_(None), sa.or_(expires_at.is_(None), expires_at > now))",
        "return sa.or_(expires_at.is_(None), expires_at > now)",
        tests("store/fencing_rules"),
    ),
    Mutation(
        "The end of a waiver is overwritten by a later one",
        EXPIRING,
        "mine = sa.and_(self.table.c.id == id_, self.table.c.deleted_at.is_(None))",
        "mine = self.table.c.id == id_",
        tests("store/fencing_rules"),
    ),
    Mutation(
        "The brake does not make an engine decide again",
        BRAKES,
        'values = {"wake_at": database_time(c), "version": t.deletions.c.version + 1}',
        'values = {"wake_at": database_time(c)}',
        tests("store/fencing_rules"),
    ),
    # ---------------------------------------------------------------------------------------------------- plans, purge
    Mutation(
        "A plan has the ids of every region",
        PLANS,
        "            table.region == region,\n            table.service == service,",
        "            table.service == service,",
        tests("store/fencing_rules"),
    ),
    Mutation(
        "A plan has the ids of what it keeps, too",
        PLANS,
        "            table.reason == str(Reason.PRESENT),\n",
        "",
        tests("store/fencing_rules"),
    ),
    Mutation(
        "Dry runs count as cascades of a day",
        PLANS,
        "        table.mode == str(Mode.CASCADE),\n        table.dry_run.is_(False),\n",
        "        table.mode == str(Mode.CASCADE),\n",
        tests("store/fencing_rules"),
    ),
    Mutation(
        "The record of a deletion whose lock is not undone may be purged",
        PURGE,
        "ended = sa.or_(final, sa.and_(resting, ~locked)) if named",
        "ended = sa.or_(final, resting) if named",
        tests("functional/test_retention"),
    ),
    Mutation(
        "The record of a plan that a cascade is bound to may be purged",
        PURGE,
        "return sa.and_(over, ended, ~planning)",
        "return sa.and_(over, ended)",
        tests("functional/test_retention"),
    ),
    Mutation(
        "The record of what was abandoned may be purged without being named",
        PURGE,
        "else sa.and_(final, ~abandoned)",
        "else final",
        tests("functional/test_retention"),
    ),
    Mutation(
        "A worker writes to a part of an orphan scan that it does not hold",
        ORPHANS,
        "        _PARTS.c.fencing_token == part.fencing_token,\n",
        "",
        tests("functional/test_fencing"),
    ),
    Mutation(
        "A request for a shorter pause shortens a pause",
        RATE_LIMITS,
        "if limit.paused_until is None or limit.paused_until < until:",
        "if True:",
        tests("functional/test_fencing"),
    ),
    Mutation(
        "Every error of SQLite is tried again",
        TRANSIENT,
        "return _Kind.WRONG if wrong else _Kind.OUTAGE",
        "return _Kind.OUTAGE",
        tests("store/transient"),
    ),
    Mutation(
        "A column that does not exist counts as an outage",
        TRANSIENT,
        "        *(1052, 1054,",
        "        *(1052,",
        tests("store/transient"),
    ),
    Mutation(
        "An error without a code is final",
        TRANSIENT,
        "            return _Kind.REFUSED\n    return _Kind.OUTAGE\n",
        "            return _Kind.REFUSED\n    return _Kind.WRONG\n",
        tests("store/transient"),
    ),
    Mutation(
        "A transaction that is refused for good is tried again",
        TRANSIENT,
        "retry=tenacity.retry_if_exception(is_transient),",
        "retry=tenacity.retry_if_exception_type(sa_exc.OperationalError),",
        tests("store/transient"),
    ),
)
