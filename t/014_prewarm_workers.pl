# Claims: a prewarm with workers reads every block once, whatever other sessions do
# meanwhile; each process is seen with its own ring; a session that waits for an
# exclusive lock causes no deadlock; the prewarm goes on if it gets fewer workers
# than asked for; and however it ends, its workers end before it does, and leave
# nothing pinned or locked.

use strict;
use warnings FATAL => 'all';

use FindBin;
use lib $FindBin::RealBin;

use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(usleep);
use RingctlTest;

my $pages = 2500;
my $many_pages =
  20000;    # the leader is not through before its workers are there

# Processes that we stopped, and must not leave so.
my @stopped;
END { kill('CONT', @stopped) if @stopped }

my $node = new_node('main', allows_streaming => 1);
$node->append_conf(
	'postgresql.conf', q(
session_preload_libraries = 'pg_ringctl'
checkpoint_timeout = 1h
max_parallel_workers = 8
max_worker_processes = 12
));
start_with_buffercache($node);
$node->safe_psql('postgres',
	'CREATE EXTENSION pg_ringctl; CREATE EXTENSION pg_buffercache');
load_table($node, 'big', $pages);
load_table($node, 'large', $many_pages);
my $observer = session($node);
my $io_workers = $node->pg_version >= 18 && ask('SHOW io_method') eq 'worker';

exact_sums();
waiting_exclusive_lock();
out_of_workers();
seen_while_it_runs();
held();
switched_off();
changed_meanwhile();
dropped_meanwhile();
temporary_table_of_another();
standby();
nothing_is_left('in the end');
$observer->quit;
$node->stop;
log_is_clean($node, 'workers');

failing_reads();
done_testing();


sub ask
{
	my ($query) = @_;

	return $observer->query_safe($query);
}

# Wait until a query returns true.
sub wait_for
{
	my ($query) = @_;

	for (
		my $i = 0;
		$i < 100 * $PostgreSQL::Test::Utils::timeout_default;
		$i++)
	{
		return 1 if ask($query) eq 't';
		usleep(10_000);
	}
	die "this does not come true: $query";
}

# No worker, no ring, no lock, no pin.
sub nothing_is_left
{
	my ($name) = @_;

	local $Test::Builder::Level = $Test::Builder::Level + 1;
	is( ask(q(
SELECT (SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'parallel worker'),
       (SELECT count(*) FROM pg_ringctl_rings),
       (SELECT count(*) FROM pg_locks WHERE relation >= 16384 AND pid <> pg_backend_pid()))
		),
		'0|0|0',
		"$name: no worker, ring or lock is left");
	nothing_is_pinned($node, $_, $name) foreach qw(big large);
}

# A prewarm that takes long: one after the other, in one statement.
sub long_prewarm
{
	my ($arguments) = @_;

	return
	  "SELECT sum(p.blocks) FROM generate_series(1, 1000000) i, LATERAL pg_ringctl_prewarm('large', $arguments, first_block => i * 0) p";
}

sub exact_sums
{
	foreach my $workers (0, 1, 3, 8)
	{
		ask('SELECT pg_ringctl_stats_reset()');
		is( ask("SELECT blocks, blks_hit + blks_read, ring_buffers, escapes FROM pg_ringctl_prewarm('big', 128, workers => $workers)"
			),
			"$pages|$pages|" . 16 * ($workers + 1) . '|0',
			"$workers workers: the result");
		ask('SELECT count(*) FROM pg_ringctl_stats_info');   # what is pending
		is( counters(
				$node, 'big', 'scans, workers_launched, blocks', 'prewarm'),
			"1|$workers|$pages",
			"$workers workers: the counters");
	}
	rows_add_up($node, 'exact sums');
	nothing_is_left('exact sums');
}

# The leader holds its lock, somebody waits for an exclusive one, and only then
# the workers come.
sub waiting_exclusive_lock
{
	my $session = session($node);
	my $other = session($node);
	my $pid = pid_of($other);

	$node->safe_psql('postgres', 'CREATE INDEX big_id ON big (id)');
	$session->query_safe('BEGIN; LOCK TABLE big IN ACCESS SHARE MODE');
	start_query($other,
		'BEGIN; LOCK TABLE big IN ACCESS EXCLUSIVE MODE; COMMIT');
	wait_for(
		"SELECT count(*) = 1 FROM pg_locks WHERE pid = $pid AND NOT granted AND mode = 'AccessExclusiveLock'"
	);
	is( $session->query_safe(
			"SELECT blocks FROM pg_ringctl_prewarm('big', 128, workers => 3)"
		),
		$pages,
		'somebody waits for an exclusive lock: a prewarm');
	is( $session->query_safe(
			"SELECT sum(blocks) > $pages FROM pg_ringctl_prewarm_all('big', 128, workers => 3)"
		),
		't',
		'somebody waits for an exclusive lock: a table and its index');
	is( ask("SELECT count(*) FROM pg_locks WHERE pid = $pid AND NOT granted"),
		'1', 'and he waits still');
	$session->query_safe('COMMIT');
	finish_query($other);
	$_->quit foreach $session, $other;
	$node->safe_psql('postgres', 'DROP INDEX big_id');
	nothing_is_left('somebody waits for an exclusive lock');
}

sub out_of_workers
{
	my $session = session($node);

	foreach my $workers (0, 1)
	{
		$session->query_safe("SET max_parallel_workers = $workers");
		is( $session->query(
				"SELECT blocks, ring_buffers FROM pg_ringctl_prewarm('big', 128, workers => 3)"
			),
			"$pages|" . 16 * (1 + $workers),
			"$workers workers can be had: the result");
		says(
			$session,
			qr/NOTICE:  launched $workers of 3 parallel workers\nHINT:  .*max_parallel_workers.*max_worker_processes/,
			"$workers workers can be had: the message");
	}
	# One message, however many relations.
	$session->query_safe('SET max_parallel_workers = 0');
	is( $session->query(
			"SELECT sum(blocks) > $pages FROM pg_ringctl_prewarm_all('pg_proc', 128, workers => 3), generate_series(1, 50)"
		),
		't',
		'no worker for several relations');
	is(scalar(() = $session->{stderr} =~ /NOTICE/g), 1, 'is told once');
	$session->{stderr} = '';
	$session->quit;
	nothing_is_left('out of workers');
}

# All processes are seen, and cancelled at once.
sub seen_while_it_runs
{
	foreach my $end (qw(pg_cancel_backend pg_terminate_backend))
	{
		my $session = session($node);
		my $pid = pid_of($session);

		start_query($session, long_prewarm('128, workers => 3'));
		wait_for(
			qq(
SELECT count(*) FILTER (WHERE pid = $pid AND leader_pid IS NULL) = 1 AND
       count(*) FILTER (WHERE leader_pid = $pid) = 3 AND
       bool_and(relname = 'large' AND kind = 'prewarm' AND source = 'argument' AND ring_buffers = 16) AND
       bool_and(blocks_total = $many_pages AND blocks_done BETWEEN 0 AND $many_pages) AND
       sum(blocks_done) <= $many_pages
  FROM pg_ringctl_rings));
		pass("$end: the leader and its workers are seen");
		wait_for(
			qq(
SELECT bool_or(query LIKE '%pg_ringctl_prewarm%') FROM pg_stat_activity
 WHERE leader_pid = $pid AND backend_type = 'parallel worker'));
		pass("$end: and so is what the workers do");

		# At the end of each prewarm who is done first waits for the others.
		wait_for(
			"SELECT bool_or(wait_event = '$_') FROM pg_stat_activity WHERE $pid IN (pid, leader_pid)"
		) foreach qw(RingctlPrewarmFinish RingctlPrewarmNext);
		pass("$end: and whom they wait for");

		ask("SELECT $end($pid)");
		if ($end eq 'pg_cancel_backend')
		{
			finish_query($session);
			says(
				$session,
				qr/canceling statement due to user request/,
				"$end: the query ended");
			nothing_is_left($end);
			is( $session->query_safe(
					"SELECT blocks FROM pg_ringctl_prewarm('big', 128, workers => 3)"
				),
				$pages,
				"$end: the session goes on");
			$session->quit;
		}
		else
		{
			wait_for(
				"SELECT count(*) = 0 FROM pg_stat_activity WHERE pid = $pid");
			eval { $session->quit };
			nothing_is_left($end);
		}
	}

	# in a subtransaction, whose end is the end of the workers, too
	my $session = session($node);
	my $pid = pid_of($session);
	$session->query_safe(
		q(CREATE FUNCTION caught(statement text) RETURNS text LANGUAGE plpgsql AS $$
BEGIN
    EXECUTE statement;
    RETURN 'ended';
EXCEPTION WHEN query_canceled OR admin_shutdown THEN
    RETURN SQLSTATE || ' ' || (SELECT count(*) FROM pg_stat_activity WHERE leader_pid = pg_backend_pid());
END $$));
	start_query(
		$session,
		sprintf('BEGIN; SELECT caught($s$%s$s$)',
			long_prewarm('128, workers => 3')));
	wait_for(
		"SELECT count(*) = 3 FROM pg_ringctl_rings WHERE leader_pid = $pid");
	ask("SELECT pg_cancel_backend($pid)");
	is(finish_query($session), '57014 0',
		'cancelled and caught: no worker is left');
	is( $session->query_safe(
			"CREATE TABLE written (); SELECT blocks FROM pg_ringctl_prewarm('big', 128, workers => 3); ROLLBACK"
		),
		$pages,
		'cancelled and caught: the transaction goes on, and may write');
	# an error in a worker is the leader's; one may just be at its end, or beyond
	ask('SET client_min_messages = error; SET log_min_messages = error');
	start_query($session, long_prewarm('128, workers => 3'));
	wait_for(
		"SELECT state = 'active' FROM pg_stat_activity WHERE pid = $pid");
	wait_for(
		qq(
SELECT count(pg_terminate_backend(pid)) >= 0 AND
       (SELECT state = 'idle' FROM pg_stat_activity WHERE pid = $pid)
  FROM pg_stat_activity WHERE leader_pid = $pid));
	ask('RESET client_min_messages; RESET log_min_messages');
	finish_query($session);
	says(
		$session,
		qr/ERROR:  (terminating (connection|background worker "parallel worker") due to administrator command|parallel worker failed to initialize|lost connection to parallel worker)/,
		'a worker is terminated: the query fails');
	nothing_is_left('a worker is terminated');
	$session->quit;
}

# Everybody can be held where others read for him.
sub held
{
  SKIP:
	{
		skip 'no process reads for another one', 14 if !$io_workers;

		foreach my $end (qw(end cancel))
		{
			my $name = "held, $end";
			my $session = session($node);
			my $pid = pid_of($session);

			# From 19 on, who finds the queue of the I/O workers locked reads for
			# itself (pgaio_worker_submit()), and so has done some blocks.
			my $done =
			  $node->pg_version =~ /^18/
			  ? 'blocks_done'
			  : 'CASE WHEN blocks_done < blocks_total THEN 0 END';
			my $rings =
			  "SELECT pid = $pid, relid::regclass, kind, ring_kb, $done, blocks_total, look_ahead > 0 FROM pg_ringctl_rings() WHERE $pid IN (pid, leader_pid) ORDER BY 1 DESC";
			my $waiting =
			  "SELECT count(*) = 3 FROM pg_stat_activity WHERE $pid IN (pid, leader_pid) AND wait_event = 'AioIoCompletion'";

			evict_pages($observer, 'big');
			ask('SELECT pg_ringctl_stats_reset()');
			# what we are going to ask shall not need to read
			is(ask("SELECT 'big'::regclass \\gset\n$rings; $waiting"),
				'f', "$name: nothing yet");
			@stopped = split(
				/\n/,
				ask("SELECT pid FROM pg_stat_activity WHERE backend_type = 'io worker'"
				));
			kill('STOP', @stopped) == @stopped
			  or die 'cannot stop the I/O workers';
			start_query($session,
				"SELECT blocks, ring_buffers FROM pg_ringctl_prewarm('big', 512, first_block => 500, workers => 2)"
			);
			wait_for($waiting);
			is( ask($rings),
				join("\n",
					map { "$_|big|prewarm|512|0|" . ($pages - 500) . '|t' }
					  qw(t f f)),
				"$name: the rings of all three");
			ask("SELECT pg_cancel_backend($pid)") if $end eq 'cancel';
			# a worker that is to end needs its reads to come to an end first
			kill('CONT', @stopped);
			@stopped = ();
			is(finish_query($session),
				$end eq 'end' ? ($pages - 500) . '|192' : '', $name);
			$session->{stderr} = '';
			is( counters($node, 'big', 'scans, workers_launched', 'prewarm'),
				'1|2',
				"$name: counted");
			nothing_is_left($name);
			$session->quit;
		}
	}
}

# The switch holds for workers as for their leader.
sub switched_off
{
	my $session = session($node);

	switch ($node, 'off');
	fails(
		$session,
		"SELECT * FROM pg_ringctl_prewarm_all('big', 128, workers => 2)",
		qr/ERROR:  cannot use a ring while pg_ringctl is switched off/,
		'switched off: no ring');
	is( $session->query_safe(
			"SELECT blocks, ring_buffers, reuses FROM pg_ringctl_prewarm('big', workers => 2, fit => 'ignore')"
		),
		"$pages|0|0",
		'switched off: without one');
	switch ($node, 'on');
	$session->quit;
	nothing_is_left('switched off');
}

# Others truncate, rewrite and fill what is read, again and again.
sub changed_meanwhile
{
	my $session = session($node);
	my $pid = pid_of($session);

	$node->safe_psql(
		'postgres',
		q(CREATE TABLE busy (id integer PRIMARY KEY, filler text);
INSERT INTO busy SELECT n, repeat('x', 600) FROM generate_series(1, 4000) n));
	start_query($session,
		"SELECT count(*) > 0, bool_and(p.blocks = p.blks_hit + p.blks_read) FROM generate_series(1, 60) i, LATERAL pg_ringctl_prewarm_all('busy', 128 * sign(i)::integer, workers => 2) p"
	);
	for (my $i = 0; $i < 4; $i++)
	{
		$node->safe_psql('postgres', $_)
		  foreach 'TRUNCATE busy',
		  "INSERT INTO busy SELECT n, repeat('y', 600) FROM generate_series(1, 4000) n",
		  'VACUUM FULL busy', 'DELETE FROM busy WHERE id > 1000',
		  'VACUUM busy',
		  'REINDEX TABLE busy', 'CLUSTER busy USING busy_pkey';
	}
	is(finish_query($session), 't|t',
		'changed meanwhile: all that was read adds up');
	unlike($session->{stderr}, qr/ERROR/, 'changed meanwhile: no error');
	$session->{stderr} = '';
	$session->quit;
	nothing_is_left('changed meanwhile');
}

# What was listed may be gone when it would be read: the prewarm waits for the
# first index, whose lock it did not need before, while another partition goes.
sub dropped_meanwhile
{
	my $session = session($node);
	my $pid = pid_of($session);

	foreach my $workers (0, 2)
	{
		my $name = "dropped meanwhile, $workers workers";
		my $other = session($node);

		$node->safe_psql(
			'postgres',
			q(CREATE TABLE tree (id integer, filler text) PARTITION BY RANGE (id);
CREATE TABLE tree_1 PARTITION OF tree FOR VALUES FROM (0) TO (1000);
CREATE TABLE tree_2 PARTITION OF tree FOR VALUES FROM (1000) TO (2000);
CREATE TABLE tree_3 PARTITION OF tree FOR VALUES FROM (2000) TO (3000);
CREATE INDEX tree_id ON tree (id);
INSERT INTO tree SELECT n, repeat('x', 600) FROM generate_series(0, 2999) n));
		$other->query_safe('BEGIN; REINDEX INDEX tree_1_id_idx');
		start_query($session,
			"SELECT string_agg(relid::regclass::text, ' '), sum(blocks) > 16 FROM pg_ringctl_prewarm_all('tree', 128, '{indexes,table}', workers => $workers)"
		);
		wait_for(
			"SELECT wait_event_type = 'Lock' FROM pg_stat_activity WHERE pid = $pid"
		);
		is( ask("SELECT string_agg(c.relname, ' ' ORDER BY c.oid) FROM pg_locks l JOIN pg_class c ON c.oid = l.relation WHERE l.pid = $pid AND c.oid >= 16384"
			),
			'tree_1 tree_1_id_idx',
			"$name: only what is read now is locked");
		$node->safe_psql('postgres', 'DROP TABLE tree_2');
		$other->query_safe('ROLLBACK');
		is(finish_query($session),
			'tree_1_id_idx tree_3_id_idx tree_1 tree_3|t', $name);
		is( join(' ',
				$session->{stderr} =~
				  /NOTICE:  skipping "(\w+)" --- relation no longer exists/g),
			'tree_2_id_idx tree_2',
			"$name: the messages");
		$session->{stderr} = '';
		$other->quit;
		$node->safe_psql('postgres', 'DROP TABLE tree');
	}
	$session->quit;
	nothing_is_left('dropped meanwhile');
}

sub temporary_table_of_another
{
	my $session = session($node);

	$session->query_safe(
		'CREATE TEMP TABLE mine AS SELECT 1 AS id; CREATE TEMP TABLE parted (id integer) PARTITION BY LIST (id)'
	);
	foreach my $table (qw(mine parted))
	{
		my $oid = $session->query_safe("SELECT '$table'::regclass::oid");

		my ($ret, $stdout, $stderr) = $node->psql('postgres',
			"\\set VERBOSITY verbose\nSELECT * FROM pg_ringctl_prewarm_all($oid, workers => 2)"
		);
		like(
			$stderr,
			qr/ERROR:  0A000: cannot access temporary tables of other sessions/,
			"another session's $table");
	}
	$session->quit;
}

sub standby
{
	$node->backup('backup');
	my $standby = PostgreSQL::Test::Cluster->new('standby');
	$standby->init_from_backup($node, 'backup', has_streaming => 1);
	$standby->append_conf('postgresql.conf',
		"max_standby_streaming_delay = '1s'");
	$standby->start;
	$node->wait_for_catchup($standby);

	is( $standby->safe_psql(
			'postgres',
			"SELECT blocks, blks_hit + blks_read, ring_buffers FROM pg_ringctl_prewarm('big', 128, workers => 2)"
		),
		"$pages|$pages|48",
		'standby: a prewarm');
	is( $standby->safe_psql(
			'postgres',
			"BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY; SELECT sum(blocks) >= $pages FROM pg_ringctl_prewarm_all('big', 128, workers => 2); COMMIT"
		),
		't',
		'standby: a table with its parts');

	# Truncation is replayed between two prewarms, not within one.  One that
	# waits for a relation's lock has its snapshot already; if replay waits for
	# that, the server cancels it, as any query.
	my $session = session($standby);
	start_query(
		$session,
		join(
			";\n",
			(   "SELECT bool_and(blocks = blks_hit + blks_read) FROM pg_ringctl_prewarm_all('busy', 128, workers => 2)"
			) x 20));
	for (my $i = 0; $i < 3; $i++)
	{
		$node->safe_psql('postgres', $_)
		  foreach 'TRUNCATE busy',
		  "INSERT INTO busy SELECT n, repeat('y', 600) FROM generate_series(1, 2000) n",
		  'VACUUM FULL busy';
	}
	like(finish_query($session), qr/^(t\n?)*$/,
		'standby: changes are replayed meanwhile');
	is( join(
			'',
			grep {
				/ERROR/
				  && !/canceling statement due to conflict with recovery/
			  }
			  split(/^/, $session->{stderr})),
		'',
		'standby: no other error than that of a conflict');
	$node->wait_for_catchup($standby);
	is( $session->query(
			"SELECT bool_and(blocks = blks_hit + blks_read) FROM pg_ringctl_prewarm_all('busy', 128, workers => 2)"
		),
		't',
		'standby: after the changes');
	$session->{stderr} = '';
	$session->quit;
	$standby->stop;
	log_is_clean($standby, 'standby');
}

# Whoever reads a page that is broken, the user hears of it.
sub failing_reads
{
	$node->start;
	$observer = session($node);
	my $path = ask("SELECT pg_relation_filepath('big')");
	$node->stop;
	foreach my $page (1, int($pages / 2), $pages - 1)
	{
		$node->corrupt_page_checksum($path, $page * 8192);
	}
	$node->start;
	$observer = session($node);
	foreach my $statement (
		"SELECT * FROM pg_ringctl_prewarm('big', 128, workers => 3)",
		"SELECT * FROM pg_ringctl_prewarm_all('big', fit => 'ignore', workers => 3)",
		"SELECT caught(\$\$SELECT * FROM pg_ringctl_prewarm('big', 128, workers => 3)\$\$)"
	  )
	{
		fails(
			$observer, $statement,
			qr/ERROR:  (XX001: )?invalid page in block/,
			"broken pages: $statement");
		nothing_is_left("broken pages: $statement");
	}
	# The rest is still readable by all.
	is( ask("SELECT blocks FROM pg_ringctl_prewarm('big', 128, first_block => 2, last_block => 1000, workers => 3)"
		),
		'999',
		'broken pages: the others');
	$observer->quit;
	$node->stop;
}
