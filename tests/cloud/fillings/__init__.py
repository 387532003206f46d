"""What a project is filled with, one module per service, one function per kind."""
