"""Defects in the shells: the worker, the drain drivers, the undoing, the engine, the orphan scan."""

from tests.mutants.mutation import Mutation, tests

GUARD = "cleanup_orchestrator/worker/guard.py"
TASK = "cleanup_orchestrator/worker/task.py"
LEASES = "cleanup_orchestrator/worker/leases.py"
FORCE_CHECK = "cleanup_orchestrator/worker/force_check.py"
STEP_CONTEXT = "cleanup_orchestrator/worker/steps/context.py"
STEP_SWEEP = "cleanup_orchestrator/worker/steps/sweep.py"
RELEASE = "cleanup_orchestrator/worker/steps/release.py"
REMOVE = "cleanup_orchestrator/worker/steps/remove.py"
BASE = "cleanup_orchestrator/drain/base.py"
REVOKE = "cleanup_orchestrator/drain/revoke.py"
JANITOR = "cleanup_orchestrator/drain/janitor.py"
FENCE = "cleanup_orchestrator/drain/fence.py"
ENGINE = "cleanup_orchestrator/engine/deletions.py"
SCANNER = "cleanup_orchestrator/worker/orphan_scan.py"
ORPHANS = "cleanup_orchestrator/core/orphan_scan.py"

MUTATIONS = (
    Mutation(
        "A worker's guard does not ask whether it is a dry run",
        GUARD,
        "        if deletion.dry_run:\n            read_only(method, url)\n",
        "",
        tests("worker/worker_guard"),
    ),
    Mutation(
        "A worker's guard does not ask the never-delete list",
        GUARD,
        'if NeverDelete().holds(Facts(deletion, never_delete=listed or ""), step):',
        "if False:",
        tests("worker/worker_guard"),
    ),
    Mutation(
        "The never-delete list keeps a drain from being undone",
        GUARD,
        'if NeverDelete().holds(Facts(deletion, never_delete=listed or ""), step):',
        "if listed:",
        tests("worker/worker_guard"),
    ),
    Mutation(
        "A worker's guard does not ask the store",
        GUARD,
        "        if not worker.store.may_write(step, worker.hold_options):\n            raise self.refusal(method)\n",
        "",
        tests("worker/worker_guard"),
    ),
    Mutation(
        "A worker's guard does not tell the store the hours",
        GUARD,
        "if not worker.store.may_write(step, worker.hold_options):",
        "if not worker.store.may_write(step):",
        tests("worker/worker_guard"),
    ),
    Mutation(
        "A worker that is being stopped goes on writing",
        TASK,
        '        if self.stopping:\n            return f"this worker',
        '        if False:\n            return f"this worker',
        tests("worker/worker_guard"),
    ),
    Mutation(
        "A step that was given up goes on writing",
        TASK,
        "        if self._given_up:\n            return self._given_up\n",
        "",
        tests("worker/worker_guard"),
    ),
    Mutation(
        "Leftovers of a dead project are deleted without asking Keystone for it again",
        GUARD,
        "        if deletion.origin is Origin.ADOPTED:\n            self._expect_gone(method)\n",
        "",
        tests("worker/worker_guard"),
    ),
    Mutation(
        "Leftovers of a project that Keystone knows are deleted",
        GUARD,
        "        if known:\n            raise ProjectKnown(",
        "        if False:\n            raise ProjectKnown(",
        tests("worker/worker_guard"),
    ),
    Mutation(
        "Keystone's silence counts as its word that a project is gone",
        GUARD,
        "            raise Stopped(text) from error\n        if known:",
        "            known = False\n        if known:",
        tests("worker/worker_guard"),
    ),
    Mutation(
        "The result of a step that was given up is saved",
        TASK,
        "        if self._given_up:\n            return\n        if result.reason",
        "        if result.reason",
        tests("worker/worker_guard"),
    ),
    Mutation(
        "A step is given back while a write call is under way",
        LEASES,
        "        if self.writing:\n            return False\n",
        "",
        tests("worker/worker_guard"),
    ),
    Mutation(
        "Changes are undone in the order in which they were made",
        RELEASE,
        "    for change in reversed(changes):\n",
        "    for change in changes:\n",
        tests("drain/undo"),
    ),
    Mutation(
        "One change that cannot be undone keeps all others",
        RELEASE,
        "            failed.append(error)\n            continue\n",
        "            raise\n",
        tests("drain/undo"),
    ),
    Mutation(
        "A change that could not be undone is forgotten without a word",
        RELEASE,
        "    if failed:\n        raise failed[0]\n",
        "",
        tests("drain/undo"),
    ),
    Mutation(
        "A worker that does not hold the step any more goes on undoing",
        RELEASE,
        '        if not store.undone(step, change, event):\n            raise Stopped(f"step {step.name} is not held by this worker any more")\n',
        "        store.undone(step, change, event)\n",
        tests("drain/undo"),
    ),
    Mutation(
        "Any write passes where only a write on nothing may",
        FORCE_CHECK,
        'if NOTHING not in url.partition("?")[0].split("/"):',
        "if NOTHING not in url:",
        tests("worker/worker_guard"),
    ),
    Mutation(
        "A worker deletes in a dry run",
        STEP_SWEEP,
        "(RoundPurpose.DELETE, RoundPurpose.PROJECT_SETTINGS) and not self.deletion.dry_run",
        "(RoundPurpose.DELETE, RoundPurpose.PROJECT_SETTINGS)",
        tests("worker/worker_guard"),
    ),
    Mutation(
        "A sweep deletes what the leftovers of another type need",
        STEP_SWEEP,
        "        if not self.step.needed_by:\n",
        "        if True:\n",
        tests("worker/worker_guard"),
    ),
    Mutation(
        "Leftovers that are not all on record need nothing more",
        STEP_SWEEP,
        "if len(rows) != other.remaining:",
        "if not rows and other.remaining:",
        tests("worker/worker_guard"),
    ),
    Mutation(
        "A worker does not ask for the plan",
        STEP_CONTEXT,
        "if not self.deletion.plan_id or type_.project_setting:",
        "if True:",
        tests("core/plans"),
    ),
    Mutation(
        "Force is used on what another project uses",
        STEP_SWEEP,
        "        Reason.PROTECTED,\n        Reason.FOREIGN,\n        Reason.OWNER_UNKNOWN,\n        "
        "Reason.NOT_PLANNED,",
        "        Reason.PROTECTED,\n        Reason.OWNER_UNKNOWN,\n        Reason.NOT_PLANNED,",
        tests("worker/worker_guard"),
    ),
    Mutation(
        "A project that was enabled again is removed",
        REMOVE,
        "            if project.enabled:\n                self.context.note_undone",
        "            if False:\n                self.context.note_undone",
        tests("worker/worker_guard"),
    ),
    Mutation(
        "A project is removed although a waiver that it relied upon has ended",
        REMOVE,
        "        if ended := self._ended_waiver():",
        "        if ended := None:",
        tests("worker/worker_guard"),
    ),
    Mutation(
        "A project counts as removed although Keystone still knows it",
        REMOVE,
        "        return StepResult(Outcome.UNKNOWN, str(Reason.ERROR), text)\n",
        "        return StepResult(Outcome.CLEAR, message=text)\n",
        tests("worker/worker_guard"),
    ),
    # -------------------------------------------------------------------------------------------------- drain drivers
    Mutation(
        "A grant is removed before it is written down",
        REVOKE,
        '                context.record_intent(GRANT_REMOVED, {"actor": actor, "actor_id": actor_id, "role_id": role_id})\n'
        "                context.projects.ungrant(context.project_id, actor, actor_id, role_id)\n",
        "                context.projects.ungrant(context.project_id, actor, actor_id, role_id)\n"
        '                context.record_intent(GRANT_REMOVED, {"actor": actor, "actor_id": actor_id, "role_id": role_id})\n',
        tests("drain/undo"),
    ),
    Mutation(
        "The janitor's grant is made before it is written down",
        JANITOR,
        '            context.record_intent(GRANT_ADDED, {"actor": "users", "actor_id": janitor_id, "role_id": role_id})\n'
        '            context.projects.grant(context.project_id, "users", janitor_id, role_id)\n',
        '            context.projects.grant(context.project_id, "users", janitor_id, role_id)\n'
        '            context.record_intent(GRANT_ADDED, {"actor": "users", "actor_id": janitor_id, "role_id": role_id})\n',
        tests("drain/janitor"),
    ),
    Mutation(
        "A janitor with an admin's role is used",
        JANITOR,
        "    if more := sorted(found - allowed):\n",
        "    if more := []:\n",
        tests("drain/janitor"),
    ),
    Mutation(
        "A janitor with a role elsewhere is used",
        JANITOR,
        "    if beyond := groups + _beyond(rows, role_ids):\n",
        "    if beyond := groups:\n",
        tests("drain/janitor"),
    ),
    Mutation(
        "The configuration may make the janitor an admin",
        JANITOR,
        "    if _ADMIN in {role.lower() for role in allowed}:\n",
        "    if False:\n",
        tests("drain/janitor"),
    ),
    Mutation(
        "A workflow may exchange the janitor's token for one of another project",
        JANITOR,
        "    if not fenced and _WORKFLOW",
        "    if fenced and _WORKFLOW",
        tests("drain/janitor"),
    ),
    Mutation(
        "A list gives the janitor its role",
        JANITOR,
        "            if not writing:\n",
        "            if False:\n",
        tests("worker/access"),
    ),
    Mutation(
        "A list with the janitor's token may write",
        JANITOR,
        "context.guard if writing else read_only",
        "context.guard",
        tests("worker/access"),
    ),
    Mutation(
        "A dry run uses the janitor's token",
        "cleanup_orchestrator/worker/steps/context.py",
        " and not self.deletion.dry_run and self.clouds.janitor_id()",
        " and self.clouds.janitor_id()",
        tests("worker/access"),
    ),
    Mutation(
        "What needs the janitor's token is listed with that of the orchestrator",
        "cleanup_orchestrator/worker/steps/context.py",
        "if member else own",
        "if not member else own",
        tests("worker/access"),
    ),
    Mutation(
        "The janitor's role for lists is given to every project",
        "cleanup_orchestrator/worker/steps/access.py",
        "if not any(step.token is Token.MEMBER and not step.waived for step in steps):",
        "if not steps:",
        tests("worker/access"),
    ),
    Mutation(
        "The janitor's role that was lost is not given again",
        "cleanup_orchestrator/core/rounds.py",
        "or (no_list and step.reason == Reason.NO_JANITOR)",
        "",
        tests("core/decide"),
    ),
    Mutation(
        "The orchestrator's own user is taken for the janitor",
        "cleanup_orchestrator/cloud/connections.py",
        "        if user_id == self.user_id():\n",
        "        if not user_id:\n",
        tests("cloud/session"),
    ),
    Mutation(
        "The orchestrator removes its own grant",
        REVOKE,
        "return [grant for grant in grants if grant[:2] not in own]",
        "return grants",
        tests("drain/undo"),
    ),
    Mutation(
        "A drain is full although others inherit grants",
        REVOKE,
        "        if others:\n            shown",
        "        if False:\n            shown",
        tests("drain/undo"),
    ),
    Mutation(
        "A drain with new direct grants still holds",
        REVOKE,
        "return not self._direct(context) and not self._others(context)",
        "return not self._others(context)",
        tests("drain/undo"),
    ),
    Mutation(
        "A grant that was removed is not given back",
        BASE,
        '            projects.grant(project_id, change.data["actor"], change.data["actor_id"], '
        'change.data["role_id"])\n',
        "",
        tests("drain/undo"),
    ),
    Mutation(
        "The orchestrator keeps the role that it gave itself",
        BASE,
        '            projects.ungrant(project_id, change.data["actor"], change.data["actor_id"], '
        'change.data["role_id"])\n'
        '            return f"took back',
        '            return f"took back',
        tests("drain/undo"),
    ),
    Mutation(
        "The fence of another deletion is lifted",
        BASE,
        'if projects.get_uncached(project_id).fence != change.data["fence"]:',
        "if False:",
        tests("drain/undo"),
    ),
    Mutation(
        "A project that was disabled stays disabled",
        BASE,
        "            projects.set_enabled(project_id, True)\n",
        "",
        tests("drain/undo"),
    ),
    Mutation(
        "A project counts as closed although a token for it is still good",
        BASE,
        "        if not _usable(context, canary):\n",
        "        if True:\n",
        tests("drain/drain"),
    ),
    Mutation(
        "A closing that is recorded and not yet made counts as undone by others",
        BASE,
        "closed and project.enabled]",
        "project.enabled]",
        tests("drain/drain"),
    ),
    Mutation(
        "A fence is set over that of another deletion",
        FENCE,
        "if found not in (None, context.deletion_id):",
        "if False:",
        tests("drain/undo"),
    ),
    Mutation(
        "A fence is set before it is written down",
        FENCE,
        '        context.record_intent(PROJECT_FENCED, {"fence": context.deletion_id})\n        try:\n',
        "        try:\n",
        tests("drain/undo"),
    ),
    Mutation(
        "A fence that does not stop a token counts as holding",
        FENCE,
        "    if accepted:\n",
        "    if False:\n",
        tests("drain/undo"),
    ),
    Mutation(
        "A token that is refused for another reason counts as stopped by the fence",
        FENCE,
        "    if confirmed != context.deletion_id and not _validate(identity, headers)[0]:\n",
        "    if False:\n",
        tests("drain/undo"),
    ),
    Mutation(
        "A project without its fence is disabled without a wait",
        FENCE,
        "        if not project.enabled or project.fence != context.deletion_id:\n",
        "        if not project.enabled:\n",
        tests("drain/undo"),
    ),
    Mutation(
        "A fence that was set again counts as the one of before",
        FENCE,
        "return project.fence == context.deletion_id and _evidence(project) == context.evidence",
        "return project.fence == context.deletion_id",
        tests("drain/undo"),
    ),
    Mutation(
        "The delete of a project does not name the serial of its fence",
        FENCE,
        "return {protocol.SERIAL_HEADER: context.evidence.removeprefix(_SERIAL)}",
        "return {}",
        tests("drain/undo"),
    ),
    Mutation(
        "A fence whose changes Keystone does not count is relied upon",
        FENCE,
        "if not fenced.fence_serial:",
        "if False:",
        tests("drain/undo"),
    ),
    Mutation(
        "What the driver saw of the lock is not kept",
        "cleanup_orchestrator/worker/steps/drain.py",
        ", learned=(ProjectLocked(result.evidence),)",
        "",
        tests("core/safety"),
    ),
    Mutation(
        "A project whose lock did not last is closed",
        "cleanup_orchestrator/worker/steps/close.py",
        "if drained and not driver.held_until_closed(context):",
        "if False:",
        tests("core/safety"),
    ),
    Mutation(
        "A project whose lock did not last is removed",
        "cleanup_orchestrator/worker/steps/remove.py",
        "if not driver.held_until_removed(context, project):",
        "if False:",
        tests("worker/worker_guard"),
    ),
    Mutation(
        "A delete that Keystone refuses for the lock voids nothing",
        "cleanup_orchestrator/worker/steps/remove.py",
        "learned = (ProjectReopened(), RemovalStopped())",
        "learned = (RemovalStopped(),)",
        tests("worker/worker_guard"),
    ),
    # ---------------------------------------------------------------------------------------------------------- engine
    Mutation(
        "The parent is not told that a child has ended",
        ENGINE,
        "            if deletion.parent_deletion_id and (ended or deletion.attention != applied.deletion.attention):\n"
        "                self.bus.deletion(deletion.parent_deletion_id)\n",
        "",
        tests("engine/deletions"),
    ),
    Mutation(
        "The parent is told of each decision of a child",
        ENGINE,
        "if deletion.parent_deletion_id and (ended or deletion.attention != applied.deletion.attention):",
        "if deletion.parent_deletion_id:",
        tests("engine/deletions"),
    ),
    Mutation(
        "A decision is saved and nothing is cast",
        ENGINE,
        "            for batch in applied.casts:",
        "            for batch in ():",
        tests("engine/deletions"),
    ),
    Mutation(
        "A decision that a worker overtook is not made anew",
        ENGINE,
        "                continue  # a worker wrote first: load again\n",
        "                return\n",
        tests("engine/deletions"),
    ),
    Mutation(
        "One deletion that cannot be decided on keeps the tick from all others",
        ENGINE,
        "                except Exception:  # one deletion that cannot be decided on must not block the others\n"
        '                    LOG.exception("the tick failed at deletion %s; the next one tries again", deletion_id)\n',
        "                except Exception:\n                    break\n",
        tests("engine/deletions"),
    ),
    # ---------------------------------------------------------------------------------------------------------- orphans
    Mutation(
        "Zeros count as the id of a project",
        ORPHANS,
        'r"(?=.*[^0-])[0-9A-Za-z_-]{1,64}"',
        'r"[0-9A-Za-z_-]{1,64}"',
        tests("core/orphan_scan"),
    ),
    Mutation(
        "What Keystone said nothing of makes a scan no less complete",
        ORPHANS,
        "status = ScanStatus.INCOMPLETE if unknown or undecided else ScanStatus.COMPLETED",
        "status = ScanStatus.INCOMPLETE if unknown else ScanStatus.COMPLETED",
        tests("core/orphan_scan"),
    ),
    Mutation(
        "A list that failed makes a scan no less complete",
        ORPHANS,
        "status = ScanStatus.INCOMPLETE if unknown or undecided else ScanStatus.COMPLETED",
        "status = ScanStatus.INCOMPLETE if undecided else ScanStatus.COMPLETED",
        tests("core/orphan_scan"),
    ),
    Mutation(
        "The second read of a scan does not wait",
        ORPHANS,
        "        if now < scan.reread_at:\n",
        "        if False:\n",
        tests("worker/orphan_scan"),
    ),
    Mutation(
        "A resource of a project that Keystone may know is noted as an orphan",
        SCANNER,
        "            if known is not False:\n                continue\n",
        "            if known:\n                continue\n",
        tests("worker/orphan_scan"),
    ),
    Mutation(
        "A resource that is too young is noted as an orphan",
        SCANNER,
        "                too_young += 1\n                continue\n",
        "                too_young += 1\n",
        tests("worker/orphan_scan"),
    ),
    Mutation(
        "A resource that has another owner by now is an orphan",
        SCANNER,
        "            if resource.owner in gone:\n",
        "            if resource.owner:\n",
        tests("worker/orphan_scan"),
    ),
    Mutation(
        "A project that Keystone may know at the second read has orphans",
        SCANNER,
        "            if known is False:\n                gone.add(project_id)\n",
        "            if not known:\n                gone.add(project_id)\n",
        tests("worker/orphan_scan"),
    ),
)
