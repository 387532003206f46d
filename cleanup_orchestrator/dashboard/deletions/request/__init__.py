"""The request of deletions: the choice, the dry runs, their preview and the confirmation."""
