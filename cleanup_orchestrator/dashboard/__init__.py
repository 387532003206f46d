"""The panels of Horizon: project deletions, and what an admin needs beside them.

This package runs in the process of Horizon. It calls the API through :mod:`cleanup_orchestrator.sdk`, with the token of
the user, and decides nothing itself: what the API refuses is shown as the API says it.
"""
