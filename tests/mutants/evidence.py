"""Defects in the evidence: the hash chain of the journal, the report of a deletion, its signature and its check."""

from tests.mutants.mutation import Mutation, tests

CANONICAL = "cleanup_orchestrator/core/canonical.py"
CHAIN = "cleanup_orchestrator/core/journal_chain.py"
JOURNAL = "cleanup_orchestrator/store/journal.py"
PURGE = "cleanup_orchestrator/store/retention.py"
STORED = "functional/test_store/test_chain"

MUTATIONS = (
    Mutation(
        "The keys of canonical JSON are in the order of code points",
        CANONICAL,
        'key=lambda key: key.encode("utf-16-be")',
        "key=str",
        tests("core/canonical"),
    ),
    Mutation(
        "A number that readers of JSON change is stored as it is",
        CANONICAL,
        "return value if abs(value) <= LARGEST else str(value)",
        "return value",
        tests("core/canonical"),
    ),
    Mutation(
        "The digest of a journal line does not cover who wrote it",
        CHAIN,
        '"message", "actor", "request_id", "data")',
        '"message", "request_id", "data")',
        tests("core/journal_chain"),
    ),
    Mutation(
        "A journal line does not follow from the line before it",
        CHAIN,
        '"previous": head.digest}',
        '"previous": ""}',
        tests("core/journal_chain"),
    ),
    Mutation(
        "A journal line may be missing",
        CHAIN,
        '    if line["sequence"] != expected or isinstance(line["sequence"], bool):',
        '    if line["sequence"] < expected:',
        tests("core/journal_chain"),
    ),
    Mutation(
        "Two workers append the same line number",
        JOURNAL,
        "    .with_for_update()\n",
        "",
        tests("store/journal"),
    ),
    Mutation(
        "A later transaction does not know the line before",
        JOURNAL,
        '"journal_digest": head.digest})',
        '"journal_digest": ""})',
        tests(STORED),
    ),
    Mutation(
        "The resources of several lines are on record with the wrong line",
        JOURNAL,
        "ids = sorted(c.scalars(latest).all())",
        "ids = list(c.scalars(latest).all())",
        tests(STORED),
    ),
    Mutation(
        "The head of a purged journal is lost",
        PURGE,
        "            _keep_heads(c, ids, now)\n",
        "            pass\n",
        tests(STORED),
    ),
)
