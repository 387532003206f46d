"""The pages of the panel."""

from django.urls import path

from cleanup_orchestrator.dashboard.deletions import actions, detail, force, views
from cleanup_orchestrator.dashboard.deletions.request import urls as request_urls

urlpatterns = [
    path("", views.Index.as_view(), name="index"),
    *request_urls.urlpatterns,
    path("<uuid:deletion_id>/", detail.Detail.as_view(), name="detail"),
    path("<uuid:deletion_id>/change/", actions.Change.as_view(), name="change"),
    path("<uuid:deletion_id>/report/", detail.Report.as_view(), name="report"),
    path("<uuid:deletion_id>/retry/", actions.Retry.as_view(), name="retry"),
    path("<uuid:deletion_id>/approve/", actions.Approve.as_view(), name="approve"),
    path("<uuid:deletion_id>/restore/", actions.Restore.as_view(), name="restore"),
    path("<uuid:deletion_id>/cancel/", actions.Cancel.as_view(), name="cancel"),
    path("<uuid:deletion_id>/force/", force.Force.as_view(), name="force"),
]
