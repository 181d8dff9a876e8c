#!/usr/bin/env bash
# Prepares a Debian or Ubuntu host for `make test`, `make e2e` and `make lab`.
#
# Looks first, changes only what is missing, and says each thing it does in one
# line. Running it again on a prepared host changes nothing.
#
#   prepare.sh            prepare the host
#   prepare.sh --lab      only what `make lab` needs: a few packages, no Docker
#   prepare.sh --pages    only what `make pages` needs: a browser, fonts, a reader of PDF
#   prepare.sh --check    change nothing; say what is missing
#
# Exit 0: the host is ready. Exit 2: it is not; the last lines say what is
# missing and how to get it. A dockerd that it did not start is never restarted
# or reconfigured. `plumbline clean --host` stops the dockerd started here.
set -euo pipefail

# A user's PATH on Debian lacks the folders of nft, iptables and dockerd.
export PATH="$PATH:/usr/local/sbin:/usr/sbin:/sbin:/usr/local/go/bin"

readonly STATE=/run/plumbline
readonly WRAPPER=/usr/local/lib/plumbline/ociwrap
readonly POLICY=${PLUMBLINE_POLICY:-/usr/sbin/policy-rc.d}
readonly FORWARD=/proc/sys/net/ipv4/ip_forward
readonly FORWARDING=(net/ipv4/ip_forward net/ipv6/conf/all/forwarding net/ipv6/conf/default/forwarding)
readonly MARK='# plumbline: for the time of one apt-get only'
readonly CAP_SYS_RESOURCE=24
readonly WAIT_SECONDS=60
readonly DOCKER_RUN=/var/run
readonly LOCK=/var/lib/dpkg
readonly LOCK_SECONDS=900
# The source tree, and the module name@version that stands for it where there is none:
# `plumbline doctor --fix` names them.
REPO=${PLUMBLINE_REPO-$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)}
readonly REPO
readonly MODULE=${PLUMBLINE_MODULE:-}

say() { printf 'host: %s\n' "$*"; }
hint() { printf 'host:   %s\n' "$*" >&2; }
refuse() {
    printf 'host: %s\n' "$1" >&2
    shift
    local line
    for line in "$@"; do hint "$line"; done
    exit 2
}
have() { command -v "$1" >/dev/null 2>&1; }

# --- looking ---------------------------------------------------------------

engine_answers() { have docker && docker version >/dev/null 2>&1; }
systemd_runs() { [[ -d /run/systemd/system ]]; }

# has_sys_resource [pid]: is CAP_SYS_RESOURCE in that process's bounding set?
has_sys_resource() {
    local set
    set=$(sed -n 's/^CapBnd:[[:space:]]*//p' "/proc/${1:-self}/status")
    (((0x$set >> CAP_SYS_RESOURCE) & 1))
}

# is_dockerd pid: is this process alive and a dockerd? (pids are used again)
is_dockerd() {
    [[ -n $1 && $(readlink "/proc/$1/exe" 2>/dev/null) == */dockerd ]]
}

own_dockerd() {
    local pid
    pid=$(cat "$STATE/dockerd.pid" 2>/dev/null) || return 1
    is_dockerd "$pid"
}

# wrapper_needed: would `docker run --privileged` be refused for lack of the
# capability? A dockerd that runs decides, else this process, which will start it.
wrapper_needed() {
    local pid
    pid=$(cat /run/docker.pid /var/run/docker.pid 2>/dev/null | head -n 1)
    if ! is_dockerd "$pid"; then pid=self; fi
    ! has_sys_resource "$pid"
}

distribution() {
    local release=${PLUMBLINE_OS_RELEASE:-/etc/os-release}
    [[ -r $release ]] || { echo unknown; return; }
    # shellcheck disable=SC1090
    (. "$release" && echo "${ID:-unknown} ${ID_LIKE:-}")
}

# lab_packages, pages_packages and missing_packages print the Debian packages this host lacks
# for a lab, for looking at pages, and for all clusters, one per line.
lab_packages() {
    have nft || echo nftables
    have iptables || echo iptables
    have conntrack || echo conntrack
    have haproxy || echo haproxy
}

# A browser of Google's does as well: Ubuntu has chromium as a snap alone.
pages_packages() {
    have chromium || have google-chrome || echo chromium
    have pdftotext || echo poppler-utils
    [[ -d /usr/share/fonts/truetype/dejavu ]] || echo fonts-dejavu-core
}

missing_packages() {
    lab_packages
    have debootstrap || echo debootstrap
    # Base images are Debian's, also on Ubuntu, and their packages are verified.
    have gpgv || echo gpgv
    [[ -s /usr/share/keyrings/debian-archive-keyring.gpg ]] || echo debian-archive-keyring
    [[ -s /etc/ssl/certs/ca-certificates.crt ]] || echo ca-certificates
    if engine_answers; then return; fi
    have dockerd || echo docker.io
    # Debian 13 and later keep the client in a package of its own.
    if ! have docker && apt-cache show docker-cli >/dev/null 2>&1; then echo docker-cli; fi
}

# --- changing --------------------------------------------------------------

# started pid: when a process was started, by which it differs from a later one of its pid.
started() { sed 's/.*) //' "/proc/$1/stat" | cut -d ' ' -f 20; }

# Debian starts a service with its package. HAProxy is wanted as a program
# only. Docker is started below, with an init system or without. What a killed run
# leaves says nothing any more, and goes when it is asked.
hold_services() {
    if [[ -e $POLICY ]]; then return; fi
    cat >"$POLICY" <<POLICY_RC_D
#!/bin/sh
$MARK
[ "\$(sed 's/.*) //' /proc/$$/stat 2>/dev/null | cut -d ' ' -f 20)" = "$(started $$)" ] || { rm -f "$POLICY"; exit 0; }
case "\$1" in haproxy*|docker*) exit 101 ;; esac
exit 0
POLICY_RC_D
    chmod 755 "$POLICY"
}

# Also takes away what a killed run left.
release_services() {
    if grep -qsF "$MARK" "$POLICY"; then rm -f "$POLICY"; fi
}

install_packages() {
    local packages=("$@") log
    mkdir -p "$STATE"
    log=$(mktemp "$STATE/apt.XXXXXX")
    say "install ${packages[*]} (apt-get)"
    hold_services
    export DEBIAN_FRONTEND=noninteractive
    if ! apt-get update >"$log" 2>&1; then
        # One broken source among several need not matter; the install decides.
        say "apt-get update was not complete: $(grep -m 1 '^[EW]:' "$log" || echo 'no reason given')"
    fi
    if compgen -G '/var/lib/dpkg/updates/[0-9]*' >/dev/null; then
        say "finish what an interrupted dpkg left (dpkg --configure -a)"
        dpkg --configure -a >"$log" 2>&1 9>&- || true # apt-get says what is still wrong
    fi
    if ! apt-get -o DPkg::Lock::Timeout=120 install -y --no-install-recommends "${packages[@]}" >"$log" 2>&1 9>&-; then
        tail -n 5 "$log" >&2
        refuse "apt-get could not install ${packages[*]}; the whole log: $log" \
            "try: apt-get update && apt-get install ${packages[*]}"
    fi
    rm -f "$log"
    release_services
    if [[ " ${packages[*]} " == *" haproxy "* ]] && systemd_runs; then
        say "disable the haproxy service that the package enabled"
        systemctl disable --now haproxy >/dev/null 2>&1 || say "could not disable haproxy"
    fi
}

# build_wrapper FOLDER: from the tree, or from the module.
build_wrapper() {
    if [[ -n $REPO ]]; then
        (cd "$REPO" && CGO_ENABLED=0 go build -trimpath -buildvcs=false -o "$1/ociwrap" ./ci/host/ociwrap)
    else
        CGO_ENABLED=0 GOFLAGS='' GOBIN=$1 go install -trimpath "${MODULE/@//ci/host/ociwrap@}"
    fi
}

install_wrapper() {
    local new
    have go || refuse "go is missing; the OCI runtime wrapper is built with it" \
        "get Go 1.21 or later: apt-get install golang-go, or https://go.dev/dl"
    mkdir -p "$STATE"
    new=$(mktemp -d "$STATE/ociwrap.XXXXXX")
    if ! build_wrapper "$new"; then
        rm -rf "$new"
        refuse "go could not build ci/host/ociwrap" "it is of ${REPO:-${MODULE:-nothing}}"
    fi
    if cmp -s "$new/ociwrap" "$WRAPPER"; then
        rm -rf "$new"
        return
    fi
    say "install $WRAPPER (this host's root lacks CAP_SYS_RESOURCE)"
    mkdir -p "$(dirname "$WRAPPER")"
    chmod 755 "$new/ociwrap"
    # A rename, so that a dockerd that uses it never sees half a file.
    cp "$new/ociwrap" "$WRAPPER.new" && mv "$WRAPPER.new" "$WRAPPER"
    rm -rf "$new"
}

# iptables_path prints a folder to put before the PATH of dockerd, where the
# kernel knows only the older of Debian's two iptables. The host's own choice
# (update-alternatives) is left as it is.
iptables_path() {
    if iptables -t nat -S >/dev/null 2>&1 || ! iptables-legacy -t nat -S >/dev/null 2>&1; then return; fi
    mkdir -p "$STATE/bin"
    local name
    for name in iptables ip6tables; do
        ln -sf "$(command -v "$name-legacy")" "$STATE/bin/$name"
    done
    echo "$STATE/bin:"
}

await_engine() {
    local pid=${1:-} deadline=$((SECONDS + WAIT_SECONDS))
    until engine_answers; do
        if [[ -n $pid && ! -d /proc/$pid ]]; then return 1; fi
        ((SECONDS < deadline)) || return 1
        sleep 0.2
    done
}

start_with_systemd() {
    say "start docker (systemctl)"
    if ! systemctl start docker || ! await_engine; then
        refuse "docker did not start" "look at: journalctl -u docker"
    fi
}

# forget_others: a dockerd that had no time to end (a power cut, on a host whose /run outlives that)
# has left its pid files, and the numbers in them may be somebody else's by now. dockerd would take
# that for itself and refuse to start, or for its containerd and wait for it.
forget_others() {
    local file pid
    for file in "$DOCKER_RUN/docker.pid" "$DOCKER_RUN/docker/containerd/containerd.pid"; do
        pid=$(cat "$file" 2>/dev/null) || continue
        if [[ -z $pid || ! -e /proc/$pid || $(readlink "/proc/$pid/exe" 2>/dev/null) =~ /(dockerd|containerd)$ ]]; then continue; fi
        say "remove $file: process $pid is not its"
        rm -f "$file"
    done
}

# start_alone: no init system, or one that would not give dockerd our wrapper.
start_alone() {
    local flags=() log=$STATE/dockerd.log pid
    mkdir -p "$STATE"
    if wrapper_needed; then
        install_wrapper
        flags=(--add-runtime "plumbline=$WRAPPER" --default-runtime plumbline)
    fi
    forget_others
    say "start dockerd ${flags[*]:-} (log: $log)"
    PATH="$(iptables_path)$PATH" setsid dockerd "${flags[@]}" </dev/null >>"$log" 2>&1 9>&- &
    pid=$!
    echo "$pid" >"$STATE/dockerd.pid"
    if ! await_engine "$pid"; then
        tail -n 5 "$log" >&2
        if is_dockerd "$pid"; then kill "$pid"; fi
        rm -f "$STATE/dockerd.pid"
        refuse "dockerd did not answer within $WAIT_SECONDS s; the whole log: $log"
    fi
}

ensure_engine() {
    if ! engine_answers; then
        if systemd_runs && ! wrapper_needed; then start_with_systemd; else start_alone; fi
        return
    fi
    wrapper_needed || return 0
    if [[ $(docker info --format '{{.DefaultRuntime}}') == plumbline ]]; then
        # Where it has changed: dockerd reads it anew with each container.
        if have go; then install_wrapper; fi
        return
    fi
    if own_dockerd; then
        refuse "the dockerd started here lacks the OCI runtime wrapper" \
            "stop it with: plumbline clean --host; then run this again"
    fi
    refuse "this host's root lacks CAP_SYS_RESOURCE, so the running dockerd cannot start privileged containers (kind's nodes)" \
        "it was not started by plumbline and is left as it is; either stop it and run this again," \
        "or build the wrapper (go build -o $WRAPPER ./ci/host/ociwrap) and restart dockerd with" \
        "  --add-runtime plumbline=$WRAPPER --default-runtime plumbline"
}

# dockerd turns forwarding on where it may; --ip-forward=false is a choice of
# the user's, and then published addresses would not be reached.
ensure_forwarding() {
    if [[ $(cat "$FORWARD") == 1 ]]; then return; fi
    mkdir -p "$STATE"
    grep -qsxF net/ipv4/ip_forward "$STATE/forwarding-off" || echo net/ipv4/ip_forward >>"$STATE/forwarding-off"
    say "turn IPv4 forwarding on (net.ipv4.ip_forward=1)"
    echo 1 >"$FORWARD"
}

# note_forwarding keeps what is off before a dockerd turns it on, for clean --host. It comes
# before the packages, which may start one.
note_forwarding() {
    if engine_answers; then return; fi
    local name
    for name in "${FORWARDING[@]}"; do
        if [[ $(cat "/proc/sys/$name" 2>/dev/null) != 0 ]]; then continue; fi
        mkdir -p "$STATE"
        grep -qsxF "$name" "$STATE/forwarding-off" || echo "$name" >>"$STATE/forwarding-off"
    done
}

# take_turns: one at a time prepares a host (packages, dockerd). The lock is on a folder
# that is there, so that nothing stays; dpkg's own are on files in it. What is started from
# here on must not hold it after us: it gets 9>&-.
take_turns() {
    exec 9<"$LOCK"
    if flock -n 9; then return; fi
    say "wait for another that prepares this host"
    flock -w "$LOCK_SECONDS" 9 || refuse "another has been preparing this host for $LOCK_SECONDS s" \
        "find it with: fuser $LOCK"
}

# --- the two ways to call it -----------------------------------------------

check_platform() {
    local distro
    distro=$(distribution)
    [[ " $distro " =~ " debian "|" ubuntu " ]] || refuse \
        "this host is not Debian or Ubuntu (${distro% }), so nothing is installed here" \
        "have these programs ready and run plumbline without this script:" \
        "  a Docker engine, debootstrap, gpgv, Debian's archive keyring, nft, iptables, conntrack, haproxy, CA certificates"
    [[ ${DOCKER_HOST:-unix://} == unix://* ]] || refuse \
        "DOCKER_HOST is $DOCKER_HOST, but clusters need a Docker engine on this host" "unset DOCKER_HOST"
}

check() {
    local packages
    packages=$(missing_packages | paste -sd ' ')
    if [[ -z $packages ]] && engine_answers; then return 0; fi
    if [[ -n $packages ]]; then hint "missing: $packages (apt-get install $packages)"; fi
    if ! engine_answers; then hint "no Docker engine answers this user (docker version)"; fi
    return 1
}

main() {
    local wanted=missing_packages packages=() some=${1:-}
    case $some in
        '') ;;
        --lab) wanted=lab_packages ;;
        --pages) wanted=pages_packages ;;
        --check) check_platform; check || refuse "this host is not prepared" "run as root: $0"; say ready; return ;;
        *) refuse "unknown argument $1" "usage: $0 [--lab|--pages|--check]" ;;
    esac
    mapfile -t packages < <("$wanted")
    # A host of another distribution that has everything needs nothing installed.
    if [[ -n $some && ${#packages[@]} -eq 0 ]]; then return; fi
    check_platform
    if ((EUID != 0)); then
        if [[ -n $some ]]; then hint "missing: ${packages[*]}"; else check || true; fi
        refuse "preparing this host needs root" "run: sudo $0 $*"
    fi
    take_turns
    mapfile -t packages < <("$wanted") # another may have installed them meanwhile
    trap release_services EXIT
    release_services
    if [[ -z $some ]]; then note_forwarding; fi
    if ((${#packages[@]})); then install_packages "${packages[@]}"; fi
    if [[ -n $some ]]; then say "ready for ${some#--}"; return; fi
    ensure_engine
    ensure_forwarding
    say "ready: docker $(docker version --format '{{.Server.Version}}'), runtime $(docker info --format '{{.DefaultRuntime}}')"
}

main "$@"
