# dev/lib.sh - what the scripts in dev/ share; sourced, never run.
#
# The idea: a test or a demo never touches the user's own server or checkout. It takes a pg_config, copies that server
# into a temporary folder (PostgreSQL finds its files relative to its binaries, so a copy is a whole server), builds a
# copy of the checkout there, installs into the copy, and removes everything at exit. Whatever touches a cluster runs as
# an unprivileged user, because initdb and the server refuse root.
#
# Progress goes to stderr, so that stdout is free for what a script answers.

# shellcheck disable=SC2034 # dev/demo draws by it
CALLER_LOCALE=${LC_ALL:-${LC_CTYPE:-${LANG:-}}}
# Nothing that the caller's session set may change what a test sees, nor where its clients connect. Test::Cluster takes
# LC_ALL away, so that the other names of a locale count.
unset PGHOST PGHOSTADDR PGPORT PGDATABASE PGUSER PGPASSWORD PGSERVICE PGOPTIONS PGDATA PGTZ PGCLIENTENCODING \
	PGSSLMODE PGAPPNAME PGDATESTYLE PGREQUIREAUTH PGREQUIREPEER MAKEFLAGS MAKELEVEL DESTDIR CDPATH \
	TEMP_CONFIG EXTRA_REGRESS_OPTS PROVE_FLAGS PROVE_TESTS \
	LANG LANGUAGE LC_COLLATE LC_CTYPE LC_MESSAGES LC_MONETARY LC_NUMERIC LC_TIME
export LC_ALL=C
umask 022

CHECKOUT=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
STARTED=$SECONDS
SUPPORTED_MAJORS="18 19 17"     # in the order in which one is picked when any will do

log() {
	printf '[%3d s] %s\n' $((SECONDS - STARTED)) "$*" >&2
}

die() {
	printf '%s: %s\n' "${0##*/}" "$*" >&2
	exit 1
}

have() {
	command -v "$1" >/dev/null 2>&1
}

is_root() {
	[ "$(id -u)" = 0 ]
}

jobs_count() {
	printf '%s\n' "${PG_RINGCTL_JOBS:-$(nproc 2>/dev/null || getconf _NPROCESSORS_ONLN)}"
}

# The last lines of a log, indented, for a person who has to find out what went wrong.
show_tail() {
	[ -s "$1" ] && tail -n "${2:-20}" "$1" | cut -c1-300 | sed 's/^/    /' >&2
	return 0
}

# --- the cache folder ----------------------------------------------------------------------------------------------

# Servers that were fetched or built are kept here. Root's home is closed to the unprivileged user, hence /var/cache.
cache_dir() {
	if [ -n "${PG_RINGCTL_CACHE:-}" ]; then
		printf '%s\n' "$PG_RINGCTL_CACHE"
	elif is_root; then
		printf '/var/cache/pg_ringctl\n'
	else
		printf '%s\n' "${XDG_CACHE_HOME:-$HOME/.cache}/pg_ringctl"
	fi
}

# --- the unprivileged user -----------------------------------------------------------------------------------------

AS_USER=()                      # the prefix of every command that touches a cluster
RUN_USER=                       # who that is

choose_user() {
	RUN_USER=$(id -un)
	if ! is_root; then
		return
	fi
	# `nobody` rather than a user of our own: nothing to leave behind on somebody's machine.
	RUN_USER=$(id -un postgres 2>/dev/null || id -un nobody 2>/dev/null) ||
		die "run as root, there is neither a user postgres nor nobody to run a server as"
	if have setpriv; then
		AS_USER=(setpriv "--reuid=$RUN_USER" "--regid=$(id -g "$RUN_USER")" --clear-groups)
	elif have runuser; then
		AS_USER=(runuser -u "$RUN_USER" --)
	else
		die "run as root, neither setpriv nor runuser is there to run a server as $RUN_USER"
	fi
}

# HOME is the temporary folder: that user's own may be unreadable, and no ~/.psqlrc or ~/.proverc may take part. The
# current folder may be unreadable as well, so commands start in the temporary one. Replaces the shell.
become_user() {
	cd "$WORK" && exec "${AS_USER[@]}" env "HOME=$WORK" "USER=$RUN_USER" "LOGNAME=$RUN_USER" "TMPDIR=$WORK" "$@"
}

as_user() {
	(become_user "$@")
}

# As as_user, but ends after $1 seconds. In the background and waited for, so that a signal to this script is acted on
# at once and not when the command is done; CHILD is then `timeout` itself, which ends all that it started.
CHILD=
as_user_within() {
	local seconds=$1 rc=0
	shift
	(become_user timeout -k 10 "$seconds" "$@") </dev/null &
	CHILD=$!
	wait "$CHILD" || rc=$?
	CHILD=
	return "$rc"
}

# --- the temporary folder ------------------------------------------------------------------------------------------

WORK=

# temp_folder MB: a folder of the unprivileged user's, with that much space, gone at exit. Its name is short, because
# the path of a Unix socket may have no more than some hundred characters.
temp_folder() {
	local need=$1 base
	choose_user
	for base in "${TMPDIR:-/tmp}" /tmp /var/tmp; do
		if "${AS_USER[@]}" test -x "$base/." &&
			[ "$(df -Pm "$base" | awk 'NR == 2 { print $4 }')" -ge "$need" ]; then
			WORK=$(mktemp -d "$base/ringctl.XXXXXX") && break
		fi
	done
	[ -n "$WORK" ] || die "no folder for temporary files that $RUN_USER can reach has $need MB free (set TMPDIR)"
	WORK=$(cd "$WORK" && pwd -P)
	trap clean_up EXIT
	trap 'exit 129' HUP
	trap 'exit 130' INT
	trap 'exit 143' TERM
	chmod 755 "$WORK"
	if is_root; then
		chown "$RUN_USER" "$WORK"
	fi
}

# Every cluster that runs below the temporary folder is ours, be it of pg_regress, a TAP test or this script.
stop_clusters() {
	local pidfile pid
	find "$WORK" -name postmaster.pid -type f 2>/dev/null | while read -r pidfile; do
		pid=$(head -n 1 "$pidfile")
		case $pid in '' | *[!0-9]*) continue ;; esac
		kill -QUIT "$pid" 2>/dev/null || continue
		for _ in $(seq 50); do
			kill -0 "$pid" 2>/dev/null || break
			sleep 0.1
		done
	done
}

clean_up() {
	local rc=$?
	trap - EXIT
	trap '' HUP INT TERM
	if [ -n "$CHILD" ]; then
		kill "$CHILD" 2>/dev/null
		wait "$CHILD" 2>/dev/null
	fi
	stop_clusters
	if [ -n "${KEEP:-}" ]; then
		log "kept: $WORK"
	else
		rm -rf "$WORK"
	fi
	exit "$rc"
}

# --- servers -------------------------------------------------------------------------------------------------------

major_of() {
	"$1" --version 2>/dev/null | sed -n 's/^PostgreSQL \([0-9][0-9]*\).*/\1/p'
}

has_assertions() {
	"$1" --configure 2>/dev/null | grep -q -e --enable-cassert
}

# pgxs_dir PG_CONFIG: where that server keeps what extensions are built and tested with.
pgxs_dir() {
	local makefile
	makefile=$("$1" --pgxs)
	printf '%s\n' "${makefile%/makefiles/pgxs.mk}"
}

# missing_of PG_CONFIG: what that server lacks for building the extension and running its tests; nothing if complete.
missing_of() {
	local bin share pgxs
	bin=$("$1" --bindir) share=$("$1" --sharedir) pgxs=$("$1" --pgxs)
	if [ ! -x "$bin/initdb" ] || [ ! -x "$bin/postgres" ]; then
		echo "the server itself"
	elif [ ! -f "$pgxs" ] || [ ! -f "$("$1" --includedir-server)/postgres.h" ]; then
		echo "its development files (PGXS and the server headers)"
	elif [ ! -x "$(pgxs_dir "$1")/test/regress/pg_regress" ] ||
		[ ! -f "$(pgxs_dir "$1")/test/perl/PostgreSQL/Test/Cluster.pm" ]; then
		echo "pg_regress or the PostgreSQL::Test modules"
	elif [ ! -f "$share/extension/pg_buffercache.control" ] || [ ! -f "$share/extension/pg_prewarm.control" ]; then
		echo "the contrib modules pg_buffercache and pg_prewarm"
	fi
}

# suits PG_CONFIG MAJOR [assert]: is it that major, and complete? A wrapper script like Debian's stands for the real one.
suits() {
	[ -x "$1" ] && [ "$(major_of "$1")" = "$2" ] && [ -z "$(missing_of "$1")" ] || return 1
	[ "${3:-}" != assert ] || has_assertions "$1"
}

# found_server MAJOR: a complete server of that major that this machine has already, our cache not counted.
found_server() {
	local candidate
	for candidate in "$(command -v pg_config)" "/usr/lib/postgresql/$1/bin/pg_config" "/usr/pgsql-$1/bin/pg_config" \
		"/opt/homebrew/opt/postgresql@$1/bin/pg_config" "/usr/local/opt/postgresql@$1/bin/pg_config" \
		"/usr/local/pgsql/bin/pg_config"; do
		if [ -n "$candidate" ] && suits "$candidate" "$1"; then
			printf '%s\n' "$candidate"
			return
		fi
	done
	return 1
}

# any_server: $PG_CONFIG if set (and then it must do), else a server that this machine has; else fails.
any_server() {
	local major missing
	if [ -n "${PG_CONFIG:-}" ]; then
		major=$(major_of "$PG_CONFIG")
		[ -n "$major" ] || die "PG_CONFIG=$PG_CONFIG is not a pg_config that runs"
		[ "$major" -ge 17 ] || die "PG_CONFIG=$PG_CONFIG is PostgreSQL $major: pg_ringctl needs 17 or later"
		missing=$(missing_of "$PG_CONFIG")
		[ -z "$missing" ] || die "the PostgreSQL $major of PG_CONFIG=$PG_CONFIG lacks $missing"
		printf '%s\n' "$PG_CONFIG"
		return
	fi
	for major in $SUPPORTED_MAJORS; do
		found_server "$major" && return
	done
	return 1
}

# copy_as_user PATH: to the same absolute path below $COPY_TO. Symbolic links stay links.
copy_as_user() {
	as_user mkdir -p "$COPY_TO$(dirname "$1")" && as_user cp -Rp "$1" "$COPY_TO$1"
}

# private_server PG_CONFIG DIR: copies that server below DIR and prints the copy's pg_config. Every folder keeps its
# absolute path below DIR, so that the way from the binaries to the others, which is all that the server goes by, stays
# the same. Headers are linked. The copy belongs to the unprivileged user: `make install` into it needs no rights.
private_server() {
	local config=$1 COPY_TO=$2 bin program dir
	bin=$(cd "$("$config" --bindir)" && pwd -P)
	as_user mkdir -p "$COPY_TO$bin" || return 1
	for program in postgres initdb psql pgbench createdb dropdb createuser dropuser vacuumdb reindexdb clusterdb \
		"$bin"/pg_*; do
		program=$bin/${program##*/}
		if [ -f "$program" ]; then
			as_user cp -p "$program" "$COPY_TO$bin/" || return 1
		fi
	done
	copy_as_user "$("$config" --pkglibdir)" || return 1
	copy_as_user "$("$config" --sharedir)" || return 1
	for dir in "$("$config" --includedir)" "$("$config" --pkgincludedir)" "$("$config" --includedir-server)"; do
		if [ ! -e "$COPY_TO$dir" ]; then        # the inner ones are there through the outer one
			as_user mkdir -p "$COPY_TO$(dirname "$dir")" && as_user ln -s "$dir" "$COPY_TO$dir" || return 1
		fi
	done
	"$COPY_TO$bin/pg_config" --bindir | grep -q "^$COPY_TO" || return 1
	printf '%s\n' "$COPY_TO$bin/pg_config"
}

# --- the extension -------------------------------------------------------------------------------------------------

# git, also where the checkout is somebody else's.
git_here() {
	git -c safe.directory="$CHECKOUT" "$@"
}

# List the checkout's files as they are now, committed or not, zero-terminated; without git, everything but what a
# compiler has made.
checkout_files() {
	cd "$CHECKOUT" || return 1
	if git_here rev-parse --is-inside-work-tree >/dev/null 2>&1; then
		git_here ls-files -z --cached --others --exclude-standard
	else
		find . -name .git -prune -o -type f ! -name '*.o' ! -name '*.so' ! -name '*.bc' -print0
	fi | while IFS= read -r -d '' file; do
		if [ -f "$file" ]; then         # a file that was deleted is still in git's index
			printf '%s\0' "$file"
		fi
	done
}

# copy_checkout DIR
copy_checkout() {
	as_user mkdir -p "$1" &&
		(cd "$CHECKOUT" && checkout_files | tar --null -T - -cf -) | as_user tar -C "$1" -xf -
}

# build_extension PG_CONFIG SRC_COPY LOG: compiles the copy with all warnings on and installs it into the private
# server. The server's headers are given as system headers: gcc then reports what is wrong in our files only.
# with_llvm=no, because a distribution's server asks for exactly its own clang.
build_extension() {
	local make_args=(with_llvm=no "PG_CONFIG=$1" "COPT=-Wall -Wextra -isystem $("$1" --includedir-server)")
	as_user_within 300 make -s -C "$2" -j"$(jobs_count)" "${make_args[@]}" >"$3" 2>&1 &&
		as_user_within 60 make -s -C "$2" "${make_args[@]}" install >>"$3" 2>&1
}

# own_server PG_CONFIG: a private copy of it, in $WORK, with the extension; sets CONFIG.
own_server() {
	log "copying $("$1" --version) and building pg_ringctl for it"
	if ! CONFIG=$(private_server "$1" "$WORK/server") || ! copy_checkout "$WORK/source"; then
		die "the server could not be copied"
	fi
	if ! build_extension "$CONFIG" "$WORK/source" "$WORK/build.log"; then
		show_tail "$WORK/build.log"
		die "pg_ringctl could not be built"
	fi
}

# --- throwaway clusters --------------------------------------------------------------------------------------------

SERVER_ENV=()                   # NAME=VALUE... for the servers, not for the programs that talk to them

# start_cluster PG_CONFIG DIR [LINE OF postgresql.conf...]: a new cluster in DIR/data that listens on a Unix socket in
# DIR only; afterwards PGHOST, PGPORT and PGUSER are its. Reached and stopped by these and by stop_cluster.
start_cluster() {
	local bin dir=$2
	bin=$("$1" --bindir)
	shift 2
	as_user mkdir -p "$dir" || return 1
	if ! as_user "$bin/initdb" -D "$dir/data" -U postgres -A trust -E UTF8 --no-locale --no-sync \
		>"$dir.initdb.log" 2>&1; then
		show_tail "$dir.initdb.log"
		return 1
	fi
	printf '%s\n' "listen_addresses = ''" "unix_socket_directories = '$dir'" "port = 5432" "$@" |
		as_user tee -a "$dir/data/postgresql.conf" >/dev/null
	if ! as_user env "${SERVER_ENV[@]}" "$bin/pg_ctl" -D "$dir/data" -s -w -t 60 -l "$dir/server.log" start \
		>"$dir.start.log" 2>&1 </dev/null; then
		show_tail "$dir.start.log"
		show_tail "$dir/server.log"
		return 1
	fi
	export PGHOST=$dir PGPORT=5432 PGUSER=postgres
}

# stop_cluster PG_CONFIG DIR
stop_cluster() {
	as_user "$("$1" --bindir)/pg_ctl" -D "$2/data" -s -w -m fast stop >/dev/null 2>&1
	unset PGHOST PGPORT PGUSER
}
