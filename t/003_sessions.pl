# Claims: sessions that scan the same table and different tables at once get
# the right rows, and the counters get every scan and every block of these
# sessions.  The counters agree with the server's own statistics.  Another
# session's temporary table is refused.

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
$node->append_conf('postgresql.conf',
	"session_preload_libraries = 'pg_ringctl'");
$node->start;
$node->safe_psql('postgres', 'CREATE EXTENSION pg_ringctl');

interleaved_cursors();
many_scans_at_once();
many_tables_at_once();
many_first_scans_at_once();
prewarms_at_once();
temporary_table_of_another_session();

$node->stop;
log_is_clean($node, 'several sessions');
done_testing();


# A session tells the server's statistics the last of what it did when it exits,
# and nobody waits for that.
sub all_have_reported
{
	$node->poll_query_until('postgres',
		"SELECT count(*) = 1 FROM pg_stat_activity WHERE backend_type = 'client backend'"
	) or die 'a session does not end';
}

# Since new_tables() the server has seen as many pages asked for.
sub agrees_on_blocks
{
	my ($name, @tables) = @_;
	my $list = join(', ', map { "'$_'" } @tables);

	local $Test::Builder::Level = $Test::Builder::Level + 1;
	all_have_reported();
	is( $node->safe_psql(
			'postgres', qq(
SELECT count(*), count(*) FILTER (WHERE blocks <> heap_blks_read + heap_blks_hit)
  FROM pg_ringctl_stats s JOIN pg_statio_user_tables USING (relid)
 WHERE s.relname IN ($list))),
		scalar(@tables) . '|0',
		"$name: the server saw as many pages asked for");
}

# And it has read as many of them through rings.
sub agrees_on_reads
{
	my ($name, @tables) = @_;
	my $list = join(', ', map { "'$_'" } @tables);
	my $blocks_read =
	  $node->pg_version >= 18
	  ? "read_bytes / current_setting('block_size')::integer"
	  : 'reads';

	local $Test::Builder::Level = $Test::Builder::Level + 1;
	all_have_reported();
	is( $node->safe_psql(
			'postgres', qq(
SELECT sum(blks_read) FROM pg_ringctl_stats WHERE relname IN ($list))),
		$node->safe_psql(
			'postgres', qq(
SELECT sum($blocks_read)::bigint FROM pg_stat_io WHERE context = 'bulkread')),
		"$name: the server read as many pages through rings");
}

# Tables that the server, too, starts to count from nothing.
sub new_tables
{
	foreach my $table (@_)
	{
		load_table($node, $table, $pages);
		$node->safe_psql('postgres',
			"SELECT pg_stat_reset_single_table_counters('$table'::regclass)");
	}
	$node->safe_psql('postgres', q(SELECT pg_stat_reset_shared('io')));
}

# Four sessions, two tables, each session two cursors: all in the middle of
# their scans at once.
sub interleaved_cursors
{
	my @sessions = map { session($node) } 1 .. 4;
	my @sums = (0) x 8;

	new_tables(qw(one two));
	foreach my $session (@sessions)
	{
		$session->query_safe(
			'BEGIN; DECLARE c0 CURSOR FOR SELECT id FROM one; DECLARE c1 CURSOR FOR SELECT id FROM two'
		);
	}
	foreach my $step (1 .. 5)
	{
		foreach my $cursor (0 .. 7)
		{
			my $rows = $sessions[ $cursor / 2 ]
			  ->query_safe('FETCH 900 FROM c' . $cursor % 2);
			$sums[$cursor] += $_ foreach split(/\n/, $rows);
		}
	}
	is_deeply(\@sums, [ ($sum) x 8 ], 'interleaved cursors: sums');
	foreach my $session (@sessions)
	{
		$session->query_safe('COMMIT');
		$session->quit;
	}
	foreach my $table (qw(one two))
	{
		is( counters($node, $table, 'scans, blocks'),
			'4|' . 4 * $pages,
			"interleaved cursors: scans and blocks of $table");
	}
	rows_add_up($node, 'interleaved cursors');
	agrees_on_blocks('interleaved cursors', qw(one two));
	agrees_on_reads('interleaved cursors', qw(one two));
}

# Scans that really run at the same time, each checking its own sum.
sub run_at_once
{
	my ($name, $clients, $transactions, $script) = @_;

	local $Test::Builder::Level = $Test::Builder::Level + 1;
	$node->pgbench(
		"--no-vacuum --client=$clients --jobs=2 --transactions=$transactions",
		0,
		[
			qr{processed: @{[$clients * $transactions]}/@{[$clients * $transactions]}}
		],
		[qr{^$}],
		"$name: every scan gets its rows",
		{ "001_$name" => $script });
}

sub scan_and_check
{
	my ($table) = @_;

	return "SELECT 1 / (sum(id) = $sum)::integer FROM $table;\n";
}

sub many_scans_at_once
{
	new_tables(qw(three four five));
	run_at_once('many_scans', 6, 5,
		join('', map { scan_and_check($_) } qw(three three four five)));

	is( counters($node, 'three', 'scans, blocks'),
		'60|' . 60 * $pages,
		'many scans at once: of the same table');
	is( counters($node, 'four', 'scans, blocks'),
		'30|' . 30 * $pages,
		'many scans at once: of another table');
	is( counters($node, 'five', 'scans, blocks'),
		'30|' . 30 * $pages,
		'many scans at once: of a third table');
	rows_add_up($node, 'many scans at once');
	agrees_on_blocks('many scans at once', qw(three four five));
}

# Nobody else reads the table that a session reads.
sub many_tables_at_once
{
	my @tables = map { "own$_" } 0 .. 3;

	new_tables(@tables);
	run_at_once('many_tables', 4, 4, scan_and_check('own:client_id'));

	foreach my $table (@tables)
	{
		is( counters($node, $table, 'scans, blocks'),
			'4|' . 4 * $pages,
			"many tables at once: $table");
	}
	rows_add_up($node, 'many tables at once');
	agrees_on_blocks('many tables at once', @tables);
	agrees_on_reads('many tables at once', @tables);
}

# All find pages that somebody else has just dirtied.
sub many_first_scans_at_once
{
	new_tables('fresh');
	run_at_once('first_scans', 6, 1,
		"SET pg_ringctl.scan_ring = '512kB';\n" . scan_and_check('fresh'));

	is( counters($node, 'fresh', 'scans, blocks, ring_buffers'),
		'6|' . 6 * $pages . '|64',
		'many first scans at once: counted');
	rows_add_up($node, 'many first scans at once');
	agrees_on_blocks('many first scans at once', 'fresh');
}

sub prewarms_at_once
{
	new_tables('warmed');
	run_at_once('prewarms', 4, 3,
		"SELECT 1 / (blocks = $pages AND blocks = blks_hit + blks_read)::integer FROM pg_ringctl_prewarm('warmed', 256);\n"
	);
	is( counters($node, 'warmed', 'scans, blocks, ring_buffers', 'prewarm'),
		'12|' . 12 * $pages . '|32',
		'prewarms at once: counted');
	rows_add_up($node, 'prewarms at once');
}

sub temporary_table_of_another_session
{
	my $owner = session($node);
	my $session = session($node);

	$owner->query_safe('CREATE TEMPORARY TABLE mine AS SELECT 1');
	my $oid = $owner->query_safe(q(SELECT 'mine'::regclass::oid));
	$session->query_safe('\set VERBOSITY sqlstate');
	foreach my $ring_kb (0, 128)
	{
		fails(
			$session,
			"SELECT * FROM pg_ringctl_prewarm($oid, $ring_kb)",
			qr/ERROR:  0A000/,
			"prewarm of another session's temporary table, ring_kb $ring_kb");
	}
	$session->quit;
	$owner->quit;
}
