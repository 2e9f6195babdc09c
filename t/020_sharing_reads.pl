# Claims: if reads cost, scans of one table that run at the same time share them:
# the pages that one scan has read, the others find in its ring, which grows for
# them and leaves nothing behind.  If reads cost nothing, or if the user says so, no
# scan shares; nor does a scan that may be stopped early.  In 18, of two scans at the
# same place one follows the other.

use strict;
use warnings FATAL => 'all';

use FindBin;
use lib $FindBin::RealBin;

use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use RingctlTest;
use RingctlSharing;

slow_reads(200);
my $node = new_sharing_node('main', effective_io_concurrency => 2);

in_step();
windows_are_divided();
what_stands_still();
parallel_scans_are_one();
all_pinned();
pinned_while_blocks_are_found();
reads_at_once();
leaves_hot_pages();
may_be_stopped();
one_follows();
does_not_share();
starts_where_the_server_is();
rows_add_up($node, 'sharing');
files_are_cached();
stop_looking();
$node->stop;
log_is_clean($node, 'sharing');
done_testing();


# Scans of several tables share at the same time, and evict nothing that is used.
# Without rings, they would evict everything.
sub leaves_hot_pages
{
	my $name = 'hot pages';
	my @hot = map { "hot$_" } 1 .. 3;
	my @big = map { "many$_" } 1 .. 3;
	my $list = join(', ', map { "'$_'::regclass" } @hot);
	my $count =
	  "SELECT count(*) FROM pg_buffercache WHERE relfilenode IN (SELECT pg_relation_filenode(r) FROM unnest(ARRAY[$list]) r)";

	my ($hot, $left, $shared) = (0, 0, 0);

	load_clean_table($_) foreach @big;
	foreach my $table (@hot)
	{
		load_table($node, $table, 1600);
		ask("VACUUM $table");
	}

	# Their windows are small: on a busy machine a scan may fall too far behind, and
	# its ring then gives buffers up and takes others.
	for (
		my $try = 0;
		$try < $tries && ($shared == 0 || $left < 0.98 * $hot);
		$try++)
	{
		my @sessions = map { session($node) } 1 .. 6;

		forget_pages($_) foreach @big;
		foreach my $table (@hot)
		{
			# up to the highest usage count, in every try
			ask("SELECT count(*) FROM $table") foreach 1 .. 5;
		}
		$hot = ask($count);
		foreach my $n (0 .. 5)
		{
			start_query($sessions[$n], "SELECT $check FROM $big[$n % 3]");
		}
		ends_complete($_, $name) foreach @sessions;
		$left = ask($count);
		$shared = ask(
			"SELECT sum(scan_sharing_blks_hit) FROM pg_ringctl_stats WHERE relname ~ '^many'"
		);
	}
	cmp_ok($left, '>=', 0.98 * $hot, "$name: all of $hot stay");
	cmp_ok($shared, '>', 0, "$name: the scans did share");
	ask("DROP TABLE $_") foreach @hot, @big;
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
	my ($lanes, $stands_at, $open, $first) = close_lanes(@pids);

	load_clean_table($table);
	$open->(0, $_) foreach (1 .. $begin - 1);
	$open->(1, $begin);
	foreach my $lane (0 .. 1)
	{
		# The second one starts a little before the first one's gate.
		start_query($sessions[$lane],
			"SELECT $check FROM $table WHERE through_gates(id, $first + $lane)"
		);
		$stands_at->($lane, $begin + $lane);
	}

	go_on_in_step($stands_at, $open, $begin, $middle);
	return (\@sessions, \@pids, $lanes, $stands_at, $open);
}

# Such scans go on from one gate to another.
sub go_on_in_step
{
	my ($stands_at, $open, $from, $to) = @_;

	foreach my $gate ($from + 1 .. $to)
	{
		$open->(0, $gate - 1);
		$stands_at->(0, $gate);
		$open->(1, $gate);
		$stands_at->(1, $gate + 1);
	}
}

# Two scans, each of which gets as far in front of the other as between two
# gates, and then only one of them: every page is read once.
sub in_step
{
	my $name = 'in step';
	my $begin = 6;
	my $middle = 16;
	my ($sessions, $pids, $lanes, $stands_at, $open) =
	  two_in_step('steps', $begin, $middle);
	my $grown = rings($pids->[1], 'ring_buffers');
	cmp_ok($grown, '>', 400,
		"$name: the ring keeps what is between two gates");

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
			"scans, blocks, blks_read BETWEEN $pages AND 1.4 * $pages, scan_sharing_blks_hit > 0.5 * $pages, scan_sharing_waits, escapes_pinned + escapes_dirty + escapes_adopted"
		),
		'2|' . 2 * $pages . '|t|t|0|0',
		"$name: one has read for both");
	nothing_is_pinned($node, 'steps', $name);
}

# Scans of tables run slowly, as long as nobody cancels them.  Each of the sessions
# gets one of the tables.
sub run_slowly
{
	my ($sessions, @tables) = @_;

	foreach my $n (0 .. $#$sessions)
	{
		start_query($sessions->[$n],
			"SELECT count(*) FROM $tables[$n % @tables] WHERE pg_sleep(0.02) IS NOT NULL"
		);
	}
}

sub cancel_slow_ones
{
	my (@sessions) = @_;

	ask("SELECT pg_cancel_backend(pid) FROM pg_stat_activity WHERE query ~ 'WHERE pg_sleep' AND leader_pid IS NULL AND pid <> pg_backend_pid()"
	);
	foreach (@sessions)
	{
		finish_query($_);
		$_->{stderr} = '';
		$_->quit;
	}
}

# Four tables, each with two scans that run.  Together they keep no more than the
# scans of one table may, so a part of that is left for each table, which is less than
# what is between two gates: no ring keeps that any more.
sub windows_are_divided
{
	my $name = 'windows';
	my $middle = 12;
	my @slow = map { "slow$_" } 1 .. 3;
	my @sessions = map { session($node) } 1 .. 6;

	load_clean_table($_) foreach @slow;
	my ($pair, $pids, $lanes, $stands_at, $open) =
	  two_in_step('divided', 6, $middle);
	cmp_ok(rings($pids->[1], 'ring_buffers'),
		'>', 400, "$name: the ring keeps what is between two gates");

	run_slowly(\@sessions, @slow);
	wait_until(
		"SELECT count(*) = 6 FROM pg_ringctl_rings WHERE relname ~ '^slow' AND blocks_done > 100",
		'slow scans do not come far enough');
	go_on_in_step($stands_at, $open, $middle, $middle + 2);
	cmp_ok(ask("SELECT max(ring_buffers) FROM pg_ringctl_rings"),
		'<', 400, "$name: beside others, no ring does");

	cancel_slow_ones(@sessions);
	$_->quit                 foreach @$lanes;            # opens all gates
	ends_complete($_, $name) foreach @$pair;
	ask("DROP TABLE $_")     foreach @slow, 'divided';
}

# Four tables with a scan that stands still beside another one, or beside a parallel
# scan that runs.  They leave the whole window to others, also to scans that began
# before them.
sub what_stands_still
{
	my $name = 'what stands still';
	my @still = map { "still$_" } 1 .. 4;
	my $gate = close_gate($node);
	my @running =
	  map {
		session_with(
			$node,
			max_parallel_workers_per_gather => 2,
			seq_page_cost => 0)
	  } 1 .. 2;
	my @held;

	load_clean_table($_) foreach @still;
	my ($pair, $pids, $lanes, $stands_at, $open) =
	  two_in_step('beside', 6, 8);

	run_slowly(\@running, @still[ 2, 3 ]);
	wait_until(
		"SELECT count(*) = 6 FROM pg_ringctl_rings WHERE relname ~ '^still' AND blocks_done > 50",
		'parallel scans do not come far enough');
	foreach my $table (@still)
	{
		push @held, (session_at_gate($table, 300))[0];
	}
	foreach my $table (@still[ 0, 1 ])
	{
		push @held, (session_at_gate($table, 600))[0];
	}
	go_on_in_step($stands_at, $open, 8, 9);

	sleep 3;    # they do not count so long after their last steps
	go_on_in_step($stands_at, $open, 9, 15);
	cmp_ok(rings($pids->[1], 'ring_buffers'),
		'>', 400, "$name: the ring keeps what is between two gates");

	cancel_slow_ones(@running);
	open_gate($gate);
	$_->quit                 foreach @$lanes;            # opens all gates
	ends_complete($_, $name) foreach @held, @$pair;
	ask("DROP TABLE $_")     foreach @still, 'beside';
}

# Parallel scans, each alone on its table, share with nobody, and leave the whole
# window to other tables.
sub parallel_scans_are_one
{
	my $name = 'beside parallel scans';
	my @alone = map { "alone$_" } 1 .. 2;
	my @sessions =
	  map {
		session_with(
			$node,
			max_parallel_workers_per_gather => 2,
			seq_page_cost => 0)
	  } @alone;

	load_clean_table($_) foreach @alone;
	run_slowly(\@sessions, @alone);
	wait_until(
		"SELECT count(*) = 6 FROM pg_ringctl_rings WHERE relname ~ '^alone' AND blocks_done > 300",
		'parallel scans do not come far enough');

	my ($pair, $pids, $lanes) = two_in_step('beside', 6, 12);
	cmp_ok(rings($pids->[1], 'ring_buffers'),
		'>', 400, "$name: the ring keeps what is between two gates");
	cancel_slow_ones(@sessions);
	$_->quit                 foreach @$lanes;            # opens all gates
	ends_complete($_, $name) foreach @$pair;
	ask("DROP TABLE $_")     foreach @alone, 'beside';
}

# What is in a ring that is shared may be pinned by others, all of it: then it
# grows, rather than leave anything behind.
sub all_pinned
{
	my $name = 'all pinned';
	my $begin = 6;
	my $middle = 14;
	my ($sessions, $pids, $lanes, $stands_at, $open) =
	  two_in_step('pinned', $begin, $middle);

	# A cursor keeps the page of its row pinned.
	my @before = map { rings($_, 'ring_buffers') } @$pids;
	my $pinner = session($node);
	my @blocks = split /\n/, ask(
		q(
SELECT relblocknumber FROM pg_buffercache
 WHERE relfilenode = pg_relation_filenode('pinned') AND relforknumber = 0));
	$pinner->query_safe(
		join(
			';', 'BEGIN',
			map {
				"DECLARE c$_ CURSOR FOR SELECT FROM pinned WHERE ctid = '($_,1)'; FETCH 1 FROM c$_"
			} @blocks));
	cmp_ok(
		@blocks, '>=',
		$before[0] + $before[1] - 2 * 16,
		"$name: these are all there are");
	$open->(0, $middle);
	$stands_at->(0, $middle + 1);
	$open->(1, $middle + 1);
	$stands_at->(1, $middle + 2);
	my @after = map { rings($_, 'ring_buffers') } @$pids;
	cmp_ok(
		$after[0] + $after[1],
		'>',
		$before[0] + $before[1],
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

# Once another reader has kept pages of a ring, the ring looks at its slots in every
# call, also while blocks are found in the pool: if a slot is pinned meanwhile, the
# next read does not take it.
sub pinned_while_blocks_are_found
{
	my $name = 'pinned while blocks are found';
	my %stock = (
		'pg_ringctl.mode' => 'off',
		'synchronize_seqscans' => 'off');
	my $session = session_with(
		$node,
		'pg_ringctl.scan_sharing' => 'off',
		'pg_ringctl.free_buffers_first' => 'off',
		'synchronize_seqscans' => 'off',
		'effective_io_concurrency' => 1);
	my $pid = pid_of($session);
	my ($lanes, $stands_at, $open, $lane) = close_lanes($pid);
	my $in_ring =
	  "SELECT relblocknumber FROM pg_ringctl_ring_slots($pid) WHERE relblocknumber IS NOT NULL";
	my ($kept, @pinners);

	# From 100 blocks before each of these gates on, all blocks are found but for
	# the one soon after the gate.  Slots are looked at in every 16th call, so some
	# of the scan's pauses are between such a call and the read.
	load_clean_table('found');
	foreach (0 .. 3)
	{
		my $at = 200 * (6 + 2 * $_);

		ask("SELECT FROM pg_ringctl_prewarm_blocks('found', ARRAY(SELECT generate_series($at - 100 - 4 * $_, $at + 2)))"
		);
	}

	start_query($session,
		"SELECT $check FROM found WHERE through_gates(id, $lane)");
	$open->(0, $_) foreach (1, 2);
	$stands_at->(0, 3);
	ask("SELECT count(*) FROM found WHERE ctid = ANY (ARRAY(SELECT ('(' || relblocknumber || ',1)')::tid FROM ($in_ring) b))"
	) foreach 1 .. 2;
	$open->(0, 3);
	foreach my $gate (6, 8, 10, 12)
	{
		my $pinner = session_with($node, %stock);

		$open->(0, $_) foreach ($gate - 2, $gate - 1);
		$stands_at->(0, $gate);
		$kept = rings($pid, 'escapes_adopted') if !defined $kept;
		$pinner->query_safe(
				'BEGIN; DECLARE c CURSOR FOR SELECT FROM found; MOVE '
			  . ask("SELECT min(relblocknumber) + 1 FROM ($in_ring) b")
			  . ' FROM c');
		push @pinners, $pinner;
	}
	$open->(0, $_) foreach (12 .. $gates);
	ends_complete($session, $name);
	$_->quit foreach (@pinners, @$lanes);
	is( counters(
			$node, 'found',
			"escapes_adopted - $kept, $kept > 0, escapes_pinned"),
		'0|t|0',
		"$name: nothing stays behind because of that");
}

# Where there is nobody to share with, a parallel scan, too, starts where the server
# knows another one to be.
sub starts_where_the_server_is
{
	my $name = "the server's start";
	my %parallel = (
		max_parallel_workers => 1,    # so one worker, whatever the plan says
		max_parallel_workers_per_gather => 2,
		parallel_leader_participation => 'off');
	my $query = 'SELECT (array_agg(id))[1] FROM known';

	load_table($node, 'known', $pages);
	forget_pages('known');
	my $gate = close_gate($node);
	my ($held) =
	  session_at_gate('known', 1500, 'pg_ringctl.scan_sharing' => 'off');
	my $session = session_with($node, %parallel);

	like(
		$session->query_safe("EXPLAIN $query"),
		qr/Parallel Seq Scan/,
		"$name: the plan is parallel");
	cmp_ok($session->query_safe($query), '>', 1400, $name);
	$session->quit;
	open_gate($gate);
	ends_complete($held, $name);
}

# Two scans that just run: they read little more than the table.  Should the
# machine let one of them alone for too long, they need not.
sub reads_at_once
{
	my $name = 'reads at once';
	my $shared = '';
	my $table;

	for (my $try = 0; $try < $tries && $shared ne 't|t|t|0'; $try++)
	{
		$table = "together$try";
		two_at_once($table, $name);
		$shared = counters($node, $table,
			"blks_read <= 1.5 * $pages, scan_sharing_blks_hit > 0, escapes_pinned + escapes_adopted < 0.01 * blocks, escapes_dirty"
		);
	}
	is($shared, 't|t|t|0',
		"$name: fewer than two tables, shared, and few pages stay behind");
	nothing_is_pinned($node, $table, $name);
}

# Two scans at once by a query that has TABLE in it, and GATE where each waits for the
# other one.  Returns how many scans there were, the blocks that they found while they
# shared, and their waits.
sub query_twice
{
	my ($table, $name, $query, $result) = @_;
	my $gate = close_gate($node);
	my @sessions = map { session($node) } 0 .. 1;
	my @pids = map { pid_of($_) } @sessions;

	load_clean_table($table);
	foreach my $i (0 .. 1)
	{
		my $first = 3 + 3 * $i;

		start_query($sessions[$i],
			$query =~ s/TABLE/$table/r =~ s/GATE/through_gate(id, $first)/r);
		wait_at_gate($node, $pids[$i]);
	}
	open_gate($gate);
	foreach my $session (@sessions)
	{
		is(finish_query($session), $result, "$name: the result");
		$session->quit;
	}
	my $counters =
	  counters($node, $table,
		'scans, scan_sharing_blks_hit, scan_sharing_waits');
	ask("DROP TABLE $table");
	return $counters;
}

# A scan below a node that may stop it early never shares, however far it goes.
sub may_be_stopped
{
	my %stopped = (
		'a short LIMIT' => [
			'SELECT count(*) FROM (SELECT id FROM TABLE WHERE GATE LIMIT 150) s',
			150
		],
		'LIMIT' => [
			'SELECT count(*) FROM (SELECT id FROM TABLE WHERE GATE LIMIT 5000) s',
			5000
		],
		'EXISTS' => [
			'SELECT EXISTS (SELECT FROM TABLE WHERE CASE WHEN GATE THEN id > 5000 END)',
			't'
		],
		'a window that ends early' => [
			'SELECT count(*) FROM (SELECT row_number() OVER () AS n FROM TABLE WHERE GATE) s WHERE n <= 5000',
			5000
		]);
	my %not_stopped = (
		'a sort below LIMIT' => [
			'SELECT count(*) FROM (SELECT id FROM TABLE WHERE GATE ORDER BY id LIMIT 5000) s',
			5000
		],
		'a subquery that counts' =>
		  [ 'SELECT (SELECT count(*) FROM TABLE WHERE GATE)', $pages ]);
	my $n = 0;

	foreach my $name (sort keys %stopped)
	{
		is(query_twice('stopped' . $n++, $name, @{ $stopped{$name} }),
			'2|0|0', "$name: nothing is shared");
	}
	foreach my $name (sort keys %not_stopped)
	{
		my $shared = 0;

		for (my $try = 0; $try < $tries && $shared == 0; $try++)
		{
			(undef, $shared) = split(
				/\|/,
				query_twice(
					'stopped' . $n++, $name, @{ $not_stopped{$name} }));
		}
		cmp_ok($shared, '>', 0, "$name: the scans share");
	}
}

# Two scans at the same place would overtake each other again and again: one waits
# for the other.  (17 and 19 need no such waits.)
sub one_follows
{
	my $name = 'following';
	my $waits = 0;

	return if $node->pg_version->major != 18;
	for (my $try = 0; $try < $tries && $waits < 5; $try++)
	{
		two_at_once("follow$try", $name);
		$waits = counters($node, "follow$try", 'scan_sharing_waits');
	}
	cmp_ok($waits, '>=', 5, "$name: one waits");
}

# Where one said so, each scan is alone.
sub does_not_share
{
	my %cases = (
		'scan_sharing off' => { 'pg_ringctl.scan_sharing' => 'off' },
		'a fixed ring' => { 'pg_ringctl.scan_ring' => '1MB' },
		'synchronize_seqscans off' => { 'synchronize_seqscans' => 'off' },
		'observed' => { 'pg_ringctl.mode' => 'observe' },
		'no room for a window' => { 'pg_ringctl.max_ring' => '256kB' });
	my $n = 0;

	foreach my $name (sort keys %cases)
	{
		my $table = 'alone' . ++$n;

		two_at_once($table, $name, %{ $cases{$name} });
		is( counters(
				$node, $table,
				'scans, scan_sharing_blks_hit, scan_sharing_waits'),
			'2|0|0',
			"$name: nothing is shared");
	}
}

# Where the operating system has the files, a read costs next to nothing.  A process
# that gets no processor for a while may take that for a read that cost: then it
# may share, but it does not wait.
sub files_are_cached
{
	my $name = 'cached files';
	my $shared = '';

	delete @ENV{qw(LD_PRELOAD SLOW_READ_US)};
	stop_looking();
	$node->restart;
	look_at($node);
	for (my $try = 0; $try < $tries && $shared ne '0'; $try++)
	{
		two_at_once("cached$try", $name);
		is(counters($node, "cached$try", 'scans, scan_sharing_waits'),
			'2|0', "$name: nobody waits");
		$shared = counters($node, "cached$try", 'scan_sharing_blks_hit');
	}
	is($shared, '0', "$name: nothing is shared");
}
