# Claims: if scans of one table run at the same time, and share their reads because
# reads cost, each gets every row exactly once, whatever kinds of scans run
# together.  However a scan ends, it leaves no page pinned, and is not among the
# scans that share any more.

use strict;
use warnings FATAL => 'all';

use FindBin;
use lib $FindBin::RealBin;

use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use RingctlTest;
use RingctlSharing;

slow_reads(100);
my $node = new_sharing_node('main');
load_table($node, 'big', $pages);
$node->safe_psql(
	'postgres', q(
CREATE FUNCTION sum_of_big() RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE
    total bigint := 0;
    r record;
BEGIN
    FOR r IN SELECT id FROM big LOOP
        total := total + r.id;
    END LOOP;
    RETURN total;
END $$;
CREATE FUNCTION rows_of_big() RETURNS SETOF integer LANGUAGE plpgsql AS $$
BEGIN
    RETURN QUERY SELECT id FROM big;
END $$));

starts_where_another_is();
cursors_in_turn($_) foreach (2, 4);
while_another_is_held();
all_at_once();
errors();
places_are_given_back();
changed_tables();
updates_at_once();
ends_in_the_middle();
nothing_is_pinned($node, 'big', 'sharing');
is(ask('SELECT count(*) FROM pg_ringctl_rings'), 0, 'no ring is left');
rows_add_up($node, 'sharing');
standby();
stop_looking();
$node->stop;
log_is_clean($node, 'sharing');
done_testing();


# A scan starts near the block that another one is at.
sub starts_where_another_is
{
	my $name = 'start';

	load_table($node, 'started', $pages);
	forget_pages('started');
	my $gate = close_gate($node);
	my ($first, $first_pid) = session_at_gate('started', 1500);
	is(rings($first_pid, 'blocks_done BETWEEN 1400 AND 1500'),
		't', "$name: one is held");
	my $asked = rings($first_pid, 'blocks_done + look_ahead');

	my @rows;
	my $second = session($node);
	my $second_pid = pid_of($second);
	$second->query_safe('BEGIN; DECLARE c CURSOR FOR SELECT id FROM started');
	push @rows, $second->query_safe('FETCH 1 FROM c');
	cmp_ok($rows[0], '>', 1400, "$name: another starts there");
	cmp_ok($rows[0], '<=', $asked + 1, "$name: and not farther");
	push @rows, split(/\n/, $second->query_safe('FETCH 99 FROM c'));
	is(rings($second_pid, 'blocks_done'),
		100, "$name: its blocks are counted");

	push @rows, split(/\n/, $second->query_safe('FETCH ALL FROM c'));
	is_complete(\@rows, "$name, the second");
	is($rows[-1], $rows[0] - 1, "$name: it ends where it has begun");
	$second->quit;

	open_gate($gate);
	ends_complete($first, "$name, the first");
	nothing_is_pinned($node, 'started', $name);
}

# Cursors that stop and go on, and begin one after the other.
sub cursors_in_turn
{
	my ($n) = @_;
	my $name = "$n cursors in turn";
	my @sessions = map { session($node) } 1 .. $n;
	my @rows = map { [] } 1 .. $n;

	forget_pages('big');
	$_->query_safe('BEGIN; DECLARE c CURSOR FOR SELECT id FROM big')
	  foreach @sessions;
	for (my $step = 0; $step < 20 + $n; $step++)
	{
		foreach my $i (0 .. $n - 1)
		{
			next if $step < $i;
			my $count = ($i * 331 + $step * 173) % 700;
			push @{ $rows[$i] },
			  split(/\n/,
				$sessions[$i]->query_safe("FETCH FORWARD $count FROM c"))
			  if $count > 0;
		}
	}
	foreach my $i (0 .. $n - 1)
	{
		push @{ $rows[$i] },
		  split(/\n/, $sessions[$i]->query_safe('FETCH ALL FROM c'));
		is_complete($rows[$i], "$name, number $i");
		$sessions[$i]->quit;
	}
	nothing_is_pinned($node, 'big', $name);
}

# All that one may do with a scan which began in the middle.
sub while_another_is_held
{
	my $name = 'while another is held';
	my $gate = close_gate($node);

	forget_pages('big');
	my ($held) = session_at_gate('big', 2500);
	my $session = session($node);
	my $checked = sub {
		my ($query, $result, $what) = @_;

		local $Test::Builder::Level = $Test::Builder::Level + 1;
		is($session->query_safe($query), $result, "$name: $what");
	};

	# Forward, backward, and again.
	$session->query_safe(
		'BEGIN; DECLARE c SCROLL CURSOR FOR SELECT id FROM big');
	my @rows = split(/\n/, $session->query_safe('FETCH 1000 FROM c'));
	is(scalar(@rows), 1000, "$name: a thousand rows");
	my @back = split(/\n/, $session->query_safe('FETCH BACKWARD ALL FROM c'));
	is( "@back",
		join(' ', reverse(@rows[ 0 .. 998 ])),
		"$name: the same ones backward");
	my @again = split(/\n/, $session->query_safe('FETCH ALL FROM c'));
	is_complete(\@again, "$name, forward again");
	is("@again[0 .. 999]", "@rows", "$name: in the same order");
	@back = split(/\n/, $session->query_safe('FETCH BACKWARD ALL FROM c'));
	ok( "@back" eq join(' ', reverse @again),
		"$name: all of them, backward from the end");
	is($session->query_safe('FETCH FIRST FROM c'),
		$rows[0], "$name: a rescan begins where the scan did");
	@again =
	  ($rows[0], split(/\n/, $session->query_safe('FETCH ALL FROM c')));
	is_complete(\@again, "$name, rescan");
	$session->query_safe('COMMIT');

	# Rescans of a join.
	$session->query_safe(
		'BEGIN; SET LOCAL enable_material = off; SET LOCAL enable_memoize = off'
	);
	$checked->(
		"SELECT count(*), sum(id), count(DISTINCT id) FROM generate_series(1, 3) g, LATERAL (SELECT id FROM big WHERE id > -g OFFSET 0) b",
		3 * $pages . '|' . 3 * sum_to($pages) . "|$pages",
		'rescans');
	$session->query_safe('COMMIT');

	# Two scans of one query, and of one process.
	foreach my $method (qw(hash merge))
	{
		my $other = $method eq 'hash' ? 'merge' : 'hash';

		$session->query_safe("BEGIN; SET LOCAL enable_${other}join = off");
		$checked->(
			'SELECT count(*), sum(a.id), sum(a.id::bigint * b.id) FROM big a JOIN big b USING (id)',
			$all,
			"self-join, $method");
		$session->query_safe('COMMIT');
	}
	$checked->(
		'SELECT count(*), sum(id), sum(id::bigint * id) FROM big WHERE id IN (SELECT id FROM big)',
		$all, 'semi-join');
	$checked->(
		"SELECT $check FROM (SELECT id FROM big WHERE id % 2 = 0 UNION ALL SELECT id FROM big WHERE id % 2 = 1) u",
		$all,
		'one after the other');
	$checked->(
		'SELECT count(*), count(DISTINCT id) FROM (SELECT id FROM big LIMIT 1500) l',
		'1500|1500', 'LIMIT');
	$checked->(
		'SELECT count(*), count(DISTINCT a.id) FROM (SELECT id FROM big LIMIT 700) a, (SELECT id FROM big LIMIT 2) b',
		'1400|700',
		'LIMIT of both sides of a join');

	# Scans that begin in the middle of others of the same process.
	$checked->(
		'SELECT count(*), sum(id), sum(id::bigint * id), sum(CASE WHEN id % 3000 = 0 THEN sum_of_big() END) FROM big',
		"$all|" . $pages / 3000 * sum_to($pages),
		'scans of a function');
	$checked->(
		'SELECT count(*), sum(f), sum(f::bigint * id) FROM big JOIN rows_of_big() f ON f = id',
		$all,
		'a join with a function');

	# Parallel ones.
	my $parallel = session_with($node, max_parallel_workers_per_gather => 2);
	like(
		$parallel->query_safe("EXPLAIN SELECT $check FROM big"),
		qr/Workers Planned: 2.*Parallel Seq Scan/s,
		"$name: the plan is parallel");
	is($parallel->query_safe("SELECT $check FROM big"),
		$all, "$name: a parallel scan")
	  foreach 1 .. 2;
	$parallel->query_safe('SET parallel_leader_participation = off');
	is($parallel->query_safe("SELECT $check FROM big"),
		$all, "$name: a parallel scan without its leader");
	$parallel->quit;

	$session->quit;
	open_gate($gate);
	ends_complete($held, $name);
	nothing_is_pinned($node, 'big', $name);
}

# Scripts for pgbench; each checks its own result.
sub run_at_once
{
	my ($name, $clients, $transactions, %scripts) = @_;

	local $Test::Builder::Level = $Test::Builder::Level + 1;
	$node->pgbench(
		"--no-vacuum --client=$clients --jobs=2 --transactions=$transactions",
		0,
		[
			qr{processed: @{[$clients * $transactions]}/@{[$clients * $transactions]}}
		],
		[qr{^$}],
		"$name: every scan gets its rows",
		{ map { ("012_$name.$_" => $scripts{$_}) } keys %scripts });
}

# They begin and end, wait and follow as it comes.
sub all_at_once
{
	my $check_big = check_script('big');
	my %scripts = (
		serial => $check_big,
		parallel => "SET max_parallel_workers_per_gather = 2;\n"
		  . $check_big
		  . "SET max_parallel_workers_per_gather = 0;\n",
		selfjoin => check_script('big a JOIN big b USING (id)'),
		limit =>
		  "SELECT 1 / (count(DISTINCT id) = 900)::integer FROM (SELECT id FROM big LIMIT 900) l;\n",
		cursor => "BEGIN;\n"
		  . "DECLARE c SCROLL CURSOR FOR SELECT id FROM big;\n"
		  . "MOVE 1000 FROM c;\nMOVE BACKWARD 500 FROM c;\nMOVE 1700 FROM c;\nMOVE BACKWARD 10 FROM c;\nMOVE ALL FROM c;\n"
		  . "END;\n");

	reset_counters();
	forget_pages('big');
	{
		local $ENV{PGOPTIONS} = '-c max_parallel_workers_per_gather=2';
		run_at_once('parallel scans', 2, 5, parallel => $scripts{serial});
	}
	run_at_once('scans', 4, 5, serial => $scripts{serial});
	run_at_once('mix', 6, 8, %scripts);
	is( counters(
			$node,
			'big',
			'scan_sharing_blks_hit > 0, escapes_pinned + escapes_adopted < 0.01 * blocks, escapes_dirty'
		),
		't|t|0',
		'all at once: they have shared');
	nothing_is_pinned($node, 'big', 'all at once');
	rows_add_up($node, 'all at once');
}

# One fails in the middle, the others go on; and its session, too.
sub errors
{
	my $name = 'error';
	my $gate = close_gate($node);
	my $session = session($node);

	forget_pages('big');
	my ($held) = session_at_gate('big', 2000);
	fails(
		$session,
		'SELECT count(*) FROM big WHERE 1 / (id - 3600) < 2',
		qr/division by zero/,
		"$name: in the middle");
	is($session->query_safe("SELECT $check FROM big"),
		$all, "$name: the next scan");
	is( $session->query_safe(
			q(
DO $$
DECLARE
    n bigint;
    caught integer := 0;
BEGIN
    FOR i IN 1 .. 5 LOOP
        BEGIN
            SELECT count(*) INTO n FROM big a WHERE 1 / (id - 1100 * i) < 2;
        EXCEPTION WHEN division_by_zero THEN
            caught := caught + 1;
            SELECT count(*) INTO n FROM big;
            ASSERT n = (SELECT count(DISTINCT id) FROM big);
        END;
    END LOOP;
    ASSERT caught = 5;
END $$;
SELECT 'caught')),
		'caught',
		"$name: caught, and scanned again");

	# A cursor goes on that began before, with one that failed behind it.
	$session->query_safe('BEGIN; DECLARE c CURSOR FOR SELECT id FROM big');
	my @rows = split(/\n/, $session->query_safe('FETCH 1000 FROM c'));
	$session->query_safe('SAVEPOINT s');
	fails(
		$session,
		'SELECT count(*) FROM big WHERE 1 / (id - 1) < 2',
		qr/division by zero/,
		"$name: in a subtransaction");
	$session->query_safe('ROLLBACK TO s');
	push @rows, split(/\n/, $session->query_safe('FETCH ALL FROM c'));
	is_complete(\@rows, "$name, a cursor around it");
	$session->query_safe('COMMIT');
	$session->quit;
	open_gate($gate);
	ends_complete($held, "$name, the one that was held");
	nothing_is_pinned($node, 'big', $name);

	{
		my $name = 'error in a worker';
		my $parallel =
		  session_with($node, max_parallel_workers_per_gather => 2);

		$gate = close_gate($node);
		($held) = session_at_gate('big', 1000);
		fails(
			$parallel,
			'SELECT sum(1 / (id - 4345)) FROM big',
			qr/division by zero/, $name);
		is($parallel->query_safe("SELECT $check FROM big"),
			$all, "$name: the next scan");
		$parallel->quit;
		open_gate($gate);
		ends_complete($held, "$name, the one that was held");
	}
}

# There are places for two scans of each backend.  More than that, one in the
# middle of the other, share where there is room, and give their places back when
# they fail.
sub places_are_given_back
{
	my $name = 'places';
	my $depth = 1 + 2 * ask(
		q(
SELECT sum(setting::integer) FROM pg_settings
 WHERE name IN ('max_connections', 'max_worker_processes', 'max_wal_senders',
                'autovacuum_max_workers', 'autovacuum_worker_slots')));
	my $session = session($node);

	load_clean_table('placed');
	ask(q(
CREATE FUNCTION nested(depth integer) RETURNS integer LANGUAGE plpgsql AS $$
BEGIN
    IF depth = 0 THEN
        RAISE EXCEPTION 'deep enough';
    END IF;
    PERFORM sum(CASE WHEN n = 1200 THEN nested(depth - 1) END) FROM (SELECT row_number() OVER () AS n FROM placed) p;
END $$));
	$session->query_safe("SET max_stack_depth = '6MB'");
	fails(
		$session,
		"SELECT nested($depth)",
		qr/deep enough/,
		"$name: $depth scans") foreach 1 .. 2;
	is($session->query_safe("SELECT $check FROM placed"),
		$all, "$name: a scan of that session");
	nothing_is_pinned($node, 'placed', $name);
	$session->quit;
	shares('placed', $name);
}

# Two scans that run at the same time share.  Should the machine let one of them
# alone for too long, they need not.
sub shares
{
	my ($table, $name) = @_;
	my $shared = '';

	local $Test::Builder::Level = $Test::Builder::Level + 1;
	for (my $try = 0; $try < $tries && $shared ne 't'; $try++)
	{
		two_at_once("${table}_$try", $name);
		$shared =
		  counters($node, "${table}_$try", 'scan_sharing_blks_hit > 0');
	}
	is($shared, 't', "$name: there is room to share");
}

# Tables that grow, shrink and go.
sub changed_tables
{
	my $name = 'changed table';

	# VACUUM waits for the cursor's lock, and gives up after five seconds; let
	# that go on in the background.
	load_table($node, 'tail', $pages + 1000);
	$node->safe_psql('postgres', "DELETE FROM tail WHERE id > $pages");
	my $cursor = session($node);
	$cursor->query_safe('BEGIN; DECLARE c CURSOR FOR SELECT id FROM tail');
	my @rows = split(/\n/, $cursor->query_safe('FETCH 100 FROM c'));
	my $vacuum = session($node);
	start_query($vacuum, 'VACUUM tail');
	is($node->safe_psql('postgres', "SELECT $check FROM tail"),
		$all, "$name: a scan during VACUUM");

	# One more page than the others know of, and a thousand more.
	load_table($node, 'grown', $pages);
	forget_pages('grown');
	my $gate = close_gate($node);
	my ($held) = session_at_gate('grown', 2000);
	my $n = $pages;
	foreach my $more (1, 1000)
	{
		$node->safe_psql('postgres',
			"INSERT INTO grown SELECT n, repeat('x', 600) FROM generate_series($n + 1, $n + $more) n"
		);
		$n += $more;
		is( $node->safe_psql(
				'postgres',
				'SELECT count(*), count(DISTINCT id), sum(id) FROM grown'),
			"$n|$n|" . sum_to($n),
			"$name: a scan of $n pages");
	}
	open_gate($gate);
	ends_complete($held, "$name, the one that began before");
	is( $node->safe_psql('postgres', 'SELECT count(DISTINCT id) FROM grown'),
		$n,
		"$name: the next one");

	# A scan starts where another one has just ended.
	is( $node->safe_psql(
			'postgres',
			"DELETE FROM grown WHERE id > $pages; VACUUM grown; SELECT $check FROM grown"
		),
		$all,
		"$name: smaller again");
	$node->safe_psql('postgres', 'TRUNCATE grown');
	is($node->safe_psql('postgres', 'SELECT count(*) FROM grown'),
		0, "$name: empty");
	$node->safe_psql('postgres',
		"INSERT INTO grown SELECT n, repeat('x', 600) FROM generate_series(1, $pages) n"
	);
	is( $node->safe_psql(
			'postgres',
			"SELECT $check FROM grown; SELECT $check FROM grown; DROP TABLE grown"
		),
		"$all\n$all",
		"$name: loaded again, and dropped");

	finish_query($vacuum);
	is($vacuum->{stderr}, '', "$name: VACUUM ends");
	push @rows, split(/\n/, $cursor->query_safe('FETCH ALL FROM c'));
	is_complete(\@rows, "$name, a cursor during VACUUM");
	$cursor->query_safe('COMMIT');
	$cursor->quit;
	is($vacuum->query_safe("VACUUM tail; SELECT $check FROM tail"),
		$all, "$name: a scan after VACUUM");
	is( $vacuum->query_safe(
			"SELECT pg_relation_size('tail') / current_setting('block_size')::integer"
		),
		$pages,
		"$name: which has cut it");
	$vacuum->quit;
}

# Two change the same rows: they wait for each other's locks, not for each
# other's scans.  The server may find a deadlock, as without us.
sub updates_at_once
{
	my $name = 'updates at once';
	my $done = 0;
	my $sum = 0;

	load_table($node, 'changed', $pages);
	$node->safe_psql('postgres',
		'ALTER TABLE changed ADD COLUMN n integer DEFAULT 0');
	foreach my $lock (0, 1)
	{
		my $gate = close_gate($node);
		my @sessions = map { session($node) } 0 .. 1;
		my @queries = map {
			"UPDATE changed SET n = n + 1 WHERE through_gate(id, 1500 + 100 * $_)"
		} 0 .. 1;
		$queries[1] =
		  'SELECT sum(1) FROM (SELECT id FROM changed WHERE through_gate(id, 1600) FOR UPDATE) u'
		  if $lock;

		foreach my $i (0 .. 1)
		{
			start_query($sessions[$i], $queries[$i]);
			begins_to_change($i + 1);
		}
		open_gate($gate);
		foreach my $i (0 .. 1)
		{
			finish_query($sessions[$i]);
			if ($sessions[$i]->{stderr} eq '')
			{
				$done++;
				$sum += $pages if !$lock || $i == 0;
			}
			else
			{
				says(
					$sessions[$i],
					qr/deadlock detected/,
					"$name: a deadlock was found");
			}
			$sessions[$i]->quit;
		}
	}
	cmp_ok($done, '>=', 2, "$name: both end, and one of them well");
	is($node->safe_psql('postgres', 'SELECT sum(n) FROM changed'),
		$sum, "$name: every row, as often as it should be");
	is($node->safe_psql('postgres', "SELECT $check FROM changed"),
		$all, "$name: a scan after them");
	nothing_is_pinned($node, 'changed', $name);
}

# So many sessions wait for some lock.
sub begins_to_change
{
	my ($n) = @_;

	wait_until(
		"SELECT count(*) = $n FROM pg_stat_activity WHERE wait_event_type = 'Lock'",
		'the change does not begin');
}

# A cursor is closed, a transaction ends, a session, its client.
sub ends_in_the_middle
{
	my $name = 'ends in the middle';
	my $gate = close_gate($node);

	forget_pages('big');
	my ($held) = session_at_gate('big', 2000);
	my @cursors = map { session($node) } 0 .. 3;
	$_->query_safe(
		'BEGIN; DECLARE c CURSOR FOR SELECT id FROM big; MOVE 300 FROM c')
	  foreach @cursors;
	$cursors[0]->query_safe('CLOSE c');
	is($cursors[0]->query_safe("SELECT $check FROM big"),
		$all, "$name: after CLOSE");
	$cursors[1]->query_safe('ROLLBACK');
	is($cursors[1]->query_safe("SELECT $check FROM big"),
		$all, "$name: after ROLLBACK");
	$cursors[2]->quit;
	my $pid = pid_of($cursors[3]);
	ask("SELECT pg_terminate_backend($pid)");
	wait_until("SELECT count(*) = 0 FROM pg_stat_activity WHERE pid = $pid",
		'the session does not end');
	$cursors[3]->{run}->kill_kill;
	is($node->safe_psql('postgres', "SELECT $check FROM big"),
		$all, "$name: another");
	$_->quit foreach @cursors[ 0 .. 1 ];
	open_gate($gate);
	ends_complete($held, $name);
	nothing_is_pinned($node, 'big', $name);
}

# On a standby, with its own gate, and locks that recovery does not wait for.
sub standby
{
	my $name = 'standby';
	my $standby = PostgreSQL::Test::Cluster->new('standby');
	my $primary = $node;

	$primary->backup('backup');
	$standby->init_from_backup($primary, 'backup', has_streaming => 1);
	$standby->start;
	load_table($primary, $_, $pages) foreach qw(kept conflict);
	$primary->wait_for_replay_catchup($standby);
	$standby->restart;

	$node = $standby;
	look_at($standby);
	foreach my $table (qw(kept conflict))
	{
		my $gate = session($standby);
		$gate->query_safe('SELECT pg_advisory_lock(1)');
		my @held = map { [ session_at_gate($table, $_) ] } (1000, 1100);

		if ($table eq 'kept')
		{
			is( $standby->safe_psql('postgres', "SELECT $check FROM $table"),
				$all,
				"$name: a scan");
			open_gate($gate);
			ends_complete($_->[0], "$name, others") foreach @held;
			is( counters(
					$standby, $table,
					'scans, scan_sharing_blks_hit > 0, escapes_pinned'),
				'3|t|0',
				"$name: they have shared");
			next;
		}

		$standby->append_conf('postgresql.conf',
			'max_standby_streaming_delay = 0');
		reload($standby, 'max_standby_streaming_delay', 0);
		$primary->safe_psql('postgres', "DROP TABLE $table");
		$primary->wait_for_replay_catchup($standby);
		foreach (@held)
		{
			finish_query($_->[0]);
			says(
				$_->[0],
				qr/due to conflict with recovery/,
				"$name: cancelled by recovery");
			is($_->[0]->query_safe("SELECT $check FROM kept"),
				$all, "$name: the session goes on");
			$_->[0]->quit;
		}
		open_gate($gate);
	}
	nothing_is_pinned($standby, 'kept', $name);
	rows_add_up($standby, $name);
	stop_looking();
	$standby->stop;
	log_is_clean($standby, $name);
	$node = $primary;
	look_at($primary);
}
