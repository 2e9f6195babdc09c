# Claims: where a long scan finds out how far to look ahead (only with io_uring
# on 18), it returns the right rows and reads every page once, whatever it finds:
# in plain scans, under filters that nothing passes, where it starts in the
# middle, where it turns round, where it is scanned again, where it fails, and
# where pages without rows are on its way; and nothing escapes.  So does prewarm.

use strict;
use warnings FATAL => 'all';

use FindBin;
use lib $FindBin::RealBin;

use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use RingctlTest;

my $pages = 62000;              # TRIALS_IN_A_SCAN in src/depth.c
my $node = new_node('main');

# Few processes, so that each may pin many buffers.
$node->append_conf(
	'postgresql.conf', q(
session_preload_libraries = 'pg_ringctl'
synchronize_seqscans = off
shared_buffers = 128MB
max_connections = 10
max_wal_size = 4GB
autovacuum = off
));
$node->start;

# Elsewhere nobody tries.
my $tries = 'f';
if ($node->safe_psql('postgres', 'SHOW server_version_num') =~ /^18/)
{
	$node->stop;
	$node->append_conf('postgresql.conf', 'io_method = io_uring');
	$tries = 't';
	if (!eval { $node->start(fail_ok => 1) })
	{
		$node->append_conf('postgresql.conf', 'io_method = worker');
		$node->start;
		$tries = 'f';
		SKIP: { skip 'io_uring does not work here, so nobody tries', 1 }
	}
}

$node->safe_psql('postgres',
	'CREATE EXTENSION pg_ringctl; CREATE EXTENSION pg_buffercache');
load_table($node, 'big', $pages);
$node->safe_psql('postgres', 'VACUUM (FREEZE) big');

scan_that_tries();
scan_in_explain();
filter_that_nothing_passes('');
filter_that_nothing_passes('SET jit = on; SET jit_above_cost = 0; ');
scan_from_the_middle();
scan_that_turns_round();
scan_again();
scan_that_fails();
scan_whose_reads_become_larger();
scan_of_pages_without_rows();
prewarm(0);
prewarm(2);

$node->stop('fast');
log_is_clean($node, 'all of it');
done_testing();


# No page of the table is in shared_buffers from now on; one that somebody writes
# just then can't be evicted.
sub forget_pages
{
	$node->safe_psql('postgres', 'CHECKPOINT');
	$node->poll_query_until('postgres',
		q(SELECT count(pg_buffercache_evict(bufferid)) = 0 FROM pg_buffercache
		   WHERE relfilenode = pg_relation_filenode('big')))
	  or die 'cannot evict the pages of the table';
	$node->safe_psql('postgres', 'SELECT pg_ringctl_stats_reset()');
}

# So many scans of the table gave up what they had read ahead, if they tried,
# found it again in the ring, and lost none of it.
sub tried
{
	my ($scans, $name) = @_;

	local $Test::Builder::Level = $Test::Builder::Level + 1;
	is( counters(
			$node, 'big',
			'scans, blks_read, unconsumed > 0, blks_hit - unconsumed, '
			  . 'escapes_pinned + escapes_dirty + escapes_adopted'),
		"$scans|" . $scans * $pages . "|$tries|0|0",
		"$name: every page is read once, nothing escapes");
	rows_add_up($node, $name);
	nothing_is_pinned($node, 'big', $name);
}

sub scan_that_tries
{
	forget_pages();
	is($node->safe_psql('postgres', 'SELECT sum(id) FROM big'),
		sum_to($pages), 'scan: sum');
	tried(1, 'scan');
}

# What the exchange of the streams reads is the scan's own.
sub scan_in_explain
{
	forget_pages();
	like($node->safe_psql('postgres',
			'EXPLAIN (ANALYZE, BUFFERS, COSTS OFF, TIMING OFF) SELECT sum(id) FROM big'),
		qr/Seq Scan on big [^\n]*\n *Buffers: shared (?:hit=\d+ )?read=$pages\n/,
		'EXPLAIN: the scan has read every page');
	tried(1, 'EXPLAIN');
}

# The node returns no row, but the stream is exchanged.
sub filter_that_nothing_passes
{
	my ($settings) = @_;

	forget_pages();
	is($node->safe_psql('postgres', $settings . 'SELECT count(*) FROM big WHERE id < 0'),
		0, "${settings}filter: no rows");
	tried(1, "${settings}filter");
}

# Where one that was left there began to synchronize with others.
sub scan_from_the_middle
{
	my $session = session($node);

	$session->query_safe(
		q(SET synchronize_seqscans = on;
		  BEGIN; DECLARE c CURSOR FOR SELECT id FROM big; MOVE 40000 FROM c; COMMIT));
	forget_pages();
	isnt($session->query_safe('SELECT id FROM big LIMIT 1'), 1, 'from the middle: it is');
	forget_pages();
	is($session->query_safe('SELECT sum(id) FROM big'),
		sum_to($pages), 'from the middle: sum');
	tried(1, 'from the middle');
	$session->quit;
}

# It pauses, too, which ends a trial.
sub scan_that_turns_round
{
	my $session = session($node);

	forget_pages();
	$session->query_safe('BEGIN; DECLARE c SCROLL CURSOR FOR SELECT id FROM big');
	foreach my $step (
		[ 'MOVE 5000', 'FETCH 2', 5001, 5002 ],
		[ 'MOVE 20000', 'FETCH 2', 25003, 25004 ],
		[ 'MOVE BACKWARD 15000', 'FETCH BACKWARD 2', 10003, 10002 ],
		[ 'MOVE 40000', 'FETCH 1', 50003 ],
		[ 'MOVE FORWARD ALL', 'FETCH BACKWARD 2', $pages, $pages - 1 ],
		[ 'MOVE BACKWARD ALL', 'FETCH 2', 1, 2 ])
	{
		my ($move, $fetch, @rows) = @$step;

		$session->query_safe("$move FROM c");
		is($session->query_safe("$fetch FROM c"),
			join("\n", @rows), "cursor, $move, $fetch: the right rows");
	}
	$session->query_safe('COMMIT');
	$session->quit;
	is( counters($node, 'big', 'escapes_pinned + escapes_dirty + escapes_adopted'),
		'0', 'cursor: nothing escapes');
	rows_add_up($node, 'cursor');
	nothing_is_pinned($node, 'big', 'cursor');
}

sub scan_again
{
	forget_pages();
	is( $node->safe_psql(
			'postgres', q(
SELECT x, (SELECT sum(id) FROM big WHERE id >= x) FROM (VALUES (1), (2)) v (x))),
		'1|' . sum_to($pages) . "\n2|" . (sum_to($pages) - 1),
		'scanned again: sums');
	is( counters(
			$node, 'big',
			'scans, blocks - unconsumed, unconsumed > 0, escapes_pinned + escapes_dirty + escapes_adopted'),
		'2|' . 2 * $pages . "|$tries|0",
		'scanned again: every page is got twice, nothing escapes');
	rows_add_up($node, 'scanned again');
	nothing_is_pinned($node, 'big', 'scanned again');
}

sub scan_that_fails
{
	my $session = session($node);

	foreach my $row (3080, 6500, 30000)
	{
		forget_pages();
		fails($session, "SELECT sum(1 / (id - $row)) FROM big", qr/division by zero/,
			"error at row $row");
		nothing_is_pinned($node, 'big', "error at row $row");
		rows_add_up($node, "error at row $row");
	}
	$session->quit;
}

# The stream that takes over may read more at once than the ring had room for.
sub scan_whose_reads_become_larger
{
	my $session = session($node);

	forget_pages();
	$session->query_safe(
		q(SET io_combine_limit = 1;
		  BEGIN; DECLARE c SCROLL CURSOR FOR SELECT id FROM big; MOVE 3500 FROM c;
		  SET io_combine_limit = 16));
	is($session->query_safe('MOVE 40000 FROM c; FETCH 2 FROM c'),
		"43501\n43502", 'larger reads: the right rows');
	is( $session->query_safe('MOVE FORWARD ALL FROM c; FETCH BACKWARD 1 FROM c; COMMIT'),
		$pages, 'larger reads: to the end');
	$session->quit;
	is( counters($node, 'big', 'escapes_pinned + escapes_dirty + escapes_adopted'),
		'0', 'larger reads: nothing escapes');
	rows_add_up($node, 'larger reads');
	nothing_is_pinned($node, 'big', 'larger reads');
}

# The stream can only be exchanged between two rows.
sub scan_of_pages_without_rows
{
	$node->safe_psql('postgres', 'DELETE FROM big WHERE id BETWEEN 3000 AND 10000');
	forget_pages();
	is( $node->safe_psql('postgres', 'SELECT sum(id) FROM big'),
		sum_to($pages) - sum_to(10000) + sum_to(2999),
		'pages without rows: sum');
	tried(1, 'pages without rows');
}

sub prewarm
{
	my ($workers) = @_;

	forget_pages();
	is( $node->safe_psql(
			'postgres', qq(
SELECT blocks, blks_read, ring_buffers > 0, escapes
  FROM pg_ringctl_prewarm('big', -1, workers => $workers))),
		"$pages|$pages|t|0",
		"prewarm, $workers workers: every page is read once, nothing escapes");
	nothing_is_pinned($node, 'big', "prewarm, $workers workers");
}
