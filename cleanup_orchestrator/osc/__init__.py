"""The plugin of the ``openstack`` command line, and the client of the REST API."""
