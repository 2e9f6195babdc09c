# Claims: on a hot standby scans have rings and return the right rows, also of
# pages whose hint bits are not set; counters and prewarm work; and a cursor in
# the middle of its scan goes on when the standby is promoted.

use strict;
use warnings FATAL => 'all';

use FindBin;
use lib $FindBin::RealBin;

use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use RingctlTest;

my $pages = 4000;
my $middle = $pages / 2;
my $sum = sum_to($pages);
my $primary = new_node('primary', allows_streaming => 1);
my $standby = PostgreSQL::Test::Cluster->new('standby');

create_standby();
first_scan_after_load();
first_scan_after_restart();
counters_are_its_own();
prewarm();
unlogged_tables();
ended_by_recovery();
promote_with_an_open_cursor();

foreach my $node ($standby, $primary)
{
	$node->stop;
	log_is_clean($node, $node->name);
}
done_testing();


sub create_standby
{
	$primary->append_conf(
		'postgresql.conf', q(
session_preload_libraries = 'pg_ringctl'
pg_ringctl.scan_ring = '128kB'
max_standby_streaming_delay = -1
));
	$primary->start;
	$primary->safe_psql('postgres',
		'CREATE EXTENSION pg_ringctl; CREATE EXTENSION pg_buffercache');
	$primary->backup('backup');
	$standby->init_from_backup($primary, 'backup', has_streaming => 1);
	$standby->start;
}

sub load_and_replay
{
	my ($table) = @_;

	load_table($primary, $table, $pages);
	$primary->wait_for_replay_catchup($standby);
}

# One scan more of the table, whose ring was closed.
sub scan_on_standby
{
	my ($table, $scans, $name) = @_;

	local $Test::Builder::Level = $Test::Builder::Level + 1;
	is($standby->safe_psql('postgres', "SELECT sum(id) FROM $table"),
		$sum, "$name: the right sum");
	is( counters(
			$standby, $table,
			'scans, blocks, ring_buffers, escapes_pinned + escapes_dirty'),
		"$scans|" . $scans * $pages . '|16|0',
		"$name: through a closed ring");
	nothing_is_pinned($standby, $table, $name);
}

# Hint bits cannot be WAL-logged there, and many pages were dirtied by replay.
sub first_scan_after_load
{
	load_and_replay('fresh');
	scan_on_standby('fresh', 1, 'first scan after load');
	scan_on_standby('fresh', 2, 'second scan after load');
}

sub first_scan_after_restart
{
	load_and_replay('stored');
	$standby->restart;
	scan_on_standby('stored', 1, 'first scan after restart');
}

sub counters_are_its_own
{
	is(counters($primary, 'stored', 'scans'),
		'', 'the primary does not count the scans of the standby');
	is($primary->safe_psql('postgres', 'SELECT sum(id) FROM stored'),
		$sum, 'a scan on the primary');
	is(counters($primary, 'stored', 'scans'), '1', 'is counted there');
	is(counters($standby, 'stored', 'scans'), '1', 'and not on the standby');
	rows_add_up($standby, 'standby');
	$standby->safe_psql('postgres', 'SELECT pg_ringctl_stats_reset()');
	is(counters($standby, 'stored', 'scans'),
		'', 'a reset on the standby forgets them');
	is(counters($primary, 'stored', 'scans'),
		'1', 'and not those of the primary');
}

sub prewarm
{
	is( $standby->safe_psql(
			'postgres', q(
SELECT blocks, blocks = blks_hit + blks_read, ring_buffers, escapes
  FROM pg_ringctl_prewarm('fresh', 512))),
		"$pages|t|64|0",
		'prewarm through a ring on the standby');
	is( $standby->safe_psql(
			'postgres',
			q(SELECT blocks, ring_buffers FROM pg_ringctl_prewarm('fresh', 0, 'buffer', 'main', 0, 99))
		),
		'100|0',
		'prewarm without a ring on the standby');
	is( counters($standby, 'fresh', 'scans, blocks', 'prewarm'),
		'1|' . $pages,
		'the one through a ring is counted');
}

# They have nothing there that could be read, but for what they begin with.
sub unlogged_tables
{
	my $session = session($standby);
	my $refused =
	  qr/ERROR:  cannot access temporary or unlogged relations during recovery/;

	$primary->safe_psql(
		'postgres', q(
CREATE UNLOGGED TABLE unlogged (id int PRIMARY KEY);
CREATE TABLE mixed (id int) PARTITION BY RANGE (id);
CREATE UNLOGGED TABLE mixed_1 PARTITION OF mixed FOR VALUES FROM (1) TO (2);
CREATE TABLE mixed_2 PARTITION OF mixed FOR VALUES FROM (2) TO (3);
INSERT INTO mixed VALUES (1), (2)));
	$primary->wait_for_replay_catchup($standby);
	fails($session, $_, $refused, "standby: refused: $_")
	  foreach (
		q(SELECT * FROM pg_ringctl_prewarm('unlogged')),
		q(SELECT * FROM pg_ringctl_prewarm('unlogged_pkey')),
		q(SELECT * FROM pg_ringctl_prewarm_all('unlogged')),
		q(SELECT * FROM pg_ringctl_prewarm_blocks('unlogged', '{0}')),
		q(SELECT * FROM pg_ringctl_resolve('unlogged')),
		q(SELECT * FROM pg_ringctl_reclaim('unlogged')),
		q(SELECT * FROM pg_ringctl_map_relation('unlogged')));
	is( $session->query(
			q(SELECT blocks, ring_buffers FROM pg_ringctl_prewarm('unlogged_pkey', -1, fork => 'init'))
		),
		'1|0',
		'standby: the fork that is there is read');
	foreach my $query (
		[
			q(SELECT relid::regclass, blocks FROM pg_ringctl_prewarm_all('mixed')),
			'mixed_2|1'
		],
		[
			q(SELECT relid::regclass, blocks FROM pg_ringctl_resolve('mixed')),
			'mixed_2|1'
		],
		[ q(SELECT buffers_evicted FROM pg_ringctl_reclaim('mixed')), '0' ],
		[ q(SELECT count(*) > 1 FROM pg_ringctl_map_relation('mixed')), 't' ])
	{
		is($session->query($query->[0]),
			$query->[1], "standby: the leaf that is there: $query->[0]");
		says(
			$session,
			qr/NOTICE:  skipping "mixed_1" --- cannot access temporary or unlogged/,
			'standby: and the other one skipped');
	}
	$session->quit;
}

# The table is dropped under a cursor, and recovery does not wait for its end.
sub ended_by_recovery
{
	my $session = session($standby);
	my $log = -s $standby->logfile;

	load_and_replay('conflict');
	my $oid = $session->query_safe(q(SELECT 'conflict'::regclass::oid));
	$session->query_safe(
		"BEGIN; DECLARE c CURSOR FOR SELECT id FROM conflict; MOVE $middle FROM c"
	);
	$standby->append_conf('postgresql.conf',
		'max_standby_streaming_delay = 0');
	reload($standby, 'max_standby_streaming_delay', 0);
	$primary->safe_psql('postgres', 'DROP TABLE conflict');
	$primary->wait_for_replay_catchup($standby);
	$standby->wait_for_log(qr/due to conflict with recovery/, $log);
	$session->{run}->kill_kill;
	is( $standby->safe_psql(
			'postgres',
			"SELECT scans, blocks BETWEEN $middle AND $pages FROM pg_ringctl_stats() WHERE relid = $oid"
		),
		'1|t',
		'ended by recovery: counted, as far as it got');
	rows_add_up($standby, 'ended by recovery');

	$standby->append_conf('postgresql.conf',
		'max_standby_streaming_delay = -1');
	$standby->reload;
}

sub promote_with_an_open_cursor
{
	load_and_replay('promoted');
	my $session = session($standby);

	$session->query_safe(
		"BEGIN; DECLARE c CURSOR FOR SELECT id FROM promoted; MOVE $middle FROM c"
	);
	$standby->promote;
	ok( $session->query_safe('FETCH ALL FROM c') eq
		  join("\n", $middle + 1 .. $pages),
		'promote: an open cursor goes on with the right rows');
	$session->query_safe('COMMIT');
	is(counters($standby, 'promoted', 'scans, blocks'),
		"1|$pages", 'promote: it is counted');

	is($session->query_safe('SELECT sum(id) FROM promoted'),
		$sum, 'promote: the session goes on');
	is($session->query_safe('UPDATE promoted SET id = id + 1'),
		'', 'promote: and writes');
	$session->quit;
	is( $standby->safe_psql('postgres', 'SELECT sum(id) FROM promoted'),
		$sum + $pages,
		'promote: new sessions see it');
	nothing_is_pinned($standby, 'promoted', 'promote');
	rows_add_up($standby, 'promote');
}
