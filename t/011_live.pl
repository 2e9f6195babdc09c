# Claims: every session sees the rings of all the others as they are: which
# buffers are in them, and exactly how far their scans have come.  A ring is
# shown from the moment when it is attached until its scan has asked for the last
# block.

use strict;
use warnings FATAL => 'all';

use FindBin;
use lib $FindBin::RealBin;

use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use RingctlTest;
use RingctlLive;

my $sum = sum_to($pages);

# Processes that we stopped, and must not leave so.
my @stopped;
END { kill('CONT', @stopped) if @stopped }

my $node = new_live_node('main');
create_barrier($node);

ring_and_its_buffers();
first_blocks();
turns_and_rescans();
small_tables();
two_rings_of_a_session();
pages_that_are_evicted();
parallel_scan();
prewarm();
nothing_is_pinned($node, $_, 'live rings') foreach qw(big other);
stop_watching();
$node->stop;
log_is_clean($node, 'live rings');
done_testing();


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
			"scan_start <= clock_timestamp() AND scan_start >= (SELECT xact_start FROM pg_stat_activity WHERE pid = $pid)"
		),
		't',
		"$name: when it started");

	my $done = 100;
	has_done($pid, $done, "$name: as many blocks as rows");
	foreach my $rows (0, 1, 1, 10, 500, 700)
	{
		is( scalar(
				split(
					/\n/, $session->query_safe("FETCH FORWARD $rows FROM c"))
			),
			$rows,
			"$name: fetch $rows") if $rows > 0;
		$done += $rows;
		has_done($pid, $done, "$name: $done blocks");
		slots_are_right($pid, 'big', "$name, $done blocks");

		# All was read, in order, and nothing escaped.
		is( rings(
				$pid, qq(
occupied = fills, occupied = least(ring_buffers, fills + reuses),
fills + reuses BETWEEN blocks_done AND blocks_done + look_ahead,
escapes_pinned, escapes_dirty, escapes_adopted,
fills + reuses = (SELECT max(relblocknumber) + 1 FROM pg_ringctl_ring_slots($pid)))
			),
			't|t|t|0|0|0|t',
			"$name, $done blocks: the counters");
		is( ask(qq(
SELECT array_agg(relblocknumber ORDER BY relblocknumber) =
       (SELECT array_agg(relblocknumber ORDER BY relblocknumber) FROM pg_buffercache
         WHERE relfilenode = pg_relation_filenode('big') AND relforknumber = 0)
  FROM pg_ringctl_ring_slots($pid) s JOIN pg_buffercache b USING (bufferid, relblocknumber))
			),
			't',
			"$name, $done blocks: all that is cached of the table is in the ring"
		);
	}
	is(rings($pid, 'reuses > 0'), 't', "$name: the ring came round");

	my $slots = rings($pid, 'ring_buffers');
	my $my_pid = ask('SELECT pg_backend_pid()');
	is( join(
			'|',
			map {
				ask("SELECT count(*) FROM pg_ringctl_ring_slots($_) WHERE pid = $pid"
				)
			} ('', $pid, 'NULL', 0, -1, $my_pid, 2147483647)),
		"$slots|$slots|0|0|0|0|0",
		"$name: whom one asks for");

	$session->query_safe('COMMIT');
	no_ring($pid, "$name: commit");
	$session->quit;
}

# The server reads the first blocks of a scan: its ring is shown from then on when
# it wants more, and has come as far as the scan.
sub first_blocks
{
	my ($session, $pid) = session_with_cursor('big', 31);

	no_ring($pid, 'first blocks');
	$session->query_safe('MOVE 1 FROM c');
	no_ring($pid, 'the last of the first blocks');
	$session->query_safe('MOVE 1 FROM c');
	has_done($pid, 33, 'one more than the first blocks');
	is(rings($pid, 'blocks_total, fills >= 0'),
		"$pages|t", 'one more than the first blocks: the ring');
	slots_are_right($pid, 'big', 'one more than the first blocks');
	$session->query_safe('COMMIT');
	no_ring($pid, 'first blocks: commit');
	$session->quit;
}

# Blocks are counted as they are handed out, in whatever order.
sub turns_and_rescans
{
	my $session = session($node);
	my $pid = pid_of($session);

	$session->query_safe(
		'BEGIN; DECLARE c SCROLL CURSOR FOR SELECT id FROM big; MOVE 600 FROM c'
	);
	has_done($pid, 600, 'forward');
	my $ringid = rings($pid, 'ringid');
	is( $session->query_safe(
			'MOVE BACKWARD 9 FROM c; FETCH BACKWARD 1 FROM c'),
		590,
		'backward');
	has_done($pid, 610, 'backward: ten more blocks');
	slots_are_right($pid, 'big', 'backward');
	$session->query_safe('MOVE 20 FROM c');
	has_done($pid, 630, 'forward again');
	slots_are_right($pid, 'big', 'forward again');

	# From its first row on again, from the middle and from the end.
	foreach my $before ('the middle', 'the end')
	{
		is($session->query_safe('FETCH FIRST FROM c'),
			1, "rescan from $before");
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

# A small ring, so that a small table, too, has blocks that were not asked for
# yet; it is shown as long as there are any, and no longer.
sub small_tables
{
	my %small_ring = (
		'pg_ringctl.scan_threshold' => 0,
		'pg_ringctl.scan_ring' => '64kB');

	load_table($node, 'small', 64);
	evict('small');
	my ($session, $pid) = session_with_cursor('small', 40, %small_ring);
	has_done($pid, 40, 'small table');
	is( rings(
			$pid,
			'source, ring_kb, ring_buffers, blocks_total, look_ahead > 0'),
		'scan_ring|64|8|64|t',
		'small table: its ring');
	slots_are_right($pid, 'small', 'small table');
	$session->query_safe('MOVE 23 FROM c');
	no_ring($pid, 'small table: all has been asked for');
	is($session->query_safe('FETCH 2 FROM c'),
		64, 'small table: the last row');
	no_ring($pid, 'small table: while the cursor is still open');
	is( ask("SELECT state FROM pg_stat_activity WHERE pid = $pid"),
		'idle in transaction',
		'small table: and the transaction');
	$session->query_safe('COMMIT');
	$session->quit;

	# The same while the query runs.
	my $gate = close_gate($node);
	my $running = session_with($node, %small_ring);
	my $running_pid = pid_of($running);
	evict('small');
	start_query($running,
		'SELECT sum(id) FROM small WHERE through_gate(id, 40)');
	wait_at_gate($node, $running_pid);
	is( rings(
			$running_pid,
			'relname, blocks_done <= 40, blocks_done + look_ahead BETWEEN 40 AND 48'
		),
		'small|t|t',
		'small table: in a query that runs');
	open_gate($gate);
	is(finish_query($running), sum_to(64), 'small table: the result');
	no_ring($running_pid, 'small table: the end of the query');
	$running->quit;

	# A ring has no more slots than the table has blocks.
	evict('small');
	($session, $pid) = session_with_cursor(
		'small', 1,
		'pg_ringctl.scan_threshold' => 0,
		'pg_ringctl.scan_ring' => '1MB',
		effective_io_concurrency => 1,
		io_combine_limit => 1);
	is(rings($pid, 'ring_kb, ring_buffers'),
		'512|64', 'small table, large ring: as large as the table');
	slots_are_right($pid, 'small', 'small table, large ring');
	$session->query_safe('COMMIT');
	$session->quit;

	# What gets no ring is not shown, nor is what there is nothing to read of.
	ask('CREATE TABLE empty (id integer)');
	foreach my $query ('small', 'empty', 'small_without')
	{
		my ($table, $without) = split(/_/, $query);

		($session, $pid) = session_with_cursor(
			$table, 1,
			$query eq 'small' ? () : ('pg_ringctl.scan_threshold' => 0),
			$without          ? ('pg_ringctl.scan_ring' => 0) : ());
		no_ring($pid, "no ring, $query");
		$session->query_safe('COMMIT');
		$session->quit;
	}
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
  FROM pg_ringctl_rings r JOIN pg_ringctl_ring_slots($pid) s USING (ringid) GROUP BY 1 ORDER BY 1)
		),
		"big|128|1|t\nother|128|1|t",
		'two cursors: each with its slots');
	is( ask(qq(
SELECT count(bufferid) > 0, count(bufferid) - count(DISTINCT bufferid) FROM pg_ringctl_ring_slots($pid))
		),
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
			"other|200\nbig|300",
			'two cursors: one ends, and another begins');
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
	my $evictor = session($node);
	evict_pages($evictor, 'evicted');
	$evictor->quit;
	cmp_ok(ask($cached), '<', 50,
		'evicted: its pages go, but for those that are pinned');
	is($session->query_safe('FETCH 1 FROM c; MOVE ALL FROM c; COMMIT'),
		'401', 'evicted: the scan goes on');
	is( counters(
			$node,
			'evicted',
			'blks_read, fills, slots_lost, escapes_pinned + escapes_dirty + escapes_adopted'
		),
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

		$barrier->query_safe('BEGIN; LOCK barrier IN ACCESS EXCLUSIVE MODE');
		start_query($session,
			'SELECT sum(id) FROM big WHERE through_barrier(id, 1000)');
		$node->poll_query_until(
			'postgres', qq(
SELECT count(*) = $processes FROM pg_stat_activity
 WHERE (pid = $pid OR leader_pid = $pid) AND wait_event = 'relation')
		) or die 'the processes do not come to the barrier';

		is( ask(qq(
SELECT count(*), count(r.pid), count(DISTINCT r.ringid), count(*) FILTER (WHERE a.leader_pid IS DISTINCT FROM r.leader_pid),
       count(*) FILTER (WHERE r.leader_pid = $pid),
       count(*) FILTER (WHERE r.relid = 'big'::regclass AND r.blocks_total = $pages AND r.kind = 'seqscan' AND r.ring_buffers > 0)
  FROM pg_stat_activity a FULL JOIN pg_ringctl_rings r USING (pid)
 WHERE r.pid IS NOT NULL OR a.wait_event = 'relation')),
			"$processes|$processes|$processes|0|2|$processes",
			"$name: a ring for each process");
		is( ask("SELECT sum(blocks_done) <= $pages, sum(blocks_done + look_ahead) BETWEEN 999 AND $pages FROM pg_ringctl_rings"
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
			"SELECT blocks, ring_buffers FROM pg_ringctl_prewarm('big', 512)"
		),
		"$pages|64",
		'prewarm');
	no_ring($pid, 'prewarm');

  SKIP:
	{
		skip 'no process reads for another one', 15
		  if !reads_are_for_others();

		my $range = "pg_ringctl_prewarm('big', 512, first_block => 1000)";
		my $list =
		  "pg_ringctl_prewarm_blocks('big', ARRAY(SELECT generate_series(1000::bigint, $pages - 1)), 512)";

		foreach my $held ([ 'end', $range ], [ 'cancel', $range ],
			[ 'cancel', $list ])
		{
			my ($end, $what) = @$held;
			my $name =
			  "held prewarm, $end" . ($what eq $list ? ', of blocks' : '');

			evict('big');
			@stopped = split(
				/\n/,
				ask("SELECT pid FROM pg_stat_activity WHERE backend_type = 'io worker'"
				));
			kill('STOP', @stopped) == @stopped
			  or die 'cannot stop the I/O workers';
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
			is(finish_query($session), $end eq 'end' ? $pages - 1000 : '',
				$name);
			no_ring($pid, $name);
			kill('CONT', @stopped);
			@stopped = ();
			$session->{stderr} = '';
			nothing_is_pinned($node, 'big', $name);
		}
	}
	$session->quit;
}
