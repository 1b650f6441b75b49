# Copyright (C) the ngx_sendfile authors
#
# `make help` lists the targets.  The work is done by the scripts in tools/.
#
# What they make:
#   build/ngx_http_sendfile_module.so   for NGINX=, by default the installed one;
#   build/ngx_http_sendfile_sqlite_module.so  the same, for SQLite
#   build/ngx_http_sendfile_mruby_module.so   the same, for Ruby
#   build/ngx_http_sendfile_signed_module.so   the same, for signatures
#   build/mruby/                        mruby, for all of them
#   build/compile_commands.json         how the module is compiled, for clangd
#   build/asan/nginx                    1.28, modules linked in, sanitizers
#   build/static/nginx                  1.28, modules linked in
#   build/ngx_sendfile-0.1.0.gem        what gem/ has, with this version
#   build/deb/SUITE/                    Debian's packages
#   build/rpm/                          an RPM and its source package
#   build/image/SUITE/                  the container image
#   build/release/                      what a release has
#   build/nginx-1.28/nginx              1.28 and, beside it, the modules for it
#   build/test/ngx_http_sendfile_test_module.so, build/test/1.28/ the same:
#                                       the tests' own store for NGINX= and for
#                                       1.28; asan and static have it linked in

.DEFAULT_GOAL := build
.SUFFIXES:
.NOTPARALLEL:

NGINX     ?=
NGINX_SRC ?=
PORT      ?= 8080
ONLY      ?=
BENCH     ?=
SUITE     ?= bookworm
DESTDIR   ?=
PYTHON    ?= $(firstword $(wildcard /usr/bin/python3) python3)

# nginx itself takes NGINX in its environment for a list of sockets
unexport NGINX
NGINX_BIN := $(NGINX)
export NGINX_BIN NGINX_SRC PORT ONLY DESTDIR PYTHON SUITE NGINX_ORG \
    NGINX_VERSION NGINX_TARBALLS

.PHONY: run test build test-module gem install lint bench fuzz asan static \
        nginx-1.28 deb deb-test clean-root-test rpm image image-test module matrix release \
        clean help

help:
	@echo 'make build        build/*.so, the modules, for the installed nginx, or'
	@echo '                  NGINX=/path/to/nginx NGINX_SRC=/path/to/its/source'
	@echo 'make gem          build/ngx_sendfile-VERSION.gem, the Ruby gem'
	@echo 'make run          a demonstration on http://127.0.0.1:8080/ (PORT=8080)'
	@echo 'make install      the modules into that nginx (DESTDIR=)'
	@echo 'make deb          Debian packages in build/deb/SUITE/ (SUITE=bookworm, trixie)'
	@echo '                  NGINX_ORG=1.28.3: the package for nginx.org'"'"'s nginx'
	@echo 'make deb-test     installs, upgrades and removes them in a clean root'
	@echo 'make rpm          build/rpm/*.rpm for nginx.org'"'"'s nginx (NGINX_ORG=1.28.3)'
	@echo 'make image        build/image/SUITE/, a container image of the packages'
	@echo 'make image-test   runs it: rootless, read-only, the compose demonstration'
	@echo 'make module       build/module-VERSION/*.so for NGINX_VERSION=1.28.3'
	@echo 'make matrix       the modules with each nginx that can be had, gcc and clang'
	@echo 'make release      gem, wheel, source, SBOM and checksums in build/release/'
	@echo 'make test         all tests (ONLY="unit lint http-debian", ONLY=list)'
	@echo 'make clean-root-test  make run in a clean root (SUITE=trixie, noble; TEST=1)'
	@echo 'make lint         style and dependency rules, ruff, mypy, shellcheck, rubocop'
	@echo 'make fuzz         the fuzz targets, longer than in make test (SECONDS=60 each)'
	@echo 'make bench        the tables of docs/benchmarks.md (BENCH=--quick)'
	@echo 'make asan         build/asan/nginx: nginx 1.28 and the module with sanitizers'
	@echo 'make static       build/static/nginx: nginx 1.28, the module linked in'
	@echo 'make nginx-1.28   build/nginx-1.28/: nginx 1.28 and the modules for it'
	@echo 'make clean        remove build/'

build:
	@tools/deps.sh build
	@tools/build-module.sh

test-module: build
	@tools/build-module.sh test/module build/test build/ngx_http_sendfile_module.so

gem:
	@tools/deps.sh gem
	@tools/build-gem.sh

run:
	@exec tools/run.sh

test:
	@command -v $(PYTHON) > /dev/null || tools/deps.sh lint
	@$(PYTHON) tools/suite.py $(ONLY)

install: build
	@tools/install.sh

deb:
	@tools/deps.sh deb
	@tools/deb.sh

deb-test:
	@tools/deps.sh deb
	@tools/deb-test.sh

rpm:
	@tools/deps.sh rpm
	@tools/rpm.sh

image:
	@tools/deps.sh image
	@tools/image.sh

image-test:
	@tools/deps.sh image
	@tools/venv.sh test
	@tools/image-test.sh

clean-root-test:
	@tools/deps.sh deb
	@tools/clean-root-test.sh

module:
	@tools/deps.sh build
	@tools/module.sh

matrix: test-module
	@tools/deps.sh build fuzz
	@tools/venv.sh test
	@tools/matrix.sh

release:
	@tools/deps.sh deb gem
	@tools/release.sh

lint:
	@tools/deps.sh lint build
	@tools/venv.sh test
	@$(PYTHON) tools/lint.py

fuzz:
	@tools/deps.sh fuzz
	@$(MAKE) -C test/fuzz run SECONDS=$(or $(SECONDS),60)

bench: build
	@tools/deps.sh bench
	@tools/venv.sh test
	@tools/oha.sh || echo 'without oha nothing is measured at a fixed rate'
	@build/venv/bin/python -m bench \
	    $(if $(TABLE),--table $(TABLE)) $(if $(filter 1,$(QUICK)),--quick) \
	    $(if $(NGINX),--nginx $(NGINX)) $(BENCH)

asan static:
	@tools/deps.sh asan
	@tools/build-nginx.sh $@

nginx-1.28:
	@tools/deps.sh asan
	@tools/build-nginx.sh dynamic
	@NGINX_BIN=build/nginx-1.28/nginx NGINX_SRC=build/nginx-1.28/src \
	    tools/build-module.sh . build/nginx-1.28
	@[ ! -f test/module/config ] \
	    || NGINX_BIN=build/nginx-1.28/nginx NGINX_SRC=build/nginx-1.28/src \
	        tools/build-module.sh test/module build/test/1.28 \
	            build/nginx-1.28/ngx_http_sendfile_module.so

clean:
	rm -rf build
