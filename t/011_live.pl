# Claims: every session sees the rings of all the others as they are: which
# buffers are in them, and exactly how far their scans have come.  A ring is
# shown as long as it is read through, and never longer, however that ends.
# What escaped is known by its buffers, can be evicted, and nothing is evicted
# that somebody else uses.

use strict;
use warnings FATAL => 'all';

use FindBin;
use lib $FindBin::RealBin;

use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use RingctlTest;

my $pages = 2000;
my $sum = sum_to($pages);
my $pool = 2048;    # shared_buffers; as many escapes are remembered

# Processes that we stopped, and must not leave so.
my @stopped;
END { kill('CONT', @stopped) if @stopped }

# Nobody but the tests' own sessions may clean a page or take a buffer.
my $node = new_node('main');
$node->append_conf(
	'postgresql.conf', q(
session_preload_libraries = 'pg_ringctl'
restart_after_crash = on
synchronize_seqscans = off
bgwriter_lru_maxpages = 0
checkpoint_timeout = 1h
max_parallel_workers = 8
));
start_with_buffercache($node);
$node->safe_psql(
	'postgres', q(
CREATE EXTENSION pg_ringctl;
CREATE EXTENSION pg_buffercache;

-- Fail at a row, and say how many rings of ours were seen then.
CREATE FUNCTION fail_at(id integer, at integer) RETURNS boolean LANGUAGE plpgsql AS $$
BEGIN
    IF id = at THEN
        RAISE EXCEPTION '% rings', (SELECT count(*) FROM pg_ringctl_rings WHERE pid = pg_backend_pid());
    END IF;
    RETURN true;
END $$));
create_barrier($node);
load_table($node, $_, $pages) foreach qw(big other);
my $observer = session($node);
my $io_workers =
  $node->pg_version >= 18 && ask('SHOW io_method') eq 'worker';

ring_and_its_buffers();
turns_and_rescans();
small_tables();
two_rings_of_a_session();
pages_that_are_evicted();
parallel_scan();
prewarm();
ways_to_end();
terminated_sessions();
switched_off();
pollution();
nothing_is_pinned($node, $_, 'live rings') foreach qw(big other);
$observer->quit;
$node->stop;
log_is_clean($node, 'live rings');

# From here on with an empty pool, in which nobody has to take buffers.
$node->start;
$observer = session($node);
observed_escapes();
reclaim_leaves_what_is_used();
reclaim_by_relation();
log_of_escapes_is_bounded();
buffers_of_another_table();
nothing_is_pinned($node, $_, 'escapes') foreach qw(big other);
log_is_clean($node, 'escapes');

killed_session();
$observer->quit;
$node->stop;
done_testing();


sub ask
{
	my ($query) = @_;

	return $observer->query_safe($query);
}

# Columns of the rings of a process, a line for each.
sub rings
{
	my ($pid, $columns) = @_;

	return ask("SELECT $columns FROM pg_ringctl_rings WHERE pid = $pid ORDER BY ringid");
}

sub no_ring
{
	my ($pid, $name) = @_;

	local $Test::Builder::Level = $Test::Builder::Level + 1;
	is( ask("SELECT count(*), (SELECT count(*) FROM pg_ringctl_ring_slots($pid)) FROM pg_ringctl_rings WHERE pid = $pid"),
		'0|0',
		"$name: no ring is left");
}

# How far the only ring of a process has come.
sub has_done
{
	my ($pid, $blocks, $name) = @_;

	local $Test::Builder::Level = $Test::Builder::Level + 1;
	is( rings($pid, 'blocks_done, blocks_done + look_ahead <= blocks_total'),
		"$blocks|t", $name);
}

# Have no page of the table in shared buffers.
sub evict
{
	my ($table) = @_;

	evict_pages($observer, $table);
	is( ask("SELECT count(*) FROM pg_buffercache WHERE relfilenode = pg_relation_filenode('$table')"),
		'0',
		"no page of $table is cached");
}

# What a scan has asked for and not got yet may have a buffer without a page.
# Where others read for it, wait until they have.
sub wait_for_reads
{
	return if !$io_workers;
	$node->poll_query_until(
		'postgres', q(
SELECT count(*) = 0 FROM pg_ringctl_ring_slots() s JOIN pg_buffercache b USING (bufferid)
 WHERE b.relfilenode IS NULL))
	  or die 'the reads do not come to their end';
}

# A session in a transaction, with a cursor over the table.
sub session_with_cursor
{
	my ($table, $rows, %settings) = @_;
	my $session = session_with($node, %settings);

	$session->query_safe(
		"BEGIN; DECLARE c CURSOR FOR SELECT id FROM $table; MOVE $rows FROM c");
	return ($session, pid_of($session));
}

# The slots of a process's only ring are the buffers of the table.
sub slots_are_right
{
	my ($pid, $table, $name) = @_;

	local $Test::Builder::Level = $Test::Builder::Level + 1;
	wait_for_reads();
	is( ask(qq(
SELECT count(*) = max(r.ring_buffers) AND min(s.slot) = 0 AND
           max(s.slot) = max(r.ring_buffers) - 1 AND count(DISTINCT s.slot) = count(*),
       count(*) FILTER (WHERE s.pid = r.pid AND s.datid = r.datid AND s.relid = r.relid) = count(*),
       count(*) FILTER (WHERE s.is_current), bool_and(s.is_current = (s.slot = r.current_slot)),
       count(s.bufferid) > 0 AND count(s.bufferid) = max(r.occupied) AND
           count(s.bufferid) = count(DISTINCT s.bufferid),
       count(s.relblocknumber) = count(DISTINCT s.relblocknumber)
  FROM pg_ringctl_rings r JOIN pg_ringctl_ring_slots($pid) s USING (ringid))),
		't|t|1|t|t|t',
		"$name: the slots");
	is( ask(qq(
SELECT count(*) FILTER (WHERE (s.bufferid IS NULL) <> (s.relblocknumber IS NULL)),
       count(*) FILTER (WHERE s.bufferid IS NOT NULL AND s.holds_own_block IS NOT TRUE),
       count(*) FILTER (WHERE b.relfilenode IS NOT NULL AND
           (b.relfilenode, b.relforknumber, b.relblocknumber, b.isdirty, b.usagecount, b.pinning_backends) IS DISTINCT FROM
           (pg_relation_filenode('$table'), 0::smallint, s.relblocknumber, s.isdirty, s.usagecount::smallint, s.pinning_backends)),
       count(*) FILTER (WHERE s.bufferid IS NOT NULL AND b.relfilenode IS NULL) <= max(r.look_ahead)
  FROM pg_ringctl_rings r JOIN pg_ringctl_ring_slots($pid) s USING (ringid) LEFT JOIN pg_buffercache b USING (bufferid))),
		'0|0|0|t',
		"$name: their buffers");
}

sub ring_and_its_buffers
{
	my $name = 'a held scan';

	evict('big');
	my ($session, $pid) = session_with_cursor('big', 100);

	is( rings(
			$pid, q(
leader_pid IS NULL, datid = (SELECT oid FROM pg_database WHERE datname = current_database()), datname,
relid = 'big'::regclass, relname, kind, ringid > 0)),
		't|t|postgres|t|big|seqscan|t',
		"$name: whose it is");

	# It began with the size that was said, and may have grown.
	my ($source, $buffers) = split(
		/\|/,
		$session->query_safe(
			q(SELECT source, ring_buffers FROM pg_ringctl_resolve('big'))));
	is(rings($pid, "source, ring_buffers >= $buffers"),
		"$source|t", "$name: its ring");
	is( rings(
			$pid,
			q(ring_buffers > 0, ring_kb = ring_buffers * current_setting('block_size')::integer / 1024, blocks_total)
		),
		"t|t|$pages",
		"$name: its size");
	is( rings(
			$pid,
			"started <= clock_timestamp() AND started >= (SELECT xact_start FROM pg_stat_activity WHERE pid = $pid)"
		),
		't',
		"$name: when it started");

	my $done = 100;
	has_done($pid, $done, "$name: as many blocks as rows");
	foreach my $rows (0, 1, 1, 10, 500, 700)
	{
		is( scalar(
				split(/\n/, $session->query_safe("FETCH FORWARD $rows FROM c"))),
			$rows, "$name: fetch $rows")
		  if $rows > 0;
		$done += $rows;
		has_done($pid, $done, "$name: $done blocks");
		slots_are_right($pid, 'big', "$name, $done blocks");

		# All was read, in order, and nothing escaped.
		is( rings(
				$pid, qq(
occupied = fills, occupied = least(ring_buffers, fills + reuses),
fills + reuses BETWEEN blocks_done AND blocks_done + look_ahead,
escapes_pinned, escapes_dirty, escapes_adopted,
fills + reuses = (SELECT max(relblocknumber) + 1 FROM pg_ringctl_ring_slots($pid)))),
			't|t|t|0|0|0|t',
			"$name, $done blocks: the counters");
		is( ask(qq(
SELECT array_agg(relblocknumber ORDER BY relblocknumber) =
       (SELECT array_agg(relblocknumber ORDER BY relblocknumber) FROM pg_buffercache
         WHERE relfilenode = pg_relation_filenode('big') AND relforknumber = 0)
  FROM pg_ringctl_ring_slots($pid) s JOIN pg_buffercache b USING (bufferid, relblocknumber))),
			't',
			"$name, $done blocks: all that is cached of the table is in the ring");
	}
	is(rings($pid, 'reuses > 0'), 't', "$name: the ring came round");

	my $slots = rings($pid, 'ring_buffers');
	my $my_pid = ask('SELECT pg_backend_pid()');
	is( join(
			'|',
			map {
				ask("SELECT count(*) FROM pg_ringctl_ring_slots($_) WHERE pid = $pid")
			} ('', 'NULL', $pid, 0, -1, $my_pid, 2147483647)),
		"$slots|$slots|$slots|0|0|0|0",
		"$name: whom one asks for");

	$session->query_safe('COMMIT');
	no_ring($pid, "$name: commit");
	$session->quit;
}

# Blocks are counted as they are handed out, in whatever order.
sub turns_and_rescans
{
	my $session = session($node);
	my $pid = pid_of($session);

	$session->query_safe(
		'BEGIN; DECLARE c SCROLL CURSOR FOR SELECT id FROM big; MOVE 600 FROM c');
	has_done($pid, 600, 'forward');
	my $ringid = rings($pid, 'ringid');
	is($session->query_safe('MOVE BACKWARD 9 FROM c; FETCH BACKWARD 1 FROM c'),
		590, 'backward');
	has_done($pid, 610, 'backward: ten more blocks');
	slots_are_right($pid, 'big', 'backward');
	$session->query_safe('MOVE 20 FROM c');
	has_done($pid, 630, 'forward again');
	slots_are_right($pid, 'big', 'forward again');

	# From its first row on again, from the middle and from the end.
	foreach my $before ('the middle', 'the end')
	{
		is($session->query_safe('FETCH FIRST FROM c'), 1, "rescan from $before");
		has_done($pid, 1, "rescan from $before: anew");
		is(rings($pid, "ringid = $ringid, blocks_total"),
			"t|$pages", "rescan from $before: the same ring");
		$session->query_safe('MOVE 49 FROM c');
		has_done($pid, 50, "rescan from $before: goes on");
		slots_are_right($pid, 'big', "rescan from $before");
		$session->query_safe('MOVE ALL FROM c');
		no_ring($pid, 'the end');
	}
	$session->query_safe('ROLLBACK');
	no_ring($pid, 'rescan');
	$session->quit;
}

# The row stays as long as there are rows to come, and no longer: neither until
# the end of the transaction, nor only until all has been asked for.
sub small_tables
{
	load_table($node, 'small', 64);
	foreach my $threshold (-1, 0)
	{
		my $name = "small table, scan_threshold $threshold";

		evict('small');
		my ($session, $pid) = session_with_cursor('small', 63,
			'pg_ringctl.scan_threshold' => $threshold);
		is( rings($pid, 'blocks_done, look_ahead, blocks_total'),
			'63|1|64',
			"$name: all has been asked for, and it is still shown");
		is( rings($pid, 'source = \'threshold\', ring_kb = 0, ring_buffers = 0, occupied = 0, current_slot IS NULL'),
			$threshold < 0 ? 't|t|t|t|t' : 'f|f|f|f|f',
			"$name: its ring");
		if ($threshold < 0)
		{
			is(ask("SELECT count(*) FROM pg_ringctl_ring_slots($pid)"),
				0, "$name: no ring, no slots");
		}
		else
		{
			slots_are_right($pid, 'small', $name);
		}
		$session->query_safe('MOVE 1 FROM c');
		is(rings($pid, 'blocks_done, look_ahead'),
			'64|0', "$name: the last row, and perhaps another");
		is($session->query_safe('FETCH 1 FROM c'), '', "$name: the end");
		no_ring($pid, "$name: while the cursor is still open");
		is( $node->safe_psql(
				'postgres', "SELECT state FROM pg_stat_activity WHERE pid = $pid"),
			'idle in transaction',
			"$name: and the transaction");
		$session->query_safe('COMMIT');
		$session->quit;
	}

	# The same while the query runs.
	my $gate = close_gate($node);
	my $running = session($node);
	my $running_pid = pid_of($running);
	evict('small');
	start_query($running, 'SELECT sum(id) FROM small WHERE through_gate(id, 64)');
	wait_at_gate($node, $running_pid);
	is(rings($running_pid, 'relname, blocks_done <= 64, blocks_done + look_ahead'),
		'small|t|64', 'small table: at its last row, in a query that runs');
	open_gate($gate);
	is(finish_query($running), sum_to(64), 'small table: the result');
	no_ring($running_pid, 'small table: the end of the query');
	$running->quit;

	# Nothing to read, nothing to show.
	ask('CREATE TABLE empty (id integer)');
	my ($session, $pid) = session_with_cursor('empty', 1);
	no_ring($pid, 'empty table');
	$session->query_safe('COMMIT');
	$session->quit;
}

sub two_rings_of_a_session
{
	my $session = session($node);
	my $pid = pid_of($session);

	$session->query_safe(
		q(
BEGIN; SET LOCAL pg_ringctl.scan_ring = '1MB';
DECLARE c1 CURSOR FOR SELECT id FROM big; DECLARE c2 CURSOR FOR SELECT id FROM other;
MOVE 300 FROM c1; MOVE 200 FROM c2; MOVE 100 FROM c1));
	is( rings($pid, 'relname, source, ring_kb, ring_buffers, blocks_done'),
		"big|scan_ring|1024|128|400\nother|scan_ring|1024|128|200",
		'two cursors: two rings');
	is( ask(qq(
SELECT r.relname, count(*), count(*) FILTER (WHERE s.is_current), count(s.bufferid) = max(r.occupied)
  FROM pg_ringctl_rings r JOIN pg_ringctl_ring_slots($pid) s USING (ringid) GROUP BY 1 ORDER BY 1)),
		"big|128|1|t\nother|128|1|t",
		'two cursors: each with its slots');
	is( ask(qq(
SELECT count(bufferid) > 0, count(bufferid) - count(DISTINCT bufferid) FROM pg_ringctl_ring_slots($pid))),
		't|0',
		'two cursors: no buffer is in both');

	# A ring that has ended may lend its buffers, but never its number.
	my @ringids = split(/\n/, rings($pid, 'ringid'));
	foreach my $round (1 .. 3)
	{
		$session->query_safe(
			'CLOSE c1; DECLARE c1 CURSOR FOR SELECT id FROM big; MOVE 300 FROM c1'
		);
		is(rings($pid, 'relname, blocks_done'),
			"other|200\nbig|300", 'two cursors: one ends, and another begins');
		push @ringids, (split(/\n/, rings($pid, 'ringid')))[-1];
	}
	is_deeply(
		\@ringids,
		[ sort { $a <=> $b } keys %{ { map { $_ => 1 } @ringids } } ],
		'two cursors: no number is used twice');
	$session->query_safe('COMMIT');
	no_ring($pid, 'two cursors');
	$session->quit;
}

# A buffer without a page is nobody else's: the ring goes on with it.
sub pages_that_are_evicted
{
	my $cached =
	  "SELECT count(*) FROM pg_buffercache WHERE relfilenode = pg_relation_filenode('evicted')";

	load_table($node, 'evicted', 1000);
	$node->safe_psql('postgres', 'VACUUM (FREEZE) evicted');
	evict('evicted');
	my ($session) =
	  session_with_cursor('evicted', 400, 'pg_ringctl.scan_ring' => '512kB');

	wait_for_reads();
	is(ask($cached), '64', 'evicted: the ring is full');
	evict_pages($observer, 'evicted');
	cmp_ok(ask($cached), '<', 50,
		'evicted: its pages go, but for those that are pinned');
	is($session->query_safe('FETCH 1 FROM c; MOVE ALL FROM c; COMMIT'),
		'401', 'evicted: the scan goes on');
	is( counters(
			$node, 'evicted',
			'blks_read, fills, slots_lost, escapes_pinned + escapes_dirty + escapes_adopted'),
		'1000|64|0|0',
		'evicted: in the same buffers');
	$session->quit;
}

# All processes of a parallel query are held at the barrier.
sub parallel_scan
{
	foreach my $leader_participation (qw(on off))
	{
		my $name = "parallel_leader_participation $leader_participation";
		my $processes = $leader_participation eq 'on' ? 3 : 2;
		my $barrier = session($node);
		my $session = session_with(
			$node,
			max_parallel_workers_per_gather => 2,
			parallel_leader_participation => $leader_participation);
		my $pid = pid_of($session);

		$barrier->query_safe(
			'BEGIN; LOCK barrier IN ACCESS EXCLUSIVE MODE');
		start_query($session,
			'SELECT sum(id) FROM big WHERE through_barrier(id, 1000)');
		$node->poll_query_until(
			'postgres', qq(
SELECT count(*) = $processes FROM pg_stat_activity
 WHERE (pid = $pid OR leader_pid = $pid) AND wait_event = 'relation'))
		  or die 'the processes do not come to the barrier';

		is( ask(qq(
SELECT count(*), count(r.pid), count(DISTINCT r.ringid), count(*) FILTER (WHERE a.leader_pid IS DISTINCT FROM r.leader_pid),
       count(*) FILTER (WHERE r.leader_pid = $pid),
       count(*) FILTER (WHERE r.relid = 'big'::regclass AND r.blocks_total = $pages AND r.kind = 'seqscan' AND r.ring_buffers > 0)
  FROM pg_stat_activity a FULL JOIN pg_ringctl_rings r USING (pid)
 WHERE r.pid IS NOT NULL OR a.wait_event = 'relation')),
			"$processes|$processes|$processes|0|2|$processes",
			"$name: a ring for each process");
		is( ask(
				"SELECT sum(blocks_done) <= $pages, sum(blocks_done + look_ahead) BETWEEN 999 AND $pages FROM pg_ringctl_rings"
			),
			't|t',
			"$name: each block is somebody's");

		$barrier->query_safe('COMMIT');
		$barrier->quit;
		is(finish_query($session), $sum, "$name: the result");
		is(ask('SELECT count(*) FROM pg_ringctl_rings'),
			0, "$name: no ring is left");
		$session->quit;
	}
}

# A prewarm can be held where others read for it.
sub prewarm
{
	my $session = session($node);
	my $pid = pid_of($session);

	evict('big');
	is( $session->query_safe(
			"SELECT blocks, ring_buffers FROM pg_ringctl_prewarm('big', 512)"),
		"$pages|64",
		'prewarm');
	no_ring($pid, 'prewarm');

  SKIP:
	{
		skip 'no process reads for another one', 15 if !$io_workers;

		my $range = "pg_ringctl_prewarm('big', 512, first_block => 1000)";
		my $list =
		  "pg_ringctl_prewarm_blocks('big', ARRAY(SELECT generate_series(1000::bigint, $pages - 1)), 512)";

		foreach my $held ([ 'end', $range ], [ 'cancel', $range ], [ 'cancel', $list ])
		{
			my ($end, $what) = @$held;
			my $name = "held prewarm, $end" . ($what eq $list ? ', of blocks' : '');

			evict('big');
			@stopped = split(/\n/,
				ask("SELECT pid FROM pg_stat_activity WHERE backend_type = 'io worker'"));
			kill('STOP', @stopped) == @stopped or die 'cannot stop the I/O workers';
			start_query($session, "SELECT blocks FROM $what");
			$node->poll_query_until('postgres',
				"SELECT wait_event = 'AioIoCompletion' FROM pg_stat_activity WHERE pid = $pid"
			) or die 'the prewarm does not wait';
			is( rings(
					$pid,
					'relname, kind, source, ring_kb, ring_buffers, blocks_done, blocks_total, look_ahead > 0'
				),
				'big|prewarm|argument|512|64|0|' . ($pages - 1000) . '|t',
				"$name: its ring");
			ask("SELECT pg_cancel_backend($pid)") if $end eq 'cancel';
			kill('CONT', @stopped) if $end eq 'end';
			is(finish_query($session), $end eq 'end' ? $pages - 1000 : '', $name);
			no_ring($pid, $name);
			kill('CONT', @stopped);
			@stopped = ();
			$session->{stderr} = '';
			nothing_is_pinned($node, 'big', $name);
		}
	}
	$session->quit;
}

# However a scan ends while its session goes on, its ring was seen before, and
# is not seen any more.
sub ways_to_end
{
	my $session = session($node);
	my $pid = pid_of($session);

	is($session->query_safe('SELECT sum(id) FROM big'), $sum, 'a scan');
	no_ring($pid, 'the scan has come to its end');
	is($session->query_safe('SELECT id FROM big LIMIT 1'), 1, 'a part of a scan');
	no_ring($pid, 'the statement has come to its end');

	# errors
	fails($session, 'SELECT sum(id) FROM big WHERE fail_at(id, 1000)',
		qr/ERROR:  1 rings/, 'error: the scan fails, and was seen');
	no_ring($pid, 'error');
	is( $session->query_safe(
			q(
BEGIN;
CREATE FUNCTION pg_temp.caught() RETURNS text LANGUAGE plpgsql AS $$
BEGIN
    PERFORM sum(id) FROM big WHERE fail_at(id, 1000);
EXCEPTION WHEN raise_exception THEN
    RETURN SQLERRM;
END $$;
SELECT pg_temp.caught())),
		'1 rings',
		'error that is caught: the scan fails, and was seen');
	no_ring($pid, 'error that is caught');
	is( $session->query_safe(
			'DECLARE c CURSOR FOR SELECT 1 / (id - 1000) FROM big; MOVE 500 FROM c; SELECT 1'
		),
		1,
		'the transaction goes on after an error that was caught');
	has_done($pid, 500, 'and has a ring');
	fails($session, 'MOVE 1000 FROM c', qr/division by zero/, 'error in a cursor');
	no_ring($pid, 'error in a cursor');
	$session->query_safe('ROLLBACK');

	# cursors that are abandoned
	foreach my $end ('CLOSE c', 'ROLLBACK TO s', 'ROLLBACK', 'COMMIT', 'CLOSE ALL')
	{
		$session->query_safe(
			'BEGIN; SAVEPOINT s; DECLARE c CURSOR FOR SELECT id FROM big; MOVE 700 FROM c'
		);
		has_done($pid, 700, "before $end");
		$session->query_safe($end);
		no_ring($pid, "after $end");
		$session->query_safe('COMMIT') if $end =~ /CLOSE|TO/;
	}
	$session->query_safe(
		'BEGIN; DECLARE h CURSOR WITH HOLD FOR SELECT id FROM big; MOVE 700 FROM h');
	has_done($pid, 700, 'cursor WITH HOLD');
	$session->query_safe('COMMIT');
	no_ring($pid, 'cursor WITH HOLD, after COMMIT');
	is($session->query_safe('FETCH 1 FROM h; CLOSE h'),
		701, 'cursor WITH HOLD: goes on');

	# a cancel
	my $gate = close_gate($node);
	start_query($session, 'SELECT sum(id) FROM big WHERE through_gate(id, 1000)');
	wait_at_gate($node, $pid);
	is(rings($pid, 'relname, blocks_done BETWEEN 1 AND 1000, blocks_done + look_ahead >= 1000'),
		'big|t|t', 'a scan at the gate');
	ask("SELECT pg_cancel_backend($pid)");
	finish_query($session);
	like(
		$session->{stderr},
		qr/canceling statement due to user request/,
		'cancel: the query fails');
	$session->{stderr} = '';
	no_ring($pid, 'cancel');
	open_gate($gate);
	is(ask('SELECT count(*) FROM pg_ringctl_rings'), 0, 'no ring of anybody is left');
	nothing_is_pinned($node, 'big', 'ways to end');
	$session->quit;
}

# The session ends with its scan: in the middle of a query, or between two.
sub terminated_sessions
{
	my $gate = close_gate($node);
	my $running = session($node);
	my $running_pid = pid_of($running);
	my ($pausing, $pausing_pid) = session_with_cursor('other', 300);
	my ($client, $client_pid) = session_with_cursor('other', 400);

	start_query($running, 'SELECT sum(id) FROM big WHERE through_gate(id, 1000)');
	wait_at_gate($node, $running_pid);
	is( ask(qq(
SELECT count(*) FROM pg_ringctl_rings WHERE pid IN ($running_pid, $pausing_pid, $client_pid))),
		3,
		'three sessions with a ring');
	foreach my $pid ($running_pid, $pausing_pid)
	{
		is( ask(
				"SELECT pg_terminate_backend($pid, 1000 * $PostgreSQL::Test::Utils::timeout_default)"
			),
			't',
			'terminate');
		no_ring($pid, 'terminate');
	}
	$_->{run}->kill_kill foreach ($running, $pausing);
	open_gate($gate);

	has_done($client_pid, 400, 'the session that is left');
	$client->quit;
	$node->poll_query_until('postgres',
		"SELECT count(*) = 0 FROM pg_stat_activity WHERE pid = $client_pid")
	  or die 'the session does not end';
	is(ask('SELECT count(*) FROM pg_ringctl_rings'), 0, 'the client leaves');
	nothing_is_pinned($node, $_, 'terminate') foreach qw(big other);
}

# With the kill switch thrown a ring that is in use is let go; it can still be
# seen, and whoever looks is not disturbed.
sub switched_off
{
	my ($session, $pid) = session_with_cursor('big', 300);
	my $ring = rings($pid, 'ringid, relname, ring_buffers');
	my $rows;

	switch($node, 'off');
	is($_->query_safe('SHOW pg_ringctl.enabled'), 'off', 'kill switch: off')
	  foreach ($session, $observer);
	is(rings($pid, 'ringid, relname, ring_buffers'),
		$ring, 'kill switch: the view is there, and the ring');
	has_done($pid, 300, 'kill switch: where it was');
	slots_are_right($pid, 'big', 'kill switch');

	$session->query_safe('MOVE 700 FROM c');
	has_done($pid, 1000, 'kill switch: the scan goes on, and is seen');
	wait_for_reads();
	is( ask(qq(
SELECT count(*) = max(ring_buffers), count(s.bufferid) = max(occupied)
  FROM pg_ringctl_ring_slots($pid) s JOIN pg_ringctl_rings USING (ringid))),
		't|t',
		'kill switch: its slots');
	$rows = () = $session->query_safe('FETCH ALL FROM c') =~ /\d+/g;
	is($rows, $pages - 1000, 'kill switch: the rest of the rows');
	no_ring($pid, 'kill switch: the scan has come to its end');
	is(ask('SELECT count(*) FROM pg_ringctl_escapes WHERE bufferid IS NULL'),
		0, 'kill switch: the log can be read');
	$session->query_safe('COMMIT');
	$session->quit;

	# A new one is not shown.
	($session, $pid) = session_with_cursor('big', 300);
	no_ring($pid, 'kill switch: a new scan');
	$session->quit;

	switch($node, 'on');
	is(ask('SHOW pg_ringctl.enabled'), 'on', 'kill switch: on again');
}

# The view agrees with pg_buffercache in every relation, and with the rings.
sub agrees_on_pollution
{
	my ($name) = @_;

	local $Test::Builder::Level = $Test::Builder::Level + 1;
	my $query = q(
WITH p AS MATERIALIZED (SELECT * FROM pg_ringctl_pollution()),
     b AS MATERIALIZED (SELECT reltablespace, reldatabase, relfilenode, count(*) AS buffers,
                               count(*) FILTER (WHERE isdirty) AS dirty
                          FROM pg_buffercache WHERE relfilenode IS NOT NULL GROUP BY 1, 2, 3)
SELECT count(*) > 0, sum(p.buffers) = sum(b.buffers),
       count(*) FILTER (WHERE (p.buffers, p.dirty) IS DISTINCT FROM (b.buffers, b.dirty)),
       sum(p.in_ring) = (SELECT count(*) FROM pg_ringctl_ring_slots() JOIN pg_buffercache USING (bufferid, relblocknumber)),
       sum(p.escaped) = (SELECT count(*) FROM pg_ringctl_escapes),
       count(*) FILTER (WHERE p.in_ring + p.escaped > p.buffers)
  FROM p FULL JOIN b USING (reltablespace, reldatabase, relfilenode));
	ask($query);    # has what it needs itself read
	is(ask($query), 't|t|0|t|t|0',
		"$name: pg_ringctl_pollution agrees with the rest");
}

sub pollution
{
	my ($session, $pid) = session_with_cursor('big', 1200);
	my $slots =
	  "SELECT count(*) FROM pg_ringctl_ring_slots($pid) JOIN pg_buffercache USING (bufferid, relblocknumber)";
	my $columns = q(
SELECT in_ring, buffers >= in_ring, relid = 'big'::regclass, datname,
       share = buffers::float8 / (SELECT setting::integer FROM pg_settings WHERE name = 'shared_buffers')
  FROM pg_ringctl_pollution WHERE relname = 'big');
	my $map = q(SELECT line FROM pg_ringctl_map() line WHERE line ~ '^R .* ring ');

	wait_for_reads();
	my $occupied = ask($slots);
	is( rings($pid, "$occupied > 0, $occupied BETWEEN occupied - look_ahead AND occupied"),
		't|t',
		'pollution: a scan is held');
	is($occupied, rings($pid, 'occupied'), 'pollution: all has been read')
	  if $io_workers;
	is(ask($columns), "$occupied|t|t|postgres|t", 'pollution: of its table');
	agrees_on_pollution('with a ring');
	like(ask($map), qr/^R  in a ring +$occupied /, 'map: with a ring');

	$session->query_safe('COMMIT');
	is(ask($columns), '0|t|t|postgres|t', 'pollution: the ring is gone');
	agrees_on_pollution('without a ring');
	like(ask($map), qr/^R  in a ring +0 /, 'map: without a ring');
	$session->quit;
}

# Scan tables whose every page the scan dirties, and let the pages escape.
sub let_escape
{
	my (%tables) = @_;
	my $session = session_with($node, 'pg_ringctl.mode' => 'observe');

	foreach my $table (sort keys %tables)
	{
		evict($table);
		is($session->query_safe("SELECT sum(id) FROM $table"),
			sum_to($tables{$table}), "$table is scanned for the first time");
	}
	$session->quit;
}

# Every escape that is shown is a page in a buffer.
sub escapes_are_right
{
	my ($name) = @_;

	local $Test::Builder::Level = $Test::Builder::Level + 1;
	is( ask(
			q(
SELECT count(*) > 0, count(*) - count(DISTINCT bufferid),
       count(*) FILTER (WHERE (b.relfilenode, b.relforknumber, b.relblocknumber, b.isdirty, b.usagecount) IS DISTINCT FROM
                              (pg_relation_filenode(e.relid), e.relforknumber, e.relblocknumber, e.isdirty, e.usagecount)),
       count(*) FILTER (WHERE e.reason NOT IN ('pinned', 'dirty', 'adopted') OR e.datid <> b.reldatabase OR
                              e.relname <> e.relid::regclass::text OR e.escaped_at > clock_timestamp() OR e.pid <= 0)
  FROM pg_ringctl_escapes e LEFT JOIN pg_buffercache b USING (bufferid))),
		't|0|0|0',
		"$name: what escaped is in these buffers");
}

# Reclaim evicts what it should, and nothing else.
sub reclaims
{
	my ($argument, $which, $name) = @_;
	my ($evicted, $flushed, $skipped) = split(
		/\|/,
		ask(qq(
WITH e AS (SELECT e.*, pinning_backends = 0 AND e.usagecount <= 1 AND reason <> 'adopted' AS goes
             FROM pg_ringctl_escapes e JOIN pg_buffercache b USING (bufferid) WHERE $which)
SELECT count(*) FILTER (WHERE goes), count(*) FILTER (WHERE goes AND isdirty), count(*) FILTER (WHERE NOT goes) FROM e)
		));
	my $buffers =
	  'SELECT count(*) FROM pg_buffercache WHERE relfilenode >= 16384';	# no catalogs
	my $other = "SELECT count(*) FROM pg_ringctl_escapes e WHERE NOT ($which)";
	my $others = ask($other);
	my $before = ask($buffers);

	local $Test::Builder::Level = $Test::Builder::Level + 1;
	is( ask("SELECT buffers_evicted, buffers_flushed, buffers_skipped FROM pg_ringctl_reclaim($argument)"),
		"$evicted|$flushed|$skipped",
		"$name: reclaim");
	is($before - ask($buffers), $evicted, "$name: so many buffers are free");
	is(ask("SELECT count(*) FROM pg_ringctl_escapes e WHERE $which"),
		$skipped, "$name: and so many escapes are left");
	is(ask($other), $others, "$name: others are left alone");
	return ($evicted, $flushed, $skipped);
}

sub observed_escapes
{
	my $name = 'observed scan';

	load_table($node, 'observed', 800);
	let_escape(observed => 800);
	escapes_are_right($name);
	is( ask(
			q(
SELECT count(*) FILTER (WHERE reason = 'dirty') > 0,
       count(*) FILTER (WHERE reason = 'pinned') BETWEEN max(escapes_pinned) - 0.05 * max(blks_read) AND max(escapes_pinned),
       count(*) FILTER (WHERE reason = 'dirty') = max(escapes_dirty),
       count(*) FILTER (WHERE reason = 'adopted') = max(escapes_adopted)
  FROM pg_ringctl_escapes JOIN pg_ringctl_stats USING (relid)
 WHERE relid = 'observed'::regclass)),
		't|t|t|t',
		"$name: every escape that was counted is shown");
	agrees_on_pollution($name);

	my ($evicted, $flushed) =
	  reclaims(q('observed'), q(e.relname = 'observed'), $name);
	ok($flushed > 0 && $evicted >= $flushed, "$name: dirty pages were written");
	is($node->safe_psql('postgres', 'SELECT sum(id) FROM observed'),
		sum_to(800), "$name: the rows are still there");

	# Clean ones need not be written.
	load_table($node, 'clean', 800);
	let_escape(clean => 800);
	ask('CHECKPOINT');
	escapes_are_right("$name, after a checkpoint");
	($evicted, $flushed) = reclaims(q('clean'), q(e.relname = 'clean'),
		"$name, after a checkpoint");
	ok($evicted > 0 && $flushed == 0,
		"$name, after a checkpoint: there was nothing to write");
	is( ask(q(SELECT buffers_evicted, buffers_flushed, buffers_skipped FROM pg_ringctl_reclaim('clean'))),
		'0|0|0',
		"$name: nothing is left to reclaim");
}

sub reclaim_leaves_what_is_used
{
	my $name = 'used pages';
	my $session = session_with($node, 'pg_ringctl.scan_ring' => '1MB');

	load_table($node, 'used', 800);
	let_escape(used => 800);

	# A scan through a ring pins its page, but does not count as another use.
	my $block = ask(
		q(
SELECT min(relblocknumber) FROM pg_ringctl_escapes
 WHERE relname = 'used' AND reason <> 'adopted' AND usagecount <= 1));
	$session->query_safe(
		"BEGIN; DECLARE c CURSOR FOR SELECT id FROM used WHERE id > $block; MOVE 1 FROM c"
	);

	# Another page is used again, and again.
	my $again = ask(
		q(
SELECT max(relblocknumber) FROM pg_ringctl_escapes
 WHERE relname = 'used' AND reason <> 'adopted' AND usagecount <= 1));
	ask("SELECT id FROM used WHERE ctid = '($again,1)'") foreach 1 .. 2;

	my $states = qq(
SELECT relblocknumber, b.pinning_backends, e.usagecount > 1
  FROM pg_ringctl_escapes e JOIN pg_buffercache b USING (bufferid, relblocknumber)
 WHERE relname = 'used' AND relblocknumber IN ($block, $again) ORDER BY 1);
	wait_for_reads();
	is(ask($states), "$block|1|f\n$again|0|t",
		"$name: one is pinned, another one used again");
	my ($evicted, $flushed, $skipped) =
	  reclaims(q('used'), q(e.relname = 'used'), $name);
	ok($evicted > 0 && $skipped >= 2, "$name: some are left");
	is(ask($states), "$block|1|f\n$again|0|t", "$name: these two");

	$session->query_safe('COMMIT');
	nothing_is_pinned($node, 'used', $name);
	reclaims(q('used'), q(e.relname = 'used'), "$name, after the scan");
	is(ask($states), "$again|0|t", "$name: the one that was pinned is gone");
	$session->quit;
}

# A session that leaves the pages behind which its scans dirty.
sub leaving_session
{
	return session_with(
		$node,
		'pg_ringctl.dirty_pages' => 'leave',
		'pg_ringctl.scan_ring' => '64kB',
		'pg_ringctl.scan_threshold' => 0);
}

# Let the pages of a new table escape.
sub leave_behind
{
	my ($table) = @_;
	my $session = leaving_session();

	evict($table);
	$session->query_safe("SELECT sum(id) FROM $table");
	$session->quit;
}

# Of one table, of a table with its partitions, of everything.
sub reclaim_by_relation
{
	my $name = 'reclaim';

	load_table($node, $_, 100) foreach qw(single1 single2);
	ask(
		q(
CREATE TABLE parent (id integer, filler text) PARTITION BY RANGE (id);
CREATE TABLE part1 PARTITION OF parent FOR VALUES FROM (1) TO (101) WITH (fillfactor = 10);
CREATE TABLE part2 PARTITION OF parent FOR VALUES FROM (101) TO (201) PARTITION BY RANGE (id);
CREATE TABLE part21 PARTITION OF part2 FOR VALUES FROM (101) TO (201) WITH (fillfactor = 10);
INSERT INTO parent SELECT n, repeat('x', 600) FROM generate_series(1, 200) n));
	foreach my $table (qw(single1 single2 part1 part21))
	{
		leave_behind($table);
		ok( ask("SELECT count(*) FROM pg_ringctl_escapes WHERE relname = '$table' AND reason = 'dirty'"
			) > 0,
			"$name: $table is left behind");
	}
	escapes_are_right($name);

	is( ask(q(SELECT buffers_evicted, buffers_flushed, buffers_skipped FROM pg_ringctl_reclaim('big'))),
		'0|0|0', "$name: nothing of this table escaped");
	my ($evicted) =
	  reclaims(q('parent'), q(e.relname IN ('part1', 'part21')), "$name, a table with partitions");
	ok($evicted > 0, "$name, a table with partitions: there was something");
	($evicted) = reclaims(q('single1'), q(e.relname = 'single1'), "$name, a table");
	ok($evicted > 0, "$name, a table: there was something");
	($evicted) = reclaims('', 'true', "$name, all");
	ok($evicted > 0, "$name, all: there was something");
	($evicted) = reclaims('NULL', 'true', "$name, again");
	is($evicted, 0, "$name, again: nothing more");
}

# When there are more than buffers, the oldest are forgotten, and counted.
sub log_of_escapes_is_bounded
{
	my $name = 'log of escapes';
	my $counted =
	  'SELECT sum(escapes_pinned + escapes_dirty + escapes_adopted) FROM pg_ringctl_stats()';
	my $dropped = 'SELECT escapes_dropped FROM pg_ringctl_stats_info';
	my $early =
	  q(SELECT count(*) FROM pg_ringctl_escapes WHERE relname = 'early');
	my $cached =
	  q(SELECT count(*) FROM pg_buffercache WHERE relfilenode = pg_relation_filenode('early') AND relforknumber = 0);

	# Its pages stay in the cache, because they are used again and again.
	load_table($node, 'early', 100);
	leave_behind('early');
	ok(ask($early) > 0, "$name: an early one");
	ask('SELECT sum(id) FROM early') foreach 1 .. 4;
	is(ask($cached), 100, "$name: it is in the cache");

	my $before = ask($counted);
	for (my $round = 0; $round < 10 && ask($counted) <= $before + $pool; $round++)
	{
		load_table($node, "flood$round", 600);
		leave_behind("flood$round");

		# A buffer that the server's ring takes and gives up within one read is
		# counted, but nobody saw which one it was.
		my $surplus = ask("SELECT greatest(0, ($counted) - $pool)");
		cmp_ok(ask($dropped), '<=', $surplus,
			"$name, round $round: no more are dropped than are too many");
		cmp_ok(ask($dropped), '>=', $surplus - 0.05 * ask($counted),
			"$name, round $round: and hardly fewer");
		escapes_are_right("$name, round $round");
		evict("flood$round");
	}
	ok(ask($dropped) >= $before, "$name: all are dropped that were there before");
	is(ask("SELECT count(*) <= $pool FROM pg_ringctl_escapes"),
		't', "$name: no more than there may be");
	is(ask($cached), 100, "$name: the early one is still in the cache");
	is(ask($early), 0, "$name: and forgotten");

	rows_add_up($node, $name);

	# A reset counts anew, and forgets nothing.
	load_table($node, 'late', 100);
	leave_behind('late');
	my $late = ask('SELECT count(*) FROM pg_ringctl_escapes');
	ok($late > 0, "$name: a late one");
	ask(q(SELECT pg_ringctl_stats_reset(0, 'late'::regclass)));
	ok(ask($dropped) > 0, "$name: the reset of a table resets nothing else");
	ask('SELECT pg_ringctl_stats_reset()');
	is(ask($dropped), 0, "$name: a reset of all");
	is(ask('SELECT count(*) FROM pg_ringctl_escapes'),
		$late, "$name: a reset forgets nothing");
}

# A session's ring takes over the buffers of its last one: what escapes from it
# may be a page of another table.
sub buffers_of_another_table
{
	my $name = 'buffers of another table';
	my $session = leaving_session();

	load_table($node, $_, 100) foreach qw(first second);
	evict($_) foreach qw(first second);
	$session->query_safe('SELECT sum(id) FROM first');
	ask('SELECT sum(id) FROM first') foreach 1 .. 4;
	$session->query_safe('SELECT sum(id) FROM second');
	escapes_are_right($name);
	$session->quit;
}

# The server starts anew, and so does what it shows.
sub killed_session
{
	my $gate = close_gate($node);
	my $running = session($node);
	my $pid = pid_of($running);
	my ($pausing, $pausing_pid) = session_with_cursor('other', 300);
	my $log = -s $node->logfile;

	start_query($running, 'SELECT sum(id) FROM big WHERE through_gate(id, 1000)');
	wait_at_gate($node, $pid);
	is( ask('SELECT count(*) FROM pg_ringctl_rings'),
		2, 'killed session: two rings');
	ok(kill('KILL', $pid), 'killed session: one dies');
	$node->wait_for_log(qr/all server processes terminated; reinitializing/,
		$log);
	$node->poll_query_until('postgres', 'SELECT true')
	  or die 'the server does not come back';
	$_->{run}->kill_kill foreach ($running, $pausing, $gate, $observer);

	$observer = session($node);
	is( ask(
			q(
SELECT (SELECT count(*) FROM pg_ringctl_rings), (SELECT count(*) FROM pg_ringctl_ring_slots()),
       (SELECT count(*) FROM pg_ringctl_escapes), escapes_dropped,
       (SELECT sum(in_ring + escaped) FROM pg_ringctl_pollution)
  FROM pg_ringctl_stats_info)),
		'0|0|0|0|0',
		'killed session: nothing is shown');
	($running, $pid) = session_with_cursor('big', 300);
	has_done($pid, 300, 'killed session: new ones are');
	slots_are_right($pid, 'big', 'killed session');
	$running->query_safe('COMMIT');
	no_ring($pid, 'killed session');
	$running->quit;
}
