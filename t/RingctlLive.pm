# What the tests of live rings and escapes share: a server with two tables that
# are larger than its threshold, a session that looks at the rings of the others,
# and checks of a ring whose scan is held in its middle.

package RingctlLive;

use strict;
use warnings FATAL => 'all';

use Exporter 'import';
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use RingctlTest;

our @EXPORT = qw(
  $pages
  $pool
  new_live_node
  watch
  stop_watching
  reads_are_for_others
  ask
  rings
  no_ring
  has_done
  evict
  wait_for_reads
  session_with_cursor
  slots_are_right
);

our $pages = 3000;
our $pool = 2048;    # shared_buffers; the log of escapes has as many entries

my ($node, $observer, $io_workers);

# Start a server with the tables "big" and "other".  Only the tests' own sessions
# write pages and take buffers.
sub new_live_node
{
	my ($name) = @_;

	$node = new_node($name);
	$node->append_conf(
		'postgresql.conf', q(
session_preload_libraries = 'pg_ringctl'
restart_after_crash = on
synchronize_seqscans = off
bgwriter_lru_maxpages = 0
checkpoint_timeout = 1h
max_parallel_workers = 8
));
	start_with_buffercache($node);
	$node->safe_psql('postgres',
		'CREATE EXTENSION pg_ringctl; CREATE EXTENSION pg_buffercache');
	load_table($node, $_, $pages) foreach qw(big other);
	watch();
	return $node;
}

# Start the session that looks at the others.
sub watch
{
	$observer = session($node);
	$io_workers =
	  $node->pg_version >= 18 && ask('SHOW io_method') eq 'worker';
}

# End that session; kill it if its server is gone.
sub stop_watching
{
	my ($server_is_gone) = @_;

	$server_is_gone ? $observer->{run}->kill_kill : $observer->quit;
}

# Do I/O workers read what a session asks for?
sub reads_are_for_others
{
	return $io_workers;
}

sub ask
{
	my ($query) = @_;

	return $observer->query_safe($query);
}

# Columns of the rings of a process, a line for each.
sub rings
{
	my ($pid, $columns) = @_;

	return ask(
		"SELECT $columns FROM pg_ringctl_rings WHERE pid = $pid ORDER BY ringid"
	);
}

sub no_ring
{
	my ($pid, $name) = @_;

	local $Test::Builder::Level = $Test::Builder::Level + 1;
	is( ask("SELECT count(*), (SELECT count(*) FROM pg_ringctl_ring_slots($pid)) FROM pg_ringctl_rings WHERE pid = $pid"
		),
		'0|0',
		"$name: no ring is left");
}

# The only ring of a process has done this number of blocks.
sub has_done
{
	my ($pid, $blocks, $name) = @_;

	local $Test::Builder::Level = $Test::Builder::Level + 1;
	is( rings($pid, 'blocks_done, blocks_done + look_ahead <= blocks_total'),
		"$blocks|t", $name);
}

# Evict all pages of the table from shared buffers.
sub evict
{
	my ($table) = @_;

	evict_pages($observer, $table);
	is( ask("SELECT count(*) FROM pg_buffercache WHERE relfilenode = pg_relation_filenode('$table')"
		),
		'0',
		"no page of $table is cached");
}

# While I/O workers read for a scan, buffers in its ring may have no page yet.
# Wait until the reads are done.
sub wait_for_reads
{
	return if !$io_workers;
	$node->poll_query_until(
		'postgres', q(
SELECT count(*) = 0 FROM pg_ringctl_ring_slots() s JOIN pg_buffercache b USING (bufferid)
 WHERE b.relfilenode IS NULL)) or die 'the reads do not come to their end';
}

# A session in a transaction, with a cursor over the table.
sub session_with_cursor
{
	my ($table, $rows, %settings) = @_;
	my $session = session_with($node, %settings);

	$session->query_safe(
		"BEGIN; DECLARE c CURSOR FOR SELECT id FROM $table; MOVE $rows FROM c"
	);
	return ($session, pid_of($session));
}

# The slots of a process's only ring are consistent, and their buffers hold pages
# of the table.
sub slots_are_right
{
	my ($pid, $table, $name) = @_;

	local $Test::Builder::Level = $Test::Builder::Level + 1;
	wait_for_reads();
	is( ask(qq(
SELECT count(*) = max(r.ring_buffers) AND min(s.slot) = 0 AND
           max(s.slot) = max(r.ring_buffers) - 1 AND count(DISTINCT s.slot) = count(*),
       count(*) FILTER (WHERE s.pid = r.pid AND s.datid = r.datid AND s.relid = r.relid) = count(*),
       count(*) FILTER (WHERE s.is_current), bool_and(s.is_current = (s.slot = r.current_slot)),
       count(s.bufferid) > 0 AND count(s.bufferid) = max(r.occupied) AND
           count(s.bufferid) = count(DISTINCT s.bufferid),
       count(s.relblocknumber) = count(DISTINCT s.relblocknumber)
  FROM pg_ringctl_rings r JOIN pg_ringctl_ring_slots($pid) s USING (ringid))),
		't|t|1|t|t|t',
		"$name: the slots");
	is( ask(qq(
SELECT count(*) FILTER (WHERE (s.bufferid IS NULL) <> (s.relblocknumber IS NULL)),
       count(*) FILTER (WHERE s.bufferid IS NOT NULL AND s.holds_own_block IS NOT TRUE),
       count(*) FILTER (WHERE b.relfilenode IS NOT NULL AND
           (b.relfilenode, b.relforknumber, b.relblocknumber, b.isdirty, b.usagecount, b.pinning_backends) IS DISTINCT FROM
           (pg_relation_filenode('$table'), 0::smallint, s.relblocknumber, s.isdirty, s.usagecount::smallint, s.pinning_backends)),
       count(*) FILTER (WHERE s.bufferid IS NOT NULL AND b.relfilenode IS NULL) <= max(r.look_ahead)
  FROM pg_ringctl_rings r JOIN pg_ringctl_ring_slots($pid) s USING (ringid) LEFT JOIN pg_buffercache b USING (bufferid))
		),
		'0|0|0|t',
		"$name: their buffers");
}

1;
