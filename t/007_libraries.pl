# Claims: a library that does not match the server says so once and does
# nothing: sessions can connect, queries work, only its functions raise an
# error.  An old and a new library in one cluster count each for itself.  After
# DROP EXTENSION, scans of sessions that have the library work as before.
# auto_explain works beside the library, and prints what RING prints where it can (19).

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
$node->start;
$node->safe_psql('postgres', 'CREATE EXTENSION pg_ringctl');

drop_extension_in_the_middle_of_a_scan();
log_is_clean($node, 'drop extension');
SKIP:
{
	skip 'auto_explain is not installed', 1
	  if $node->psql('postgres', q(LOAD 'auto_explain')) != 0;
	auto_explain_beside();
	log_is_clean($node, 'auto_explain');
}
SKIP:
{
	my $reason = why_not_compile();
	skip $reason, 1 if $reason;
	old_and_new_library();
	log_is_clean($node, 'two libraries');
	server_that_does_not_match();
}

$node->stop;
done_testing();


sub drop_extension_in_the_middle_of_a_scan
{
	my $session =
	  session_with($node, session_preload_libraries => 'pg_ringctl');

	load_table($node, 'dropped', $pages);
	$session->query_safe(
		"BEGIN; DECLARE c CURSOR FOR SELECT id FROM dropped; MOVE $middle FROM c"
	);
	$node->safe_psql('postgres', 'DROP EXTENSION pg_ringctl');
	ok( $session->query_safe('FETCH ALL FROM c') eq
		  join("\n", $middle + 1 .. $pages),
		'DROP EXTENSION: a scan goes on');
	$session->query_safe('COMMIT');
	is($session->query_safe('SELECT sum(id) FROM dropped'),
		$sum, 'DROP EXTENSION: the session goes on');

	$node->safe_psql('postgres', 'CREATE EXTENSION pg_ringctl');
	is( counters(
			$node,
			'dropped',
			'scans, blocks, ring_buffers > 0, escapes_pinned + escapes_dirty'
		),
		'2|' . 2 * $pages . '|t|0',
		'CREATE EXTENSION again: all that was counted is there');
	is($session->query_safe('SELECT count(*) FROM pg_ringctl_stats'),
		'1', 'CREATE EXTENSION again: the session sees it');
	is($session->query_safe('SELECT sum(id) FROM dropped'),
		$sum, 'CREATE EXTENSION again: the session goes on');
	is(counters($node, 'dropped', 'scans'),
		'3', 'CREATE EXTENSION again: and counts');
	$session->quit;
}

# From 19 on it takes options of other libraries, that are loaded before it.
sub auto_explain_beside
{
	my $takes_options =
	  $node->safe_psql('postgres', 'SHOW server_version_num') >= 190000;
	my $session = session_with(
		$node,
		session_preload_libraries => 'pg_ringctl,auto_explain',
		'auto_explain.log_min_duration' => 0,
		'auto_explain.log_analyze' => 'on',
		$takes_options
		? ('auto_explain.log_extension_options' => 'ring')
		: ());
	my $offset = -s $node->logfile;

	is($session->query_safe('SELECT sum(id) FROM dropped'),
		$sum, 'auto_explain: a scan beside it');
	$session->quit;

	my $log = slurp_file($node->logfile, $offset);
	my $shown = qr/Ring Blocks: total=$pages /;
	like($log, qr/Seq Scan on dropped/, 'auto_explain: writes the plan');
	if ($takes_options)
	{
		like($log, $shown, 'auto_explain: with what the ring did');
	}
	else
	{
		unlike($log, $shown, 'auto_explain: without the ring');
	}
}

# A function of the extension, of another library, with another name.
sub create_function
{
	my ($library, $function, $name) = @_;
	my $definition = $node->safe_psql('postgres',
		"SELECT string_agg(pg_get_functiondef(oid), '; ') FROM pg_proc WHERE proname = '$function' AND probin IS NOT NULL"
	);

	$definition =~ s/\bFUNCTION public\.$function\(/FUNCTION $name(/g
	  or die "unexpected definition: $definition";
	$definition =~ s/'pg_ringctl'/'$library'/g
	  or die "unexpected definition: $definition";
	$node->safe_psql('postgres',
		"SET check_function_bodies = off; $definition");
}

# Both count scans of the same table, and are seen to.
sub old_and_new_library
{
	my $new_library = compile('-DRINGCTL_LAYOUT=\"test\"');
	my $old = session_with($node, session_preload_libraries => 'pg_ringctl');
	my $new = session_with($node, session_preload_libraries => $new_library);

	create_function($new_library, 'pg_ringctl_stats', 'new_stats');
	create_function($new_library, 'pg_ringctl_stats_reset', 'new_reset');
	load_table($node, 'shared', $pages);

	my $in_old =
	  "SELECT scans, blocks FROM pg_ringctl_stats() WHERE relid = 'shared'::regclass";
	my $in_new =
	  "SELECT scans, blocks FROM new_stats() WHERE relid = 'shared'::regclass";

	is($old->query_safe('SELECT sum(id) FROM shared'),
		$sum, 'two libraries: a scan with the old one');
	is($new->query_safe($in_new),
		'', 'two libraries: the new one does not see it');

	foreach my $scan (1 .. 2)
	{
		is($new->query_safe('SELECT sum(id) FROM shared'),
			$sum, "two libraries: scan $scan with the new one");
	}
	is($old->query_safe($in_old),
		"1|$pages", 'two libraries: the old one sees its own scan');
	is( $new->query_safe($in_new),
		'2|' . 2 * $pages,
		'two libraries: the new one sees its own');

	$old->query_safe('SELECT pg_ringctl_stats_reset()');
	is($old->query_safe($in_old), '', 'two libraries: reset of the old one');
	is( $new->query_safe($in_new),
		'2|' . 2 * $pages,
		'two libraries: leaves the new one alone');
	$new->query_safe('SELECT new_reset()');
	$old->quit;
	$new->quit;
}

sub server_that_does_not_match
{
	my $library = compile('-DRINGCTL_TEST_MISMATCH');
	my ($out, $err);

	create_function($library, $_, "mismatched_$_")
	  foreach
	  qw(pg_ringctl_prewarm pg_ringctl_prewarm_all pg_ringctl_prewarm_blocks
	  pg_ringctl_stats pg_ringctl_stats_info pg_ringctl_stats_reset pg_ringctl_rings
	  pg_ringctl_ring_slots pg_ringctl_escapes pg_ringctl_reclaim pg_ringctl_reclaim_all pg_ringctl_pollution
	  pg_ringctl_map pg_ringctl_map_relation pg_ringctl_progress pg_ringctl_last_scans pg_ringctl_resolve
	  pg_ringctl_set_policy pg_ringctl_drop_policy);
	$node->append_conf('postgresql.conf',
		"session_preload_libraries = '$library'");
	$node->restart;

	load_table($node, 'mismatched', $pages);
	is( $node->psql(
			'postgres', 'SELECT sum(id) FROM mismatched',
			stdout => \$out,
			stderr => \$err),
		0,
		'no match: a session connects');
	is($out, $sum, 'no match: its scan works');
	like(
		$err,
		qr/WARNING:  pg_ringctl does not work on this server and does nothing/,
		'no match: it is told so');
	is(scalar(() = $err =~ /WARNING/g), 1, 'no match: once');

	$node->psql(
		'postgres', q(
SET debug_parallel_query = on;
SET max_parallel_workers_per_gather = 2;
SELECT sum(id) FROM mismatched),
		stdout => \$out,
		stderr => \$err);
	is($out, $sum, 'no match: a parallel worker works');
	is(scalar(() = $err =~ /WARNING/g), 1, 'no match: it says nothing');

	my $session = session($node);
	$session->{stderr} = '';
	is($session->query_safe('SHOW pg_ringctl.mode'),
		'control', 'no match: the parameters are there');
	# A synchronized scan would begin where the parallel one has last been.
	$session->query_safe(
		'SET pg_ringctl.scan_ring = 64; SET synchronize_seqscans = off');
	is( $session->query_safe(
			"BEGIN; DECLARE c SCROLL CURSOR FOR SELECT id FROM mismatched; MOVE ALL FROM c; FETCH BACKWARD 1 FROM c; COMMIT"
		),
		$pages,
		'no match: cursors work');
	$session->query_safe('\set VERBOSITY sqlstate');

	foreach my $call (
		'pg_ringctl_stats()',
		'pg_ringctl_stats_info()',
		'pg_ringctl_stats_reset()',
		"pg_ringctl_prewarm('mismatched')",
		"pg_ringctl_prewarm_all('mismatched')",
		"pg_ringctl_prewarm_blocks('mismatched', '{1}')",
		'pg_ringctl_rings()',
		'pg_ringctl_ring_slots()',
		'pg_ringctl_escapes()',
		"pg_ringctl_reclaim('mismatched')",
		'pg_ringctl_reclaim_all()',
		'pg_ringctl_pollution()',
		'pg_ringctl_map()',
		"pg_ringctl_map_relation('mismatched')",
		'pg_ringctl_progress()',
		'pg_ringctl_last_scans()',
		"pg_ringctl_resolve('mismatched')")
	{
		fails(
			$session,
			"SELECT * FROM mismatched_$call",
			qr/ERROR:  0A000/,
			"no match: $call");
	}
	$session->query_safe(
		"SELECT mismatched_pg_ringctl_set_policy('mismatched', '64kB')");
	is($session->query_safe('SELECT label FROM pg_seclabels'),
		'scan_ring=64kB', 'no match: a policy can be set');
	is( $session->query_safe(
			"SELECT mismatched_pg_ringctl_drop_policy('mismatched')"),
		't',
		'no match: and dropped');
	is($session->query_safe('SELECT sum(id) FROM mismatched'),
		$sum, 'no match: the session goes on');
	$session->quit;

	# Seen by a session that has the library that works.
	$session = session_with($node, session_preload_libraries => 'pg_ringctl');
	is( $session->query_safe(
			"SELECT count(*) FROM pg_ringctl_stats WHERE relname = 'mismatched'"
		),
		'0',
		'no match: nothing was attached to the scans');
	$session->quit;
}
