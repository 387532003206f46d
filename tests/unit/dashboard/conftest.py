"""Django has its settings before a test of the panels runs, also if only one file of tests runs."""

from django.conf import settings

if not settings.configured:
    settings.configure(USE_I18N=False, USE_TZ=True)  # Horizon sets USE_TZ; before Django 5 it is off by default
