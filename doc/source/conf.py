import configparser
import sys
from pathlib import Path

_setup = configparser.ConfigParser()
_setup.read(Path(__file__).parents[2] / "setup.cfg")

project = "cleanup-orchestrator"
copyright = "cleanup-orchestrator contributors"
version = release = _setup["metadata"]["version"]

sys.path.insert(0, str(Path(__file__).parents[1] / "ext"))
extensions = ["openstackdocstheme", "sphinx.ext.autodoc", "sphinxcontrib.mermaid", "service_pages", "api_reference"]
html_theme = "openstackdocs"
html_theme_options = {"show_other_versions": False}
# There is no page of this project on docs.openstack.org or Launchpad: the theme must not link to one.
openstackdocs_auto_name = False
openstackdocs_auto_version = False
openstackdocs_bug_project = ""
openstackdocs_use_storyboard = False

autodoc_member_order = "bysource"
autodoc_typehints = "none"
nitpicky = False
