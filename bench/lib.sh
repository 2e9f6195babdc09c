# bench/lib.sh - what the measurements share; sourced, never run.
#
# The idea: a case compares contenders in one run. They alternate, so that whatever else the machine does falls on all
# of them. Each single run is recorded as a line of a CSV file, and everything else is computed from that file. The case
# prints each contender with its median and range, and PASS or MISS for each of its figures. It runs on a private copy
# of a release server, in a throwaway cluster, like the scripts in dev/. dev/bench keeps the CSV file and what a case
# prints, and writes the pages in docs/benchmarks from these.
# shellcheck shell=bash source-path=SCRIPTDIR disable=SC2034
. "$(dirname "${BASH_SOURCE[0]}")/../dev/lib.sh"
. "$(dirname "${BASH_SOURCE[0]}")/../dev/fetch.sh"

CASE=${0##*/}
GIVEN=                          # constants that come from outside
FIGURES=0
MISSES=0

# --- a case begins and ends ----------------------------------------------------------------------------------------

# bench_options "MAJOR..." ARGUMENT...: what every case takes. Sets MAJORS, by default the first argument, and QUICK.
bench_options() {
	local default=$1 arg
	shift
	MAJORS='' QUICK=''
	for arg in "$@"; do
		case $arg in
			--quick) QUICK=yes ;;
			[1-9][0-9]) MAJORS="$MAJORS $arg" ;;
			*) die "usage: bench/$CASE [--quick] [MAJOR...]" ;;
		esac
	done
	MAJORS=${MAJORS:-$default}
}

# pick NAME FULL QUICK: a constant that the size of the measurement decides. $BENCH_NAME comes before both.
pick() {
	local given=BENCH_$1
	if [ -n "${!given:-}" ]; then
		printf -v "$1" %s "${!given}"
		GIVEN="$GIVEN; $given=${!given}"
	elif [ -n "$QUICK" ]; then
		printf -v "$1" %s "$3"
	else
		printf -v "$1" %s "$2"
	fi
}

# wanted PART: is it among $PARTS, which a case picks?
wanted() {
	case " $PARTS " in *" $1 "*) return 0 ;; esac
	return 1
}

# What the figures were measured on, and when.
print_machine() {
	printf 'date: %s\n' "$(date -u +%F)"
	git_here -C "$CHECKOUT" log -1 --format='commit: %h' 2>/dev/null
	printf 'machine: %s, %s cores, %s MB of memory, %s\n' \
		"$(sed -n 's/^model name[^:]*: *//p' /proc/cpuinfo 2>/dev/null | head -n 1)" "$(jobs_count)" \
		"$(awk '/^MemTotal/ { print int($2 / 1024) }' /proc/meminfo 2>/dev/null)" "$(uname -sr | sed 's/-.*//')"
	printf 'size: %s%s%s%s\n' "$([ -n "$QUICK" ] && echo quick || echo full)" "${ROUNDS:+, $ROUNDS rounds}" \
		"${ROWS:+, $ROWS rows in the large table}" "$GIVEN"
}

# bench_begin MB [COLUMN...]: the machine, and a temporary folder with that much space. The columns are the settings
# under which contenders are compared; each case has its own, but for the major, which is always there.
bench_begin() {
	local need=$1
	shift
	if is_debian && is_root; then
		need_packages gcc libc6-dev make
	fi
	print_machine
	temp_folder "$need"
	CSV=${BENCH_CSV:-$WORK/$CASE.csv}
	SETTING_COLUMNS=("$@")
	HEADER=$(IFS=,; printf '%s' "major,${*:+$*,}contender,measure,unit,run,value")
	if [ -s "$CSV" ]; then
		[ "$(head -n 1 "$CSV")" = "$HEADER" ] || die "$CASE.csv, which was to be added to, has other columns"
	else
		printf '%s\n' "$HEADER" >"$CSV"
	fi
}

bench_end() {
	[ ${#RECORDED[@]} -gt 0 ] || die "nothing was measured"
	printf 'done: %s figures, %s missed\n' "$FIGURES" "$MISSES"
	[ "$MISSES" -eq 0 ]
}

# --- clusters ------------------------------------------------------------------------------------------------------

# bench_server MAJOR: a private copy with the extension; sets CONFIG and BIN. Fails if that major can't be had.
bench_server() {
	local original
	original=$("$CHECKOUT/dev/server" "$1") || { [ $? -ne 2 ] || die "PostgreSQL $1 does not work"; return 1; }
	CONFIG=$(private_server "$original" "$WORK/server-$1") && copy_checkout "$WORK/source-$1" ||
		die "a private copy of PostgreSQL $1 could not be made"
	build_extension "$CONFIG" "$WORK/source-$1" "$WORK/build-$1.log" ||
		{ show_tail "$WORK/build-$1.log"; die "pg_ringctl could not be built for PostgreSQL $1"; }
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
	as_user cp "$CLUSTER/data/postgresql.conf" "$CLUSTER/postgresql.conf"
	printf 'server: %s; %s\n' "$(sql 'SELECT version()' | cut -d' ' -f1,2)" "${SETTINGS:-all defaults}"
}

bench_cluster_end() {
	stop_cluster "$CONFIG" "$CLUSTER"
	as_user rm -rf "$CLUSTER"
}

restart_cluster() {
	as_user env "${SERVER_ENV[@]}" "$BIN/pg_ctl" -D "$CLUSTER/data" -s -w -m fast -l "$CLUSTER/server.log" restart \
		>/dev/null 2>&1 </dev/null
}

restart() {
	restart_cluster || die "the cluster does not restart"
}

# reconfigure [LINE OF postgresql.conf...]: restarts the cluster with these beside those that it was made with. Fails
# where the server does not start so, and then it is as it was made.
reconfigure() {
	as_user cp "$CLUSTER/postgresql.conf" "$CLUSTER/data/postgresql.conf"
	[ $# -eq 0 ] || printf '%s\n' "$@" | as_user tee -a "$CLUSTER/data/postgresql.conf" >/dev/null
	restart_cluster && return
	as_user cp "$CLUSTER/postgresql.conf" "$CLUSTER/data/postgresql.conf"
	restart
	return 1
}

# The methods of reading that this server knows; `none` before 18, which reads in one way.
io_methods() {
	local methods
	methods=$(sql "SELECT array_to_string(enumvals, ' ') FROM pg_settings WHERE name = 'io_method'")
	printf '%s\n' "${methods:-none}"
}

# method_line METHOD: what to give to reconfigure; nothing for `none`.
method_line() {
	[ "$1" = none ] || printf 'io_method = %s\n' "$1"
}

# worker_lines N: the same for N I/O workers, of which 19 has a least and a most number.
worker_lines() {
	if [ "$MAJOR" -lt 19 ]; then
		printf 'io_workers = %s\n' "$1"
	else
		printf 'io_min_workers = %s\nio_max_workers = %s\n' "$1" "$1"
	fi
}

# Forget what the operating system has cached of files; fails where that is not allowed.
drop_os_cache() {
	sync
	{ echo 3 >/proc/sys/vm/drop_caches; } 2>/dev/null
}

# Can files of the temporary folder be read past the operating system's cache?
can_read_directly() {
	dd if="$CLUSTER/data/global/pg_control" of=/dev/null bs=8192 count=1 iflag=direct 2>/dev/null
}

# possible STATE: or says why not.
possible() {
	if [ "$1" = cold ] && ! drop_os_cache; then
		skip "$MAJOR, cold: the operating system's cache can't be dropped (it takes root)"
		return 1
	elif [ "$1" = direct ] && ! can_read_directly; then
		skip "$MAJOR, direct: files can't be read past the operating system's cache here"
		return 1
	fi
}

# files_of TABLE: the paths of its main fork.
files_of() {
	local file
	file=$CLUSTER/data/$(sql "SELECT pg_relation_filepath('$1')")
	find "${file%/*}" -name "${file##*/}" -o -name "${file##*/}.*" | sort -t . -k 2n
}

# What slow_reads preloads into a server.
build_slow_library() {
	as_user cc -O2 -shared -fPIC -o "$WORK/slow.so" "$WORK/source-$MAJOR/bench/slow.c" -ldl 2>"$WORK/slow.log" ||
		{ show_tail "$WORK/slow.log"; die "slow.c does not compile"; }
}

# slow_reads MICROSECONDS: from the next restart on, until SERVER_ENV is (), a read of a large relation takes that long.
slow_reads() {
	SERVER_ENV=("LD_PRELOAD=$WORK/slow.so" "SLOW_READ_US=$1")
}

# What is in shared_buffers of tables that were made here leaves it.
evict_all() {
	sql "SELECT count(pg_buffercache_evict(bufferid)) FROM pg_buffercache WHERE relfilenode >= 16384" >/dev/null
}

# --- statements ----------------------------------------------------------------------------------------------------

# sql STATEMENTS [PGOPTIONS]
sql() {
	as_user env "PGOPTIONS=-c client_min_messages=warning ${2:-}" "$BIN/psql" -X -A -t -q -v ON_ERROR_STOP=1 \
		-d postgres -c "$1" || die "refused: $1"
}

# timed STATEMENT [PGOPTIONS]: milliseconds, as psql measures them, in a new session.
timed() {
	local out
	out=$(as_user env "PGOPTIONS=${2:-}" "$BIN/psql" -X -A -t -q -v ON_ERROR_STOP=1 -d postgres -c "$1" \
		-c '\timing on' -c "${3:-$1}") || die "refused: ${3:-$1}"       # psql times what fails, too
	sed -n 's/^Time: \([0-9.]*\) ms.*/\1/p' <<<"$out" | tail -n 1
}

# timed_once STATEMENT [PGOPTIONS]: the same, but the statement runs once only.
timed_once() {
	timed "SELECT 1" "${2:-}" "$1"
}

# timed_session STATEMENT PGOPTIONS [STATEMENT]: milliseconds of the first, and the last line of what they answer,
# with blanks between the columns.
timed_session() {
	local out
	out=$(as_user env "PGOPTIONS=$2" "$BIN/psql" -X -A -t -q -F ' ' -v ON_ERROR_STOP=1 -d postgres -c "SELECT 1" \
		-c '\timing on' -c "$1" -c '\timing off' ${3:+-c "$3"}) || die "refused: $1${3:+; $3}"
	awk '/^Time: / { ms = $2; next } { last = $0 } END { print ms, last }' <<<"$out"
}

# instructions OPTIONS N STATEMENT [CALLGRIND-OPTION...]: of a single-user backend that runs the statement N times, and
# $PRELUDE before that. The cluster is stopped meanwhile.
instructions() {
	local options=$1 i
	{
		[ -z "${PRELUDE:-}" ] || printf '%s\n' "$PRELUDE"
		for ((i = 0; i < $2; i++)); do printf '%s\n' "$3"; done
	} >"$WORK/statements"
	shift 3
	# shellcheck disable=SC2086 # several options
	as_user sh -c 'exec "$0" "$@" <"'"$WORK"'/statements" >/dev/null' valgrind --tool=callgrind \
		--callgrind-out-file=/dev/null "$@" "$BIN/postgres" --single -D "$CLUSTER/data" $options postgres 2>&1 |
		sed -n 's/.*Collected : \([0-9]*\).*/\1/p' | tail -n 1
}

# instructions_each OPTIONS FEW MANY STATEMENT [CALLGRIND-OPTION...]: of each time that the statement runs, but for the
# first ones.
instructions_each() {
	local options=$1 few_times=$2 many_times=$3 few many
	shift 3
	few=$(instructions "$options" "$few_times" "$@")
	many=$(instructions "$options" "$many_times" "$@")
	[ "${few:-0}" -gt 0 ] && [ "${many:-0}" -gt "$few" ] || die "could not count instructions: $1"
	awk "BEGIN { printf \"%.0f\", ($many - $few) / ($many_times - $few_times) }"
}

# stopwatch COMMAND...: milliseconds that it took.
stopwatch() {
	local start end
	start=$(date +%s%N)
	"$@" >/dev/null 2>&1 || die "failed: $*"
	end=$(date +%s%N)
	awk "BEGIN { print ($end - $start) / 1000000 }"
}

# kB of a ring, as pg_ringctl_prewarm takes them.
kb_of() {
	case $1 in
		self-sized) echo -1 ;;
		no-ring) echo 0 ;;
		*MB) echo $((${1%MB} * 1024)) ;;
		*) echo "${1%kB}" ;;
	esac
}

# --- recording, and what is computed from it -----------------------------------------------------------------------

declare -A RECORDED=()          # in this run: how many of each key; and which settings

# keep_rows AWK-ARGUMENT...: of the CSV file only what that says.
keep_rows() {
	awk "$@" "$CSV" >"$CSV.rest" && cat "$CSV.rest" >"$CSV"
	rm -f "$CSV.rest"
}

# record SETTING... CONTENDER MEASURE UNIT VALUE: one run, of $MAJOR. All that an earlier measurement has recorded under
# the same settings goes: what is compared was measured together. Not in a subshell.
record() {
	local key cell run
	[ $# -eq $((${#SETTING_COLUMNS[@]} + 4)) ] || die "record: ${#SETTING_COLUMNS[@]} settings and 4 fields, not: $*"
	case ${!#} in '' | *[!0-9.e+-]*) die "record: not a number: '${!#}' ($*)" ;; esac
	case "$*" in *[,\"]*) die "record: no comma, no quotation mark: $*" ;; esac
	key=$(IFS=,; printf '%s' "$MAJOR,${*:1:$#-1}")
	cell=$(IFS=,; printf '%s' "$MAJOR${SETTING_COLUMNS[*]:+,}${*:1:${#SETTING_COLUMNS[@]}}")
	if [ -z "${RECORDED[$cell]:-}" ]; then
		keep_rows -v key="$cell," 'index($0, key) != 1'
		RECORDED[$cell]=begun
	fi
	run=$((${RECORDED[$key]:-0} + 1))
	RECORDED[$key]=$run
	printf '%s,%s,%s\n' "$key" "$run" "${!#}" >>"$CSV"
}

# in_turn ROUND CONTENDER...: these in the order of that round. Each begins with another one, and every second one goes
# backward.
in_turn() {
	local round=$1 i
	shift
	for ((i = 0; i < $#; i++)); do
		printf '%s\n' "${@:$(((round + (round % 2 ? i : $# - i)) % $# + 1)):1}"
	done
}

# take_turns ROUNDS MEASURE "CONTENDER..." SETTING...: has the case `run SETTING... CONTENDER MEASURE`; each contender once
# in each round.
take_turns() {
	local round contender contenders
	read -ra contenders <<<"$3"
	for ((round = 1; round <= $1; round++)); do
		log "$MAJOR, $(printf '%s, ' "${@:4}")$2: ${#contenders[@]} contenders, round $round of $1"
		for contender in $(in_turn "$round" "${contenders[@]}"); do
			run "${@:4}" "$contender" "$2"
		done
	done
}

# forget: all that was recorded of $MAJOR, for a round that does not count.
forget() {
	RECORDED=()
	keep_rows -F , -v major="$MAJOR" '$1 != major'
}

medians() {
	awk -f "$CHECKOUT/bench/medians" "$CSV"
}

# statistic WHICH SETTING... CONTENDER MEASURE: of these runs of $MAJOR; WHICH counts from the end of a line.
statistic() {
	local which=$1 key
	shift
	key=$(IFS=,; printf '%s' "$MAJOR,$*,")
	medians | awk -F , -v key="$key" -v which="$which" 'index($0, key) == 1 { print $(NF - which); exit }' | grep . ||
		die "nothing was recorded for $key"
}
median() { statistic 3 "$@"; }
least() { statistic 2 "$@"; }
most() { statistic 1 "$@"; }

# total SETTING... CONTENDER MEASURE: the sum of these runs.
total() {
	awk -F , -v key="$(IFS=,; printf '%s' "$MAJOR,$*,")" 'index($0, key) == 1 { n += $NF } END { print n + 0 }' "$CSV"
}

# show_sides PATTERN: everything that was recorded of $MAJOR, whose settings, contender and measure match.
show_sides() {
	medians | awk -F , -v major="$MAJOR" -v pattern="$1" '
		$1 == major && match($0, pattern) {
			decimals = $(NF - 3) < 100 ? ($(NF - 3) < 10 ? 3 : 2) : 1
			if ($(NF - 3) == int($(NF - 3)) && $(NF - 2) == int($(NF - 2)) && $(NF - 1) == int($(NF - 1)))
				decimals = 0
			name = ""
			for (i = 2; i <= NF - 5; i++) name = name (i > 2 ? (i == NF - 5 ? ": " : " ") : "") $i
			printf "  %-56s median %12." decimals "f %s   range %." decimals "f to %." decimals "f   (%d runs)\n",
				name, $(NF - 3), $(NF - 4), $(NF - 2), $(NF - 1), $NF
		}'
}

ratio() {
	awk -v a="$1" -v b="$2" 'BEGIN { printf "%.3f\n", a / b }'
}

# figure WHAT VALUE OPERATOR BOUND: PASS or MISS.
figure() {
	local verdict=PASS
	FIGURES=$((FIGURES + 1))
	if ! awk "BEGIN { exit !($2 $3 $4) }"; then
		verdict=MISS
		MISSES=$((MISSES + 1))
	fi
	printf '%s  %s: %s (%s %s)\n' "$verdict" "$1" "$2" "$3" "$4"
}

# note/skip TEXT: what is worth knowing beside the figures; what could not be measured, and why.
note() { printf 'NOTE  %s\n' "$*"; }
skip() { printf 'SKIP  %s\n' "$*"; }

# --- tables --------------------------------------------------------------------------------------------------------

# Rows of about 1,100 bytes, seven a page, as in dev/demo.
HOT_ROWS=60480                  # 8,640 pages, half of 128 MB
make_hot() {
	sql "CREATE TABLE hot AS SELECT id, repeat('x', 1090) AS pad FROM generate_series(1, $HOT_ROWS) id;
		ALTER TABLE hot ADD PRIMARY KEY (id)"
	sql "VACUUM ANALYZE hot"
	HOT_PAGES=$(pages_of hot)
}

# make_partitions TABLE N WIDTH: N partitions, WIDTH ids each from 0 on. They are in groups of a hundred, because a
# partition's making looks at its siblings.
make_partitions() {
	sql "CREATE TABLE $1 (id int, pad text) PARTITION BY RANGE (id)"
	sql "DO 'BEGIN FOR g IN 0..$2 / 100 - 1 LOOP
		EXECUTE format(''CREATE TABLE $1_%s PARTITION OF $1 FOR VALUES FROM (%s) TO (%s) PARTITION BY RANGE (id)'',
			g, $3 * 100 * g, $3 * 100 * (g + 1));
		FOR n IN 100 * g..100 * g + 99 LOOP
			EXECUTE format(''CREATE TABLE $1_%s_%s PARTITION OF $1_%s FOR VALUES FROM (%s) TO (%s)'',
				g, n, g, $3 * n, $3 * (n + 1));
		END LOOP; END LOOP; END'"
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
