"""What starts the applications."""
