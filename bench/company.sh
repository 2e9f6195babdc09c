# bench/company.sh - what runs beside a statement that is measured; sourced, after lib.sh, by bench/harm; never run.
#
# The idea: the company is another session, with the same options as the one that is measured, which does one thing over
# and over until it is ended, or has stopped in the middle of it:
#   none     nothing
#   equal    the same SELECT count(*)
#   alike    the same, with a filter that makes it 1.3 times slower
#   slower   the same, with one that makes it 3.5 times slower
#   slowest  the same, with one that makes it 20 times slower: a report
#   hung     COPY (SELECT * FROM big) TO STDOUT, to a client that does not read
#   cursor   a cursor of which some rows were fetched, in a transaction that stays open
#   limit    SELECT id FROM big LIMIT 1
#   exists   SELECT EXISTS (SELECT 1 FROM big)
#   dml      a DELETE of every thousandth row, rolled back
# The case makes the table `big`, and calls `calibrate` before it asks for company that is slower. Further down are the
# statements that are measured beside the company, and the code by which two sides, ours and stock, take turns and are
# judged: $SIDES, $ROUNDS, $AGAIN.
# shellcheck shell=bash source-path=SCRIPTDIR disable=SC2034,SC2153

COMPANY=()                      # the processes that are clients
NAMED="PGAPPNAME=company"
RUN_OFF="in the run-off"

# --- sessions --------------------------------------------------------------------------------------------------------

# open_session OPTIONS [USER]: one that is fed line by line with `tell`, until `close_session`.
open_session() {
	rm -f "$WORK/told"
	mkfifo "$WORK/told"
	(become_user env "$NAMED" "PGOPTIONS=$1" "$BIN/psql" -X -A -t -q -v ON_ERROR_STOP=1 -d postgres -U "${2:-$PGUSER}" \
		<"$WORK/told" >>"$WORK/answers" 2>&1) &
	SESSION=$!
	exec 9>"$WORK/told"
}

# tell STATEMENTS: and wait until they are done.
tell() {
	: >"$WORK/answers"
	printf '%s;\n\\echo done\n' "$1" >&9
	until grep -q -x done "$WORK/answers"; do
		kill -0 "$SESSION" 2>/dev/null || { show_tail "$WORK/answers"; die "refused: $1"; }
		sleep 0.02
	done
}

close_session() {
	exec 9>&-
	wait "$SESSION"
	until_seen 0 ""
}

# until_seen N CONDITION: until N sessions of the company are in that condition, or for half a minute.
until_seen() {
	local i
	for ((i = 0; i < 300; i++)); do
		[ "$(sql "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'company' $2")" != "$1" ] || return 0
		sleep 0.1
	done
	die "the company is not where it should be: $1 sessions ${2:-in all}"
}

# --- how slow --------------------------------------------------------------------------------------------------------

# calibrate: how long a scan takes now, alone in stock, and what md5 of every row adds to it where files are cached.
calibrate() {
	ALONE_MS=$(timed "SELECT count(*) FROM big")
	[ "${CALIBRATED:-}" = "$MAJOR" ] && return
	CALIBRATED=$MAJOR
	CACHED_MS=$ALONE_MS
	MD5_MS=$(awk -v with="$(timed "SELECT count(*) FROM big WHERE md5(pad) <> ''")" -v without="$CACHED_MS" \
		'BEGIN { print with - without }')
}

# slowed FACTOR: the count that takes FACTOR times as long. From 18 on a scan computes while others read for it.
slowed() {
	local hundredths i quals
	hundredths=$(awk -v f="$1" -v alone="$ALONE_MS" -v cached="$CACHED_MS" -v md5="$MD5_MS" -v major="$MAJOR" \
		'BEGIN { printf "%d", 100 * (f * alone - (major < 18 ? alone : cached)) / md5 }')
	quals="(id % 100 >= $((hundredths % 100)) OR md5(pad) <> '')"
	for ((i = 1; i <= hundredths / 100; i++)); do
		quals="$quals AND md5(pad) <> '$i'"
	done
	printf 'SELECT count(*) FROM big WHERE %s' "$quals"
}

# --- company ---------------------------------------------------------------------------------------------------------

# over_and_over OPTIONS STATEMENTS
over_and_over() {
	printf '%s\n' "$2" | as_user tee "$WORK/company.pgbench" >/dev/null
	(become_user env "$NAMED" "PGOPTIONS=$1" "$BIN/pgbench" -n -T 3600 -f "$WORK/company.pgbench" postgres \
		>"$WORK/company.log" 2>&1) &
	COMPANY+=($!)
	until_seen 1 "AND query <> ''"
}

# A client that does not read: nobody takes anything out of the pipe.
hang() {
	rm -f "$WORK/unread"
	mkfifo "$WORK/unread"
	exec 8<>"$WORK/unread"
	(become_user env "$NAMED" "PGOPTIONS=$1" "$BIN/psql" -X -q -d postgres -c "COPY (SELECT * FROM big) TO STDOUT" \
		>"$WORK/unread" 2>"$WORK/company.log" 8<&-) &
	COMPANY+=($!)
	until_seen 1 "AND wait_event = 'ClientWrite'"
}

# begin_company KIND OPTIONS
begin_company() {
	COMPANY=()
	case $1 in
		none) return ;;
		equal) over_and_over "$2" "SELECT count(*) FROM big" ;;
		alike) over_and_over "$2" "$(slowed 1.3)" ;;
		slower) over_and_over "$2" "$(slowed 3.5)" ;;
		slowest) over_and_over "$2" "$(slowed 20)" ;;
		limit) over_and_over "$2" "SELECT id FROM big LIMIT 1" ;;
		exists) over_and_over "$2" "SELECT EXISTS (SELECT 1 FROM big)" ;;
		dml) over_and_over "$2" "BEGIN; DELETE FROM big WHERE id % 1000 = 0; ROLLBACK" ;;
		hung) hang "$2" ;;
		cursor)
			open_session "$2"
			tell "BEGIN; DECLARE c CURSOR FOR SELECT * FROM big; MOVE 1000 IN c"
			;;
		*) die "no such company: $1" ;;
	esac
	sleep 0.2                   # it is under way
}

# end_company KIND: what it is at is cut short; what it has counted is there afterwards.
end_company() {
	case $1 in
		none) return ;;
		cursor) close_session; return ;;
	esac
	kill -0 "${COMPANY[@]}" 2>/dev/null || { show_tail "$WORK/company.log"; die "the company has failed"; }
	sql "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'company'" >/dev/null
	[ "$1" != hung ] || kill "${COMPANY[@]}"
	wait "${COMPANY[@]}" 2>/dev/null
	[ "$1" != hung ] || exec 8<&-
	until_seen 0 ""
}

# --- what is measured beside it ---------------------------------------------------------------------------------------

# loop N STATEMENT: as one statement.
loop() {
	echo "DO 'DECLARE x int; BEGIN FOR i IN 1..$1 LOOP $2; END LOOP; END'"
}

# times N STATEMENTS: as one command of psql, which is timed as a whole.
times() {
	local i
	for ((i = 0; i < $1; i++)); do printf '%s; ' "$2"; done
}

# What takes microseconds depends on where the system puts two processes: the median of several sessions or slices.
SLICES=5
middle() {
	sort -n | awk '{ v[NR] = $1 } END { if (NR > 0) print v[int((NR + 1) / 2)] }'
}

make_look() {
	sql "CREATE FUNCTION look(n int, pause float8, OUT ms float8) LANGUAGE plpgsql AS '
		DECLARE began timestamptz;
		BEGIN
			ms := 0;
			FOR i IN 1..n LOOP
				IF pause > 0 AND i % 10 = 1 THEN PERFORM pg_sleep(pause); END IF;
				began := clock_timestamp();
				PERFORM EXISTS (SELECT 1 FROM big);
				ms := ms + 1000 * extract(epoch FROM clock_timestamp() - began);
			END LOOP;
		END'"
}

# looking N PAUSE OPTIONS: milliseconds of a slice of N times EXISTS, with a pause of PAUSE seconds before each tenth,
# which does not count. Where a read costs, the one that finds its page is over before the company has moved on, and so
# is the next one: without pauses all of a slice would be the one or the other.
looking() {
	local i slices=()
	for ((i = 0; i < SLICES; i++)); do
		slices+=(-c "SELECT ms FROM look($(($1 / SLICES)), $2)")
	done
	as_user env "PGOPTIONS=$3" "$BIN/psql" -X -A -t -q -d postgres "${slices[@]}" | middle
}

# latency N OPTIONS: milliseconds of one transaction of pgbench, of N.
latency() {
	local i
	echo "SELECT id FROM big LIMIT 1;" | as_user tee "$WORK/limit.pgbench" >/dev/null
	for ((i = 0; i < SLICES; i++)); do
		as_user env "PGOPTIONS=$2" "$BIN/pgbench" -n -t $(($1 / SLICES)) -f "$WORK/limit.pgbench" postgres 2>/dev/null |
			sed -n 's/^latency average = \([0-9.]*\) ms/\1/p'
	done | middle
}

# --- figures of time -------------------------------------------------------------------------------------------------

# over CACHE CASE MEASURE: ours over stock's, the median of the rounds' own ratios. So what ran one after the other is
# compared. Where the machine changes its speed for minutes, that moves the ratio of two medians, but not this one.
over() {
	awk -F , -v of="$MAJOR,$1,$2" -v measure="$3" '
		$1 "," $2 "," $3 == of && $5 == measure { value[$4, $7] = $8; rounds = $7 }
		END { for (i = 1; i <= rounds; i++) printf "%.3f\n", value["ours", i] / value["stock", i] }' "$CSV" |
		middle | grep . || die "nothing was recorded for $*"
}

between() {
	awk -v least="$1" -v x="$2" -v most="$3" 'BEGIN { exit !(least < x && x < most) }'
}

# in_rounds COMMAND CACHE CASE MEASURE...: `COMMAND CACHE CASE SIDE SUFFIX` records the measures of one run, those that
# are `in_question`; on both sides, and judged.
in_rounds() {
	local cache=$2 case=$3 what
	RUN_WITH=$1
	shift 3
	QUESTIONS=("$@")
	take_turns "$ROUNDS" times "$SIDES" "$cache" "$case"
	QUESTIONS=()
	for what in "$@"; do
		! between 1.1 "$(over "$cache" "$case" "$what")" 2 || QUESTIONS+=("$what")
	done
	[ ${#QUESTIONS[@]} -eq 0 ] || take_turns "$AGAIN" "$RUN_OFF" "$SIDES" "$cache" "$case"
	show_sides "^$MAJOR,$cache,$case,.*,ms,"
	for what in "$@"; do
		judge_time "$cache" "$case" "$what"
	done
}

# in_question MEASURE: is it to be measured now? In a run-off, only if that is about it.
in_question() {
	local what
	for what in "${QUESTIONS[@]}"; do
		[ "$what" != "$1" ] || return 0
	done
	return 1
}

# run CACHE CASE SIDE ROUNDS: for take_turns.
run() {
	local suffix=''
	[ "$4" != "$RUN_OFF" ] || suffix=" $RUN_OFF"
	"$RUN_WITH" "$1" "$2" "$3" "$suffix"
}

# judge_time CACHE CASE MEASURE
judge_time() {
	local first name="$MAJOR, $1, $2: $3"
	first=$(over "$1" "$2" "$3")
	if in_question "$3"; then
		figure "$name, time over stock's (before the run-off $first)" "$(over "$1" "$2" "$3 $RUN_OFF")" "<=" 1.1
	else
		figure "$name, time over stock's" "$first" "<=" 1.1
	fi
}
