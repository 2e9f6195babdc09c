# Claims: readers other than the sequential scan leave the pages of other sessions
# where they are, and do just what they do without the library.
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
# - REPACK (CONCURRENTLY), whose parts must not register what is to be done at exit,
#   works as the first command of a session.
# - Parallel scans are counted once, and each process keeps to its ring.
# - Large TOAST values of one of many partitions get a ring when a session knows them.
# - An empty pool gets warm.

use strict;
use warnings FATAL => 'all';

use FindBin;
use lib $FindBin::RealBin;

use Digest::SHA;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use RingctlTest;
use RingctlReaders;

my $hot_pages = 1024;    # half of shared buffers
my $pages = 9 * $hot_pages;
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
my $node = new_readers_node();
load_table($node, 'hot', $hot_pages);
my $version = $node->safe_psql('postgres', 'SHOW server_version_num');
my $streams_bitmaps = $version >= 180000;
my $copies_partitioned = $version >= 190000;
my $tid_ranges_are_parallel = $version >= 190000;
my $repacks_concurrently = $version >= 190000;
my $has_free_list = $version < 190000;

hot_pages_stay();
create_varied_tables();
copies_are_the_same();
dumps_are_the_same();
small_tables_are_dumped_through_a_ring();
row_level_security_and_privileges();
partitioned_tables();
indexes_are_complete();
values_with_a_set_ring();
values_of_one_in_many();
values_locked_at_first();
values_that_cannot_be_read();
sessions_do_not_grow();
repacks_as_first_command() if $repacks_concurrently;
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

sub load_values
{
	my ($table, $n, $fillfactor) = @_;

	$fillfactor //= 100;
	$node->safe_psql(
		'postgres', qq(
CREATE TABLE $table (id integer, body text STORAGE EXTERNAL) WITH (fillfactor = $fillfactor);
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

# If the size of the ring is set, values of a table that is larger than a quarter of
# the pool go through a ring, though their owner is small.
sub values_with_a_set_ring
{
	my $name = 'values, with a set ring';
	my $session =
	  session_with($node, @library, 'pg_ringctl.scan_ring' => '128kB');

	load_values('owner', $hot_pages, 10);
	values_have_a_ring($session, 'owner', 'owner', "$name: they have one");
	$node->safe_psql('postgres', 'DROP TABLE owner');
}

# The session fetches the values of a table; those of its partition, or of the table
# itself, go through a ring.  Ends the session.
sub values_have_a_ring
{
	my ($session, $table, $partition, $name) = @_;

	$session->query_safe(
		'SELECT pg_buffercache_evict(bufferid) FROM pg_buffercache WHERE relfilenode > 16384'
	);
	$session->query_safe("SELECT max(md5(body)) FROM $table");
	$session->quit;
	is( $node->safe_psql(
			'postgres',
			qq(SELECT scans, blks_read > 0 FROM pg_ringctl_stats WHERE kind = 'toast' AND relid = (SELECT reltoastrelid FROM pg_class WHERE relname = '$partition'))
		),
		'1|t', $name);
}

# Only one of many partitions has a large TOAST table.  No query looks at them all, but
# after four queries the session knows it.
sub values_of_one_in_many
{
	my $name = 'values of one in many partitions';
	my $session =
	  session_with($node, @library, 'pg_ringctl.scan_ring' => '128kB');

	$node->safe_psql(
		'postgres', qq(
CREATE TABLE parted (id integer, body text STORAGE EXTERNAL) PARTITION BY LIST (id);
SELECT format('CREATE TABLE parted_%s PARTITION OF parted FOR VALUES IN (%s) WITH (fillfactor = 10)', i, i)
  FROM generate_series(0, 99) i \\gexec
INSERT INTO parted SELECT id, repeat('x', 600) FROM generate_series(0, 99) id, generate_series(1, 20);
INSERT INTO parted SELECT 50, repeat(md5(n::text), 249) FROM generate_series(1, $hot_pages) n;
CHECKPOINT));
	$session->query_safe('SELECT id FROM parted LIMIT 1') foreach 1 .. 4;
	values_have_a_ring($session, 'parted', 'parted_50',
		"$name: they have a ring later");
	$node->safe_psql('postgres', 'DROP TABLE parted');
}

# The TOAST table is locked when the session wants to look at its size.
sub values_locked_at_first
{
	my $name = 'values, locked at first';
	my $session =
	  session_with($node, @library, 'pg_ringctl.scan_ring' => '128kB');
	my ($reader, $vacuum) = (session($node), session($node));

	load_values('owner', $hot_pages, 10);
	my $toast = $node->safe_psql('postgres',
		q(SELECT reltoastrelid::regclass FROM pg_class WHERE relname = 'owner')
	);
	$reader->query_safe("BEGIN; SELECT chunk_id FROM $toast LIMIT 1");
	start_query($vacuum, "VACUUM FULL $toast");
	$node->poll_query_until('postgres',
		"SELECT count(*) > 0 FROM pg_locks WHERE relation = '$toast'::regclass AND NOT granted"
	) or die 'VACUUM does not wait';
	$session->query_safe('SELECT max(id) FROM owner');
	$reader->query_safe('COMMIT');
	finish_query($vacuum);

	$session->query_safe(
		'SELECT pg_buffercache_evict(bufferid) FROM pg_buffercache WHERE relfilenode > 16384'
	);
	$session->query_safe('SELECT max(md5(body)) FROM owner');
	$_->quit foreach $session, $reader, $vacuum;
	is( $node->safe_psql(
			'postgres',
			"SELECT scans, blks_read > 0 FROM pg_ringctl_stats WHERE kind = 'toast' AND relid = '$toast'::regclass"
		),
		'1|t',
		"$name: they have a ring later");
	$node->safe_psql('postgres', 'DROP TABLE owner');
}

# A query that needs no value does not fail because the values can't be read.
sub values_that_cannot_be_read
{
	my $name = 'values that can\'t be read';

	load_values('owner', $hot_pages, 10);
	my $file =
	  $node->data_dir . '/'
	  . $node->safe_psql('postgres',
		q(CHECKPOINT; SELECT pg_relation_filepath(reltoastrelid) FROM pg_class WHERE relname = 'owner')
	  );
	my $session =
	  session_with($node, @library, 'pg_ringctl.scan_ring' => '128kB');

	$node->safe_psql('postgres',
		'SELECT pg_buffercache_evict(bufferid) FROM pg_buffercache WHERE relfilenode > 16384'
	);
	chmod(0, $file) or die "cannot change $file: $!";
	is($session->query_safe('SELECT count(id) FROM owner'),
		$hot_pages, "$name: a query that needs none");
	is($session->query_safe('COPY owner (id) TO STDOUT') =~ tr/\n// + 1,
		$hot_pages, "$name: COPY of another column");
	fails(
		$session,
		'SELECT max(md5(body)) FROM owner',
		qr/could not open file/,
		"$name: a query that needs one");
	chmod(0600, $file) or die "cannot change $file: $!";
	like($session->query_safe('SELECT max(md5(body)) FROM owner'),
		qr/^[0-9a-f]{32}$/, "$name: they can be read again");
	$session->quit;
	$node->safe_psql('postgres', 'DROP TABLE owner');
}

# A scan that is repeated needs no more memory of its own each time.  Nor does an
# index scan, whose ring leaves its first pages in the pool.
sub sessions_do_not_grow
{
	my $memory =
	  q(SELECT sum(used_bytes) FROM pg_backend_memory_contexts WHERE name ~ '^pg_ringctl');

	load_table($node, 'repeated', $pages);
	$node->safe_psql('postgres',
		'CREATE INDEX ON repeated (id); ANALYZE repeated');
	my %scans = (
		'SELECT sum(id) FROM repeated' => {},
		'SELECT count(filler) FROM repeated WHERE id > 0' => {
			enable_seqscan => 'off',
			enable_bitmapscan => 'off',
			'pg_ringctl.scan_threshold' => 1024,
			'pg_ringctl.scan_ring' => 1024
		});
	foreach my $scan (sort keys %scans)
	{
		my $session = session_with(
			$node, @library,
			max_parallel_workers_per_gather => 0,
			%{ $scans{$scan} });

		$session->query_safe("$scan;" x 20);
		my $before = $session->query_safe($memory);
		$session->query_safe("$scan;" x 80);
		is($session->query_safe($memory),
			$before, "a session that repeats $scan does not grow");
		$session->quit;
	}
	$node->safe_psql('postgres', 'DROP TABLE repeated');
}

sub repacks_as_first_command
{
	my $name = 'REPACK (CONCURRENTLY)';

	load_table($node, 'repacked', $pages);
	$node->safe_psql('postgres',
		'ALTER TABLE repacked ADD PRIMARY KEY (id); CREATE INDEX ON repacked (filler)'
	);
	my $session = session_with($node, @library);
	$session->query_safe('REPACK (CONCURRENTLY) repacked');
	$session->quit;
	is($node->safe_psql('postgres', 'SELECT sum(id) FROM repacked'),
		sum_to($pages), "$name: its rows are complete");
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
