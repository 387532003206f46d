"""The module for a WSGI server. ``WIDGETS_CONFIGURATION`` names the configuration file."""

import os

import widgets
from keystonemiddleware import auth_token
from oslo_config import cfg

OPTIONS = [
    cfg.StrOpt("database", required=True, help="Path of the SQLite file."),
    cfg.FloatOpt("cancel_seconds", default=2, min=0, help="Seconds for which the cancellation of an order takes."),
]
CONF = cfg.ConfigOpts()
CONF.register_opts(OPTIONS, "widgets")
CONF(
    [],
    project="widgets",
    default_config_files=[os.environ.get("WIDGETS_CONFIGURATION", "/etc/widgets/widgets.conf")],
)

application = auth_token.AuthProtocol(
    widgets.application(CONF.widgets.database, CONF.widgets.cancel_seconds), {"oslo_config_config": CONF}
)
