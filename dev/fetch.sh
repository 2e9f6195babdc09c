# dev/fetch.sh - packages and sources from the machine's own Debian mirror; sourced by dev/server and dev/test.
#
# The idea: the machine's apt stays as it is. Every apt call here has lists, cache and package status in a folder of its
# own, with the suites that have what we want; the mirror is the one that the machine's own configuration names. With an
# empty package status, apt downloads a server with every library it needs, down to libc, and nothing is installed.

APT_DIR=

is_debian() {
	grep -q '^ID="*debian"*$' /etc/os-release 2>/dev/null && have apt-get
}

# The mirror of the machine's main archive: not of its security updates, not a vendor's repository beside it. The label
# says so where the lists have been read once, else the name does, as far as names go.
mirror() {
	# shellcheck disable=SC2016 # apt's variables
	apt-get indextargets --format '$(COMPONENT) $(REPO_URI) $(RELEASE) $(LABEL)' 'Created-By: Packages' 2>/dev/null |
		awk '$1 == "main" && $2 !~ /security/ && $3 !~ /security/ {
			rank = $4 == "Debian" ? 3 : $2 ~ /debian/ ? 2 : 1
			if (rank > best) { best = rank; uri = $2 }
		}
		END { if (best) print uri }'
}

# private_apt COMMAND...: apt-get or apt-cache with everything of its own.
private_apt() {
	local program=$1
	shift
	"$program" -q -o Dir::Etc::sourcelist="$APT_DIR/sources.list" -o Dir::Etc::sourceparts=/dev/null \
		-o Dir::State="$APT_DIR" -o Dir::State::lists="$APT_DIR/lists" -o Dir::State::status="$APT_DIR/status" \
		-o Dir::Cache="$APT_DIR/cache" -o Dir::Etc::preferencesparts=/dev/null -o Dir::Etc::preferences=/dev/null \
		-o APT::Sandbox::User="$(id -un)" -o APT::Install-Recommends=false -o Acquire::Check-Valid-Until=false \
		-o Acquire::Languages=none -o Acquire::Retries=3 "$@"
}

# open_apt KIND SUITE...: private lists of these suites; KIND is deb or deb-src. Call again for other ones.
open_apt() {
	local kind=$1 suite from
	shift
	from=$(mirror)
	[ -n "$from" ] || die "the machine's apt configuration names no Debian mirror"
	[ -n "$APT_DIR" ] || APT_DIR=$(mktemp -d "$(cache_dir)/apt.XXXXXX")
	mkdir -p "$APT_DIR/lists/partial" "$APT_DIR/cache/archives/partial"
	: >"$APT_DIR/status"
	for suite in "$@"; do
		printf '%s %s %s main\n' "$kind" "$from" "$suite"
	done >"$APT_DIR/sources.list"
	private_apt apt-get update >"$APT_DIR/log" 2>&1
}

close_apt() {
	[ -z "$APT_DIR" ] || rm -rf "$APT_DIR"
	APT_DIR=
}

# fetch_source NAME SUITE...: the upstream tarball of a source package, from the first suite that has it, kept in the
# cache; prints its path, so call it in a subshell. The packaging files are not wanted and not always on a mirror.
fetch_source() {
	local name=$1 suite tarball keep
	shift
	trap close_apt EXIT
	trap 'exit 130' INT
	trap 'exit 143' TERM HUP
	keep=$(cache_dir)/src
	mkdir -p "$keep"
	tarball=$(find "$keep" -name "${name}_*.orig.tar.*" | sort -V | tail -n 1)
	if [ -z "$tarball" ]; then
		for suite in "$@"; do
			if open_apt deb-src "$suite" &&
				(cd "$APT_DIR" && private_apt apt-get source --tar-only --download-only "$name") >>"$APT_DIR/log" 2>&1
			then
				find "$APT_DIR" -maxdepth 1 -name "${name}_*.orig.tar.*" ! -name '*.asc' -exec mv {} "$keep/" \;
				break
			fi
		done
		close_apt
		tarball=$(find "$keep" -name "${name}_*.orig.tar.*" | sort -V | tail -n 1)
	fi
	[ -n "$tarball" ] && printf '%s\n' "$tarball"
}

# fetch_program NAME SUITE...: a program of the Debian package of its name, unpacked into the cache, not installed, from
# the first suite that has it; prints its path, so call it in a subshell.
fetch_program() {
	local name=$1 suite keep
	shift
	trap close_apt EXIT
	trap 'exit 130' INT
	trap 'exit 143' TERM HUP
	keep=$(cache_dir)/programs
	mkdir -p "$keep"
	if [ ! -x "$keep/$name" ]; then
		for suite in "$@"; do
			if open_apt deb "$suite" &&
				(cd "$APT_DIR" && private_apt apt-get download "$name") >>"$APT_DIR/log" 2>&1 &&
				dpkg-deb -x "$APT_DIR/$name"_*.deb "$APT_DIR/root" && mv "$APT_DIR/root/usr/bin/$name" "$keep/"; then
				break
			fi
		done
		close_apt
	fi
	[ -x "$keep/$name" ] && printf '%s\n' "$keep/$name"
}

# find_program NAME...: the path of the first of these that is on the PATH, else of the first as Debian has it.
find_program() {
	local name
	for name in "$@"; do
		command -v "$name" && return
	done
	is_debian && fetch_program "$1" trixie sid
}

# missing_packages NAME...: a line for each that is not installed.
missing_packages() {
	local name
	for name in "$@"; do
		dpkg-query -W -f '${Status}\n' "$name" 2>/dev/null | grep -q ' installed$' || printf '%s\n' "$name"
	done
}

# install_packages NAME...: one of us at a time; if another program is installing something, wait for that.
install_packages() {
	local apt=(apt-get -qy -o DPkg::Lock::Timeout=300)
	mkdir -p "$(cache_dir)" &&
		(
			flock 8
			"${apt[@]}" update 8>&- &&
				DEBIAN_FRONTEND=noninteractive "${apt[@]}" install --no-install-recommends "$@" 8>&-
		) 8>"$(cache_dir)/packages.lock"
}

# need_packages NAME...: Debian packages of this machine. Root installs what is missing; anybody else is told.
need_packages() {
	local missing out
	mapfile -t missing < <(missing_packages "$@")
	[ "${#missing[@]}" -gt 0 ] || return 0
	is_root || die "these packages are missing, and installing them takes root: ${missing[*]}"
	log "installing what it takes: ${missing[*]}"
	out=$(mktemp)
	if ! install_packages "${missing[@]}" >"$out" 2>&1 </dev/null; then
		show_tail "$out" 5
		rm -f "$out"
		die "could not install: ${missing[*]}"
	fi
	rm -f "$out"
}

# What building the extension and running its tests takes, beyond a server: which has no time zones of its own.
need_tools() {
	if is_debian && is_root; then
		need_packages gcc libc6-dev make patch perl python3 libipc-run-perl tzdata
	fi
	have make || die "make is missing"
	have cc || have gcc || die "a C compiler is missing"
}
