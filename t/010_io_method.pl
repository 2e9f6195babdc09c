# Claims: under every io_method that the server has, a scan of clean pages, the
# first scan after a load and a scan that turns round return the right rows,
# and no buffer escapes from the ring.  A scan with a ring that sizes itself looks
# ahead as far as the server lets it.

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
my $node = new_node('main');
$node->append_conf(
	'postgresql.conf', q(
session_preload_libraries = 'pg_ringctl'
synchronize_seqscans = off
));
$node->start;
$node->safe_psql('postgres',
	'CREATE EXTENSION pg_ringctl; CREATE EXTENSION pg_buffercache');

foreach my $method (
	$node->pg_version >= 18 ? qw(sync worker io_uring) : 'the only way')
{
  SKIP:
	{
		if ($node->pg_version >= 18)
		{
			$node->stop;
			$node->append_conf('postgresql.conf', "io_method = $method");
			my $started =
			  eval { $node->start(fail_ok => $method eq 'io_uring'); };

			skip "io_method $method does not work here", 1
			  if !$started && $method eq 'io_uring';
			is($node->safe_psql('postgres', 'SHOW io_method'),
				$method, "io_method is $method");
		}
		first_scan_after_load($method);
		clean_scan($method);
		scan_that_turns_round($method);
		scan_of_everything_cached($method);
		prewarm($method);
		looks_ahead($method);
	}
}

$node->stop('fast', fail_ok => 1);
log_is_clean($node, 'all methods');
done_testing();


sub table_of
{
	my ($method) = @_;

	return 'big_' . ($method =~ s/\W/_/gr);
}

# What the table's row has counted since the last reset is this.
sub closed
{
	my ($method, $scans, $name) = @_;
	my $table = table_of($method);

	local $Test::Builder::Level = $Test::Builder::Level + 1;
	is( counters(
			$node, $table,
			'scans, blocks, escapes_pinned, escapes_dirty, escapes_adopted'),
		"$scans|" . $scans * $pages . '|0|0|0',
		"$method, $name: nothing escapes");
	rows_add_up($node, "$method, $name");
	nothing_is_pinned($node, $table, "$method, $name");
	$node->safe_psql('postgres', 'SELECT pg_ringctl_stats_reset()');
}

sub first_scan_after_load
{
	my ($method) = @_;
	my $table = table_of($method);

	load_table($node, $table, $pages);
	is($node->safe_psql('postgres', "SELECT sum(id) FROM $table"),
		$sum, "$method, first scan after load: sum");
	closed($method, 1, 'first scan after load');
}

sub clean_scan
{
	my ($method) = @_;
	my $table = table_of($method);
	my $scans = 0;

	foreach my $ring (128, 256, 512, 1024, 2048)
	{
		is( $node->safe_psql(
				'postgres',
				"SET pg_ringctl.scan_ring = $ring; SELECT sum(id) FROM $table"
			),
			$sum,
			"$method, clean scan with $ring kB: sum");
		$scans++;
	}
	closed($method, $scans, 'clean scan');
}

# Forward to the end, backward to the start, and turning in the middle.
sub scan_that_turns_round
{
	my ($method) = @_;
	my $table = table_of($method);
	my $session = session($node);

	$session->query_safe(
		"BEGIN; DECLARE c SCROLL CURSOR FOR SELECT id FROM $table");
	foreach my $step (
		[ "FORWARD $middle", 1 .. $middle ],
		[ 'BACKWARD 500', reverse $middle - 500 .. $middle - 1 ],
		[ 'FORWARD ALL', $middle - 499 .. $pages ],
		[ 'BACKWARD ALL', reverse 1 .. $pages ],
		[ 'FORWARD 3', 1 .. 3 ])
	{
		my ($how, @rows) = @$step;

		ok($session->query_safe("FETCH $how FROM c") eq join("\n", @rows),
			"$method, cursor, FETCH $how: the right rows");
	}
	$session->query_safe('COMMIT');
	$session->quit;
	is( counters(
			$node, $table,
			'escapes_pinned, escapes_dirty, escapes_adopted'),
		'0|0|0',
		"$method, cursor: nothing escapes");
	rows_add_up($node, "$method, cursor");
	nothing_is_pinned($node, $table, "$method, cursor");
	$node->safe_psql('postgres', 'SELECT pg_ringctl_stats_reset()');
}

# A small table, that is found in shared buffers.
sub scan_of_everything_cached
{
	my ($method) = @_;
	my $table = 'small_' . table_of($method);

	load_table($node, $table, 300);
	foreach my $scan (1 .. 2)
	{
		is( $node->safe_psql(
				'postgres',
				"SET pg_ringctl.scan_threshold = 0; SELECT sum(id) FROM $table"
			),
			sum_to(300),
			"$method, cached scan: sum");
	}
	is(counters($node, $table, 'scans, blocks, blks_hit, blks_read'),
		'2|600|600|0', "$method, cached scan: all pages are found");
	$node->safe_psql('postgres', 'SELECT pg_ringctl_stats_reset()');
}

sub prewarm
{
	my ($method) = @_;
	my $table = table_of($method);

	foreach my $ring (-1, 128, 1024)
	{
		is( $node->safe_psql(
				'postgres', qq(
SELECT blocks, blks_hit + blks_read, ring_buffers > 0, escapes
  FROM pg_ringctl_prewarm('$table', $ring))),
			"$pages|$pages|t|0",
			"$method, prewarm with $ring kB: nothing escapes");
	}
	nothing_is_pinned($node, $table, "$method, prewarm");
}

# How far a scan looks ahead with rings of these sizes, if so many reads may be
# under way; by one block each.
sub look_ahead
{
	my ($table, $reads, @rings) = @_;

	return map {
		$node->safe_psql(
			'postgres', qq(
SET io_combine_limit = 1;
SET effective_io_concurrency = $reads;
SET pg_ringctl.scan_ring = $_;
SELECT look_ahead_max FROM pg_ringctl_resolve('$table')))
	} @rings;
}

# The server looks one read farther than may be under way, but no farther than it
# may pin buffers.
sub looks_ahead
{
	my ($method) = @_;
	my $table = table_of($method);

	if ($node->pg_version < 18)
	{
		is((look_ahead($table, 12, -1))[0],
			1, "$method: looks one read ahead");
		return;
	}

	my ($most) = look_ahead($table, 1000, 2048);

	cmp_ok($most, '>', 10, "$method: the server may pin $most buffers");
	is_deeply(
		[ look_ahead($table, $most - 2, 2048, -1) ],
		[ $most - 1, $most - 1 ],
		"$method: looks ahead one read farther than may be under way");
	is_deeply(
		[ look_ahead($table, $most + 2, 2048, -1) ],
		[ $most, $most ],
		"$method: looks ahead as far as the server may pin");
}
