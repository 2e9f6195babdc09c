# Claims: a session that asked for nothing pays nothing that can be counted.
#
# - Scans that get no ring are neither counted nor shown, make no shared memory, and
#   take the same instructions as without the library.
# - The first query over many partitions does not look at all their TOAST tables.
# - Small reads of other kinds (TOAST values, by an index, by a bitmap, TID ranges,
#   COPY TO, index builds) take hardly more.
# - EXISTS does not wait for the scan of a client that does not read, or of a cursor
#   that pauses.  A scan whose files are cached does not wait, either.
# - A LIMIT over dead pages reads the blocks that the server reads, in no more reads.
# - Queries that read the first pages of a big table, again and again, find them.  They
#   find their first page beside a scan, too.
# - What a user can hold has bounds that no setting moves, and is given back at the
#   end.
#
# Shared memory is in files here, so that only this server's is counted.

use strict;
use warnings FATAL => 'all';

use FindBin;
use lib $FindBin::RealBin;

use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use RingctlTest;

# What is read of the library's views.
my $sum_of_waits =
  'SELECT coalesce(sum(scan_sharing_waits), 0) FROM pg_ringctl_stats';
my $small = q(relname ~ '^(one|small|parts)');
my $small_in_stats = "SELECT count(*) FROM pg_ringctl_stats WHERE $small";
my $small_in_rings = "SELECT count(*) FROM pg_ringctl_rings WHERE $small";
my $wait_event = 'RingctlScanSharing';

my $pages = 9000;
my @library = (session_preload_libraries => 'pg_ringctl');
my $node = new_node('main');
$node->append_conf(
	'postgresql.conf', q(
shared_buffers = 64MB
dynamic_shared_memory_type = 'mmap'
max_connections = 60
max_locks_per_transaction = 256
));
start_with_buffercache($node);
create_tables();
$node->restart;    # no shared memory is left of the session that made them

small_scans_are_left_alone();
scan_over_threshold_is_counted();
nobody_waits_for_a_hung_client();
nobody_waits_for_a_cursor();
nobody_waits_for_cached_files();
limit_over_dead_pages();
first_pages_stay();
scans_start_where_pages_are();
memory_has_bounds();
unused_segment_is_given_back();
sessions_together_hold_little();
failed_queries_leave_nothing();
my $assertions = $node->safe_psql('postgres', 'SHOW debug_assertions');
$node->stop;
log_is_clean($node, 'harm');
instructions_of_small_scans();
done_testing();


sub create_tables
{
	load_table($node, 'big', $pages);
	load_table($node, 'queue', $pages);
	load_table($node, 'keyed', 2500);
	create_partitions('parts', 100, 10);
	create_partitions_with_toast('toasted', 400);
	$node->safe_psql(
		'postgres', q(
CREATE EXTENSION pg_ringctl;
CREATE EXTENSION pg_buffercache;
CREATE TABLE one AS SELECT 1 AS id;
CREATE TABLE small AS SELECT generate_series(1, 1000) AS id;
CREATE INDEX ON keyed (id);
CREATE INDEX ON keyed ((id % 250));
CREATE TABLE docs (id integer PRIMARY KEY, body text STORAGE EXTERNAL);
INSERT INTO docs SELECT n, repeat(md5(n::text), 249) FROM generate_series(1, 4000) n;
DELETE FROM queue WHERE id <= 0.8 * (SELECT count(*) FROM queue);
SELECT count(*) FROM queue;		-- prunes
CREATE FUNCTION look_up(n integer) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    x int;
BEGIN
    FOR i IN 1 .. n LOOP
        SELECT id INTO x FROM one;
    END LOOP;
END $$;
CREATE FUNCTION look_for_any(n integer) RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE
    found bigint := 0;
BEGIN
    FOR i IN 1 .. n LOOP
        found := found + (SELECT EXISTS (SELECT 1 FROM big))::int;
    END LOOP;
    RETURN found;
END $$;
-- The sum of the blocks that such queries read.
CREATE FUNCTION read_first(blocks integer, n integer) RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE
    plan json;
    result bigint := 0;
BEGIN
    FOR i IN 1 .. n LOOP
        EXECUTE format('EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) SELECT id FROM big OFFSET %s LIMIT 1', blocks - 1) INTO plan;
        result := result + (plan -> 0 -> 'Plan' ->> 'Shared Read Blocks')::bigint;
    END LOOP;
    RETURN result;
END $$;
CREATE FUNCTION scan_slowly(n integer) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    FOR i IN 1 .. n LOOP
        PERFORM count(*) FROM big WHERE md5(repeat(filler, 20)) <> '';
    END LOOP;
END $$;
-- Looks for a tenth of a second.
CREATE FUNCTION seen_waiting(event text) RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE
    seen bigint := 0;
BEGIN
    FOR i IN 1 .. 50 LOOP
        PERFORM pg_stat_clear_snapshot(), pg_sleep(0.002);
        seen := seen + (SELECT count(*) FROM pg_stat_activity WHERE wait_event = event);
    END LOOP;
    RETURN seen;
END $$;
-- They stay open until the transaction ends.
CREATE FUNCTION open_cursors(n integer, relation text) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    c refcursor;
    x int;
BEGIN
    FOR i IN 1 .. n LOOP
        c := NULL;
        OPEN c FOR EXECUTE 'SELECT id FROM ' || relation;
        FETCH c INTO x;
    END LOOP;
END $$;
CREATE ROLE plain;
GRANT SELECT ON one, big TO plain;
));
	$node->safe_psql('postgres', "VACUUM (FREEZE, ANALYZE) $_")
	  foreach qw(big one small parts keyed docs toasted);
	$node->safe_psql('postgres', 'CHECKPOINT');
}

# A table of this number of partitions, each with this number of rows.
sub create_partitions
{
	my ($table, $partitions, $rows) = @_;
	my $all = $partitions * $rows;

	$node->safe_psql(
		'postgres', qq(
CREATE TABLE $table (id int) PARTITION BY RANGE (id);
DO \$\$
BEGIN
    FOR i IN 0 .. $partitions - 1 LOOP
        EXECUTE format('CREATE TABLE ${table}_%s PARTITION OF $table FOR VALUES FROM (%s) TO (%s)', i, $rows * i, $rows * (i + 1));
    END LOOP;
END \$\$;
INSERT INTO $table SELECT generate_series(0, $all - 1);
));
}

# A table of this number of partitions, each with a TOAST table, which is empty, and
# with a row on each of 20 pages.
sub create_partitions_with_toast
{
	my ($table, $partitions) = @_;

	$node->safe_psql(
		'postgres', qq(
CREATE TABLE $table (id int, body text) PARTITION BY RANGE (id);
DO \$\$
BEGIN
    FOR i IN 0 .. $partitions - 1 LOOP
        EXECUTE format('CREATE TABLE ${table}_%s PARTITION OF $table FOR VALUES FROM (%s) TO (%s) WITH (fillfactor = 10)', i, 20 * i, 20 * (i + 1));
    END LOOP;
END \$\$;
INSERT INTO $table SELECT n, repeat('x', 600) FROM generate_series(0, 20 * $partitions - 1) n;
));
}

# The files of dynamic shared memory.
sub segments
{
	return glob($node->data_dir . '/pg_dynshmem/*');
}

# Their number, and kB in all of them.
sub shared_memory
{
	my @files = segments();
	my $bytes = 0;

	$bytes += -s $_ // 0 foreach @files;
	return wantarray ? (scalar @files, $bytes / 1024) : $bytes / 1024;
}

# A backend gives back what it has before it leaves pg_stat_activity.
sub quit_and_wait
{
	my ($session) = @_;
	my $pid = pid_of($session);

	$session->quit;
	$node->poll_query_until('postgres',
		"SELECT count(*) = 0 FROM pg_stat_activity WHERE pid = $pid")
	  or die 'the session does not end';
}

# --- small tables ---------------------------------------------------------------

# The first session with the library scans nothing but small tables.
sub small_scans_are_left_alone
{
	my $name = 'small tables';
	my $before = join(' segments, kB: ', shared_memory());
	my $session = session_with($node, @library);

	is($session->query_safe('SELECT id FROM one'), '1', "$name: the row");
	$session->query_safe($_)
	  foreach (
		'SELECT look_up(100)',
		'SELECT count(*) FROM parts',
		'SELECT EXISTS (SELECT 1 FROM small)',
		'SELECT id FROM small LIMIT 1',
		'SELECT sum((SELECT id FROM one WHERE id <> x)) FROM generate_series(1, 100) x',
		'UPDATE one SET id = id',
		'SELECT count(*) FROM small a JOIN small b USING (id)',
		'BEGIN; DECLARE c CURSOR FOR SELECT id FROM small; MOVE 10 IN c');
	is(join(' segments, kB: ', shared_memory()),
		$before, "$name: no shared memory is made");

	is($node->safe_psql('postgres', $small_in_rings),
		0, "$name: an open cursor is not shown");
	$session->query_safe('COMMIT');
	$session->quit;
	is($node->safe_psql('postgres', $small_in_stats),
		0, "$name: nothing is counted");
}

# What is above is not left alone because nothing is ever counted.
sub scan_over_threshold_is_counted
{
	my $session = session_with($node, @library);

	$session->query_safe(
		'SELECT count(*) FROM big; BEGIN; DECLARE c CURSOR FOR SELECT id FROM big; MOVE 1000 IN c'
	);
	is( $node->safe_psql(
			'postgres',
			"SELECT count(*) FROM pg_ringctl_rings WHERE relname = 'big'"),
		1,
		'a table over the threshold: the open cursor is shown');
	$session->query_safe('COMMIT');
	$session->quit;
	is(counters($node, 'big', 'scans'),
		2, 'a table over the threshold: its scans are counted');
}

# --- waits ----------------------------------------------------------------------

# EXISTS, n times, sleeps in none of them: neither a read nor a lock makes it
# leave the processor.
sub never_sleeps
{
	my ($n, $name) = @_;
	my $session = session_with($node, @library);
	my $status = '/proc/' . pid_of($session) . '/status';

  SKIP:
	{
		skip 'the system does not count context switches', 1 if !-r $status;

		$session->query_safe('SELECT look_for_any(10)');
		my $before = switches($status);
		$session->query_safe("SELECT look_for_any($n)");
		cmp_ok(switches($status) - $before,
			'<', 0.2 * $n, "$name: $n times EXISTS do not sleep");
	}
	$session->quit;
}

sub switches
{
	my ($status) = @_;

	return slurp_file($status) =~ /^voluntary_ctxt_switches:\s+(\d+)/m
	  ? $1
	  : 0;
}

# What the query returns beside the company, which counts no wait; and nobody is ever
# seen to wait for another scan.
sub waits_for_nobody
{
	my ($query, $expected, $name) = @_;
	my $session = session_with($node, @library);
	my $observer = session($node);
	my $before = $node->safe_psql('postgres', $sum_of_waits);
	my $seen = 0;

	start_query($session, "$query;\n\\echo ended");
	for (1 .. 10 * $PostgreSQL::Test::Utils::timeout_default)
	{
		$seen += $observer->query_safe("SELECT seen_waiting('$wait_event')");
		$session->{run}->pump_nb;
		last if $session->{stdout} =~ /^ended/m;
	}
	my $output = finish_query($session) =~ s/\s*ended;\s*//r;
	is($seen, 0, "$name: no process is seen to wait for another scan");
	is($output, $expected, "$name: the result");
	$observer->quit;
	quit_and_wait($session);
	is($node->safe_psql('postgres', $sum_of_waits) - $before,
		0, "$name: no wait is counted");
}

sub nobody_waits_for_a_hung_client
{
	my $name = 'a client that does not read';
	my $hung = session_with($node, @library);
	my $pid = pid_of($hung);

	start_query($hung, 'COPY (SELECT * FROM big) TO STDOUT');
	$node->poll_query_until('postgres',
		"SELECT wait_event = 'ClientWrite' FROM pg_stat_activity WHERE pid = $pid"
	) or die 'the client takes all that it gets';
	never_sleeps(200, $name);
	waits_for_nobody('SELECT look_for_any(200)', 200, "$name: EXISTS");
	waits_for_nobody('SELECT sum(id) FROM big',
		sum_to($pages), "$name: a whole scan");
	is( $node->safe_psql(
			'postgres',
			"SELECT wait_event FROM pg_stat_activity WHERE pid = $pid"),
		'ClientWrite',
		"$name: it has not read meanwhile");
	finish_query($hung);
	$hung->quit;
}

sub nobody_waits_for_a_cursor
{
	my $name = 'a cursor that pauses';
	my $holder = session_with($node, @library);

	$holder->query_safe(
		'BEGIN; DECLARE c CURSOR FOR SELECT id FROM big; MOVE 1000 IN c');
	never_sleeps(200, $name);
	waits_for_nobody('SELECT look_for_any(200)', 200, "$name: EXISTS");
	waits_for_nobody('SELECT sum(id) FROM big',
		sum_to($pages), "$name: a whole scan");
	is($holder->query_safe('FETCH 1 FROM c; COMMIT') =~ /^\d+$/,
		1, "$name: it goes on");
	$holder->quit;
}

# Beside a scan that is several times slower.
sub nobody_waits_for_cached_files
{
	my $name = 'a slower scan of cached files';
	my $company = session_with($node, @library);
	my $pid = pid_of($company);

	start_query($company, 'SELECT scan_slowly(1000)');
	$node->poll_query_until('postgres',
		"SELECT count(*) = 1 FROM pg_ringctl_rings WHERE pid = $pid")
	  or die 'the slower scan does not begin';
	never_sleeps(200, $name);
	waits_for_nobody('SELECT look_for_any(200)', 200, "$name: EXISTS");
	waits_for_nobody(
		join('; ', ('SELECT sum(id) FROM big') x 10),
		join("\n", (sum_to($pages)) x 10),
		"$name: ten scans");
	$node->safe_psql('postgres', "SELECT pg_cancel_backend($pid)");
	finish_query($company);
	$company->{stderr} = '';
	$company->quit;
}

# --- dead pages -----------------------------------------------------------------

sub bulk_reads
{
	return $node->safe_psql('postgres',
		q(SELECT sum(reads) FROM pg_stat_io WHERE object = 'relation' AND context = 'bulkread')
	);
}

# The row, the blocks and the reads of a LIMIT 1 that passes the dead pages, which are
# not in shared buffers.
sub first_of_queue
{
	my @settings = @_;
	my $session =
	  session_with($node, @settings, synchronize_seqscans => 'off');
	my $query = 'SELECT id FROM queue LIMIT 1';

	evict_pages($session, 'queue');
	my $before = bulk_reads();
	my $plan =
	  $session->query_safe("EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) $query");
	my ($hit) = $plan =~ /"Shared Hit Blocks": (\d+)/;
	my ($read) = $plan =~ /"Shared Read Blocks": (\d+)/;
	quit_and_wait($session);
	my $reads = bulk_reads() - $before;

	$session = session_with($node, @settings, synchronize_seqscans => 'off');
	my $row = $session->query_safe($query);
	$session->quit;
	return ($row, $hit + $read, $reads);
}

sub limit_over_dead_pages
{
	my $name = 'LIMIT over dead pages';
	my ($row, $blocks, $reads) = first_of_queue();
	my ($our_row, $our_blocks, $our_reads) = first_of_queue(@library);

	cmp_ok($blocks, '>', 0.8 * $pages, "$name: the server passes them all");
	is($our_row, $row, "$name: the row");
	cmp_ok($our_blocks, '<=', 1.1 * $blocks,
		"$name: no more blocks than the server's, and what look-ahead asks for"
	);
	cmp_ok($our_reads, '<=', 1.1 * $reads + 8, "$name: in as few reads");
}

# The first times, each query keeps some pages of those that it read.  A scan of all
# has been there before: what it lends is used once.
sub first_pages_stay
{
	foreach my $blocks (20, 43, 200, 500)
	{
		my $session =
		  session_with($node, @library, synchronize_seqscans => 'off');

		$session->query_safe('SELECT count(*) FROM big');
		evict_pages($session, 'big');
		cmp_ok($session->query_safe("SELECT read_first($blocks, 20)"),
			'>=', $blocks, "the first $blocks blocks are read");
		is($session->query_safe("SELECT read_first($blocks, 20)"),
			0, "none of the first $blocks blocks is read from then on");
		$session->quit;
	}
}

# The blocks that queries for one row read while a scan goes on from page to page.
sub read_beside_scan
{
	my ($steps, @options) = @_;
	my $scan = session_with($node, @options);
	my $query = session_with($node, @library);
	my $reads = 0;

	evict_pages($query, 'big');
	$scan->query_safe(
		'BEGIN; DECLARE c CURSOR FOR SELECT ctid FROM big WHERE (ctid::text::point)[1] = 1'
	);
	$scan->query_safe('MOVE 300 IN c');
	foreach (1 .. $steps)
	{
		$scan->query_safe('MOVE 1 IN c');
		$reads += $query->query_safe('SELECT read_first(1, 1)');
	}
	$_->quit foreach $scan, $query;
	return $reads;
}

# A query for any row starts at the position of the scan that runs.  In the server that
# is a page that is only about to be read.
sub scans_start_where_pages_are
{
	my $steps = 64;

	is(read_beside_scan($steps, @library, 'pg_ringctl.scan_ring' => '1MB'),
		0, 'queries for one row find their page beside a scan');
	note('beside a scan of the server they read ' . read_beside_scan($steps));
}

# --- memory ---------------------------------------------------------------------

# A user without privileges sets all that a user may as far as it goes, and opens
# cursors.
sub memory_has_bounds
{
	configure($node, shared_buffers => '128MB');
	my $session = session_with($node, @library);
	$session->query_safe(
		'SET pg_ringctl.scan_threshold = 0; SELECT count(*) FROM big');
	quit_and_wait($session);

	cursors_hold('one', 1500, 2048);
	# What rings of a large table need is bounded for all sessions together.
	cursors_hold('big', 200, 65536);
	is( $node->safe_psql('postgres', 'SELECT count(*) FROM pg_ringctl_rings'),
		0,
		'no ring is left');
}

# A session keeps one segment for its next ring, and gives it back at the end of a
# transaction, when it has not used it for a second.
sub unused_segment_is_given_back
{
	my $before = shared_memory();
	my $session = session_with($node, @library);
	my $later = 'SELECT pg_sleep(1.1)';

	$session->query_safe('SET pg_ringctl.scan_threshold = 0');
	foreach my $end ('COMMIT', 'ROLLBACK')
	{
		$session->query_safe(
			"BEGIN; DECLARE c CURSOR FOR SELECT id FROM big; MOVE 1000 IN c");
		my $segments = join(' ', segments());
		cmp_ok(shared_memory(), '>', $before,
			"before $end: a ring's shared memory");
		$session->query_safe("CLOSE c; $end; SELECT count(*) FROM big");
		is(join(' ', segments()),
			$segments, "after $end: the next ring has the same");
		$session->query_safe($later);
		cmp_ok(shared_memory(), '<=', $before,
			"later after $end: it is given back");
	}
	$session->query_safe(
		'BEGIN; DECLARE c CURSOR FOR SELECT 1 / (id - 2000) FROM big');
	$session->query('MOVE ALL IN c');
	$session->{stderr} = '';
	$session->query_safe('ROLLBACK');
	$session->query_safe($later);
	cmp_ok(shared_memory(), '<=', $before,
		"later after an error: it is given back");
	$session->quit;
}

# However many sessions read through rings at the same time, what they hold together
# has a limit.  The rings that there is no room for are not shown.
sub sessions_together_hold_little
{
	configure($node, 'pg_ringctl.max_shared_memory' => '4MB');
	my $first = session_with($node, @library);
	$first->query_safe(
		'SET pg_ringctl.scan_threshold = 0; SELECT count(*) FROM big');
	$first->query_safe('SELECT pg_sleep(1.1)');
	my $before = shared_memory();
	my @sessions = map { session_with($node, @library) } 1 .. 40;

	foreach (@sessions)
	{
		$_->query_safe(
			'SET pg_ringctl.scan_threshold = 0; SET synchronize_seqscans = off; BEGIN; DECLARE c CURSOR FOR SELECT id FROM big; MOVE 1000 IN c'
		);
	}
	cmp_ok(shared_memory() - $before,
		'<=', 4096, 'sessions together: kB of shared memory');
	my $shown = $first->query_safe('SELECT count(*) FROM pg_ringctl_rings');
	cmp_ok($shown, '>=', 25, 'sessions together: rings that are shown');
	is( $first->query_safe(
			'SELECT rings_not_shown FROM pg_ringctl_stats_info'),
		@sessions - $shown,
		'sessions together: rings that are not shown');
	is( join(' ', map { $_->query_safe('FETCH c') } @sessions),
		join(' ', (1001) x @sessions),
		'sessions together: the rows');
	$_->query_safe('COMMIT') foreach (@sessions);
	cmp_ok(shared_memory() - $before,
		'<=', 2048, 'sessions together: kB that they keep');
	quit_and_wait($_) foreach (@sessions);
	cmp_ok(shared_memory(), '<=', $before,
		'sessions together: nothing stays');
	$first->query_safe(
		'BEGIN; DECLARE c CURSOR FOR SELECT id FROM big; FETCH c');
	is($first->query_safe('SELECT count(*) FROM pg_ringctl_rings'),
		1, 'sessions together: there is room again');
	$first->quit;
}

# What the workers of a failed query have said is gone when the query has failed, not
# when its session runs the next one.
sub failed_queries_leave_nothing
{
	create_partitions('many', 400, 500);
	$node->safe_psql('postgres', 'ANALYZE many');
	my @settings = qw(pg_ringctl.scan_threshold=0 parallel_setup_cost=0
	  parallel_tuple_cost=0 max_parallel_workers_per_gather=2 min_parallel_table_scan_size=0
	  parallel_leader_participation=off);
	my @sessions = map { session_with($node, @library) } 1 .. 12;
	my $before;

	# The server's own shared memory for a session's workers stays until it ends.
	foreach my $session (@sessions)
	{
		$session->query_safe("SET $_") foreach (@settings);
		$session->query_safe('SELECT count(*) FROM many');
	}
	$before = shared_memory();
	foreach my $session (@sessions)
	{
		fails(
			$session,
			'SELECT 1 / (count(*) - 200000) FROM many',
			qr/division by zero/,
			'failed queries: they fail');
	}
	cmp_ok(shared_memory(), '<=', $before,
		'failed queries: nothing stays of them');
	$sessions[0]->query_safe('SELECT count(*) FROM many');
	cmp_ok(
		$sessions[0]->query_safe(
			'SELECT count(*) FROM pg_ringctl_last_scans() WHERE worker >= 0 AND ring_buffers > 0'
		),
		'>', 0,
		'failed queries: workers read through rings');
	$_->quit foreach (@sessions);
}

sub cursors_hold
{
	my ($relation, $n, $most) = @_;
	my $name = "$n cursors of $relation";
	my $before = shared_memory();
	my $session = session_with($node, @library);

	$session->query_safe(
		q(SET SESSION AUTHORIZATION plain;
SELECT set_config(name, CASE WHEN name ~ 'threshold' THEN '0' ELSE max_val END, false)
FROM pg_settings WHERE name ~ '^pg_ringctl' AND context = 'user' AND vartype = 'integer')
	);
	is($session->query_safe('SHOW pg_ringctl.scan_ring'),
		'16GB', "$name: the setting");
	$session->query_safe("BEGIN; SELECT open_cursors($n, '$relation')");
	cmp_ok(shared_memory() - $before,
		'<=', $most, "$name: kB of shared memory while they are open");
	$session->query_safe('COMMIT; RESET SESSION AUTHORIZATION');
	quit_and_wait($session);
	cmp_ok(shared_memory() - $before,
		'<=', 0,
		"$name: kB of shared memory that stay when the session is gone");
}

# --- instructions ---------------------------------------------------------------

# What a statement leaves in the catalogs is paid by the next one: let it always
# be the same before instructions are counted.
sub tidy_catalogs
{
	my ($statement) = @_;
	my $in = "$statement;\nVACUUM;\n" x 2;
	my $log;

	IPC::Run::run(
		[ 'postgres', '--single', '-D', $node->data_dir, 'postgres' ],
		'<', \$in, '>&', \$log)
	  or die "the catalogs can't be vacuumed: $log";
}

# Of a backend that runs the statement so often.
sub instructions
{
	my ($statement, $n, @options) = @_;
	my $in = "$statement;\n" x $n;
	my ($out, $err);

	tidy_catalogs($statement) if $statement =~ /^DO.*CREATE/;
	IPC::Run::run(
		[
			'valgrind', '--tool=callgrind',
			'--callgrind-out-file=/dev/null', 'postgres',
			'--single', '-D',
			$node->data_dir, @options,
			'postgres'
		],
		'<',
		\$in,
		'>',
		\$out,
		'2>',
		\$err);
	return $err =~ /Collected : (\d+)/
	  ? $1
	  : die "no instructions were counted: $err";
}

# The statement, so often, as one.
sub repeated
{
	my ($n, $statement) = @_;

	return
	  "DO 'DECLARE x int; BEGIN FOR i IN 1..$n LOOP $statement; END LOOP; END'";
}

# Statements, the most instructions that they may take, over the server's, and options.
# Small reads that are not scans of small tables take a little more for the look at
# what they will read.  Their tables are larger than these shared buffers.
sub instructions_of_small_scans
{
	my @small_pool = ('-c', 'shared_buffers=16MB');
	my @from_start =
	  ('-c', 'shared_buffers=64MB', '-c', 'synchronize_seqscans=off');
	my $scan_once =
	  q(IF set_config(''my.scans'', concat(current_setting(''my.scans'', true), 1), false) = ''1'' THEN PERFORM count(*) FROM big; END IF);
	my @by_bitmap = (
		@small_pool,
		map { ('-c', "enable_$_=off") } qw(seqscan indexscan indexonlyscan));
	my @statements = (
		[ 'look-ups', 1.01, 'SELECT look_up(3000)' ],
		[
			'a correlated rescan',
			1.01,
			'SELECT sum((SELECT id FROM one WHERE id <> x)) FROM generate_series(1, 3000) x'
		],
		[ 'partitions', 1.01, 'SELECT count(*) FROM parts' ],
		[
			'the first LIMIT over partitions with TOAST tables',
			1.04, 'SELECT id FROM toasted LIMIT 1', @from_start
		],
		[
			'the first count of partitions with TOAST tables', 1.04,
			'SELECT count(*) FROM toasted', @from_start
		],
		[
			'look-ups by an index',
			1.02,
			repeated(
				300,
				'SELECT octet_length(filler) INTO x FROM keyed WHERE id = i'),
			@small_pool
		],
		[
			'look-ups of TOAST values',
			1.02,
			repeated(
				300,
				'SELECT ascii(substr(body, 1, 1)) INTO x FROM docs WHERE id = i'
			),
			@small_pool
		],
		[
			'first rows of a table with TOAST values', 1.09,
			repeated(300, 'SELECT id INTO x FROM docs'), @small_pool
		],
		[
			'the same with a filter',
			1.09, repeated(300, 'SELECT id INTO x FROM docs WHERE id > 0'),
			@small_pool
		],
		[
			'EXISTS after a whole scan',
			1.09,
			"DO 'BEGIN $scan_once; FOR i IN 1..300 LOOP PERFORM EXISTS (SELECT 1 FROM big); END LOOP; END'",
			@from_start
		],
		[
			'rescans of a scan that once went on',
			1.15,
			'SELECT sum((SELECT id FROM big WHERE id > CASE x WHEN 1 THEN 50 ELSE 0 END LIMIT 1)) FROM generate_series(1, 300) x',
			@from_start
		],
		[
			'queries for 20 blocks',
			1.1, repeated(100, 'SELECT id INTO x FROM big OFFSET 19 LIMIT 1'),
			@from_start
		],
		[
			'queries for 43 blocks',
			1.25,
			repeated(100, 'SELECT id INTO x FROM big OFFSET 42 LIMIT 1'),
			@from_start
		],
		[
			'small bitmap scans',
			1.02,
			repeated(
				300,
				'SELECT count(filler) INTO x FROM keyed WHERE id % 250 = 7'),
			@by_bitmap
		],
		[
			'small TID ranges',
			1.06,
			repeated(
				300,
				q(SELECT count(*) INTO x FROM keyed WHERE ctid >= ''(100,0)'' AND ctid < ''(102,0)'')
			),
			@small_pool
		],
		[
			'small COPY TO', 1.08,
			repeated(300, q(COPY one TO ''/dev/null'')), @small_pool
		],
		[
			'small index builds',
			1.05,
			repeated(
				20, 'CREATE INDEX one_id ON one (id); DROP INDEX one_id'),
			@small_pool
		]);

  SKIP:
	{
		skip 'assertions are most of what would be counted',
		  scalar @statements
		  if $assertions eq 'on';
		skip 'valgrind is missing', scalar @statements
		  if system('valgrind --version >/dev/null 2>&1') != 0;

		foreach my $case (@statements)
		{
			my ($name, $most, $statement, @options) = @$case;
			my @library_option =
			  ('-c', 'session_preload_libraries=pg_ringctl');
			# what is short is run more often, for the noise of a server that starts
			my ($least, $n) =
				$name =~ /^the first/ ? (0, 1)
			  : $name eq 'partitions' ? (1, 51)
			  :                         (1, 11);
			my $stock = instructions($statement, $n, @options) -
			  instructions($statement, $least, @options);
			my $ours =
			  instructions($statement, $n, @options, @library_option) -
			  instructions($statement, $least, @options, @library_option);

			note "$name: $stock $ours " . $ours / $stock;
			cmp_ok($ours / $stock,
				'<=', $most, "instructions of $name, over the server's");
		}
	}
}
