# Claims: shared_preload_libraries works as well, for every database.  After a
# restart, a crash of the server and the crash of a backend in the middle of a
# scan the counters start from zero, and work.

use strict;
use warnings FATAL => 'all';

use FindBin;
use lib $FindBin::RealBin;

use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use RingctlTest;

my $pages = 4000;
my $sum = sum_to($pages);
my $node = new_node('main');
$node->append_conf(
	'postgresql.conf', q(
shared_preload_libraries = 'pg_ringctl'
restart_after_crash = on
));
$node->start;
load_table($node, 'big', $pages);

shared_preload_libraries();
restart();
crash_of_the_server();
crash_of_a_backend();

$node->stop;
done_testing();


# The counters are empty, younger than $before, and count.
sub counters_start_from_zero
{
	my ($before, $what) = @_;

	local $Test::Builder::Level = $Test::Builder::Level + 1;
	is( $node->safe_psql(
			'postgres', qq(
SELECT entries, entries_dropped, stats_reset > '$before' FROM pg_ringctl_stats_info)
		),
		'0|0|t',
		"$what: the counters start from zero");
	is($node->safe_psql('postgres', 'SELECT sum(id) FROM big'),
		$sum, "$what: a scan");
	is( counters(
			$node, 'big', 'scans, blocks, escapes_pinned + escapes_dirty'),
		"1|$pages|0",
		"$what: is counted");
	rows_add_up($node, $what);
}

sub since_when
{
	return $node->safe_psql('postgres',
		'SELECT stats_reset FROM pg_ringctl_stats_info');
}

sub shared_preload_libraries
{
	is($node->safe_psql('postgres', 'SELECT sum(id) FROM big'),
		$sum, 'a scan before CREATE EXTENSION');
	$node->safe_psql('postgres', 'CREATE EXTENSION pg_ringctl');
	is(counters($node, 'big', 'scans, blocks, ring_buffers > 0'),
		"1|$pages|t",
		'is counted where the whole server preloads the library');
	is($node->safe_psql('template1', 'SHOW pg_ringctl.mode'),
		'control', 'the parameters are there in every database');
}

sub restart
{
	my $before = since_when();

	$node->restart;
	counters_start_from_zero($before, 'restart');
	log_is_clean($node, 'restart');
}

sub crash_of_the_server
{
	my $before = since_when();

	$node->stop('immediate');
	$node->start;
	counters_start_from_zero($before, 'crash of the server');
}

sub crash_of_a_backend
{
	my $before = since_when();
	my $session = session($node);
	my $pid = pid_of($session);
	my $log = -s $node->logfile;

	$session->query_safe(
		"BEGIN; DECLARE c CURSOR FOR SELECT id FROM big; MOVE 100 FROM c");
	is($session->query_safe('FETCH 1 FROM c'),
		'101', 'a backend is in the middle of a scan');
	ok(kill('KILL', $pid), 'it is killed');
	$node->wait_for_log(qr/all server processes terminated; reinitializing/,
		$log);
	$node->poll_query_until('postgres', 'SELECT true')
	  or die 'the server does not come back';
	$session->{run}->kill_kill;

	counters_start_from_zero($before, 'crash of a backend');
}
