# Claims: where shared memory can't be had, or only a part of what the sessions
# share, a session says so once, and its scans go on without: they return their
# rows, through rings.  Sessions that get it count as always.
#
# How the memory is limited: it is in files here, and a session that may not
# write large ones gets the area that all is in, but not the log of escapes.

use strict;
use warnings FATAL => 'all';

use FindBin;
use lib $FindBin::RealBin;

use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use RingctlTest;

plan skip_all => 'prlimit is missing'
  if system('prlimit --version >/dev/null 2>&1') != 0;

# The server synchronizes scans of what is larger than a quarter of its buffers.
my $pages = 9000;
my $sum = sum_to($pages);
my $warning =
  qr/WARNING:  pg_ringctl neither counts nor shows the scans of this session any more/;
my $node = new_node('main');
$node->append_conf(
	'postgresql.conf', q(
shared_buffers = '256MB'
dynamic_shared_memory_type = 'mmap'
seq_page_cost = 0
));
$node->start;
$node->safe_psql('postgres', 'CREATE EXTENSION pg_ringctl');
load_table($node, 'big', $pages);
# What limits the memory limits other files, too: nothing is to be written.
$node->safe_psql('postgres', 'VACUUM (FREEZE) big; CHECKPOINT');

scans_go_on('nothing', 0);
scans_go_on('a part', 1_500_000);
others_count();

$node->stop;
nobody_crashed($node, 'no memory');
done_testing();


# A session that gets so many bytes at a time.
sub scans_go_on
{
	my ($what, $bytes) = @_;
	my $session = session($node);

	system('prlimit', '--pid', pid_of($session), "--fsize=$bytes") == 0
	  or die 'cannot limit the session';
	is($session->query(q(LOAD 'pg_ringctl'; SELECT sum(id) FROM big)),
		$sum, "$what: the right rows");
	like($session->{stderr}, $warning, "$what: the session says so");
	$session->{stderr} = '';
	is($session->query_safe('SELECT sum(id) FROM big'),
		$sum, "$what: the right rows again, and it says so once");
	is( $session->query_safe(
			'SELECT ring_buffers > 0, escapes_pinned + escapes_dirty FROM pg_ringctl_last_scans()'),
		't|0',
		"$what: through a ring that stays closed");
	is( $session->query_safe(
			"SELECT blocks, ring_buffers, escapes FROM pg_ringctl_prewarm('big', 128)"
		),
		"$pages|16|0",
		"$what: prewarm reads through a ring, too");
	fails(
		$session,
		'SELECT * FROM pg_ringctl_stats',
		qr/ERROR:  could not resize shared memory segment/,
		"$what: what shows the counters fails");
	is($session->query_safe('SELECT sum(id) FROM big'),
		$sum, "$what: and the session goes on");
	parallel_scan_goes_on($session, $what) if $bytes;
	$session->quit;
}

# The leader has no part in what the workers share with others.
sub parallel_scan_goes_on
{
	my ($session, $what) = @_;

	$session->query_safe('SET max_parallel_workers_per_gather = 2');
	like($session->query_safe('EXPLAIN SELECT sum(id) FROM big'),
		qr/Parallel Seq Scan/, "$what: a plan is parallel");
	is($session->query_safe('SELECT sum(id) FROM big'),
		$sum, "$what: the right rows of a parallel scan");
}

sub others_count
{
	$node->safe_psql('postgres', 'SELECT pg_ringctl_stats_reset()');
	is( $node->safe_psql(
			'postgres', q(LOAD 'pg_ringctl'; SELECT sum(id) FROM big)),
		$sum,
		'others: the right rows');
	is(counters($node, 'big', 'scans, blocks'),
		"1|$pages", 'others: their scans are counted');
	rows_add_up($node, 'others');
}
