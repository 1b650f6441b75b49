"""Settings."""

import os

SECRET_KEY = "the secret of a test"
ALLOWED_HOSTS = ["*"]
DEBUG = False
INSTALLED_APPS = ["django.contrib.sessions"]
MIDDLEWARE = [
    "archive.count.count_requests",
    "django.contrib.sessions.middleware.SessionMiddleware",
    "django.middleware.common.CommonMiddleware",
]
SESSION_ENGINE = "django.contrib.sessions.backends.signed_cookies"
ROOT_URLCONF = "archive.urls"
WSGI_APPLICATION = "archive.wsgi.application"
USE_TZ = True

# django_sendfile.backends.nginx, django_sendfile.backends.xsendfile, or ours
SENDFILE_BACKEND = os.environ["APP_BACKEND"]
SENDFILE_ROOT = os.environ["APP_FILES"]
SENDFILE_URL = "/protected"
