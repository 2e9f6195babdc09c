# Claims: a scan that is cancelled, runs into statement_timeout or is ended with
# its session is counted, with the blocks that it has read, and leaves no page
# pinned; the session goes on working after a cancel.

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

cancelled_scan();
cancelled_rescan();
scan_that_takes_too_long();
terminated_scan();
terminated_cursor();
cancelled_prewarm();

$node->stop;
log_is_clean($node, 'cancel');
done_testing();


# There is one more scan of the table, which got to its middle or beyond and
# not to its end.
sub counted_as_unfinished
{
	my ($table, $scans_before, $blocks_before, $name) = @_;

	local $Test::Builder::Level = $Test::Builder::Level + 1;
	is( counters(
			$node,
			$table,
			"scans - $scans_before, blocks - $blocks_before BETWEEN $middle AND $pages - 1, ring_buffers > 0"
		),
		'1|t|t',
		"$name: counted, as far as it got");
	rows_add_up($node, $name);
}

# The session still scans, through a ring, and right.
sub goes_on
{
	my ($session, $table, $name) = @_;
	my $scans = counters($node, $table, 'scans');

	local $Test::Builder::Level = $Test::Builder::Level + 1;
	is($session->query_safe("SELECT sum(id) FROM $table"),
		$sum, "$name: the session goes on");
	is( counters($node, $table, 'scans, ring_buffers > 0'),
		($scans + 1) . '|t',
		"$name: and so do its counters");
}

sub cancelled_scan
{
	my $session = session($node);
	my $pid = pid_of($session);

	load_table($node, 'cancelled', $pages);
	foreach my $round (0 .. 2)
	{
		my ($scans, $blocks) =
		  split(/\|/, counters($node, 'cancelled', 'scans, blocks') || '0|0');
		my $gate = close_gate($node);

		start_query($session,
			"SELECT sum(id) FROM cancelled WHERE through_gate(id, $middle)");
		wait_at_gate($node, $pid);
		is( $node->safe_psql(
				'postgres', q(
SELECT count(*) > 0 FROM pg_buffercache
 WHERE relfilenode = pg_relation_filenode('cancelled') AND pinning_backends > 0)
			),
			't',
			'while it waits, the scan pins pages');
		is($node->safe_psql('postgres', "SELECT pg_cancel_backend($pid)"),
			't', 'cancel');
		finish_query($session);
		says(
			$session,
			qr/canceling statement due to user request/,
			'cancel: the query fails');
		open_gate($gate);

		nothing_is_pinned($node, 'cancelled', 'cancel');
		counted_as_unfinished('cancelled', $scans, $blocks, 'cancel');
		goes_on($session, 'cancelled', 'cancel');
	}
	$session->quit;
}

# A subquery is scanned again and again; the third time is cancelled.
sub cancelled_rescan
{
	my $session = session($node);
	my $pid = pid_of($session);
	my $gate = close_gate($node);

	load_table($node, 'rescanned', $pages);
	start_query(
		$session, qq(
SELECT sum(r.id)
  FROM generate_series(0, 4) n,
       LATERAL (SELECT id FROM rescanned WHERE through_gate(id + $pages * n, 2 * $pages + $middle) OFFSET 0) r)
	);
	wait_at_gate($node, $pid);
	$node->safe_psql('postgres', "SELECT pg_cancel_backend($pid)");
	finish_query($session);
	says(
		$session,
		qr/canceling statement due to user request/,
		'cancelled rescan: the query fails');
	open_gate($gate);

	nothing_is_pinned($node, 'rescanned', 'cancelled rescan');
	is( counters(
			$node, 'rescanned',
			"scans, blocks BETWEEN 2 * $pages + $middle AND 3 * $pages - 1"),
		'3|t',
		'cancelled rescan: three scans are counted, the last one as far as it got'
	);
	goes_on($session, 'rescanned', 'cancelled rescan');
	$session->quit;
}

# The scan has begun when the clock starts to run, and cannot end.
sub scan_that_takes_too_long
{
	my $session = session($node);
	my $gate = close_gate($node);

	load_table($node, 'slow', $pages);
	$session->query_safe(
		qq(
BEGIN;
DECLARE c CURSOR FOR SELECT id FROM slow WHERE through_gate(id, $pages - 1);
MOVE $middle FROM c;
SET LOCAL statement_timeout = '100ms';));
	fails(
		$session,
		'FETCH ALL FROM c',
		qr/canceling statement due to statement timeout/,
		'statement_timeout: the query fails');
	$session->query_safe('ROLLBACK');
	open_gate($gate);

	nothing_is_pinned($node, 'slow', 'statement_timeout');
	is(counters($node, 'slow', "scans, blocks BETWEEN $middle AND $pages"),
		'1|t', 'statement_timeout: counted, as far as it got');
	rows_add_up($node, 'statement_timeout');
	goes_on($session, 'slow', 'statement_timeout');
	$session->quit;
}

# End the session, and wait until it has gone.
sub terminate
{
	my ($session, $pid, $name) = @_;

	local $Test::Builder::Level = $Test::Builder::Level + 1;
	is( $node->safe_psql(
			'postgres',
			"SELECT pg_terminate_backend($pid, 1000 * $PostgreSQL::Test::Utils::timeout_default)"
		),
		't',
		"$name: the session ends");
	$session->{run}->kill_kill;
}

sub terminated_scan
{
	my $session = session($node);
	my $pid = pid_of($session);
	my $gate = close_gate($node);

	load_table($node, 'terminated', $pages);
	start_query($session,
		"SELECT sum(id) FROM terminated WHERE through_gate(id, $middle)");
	wait_at_gate($node, $pid);
	terminate($session, $pid, 'terminated scan');
	open_gate($gate);

	nothing_is_pinned($node, 'terminated', 'terminated scan');
	counted_as_unfinished('terminated', 0, 0, 'terminated scan');
}

# Two cursors, one of them held, and another one that has come to its end.
sub terminated_cursor
{
	my $session = session($node);
	my $pid = pid_of($session);

	load_table($node, $_, $pages) foreach qw(fetched held finished);
	$session->query_safe(
		qq(
BEGIN;
DECLARE c1 CURSOR FOR SELECT id FROM fetched;
DECLARE c2 CURSOR WITH HOLD FOR SELECT id FROM held;
DECLARE c3 CURSOR FOR SELECT id FROM finished;
MOVE $middle FROM c1;
MOVE $middle FROM c2;
MOVE ALL FROM c3;));
	terminate($session, $pid, 'terminated cursor');

	foreach my $table (qw(fetched held))
	{
		nothing_is_pinned($node, $table, 'terminated cursor');
		counted_as_unfinished($table, 0, 0, "terminated cursor on $table");
	}
	is(counters($node, 'finished', 'scans, blocks'),
		"1|$pages",
		'terminated cursor: one that was finished is counted too');
}

# A prewarm is too fast to be stopped where one wants: it is given a time in
# which it may come to its end, or not.
sub cancelled_prewarm
{
	my $session = session($node);

	load_table($node, 'prewarmed', $pages);
	$session->query(
		q(SET statement_timeout = '1ms'; SELECT * FROM pg_ringctl_prewarm('prewarmed', 128); SET statement_timeout = 0)
	);
	$session->{stderr} = '';
	$session->query('SET statement_timeout = 0');
	nothing_is_pinned($node, 'prewarmed', 'prewarm with a timeout');
	is( $session->query_safe(
			q(SELECT blocks, ring_buffers, escapes FROM pg_ringctl_prewarm('prewarmed', 128))
		),
		"$pages|16|0",
		'prewarm with a timeout: the session goes on');
	rows_add_up($node, 'prewarm with a timeout');
	$session->quit;
}
