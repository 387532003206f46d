"""The pages of the panel."""

from django.urls import path

from cleanup_orchestrator.dashboard.brake import views

urlpatterns = [
    path("", views.Index.as_view(), name="index"),
    path("pull/", views.Pull.as_view(), name="pull"),
    path("lift/", views.Lift.as_view(), name="lift"),
]
