# dev/roots.sh - Debian systems of other suites than the machine's, to build packages in and to install them into;
# sourced by dev/package.
#
# The idea: a root is an overlay file system. Its lowest layer is a minimal system of a suite from the machine's own
# mirror, the next one holds what packages add; both are made once and kept in the cache. What happens in a root
# otherwise goes to a layer that is thrown away, in namespaces of mounts and processes of its own: when the command
# ends, nothing is mounted, and nothing runs.
#
#	deb-build-18   what dpkg-buildpackage needs          deb-test-18   a machine with the server, as users have it
#	            \                                       /
#	             sid   a minimal system
#
# It takes root, because an overlay does.

ROOT_LIMIT=1800                 # seconds that one command in a root may take: only what hangs does

# roots_missing: why there can be no roots here; nothing if there can.
roots_missing() {
	local try
	if ! is_root; then
		echo "building in a system of its own takes root"
	elif ! is_debian; then
		echo "only on Debian can a Debian system be made"
	elif ! (need_packages mmdebstrap mount util-linux) >/dev/null 2>&1; then
		echo "what it takes to make one is not to be had: mmdebstrap, mount, util-linux"
	else
		mkdir -p "$(layer_dir '')" && try=$(mktemp -d "$(layer_dir try.XXXXXX)")
		mkdir "$try/lower" "$try/upper" "$try/work" "$try/root"
		unshare --mount mount -t overlay overlay -o "$(overlay_options "$try" "$try/lower")" "$try/root" 2>/dev/null ||
			echo "an overlay file system can't be mounted in the cache folder"
		rm -rf "$try"
	fi
}

layer_dir() {
	printf '%s/roots/%s\n' "$(cache_dir)" "$1"
}

# overlay_options DIR LOWER
overlay_options() {
	printf 'lowerdir=%s,upperdir=%s/upper,workdir=%s/work\n' "$2" "$1" "$1"
}

# in_root DIR LAYER... -- COMMAND...: runs a command in the layers, the topmost named first; what it changes is in
# DIR/upper. The mirror is reached as from outside, and packages that were downloaded once are not downloaded again.
in_root() {
	local dir=$1 lower='' debs
	shift
	while [ "$1" != -- ]; do
		lower=$lower${lower:+:}$(layer_dir "$1")
		shift
	done
	shift
	debs=$(cache_dir)/debs
	mkdir -p "$dir/upper" "$dir/work" "$dir/root" "$debs/partial"
	# shellcheck disable=SC2016 # expanded by the shell that is started
	timeout -k 10 "$ROOT_LIMIT" unshare --mount --pid --fork --kill-child sh -c '
		set -e
		options=$1 root=$2 debs=$3
		shift 3
		mount -t overlay overlay -o "$options" "$root"
		mount --rbind /dev "$root/dev"
		mount -t tmpfs tmpfs "$root/dev/shm"
		mount -t proc proc "$root/proc"
		mount -t tmpfs tmpfs "$root/run"
		mount --bind "$debs" "$root/var/cache/apt/archives"
		cp -L /etc/resolv.conf /etc/hosts "$root/etc/"
		exec chroot "$root" env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root LC_ALL=C.UTF-8 \
			DEBIAN_FRONTEND=noninteractive ${http_proxy:+"http_proxy=$http_proxy"} "$@"
	' in_root "$(overlay_options "$dir" "$lower")" "$dir/root" "$debs" "$@"
}

# make_layer NAME COMMAND...: keeps as a layer what a command makes of the folder PART/layer, where PART is its first
# argument. One of us at a time; what was cut short is made anew.
make_layer() {
	local command=$2 layer
	layer=$(layer_dir "$1")
	shift 2
	mkdir -p "${layer%/*}"
	(
		flock 9
		[ ! -d "$layer" ] || exit 0
		rm -rf "$layer.part"
		mkdir "$layer.part"
		"$command" "$layer.part" "$@" >"$layer.log" 2>&1 </dev/null 9>&- && mv "$layer.part/layer" "$layer" &&
			rm -rf "$layer.part" "$layer.log"
	) 9>"$layer.lock"
}

# fill_base PART SUITE...: a minimal system of the first one, that knows of the others too. The services of its packages
# don't start.
fill_base() {
	local root=$1/layer from suite sources=()
	shift
	from=$(mirror)
	for suite in "$@"; do
		sources+=("deb $from $suite main")
	done
	mmdebstrap --variant=apt --mode=root --skip=cleanup/apt/lists --dpkgopt=force-unsafe-io \
		--aptopt='Acquire::Check-Valid-Until "false"' --aptopt='Acquire::Languages "none"' \
		--aptopt='Acquire::Retries "3"' --aptopt='APT::Install-Recommends "false"' \
		--aptopt='APT::Sandbox::User "root"' "$1" "$root" "${sources[@]}" &&
		printf '#!/bin/sh\nexit 101\n' >"$root/usr/sbin/policy-rc.d" && chmod 755 "$root/usr/sbin/policy-rc.d"
}

# fill_above PART LAYER SUITE PACKAGE...: what these packages add to that layer. What names a server's major, and its
# libraries, may come from that suite, which apt takes nothing from by itself; the others do not.
fill_above() {
	local part=$1 below=$2 suite=$3
	shift 3
	# shellcheck disable=SC2016 # expanded in the root
	in_root "$part" "$below" -- sh -ec '
		printf "Package: /^postgresql-.*[0-9]$/ libpq5 libpq-dev\nPin: release a=$0\nPin-Priority: 900\n" \
			>/etc/apt/preferences.d/server
		apt-get -qy update
		apt-get -qy install "$@"
	' "$suite" "$@" && mv "$part/upper" "$part/layer"
}
