# Claims: if reads cost, a scan in front waits for a scan that is a little slower, so
# that the two together read the table once.  It does not wait for a scan that is
# much slower, stands still, is stopped, or belongs to the same process or parallel
# query.  A wait is seen and counted.  It ends when its query ends, for whatever
# reason, and when the kill switch is thrown.

use strict;
use warnings FATAL => 'all';

use FindBin;
use lib $FindBin::RealBin;

use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(usleep);
use RingctlTest;
use RingctlSharing;

# Processes that we stopped, and must not leave so.
my @stopped;
END { kill('CONT', @stopped) if @stopped }

# A process reads 16 blocks in 3 ms, on every server: about 5 blocks a millisecond.
slow_reads(3000);
my $node = new_sharing_node('main', sync_io());
my $tables = 0;

$node->safe_psql(
	'postgres', q(
-- From row 1,500 on, when the scan has taken its pace, fall behind, and then
-- take at least this long for a row; at row 3,000 be busy for long, if so wanted, and
-- say so by a lock.
CREATE FUNCTION crawl(id integer, duration interval, stand interval DEFAULT NULL) RETURNS boolean
LANGUAGE plpgsql AS $$
BEGIN
    IF id = 3000 AND stand IS NOT NULL THEN
        PERFORM pg_advisory_lock_shared(3);
        PERFORM spin(stand);
    ELSIF id BETWEEN 1500 AND 1600 THEN
        PERFORM spin(greatest(duration, '1 ms'));
    ELSIF id BETWEEN 1601 AND 5900 THEN
        PERFORM spin(duration);
    END IF;
    RETURN true;
END $$));

waits_for_a_slower_one();
leaves_a_much_slower_one();
ends_in_a_wait();
switch_ends_a_wait();
stopped_process();
several_that_stand_still();
paused_cursor();
same_process();
parallel_scans();
is(ask('SELECT count(*) FROM pg_ringctl_rings'), 0, 'no ring is left');
rows_add_up($node, 'waits');
stop_looking();
$node->stop;
log_is_clean($node, 'waits');
done_testing();


# Where there is a choice, a process reads for itself.
sub sync_io
{
	my $help = `postgres --describe-config`;

	return $help =~ /^io_method\t/m ? (io_method => 'sync') : ();
}

# A new table, and two scans of it that run at the same time: the first one is
# ours, the other one slower, by a filter with these arguments.  Returns the
# sessions and pids of both.
sub two_scans
{
	my ($arguments) = @_;
	my $table = 'waited' . $tables++;
	my $gate = close_gate($node);

	load_clean_table($table);
	my ($front, $front_pid) = session_at_gate($table, 3);
	my $rear = session($node);
	my $rear_pid = pid_of($rear);
	start_query($rear,
		"SELECT $check FROM $table WHERE through_gate(id, 6) AND crawl(id, $arguments)"
	);
	wait_at_gate($node, $rear_pid);
	open_gate($gate);
	return ($table, $front, $front_pid, $rear, $rear_pid);
}

# The same, where the first one waits for the other, which depends on the machine.
sub two_that_wait
{
	my ($name, $arguments) = @_;

	for (my $try = 0; $try < $tries; $try++)
	{
		my @scans = two_scans($arguments);
		my ($table, $front, $front_pid, $rear, $rear_pid) = @scans;

		return @scans if begins_to_wait($front_pid);
		ends_complete($_, $name) foreach ($front, $rear);
	}
	die 'nobody waits';
}

# Does the process wait in a scan that shares, before it comes to its end?
sub begins_to_wait
{
	my ($pid) = @_;

	while (1)
	{
		my ($state, $type, $event) = split(
			/\|/,
			ask("SELECT state, wait_event_type, wait_event FROM pg_stat_activity WHERE pid = $pid"
			));

		return 0 if $state ne 'active';
		return 1
		  if ($type // '') eq 'Extension'
		  && ($event // '') eq 'RingctlScanSharing';
	}
}

sub is_active
{
	my ($pid, $name) = @_;

	local $Test::Builder::Level = $Test::Builder::Level + 1;
	is(ask("SELECT state FROM pg_stat_activity WHERE pid = $pid"),
		'active', $name);
}

# It falls behind, and then takes about the time that the one in front needs to read.
sub waits_for_a_slower_one
{
	my $name = 'a slower one';
	my $figures = '';
	my $table;

	for (my $try = 0; $try < $tries && $figures ne '2|t|t|t'; $try++)
	{
		my ($front, $rear);

		($table, $front, undef, $rear) = two_that_wait($name, "'190 us'");
		ends_complete($_, $name) foreach ($front, $rear);
		$figures = counters($node, $table,
			"scans, blks_read <= 1.5 * $pages, scan_sharing_waits > 0, scan_sharing_wait_time BETWEEN 1 AND 5000"
		);
	}
	is($figures, '2|t|t|t', "$name: the table is read about once");
	is( counters(
			$node,
			$table,
			'scan_sharing_blks_hit > 0, escapes_pinned + escapes_dirty + escapes_adopted'
		),
		't|0',
		"$name: and nothing stays behind");
}

# To wait for that one would take several times as long.  On a busy machine one scan
# may see the other as fast for a while.
sub leaves_a_much_slower_one
{
	my $name = 'a much slower one';
	my $hardly = '';

	for (my $try = 0; $try < $tries && $hardly ne 't'; $try++)
	{
		my ($table, $front, $front_pid, $rear, $rear_pid) =
		  two_scans("'2 ms'");

		is(finish_query($front), $all,
			"$name: the other's rows are complete");
		is_active($rear_pid, "$name: it is not waited for to the end");
		$hardly = $front->query_safe(
			'SELECT scan_sharing_wait_time < 0.1 * elapsed_time FROM pg_ringctl_last_scans()'
		);
		$front->quit;
		ask("SELECT pg_cancel_backend($rear_pid)");
		finish_query($rear);
		$rear->{stderr} = '';
		$rear->quit;
	}
	is($hardly, 't', "$name: and hardly at all");
}

# However a query ends, so does its wait.
sub ends_in_a_wait
{
	foreach my $end (qw(cancel terminate))
	{
		my $name = "$end in a wait";
		my ($table, $front, $front_pid, $rear, $rear_pid) =
		  two_that_wait($name, "'190 us'");

		ask("SELECT pg_${end}_backend($front_pid)");
		if ($end eq 'cancel')
		{
			finish_query($front);
			says($front, qr/canceling statement due to user request/, $name);
			is($front->query_safe("SELECT $check FROM $table"),
				$all, "$name: the session goes on");
			$front->quit;
		}
		else
		{
			wait_until(
				"SELECT count(*) = 0 FROM pg_stat_activity WHERE pid = $front_pid",
				'the session does not end');
			$front->{run}->kill_kill;
			pass($name);
		}
		ends_complete($rear, "$name, the one that it waited for");
		nothing_is_pinned($node, $table, $name);
		is(counters($node, $table, 'scan_sharing_waits > 0'),
			't', "$name: it is counted");
	}
}

# Once it has heard of it, it goes on alone.
sub switch_ends_a_wait
{
	my $name = 'kill switch';
	my ($table, $front, $front_pid, $rear, $rear_pid) =
	  two_that_wait($name, "'190 us'");

	switch ($node, 'off');
	ask('SELECT pg_sleep(0.1)');
	my $waits = rings($front_pid, 'scan_sharing_waits');
	is(finish_query($front), $all, "$name: its rows are complete");
	is( $front->query_safe(
			'SELECT scan_sharing_waits FROM pg_ringctl_last_scans()'),
		$waits,
		"$name: it does not wait any more") if $waits ne '';
	ends_complete($rear, "$name, the other one");
	switch ($node, 'on');
	$front->quit;
}

# One that stands still, and then does not run at all, is waited for only for a while.
# It holds no lock that others need.
sub stopped_process
{
	my $name = 'stopped process';
	my $waited = '';
	my $hardly = '';

	for (my $try = 0; $try < $tries && "$waited$hardly" ne 'tt'; $try++)
	{
		my ($table, $front, $front_pid, $rear, $rear_pid) =
		  two_scans("'190 us', '3 s'");

		wait_until(
			"SELECT count(*) = 1 FROM pg_locks WHERE locktype = 'advisory' AND objid = 3 AND pid = $rear_pid",
			'the scan does not stand still');
		push @stopped, $rear_pid;
		ok(kill('STOP', $rear_pid), "$name: one is stopped");
		is(finish_query($front), $all, "$name: another goes by");
		$waited = $front->query_safe(
			'SELECT scan_sharing_waits > 0 AND scan_sharing_wait_time < 3000 FROM pg_ringctl_last_scans()'
		);
		$front->quit;

		# One that begins now hardly waits for it either.
		my $third = session($node);
		is($third->query_safe("SELECT $check FROM $table"),
			$all, "$name: a third");
		$hardly = $third->query_safe(
			'SELECT scan_sharing_wait_time < 30 FROM pg_ringctl_last_scans()'
		);
		$third->quit;
		kill('CONT', $rear_pid);
		@stopped = ();
		ends_complete($rear, $name);
		nothing_is_pinned($node, $table, $name);
	}
	is($waited, 't', "$name: it was waited for at first");
	is($hardly, 't', "$name: and hardly by the third");
}

# It does not wait for each of them in turn: it has saved 10 ms, and gets little more
# while it goes by.  A nap may take longer on a busy machine, so there are three tries.
sub several_that_stand_still
{
	my $name = 'several that stand still';
	my $hardly = '';

	for (my $try = 0; $try < 3 && $hardly ne 't'; $try++)
	{
		$hardly = hardly_waits_for_three_that_stand_still($name);
	}
	is($hardly, 't', "$name: it hardly waits for them");
}

# Three scans stand still, and another one goes by.  Does it wait little?
sub hardly_waits_for_three_that_stand_still
{
	my ($name) = @_;
	my $table = 'stand_still' . $tables++;
	my ($front, $front_pid, @rears);
	my $gate = close_gate($node);

	load_clean_table($table);
	($front, $front_pid) = session_at_gate($table, 3);
	foreach my $n (0 .. 2)
	{
		$rears[$n] = session($node);
		my $pid = pid_of($rears[$n]);
		start_query($rears[$n],
			"SELECT $check FROM $table WHERE through_gate(id, 6) AND crawl(id, '0', '2 min')"
		);
		wait_at_gate($node, $pid);
	}
	open_gate($gate);
	is(finish_query($front), $all, "$name: another goes by");
	is( ask('SELECT count(*) FROM pg_locks WHERE locktype = \'advisory\' AND objid = 3'
		),
		3,
		"$name: they still do");
	my ($hardly, $found) = split(
		/\|/,
		$front->query_safe(
			'SELECT scan_sharing_wait_time < 50, scan_sharing_blks_hit FROM pg_ringctl_last_scans()'
		));
	cmp_ok($found, '>', 0, "$name: they did share");
	$front->quit;
	ask("SELECT pg_cancel_backend(pid) FROM pg_stat_activity WHERE query ~ 'crawl' AND leader_pid IS NULL AND pid <> pg_backend_pid()"
	);

	foreach (@rears)
	{
		finish_query($_);
		$_->{stderr} = '';
		$_->quit;
	}
	return $hardly;
}

# Nobody waits for a cursor that is idle.
sub paused_cursor
{
	my $name = 'paused cursor';
	my $session = session($node);
	my $other = session($node);

	load_clean_table('paused');
	$session->query_safe('BEGIN; DECLARE c CURSOR FOR SELECT id FROM paused');
	my @rows = split(/\n/, $session->query_safe('FETCH 1500 FROM c'));
	reset_counters();
	is($other->query_safe("SELECT $check FROM paused"),
		$all, "$name: another goes by")
	  foreach 1 .. 2;
	is(counters($node, 'paused', 'scans, scan_sharing_waits'),
		'2|0', "$name: without waiting");
	push @rows, split(/\n/, $session->query_safe('FETCH ALL FROM c'));
	is_complete(\@rows, $name);
	$_->quit foreach ($session, $other);
}

# A scan in the middle of another one, of the same session.
sub same_process
{
	my $name = 'same process';
	my $session = session($node);

	load_clean_table('same');
	ask(q(
CREATE FUNCTION scan_same() RETURNS integer LANGUAGE plpgsql AS $$
BEGIN
    PERFORM sum(id) FROM same;
    RETURN 1;
END $$));
	is( $session->query_safe(
			"SELECT count(*), sum(id), sum(CASE WHEN n IN (1500, 3000) THEN scan_same() END) FROM (SELECT id, row_number() OVER () AS n FROM same) s"
		),
		"$pages|" . sum_to($pages) . '|2',
		"$name: the rows");
	$session->quit;
	is(counters($node, 'same', 'scans, scan_sharing_waits'),
		'3|0', "$name: no wait");
}

# Processes of parallel queries keep pages for others, and wait for nobody.
sub parallel_scans
{
	my $name = 'parallel scans';
	my @sessions =
	  map { session_with($node, max_parallel_workers_per_gather => 2) }
	  0 .. 1;
	my $query = "SELECT $check FROM shared_out";

	load_clean_table('shared_out');
	like(
		$sessions[0]->query_safe("EXPLAIN $query"),
		qr/Parallel Seq Scan/,
		"$name: the plan");
	start_query($_, $query)  foreach @sessions;
	ends_complete($_, $name) foreach @sessions;
	is( counters(
			$node, 'shared_out',
			'scans, workers_launched > 0, scan_sharing_waits'),
		'2|t|0',
		"$name: no wait");
	nothing_is_pinned($node, 'shared_out', $name);
}
