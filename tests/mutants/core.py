"""Defects in parts of the core and of the engine: messages, redaction, orders, counts, alarms, scheduled scans."""

from tests.mutants.mutation import Mutation, tests

ACTIONS = "cleanup_orchestrator/core/actions.py"
DELETION = "cleanup_orchestrator/core/deletion.py"
MESSAGES = "cleanup_orchestrator/core/messages.py"
QUEUE = "cleanup_orchestrator/core/queue.py"
EMPTINESS = "cleanup_orchestrator/core/emptiness.py"
REDACT = "cleanup_orchestrator/core/redact.py"
REFERENCES = "cleanup_orchestrator/core/references.py"
TALLY = "cleanup_orchestrator/core/tally.py"
ALARMS = "cleanup_orchestrator/engine/alarms.py"
ENGINE = "cleanup_orchestrator/engine/deletions.py"
SCANS = "cleanup_orchestrator/engine/orphan_scans.py"

MUTATIONS = (
    Mutation(
        "The decision about a use is stored without the resources that it is about",
        DELETION,
        'return {"of": self.of, "by": [list(each) for each in self.by], "who": self.who}',
        'return {"of": self.of, "by": [], "who": self.who}',
        tests("store/records"),
    ),
    Mutation(
        "A deletion that is blocked does not say by what",
        MESSAGES,
        '        parts.append(f"blocked by {blocked.message}")\n',
        "        pass\n",
        tests("core/messages"),
    ),
    Mutation(
        "The message of a deletion shows the text of a hold to everyone",
        MESSAGES,
        'parts.append(f"on hold ({hold.reason})")',
        'parts.append(f"on hold ({hold.message})")',
        tests("core/messages core/guard"),
    ),
    Mutation(
        "A deletion does not say which types could not be listed",
        MESSAGES,
        'unknown = f"; {tally.unknown} types could not be listed" if tally.unknown else ""',
        'unknown = ""',
        tests("core/tally"),
    ),
    Mutation(
        "A type waits for one in another region",
        MESSAGES,
        'if other.id in seen or (step.region and other.region not in ("", step.region)):',
        "if other.id in seen:",
        tests("core/messages"),
    ),
    Mutation(
        "What waits does not say what it waits for in the end",
        MESSAGES,
        "                if names.get(other.id):\n                    pending.append(other)\n",
        "                if False:\n                    pending.append(other)\n",
        tests("core/messages"),
    ),
    # -- the queue
    Mutation(
        "A user with many places gets the next one, too",
        QUEUE,
        "heap.append((sum(line.working for line in lines), turn, oldest, id_))",
        "heap.append((0, turn, oldest, id_))",
        tests("core/queue core/fairness"),
    ),
    Mutation(
        "A requester who had the latest turn is the next one again",
        QUEUE,
        "turn = max(line.turn_at for line in lines), 0",
        "turn = datetime.datetime.min, 0",
        tests("core/queue core/fairness"),
    ),
    Mutation(
        "A deletion gets a place before older ones of the same line",
        QUEUE,
        "for each in turns(lines, places)) > self.before",
        "for each in turns(lines, places)) > 0",
        tests("core/queue core/fairness"),
    ),
    Mutation(
        "More deletions work at once than there are places",
        QUEUE,
        "    free = places - sum(line.working for line in lines.values())\n",
        "    free = places\n",
        tests("core/queue core/fairness"),
    ),
    # -- secrets
    Mutation(
        "A text is cut within a secret",
        REDACT,
        "text, cut = head[:end] if end >= 0 else MASK, _CUT",
        "text, cut = head[:most], _CUT",
        tests("core/redact"),
    ),
    Mutation(
        "The password of a second host of a URL stays",
        REDACT,
        'masked += [_FURTHER_LOGIN.sub(rf"\\1{MASK}", each) if "," in each else MASK for each in further]',
        "masked += further",
        tests("core/redact"),
    ),
    Mutation(
        "A private key stays in a message",
        REDACT,
        "    text = _without_quoted(_PRIVATE_KEY.sub(MASK, text))\n",
        "    text = _without_quoted(text)\n",
        tests("core/redact"),
    ),
    Mutation(
        "A value in quotes ends at the first quote in it",
        REDACT,
        "            if len(closing[1]) <= slashes:\n",
        "            if True:\n",
        tests("core/redact"),
    ),
    Mutation(
        "Line ends of a foreign text get into the log",
        "cleanup_orchestrator/core/texts.py",
        'return _UNPRINTABLE.sub(lambda match: match[0].encode("unicode_escape").decode(), text)',
        "return text",
        tests("core/texts"),
    ),
    # -- the order of resources
    Mutation(
        "A resource is deleted while one that refers to it is there",
        REFERENCES,
        "            levels.update(dict.fromkeys(group, max(before) + 1))\n",
        "            levels.update(dict.fromkeys(group, max(before)))\n",
        tests("core/references"),
    ),
    Mutation(
        "What waits for a resource that waits itself is not found",
        REFERENCES,
        "                    referrer_of[id_] = referrer\n                    pending.append(id_)\n",
        "                    referrer_of[id_] = referrer\n",
        tests("core/references"),
    ),
    Mutation(
        "Each resource of a name has a set of its own of what refers to the name",
        REFERENCES,
        "            every = shared[direct]\n",
        "            every = frozenset([*shared[direct]])\n",
        tests("core/references"),
    ),
    Mutation(
        "Each member of a cycle of names has sets of its own",
        REFERENCES,
        "if every not in split:",
        "if True:",
        tests("core/references"),
    ),
    Mutation(
        "A resource whose name another resource refers to is deleted before that",
        REFERENCES,
        "*(users.get(one, ()) if one in names else (one,) for one in direct)",
        "*(() if one in names else (one,) for one in direct)",
        tests("core/references worker/order"),
    ),
    Mutation(
        "A resource that refers to its own name is a cycle",
        REFERENCES,
        "            if len(ids) > 1:\n",
        "            if len(group) > 1:\n",
        tests("core/references"),
    ),
    Mutation(
        "A resource that refers to itself is a cycle",
        REFERENCES,
        "            if other == start and node != start:\n",
        "            if other == start:\n",
        tests("core/references"),
    ),
    # -- counts
    Mutation(
        "A leftover of an earlier attempt counts",
        TALLY,
        "return step.remaining if listed(deletion, step) else 0",
        "return step.remaining",
        tests("core/tally core/decide core/messages"),
    ),
    Mutation(
        "The leftovers of all attempts are counted together",
        TALLY,
        "remaining=sum(s.remaining for s in seen)",
        "remaining=sum(s.remaining for s in sweeps)",
        tests("core/tally core/decide core/messages"),
    ),
    Mutation(
        "A later list with fewer resources reduces what was found",
        TALLY,
        "    return max(step.found, step.deleted + there)\n",
        "    return step.deleted + there\n",
        tests("core/tally core/messages"),
    ),
    Mutation(
        "The count of a decision is that of the steps before it",
        ACTIONS,
        "latest = {step.id: step for step in steps} | draft.changed",
        "latest = {step.id: step for step in steps}",
        tests("core/actions"),
    ),
    # -- alarms
    Mutation(
        "A deletion is announced at a time that a later decision has replaced",
        ALARMS,
        "                if self._due.get(deletion_id) == at:\n",
        "                if self._due.pop(deletion_id, None) or True:\n                    self._due[deletion_id] = at\n",
        tests("engine/alarms"),
    ),
    Mutation(
        "A deletion that ended is announced",
        ALARMS,
        "            self._due.pop(deletion_id, None)\n",
        "            pass\n",
        tests("engine/alarms"),
    ),
    Mutation(
        "An earlier alarm does not wake the thread",
        ALARMS,
        "                self._changed.notify()\n",
        "                pass\n",
        tests("engine/alarms"),
    ),
    # -- scheduled scans
    Mutation(
        "A tick of orphan scans that fails is the last one",
        ENGINE,
        '            LOG.exception("the tick for orphan scans failed; the next one tries again")\n',
        "            raise\n",
        tests("engine/deletions"),
    ),
    Mutation(
        "An id that is no deletion's is no scan's either",
        ENGINE,
        "            return orphan_scans.decide(self.store, self.bus, id_, self.rules)\n",
        "            raise\n",
        tests("engine/deletions"),
    ),
    Mutation(
        "A scan that is under way keeps the tick from deciding on it",
        SCANS,
        "    except ScanUnderWay:\n        return None\n",
        "    except ScanUnderWay:\n        raise\n",
        tests("engine/orphan_scans"),
    ),
    Mutation(
        "A decision on a scan is saved and nothing is cast",
        SCANS,
        "    for step_id in decided.casts:\n",
        "    for step_id in ():\n",
        tests("engine/orphan_scans"),
    ),
    Mutation(
        "A change that does not say how it ended counts as one that failed",
        "cleanup_orchestrator/engine/keystone_listener.py",
        'payload.get("outcome", "success") == "success"',
        'payload.get("outcome") == "success"',
        tests("engine/keystone_listener"),
    ),
    # -- what proves that a project is empty
    Mutation(
        "A report of yesterday proves that a project is empty",
        EMPTINESS,
        "if len(begun) < len(listed) or min(begun) < since:",
        "if len(begun) < len(listed) or max(begun) < since and False:",
        tests("core/emptiness"),
    ),
    Mutation(
        "A report proves that a project is empty although its last list is younger than its first",
        EMPTINESS,
        "if len(begun) < len(listed) or min(begun) < since:",
        "if len(begun) < len(listed) or max(begun) < since:",
        tests("core/emptiness"),
    ),
    Mutation(
        "A report with a waiver proves that a project is empty",
        EMPTINESS,
        "if report.waivers or any(step.waived for step in every):",
        "if any(step.waived for step in every):",
        tests("core/emptiness"),
    ),
    Mutation(
        "A type that could not be listed counts as empty",
        EMPTINESS,
        "(done(step, report.round) and step.outcome is Outcome.CLEAR)",
        "(done(step, report.round) and step.outcome is not Outcome.LEFTOVERS)",
        tests("core/emptiness"),
    ),
    Mutation(
        "The latest report counts while a deletion is under way",
        EMPTINESS,
        "if ended and len(ended) == len(every) else None",
        "if ended else None",
        tests("core/emptiness"),
    ),
)
