# What the tests of sharing have in common: a server whose reads cost something,
# tables that are several times as large as what rings can keep, and scans of them
# that are held in their middle, or slowed down.

package RingctlSharing;

use strict;
use warnings FATAL => 'all';

use Exporter 'import';
use File::Basename;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(usleep);
use RingctlTest;

our @EXPORT = qw(
  $pages
  $gates
  $tries
  $check
  $all
  slow_reads
  new_sharing_node
  look_at
  stop_looking
  ask
  wait_until
  reset_counters
  rings
  is_complete
  session_at_gate
  ends_complete
  close_lanes
  load_clean_table
  forget_pages
  two_at_once
  check_script
);

# More than three times what the rings can keep, an eighth of shared_buffers.
our $pages = 9000;
our $gates = $pages / 200;    # gates in a lane: see through_gates()

# If a test depends on the speed of two processes, it may take this number of tries
# on a busy machine.
our $tries = 15;

# What every scan computes: it shows that each row is there, and only once.
our $check = 'count(*), sum(id), sum(id::bigint * id)';
our $all = join('|',
	$pages, sum_to($pages), $pages * ($pages + 1) * (2 * $pages + 1) / 6);

my ($node, $observer);
my $next_lane = 3;    # 1 and 2 are those of close_gate()

# In servers that start from now on, every read of a large table takes this number
# of microseconds.  Without a compiler, skip the whole file.
sub slow_reads
{
	my ($microseconds) = @_;
	my $reason = why_not_compile();
	my $library = PostgreSQL::Test::Utils::tempdir . '/slow.so';
	my $cc;

	plan skip_all => $reason if $reason;
	IPC::Run::run([ 'pg_config', '--cc' ], '>', \$cc);
	chomp($cc);
	system_or_bail(split(' ', $cc),
		'-shared', '-fPIC', '-O1', '-o', $library,
		dirname(__FILE__) . '/../bench/slow.c', '-ldl');
	$ENV{SLOW_READ_US} = $microseconds;
	$ENV{LD_PRELOAD} = $library;
}

# Start a server.  Only the tests' own sessions take buffers.
sub new_sharing_node
{
	my ($name, %values) = @_;

	$node = new_node($name, allows_streaming => 1);
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
	$node->append_conf('postgresql.conf', "$_ = $values{$_}")
	  foreach sort keys %values;
	start_with_buffercache($node);
	$node->safe_psql(
		'postgres', q(
CREATE EXTENSION pg_ringctl;
CREATE EXTENSION pg_buffercache;

-- A gate every 200 rows: closed while another session has locked (lane, number).
CREATE FUNCTION through_gates(id integer, lane integer) RETURNS boolean LANGUAGE plpgsql AS $$
BEGIN
    IF id % 200 = 0 THEN
        PERFORM pg_advisory_lock_shared(lane, id / 200);
        PERFORM pg_advisory_unlock_shared(lane, id / 200);
    END IF;
    RETURN true;
END $$;

-- Be busy for a time, and take no lock and no snapshot meanwhile.
CREATE FUNCTION spin(duration interval) RETURNS boolean LANGUAGE plpgsql STABLE AS $$
DECLARE
    until timestamptz := clock_timestamp() + duration;
BEGIN
    WHILE clock_timestamp() < until LOOP
    END LOOP;
    RETURN true;
END $$));
	look_at($node);
	return $node;
}

# Look at this server from now on.
sub look_at
{
	($node) = @_;

	$observer->quit if $observer;
	$observer = session($node);
}

sub stop_looking
{
	$observer->quit;
	$observer = undef;
}

# Evict all pages of the table from shared buffers.
sub forget_pages
{
	my ($table) = @_;

	evict_pages($observer, $table);
}

sub ask
{
	my ($query) = @_;

	return $observer->query_safe($query);
}

# Wait until the query returns true.
sub wait_until
{
	my ($query, $what) = @_;
	my $looks = 100 * $PostgreSQL::Test::Utils::timeout_default;

	while (ask($query) ne 't')
	{
		die $what if --$looks == 0;
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

	return ask(
		"SELECT $columns FROM pg_ringctl_rings WHERE pid = $pid ORDER BY ringid"
	);
}

# The rows are all numbers, each once, in any order.
sub is_complete
{
	my ($rows, $name) = @_;
	my @sorted = sort { $a <=> $b } @$rows;

	local $Test::Builder::Level = $Test::Builder::Level + 1;
	ok("@sorted" eq join(' ', 1 .. $pages),
		"$name: every row, and only once");
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

# Make a lane of gates, all closed, for the scan of each of these processes.  Returns
# the sessions that hold the lanes, a function that waits until a scan stands at a
# gate, one that opens a gate, and the number of the first lane in through_gates().
sub close_lanes
{
	my (@pids) = @_;
	my @lanes = map { session($node) } @pids;
	my $first = $next_lane;
	my $stands_at = sub {
		my ($lane, $gate) = @_;

		wait_until(
			"SELECT count(*) = 1 FROM pg_locks WHERE NOT granted AND pid = $pids[$lane] AND objid = $gate",
			"scan $lane does not come to gate $gate");
	};
	my $open = sub {
		my ($lane, $gate) = @_;

		$lanes[$lane]->query_safe(
			'SELECT pg_advisory_unlock(' . ($first + $lane) . ", $gate)");
	};

	$next_lane += @lanes;
	foreach my $lane (0 .. $#lanes)
	{
		$lanes[$lane]->query_safe('SELECT pg_advisory_lock('
			  . ($first + $lane)
			  . ", n) FROM generate_series(1, $gates) n");
	}
	return (\@lanes, $stands_at, $open, $first);
}

# Make a table of which no page is cached, and whose pages a scan does not dirty, so
# that a ring can let its buffers go.
sub load_clean_table
{
	my ($table) = @_;

	load_table($node, $table, $pages);
	ask("VACUUM $table");
	forget_pages($table);
}

sub check_script
{
	my ($from) = @_;

	return
		"SELECT 1 / ((count(*), sum(id), sum(id::bigint * id))::text = '("
	  . join(',', split(/\|/, $all))
	  . ")')::integer FROM $from;\n";
}

# Two scans of a new table, which begin one shortly after the other and then run
# at the same time.  They get all rows.
sub two_at_once
{
	my ($table, $name, %settings) = @_;
	my $gate = close_gate($node);

	load_clean_table($table);
	my @sessions =
	  map { (session_at_gate($table, $_, %settings))[0] } (3, 6);
	open_gate($gate);

	local $Test::Builder::Level = $Test::Builder::Level + 1;
	ends_complete($_, $name) foreach @sessions;
}

1;
