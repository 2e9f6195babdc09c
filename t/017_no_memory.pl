# Claims: if a session can't get the shared memory, or gets only a part of it, the
# session says so once, and its scans go on without: they return their rows,
# through rings.  Sessions that get the memory count as always.  If only the
# segment of live rings can't be had, the session counts, says nothing, and tries
# again later.
#
# How the memory is limited: it is in files here.  A session that may not write
# large files gets the area that holds all parts, but not the log of escapes.

use strict;
use warnings FATAL => 'all';

use FindBin;
use lib $FindBin::RealBin;

use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(usleep);
use RingctlTest;

plan skip_all => 'prlimit is missing'
  if system('prlimit --version >/dev/null 2>&1') != 0;

# The server synchronizes scans of what is larger than a quarter of its buffers.
my $pages = 9000;
my $sum = sum_to($pages);
my $warning =
  qr/WARNING:  pg_ringctl does not count the scans of this session any more, and may not show them/;
my $node = new_node('main');
$node->append_conf(
	'postgresql.conf', q(
shared_buffers = '256MB'
pg_ringctl.scan_threshold = 8192
dynamic_shared_memory_type = 'mmap'
seq_page_cost = 0
));
$node->start;
$node->safe_psql('postgres', 'CREATE EXTENSION pg_ringctl');
load_table($node, 'big', $pages);
# What limits the memory limits other files, too: nothing is to be written.
$node->safe_psql('postgres', 'VACUUM (FREEZE) big; CHECKPOINT');

under_a_lock();
scans_go_on('nothing', 0);
others_count();
attaches_later();
segment_comes_later();

$node->stop;
nobody_crashed($node, 'no memory');

done_testing();


# From now on the session can write files up to this size only.
sub limit_files
{
	my ($session, $size) = @_;

	system('prlimit', '--pid', pid_of($session), "--fsize=$size") == 0
	  or die 'cannot limit the session';
}

# An index calls a function of its own while it has a page locked.  That is a
# query, and the first one to ask for the memory.
sub under_a_lock
{
	my $name = 'under a lock';
	my $session = session($node);

	$node->safe_psql(
		'postgres', q(
CREATE TABLE few AS SELECT 1 AS id;
CREATE FUNCTION compare(integer, integer) RETURNS integer IMMUTABLE LANGUAGE plpgsql AS $$
BEGIN
    PERFORM count(*) FROM public.few;
    RETURN btint4cmp($1, $2);
END $$;
CREATE OPERATOR CLASS with_query FOR TYPE integer USING btree AS
    OPERATOR 1 <, OPERATOR 2 <=, OPERATOR 3 =, OPERATOR 4 >=, OPERATOR 5 >, FUNCTION 1 compare(integer, integer);
CREATE TABLE indexed AS SELECT generate_series(1, 1000) AS id;
CREATE INDEX ON indexed (id with_query)));
	$node->safe_psql('postgres', 'VACUUM (FREEZE) few, indexed; CHECKPOINT');
	$session->query_safe('SET enable_seqscan = off');
	like(
		$session->query_safe('EXPLAIN SELECT id FROM indexed WHERE id = 470'),
		qr/Index.* Scan/,
		"$name: the plan");

	limit_files($session, 0);
	is( $session->query_safe(
			q(LOAD 'pg_ringctl'; SELECT id FROM indexed WHERE id = 470)),
		470,
		"$name: the row");
	is($session->query('SELECT sum(id) FROM big'),
		$sum, "$name: the session goes on");
	says($session, $warning, "$name: and says so when there is none");
	$session->quit;
}

# The session's first scan does not get the memory.
sub goes_on_without
{
	my ($session, $name) = @_;

	local $Test::Builder::Level = $Test::Builder::Level + 1;
	is($session->query(q(LOAD 'pg_ringctl'; SELECT sum(id) FROM big)),
		$sum, "$name: the right rows");
	unlike(
		$session->{stderr},
		qr/resource was not closed/,
		"$name: its transaction has kept no segment");
	says($session, $warning, "$name: the session says so");
}

# The memory is there, but a session can't attach to it at first.
sub attaches_later
{
	my $name = 'attached later';
	my $session = session($node);
	my @segments = glob $node->data_dir . '/pg_dynshmem/*';

	chmod 0, @segments;
	goes_on_without($session, $name);
	chmod 0600, @segments;
	is( $session->query_safe(
			q(SELECT scans > 0 FROM pg_ringctl_stats WHERE relname = 'big')),
		't',
		"$name: what shows the counters works");
	$session->quit;
}

# The session counts, has given back the segment of its live rings, and can't
# make another one for a while.
sub segment_comes_later
{
	my $name = 'a segment later';
	my $session = session($node);
	my $observer = session($node);
	my $not_shown = 'SELECT rings_not_shown FROM pg_ringctl_stats_info';
	my $shown =
	  'SELECT count(*) FROM pg_ringctl_rings WHERE pid = ' . pid_of($session);
	my $before;

	$session->query_safe(
		q(LOAD 'pg_ringctl'; SELECT sum(id) FROM big; SELECT pg_sleep(1.1)));
	$observer->query_safe('SELECT pg_ringctl_stats_reset()');
	$before = $observer->query_safe($not_shown);
	foreach my $limit ('0', 'unlimited')
	{
		limit_files($session, "$limit:");
		$session->query(
			q(BEGIN; DECLARE c CURSOR FOR SELECT id FROM big; MOVE 100 FROM c)
		);
		is( $observer->query_safe($shown),
			$limit eq '0' ? 0 : 1,
			"$name, limit $limit: is the ring shown?");
		is($session->query('COMMIT; SELECT sum(id) FROM big'),
			$sum, "$name, limit $limit: the right rows");
		is($session->{stderr}, '',
			"$name, limit $limit: the session says nothing");
		usleep(5_500_000) if $limit eq '0';
	}
	is($observer->query_safe($not_shown) - $before,
		2, "$name: two rings were not shown");
	$session->quit;
	is( $observer->query_safe(
			q(SELECT scans FROM pg_ringctl_stats WHERE relname = 'big')),
		4,
		"$name: all scans are counted");
	$observer->quit;
}

# A session that gets so many bytes at a time.
sub scans_go_on
{
	my ($what, $bytes) = @_;
	my $session = session($node);

	limit_files($session, $bytes);
	goes_on_without($session, $what);
	is($session->query_safe('SELECT sum(id) FROM big'),
		$sum, "$what: the right rows again, and it says so once");
	is( $session->query_safe(
			'SELECT ring_buffers > 0, escapes_pinned + escapes_dirty FROM pg_ringctl_last_scans()'
		),
		't|0',
		"$what: through a tight ring");
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
	$session->quit;
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
