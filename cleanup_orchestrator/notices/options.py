"""The options of ``[notices]``: every process registers them."""

from __future__ import annotations

from oslo_config import cfg

GROUP = "notices"

OPTS = {
    GROUP: [
        cfg.ListOpt(
            "events",
            default=[
                *("accepted", "reminder", "draining", "blocked"),
                *("deleted", "purged", "leftovers", "cancelled", "failed"),
            ],
            help="What the drivers cleanup_mail and cleanup_webhook of [oslo_messaging_notifications] send a notice "
            "of: the last parts of event types of deletions, such as 'accepted' (the request), 'reminder' ([deletion] "
            "reminders), 'draining' (the lock) and 'deleted'. Dry runs send none.",
        ),
        cfg.FloatOpt(
            "timeout",
            default=10.0,
            min=1.0,
            help="Seconds within which a webhook has to be answered, and a mail taken. A connection for several mails "
            "ends after that many seconds for each of them, and as many for the login.",
        ),
        cfg.IntOpt("tries", default=3, min=1, max=10, help="Number of tries to send a notice."),
        cfg.URIOpt(
            "webhook_url",
            schemes=["http", "https"],
            help="Where cleanup_webhook sends notices: POST with JSON. Redirects are not followed, and no proxy of the "
            "environment is used.",
        ),
        cfg.StrOpt(
            "webhook_secret",
            secret=True,
            help="The key of the signature of each webhook, of 32 or more characters: 'openssl rand -hex 32'. The "
            "receiver has the same one.",
        ),
        cfg.StrOpt("webhook_cafile", help="File with the CA certificates that vouch for the receiver of webhooks."),
        cfg.HostAddressOpt("mail_server", help="SMTP server to which cleanup_mail gives notices."),
        cfg.PortOpt("mail_port", default=25, help="Port of that server."),
        cfg.StrOpt(
            "mail_security",
            default="none",
            choices=["none", "starttls", "tls"],
            help="Encryption of the connection to that server.",
        ),
        cfg.StrOpt("mail_user", help="User at that server. Without one there is no login."),
        cfg.StrOpt("mail_password", secret=True, help="Password of that user."),
        cfg.StrOpt("mail_from", help="Sender of the mails."),
        cfg.ListOpt(
            "mail_to",
            default=["members"],
            help="Who gets the mails: 'members' (users with a role on the project, by their attribute email in "
            "Keystone), 'project:NAME' and 'domain:NAME' (the addresses in the property NAME of the project or its "
            "domain, separated by commas), and addresses. Later notices of a deletion also go to those who got an "
            "earlier one: Keystone does not know the members of a project that is removed.",
        ),
        cfg.StrOpt(
            "mail_templates",
            help="Directory with templates of mails in the operator's language: EVENT.txt, or default.txt for all "
            "others. The first line is the subject. The manual has the words that are replaced. Without it: English.",
        ),
    ]
}
