# Claims: whichever request for memory fails, the statement either fails with that
# error, or goes on without the memory and returns its usual result.  The same
# statement works afterwards, in the same session.  No page stays pinned, no ring
# and no memory of a ring stays behind, nothing of the executor's is left open, and
# the server does not crash.  A session without shared memory obeys the kill switch,
# too.
#
# The library is compiled with faults.h.  Every statement runs in a new session,
# again and again, until no request is left that could fail.

use strict;
use warnings FATAL => 'all';

use FindBin;
use lib $FindBin::RealBin;

use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use RingctlTest;

my $reason = why_not_compile();
plan skip_all => $reason if $reason;

my $pages = 2200;
my $most_faults = 400;
my $node = new_node('main');

# With few slots in shared memory, a ring may need memory for its own, too.
my $library = compile("-include $FindBin::RealBin/faults.h -DMAX_SLOTS=100");
$node->append_conf(
	'postgresql.conf', q(
max_parallel_workers = 8
seq_page_cost = 0
));
$node->start;
$node->safe_psql('postgres',
	'CREATE EXTENSION pg_ringctl; CREATE EXTENSION pg_buffercache');
$node->safe_psql('postgres',
	"UPDATE pg_proc SET probin = '$library' WHERE probin = 'pg_ringctl'");
load_table($node, 'big', $pages);
$node->safe_psql(
	'postgres', q(
VACUUM (FREEZE) big;
CREATE TABLE tree (id int, pad text) PARTITION BY RANGE (id);
CREATE TABLE tree_1 PARTITION OF tree FOR VALUES FROM (0) TO (700);
CREATE TABLE tree_2 PARTITION OF tree FOR VALUES FROM (700) TO (2000);
INSERT INTO tree SELECT id, repeat('x', 5000) FROM generate_series(1, 1300) id;
CREATE FUNCTION caught(statement text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
	result text;
BEGIN
	EXECUTE statement INTO result;
	RETURN result;
EXCEPTION WHEN out_of_memory THEN
	RETURN 'caught';
END $$;
-- Where a query fails, and in its abort something else does, too, interrupts still come.
CREATE FUNCTION fails() RETURNS text LANGUAGE plpgsql AS $$
DECLARE
	result text := 'failed';
BEGIN
	BEGIN
		PERFORM sum(1 / (id - 600)) FROM big;
	EXCEPTION
		WHEN division_by_zero THEN NULL;
		WHEN out_of_memory THEN result := 'caught';
	END;
	PERFORM pg_cancel_backend(pg_backend_pid()), pg_sleep(10);
	RETURN result || ', not cancelled';
EXCEPTION WHEN query_canceled THEN
	RETURN result;
END $$));
$node->append_conf('postgresql.conf',
	"session_preload_libraries = '$library'");
$node->reload;

# The first ones find nothing in shared memory, and make it step by step.
survives('scan', 'SELECT sum(id) FROM big');
survives('parallel scan',
	'SET max_parallel_workers_per_gather = 2; SELECT sum(id) FROM big');
survives('scans that share',
	'SELECT count(*) FROM big a JOIN big b USING (id)');
survives('rescan',
	'SELECT x, (SELECT sum(id) FROM big WHERE id > x) FROM generate_series(1, 2) x'
);
survives('LIMIT', 'SELECT count(*) FROM (SELECT id FROM big LIMIT 40) l');
survives('caught', q(SELECT caught('SELECT sum(id) FROM big')), 'caught');
survives('a query that fails', 'SELECT fails()', '^caught$');
survives(
	'cursor', q(
SET synchronize_seqscans = off; BEGIN; DECLARE c SCROLL CURSOR FOR SELECT id FROM big; MOVE 600 FROM c;
FETCH BACKWARD 1 FROM c; MOVE ALL FROM c; FETCH BACKWARD 1 FROM c; COMMIT));
survives('partitions',
	'SET pg_ringctl.scan_threshold = 0; SELECT count(*) FROM tree');
survives('UPDATE',
	'BEGIN; UPDATE tree SET id = id WHERE id < 20; ROLLBACK; SELECT 1');
survives('observe', 'SET pg_ringctl.mode = observe; SELECT sum(id) FROM big');
survives('prewarm',
	q(SELECT blocks, escapes FROM pg_ringctl_prewarm('big', 128)));
survives(
	'prewarm by workers',
	q(SELECT blocks, escapes FROM pg_ringctl_prewarm('big', 128, workers => 2))
);
survives(
	'prewarm of parts',
	q(SELECT count(*), sum(blocks) > 0 FROM pg_ringctl_prewarm_all('tree', -1))
);
survives(
	'prewarm of blocks',
	q(SELECT blocks, seek_distance FROM pg_ringctl_prewarm_blocks('big', '{7, 5, 9, 1}', 64))
);
survives('statistics',
	'SELECT count(*) > 0, (SELECT count(*) FROM pg_ringctl_stats_info) FROM pg_ringctl_stats'
);
survives(
	'rings', q(
BEGIN; DECLARE c CURSOR FOR SELECT id FROM big; MOVE 100 FROM c;
SELECT count(*) >= 0 FROM pg_ringctl_rings;
SELECT count(*) >= 0 FROM pg_ringctl_ring_slots(pg_backend_pid()); COMMIT));
survives(
	'pool', q(
SELECT count(*) >= 0 FROM pg_ringctl_escapes;
SELECT count(*) > 0 FROM pg_ringctl_pollution;
SELECT length(pg_ringctl_map_relation('big', 4)) > 0;
SELECT buffers_evicted >= 0 FROM pg_ringctl_reclaim_all()));
survives(
	'facts', q(
SELECT sum(id) FROM big; SELECT blocks FROM pg_ringctl_last_scans();
SELECT source FROM pg_ringctl_resolve('big')));
survives(
	'EXPLAIN',
	q(SELECT caught('EXPLAIN (ANALYZE, RING, COSTS OFF, TIMING OFF) SELECT count(*) FROM tree')),
	'caught') if $node->pg_version >= 18;
survives(
	'policies', q(
SELECT pg_ringctl_set_policy('tree', '256kB', '0');
SELECT scan_ring FROM pg_ringctl_policies; SELECT count(*) FROM tree;
SELECT pg_ringctl_drop_policy('tree'); SELECT pg_ringctl_drop_all_policies())
);
survives('reset', 'SELECT pg_ringctl_stats_reset() IS NOT NULL');
# A session's second ring has another size than its first one, and stays.
survives(
	'memory', q(
SET pg_ringctl.scan_threshold = 0;
SET pg_ringctl.scan_ring = 128; SELECT sum(id) FROM big;
SET pg_ringctl.scan_ring = 64; SELECT sum(id) FROM big;
SELECT sum(used_bytes) FROM pg_backend_memory_contexts
WHERE name IN ('pg_ringctl scans', 'pg_ringctl rings')));
other_readers();
switch_without_shared_memory();

is($node->safe_psql('postgres', 'SELECT count(*) FROM pg_ringctl_rings'),
	'0', 'no ring is left');
nothing_is_pinned($node, $_, 'in the end') foreach qw(big documents keyed);
$node->stop;
nobody_crashed($node, 'faults');
done_testing();


# What a statement prints, and what it complains about, where the n-th request for
# memory fails; and what it prints afterwards.
sub with_fault
{
	my ($statement, $n) = @_;
	my ($out, $err) = ('', '');

	$node->psql(
		'postgres',
		"SET faults.at = $n;\n$statement;\nROLLBACK;\n"
		  . "RESET ALL;\n\\echo again\n$statement;\n",
		on_error_stop => 0,
		stdout => \$out,
		stderr => \$err);
	my ($first, $again) = split(/^again$/m, $out, 2);
	return (map({ defined $_ ? s/^\s+|\s+$//gr : 'nothing' } $first, $again),
		$err);
}

# A statement returns the same, or what matches $or, whichever request fails; unless
# that is its error.
sub survives
{
	my ($name, $statement, $or) = @_;
	my (@runs, @wrong);

	local $Test::Builder::Level = $Test::Builder::Level + 1;
	for (my $n = 1; $n <= $most_faults; $n++)
	{
		my ($first, $again, $err) = with_fault($statement, $n);

		last if $err !~ /fault $n\b/ && $first !~ /caught/;
		push @runs, [ $n, $first, $again, $err ];
	}

	my (undef, $expected) = with_fault($statement, 0);
	foreach my $run (@runs)
	{
		my ($n, $first, $again, $err) = @$run;

		push @wrong, "fault $n: $first, then: $again, with $err"
		  if $again ne $expected
		  || ( $err !~ /ERROR/
			&& $first ne $expected
			&& (!defined $or || $first !~ /$or/));
	}
	ok(@runs > 0 && @runs < $most_faults && !@wrong,
		"$name: " . @runs . ' faults')
	  or diag(join("\n", "expected: $expected", @wrong));
}

# Readers that are not sequential scans, and loads.  Their tables are not in the pool
# when they begin, and get rings however small they are.
sub other_readers
{
	my $rows = $node->basedir . '/rows';
	my $cold = 'SET pg_ringctl.scan_threshold = 0; SELECT evict()';
	my $load = "BEGIN; SET pg_ringctl.write_ring = '1MB'";
	my $written = 'SELECT count(*), sum(id) FROM written';
	my $values = 'SELECT sum(length(body || $$x$$)) FROM documents';

	$node->safe_psql(
		'postgres', qq(
CREATE TABLE documents (id int, body text STORAGE EXTERNAL);
INSERT INTO documents SELECT i, repeat(md5(i::text), 249) FROM generate_series(1, 400) i;
CREATE TABLE keyed (id int, v int, pad text);
INSERT INTO keyed SELECT i, i % 10, repeat('x', 1500) FROM generate_series(1, 1000) i;
CREATE INDEX keyed_id ON keyed (id);
CREATE INDEX keyed_v ON keyed (v);
CREATE TABLE written (id int, pad text);
VACUUM (FREEZE, ANALYZE) documents, keyed;
COPY (SELECT id, pad FROM keyed) TO '$rows';
CREATE FUNCTION fetched(body text) RETURNS text LANGUAGE plpgsql AS \$\$
BEGIN
	RETURN 'fetched ' || length(body || 'x');
EXCEPTION WHEN out_of_memory THEN
	RETURN 'caught';
END \$\$;
CREATE FUNCTION evict() RETURNS void LANGUAGE sql AS 'SELECT pg_buffercache_evict(bufferid)
 FROM pg_buffercache WHERE relfilenode >= 16384; SELECT'
));
	survives('COPY TO', "$cold; COPY keyed TO '/dev/null'");
	survives('COPY TO of values', "$cold; COPY documents TO '/dev/null'");
	survives(
		'COPY TO, caught',
		"$cold; SELECT caught('COPY keyed TO ''/dev/null'''); COPY documents TO '/dev/null'; $values",
		'caught');
	survives('values', "$cold; $values");
	survives('values, caught',
		"$cold; SELECT caught('$values'); SELECT evict(); $values", 'caught');
	survives('values, caught in each row',
		"$cold; SELECT min(fetched(body)) FROM documents", 'caught');
	survives(
		'values of two cursors',
		"$cold; BEGIN; DECLARE c CURSOR FOR SELECT id, length(body || '') FROM documents; MOVE 100 IN c;
SELECT evict(); DECLARE d CURSOR FOR SELECT id, length(body || '') FROM documents; MOVE 200 IN d;
FETCH 1 FROM c; CLOSE c; FETCH 1 FROM d; COMMIT");
	survives(
		'TID range',
		"$cold; SET enable_seqscan = off; SELECT sum(id) FROM keyed WHERE ctid > '(0,0)'"
	);
	# On 17 such a scan has no stream, so it gets no ring.
	survives(
		'bitmap heap scan',
		"$cold; SET enable_seqscan = off; SET enable_indexscan = off; SELECT sum(id) FROM keyed WHERE v < 8"
	) if $node->pg_version >= 18;
	survives(
		'index scan',
		"$cold; SET pg_ringctl.index_read_ahead = on; SET pg_ringctl.index_read_ahead_after = 0;
SET pg_ringctl.scan_ring = 64; SET enable_seqscan = off; SET enable_bitmapscan = off;
SELECT sum(v) FROM keyed WHERE id < 800; SELECT v FROM keyed WHERE id > 10 ORDER BY id LIMIT 3"
	);
	survives(
		'CREATE INDEX',
		"$cold; BEGIN; SET max_parallel_maintenance_workers = 0; CREATE INDEX ON keyed (v, id); SELECT 1; ROLLBACK"
	);
	survives('CREATE INDEX by workers',
		"$cold; BEGIN; CREATE INDEX ON keyed (v, id); SELECT 1; ROLLBACK");
	survives(
		'CREATE INDEX, caught',
		"$cold; BEGIN; SELECT caught('CREATE INDEX ON keyed (v, id)'); ALTER TABLE keyed ADD x int;
CREATE INDEX ON keyed (x); SELECT count(*) FROM keyed; ROLLBACK",
		'caught');
	survives('REINDEX',
		"$cold; REINDEX TABLE keyed; REINDEX TABLE documents");
	survives(
		'ALTER TABLE',
		"$cold; BEGIN; ALTER TABLE keyed ADD PRIMARY KEY (id); ALTER TABLE keyed ALTER v TYPE bigint; SELECT sum(v) FROM keyed; ROLLBACK"
	);
	survives('COPY FROM',
		"$load; COPY written FROM '$rows'; $written; ROLLBACK");
	survives(
		'COPY FROM, caught',
		"$load; SELECT caught('COPY written FROM ''$rows'''); TRUNCATE written; COPY written FROM '$rows'; $written; ROLLBACK",
		'caught');
	survives(
		'CREATE TABLE AS',
		"$load; DROP TABLE written; CREATE TABLE written AS TABLE keyed; $written; ROLLBACK"
	);
	survives(
		'CREATE TABLE AS, caught',
		"$load; SELECT caught('CREATE TABLE made AS TABLE keyed'); DROP TABLE IF EXISTS made, written;
CREATE TABLE written AS TABLE keyed; $written; ROLLBACK",
		'caught');
	survives(
		'REFRESH MATERIALIZED VIEW',
		"$load; DROP TABLE written; CREATE MATERIALIZED VIEW written AS TABLE keyed; REFRESH MATERIALIZED VIEW written; $written; ROLLBACK"
	);
}

# A cursor in a session that was refused shared memory lets its ring go.
sub switch_without_shared_memory
{
	my $name = 'no shared memory';
	my $session;

	for (my $n = 1; $n <= $most_faults; $n++)
	{
		$session = session_with($node, 'pg_ringctl.scan_ring' => '128kB');
		$session->query("SET faults.at = $n; SELECT sum(id) FROM big");
		last if $session->{stderr} =~ /does not count the scans/;
		$session->{stderr} = '';
		$session->quit;
	}
	says($session, qr/WARNING.*does not count the scans/,
		"$name: it says so");

	load_table($node, 'loaded', 4000);
	$session->query_safe(
		'RESET ALL; BEGIN; DECLARE c CURSOR FOR SELECT id FROM loaded; MOVE 600 FROM c'
	);
	switch ($node, 'off');
	$session->query_safe('MOVE ALL FROM c; COMMIT');
	is( $session->query_safe(
			q(SELECT blocks, ring_buffers, escapes_dirty > 0 FROM pg_ringctl_last_scans() WHERE relid = 'loaded'::regclass)
		),
		'4000|16|t',
		"$name: the ring of an open cursor is let go");
	$session->quit;
	switch ($node, 'on');
}
