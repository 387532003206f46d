"""Defects in the evidence: the hash chain of the journal, the report of a deletion, its signature and its check."""

from tests.mutants.mutation import Mutation, tests

CANONICAL = "cleanup_orchestrator/core/canonical.py"
CHAIN = "cleanup_orchestrator/core/journal_chain.py"
JOURNAL = "cleanup_orchestrator/store/journal.py"
FACTS = "cleanup_orchestrator/core/evidence.py"
SIGNING = "cleanup_orchestrator/evidence/signing.py"
VERIFY = "cleanup_orchestrator/evidence/verify.py"
COMMAND = "cleanup_orchestrator/cmd/report.py"
REPORTS = "cleanup_orchestrator/api/report.py"
PAGE = "cleanup_orchestrator/sdk/report_page.py"
CLIENT = "cleanup_orchestrator/osc/report.py"
PANEL = "cleanup_orchestrator/dashboard/deletions/detail.py"
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
    Mutation(
        "One empty inventory is a proof",
        FACTS,
        'if len(facts["inventories"]) < 2:',
        'if len(facts["inventories"]) < 1:',
        tests("core/evidence"),
    ),
    Mutation(
        "An inventory before the lock is part of the proof",
        FACTS,
        "self._lock, self._inventories = short, []",
        "self._lock = short",
        tests("core/evidence"),
    ),
    Mutation(
        "The status of the record alone makes a report a proof",
        FACTS,
        "    if status != recorded:\n",
        "    if False:\n",
        tests("core/evidence"),
    ),
    Mutation(
        "A report keeps quiet about what could not be seen",
        FACTS,
        'if facts["unseen"] else ""',
        'if False else ""',
        tests("core/evidence"),
    ),
    Mutation(
        "A signature brings its own key",
        SIGNING,
        'if header != {"alg": key.algorithm, "kid": kid}:',
        'if header.get("alg") != key.algorithm:',
        tests("evidence/signing"),
    ),
    Mutation(
        "A private key is published",
        SIGNING,
        'if "d" in jwk:',
        "if False:",
        tests("evidence/signing"),
    ),
    Mutation(
        "A key of another curve signs reports",
        SIGNING,
        '("EC", "P-256"): "ES256"}',
        '("EC", "P-256"): "ES256", ("EC", "P-384"): "ES256"}',
        tests("evidence/signing"),
    ),
    Mutation(
        "The signature is taken away, and the check does not notice",
        VERIFY,
        'if (signature is None) != (report.get("key") == ""):',
        'if signature is not None and report.get("key") == "":',
        tests("evidence/verify"),
    ),
    Mutation(
        "A journal that is cut off is whole",
        VERIFY,
        "if head.to_dict() != {",
        "if head.length > said['length'] and head.to_dict() != {",
        tests("evidence/verify"),
    ),
    Mutation(
        "Two readers read different reports in one file",
        "cleanup_orchestrator/core/canonical.py",
        "if len(found) != len(pairs):",
        "if False:",
        tests("evidence/verify"),
    ),
    Mutation(
        "The check believes the verdict of the report",
        VERIFY,
        '    if (report["proven"], report["verdict"]) != (verdict.proven, verdict.text):\n',
        "    if False:\n",
        tests("evidence/verify"),
    ),
    Mutation(
        "A line that is only partly there counts as checked",
        VERIFY,
        "if (withheld, shown.hexdigest()) !=",
        'if (withheld, said["shown"]) !=',
        tests("evidence/verify"),
    ),
    Mutation(
        "A report that was not checked with a key ends as proven",
        COMMAND,
        "    return UNSIGNED\n",
        "    return 0\n",
        tests("functional/test_report"),
    ),
    Mutation(
        "A report of a deletion under way ends as proven",
        COMMAND,
        "return 0 if found.proven else NO_PROOF",
        "return 0",
        tests("functional/test_report"),
    ),
    Mutation(
        "A name in a report controls the terminal of the auditor",
        COMMAND,
        "    print(printable(f\"deletion {d['id']}",
        "    print(str(f\"deletion {d['id']}",
        tests("functional/test_report"),
    ),
    Mutation(
        "Who may not see a deletion gets its report",
        REPORTS,
        "        self._allow(req, policies.REPORT, d)\n",
        "",
        tests("functional/test_api/test_report"),
    ),
    Mutation(
        "The report shows why a lien holds to who may not read liens",
        REPORTS,
        "view = views.event(row, readable) | {",
        'view = views.event(row, ("lien", "waiver", "brake")) | {',
        tests("functional/test_api/test_report"),
    ),
    Mutation(
        "A report does not say that the stored journal was cut off",
        REPORTS,
        "if not self._problem and self._head != self._deletion.journal:",
        "if not self._problem and self._head.length > self._deletion.journal.length:",
        tests("functional/test_api/test_report"),
    ),
    Mutation(
        "The name of a resource is a script on the page of a report",
        PAGE,
        "return html.escape(line if",
        "return str(line if",
        tests("sdk/report_page"),
    ),
    Mutation(
        "The name of a resource changes the direction of the page",
        PAGE,
        'line = "" if value is None else one_line(value)',
        'line = "" if value is None else str(value)',
        tests("sdk/report_page"),
    ),
    Mutation(
        "The annex keeps quiet about what it leaves out",
        PAGE,
        "    if total > len(rows):\n",
        "    if False:\n",
        tests("sdk/report_page"),
    ),
    Mutation(
        "Each report is green",
        PAGE,
        'proven = " proven" if report.get("proven") is True else ""',
        'proven = " proven"',
        tests("sdk/report_page"),
    ),
    Mutation(
        "A PDF fetches what a name in it says",
        CLIENT,
        "url_fetcher=_refuse",
        "url_fetcher=print",
        tests("functional/test_osc/test_report"),
    ),
    Mutation(
        "Horizon shows a report as one of its pages",
        PANEL,
        "f'attachment; filename=",
        "f'inline; filename=",
        tests("dashboard/pages"),
    ),
)
