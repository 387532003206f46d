"""The pages of the panel."""

from django.urls import path

from cleanup_orchestrator.dashboard.waivers import views

urlpatterns = [
    path("", views.Index.as_view(), name="index"),
    path("create/", views.Create.as_view(), name="create"),
    path("<slug:waiver_id>/withdraw/", views.Withdraw.as_view(), name="withdraw"),
]
