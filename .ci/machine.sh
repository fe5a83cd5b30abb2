# What the scripts beside this file need of a machine, and how they come by it:
# a sourced file. Each need_… function returns at once where the thing is there,
# installs it from the system's own packages (apt-get) where it is not, and says in
# one line what to do where it cannot.
# shellcheck shell=bash

set -euo pipefail

self=${0##*/}
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
cd "$root"

say() { printf '%s: %s\n' "$self" "$*" >&2; }

die() {
	say "$*"
	exit 1
}

# loudly LINE... is for what was left out: nobody should have to look for it.
loudly() {
	printf '\n' >&2
	printf '!!! %s\n' "$@" >&2
	printf '\n' >&2
}

has() { command -v "$1" >/dev/null 2>&1; }

# sbin is not in the PATH of every user, and the tools below are run by root.
PATH=$PATH:/usr/local/sbin:/usr/sbin:/sbin

as_root() {
	if [ "$(id -u)" -eq 0 ]; then
		"$@"
	elif [ -t 0 ]; then
		sudo "$@"
	else
		sudo -n "$@" # nobody is there to type a password
	fi
}

# may_be_root: as_root will work. It asks for sudo's password where there is someone to ask.
may_be_root() { [ "$(id -u)" -eq 0 ] || { has sudo && as_root true 2>/dev/null; }; }

installed() { [ "$(dpkg-query -W -f '${db:Status-Status}' "$1" 2>/dev/null)" = installed ]; }

# apt_get ARGUMENT... runs apt-get without a question. It waits for another package
# manager, such as a machine's own upgrades after its boot, for five minutes.
apt_get() {
	as_root env DEBIAN_FRONTEND=noninteractive NEEDRESTART_SUSPEND=1 \
		apt-get -q -o DPkg::Lock::Timeout=300 -o Acquire::Retries=3 -o Dpkg::Use-Pty=0 "$@"
}

policy=/usr/sbin/policy-rc.d
policy_mark='# parkproof: no package starts a server while it is installed'

# install_packages PACKAGE... installs them. No server is started: Debian's packages
# ask policy-rc.d first. One that is there stays, whatever it says.
install_packages() (
	has apt-get || die "these are needed, and there is no apt-get here to install them: $*"
	may_be_root || die "this is needed, and only root may install it: apt-get install $*"
	say "installing $*"
	if [ ! -e "$policy" ]; then
		# shellcheck disable=SC2064
		trap "as_root rm -f $policy" EXIT
		trap 'exit 130' INT TERM HUP
		as_root sh -c "printf '#!/bin/sh\n%s\nexit 101\n' '$policy_mark' >$policy && chmod 755 $policy"
	elif grep -qsF "$policy_mark" "$policy"; then
		# shellcheck disable=SC2064
		trap "as_root rm -f $policy" EXIT # left by a run that was killed
	fi
	log=$(mktemp)
	# Sources of others may fail and Debian's be well: what counts is the install.
	apt_get update >"$log" 2>&1 || true
	if ! apt_get install -y --no-install-recommends "$@" >>"$log" 2>&1; then
		tail -n 20 "$log" >&2
		rm -f "$log"
		die "apt-get could not install $*"
	fi
	rm -f "$log"
)

# need_packages PACKAGE... are installed, if they are not.
need_packages() {
	local package missing=()
	for package in "$@"; do
		installed "$package" || missing+=("$package")
	done
	[ ${#missing[@]} -eq 0 ] || install_packages "${missing[@]}"
}

# least_go is the oldest Go that fetches the newer one that go.mod asks for.
least_go=1.21

wanted_go() { awk '$1 == "go" { print $2; exit }' go.mod; }

# at_least VERSION LEAST
at_least() { [ "$(printf '%s\n%s\n' "$2" "$1" | sort -V | head -n 1)" = "$2" ]; }

# go_version COMMAND is "1.26.8"; nothing where it does not run. It is asked outside
# of the module, which an older Go refuses.
go_version() { (cd / && GOTOOLCHAIN=local "$1" env GOVERSION 2>/dev/null | sed -n 's/^go\([0-9.]*\).*/\1/p'); }

# find_go prints the newest Go at hand; what PATH has comes first if it will do.
find_go() {
	local candidate version best='' newest=0
	for candidate in "$(command -v go || true)" /usr/local/go/bin/go /usr/lib/go-*/bin/go /usr/lib/go/bin/go "$HOME"/sdk/go*/bin/go; do
		[ -x "$candidate" ] || continue
		version=$(go_version "$candidate")
		if [ -z "$version" ] || ! at_least "$version" "$least_go"; then
			continue
		fi
		if [ "$best" = '' ] || { [ "$best" != "$(command -v go || true)" ] && at_least "$version" "$newest"; }; then
			best=$candidate newest=$version
		fi
	done
	[ -n "$best" ] && printf '%s\n' "$best"
}

# newest_packaged_go is the newest versioned package, from backports too where they
# are configured: golang-go alone may be years old.
newest_packaged_go() {
	apt-cache search --names-only '^golang-1\.[0-9]+-go$' 2>/dev/null | cut -d ' ' -f 1 | sort -V | tail -n 1
}

# need_go puts a Go that builds this module first in PATH.
need_go() {
	local found package version
	need_certificates
	if ! found=$(find_go); then
		has apt-get || die "Go $(wanted_go) is needed and there is none here: see https://go.dev/doc/install"
		apt_get update >/dev/null 2>&1 || true
		package=$(newest_packaged_go)
		version=${package#golang-}
		version=${version%-go}
		if [ -z "$package" ] || ! at_least "$version" "$least_go"; then
			die "Go $(wanted_go) is needed, and the newest among this system's packages is ${version:-none}, which cannot fetch it: configure backports, or see https://go.dev/doc/install"
		fi
		install_packages "$package"
		found=$(find_go) || die "$package was installed and has no go that runs"
	fi
	PATH=$(dirname "$found"):$PATH
	export PATH
	if ! at_least "$(go_version go)" "$(wanted_go)"; then
		# Debian's Go is told never to fetch another; this module needs one.
		export GOTOOLCHAIN=${GOTOOLCHAIN:-auto}
	fi
	go list -m >/dev/null || die "the Go at $found cannot build this module; Go $(wanted_go) can: see https://go.dev/doc/install"
}

# need_certificates: without any, no module is fetched.
need_certificates() {
	[ -z "${SSL_CERT_FILE:-}" ] || return 0
	[ -e /etc/debian_version ] || return 0
	[ -s /etc/ssl/certs/ca-certificates.crt ] || need_packages ca-certificates
}

# need_compiler: Go's race detector is linked by a C compiler.
need_compiler() {
	if ! has "${CC:-gcc}" && ! has cc && ! has clang; then
		need_packages gcc libc6-dev
	fi
}

need_node() { has node || need_packages nodejs; }

has_server() { [ -x /usr/lib/rabbitmq/bin/rabbitmq-server ] || has rabbitmq-server; }

# need_server: an installed RabbitMQ, of which parkproof starts nodes of its own.
need_server() {
	has_server && return 0
	has apt-get || die "rabbitmq-server is needed and there is no apt-get here: install it (brew install rabbitmq, dnf install rabbitmq-server), or start a Docker engine"
	local unit units=()
	for unit in rabbitmq-server.service epmd.service epmd.socket; do
		[ -e "/lib/systemd/system/$unit" ] || units+=("$unit")
	done
	need_packages rabbitmq-server
	# Nor is one started at the next boot: parkproof asked for the program alone.
	if has systemctl; then
		for unit in "${units[@]}"; do
			as_root systemctl --quiet disable "$unit" >/dev/null 2>&1 || true
		done
		say "rabbitmq-server is installed and not running; to have it as a service too: systemctl enable --now rabbitmq-server"
	fi
}

# build makes bin/parkproof.
build() { go build -o bin/parkproof .; }

# engine_answers: a Docker engine is there for this user.
engine_answers() { has docker && docker version >/dev/null 2>&1; }
