import configparser
import logging
import sys
from pathlib import Path

_setup = configparser.ConfigParser()
_setup.read(Path(__file__).parents[2] / "setup.cfg")

project = "cleanup-orchestrator"
copyright = "cleanup-orchestrator contributors"
version = release = _setup["metadata"]["version"]

sys.path.insert(0, str(Path(__file__).parents[1] / "ext"))
extensions = [
    "sphinx.ext.autodoc",
    "oslo_config.sphinxext",
    "oslo_policy.sphinxext",
    "release_notes",
    "service_pages",
    "uses_table",
    "pictures",
    "sessions",
    "api_reference",
    "permission_table",
    "protocol_reference",
    "release_table",
]
# The pages load nothing from another host: no script, no font, no picture. tests/functional/test_manual.py checks it.
html_theme = "furo"
html_title = f"cleanup-orchestrator {release}"
html_static_path = ["_static"]
html_css_files = ["manual.css"]
html_copy_source = False
html_show_sphinx = False
html_theme_options = {
    "light_css_variables": {
        "color-brand-primary": "#0b5c8a",
        "color-brand-content": "#0b5c8a",
        "manual-rest": "#a15c00",
        "manual-user": "#a3254f",
    },
    "dark_css_variables": {
        "color-brand-primary": "#6cb8e6",
        "color-brand-content": "#6cb8e6",
        "manual-rest": "#e0a24a",
        "manual-user": "#f08cae",
    },
}

# Most blocks are commands, and not Python.
highlight_language = "none"

autodoc_member_order = "bysource"
autodoc_typehints = "none"
nitpicky = False

# These libraries log each file that they read.
for _name in ("oslo_config", "oslo_service", "reno"):
    logging.getLogger(_name).setLevel(logging.WARNING)
