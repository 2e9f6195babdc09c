# Claims: users can see which buffers belong to which relation: pg_ringctl_pollution
# and pg_ringctl_map agree with pg_buffercache, with the rings and with the log of
# escapes.  Each buffer that escaped is known and can be evicted, and no buffer is
# evicted that another process uses.

use strict;
use warnings FATAL => 'all';

use FindBin;
use lib $FindBin::RealBin;

use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use RingctlTest;
use RingctlLive;

my $node = new_live_node('main');

pollution();
stop_watching();
$node->restart;

# From here on with an empty pool, in which nobody has to take buffers.
watch();
observed_escapes();
reclaim_leaves_what_is_used();
reclaim_by_relation();
log_of_escapes_is_bounded();
buffers_of_another_table();
buffers_lost_to_another_table();
nothing_is_pinned($node, $_, 'escapes') foreach qw(big other);
stop_watching();
$node->stop;
log_is_clean($node, 'escapes');
done_testing();


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
       pool_fraction = buffers::float8 / (SELECT setting::integer FROM pg_settings WHERE name = 'shared_buffers')
  FROM pg_ringctl_pollution WHERE relname = 'big');
	my $map =
	  q(SELECT line FROM pg_ringctl_map() line WHERE line ~ '^R .* ring ');

	wait_for_reads();
	my $occupied = ask($slots);
	is( rings(
			$pid,
			"$occupied > 0, $occupied BETWEEN occupied - look_ahead AND occupied"
		),
		't|t',
		'pollution: a scan is held');
	is($occupied, rings($pid, 'occupied'), 'pollution: all has been read')
	  if reads_are_for_others();
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
		is( $session->query_safe("SELECT sum(id) FROM $table"),
			sum_to($tables{$table}),
			"$table is scanned for the first time");
	}
	$session->quit;
}

# Every escape that is shown is a page in a buffer.
sub escapes_are_right
{
	my ($name) = @_;

	local $Test::Builder::Level = $Test::Builder::Level + 1;
	is( ask(q(
SELECT count(*) > 0, count(*) - count(DISTINCT bufferid),
       count(*) FILTER (WHERE (b.relfilenode, b.relforknumber, b.relblocknumber, b.isdirty, b.usagecount) IS DISTINCT FROM
                              (pg_relation_filenode(e.relid), e.relforknumber, e.relblocknumber, e.isdirty, e.usagecount)),
       count(*) FILTER (WHERE e.reason NOT IN ('pinned', 'dirty', 'adopted') OR e.datid <> b.reldatabase OR
                              e.relname <> e.relid::regclass::text OR e.escaped_at > clock_timestamp() OR e.pid <= 0)
  FROM pg_ringctl_escapes e LEFT JOIN pg_buffercache b USING (bufferid))),
		't|0|0|0',
		"$name: what escaped is in these buffers");
}

# Reclaim evicts what it should, and nothing else; all of it without an argument.
sub reclaims
{
	my ($argument, $which, $name) = @_;
	my $call =
	  $argument
	  ? "pg_ringctl_reclaim($argument)"
	  : 'pg_ringctl_reclaim_all()';
	my ($evicted, $flushed, $skipped) = split(
		/\|/,
		ask(qq(
WITH e AS (SELECT e.*, pinning_backends = 0 AND e.usagecount <= 1 AND reason <> 'adopted' AS goes
             FROM pg_ringctl_escapes e JOIN pg_buffercache b USING (bufferid) WHERE $which)
SELECT count(*) FILTER (WHERE goes), count(*) FILTER (WHERE goes AND isdirty), count(*) FILTER (WHERE NOT goes) FROM e)
		));
	my $buffers =
	  'SELECT count(*) FROM pg_buffercache WHERE relfilenode >= 16384'
	  ;    # no catalogs
	my $other =
	  "SELECT count(*) FROM pg_ringctl_escapes e WHERE NOT ($which)";
	my $others = ask($other);
	my $before = ask($buffers);

	local $Test::Builder::Level = $Test::Builder::Level + 1;
	is( ask("SELECT buffers_evicted, buffers_flushed, buffers_skipped FROM $call"
		),
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
	is( ask(q(
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
	ok( $flushed > 0 && $evicted >= $flushed,
		"$name: dirty pages were written");
	is($node->safe_psql('postgres', 'SELECT sum(id) FROM observed'),
		sum_to(800), "$name: the rows are still there");

	# Clean ones need not be written.
	load_table($node, 'clean', 800);
	let_escape(clean => 800);
	ask('CHECKPOINT');
	escapes_are_right("$name, after a checkpoint");
	($evicted, $flushed) = reclaims(
		q('clean'),
		q(e.relname = 'clean'),
		"$name, after a checkpoint");
	ok($evicted > 0 && $flushed == 0,
		"$name, after a checkpoint: there was nothing to write");
	is( ask(q(SELECT buffers_evicted, buffers_flushed, buffers_skipped FROM pg_ringctl_reclaim('clean'))
		),
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
	ask(q(
CREATE TABLE parent (id integer, filler text) PARTITION BY RANGE (id);
CREATE TABLE part1 PARTITION OF parent FOR VALUES FROM (1) TO (101) WITH (fillfactor = 10);
CREATE TABLE part2 PARTITION OF parent FOR VALUES FROM (101) TO (201) PARTITION BY RANGE (id);
CREATE TABLE part21 PARTITION OF part2 FOR VALUES FROM (101) TO (201) WITH (fillfactor = 10);
INSERT INTO parent SELECT n, repeat('x', 600) FROM generate_series(1, 200) n)
	);
	foreach my $table (qw(single1 single2 part1 part21))
	{
		leave_behind($table);
		ok( ask("SELECT count(*) FROM pg_ringctl_escapes WHERE relname = '$table' AND reason = 'dirty'"
			) > 0,
			"$name: $table is left behind");
	}
	escapes_are_right($name);

	is( ask(q(SELECT buffers_evicted, buffers_flushed, buffers_skipped FROM pg_ringctl_reclaim('big'))
		),
		'0|0|0',
		"$name: nothing of this table escaped");
	my ($evicted) = reclaims(
		q('parent'),
		q(e.relname IN ('part1', 'part21')),
		"$name, a table with partitions");
	ok($evicted > 0, "$name, a table with partitions: there was something");
	($evicted) =
	  reclaims(q('single1'), q(e.relname = 'single1'), "$name, a table");
	ok($evicted > 0, "$name, a table: there was something");
	($evicted) = reclaims('', 'true', "$name, all");
	ok($evicted > 0, "$name, all: there was something");
	($evicted) = reclaims('', 'true', "$name, again");
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
	for (
		my $round = 0;
		$round < 10 && ask($counted) <= $before + $pool;
		$round++)
	{
		load_table($node, "flood$round", 600);
		leave_behind("flood$round");

		# A buffer that the server's ring takes and gives up within one read is
		# counted, but nobody saw which one it was.
		my $surplus = ask("SELECT greatest(0, ($counted) - $pool)");
		cmp_ok(ask($dropped), '<=', $surplus,
			"$name, round $round: no more are dropped than are too many");
		cmp_ok(
			ask($dropped), '>=',
			$surplus - 0.05 * ask($counted),
			"$name, round $round: and hardly fewer");
		escapes_are_right("$name, round $round");
		evict("flood$round");
	}
	ok(ask($dropped) >= $before,
		"$name: all are dropped that were there before");
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

# A ring that only observes keeps buffers which other tables' pages have got.  What
# becomes of these pages is no escape of the scan.
sub buffers_lost_to_another_table
{
	my $name = 'buffers lost to another table';
	my $session = session_with($node, 'pg_ringctl.mode' => 'observe');

	load_table($node, 'taker', $pool);
	load_table($node, 'loser', 2 * $pool);
	ask('VACUUM (FREEZE) taker, loser');
	ask('CHECKPOINT');
	evict($_) foreach qw(taker loser);
	ask('SELECT pg_ringctl_stats_reset()');
	$session->query_safe(
		'BEGIN; DECLARE c CURSOR FOR SELECT ctid FROM loser');
	$session->query_safe('MOVE 1000 IN c');
	ask(q(SELECT pg_ringctl_prewarm('taker', 0)));
	ask(q(
SELECT count(pg_ringctl_prewarm('taker', 0, first_block => relblocknumber, last_block => relblocknumber))
  FROM pg_buffercache WHERE relfilenode = pg_relation_filenode('taker') AND relforknumber = 0
)) foreach 1 .. 3;    # the server would not reuse their buffers
	$session->query_safe('MOVE ALL IN c; COMMIT');
	$session->quit;

	is( ask(q(SELECT slots_lost > 0, escapes_adopted FROM pg_ringctl_stats WHERE relname = 'loser')
		),
		't|0',
		"$name: they are counted as lost, and not as escapes");
	is( ask(q(
SELECT count(*) FROM pg_ringctl_escapes e JOIN pg_buffercache b USING (bufferid)
 WHERE e.relname = 'loser' AND b.relfilenode <> pg_relation_filenode('loser'))
		),
		0,
		"$name: the log names no page of the other table");
}
