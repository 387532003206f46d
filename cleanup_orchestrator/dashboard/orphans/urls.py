"""The pages of the panel."""

from django.urls import path

from cleanup_orchestrator.dashboard.orphans import adopting, views

urlpatterns = [
    path("", views.Index.as_view(), name="index"),
    path("start/", views.Start.as_view(), name="start"),
    path("<slug:scan_id>/", views.Detail.as_view(), name="detail"),
    path("<slug:scan_id>/cancel/", views.Cancel.as_view(), name="cancel"),
    path("<slug:scan_id>/orphans/", views.Orphans.as_view(), name="orphans"),
    path("<slug:scan_id>/projects/<slug:project_id>/adopt/", adopting.DryRun.as_view(), name="dry_run"),
    path("<slug:scan_id>/projects/<slug:project_id>/adopt/<slug:deletion_id>/", adopting.Adopt.as_view(), name="adopt"),
]
