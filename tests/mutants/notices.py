"""Defects in notices: to whom they go, what they say, and what becomes of one that fails."""

from tests.mutants.mutation import Mutation, tests

ROOM = "cleanup_orchestrator/notices/"
WEBHOOK, MAIL, RECIPIENTS = (tests(f"notices/{name}") for name in ("webhook", "mail", "recipients"))

MUTATIONS = (
    Mutation(
        "A redirect leads a signed notice to another host",
        f"{ROOM}webhook.py",
        "                    allow_redirects=False,\n",
        "",
        WEBHOOK,
    ),
    Mutation(
        "A webhook can be sent again later",
        f"{ROOM}webhook.py",
        'f"{seconds}.".encode() + body',
        "body",
        WEBHOOK,
    ),
    Mutation(
        "A refused webhook is sent again and again",
        f"{ROOM}webhook.py",
        "again=answer.status_code >= 500 or answer.status_code in (408, 425, 429)",
        "again=True",
        WEBHOOK,
    ),
    Mutation(
        "A receiver that hangs delays the notifications of the broker",
        f"{ROOM}driver.py",
        "            self.background.put(functools.partial(self._deliver, notice))\n",
        "            self._deliver(notice)\n",
        WEBHOOK,
    ),
    Mutation(
        "A notice that fails leaves no trace",
        f"{ROOM}driver.py",
        '            store.note(notice.payload["deletion_id"], event)\n',
        "            if event.type == EventType.NOTICE_SENT:\n"
        '                store.note(notice.payload["deletion_id"], event)\n',
        WEBHOOK,
    ),
    Mutation(
        "A dry run sends notices",
        f"{ROOM}driver.py",
        ' or message["payload"]["dry_run"]:',
        ":",
        WEBHOOK,
    ),
    Mutation(
        "The name of a project adds lines to a mail",
        f"{ROOM}mail.py",
        'printable(str(value)) if value not in ("", None) else "-"',
        'str(value) if value not in ("", None) else "-"',
        MAIL,
    ),
    Mutation(
        "A server that breaks off gets mails twice",
        f"{ROOM}mail.py",
        "            if len(refused) == number:\n                raise\n",
        "            raise\n",
        MAIL,
    ),
    Mutation(
        "A refused recipient counts as told",
        f"{ROOM}mail.py",
        "tuple(each for each in to if each not in refused)",
        "tuple(to)",
        MAIL,
    ),
    Mutation(
        "A user who is disabled gets a mail",
        f"{ROOM}recipients.py",
        'if user and user.get("enabled", True):',
        "if user:",
        RECIPIENTS,
    ),
    Mutation(
        "Those who were told of the request are not told of the end",
        f"{ROOM}recipients.py",
        ', *_earlier(payload["deletion_id"], store)):',
        ", *()):",
        RECIPIENTS,
    ),
    Mutation(
        "An error of Keystone counts as a project without members",
        f"{ROOM}recipients.py",
        "    except ka_exceptions.NotFound:\n",
        "    except ka_exceptions.ClientException:\n",
        RECIPIENTS,
    ),
    Mutation(
        "Each deletion with a near date is a reminder",
        "cleanup_orchestrator/messaging/notifications.py",
        "return was is not None and now is not None and now.reason not in (was.reason, DATE)",
        "return now is not None and now.reason != DATE",
        tests("messaging/notifications"),
    ),
)
