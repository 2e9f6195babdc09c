# Claims: whatever happens to a table while it is read, the readers other than the
# sequential scan (COPY, TOAST, TID ranges, bitmap and index scans, index builds) do just what they
# do without the library.
#
# - What other sessions do to a table in the middle of a scan changes neither what
#   is read nor where it is read.  A COPY shows the server's progress.
# - A COPY that is interrupted, or whose client is gone, leaves nothing behind.
# - Triggers may read the table that is written, functions the table that is scanned,
#   and a query may scan a table by several nodes.
# - A command is refused because a table is in use exactly where the server refuses it.
# - Other libraries find heap's routine after our scans, may scan on in the middle of
#   these, and may put a routine of their own into its place.
# - What an index's predicate or expression runs while the index is built does not get
#   the ring of the build.

use strict;
use warnings FATAL => 'all';

use FindBin;
use lib $FindBin::RealBin;

use Digest::SHA;
use File::Copy;
use IPC::Run;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use RingctlTest;
use RingctlReaders;

my $dir = PostgreSQL::Test::Utils::tempdir;
my $node = new_readers_node();

create_varied_tables();
other_sessions_change_the_table();
interrupted_copies();
subtransactions();
tables_in_use_by_several();
commands_on_tables_in_use();
nested_index_builds();
query_in_predicate();
SKIP:
{
	my $reason = why_not_compile();
	skip $reason, 1 if $reason;
	other_libraries();
}
nothing_is_pinned($node, $_, 'at the end')
  foreach qw(varied values_of leaf_1);
$node->stop;
log_is_clean($node, 'readers in use');
done_testing();


# --- other sessions -------------------------------------------------------------

# The same with all scans forced through rings, and index scans that read ahead.
sub same_through_rings
{
	my ($name, $digest) = @_;
	my $stock = $digest->();
	my %settings = (
		@library,
		'pg_ringctl.scan_threshold' => 0,
		'pg_ringctl.scan_ring' => 64,
		'pg_ringctl.write_ring' => 1024,
		'pg_ringctl.index_read_ahead' => 'on',
		'pg_ringctl.index_read_ahead_after' => 0);

	local $Test::Builder::Level = $Test::Builder::Level + 1;
	local $ENV{PGOPTIONS} =
	  join(' ', map { "-c $_=$settings{$_}" } sort keys %settings);
	is($digest->(), $stock, $name);
}

sub toast_of
{
	my ($table) = @_;

	return $node->safe_psql('postgres',
		"SELECT reltoastrelid::regclass FROM pg_class WHERE oid = '$table'::regclass"
	);
}

# Copy a table; when that has begun, and before it can end, do something.  Returns
# the digest of the copy.
sub copy_and_meanwhile
{
	my ($session, $table, $meanwhile) = @_;
	my ($file, $gate) = ("$dir/gated", "$dir/gate");

	unlink $file, $gate;
	# A cancel must not end the program.
	start_query($session,
		"COPY $table TO PROGRAM 'trap \"\" INT; while ! test -e $gate && kill -0 \$PPID; do sleep 0.1; done; cat > $file'"
	);
	$node->poll_query_until('postgres',
		q(SELECT tuples_processed > 0 FROM pg_stat_progress_copy))
	  or die 'COPY does not begin';
	$meanwhile->();
	append_to_file($gate, '');
	finish_query($session);
	return -e $file ? digest_of_file($file) : 'nothing';
}

# The rest of a query, from row 1000 on; before that, do something.
sub fetch_and_meanwhile
{
	my ($session, $query, $meanwhile) = @_;

	$session->query_safe(
		"BEGIN; DECLARE c CURSOR FOR $query; MOVE 1000 IN c");
	$meanwhile->();
	my $rows = $session->query_safe('FETCH ALL FROM c');
	$session->query_safe('COMMIT');
	return Digest::SHA::sha256_hex($rows);
}

sub other_sessions_change_the_table
{
	my $toast = toast_of('values_of');
	my $query = 'SELECT id, md5(body) FROM values_of';
	my $stock = session($node);
	my $ours =
	  session_with($node, @library, 'pg_ringctl.free_buffers_first' => 'off');
	my $progress;
	my $note_progress = sub {
		$progress = $node->safe_psql('postgres',
			'SELECT relid::regclass, command, type, bytes_processed > 0, bytes_total, tuples_processed > 0, tuples_excluded FROM pg_stat_progress_copy'
		);
	};
	my $copied = copy_and_meanwhile($stock, 'values_of', $note_progress);
	my $servers_progress = $progress;
	my $fetched = fetch_and_meanwhile($stock, $query, sub { });

	copy_and_meanwhile($ours, 'values_of', $note_progress);
	is($progress, $servers_progress, 'COPY: its progress is the server\'s');
	foreach my $command (
		'ANALYZE values_of',
		'VACUUM values_of',
		'GRANT SELECT ON values_of TO PUBLIC',
		'CREATE STATISTICS values_stat ON id, body FROM values_of',
		'CREATE INDEX values_id ON values_of (id)',
		"REINDEX TABLE $toast",
		"VACUUM (FULL) $toast")
	{
		my $meanwhile = sub {
			$node->safe_psql('postgres', $command);
			evict_pages($stock, $_) foreach ('values_of', $toast);
		};

		foreach my $how ('COPY', 'cursor')
		{
			evict_pages($stock, $_) foreach ('values_of', $toast);
			$stock->query_safe('SELECT pg_ringctl_stats_reset()');
			is( $how eq 'COPY'
				? copy_and_meanwhile($ours, 'values_of', $meanwhile)
				: fetch_and_meanwhile($ours, $query, $meanwhile),
				$how eq 'COPY' ? $copied : $fetched,
				"$how, meanwhile $command: the same rows");
			flush_counts($ours);
			is( counters(
					$node,
					$toast =~ s/.*\.//r,
					'scans, blocks > 1200, escapes_pinned + escapes_dirty',
					'toast'),
				'1|t|0',
				"$how, meanwhile $command: values were read through a ring");
			# the first ones, a quarter of the pool, and a ring
			cmp_ok(cached($toast), '<=', 512 + 64,
				"$how, meanwhile $command: pages that are left");
			$node->safe_psql('postgres',
				'DROP STATISTICS IF EXISTS values_stat; DROP INDEX IF EXISTS values_id'
			);
		}
	}
	rows_add_up($node, 'changed meanwhile');
	$_->quit foreach ($stock, $ours);
}

# --- interruptions --------------------------------------------------------------

# No ring is left, and no page is pinned; the session, if there is one, copies the
# table as before.
sub nothing_is_left
{
	my ($table, $name, $session, $digest) = @_;

	local $Test::Builder::Level = $Test::Builder::Level + 1;
	ok( $node->poll_query_until(
			'postgres', 'SELECT count(*) = 0 FROM pg_ringctl_rings'),
		"$name: no ring is left");
	nothing_is_pinned($node, $table, $name);
	is(copy_and_meanwhile($session, $table, sub { }),
		$digest, "$name: the session copies it again")
	  if $session;
}

sub cancel_copy
{
	my ($session, $table) = @_;
	my $pid = pid_of($session);

	copy_and_meanwhile(
		$session, $table,
		sub { $node->safe_psql('postgres', "SELECT pg_cancel_backend($pid)") }
	);
	says($session, qr/canceling statement/,
		"cancel of COPY $table: it fails");
}

# A client that does not read what it has asked for.
sub start_client
{
	my ($table) = @_;
	my $client = IPC::Run::start(
		[
			'psql',
			'--no-psqlrc',
			'--dbname=' . $node->connstr('postgres'),
			"--command=COPY $table TO STDOUT"
		],
		'>pipe' => \*FROM_CLIENT,
		'2>' => '/dev/null');

	$node->poll_query_until('postgres',
		q(SELECT tuples_processed > 0 FROM pg_stat_progress_copy))
	  or die 'COPY does not begin';
	return $client;
}

sub interrupted_copies
{
	my %settings = (@library, 'pg_ringctl.scan_threshold' => 0);
	my $session = session_with($node, %settings);

	foreach my $table ('varied', 'values_of')
	{
		my $digest = copy_and_meanwhile($session, $table, sub { });

		cancel_copy($session, $table);
		nothing_is_left($table, "cancel of COPY $table", $session, $digest);

		local $ENV{PGOPTIONS} =
		  join(' ', map { "-c $_=$settings{$_}" } sort keys %settings);
		my $client = start_client($table);
		$node->safe_psql('postgres',
			'SELECT pg_terminate_backend(pid) FROM pg_stat_progress_copy');
		nothing_is_left($table, "COPY $table is terminated");
		$client->kill_kill;

		$client = start_client($table);
		$client->kill_kill;
		close FROM_CLIENT;
		nothing_is_left($table, "the client of COPY $table is gone");
	}
	$session->quit;
}

# Scans that begin in a subtransaction which is rolled back go on, if they belong to
# the transaction; and the other way round.
sub subtransactions
{
	my $script = q(
SET synchronize_seqscans = off;
SET enable_indexscan = off;
BEGIN;
DECLARE c CURSOR FOR SELECT id, md5(wide) FROM varied WHERE ctid > '(10,0)';
DECLARE d CURSOR FOR SELECT id, md5(packed) FROM varied WHERE id > 100;
SAVEPOINT a;
MOVE 700 IN c;
MOVE 700 IN d;
COPY varied TO PROGRAM 'cat > /dev/null; exit 1';
ROLLBACK TO a;
FETCH 2 FROM c;
FETCH 2 FROM d;
SAVEPOINT b;
DECLARE e CURSOR FOR SELECT id, md5(wide) FROM varied WHERE ctid > '(10,0)';
MOVE 1000 IN e;
COPY varied (id, wide) TO '/dev/null';
CREATE UNIQUE INDEX ON values_of ((id % 2000));
ROLLBACK TO b;
FETCH 1 FROM e;
ROLLBACK TO b;
RELEASE b;
FETCH 2 FROM c;
CREATE INDEX values_id ON values_of (id);
ALTER TABLE values_of ADD COLUMN more int;
SAVEPOINT f;
COPY values_of FROM PROGRAM 'echo x';
ROLLBACK TO f;
COPY values_of (id) FROM PROGRAM 'echo 1; echo 2';
MOVE ALL IN c;
FETCH BACKWARD 1 FROM d;
FETCH 3 FROM d;
SELECT count(*), sum(id), count(md5(body)) FROM values_of;
ROLLBACK;
SELECT count(*), sum(id), count(md5(body)) FROM values_of;
);

	foreach my $disabled ('enable_bitmapscan', 'enable_seqscan')
	{
		same_through_rings("subtransactions, without $disabled",
			sub { return transcript("SET $disabled = off; $script") });
	}
}

# --- tables that are used in several ways ---------------------------------------

# What psql prints for a script.
sub transcript
{
	my ($script) = @_;
	my ($out, $err);

	$node->psql(
		'postgres', $script,
		on_error_stop => 0,
		extra_params => ['--echo-errors'],
		stdout => \$out,
		stderr => \$err);
	return ($out . $err) =~ s/psql:<stdin>:\d+: //gr =~ s/\b\d{5,}\b/N/gr;
}

sub tables_in_use_by_several
{
	my @reads = (
		'SELECT count(*), sum(id), count(md5(wide)) FROM varied',
		q(SELECT count(*), sum(id), count(md5(wide)) FROM varied WHERE ctid > '(0,0)'),
		'SELECT count(*), sum(id), count(md5(wide)) FROM varied WHERE id > 100'
	);

	$node->safe_psql(
		'postgres', q(
CREATE TABLE noted (n serial, what text, a bigint, b bigint, c bigint);
CREATE FUNCTION reads_at(n int) RETURNS int LANGUAGE plpgsql AS $$
BEGIN
    IF n % 1000 = 0 THEN
        INSERT INTO noted (what, a, b, c) SELECT 'all', count(*), sum(id), count(md5(wide)) FROM varied;
        INSERT INTO noted (what, a, b, c) SELECT 'range', count(*), sum(id), count(md5(wide)) FROM varied WHERE ctid > '(0,0)';
        INSERT INTO noted (what, a, b, c) SELECT 'some', count(*), sum(id), count(md5(packed)) FROM varied WHERE id > 100;
        COPY varied TO PROGRAM 'cat > /dev/null';
    END IF;
    RETURN n;
END $$;
CREATE FUNCTION reads_for_row() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    PERFORM reads_at(NEW.id);
    RETURN NEW;
END $$;
CREATE TRIGGER before BEFORE INSERT OR UPDATE ON varied FOR EACH ROW EXECUTE FUNCTION reads_for_row();
CREATE TRIGGER after AFTER INSERT OR UPDATE ON varied FOR EACH ROW EXECUTE FUNCTION reads_for_row();
));
	$node->safe_psql('postgres',
		"COPY (SELECT id + 100000, m, filler, wide FROM varied WHERE id <= 2100) TO '$dir/more'"
	);
	my @commands = (
		"COPY varied (id, m, filler, wide) FROM '$dir/more'",
		'UPDATE varied SET wide = wide || id WHERE id <= 2100',
		q(UPDATE varied SET t = 'x' WHERE ctid >= '(0,0)'),
		'SELECT sum(reads_at(id)), count(md5(wide)) FROM varied',
		q(SELECT sum(reads_at(id)), count(md5(wide)) FROM varied WHERE ctid > '(0,0)'),
		'SELECT sum(reads_at(id)), count(md5(packed)) FROM varied WHERE id > 100',
		'CREATE TABLE made AS SELECT reads_at(id), wide FROM varied; SELECT count(*) FROM made',
		q(SELECT count(*), sum(a.id), count(md5(a.wide)), count(md5(b.wide)), count(md5(c.wide))
		    FROM varied a JOIN varied b USING (id) JOIN varied c USING (id) WHERE a.ctid > '(0,0)' AND b.id > 100)
	);

	foreach
	  my $disabled ('enable_indexscan', 'enable_seqscan, enable_bitmapscan')
	{
		my $script =
		  join('', map { "SET $_ = off;" } split(/, /, $disabled));

		foreach my $command (@commands)
		{
			same_through_rings(
				"without $disabled: $command",
				sub {
					return transcript(
						"$script BEGIN; $command;
						 SELECT what, a, b, c FROM noted ORDER BY n; $reads[0]; ROLLBACK"
					);
				});
		}
	}
	$node->safe_psql('postgres',
		'DROP TABLE noted; DROP FUNCTION reads_for_row, reads_at CASCADE');
}

# The server refuses commands on a table that this session uses.  So it must not find
# that a scan of ours has left a reference behind, or has one more than it would.
sub commands_on_tables_in_use
{
	my $loop =
	  'DO $$ DECLARE r record; BEGIN FOR r IN SELECT id, md5(body) FROM used WHERE %s LOOP PERFORM at_row(r.id); END LOOP; END $$';
	my $at_end = 'SELECT at_row(300)';
	my @uses = (
		[ 'enable_indexscan, enable_bitmapscan', sprintf($loop, 'true') ],
		[ 'enable_seqscan', sprintf($loop, q(ctid > '(0,0)')) ],
		[ 'enable_seqscan, enable_indexscan', sprintf($loop, 'id > 0') ],
		[ 'enable_seqscan, enable_bitmapscan', sprintf($loop, 'id > 0') ],
		[
			'enable_indexscan, enable_bitmapscan',
			'CREATE TABLE made AS SELECT at_row(id), body FROM used'
		],
		[
			'enable_indexscan',
			'UPDATE used SET v = at_row(id), body = body || v'
		],
		[ 'jit', "COPY used FROM '$dir/used'" ],
		[ 'jit', 'CREATE INDEX ON used (at_row(id))' ],
		[ 'jit', 'CREATE INDEX ON used (md5(body || at_row(id)))' ],
		[ 'jit', 'ALTER TABLE used ADD CHECK (at_row(id) > 0)' ],
		[ 'jit', "COPY used TO '/dev/null'; $at_end" ],
		[
			'jit',
			"SAVEPOINT s; COPY used TO PROGRAM 'exit 1'; ROLLBACK TO s; $at_end"
		],
		[
			'jit',
			"SAVEPOINT s; COPY used (id) FROM PROGRAM 'echo x'; ROLLBACK TO s; $at_end"
		],
		[
			'jit',
			"SAVEPOINT s; CREATE INDEX ON used ((1 / (id - 400))); ROLLBACK TO s; $at_end"
		],
		[
			'jit',
			"SAVEPOINT s; SELECT 1 / (id - 400), md5(body) FROM used; ROLLBACK TO s; $at_end"
		],
		[
			'jit',
			"DECLARE c CURSOR FOR SELECT md5(body) FROM used; MOVE 400 IN c; $at_end; FETCH c"
		],
		[
			'jit',
			"DECLARE c CURSOR FOR SELECT md5(body) FROM used; MOVE 400 IN c; CLOSE c; $at_end"
		]);
	my @commands = (
		'TRUNCATE used',
		'DROP TABLE used',
		'ALTER TABLE used ADD COLUMN more int',
		'ALTER TABLE used ALTER v TYPE bigint',
		'ALTER TABLE used DROP COLUMN body',
		'CLUSTER used USING used_id',
		'REINDEX TABLE used',
		'REINDEX TABLE ' . '@toast',
		'CREATE INDEX ON used (v, id)',
		'DROP INDEX used_id',
		'ALTER TABLE used SET UNLOGGED',
		'ALTER TABLE used SET (toast.autovacuum_enabled = off)',
		'DELETE FROM used WHERE id > 400',
		q(COPY used TO '/dev/null'),
		q(COPY used TO '/no/where'),
		q(COPY used FROM '/dev/null'),
		'LOCK used IN ACCESS EXCLUSIVE MODE',
		'ALTER TABLE used RENAME TO renamed');

	$node->safe_psql(
		'postgres', q(
CREATE TABLE used (id int, v int, body text STORAGE EXTERNAL);
INSERT INTO used SELECT i, 0, repeat(md5(i::text), 249) FROM generate_series(1, 500) i;
CREATE INDEX used_id ON used (id);
VACUUM ANALYZE used;
CREATE FUNCTION attempt(command text) RETURNS text LANGUAGE plpgsql SET search_path = public AS $$
BEGIN
    EXECUTE replace(command, '@toast', (SELECT reltoastrelid::regclass::text FROM pg_class WHERE relname = 'used'));
    RETURN 'works';
EXCEPTION WHEN OTHERS THEN
    RETURN SQLERRM;
END $$;
CREATE FUNCTION at_row(id int) RETURNS int IMMUTABLE LANGUAGE plpgsql AS $$
BEGIN
    IF id = 300 AND current_setting('tests.command') <> '' THEN
        RAISE NOTICE 'outcome: %', public.attempt(current_setting('tests.command'));
    END IF;
    RETURN id;
END $$;
CREATE FUNCTION at_row_of_trigger() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    PERFORM public.at_row(NEW.id);
    RETURN NEW;
END $$;
CREATE TRIGGER before BEFORE INSERT ON used FOR EACH ROW EXECUTE FUNCTION at_row_of_trigger();
));
	$node->safe_psql('postgres',
		"SET tests.command = ''; COPY (SELECT * FROM used WHERE id <= 310) TO '$dir/used'"
	);
	foreach my $use (@uses)
	{
		my ($disabled, $run) = @$use;
		my $script = join(
			';',
			"SET max_parallel_maintenance_workers = 0",
			map({ "SET $_ = off" } split(/, /, $disabled)),
			map({
					my $quoted = s/'/''/gr;
					"SET tests.command = '$quoted'; BEGIN; $run; ROLLBACK"
			} @commands),
			"SET tests.command = ''",
			'SELECT count(*), sum(id), count(md5(body)) FROM used');
		my @outcomes;

		same_through_rings(
			"commands in the middle, without $disabled: $run",
			sub {
				my $printed = transcript($script);

				@outcomes = $printed =~ /outcome: (.*)/g;
				return $printed;
			});
		cmp_ok(scalar(@outcomes), '>=', scalar(@commands),
			'all of them were run');
	}
	$node->safe_psql('postgres',
		'DROP TABLE used; DROP FUNCTION attempt, at_row, at_row_of_trigger');
}

# --- index builds ---------------------------------------------------------------

# A function that is called for an index's rows may have indexes built, too.
sub nested_index_builds
{
	$node->safe_psql(
		'postgres', q(
CREATE TABLE scratch (id int PRIMARY KEY);
CREATE FUNCTION run(command text) RETURNS void LANGUAGE plpgsql SET search_path = public AS $$
BEGIN
    EXECUTE command;
END $$;
CREATE FUNCTION at_middle(id int) RETURNS int IMMUTABLE LANGUAGE plpgsql AS $$
BEGIN
    IF id = 1500 AND current_setting('tests.command') <> '' THEN
        PERFORM public.run(current_setting('tests.command'));
    END IF;
    RETURN id;
END $$;
));
	foreach my $command (
		'CREATE INDEX ON scratch (id)',
		q(COPY scratch TO '/dev/null'),
		q(COPY scratch FROM PROGRAM 'echo 1'),
		'ALTER TABLE scratch ADD UNIQUE (id)',
		q(CREATE TABLE made AS SELECT repeat('x', 10000) AS body),
		'CREATE TABLE made (body text)',
		'TRUNCATE scratch')
	{
		my $quoted = $command =~ s/'/''/gr;

		same_through_rings(
			"beside an index build: $command",
			sub {
				return transcript(
					"SET tests.command = '$quoted'; BEGIN;
					 CREATE INDEX at_middle_key ON leaf_1 (at_middle(id));
					 SET tests.command = ''; SET enable_seqscan = off;
					 SELECT count(*), sum(id) FROM leaf_1 WHERE at_middle(id) < 2000; ROLLBACK"
				);
			});
	}
	$node->safe_psql('postgres',
		'DROP TABLE scratch; DROP FUNCTION run, at_middle');
}

# The first scan after an index build has begun may not be the build's own: while the
# server folds the index's predicate, a function may scan the table.  Here it opens a
# cursor, which is there when the build has ended, fetches from one that it has opened
# before, or runs ANALYZE.
sub query_in_predicate
{
	my $opened = 0;

	load_table($node, 'cold', 9000);
	$node->safe_psql(
		'postgres', q(
CREATE SEQUENCE calls;
CREATE FUNCTION at_call() RETURNS int LANGUAGE plpgsql SET search_path = public AS $$
DECLARE
    n int := nextval('calls');
    c refcursor := 'opened';
    found record;
BEGIN
    IF n = current_setting('tests.open_at')::int THEN
        OPEN c FOR EXECUTE 'SELECT id FROM cold ' || current_setting('tests.sample');
    END IF;
    IF n = current_setting('tests.fetch_at')::int THEN
        FETCH c INTO found;
    END IF;
    IF n = current_setting('tests.analyze_at')::int THEN
        ANALYZE cold;
    END IF;
    RETURN 0;
END $$;
CREATE FUNCTION least_by_query(at int) RETURNS int IMMUTABLE LANGUAGE plpgsql SET search_path = public AS $$
BEGIN
    RETURN (SELECT at_call());
END $$;
CREATE FUNCTION least_id(at int) RETURNS int IMMUTABLE LANGUAGE plpgsql SET search_path = public AS $$
BEGIN
    RETURN at_call();
END $$;
));
	foreach my $call (1 .. 4)
	{
		$opened += same_build(
			"opens a cursor in a query of call $call",
			'least_by_query',
			open_at => $call,
			fetch_at => $call);
		$opened += same_build(
			"opens a cursor in call $call",
			'least_id',
			open_at => $call,
			fetch_at => $call);
		$opened += same_build("runs ANALYZE in call $call",
			'least_id', analyze_at => $call);
		foreach my $later ($call + 1 .. 4)
		{
			$opened += same_build(
				"opens a cursor in call $call, and fetches in call $later$_",
				'least_id',
				open_at => $call,
				fetch_at => $later,
				sample => $_
			) foreach ('', ' TABLESAMPLE SYSTEM (100) REPEATABLE (1)');
		}
	}
	cmp_ok($opened, '>=', 6, 'index builds: cursors were opened');
	$node->safe_psql('postgres',
		'DROP TABLE cold; DROP FUNCTION least_id, least_by_query, at_call; DROP SEQUENCE calls'
	);
}

# An index build whose predicate does this, and what follows, are as without us.
# Returns 1 if the cursor was opened, else 0.
sub same_build
{
	my ($name, $function, %does) = @_;
	my %settings =
	  (open_at => 0, fetch_at => 0, analyze_at => 0, sample => '', %does);
	my $set =
	  join(' ',
		map { "SET tests.$_ = '$settings{$_}';" } sort keys %settings);
	my $digest = sub {
		return transcript(
			"$set SELECT setval('calls', 1, false); BEGIN;
			 SET LOCAL max_parallel_maintenance_workers = 0; SET LOCAL synchronize_seqscans = off;
			 CREATE INDEX cold_least ON cold (id) WHERE id > $function(1);
			 FETCH 3 FROM opened; MOVE FORWARD 5000 IN opened; FETCH 1 FROM opened;
			 MOVE FORWARD ALL IN opened; COMMIT; DROP INDEX cold_least; VACUUM cold"
		);
	};
	my $stock = $digest->();

	local $Test::Builder::Level = $Test::Builder::Level + 1;
	local $ENV{PGOPTIONS} = '-c session_preload_libraries=pg_ringctl';
	is($digest->(), $stock, "an index build whose predicate $name");
	return $stock =~ /\b500[45]\b/ ? 1 : 0;
}

# --- other libraries ------------------------------------------------------------

sub compile_other_library
{
	my $folder = "$dir/other";

	mkdir $folder;
	append_to_file("$folder/Makefile",
		"MODULES = other\nPGXS := \$(shell \$(PG_CONFIG) --pgxs)\ninclude \$(PGXS)\n"
	);
	copy("$FindBin::RealBin/other_library.c", "$folder/other.c")
	  or die "cannot copy other_library.c: $!";
	make_in($folder);
	return "$folder/other";
}

sub create_other_functions
{
	my ($library) = @_;

	foreach my $function (
		'has_heaps_routine(regclass) RETURNS boolean',
		'scan_and_run(regclass, text) RETURNS int',
		'swap(regclass) RETURNS void',
		'scans_caught() RETURNS int',
		'use_function(int) RETURNS void',
		'run_with_cleanup(text) RETURNS void')
	{
		$node->safe_psql('postgres',
			"CREATE FUNCTION $function LANGUAGE c AS '$library'");
	}
	$node->safe_psql(
		'postgres', q(
CREATE FUNCTION opens_cursor() RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    c CURSOR FOR SELECT id, md5(body) FROM values_of;
BEGIN
    OPEN c;
    MOVE 500 FROM c;
END $$;
CREATE FUNCTION run_caught(command text) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    EXECUTE command;
EXCEPTION WHEN OTHERS THEN
    NULL;
END $$));
}

# Whatever a query does, heap's routine is there when it has ended.
sub routine_is_put_back
{
	my ($session, $toast, $name) = @_;

	foreach my $command (
		q(COPY varied TO '/dev/null'),
		q(COPY values_of TO '/dev/null'),
		q(COPY values_of TO PROGRAM 'exit 1'),
		q(COPY values_of TO '/no/where'),
		'SELECT max(md5(body)) FROM values_of',
		q(SELECT sum(1 / (id - 1000)) FROM values_of WHERE body > ''),
		'BEGIN; SAVEPOINT s; SELECT opens_cursor(); SELECT 1 / 0; ROLLBACK TO s; COMMIT',
		'BEGIN; CREATE INDEX ON values_of (id); ROLLBACK',
		'CREATE UNIQUE INDEX ON values_of ((id % 10))',
		q(BEGIN; COPY values_of (id) FROM PROGRAM 'echo 1'; ROLLBACK),
		q(COPY values_of (id) FROM PROGRAM 'echo x'))
	{
		$session->query($command);
		$session->{stderr} = '';
		is( $session->query_safe(
				"SELECT bool_and(has_heaps_routine(t)) FROM unnest('{varied, values_of, $toast}'::regclass[]) t"
			),
			't',
			"$name: heap's routine is there after $command");
	}
}

# A scan with heap_getnext() goes on, whatever happens to its table.
sub other_scans_go_on
{
	my ($session, $toast, $name) = @_;

	foreach my $command (
		q(SELECT run_caught($c$COPY values_of TO '/dev/null'$c$)),
		q(SELECT run_caught($c$COPY values_of TO PROGRAM 'exit 1'$c$)),
		q(SELECT run_caught($c$COPY values_of (id) FROM PROGRAM 'echo x'$c$)),
		'SELECT max(md5(body)) FROM values_of',
		'SELECT opens_cursor()')
	{
		foreach my $table ('values_of', $toast)
		{
			is( $session->query(
					"SELECT scan_and_run('$table', \$s\$$command\$s\$) = (SELECT count(*) FROM $table)"
				  )
				  . $session->{stderr},
				't',
				"$name: heap_getnext() of $table goes on after $command");
			$session->{stderr} = '';
		}
	}
	is( $session->query_safe(
			"SELECT scan_and_run('$toast', 'SELECT 1') = (SELECT count(*) FROM $toast) FROM (SELECT id, md5(body) AS m FROM values_of OFFSET 0) v WHERE id = 1000 AND m > ''"
		),
		't',
		"$name: heap_getnext() of $toast within a query that fetches from it"
	);
}

# Two libraries put routines of their own there.
sub two_libraries_swap
{
	my ($session, $toast, $name) = @_;
	my $count = 'count(DISTINCT md5(body))';
	my $caught = 0;

	$session->query_safe('SELECT pg_ringctl_stats_reset()');
	foreach my $case (
		[ 'varied', q(COPY varied TO '/dev/null'), '' ],
		[
			$toast,
			"SELECT $count FROM values_of; SELECT count(*) > 2500 FROM $toast",
			"2500\nt"
		],
		[
			$toast,
			"BEGIN; DECLARE c CURSOR FOR SELECT id, length(md5(body)) FROM values_of; MOVE 500 IN c; SELECT swap('$toast'); FETCH 1 FROM c; SELECT count(*) > 2500 FROM $toast; MOVE 1000 IN c; FETCH 1 FROM c; COMMIT",
			"\n501|32\nt\n1502|32"
		])
	{
		my ($table, $command, $output) = @$case;

		$session->query_safe("SELECT swap('$table')") if $command !~ /swap/;
		is($session->query_safe($command),
			$output, "$name: another routine, and $command");
		is($session->query_safe('SELECT scans_caught()'),
			++$caught, "$name: the other library gets the scan");
	}
	is( $session->query_safe(
			q(SELECT count(*) FROM pg_ringctl_stats WHERE kind = 'copy')),
		'0',
		"$name: we leave a table alone that has another routine");
}

# Another library has functions of its own in so many nodes that there is no number
# left for the last one of ours.  Its scan is given up in its first blocks, and when
# it is repeated must go on beyond them.
sub nodes_of_another_library
{
	my ($library) = @_;
	my $name = 'nodes of another library';
	my $pages = 5000;    # more than shared_buffers has
	my $session =
	  session_with($node, session_preload_libraries => "$library,pg_ringctl");

	load_table($node, 'wrapped', $pages);
	$session->query_safe('SET synchronize_seqscans = off');
	foreach my $n (0 .. 30)
	{
		$session->query_safe("SELECT use_function($n)");
		is( scalar(
				split /\n/, $session->query_safe('SELECT id FROM wrapped')),
			$pages,
			"$name: all rows, function $n");
	}
	$session->query_safe('SELECT use_function(-1)');
	is( $session->query_safe(
			"SELECT string_agg(EXISTS (SELECT 1 FROM wrapped WHERE id >= x)::text, ' ') FROM (VALUES (1), ($pages), ($pages)) v(x)"
		),
		'true true true',
		"$name: a scan that is repeated");
	$session->quit;

	# Now the other library calls our functions, for each row.
	$session =
	  session_with($node, session_preload_libraries => "pg_ringctl,$library");
	$session->query_safe(
		'CREATE INDEX ON wrapped (id); ANALYZE wrapped; SET pg_ringctl.index_read_ahead = on; SELECT use_function(0)'
	);
	foreach my $scan (
		q(SELECT id FROM wrapped WHERE ctid >= '(0,0)'),
		'SELECT id, filler FROM wrapped WHERE id > 0 ORDER BY id')
	{
		$session->query_safe(
			'SET enable_sort = off; SET enable_seqscan = off');
		$session->query_safe(
			"SET pg_ringctl.mode = observe; BEGIN; DECLARE c CURSOR FOR $scan"
		);
		my $first = $session->query_safe('FETCH 40 FROM c');
		$session->query_safe(
			'SET pg_ringctl.mode = control; SET pg_ringctl.scan_threshold = 0'
		);
		my $rest = $session->query_safe('FETCH ALL FROM c');
		$session->query_safe(
			'COMMIT; RESET pg_ringctl.mode; RESET pg_ringctl.scan_threshold');
		is( join(' ', map { (split /\|/)[0] } split /\n/, "$first\n$rest"),
			join(' ', 1 .. $pages),
			"$name: $scan, which goes through us when it has begun");
	}
	$session->quit;
	$node->safe_psql('postgres', 'DROP TABLE wrapped');
}

# The first reader of a session begins in a block in which no exit callback may be
# registered.
sub cleanup_of_another_library
{
	my $session = session_with(
		$node,
		session_preload_libraries => 'pg_ringctl',
		'pg_ringctl.scan_threshold' => 0);

	is( $session->query(
			q(SELECT run_with_cleanup('SELECT count(*) FROM varied') IS NOT NULL)
		),
		't',
		'cleanup of another library: its function succeeds');
	is($session->{stderr}, '',
		'cleanup of another library: without an error');
	$session->quit;
}

sub other_libraries
{
	my $library = compile_other_library();
	my $toast = toast_of('values_of');
	my %settings = (
		'pg_ringctl.scan_threshold' => 0,
		'pg_ringctl.write_ring' => 1024,
		'max_parallel_maintenance_workers' => 0);

	create_other_functions($library);
	foreach my $order ("pg_ringctl,$library", "$library,pg_ringctl")
	{
		my $name = 'libraries ' . $order =~ s{/[^,]*/}{}r;
		my $session =
		  session_with($node, %settings, session_preload_libraries => $order);

		routine_is_put_back($session, $toast, $name);
		other_scans_go_on($session, $toast, $name);
		two_libraries_swap($session, $toast, $name);
		routine_is_put_back($session, $toast, $name);
		$session->quit;
	}
	nodes_of_another_library($library);
	cleanup_of_another_library();
	$node->safe_psql('postgres',
		'DROP FUNCTION has_heaps_routine, scan_and_run, swap, scans_caught, use_function, run_with_cleanup, opens_cursor, run_caught'
	);
}
