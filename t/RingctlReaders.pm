# What the tests of readers have in common: a server, and tables with all that can make
# a difference for what is read.

package RingctlReaders;

use strict;
use warnings FATAL => 'all';

use Digest::SHA;
use Exporter 'import';
use PostgreSQL::Test::Cluster;
use Test::More;
use RingctlTest;

our @EXPORT = qw(
  @library
  new_readers_node
  cached
  create_varied_tables
  digest_of_file
);

our @library = (session_preload_libraries => 'pg_ringctl');

my $node;

# A server in which the library is loaded by sessions that ask for it.
sub new_readers_node
{
	$node = new_node('main', allows_streaming => 'logical');
	$node->append_conf('postgresql.conf',
		"max_prepared_transactions = 0\nmax_parallel_maintenance_workers = 0\n"
	);
	start_with_buffercache($node);
	$node->safe_psql('postgres',
		'CREATE EXTENSION pg_ringctl; CREATE EXTENSION pg_buffercache');
	return $node;
}

# The table's pages in shared buffers.
sub cached
{
	my ($table) = @_;

	return $node->safe_psql('postgres',
		"SELECT count(*) FROM pg_buffercache WHERE relfilenode = pg_relation_filenode('$table') AND relforknumber = 0"
	);
}

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

1;
