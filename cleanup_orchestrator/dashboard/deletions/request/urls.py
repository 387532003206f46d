"""The pages of the request of deletions."""

from django.urls import path

from cleanup_orchestrator.dashboard.deletions.request import confirm, views

urlpatterns = [
    path("request/", views.Ask.as_view(), name="request"),
    path("request/preview/", confirm.Preview.as_view(), name="preview"),
]
