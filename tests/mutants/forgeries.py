"""Defects by which a name or a message forges what people read, or by which the words before a decision are false."""

from tests.mutants.mutation import Mutation, tests

OSC = "cleanup_orchestrator/osc/"
SCREEN = f"{OSC}screen.py"
CONFIRM = f"{OSC}confirm.py"
SUMMARIES = "cleanup_orchestrator/core/summaries.py"
VIEWS = "cleanup_orchestrator/api/plan_views.py"

MUTATIONS = (
    Mutation(
        "A name can contain the mark of a command",
        "cleanup_orchestrator/sdk/text.py",
        'c if c.isprintable() and c not in BLANK else "?"',
        'c if c.isprintable() or c == "\\x02" else "?"',
        tests("osc/screen core/redact"),
    ),
    Mutation(
        "A name with letters that look like spaces begins further right",
        "cleanup_orchestrator/sdk/text.py",
        " and c not in BLANK",
        "",
        tests("core/redact"),
    ),
    Mutation(
        "A further part of a line begins like a line of its own",
        SCREEN,
        'deeper = f"{indent}  {MARK} "',
        'deeper = f"{indent}    "',
        tests("osc/screen"),
    ),
    Mutation(
        "A word that is longer than a line is broken by the terminal",
        SCREEN,
        "        while width(line) + width(word) > columns:\n",
        "        while False:\n",
        tests("osc/screen"),
    ),
    Mutation(
        "The mark of a command is written where there is no terminal",
        SCREEN,
        "if room else [plain(line)])]",
        "if room else [line])]",
        tests("osc/screen"),
    ),
    Mutation(
        "A value with a space is two words of a command",
        SCREEN,
        "{name: shlex.quote(one_line(value)) for name, value in values.items()}",
        "{name: one_line(value) for name, value in values.items()}",
        tests("osc/screen"),
    ),
    Mutation(
        "Conjoining letters have the width that no table gives them",
        SCREEN,
        ' or "\\u1160" <= char <= "\\u11ff"',
        "",
        tests("osc/screen"),
    ),
    Mutation(
        "A command waits for an answer to a question that is not seen",
        CONFIRM,
        "    if not _is_seen():\n",
        "    if False:\n",
        tests("functional/test_osc/test_confirm"),
    ),
    Mutation(
        "A report before a purge is shown as if nothing had happened",
        CONFIRM,
        "    lines += _later(client, project_id, found)\n",
        "",
        tests("functional/test_osc/test_confirm"),
    ),
    Mutation(
        "The cascade that a report itself saw makes it out of date",
        CONFIRM,
        ' and not overview.is_before(row.get("updated_at"), found.at)',
        "",
        tests("functional/test_osc/test_confirm"),
    ),
    Mutation(
        "The age of a report is by the clock of the client",
        CONFIRM,
        "        moment = email.utils.parsedate_to_datetime(client.answered_at)\n",
        "        moment = datetime.datetime.now(datetime.UTC)\n",
        tests("functional/test_osc/test_confirm"),
    ),
    Mutation(
        "A time in the future is less than a minute ago",
        f"{OSC}overview.py",
        "    if seconds < -_AHEAD:\n",
        "    if False:\n",
        tests("osc/overview"),
    ),
    Mutation(
        "After a report of a subtree a cascade of one project is suggested",
        f"{OSC}endings.py",
        '    below = " --include-subtree" if deletion.get("include_subtree") else ""\n',
        '    below = ""\n',
        tests("osc/endings"),
    ),
    Mutation(
        "A failed request ends as an incomplete dry run",
        f"{OSC}request.py",
        "self.code if self.code and code == wait.INCOMPLETE else code or self.code",
        "code or self.code",
        tests("functional/test_osc/test_wait"),
    ),
    Mutation(
        "Nothing blocks a cascade that needs an approval",
        SUMMARIES,
        "    if foreseen.approval_above:\n",
        "    if False:\n",
        tests("core/summaries functional/test_api/test_summaries"),
    ),
    Mutation(
        "As many resources as the limit need an approval",
        VIEWS,
        "approvals.affected_count(d, steps) > limit",
        "approvals.affected_count(d, steps) >= limit",
        tests("functional/test_api/test_summaries"),
    ),
    Mutation(
        "The API does not know the limit of an approval",
        "cleanup_orchestrator/api/app.py",
        ", approval_resources=conf.approval.resources",
        "",
        tests("functional/test_api/test_summaries"),
    ),
    Mutation(
        "The sentence of a project is said of the projects below",
        SUMMARIES,
        'if d.children else ""',
        'if False else ""',
        tests("core/summaries"),
    ),
    Mutation(
        "The sentence counts kept services as such with resources to delete",
        VIEWS,
        'services=len({each["service"] for each in types if each["delete"]}),',
        'services=len({each["service"] for each in types}),',
        tests("functional/test_api/test_summaries"),
    ),
    Mutation(
        "Nothing is left of a project whose quotas are",
        "cleanup_orchestrator/core/verifying.py",
        'if s.outcome is not Outcome.CLEAR})\n    return f" but',
        'if False})\n    return f" but',
        tests("core/blockers"),
    ),
    Mutation(
        "A container with fewer objects than are listed is believed",
        "cleanup_orchestrator/plugins/object_store/containers.py",
        "if count >= max(0, least) and size >= 0 else _NO_NUMBERS",
        "if count >= 0 and size >= 0 else _NO_NUMBERS",
        tests("plugins/object_store"),
    ),
    Mutation(
        "A container with a negative size is believed",
        "cleanup_orchestrator/plugins/object_store/containers.py",
        "if count >= max(0, least) and size >= 0 else _NO_NUMBERS",
        "if count >= max(0, least) else _NO_NUMBERS",
        tests("plugins/object_store"),
    ),
)
