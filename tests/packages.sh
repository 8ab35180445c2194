#!/bin/sh
# Installs the Debian packages that a make target needs and that are not there: quick and silent
# when nothing is missing. OFFLINE=1 only says what is missing. Services that come with a
# package are neither started nor enabled: the demo and the tests start their own.
#
# usage: tests/packages.sh build|run|test|servers|clients|bench|deb|deb-test|cross|openwrt ...
set -eu

build='gcc libc6-dev make libfcgi-dev liblmdb-dev libbearssl-dev libjansson-dev libconfuse-dev
    libcurl4-openssl-dev'
run='lighttpd libmicrohttpd-dev curl ca-certificates'
tests='libcmocka-dev python3 python3-pytest python3-pytest-xdist python3-hypothesis strace git clang clang-format
    clang-tidy libclang-rt-14-dev cppcheck shellcheck mandoc universal-ctags procps'
servers='apache2 libapache2-mod-fcgid nginx-light caddy openssl'
clients='chromium chromium-driver python3-selenium'
deb='debhelper dpkg-dev'
deb_test='lintian mmdebstrap systemd strace libmicrohttpd-dev'
openwrt='busybox shellcheck gettext jq lighttpd nodejs strace python3-pytest python3-hypothesis'
cross='mmdebstrap qemu-user-static qemu-system-arm musl-tools gcc-i686-linux-gnu
    gcc-arm-linux-gnueabihf gcc-mips-linux-gnu libc6-dev-mips-cross flex cpio'
bench='libsqlite3-dev libhiredis-dev redis-server valgrind wrk openssl nginx-light'

wanted=''
for group in "$@"; do
    case $group in
    build) wanted="$wanted $build" ;;
    run) wanted="$wanted $run" ;;
    test) wanted="$wanted $tests" ;;
    servers) wanted="$wanted $servers" ;;
    clients)
        wanted="$wanted $clients"
        # Node of another source brings npm along, and Debian's does not go with it.
        command -v npm >/dev/null || wanted="$wanted nodejs npm"
        ;;
    bench) wanted="$wanted $bench" ;;
    deb) wanted="$wanted $deb" ;;
    openwrt) wanted="$wanted $openwrt" ;;
    cross) wanted="$wanted $cross" ;;
    deb-test) wanted="$wanted $deb $deb_test" ;;
    *) echo "packages.sh: unknown group $group" >&2; exit 2 ;;
    esac
done

if ! command -v dpkg-query >/dev/null; then
    echo 'This is no Debian system: install the equivalents of' >&2
    echo "$wanted" | tr -s ' \n' ' ' >&2
    echo >&2
    exit 0
fi

missing=''
for package in $wanted; do
    # shellcheck disable=SC2016 # ${Status} is for dpkg-query
    status=$(dpkg-query -W -f='${Status}' "$package" 2>/dev/null) || status=''
    [ "$status" = 'install ok installed' ] || missing="$missing $package"
done
[ -n "$missing" ] || exit 0

if [ -n "${OFFLINE:-}" ]; then
    echo "Not installed (OFFLINE is set):$missing" >&2
    exit 0
fi

sudo=''
if [ "$(id -u)" != 0 ]; then
    if ! command -v sudo >/dev/null; then
        echo "Please install as root:  apt-get install$missing" >&2
        exit 1
    fi
    sudo=sudo
fi

echo "Installing with apt:$missing"
policy=/usr/sbin/policy-rc.d
if [ ! -e "$policy" ]; then
    trap '$sudo rm -f "$policy"' EXIT
    trap 'exit 1' HUP INT TERM
    printf '#!/bin/sh\nexit 101\n' | $sudo tee "$policy" >/dev/null
    $sudo chmod 755 "$policy"
fi
apt() {
    $sudo env DEBIAN_FRONTEND=noninteractive apt-get -qq -o DPkg::Lock::Timeout=300 \
        -o Acquire::Retries=3 "$@" </dev/null
}
# shellcheck disable=SC2086 # a list of names
{
    apt update || true # an index that fails to load may not be the one that is needed
    apt install -y --no-install-recommends $missing >/dev/null
}
if [ -d /run/systemd/system ]; then
    for service in lighttpd redis-server nginx apache2 caddy; do
        case " $missing " in
        *" $service "* | *" $service-light "*) $sudo systemctl -q disable "$service" || true ;;
        esac
    done
fi
