# bench/lib.sh - what the measurements share; sourced, never run.
#
# The idea: a case compares two sides in one run, alternating, so that what else the machine does falls on both; it
# prints both sides with medians and ranges, their ratio, and one line for each figure it is about: PASS or MISS. It
# runs on a private copy of a release server, in a throwaway cluster, like the scripts in dev/.
# shellcheck shell=bash source-path=SCRIPTDIR disable=SC2034
. "$(dirname "${BASH_SOURCE[0]}")/../dev/lib.sh"
. "$(dirname "${BASH_SOURCE[0]}")/../dev/fetch.sh"

MISSES=0

# What the figures were measured on.
print_machine() {
	printf 'machine: %s, %s cores, %s MB of memory, %s\n' \
		"$(sed -n 's/^model name[^:]*: *//p' /proc/cpuinfo 2>/dev/null | head -n 1)" "$(jobs_count)" \
		"$(awk '/^MemTotal/ { print int($2 / 1024) }' /proc/meminfo 2>/dev/null)" "$(uname -sr)"
}

# bench_begin MB: the machine, and a temporary folder with that much space.
bench_begin() {
	if is_debian && is_root; then
		need_packages gcc libc6-dev make
	fi
	print_machine
	temp_folder "$1"
}

# bench_server MAJOR: a private copy with the extension; sets CONFIG and BIN. Fails if that major can't be had.
bench_server() {
	local original
	original=$("$CHECKOUT/dev/server" "$1") || return 1
	CONFIG=$(private_server "$original" "$WORK/server-$1") && copy_checkout "$WORK/source-$1" || return 1
	build_extension "$CONFIG" "$WORK/source-$1" "$WORK/build-$1.log" || { show_tail "$WORK/build-$1.log"; return 1; }
	BIN=$("$CONFIG" --bindir)
}

# bench_cluster NAME [LINE OF postgresql.conf...]: a cluster with the extensions; stock unless a session asks for more.
bench_cluster() {
	CLUSTER=$WORK/$1
	shift
	SETTINGS="$*"
	start_cluster "$CONFIG" "$CLUSTER" "autovacuum = off" "max_parallel_workers_per_gather = 0" "$@" ||
		die "the cluster does not start"
	sql "CREATE EXTENSION pg_buffercache; CREATE EXTENSION pg_prewarm; CREATE EXTENSION pg_ringctl"
	printf 'server: %s; %s\n' "$(sql 'SELECT version()' | cut -d' ' -f1,2)" "${SETTINGS:-all defaults}"
}

bench_cluster_end() {
	stop_cluster "$CONFIG" "$CLUSTER"
	as_user rm -rf "$CLUSTER"
}

restart() {
	as_user "$BIN/pg_ctl" -D "$CLUSTER/data" -s -w -m fast -l "$CLUSTER/server.log" restart >/dev/null 2>&1 </dev/null ||
		die "the cluster does not restart"
}

# sql STATEMENTS [PGOPTIONS]
sql() {
	as_user env "PGOPTIONS=-c client_min_messages=warning ${2:-}" "$BIN/psql" -X -A -t -q -v ON_ERROR_STOP=1 \
		-d postgres -c "$1" || die "refused: $1"
}

# timed STATEMENT [PGOPTIONS]: milliseconds, as psql measures them, in a new session.
timed() {
	as_user env "PGOPTIONS=${2:-}" "$BIN/psql" -X -A -t -q -v ON_ERROR_STOP=1 -d postgres -c "$1" -c '\timing on' \
		-c "${3:-$1}" | sed -n 's/^Time: \([0-9.]*\) ms.*/\1/p' | tail -n 1
}

# timed_once STATEMENT [PGOPTIONS]: the same, but the statement runs once only.
timed_once() {
	timed "SELECT 1" "${2:-}" "$1"
}

# median/least/most FILE: of the numbers in it, one a line.
median() {
	sort -n "$1" | awk '{ v[NR] = $1 } END { print NR % 2 ? v[(NR + 1) / 2] : (v[NR / 2] + v[NR / 2 + 1]) / 2 }'
}
least() { sort -n "$1" | head -n 1; }
most() { sort -n "$1" | tail -n 1; }

# show_side NAME FILE UNIT [DECIMALS]
show_side() {
	printf "  %-34s median %10.${4:-1}f %s   range %.${4:-1}f to %.${4:-1}f   (%d runs)\n" "$1" "$(median "$2")" "$3" \
		"$(least "$2")" "$(most "$2")" "$(wc -l <"$2")"
}

ratio() {
	awk -v a="$1" -v b="$2" 'BEGIN { printf "%.3f\n", a / b }'
}

# figure WHAT VALUE OPERATOR BOUND: PASS or MISS.
figure() {
	if awk "BEGIN { exit !($2 $3 $4) }"; then
		printf 'PASS  %s: %s (%s %s)\n' "$1" "$2" "$3" "$4"
	else
		MISSES=$((MISSES + 1))
		printf 'MISS  %s: %s (%s %s)\n' "$1" "$2" "$3" "$4"
	fi
}

bench_end() {
	log "done, $MISSES figures missed"
	[ "$MISSES" -eq 0 ]
}

# Rows of about 1,100 bytes, seven a page, as in dev/demo.
HOT_ROWS=60480                  # 8,640 pages, half of 128 MB
make_hot() {
	sql "CREATE TABLE hot AS SELECT id, repeat('x', 1090) AS pad FROM generate_series(1, $HOT_ROWS) id;
		ALTER TABLE hot ADD PRIMARY KEY (id)"
	sql "VACUUM ANALYZE hot"
	HOT_PAGES=$(pages_of hot)
}

pages_of() {
	sql "SELECT pg_relation_size('$1') / current_setting('block_size')::int"
}

# Through its index, as an application does it.
warm_hot() {
	sql "SET enable_seqscan = off; SET enable_bitmapscan = off; SELECT count(pad) FROM hot WHERE id > 0;
		SELECT count(pad) FROM hot WHERE id > 0; SELECT count(pad) FROM hot WHERE id > 0" >/dev/null
}

# cached TABLE: its pages in shared_buffers.
cached() {
	sql "SELECT count(*) FROM pg_buffercache b JOIN pg_database d ON d.oid = b.reldatabase
		WHERE d.datname = current_database() AND b.relfilenode = pg_relation_filenode('$1') AND b.relforknumber = 0"
}

percent() {
	awk -v a="$1" -v b="$2" 'BEGIN { printf "%.2f\n", 100 * a / b }'
}
