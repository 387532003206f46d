"""Defects in what people read before they decide: the first sentence, the causes, and the commands that they copy."""

from tests.mutants.mutation import Mutation, tests

REASONS = "cleanup_orchestrator/core/reasons.py"
SUMMARIES = "cleanup_orchestrator/core/summaries.py"
DELETION = "cleanup_orchestrator/core/deletion.py"
RECORDS = "cleanup_orchestrator/store/records.py"
PLANS = "cleanup_orchestrator/store/plans.py"
CONTAINERS = "cleanup_orchestrator/plugins/object_store/containers.py"
ITEM = "cleanup_orchestrator/worker/sweep/item.py"
TEXTS = "cleanup_orchestrator/core/texts.py"

MUTATIONS = (
    Mutation(
        "The things that a text leaves out are not counted",
        TEXTS,
        "    if more <= 0:\n",
        "    if True:\n",
        tests("core/texts"),
    ),
    Mutation(
        "Nothing blocks a deletion whose resources are protected",
        SUMMARIES,
        '        (foreseen.protect, "resource", "resources"),\n',
        "",
        tests("core/summaries"),
    ),
    Mutation(
        "Nothing blocks a deletion of what could not be listed",
        SUMMARIES,
        '        (foreseen.unknown, "type that could not be listed", "types that could not be listed"),\n',
        "",
        tests("core/summaries"),
    ),
    Mutation(
        "A lien does not block a deletion",
        SUMMARIES,
        '        (len(d.liens), "lien", "liens"),\n',
        "",
        tests("core/summaries"),
    ),
    Mutation(
        "A command that deletes can be copied",
        REASONS,
        "for each in found if not _HARMFUL.search(each))",
        "for each in found)",
        tests("core/reasons"),
    ),
    Mutation(
        "A command for a resource of another project can be copied",
        REASONS,
        "    if reason == Reason.FOREIGN:\n        return ()\n",
        "",
        tests("core/reasons"),
    ),
    Mutation(
        "An id that a shell runs is in a command",
        REASONS,
        "if all(_is_plain(word, filled) for word, filled in each))",
        "if each)",
        tests("core/reasons"),
    ),
    Mutation(
        "An id that a client reads as an option is in a command",
        REASONS,
        ' and filled.startswith("-") is word.startswith("-")',
        "",
        tests("core/reasons"),
    ),
    Mutation(
        "A deletion whose project has a later one needs a person",
        DELETION,
        "if self.dry_run or self.superseded:",
        "if self.dry_run:",
        tests("core/condition_types functional/test_store/test_deletions"),
    ),
    Mutation(
        "A later deletion of a project is not read",
        RECORDS,
        'bool(mapping.get("superseded"))',
        "False",
        tests("functional/test_store/test_deletions"),
    ),
    Mutation(
        "A sum of sizes leaves out those that are not known",
        PLANS,
        "int(total) if known == number else None",
        "None if total is None else int(total)",
        tests("functional/test_api/test_plans"),
    ),
    Mutation(
        "A container whose name a proxy could resolve is asked",
        CONTAINERS,
        "if not isinstance(name, str) or has_dots(name):  # see DOTS",
        "if not isinstance(name, str):",
        tests("plugins/object_store"),
    ),
    Mutation(
        "A keep mark is to be cleared by what clears a rule of the type",
        ITEM,
        "    if verdict.reason is not Reason.PROTECTED or _protected_by_rule(context, resource):\n",
        "    if True:\n",
        tests("worker/item"),
    ),
)
