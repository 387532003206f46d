"""The options of the API, apart from its libraries: every process registers them."""

from __future__ import annotations

from oslo_config import cfg

OPTS = {
    "api": [
        cfg.HostAddressOpt("host", default="127.0.0.1", help="Address that cleanup-orchestrator-api listens on."),
        cfg.PortOpt("port", default=8790, help="Port that cleanup-orchestrator-api listens on."),
        cfg.IntOpt(
            "threads", default=16, min=1, help="Number of requests that one API process answers at the same time."
        ),
        cfg.FloatOpt(
            "client_timeout",
            default=20.0,
            min=1.0,
            help="Seconds within which a whole request (head and body) has to arrive, and within which the client has "
            "to read the answer. Also the time after which an idle connection is closed.",
        ),
        cfg.IntOpt(
            "connections",
            default=1000,
            min=1,
            help="Number of connections that one API process has open at the same time. Further connections wait. A "
            "slow client occupies a connection for up to client_timeout, but no thread. Limit the connections of each "
            "address in the proxy in front of the API.",
        ),
        cfg.IntOpt(
            "max_limit",
            default=500,
            min=1,
            help="Maximum number of items on a page. A larger limit in a request is reduced to it.",
        ),
        cfg.IntOpt(
            "requester_reads_days",
            default=30,
            min=0,
            help="Days after the end of a deletion within which the user who requested it may still read it: its "
            "report, its leftovers, its journal and its plan. A user who has lost every role on the project and its "
            "domain can do that. Afterwards the user needs another right, such as that of a reader of the domain. A "
            "deletion under way can always be read. 0: for ever.",
        ),
        cfg.IntOpt(
            "live_per_requester",
            default=50,
            min=0,
            help="Number of deletions under way at which a requester without the admin's rights on the cloud gets "
            "429 for a further one; 0: no limit. Dry runs and reports count. A request for a tree of projects below "
            "this number is accepted as a whole; [deletion] max_subtree limits it.",
        ),
        cfg.IntOpt(
            "live_per_domain",
            default=200,
            min=0,
            help="The same number for the projects of one domain, for all requesters together: more users do not allow "
            "more deletions.",
        ),
        cfg.IntOpt(
            "daily_per_requester",
            default=2500,
            min=0,
            help="Number of deletions that a requester without the admin's rights on the cloud may request within 24 "
            "hours; 0: no limit. Dry runs and reports count. This limits how many records users can make. The "
            "default allows a dry run and a cascade of the largest tree ([deletion] max_subtree), and 500 more.",
        ),
        cfg.IntOpt(
            "daily_per_domain",
            default=5000,
            min=0,
            help="The same number for the projects of one domain.",
        ),
        cfg.URIOpt(
            "help_url",
            schemes=["http", "https"],
            help="URL of the published API reference (the page api/reference of the manual), such as "
            "https://docs.example.com/cleanup-orchestrator/api/reference.html. The help link of each error points to "
            "the explanation of its code there. Without this option it points to /v1/openapi.json of this API.",
        ),
    ],
    "deletion": [
        cfg.IntOpt(
            "plan_max_age",
            default=86400,
            min=1,
            help="Seconds after the end of a dry run within which a cascade can be bound to its plan.",
        ),
        cfg.IntOpt(
            "max_delay",
            default=366,
            min=0,
            help="Days from the request of a deletion to its date, at most. 0: no request can have a date.",
        ),
        cfg.ListOpt(
            "required",
            default=[],
            item_type=cfg.types.String(choices=["reason", "ticket"]),
            help="What each request for a deletion must have: 'reason', 'ticket', or both. Dry runs need neither. With "
            "it, a plain DELETE of a project that Keystone hands over is refused, because it can have neither.",
        ),
        cfg.IntOpt(
            "max_subtree",
            default=1000,
            min=1,
            help="Maximum number of projects below the project of a request with include_subtree. A request for a "
            "larger tree is refused: request the deletion of its parts one by one. Before the request is answered, the "
            "API writes one record for each project, and makes one call to Keystone for each one with children.",
        ),
    ],
    "gate": [
        cfg.StrOpt(
            "secret",
            default="",
            secret=True,
            help="The secret of the gate in Keystone's policy, of 32 or more letters and digits: 'openssl rand -hex "
            "32'. The rule in Keystone's policy has the same one. If it is empty, the gate is off: /gate answers 404. "
            "Only the API reads it.",
        ),
        cfg.IntOpt(
            "max_age",
            default=60,
            min=1,
            max=3600,
            help="Seconds after the begin of the first list of a dry run within which the gate lets Keystone delete "
            "the project. Users of the project can create resources in this time, which stay without a project.",
        ),
    ],
}
