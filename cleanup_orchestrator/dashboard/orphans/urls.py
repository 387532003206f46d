"""The pages of the panel."""

from django.urls import path

from cleanup_orchestrator.dashboard.orphans import views

urlpatterns = [
    path("", views.Index.as_view(), name="index"),
]
