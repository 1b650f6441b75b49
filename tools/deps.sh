#!/bin/sh
#
# Copyright (C) the ngx_sendfile authors
#
# Install the Debian packages that are missing.  When none is, this needs
# neither root nor network.
#
# usage: deps.sh build|run|gem|gem-test|apps|test|lint|fuzz|bench|deb|rpm|image...

set -eu

# shellcheck source=tools/common.sh
. "$(dirname -- "$0")/common.sh"

# services that must not start because we install their packages, the names
# of both being the same; varnish brings varnishncsa, too
services="nginx memcached lighttpd apache2 unicorn php*-fpm varnish h2o caddy
prometheus"

policy=/usr/sbin/policy-rc.d
mark='# written by ngx_sendfile tools/deps.sh'


installed() {
    # shellcheck disable=SC2016
    dpkg-query -W -f '${Status}\n' "$1" 2> /dev/null \
        | grep -q '^install ok installed'
}


available() {
    apt-cache show --no-all-versions "$1" > /dev/null 2>&1
}


# The packages of a group, one a line.  Some are asked for by what they bring,
# see missing().

group() {
    case $1 in
        module)
            printf '%s\n' gcc make libc6-dev liblmdb-dev libjansson-dev \
                zlib1g-dev
            if [ -z "${NGINX_SRC:-}" ]; then
                printf '%s\n' nginx nginx-dev
            fi
            ;;
        build)
            # cargo brings mruby's source, for the module for Ruby
            group module
            printf '%s\n' libsqlite3-dev libssl-dev ca-certificates cargo \
                python3 ruby
            ;;
        run)
            # the demonstration has no Ruby in it
            group module
            printf '%s\n' ca-certificates curl python3 python3-venv
            ;;
        lint)
            printf '%s\n' ca-certificates python3 python3-venv shellcheck \
                rubocop
            ;;
        fuzz)
            printf '%s\n' clang libclang-rt-dev libjansson-dev make zlib1g-dev
            ;;
        gem)
            echo ruby
            ;;
        gem-test)
            group build
            group gem
            printf '%s\n' memcached ruby-actionpack ruby-activerecord \
                ruby-activestorage ruby-dalli ruby-minitest ruby-rack ruby-railties \
                ruby-sinatra ruby-sqlite3
            ;;
        deb)
            # the source package is made here, the rest in a clean root
            printf '%s\n' ca-certificates cargo dpkg-dev lintian mmdebstrap \
                python3 python3-pip util-linux
            ;;
        rpm)
            # rpm's own root is Debian, too
            group deb
            printf '%s\n' rpm rpmlint
            ;;
        image)
            # the last three are for make image-test
            printf '%s\n' buildah ca-certificates mmdebstrap python3 \
                python3-venv util-linux \
                bubblewrap memcached umoci
            ;;
        asan)
            printf '%s\n' gcc make libc6-dev liblmdb-dev libjansson-dev \
                libpcre2-dev libsqlite3-dev libssl-dev zlib1g-dev \
                ca-certificates cargo dpkg-dev python3 ruby
            ;;
        test)
            group build
            group run
            group lint
            group fuzz
            group asan
            group bench
            group gem-test
            printf '%s\n' binutils libcmocka-dev libssl-dev openssl procps \
                strace libnginx-mod-http-image-filter \
                chromium prometheus logrotate systemd \
                memcached php-cli php-memcached rpm \
                ruby ruby-activesupport ruby-dalli \
                bash zsh fish groff-base man-db
            group apps
            ;;
        apps)
            # apache2 by its name, for Passenger would bring it as a service
            printf '%s\n' ruby ruby-railties ruby-actionpack ruby-sinatra \
                ruby-dalli puma unicorn apache2 libapache2-mod-passenger \
                libplack-perl starman \
                uwsgi-core uwsgi-plugin-python3 \
                php-fpm php-symfony-http-foundation \
                php-laravel-framework \
                nodejs
            ;;
        bench)
            group run
            printf '%s\n' procps util-linux wrk memcached \
                libnginx-mod-http-lua lighttpd openssl linux-perf \
                ca-certificates cargo
            systems
            ;;
        *)
            die "no group $1; there are module, build, run, lint, fuzz, asan," \
                "deb, rpm, image, gem, gem-test, apps, test and bench"
            ;;
    esac
}


# what is compared, and what measures it; the benchmark does without one that
# a distribution does not have, and names it

systems() {
    printf '%s\n' apache2 apache2-utils httperf \
        libapache2-mod-passenger libapache2-mod-xsendfile \
        libnginx-mod-http-js ruby-rails ruby-dalli puma \
        ruby-sinatra unicorn starman nodejs varnish h2o caddy
}


is_system() {
    systems | grep -Fqx "$1"
}


# a cargo that reads today's crates, from wherever (Debian 12's package of
# that name does not)

has_cargo() {
    command -v cargo > /dev/null && command -v rustc > /dev/null \
        && cargo --version | awk '{
               split($2, version, ".")
               exit !(version[1] > 1 || version[2] >= 85)
           }'
}


# the run-time libraries of libFuzzer and the sanitizers: a package of their
# own with a version in its name, or a part of clang

has_clang_rt() {
    command -v clang > /dev/null \
        && [ -n "$(find "$(clang -print-resource-dir)/lib" \
            -name 'libclang_rt.fuzzer*' 2> /dev/null | head -n 1)" ]
}


# a PHP-FPM of any version

has_php_fpm() {
    [ -n "$(find /usr/sbin -name 'php-fpm[0-9]*' 2> /dev/null)" ]
}


# missing GROUP...: the names of packages to install

missing() {
    for missing_group in "$@"; do
        group "$missing_group"
    done | sort -u | while IFS= read -r package; do
        case $package in
            nginx)
                # nginx-light and others have the same program
                [ -x /usr/sbin/nginx ] || echo nginx
                ;;
            nginx-dev)
                # Ubuntu 22.04 has no such package: there the source package
                # is used, and what that needs
                if installed nginx-dev || available nginx-dev; then
                    echo nginx-dev
                elif available nginx; then
                    printf '%s\n' dpkg-dev libpcre3-dev libpcre2-dev \
                        libssl-dev zlib1g-dev
                else
                    # the package lists are empty; asked again after update
                    echo nginx-dev
                fi
                ;;
            cargo)
                if ! has_cargo; then
                    if available cargo-web; then
                        printf '%s\n' cargo-web rustc-web
                    else
                        echo cargo
                    fi
                fi
                ;;
            libclang-rt-dev)
                has_clang_rt || ! available libclang-rt-dev \
                    || echo libclang-rt-dev
                ;;
            php-fpm)
                # an empty package, which brings php8.2-fpm or another
                if ! has_php_fpm; then
                    name=$(apt-cache depends php-fpm 2> /dev/null \
                        | sed -n 's/^ *Depends: \(php[0-9.]*-fpm\)$/\1/p')
                    echo "${name:-php-fpm}"
                fi
                ;;
            linux-perf)
                # Ubuntu has one for each of its kernels; without any of them
                # the benchmark does all but the profile
                command -v perf > /dev/null || ! available linux-perf \
                    || echo linux-perf
                ;;
            *)
                if ! is_system "$package" || available "$package"; then
                    echo "$package"
                fi
                ;;
        esac
    done | while IFS= read -r package; do
        installed "$package" || printf '%s ' "$package"
    done
}


# install PACKAGE...: as root.  Debian starts and enables what it installs;
# we want the program, not a service on port 80 that nobody asked for.

cleanup() {
    if grep -qs "$mark" $policy; then
        rm -f $policy
    fi
}


install() {
    fresh=

    set -f
    for service in $services; do
        for package in "$@"; do
            # shellcheck disable=SC2254  # a pattern
            case $package in
                $service) fresh="$fresh $package" ;;
            esac
            [ "$service $package" != 'varnish varnish' ] \
                || fresh="$fresh varnishncsa"
        done
    done
    set +f

    if [ -n "$fresh" ]; then
        trap cleanup EXIT
        trap 'exit 1' HUP INT TERM
        cleanup

        # an administrator's own policy stays as it is
        if [ ! -e $policy ]; then
            cat > $policy << END
#!/bin/sh
$mark while it installs packages
case " $fresh " in
    *" \${1%.service} "*) exit 101 ;;
esac
exit 0
END
            chmod 755 $policy
        fi
    fi

    DEBIAN_FRONTEND=noninteractive NEEDRESTART_SUSPEND=1 apt-get -q -y \
        --no-install-recommends --no-remove install "$@" \
        || die "apt-get cannot install $*, see above: with a network, or a" \
            "mirror in apt's sources, and enough space try again"

    for service in $fresh; do
        if [ -d /run/systemd/system ]; then
            systemctl --quiet disable --now "$service.service"
        else
            deb-systemd-helper disable "$service.service"
            [ ! -e "/etc/init.d/$service" ] || update-rc.d "$service" disable
        fi > /dev/null 2>&1 \
            || die "cannot switch off the service $service, which was just" \
                "installed and would start at the next boot"

        say "installed $service, but neither started nor enabled its service"
    done
}


if ! command -v dpkg-query > /dev/null; then
    say "this is no Debian or Ubuntu: the groups $* of tools/deps.sh are not" \
        "installed, the build will tell what is missing"
    exit 0
fi

if [ "${1:-}" = --install ]; then
    shift
    install "$@"
    exit 0
fi

[ $# -gt 0 ] || die "usage: deps.sh GROUP..."

for name in "$@"; do
    group "$name" > /dev/null
done

wanted=$(missing "$@")

[ -n "$wanted" ] || exit 0

if [ "$(id -u)" -eq 0 ]; then
    root=
elif command -v sudo > /dev/null; then
    root=sudo
else
    die "these packages are missing, and this is neither root nor has sudo;" \
        "run as root: apt-get install --no-install-recommends $wanted"
fi

say "missing packages: $wanted"

$root apt-get -q update \
    || die "apt-get update fails, see above: mend the network, or apt's" \
        "sources, and try again"

# the new lists may know better names
wanted=$(missing "$@")

# shellcheck disable=SC2086  # a list
[ -z "$wanted" ] || $root /bin/sh "$top/tools/deps.sh" --install $wanted
