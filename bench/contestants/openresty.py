"""The way of OpenResty: Lua that asks memcached through a pool of sockets."""

import os
from collections.abc import Callable
from pathlib import Path

from bench.contestants.nginx import NginxProgram
from bench.model import Address

# Debian's packages libnginx-mod-http-ndk and libnginx-mod-http-lua, which are
# built for Debian's nginx alone.
_DIRECTORY = Path("/usr/lib/nginx/modules")
_NGINX = Path("/usr/sbin/nginx")
MODULES = (
    _DIRECTORY / "ndk_http_module.so",
    _DIRECTORY / "ngx_http_lua_module.so",
)

# What it sends and reads is what lua-resty-memcached's get() does, without its
# escaping of keys, which digits do not need.
_SERVER = """\
lua_code_cache on;
lua_socket_log_errors off;

location /file/ {
    content_by_lua_block {
        local id = string.sub(ngx.var.uri, 7)

        if not ngx.re.find(id, "^[0-9]{1,20}$", "jo") then
            return ngx.exit(ngx.HTTP_NOT_FOUND)
        end

        local sock = ngx.socket.tcp()
        sock:settimeouts(100, 250, 250)

        local ok, err = sock:connect("@HOST@", @PORT@)
        if not ok then
            ngx.log(ngx.ERR, "memcached: connect: ", err)
            return ngx.exit(ngx.HTTP_BAD_GATEWAY)
        end

        local bytes
        bytes, err = sock:send({ "get ", id, "\\r\\n" })
        if not bytes then
            ngx.log(ngx.ERR, "memcached: send: ", err)
            return ngx.exit(ngx.HTTP_BAD_GATEWAY)
        end

        local line
        line, err = sock:receive()
        if not line then
            ngx.log(ngx.ERR, "memcached: receive: ", err)
            return ngx.exit(ngx.HTTP_BAD_GATEWAY)
        end

        if line == "END" then
            sock:setkeepalive(60000, 128)
            return ngx.exit(ngx.HTTP_NOT_FOUND)
        end

        local length = string.match(line, "^VALUE %S+ %d+ (%d+)$")
        if not length then
            ngx.log(ngx.ERR, "memcached: bad answer: ", line)
            return ngx.exit(ngx.HTTP_BAD_GATEWAY)
        end

        local path
        path, err = sock:receive(tonumber(length))
        if not path then
            ngx.log(ngx.ERR, "memcached: receive: ", err)
            return ngx.exit(ngx.HTTP_BAD_GATEWAY)
        end

        local rest
        rest, err = sock:receive(7)
        if rest ~= "\\r\\nEND\\r\\n" then
            ngx.log(ngx.ERR, "memcached: bad end of answer: ", rest or err)
            return ngx.exit(ngx.HTTP_BAD_GATEWAY)
        end

        ok, err = sock:setkeepalive(60000, 128)
        if not ok then
            ngx.log(ngx.ERR, "memcached: setkeepalive: ", err)
        end

        return ngx.exec("/files/" .. path)
    }
}

location ^~ /files/ {
    internal;
    alias @FILES@/;
}
"""


def missing(program: NginxProgram) -> str | None:
    """Say why the Lua module cannot be loaded, None if it can.

    Args:
        program: the nginx that is to load it.
    """
    if program.binary.resolve() != _NGINX.resolve():
        return f"the Lua module of Debian is for {_NGINX} only"
    for module in MODULES:
        if not os.access(module, os.R_OK):
            return (
                f"{module.name} is not installed (Debian package libnginx-mod-http-lua)"
            )
    return None


def server(memcached: Callable[[], Address], files: Path) -> Callable[[], str]:
    """Return what makes the lines of the ``server`` block.

    Args:
        memcached: tells where memcached listens.
        files: directory of the files.
    """

    def lines() -> str:
        address = memcached()
        return (
            _SERVER.replace("@HOST@", address.host)
            .replace("@PORT@", str(address.port))
            .replace("@FILES@", str(files))
        )

    return lines
