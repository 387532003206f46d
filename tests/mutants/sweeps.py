"""Defects in one attempt at a step: the sweep, the declared calls, keep marks, the proof that we are an admin."""

from tests.mutants.mutation import Mutation, tests

PLUGIN_CALLS = "cleanup_orchestrator/plugins/calls.py"
CONTRACT = "cleanup_orchestrator/plugins/contract.py"
VALUES = "cleanup_orchestrator/plugins/values.py"
VERDICTS = "cleanup_orchestrator/plugins/verdicts.py"
CALLS = "cleanup_orchestrator/worker/sweep/calls.py"
EXCLUSIONS = "cleanup_orchestrator/worker/sweep/exclusions.py"
LISTING = "cleanup_orchestrator/worker/sweep/listing.py"
DELETING = "cleanup_orchestrator/worker/sweep/deleting.py"
USES = "cleanup_orchestrator/worker/sweep/uses.py"
ITEM = "cleanup_orchestrator/worker/sweep/item.py"
STOPPING = "cleanup_orchestrator/worker/sweep/stopping.py"
BASE = "cleanup_orchestrator/plugins/base.py"
ADMIN = "cleanup_orchestrator/plugins/admin.py"
ERRORS = "cleanup_orchestrator/errors.py"

MUTATIONS = (
    Mutation(
        "A sweep deletes what belongs to another project",
        EXCLUSIONS,
        "return resource.owner != project.id and not _stray(",
        "return False and not _stray(",
        tests("worker/listing worker/deleting"),
    ),
    Mutation(
        "A sweep deletes what has no owner",
        EXCLUSIONS,
        '        return "" if type_.unfiltered else f"its {type_.owner} is missing: protected"\n',
        '        return ""\n',
        tests("worker/listing worker/deleting"),
    ),
    Mutation(
        "A project's id that is spelt otherwise is another project",
        EXCLUSIONS,
        "if _letters(resource.owner) == _letters(project.id):",
        "if False:",
        tests("worker/listing worker/deleting"),
    ),
    Mutation(
        "A resource that is listed and answers 404 counts as an accepted delete",
        DELETING,
        "if item.state is State.MISSING and accepted.was_asked_before(item.id):",
        "if item.state is State.MISSING:",
        tests("worker/item"),
    ),
    Mutation(
        "A delete that failed twice counts as being deleted",
        ITEM,
        "if record is not None and record.failed >= FAILURES:",
        "if False:",
        tests("worker/item"),
    ),
    Mutation(
        "A delete that takes too long counts as being deleted",
        ITEM,
        "        if since := self._too_long(resource, record):",
        "        if since := None:",
        tests("worker/item"),
    ),
    Mutation(
        "A type is empty because its service says once that it lacks it, after its deletes",
        DELETING,
        "        if second.absent:",
        "        if False:",
        tests("worker/item"),
    ),
    Mutation(
        "The owner is not compared right before the delete",
        DELETING,
        "if current.id != resource.id or current.owner != project.id:\n                owner =",
        "if current.id != resource.id:\n                owner =",
        tests("worker/one_delete worker/deleting"),
    ),
    Mutation(
        "A delete is made although another resource was shown",
        DELETING,
        "if current.id != resource.id or current.owner != project.id:\n                owner =",
        "if current.owner != project.id:\n                owner =",
        tests("worker/listing"),
    ),
    Mutation(
        "A stop is made although another resource was shown",
        STOPPING,
        "if current.id != resource.id or current.owner != project.id:\n        return False",
        "if current.owner != project.id:\n        return False",
        tests("worker/stopping worker/deleting"),
    ),
    Mutation(
        "What belongs to another project by now is stopped",
        STOPPING,
        "if current.id != resource.id or current.owner != project.id:\n        return False",
        "if current.id != resource.id:\n        return False",
        tests("worker/stopping worker/deleting"),
    ),
    Mutation(
        "What belongs to another project by now is started",
        STOPPING,
        "if current.id != id_ or current.owner != project.id:",
        "if current.id != id_:",
        tests("worker/stopping worker/deleting"),
    ),
    Mutation(
        "A start is made although another resource was shown",
        STOPPING,
        "if current.id != id_ or current.owner != project.id:",
        "if current.owner != project.id:",
        tests("worker/stopping worker/deleting"),
    ),
    Mutation(
        "A stop is not written down before it is made",
        STOPPING,
        "    record(current)\n    assert type_.halt is not None\n    act(type_.halt.stop, connection, "
        "project, current)\n",
        "    assert type_.halt is not None\n    act(type_.halt.stop, connection, project, current)\n    "
        "record(current)\n",
        tests("worker/stopping worker/deleting"),
    ),
    Mutation(
        "What became protected after the listing is deleted",
        DELETING,
        "            if why := exclusions.protected(current):\n                return Verdict(Reason.PROTECTED, why)\n",
        "",
        tests("worker/one_delete worker/keep_marks worker/deleting"),
    ),
    Mutation(
        "What a rule protects is deleted",
        EXCLUSIONS,
        "(Reason.PROTECTED, protected),",
        "(Reason.PROTECTED, lambda _resource: None),",
        tests("worker/listing worker/keep_marks worker/deleting"),
    ),
    Mutation(
        "What a rule keeps is deleted",
        EXCLUSIONS,
        "(Reason.KEPT, kept),",
        "(Reason.KEPT, lambda _resource: None),",
        tests("worker/listing worker/deleting"),
    ),
    Mutation(
        "What is not in the plan is deleted",
        LISTING,
        "why = unplanned(item.resource)",
        "why = None",
        tests("worker/listing core/plans"),
    ),
    Mutation(
        "A resource that others use is not counted as unplanned",
        LISTING,
        "in_use_unplanned=listing.in_use_unplanned,",
        "in_use_unplanned=0,",
        tests("worker/listing core/plugin_liens core/plans"),
    ),
    Mutation(
        "A plan without any id binds nothing",
        EXCLUSIONS,
        "    if planned is None:\n        return lambda _resource: None",
        "    if not planned:\n        return lambda _resource: None",
        tests("worker/exclusions core/plans"),
    ),
    Mutation(
        "An inventory does not check whether other projects use a resource",
        LISTING,
        "if verdict := users.get(item.id):",
        "if verdict := None:",
        tests("core/plugin_liens"),
    ),
    Mutation(
        "A list that fails counts as empty in an inventory",
        LISTING,
        '    except Exception as error:  # every failed listing is "unknown", whatever the error\n'
        "        return unknown(error)",
        "    except Exception:\n        return StepResult(Outcome.CLEAR)",
        tests("worker/listing worker/deleting"),
    ),
    Mutation(
        "A list that fails counts as empty in a delete",
        DELETING,
        "            item.forget_row()\n    except Exception as error:\n        return unknown(error)",
        "            item.forget_row()\n    except Exception:\n        return StepResult(Outcome.CLEAR)",
        tests("worker/selecting"),
    ),
    Mutation(
        "What was deleted counts as gone without the second list",
        DELETING,
        "return unknown(error, found=count + first.blocked)",
        "return StepResult(Outcome.CLEAR, deleted=tuple((one.id, one.name) for one in items.values()))",
        tests("worker/listing"),
    ),
    Mutation(
        "A 404 of a list counts as empty",
        LISTING,
        "    failure = classify(error)\n    return StepResult(\n",
        "    failure = classify(error)\n    if failure.status == 404:\n        return StepResult(Outcome.CLEAR)\n"
        "    return StepResult(\n",
        tests("worker/listing worker/deleting"),
    ),
    Mutation(
        "A 403 of a list counts as empty",
        LISTING,
        "    failure = classify(error)\n    return StepResult(\n",
        "    failure = classify(error)\n    if failure.status == 403:\n        return StepResult(Outcome.CLEAR)\n"
        "    return StepResult(\n",
        tests("worker/listing worker/deleting"),
    ),
    Mutation(
        "A 403 of a delete counts as gone",
        DELETING,
        "if failure.status in (404, 410) and called in (type_.show, last):",
        "if failure.status in (403, 404, 410) and called in (type_.show, last):",
        tests("worker/one_delete worker/deleting"),
    ),
    Mutation(
        "A 404 of a breaker counts as gone",
        DELETING,
        "if failure.status in (404, 410) and called in (type_.show, last):",
        "if failure.status in (404, 410):",
        tests("worker/one_delete worker/deleting"),
    ),
    Mutation(
        "A type that says nothing of its availability counts as absent",
        CALLS,
        "    if not isinstance(available, bool):\n",
        "    if False:\n",
        tests("worker/survey"),
    ),
    Mutation(
        "Any mapping counts as an empty list",
        CALLS,
        "if isinstance(rows, str | bytes | Mapping):",
        "if isinstance(rows, str | bytes):",
        tests("worker/calls worker/deleting"),
    ),
    Mutation(
        "A list without an end is read for ever",
        LISTING,
        "        if number >= MOST_ROWS:\n",
        "        if False:\n",
        tests("worker/long_lists"),
    ),
    Mutation(
        "All of a long list is in memory",
        LISTING,
        "if self.deletable + self.blocked + len(pending) >= most:",
        "if self.deletable + self.blocked + len(pending) >= most * 1000:",
        tests("worker/long_lists"),
    ),
    Mutation(
        "Of a long list what lies beyond the part that was read counts as gone",
        DELETING,
        "    if second.truncated:  # what",
        "    if False:  # what",
        tests("worker/long_lists"),
    ),
    Mutation(
        "What its service did not know counts as progress in a long list",
        DELETING,
        "if item.state is State.ACCEPTED}",
        "if item.state in (State.ACCEPTED, State.MISSING)}",
        tests("worker/long_lists"),
    ),
    Mutation(
        "What is informational is left over",
        LISTING,
        "    return dataclasses.replace(\n"
        '        result, outcome=Outcome.CLEAR, reason="", message="", leftovers=(), in_use_unplanned=0, kept_resources=said\n'
        "    )\n",
        "    return result\n",
        tests("worker/outsiders"),
    ),
    Mutation(
        "Deletes go on after a cancel",
        DELETING,
        "            self._stop.append(error)\n            return\n",
        "            return\n",
        tests("worker/deleting"),
    ),
    Mutation(
        "What other projects use is deleted all the same",
        DELETING,
        "return [item for item in chunk if item.id not in used]",
        "return chunk",
        tests("worker/uses"),
    ),
    Mutation(
        "A resource whose use cannot be read is deleted",
        USES,
        "return {resource.id: verdict for resource in part}",
        "return {}",
        tests("worker/uses"),
    ),
    Mutation(
        "An ignored use makes all uses of the type ignored",
        USES,
        'if not {f"{context.name}:{name}" for name in use.by} <= context.ignored_uses:',
        "if not context.ignored_uses:",
        tests("worker/uses"),
    ),
    Mutation(
        "What waits for a used resource waits for ever",
        DELETING,
        "                if item.tried is not None:\n                    item.tried.set()\n",
        "",
        tests("worker/uses"),
    ),
    Mutation(
        "A decision on one use of a resource overrules its other uses",
        "cleanup_orchestrator/worker/sweep/uses.py",
        "< MOST_BLOCKERS and users <= decided",
        "< MOST_BLOCKERS and bool(users & decided)",
        tests("worker/uses"),
    ),
    Mutation(
        "A decision on a use overrules a protection",
        "cleanup_orchestrator/worker/sweep/uses.py",
        "    if not decided or verdict.reason is not Reason.FOREIGN:",
        "    if not decided:",
        tests("worker/uses"),
    ),
    Mutation(
        "What is about to be deleted is written down afterwards",
        DELETING,
        "                self.options.record_intent([item.resource for item in chunk])\n"
        "            for item in chunk:\n                item.announced = True\n"
        "            deletes = begin(functools.partial(self._delete, asked), chunk)\n",
        "                pass\n"
        "            deletes = begin(functools.partial(self._delete, asked), chunk)\n"
        "            self.options.record_intent([item.resource for item in chunk])\n",
        tests("worker/deleting"),
    ),
    Mutation(
        "Uses that were read long ago count",
        DELETING,
        "            if time.monotonic() - asked > FRESH and",
        "            if False and",
        tests("worker/uses"),
    ),
    Mutation(
        "Each try writes its intent into the journal again",
        "cleanup_orchestrator/worker/steps/sweep.py",
        "            self._announced = frozenset(one.id for one in tried)\n",
        "",
        tests("functional/test_journal"),
    ),
    Mutation(
        "Force is used where an ordinary delete was not tried",
        DELETING,
        "last = type_.force if forced and type_.force is not None else type_.delete",
        "last = type_.force if type_.force is not None else type_.delete",
        tests("worker/one_delete worker/deleting"),
    ),
    Mutation(
        "What is dragged along by another type is deleted by a call of its own",
        DELETING,
        "    if type_.deleted_with:\n        for item",
        "    if False:\n        for item",
        tests("worker/deleting"),
    ),
    Mutation(
        "A list is believed without the proof that we are an admin",
        CALLS,
        "if type_.proof is not None and type_.token is Token.ADMIN:",
        "if False:",
        tests("plugins/admin"),
    ),
    Mutation(
        "Parts with a keep mark do not keep their whole",
        EXCLUSIONS,
        'return by_part.get(resource.id) or by_part.get("")\n\n    return forbids',
        "return None\n\n    return forbids",
        tests("worker/keep_marks"),
    ),
    Mutation(
        "Parts that are not in the plan do not keep their whole",
        EXCLUSIONS,
        'return by_part.get(resource.id) or by_part.get("")\n\n    return unplanned',
        "return None\n\n    return unplanned",
        tests("worker/exclusions core/plans"),
    ),
    Mutation(
        "Parts of other projects count as unplanned",
        EXCLUSIONS,
        "own = (one for one in list_resources(type_, connection, project) if one.owner == project.id)",
        "own = (one for one in list_resources(type_, connection, project) if one.owner != project.id)",
        tests("worker/selecting"),
    ),
    # -------------------------------------------------------------------------------------------------- declared calls
    Mutation(
        "An empty project id is accepted by plugins",
        VALUES,
        "if not isinstance(self.id, str) or not self.id.strip():",
        "if not isinstance(self.id, str):",
        tests("worker/listing"),
    ),
    Mutation(
        "A project id of blanks is accepted by plugins",
        VALUES,
        "if not isinstance(self.id, str) or not self.id.strip():",
        "if not isinstance(self.id, str) or not self.id:",
        tests("worker/listing"),
    ),
    Mutation(
        "A resource without an owner is the project's",
        CONTRACT,
        "str(owner) if owner else None, row)",
        "str(owner) if owner else project.id, row)",
        tests("plugins/contract plugins/calls"),
    ),
    Mutation(
        "A resource without an id is taken",
        CONTRACT,
        '        if not identity:\n            raise BadAnswer(f"a {self.name} was listed without {self.id!r}")\n',
        "",
        tests("plugins/contract plugins/calls"),
    ),
    Mutation(
        "An answer without the collection is an empty collection",
        PLUGIN_CALLS,
        "if not isinstance(about, Mapping) or not isinstance(about.get(self.key), list):\n"
        "            raise BadAnswer(f\"{self!r} answered without {'a list' if self.key == BODY else repr(self.key)}\")\n"
        "        return about[self.key], about",
        "return about.get(self.key) or [], about",
        tests("plugins/calls"),
    ),
    Mutation(
        "Only the first page of a list is read",
        PLUGIN_CALLS,
        "if self.paging is Paging.NONE or not (page or link):",
        "if True:",
        tests("plugins/calls plugins/shared_file_system"),
    ),
    Mutation(
        "A page without rows ends a list whose link leads to more rows",
        PLUGIN_CALLS,
        "if self.paging is Paging.NONE or not (page or link):",
        "if self.paging is Paging.NONE or not page:",
        tests("plugins/calls"),
    ),
    Mutation(
        "Pages without rows are followed without end",
        PLUGIN_CALLS,
        "empty = 0 if page else empty + 1",
        "empty = 0",
        tests("plugins/calls"),
    ),
    Mutation(
        "The owner filter is dropped from the second page on",
        PLUGIN_CALLS,
        "query = {**query, **_parameters(link)}",
        "query = _parameters(link)",
        tests("plugins/calls"),
    ),
    Mutation(
        "A list that was cut short is believed",
        PLUGIN_CALLS,
        "if cut and not (self.paging is Paging.PAGES and link):",
        "if False:",
        tests("plugins/calls"),
    ),
    Mutation(
        "The headers of a declared call are not filled",
        PLUGIN_CALLS,
        "query, body, headers = (fill(part, project, resource) for part in (self.query, self.body, self.headers))",
        "query, body = (fill(part, project, resource) for part in (self.query, self.body))\n"
        "        headers = self.headers",
        tests("plugins/calls plugins/shared_file_system"),
    ),
    Mutation(
        "An id with a slash addresses another resource",
        VALUES,
        'id=quote(resource.id, safe="")',
        "id=resource.id",
        tests("plugins/values plugins/calls"),
    ),
    Mutation(
        "A name with a slash in the path of a call addresses another resource",
        VALUES,
        '{key: quote(str(value), safe="") for key, value in resource.data.items()}',
        "resource.data",
        tests("plugins/values plugins/calls"),
    ),
    Mutation(
        "Blockers are not told apart by owner",
        VERDICTS,
        'foreign = [blocker for blocker in found if blocker["owner"] != project.id]',
        'foreign = [blocker for blocker in found if blocker["owner"] == project.id]',
        tests("plugins/verdicts plugins/calls"),
    ),
    # ----------------------------------------------------------------------------------------------- the selection
    Mutation(
        "What was created at the very time of the selection is deleted",
        EXCLUSIONS,
        "return None if created < selection.created_before",
        "return None if created <= selection.created_before",
        tests("worker/selecting"),
    ),
    Mutation(
        "What does not say when it was created counts as old",
        EXCLUSIONS,
        '        return "its service does not say when it was created"\n',
        "        return None\n",
        tests("worker/selecting"),
    ),
    Mutation(
        "One tag of a selection is enough",
        EXCLUSIONS,
        "if missing := sorted(set(selection.tags) - tags):",
        "if (missing := sorted(set(selection.tags) - tags)) and len(missing) == len(selection.tags):",
        tests("worker/selecting"),
    ),
    Mutation(
        "A resource that lost its tag since it was listed is stopped",
        STOPPING,
        "if exclusions.protected(current) or changed(context, resource.data, current):",
        "if exclusions.protected(current):",
        tests("worker/selecting"),
    ),
    # ---------------------------------------------------------------------------------------------------- keep marks
    Mutation(
        "A delete whose row is written again and again is never stuck",
        ITEM,
        "return seen if seen is not None and now - seen >= 2 * self._patience else None",
        "return None",
        tests("worker/item"),
    ),
    Mutation(
        "A stack is deleted with a server that has a keep mark",
        USES,
        "if why := why or context.keep_marks.why(type_, resource.data):",
        "if why:",
        tests("plugins/uses"),
    ),
    Mutation(
        "What a service has that the catalog lacks keeps a stack for ever",
        USES,
        'if not in_catalog(other.connection, other.name.rpartition(".")[0]):',
        "if False:",
        tests("plugins/uses"),
    ),
    Mutation(
        "What does not show its tags bears no keep mark",
        EXCLUSIONS,
        'return f"it does not show its {type_.tags}, and may bear a keep mark"',
        "return None",
        tests("worker/keep_marks"),
    ),
    Mutation(
        "Keep tags are told apart by case",
        EXCLUSIONS,
        "if tag.strip().casefold() in self.tags:",
        "if tag.strip() in self.tags:",
        tests("worker/keep_marks"),
    ),
    Mutation(
        "A keep property counts with any value",
        EXCLUSIONS,
        "== wanted and only in (None, _folded(value)):",
        "== wanted:",
        tests("worker/keep_marks"),
    ),
    # --------------------------------------------------------------------------------- admin, errors of the cloud
    Mutation(
        "What was proven of one project is proven of all",
        ADMIN,
        'asked = f"{fill(question.path, project)} {fill(question.query, project)}"',
        'asked = f"{question.path} {question.query}"',
        tests("plugins/admin"),
    ),
    Mutation(
        "What was proven once is proven for ever",
        ADMIN,
        "if time.monotonic() - at >= SECONDS]:",
        "if time.monotonic() - at >= SECONDS * 1000]:",
        tests("plugins/admin"),
    ),
    Mutation(
        "What a hold withheld counts as stopped for good",
        ERRORS,
        "    if isinstance(error, OnHold):\n        return Failure(Reason.ON_HOLD, message)\n",
        "",
        tests("core/guard worker/deleting"),
    ),
    Mutation(
        "Any 404 counts as Keystone's word that a project is gone",
        ERRORS,
        'return isinstance(said, Mapping) and said.get("code") == 404 and bool(said.get("message"))',
        "return True",
        tests("plugins/identity worker/survey"),
    ),
    Mutation(
        "What acts on what users wrote is deleted with an admin's token",
        DELETING,
        "            deleting = janitor()  # before",
        "            janitor()  # before",
        tests("worker/one_delete worker/deleting"),
    ),
)
