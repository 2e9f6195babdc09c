# Claims: a ring is never shown longer than its scan reads through it, however the
# scan ends: by itself, by an error, with its cursor, its transaction, its session
# or its server.  A ring that was let go is shown to the end of its scan.

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
my $node = new_live_node('main');
$node->safe_psql(
	'postgres', q(
-- Fail at a row, and say how many rings of ours were seen then.
CREATE FUNCTION fail_at(id integer, at integer) RETURNS boolean LANGUAGE plpgsql AS $$
BEGIN
    IF id = at THEN
        RAISE EXCEPTION '% rings', (SELECT count(*) FROM pg_ringctl_rings WHERE pid = pg_backend_pid());
    END IF;
    RETURN true;
END $$));

ways_to_end();
terminated_sessions();
switched_off();
nothing_is_pinned($node, $_, 'ends') foreach qw(big other);
log_is_clean($node, 'ends');

killed_session();
stop_watching();
$node->stop;
done_testing();


# However a scan ends while its session goes on, its ring was seen before, and
# is not seen any more.
sub ways_to_end
{
	my $session = session($node);
	my $pid = pid_of($session);

	is($session->query_safe('SELECT sum(id) FROM big'), $sum, 'a scan');
	no_ring($pid, 'the scan has come to its end');
	is($session->query_safe('SELECT id FROM big LIMIT 1'),
		1, 'a part of a scan');
	no_ring($pid, 'the statement has come to its end');

	# errors
	fails(
		$session,
		'SELECT sum(id) FROM big WHERE fail_at(id, 1000)',
		qr/ERROR:  1 rings/,
		'error: the scan fails, and was seen');
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
	fails(
		$session,
		'MOVE 1000 FROM c',
		qr/division by zero/,
		'error in a cursor');
	no_ring($pid, 'error in a cursor');
	$session->query_safe('ROLLBACK');

	# cursors that are abandoned
	foreach
	  my $end ('CLOSE c', 'ROLLBACK TO s', 'ROLLBACK', 'COMMIT', 'CLOSE ALL')
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
		'BEGIN; DECLARE h CURSOR WITH HOLD FOR SELECT id FROM big; MOVE 700 FROM h'
	);
	has_done($pid, 700, 'cursor WITH HOLD');
	$session->query_safe('COMMIT');
	no_ring($pid, 'cursor WITH HOLD, after COMMIT');
	is($session->query_safe('FETCH 1 FROM h; CLOSE h'),
		701, 'cursor WITH HOLD: goes on');

	# a cancel
	my $gate = close_gate($node);
	start_query($session,
		'SELECT sum(id) FROM big WHERE through_gate(id, 1000)');
	wait_at_gate($node, $pid);
	is( rings(
			$pid,
			'relname, blocks_done BETWEEN 1 AND 1000, blocks_done + look_ahead >= 1000'
		),
		'big|t|t',
		'a scan at the gate');
	ask("SELECT pg_cancel_backend($pid)");
	finish_query($session);
	says(
		$session,
		qr/canceling statement due to user request/,
		'cancel: the query fails');
	no_ring($pid, 'cancel');
	open_gate($gate);
	is(ask('SELECT count(*) FROM pg_ringctl_rings'),
		0, 'no ring of anybody is left');
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

	start_query($running,
		'SELECT sum(id) FROM big WHERE through_gate(id, 1000)');
	wait_at_gate($node, $running_pid);
	is( ask(qq(
SELECT count(*) FROM pg_ringctl_rings WHERE pid IN ($running_pid, $pausing_pid, $client_pid))
		),
		3,
		'three sessions with a ring');
	foreach my $pid ($running_pid, $pausing_pid)
	{
		is( ask("SELECT pg_terminate_backend($pid, 1000 * $PostgreSQL::Test::Utils::timeout_default)"
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

	switch ($node, 'off');
	is($session->query_safe('SHOW pg_ringctl.enabled'),
		'off', 'kill switch: off');
	is(ask('SHOW pg_ringctl.enabled'), 'off', 'kill switch: for all');
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
	is( ask('SELECT count(*) FROM pg_ringctl_escapes WHERE bufferid IS NULL'),
		0, 'kill switch: the log can be read');
	$session->query_safe('COMMIT');
	$session->quit;

	# A new one is not shown.
	($session, $pid) = session_with_cursor('big', 300);
	no_ring($pid, 'kill switch: a new scan');
	$session->quit;

	switch ($node, 'on');
	is(ask('SHOW pg_ringctl.enabled'), 'on', 'kill switch: on again');
}

# The server starts anew, and so does what it shows.
sub killed_session
{
	my $gate = close_gate($node);
	my $running = session($node);
	my $pid = pid_of($running);
	my ($pausing, $pausing_pid) = session_with_cursor('other', 300);
	my $log = -s $node->logfile;

	start_query($running,
		'SELECT sum(id) FROM big WHERE through_gate(id, 1000)');
	wait_at_gate($node, $pid);
	is(ask('SELECT count(*) FROM pg_ringctl_rings'),
		2, 'killed session: two rings');
	ok(kill('KILL', $pid), 'killed session: one dies');
	$node->wait_for_log(qr/all server processes terminated; reinitializing/,
		$log);
	$node->poll_query_until('postgres', 'SELECT true')
	  or die 'the server does not come back';
	$_->{run}->kill_kill foreach ($running, $pausing, $gate);
	stop_watching('at once');
	watch();
	is( ask(q(
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
