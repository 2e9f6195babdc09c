# Claims: parallel scans return the right rows and are counted once each, with
# their workers, whether the leader takes part or not; parameters reach the
# workers, and no value of a parameter ends a worker; a scan with an error in a
# worker is counted and leaves nothing behind.

use strict;
use warnings FATAL => 'all';

use FindBin;
use lib $FindBin::RealBin;

use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use RingctlTest;

my $pages = 6000;
my $sum = sum_to($pages);
my $node = new_node('main');
$node->append_conf(
	'postgresql.conf', q(
max_worker_processes = 16
max_parallel_workers = 8
));
$node->start;
$node->safe_psql(
	'postgres', q(
CREATE EXTENSION pg_ringctl;
CREATE EXTENSION pg_buffercache;
CREATE FUNCTION fail_at(id integer, at integer) RETURNS boolean
LANGUAGE plpgsql PARALLEL SAFE AS $$
BEGIN
    IF id = at THEN
        RAISE EXCEPTION 'row %', id;
    END IF;
    RETURN true;
END $$;
CREATE FUNCTION in_worker() RETURNS boolean
LANGUAGE sql STABLE PARALLEL RESTRICTED AS $$
    SELECT backend_type = 'parallel worker' FROM pg_stat_activity WHERE pid = pg_backend_pid()
$$;
CREATE ROLE plain;
GRANT pg_read_all_data TO plain));

my %preload = (
	session_preload_libraries => 'pg_ringctl',
	max_parallel_workers_per_gather => 2);

leader_takes_part();
leader_takes_no_part();
first_worker_takes_no_part();
parameters_reach_workers();
every_value_reaches_workers();
superusers_values_reach_workers_of_others();
library_that_was_loaded_late();
error_in_a_worker();
cursor_that_is_abandoned();

$node->stop;
log_is_clean($node, 'parallel');
done_testing();


# The plan is parallel: else the tests say nothing.
sub is_parallel
{
	my ($session, $query) = @_;

	local $Test::Builder::Level = $Test::Builder::Level + 1;
	like(
		$session->query_safe("EXPLAIN $query"),
		qr/Workers Planned: [1-9].*Parallel Seq Scan/s,
		'the plan is parallel');
}

sub leader_takes_part
{
	my $session = session_with($node, %preload);

	load_table($node, 'led', $pages);
	is_parallel($session, 'SELECT sum(id) FROM led');
	foreach my $scan (1 .. 3)
	{
		is($session->query_safe('SELECT sum(id) FROM led'),
			$sum, "leader takes part: sum $scan");
	}
	is( counters(
			$node,
			'led',
			'scans, blocks, workers_launched, ring_buffers > 0, escapes_pinned'
		),
		'3|' . 3 * $pages . '|6|t|0',
		'leader takes part: counted');
	rows_add_up($node, 'leader takes part');
	$session->quit;
}

# With no leader the workers must have read it all.
sub leader_takes_no_part
{
	my $session = session_with(
		$node, %preload,
		parallel_leader_participation => 'off',
		'pg_ringctl.scan_threshold' => 0);

	load_table($node, 'unled', $pages);
	is_parallel($session, 'SELECT sum(id) FROM unled');
	foreach my $scan (1 .. 3)
	{
		is($session->query_safe('SELECT sum(id) FROM unled'),
			$sum, "leader takes no part: sum $scan");
	}
	is( counters($node, 'unled', 'scans, blocks, workers_launched'),
		'3|' . 3 * $pages . '|6',
		'leader takes no part: counted');
	rows_add_up($node, 'leader takes no part');
	$session->quit;
}

# Workers share out the partitions.  Both are held in the first one, and who came
# there late has read the second alone; if that is not the first worker, which
# counts, it may take more than one try.
sub first_worker_takes_no_part
{
	my $name = 'first worker takes no part';
	my $session = session_with(
		$node, %preload,
		parallel_leader_participation => 'off',
		'pg_ringctl.scan_threshold' => 0);
	my $scans = 4;
	my $query =
	  'SELECT count(*) FROM shared_out WHERE through_barrier(-id, -100)';

	create_barrier($node);
	$node->safe_psql(
		'postgres', q(
CREATE TABLE shared_out (id integer, filler text) PARTITION BY RANGE (id);
CREATE TABLE shared_1 PARTITION OF shared_out FOR VALUES FROM (1) TO (101) WITH (fillfactor = 10);
CREATE TABLE shared_2 PARTITION OF shared_out FOR VALUES FROM (101) TO (201) WITH (fillfactor = 10);
INSERT INTO shared_out SELECT n, repeat('x', 600) FROM generate_series(1, 200) n)
	);
	like(
		$session->query_safe("EXPLAIN $query"),
		qr/Workers Planned: 2.*Parallel Append/s,
		"$name: the plan");

	foreach my $scan (1 .. $scans)
	{
		my $barrier = session($node);

		$barrier->query_safe('BEGIN; LOCK barrier');
		start_query($session, $query);
		$node->poll_query_until('postgres',
			q(SELECT count(*) = 2 FROM pg_locks WHERE relation = 'barrier'::regclass AND NOT granted)
		) or die 'the workers do not come to the barrier';
		$barrier->query_safe('COMMIT');
		$barrier->quit;
		is(finish_query($session), 200, "$name: all rows, $scan");
	}
	# what is pending
	$session->query_safe('SELECT count(*) FROM pg_ringctl_stats_info');
	is( counters($node, 'shared_1', 'scans, workers_launched'),
		"$scans|" . 2 * $scans,
		"$name: where both were");
	is(counters($node, 'shared_2', 'scans, workers_launched'),
		"$scans|$scans", "$name: where one was");
	is( $session->query_safe(
			q(SELECT relid::regclass, sum(scans) FROM pg_ringctl_last_scans() GROUP BY 1 ORDER BY 1)
		),
		"shared_1|1\nshared_2|1",
		"$name: the last one");
	$session->quit;
}

sub parameters_reach_workers
{
	my $session = session_with(
		$node, %preload,
		parallel_leader_participation => 'off',
		'pg_ringctl.scan_threshold' => 0);
	my $before;

	load_table($node, 'sized', $pages);
	foreach my $kb (64, 256, 1024)
	{
		$session->query_safe("SET pg_ringctl.scan_ring = $kb");
		is($session->query_safe('SELECT sum(id) FROM sized'),
			$sum, "ring of $kb kB: sum");
		is(counters($node, 'sized', 'ring_buffers'),
			$kb / 8, "ring of $kb kB: the workers' rings have that size");
	}

	$session->query_safe('SET pg_ringctl.scan_ring = 0');
	is($session->query_safe('SELECT sum(id) FROM sized'),
		$sum, 'no ring: sum');
	is(counters($node, 'sized', 'scans, ring_buffers, ring_buffers_max'),
		'3|128|128', 'no ring: nothing is counted');

	$session->query_safe("SET pg_ringctl.mode = 'off'");
	$before = counters($node, 'sized', 'scans, blocks');
	is($session->query_safe('SELECT sum(id) FROM sized'),
		$sum, 'mode off: sum');
	is(counters($node, 'sized', 'scans, blocks'),
		$before, 'mode off: the workers attach nothing');

	load_table($node, 'left_dirty', $pages);
	$session->query_safe(
		"SET pg_ringctl.mode = 'control'; SET pg_ringctl.scan_ring = '128kB'; SET pg_ringctl.dirty_pages = 'leave'"
	);
	is($session->query_safe('SELECT sum(id) FROM left_dirty'),
		$sum, 'dirty pages left behind: sum');
	is(counters($node, 'left_dirty', 'escapes_dirty > 0, wal_flushes'),
		't|0', 'dirty pages left behind: the workers do so');
	$session->quit;
}

# A check hook that refused one of them in a worker would end the worker, and
# with it the query.
sub every_value_reaches_workers
{
	my $session = session_with(
		$node, %preload,
		parallel_leader_participation => 'off',
		'pg_ringctl.scan_threshold' => 0);

	load_table($node, 'valued', $pages);
	foreach my $setting (
		'scan_ring = -1',
		'scan_ring = 0',
		"scan_ring = '64kB'",
		"scan_ring = '16GB'",
		'scan_threshold = 0',
		"scan_threshold = '15TB'",
		'headroom = 0',
		'headroom = 1000000000',
		"dirty_pages = 'leave'",
		"mode = 'observe'",
		"mode = 'off'",
		'max_ring = -1',
		"max_ring = '64kB'",
		"max_ring = '16GB'",
		'track = off')
	{
		$session->query_safe("SET pg_ringctl.$setting");
		is($session->query_safe('SELECT sum(id) FROM valued'),
			$sum, "workers take $setting");
		$setting =~ /^(\w+)/;
		$session->query_safe("RESET pg_ringctl.$1");
	}
	$session->quit;
}

# What only a superuser may set reaches the workers of a plain user all the same.
sub superusers_values_reach_workers_of_others
{
	my $session = session_with(
		$node, %preload,
		parallel_leader_participation => 'off',
		'pg_ringctl.scan_threshold' => 0);

	load_table($node, 'clamped', $pages);
	$session->query_safe(
		q(
SET pg_ringctl.max_ring = '128kB';
SET ROLE plain;
SET pg_ringctl.scan_ring = '1MB';));
	is($session->query_safe('SELECT sum(id) FROM clamped'),
		$sum, 'plain user: sum');
	is(counters($node, 'clamped', 'scans, blocks, ring_buffers'),
		"1|$pages|16", "plain user: the workers' rings are clamped");
	$session->quit;
}

sub library_that_was_loaded_late
{
	my $session = session_with(
		$node,
		max_parallel_workers_per_gather => 2,
		parallel_leader_participation => 'off');

	load_table($node, 'late', $pages);
	$session->query_safe(
		"LOAD 'pg_ringctl'; SET pg_ringctl.scan_ring = '128kB'");
	is($session->query_safe('SELECT sum(id) FROM late'), $sum, 'LOAD: sum');
	is(counters($node, 'late', 'scans, blocks, ring_buffers'),
		"1|$pages|16", 'LOAD: reaches the workers');
	$session->quit;
}

sub error_in_a_worker
{
	# Two are planned, but there is one worker: the first one counts the scan,
	# and so it is the one that fails.
	my $session = session_with(
		$node, %preload,
		max_parallel_workers => 1,
		parallel_leader_participation => 'off');

	load_table($node, 'failing', $pages);
	is_parallel($session,
		'SELECT sum(id) FROM failing WHERE fail_at(id, 3000)');
	foreach my $scan (1 .. 3)
	{
		fails(
			$session,
			'SELECT sum(id) FROM failing WHERE fail_at(id, 3000)',
			qr/ERROR:  row 3000\nCONTEXT:.*parallel worker/s,
			"error in a worker: the query fails");
		nothing_is_pinned($node, 'failing', 'error in a worker');

		is( counters(
				$node, 'failing',
				'scans, workers_launched, blocks > 0, ring_buffers > 0'),
			"$scan|$scan|t|t",
			'error in a worker: counted');
	}
	rows_add_up($node, 'error in a worker');
	is($session->query_safe('SELECT sum(id) FROM failing'),
		$sum, 'error in a worker: the session goes on');
	$session->quit;
}

# A query of which only the first rows are wanted ends its workers early.
sub cursor_that_is_abandoned
{
	my $session = session_with($node, %preload);

	load_table($node, 'limited', $pages);
	is_parallel($session, 'SELECT id FROM limited LIMIT 10');
	foreach my $scan (1 .. 3)
	{
		is( $session->query_safe(
				'SELECT count(*) FROM (SELECT id FROM limited LIMIT 10) t'),
			'10',
			'LIMIT: rows');
		nothing_is_pinned($node, 'limited', 'LIMIT');
	}
	# what is pending
	$session->query_safe('SELECT count(*) FROM pg_ringctl_stats_info');
	is(counters($node, 'limited', 'scans, blocks > 0'),
		'3|t', 'LIMIT: counted');
	rows_add_up($node, 'LIMIT');
	$session->quit;
}
