# Claims: every session that may read statistics sees how far each prewarm is, of all
# its relations and with all its processes, and that it is gone when the command ends,
# however it ends.

use strict;
use warnings FATAL => 'all';

use FindBin;
use lib $FindBin::RealBin;

use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use RingctlTest;
use RingctlSharing;

slow_reads(3000);
my $node = new_sharing_node('main');

load_clean_table('big');
$node->safe_psql('postgres', 'CREATE INDEX ON big (id); CHECKPOINT');
my $all_blocks = $node->safe_psql('postgres',
	"SELECT sum(blocks) FROM pg_ringctl_prewarm_all('big', '256kB')");

is(ask('SELECT count(*) FROM pg_ringctl_progress'), 0, 'there is none');
is_seen('prewarm', "pg_ringctl_prewarm('big', '256kB')", $pages, 0, 'end');
is_seen(
	'prewarm',
	"pg_ringctl_prewarm('big', '256kB', first_block => 1000)",
	$pages - 1000,
	0, 'cancel');
is_seen('prewarm', "pg_ringctl_prewarm('big', '256kB', workers => 2)",
	$pages, 2, 'end');
is_seen('prewarm', "pg_ringctl_prewarm('big', mode => 'read')",
	$pages, 0, 'end');
is_seen('prewarm_all', "pg_ringctl_prewarm_all('big', '256kB', workers => 2)",
	$all_blocks, 2, 'end');
is_seen('prewarm_all', "pg_ringctl_prewarm_all('big', '256kB')",
	$all_blocks, 0, 'terminate');
is_seen(
	'prewarm_blocks',
	"pg_ringctl_prewarm_blocks('big', ARRAY(SELECT generate_series(1, 5000)))",
	5000,
	0,
	'end');
counts_what_is_listed_again();
ends_with_a_subtransaction();
is_off();
stop_looking();
$node->stop;
log_is_clean($node, 'progress');
done_testing();


# A block that is listed again while it waits is done with the one that waits.
sub counts_what_is_listed_again
{
	my $session = session($node);
	my $pid = pid_of($session);

	forget_pages('big');
	start_query($session,
		"SELECT blocks FROM pg_ringctl_prewarm_blocks('big', ARRAY(SELECT i / 2 * 2 FROM generate_series(2, 4001) i))"
	);
	wait_until(
		"SELECT count(*) = 1 FROM pg_ringctl_progress WHERE pid = $pid AND blocks_total = 4000 AND blocks_done > 2500",
		'listed again: not done');
	is(finish_query($session), 2000, 'listed again: the result');
	$session->quit;
}

# A command that fails in a subtransaction is gone, though the transaction goes on.
sub ends_with_a_subtransaction
{
	my $session = session($node);
	my $pid = pid_of($session);

	start_query(
		$session, q(
DO $$
BEGIN
    PERFORM pg_ringctl_prewarm('big', '256kB');
EXCEPTION WHEN query_canceled THEN
    PERFORM pg_sleep(600);
END $$));
	wait_until(
		"SELECT count(*) = 1 FROM pg_ringctl_progress WHERE pid = $pid AND blocks_done > 0",
		'caught: it is not seen');
	ask("SELECT pg_cancel_backend($pid)");
	wait_until(
		"SELECT wait_event = 'PgSleep' FROM pg_stat_activity WHERE pid = $pid",
		'caught: not caught');
	is(ask('SELECT count(*) FROM pg_ringctl_progress'), 0, 'caught: gone');
	ask("SELECT pg_cancel_backend($pid)");
	finish_query($session);
	$session->{stderr} = '';
	$session->quit;
}

# As for the server's own commands.
sub is_off
{
	my $session = session($node);
	my $pid = pid_of($session);

	$session->query_safe('SET track_activities = off');
	start_query($session,
		"SELECT blocks FROM pg_ringctl_prewarm('big', '256kB', workers => 2)"
	);
	wait_until(
		"SELECT count(*) = 1 FROM pg_ringctl_rings WHERE pid = $pid AND blocks_done > 100",
		'off: it does not read');
	is(ask('SELECT count(*) FROM pg_ringctl_progress'), 0, 'off: not seen');
	is(finish_query($session), $pages, 'off: the result');
	$session->quit;
}

# A command is seen in its middle, with this total, and these workers.
sub is_seen
{
	my ($command, $call, $total, $workers, $end) = @_;
	my $session = session($node);
	my $pid = pid_of($session);
	my $name = "$call, $end";
	my $done = 0;

	start_query($session, "SELECT sum(blocks) FROM $call");
	wait_until(
		"SELECT count(*) = 1 FROM pg_ringctl_progress WHERE pid = $pid AND blocks_done BETWEEN 1000 AND blocks_total - 1 AND relname = 'big'",
		"$name: it is not seen");
	is( ask("SELECT datname, schemaname, relname, command, phase, blocks_total, workers, percent BETWEEN 0 AND 100, command_start <= clock_timestamp() FROM pg_ringctl_progress WHERE pid = $pid"
		),
		"postgres|public|big|$command|reading blocks|$total|$workers|t|t",
		"$name: seen");
	is( ask("SELECT source = 'argument', ring_kb > 0 FROM pg_ringctl_rings WHERE pid = $pid"
		),
		$call =~ /kB/ ? 't|t' : $call =~ /read/ ? '' : 'f|f',
		"$name: its ring, or none");
	ask("SELECT pg_${end}_backend($pid)") if $end ne 'end';

	if ($end eq 'terminate')
	{
		wait_until(
			"SELECT count(*) = 0 FROM pg_stat_activity WHERE pid = $pid",
			'the session does not end');
		$session->{run}->kill_kill;
	}
	else
	{
		is( finish_query($session),
			$end eq 'end' ? $total : '',
			"$name: the result");
		$session->{stderr} = '';
		$session->quit;
	}
	is(ask('SELECT count(*) FROM pg_ringctl_progress'), 0, "$name: gone");
}
