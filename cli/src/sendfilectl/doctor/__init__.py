"""doctor: what is wrong, or will be, with an nginx that has the module."""
