# bench/scans.sh - several scans at once; sourced, after lib.sh, by the cases about them; never run.
#
# The idea: each scan is a session of its own; all gather behind a lock, so that they begin at the same moment, after a
# restart, with an empty pool. What they read together is what pg_stat_io has counted meanwhile: what was read, not what
# was looked for. The case makes the table `big`, with $ROWS rows and $PAGES pages, and, if it scans them, the tables
# `quarter1` to `quarter4`. In OPTIONS it says which options the sessions of each contender get.
#
# They begin and go in one of these ways:
#   once       at the same time
#   apart      one after the other, $APART seconds apart
#   mixed      at the same time; the second half of them has a heavier filter
#   parallel   at the same time, with two workers each
#   tables     at the same time, two on each of the four quarters
# shellcheck shell=bash source-path=SCRIPTDIR disable=SC2034,SC2153

CACHE=direct                    # if it is cold, the operating system's is dropped before each run
APART=                          # seconds between two begins
PARALLEL="-c max_parallel_workers_per_gather=2 -c parallel_setup_cost=0 -c parallel_tuple_cost=0"

declare -A OPTIONS=()           # contender: PGOPTIONS

# Blocks that the server has read so far: all, and those through rings.
blocks_read() {
	local reads=read_bytes/8192
	[ "$MAJOR" -ge 18 ] || reads=reads
	sql "SELECT sum($reads)::bigint || ' ' || (sum($reads) FILTER (WHERE context = 'bulkread'))::bigint
		FROM pg_stat_io WHERE object = 'relation'" "-c pg_ringctl.mode=off"
}

# Of every kind, since the start of the server.
escapes_since_start() {
	sql "SELECT coalesce(sum(escapes_pinned + escapes_dirty + escapes_adopted), 0) FROM pg_ringctl_stats" \
		"-c pg_ringctl.mode=off"
}

# note_escapes WHERE N: if there were any, what they were, as far as they are still there: block and reason.
note_escapes() {
	[ "$2" != 0 ] || return 0
	note "$1: $2 escapes, of them still there: $(sql "
		SELECT string_agg(format('block %s of %s %s', relblocknumber, relname, reason), ', ' ORDER BY escaped_at)
		FROM pg_ringctl_escapes" "-c pg_ringctl.mode=off")"
}

empty_pool() {
	restart
	[ "$CACHE" != cold ] || drop_os_cache
}

# Nobody passes before all of them stand there. In the background; to be waited for.
gate() {
	as_user "$BIN/psql" -X -A -t -q -d postgres -c "SELECT pg_advisory_lock(1)" -c "SELECT pg_sleep(1)" >/dev/null &
	GATE=$!
	sleep 0.3
}

# query WAY I K: what the Ith of K scans counts.
query() {
	case $1 in
		tables) echo "SELECT count(*) FROM quarter$((($2 + 1) / 2))" ;;
		mixed) echo "SELECT count(*) FROM big$( (($2 <= $3 / 2)) || echo " WHERE id % 7 < 10 AND id > -1 AND id < 100000000")" ;;
		*) echo "SELECT count(*) FROM big" ;;
	esac
}

# scans CONTENDER WAY K: all behind one gate. Sets LAST_MS, of the one that took longest, and FIRST_MS, of the first.
scans() {
	local way=$2 k=$3 options=${OPTIONS[$1]} pids=() i rows=$ROWS
	[ "$way" != parallel ] || options="$options $PARALLEL"
	[ "$way" != tables ] || rows=$((ROWS / 4))
	gate
	for ((i = 1; i <= k; i++)); do
		as_user env "PGOPTIONS=$options" "$BIN/psql" -X -A -t -q -d postgres -c "SELECT pg_advisory_lock_shared(1)" \
			-c "SELECT pg_sleep($([ "$way" = apart ] && echo "$APART * ($i - 1)" || echo 0))" \
			-c '\timing on' -c "$(query "$way" "$i" "$k")" >"$WORK/scan.$i" &
		pids+=($!)
	done
	wait "$GATE" "${pids[@]}"
	for ((i = 1; i <= k; i++)); do
		grep -q -x "$rows" "$WORK/scan.$i" || die "scan $i of $k, $way, has another result"
		sed -n 's/^Time: \([0-9.]*\) ms.*/\1/p' "$WORK/scan.$i" | tail -n 1 >"$WORK/time.$i"
	done
	FIRST_MS=$(cat "$WORK/time.1")
	LAST_MS=$(cat "$WORK"/time.[0-9] | sort -n | tail -n 1)
	rm -f "$WORK"/time.[0-9] "$WORK"/scan.[0-9]
}

# read_together CONTENDER WAY K: the same, beginning with an empty pool. Sets BLOCKS_READ, too, and of these RINGED_READ, those
# through rings: without what a new session reads of the catalogs.
read_together() {
	local all ringed
	empty_pool
	read -r all ringed < <(blocks_read)
	scans "$@"
	sleep 0.2                   # statistics are flushed
	read -r BLOCKS_READ RINGED_READ < <(blocks_read)
	BLOCKS_READ=$((BLOCKS_READ - all))
	RINGED_READ=$((RINGED_READ - ringed))
}
