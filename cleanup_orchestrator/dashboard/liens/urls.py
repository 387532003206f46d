"""The pages of the panel."""

from django.urls import path

from cleanup_orchestrator.dashboard.liens import views

urlpatterns = [
    path("", views.Index.as_view(), name="index"),
    path("create/", views.Create.as_view(), name="create"),
    path("<slug:lien_id>/remove/", views.Remove.as_view(), name="remove"),
]
