"""sendfilectl: fills and inspects the stores of the nginx module ngx_sendfile."""

__version__ = "0.1.0"
