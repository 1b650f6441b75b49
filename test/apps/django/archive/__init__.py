"""A Django project that sends files with django-sendfile2."""
