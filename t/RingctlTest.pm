# What the tests in this folder share: a small server, tables with one row on each
# page, sessions that are driven step by step, and checks that must always hold.

package RingctlTest;

use strict;
use warnings FATAL => 'all';

use Exporter 'import';
use File::Basename;
use File::Path qw(make_path);
use File::Copy;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

our @EXPORT = qw(
  new_node
  configure
  reload
  switch
  start_with_buffercache
  load_table
  sum_to
  counters
  flush_counts
  session
  session_with
  pid_of
  says
  fails
  close_gate
  open_gate
  create_barrier
  start_query
  wait_at_gate
  finish_query
  rows_add_up
  nothing_is_pinned
  log_is_clean
  nobody_crashed
  evict_pages
  why_not_compile
  make_in
  compile
);

# Shared buffers are small, so that small tables are big: above 512 pages a
# table is scanned through a ring.  Hint bits are WAL-logged, as they are by
# default from 18 on.  No process flushes WAL in the background: the WAL of a page
# that a scan dirtied stays unflushed until a process has to flush it.  Plans are
# parallel if workers are allowed.
my $settings = q(
shared_buffers = 16MB
autovacuum = off
max_parallel_workers_per_gather = 0
max_connections = 40
max_wal_size = 1GB
wal_writer_delay = 10s
wal_writer_flush_after = 1GB
jit = off
parallel_setup_cost = 0
parallel_tuple_cost = 0
min_parallel_table_scan_size = 0
);

# A server that is initialized, and configured for these tests, not started.
sub new_node
{
	my ($name, %params) = @_;
	my $node = PostgreSQL::Test::Cluster->new($name);

	# INITDB_TEMPLATE is a cluster to copy, which has checksums already.
	$node->init(
		defined $ENV{INITDB_TEMPLATE} ? () : (extra => ['--data-checksums']),
		%params);
	$node->append_conf('postgresql.conf', $settings);

	# From 19 on, the server may start more I/O workers after a test has stopped
	# those that there were.
	$node->append_conf('postgresql.conf',
		"io_min_workers = 3\nio_max_workers = 3\n")
	  if $node->pg_version =~ /^(19|[2-9]\d)/;
	return $node;
}

# Start the server.  If pg_buffercache is not installed, skip the whole file.
sub start_with_buffercache
{
	my ($node) = @_;

	$node->start;
	return
	  if $node->safe_psql('postgres',
		q(SELECT count(*) FROM pg_available_extensions WHERE name = 'pg_buffercache')
	  ) > 0;

	$node->stop;
	plan skip_all => 'pg_buffercache is not installed';
}

# Change the server's configuration, and restart it.
sub configure
{
	my ($node, %values) = @_;

	foreach my $name (sort keys %values)
	{
		$node->append_conf('postgresql.conf', "$name = $values{$name}\n");
	}
	$node->restart;
}

# Reload, and wait until a new session sees the setting.  That session has it from
# the postmaster, so by then the postmaster has told all other processes, recovery
# included, to reload.
sub reload
{
	my ($node, $name, $value) = @_;

	$node->reload;
	$node->poll_query_until('postgres', "SHOW $name", $value)
	  or die 'the reload does not arrive';
}

# Throw the kill switch: on or off, in every session.
sub switch
{
	my ($node, $to) = @_;

	$node->safe_psql('postgres', "ALTER SYSTEM SET pg_ringctl.enabled = $to");
	reload($node, 'pg_ringctl.enabled', $to);
}

# A table with the numbers from 1 on, each in a page of its own, which no session
# has read yet: the first scan dirties every page, and writes WAL for it.
sub load_table
{
	my ($node, $table, $pages, $database) = @_;

	$node->safe_psql(
		$database // 'postgres', qq(
CREATE TABLE $table (id integer, filler text) WITH (fillfactor = 10);
INSERT INTO $table SELECT n, repeat('x', 600) FROM generate_series(1, $pages) n;
CHECKPOINT;));
}

# The sum of the numbers in such a table.
sub sum_to
{
	my ($pages) = @_;

	return $pages * ($pages + 1) / 2;
}

# Columns of a relation's row in pg_ringctl_stats, as psql prints them; nothing
# if there is no such row.
sub counters
{
	my ($node, $relation, $columns, $kind) = @_;

	$kind //= 'seqscan';
	return $node->safe_psql('postgres',
		"SELECT $columns FROM pg_ringctl_stats WHERE relname = '$relation' AND kind = '$kind'"
	);
}

# The counts of small scans stay pending in their session for a while.  Make these
# sessions flush them, so that others see them.
sub flush_counts
{
	$_->query_safe('SELECT FROM pg_ringctl_stats_info') foreach @_;
}

# A session that goes on after an error.
sub session
{
	my ($node, $database) = @_;

	my $session =
	  $node->background_psql($database // 'postgres', on_error_stop => 0);
	# The time limit is for each query, not for the whole session.
	$session->set_query_timer_restart;
	return $session;
}

# A session with these settings from its start.
sub session_with
{
	my ($node, %settings) = @_;

	local $ENV{PGOPTIONS} =
	  join(' ', map { "-c $_=$settings{$_}" } sort keys %settings);
	return session($node);
}

sub pid_of
{
	my ($session) = @_;

	return $session->query_safe('SELECT pg_backend_pid()');
}

# The session has said what matches; forget it.
sub says
{
	my ($session, $pattern, $name) = @_;

	local $Test::Builder::Level = $Test::Builder::Level + 1;
	like($session->{stderr}, $pattern, $name);
	$session->{stderr} = '';
}

# The query raises an error that matches.
sub fails
{
	my ($session, $query, $pattern, $name) = @_;

	local $Test::Builder::Level = $Test::Builder::Level + 1;
	$session->query($query);
	says($session, $pattern, $name);
}

# A gate holds a scan in its middle: a query with "through_gate(id, 100)" in
# its WHERE waits at the row 100 as long as the gate is closed.
sub close_gate
{
	my ($node) = @_;

	$node->safe_psql(
		'postgres', q(
CREATE OR REPLACE FUNCTION through_gate(id integer, gate integer) RETURNS boolean
LANGUAGE plpgsql AS $$
BEGIN
    IF id = gate THEN
        PERFORM pg_advisory_lock_shared(1);
        PERFORM pg_advisory_unlock_shared(1);
    END IF;
    RETURN true;
END $$));
	my $gate = session($node);
	$gate->query_safe('SELECT pg_advisory_lock(1)');
	return $gate;
}

sub open_gate
{
	my ($gate) = @_;

	$gate->query_safe('SELECT pg_advisory_unlock(1)');
	$gate->quit;
}

# A gate for every process of a parallel query: in "through_barrier(id, 100)", a
# process waits from row 100 on while another session has locked the table
# "barrier".
sub create_barrier
{
	my ($node) = @_;

	$node->safe_psql(
		'postgres', q(
CREATE TABLE barrier ();
CREATE FUNCTION through_barrier(id integer, gate integer) RETURNS boolean
LANGUAGE plpgsql PARALLEL SAFE AS $$
BEGIN
    IF id >= gate THEN
        PERFORM FROM barrier;
    END IF;
    RETURN true;
END $$));
}

# Have a session start a query, and don't wait for its result.
sub start_query
{
	my ($session, $query) = @_;

	my $output =
	  $session->query_until(qr/^started\n/m, "\\echo started\n$query;\n");

	# A short query may have ended already.  Keep its output, which query_until()
	# has cleared.
	$session->{stdout} = $output =~ s/^.*?started\n//sr;
}

# Wait until the session with that pid stands at the gate.
sub wait_at_gate
{
	my ($node, $pid) = @_;

	$node->poll_query_until('postgres',
		"SELECT wait_event = 'advisory' FROM pg_stat_activity WHERE pid = $pid"
	) or die "the scan does not come to the gate";
}

# The result of a query that was started.
sub finish_query
{
	my ($session) = @_;

	return $session->query('');
}

# What must hold in every row, whatever happened: every read is accounted for
# exactly once, and no more was read than asked for.
sub rows_add_up
{
	my ($node, $name) = @_;

	local $Test::Builder::Level = $Test::Builder::Level + 1;
	is( $node->safe_psql(
			'postgres', q(
SELECT count(*) > 0,
       count(*) FILTER (WHERE blks_read <> fills + reuses + escapes_pinned + escapes_adopted),
       count(*) FILTER (WHERE blocks <> blks_hit + blks_read),
       count(*) FILTER (WHERE blks_unconsumed NOT BETWEEN 0 AND blocks OR (scan_sharing_waits = 0) <> (scan_sharing_wait_time = 0)),
       count(*) FILTER (WHERE least(scans, workers_launched, blks_hit, blks_read, fills, reuses,
                                    escapes_pinned, escapes_dirty, escapes_adopted, slots_lost) < 0)
  FROM pg_ringctl_stats)),
		't|0|0|0|0',
		"$name: the rows of pg_ringctl_stats add up");
}

# No backend pins a page of the table.  A read that was under way when its
# query ended may still have to complete.
sub nothing_is_pinned
{
	my ($node, $table, $name) = @_;

	local $Test::Builder::Level = $Test::Builder::Level + 1;
	ok( $node->poll_query_until(
			'postgres', qq(
SELECT count(*) = 0 FROM pg_buffercache
 WHERE relfilenode = pg_relation_filenode('$table') AND pinning_backends > 0)
		),
		"$name: no page of $table is pinned");
}

# Evict all pages of the table from shared buffers, except for those that are
# pinned.
sub evict_pages
{
	my ($session, $table) = @_;

	$session->query_safe(
		"CHECKPOINT; SELECT count(pg_buffercache_evict(bufferid)) FROM pg_buffercache WHERE relfilenode = pg_relation_filenode('$table')"
	);
}

my $crash =
  qr/PANIC: |TRAP: |resource was not closed|was terminated by signal/;

# The server's log has warnings and errors, but nothing worse.
sub nobody_crashed
{
	my ($node, $name) = @_;

	local $Test::Builder::Level = $Test::Builder::Level + 1;
	unlike(slurp_file($node->logfile),
		qr/$crash|leak/,
		"$name: nothing but warnings and errors in the server's log");
}

# The server's log has no warnings, and nothing worse.
sub log_is_clean
{
	my ($node, $name) = @_;

	local $Test::Builder::Level = $Test::Builder::Level + 1;
	unlike(
		slurp_file($node->logfile),
		qr/WARNING: |$crash/,
		"$name: nothing suspicious in the server's log");
}

# Why no library can be compiled here; nothing if one can.
sub why_not_compile
{
	my ($out, $err, $cc, $makefile);

	return "there is no pg_config to compile with"
	  if !
	  eval { IPC::Run::run([ 'pg_config', '--cc' ], '>', \$cc, '2>', \$err) };
	IPC::Run::run([ 'pg_config', '--pgxs' ], '>', \$makefile, '2>', \$err);
	chomp($cc, $makefile);
	return "there are no server headers and makefiles" if !-e $makefile;
	return "there is no make"
	  if !
	  eval { IPC::Run::run([ 'make', '--version' ], '>', \$out, '2>', \$err) };
	return "there is no compiler"
	  if !eval {
		IPC::Run::run([ split(' ', $cc), '--version' ],
			'>', \$out, '2>', \$err);
	  };
	return;
}

# Run make in a folder, for the server that pg_config belongs to.
sub make_in
{
	my ($dir, @arguments) = @_;
	local %ENV = %ENV;

	# an outer make may have set these
	delete @ENV{ grep { /^(MAKE|MFLAGS|GNUMAKEFLAGS)/ } keys %ENV };
	system_or_bail('make', '-s', '-j4', '-C', $dir, 'PG_CONFIG=pg_config',
		'with_llvm=no', @arguments, 'all');
}

# Compile the library with these flags; returns its path, without the suffix.
sub compile
{
	my ($cppflags) = @_;
	my $source = dirname(__FILE__) . '/..';
	my $dir = PostgreSQL::Test::Utils::tempdir;

	foreach my $path (map { glob("$source/$_") } 'Makefile',
		'*.c', '*.sql', '*.control', 'src/*.[ch]', 'src/*/*.[ch]')
	{
		my $in = $path =~ m{/(src(?:/[^/]+)?)/[^/]+$} ? "$dir/$1" : $dir;
		make_path($in);
		copy($path, $in) or die "cannot copy $path: $!";
	}
	make_in($dir, "PG_CPPFLAGS=$cppflags");
	return "$dir/pg_ringctl";
}

1;
