"""URLs."""

from django.urls import path

from . import views

urlpatterns = [
    path("files/<int:file_id>", views.show),
    path("download/<int:file_id>", views.download),
    path("public/<int:file_id>", views.public),
    path("mine/<int:file_id>", views.mine),
]
