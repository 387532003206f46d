"""The module for a WSGI server. ``WIDGETS_CONFIGURATION`` names the configuration file."""

import os

from widgets import make

application = make(os.environ.get("WIDGETS_CONFIGURATION", "/etc/widgets/widgets.conf"))
