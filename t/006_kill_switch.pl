# Claims: pg_ringctl.enabled = off and a reload reach every session: scans that
# run let their rings go, and so does a prewarm; new scans get no ring, and a new
# prewarm through a ring is refused.  When it is switched on again, all is as before.
#
# How a ring that was let go shows: when a table is scanned the first time after
# its load, every page is dirty, and needs WAL flushed before its buffer can be
# reused.  A ring that is kept has the WAL flushed, so no buffer escapes dirty;
# from a ring that was let go, buffers escape dirty.

use strict;
use warnings FATAL => 'all';

use FindBin;
use lib $FindBin::RealBin;

use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(usleep);
use RingctlTest;

my $pages = 4000;
my $middle = $pages / 2;
my $sum = sum_to($pages);
my $node = new_node('main');
start_with_buffercache($node);
$node->safe_psql('postgres',
	'CREATE EXTENSION pg_ringctl; CREATE EXTENSION pg_buffercache');

# Only sessions that say so have the library, and can pass the word on.
my %with_library = (
	session_preload_libraries => 'pg_ringctl',
	'pg_ringctl.scan_ring' => '128kB');

ring_is_kept();
cursor_that_is_open();
query_that_runs();
query_that_hears_of_it_from_another_session();
workers_that_run();
workers_that_start_later_let_go();
cursor_that_missed_off_and_on();
index_scan_lets_go();
files_that_cannot_be_loaded();
command_line();
reload_that_waits();
prewarm_that_runs();
new_scans_get_no_ring();
prewarm_gets_no_ring();
on_again();
workers_that_let_go_have_room();

$node->stop;
log_is_clean($node, 'kill switch');
done_testing();


# The table was scanned once, through a ring that was let go, or kept.
sub has_let_go
{
	my ($table, $expected, $name) = @_;

	local $Test::Builder::Level = $Test::Builder::Level + 1;
	is( counters(
			$node, $table,
			'scans, blocks, ring_buffers, escapes_dirty > 0'),
		"1|$pages|16|$expected",
		$name);
	rows_add_up($node, $name);
}

# A new table, and a session with a cursor in its middle.
sub cursor_in_its_middle
{
	my ($table) = @_;
	my $session = session_with($node, %with_library);

	load_table($node, $table, $pages);
	$session->query_safe(
		"BEGIN; DECLARE c CURSOR FOR SELECT id FROM $table; MOVE $middle FROM c"
	);
	return $session;
}

# All rows that are left come, then the session goes.
sub fetch_the_rest
{
	my ($session, $name) = @_;

	local $Test::Builder::Level = $Test::Builder::Level + 1;
	ok( $session->query_safe('FETCH ALL FROM c') eq
		  join("\n", $middle + 1 .. $pages),
		"$name: the right rows");
	$session->query_safe('COMMIT');
	$session->quit;
}

# A new table, a session with a query in the middle of scanning it, and what
# holds it there.
sub query_in_its_middle
{
	my ($table) = @_;
	my $session = session_with($node, %with_library);
	my $pid = pid_of($session);
	my $gate = close_gate($node);

	load_table($node, $table, $pages);
	start_query($session,
		"SELECT sum(id) FROM $table WHERE through_gate(id, $middle)");
	wait_at_gate($node, $pid);
	return ($session, $gate);
}

sub run_to_the_end
{
	my ($session, $gate, $name) = @_;

	local $Test::Builder::Level = $Test::Builder::Level + 1;
	open_gate($gate);
	is(finish_query($session), $sum, "$name: the right rows");
	$session->quit;
}

sub ring_is_kept
{
	my $session = cursor_in_its_middle('kept');

	switch ($node, 'on');
	fetch_the_rest($session, 'a reload without the switch');
	has_let_go('kept', 'f', 'a reload without the switch: the ring is kept');
}

# The session reloads its configuration itself before it fetches more.
sub cursor_that_is_open
{
	my $session = cursor_in_its_middle('cursor');

	switch ($node, 'off');
	fetch_the_rest($session, 'open cursor');
	has_let_go('cursor', 't', 'open cursor: its ring is let go');
	switch ($node, 'on');
}

# It may not reload, but it looks at the files itself: nobody else has the library.
sub query_that_runs
{
	my ($session, $gate) = query_in_its_middle('running');

	switch ($node, 'off');
	run_to_the_end($session, $gate, 'running query');
	has_let_go('running', 't', 'running query: its ring is let go');
	switch ($node, 'on');
}

# Only another session is told to reload; the one that runs the query is not.
sub query_that_hears_of_it_from_another_session
{
	my ($session, $gate) = query_in_its_middle('hearing');
	my $other = session_with($node, %with_library);
	my $attempts = 10 * $PostgreSQL::Test::Utils::timeout_default;

	$other->query_safe('SELECT count(*) FROM pg_ringctl_stats');
	$node->safe_psql('postgres', 'ALTER SYSTEM SET pg_ringctl.enabled = off');
	kill('HUP', pid_of($other)) or die "cannot signal: $!";
	while ($other->query_safe('SHOW pg_ringctl.enabled') ne 'off')
	{
		die 'the reload does not arrive' if --$attempts <= 0;
		usleep(100_000);
	}
	run_to_the_end($session, $gate, 'word of another session');
	has_let_go('hearing', 't', 'word of another session: its ring is let go');
	$other->quit;
	switch ($node, 'on');
}

# A session whose leader reads nothing, and so does not look, nor pass the word on.
sub session_that_only_leads
{
	my ($scan_ring) = @_;

	return session_with(
		$node, %with_library,
		'pg_ringctl.scan_ring' => $scan_ring,
		max_parallel_workers_per_gather => 2,
		seq_page_cost => 0,
		parallel_leader_participation => 'off');
}

sub workers_that_run
{
	my $session = session_that_only_leads('128kB');
	my $pid = pid_of($session);
	my $gate = session($node);

	create_barrier($node);
	load_table($node, 'workers_run', $pages);
	$gate->query_safe('BEGIN; LOCK TABLE barrier');
	start_query($session,
		"SELECT sum(id) FROM workers_run WHERE through_barrier(id, $middle)");
	$node->poll_query_until('postgres',
		"SELECT count(*) = 2 FROM pg_stat_activity WHERE leader_pid = $pid AND wait_event_type = 'Lock'"
	) or die 'the workers do not come to the barrier';

	switch ($node, 'off');
	$gate->query_safe('COMMIT');
	is(finish_query($session), $sum, 'workers that run: the right rows');
	$_->quit foreach ($session, $gate);
	has_let_go('workers_run', 't',
		'workers that run: their rings are let go');
	switch ($node, 'on');
}

# The leader, in the middle of a statement, still has it on, and hands that on.
sub workers_that_start_later
{
	my ($table, $scan_ring) = @_;
	my $session = session_that_only_leads($scan_ring);
	my $pid = pid_of($session);
	my $gate = close_gate($node);

	start_query($session,
		"DO \$\$ BEGIN PERFORM through_gate(1, 1); PERFORM sum(id) FROM $table; END \$\$"
	);
	wait_at_gate($node, $pid);
	switch ($node, 'off');
	open_gate($gate);
	finish_query($session);
	$session->quit;
	is( counters($node, $table, 'scans, workers_launched, blocks'),
		"1|2|$pages",
		"workers that start later, scan_ring = $scan_ring: two have read it");
	rows_add_up($node, 'workers that start later');
	switch ($node, 'on');
}

sub workers_that_start_later_let_go
{
	load_table($node, 'start_later', $pages);
	workers_that_start_later('start_later', '128kB');
	is(counters($node, 'start_later', 'escapes_dirty > 0'),
		't', 'workers that start later: their rings are let go');
}

# A ring that would size itself, and is let go as soon as it is made, has room for
# all that look-ahead pins.
sub workers_that_let_go_have_room
{
	load_table($node, 'clean', $pages);
	$node->safe_psql('postgres', 'VACUUM (FREEZE) clean');
	# that is much, and nothing of the table is there
	configure(
		$node,
		shared_buffers => '64MB',
		max_connections => 10,
		'pg_ringctl.scan_threshold' => '16MB');
	workers_that_start_later('clean', -1);
	is(counters($node, 'clean', 'escapes_pinned, escapes_dirty'),
		'0|0', 'workers that start later: what they let go has room');
}

# What was let go stays so until the scan ends.
sub cursor_that_missed_off_and_on
{
	my $session = cursor_in_its_middle('missed');

	switch ($node, 'off');
	is($session->query_safe('SHOW pg_ringctl.enabled'),
		'off', 'off and on again: the session has seen it off');
	switch ($node, 'on');
	is($session->query_safe('SHOW pg_ringctl.enabled'),
		'on', 'off and on again: and on');
	fetch_the_rest($session, 'off and on again');
	has_let_go('missed', 't',
		'off and on again: its ring is let go for good');
}

# An index scan that has read ahead keeps only the page that it is at.
sub index_scan_lets_go
{
	my $session = session_with(
		$node, %with_library,
		'pg_ringctl.index_read_ahead' => 'on',
		'pg_ringctl.index_read_ahead_after' => 0,
		effective_io_concurrency => 16,
		enable_seqscan => 'off',
		enable_bitmapscan => 'off');
	my $pinned =
	  q(SELECT count(*) FROM pg_buffercache WHERE relfilenode = pg_relation_filenode('indexed') AND pinning_backends > 0);

	load_table($node, 'indexed', $pages);
	$node->safe_psql('postgres', 'CREATE INDEX ON indexed (id)');
	evict_pages($session, 'indexed');
	$session->query_safe(
		'BEGIN; DECLARE c CURSOR FOR SELECT filler FROM indexed WHERE id > 0; MOVE 100 IN c'
	);
	cmp_ok($node->safe_psql('postgres', $pinned),
		'>', 1, 'an index scan has read ahead');
	switch ($node, 'off');
	$session->query_safe('MOVE 1 IN c');
	is($node->safe_psql('postgres', $pinned),
		1, 'an index scan lets go what it has read ahead');
	$session->quit;
	switch ($node, 'on');
}

# Files that the server will not load do not switch off what is on.
sub files_that_cannot_be_loaded
{
	my ($session, $gate) = query_in_its_middle('broken');
	my $log = -s $node->logfile;

	$node->safe_psql('postgres', 'ALTER SYSTEM SET pg_ringctl.enabled = off');
	$node->append_conf('postgresql.conf', '] no parameter [');
	$node->reload;
	$node->wait_for_log(qr/contains errors; no changes were applied/, $log);
	is($node->safe_psql('postgres', 'SHOW pg_ringctl.enabled'),
		'on', 'broken files: the server does not load them');
	run_to_the_end($session, $gate, 'broken files');
	has_let_go('broken', 'f', 'broken files: the ring is kept');

	my $path = $node->data_dir . '/postgresql.conf';
	my $conf = slurp_file($path);
	$conf =~ s/^\] no parameter \[\n//m;
	open(my $file, '>', $path) or die "cannot write $path: $!";
	print $file $conf;
	close($file);
	switch ($node, 'on');
}

# What the server was started with goes before the files, whatever they say.
sub command_line
{
	my $name = 'command line';

	$node->stop;
	system_or_bail(
		'pg_ctl', '--wait',
		'-D', $node->data_dir,
		'-l', $node->logfile,
		'-o', '-c pg_ringctl.enabled=on',
		'start');
	$node->_update_pid(1);
	my ($session, $gate) = query_in_its_middle('commanded');
	$node->safe_psql('postgres', $_)
	  foreach (
		'ALTER SYSTEM SET pg_ringctl.enabled = off',
		"ALTER SYSTEM SET work_mem = '5MB'");
	reload($node, 'work_mem', '5MB');
	is($node->safe_psql('postgres', 'SHOW pg_ringctl.enabled'),
		'on', "$name: it is on");
	run_to_the_end($session, $gate, $name);
	has_let_go('commanded', 'f', "$name: the ring is kept");
	$node->safe_psql('postgres', $_)
	  foreach ('ALTER SYSTEM RESET work_mem',
		'ALTER SYSTEM SET pg_ringctl.enabled = on');
	$node->stop;
	$node->start;    # a restart would keep the command line
}

# A statement can't reload; what it scans then must not read the files each time,
# which the server's log would be full of.
sub reload_that_waits
{
	my $session = session_with($node, %with_library);
	my $pid = pid_of($session);
	my $gate = close_gate($node);

	$node->safe_psql('postgres', 'CREATE TABLE tiny AS SELECT 1 AS id');
	$node->append_conf('postgresql.conf',
		"include_if_exists = 'nowhere.conf'");
	start_query(
		$session, q(
DO $$ BEGIN
    PERFORM through_gate(1, 1);
    PERFORM set_config('pg_ringctl.scan_threshold', '0', true); FOR i IN 1 .. 5000 LOOP PERFORM FROM tiny; END LOOP;
END $$));
	wait_at_gate($node, $pid);
	reload($node, 'pg_ringctl.enabled', 'on');

	my $offset = -s $node->logfile;
	open_gate($gate);
	finish_query($session);

	# A reload between statements has no context.
	my $looks = () = slurp_file($node->logfile, $offset) =~
	  /skipping missing configuration file[^\n]*\n[^\n]*CONTEXT:/g;
	cmp_ok($looks, '>', 0, 'reload that waits: the files are looked at');
	cmp_ok($looks, '<', 500, 'reload that waits: not by every scan');
	is(counters($node, 'tiny', 'scans'),
		'5000', 'reload that waits: all scans are counted');
	$node->adjust_conf('postgresql.conf', 'include_if_exists', undef);
	reload($node, 'pg_ringctl.enabled', 'on');
	$session->quit;
}

# A ring that is kept passes to the session's next one, with all its buffers; one
# that was let go does not, and the next has to be filled again.
sub prewarm_that_runs
{
	my $session = session_with($node, %with_library);
	my $pid = pid_of($session);
	my $prewarm = q(SELECT (pg_ringctl_prewarm('prewarmed', 128)).blocks);

	load_table($node, 'prewarmed', $pages);
	$session->query_safe($prewarm);
	foreach my $to (qw(on off))
	{
		my $gate = close_gate($node);

		start_query($session,
			"$prewarm FROM generate_series(1, 1) i WHERE through_gate(i, 1)");
		wait_at_gate($node, $pid);
		switch ($node, $to);
		open_gate($gate);
		is(finish_query($session), $pages,
			"running prewarm, $to: reads all that it was to read");
		switch ($node, 'on');
		$session->query_safe($prewarm);
		is( counters($node, 'prewarmed', 'fills', 'prewarm'),
			$to eq 'on' ? '16' : '32',
			"running prewarm, $to: its ring is "
			  . ($to eq 'on' ? 'kept' : 'let go'));
	}
	$session->quit;
	rows_add_up($node, 'running prewarm');
}

sub new_scans_get_no_ring
{
	load_table($node, 'refused', $pages);
	my $session = session_with($node, %with_library);
	my $late = session_with($node, %with_library);

	$late->query_safe('BEGIN; DECLARE c CURSOR FOR SELECT id FROM refused');
	switch ($node, 'off');
	is($session->query_safe('SELECT sum(id) FROM refused'),
		$sum, 'off: a session that was there scans');
	is($late->query_safe('FETCH 3 FROM c'),
		"1\n2\n3", 'off: a cursor that was there begins to scan');
	$late->query_safe('COMMIT');
	$_->quit foreach ($session, $late);

	$session = session_with($node, %with_library);
	is($session->query_safe('SELECT sum(id) FROM refused'),
		$sum, 'off: a new session scans');
	$session->quit;
	is(counters($node, 'refused', 'scans'),
		'', 'off: no scan has got a ring, or was counted');
}

sub prewarm_gets_no_ring
{
	my $session = session_with($node, %with_library);

	$session->query_safe('\set VERBOSITY sqlstate');
	foreach my $ring_kb (-1, 64, 4096)
	{
		fails(
			$session,
			"SELECT * FROM pg_ringctl_prewarm('refused', $ring_kb)",
			qr/ERROR:  55000/,
			"off: prewarm with ring_kb $ring_kb");
		fails(
			$session,
			"SELECT * FROM pg_ringctl_prewarm_blocks('refused', '{1}', $ring_kb)",
			qr/ERROR:  55000/,
			"off: prewarm of blocks with ring_kb $ring_kb");
	}
	is( $session->query_safe(
			"SELECT blocks, ring_buffers, reuses FROM pg_ringctl_prewarm('refused', fit => 'ignore')"
		),
		"$pages|0|0",
		'off: prewarm without a ring');
	is( $session->query_safe(
			"SELECT blocks FROM pg_ringctl_prewarm_blocks('refused', '{1, 2}')"
		),
		'2',
		'off: prewarm of blocks without a ring');
	$session->quit;
}

sub on_again
{
	my $session = session_with($node, %with_library);

	switch ($node, 'on');
	load_table($node, 'again', $pages);
	is($session->query_safe('SELECT sum(id) FROM again'),
		$sum, 'on again: a session that was there scans');
	has_let_go('again', 'f', 'on again: through a ring that is kept');
	is( $session->query_safe(
			"SELECT blocks, ring_buffers, escapes FROM pg_ringctl_prewarm('again', 64)"
		),
		"$pages|8|0",
		'on again: prewarm with a ring');
	$session->quit;
}
