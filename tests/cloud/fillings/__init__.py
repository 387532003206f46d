"""The resources with which a project is filled: one module per service, one function per kind."""
