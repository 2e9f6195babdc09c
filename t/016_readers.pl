# Claims: what reads tables beside the sequential scan leaves other people's pages
# where they are, and does just what it does without the library.
#
# - The first COPY TO, TID range scan, bitmap heap scan, index build, dump of a table
#   nine times as large as a hot one, and the first scan of as many TOAST values, leave
#   the hot table in shared buffers, where the server alone leaves little of it.
# - COPY TO, in every format, to the client, a file and a program, and pg_dump, also
#   with two jobs, write the same bytes.  What pg_restore makes of the dump is the same.
# - A role whose scan_threshold is 0 dumps small tables through a ring, too.
# - Row-level security, column privileges, partitioned tables, and the initial copy of
#   logical replication are as in the server.
# - Indexes that are built through a ring are complete, also beside writers, in
#   parallel, and concurrently.
# - Parallel scans are counted once, and each process keeps to its ring.
# - What other sessions do to a table in the middle of a scan changes neither what
#   is read nor where it is read.  A COPY shows the server's progress.
# - A COPY that is interrupted, or whose client is gone, leaves nothing behind.
# - Triggers may read the table that is written, functions the table that is scanned,
#   and a query may scan a table by several nodes.
# - A command is refused because a table is in use exactly where the server refuses it.
# - Other libraries find heap's routine after our scans, may scan on in the middle of
#   these, and may put a routine of their own into its place.
# - An empty pool gets warm.

use strict;
use warnings FATAL => 'all';

use FindBin;
use lib $FindBin::RealBin;

use Digest::SHA;
use IPC::Run;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use RingctlTest;

my $hot_pages = 1024;    # half of shared buffers
my $pages = 9 * $hot_pages;
my @library = (session_preload_libraries => 'pg_ringctl');
my $dir = PostgreSQL::Test::Utils::tempdir;
my @dump = ('pg_dump', '--no-sync');
my @plain_dump = (@dump, '--restrict-key=test');
# The ways in which what is written must be the same as without the library.
my @ways = (
	[ 'default', @library ],
	[
		'all tables, 64 kB', @library,
		'pg_ringctl.scan_threshold' => 0,
		'pg_ringctl.scan_ring' => 64
	],
	[ 'all tables', @library, 'pg_ringctl.scan_threshold' => 0 ],
	[ 'no ring', @library, 'pg_ringctl.scan_ring' => 0 ],
	[ 'observe', @library, 'pg_ringctl.mode' => 'observe' ]);
my $node = new_node('main', allows_streaming => 'logical');
$node->append_conf('postgresql.conf',
	"max_prepared_transactions = 0\nmax_parallel_maintenance_workers = 0\n");
start_with_buffercache($node);
$node->safe_psql('postgres',
	'CREATE EXTENSION pg_ringctl; CREATE EXTENSION pg_buffercache');
load_table($node, 'hot', $hot_pages);
my $version = $node->safe_psql('postgres', 'SHOW server_version_num');
my $streams_bitmaps = $version >= 180000;
my $copies_partitioned = $version >= 190000;
my $tid_ranges_are_parallel = $version >= 190000;
my $has_free_list = $version < 190000;

hot_pages_stay();
create_varied_tables();
copies_are_the_same();
dumps_are_the_same();
small_tables_are_dumped_through_a_ring();
row_level_security_and_privileges();
partitioned_tables();
indexes_are_complete();
other_sessions_change_the_table();
interrupted_copies();
subtransactions();
tables_in_use_by_several();
commands_on_tables_in_use();
SKIP:
{
	my $reason = why_not_compile();
	skip $reason, 1 if $reason;
	other_libraries();
}
nested_index_builds();
query_in_predicate();
nothing_is_pinned($node, $_, 'at the end')
  foreach qw(hot varied values_of leaf_1);
empty_pool_gets_warm();
$node->stop;
log_is_clean($node, 'readers');

initial_copy();
done_testing();


# --- hot pages ----------------------------------------------------------------

# All of the hot table is in shared buffers, and used, and nothing of others.
sub warm
{
	$node->safe_psql(
		'postgres', qq(
SELECT pg_buffercache_evict(bufferid) FROM pg_buffercache WHERE relfilenode >= 16384;
SET enable_seqscan = off;
SELECT count(*) FROM hot WHERE ctid = ANY (ARRAY(SELECT format('(%s,1)', b)::tid FROM generate_series(0, $hot_pages - 1) b));
SELECT count(*) FROM hot WHERE ctid = ANY (ARRAY(SELECT format('(%s,1)', b)::tid FROM generate_series(0, $hot_pages - 1) b));
SELECT count(*) FROM hot WHERE ctid = ANY (ARRAY(SELECT format('(%s,1)', b)::tid FROM generate_series(0, $hot_pages - 1) b));
));
}

sub cached
{
	my ($table) = @_;

	return $node->safe_psql('postgres',
		"SELECT count(*) FROM pg_buffercache WHERE relfilenode = pg_relation_filenode('$table') AND relforknumber = 0"
	);
}

sub load_values
{
	my ($table, $n) = @_;

	$node->safe_psql(
		'postgres', qq(
CREATE TABLE $table (id integer, body text STORAGE EXTERNAL);
INSERT INTO $table SELECT n, repeat(md5(n::text), 249) FROM generate_series(1, $n) n;
CHECKPOINT));
}

# Hot pages that are left by the statement, as the first one after the load, and what
# was counted.
sub hot_left
{
	my ($load, $run, %settings) = @_;

	$load->('cold');
	warm();
	die 'the hot table is not there' if cached('hot') < $hot_pages;
	{
		local $ENV{PGOPTIONS} =
		  join(' ', map { "-c $_=$settings{$_}" } sort keys %settings);
		$run->('cold');
	}
	my $left = cached('hot');
	my $counted = $node->safe_psql(
		'postgres', q(
SELECT string_agg(kind || ' ' || scans || ' ' || escapes_pinned + escapes_dirty, ', ' ORDER BY kind)
  FROM pg_ringctl_stats WHERE relname ~ '^(cold|pg_toast)'));
	my $workers = $node->safe_psql('postgres',
		q(SELECT sum(workers_launched) FROM pg_ringctl_stats WHERE relname ~ '^(cold|pg_toast)')
	);
	rows_add_up($node, 'hot pages') if $counted;
	$node->safe_psql('postgres',
		'DROP TABLE cold; SELECT pg_ringctl_stats_reset()');
	return ($left, $counted, $workers);
}

sub run_sql
{
	my ($statement) = @_;

	return sub { $node->safe_psql('postgres', $statement) };
}

sub hot_pages_stay
{
	my $table = sub { load_table($node, $_[0], $pages) };
	my $values = sub { load_values($_[0], $pages) };
	my $large_values = sub {
		load_values($_[0], 300);
		$node->safe_psql('postgres',
			"UPDATE $_[0] SET body = repeat(md5(id::text), 8000); CHECKPOINT"
		);
	};
	my $indexed = sub {
		load_table($node, $_[0], $pages);
		$node->safe_psql('postgres',
			"CREATE INDEX cold_id ON $_[0] (id); ALTER TABLE $_[0] SET (parallel_workers = 7); ANALYZE $_[0]; CHECKPOINT"
		);
	};
	my $serial = sub {
		load_table($node, $_[0], $pages);
		$node->safe_psql('postgres',
			"ALTER TABLE $_[0] SET (parallel_workers = 0)");
	};
	my $bitmap_only =
	  'SET enable_seqscan = off; SET enable_indexscan = off; SET enable_indexonlyscan = off';
	my $parallel =
	  'SET cpu_tuple_cost = 10; SET max_parallel_workers_per_gather';
	my $most = int(0.6 * $pages);
	my $dump = sub {
		$node->command_ok(
			[ 'pg_dump', '--table=cold', "--file=$dir/cold", 'postgres' ],
			'pg_dump of a cold table');
	};
	my @cases = (
		[ 'copy', 'COPY', $table, run_sql("COPY cold TO '$dir/cold'") ],
		[
			'copy', 'COPY to the client',
			$table, run_sql('COPY cold TO STDOUT')
		],
		[ 'copy', 'pg_dump', $table, $dump ],
		[
			'tidrangescan',
			'TID range',
			$table,
			run_sql(
				q(SET enable_seqscan = off; SELECT sum(id) FROM cold WHERE ctid >= '(0,0)')
			)
		],
		[
			'index_build', 'CREATE INDEX',
			$table, run_sql('CREATE INDEX ON cold (id)')
		],
		[
			'index_build',
			'CREATE INDEX, asking for workers',
			$serial,
			run_sql(
				'SET max_parallel_maintenance_workers = 2; CREATE INDEX ON cold (id)'
			)
		],
		[
			'toast', 'TOAST',
			$values, run_sql(q(SELECT count(*) FROM cold WHERE body > ''))
		],
		[
			'toast',
			'parallel TOAST',
			$values,
			run_sql(
				qq($parallel = 2; SELECT count(*) FROM cold WHERE body > ''))
		],
		[
			'toast', 'COPY of TOAST values',
			$values, run_sql("COPY cold TO '$dir/cold'")
		],
		[
			'toast', 'COPY of a small table with large TOAST values',
			$large_values, run_sql("COPY cold TO '$dir/cold'")
		]);

	push @cases,
	  [
		'bitmapscan',
		'bitmap', $indexed,
		run_sql(
			"$bitmap_only; SELECT count(filler) FROM cold WHERE id <= $most")
	  ],
	  [
		'bitmapscan',
		'parallel bitmap',
		$indexed,
		run_sql(
			"$parallel = 7; $bitmap_only; SELECT count(filler) FROM cold WHERE id <= $most"
		)
	  ]
	  if $streams_bitmaps;
	push @cases,
	  [
		'tidrangescan',
		'parallel TID range',
		$table,
		run_sql(
			qq($parallel = 2; SET enable_seqscan = off; SELECT sum(id) FROM cold WHERE ctid >= '(0,0)')
		)
	  ]
	  if $tid_ranges_are_parallel;
	foreach my $case (@cases)
	{
		my ($kind, $name, $load, $run) = @$case;
		my ($stock) = hot_left($load, $run);
		my ($ours, $counted, $workers) = hot_left($load, $run, @library);

		cmp_ok(
			$stock, '<',
			0.5 * $hot_pages,
			"$name: hot pages that the server alone leaves");
		cmp_ok(
			$ours, '>=',
			0.999 * $hot_pages,
			"$name: hot pages that are left through a ring");
		is($counted, "$kind 1 0", "$name: counted, and nothing escaped");
		cmp_ok($workers, '>', 0, "$name: by workers, too")
		  if $name =~ /^parallel/;
	}
}

# --- the same bytes -------------------------------------------------------------

# Tables with all that can make a difference for the output.
sub create_varied_tables
{
	$node->safe_psql(
		'postgres', q(
CREATE TYPE mood AS ENUM ('sad', 'it''s "ok"', E'tab\tor \\ backslash');
CREATE TABLE varied (id int PRIMARY KEY, gone int, t text, m mood, b bytea, a text[], f float8, n numeric, j jsonb,
                     ts timestamptz, filler text STORAGE PLAIN, g int GENERATED ALWAYS AS (id * 2) STORED, wide text STORAGE EXTERNAL,
                     packed text);
ALTER TABLE varied DROP COLUMN gone;
INSERT INTO varied (id, t, m, b, a, f, n, j, ts, filler, wide, packed)
SELECT i, CASE i % 7 WHEN 0 THEN NULL WHEN 1 THEN '' WHEN 2 THEN E'line\nbreak\r\n' WHEN 3 THEN '\N' WHEN 4 THEN '\.'
                     WHEN 5 THEN 'say "x", ''y''' ELSE E'\t' || i END,
       (enum_range(NULL::mood))[i % 4], decode(md5(i::text), 'hex'), CASE WHEN i % 3 > 0 THEN ARRAY[i::text, NULL, '{"'] END,
       i / 7.0, i * 1.10, jsonb_build_object('i', i), '2020-01-01'::timestamptz + i * interval '1 hour', repeat('x', 1200),
       CASE WHEN i % 4 = 0 THEN repeat(md5(i::text), 200) END,
       CASE WHEN i % 5 = 0 THEN (SELECT string_agg(md5((i * x)::text), '') FROM generate_series(1, 300) x) END
  FROM generate_series(1, 4000) i;
ALTER TABLE varied ADD COLUMN later text DEFAULT 'missing';
UPDATE varied SET t = t || 'updated' WHERE id % 10 = 0;
DELETE FROM varied WHERE id % 11 = 0;
CREATE TABLE values_of (id int, body text STORAGE EXTERNAL);
INSERT INTO values_of SELECT n, repeat(md5(n::text), 249) FROM generate_series(1, 2500) n;
CREATE TABLE empty (id int);
CREATE TABLE "small ""one""" AS SELECT 1 AS id, 'x' AS "a column";
CREATE TABLE parent (id int, filler text) PARTITION BY RANGE (id);
CREATE TABLE leaf_1 PARTITION OF parent FOR VALUES FROM (0) TO (3000);
CREATE TABLE leaf_2 (filler text, dropped int, id int);
ALTER TABLE leaf_2 DROP COLUMN dropped;
ALTER TABLE parent ATTACH PARTITION leaf_2 FOR VALUES FROM (3000) TO (3010);
INSERT INTO parent SELECT n, repeat('x', 1800) FROM generate_series(1, 3009) n;
CREATE MATERIALIZED VIEW seen AS SELECT id, filler FROM parent;
CREATE SEQUENCE seq;
CHECKPOINT));
	cmp_ok(
		$node->safe_psql('postgres', "SELECT pg_relation_size('$_') / 8192"),
		'>',
		512,
		"$_ is larger than the threshold") foreach qw(varied leaf_1 seen);
}

sub digest_of_file
{
	my ($file) = @_;

	return Digest::SHA->new(256)->addfile($file, 'b')->hexdigest;
}

sub same_in_all_ways
{
	my ($name, $digest) = @_;
	local $ENV{PGOPTIONS} = '';
	my $stock = $digest->();

	foreach my $way (@ways)
	{
		my ($what, %settings) = @$way;

		local $ENV{PGOPTIONS} =
		  join(' ', map { "-c $_=$settings{$_}" } sort keys %settings);
		is($digest->(), $stock, "$name: $what");
	}
}

sub copies_are_the_same
{
	my @options = (
		'',
		'(FORMAT csv, HEADER, FORCE_QUOTE *)',
		'(FORMAT binary)',
		q((DELIMITER '|', NULL 'nil')));
	my $n = 0;

	foreach my $options (@options)
	{
		foreach my $what ('varied', 'values_of', 'varied (wide, id)', 'empty')
		{
			my $file = "$dir/copy";

			same_in_all_ways(
				"COPY $what $options to the client",
				sub {
					$node->run_log(
						[
							'psql',
							'--no-psqlrc',
							'--quiet',
							'--dbname=postgres',
							'--command=' . "\\copy $what TO '$file' $options"
						]);
					return digest_of_file($file);
				});
			same_in_all_ways(
				"COPY $what $options to a file",
				sub {
					$file = "$dir/copy" . ++$n;
					$node->safe_psql('postgres',
						"COPY $what TO '$file' $options");
					return digest_of_file($file);
				}) if $what ne 'empty';
			same_in_all_ways(
				"COPY $what $options to a program",
				sub {
					$file = "$dir/copy" . ++$n;
					$node->safe_psql('postgres',
						"COPY $what TO PROGRAM 'cat > $file' $options");
					return digest_of_file($file);
				}) if $what ne 'empty';
		}
	}
	like(
		$node->safe_psql(
			'postgres',
			q(SELECT string_agg(kind || ' ' || (scans > 10), ', ' ORDER BY kind) FROM pg_ringctl_stats WHERE relname ~ '^(varied|pg_toast)')
		),
		qr/copy true.*toast true/,
		'COPY: what it read is counted');
}

# --- dumps ----------------------------------------------------------------------

# The data of a dump in a folder, without what has the time in it.
sub digest_of_folder
{
	my ($folder) = @_;
	my $sha = Digest::SHA->new(256);

	foreach my $file (sort glob("$folder/*.dat"))
	{
		next if $file =~ /toc\.dat$/;
		$sha->add($file =~ s{.*/}{}r);
		$sha->addfile($file, 'b');
	}
	return $sha->hexdigest;
}

sub dumps_are_the_same
{
	my $n = 0;

	same_in_all_ways(
		'pg_dump',
		sub {
			$node->command_ok(
				[ @plain_dump, '--file=' . "$dir/dump.sql", 'postgres' ],
				'pg_dump');
			return digest_of_file("$dir/dump.sql");
		});
	same_in_all_ways(
		'pg_dump --jobs=2',
		sub {
			$n++;
			$node->command_ok(
				[
					@dump, '--format=directory',
					'--jobs=2', '--compress=0',
					'--file=' . "$dir/dump$n", 'postgres'
				],
				'pg_dump --jobs=2');
			return digest_of_folder("$dir/dump$n");
		});

	# the last dump but one of those is through rings of all tables
	my $through_rings = $n - 2;

	$node->safe_psql('postgres',
		'CREATE DATABASE restored TEMPLATE template0');
	local $ENV{PGOPTIONS} =
	  '-c session_preload_libraries=pg_ringctl -c pg_ringctl.write_ring=1MB';
	$node->command_ok(
		[
			'pg_restore', '--jobs=2',
			'--dbname=restored', "$dir/dump$through_rings"
		],
		'pg_restore, through a ring');
	$node->command_ok(
		[ @plain_dump, '--file=' . "$dir/again.sql", 'restored' ],
		'pg_dump of what was restored');
	is( digest_of_file("$dir/again.sql"),
		digest_of_file("$dir/dump.sql"),
		'what was restored is the same');
	$node->safe_psql('postgres', 'DROP DATABASE restored');
}

# The recipe of the manual.
sub small_tables_are_dumped_through_a_ring
{
	$node->safe_psql(
		'postgres', q(
CREATE ROLE backup LOGIN IN ROLE pg_read_all_data;
ALTER ROLE backup SET session_preload_libraries = 'pg_ringctl';
ALTER ROLE backup SET pg_ringctl.scan_threshold = 0;
SELECT format('CREATE TABLE many_%s (id int, filler text, body text STORAGE EXTERNAL)', n) FROM generate_series(1, 20) n \gexec
SELECT format('INSERT INTO many_%s SELECT n, repeat(''x'', 1800), CASE WHEN n <= 150 THEN repeat(md5(n::text), 249) END FROM generate_series(1, 400) n', n)
  FROM generate_series(1, 20) n \gexec
VACUUM;
SELECT pg_ringctl_stats_reset()));
	$node->append_conf('pg_hba.conf', 'local all backup trust');
	$node->reload;

	foreach my $user ('', 'backup')
	{
		warm();
		$node->command_ok(
			[
				@plain_dump,
				'--table=many_*',
				'--file=' . "$dir/dump$user.sql",
				$user ? ("--username=$user") : (),
				'postgres'
			],
			'pg_dump of small tables'
			  . ($user ? ' as a role that says so' : ''));
		my $left = $node->safe_psql('postgres',
			q(SELECT count(*) FROM pg_buffercache b JOIN pg_class c ON b.relfilenode = pg_relation_filenode(c.oid) WHERE relname ~ '^many_' AND relforknumber = 0)
		);

		if ($user)
		{
			cmp_ok($left, '<=', 200,
				'small tables: pages that the role leaves');
			cmp_ok(
				cached('hot'), '>=',
				0.999 * $hot_pages,
				'small tables: and the hot table');
		}
		else
		{
			cmp_ok($left, '>', 500, 'small tables: pages that are left else');
		}
	}
	is( digest_of_file("$dir/dumpbackup.sql"),
		digest_of_file("$dir/dump.sql"),
		'small tables: the dump is the same');
	is( $node->safe_psql(
			'postgres', q(
SELECT count(*), sum(scans), sum(escapes_pinned + escapes_dirty) FROM pg_ringctl_stats WHERE relname ~ '^many_' AND kind = 'copy')
		),
		'20|20|0',
		'small tables: each is counted once');
}

# --- privileges -----------------------------------------------------------------

sub row_level_security_and_privileges
{
	$node->safe_psql(
		'postgres', q(
CREATE ROLE reader;
CREATE TABLE secret AS SELECT id, id % 2 AS mine, t FROM varied, generate_series(1, 30);
GRANT SELECT ON secret TO reader;
GRANT SELECT (id, t) ON varied TO reader;
ALTER TABLE secret ENABLE ROW LEVEL SECURITY;
CREATE POLICY mine ON secret USING (mine = 1);
CREATE POLICY none ON secret AS RESTRICTIVE USING (id > 0)));
	foreach my $statement (
		'COPY secret TO STDOUT',
		'COPY secret (t) TO STDOUT (FORMAT csv)',
		'COPY varied (id, t) TO STDOUT',
		'COPY varied TO STDOUT',
		'COPY varied (wide) TO STDOUT',
		'SET row_security = off; COPY secret TO STDOUT',
		'COPY nothing TO STDOUT',
		'COPY seq TO STDOUT')
	{
		same_in_all_ways(
			"as a reader: $statement",
			sub {
				my ($out, $err);
				my $result = $node->psql(
					'postgres',
					"SET SESSION AUTHORIZATION reader; $statement",
					stdout => \$out,
					stderr => \$err);

				return
				  join('|', $result, Digest::SHA::sha256_hex($out), $err);
			});
	}
	is( $node->safe_psql(
			'postgres',
			q(SELECT string_agg(DISTINCT kind, ' ') FROM pg_ringctl_stats WHERE relname = 'secret')
		),
		'seqscan',
		'row-level security: the scan is that of a query');
}

sub partitioned_tables
{
	foreach my $what (
		'parent', 'leaf_1',
		'leaf_2', 'seen',
		'(SELECT * FROM parent)', '(TABLE seen)')
	{
		same_in_all_ways(
			"COPY $what",
			sub {
				my ($out, $err);
				my $result = $node->psql(
					'postgres', "COPY $what TO STDOUT",
					stdout => \$out,
					stderr => \$err);

				return
				  join('|', $result, Digest::SHA::sha256_hex($out), $err);
			});
	}
	return if !$copies_partitioned;

	$node->safe_psql('postgres', 'SELECT pg_ringctl_stats_reset()');
	warm();
	local $ENV{PGOPTIONS} =
	  '-c session_preload_libraries=pg_ringctl -c pg_ringctl.scan_threshold=512';
	$node->safe_psql('postgres', 'COPY parent TO STDOUT');
	is( counters(
			$node, 'leaf_1',
			'scans, escapes_pinned + escapes_dirty', 'copy'),
		'1|0',
		'a partitioned table: its large leaf has a ring');
	is(counters($node, 'leaf_2', 'scans', 'copy'),
		'', 'a partitioned table: its small leaf has none');
	cmp_ok(
		cached('hot'), '>=',
		0.999 * $hot_pages,
		'a partitioned table: hot pages that are left');
}

# --- indexes --------------------------------------------------------------------

sub has_extension
{
	my ($name) = @_;

	return $node->safe_psql('postgres',
		"SELECT count(*) FROM pg_available_extensions WHERE name = '$name'")
	  > 0;
}

# Every row of the table is found by the index, and nothing else.
sub index_is_complete
{
	my ($index, $name) = @_;
	my $forced =
	  'SET enable_seqscan = off; SET enable_bitmapscan = off; SET max_parallel_workers_per_gather = 0';

	local $Test::Builder::Level = $Test::Builder::Level + 1;
	is( $node->safe_psql(
			'postgres',
			"$forced; SELECT count(*), sum(id) FROM rows WHERE id BETWEEN -1000000 AND 10000000"
		),
		$node->safe_psql(
			'postgres',
			'SET enable_indexscan = off; SET enable_indexonlyscan = off; SET enable_bitmapscan = off; SELECT count(*), sum(id) FROM rows'
		),
		"$name: as many rows by the index as without");
  SKIP:
	{
		skip 'amcheck is not installed', 1 if !has_extension('amcheck');
		is( $node->safe_psql(
				'postgres',
				"SET client_min_messages = warning; CREATE EXTENSION IF NOT EXISTS amcheck; SELECT bt_index_parent_check('$index', true)"
			),
			'',
			"$name: amcheck finds every row");
	}
}

sub indexes_are_complete
{
	my $writer = session($node);
	my $n = 0;

	$node->safe_psql(
		'postgres', q(
CREATE TABLE rows AS SELECT n AS id, n % 10 AS v, repeat('x', 600) AS filler FROM generate_series(1, 40000) n;
CREATE PROCEDURE write_on() LANGUAGE plpgsql AS $$
BEGIN
    LOOP
        UPDATE rows SET id = id + 100000, v = v + 1 WHERE ctid = (SELECT min(ctid) FROM rows WHERE ctid > format('(%s,1)', (random() * 5000)::int)::tid);
        INSERT INTO rows SELECT -n, 0, repeat('y', 600) FROM generate_series(1, 5) n;
        DELETE FROM rows WHERE ctid = (SELECT min(ctid) FROM rows WHERE ctid > format('(%s,1)', (random() * 5000)::int)::tid);
        COMMIT;
    END LOOP;
END $$));
	foreach my $workers (0, 2)
	{
		foreach my $how ('', 'CONCURRENTLY', 'CONCURRENTLY, beside a writer')
		{
			my $concurrently = $how =~ /(\w*)/ ? $1 : '';
			my $name = "CREATE INDEX $how, $workers workers";
			my $index = 'rows_id_' . ++$n;

			$node->safe_psql('postgres',
				'DROP INDEX '
				  . ($n > 1 ? 'rows_id_' . ($n - 1) : 'IF EXISTS rows_id_0'));
			$node->safe_psql('postgres', 'SELECT pg_ringctl_stats_reset()');
			start_query($writer, 'CALL write_on()') if $how =~ /writer/;
			{
				local $ENV{PGOPTIONS} =
				  "-c session_preload_libraries=pg_ringctl -c max_parallel_maintenance_workers=$workers -c min_parallel_table_scan_size=0 -c maintenance_work_mem=64MB";
				$node->safe_psql('postgres',
					"CREATE INDEX $concurrently $index ON rows (id)");
			}
			if ($how =~ /writer/)
			{
				$node->safe_psql('postgres',
					q(SELECT pg_cancel_backend(pid) FROM pg_stat_activity WHERE query ~ '^CALL write_on')
				);
				finish_query($writer);
				$writer->{stderr} = '';
			}
			is( counters(
					$node, 'rows',
					'scans > 0, escapes_pinned + escapes_dirty',
					'index_build'),
				$concurrently && !$workers ? '' : 't|0', # no hook tells of it
				"$name: through a ring that is closed");
			index_is_complete($index, $name);
			{
				local $ENV{PGOPTIONS} =
				  "-c session_preload_libraries=pg_ringctl -c max_parallel_maintenance_workers=$workers";
				$node->safe_psql('postgres',
					"REINDEX INDEX $concurrently $index");
			}
			index_is_complete($index,
				"RE$name" =~ s/RECREATE INDEX/REINDEX INDEX/r);
		}
	}
	$writer->quit;
	rows_add_up($node, 'indexes');
	$node->safe_psql('postgres', 'DROP TABLE rows; DROP PROCEDURE write_on');
}

# --- other sessions ---------------------------------------------------------------

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
		"COPY $table TO PROGRAM 'trap \"\" INT; while ! test -e $gate; do sleep 0.1; done; cat > $file'"
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

# --- interruptions ------------------------------------------------------------------

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

# --- tables that are used in several ways -----------------------------------------

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
    IF n % 500 = 0 THEN
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

	load_table($node, 'cold', $pages);
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

# A library that looks at rd_tableam, scans with heap_getnext(), and puts a routine
# of its own where it finds another one.
sub source_of_other_library
{
	return q(
#include "postgres.h"

#include "access/heapam.h"
#include "access/table.h"
#include "access/tableam.h"
#include "executor/spi.h"
#include "fmgr.h"
#include "utils/builtins.h"
#include "utils/rel.h"
#include "utils/snapmgr.h"

#if PG_VERSION_NUM >= 190000
#define FLAGS	, SO_NONE
#else
#define FLAGS
#endif

PG_MODULE_MAGIC;
PG_FUNCTION_INFO_V1(has_heaps_routine);
PG_FUNCTION_INFO_V1(scan_and_run);
PG_FUNCTION_INFO_V1(swap);
PG_FUNCTION_INFO_V1(scans_caught);

static const TableAmRoutine *found;
static TableAmRoutine ours;
static int	ncaught;

Datum
has_heaps_routine(PG_FUNCTION_ARGS)
{
	Relation	rel = table_open(PG_GETARG_OID(0), AccessShareLock);
	bool		result = rel->rd_tableam == GetHeapamTableAmRoutine();

	table_close(rel, AccessShareLock);
	PG_RETURN_BOOL(result);
}

/* The number of rows; run a command after the tenth of them. */
Datum
scan_and_run(PG_FUNCTION_ARGS)
{
	Relation	rel = table_open(PG_GETARG_OID(0), AccessShareLock);
	char	   *command = text_to_cstring(PG_GETARG_TEXT_PP(1));
	TableScanDesc scan = table_beginscan(rel, GetActiveSnapshot(), 0, NULL FLAGS);
	int			nrows = 0;

	SPI_connect();
	while (heap_getnext(scan, ForwardScanDirection) != NULL)
		if (++nrows == 10)
			SPI_execute(command, false, 0);
	SPI_finish();
	table_endscan(scan);
	table_close(rel, AccessShareLock);
	PG_RETURN_INT32(nrows);
}

static TableScanDesc
scan_begin(Relation rel, Snapshot snapshot, int nkeys, ScanKeyData *key,
		   ParallelTableScanDesc pscan, uint32 flags)
{
	ncaught++;
	rel->rd_tableam = found;
	return found->scan_begin(rel, snapshot, nkeys, key, pscan, flags);
}

/* The next scan of the table begins through us. */
Datum
swap(PG_FUNCTION_ARGS)
{
	Relation	rel = table_open(PG_GETARG_OID(0), AccessShareLock);

	found = rel->rd_tableam;
	ours = *found;
	ours.scan_begin = scan_begin;
	rel->rd_tableam = &ours;
	table_close(rel, AccessShareLock);
	PG_RETURN_VOID();
}

Datum
scans_caught(PG_FUNCTION_ARGS)
{
	PG_RETURN_INT32(ncaught);
}
);
}

sub compile_other_library
{
	my $folder = "$dir/other";
	local %ENV = %ENV;

	delete @ENV{ grep { /^(MAKE|MFLAGS|GNUMAKEFLAGS)/ } keys %ENV };
	mkdir $folder;
	append_to_file("$folder/Makefile",
		"MODULES = other\nPGXS := \$(shell pg_config --pgxs)\ninclude \$(PGXS)\n"
	);
	append_to_file("$folder/other.c", source_of_other_library());
	system_or_bail('make', '-s', '-C', $folder, 'with_llvm=no', 'all');
	return "$folder/other";
}

sub create_other_functions
{
	my ($library) = @_;

	foreach my $function (
		'has_heaps_routine(regclass) RETURNS boolean',
		'scan_and_run(regclass, text) RETURNS int',
		'swap(regclass) RETURNS void',
		'scans_caught() RETURNS int')
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
	$node->safe_psql('postgres',
		'DROP FUNCTION has_heaps_routine, scan_and_run, swap, scans_caught, opens_cursor, run_caught'
	);
}

# --- an empty pool --------------------------------------------------------------

# While there are free buffers, a scan leaves its pages there; but 19 has no list of
# these.
sub empty_pool_gets_warm
{
	load_table($node, 'cold', $pages);
	load_values('cold_values', 4000);
	foreach my $statement (
		q(COPY cold TO '/dev/null'),
		'SELECT count(*) FROM cold',
		q(SET enable_seqscan = off; SELECT count(*) FROM cold WHERE ctid > '(0,0)'),
		'SELECT max(md5(body)) FROM cold_values')
	{
		foreach my $first ('on', 'off')
		{
			$node->restart;
			{
				local $ENV{PGOPTIONS} =
				  "-c session_preload_libraries=pg_ringctl -c pg_ringctl.free_buffers_first=$first";
				$node->safe_psql('postgres', $statement);
			}
			my $left = $node->safe_psql('postgres',
				'SELECT count(*) FROM pg_buffercache WHERE relfilenode >= 16384'
			);
			my $gets_warm = $has_free_list && $first eq 'on';

			cmp_ok(
				$left,
				$gets_warm ? '>'  : '<',
				$gets_warm ? 1500 : 700,
				"free_buffers_first = $first: pages that are left by $statement"
			);
		}
	}
	$node->safe_psql('postgres', 'DROP TABLE cold, cold_values');
}

# --- logical replication ----------------------------------------------------------

# A walsender reads shared_preload_libraries, but not those of sessions.
sub initial_copy
{
	my $publisher = new_node('publisher', allows_streaming => 'logical');
	my $subscriber = new_node('subscriber');

	$publisher->start;
	$publisher->safe_psql('postgres', 'CREATE EXTENSION pg_ringctl');
	$subscriber->start;
	foreach my $preload (qw(session shared))
	{
		$publisher->append_conf('postgresql.conf',
			"${preload}_preload_libraries = 'pg_ringctl'");
		$publisher->restart;
		# larger than shared buffers, so that the ring is ours
		my $table = "published_$preload";
		my $filtered = "filtered_$preload";

		load_table($publisher, $_, 2500) foreach ($table, $filtered);
		$publisher->safe_psql('postgres',
			"CREATE PUBLICATION p_$preload FOR TABLE $table, $filtered WHERE (id > 1000); ALTER TABLE $filtered REPLICA IDENTITY FULL"
		);
		$subscriber->safe_psql('postgres',
			"CREATE TABLE $table (id integer, filler text); CREATE TABLE $filtered (id integer, filler text)"
		);
		$subscriber->safe_psql(
			'postgres',
			sprintf(
				q(CREATE SUBSCRIPTION %s CONNECTION '%s' PUBLICATION %s),
				"s_$preload", $publisher->connstr('postgres') =~ s/'/''/gr,
				"p_$preload"));
		$subscriber->wait_for_subscription_sync($publisher, "s_$preload");
		is( $subscriber->safe_psql(
				'postgres', "SELECT count(*), sum(id) FROM $table"),
			'2500|' . sum_to(2500),
			"initial copy, $preload preload: the rows");
		is( $subscriber->safe_psql(
				'postgres', "SELECT count(*), min(id) FROM $filtered"),
			'1500|1001',
			"initial copy, $preload preload: filtered rows");
		is( counters(
				$publisher, $table,
				'scans, blocks, escapes_pinned + escapes_dirty', 'copy'),
			$preload eq 'shared' ? '1|2500|0' : '',
			"initial copy, $preload preload: what was counted");
		is( counters($publisher, $filtered, 'scans'),
			$preload eq 'shared' ? '1' : '',
			"initial copy, $preload preload: and of a query");
		$subscriber->safe_psql('postgres', "DROP SUBSCRIPTION s_$preload");
	}
	foreach my $server ($publisher, $subscriber)
	{
		$server->stop;
		log_is_clean($server, $server->name);
	}
}
