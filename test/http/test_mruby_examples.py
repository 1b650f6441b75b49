"""Configurations as ngx_mruby's users have them, unchanged."""

from __future__ import annotations

import re

import pytest

from lib.backend import Reply
from lib.ruby import load_ruby
from lib.site import Site


@pytest.fixture
def ruby(site: Site) -> Site:
    """A site with the module for Ruby."""
    load_ruby(site)
    return site


def test_hello(ruby: Site) -> None:
    """Hello world, inline."""
    nginx = ruby.start(
        """
        location /mruby {
            mruby_content_handler_code '
                Nginx.rputs "hello ngx_mruby world!"
                Nginx.return Nginx::NGX_HTTP_OK
            ';
        }
        """
    )
    assert nginx.get("/mruby").body == b"hello ngx_mruby world!"


def test_hello_for_two_servers(ruby: Site) -> None:
    """One script for nginx and Apache, in a file, cached."""
    (ruby.directory / "unified_hello.rb").write_text(
        """
        if server_name == "NGINX"
          Server = Nginx
        elsif server_name == "Apache"
          Server = Apache
        end

        Server::rputs "Hello #{Server::module_name}/#{Server::module_version} world!"
        """
    )
    nginx = ruby.start("location /a { mruby_content_handler unified_hello.rb cache; }")
    for _ in range(3):
        assert re.fullmatch(rb"Hello \S+/\d+\.\d+\.\d+ world!", nginx.get("/a").body)


def test_all_instances(ruby: Site) -> None:
    """Each class once."""
    nginx = ruby.start(
        """
        location /all_instance {
          mruby_content_handler_code '
            if server_name == "NGINX"
              Server = Nginx
            elsif server_name == "Apache"
              Server = Apache
            end

            r = Server::Request.new
            s = Server::Server.new
            c = Server::Connection.new
            v = Server::Var.new

            Server.echo "hostname: " + r.hostname
            Server.echo "path: " + s.path
            Server.echo "documento_root: #{s.document_root}"
            Server.echo "remote ip: #{c.remote_ip}"
            Server.echo "remote port: #{c.remote_port}"
            Server.echo "user_agent: #{r.headers_in.user_agent}"
            Server.echo "local ip: #{c.local_ip}"
            Server.echo "local port: #{c.local_port}"
            Server.echo "scheme: #{v.scheme}"

            r.headers_in.all.keys.each do |k|
              Server.echo "#{k}: #{r.headers_in[k]}"
            end
            r.headers_out["X-INST-TEST"] = "OK"
          ';
        }
        """
    )
    answer = nginx.get("/all_instance", {"Host": "localhost", "User-Agent": "me"})
    assert answer.header("X-INST-TEST") == "OK"
    lines = answer.text.splitlines()
    root = ruby.html.root
    for line in (
        *("hostname: localhost", f"path: {root}", f"documento_root: {root}"),
        *("remote ip: 127.0.0.1", "user_agent: me", "local ip: 127.0.0.1"),
        *(f"local port: {nginx.port}", "scheme: http", "Host: localhost"),
    ):
        assert line in lines


def test_header(ruby: Site) -> None:
    """A header of the request makes one of the answer."""
    nginx = ruby.start(
        """
        location /header {
            mruby_content_handler_code '
                r = Nginx::Request.new
                unless r.headers_in["X-REQUEST-HEADER"].nil?
                  r.headers_out["X-RESPONSE-HEADER"] = r.headers_in["X-REQUEST-HEADER"]
                  Nginx.rputs "X-REQUEST-HEADER found"
                else
                  r.headers_out["X-RESPONSE-HEADER"] = "nothing"
                  Nginx.rputs "X-REQUEST-HEADER not found"
                end
                Nginx.return Nginx::HTTP_OK
            ';
        }
        """
    )
    answer = nginx.get("/header", {"X-REQUEST-HEADER": "hoge"})
    assert answer.header("X-RESPONSE-HEADER") == "hoge"
    assert answer.body == b"X-REQUEST-HEADER found"
    answer = nginx.get("/header")
    assert answer.header("X-RESPONSE-HEADER") == "nothing"
    assert answer.body == b"X-REQUEST-HEADER not found"


def test_header_from_the_access_phase(ruby: Site) -> None:
    """What an access handler adds and deletes."""
    nginx = ruby.start(
        """
        location /headers_in_delete {
          mruby_access_handler_code '
            r = Nginx::Request.new
            r.headers_in["X-INTERNAL-HEADER"] = "hoge"
            r.headers_in.delete("X-REQUEST-HEADER")
          ';
          mruby_content_handler_code '
            r = Nginx::Request.new
            r.headers_out["X-INTERNAL-HEADER"] = r.headers_in["X-INTERNAL-HEADER"]
            Nginx.rputs "X-REQUEST-HEADER is #{r.headers_in["X-REQUEST-HEADER"].inspect}"
            Nginx.return Nginx::HTTP_OK
          ';
        }
        location /headers_out_delete {
          mruby_access_handler_code '
            r = Nginx::Request.new
            (1..53).each do |i|
                r.headers_out["EXT-HEADER#{i}"] = "foo"
            end
          ';
          mruby_content_handler_code '
            r = Nginx::Request.new
            %w(2 1 22 21 25 42 41 43 47 40 51 53 52).each do |n|
              r.headers_out.delete("EXT-HEADER#{n}")
            end
            Nginx.return Nginx::HTTP_OK
          ';
        }
        """
    )
    answer = nginx.get("/headers_in_delete", {"X-REQUEST-HEADER": "x"})
    assert answer.header("X-INTERNAL-HEADER") == "hoge"
    assert answer.body == b"X-REQUEST-HEADER is nil"
    answer = nginx.get("/headers_out_delete")
    left = {int(n[10:]) for n, _ in answer.headers if n.startswith("EXT-HEADER")}
    gone = {2, 1, 22, 21, 25, 42, 41, 43, 47, 40, 51, 53, 52}
    assert left == set(range(1, 54)) - gone


def test_variables(ruby: Site) -> None:
    """nginx's variables, and one of the configuration's."""
    nginx = ruby.start(
        """
        location /vars {
            set $foo "mruby";
            mruby_content_handler_code '
                r = Nginx::Request.new
                r.content_type = "text/html"
                Nginx.rputs "host => #{r.var.host} "
                Nginx.rputs "foo => #{r.var.foo}"
            ';
        }
        """
    )
    answer = nginx.get("/vars", {"Host": "localhost"})
    assert answer.header("Content-Type") == "text/html"
    assert answer.body == b"host => localhost foo => mruby"


def test_proxy(ruby: Site) -> None:
    """A script chooses the backend."""
    ruby.app.script = lambda request: Reply(200, [], b"proxy test ok")
    nginx = ruby.start(
        """
        location /proxy {
          mruby_set_code $backend '
            backends = [
              "%%APP%%",
            ]
            backends[rand(backends.length)]
          ';
          proxy_pass  http://$backend;
        }
        """
    )
    assert nginx.get("/proxy").body == b"proxy test ok"


def test_sandbox_of_the_init_scripts(ruby: Site) -> None:
    """An instance variable of the worker's top level is there for all."""
    nginx = ruby.start(
        """
        location /iv_init_worker {
            mruby_content_handler_code 'Nginx.rputs @iv_init_worker.to_s';
        }
        """,
        http="""
        mruby_init_code 'p "init master process"';
        mruby_init_worker_code '
            p "init worker process from inline code"
            begin
              @iv_init_worker = true
            rescue
            end
        ';
        """,
    )
    assert nginx.get("/iv_init_worker").body == b"true"
    nginx.wait_for_log('"init worker process from inline code"')
