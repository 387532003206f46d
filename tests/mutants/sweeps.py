"""Defects in one attempt at a step: the sweep, the declared calls, keep marks, the proof that we are an admin."""

from tests.mutants.mutation import Mutation, tests

SWEEP = "cleanup_orchestrator/sweep.py"
BASE = "cleanup_orchestrator/plugins/base.py"
MARKS = "cleanup_orchestrator/marks.py"
ADMIN = "cleanup_orchestrator/plugins/admin.py"
ERRORS = "cleanup_orchestrator/errors.py"

MUTATIONS = (
    Mutation(
        "A sweep deletes what belongs to another project",
        SWEEP,
        "elif resource.owner != project.id:\n            if resource.owner",
        "elif False:\n            if resource.owner",
        tests("sweep"),
    ),
    Mutation(
        "A sweep deletes what has no owner",
        SWEEP,
        "        if resource.owner is None:\n            if type_.unfiltered:",
        "        if False:\n            if type_.unfiltered:",
        tests("sweep"),
    ),
    Mutation(
        "A project's id that is spelt otherwise is another project",
        SWEEP,
        'if resource.owner.replace("-", "") == project.id.replace("-", ""):',
        "if False:",
        tests("sweep"),
    ),
    Mutation(
        "The owner is not compared right before the delete",
        SWEEP,
        "if current.id != resource.id or current.owner != project.id:\n                owner =",
        "if current.id != resource.id:\n                owner =",
        tests("sweep"),
    ),
    Mutation(
        "A delete is made although another resource was shown",
        SWEEP,
        "if current.id != resource.id or current.owner != project.id:\n                owner =",
        "if current.owner != project.id:\n                owner =",
        tests("sweep"),
    ),
    Mutation(
        "A stop is made although another resource was shown",
        SWEEP,
        "if current.id != resource.id or current.owner != project.id:\n        return False",
        "if current.owner != project.id:\n        return False",
        tests("sweep"),
    ),
    Mutation(
        "What belongs to another project by now is stopped",
        SWEEP,
        "if current.id != resource.id or current.owner != project.id:\n        return False",
        "if current.id != resource.id:\n        return False",
        tests("sweep"),
    ),
    Mutation(
        "What belongs to another project by now is started",
        SWEEP,
        "if current.id != id_ or current.owner != project.id:",
        "if current.id != id_:",
        tests("sweep"),
    ),
    Mutation(
        "A start is made although another resource was shown",
        SWEEP,
        "if current.id != id_ or current.owner != project.id:",
        "if current.owner != project.id:",
        tests("sweep"),
    ),
    Mutation(
        "A stop is not written down before it is made",
        SWEEP,
        "    record(current)\n    assert type_.halt is not None\n    _act(type_.halt.stop, connection, "
        "project, current)\n",
        "    assert type_.halt is not None\n    _act(type_.halt.stop, connection, project, current)\n    "
        "record(current)\n",
        tests("sweep"),
    ),
    Mutation(
        "What became protected after the listing is deleted",
        SWEEP,
        "            if why := forbids(current):\n                return Verdict(Reason.PROTECTED, why)\n",
        "",
        tests("sweep marks"),
    ),
    Mutation(
        "What a rule protects is deleted",
        SWEEP,
        "elif why := forbids(resource):",
        "elif why := None:",
        tests("sweep marks"),
    ),
    Mutation(
        "What a rule keeps is deleted",
        SWEEP,
        "elif kept := next((why for why in (rule(resource, project) for rule in type_.keep) if why), None):",
        "elif kept := None:",
        tests("sweep"),
    ),
    Mutation(
        "What is not in the plan is deleted",
        SWEEP,
        "        elif why := unplanned(resource):\n",
        "        elif why := None:\n",
        tests("plans"),
    ),
    Mutation(
        "A plan without any id binds nothing",
        SWEEP,
        "    if planned is None:\n        return lambda _resource: None",
        "    if not planned:\n        return lambda _resource: None",
        tests("plans"),
    ),
    Mutation(
        "A look does not ask whether other projects use a resource",
        SWEEP,
        "        elif verdict := asks(resource):\n",
        "        elif verdict := None:\n",
        tests("raised"),
    ),
    Mutation(
        "A list that fails counts as empty in a look",
        SWEEP,
        '    except Exception as error:  # every failed listing is "unknown", whatever went wrong in it\n'
        "        return _unknown(error)",
        "    except Exception:\n        return Sweep(Outcome.CLEAR)",
        tests("sweep"),
    ),
    Mutation(
        "A list that fails counts as empty in a delete",
        SWEEP,
        "        first = _list(type_, connection, project, forbids, unplanned, collect, most)\n"
        "    except Exception as error:\n        return _unknown(error)",
        "        first = _list(type_, connection, project, forbids, unplanned, collect, most)\n"
        "    except Exception:\n        return Sweep(Outcome.CLEAR)",
        tests("sweep"),
    ),
    Mutation(
        "What was deleted counts as gone without the second list",
        SWEEP,
        "return _unknown(error, found=len(names) + len(first.left))",
        "return Sweep(Outcome.CLEAR, deleted=tuple(names.items()))",
        tests("sweep"),
    ),
    Mutation(
        "A 404 of a list counts as empty",
        SWEEP,
        "def _unknown(error: BaseException, found: int = 0) -> Sweep:\n    failure = classify(error)\n",
        "def _unknown(error: BaseException, found: int = 0) -> Sweep:\n    failure = classify(error)\n"
        "    if failure.status == 404:\n        return Sweep(Outcome.CLEAR)\n",
        tests("sweep"),
    ),
    Mutation(
        "A 403 of a list counts as empty",
        SWEEP,
        "def _unknown(error: BaseException, found: int = 0) -> Sweep:\n    failure = classify(error)\n",
        "def _unknown(error: BaseException, found: int = 0) -> Sweep:\n    failure = classify(error)\n"
        "    if failure.status == 403:\n        return Sweep(Outcome.CLEAR)\n",
        tests("sweep"),
    ),
    Mutation(
        "A 403 of a delete counts as gone",
        SWEEP,
        "if failure.status in (404, 410) and called in (type_.show, last):",
        "if failure.status in (403, 404, 410) and called in (type_.show, last):",
        tests("sweep"),
    ),
    Mutation(
        "A 404 of a breaker counts as gone",
        SWEEP,
        "if failure.status in (404, 410) and called in (type_.show, last):",
        "if failure.status in (404, 410):",
        tests("sweep"),
    ),
    Mutation(
        "A type that says nothing of its availability counts as absent",
        SWEEP,
        "    if not isinstance(available, bool):\n",
        "    if False:\n",
        tests("sweep"),
    ),
    Mutation(
        "Any mapping counts as an empty list",
        SWEEP,
        "if isinstance(rows, str | bytes | Mapping):",
        "if isinstance(rows, str | bytes):",
        tests("sweep"),
    ),
    Mutation(
        "A list without an end is read for ever",
        SWEEP,
        "        if len(seen) >= most:\n",
        "        if len(seen) >= most * 1000:\n",
        tests("sweep"),
    ),
    Mutation(
        "Deletes go on after a cancel",
        SWEEP,
        "            attempt.tried.discard(resource.id)\n            stop.append(error)\n            return\n",
        "            attempt.tried.discard(resource.id)\n            return\n",
        tests("sweep"),
    ),
    Mutation(
        "What is about to be deleted is written down afterwards",
        SWEEP,
        "            intend(chunk)\n            list(run(one, chunk))\n",
        "            list(run(one, chunk))\n            intend(chunk)\n",
        tests("sweep"),
    ),
    Mutation(
        "Force is used where an ordinary delete was not tried",
        SWEEP,
        "last = type_.force if forced and type_.force is not None else type_.delete",
        "last = type_.force if type_.force is not None else type_.delete",
        tests("sweep"),
    ),
    Mutation(
        "What is dragged along by another type is deleted by a call of its own",
        SWEEP,
        "    if type_.dragged_by:\n        attempted.tried.update(names)\n    else:",
        "    if False:\n        attempted.tried.update(names)\n    else:",
        tests("sweep"),
    ),
    Mutation(
        "A list is believed without the proof that we are an admin",
        SWEEP,
        "if type_.proof is not None and type_.token is Token.ADMIN:",
        "if False:",
        tests("admin"),
    ),
    Mutation(
        "Parts with a keep mark do not keep their whole",
        SWEEP,
        'return by_part.get(resource.id) or by_part.get("")\n\n    return forbids',
        "return None\n\n    return forbids",
        tests("marks"),
    ),
    Mutation(
        "Parts that are not in the plan do not keep their whole",
        SWEEP,
        'return by_part.get(resource.id) or by_part.get("")\n\n    return unplanned',
        "return None\n\n    return unplanned",
        tests("plans"),
    ),
    Mutation(
        "Parts of other projects count as unplanned",
        SWEEP,
        "ours = (resource for resource in resources if resource.owner == project.id)",
        "ours = (resource for resource in resources if resource.owner != project.id)",
        tests("plans"),
    ),
    # -------------------------------------------------------------------------------------------------- declared calls
    Mutation(
        "An empty project id is accepted by plugins",
        BASE,
        "if not isinstance(self.id, str) or not self.id.strip():",
        "if not isinstance(self.id, str):",
        tests("sweep"),
    ),
    Mutation(
        "A project id of blanks is accepted by plugins",
        BASE,
        "if not isinstance(self.id, str) or not self.id.strip():",
        "if not isinstance(self.id, str) or not self.id:",
        tests("sweep"),
    ),
    Mutation(
        "A resource without an owner is the project's",
        BASE,
        "str(owner) if owner else None, row)",
        "str(owner) if owner else project.id, row)",
        tests("declared_calls"),
    ),
    Mutation(
        "A resource without an id is taken",
        BASE,
        '        if not identity:\n            raise BadAnswer(f"a {self.name} was listed without {self.id!r}")\n',
        "",
        tests("declared_calls"),
    ),
    Mutation(
        "An answer without the collection is an empty collection",
        BASE,
        "if not isinstance(body, Mapping) or not isinstance(body.get(self.key), list):\n"
        '                raise BadAnswer(f"{self!r} answered without {self.key!r}")\n'
        "            page = body[self.key]",
        "page = body.get(self.key) or []",
        tests("declared_calls"),
    ),
    Mutation(
        "Only the first page of a list is read",
        BASE,
        'if self.paging == "none" or not page:',
        "if True:",
        tests("service_plugins"),
    ),
    Mutation(
        "The owner filter is dropped from the second page on",
        BASE,
        "query = {**query, **dict(parse_qsl(urlsplit(link).query))}",
        "query = dict(parse_qsl(urlsplit(link).query))",
        tests("declared_calls"),
    ),
    Mutation(
        "A list that was cut short is believed",
        BASE,
        'if cut and not (self.paging == "pages" and link):',
        "if False:",
        tests("declared_calls"),
    ),
    Mutation(
        "The headers of a declared call are not filled",
        BASE,
        "query, body, headers = (fill(part, project, resource) for part in (self.query, self.body, self.headers))",
        "query, body = (fill(part, project, resource) for part in (self.query, self.body))\n"
        "        headers = self.headers",
        tests("service_plugins"),
    ),
    Mutation(
        "An id with a slash addresses another resource",
        BASE,
        'dataclasses.replace(resource, id=quote(resource.id, safe="")) if resource else None',
        "resource",
        tests("declared_calls"),
    ),
    Mutation(
        "Blockers are not told apart by owner",
        BASE,
        'foreign = [blocker for blocker in found if blocker["owner"] != project.id]',
        'foreign = [blocker for blocker in found if blocker["owner"] == project.id]',
        tests("declared_calls"),
    ),
    # ---------------------------------------------------------------------------------------------------- keep marks
    Mutation(
        "What does not show its tags bears no keep mark",
        MARKS,
        'return f"it does not show its {type_.tags}, and may bear a keep mark"',
        "return None",
        tests("marks"),
    ),
    Mutation(
        "Keep tags are told apart by case",
        MARKS,
        "if tag.strip().casefold() in self.tags:",
        "if tag.strip() in self.tags:",
        tests("marks"),
    ),
    Mutation(
        "A keep property counts with any value",
        MARKS,
        "== wanted and only in (None, _folded(value)):",
        "== wanted:",
        tests("marks"),
    ),
    # --------------------------------------------------------------------------------- admin, errors of the cloud
    Mutation(
        "What was proven of one project is proven of all",
        ADMIN,
        'asked = f"{fill(question.path, project)} {fill(question.query, project)}"',
        'asked = f"{question.path} {question.query}"',
        tests("admin"),
    ),
    Mutation(
        "What was proven once is proven for ever",
        ADMIN,
        "if time.monotonic() - at >= SECONDS]:",
        "if time.monotonic() - at >= SECONDS * 1000]:",
        tests("admin"),
    ),
    Mutation(
        "What a hold withheld counts as stopped for good",
        ERRORS,
        "    if isinstance(error, Held):\n        return Failure(Reason.HELD, message)\n",
        "",
        tests("held sweep"),
    ),
    Mutation(
        "Any 404 counts as Keystone's word that a project is gone",
        ERRORS,
        'return isinstance(said, Mapping) and said.get("code") == 404 and bool(said.get("message"))',
        "return True",
        tests("identity_users survey"),
    ),
)
