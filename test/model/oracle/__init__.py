"""The oracle: which files may be in an answer, and random nginxes to ask it of."""
