# Claims: scans of one table that run at the same time share their reads, and
# each of them gets every row exactly once, in whatever mix.  Who is in front
# waits for one that is slower, never for one that does not run, and never for
# good; its wait is seen, and ends like any other query.  However a scan ends,
# it leaves nothing behind, neither pinned pages nor its place among the others.

use strict;
use warnings FATAL => 'all';

use FindBin;
use lib $FindBin::RealBin;

use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(usleep);
use RingctlTest;

# More than three times what the rings can keep, an eighth of shared_buffers.
my $pages = 6000;
my $gates = $pages / 200;    # of each lane: see through_gates()

# What every scan asks for: that each row is there, and only once.
my $check = 'count(*), sum(id), sum(id::bigint * id)';
my $all = join('|',
	$pages, sum_to($pages), $pages * ($pages + 1) * (2 * $pages + 1) / 6);

# Processes that we stopped, and must not leave so.
my @stopped;
END { kill('CONT', @stopped) if @stopped }

# Nobody but the tests' own sessions may take a buffer.
my $node = new_node('main', allows_streaming => 1);
$node->append_conf(
	'postgresql.conf', q(
shared_buffers = 64MB
session_preload_libraries = 'pg_ringctl'
bgwriter_lru_maxpages = 0
checkpoint_timeout = 1h
max_worker_processes = 16
max_parallel_workers = 12
max_standby_streaming_delay = -1
));
start_with_buffercache($node);
$node->safe_psql(
	'postgres', q(
CREATE EXTENSION pg_ringctl;
CREATE EXTENSION pg_buffercache;

-- A gate every 200 rows: closed while somebody else has locked (lane, its number).
CREATE FUNCTION through_gates(id integer, lane integer) RETURNS boolean LANGUAGE plpgsql AS $$
BEGIN
    IF id % 200 = 0 THEN
        PERFORM pg_advisory_lock_shared(lane, id / 200);
        PERFORM pg_advisory_unlock_shared(lane, id / 200);
    END IF;
    RETURN true;
END $$;

-- Be busy, and take no lock and no snapshot meanwhile.
CREATE FUNCTION spin(duration interval) RETURNS void LANGUAGE plpgsql STABLE AS $$
DECLARE
    until timestamptz := clock_timestamp() + duration;
BEGIN
    WHILE clock_timestamp() < until LOOP
    END LOOP;
END $$;

-- Be slow, as long as somebody else has locked 2; a lock on 3 says so.
CREATE FUNCTION crawl(duration interval) RETURNS boolean LANGUAGE plpgsql AS $$
BEGIN
    IF pg_try_advisory_lock_shared(2) THEN
        PERFORM pg_advisory_unlock_shared(2);
    ELSE
        PERFORM pg_advisory_lock_shared(3);
        PERFORM spin(duration);
    END IF;
    RETURN true;
END $$));
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
my $observer = session($node);

starts_where_another_is();
in_step();
all_pinned();
cursors_in_turn($_) foreach (2, 4);
while_another_is_held();
all_at_once();
reads_at_once();
paused_cursor();
stopped_process();
stays_close();
waits_for_a_slow_one();
switch_ends_a_wait();
does_not_share();
starts_where_the_server_is();
errors();
places_are_given_back();
changed_tables();
updates_at_once();
ends_in_the_middle();
nothing_is_pinned($node, 'big', 'sharing');
is(ask('SELECT count(*) FROM pg_ringctl_rings'), 0, 'no ring is left');
rows_add_up($node, 'sharing');
standby();
$observer->quit;
$node->stop;
log_is_clean($node, 'sharing');
done_testing();


sub ask
{
	my ($query) = @_;

	return $observer->query_safe($query);
}

# Wait until the query says so.
sub wait_until
{
	my ($query, $what) = @_;
	my $tries = 100 * $PostgreSQL::Test::Utils::timeout_default;

	while (ask($query) ne 't')
	{
		die $what if --$tries == 0;
		usleep(10_000);
	}
}

sub reset_counters
{
	ask('SELECT pg_ringctl_stats_reset()');
}

# Columns of the rings of a process, a line for each.
sub rings
{
	my ($pid, $columns) = @_;

	return ask("SELECT $columns FROM pg_ringctl_rings WHERE pid = $pid ORDER BY ringid");
}

sub begins_to_crawl
{
	my ($pid) = @_;

	wait_until(
		"SELECT count(*) = 1 FROM pg_locks WHERE locktype = 'advisory' AND objid = 3 AND pid = $pid",
		'the scan does not begin');
}

# All numbers, each once, in any order.
sub is_complete
{
	my ($rows, $name) = @_;
	my @sorted = sort { $a <=> $b } @$rows;

	local $Test::Builder::Level = $Test::Builder::Level + 1;
	ok("@sorted" eq join(' ', 1 .. $pages), "$name: every row, and only once");
}

# A session with a scan of the table, held at the row with this number.
sub session_at_gate
{
	my ($table, $gate, %settings) = @_;
	my $session = session_with($node, %settings);
	my $pid = pid_of($session);

	start_query($session,
		"SELECT $check FROM $table WHERE through_gate(id, $gate)");
	wait_at_gate($node, $pid);
	return ($session, $pid);
}

# The session has got all rows of the table.
sub ends_complete
{
	my ($session, $name) = @_;

	local $Test::Builder::Level = $Test::Builder::Level + 1;
	is(finish_query($session), $all, "$name: its rows are complete");
	$session->quit;
}

# A scan starts at the block that another one has come to.
sub starts_where_another_is
{
	my $name = 'start';

	load_table($node, 'started', $pages);
	evict_pages($observer, 'started');
	my $gate = close_gate($node);
	my ($first, $first_pid) = session_at_gate('started', 1500);
	is(rings($first_pid, 'blocks_done BETWEEN 1400 AND 1500'),
		't', "$name: one is held");

	my @rows;
	my $second = session($node);
	my $second_pid = pid_of($second);
	$second->query_safe('BEGIN; DECLARE c CURSOR FOR SELECT id FROM started');
	push @rows, $second->query_safe('FETCH 1 FROM c');
	cmp_ok($rows[0], '>', 1400, "$name: another starts there");
	cmp_ok($rows[0], '<=', 1501, "$name: and not farther");
	push @rows, split(/\n/, $second->query_safe('FETCH 99 FROM c'));
	is(rings($second_pid, 'blocks_done'), 100, "$name: its blocks are counted");

	# A third one starts with the first: the second has a cursor that is idle.
	my $third = session($node);
	$third->query_safe('BEGIN; DECLARE c CURSOR FOR SELECT id FROM started');
	is($third->query_safe('FETCH 1 FROM c'),
		$rows[0], "$name: so does a third, while the second pauses");
	$third->quit;

	push @rows, split(/\n/, $second->query_safe('FETCH ALL FROM c'));
	is_complete(\@rows, "$name, the second");
	is($rows[-1], $rows[0] - 1, "$name: it ends where it has begun");
	$second->quit;

	open_gate($gate);
	ends_complete($first, "$name, the first");
	nothing_is_pinned($node, 'started', $name);
}

# A lane of gates for the scan of each of these processes, all closed: lane 0 is
# through_gates()'s 3.  Returns the sessions that hold them, what waits until a
# scan stands at a gate, and what opens one.
sub close_lanes
{
	my (@pids) = @_;
	my @lanes = map { session($node) } @pids;
	my $stands_at = sub {
		my ($lane, $gate) = @_;

		wait_until(
			"SELECT count(*) = 1 FROM pg_locks WHERE NOT granted AND pid = $pids[$lane] AND objid = $gate",
			"scan $lane does not come to gate $gate");
	};
	my $open = sub {
		my ($lane, $gate) = @_;

		$lanes[$lane]
		  ->query_safe('SELECT pg_advisory_unlock(' . ($lane + 3) . ", $gate)");
	};

	foreach my $lane (0 .. $#lanes)
	{
		$lanes[$lane]->query_safe('SELECT pg_advisory_lock('
			  . ($lane + 3)
			  . ", n) FROM generate_series(1, $gates) n");
	}
	return (\@lanes, $stands_at, $open);
}

# A new table, of which nothing is cached, nor dirty, so that a ring may let go of it.
sub load_clean_table
{
	my ($table) = @_;

	load_table($node, $table, $pages);
	ask("VACUUM $table");
	evict_pages($observer, $table);
}

# Two scans of a new table, each with a lane of gates, all closed but those that
# it has gone through.  They come to the first of these gates and pass each other
# at each one up to the second, behind which the second scan stands then.  Returns
# the sessions, their processes, those that hold the gates, and what waits until
# a scan stands at a gate, and opens one.
sub two_in_step
{
	my ($table, $begin, $middle) = @_;
	my @sessions = map { session($node) } 0 .. 1;
	my @pids = map { pid_of($_) } @sessions;
	my ($lanes, $stands_at, $open) = close_lanes(@pids);

	load_clean_table($table);
	$open->(0, $_) foreach (1 .. $begin - 1);
	foreach my $lane (0 .. 1)
	{
		start_query($sessions[$lane],
			"SELECT $check FROM $table WHERE through_gates(id, $lane + 3)");
		$stands_at->($lane, $begin);
	}

	# The second one began a little before the gate.  They pass each other.
	$open->(1, $begin);
	$stands_at->(1, $begin + 1);
	foreach my $gate ($begin + 1 .. $middle)
	{
		$open->(0, $gate - 1);
		$stands_at->(0, $gate);
		$open->(1, $gate);
		$stands_at->(1, $gate + 1);
	}
	return (\@sessions, \@pids, $lanes, $stands_at, $open);
}

# Two scans, each of which gets as far in front of the other as between two
# gates, and then only one of them: every page is read once.
sub in_step
{
	my $name = 'in step';
	my $begin = 10;
	my $middle = 20;
	my ($sessions, $pids, $lanes, $stands_at, $open) =
	  two_in_step('steps', $begin, $middle);
	my $grown = rings($pids->[1], 'ring_buffers');
	cmp_ok($grown, '>', 400, "$name: the ring keeps what is between two gates");

	# The first one stays in front.
	$open->(0, $_) foreach ($middle, $middle + 1);
	$stands_at->(0, $middle + 2);
	foreach my $gate ($middle + 1 .. $gates - 2)
	{
		$open->(1, $gate);
		$stands_at->(1, $gate + 1);
		$open->(0, $gate + 1);
		$stands_at->(0, $gate + 2) if $gate + 2 <= $gates;
	}
	cmp_ok(rings($pids->[1], 'ring_buffers'),
		'<', $grown / 4, "$name: one that follows gets a small ring");
	$open->(1, $gates - 1);
	$stands_at->(1, $gates);
	$open->(0, $gates);
	ends_complete($sessions->[0], "$name, the first");

	# The other one goes on alone, to where it has begun.
	$open->(1, $_) foreach (1 .. $begin - 2, $gates);
	$stands_at->(1, $begin - 1);
	cmp_ok(rings($pids->[1], 'ring_buffers'),
		'<', $grown / 2, "$name: the last one's ring stays small");
	$open->(1, $begin - 1);
	ends_complete($sessions->[1], "$name, the second");
	$_->quit foreach @$lanes;

	is( counters(
			$node,
			'steps',
			"scans, blocks, blks_read BETWEEN $pages AND 1.4 * $pages, blks_shared > 0.6 * $pages, share_waits, escapes_pinned + escapes_dirty + escapes_adopted"
		),
		'2|' . 2 * $pages . '|t|t|0|0',
		"$name: one has read for both");
	nothing_is_pinned($node, 'steps', $name);
}

# What is in a ring that is shared may be pinned by others, all of it: then it
# grows, rather than leave anything behind.
sub all_pinned
{
	my $name = 'all pinned';
	my $begin = 10;
	my $middle = 14;
	my ($sessions, $pids, $lanes, $stands_at, $open) =
	  two_in_step('pinned', $begin, $middle);

	# A cursor keeps the page of its row pinned.
	my @before = map { rings($_, 'ring_buffers') } @$pids;
	my $pinner = session($node);
	my @blocks = split /\n/, ask(q(
SELECT relblocknumber FROM pg_buffercache
 WHERE relfilenode = pg_relation_filenode('pinned') AND relforknumber = 0));
	$pinner->query_safe(
		join(';', 'BEGIN',
			map {
				"DECLARE c$_ CURSOR FOR SELECT FROM pinned WHERE ctid = '($_,1)'; FETCH 1 FROM c$_"
			} @blocks));
	cmp_ok(@blocks, '>=', $before[0] + $before[1] - 2 * 16,
		"$name: these are all there are");
	$open->(0, $middle);
	$stands_at->(0, $middle + 1);
	$open->(1, $middle + 1);
	$stands_at->(1, $middle + 2);
	my @after = map { rings($_, 'ring_buffers') } @$pids;
	cmp_ok($after[0] + $after[1],
		'>', $before[0] + $before[1],
		"$name: a ring grows");
	$pinner->quit;

	$open->(0, $_) foreach ($middle + 1 .. $gates);
	$open->(1, $_) foreach (1 .. $begin - 1, $middle + 2 .. $gates);
	ends_complete($sessions->[$_], "$name, scan $_") foreach 0 .. 1;
	$_->quit foreach @$lanes;
	is( counters($node, 'pinned', 'scans, blocks, escapes_pinned'),
		'2|' . 2 * $pages . '|0',
		"$name: nothing stays behind");
	nothing_is_pinned($node, 'pinned', $name);
}

# Cursors that stop and go on, and begin one after the other.
sub cursors_in_turn
{
	my ($n) = @_;
	my $name = "$n cursors in turn";
	my @sessions = map { session($node) } 1 .. $n;
	my @rows = map { [] } 1 .. $n;

	evict_pages($observer, 'big');
	$_->query_safe('BEGIN; DECLARE c CURSOR FOR SELECT id FROM big')
	  foreach @sessions;
	for (my $step = 0; $step < 20 + $n; $step++)
	{
		foreach my $i (0 .. $n - 1)
		{
			next if $step < $i;
			my $count = ($i * 331 + $step * 173) % 700;
			push @{ $rows[$i] },
			  split(/\n/, $sessions[$i]->query_safe("FETCH FORWARD $count FROM c"))
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

	evict_pages($observer, 'big');
	my ($held) = session_at_gate('big', 2500);
	my $session = session($node);
	my $checked = sub {
		my ($query, $result, $what) = @_;

		local $Test::Builder::Level = $Test::Builder::Level + 1;
		is($session->query_safe($query), $result, "$name: $what");
	};

	# Forward, backward, and again.
	$session->query_safe('BEGIN; DECLARE c SCROLL CURSOR FOR SELECT id FROM big');
	my @rows = split(/\n/, $session->query_safe('FETCH 1000 FROM c'));
	is(scalar(@rows), 1000, "$name: a thousand rows");
	my @back = split(/\n/, $session->query_safe('FETCH BACKWARD ALL FROM c'));
	is("@back", join(' ', reverse(@rows[ 0 .. 998 ])),
		"$name: the same ones backward");
	my @again = split(/\n/, $session->query_safe('FETCH ALL FROM c'));
	is_complete(\@again, "$name, forward again");
	is("@again[0 .. 999]", "@rows", "$name: in the same order");
	@back = split(/\n/, $session->query_safe('FETCH BACKWARD ALL FROM c'));
	ok("@back" eq join(' ', reverse @again),
		"$name: all of them, backward from the end");
	is($session->query_safe('FETCH FIRST FROM c'),
		$rows[0], "$name: a rescan begins where the scan did");
	@again = ($rows[0], split(/\n/, $session->query_safe('FETCH ALL FROM c')));
	is_complete(\@again, "$name, rescan");
	$session->query_safe('COMMIT');

	# Rescans of a join.
	$session->query_safe(
		'BEGIN; SET LOCAL enable_material = off; SET LOCAL enable_memoize = off');
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
		$all, 'one after the other');
	$checked->(
		'SELECT count(*), count(DISTINCT id) FROM (SELECT id FROM big LIMIT 1500) l',
		'1500|1500',
		'LIMIT');
	$checked->(
		'SELECT count(*), count(DISTINCT a.id) FROM (SELECT id FROM big LIMIT 700) a, (SELECT id FROM big LIMIT 2) b',
		'1400|700',
		'LIMIT of both sides of a join');

	# Scans that begin in the middle of others of the same process.
	$checked->(
		'SELECT count(*), sum(id), sum(id::bigint * id), sum(CASE WHEN id % 1000 = 0 THEN sum_of_big() END) FROM big',
		"$all|" . 6 * sum_to($pages),
		'scans of a function');
	$checked->(
		'SELECT count(*), sum(f), sum(f::bigint * id) FROM big JOIN rows_of_big() f ON f = id',
		$all, 'a join with a function');

	# Parallel ones.
	my $parallel =
	  session_with($node, max_parallel_workers_per_gather => 2);
	like(
		$parallel->query_safe("EXPLAIN SELECT $check FROM big"),
		qr/Workers Planned: 2.*Parallel Seq Scan/s,
		"$name: the plan is parallel");
	is($parallel->query_safe("SELECT $check FROM big"), $all, "$name: a parallel scan")
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
		[ qr{processed: @{[$clients * $transactions]}/@{[$clients * $transactions]}} ],
		[qr{^$}],
		"$name: every scan gets its rows",
		{ map { ("012_$name.$_" => $scripts{$_}) } keys %scripts });
}

sub check_script
{
	my ($from, $sum) = @_;

	return
	  "SELECT 1 / ((count(*), sum(id), sum(id::bigint * id))::text = '("
	  . join(',', split(/\|/, $all))
	  . ")')::integer FROM $from;\n";
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
		limit => "SELECT 1 / (count(DISTINCT id) = 900)::integer FROM (SELECT id FROM big LIMIT 900) l;\n",
		cursor => "BEGIN;\n"
		  . "DECLARE c SCROLL CURSOR FOR SELECT id FROM big;\n"
		  . "MOVE 1000 FROM c;\nMOVE BACKWARD 500 FROM c;\nMOVE 1700 FROM c;\nMOVE BACKWARD 10 FROM c;\nMOVE ALL FROM c;\n"
		  . "END;\n");

	reset_counters();
	evict_pages($observer, 'big');
	{
		local $ENV{PGOPTIONS} = '-c max_parallel_workers_per_gather=2';
		run_at_once('parallel scans', 2, 5, parallel => $scripts{serial});
	}
	run_at_once('scans', 4, 5, serial => $scripts{serial});
	run_at_once('mix', 6, 8, %scripts);
	is( counters(
			$node,
			'big',
			'blks_shared > 0, escapes_pinned + escapes_adopted < 0.01 * blocks, escapes_dirty'
		),
		't|t|0',
		'all at once: they have shared');
	nothing_is_pinned($node, 'big', 'all at once');
	rows_add_up($node, 'all at once');
}

# Two scans that just run: they read little more than the table.  Should the
# machine let one of them alone for too long, they need not.
sub reads_at_once
{
	my $name = 'reads at once';
	my $reads;
	my $table;

	for (my $try = 0; $try < 5 && !(defined $reads && $reads <= 1.5 * $pages); $try++)
	{
		$table = "together$try";
		load_table($node, $table, $pages);
		evict_pages($observer, $table);
		my $gate = close_gate($node);
		my @sessions =
		  map { (session_at_gate($table, $_))[0] } (200, 300);
		open_gate($gate);
		ends_complete($_, $name) foreach @sessions;
		$reads = counters($node, $table, 'blks_read');
	}
	cmp_ok($reads, '<=', 1.5 * $pages, "$name: fewer than two tables");
	is( counters(
			$node,
			$table,
			'blks_shared > 0, escapes_pinned + escapes_adopted < 0.01 * blocks, escapes_dirty'
		),
		't|t|0',
		"$name: shared");
	nothing_is_pinned($node, $table, $name);
}

# Nobody waits for a cursor that is idle.
sub paused_cursor
{
	my $name = 'paused cursor';
	my $session = session($node);
	my $other = session($node);

	evict_pages($observer, 'big');
	$session->query_safe('BEGIN; DECLARE c CURSOR FOR SELECT id FROM big');
	my @rows = split(/\n/, $session->query_safe('FETCH 100 FROM c'));
	reset_counters();
	is($other->query_safe("SELECT $check FROM big"), $all, "$name: another goes by")
	  foreach 1 .. 3;
	is(counters($node, 'big', 'scans, share_waits'),
		'3|0', "$name: without waiting");
	push @rows, split(/\n/, $session->query_safe('FETCH ALL FROM c'));
	is_complete(\@rows, $name);
	$_->quit foreach ($session, $other);
}

sub apply_brake
{
	my $brake = session($node);

	$brake->query_safe('SELECT pg_advisory_lock(2)');
	return $brake;
}

# One that is stopped is waited for, but not for long.  Whoever is not run for as
# long itself has lost its patience when it would begin, so that it may take more
# than one try.
sub stopped_process
{
	my $name = 'stopped process';
	my $waited = '';

	for (my $try = 0; $try < 5 && $waited ne 't'; $try++)
	{
		my $table = "stopping$try";
		my $gate = close_gate($node);
		my $brake = apply_brake();
		my $rear = session($node);
		my $rear_pid = pid_of($rear);

		load_table($node, $table, $pages);
		evict_pages($observer, $table);
		my ($front) = session_at_gate($table, 500);
		start_query($rear, "SELECT $check FROM $table WHERE crawl('2 s')");
		begins_to_crawl($rear_pid);

		# It spins now, and holds no lock that others need.
		push @stopped, $rear_pid;
		ok(kill('STOP', $rear_pid), "$name: one is stopped");
		open_gate($gate);
		ends_complete($front, "$name, another");
		is(counters($node, $table, 'scans'), '1', "$name: only that has ended");
		$waited = counters($node, $table, 'share_waits > 0');

		# One that begins now has nobody to wait for.
		is($node->safe_psql('postgres', "SELECT $check FROM $table"),
			$all, "$name: a third");
		$brake->quit;
		kill('CONT', $rear_pid);
		@stopped = ();
		ends_complete($rear, $name);
		nothing_is_pinned($node, $table, $name);
	}
	is($waited, 't', "$name: it has waited");
}

# One that was stopped is not waited for any more when it goes on; but as long as it
# is not far behind, it finds what the one in front has read.
sub stays_close
{
	my $name = 'not waited for';
	my $waited = '';

	for (my $try = 0; $try < 5 && $waited ne 't'; $try++)
	{
		my $table = "close$try";
		my @sessions = map { session($node) } 0 .. 1;
		my @pids = map { pid_of($_) } @sessions;
		my ($lanes, $stands_at, $open) = close_lanes(@pids);
		my $brake = apply_brake();
		my $last = 20;

		load_clean_table($table);
		start_query($sessions[0],
			"SELECT $check FROM $table WHERE through_gates(id, 3)");
		$stands_at->(0, 1);
		start_query($sessions[1],
			"SELECT $check FROM $table WHERE crawl('2 s') AND through_gates(id, 4)"
		);
		begins_to_crawl($pids[1]);
		push @stopped, $pids[1];
		ok(kill('STOP', $pids[1]), "$name: one is stopped");
		$open->(0, $_) foreach 1 .. 3;
		$stands_at->(0, 4);
		$waited = rings($pids[0], 'share_waits > 0');

		$brake->quit;
		kill('CONT', $pids[1]);
		@stopped = ();
		$open->(1, $_) foreach 1 .. 2;
		$stands_at->(1, 3);
		foreach my $gate (4 .. $last)
		{
			$open->(0, $gate);
			$stands_at->(0, $gate + 1);
			$open->(1, $gate - 1);
			$stands_at->(1, $gate);
		}
		is(rings($pids[1], 'fills + reuses < 100'),
			't', "$name: it finds what the other one reads")
		  if $waited eq 't';
		$open->(0, $_) foreach $last + 1 .. $gates;
		$open->(1, $_) foreach $last .. $gates;
		ends_complete($sessions[$_], "$name, scan $_") foreach 0 .. 1;
		is( counters(
				$node, $table,
				'scans, escapes_pinned + escapes_dirty + escapes_adopted'),
			'2|0',
			"$name: nothing stays behind");
		$_->quit foreach @$lanes;
		nothing_is_pinned($node, $table, $name);
	}
	is($waited, 't', "$name: it was waited for at first");
}

# Scans of this table that stand at these gates are made to wait for another one,
# which is slow.  How long they would is up to what they have run, so that they
# stand there for some time; and the slow one must really run meanwhile, so that
# it may take more than one try.  Returns the brake that makes it slow, and the
# session and pid of each, the slow one first; or nothing.
sub wait_for_a_slow_one
{
	my ($name, $table, @gates) = @_;
	my $gate = close_gate($node);
	my $brake = apply_brake();

	load_table($node, $table, $pages);
	evict_pages($observer, $table);
	my @fronts = map { [ session_at_gate($table, $_) ] } @gates;
	ask('SELECT pg_sleep(3)');
	my $rear = session($node);
	my $rear_pid = pid_of($rear);
	start_query($rear, "SELECT $check FROM $table WHERE crawl('3 ms')");
	begins_to_crawl($rear_pid);
	open_gate($gate);
	return ($brake, [ $rear, $rear_pid ], @fronts)
	  if all_wait(map { $_->[1] } @fronts);

	$brake->quit;
	ends_complete($_->[0], $name) foreach @fronts, [$rear];
	return;
}

# However a query ends, so does its wait.
sub waits_for_a_slow_one
{
	my $name = 'slow scan';
	my ($brake, $rear, $cancelled, $terminated, $patient);

	for (my $try = 0; $try < 5 && !$brake; $try++)
	{
		reset_counters();
		($brake, $rear, $cancelled, $terminated, $patient) =
		  wait_for_a_slow_one($name, "slow$try", 300, 320, 340);
		next if !$brake;
		ask("SELECT pg_cancel_backend($cancelled->[1])");
		next if finish_query($cancelled->[0]) ne $all;

		# It went on before the cancel came: once more.
		$brake->quit;
		$cancelled->[0]->quit;
		ends_complete($_->[0], $name) foreach ($terminated, $patient, $rear);
		$brake = undef;
	}
	ok($brake, "$name: three wait for a fourth") or return;

	like(
		$cancelled->[0]->{stderr},
		qr/canceling statement due to user request/,
		"$name: one that waits is cancelled");
	$cancelled->[0]->{stderr} = '';
	is($cancelled->[0]->query_safe("SELECT $check FROM big"),
		$all, "$name: and goes on");
	$cancelled->[0]->quit;

	ask("SELECT pg_terminate_backend($terminated->[1])");
	wait_until(
		"SELECT count(*) = 0 FROM pg_stat_activity WHERE pid = $terminated->[1]",
		'the session does not end');
	$terminated->[0]->{run}->kill_kill;
	pass("$name: one that waits is terminated");

	ends_complete($patient->[0], "$name, one that waits no more");
	is( ask("SELECT state FROM pg_stat_activity WHERE pid = $rear->[1]"),
		'active', "$name: before the slow one has ended");
	$brake->quit;
	ends_complete($rear->[0], $name);
	is( ask(
			q(SELECT bool_and(share_waits > 0 AND share_wait_ms > 0 AND share_wait_ms < 100000) FROM pg_ringctl_stats WHERE relname ~ '^slow.')
		),
		't',
		"$name: the waits are counted");
}

# The kill switch ends a wait before the scan would have gone on by itself, which
# it does after half of the time that it has run.  Where the reload takes as long
# as that, it has to be tried again.
sub switch_ends_a_wait
{
	my $name = 'kill switch';
	my $ended = '';

	for (my $try = 0; $try < 5 && $ended ne 't'; $try++)
	{
		my ($brake, $rear, $front) =
		  wait_for_a_slow_one($name, "switched$try", 300);

		next if !$brake;
		switch($node, 'off');
		is(finish_query($front->[0]), $all, "$name: its rows are complete");
		is( ask("SELECT state FROM pg_stat_activity WHERE pid = $rear->[1]"),
			'active', "$name: before the slow one has ended");
		switch($node, 'on');
		$ended = $front->[0]->query_safe(
			'SELECT share_waits > 0 AND share_wait_ms < 0.4 * (elapsed_ms - share_wait_ms) FROM pg_ringctl_last_scans()'
		);
		$brake->quit;
		$front->[0]->quit;
		ends_complete($rear->[0], $name);
	}
	is($ended, 't', "$name: it has ended the wait");
}

# Do all these processes wait in a scan that shares, once each at least?  False
# if one of them ends.
sub all_wait
{
	my @pids = @_;
	my $list = join(', ', @pids);
	my %seen;

	while (keys %seen < @pids)
	{
		my $states = ask("SELECT pid, wait_event_type, wait_event, state FROM pg_stat_activity WHERE pid IN ($list)");

		foreach (split(/\n/, $states))
		{
			my ($pid, $type, $event, $state) = split(/\|/);

			return 0 if $state ne 'active';
			$seen{$pid} = 1 if $type eq 'Extension' && $event eq 'RingShare';
		}
	}
	return 1;
}

# Where one said so, each scan is alone.
sub does_not_share
{
	my %cases = (
		'share_scans off' => { 'pg_ringctl.share_scans' => 'off' },
		'a fixed ring' => { 'pg_ringctl.scan_ring' => '1MB' },
		'synchronize_seqscans off' => { 'synchronize_seqscans' => 'off' },
		'observed' => { 'pg_ringctl.mode' => 'observe' },
		'no room for a window' => { 'pg_ringctl.max_ring' => '256kB' },
		'a small table' => { 'pg_ringctl.scan_threshold' => 0 });
	my $n = 0;

	foreach my $name (sort keys %cases)
	{
		my $table = 'alone' . ++$n;
		my $small = $name eq 'a small table';
		my $result = $all;

		load_table($node, $table, $small ? 1900 : $pages);
		evict_pages($observer, $table);
		my $gate = close_gate($node);
		my ($held) = session_at_gate($table, 1500, %{ $cases{$name} });
		my $session = session_with($node, %{ $cases{$name} });

		$session->query_safe("BEGIN; DECLARE c CURSOR FOR SELECT id FROM $table");
		my $row = $session->query_safe('FETCH 1 FROM c');
		is($row, 1, "$name: begins with the first block")
		  if $small || $name =~ /synchronize/;
		$session->query_safe('COMMIT');
		is( $session->query_safe("SELECT $check FROM $table"),
			$small
			? '1900|' . sum_to(1900) . '|' . 1900 * 1901 * 3801 / 6
			: $all,
			"$name: a scan of its own");
		$session->quit;
		open_gate($gate);
		finish_query($held);
		$held->quit;
		is(counters($node, $table, 'scans, blks_shared, share_waits'),
			'3|0|0', "$name: nothing is shared");
	}
}

# Where there is nobody to share with, a parallel scan, too, starts where the server
# knows another one to be.
sub starts_where_the_server_is
{
	my $name = "the server's start";
	my %parallel = (
		max_parallel_workers => 1,	# so one worker, whatever the plan says
		max_parallel_workers_per_gather => 2,
		parallel_leader_participation => 'off');
	my $query = 'SELECT (array_agg(id))[1] FROM known';

	load_table($node, 'known', $pages);
	evict_pages($observer, 'known');
	my $gate = close_gate($node);
	my ($held) =
	  session_at_gate('known', 1500, 'pg_ringctl.share_scans' => 'off');
	my $session = session_with($node, %parallel);

	like($session->query_safe("EXPLAIN $query"),
		qr/Parallel Seq Scan/, "$name: the plan is parallel");
	cmp_ok($session->query_safe($query), '>', 1400, $name);
	$session->quit;
	open_gate($gate);
	ends_complete($held, $name);
}

# One fails in the middle, the others go on; and its session, too.
sub errors
{
	my $name = 'error';
	my $gate = close_gate($node);
	my $session = session($node);

	evict_pages($observer, 'big');
	my ($held) = session_at_gate('big', 2000);
	fails(
		$session,
		'SELECT count(*) FROM big WHERE 1 / (id - 2300) < 2',
		qr/division by zero/,
		"$name: in the middle");
	is($session->query_safe("SELECT $check FROM big"), $all, "$name: the next scan");
	is( $session->query_safe(
			q(
DO $$
DECLARE
    n bigint;
    caught integer := 0;
BEGIN
    FOR i IN 1 .. 5 LOOP
        BEGIN
            SELECT count(*) INTO n FROM big a WHERE 1 / (id - 500 * i) < 2;
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
		my $parallel = session_with($node, max_parallel_workers_per_gather => 2);

		$gate = close_gate($node);
		($held) = session_at_gate('big', 1000);
		fails($parallel, 'SELECT sum(1 / (id - 2345)) FROM big',
			qr/division by zero/, $name);
		is($parallel->query_safe("SELECT $check FROM big"),
			$all, "$name: the next scan");
		$parallel->quit;
		open_gate($gate);
		ends_complete($held, "$name, the one that was held");
	}
}

# There are places for two scans of each backend: more than that may fail.
sub places_are_given_back
{
	my $name = 'places';

	$node->safe_psql(
		'postgres', q(
DO $$
BEGIN
    FOR i IN 1 .. 500 LOOP
        BEGIN
            PERFORM 1 / (id - id) FROM big;
        EXCEPTION WHEN division_by_zero THEN
        END;
        PERFORM id FROM big LIMIT 1;
    END LOOP;
END $$));

	load_table($node, 'placed', $pages);
	evict_pages($observer, 'placed');
	my $gate = close_gate($node);
	my ($held) = session_at_gate('placed', 1000);
	is($node->safe_psql('postgres', "SELECT $check FROM placed"),
		$all, "$name: a scan");
	open_gate($gate);
	ends_complete($held, "$name, another");
	is(counters($node, 'placed', 'blks_shared > 0'),
		't', "$name: there is room to share");

	# More at once than there is room for: those without scan alone.
	my $many = session($node);
	$many->query_safe('BEGIN; SET LOCAL enable_hashjoin = off');
	$many->query_safe("DECLARE c$_ CURSOR FOR SELECT id FROM placed; MOVE 1 FROM c$_")
	  foreach 1 .. 30;
	$many->query_safe(
		q(
DO $$
DECLARE
    c refcursor;
    n integer;
BEGIN
    FOR i IN 1 .. 300 LOOP
        c := NULL;
        OPEN c FOR SELECT id FROM placed;
        FETCH c INTO n;
    END LOOP;
END $$));
	is($many->query_safe("SELECT $check FROM placed"),
		$all, "$name: a scan more than there is room for");
	is($node->safe_psql('postgres', "SELECT $check FROM placed"),
		$all, "$name: of another session");
	$many->query_safe('COMMIT');
	$many->quit;
	nothing_is_pinned($node, 'placed', $name);
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
	evict_pages($observer, 'grown');
	my $gate = close_gate($node);
	my ($held) = session_at_gate('grown', 2000);
	my $n = $pages;
	foreach my $more (1, 1000)
	{
		$node->safe_psql('postgres',
			"INSERT INTO grown SELECT n, repeat('x', 600) FROM generate_series($n + 1, $n + $more) n"
		);
		$n += $more;
		is( $node->safe_psql('postgres', 'SELECT count(*), count(DISTINCT id), sum(id) FROM grown'),
			"$n|$n|" . sum_to($n),
			"$name: a scan of $n pages");
	}
	open_gate($gate);
	ends_complete($held, "$name, the one that began before");
	is($node->safe_psql('postgres', 'SELECT count(DISTINCT id) FROM grown'),
		$n, "$name: the next one");

	# A scan starts where another one has just ended.
	is( $node->safe_psql('postgres',
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
	is( $node->safe_psql('postgres',
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
	is( $vacuum->query_safe("VACUUM tail; SELECT $check FROM tail"),
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
				like(
					$sessions[$i]->{stderr},
					qr/deadlock detected/,
					"$name: a deadlock was found");
				$sessions[$i]->{stderr} = '';
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

	evict_pages($observer, 'big');
	my ($held) = session_at_gate('big', 2000);
	my @cursors = map { session($node) } 0 .. 3;
	$_->query_safe(
		'BEGIN; DECLARE c CURSOR FOR SELECT id FROM big; MOVE 300 FROM c')
	  foreach @cursors;
	$cursors[0]->query_safe('CLOSE c');
	is($cursors[0]->query_safe("SELECT $check FROM big"), $all, "$name: after CLOSE");
	$cursors[1]->query_safe('ROLLBACK');
	is($cursors[1]->query_safe("SELECT $check FROM big"),
		$all, "$name: after ROLLBACK");
	$cursors[2]->quit;
	my $pid = pid_of($cursors[3]);
	ask("SELECT pg_terminate_backend($pid)");
	wait_until("SELECT count(*) = 0 FROM pg_stat_activity WHERE pid = $pid",
		'the session does not end');
	$cursors[3]->{run}->kill_kill;
	is($node->safe_psql('postgres', "SELECT $check FROM big"), $all, "$name: another");
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
	foreach my $table (qw(kept conflict))
	{
		my $gate = session($standby);
		$gate->query_safe('SELECT pg_advisory_lock(1)');
		my @held = map { [ session_at_gate($table, $_) ] } (1000, 1100);

		if ($table eq 'kept')
		{
			is($standby->safe_psql('postgres', "SELECT $check FROM $table"),
				$all, "$name: a scan");
			open_gate($gate);
			ends_complete($_->[0], "$name, others") foreach @held;
			is( counters($standby, $table, 'scans, blks_shared > 0, escapes_pinned'),
				'3|t|0', "$name: they have shared");
			next;
		}

		$standby->append_conf('postgresql.conf', 'max_standby_streaming_delay = 0');
		reload($standby, 'max_standby_streaming_delay', 0);
		$primary->safe_psql('postgres', "DROP TABLE $table");
		$primary->wait_for_replay_catchup($standby);
		foreach (@held)
		{
			finish_query($_->[0]);
			like(
				$_->[0]->{stderr},
				qr/due to conflict with recovery/,
				"$name: cancelled by recovery");
			$_->[0]->{stderr} = '';
			is($_->[0]->query_safe("SELECT $check FROM kept"),
				$all, "$name: the session goes on");
			$_->[0]->quit;
		}
		open_gate($gate);
	}
	nothing_is_pinned($standby, 'kept', $name);
	rows_add_up($standby, $name);
	$standby->stop;
	log_is_clean($standby, $name);
	$node = $primary;
}
