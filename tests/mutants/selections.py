"""Defects in mode ``purge``: what is selected, what stays, and how the project is given back."""

from tests.mutants.mutation import Mutation, tests

DECIDE = "cleanup_orchestrator/core/decide.py"
DEPENDENCIES = "cleanup_orchestrator/core/dependencies.py"
GUARD = "cleanup_orchestrator/core/guard.py"
ROUNDS = "cleanup_orchestrator/core/rounds.py"
SELECTION = "cleanup_orchestrator/core/selection.py"
VERIFYING = "cleanup_orchestrator/core/verifying.py"
PLANS = "cleanup_orchestrator/store/plans.py"
RECORDS = "cleanup_orchestrator/store/records.py"
DELETING = "cleanup_orchestrator/worker/sweep/deleting.py"
LISTING = "cleanup_orchestrator/worker/sweep/listing.py"
ORDER = "cleanup_orchestrator/worker/sweep/order.py"
EXCLUSIONS = "cleanup_orchestrator/worker/sweep/exclusions.py"
STOPPING = "cleanup_orchestrator/worker/sweep/stopping.py"

MUTATIONS = (
    Mutation(
        "A project that is kept may be disabled and removed",
        GUARD,
        "return _if(inputs.deletion.profile.keeps_project and (last or settings), ",
        "return _if(inputs.deletion.profile.keeps_project and settings, ",
        tests("core/guard core/purge"),
    ),
    Mutation(
        "The settings of a project that is kept may be deleted",
        GUARD,
        "return _if(inputs.deletion.profile.keeps_project and (last or settings), ",
        "return _if(inputs.deletion.profile.keeps_project and last, ",
        tests("core/guard core/purge"),
    ),
    Mutation(
        "Types are listed after a project was given back",
        VERIFYING,
        "progress = Progress(over=True) if view.giving_back else drive(round_, plan)",
        "progress = drive(round_, plan)",
        tests("core/verifying core/purge"),
    ),
    Mutation(
        "A project is purged although a selected type is no longer listed",
        VERIFYING,
        "if lost := unmatched(d.selection, view.steps):",
        "if lost := ():",
        tests("core/verifying core/purge"),
    ),
    Mutation(
        "A project is purged although its lock was not looked at after the last inventory",
        VERIFYING,
        "if d.drained_at and not view.giving_back and not _surveyed_last(view, plan):",
        "if False:",
        tests("core/verifying core/purge"),
    ),
    Mutation(
        "What a type that is not selected may need is deleted",
        DEPENDENCIES,
        "    return confirmed_gone(step, round_) or (not kept and only_unplanned(step, round_))",
        "    return confirmed_gone(step, round_) or only_staying(step, round_)",
        tests("core/purge"),
    ),
    Mutation(
        "What unplanned resources may need is deleted in a project that is kept",
        DEPENDENCIES,
        "    return confirmed_gone(step, round_) or (not kept and only_unplanned(step, round_))",
        "    return confirmed_gone(step, round_) or only_unplanned(step, round_)",
        tests("core/purge"),
    ),
    Mutation(
        "A type with selected and other leftovers counts as one without selected ones",
        ROUNDS,
        "return step.outcome is Outcome.LEFTOVERS and 0 < step.unselected == step.remaining",
        "return step.outcome is Outcome.LEFTOVERS and 0 < step.unselected",
        tests("core/rounds core/purge"),
    ),
    Mutation(
        "A project is locked for the recovery window although nothing is selected",
        DECIDE,
        "if not d.profile.keeps_project or not round_.found_nothing:",
        "if True:",
        tests("core/decide core/purge"),
    ),
    Mutation(
        "A selection of services has the types of all services",
        SELECTION,
        "if not self.by_type or service in self.services:",
        "if not self.types or service in self.services:",
        tests("core/selection worker/selecting core/purge"),
    ),
    Mutation(
        "What serves the resources that stay is deleted",
        "cleanup_orchestrator/worker/steps/survey.py",
        "after=registry.after(service, type_, kept),",
        "after=registry.after(service, type_),",
        tests("worker/survey"),
    ),
    Mutation(
        "A resource that has one of the selected tags is selected",
        EXCLUSIONS,
        "if missing := sorted(set(selection.tags) - tags):",
        "if not tags & set(selection.tags) and (missing := sorted(set(selection.tags))):",
        tests("worker/selecting"),
    ),
    Mutation(
        "A resource of an unknown age is old enough",
        EXCLUSIONS,
        "    if created is None:\n        return",
        "    if False:\n        return",
        tests("worker/selecting"),
    ),
    Mutation(
        "A part that was created at the given time is old enough",
        EXCLUSIONS,
        "return None if created < before else",
        "return None if created <= before else",
        tests("worker/selecting"),
    ),
    Mutation(
        "A whole that was changed at the given time has no part that is too young",
        EXCLUSIONS,
        "return None if changed_at < before else",
        "return None if changed_at <= before else",
        tests("worker/selecting"),
    ),
    Mutation(
        "A resource that was created at the given time is selected",
        EXCLUSIONS,
        "return None if created < selection.created_before else",
        "return None if created <= selection.created_before else",
        tests("worker/selecting"),
    ),
    Mutation(
        "A time with an offset is read as UTC",
        EXCLUSIONS,
        "instant = instant.astimezone(datetime.UTC).replace(tzinfo=None) if instant.tzinfo else instant",
        "instant = instant.replace(tzinfo=None)",
        tests("worker/selecting"),
    ),
    Mutation(
        "A resource is deleted with a part that is too young",
        EXCLUSIONS,
        'return lack or younger.get(resource.id) or younger.get("")',
        'return lack or younger.get("")',
        tests("worker/selecting"),
    ),
    Mutation(
        "A resource is deleted with parts of an age that cannot be read",
        EXCLUSIONS,
        'reasons[""] = f"{question',
        'reasons["-"] = f"{question',
        tests("worker/selecting"),
    ),
    Mutation(
        "A part of an unknown age is old enough",
        EXCLUSIONS,
        '        return f"its service does not say when {said}, was created"',
        "        return None",
        tests("worker/selecting"),
    ),
    Mutation(
        "Parts that are no type may be of any age",
        EXCLUSIONS,
        " or _parts_lack(context, resource)",
        "",
        tests("worker/selecting"),
    ),
    Mutation(
        "A type that does not declare its parts has none",
        EXCLUSIONS,
        "    if type_.parts is None:",
        "    if False:",
        tests("worker/selecting"),
    ),
    Mutation(
        "A part that is new since the list is deleted with its whole",
        EXCLUSIONS,
        " or _parts_lack(context, current)",
        "",
        tests("worker/selecting"),
    ),
    Mutation(
        "The selection is not compared right before the delete",
        DELETING,
        "if verdict := changed(context, resource.data, current):",
        "if verdict := None:",
        tests("worker/selecting"),
    ),
    Mutation(
        "The tags of a list count if they are not shown right before the delete",
        EXCLUSIONS,
        "lack = _lacks(selection, _tags(type_, shown), created)",
        "lack = _lacks(selection, _tags(type_, shown) or _tags(type_, listed), created)",
        tests("worker/selecting"),
    ),
    Mutation(
        "The selection is not compared right before the stop",
        STOPPING,
        " or changed(context, resource.data, current)",
        "",
        tests("worker/selecting"),
    ),
    Mutation(
        "A truncated list of unselected resources says that nothing is selected",
        LISTING,
        "if aside and context.type_selected:",
        "if False:",
        tests("worker/selecting"),
    ),
    Mutation(
        "What a resource that stays refers to is deleted",
        DELETING,
        "    referred.leave_needed(context, items, excluded, forced)\n",
        "",
        tests("worker/selecting"),
    ),
    Mutation(
        "What a resource in use refers to is deleted",
        ORDER,
        "stay = {one.id: one for one in excluded}",
        "stay = {one.id: one for one in excluded if one.reason is Reason.NOT_SELECTED}",
        tests("worker/selecting"),
    ),
    Mutation(
        "The parts of what a plan deletes are not in it if they are not selected",
        PLANS,
        "(Reason.PRESENT, Reason.NOT_SELECTED) if parts else (Reason.PRESENT,)",
        "(Reason.PRESENT,)",
        tests("store/plans store/guard"),
    ),
    Mutation(
        "A plan has what it does not select",
        PLANS,
        "(Reason.PRESENT, Reason.NOT_SELECTED) if parts else (Reason.PRESENT,)",
        "(Reason.PRESENT, Reason.NOT_SELECTED)",
        tests("store/plans store/guard"),
    ),
    Mutation(
        "A stored selection is read as everything",
        RECORDS,
        'Selection.from_dict(values["selection"]) if values["selection"] else EVERYTHING',
        "EVERYTHING",
        tests("functional/test_store/test_deletions"),
    ),
)
