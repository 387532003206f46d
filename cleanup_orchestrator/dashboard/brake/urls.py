"""The pages of the panel."""

from django.urls import path

from cleanup_orchestrator.dashboard.brake import views

urlpatterns = [
    path("", views.Index.as_view(), name="index"),
    path("set/", views.SetBrake.as_view(), name="set"),
    path("lift/", views.Lift.as_view(), name="lift"),
]
